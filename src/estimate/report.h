/* report: the private half of a report: the public struct, and the arena all it points to lives in.
 */
#ifndef PL_ESTIMATE_REPORT_H
#define PL_ESTIMATE_REPORT_H

#include "core/arena.h"
#include "core/error.h"

/* A report of which nothing is known, with the request's budget and an arena of its own; NULL: out
 * of memory. limits: NULL for the defaults; held: bytes that count against them already.
 * pl_report_close gives back all. */
pl_report *pl_report_new(const pl_limits *limits, size_t held);
pl_arena *pl_report_arena(pl_report *report);
pl_budget *pl_report_budget(pl_report *report);

/* Parameters that train, where fine-tuning makes them others than the model's. */
void pl_report_trains(pl_report *report, int64_t trainable);

/* A remark into report->warnings, copied. Without memory the report is incomplete. */
void pl_report_warn(pl_report *report, const char *text);
bool pl_report_incomplete(const pl_report *report);

/* Floating-point operations a second: as predicted, else those of a step over its time; NAN. */
double pl_report_flop_rate(const pl_report *report);

#endif
