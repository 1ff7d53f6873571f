/* spread: how likely it is that several jobs together take more than so many bytes. */
#ifndef PL_DECIDE_SPREAD_H
#define PL_DECIDE_SPREAD_H

#include <plimsoll/plimsoll.h>

/* A sum of what jobs take: a distribution over bytes. Copied as it is. */
enum { PL_SPREAD_BINS = 4096 };
typedef struct pl_spread {
    double first, width; /* bytes: where bin 0 begins, and how wide each is */
    double chance[PL_SPREAD_BINS];
} pl_spread;

/* Nothing, yet to be added to; most: bytes that are of interest (a card's): what lies beyond is in the last
 * bin. */
void pl_spread_start(pl_spread *s, double most);
/* So many jobs that err alike, whose interval is [low, peak, high]. */
void pl_spread_add(pl_spread *s, double low, double peak, double high, int64_t times);
/* The chance of more than that; no less than what a sum of measured tails can tell. */
double pl_spread_above(const pl_spread *s, double bytes);

#endif
