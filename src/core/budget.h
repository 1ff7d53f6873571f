/* budget: what one request may cost: bytes in all, operators, simulated events, time.
 *
 * Everything that a request allocates comes from arenas (arena.h) that take from one budget, so that
 * the sum is bounded whatever the request is made of. The first limit that is reached is kept:
 * from then on every allocation fails, functions return as they do without memory, and
 * pl_budget_fail says what it was. A budget is used by one thread and outlives its arenas. */
#ifndef PL_CORE_BUDGET_H
#define PL_CORE_BUDGET_H

#include "core/error.h"

typedef enum pl_spent {
    PL_SPENT_NOTHING,
    PL_SPENT_BYTES,
    PL_SPENT_OPERATORS,
    PL_SPENT_EVENTS,
    PL_SPENT_TIME,
    PL_SPENT_CANCELLED,
} pl_spent;

typedef struct pl_budget {
    size_t most_bytes, bytes;        /* limit, 0: none; held now by all arenas */
    int64_t most_operators;          /* of one graph; 0: no limit */
    int64_t most_events;             /* of one tape; 0: no limit */
    int64_t deadline_ns;             /* of pl_now_ns; 0: none */
    int (*cancelled)(void *context); /* NULL: never */
    void *cancel_context;
    pl_spent spent;         /* the first limit that was reached */
    struct pl_chunk *chunk; /* arena.c's: where its arenas cut their blocks; NULL: none yet */
} pl_budget;

/* PL_USAGE: a size that is not set, or a number below 0. NULL is right. */
pl_status pl_limits_check(const pl_limits *limits, pl_error *err);

/* From now on. limits: NULL for the defaults. */
void pl_budget_start(pl_budget *budget, const pl_limits *limits);

/* All take a NULL budget: no limits. False: the budget is spent. */
bool pl_budget_take(pl_budget *budget, size_t bytes);
void pl_budget_give(pl_budget *budget, size_t bytes);
/* Looks at the clock and asks whether the request was cancelled: for loops, every few thousand
 * rounds. Arenas call it for each block they take. */
bool pl_budget_poll(pl_budget *budget);
bool pl_budget_operators(pl_budget *budget, int64_t count);
bool pl_budget_events(pl_budget *budget, int64_t count);

/* PL_LIMIT with the limit that was reached, else PL_MISSING: out of memory. where may be NULL. */
pl_status pl_budget_fail(pl_error *err, const pl_budget *budget, const char *where);

#endif
