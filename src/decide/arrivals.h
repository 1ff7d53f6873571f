/* arrivals: when jobs came to a cluster, how long they ran, on how many cards. */
#ifndef PL_DECIDE_ARRIVALS_H
#define PL_DECIDE_ARRIVALS_H

#include <plimsoll/plimsoll.h>

typedef struct pl_arrival {
    double submit_s, duration_s; /* from the trace's first on; alone on its cards */
    int32_t gpus;
    int32_t model; /* of the trace's names; -1: it says none */
    int64_t batch; /* 0: it says none */
} pl_arrival;

struct pl_arrivals {
    pl_arrival *jobs; /* by submit_s, those of the same second as the file has them */
    size_t count, room;
    char **models;
    size_t model_count, model_room;
    const char *format;
};

#endif
