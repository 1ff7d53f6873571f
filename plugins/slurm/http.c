/* http: see http.h. */
#include "http.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

enum { MOST_HEAD = 8192, MILLION = 1000000 };

int64_t http_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * MILLION + now.tv_nsec;
}

/* Waits until the socket is ready; false: it was not by then. */
static bool ready(int fd, short events, int64_t until) {
    for (;;) {
        int64_t left = until - http_now();
        if (left <= 0) return false;
        /* Rounded down, so that poll never sleeps past the end; what is left of a millisecond is polled out. */
        int milliseconds =
            left > INT64_C(1000) * 1000 * MILLION ? 1000 * 1000 : (int)(left / MILLION);
        struct pollfd one = {.fd = fd, .events = events};
        int count = poll(&one, 1, milliseconds);
        if (count > 0) return true;
        if (count < 0 && errno != EINTR) return false;
    }
}

static int non_blocking(int family) {
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static http_outcome finish_connecting(int fd, int64_t until, http_answer *out) {
    int failure = 0;
    socklen_t size = sizeof failure;
    if (!ready(fd, POLLOUT, until)) {
        out->why = "no connection in time";
        return HTTP_LATE;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure) {
        out->why = "no connection";
        return HTTP_AWAY;
    }
    return HTTP_ANSWERED;
}

static http_outcome join_unix(const http_place *place, int *fd, http_answer *out) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, place->socket, sizeof place->socket);
    *fd = non_blocking(AF_UNIX);
    if (*fd >= 0 && connect(*fd, (struct sockaddr *)&name, sizeof name) == 0) return HTTP_ANSWERED;
    /* EAGAIN: its queue is full, since it does not take what waits there. */
    bool full = errno == EAGAIN;
    out->why = full              ? "its queue of connections is full"
               : errno == ENOENT ? "its socket is not there"
               : errno == EACCES ? "its socket may not be opened"
                                 : "nobody listens at its socket";
    return full ? HTTP_LATE : HTTP_AWAY;
}

static http_outcome join_tcp(const http_place *place, int *fd, int64_t until, http_answer *out) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(place->host, place->port, &hints, &found) != 0) {
        out->why = "no such host";
        return HTTP_AWAY;
    }
    http_outcome outcome = HTTP_AWAY;
    out->why = "no connection";
    for (struct addrinfo *one = found; one && outcome != HTTP_ANSWERED; one = one->ai_next) {
        if (*fd >= 0) close(*fd);
        *fd = non_blocking(one->ai_family);
        if (*fd < 0) continue;
        if (connect(*fd, one->ai_addr, one->ai_addrlen) == 0)
            outcome = HTTP_ANSWERED;
        else if (errno == EINPROGRESS)
            outcome = finish_connecting(*fd, until, out);
        if (outcome == HTTP_LATE) break;
    }
    freeaddrinfo(found);
    return outcome;
}

static http_outcome give(int fd, const char *bytes, size_t size, int64_t until, http_answer *out) {
    while (size) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (ready(fd, POLLOUT, until)) continue;
            out->why = "the question was not taken in time";
            return HTTP_LATE;
        } else if (errno != EINTR) {
            /* It may have answered before it read all; what it says is read below. */
            break;
        }
        if (http_now() >= until) {
            out->why = "the question was not taken in time";
            return HTTP_LATE;
        }
    }
    return HTTP_ANSWERED;
}

/* The value of a header's line, from the head's first line on; NULL: there is none. */
static const char *header(const char *head, const char *end, const char *name) {
    size_t length = strlen(name);
    for (const char *line = head; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next) next = end;
        bool same = (size_t)(next - line) > length && line[length] == ':';
        for (size_t i = 0; same && i < length; i++) {
            char c = line[i];
            if (c >= 'A' && c <= 'Z') c = (char)(c | 0x20);
            same = c == name[i];
        }
        if (same) {
            line += length + 1;
            while (line < end && *line == ' ') line++;
            return line;
        }
        line = next + 1;
    }
    return NULL;
}

