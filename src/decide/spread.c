/* spread: see spread.h. Each job is so many points of equal chance within each of some ranges of chance, finer
 * towards the tails (verdict.c's quantiles); sums are convolved on a grid that covers twice the card. A point between
 * two bins counts for the upper one: the risk is never rounded down. */
#include "decide/spread.h"

#include <math.h>
#include <string.h>

#include "estimate/verdict.h"

enum { STEPS = 13, POINTS = 4 };
/* Chances that less is taken; the first and the last range have no tail beyond what was measured. */
static const double ends[STEPS + 1] = {0,   0.005, 0.025, 0.1,   0.25, 0.5,   0.7,
                                       0.8, 0.9,   0.95,  0.975, 0.99, 0.995, 1};

void pl_spread_start(pl_spread *s, double most) {
    memset(s, 0, sizeof *s);
    s->width = 2 * most / (PL_SPREAD_BINS - 1);
    s->chance[0] = 1;
}

static int bin_of(const pl_spread *s, double bytes) {
    double at = ceil(bytes / s->width);
    return at < 0 ? 0 : at < PL_SPREAD_BINS - 1 ? (int)at : PL_SPREAD_BINS - 1;
}

void pl_spread_add(pl_spread *s, double low, double peak, double high, int64_t times) {
    double mass[PL_SPREAD_BINS] = {0}, sum[PL_SPREAD_BINS] = {0};
    int least = PL_SPREAD_BINS, most = 0;
    for (int i = 0; i < STEPS; i++)
        for (int j = 0; j < POINTS; j++) {
            double chance = ends[i] + (ends[i + 1] - ends[i]) * (j + 0.5) / POINTS;
            double bytes = pl_interval_quantile(low, peak, high, chance) * (double)times;
            int bin = bin_of(s, bytes);
            mass[bin] += (ends[i + 1] - ends[i]) / POINTS;
            least = bin < least ? bin : least;
            most = bin > most ? bin : most;
        }
    for (int a = 0; a < PL_SPREAD_BINS; a++)
        for (int b = least; s->chance[a] > 0 && b <= most; b++)
            sum[a + b < PL_SPREAD_BINS ? a + b : PL_SPREAD_BINS - 1] += s->chance[a] * mass[b];
    memcpy(s->chance, sum, sizeof sum);
}

double pl_spread_above(const pl_spread *s, double bytes) {
    double above = 0;
    for (int i = PL_SPREAD_BINS - 1; i >= 0 && i * s->width > bytes; i--) above += s->chance[i];
    return fmin(above, 1);
}
