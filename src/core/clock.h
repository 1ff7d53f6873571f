/* clock: time that only goes forward, for how long things took. POSIX. */
#ifndef PL_CORE_CLOCK_H
#define PL_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment in the past. */
static inline int64_t pl_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t pl_now_us(void) {
    return pl_now_ns() / 1000;
}

#endif
