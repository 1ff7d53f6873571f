/* correction: fleets made up from a rule, jobs in the order they end; each next estimate, corrected by those before it,
 * is held against the truth. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include <plimsoll/service.h>

#define MIB ((int64_t)1 << 20)
enum { JOBS = 300 };

static uint64_t state;

static double uniform(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

/* The newest first. */
static void put_first(pl_seen *jobs, size_t *count, pl_seen job) {
    for (size_t i = *count; i > 0; i--) jobs[i] = jobs[i - 1];
    jobs[0] = job;
    ++*count;
}

static pl_seen made(double predicted_mib, double seen_mib) {
    return (pl_seen){.predicted_bytes = (int64_t)(predicted_mib * (double)MIB),
                     .peak_bytes = (int64_t)(seen_mib * (double)MIB),
                     .same_family = true,
                     .same_model = false};
}

static double error_of(const pl_seen *jobs, size_t count, pl_seen next) {
    pl_correction c = PL_SIZED(pl_correction);
    int64_t low = PL_UNKNOWN, high = PL_UNKNOWN, peak = next.predicted_bytes;
    pl_correction_of(&c, jobs, count);
    pl_correction_apply(&c, &low, &peak, &high);
    CHECK(low == PL_UNKNOWN || low <= peak);
    CHECK(high == PL_UNKNOWN || high >= peak);
    return fabs((double)(peak - next.peak_bytes)) / (double)next.peak_bytes;
}

/* A context larger by 860 MiB: right within 2 % after 20 jobs, though a tenth of the reports is nonsense. */
static void another_context(void) {
    static pl_seen jobs[JOBS + 1];
    size_t count = 0;
    state = 3;
    double before = 0, after = 0, worst = 0;
    for (int i = 0; i < JOBS; i++) {
        double predicted = 1500 * exp2(4 * uniform());
        pl_seen job = made(predicted, (predicted + 860) * (1 + 0.004 * (uniform() - 0.5)));
        double error = error_of(jobs, count, job);
        if (i < 3) before = fmax(before, error);
        if (i >= 20) after += error / (JOBS - 20), worst = fmax(worst, error);
        if (uniform() < 0.1) job.peak_bytes = (int64_t)((double)job.peak_bytes * 3 * uniform());
        put_first(jobs, &count, job);
    }
    CHECK(before > 0.05 && after < 0.01 && worst < 0.02);
    if (check_failures_in_case) printf("    %g, then %g, at most %g\n", before, after, worst);
}

/* A model whose loop keeps a tenth more than was seen of it, among others that do not. */
static void one_model_apart(void) {
    static pl_seen jobs[JOBS + 1];
    size_t count = 0;
    state = 5;
    double worst = 0, others = 0;
    for (int i = 0; i < JOBS; i++) {
        double predicted = 2000 * exp2(3 * uniform());
        bool its = i % 5 == 0;
        pl_seen job = made(predicted, predicted * (its ? 1.1 : 1));
        for (size_t j = 0; j < count; j++) jobs[j].same_model = ((count - 1 - j) % 5 == 0) == its;
        double error = error_of(jobs, count, job);
        if (i > 60) *(its ? &worst : &others) = fmax(its ? worst : others, error);
        put_first(jobs, &count, job);
    }
    CHECK(worst < 0.02 && others < 0.01);
    if (check_failures_in_case) printf("    %g, others %g\n", worst, others);
}

static void too_few_change_nothing(void) {
    pl_seen jobs[4];
    for (int i = 0; i < 4; i++) jobs[i] = made(1000, 1500);
    pl_correction c = PL_SIZED(pl_correction);
    pl_correction_of(&c, jobs, 4);
    CHECK(c.jobs == 0 && c.offset_bytes == 0 && c.factor == 1 && isnan(c.above));
    pl_correction_of(&c, NULL, 0);
    CHECK_INT(c.jobs, 0);
    int64_t low = 1, peak = 2, high = 3;
    pl_correction_apply(&c, &low, &peak, &high);
    CHECK(low == 1 && peak == 2 && high == 3);
}

/* Whatever is reported, an estimate stays within bounds. */
static void bad_reports(void) {
    pl_seen jobs[64];
    static const int64_t odd[] = {0, 1, -5, INT64_MAX, INT64_MIN, 1 << 20};
    for (int i = 0; i < 64; i++)
        jobs[i] = (pl_seen){
            .predicted_bytes = odd[i % 6], .peak_bytes = odd[(i / 6) % 6], .same_model = i % 2};
    pl_correction c = PL_SIZED(pl_correction);
    pl_correction_of(&c, jobs, 64);
    CHECK(c.left_out > 32 && isfinite(c.factor) && c.factor > 0.4 && c.factor < 2.3);
    for (int i = 0; i < 64; i++) jobs[i] = made(1000000, 3500000); /* all lie */
    pl_correction_of(&c, jobs, 64);
    CHECK(c.offset_bytes <= INT64_C(8) << 30 && c.factor <= 2.26);
    for (int i = 0; i < 64; i++) jobs[i] = made(2000, i % 3 ? 2000 : 7000); /* a third */
    pl_correction_of(&c, jobs, 64);
    CHECK(c.offset_bytes == 0 && c.factor == 1);
}

