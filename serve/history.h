/* history: what the daemon has seen, in SQLite: models by their digest, and jobs as they were submitted,
 * started, seen and ended. What was acknowledged is on the disk.
 *
 * One thread writes, all that waits in one transaction, so that many requests share one flush. */
#ifndef PLIMSOLL_SERVE_HISTORY_H
#define PLIMSOLL_SERVE_HISTORY_H

#include <plimsoll/service.h>

#include "config.h"

typedef struct history history;

/* c->data: made where it is not there; "": in memory, for as long as the process lives. */
pl_status history_open(history **out, const config *c, pl_error *err);
/* The folder of a daemon, to be looked at alone. */
pl_status history_open_read(history **out, const char *folder, pl_error *err);
void history_close(history **h); /* once nobody asks any more; what waits is written */

typedef enum history_state {
    JOB_SUBMITTED,
    JOB_STARTED,
    JOB_SEEN,
    JOB_ENDED,
    JOB_STATES
} history_state;
const char *history_state_name(history_state state);

/* One report of a job. PL_UNKNOWN and NAN: not said. Strings may be NULL. */
typedef struct history_event {
    const char *job; /* its name where it runs: "slurm:cluster:1234" */
    history_state state;
    int64_t at_ms;                           /* since 1970 */
    const char *user, *gpu, *family, *model; /* model: a digest */
    int64_t predicted_bytes, upper_bytes;    /* of its estimate */
    double predicted_step_ms;
    int64_t peak_bytes; /* seen */
    double step_ms, smact, smocc, drama;
    int64_t exit_code;
    const char *settings; /* of its estimate, JSON */
} history_event;

/* Something to be written: the first member of what the caller hands over, which stays the caller's
 * until done is called, by the writing thread, with whether it is on the disk. */
typedef struct history_write {
    struct history_write *next;
    void (*done)(struct history_write *write, bool kept);
    const history_event *event; /* this, or a model: */
    const char *digest, *name;
    const void *bytes;
    size_t size;
} history_write;

void history_add(history *h, history_write *write);
/* The same, waited for. */
bool history_add_now(history *h, history_write *write);

/* *bytes is malloc'ed. */
bool history_model(history *h, const char *digest, char name[128], void **bytes, size_t *size);

/* The last `most` jobs, those of one state alone (JOB_STATES: all) or of one name (NULL: all), newest first:
 * a JSON object, malloc'ed. NULL: it could not be read. */
char *history_jobs(history *h, history_state state, const char *job, int64_t most);

/* As pl_service_settings.seen. */
size_t history_seen(history *h, const char *gpu, const char *family, const char *digest,
                    pl_seen *jobs, size_t room);

typedef struct history_pair {
    const char *job, *gpu, *family, *model; /* "": not said */
    int64_t predicted_bytes, upper_bytes, peak_bytes, ended_ms;
    double predicted_step_ms, step_ms; /* 0: not said */
} history_pair;

/* Each job that ended well with both figures, the oldest first; row: false ends it. False: not all were read. */
bool history_compared(history *h, bool (*row)(void *context, const history_pair *pair),
                      void *context);

typedef struct history_figures {
    int64_t models, jobs, ended;     /* ended: with a real peak and a predicted one */
    int64_t above_upper;             /* of these, real above upper_bytes */
    double error_median, error_mean; /* |real - predicted| / predicted; NAN: none */
    double step_error_median;        /* of step times */
    int64_t failed_writes;           /* reports and models that were not stored */
} history_figures;

bool history_count(history *h, history_figures *out);

#endif
