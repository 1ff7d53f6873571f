/* data_sizes: values for the sizes of a graph that depend on numbers, which an exported graph leaves
 * open (torch.export's unbacked symbols, u0, u1, ...): the places of a mask, the pieces of a split
 * by counts, what unique leaves.
 *
 * What is known of such a number is followed through the operators that make it: a router's choice
 * of k of E experts is k places per token whichever experts they are, and counts, masks and offsets
 * made of it add up to the same. A size is then one of
 *
 * - a part of a known total, which the parts share evenly (tokens of an expert, pieces of a split);
 * - a count that is expected, of places or of values that differ (drawn with equal chance);
 * - the largest that it can be, where nothing says how likely it is (places of any other mask);
 * - open: no bound is known, and it is as long as the largest mask or input dimension.
 *
 * PL_DATA_WORST gives the other end: the last parts of a total as large as each can be, and counts
 * at their largest. */
#ifndef PL_GRAPH_DATA_SIZES_H
#define PL_GRAPH_DATA_SIZES_H

#include "graph/graph.h"

typedef enum pl_data_case { PL_DATA_EXPECTED, PL_DATA_WORST } pl_data_case;

typedef enum pl_data_kind {
    PL_DATA_GIVEN, /* no size that depends on numbers */
    PL_DATA_PART,
    PL_DATA_COUNT,
    PL_DATA_LARGEST,
    PL_DATA_OPEN,
    PL_DATA_KINDS
} pl_data_kind;

/* What a symbol was given, and why. */
typedef struct pl_data_size {
    uint8_t kind; /* a pl_data_kind */
    int32_t node; /* where it comes up, or -1 */
    int64_t whole,
        parts; /* PL_DATA_PART: the total, and how many share it; PL_DATA_COUNT: of how many */
} pl_data_size;

/* Whether a symbol's value depends on numbers (or was not said at export). */
bool pl_symbol_is_data(const pl_symbol *symbol);

/* Fills values[i] of each such symbol i, the others' being there, and sizes[symbol_count]. False: the
 * arena's budget is spent. */
bool pl_data_sizes(const pl_graph *graph, pl_data_case which, int64_t *values, pl_data_size *sizes,
                   pl_arena *scratch);

/* What was assumed, one text per kind, in arena: at most PL_DATA_KINDS. Returns how many; -1: the
 * budget is spent. */
int pl_data_sizes_told(const pl_graph *graph, const int64_t *values, const pl_data_size *sizes,
                       pl_arena *arena, const char *texts[PL_DATA_KINDS]);

#endif
