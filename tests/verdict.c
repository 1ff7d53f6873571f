/* Whether a job fits: the three words at their edges, the line for another risk, the chance of an
 * out-of-memory. Of made-up reports, whose interval is known, and of models. */
#include "estimate/verdict.h"

#include <math.h>

#include "check.h"
#include "estimate/report.h"

static const char *folder;

/* low 900, peak 1000, high 1200, in units that leave room for rounding. */
enum { UNIT = 1 << 20 };

static pl_full_report made_up(pl_tail tail) {
    return (pl_full_report){.report = {.peak_bytes = 1000 * (int64_t)UNIT,
                                       .low_bytes = 900 * (int64_t)UNIT,
                                       .high_bytes = 1200 * (int64_t)UNIT,
                                       .usable_bytes = PL_UNKNOWN},
                            .tail = tail};
}

static pl_verdict judged(pl_full_report *full, int64_t usable, double risk) {
    full->report.usable_bytes = usable;
    pl_report_judge(&full->report, pl_gpu_find("h200"), risk);
    CHECK_INT(full->report.fits, full->report.verdict == PL_FITS);
    CHECK(full->report.risk == risk);
    CHECK_INT(full->report.usable_bytes, usable);
    return full->report.verdict;
}

static void words_have_names(void) {
    CHECK_STR(pl_verdict_name(PL_FITS), "fits");
    CHECK_STR(pl_verdict_name(PL_MAY_NOT_FIT), "may not fit");
    CHECK_STR(pl_verdict_name(PL_DOES_NOT_FIT), "does not fit");
    CHECK(!pl_verdict_name((pl_verdict)3) && !pl_verdict_name((pl_verdict)-1));
}

static void words_at_their_edges(void) {
    const struct {
        int64_t usable;
        pl_verdict verdict;
    } rows[] = {
        {1200 * (int64_t)UNIT + 1, PL_FITS},
        {1200 * (int64_t)UNIT, PL_FITS},
        {1200 * (int64_t)UNIT - 1, PL_MAY_NOT_FIT},
        {1000 * (int64_t)UNIT, PL_MAY_NOT_FIT},
        {900 * (int64_t)UNIT, PL_MAY_NOT_FIT},
        {900 * (int64_t)UNIT - 1, PL_DOES_NOT_FIT},
        {0, PL_DOES_NOT_FIT},
    };
    for (int tail = 0; tail < PL_TAILS; tail++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            pl_full_report full = made_up((pl_tail)tail);
            CHECK_INT(judged(&full, rows[i].usable, PL_RISK_USUAL), rows[i].verdict);
            CHECK_INT(full.report.upper_bytes, full.report.high_bytes);
        }
    /* usable_bytes not known yet: the card's */
    pl_full_report full = made_up(PL_TAIL_PLAIN);
    pl_report_judge(&full.report, pl_gpu_find("h200"), 0.1);
    CHECK_INT(full.report.usable_bytes, pl_gpu_usable(pl_gpu_find("h200")));
}

/* The simulation's allocator runs out: never "fits", and no more than "may not" while less might be
 * taken than there is. */
static void an_allocator_that_runs_out(void) {
    pl_full_report full = made_up(PL_TAIL_ROWS);
    full.report.out_of_memory = true;
    CHECK_INT(judged(&full, 1300 * (int64_t)UNIT, PL_RISK_USUAL), PL_MAY_NOT_FIT);
    CHECK_INT(judged(&full, 950 * (int64_t)UNIT, PL_RISK_MOST), PL_MAY_NOT_FIT);
    CHECK_INT(judged(&full, 899 * (int64_t)UNIT, PL_RISK_USUAL), PL_DOES_NOT_FIT);
}

static void without_an_interval_the_peak_decides(void) {
    pl_full_report full = made_up(PL_TAIL_REGRESSION);
    full.report.low_bytes = full.report.high_bytes = PL_UNKNOWN;
    for (double risk = PL_RISK_LEAST; risk <= PL_RISK_MOST; risk *= 10) {
        CHECK_INT(judged(&full, 1000 * (int64_t)UNIT, risk), PL_FITS);
        CHECK_INT(judged(&full, 1000 * (int64_t)UNIT - 1, risk), PL_DOES_NOT_FIT);
        CHECK_INT(full.report.upper_bytes, PL_UNKNOWN);
    }
    CHECK(isnan(pl_report_chance(&full.report, 1000)));
    CHECK_INT(pl_report_upper(&full.report, 0.1), PL_UNKNOWN);
    full.report.out_of_memory = true;
    CHECK_INT(judged(&full, 2000 * (int64_t)UNIT, PL_RISK_USUAL), PL_DOES_NOT_FIT);
}

