/* options: the verbs and their options, one table. Parsing, --help, the manual page and the shell
 * completions are all made from it (options.c, help.c, completions.c). */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <plimsoll/lab.h>

typedef enum verb {
    VERB_ESTIMATE,
    VERB_EXPLAIN,
    VERB_CHECK,
    VERB_FIT,
    VERB_COLLOCATE,
    VERB_PLACE,
    VERB_SIMULATE,
    VERB_CONVERT,
#if PLIMSOLL_LAB
    VERB_EVALUATE,
    VERB_TRAIN,
#endif
    VERB_ESTIMATORS,
    VERB_GPUS,
    VERB_WATCH,
    VERB_SERVE,
    VERB_HISTORY,
    VERBS,
    VERB_NONE = VERBS, /* plimsoll --help and --version */
#if !PLIMSOLL_LAB
    VERB_EVALUATE, /* not in this build: their options are no verb's */
    VERB_TRAIN,
#endif
} verb;

/* The command's own bounds: files it takes, folds, MiB of a bin. A job's are pl_job_check's. */
enum { MOST_THREADS = 256, MOST_FILES = 64, MOST_FOLDS = 1000, MOST_BIN = 1 << 20 };
enum { MOST_NUMBERS = 64 };

typedef struct file_list {
    const char *names[MOST_FILES];
    size_t count;
} file_list;

/* "1,2,4", "512..8192" (doubling), "512..2048:512" (in steps). */
typedef struct number_list {
    int64_t numbers[MOST_NUMBERS];
    size_t count; /* 0: not given */
} number_list;

/* What fit looks for: the option whose value is a ?. */
typedef enum sought {
    SOUGHT_NOTHING, /* the largest batch, where it is open */
    SOUGHT_BATCH,
    SOUGHT_SEQ,
    SOUGHT_WORLD,
    SOUGHT_GPU,
} sought;

/* What the command line asked for. Strings are argv's. */
typedef struct request {
    verb verb;
    const char *file; /* the first operand, or NULL */
    file_list files;  /* the operands */
    pl_job job;
    pl_model_settings settings; /* how the model is read */
    pl_limits limits;           /* of all that the command does */
    int64_t max_ms;             /* 0: no limit */
    number_list batches, seqs;  /* of estimate: the first is the job's */
    const char *estimator;      /* as given: a name, of evaluate a list; NULL: not given */
    bool json, help, version, described, time;
    const char *gpus; /* of --gpus: a file, or NULL */
    const char *timeline, *times, *csv, *scatter, *bars, *report, *model, *out, *curve, *heatmap;
    file_list jobs;   /* of --jobs */
    file_list graphs; /* of --graphs */
    pl_sharing sharing;
    const char *cluster, *policy;              /* of place and simulate; NULL: not given */
    double place_risk, most_slowdown;          /* 0: not given */
    const char *trace, *sizes, *guess, *chart; /* of simulate; sizes of evaluate too */
    int64_t backfill, crashes;                 /* 0: not given */
    int64_t patience_ms, peak_ms;              /* likewise */
    sought sought;                             /* of fit */
    int64_t most, threads;                     /* most: 0: not given */
    pl_split split;
    int64_t folds, bin; /* 0: not given; bin in MiB */
    uint64_t seed;
    double hold_out;                  /* -1: not given */
    const char *target, *set;         /* NULL: not given */
    int64_t interval_ms, duration_ms; /* of watch; 0: not given */
    int64_t predicted;                /* bytes; 0: not given */
    const char *prometheus, *post, *name, *predict;
    bool predict_script;
    char **command; /* behind --, of watch alone; ends with NULL. NULL: none */
    int argc;       /* as main got them */
    char **argv;
    pl_catalogue *own_cards; /* of --gpus, or NULL */
    pl_gpu *card;            /* of --gpu; job.gpu is its name */
} request;

