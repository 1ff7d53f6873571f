/* pool: see pool.h. One lock and one condition: pieces of work take from microseconds to seconds. */
#include "pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { MOST_THREADS = 256 };

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t some;
    pool_task *first, **last;
    size_t waiting, most;
    int threads, nice;
    bool closing;
    pthread_t thread[MOST_THREADS];
};

static pool_task *take(pool *p) {
    pthread_mutex_lock(&p->lock);
    while (!p->first && !p->closing) pthread_cond_wait(&p->some, &p->lock);
    pool_task *task = p->first;
    if (task) {
        p->first = task->next;
        if (!p->first) p->last = &p->first;
        p->waiting--;
    }
    pthread_mutex_unlock(&p->lock);
    return task;
}

static void *work(void *given) {
    pool *p = given;
    if (p->nice) setpriority(PRIO_PROCESS, 0, p->nice); /* of this thread alone, on Linux */
    for (pool_task *task; (task = take(p));) task->run(task);
    return NULL;
}

pool *pool_open(int threads, size_t most_waiting, int nice) {
    pool *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->some, NULL);
    p->last = &p->first;
    p->most = most_waiting;
    p->nice = nice;
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int wanted = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    while (p->threads < wanted && !pthread_create(&p->thread[p->threads], NULL, work, p))
        p->threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (p->threads == 0) pool_close(&p);
    return p;
}

bool pool_add(pool *p, pool_task *task) {
    pthread_mutex_lock(&p->lock);
    bool room = p->waiting < p->most && !p->closing;
    if (room) {
        task->next = NULL;
        *p->last = task;
        p->last = &task->next;
        p->waiting++;
        pthread_cond_signal(&p->some);
    }
    pthread_mutex_unlock(&p->lock);
    return room;
}

size_t pool_waiting(pool *p) {
    pthread_mutex_lock(&p->lock);
    size_t waiting = p->waiting;
    pthread_mutex_unlock(&p->lock);
    return waiting;
}

void pool_stop(pool *p) {
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->some);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->threads; i++) pthread_join(p->thread[i], NULL);
    p->threads = 0;
}

void pool_close(pool **given) {
    if (!given || !*given) return;
    pool *p = *given;
    pool_stop(p);
    pthread_cond_destroy(&p->some);
    pthread_mutex_destroy(&p->lock);
    free(p);
    *given = NULL;
}
