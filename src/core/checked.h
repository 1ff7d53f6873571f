/* checked: arithmetic on sizes; sums and products that say when they do not fit. */
#ifndef PL_CORE_CHECKED_H
#define PL_CORE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool pl_mul_i64(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool pl_add_i64(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline bool pl_mul_size(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* a * b; INT64_MAX where it does not fit (neither is negative). */
static inline int64_t pl_times(int64_t a, int64_t b) {
    int64_t product;
    return pl_mul_i64(a, b, &product) ? product : INT64_MAX;
}

/* The next multiple of `step` at or above `value` (both non-negative, step > 0); INT64_MAX on
 * overflow. */
static inline int64_t pl_round_up(int64_t value, int64_t step) {
    int64_t up;
    if (!pl_add_i64(value, step - 1, &up)) return INT64_MAX;
    return up - up % step;
}

/* a / b, rounded up (both positive, far from the limit). */
static inline int64_t pl_div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* The largest power of two at or below n; 1 for what is smaller. */
static inline int64_t pl_last_power2(int64_t n) {
    int64_t p = 1;
    while (p * 2 <= n) p *= 2;
    return p;
}

#endif