/* How an option's argument is read, and where in the request it goes. */
typedef enum option_type {
    OPTION_SWITCH,    /* bool: no argument */
    OPTION_COUNT,     /* int64_t: a whole number from 1 on */
    OPTION_NUMBERS,   /* number_list: whole numbers from 1 on */
    OPTION_FOLDS,     /* int64_t: from 2 to MOST_FOLDS */
    OPTION_BIN,       /* int64_t: from 1 to MOST_BIN */
    OPTION_SEED,      /* uint64_t: a whole number */
    OPTION_SHARE,     /* double: from 0 to below 1 */
    OPTION_RATE,      /* double: a number, or "inf" */
    OPTION_PASSES,    /* int: a whole number from 1 on */
    OPTION_BYTES,     /* size_t: "256MiB", "2GiB", "65536", less the program's own */
    OPTION_SIZE,      /* int64_t, bytes: the same, all of it */
    OPTION_TIME,      /* int64_t, milliseconds: "2s", "500ms" */
    OPTION_THREADS,   /* int64_t: from 1 to MOST_THREADS */
    OPTION_TEXT,      /* const char * */
    OPTION_FILE,      /* const char *: completed as a file */
    OPTION_FILES,     /* file_list: a file more */
    OPTION_FOLDERS,   /* file_list: a folder more */
    OPTION_NAME,      /* const char *: one of names */
    OPTION_TASK,      /* const char *: one of names, a picture's size behind it */
    OPTION_NAMES,     /* const char *: some of names, commas between them */
    OPTION_GPU,       /* const char *: a card, which may be one of names */
    OPTION_PRECISION, /* pl_precision: one of names, or another way to write one */
    OPTION_OPTIMIZER, /* const char *: the same */
    OPTION_LOSS,      /* pl_loss: one of names */
    OPTION_LOAD,      /* pl_load: one of names */
    OPTION_SPLIT,     /* pl_split: one of names */
    OPTION_RISK,      /* double: percent here, a share there */
    OPTION_SHARING,   /* pl_sharing: one of names */
    OPTION_PARALLEL,  /* the job's parallel fields */
} option_type;

typedef struct option_row {
    unsigned verbs; /* 1 << verb; ALL_VERBS | 1 << VERB_NONE: everywhere */
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* "N"; NULL: a switch */
    option_type type;
    size_t place;                 /* offset in request */
    const char *(*names)(size_t); /* allowed values, or NULL: any */
    const char *standard;         /* the default, for people; NULL: none */
    const char *help;             /* one sentence, no full stop */
} option_row;

typedef struct verb_row {
    const char *name;
    const char *operand;          /* "FILE", or NULL: none */
    size_t least, most;           /* operands */
    const char *summary;          /* one line */
    const char *text;             /* a paragraph for --help and the manual */
    const char *(*names)(size_t); /* what the operand is one of; NULL: a file */
} verb_row;

extern const verb_row verb_table[VERBS];
extern const option_row option_table[];
extern const size_t option_count;

const char *gpu_name(size_t index);           /* as pl_gpu_at */
const char *learner_name(size_t index);       /* estimators that learn */
const char *evaluated_name(size_t index);     /* estimators, behind them "all" */
const char *split_name(size_t index);         /* index: a pl_split */
const char *trained_split_name(size_t index); /* those that --hold-out can be chosen by */
const char *target_name(size_t index);
const char *sharing_name(size_t index);
const char *policy_name(size_t index); /* index: a pl_sharing */
const char *load_name(size_t index);   /* ways to load a model, but auto */

/* The default, for people: the table's, of --estimator the library's. NULL: none. */
const char *option_standard(const option_row *row);
/* "FILE", "A B", "JOBS...", "[NAME]"; "" where the verb takes none. */
const char *verb_operand(verb v);
/* " [-- COMMAND...]": what stands behind the options; "" */
const char *verb_behind(verb v);

/* Fills *out. 0, or an exit code after complaining. */
int options_parse(request *out, int argc, char **argv);

/* What options_parse opened, whatever it returned. */
void options_close(request *r);

/* The command line again, for a shell: "plimsoll train ...", words quoted where they need it.
 * malloc'ed. */
char *options_command(const request *r);

/* Complains that `what` has no such name; says which there are, the likeliest first. PL_USAGE. */
int unknown_name(const char *what, const char *noun, const char *(*names)(size_t),
                 const char *given);
/* Text of all names, ", " between them. */
void list_names(char *out, size_t size, const char *(*names)(size_t));

/* The candidate nearest to word in spelling, or NULL where none is near. */
const char *nearest_name(const char *word, const char *const *candidates, size_t count);

#endif
