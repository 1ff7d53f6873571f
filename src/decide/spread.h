/* spread: how likely it is that several jobs together take more than so many bytes. */
#ifndef PL_DECIDE_SPREAD_H
#define PL_DECIDE_SPREAD_H

#include <plimsoll/plimsoll.h>

/* A sum of what jobs take: a distribution over bytes. Copied as it is. */
enum { PL_SPREAD_BINS = 4096, PL_SPREAD_POINTS = 52 };
typedef struct pl_spread {
    double width;    /* bytes: of a bin; the first is of nothing */
    int least, most; /* bins outside of these have no chance */
    double chance[PL_SPREAD_BINS];
} pl_spread;

/* A job as points on the grid of a sum, in rising order. */
typedef struct pl_spread_points {
    int count;
    int bin[PL_SPREAD_POINTS];
    double chance[PL_SPREAD_POINTS];
} pl_spread_points;

/* Nothing, yet to be added to; most: bytes that are of interest (a card's): what lies beyond is in the last
 * bin. */
void pl_spread_start(pl_spread *s, double most);
/* So many jobs that err alike, whose interval is [low, peak, high]. */
void pl_spread_add(pl_spread *s, double low, double peak, double high, int64_t times);
/* The chance of more than that; no less than what a sum of measured tails can tell. */
double pl_spread_above(const pl_spread *s, double bytes);

/* The same in parts, for who asks often: the points of such jobs for sums of that width, put into a sum; the
 * chance that the sum and they are more than that, without making the sum. */
double pl_spread_width(double most);
void pl_spread_points_of(pl_spread_points *out, double width, double low, double peak, double high,
                         int64_t times);
void pl_spread_put(pl_spread *s, const pl_spread_points *points);
double pl_spread_above_with(const pl_spread *s, const pl_spread_points *points, double bytes);

#endif
