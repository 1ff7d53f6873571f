/* options: the verbs and their options, one table. Parsing, --help, the manual page and the shell
 * completions are all made from it (options.c, help.c, completions.c). */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <plimsoll/plimsoll.h>

typedef enum verb {
    VERB_ESTIMATE,
    VERB_EXPLAIN,
    VERB_CHECK,
    VERB_FIT,
    VERB_EVALUATE,
    VERB_GPUS,
    VERBS,
    VERB_NONE = VERBS, /* plimsoll --help and --version */
} verb;

/* What the command line asked for. Strings are argv's. */
typedef struct request {
    verb verb;
    const char *file; /* the operand, or NULL */
    pl_job job;
    bool json, help, version;
    const char *timeline, *graphs, *csv, *scatter;
    int64_t most, threads;
} request;

/* The library's bounds. */
enum { MOST_PASSES = 4096, MOST_THREADS = 256, MOST_RANKS = 1 << 14 };

/* How an option's argument is read, and where in the request it goes. */
typedef enum option_type {
    OPTION_SWITCH,    /* bool: no argument */
    OPTION_COUNT,     /* int64_t: a whole number from 1 on */
    OPTION_PASSES,    /* int: from 1 to MOST_PASSES */
    OPTION_THREADS,   /* int64_t: from 1 to MOST_THREADS */
    OPTION_TEXT,      /* const char * */
    OPTION_FILE,      /* const char *: completed as a file */
    OPTION_FOLDER,    /* const char *: completed as a folder */
    OPTION_NAME,      /* const char *: one of names */
    OPTION_GPU,       /* const char *: one of names, or another way to write one */
    OPTION_PRECISION, /* pl_precision: one of names */
    OPTION_LOSS,      /* pl_loss: one of names */
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
    const char *operand; /* "FILE", or NULL: none */
    const char *summary; /* one line */
    const char *text;    /* a paragraph for --help and the manual */
} verb_row;

extern const verb_row verb_table[VERBS];
extern const option_row option_table[];
extern const size_t option_count;

const char *gpu_name(size_t index); /* as pl_gpu_at */
const char *loss_name(size_t index);

/* Fills *out. 0, or an exit code after complaining. */
int options_parse(request *out, int argc, char **argv);

/* The candidate nearest to word in spelling, or NULL where none is near. */
const char *nearest_name(const char *word, const char *const *candidates, size_t count);

#endif
