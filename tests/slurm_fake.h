/* slurm_fake: a daemon that is not, for the tests of Slurm's plugins: a thread that listens at a Unix socket and treats each connection
 * as it was told. */
#ifndef PL_TESTS_SLURM_FAKE_H
#define PL_TESTS_SLURM_FAKE_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "http.h"

typedef struct fake {
    void (*behave)(int fd);
    int listening;
    pthread_t thread;
    atomic_bool stop;
} fake;

static inline void *fake_serve(void *context) {
    fake *f = context;
    while (!atomic_load(&f->stop)) {
        struct pollfd one = {.fd = f->listening, .events = POLLIN};
        if (poll(&one, 1, 20) <= 0) continue;
        int fd = accept(f->listening, NULL, NULL);
        if (fd < 0) continue;
        f->behave(fd);
        close(fd);
    }
    return NULL;
}

/* behave: NULL: connections wait and are never taken, as with a daemon that is stopped. */
static inline void fake_open(fake *f, http_place *place, const char *folder,
                             void (*behave)(int fd)) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memset(f, 0, sizeof *f);
    memset(place, 0, sizeof *place);
    snprintf(place->socket, sizeof place->socket, "%s/sock", folder);
    memcpy(name.sun_path, place->socket, sizeof name.sun_path);
    unlink(name.sun_path);
    f->behave = behave;
    f->listening = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(f->listening, (struct sockaddr *)&name, sizeof name) != 0 ||
        listen(f->listening, behave ? 16 : 0) != 0)
        abort();
    if (behave && pthread_create(&f->thread, NULL, fake_serve, f) != 0) abort();
}

static inline void fake_close(fake *f) {
    atomic_store(&f->stop, true);
    if (f->behave) pthread_join(f->thread, NULL);
    close(f->listening);
}

static inline void fake_send(int fd, const char *bytes, size_t size) {
    while (size) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0) return;
        bytes += sent;
        size -= (size_t)sent;
    }
}

static inline void fake_swallow(int fd) {
    char room[4096];
    if (recv(fd, room, sizeof room, 0) < 0) return;
}

static inline void fake_answer(int fd, int status, const char *body) {
    char head[128];
    fake_swallow(fd);
    int length = snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n", status,
                          strlen(body));
    fake_send(fd, head, (size_t)length);
    fake_send(fd, body, strlen(body));
}

/* Bytes as text: FAKE_GB("20") is 20000000000. */
#define FAKE_GB(number) number "000000000"
#define FAKE_ESTIMATE(peak, low, upper, verdict, usable, capacity)                                 \
    "{\"memory\":{\"peak_bytes\":" peak ",\"low_bytes\":" low ",\"upper_bytes\":" upper            \
    "},\"verdict\":\"" verdict "\",\"usable_bytes\":" usable                                       \
    ",\"gpu\":{\"capacity_bytes\":" capacity "},\"utilization\":{\"family\":\"cnn\"}}"

#endif
