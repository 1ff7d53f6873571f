/* service: one request in, one response out: what the daemon answers, and whatever else has HTTP's words
 * but no server of its own (a web page with the library inside, tests).
 *
 * Requests and responses are JSON, described in docs/serve.md and served as /openapi.json. Nothing here
 * opens a file or a socket. */
#ifndef PLIMSOLL_SERVICE_H
#define PLIMSOLL_SERVICE_H

#include <plimsoll/plimsoll.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Models and answers that were asked for; may be shared by threads. */
typedef struct pl_service pl_service;

/* ---- learning from what happened ---- */

/* A job that ended: what was predicted and what was seen. */
typedef struct pl_seen {
    int64_t predicted_bytes, peak_bytes; /* PL_UNKNOWN: not said */
    bool same_family, same_model;        /* as the job that is asked about */
    double predicted_step_ms, step_ms;   /* 0 or NAN: not said */
} pl_seen;

/* What a fleet's jobs say of its next estimate: (peak * factor) + offset_bytes. */
typedef struct pl_correction {
    size_t size;  /* of this struct: PL_SIZED(pl_correction) */
    int64_t jobs; /* that it rests on; 0: nothing is corrected */
    int64_t
        left_out; /* reports that no estimate is that far from: four times as much, or a fourth */
    int64_t offset_bytes; /* of the card: another driver's context, another library */
    double factor;        /* of the family and of the model on that card */
    /* Shares of the corrected peak that the truth was below and above it: quantiles of the jobs' errors,
     * for an interval that holds 95 %; NAN: too few jobs, and the estimate's own hold. */
    double below, above;
    /* Of step times: (step_ms * step_factor), of the card, the family and the model. step_jobs 0: nothing is
     * corrected. */
    int64_t step_jobs;
    double step_factor, step_below, step_above;
} pl_correction;

/* jobs: of one kind of card, the newest first; the first 256 count. Medians, so that a wrong report moves little;
 * bounded (docs/serve.md). */
void pl_correction_of(pl_correction *out, const pl_seen *jobs, size_t count);
/* An estimate's figures, corrected; each may be PL_UNKNOWN. */
void pl_correction_apply(const pl_correction *correction, int64_t *low_bytes, int64_t *peak_bytes,
                         int64_t *high_bytes);
/* Likewise; what is unknown stays so. */
void pl_correction_apply_step(const pl_correction *correction, pl_figure *step_ms);

typedef struct pl_service_settings {
    size_t size; /* of this struct; pl_service_settings_default sets it */
    size_t
        model_bytes; /* default 1 GiB: models kept in memory, the least recently asked go first */
    size_t answer_bytes; /* default 64 MiB: answers kept, likewise */
    /* Of one request. Default: pl_limits_default's, 1 GiB of memory, 10,000 ms */
    pl_limits limits;
    const pl_catalogue *catalogue; /* default NULL: cards of one's own, kept by pointer */
    /* Where models stay beyond memory; default NULL: nowhere. Called from any thread. keep: true once
     * they are safe; under a digest that is there already nothing has to be done. find: *bytes is
     * malloc'ed; false: there is none. */
    bool (*keep)(void *context, const char *digest, const char *name, const void *bytes,
                 size_t size);
    bool (*find)(void *context, const char *digest, char name[128], void **bytes, size_t *size);
    void *context;
    /* What this fleet's jobs have taken, of a kind of card; default NULL: nobody knows. Fills at most `room`
     * rows, the newest first, and gives how many. digest: "" where the model has none. */
    size_t (*seen)(void *context, const char *gpu, const char *family, const char *digest,
                   pl_seen *jobs, size_t room);
} pl_service_settings;

void pl_service_settings_default_sized(pl_service_settings *settings, size_t size);
static inline void pl_service_settings_default(pl_service_settings *settings) {
    pl_service_settings_default_sized(settings, sizeof *settings);
}

/* settings: NULL for defaults. On failure *out is NULL. */
pl_status pl_service_open(pl_service **out, const pl_service_settings *settings, pl_error *err);
void pl_service_close(pl_service **service); /* once nobody asks any more */

typedef struct pl_request {
    size_t size;        /* of this struct: PL_SIZED(pl_request) */
    const char *method; /* "POST" */
    const char *path;   /* "/v1/estimate", without what stands behind a ? */
    const char *name;   /* of a model that is posted, for messages; NULL: "model" */
    const void *body;
    size_t body_size;
    /* NULL, or asked now and then: not 0 gives up. */
    int (*cancelled)(void *context);
    void *cancel_context;
} pl_request;

typedef struct pl_response {
    size_t size;      /* of this struct: PL_SIZED(pl_response) */
    int status;       /* as HTTP has it */
    const char *type; /* "application/json", "application/problem+json"; static */
    const char *body; /* [length], and a 0 behind it */
    size_t length;
    const char *route; /* for counting: "/v1/models/{digest}"; "" where there is none. Static */
    bool known;        /* answered before, and taken from there */
    struct pl_answer *owner;
} pl_response;

/* Always fills *out, which is to be closed. A failure is a response too: its body is RFC 9457's problem
 * details with plimsoll's code, place and position. */
void pl_service_answer(pl_service *service, const pl_request *request, pl_response *out);
/* The same where the answer is there already: false, and *out untouched, where it would have to be
 * computed. Takes microseconds. */
bool pl_service_known(pl_service *service, const pl_request *request, pl_response *out);
void pl_response_close(pl_response *response);
/* What `seen` says of that kind of card has changed: answers that went by it are not given any more, a second
 * later at the latest. */
void pl_service_learned(pl_service *service, const char *gpu);
/* Whether there is such a path, of that method. */
bool pl_service_takes(const char *method, const char *path);

typedef struct pl_service_counts {
    size_t size; /* of this struct: PL_SIZED(pl_service_counts) */
    size_t models, model_bytes, answers, answer_bytes;       /* in memory */
    uint64_t answers_found, answers_missed, answers_dropped; /* dropped: to make room */
} pl_service_counts;
void pl_service_count(pl_service *service, pl_service_counts *out);

/* A problem in the form of pl_service_answer's, for what happens before a request is one (too large, no
 * token). code: "limit", "denied", ... */
void pl_response_problem(pl_response *out, int status, const char *code, const char *detail);
/* The same, of an error. */
void pl_response_failed(pl_response *out, int status, const pl_error *err);

/* The paths, by index; NULL past the end. Methods: "GET POST". */
const char *pl_service_route(size_t index, const char **methods);

/* What a model is known by: "sha256:" and 64 hexadecimal digits, and a 0: 72 bytes. */
enum { PL_DIGEST_ROOM = 72 };
void pl_digest_of(char *out, size_t room, const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif

#endif
