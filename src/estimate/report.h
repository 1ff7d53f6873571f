/* report: the private half of a report: the public struct, and the arena all it points to lives in.
 */
#ifndef PL_ESTIMATE_REPORT_H
#define PL_ESTIMATE_REPORT_H

#include "core/arena.h"
#include "core/error.h"

/* A report of which nothing is known, with its own arena; NULL: out of memory. limit: bytes it may
 * take, 0: none. pl_report_close gives back both. */
pl_report *pl_report_new(size_t limit);
pl_arena *pl_report_arena(pl_report *report);

/* Parameters that train, where fine-tuning makes them others than the model's. */
void pl_report_trains(pl_report *report, int64_t trainable);

/* What the walk of a step says of it in numbers (usage.h), for corrections; NULL: there was none.
 */
float **pl_report_signals(pl_report *report);

/* A remark into report->warnings, copied; past 16 they are dropped. false: out of memory. */
bool pl_report_warn(pl_report *report, const char *text);

/* Floating-point operations a second: as predicted, else those of a step over its time; NAN. */
double pl_report_flop_rate(const pl_report *report);

#endif
