/* watch_post: reports to a daemon (plimsoll serve), over TCP or a Unix socket. As little of HTTP/1.1 as that needs:
 * one request per connection, its status line, and the detail of a refusal. Left out: TLS (a daemon of another machine
 * is reached by a proxy or a tunnel of one's own) and redirects.
 *
 * A daemon that does not answer costs at most a second, and is then left alone for a while that doubles up to a minute. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "watch.h"

enum { DEADLINE_MS = 1000, FIRST_WAIT_MS = 5000, LONGEST_WAIT_MS = 60000, ANSWER = 4096 };

int watch_post_open(watch_post *post, const char *where) {
    *post = (watch_post){.where = where, .token = getenv("PLIMSOLL_TOKEN")};
    if (strncmp(where, "unix:", 5) == 0) {
        post->local = true;
        if (strlen(where + 5) >= sizeof((struct sockaddr_un *)0)->sun_path || !where[5])
            return complain(PL_USAGE, "--post: %s: the path of a socket is 1 to 107 letters",
                            where);
        snprintf(post->host, sizeof post->host, "%s", where + 5);
        snprintf(post->named, sizeof post->named, "localhost");
        return 0;
    }
    if (strncmp(where, "http://", 7) != 0)
        return complain(PL_USAGE,
                        "--post: %s is neither http://HOST:PORT nor unix:PATH; https is a proxy's "
                        "or a tunnel's to speak",
                        where);
    const char *at = where + 7, *end = at + strcspn(at, "/");
    const char *colon = at[0] == '[' ? memchr(at, ']', (size_t)(end - at)) : at;
    colon = colon ? memchr(colon, ':', (size_t)(end - colon)) : NULL;
    const char *last = colon ? colon : end;
    bool bracket = at[0] == '[' && last > at + 1 && last[-1] == ']';
    size_t length = (size_t)(last - at) - 2 * bracket;
    size_t digits = colon ? (size_t)(end - colon) - 1 : 0;
    if (length == 0 || length >= sizeof post->host || (colon && digits == 0) || digits > 5 ||
        strlen(end) >= sizeof post->path)
        return complain(PL_USAGE, "--post: %s is no http://HOST:PORT", where);
    snprintf(post->host, sizeof post->host, "%.*s", (int)length, at + bracket);
    snprintf(post->port, sizeof post->port, "%.*s", colon ? (int)digits : 4,
             colon ? colon + 1 : "9477");
    snprintf(post->named, sizeof post->named, bracket ? "[%s]:%s" : "%s:%s", post->host,
             post->port);
    snprintf(post->path, sizeof post->path, "%s", end);
    length = strlen(post->path);
    while (length > 0 && post->path[length - 1] == '/') post->path[--length] = '\0';
    return 0;
}

static bool wait_for(int fd, short events, int64_t deadline_ns) {
    for (;;) {
        int64_t left = (deadline_ns - pl_now_ns()) / 1000000;
        struct pollfd one = {.fd = fd, .events = events};
        if (left <= 0) {
            errno = ETIMEDOUT;
            return false;
        }
        int ready = poll(&one, 1, (int)left);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

static int start(const struct sockaddr *address, socklen_t length, int64_t deadline_ns) {
    int fd = socket(address->sa_family, SOCK_STREAM, 0), failed = 0;
    socklen_t size = sizeof failed;
    if (fd < 0) return -1;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0) {
        if (connect(fd, address, length) == 0) return fd;
        if (errno == EINPROGRESS && wait_for(fd, POLLOUT, deadline_ns) &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) == 0) {
            if (!failed) return fd;
            errno = failed;
        }
    }
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/* A connection, or -1 with the reason. */
static int connected(const watch_post *post, int64_t deadline_ns, const char **why) {
    if (post->local) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        memcpy(address.sun_path, post->host, strlen(post->host) + 1);
        int fd = start((struct sockaddr *)&address, sizeof address, deadline_ns);
        *why = strerror(errno);
        return fd;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int failed = getaddrinfo(post->host, post->port, &hints, &found), fd = -1;
    *why = failed ? gai_strerror(failed) : "";
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = start(at->ai_addr, at->ai_addrlen, deadline_ns);
        if (fd < 0) *why = strerror(errno);
    }
    if (found) freeaddrinfo(found);
    return fd;
}

