/* day: a simulated day under several policies, as simulate prints and draws it. */
#ifndef CLI_DAY_H
#define CLI_DAY_H

#include "text.h"

enum { MOST_POLICIES = 16 };

typedef struct day_runs {
    pl_day *days[MOST_POLICIES];
    const pl_day_outcome *outcomes[MOST_POLICIES]; /* the same, summed up */
    size_t count;
    size_t cards;
    char title[200], subtitle[400]; /* what was simulated */
} day_runs;

/* "9.3 h", "12.4 days", "85 s"; "?" where it is not finite. */
small_text text_span(double seconds);

/* Writes the picture; 0, or an exit code after complaining. */
int day_chart_write(const char *path, const day_runs *runs);

#endif
