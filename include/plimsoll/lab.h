/* plimsoll's laboratory: estimators trained and compared on measured jobs (libplimsoll-lab).
 *
 * Beside plimsoll.h: what answers for a job is there, and this library needs that one. It has the
 * estimators other than sim and hybrid too: after pl_lab_register, pl_job's estimator may name
 * them. Ownership and threads as there. */
#ifndef PLIMSOLL_LAB_H
#define PLIMSOLL_LAB_H

#include <plimsoll/plimsoll.h>

#ifdef __cplusplus
extern "C" {
#endif
/* What stands here is exported (and listed in lab.map); all else in the library is hidden. */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Adds the laboratory's estimators to those of pl_estimator_at. Any number of times, from any
 * thread; the functions below do so themselves. The library must stay loaded. */
void pl_lab_register(void);

/* ---- files ---- */

/* A file's bytes, unpacked where it is xz; *bytes is the caller's to free(). most: bytes that it may take, packed and
 * unpacked together. */
pl_status pl_lab_read(char **bytes, size_t *size, const char *path, size_t most, pl_error *err);

/* ---- measured jobs ---- */

/* Jobs that ran and what they took: ground truth (JSON lines) or GPUMemNet's CSV, plain or xz,
 * recognised by content; docs/formats.md. */
typedef struct pl_jobs pl_jobs;

typedef struct pl_jobs_settings {
    size_t size;        /* of this struct; pl_jobs_settings_default sets it */
    const char *graphs; /* default NULL: none. Folder of graphs: ID.pt2 or ID.json, also .xz; of a
                           job that is another with another batch, the other's ID does too */
    const char *const *more_graphs; /* default NULL: none. Folders looked through after graphs */
    size_t more_graph_count;
    bool described;  /* default false. Models as the jobs' own records describe them (a config, a
                        layer spec); graphs, where given too, are for jobs without such */
    const char *gpu; /* default "h200": the card the jobs ran on */
    int threads;     /* default 0: one per core */
    /* Called after each graph, by one thread at a time; default NULL. */
    void (*progress)(size_t done, size_t total, void *context);
    void *progress_context;
    /* default NULL: pl_limits_default's. Memory: of the files and of all graphs that are read at a
     * time; operators and events: of each graph; deadline_ns and cancelled: of training and
     * evaluation with these jobs too, timeout_ms of each call. cancelled is called by the thread
     * that made the call alone, at every job, epoch or tree of its own. */
    const pl_limits *limits;
} pl_jobs_settings;

void pl_jobs_settings_default_sized(pl_jobs_settings *settings, size_t size);
static inline void pl_jobs_settings_default(pl_jobs_settings *settings) {
    pl_jobs_settings_default_sized(settings, sizeof *settings);
}

/* Reads the files, one after the other, and every job's graph where there is one. A graph that
 * cannot be read is no failure: the job's trials will say why. (pl_train fails where that was for
 * want of memory or for a limit.) */
pl_status pl_jobs_open(pl_jobs **out, const char *const *paths, size_t path_count,
                       const pl_jobs_settings *settings, pl_error *err);
size_t pl_jobs_count(const pl_jobs *jobs);
/* Jobs of which no layer is known, neither by a graph nor by their record: learned estimators see
 * next to nothing of them. Not those that a limit cut off. */
size_t pl_jobs_without_layers(const pl_jobs *jobs);
/* Bins as their publications had them: 1,000 MiB for GPUMemNet's MLPs, 8,000 MiB for others. */
int64_t pl_jobs_bin_bytes(const pl_jobs *jobs);
void pl_jobs_close(pl_jobs **jobs);

/* How jobs are split into those learnt from and those predicted. */
typedef enum pl_split {
    PL_SPLIT_NONE,   /* learnt from all, or weights that are there: no split */
    PL_SPLIT_ROW,    /* by row, whatever its model; with bins, each fold has its share of each */
    PL_SPLIT_MODEL,  /* all jobs of a model on one side */
    PL_SPLIT_FAMILY, /* all jobs of a family (mlp, cnn, ...) on one side: a fold per family */
    PL_SPLIT_KIN,    /* all jobs of architectures of one kind (ResNet and its kin) on one side */
} pl_split;

/* index: a pl_split; "none", "row", ...; NULL past the end. */
const char *pl_split_name(size_t index);
bool pl_split_parse(const char *name, pl_split *out);

/* ---- training ---- */

typedef struct pl_train_point {
    int epoch, epochs;             /* from 1; boosting: trees */
    double train_loss, valid_loss; /* NAN where not known */
} pl_train_point;

typedef struct pl_train_settings {
    size_t size;           /* of this struct; pl_train_settings_default sets it */
    const char *estimator; /* no default */
    const char *target;    /* default NULL: all it can learn of the jobs; "memory", "flops" (per
                              step), "flop-rate" (per second) */
    const char *options;   /* default "": behind the estimator's own, "epochs=50 rate=0.01" */
    uint64_t seed;         /* default 1 */
    pl_split split;        /* default PL_SPLIT_MODEL: how the validation jobs are chosen */
    double hold_out;       /* default -1: as the estimator's publication, else 0.15; 0: none */
    int64_t bin_bytes;     /* default 0: pl_jobs_bin_bytes; of classifiers */
    const char *command;   /* default "": written into the file */
    void (*progress)(const pl_train_point *point, void *context); /* default NULL */
    void *progress_context;
} pl_train_settings;

void pl_train_settings_default_sized(pl_train_settings *settings, size_t size);
static inline void pl_train_settings_default(pl_train_settings *settings) {
    pl_train_settings_default_sized(settings, sizeof *settings);
}

/* The same jobs and settings (the command is one) give the same file, byte for byte. */
pl_status pl_train(pl_weights **out, const pl_jobs *jobs, const pl_train_settings *settings,
                   pl_error *err);

/* ---- evaluation ---- */

/* One measured job and what an estimator said of it; bytes. */
typedef struct pl_trial {
    size_t index; /* that pl_evaluation_trial has it under */
    const char *id, *family, *source, *precision, *optimizer; /* "" where the file has none */
    const char *model;      /* what PL_SPLIT_MODEL keeps together */
    int64_t measured_bytes; /* peak_reserved + overhead; CSV: as nvidia-smi showed it */
    int64_t measured_allocated, measured_reserved, measured_overhead; /* PL_UNKNOWN in a CSV */
    bool has_graph;      /* the folder holds the job's graph */
    pl_status status;    /* PL_MISSING: no graph, and the estimator needs one */
    const char *message; /* why there is no estimate; "" with PL_OK */
    /* With PL_OK only; PL_UNKNOWN and NAN where the estimator does not say. */
    int64_t peak_bytes, low_bytes, high_bytes, allocated_bytes, reserved_bytes, overhead_bytes;
    double coverage;
    double measured,
        predicted; /* in the target's unit: bytes, GFLOP, GFLOP/s, ms, percent; NAN: none */
    double predicted_low, predicted_high; /* its interval; NAN: none */
    int fold;                             /* in which it was kept apart; -1: no split */
    double elapsed_us;    /* of the estimate alone, graph and counts there already */
    const char *interval; /* what [low_bytes, high_bytes] was made of; "" where there is none */
    double chance;        /* that the estimate gave of more than measured_bytes; NAN likewise */
    int64_t batch;        /* the job's; 0: its record says none */
    /* What the estimate says besides, as pl_demand has it; NAN likewise. */
    double step_ms, device_ms, host_ms, launches, smact, smocc, drama, tensor;
} pl_trial;

typedef struct pl_evaluation {
    const char *estimator, *target;
    size_t count; /* of trials, in the files' order: pl_evaluation_trial */
    pl_split split;
    int folds;          /* 0: no split */
    bool seen;          /* weights that may have been learnt from these very jobs: no proof */
    const char *remark; /* what must be said of these figures; NULL: nothing */
    double train_s;     /* seconds of training, all folds; NAN: none */
    int64_t elapsed_us; /* all of it */
} pl_evaluation;

typedef struct pl_evaluate_settings {
    size_t size;           /* of this struct; pl_evaluate_settings_default sets it */
    const char *estimator; /* default: pl_job_default's */
    const char *target;    /* default "memory"; "flops", "flop-rate", "step_ms", "smact", "smocc",
                              "drama", "tensor": of estimators that predict it */
    const pl_weights *weights; /* default NULL: the library's, or with a split trained anew */
    pl_split split;            /* default PL_SPLIT_NONE; estimators that do not learn ignore it */
    int folds;                 /* default 5; families: as many as there are */
    const char *options;       /* default "": behind the estimator's own, for training */
    uint64_t seed;             /* default 1: of the folds and of training */
    int64_t bin_bytes;         /* default 0: pl_jobs_bin_bytes; of classifiers and their strata */
    int threads;               /* default 0: one per core */
    /* Called after each job or epoch, by one thread at a time; default NULL. */
    void (*progress)(size_t done, size_t total, void *context);
    void *progress_context;
} pl_evaluate_settings;

void pl_evaluate_settings_default_sized(pl_evaluate_settings *settings, size_t size);
static inline void pl_evaluate_settings_default(pl_evaluate_settings *settings) {
    pl_evaluate_settings_default_sized(settings, sizeof *settings);
}

/* Every job through an estimator. A job that cannot be estimated is no failure: its trial says why.
 * On failure *out is NULL. */
pl_status pl_evaluate(pl_evaluation **out, const pl_jobs *jobs,
                      const pl_evaluate_settings *settings, pl_error *err);
void pl_evaluation_close(pl_evaluation **evaluation);
/* NULL past the end. */
const pl_trial *pl_evaluation_trial(const pl_evaluation *evaluation, size_t index);

/* Trials summed up. Errors are relative to what was measured; of counters, which are percent, they
 * are differences (0.03: three points). MSE to R2 are of megabytes (10^6 bytes), or of the target's
 * unit. NAN where there is nothing to say. */
typedef struct pl_scores {
    size_t size;                          /* of this struct: PL_SIZED(pl_scores) */
    size_t jobs;                          /* with an estimate and a measurement */
    double mse, rmse, mae, mape, r2;      /* mape in percent */
    double median, mean, p90;             /* of |error|, shares */
    double within_1, within_5, within_15; /* share of jobs with |error| up to 1, 5, 15 % */
    double inside;                        /* share of jobs with an interval that are inside it */
    double too_low;                       /* share of jobs more than 5 % too low */
    double above_high, width, exact; /* share above high; median (high - low) / peak; share exact */
    /* In bins of memory; of counters in paper 3's, by the jobs' families. The last three are
     * weighted by the classes. */
    double accuracy, precision, recall, f1;
    double high_recall; /* of counters: recall of the class high */
    double macro_f1;
    double below_diagonal; /* share put into a bin below the true one */
    double elapsed_us;     /* median */
} pl_scores;

/* keep: which trials count; NULL: all. false: out of memory, or out->size is not set. */
bool pl_evaluation_score(pl_scores *out, const pl_evaluation *evaluation, int64_t bin_bytes,
                         bool (*keep)(const pl_trial *trial, const void *context),
                         const void *context);
/* Rows the truth, columns the prediction: counts[classes * classes], malloc'ed, bins from the
 * lowest that occurs (*first) on; of counters the three levels. NULL: out of memory, or nothing to
 * count. */
uint64_t *pl_evaluation_confusion(const pl_evaluation *evaluation, int64_t bin_bytes,
                                  size_t *classes, int64_t *first);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
