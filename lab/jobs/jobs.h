/* jobs: measured jobs, read once and used by training and evaluation. */
#ifndef PL_LAB_JOBS_H
#define PL_LAB_JOBS_H

#include "lab/jobs/convs.h"
#include "lab/jobs/profile.h"
#include "lend.h"

typedef struct pl_measured {
    pl_trial facts; /* id to measured_overhead, has_graph; message: "" */
    pl_job job;
    pl_profile profile;              /* of its graph where there is one, else of its record */
    double flops_per_step, step_ms;  /* NAN: not measured */
    double counters[PL_COUNTERS];    /* percent; NAN likewise */
    const char *kin;                 /* what PL_SPLIT_KIN keeps together; NULL: by itself */
    uint32_t model, family, kindred; /* numbers of its groups, from 0; kindred: by kin */
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
    uint32_t model_count, family_count, kin_count;
    int threads;
    pl_limits limits; /* memory: of the files and of all graphs that are open at a time */
    pl_budget budget; /* of the files */
};

/* The job's graph, opened anew; the caller closes it. PL_MISSING: it has none. */
pl_status pl_jobs_graph(pl_model **out, const pl_jobs *jobs, const pl_measured *item,
                        const pl_limits *limits, pl_error *err);

/* A limit, or memory, did not suffice for its graph: what is known of it is not what it has. */
bool pl_measured_cut_off(const pl_measured *item);

/* One line of ground truth, added to jobs. from: the line's place in the file. */
pl_status pl_record_read(pl_jobs *jobs, const char *path, const char *line, size_t length,
                         size_t from, pl_error *err);

/* What one piece of work may take. last: it will not be asked for again. */
typedef struct pl_turn {
    const pl_limits *limits;
    bool last;
} pl_turn;

/* False: more than turn->limits allow, and turn->last is false. */
typedef bool pl_jobs_work(void *context, size_t i, const pl_turn *turn);

/* work(context, i, turn) for i below count, by up to `threads` threads (0: one per core), the
 * caller's among them. Each has its part of the jobs' memory; what that does not suffice for is done
 * again, by the caller alone, with all of it: the threads change the time, not the result.
 * limits.cancelled is called by the caller's thread only. */
void pl_jobs_each(const pl_jobs *jobs, size_t count, int threads, pl_jobs_work *work,
                  void *context);

#endif
