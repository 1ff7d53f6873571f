/* report: the private half of a report: the public struct, and the arena all it points to lives in.
 */
#ifndef PL_ESTIMATE_REPORT_H
#define PL_ESTIMATE_REPORT_H

#include "core/arena.h"
#include "core/error.h"
#include "device/simulate.h"
#include "estimate/verdict.h"

/* The public struct comes first, so that a pl_report * is a pl_full_report * too. Members behind it
 * are read by functions of the public header. */
typedef struct pl_full_report {
    pl_report report;
    int64_t breakdown[PL_KINDS];
    double flops[PL_PHASES];
    pl_figure counters[PL_COUNTERS];
    pl_time *times;        /* [report.time_count] */
    pl_instant *timeline;  /* [report.moment_count] */
    const pl_alive *alive; /* [report.alive_count] */
    pl_budget budget;      /* of the request */
    pl_arena *arena;
    const char *json; /* once it was asked for */
    const char **warnings;
    size_t warning_room;
    bool incomplete; /* a warning was lost for want of memory */
    pl_tail tail;    /* of [low_bytes, high_bytes] */
} pl_full_report;

static inline pl_full_report *pl_report_full(pl_report *report) {
    return (pl_full_report *)report;
}

/* A report of which nothing is known, with the request's budget and an arena of its own; NULL: out
 * of memory. limits: NULL for the defaults; held: bytes that count against them already.
 * pl_report_close gives back all. */
pl_report *pl_report_new(const pl_limits *limits, size_t held);
pl_arena *pl_report_arena(pl_report *report);
pl_budget *pl_report_budget(pl_report *report);

/* A remark into report->warnings, copied. Without memory the report is incomplete. */
void pl_report_warn(pl_report *report, const char *text);
bool pl_report_incomplete(const pl_report *report);

/* Floating-point operations per second: as predicted, else those of a step over its time; NAN. */
double pl_report_flop_rate(const pl_report *report);

#endif
