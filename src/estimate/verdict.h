/* verdict: whether a job fits its card, and how sure that is. */
#ifndef PL_ESTIMATE_VERDICT_H
#define PL_ESTIMATE_VERDICT_H

#include <stdint.h>

#include <plimsoll/plimsoll.h>

/* What an interval was made of: how truths lie around it was measured for each. */
typedef enum pl_tail {
    PL_TAIL_REGRESSION,   /* estimators that learn the peak itself */
    PL_TAIL_ROWS,         /* interval.c's rows */
    PL_TAIL_PLAIN,        /* hybrid's, no cuDNN convolutions */
    PL_TAIL_CONVOLUTIONS, /* hybrid's, with them */
    PL_TAILS
} pl_tail;

/* The least and the most that may be asked for, and the risk whose line is high_bytes. */
#define PL_RISK_LEAST 0.005
#define PL_RISK_MOST  0.5
#define PL_RISK_USUAL 0.025

/* Fills verdict, fits, risk, upper_bytes, and usable_bytes where it is not known yet. */
void pl_report_judge(pl_report *report, const pl_gpu *gpu, double risk);

/* Where the truth lies so that less is taken with that chance, of an interval of which only its ends are
 * known: the widest tails hold. Below 0.5 % and above 99.5 % that of these: further out nothing was
 * measured. */
double pl_interval_quantile(double low, double peak, double high, double chance);

/* "regression", "rows", "plain", "convolutions": what the report's interval was made of; NULL: it has
 * none. */
const char *pl_report_tail_name(const pl_report *report);

/* The word of ends that may be PL_UNKNOWN: then the peak decides. */
pl_verdict pl_verdict_of(int64_t low, int64_t peak, int64_t upper, int64_t usable);

#endif