/* What is known of an answer once its head is there. */
typedef struct head {
    size_t length; /* of the head, its empty line included; 0: not yet there */
    size_t body;
} head;

static bool read_head(const char *room, size_t have, head *out, http_answer *answer) {
    const char *end = NULL;
    size_t look = have < MOST_HEAD ? have : MOST_HEAD;
    for (size_t i = 3; i < look; i++)
        if (memcmp(room + i - 3, "\r\n\r\n", 4) == 0) {
            end = room + i + 1;
            break;
        }
    if (!end) {
        answer->why = "no head of an answer";
        return have < MOST_HEAD; /* false: there will be none */
    }
    int64_t number;
    const char *length;
    answer->why = "not HTTP";
    if (end - room < 16 || memcmp(room, "HTTP/1.", 7) != 0 || room[8] != ' ') return false;
    if (!text_whole(room + 9, room + 12, false, &number)) return false;
    answer->status = (int)number;
    answer->why = "an answer without a length";
    length = header(room, end - 2, "content-length");
    const char *past = length;
    while (past && *past >= '0' && *past <= '9') past++;
    if (!length || !text_whole(length, past, false, &number)) return false;
    if (header(room, end - 2, "transfer-encoding")) return false;
    out->length = (size_t)(end - room);
    out->body = (size_t)number;
    return true;
}

http_outcome http_take(int fd, char *room, size_t room_size, int64_t until, http_answer *out) {
    size_t have = 0;
    head known = {0};
    for (;;) {
        if (http_now() >= until) {
            out->why = "no answer in time";
            return HTTP_LATE;
        }
        ssize_t got = recv(fd, room + have, room_size - 1 - have, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (ready(fd, POLLIN, until)) continue;
            out->why = "no answer in time";
            return HTTP_LATE;
        }
        if (got <= 0) {
            out->why = have ? "the answer breaks off" : "it closed without an answer";
            return HTTP_WRONG;
        }
        have += (size_t)got;
        if (!known.length && !read_head(room, have, &known, out)) return HTTP_WRONG;
        if (known.length && known.body > room_size - 1 - known.length) {
            out->why = "the answer is too large";
            return HTTP_WRONG;
        }
        if (known.length && have >= known.length + known.body) {
            out->body = room + known.length;
            out->length = known.body;
            room[known.length + known.body] = 0;
            out->why = "";
            return HTTP_ANSWERED;
        }
        if (have == room_size - 1) {
            out->why = "the answer is too large";
            return HTTP_WRONG;
        }
    }
}

http_outcome http_ask(const http_place *place, const char *method, const char *path,
                      const char *type, const void *body, size_t size, int64_t until, char *room,
                      size_t room_size, http_answer *out) {
    *out = (http_answer){.why = ""};
    char first[1024];
    text head = text_in(first, sizeof first);
    text_add(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, path,
             place->socket[0] ? "localhost" : place->host);
    if (place->token[0]) text_add(&head, "Authorization: Bearer %s\r\n", place->token);
    if (body) text_add(&head, "Content-Type: %s\r\nContent-Length: %zu\r\n", type, size);
    text_add(&head, "\r\n");
    if (head.cut || room_size < 64) {
        out->why = "the question is too large";
        return HTTP_WRONG;
    }
    int fd = -1;
    http_outcome outcome =
        place->socket[0] ? join_unix(place, &fd, out) : join_tcp(place, &fd, until, out);
    if (outcome == HTTP_ANSWERED) outcome = give(fd, first, head.length, until, out);
    if (outcome == HTTP_ANSWERED && body) outcome = give(fd, body, size, until, out);
    if (outcome == HTTP_ANSWERED) outcome = http_take(fd, room, room_size, until, out);
    if (fd >= 0) close(fd);
    return outcome;
}
