/* nearest: how far two words are apart in spelling, for "did you mean". */
#ifndef PL_CORE_NEAREST_H
#define PL_CORE_NEAREST_H

#include <stddef.h>

enum { PL_LONGEST_WORD = 48 };

/* Insertions, deletions, changes and swaps of neighbours that turn a into b (optimal string
 * alignment). Words of PL_LONGEST_WORD letters or more are PL_LONGEST_WORD from everything. */
size_t pl_spelling_distance(const char *a, const char *b);

/* The candidate nearest to word, or NULL where none is near: one slip in three letters is still the
 * same word. */
const char *pl_nearest(const char *word, const char *const *candidates, size_t count);

#endif
