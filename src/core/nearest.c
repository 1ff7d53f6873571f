/* nearest: see nearest.h. */
#include "core/nearest.h"

#include <string.h>

size_t pl_spelling_distance(const char *a, const char *b) {
    size_t rows = strlen(a), columns = strlen(b);
    if (rows >= PL_LONGEST_WORD || columns >= PL_LONGEST_WORD) return PL_LONGEST_WORD;
    size_t cost[PL_LONGEST_WORD][PL_LONGEST_WORD];
    for (size_t i = 0; i <= rows; i++) cost[i][0] = i;
    for (size_t k = 0; k <= columns; k++) cost[0][k] = k;
    for (size_t i = 1; i <= rows; i++)
        for (size_t k = 1; k <= columns; k++) {
            size_t best = cost[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            if (cost[i - 1][k] + 1 < best) best = cost[i - 1][k] + 1;
            if (cost[i][k - 1] + 1 < best) best = cost[i][k - 1] + 1;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                cost[i - 2][k - 2] + 1 < best)
                best = cost[i - 2][k - 2] + 1;
            cost[i][k] = best;
        }
    return cost[rows][columns];
}

const char *pl_nearest(const char *word, const char *const *candidates, size_t count) {
    const char *best = NULL;
    size_t least = 1 + (strlen(word) + 1) / 3;
    for (size_t i = 0; i < count; i++) {
        size_t far = pl_spelling_distance(word, candidates[i]);
        if (far < least) {
            least = far;
            best = candidates[i];
        }
    }
    return best;
}
