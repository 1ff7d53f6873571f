/* sweep: estimates over several batches and sequence lengths. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include "core/counts.h"
#include "options.h"

typedef struct sweep_cell {
    int64_t peak_bytes, low_bytes, high_bytes; /* low and high below 0: the estimator has none */
    double step_ms;                            /* NAN likewise */
    pl_verdict verdict;
    bool out_of_memory;
    int64_t upper_bytes;     /* what is held against the card; below 0: the peak is */
    int64_t kinds[PL_KINDS]; /* at the peak; below 0: not known */
} sweep_cell;

typedef struct sweep_grid {
    const char *model; /* its name */
    const char *job;   /* in one line; "" where there is none */
    const pl_gpu *gpu;
    int64_t usable_bytes;      /* what a process can have of it */
    number_list batches, seqs; /* rows and columns, at least one each */
    bool has_batch, has_seq;   /* the model has such a dimension */
    sweep_cell *cells;         /* [batches.count * seqs.count] */
} sweep_grid;

/* The grid as a picture; 0, or complains and returns an exit code. */
int heatmap_write(const char *path, const sweep_grid *grid);

#endif
