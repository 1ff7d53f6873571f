/* data_facts: what is known of numbers in a graph's tensors without computing them, as far as sizes
 * may come of them. Private to data_sizes.c.
 *
 * A fact is of whole numbers: from which range they are, what they add up to, along which dimensions
 * they differ or are 0 but for one. Drawn numbers are taken as equally likely, and a sum as spread
 * evenly; with PL_DATA_WORST it lies in the last parts. Operators without a rule give nothing. */
#ifndef PL_GRAPH_DATA_FACTS_H
#define PL_GRAPH_DATA_FACTS_H

#include "graph/data_sizes.h"

typedef struct pl_fact {
    int64_t range;        /* numbers from 0 to range - 1, each as likely; 0: not known */
    int64_t sum;          /* of all elements, of which none is negative; -1: not known */
    int64_t most;         /* beside sum: of one element */
    int64_t places;       /* at most so many elements are other than 0; -1: any */
    int64_t whole, parts; /* sum is one of so many parts of that; parts 0: it is not */
    uint16_t once;        /* bits: dimensions along which at most one element is other than 0 */
    uint16_t distinct;    /* bits: dimensions along which no two elements are the same */
    bool running;         /* the only dimension has the sums so far of what comes to `sum` */
    int32_t base;         /* the tensor in whose memory it lies */
    int32_t born;         /* node that it holds from */
} pl_fact;

typedef struct pl_facts {
    const pl_graph *graph;
    pl_data_case which;
    int64_t *values;  /* [symbol_count] */
    int64_t *known;   /* [expr_count]: what an expression came to; INT64_MIN: not asked yet */
    pl_fact *of;      /* [tensor_count] */
    int32_t *written; /* [tensor_count]: the last node that wrote into its memory, -1: none */
} pl_facts;

/* A number that a size may be. */
typedef struct pl_counted {
    int64_t value;
    pl_data_kind kind;
    int64_t whole, parts; /* as in pl_data_size */
} pl_counted;

bool pl_facts_open(pl_facts *facts, const pl_graph *graph, pl_data_case which, int64_t *values,
                   pl_arena *arena);
/* The facts of what node makes. Its operands' and outputs' sizes have values. */
void pl_facts_learn(pl_facts *facts, int32_t node);

pl_fact pl_fact_of(const pl_facts *facts, int32_t tensor); /* tensor -1: nothing is known */
/* INT64_MAX: it does not fit, or comes to nothing. */
int64_t pl_facts_value(pl_facts *facts, const pl_expr *expr, int64_t otherwise);
int64_t pl_facts_size(pl_facts *facts, int32_t tensor,
                      int64_t dim); /* dim from the end: negative */
int64_t pl_facts_elements(pl_facts *facts, int32_t tensor);

/* How many elements are other than 0; what the only element is, PL_DATA_OPEN: not known; how many
 * values differ among `draws`. */
pl_counted pl_facts_places(pl_facts *facts, int32_t tensor);
pl_counted pl_facts_item(pl_facts *facts, int32_t tensor);
pl_counted pl_facts_differ(pl_facts *facts, int32_t tensor, int64_t draws);
/* What repeats add up to. */
pl_counted pl_facts_sum(pl_facts *facts, int32_t tensor);

/* The index-th of `parts` shares of whole, of which none can be more than each. */
int64_t pl_data_part(pl_data_case which, int64_t whole, int64_t parts, int64_t index, int64_t each);

/* "aten.scatter_.value" is "scatter". room: 64 bytes. False: no operator of ATen. */
bool pl_aten_base(const char *target, char *room);

#endif
