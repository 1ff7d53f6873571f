/* queues: two training loops, or some more, that issue kernels to one card, followed kernel by kernel. */
#ifndef PL_DECIDE_QUEUES_H
#define PL_DECIDE_QUEUES_H

#include <stdbool.h>

/* A loop, milliseconds. A step copies its batch (the card is idle for this loop), then issues its
 * kernels one by one without waiting for them, and waits for the last one. */
typedef struct pl_queue {
    double copy;   /* from the last kernel's end to the first issue */
    double gap;    /* between two issues */
    double kernel; /* one kernel alone on the card */
    int kernels;   /* per step */
} pl_queue;

/* A loop of which a step's time, the kernels' in it and the host's are known: what neither explains
 * is the copy. */
void pl_queue_of(pl_queue *out, double step_ms, double device_ms, double host_ms, double launches);

typedef struct pl_queue_rules {
    bool at_once; /* kernels of both run together (MPS); else one loop's after the other's */
    /* One after the other: ms a loop keeps the card while the other waits, and ms it costs to give
     * the card to the other. */
    double slice, turn;
    int trips;      /* times that copying the batch needs the card */
    double pace[2]; /* at once: speed of a loop's kernel while the other's runs, 1: as alone */
} pl_queue_rules;

/* slowdown: step time together over step time alone. Swapped loops give swapped answers. */
void pl_queues_run(double slowdown[2], const pl_queue loops[2], const pl_queue_rules *rules);

enum { PL_QUEUES_MOST = 8 };
/* The same of several loops, PL_QUEUES_MOST at most. full: at once, the share of the multiprocessors that a loop's
 * kernels fill: those that run go at 1 / max(1, their sum); rules->pace is not read. Not measured. */
void pl_queues_run_many(double *slowdown, const pl_queue *loops, const double *full, int count,
                        const pl_queue_rules *rules);

#endif
