/* comparison: estimators on the same measured jobs, side by side, and what is summed up of them. */
#ifndef CLI_COMPARISON_H
#define CLI_COMPARISON_H

#include "options.h"
#include "text.h"

/* One estimator: its evaluation, or why it has none. */
typedef struct contender {
    const pl_estimator_info *info;
    pl_evaluation *evaluation; /* NULL: left out */
    char *left_out;            /* why; NULL with an evaluation */
    pl_scores all;             /* of its jobs */
    pl_scores real;            /* of those with a real model */
    bool narrow;               /* made for some of the jobs: has less than half of the estimates */
    pl_scores common;          /* of the jobs that all but the narrow have an estimate of */
} contender;

typedef struct comparison {
    const request *request;
    char *command; /* that made it */
    size_t jobs;
    int64_t bin_bytes;
    const char *target; /* what is predicted: "memory", "flops", "step_ms", ... */
    contender *list;    /* once ranked: by rank_of, those left out last */
    size_t count, ran;
    bool split;         /* by model or family: models are unseen by what learns */
    size_t common_jobs; /* jobs that all but the narrow have an estimate of */
    bool differ;        /* estimators have estimates of different jobs */
    char **remarks;     /* a sentence each, no full stop */
    size_t remark_count;
} comparison;

/* Scores every contender, sorts them, and finds what has to be said of them. */
void comparison_rank(comparison *c);
void comparison_free(comparison *c);

/* ---- what the figures are made of ---- */

/* Whether a trial has an estimate and a measurement to hold it against. */
bool trial_counts(const pl_trial *trial);
bool trial_is_real(const pl_trial *trial); /* a model of torchvision or transformers */
/* (predicted - measured) / measured; of counters, which are percent, the difference / 100. */
double trial_error(const char *target, const pl_trial *trial);
typedef enum target_kind {
    KIND_MEMORY,   /* bytes, relative errors, bins of memory */
    KIND_RELATIVE, /* another unit, relative errors */
    KIND_POINTS,   /* percent, differences, paper 3's classes */
} target_kind;
target_kind target_kind_of(const char *target);
bool target_is_memory(const char *target);
bool target_is_counter(const char *target);
/* What MSE to MAE are in: "MB", "GFLOP", "GFLOP/s", "ms", "points" */
const char *target_unit(const char *target);
/* "peak GPU memory", "compute of a step", "compute rate", ... */
const char *target_title(const char *target);
/* A measured or predicted figure in words. */
small_text target_text(const char *target, double value);
/* The same of peak_allocated; NAN where either is not known. */
double trial_allocated_error(const pl_trial *trial);
size_t trials_without_graph(const pl_evaluation *e);
size_t trials_unmeasured(const pl_evaluation *e); /* without what the target is */
size_t trials_cut_off(const pl_evaluation *e);    /* by --max-memory or --max-time */
/* What estimators are ranked by, the least first: the median error, of counters the mean. */
double rank_of(const char *target, const pl_scores *scores);

typedef struct grouping {
    const char *name;
    const char *(*key)(const pl_trial *);
} grouping;
enum { GROUPINGS = 4, MOST_GROUPS = 64 };
extern const grouping groupings[GROUPINGS]; /* family, source, precision, optimizer */

/* The different values of a key, sorted; at most MOST_GROUPS. 0 where no job has any. */
size_t group_values(const pl_evaluation *e, const grouping *g, const char **values);
pl_scores scores_of(const pl_evaluation *e, int64_t bin_bytes);
pl_scores scores_of_group(const pl_evaluation *e, const grouping *g, const char *value);
/* jobs, median, mean, p90, too_low and exact of trial_allocated_error; the rest is NAN. */
pl_scores scores_of_allocated(const pl_evaluation *e);

enum { WORST = 20 };
/* At most WORST trials, the worst first. */
size_t worst_trials(const pl_evaluation *e, const pl_trial **worst);

/* ---- what is printed and written of it (scoreboard.c, export.c, markdown.c, bars.c, scatter.c) */

typedef enum scope { SCOPE_ALL, SCOPE_REAL, SCOPE_COMMON } scope;
const pl_scores *scores_in(const contender *of, scope s);
/* "all jobs", "unseen real models (torchvision, transformers)", ... */
const char *scope_title(const comparison *c, scope s);
/* Whether there is anything to show. */
bool scope_shown(const comparison *c, scope s);

table *ranking_table(const comparison *c, scope s);
table *bins_table(const comparison *c);
/* Medians: a row per estimator, a column per group. NULL: there are no groups. */
table *median_table(const comparison *c, const grouping *g);
table *group_table(const pl_evaluation *e, const grouping *g);
table *worst_table(const pl_evaluation *e);
/* Of counters the levels. NULL: too many bins to be read, or none. */
table *confusion_table(const pl_evaluation *e, int64_t bin_bytes);
bool shows_bins(const comparison *c, const contender *of);

void print_comparison(const comparison *c);
void print_failures(const pl_evaluation *e);

/* whole: false where the object is part of another, without a schema and a line of its own. */
void comparison_json(const comparison *c, FILE *out, bool whole);
/* These return 0, or an exit code after complaining. */
int comparison_csv(const comparison *c, const char *path);
/* Kinds of jobs for simulate: what was measured, and what each estimator says. */
int comparison_sizes(const comparison *c, const char *path);
int comparison_markdown(const comparison *c, const char *path);
int bars_write(const comparison *c, const char *path);
int scatter_write(const comparison *c, const char *path);

#endif
