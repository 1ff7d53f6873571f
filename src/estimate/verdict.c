/* verdict: see verdict.h.
 *
 * The interval holds 95 % of truths: high_bytes is the line that 2.5 % of jobs were to exceed. For
 * another risk the line is moved by what was measured: of jobs whose architecture the weights had
 * not seen, how far their truths lay from the peak. Above 2.5 % it is a share of the way, in log2,
 * from the peak to high_bytes; below, so much log2 beyond it, as the learnt interval's own margins
 * are (conformal prediction: Vovk, Gammerman, Shafer 2005; quantiles of n jobs are taken at the
 * (n + 1)-th part, so that a job more is outside with no more than that chance). Between two
 * risks: straight in log(risk). Less than 0.5 % cannot be seen in 506 jobs with convolutions, and is
 * refused. tools/calibrate/risk.py makes the tables, docs/accuracy.md has how well they hold.
 *
 * Two thirds of the truths are the peak to the byte: from some risk on the line is the peak. */
#include "estimate/verdict.h"

#include <math.h>

#include "estimate/report.h"
#include "graph/graph.h"

enum { KNOTS = 8, USUAL = 5 /* the knot of PL_RISK_USUAL */ };
static const double risks[KNOTS] = {0.5, 0.3, 0.2, 0.1, 0.05, 0.025, 0.01, 0.005};

/* Shares of log2(end / peak) up to USUAL, which is 1; behind it log2 beyond the end. */
typedef struct tail {
    double above[KNOTS], below[KNOTS];
} tail;

static const tail tails[PL_TAILS] = {
    /* of five tree ensembles over 1,608 jobs, with 3 splits */
    [PL_TAIL_REGRESSION] = {.above = {0, 0.052, 0.138, 0.326, 0.603, 1, 0.546, 0.861},
                            .below = {0, 0.206, 0.31, 0.509, 0.788, 1, 0.208, 0.406}},
    /* of the 371 jobs with convolutions, the wider: of what interval.c assumes none was measured */
    [PL_TAIL_ROWS] = {.above = {0, 0.008, 0.05, 0.247, 0.414, 1, 0.067, 0.178},
                      .below = {0, 0.003, 0.073, 0.28, 0.579, 1, 0.001, 0.055}},
    /* of jobs whose architecture's kin was kept apart too: 917 and 506 */
    [PL_TAIL_PLAIN] = {.above = {0, 0, 0, 0.016, 0.127, 1, 0.001, 0.014},
                       .below = {0, 0, 0, 0, 0.037, 1, 0.005, 0.056}},
    [PL_TAIL_CONVOLUTIONS] = {.above = {0, 0.004, 0.042, 0.162, 0.373, 1, 0.008, 0.055},
                              .below = {0, 0.03, 0.115, 0.339, 0.504, 1, 0.025, 0.03}},
};

/* How far from the peak, in log2, the end for a risk is; `usual` is that of 2.5 %. */
static double reach(const double knots[KNOTS], double usual, double risk) {
    int i = 0;
    while (i + 2 < KNOTS && risk < risks[i + 1]) i++;
    double at = log(risks[i] / risk) / log(risks[i] / risks[i + 1]);
    at = fmin(fmax(at, 0), 1);
    double from = i >= USUAL ? usual + (i > USUAL ? knots[i] : 0) : usual * knots[i],
           to = i + 1 > USUAL ? usual + knots[i + 1] : usual * knots[i + 1];
    return from + (to - from) * at;
}

/* The risk whose end is that far: the least of them where several are. */
static double risk_of(const double knots[KNOTS], double usual, double far) {
    int i = KNOTS - 1;
    while (i > 0 && reach(knots, usual, risks[i]) > far) i--;
    if (i == KNOTS - 1) return risks[i];
    double from = reach(knots, usual, risks[i]), to = reach(knots, usual, risks[i + 1]);
    return risks[i] * pow(risks[i + 1] / risks[i], (far - from) / (to - from));
}

