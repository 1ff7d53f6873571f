/* spread: see spread.h. Each job is so many points of equal chance within each of some ranges of chance, finer
 * towards the tails (verdict.c's quantiles); sums are convolved on a grid that covers twice the card. A point between
 * two bins counts for the upper one: the risk is never rounded down. */
#include "decide/spread.h"

#include <math.h>
#include <string.h>

#include "estimate/verdict.h"

enum { STEPS = 13, POINTS = PL_SPREAD_POINTS / STEPS, LAST = PL_SPREAD_BINS - 1 };
/* Chances that less is taken; the first and the last range have no tail beyond what was measured. */
static const double ends[STEPS + 1] = {0,   0.005, 0.025, 0.1,   0.25, 0.5,   0.7,
                                       0.8, 0.9,   0.95,  0.975, 0.99, 0.995, 1};

double pl_spread_width(double most) {
    return 2 * most / LAST;
}

void pl_spread_start(pl_spread *s, double most) {
    memset(s, 0, sizeof *s);
    s->width = pl_spread_width(most);
    s->chance[0] = 1;
}

static int bin_of(double bytes, double width) {
    double at = ceil(bytes / width);
    return at < 0 ? 0 : at < LAST ? (int)at : LAST;
}

/* The quantiles rise with the chance, and so do their bins. */
void pl_spread_points_of(pl_spread_points *out, double width, double low, double peak, double high,
                         int64_t times) {
    out->count = 0;
    for (int i = 0; i < STEPS; i++)
        for (int j = 0; j < POINTS; j++) {
            double chance = ends[i] + (ends[i + 1] - ends[i]) * (j + 0.5) / POINTS;
            double bytes = pl_interval_quantile(low, peak, high, chance) * (double)times;
            int bin = bin_of(bytes, width), n = out->count;
            double mass = (ends[i + 1] - ends[i]) / POINTS;
            if (n && out->bin[n - 1] >= bin) {
                out->chance[n - 1] += mass;
            } else {
                out->bin[n] = bin;
                out->chance[n] = mass;
                out->count++;
            }
        }
}

void pl_spread_put(pl_spread *s, const pl_spread_points *points) {
    double sum[PL_SPREAD_BINS];
    int least = s->least + points->bin[0], most = s->most + points->bin[points->count - 1];
    if (least > LAST) least = LAST;
    if (most > LAST) most = LAST;
    memset(&sum[least], 0, (size_t)(most - least + 1) * sizeof *sum);
    for (int k = 0; k < points->count; k++)
        for (int a = s->least; a <= s->most; a++) {
            int at = a + points->bin[k];
            sum[at < LAST ? at : LAST] += s->chance[a] * points->chance[k];
        }
    memset(&s->chance[s->least], 0, (size_t)(s->most - s->least + 1) * sizeof *sum);
    memcpy(&s->chance[least], &sum[least], (size_t)(most - least + 1) * sizeof *sum);
    s->least = least;
    s->most = most;
}

void pl_spread_add(pl_spread *s, double low, double peak, double high, int64_t times) {
    pl_spread_points points;
    pl_spread_points_of(&points, s->width, low, peak, high, times);
    pl_spread_put(s, &points);
}

double pl_spread_above(const pl_spread *s, double bytes) {
    double above = 0;
    for (int i = s->most; i >= s->least && i * s->width > bytes; i--) above += s->chance[i];
    return fmin(above, 1);
}

/* From the point that takes least on, so that the sum's chances are added up once. */
double pl_spread_above_with(const pl_spread *s, const pl_spread_points *points, double bytes) {
    double above = 0, tail = 0;
    int i = s->most;
    int limit = bytes < 0 ? -1 : (int)fmin(floor(bytes / s->width), LAST);
    while (limit < LAST && (limit + 1) * s->width <= bytes) limit++;
    while (limit >= 0 && limit * s->width > bytes) limit--;
    if (limit >= LAST) return 0; /* as pl_spread_above, which has no bin beyond the last */
    /* The sum with a point is above where its bin is more than limit less the point's. */
    for (int k = 0; k < points->count; k++) {
        while (i >= s->least && i + points->bin[k] > limit) tail += s->chance[i--];
        above += tail * points->chance[k];
    }
    return fmin(above, 1);
}
