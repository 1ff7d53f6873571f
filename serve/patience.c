/* patience: see patience.h. One thread that looks at all of them four times a second. */
#include "patience.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "core/clock.h"

struct patience {
    pthread_mutex_t lock;
    pthread_cond_t over;
    visit *first;
    bool closing;
    pthread_t thread;
};

static void look(patience *p) {
    int64_t now = pl_now_ns();
    for (visit *v = p->first; v; v = v->after) {
        long long until = atomic_load(&v->until_ns);
        if (until == 0 || now < until) continue;
        shutdown(v->fd, SHUT_RDWR);
        atomic_compare_exchange_strong(&v->until_ns, &until, 0); /* once */
    }
}

static void *watch(void *given) {
    patience *p = given;
    pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        struct timespec next;
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_nsec += 250000000;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        while (!p->closing && pthread_cond_timedwait(&p->over, &p->lock, &next) != ETIMEDOUT) {
        }
        look(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

patience *patience_open(void) {
    patience *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->over, &clock);
    pthread_condattr_destroy(&clock);
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&p->thread, NULL, watch, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) return p;
    pthread_cond_destroy(&p->over);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}

void patience_close(patience **given) {
    if (!given || !*given) return;
    patience *p = *given;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_signal(&p->over);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->over);
    pthread_mutex_destroy(&p->lock);
    free(p);
    *given = NULL;
}

void patience_enter(patience *p, visit *v, int fd, int64_t until_ns) {
    v->fd = fd;
    atomic_init(&v->until_ns, until_ns);
    pthread_mutex_lock(&p->lock);
    v->before = NULL;
    v->after = p->first;
    if (p->first) p->first->before = v;
    p->first = v;
    pthread_mutex_unlock(&p->lock);
}

void patience_leave(patience *p, visit *v) {
    pthread_mutex_lock(&p->lock);
    *(v->before ? &v->before->after : &p->first) = v->after;
    if (v->after) v->after->before = v->before;
    pthread_mutex_unlock(&p->lock);
}