double pl_interval_quantile(double low, double peak, double high, double chance) {
    if (!(low > 0)) low = 1;
    bool above = chance >= 0.5;
    double risk = fmax(above ? 1 - chance : chance, PL_RISK_LEAST);
    if (above ? high <= peak : low >= peak) return peak; /* seen, not estimated */
    /* the wider of what was measured with convolutions and for intervals by rows */
    double far = 0, usual = above ? log2(high / peak) : log2(peak / low);
    static const pl_tail wide[] = {PL_TAIL_ROWS, PL_TAIL_CONVOLUTIONS};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        far = fmax(far, reach(above ? tails[wide[i]].above : tails[wide[i]].below, usual, risk));
    return above ? peak * exp2(far) : peak / exp2(far);
}

static bool has_interval(const pl_report *r) {
    return r->peak_bytes > 0 && r->low_bytes >= 0 && r->low_bytes <= r->peak_bytes &&
           r->high_bytes >= r->peak_bytes;
}

static const tail *tail_of(const pl_report *report) {
    return &tails[((const pl_full_report *)report)->tail];
}

const char *pl_report_tail_name(const pl_report *report) {
    static const char *const names[PL_TAILS] = {"regression", "rows", "plain", "convolutions"};
    return has_interval(report) ? names[((const pl_full_report *)report)->tail] : NULL;
}

int64_t pl_report_upper(const pl_report *report, double risk) {
    if (!has_interval(report) || !(risk >= PL_RISK_LEAST && risk <= PL_RISK_MOST))
        return PL_UNKNOWN;
    if (risk == PL_RISK_USUAL) return report->high_bytes;
    double peak = (double)report->peak_bytes, usual = log2((double)report->high_bytes / peak);
    double bytes = ceil(peak * exp2(reach(tail_of(report)->above, usual, risk)));
    int64_t upper = bytes < (double)PL_MAX_BYTES ? (int64_t)bytes : PL_MAX_BYTES;
    if (upper < report->peak_bytes) upper = report->peak_bytes;
    /* Rounding moves no end past the usual one. */
    if (risk > PL_RISK_USUAL ? upper > report->high_bytes : upper < report->high_bytes)
        upper = report->high_bytes;
    return upper;
}

double pl_report_chance(const pl_report *report, int64_t bytes) {
    if (!has_interval(report) || bytes < 0) return NAN;
    double peak = (double)report->peak_bytes;
    const tail *t = tail_of(report);
    if (bytes >= report->peak_bytes)
        return risk_of(t->above, log2((double)report->high_bytes / peak),
                       log2((double)bytes / peak));
    if (bytes == 0) return 1 - PL_RISK_LEAST;
    double low = report->low_bytes > 0 ? (double)report->low_bytes : 1;
    return 1 - risk_of(t->below, log2(peak / low), log2(peak / (double)bytes));
}

pl_verdict pl_verdict_of(int64_t low, int64_t peak, int64_t upper, int64_t usable) {
    if (upper == PL_UNKNOWN) upper = peak;
    if (low == PL_UNKNOWN) low = peak;
    return low > usable ? PL_DOES_NOT_FIT : upper <= usable ? PL_FITS : PL_MAY_NOT_FIT;
}

/* An allocator that runs out in the simulation is off by as much as the peak is: where less might
 * be taken than the card has, it may yet fit. */
void pl_report_judge(pl_report *report, const pl_gpu *gpu, double risk) {
    if (report->usable_bytes == PL_UNKNOWN) report->usable_bytes = pl_gpu_usable(gpu);
    report->risk = risk;
    report->upper_bytes = pl_report_upper(report, risk);
    bool interval = report->upper_bytes != PL_UNKNOWN;
    report->verdict = pl_verdict_of(interval ? report->low_bytes : PL_UNKNOWN, report->peak_bytes,
                                    report->upper_bytes, report->usable_bytes);
    if (report->out_of_memory && report->verdict == PL_FITS)
        report->verdict = interval ? PL_MAY_NOT_FIT : PL_DOES_NOT_FIT;
    report->fits = report->verdict == PL_FITS;
}

const char *pl_verdict_name(pl_verdict verdict) {
    static const char *const names[] = {
        [PL_FITS] = "fits", [PL_MAY_NOT_FIT] = "may not fit", [PL_DOES_NOT_FIT] = "does not fit"};
    return (unsigned)verdict < sizeof names / sizeof *names ? names[verdict] : NULL;
}
