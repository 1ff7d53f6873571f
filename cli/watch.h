/* watch: what the parts of the verb share: a sample of the cards, the jobs that are followed in it, and who writes it where. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <sys/types.h>

#include <plimsoll/live.h>

#include "core/json_writer.h"
#include "options.h"
#include "text.h"
#include "who.h"

/* One reading of everything. live is NULL where no card can be watched. */
typedef struct watch_sample {
    const pl_live *live;
    int64_t time_ms;  /* since 1970 */
    double seconds;   /* since the sample before */
    who **who;        /* [processes], as pl_live_process_at */
    const char **job; /* [processes]: names, or NULL: of none */
    size_t processes;
} watch_sample;

/* ---- jobs ---- */

enum { WATCH_UUID = 96 };

/* A mean by time. */
typedef struct watch_mean {
    double sum, seconds;
} watch_mean;
double watch_mean_of(const watch_mean *mean); /* NAN: nothing was added */

/* What a job took of a card. */
typedef struct watch_card {
    char uuid[WATCH_UUID], name[WATCH_UUID];
    int index, gpu_instance;
    int64_t peak_bytes,
        now_bytes; /* the most, and in this sample, of all its processes there; PL_UNKNOWN */
    int64_t account_bytes;  /* the most that accounting has of one of them */
    int most, now;          /* processes at a time */
    bool seen, unaccounted; /* seen: in this sample; unaccounted: accounting lacks one of them */
    double energy_from, energy_to, power_j; /* of the card, all that ran there included */
} watch_card;

typedef struct watch_process {
    int64_t pid;
    char uuid[WATCH_UUID];
} watch_process;

typedef struct watch_job {
    char name[256], user[33];
    watch_card *cards;
    size_t card_count;
    watch_process *processes; /* that it ever had, where listed is set: of a command */
    size_t process_count;
    bool listed;
    watch_mean smact, smocc, drama, tensor, gpu_util;
    int64_t samples;
    bool there;    /* in this sample */
    bool appeared; /* its processes are those that came meanwhile: ids are of another namespace */
    int64_t told_bytes, told_ms; /* what was posted last, and when; PL_UNKNOWN: nothing */
    int64_t there_ms;            /* when it was there last */
} watch_job;

typedef struct watch_jobs {
    watch_job **rows;
    size_t count;
} watch_jobs;

watch_job *watch_job_named(watch_jobs *jobs, const char *name); /* made where there is none */
void watch_jobs_drop(watch_jobs *jobs, size_t index);
void watch_jobs_free(watch_jobs *jobs);
/* Adds a sample to every job in it. */
void watch_jobs_add(watch_jobs *jobs, const watch_sample *sample);
/* For a command: its processes are kept, and the energy of every card from now on is its where it is seen there. */
void watch_job_begin(watch_job *job, const watch_sample *sample);

/* The most on any one card, and by what it is known. */
typedef enum watch_by { BY_NOTHING, BY_ACCOUNTING, BY_SAMPLES } watch_by;
typedef struct watch_peak {
    int64_t bytes; /* PL_UNKNOWN */
    watch_by by;
    const watch_card *card;
} watch_peak;
watch_peak watch_peak_of(const watch_job *job);
/* What accounting has of the job's processes and of those in pids, which may never have been sampled. */
void watch_job_account(watch_job *job, const pl_live *live, const int64_t *pids, size_t count);
/* Joules of the cards that it was on; *counted: by their counters. NAN: not known. */
double watch_energy_of(const watch_job *job, bool *counted);

/* ---- what is written ---- */

/* "0", of an instance "0:GI:CI" */
small_text watch_card_name(const pl_live_card *card);
small_text watch_percent(double percent);                       /* "78%"; "-" */
small_text watch_bytes(int64_t bytes);                          /* "1.53 GiB"; "-" */
void watch_json(pl_json_writer *j, const watch_sample *sample); /* one object */
void watch_prometheus(FILE *out, const watch_sample *sample);
void watch_lines(FILE *out, const watch_sample *sample, bool head);
/* As many rows and columns as there are. */
void watch_table(FILE *out, const watch_sample *sample, int64_t interval_ms, int rows, int columns,
                 bool in_place);

/* ---- a daemon ---- */

typedef struct watch_post {
    const char *where; /* as given */
    char host[256];    /* or a Unix socket's path */
    char port[16];
    char path[512];  /* what stands before /v1 */
    char named[300]; /* "HOST:PORT" as requests have it */
    bool local;
    const char *token; /* NULL: none */
    int64_t next_ms;   /* not before, on the clock that only goes forward */
    int64_t wait_ms;
    bool said; /* that it does not answer */
} watch_post;

/* Reads --post. 0, or an exit code after complaining. */
int watch_post_open(watch_post *post, const char *where);
/* A report of a job to /v1/jobs, within a second; false: it did not arrive, which is said once. */
bool watch_post_send(watch_post *post, const char *body, size_t length);
/* Whether it is worth trying now. */
bool watch_post_due(const watch_post *post);

/* ---- a command ---- */

typedef struct watch_prediction {
    int64_t peak_bytes; /* PL_UNKNOWN */
} watch_prediction;

/* What --predicted, --predict or --predict-script say of it. gpu: the card's name as the driver has it, or "".
 * 0, or PL_USAGE; what fails otherwise is said, and the prediction is unknown. */
int watch_predict(watch_prediction *out, const request *r, const char *gpu);

typedef struct watch_child {
    pid_t pid;
    int go;     /* a byte here and it starts */
    int failed; /* errno here where it cannot */
    bool ended;
    int status;      /* as waitpid has it */
    int64_t *reaped; /* pids that have ended here */
    size_t reaped_count;
} watch_child;

/* Makes the process, which waits: before anything is opened or blocked that it should not have. */
bool watch_child_make(watch_child *child, char *const *command);
/* Lets it run. 0, or 126 or 127 with *why set, as shells have it. */
int watch_child_start(watch_child *child, int *why);
/* Takes what has ended, of its own and of those that it left behind. */
void watch_child_reap(watch_child *child);
int watch_child_code(const watch_child *child); /* as shells have it: 128 + a signal's number */
void watch_child_free(watch_child *child);

#endif
