/* day_figures: sums over time, and what is summed up of the jobs of a simulated day. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decide/day.h"

/* ---- over time ---- */

void pl_day_sums_start(pl_day_sums *s, double width) {
    memset(s, 0, sizeof *s);
    s->width = width > 0 ? width : 1;
}

/* Twice as much time in each stretch. */
static void halve(pl_day_sums *s) {
    for (size_t i = 0; i < DAY_POINTS; i++)
        for (int k = 0; k < 4; k++) s->sum[i][k] = s->sum[2 * i][k] + s->sum[2 * i + 1][k];
    memset(s->sum[DAY_POINTS], 0, DAY_POINTS * sizeof *s->sum);
    s->width *= 2;
}

void pl_day_sums_go(pl_day_sums *s, double now) {
    while (now > s->width * 2 * DAY_POINTS) halve(s);
    while (s->now < now) {
        size_t at = (size_t)(s->now / s->width);
        double end = fmin(now, (double)(at + 1) * s->width);
        if (at >= 2 * DAY_POINTS || end <= s->now) { /* the last bits of a double */
            at = at < 2 * DAY_POINTS ? at : 2 * DAY_POINTS - 1;
            end = now;
        }
        double passed = end - s->now;
        s->sum[at][0] += s->cards * passed;
        s->sum[at][1] += s->bytes * passed;
        s->sum[at][2] += s->sm * passed;
        s->sum[at][3] += s->waiting * passed;
        s->now = end;
    }
}

/* ---- of the jobs ---- */

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The least value that so many of them do not exceed; NAN of none. Sorted. */
static double quantile(const double *values, size_t count, double share) {
    if (!count) return NAN;
    size_t at = (size_t)ceil(share * (double)count);
    return values[at ? at - 1 : 0];
}

static double mean(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    return count ? sum / (double)count : NAN;
}

static void over_time(pl_day_outcome *o, pl_day_point points[DAY_POINTS], size_t *count,
                      const pl_day_sums *s, double cards, double usable) {
    double all[4] = {0}, end = s->now;
    size_t stretches = (size_t)ceil(end / s->width);
    if (stretches > 2 * DAY_POINTS) stretches = 2 * DAY_POINTS;
    size_t each = stretches > DAY_POINTS ? 2 : 1;
    *count = 0;
    for (size_t i = 0; i < stretches; i += each) {
        double sum[4] = {0};
        for (size_t j = i; j < i + each && j < stretches; j++)
            for (int k = 0; k < 4; k++) sum[k] += s->sum[j][k];
        pl_day_point *p = &points[(*count)++];
        p->from_s = (double)i * s->width;
        p->to_s = fmin(end, (double)(i + each) * s->width);
        double passed = fmax(p->to_s - p->from_s, 1e-9);
        p->cards_used = sum[0] / passed / cards;
        p->memory_used = sum[1] / passed / usable;
        p->sm_used = sum[2] / passed / cards;
        p->waiting = sum[3] / passed;
        for (int k = 0; k < 4; k++) all[k] += sum[k];
    }
    o->makespan_s = end;
    o->card_hours = all[0] / 3600;
    o->cards_used = end > 0 ? all[0] / end / cards : NAN;
    o->memory_used = end > 0 ? all[1] / end / usable : NAN;
    o->sm_used = end > 0 ? all[2] / end / cards : NAN;
}

pl_status pl_day_figures(pl_day_outcome *o, pl_day_point points[DAY_POINTS], size_t *point_count,
                         const pl_day_sums *sums, const pl_day_job *jobs, size_t count,
                         size_t cards, double usable, pl_error *err) {
    double *waits = malloc((count + 1) * sizeof *waits);
    double *turns = malloc((count + 1) * sizeof *turns);
    double *slows = malloc((count + 1) * sizeof *slows);
    if (!waits || !turns || !slows) {
        free(waits);
        free(turns);
        free(slows);
        return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    }
    size_t ended = 0, timed = 0;
    for (size_t i = 0; i < count; i++) {
        const pl_day_job *j = &jobs[i];
        o->crashed_jobs += j->crashes > 0;
        if (!j->done || !j->version) continue; /* it never ran */
        waits[ended] = j->waited;
        turns[ended++] = j->since - j->submit;
        if (j->work > 0) slows[timed++] = (j->since - j->start) / j->work;
        o->work_hours += j->work * j->gpus / 3600;
    }
    o->finished = (int64_t)ended;
    o->slowed_hours = o->held_hours - o->work_hours - o->lost_hours;
    o->wait_mean_s = mean(waits, ended);
    o->turnaround_mean_s = mean(turns, ended);
    o->slowdown_mean = mean(slows, timed);
    qsort(waits, ended, sizeof *waits, by_value);
    qsort(turns, ended, sizeof *turns, by_value);
    qsort(slows, timed, sizeof *slows, by_value);
    o->wait_p50_s = quantile(waits, ended, 0.5);
    o->wait_p95_s = quantile(waits, ended, 0.95);
    o->turnaround_p50_s = quantile(turns, ended, 0.5);
    o->turnaround_p95_s = quantile(turns, ended, 0.95);
    o->slowdown_p95 = quantile(slows, timed, 0.95);
    over_time(o, points, point_count, sums, (double)cards, usable);
    free(waits);
    free(turns);
    free(slows);
    return PL_OK;
}
