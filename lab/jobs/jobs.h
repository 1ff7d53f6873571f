/* jobs: measured jobs, read once and used by training and evaluation. */
#ifndef PL_LAB_JOBS_H
#define PL_LAB_JOBS_H

#include "lab/jobs/convs.h"
#include "lab/jobs/profile.h"
#include "lend.h"

typedef struct pl_measured {
    pl_trial facts; /* id to measured_overhead, has_graph; message: "" */
    pl_job job;
    pl_profile profile;             /* of its graph where there is one, else of its record */
    double flops_per_step, step_ms; /* NAN: not measured */
    double counters[PL_COUNTERS];   /* percent; NAN likewise */
    uint32_t model, family;         /* numbers of its groups, from 0 */
    /* What the record itself says of the model: a Hugging Face config, or a layer spec; NULL:
     * nothing that can be built. task: of a config, NULL: as it says. */
    const char *description, *task;
    const char *train; /* as pl_job's, for the description; graphs have it in them. NULL: all */
    bool no_sequence;  /* images and sounds, whatever the record's seq */
    const char *of;    /* id of the job that this is with another batch; NULL: none */
    const char *graph; /* name of its graph: its id or `of`; NULL: none */
    bool described;    /* its model is built from the description */
    pl_status graph_status; /* of reading the graph: PL_MISSING where there is none */
    pl_error graph_error;
} pl_measured;

struct pl_jobs {
    pl_arena *arena;
    const char **graphs; /* folders, in the order they are looked through */
    size_t graph_count;
    bool described; /* models are built from the records' descriptions where these say enough */
    pl_measured *items;
    size_t count, capacity;
    pl_convs convs;   /* of files that have convolutions in place of jobs */
    const char *data; /* files and rows, for model files */
    int64_t bin_bytes;
    uint32_t model_count, family_count;
    int threads;
    size_t most_threads; /* as memory allows */
    pl_limits limits;    /* of the files; then of each job that a thread works on */
    pl_budget budget;    /* of the files */
};

/* The job's graph, opened anew; the caller closes it. PL_MISSING: it has none. */
pl_status pl_jobs_graph(pl_model **out, const pl_jobs *jobs, const pl_measured *item,
                        pl_error *err);

/* One line of ground truth, added to jobs. from: the line's place in the file. */
pl_status pl_record_read(pl_jobs *jobs, const char *path, const char *line, size_t length,
                         size_t from, pl_error *err);

/* work(context, i) for i below count, by up to `threads` threads (0: one per core) and the
 * caller. */
/* As many threads as were asked for (0: one per core) and have memory for their jobs. */
int pl_jobs_threads(const pl_jobs *jobs, int asked);
void pl_jobs_each(size_t count, int threads, void (*work)(void *context, size_t i), void *context);

#endif