/* The line moves one way: no line of a smaller risk is lower; and so do the chances. */
static void lines_move_one_way(void) {
    for (int tail = 0; tail < PL_TAILS; tail++) {
        pl_full_report full = made_up((pl_tail)tail);
        const pl_report *r = &full.report;
        int64_t last = INT64_MAX;
        for (int i = 0; i <= 400; i++) {
            double risk =
                fmin(PL_RISK_MOST, PL_RISK_LEAST * pow(PL_RISK_MOST / PL_RISK_LEAST, i / 400.0));
            int64_t upper = pl_report_upper(r, risk);
            CHECK(upper <= last && upper >= r->peak_bytes);
            CHECK(risk <= PL_RISK_USUAL ? upper >= r->high_bytes : upper <= r->high_bytes);
            /* A line's chance is its risk, or less where several risks share the line. */
            CHECK(pl_report_chance(r, upper) <= risk * 1.0001);
            CHECK(pl_report_chance(r, upper - UNIT / 4) >= fmin(risk, 0.499) * 0.95 ||
                  upper == r->peak_bytes);
            last = upper;
        }
        CHECK(pl_report_upper(r, PL_RISK_MOST) == r->peak_bytes);
        CHECK(pl_report_upper(r, 0.01) > r->high_bytes || tail == PL_TAIL_ROWS);
        CHECK(pl_report_upper(r, PL_RISK_LEAST) > r->high_bytes);
        double before = 1;
        for (int64_t at = 0; at < 4000; at += 3) {
            double chance = pl_report_chance(r, at * UNIT);
            CHECK(chance <= before && chance >= PL_RISK_LEAST && chance <= 1 - PL_RISK_LEAST);
            before = chance;
        }
        CHECK(fabs(pl_report_chance(r, r->high_bytes) - PL_RISK_USUAL) < 1e-9);
        CHECK(fabs(pl_report_chance(r, r->low_bytes) - (1 - PL_RISK_USUAL)) < 1e-9);
        CHECK(pl_report_chance(r, INT64_MAX / 4) == PL_RISK_LEAST);
        CHECK(isnan(pl_report_chance(r, -1)));
        const double none[] = {0, 0.0049, 0.51, 1, -1, NAN, INFINITY};
        for (size_t i = 0; i < sizeof none / sizeof *none; i++)
            CHECK_INT(pl_report_upper(r, none[i]), PL_UNKNOWN);
    }
}

/* Intervals of no width, and those that begin at 0 (the first bin of a classifier). */
static void odd_intervals(void) {
    for (int tail = 0; tail < PL_TAILS; tail++) {
        pl_full_report full = made_up((pl_tail)tail);
        full.report.low_bytes = full.report.high_bytes = full.report.peak_bytes;
        CHECK_INT(pl_report_upper(&full.report, 0.3), full.report.peak_bytes);
        CHECK_INT(judged(&full, full.report.peak_bytes, PL_RISK_USUAL), PL_FITS);
        CHECK_INT(judged(&full, full.report.peak_bytes - 1, PL_RISK_USUAL), PL_DOES_NOT_FIT);
        double chance = pl_report_chance(&full.report, full.report.peak_bytes - 1);
        CHECK(chance >= 0.5 && chance <= 1 - PL_RISK_LEAST);
        full.report.low_bytes = 0;
        CHECK_INT(judged(&full, 1, PL_RISK_USUAL), PL_MAY_NOT_FIT);
        CHECK(isfinite(pl_report_chance(&full.report, 1)));
    }
}

/* Of a model: the default changes nothing, the job's risk arrives, and one out of range is refused. */
static void a_job_has_its_risk(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/resnet18.pt2", folder);
    pl_model *model = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_model_open(&model, path, NULL, &err), PL_OK);
    if (!model) return;
    pl_job job;
    pl_job_default(&job);
    CHECK(job.risk == 0.025);
    job.gpu = "t4";
    job.batch = 416;
    int64_t last = INT64_MAX;
    pl_verdict before = PL_DOES_NOT_FIT;
    const double risks[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5};
    for (size_t i = 0; i < sizeof risks / sizeof *risks; i++) {
        pl_report *r = NULL;
        job.risk = risks[i];
        CHECK_INT(pl_estimate(&r, model, &job, &err), PL_OK);
        if (!r) break;
        CHECK(r->risk == risks[i] && r->upper_bytes == pl_report_upper(r, risks[i]));
        CHECK(r->upper_bytes <= last && r->verdict <= before);
        if (risks[i] == 0.025) CHECK_INT(r->upper_bytes, r->high_bytes);
        last = r->upper_bytes;
        before = r->verdict;
        pl_report_close(&r);
    }
    CHECK_INT(before, PL_FITS);
    const double wrong[] = {0, 0.0049, 0.501, 5, -0.1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        job.risk = wrong[i];
        CHECK_INT(pl_job_check(&job, &err), PL_USAGE);
        CHECK_STR(err.where, "risk");
    }
    /* A caller of before: the struct ends where it did. */
    job.risk = 7;
    job.size = offsetof(pl_job, risk);
    CHECK_INT(pl_job_check(&job, &err), PL_OK);
    pl_model_close(&model);
}

/* What the job's own allocator settings keep back is not usable. */
static void a_fraction_of_the_card(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/resnet18.pt2", folder);
    pl_model *model = NULL;
    pl_report *r = NULL;
    pl_error err = PL_SIZED(pl_error);
    pl_job job;
    pl_job_default(&job);
    job.alloc_conf = "per_process_memory_fraction:0.001";
    CHECK_INT(pl_model_open(&model, path, NULL, &err), PL_OK);
    CHECK_INT(model ? pl_estimate(&r, model, &job, &err) : PL_INPUT, PL_OK);
    if (r) {
        CHECK(r->out_of_memory);
        CHECK_INT(r->usable_bytes,
                  r->overhead_bytes + (int64_t)(0.001 * (double)r->gpu->capacity_bytes));
        CHECK_INT(r->verdict, PL_DOES_NOT_FIT);
    }
    pl_report_close(&r);
    pl_model_close(&model);
}

int main(int count, char **args) {
    if (count < 2) return 2;
    folder = args[1];
    RUN(words_have_names);
    RUN(words_at_their_edges);
    RUN(an_allocator_that_runs_out);
    RUN(without_an_interval_the_peak_decides);
    RUN(lines_move_one_way);
    RUN(odd_intervals);
    RUN(a_job_has_its_risk);
    RUN(a_fraction_of_the_card);
    return check_done();
}
