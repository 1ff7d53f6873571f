/* pool: threads that compute, and a queue before them that is only so long. */
#ifndef PLIMSOLL_SERVE_POOL_H
#define PLIMSOLL_SERVE_POOL_H

#include <stdbool.h>
#include <stddef.h>

/* A piece of work: the first member of what the caller hands over, which stays the caller's. */
typedef struct pool_task {
    struct pool_task *next;
    void (*run)(struct pool_task *task); /* by one of the threads */
} pool_task;

typedef struct pool pool;

/* nice: how far its threads stand back from others for a processor. NULL: no memory, no threads */
pool *pool_open(int threads, size_t most_waiting, int nice);
bool pool_add(pool *p, pool_task *task); /* false: the queue is full, or closing */
size_t pool_waiting(pool *p);
void pool_stop(pool *p);   /* what waits is done, then nothing more is taken */
void pool_close(pool **p); /* stopped first where it was not; once nobody adds any more */

#endif
