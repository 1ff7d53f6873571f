/* missed: see missed.h.
 *
 * n jobs and one more are as likely in any order: the one more is beyond the k-th of them with no
 * more than (n + 1 - k) / (n + 1) (Vovk, Gammerman, Shafer 2005). With weights, n is Kish's effective
 * number, (sum of weights)^2 / sum of squares; that is an approximation. */
#include "lab/train/missed.h"

#include <stdlib.h>

static int compare(const void *x, const void *y) {
    const pl_missed *a = x, *b = y;
    if (a->by != b->by) return a->by < b->by ? -1 : 1;
    return a->weight < b->weight ? -1 : a->weight > b->weight;
}

double pl_missed_quantile(pl_missed *jobs, size_t count, double outside) {
    double sum = 0, squares = 0, up_to = 0;
    for (size_t i = 0; i < count; i++) {
        sum += jobs[i].weight;
        squares += jobs[i].weight * jobs[i].weight;
    }
    if (count == 0) return 0;
    qsort(jobs, count, sizeof *jobs, compare);
    double worth = sum * sum / squares, at = (1 - outside) * (worth + 1) / worth * sum;
    size_t i = 0;
    while (i + 1 < count && (up_to += jobs[i].weight) < at) i++;
    return jobs[i].by;
}
