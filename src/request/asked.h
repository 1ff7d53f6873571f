/* asked: the JSON object of a request, read: which model, and a job's settings by the names that pl_job's
 * members, Python and the remedies have for them. */
#ifndef PL_REQUEST_ASKED_H
#define PL_REQUEST_ASKED_H

#include "import/json.h"

enum { PL_ASKED_JOBS = 64 };

typedef struct pl_asked {
    pl_arena *arena; /* holds the strings */
    pl_job job;
    const char *digest;      /* "sha256:...", of a model that is known; NULL: */
    const char *inline_text; /* the model itself, JSON within the request: [inline_size] */
    size_t inline_size;
    const char *task, *attention;
    bool gpu_given;
    /* of a search */
    const char *what; /* "batch", "seq", "world" or "gpu" */
    int64_t most;
    /* of placement */
    const char *cluster; /* its object: [cluster_size] */
    size_t cluster_size;
    pl_place_settings place;
    /* of collocation and placement: each a request's object, or an estimate's: [job_sizes[i]] */
    const char *jobs[PL_ASKED_JOBS];
    size_t job_sizes[PL_ASKED_JOBS];
    int job_count;
    pl_sharing sharing;
} pl_asked;

/* Fills *out, whose arena is set; text is kept by pointer. PL_INPUT with the byte, or PL_USAGE with the
 * member. */
pl_status pl_asked_read(pl_asked *out, const char *text, size_t size, pl_error *err);

#endif
