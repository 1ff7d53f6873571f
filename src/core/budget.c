/* budget: see budget.h. */
#include "core/budget.h"

#include "core/clock.h"
#include "core/sized.h"

void pl_limits_default_sized(pl_limits *limits, size_t size) {
    const pl_limits usual = {.size = size,
                             .memory_bytes = (size_t)4 << 30,
                             .operators = 4 << 20,
                             .events = (int64_t)1 << 28};
    pl_sized_fill(limits, size, &usual, sizeof usual);
}

pl_status pl_limits_check(const pl_limits *limits, pl_error *err) {
    if (!limits) return PL_OK;
    if (!PL_SIZED_OK(limits, cancel_context))
        return pl_fail(err, PL_USAGE, "limits", -1,
                       "limits of %zu bytes; pl_limits_default sets their size", limits->size);
    if (limits->operators < 0 || limits->events < 0 || limits->timeout_ms < 0 ||
        limits->deadline_ns < 0)
        return pl_fail(err, PL_USAGE, "limits", -1, "a limit below 0; 0 is none");
    return PL_OK;
}

void pl_budget_start(pl_budget *budget, const pl_limits *limits) {
    pl_limits own;
    pl_limits_default(&own);
    if (limits) pl_sized_read(&own, sizeof own, limits, limits->size);
    *budget = (pl_budget){.most_bytes = own.memory_bytes,
                          .most_operators = own.operators,
                          .most_events = own.events,
                          .cancelled = own.cancelled,
                          .cancel_context = own.cancel_context};
    budget->deadline_ns = own.deadline_ns;
    if (own.timeout_ms > 0 && own.timeout_ms < INT64_MAX / 2000000) {
        int64_t end = pl_now_ns() + own.timeout_ms * 1000000;
        if (!budget->deadline_ns || end < budget->deadline_ns) budget->deadline_ns = end;
    }
}

static bool spend(pl_budget *budget, pl_spent what) {
    if (budget->spent == PL_SPENT_NOTHING) budget->spent = what;
    return false;
}

bool pl_budget_poll(pl_budget *budget) {
    if (!budget) return true;
    if (budget->spent != PL_SPENT_NOTHING) return false;
    if (budget->deadline_ns && pl_now_ns() > budget->deadline_ns)
        return spend(budget, PL_SPENT_TIME);
    if (budget->cancelled && budget->cancelled(budget->cancel_context))
        return spend(budget, PL_SPENT_CANCELLED);
    return true;
}

bool pl_budget_take(pl_budget *budget, size_t bytes) {
    if (!budget) return true;
    if (!pl_budget_poll(budget)) return false;
    size_t most = budget->most_bytes ? budget->most_bytes : SIZE_MAX;
    if (bytes > most || budget->bytes > most - bytes) return spend(budget, PL_SPENT_BYTES);
    budget->bytes += bytes;
    return true;
}

void pl_budget_give(pl_budget *budget, size_t bytes) {
    if (budget) budget->bytes -= bytes;
}

bool pl_budget_operators(pl_budget *budget, int64_t count) {
    if (!budget || !budget->most_operators || count <= budget->most_operators) return true;
    return spend(budget, PL_SPENT_OPERATORS);
}

bool pl_budget_events(pl_budget *budget, int64_t count) {
    if (!budget || !budget->most_events || count <= budget->most_events) return true;
    return spend(budget, PL_SPENT_EVENTS);
}

pl_status pl_budget_fail(pl_error *err, const pl_budget *budget, const char *where) {
    const char *more = "more than the request was given";
    switch (budget ? budget->spent : PL_SPENT_NOTHING) {
    case PL_SPENT_NOTHING: break;
    case PL_SPENT_BYTES:
        return pl_fail(err, PL_LIMIT, where, -1, "takes %s: %zu bytes of memory", more,
                       budget->most_bytes);
    case PL_SPENT_OPERATORS:
        return pl_fail(err, PL_LIMIT, where, -1, "has %s: %lld operators", more,
                       (long long)budget->most_operators);
    case PL_SPENT_EVENTS:
        return pl_fail(err, PL_LIMIT, where, -1, "takes %s: %lld simulated events", more,
                       (long long)budget->most_events);
    case PL_SPENT_TIME:
        return pl_fail(err, PL_LIMIT, where, -1, "takes more time than the request was given");
    case PL_SPENT_CANCELLED: return pl_fail(err, PL_LIMIT, where, -1, "cancelled");
    }
    return pl_fail(err, PL_MISSING, where, -1, "out of memory");
}
