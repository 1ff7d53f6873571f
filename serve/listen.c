/* listen: see listen.h. */
#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/error.h"

/* ---- TCP ---- */

static bool read_place(const char *text, char host[256], char port[8], pl_error *err) {
    const char *colon = strrchr(text, ':');
    if (!colon || colon - text >= 256) {
        pl_fail(err, PL_USAGE, "listen", -1, "%.100s: expected ADDRESS:PORT", text);
        return false;
    }
    char *end;
    unsigned long number = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end || number > 65535) {
        pl_fail(err, PL_USAGE, "listen", -1, "%.100s: a port is a number from 0 to 65535", text);
        return false;
    }
    snprintf(port, 8, "%lu", number);
    snprintf(host, 256, "%.*s", (int)(colon - text), text);
    size_t length = strlen(host);
    if (*host == '[' && host[length - 1] == ']') {
        memmove(host, host + 1, length);
        host[length - 2] = '\0';
    }
    return true;
}

static bool is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static int bind_one(const struct addrinfo *a) {
    int on = 1;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* any: on a port that is free, whatever the text says. */
static int open_tcp(const config *c, bool any, int *port, pl_error *err) {
    char host[256], number[8];
    if (!read_place(c->listen, host, number, err)) return -1;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *list = NULL;
    int code = getaddrinfo(*host ? host : NULL, any ? "0" : number, &hints, &list), fd = -1;
    bool open = false;
    errno = 0;
    for (struct addrinfo *a = list; !code && a && fd < 0 && !open; a = a->ai_next) {
        open = !*c->tokens && !is_loopback(a->ai_addr);
        if (!open) fd = bind_one(a);
    }
    int why = errno;
    if (list) freeaddrinfo(list);
    if (open)
        pl_fail(err, PL_USAGE, "tokens", -1, "%.100s is not loopback: tokens are needed",
                c->listen);
    else if (fd < 0)
        pl_fail(err, PL_MISSING, "listen", -1, "%.100s: %s", c->listen,
                code ? gai_strerror(code) : strerror(why));
    if (fd < 0) return -1;
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    getsockname(fd, (struct sockaddr *)&own, &size);
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                            : ((struct sockaddr_in *)&own)->sin_port);
    return fd;
}

int listen_tcp(const config *c, int *port, pl_error *err) {
    return open_tcp(c, false, port, err);
}

/* ---- a Unix socket ---- */

static bool read_path(const char *path, struct sockaddr_un *address, pl_error *err) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path) {
        pl_fail(err, PL_USAGE, "socket", -1, "%.100s: a socket's path has at most %zu bytes", path,
                sizeof address->sun_path - 1);
        return false;
    }
    memcpy(address->sun_path, path, strlen(path) + 1);
    return true;
}

static bool is_stale(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                 errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return stale;
}

int listen_unix(const config *c, pl_error *err) {
    struct sockaddr_un address;
    struct stat there;
    const char *path = c->socket;
    mode_t mode = *c->socket_users ? 0666 : 0660;
    if (!read_path(path, &address, err)) return -1;
    if (lstat(path, &there) == 0 && S_ISSOCK(there.st_mode) && is_stale(&address)) unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (bound && chmod(path, mode) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    pl_fail(err, PL_MISSING, "socket", -1, "%.100s: %s", path, strerror(errno));
    if (bound) unlink(path);
    if (fd >= 0) close(fd);
    return -1;
}

/* ---- without listening ---- */

static bool check_unix(const char *path, pl_error *err) {
    struct sockaddr_un address;
    char folder[sizeof address.sun_path] = ".";
    struct stat there;
    if (!read_path(path, &address, err)) return false;
    const char *slash = strrchr(path, '/');
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
    if (lstat(path, &there) == 0 && !S_ISSOCK(there.st_mode)) {
        pl_fail(err, PL_MISSING, "socket", -1, "%.100s: there already, and no socket", path);
        return false;
    }
    if (access(folder, W_OK | X_OK) == 0) return true;
    pl_fail(err, PL_MISSING, "socket", -1, "%.100s: %s", path, strerror(errno));
    return false;
}

bool listen_check(const config *c, pl_error *err) {
    int port, fd = *c->listen ? open_tcp(c, true, &port, err) : -1;
    if (fd < 0 && *c->listen) return false;
    if (fd >= 0) close(fd);
    return !*c->socket || check_unix(c->socket, err);
}