static bool send_all(int fd, const char *bytes, size_t size, int64_t deadline_ns) {
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent > 0) {
            bytes += sent;
            size -= (size_t)sent;
        } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(fd, POLLOUT, deadline_ns)) {
            return false;
        }
    }
    return true;
}

/* The answer up to what fits; of one that is good no more than its head. Its length, -1: none. */
static ssize_t receive(int fd, char *out, size_t room, int64_t deadline_ns) {
    size_t used = 0;
    out[0] = '\0';
    while (used < room - 1 && !(used > 9 && out[9] == '2' && strstr(out, "\r\n\r\n"))) {
        ssize_t got = recv(fd, out + used, room - 1 - used, 0);
        if (got == 0) break;
        if (got > 0)
            out[used += (size_t)got] = '\0';
        else if ((errno != EAGAIN && errno != EINTR) || !wait_for(fd, POLLIN, deadline_ns))
            return used ? (ssize_t)used : -1;
    }
    return (ssize_t)used;
}

/* What a problem's "detail" says, for people; else the status line. */
static void refusal(char *out, size_t room, const char *answer) {
    const char *detail = strstr(answer, "\"detail\":\"");
    if (detail) {
        detail += strlen("\"detail\":\"");
        snprintf(out, room, "%.*s", (int)strcspn(detail, "\""), detail);
    } else {
        snprintf(out, room, "%.*s", (int)strcspn(answer, "\r\n"), answer);
    }
}

static bool failed(watch_post *post, const char *why) {
    if (!post->said)
        complain(0, "%s: %s; the cards are watched on, and it is tried again", post->where, why);
    post->said = true;
    post->wait_ms = post->wait_ms ? 2 * post->wait_ms : FIRST_WAIT_MS;
    if (post->wait_ms > LONGEST_WAIT_MS) post->wait_ms = LONGEST_WAIT_MS;
    post->next_ms = pl_now_ns() / 1000000 + post->wait_ms;
    return false;
}

bool watch_post_due(const watch_post *post) {
    return pl_now_ns() / 1000000 >= post->next_ms;
}

bool watch_post_send(watch_post *post, const char *body, size_t length) {
    char head[2048], answer[ANSWER], said[300];
    const char *why;
    int64_t deadline_ns = pl_now_ns() + (int64_t)DEADLINE_MS * 1000000;
    int fd = connected(post, deadline_ns, &why);
    if (fd < 0) return failed(post, why);
    bool token = post->token && post->token[0] && !post->local;
    int size = snprintf(head, sizeof head,
                        "POST %s/v1/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\nConnection: close\r\n%s%.512s%s\r\n",
                        post->path, post->named, length, token ? "Authorization: Bearer " : "",
                        token ? post->token : "", token ? "\r\n" : "");
    bool sent = size > 0 && (size_t)size < sizeof head &&
                send_all(fd, head, (size_t)size, deadline_ns) &&
                send_all(fd, body, length, deadline_ns);
    ssize_t got = sent ? receive(fd, answer, sizeof answer, deadline_ns) : -1;
    int reason = errno;
    close(fd);
    if (got < 0) return failed(post, strerror(reason));
    if (strncmp(answer, "HTTP/1.", 7) != 0 || strlen(answer) < 12)
        return failed(post, "what answers there speaks no HTTP");
    if (answer[9] != '2') {
        refusal(said, sizeof said, answer);
        return failed(post, said);
    }
    if (post->said) complain(0, "%s: it answers again", post->where);
    post->said = false;
    post->wait_ms = 0;
    return true;
}