/* The interval: of jobs like those before at most some 2.5 % lie outside on each side. */
static void intervals_hold(void) {
    static pl_seen jobs[JOBS + 1];
    int above = 0, below = 0, asked = 0;
    for (int run = 0; run < 12; run++) {
        size_t count = 0;
        state = 100 + (uint64_t)run;
        for (int i = 0; i < JOBS; i++) {
            double predicted = 3000 * exp2(3 * uniform()), u = uniform();
            pl_seen job = made(predicted, predicted * (1 + 0.1 * (u * u - 0.33)) + 300);
            pl_correction c = PL_SIZED(pl_correction);
            int64_t low = PL_UNKNOWN, high = PL_UNKNOWN, peak = job.predicted_bytes;
            pl_correction_of(&c, jobs, count);
            pl_correction_apply(&c, &low, &peak, &high);
            if (i > 60) {
                CHECK(high != PL_UNKNOWN && low != PL_UNKNOWN);
                asked++;
                above += job.peak_bytes > high;
                below += job.peak_bytes < low;
            }
            put_first(jobs, &count, job);
        }
    }
    CHECK(above < asked * 35 / 1000 && below < asked * 35 / 1000);
    if (check_failures_in_case) printf("    above %d, below %d of %d\n", above, below, asked);
}

/* A new driver: what was learnt of the old one is forgotten. */
static void forgets(void) {
    static pl_seen jobs[JOBS + 1];
    size_t count = 0;
    state = 9;
    double last = 0;
    for (int i = 0; i < JOBS; i++) {
        double predicted = 4000 * exp2(2 * uniform());
        pl_seen job = made(predicted, predicted + (i < 150 ? 900 : 100));
        double error = error_of(jobs, count, job);
        if (i >= 250) last = fmax(last, error);
        put_first(jobs, &count, job);
    }
    CHECK(last < 0.005);
    if (check_failures_in_case) printf("    %g\n", last);
}

/* A fleet whose hosts are slower by three fifths, of which a model's data loader takes half as long again; some
 * reports are of another unit, some say no memory. */
static void step_times(void) {
    static pl_seen jobs[JOBS + 1];
    size_t count = 0;
    state = 17;
    double first = 0, worst = 0, its = 0;
    int outside = 0, asked = 0;
    for (int i = 0; i < JOBS; i++) {
        bool apart = i % 5 == 0;
        double predicted = 20 * exp2(4 * uniform()), noise = 1 + 0.1 * (uniform() - 0.5),
               seen = predicted * 1.6 * (apart ? 1.5 : 1) * noise;
        for (size_t j = 0; j < count; j++) jobs[j].same_model = ((count - 1 - j) % 5 == 0) == apart;
        pl_correction c = PL_SIZED(pl_correction);
        pl_correction_of(&c, jobs, count);
        pl_figure step = {predicted, predicted * 0.9, predicted * 1.1};
        pl_correction_apply_step(&c, &step);
        CHECK(step.low <= step.value && step.value <= step.high);
        CHECK(i >= 6 || c.step_jobs == (i < 5 ? 0 : i));
        double error = fabs(step.value - seen) / seen;
        if (i < 5) first = fmax(first, error);
        if (i > 100) {
            *(apart ? &its : &worst) = fmax(apart ? its : worst, error);
            asked++;
            outside += seen < step.low || seen > step.high;
        }
        if (uniform() < 0.1) seen *= 1000;
        pl_seen job = {.predicted_bytes = i % 3 ? 1000 : PL_UNKNOWN,
                       .peak_bytes = i % 3 ? 1000 : PL_UNKNOWN,
                       .same_family = true,
                       .predicted_step_ms = predicted,
                       .step_ms = seen};
        put_first(jobs, &count, job);
        if (i == 60) {
            pl_correction_of(&c, jobs, count);
            CHECK(c.left_out == 0 && c.offset_bytes == 0 && c.factor == 1);
        }
    }
    CHECK(first > 0.3 && worst < 0.1 && its < 0.15 && outside < asked / 10);
    if (check_failures_in_case)
        printf("    %g, then %g, its own %g, %d of %d outside\n", first, worst, its, outside,
               asked);
    for (int i = 0; i < 64; i++) /* all lie */
        jobs[i] = (pl_seen){.predicted_bytes = PL_UNKNOWN,
                            .peak_bytes = PL_UNKNOWN,
                            .same_family = true,
                            .same_model = true,
                            .predicted_step_ms = 1,
                            .step_ms = i % 2 ? 19 : INFINITY};
    pl_correction c = PL_SIZED(pl_correction);
    pl_correction_of(&c, jobs, 64);
    CHECK(c.step_jobs == 32 && c.step_factor <= 16 && c.jobs == 0);
    pl_figure unknown = {NAN, NAN, NAN};
    pl_correction_apply_step(&c, &unknown);
    CHECK(isnan(unknown.value) && isnan(unknown.low) && isnan(unknown.high));
}

int main(void) {
    RUN(another_context);
    RUN(step_times);
    RUN(one_model_apart);
    RUN(too_few_change_nothing);
    RUN(bad_reports);
    RUN(intervals_hold);
    RUN(forgets);
    return check_done();
}
