/* asked: see asked.h. A member is a row of a table: its name, its kind and its place. Unknown members are
 * refused with the nearest name, so that a misspelt setting is not silently left out. */
#include "request/asked.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/nearest.h"

enum { MOST_NESTING = 512, MOST_NAME = 64 };

typedef enum kind {
    COUNT,   /* int64_t, from 1 on */
    WHOLE,   /* int, from 1 on */
    FLAG,    /* bool */
    REAL,    /* double */
    TEXT,    /* const char * */
    NAMED,   /* by a function of its own */
    MODEL,   /* a digest, or an object */
    SHARED,  /* the jobs of collocation and placement */
    CLUSTER, /* an object */
} kind;

typedef struct member {
    const char *name;
    kind kind;
    size_t at;                                                          /* in pl_asked */
    pl_status (*read)(pl_asked *out, const char *value, pl_error *err); /* NAMED */
} member;

static pl_status no_such(pl_error *err, const char *member, const char *value) {
    return pl_fail(err, PL_USAGE, member, -1, "no such name: %.100s", value);
}

static pl_status read_precision(pl_asked *out, const char *value, pl_error *err) {
    return pl_precision_read(&out->job.precision, value, err);
}

static pl_status read_loss(pl_asked *out, const char *value, pl_error *err) {
    return pl_loss_parse(value, &out->job.loss) ? PL_OK : no_such(err, "loss", value);
}

static pl_status read_load(pl_asked *out, const char *value, pl_error *err) {
    return pl_load_parse(value, &out->job.load) ? PL_OK : no_such(err, "load", value);
}

static pl_status read_parallel(pl_asked *out, const char *value, pl_error *err) {
    return pl_parallel_parse(value, &out->job) ? PL_OK : no_such(err, "parallel", value);
}

static pl_status read_sharing(pl_asked *out, const char *value, pl_error *err) {
    return pl_sharing_parse(value, &out->sharing) ? PL_OK : no_such(err, "sharing", value);
}

static pl_status read_policy(pl_asked *out, const char *value, pl_error *err) {
    return pl_policy_parse(value, &out->place.policy) ? PL_OK : no_such(err, "policy", value);
}

#define JOB(m) offsetof(pl_asked, job) + offsetof(pl_job, m)
#define OWN(m) offsetof(pl_asked, m)
static const member members[] = {
    {"model", MODEL, 0, NULL},
    {"batch", COUNT, JOB(batch), NULL},
    {"seq", COUNT, JOB(seq), NULL},
    {"precision", NAMED, 0, read_precision},
    {"optimizer", TEXT, JOB(optimizer), NULL},
    {"train", TEXT, JOB(train), NULL},
    {"loss", NAMED, 0, read_loss},
    {"checkpoint", FLAG, JOB(checkpoint), NULL},
    {"accumulate", WHOLE, JOB(accumulate), NULL},
    {"channels_last", FLAG, JOB(channels_last), NULL},
    {"cudnn_benchmark", FLAG, JOB(cudnn_benchmark), NULL},
    {"alloc_conf", TEXT, JOB(alloc_conf), NULL},
    {"parallel", NAMED, 0, read_parallel},
    {"load", NAMED, 0, read_load},
    {"gpu", TEXT, JOB(gpu), NULL},
    {"estimator", TEXT, JOB(estimator), NULL},
    {"host_speed", REAL, JOB(host_speed), NULL},
    {"copy_gbps", REAL, JOB(copy_gbps), NULL},
    {"risk", REAL, JOB(risk), NULL},
    {"task", TEXT, OWN(task), NULL},
    {"attention", TEXT, OWN(attention), NULL},
    {"what", TEXT, OWN(what), NULL},
    {"most", COUNT, OWN(most), NULL},
    {"jobs", SHARED, 0, NULL},
    {"sharing", NAMED, 0, read_sharing},
    {"cluster", CLUSTER, 0, NULL},
    {"policy", NAMED, 0, read_policy},
    {"most_risk", REAL, OWN(place.risk), NULL},
    {"most_slowdown", REAL, OWN(place.most_slowdown), NULL},
    {"most_jobs", COUNT, OWN(place.most_jobs), NULL},
};
enum { MEMBERS = sizeof members / sizeof *members };

/* ---- values ---- */

/* The value passed over, as it stands: the text of an object within the request. */
static bool take_value(pl_json *json, const char **text, size_t *size) {
    pl_json_peek(json); /* to its first byte */
    const char *from = json->at;
    if (!pl_json_skip(json)) return false;
    *text = from;
    *size = (size_t)(json->at - from);
    return true;
}

static bool read_copy(pl_json *json, pl_arena *arena, const char **out) {
    pl_json_text text;
    if (!pl_json_string(json, &text)) return false;
    *out = pl_json_copy(arena, &text, NULL);
    return *out || pl_json_fail(json, "less text: out of memory");
}

static bool read_model(pl_json *json, pl_asked *out) {
    if (pl_json_peek(json) == '"') return read_copy(json, out->arena, &out->digest);
    if (pl_json_peek(json) != '{')
        return pl_json_fail(json, "a model's digest, or a model as an object");
    return take_value(json, &out->inline_text, &out->inline_size);
}

static bool read_jobs(pl_json *json, pl_asked *out) {
    out->job_count = 0;
    if (!pl_json_list(json)) return false;
    while (pl_json_item(json)) {
        if (out->job_count == PL_ASKED_JOBS) return pl_json_fail(json, "fewer jobs: at most 64");
        if (pl_json_peek(json) != '{') return pl_json_fail(json, "a job, an object");
        int i = out->job_count++;
        if (!take_value(json, &out->jobs[i], &out->job_sizes[i])) return false;
    }
    return !json->failure;
}

static bool read_number(pl_json *json, const member *m, char *to) {
    int64_t value;
    bool exact = true;
    if (m->kind == REAL) {
        double real;
        if (!pl_json_number(json, &real)) return false;
        if (real < 0) return pl_json_fail(json, "a number from 0 on");
        memcpy(to, &real, sizeof real);
        return true;
    }
    if (!pl_json_int(json, &value, &exact)) return false;
    if (value < 1 || !exact || (m->kind == WHOLE && value > INT32_MAX))
        return pl_json_fail(json, "a whole number from 1 on");
    if (m->kind == WHOLE) {
        int whole = (int)value;
        memcpy(to, &whole, sizeof whole);
    } else {
        memcpy(to, &value, sizeof value);
    }
    return true;
}

/* False: json says what is wrong with the text, or *status what with the value. */
static bool read_member(pl_json *json, const member *m, pl_asked *out, pl_status *status,
                        pl_error *err) {
    char *to = (char *)out + m->at;
    const char *text;
    if (pl_json_peek(json) == 'n') return pl_json_null(json); /* the default */
    switch (m->kind) {
    case MODEL: return read_model(json, out);
    case SHARED: return read_jobs(json, out);
    case CLUSTER:
        if (pl_json_peek(json) != '{') return pl_json_fail(json, "a cluster, an object");
        return take_value(json, &out->cluster, &out->cluster_size);
    case FLAG: {
        bool flag;
        if (!pl_json_bool(json, &flag)) return false;
        memcpy(to, &flag, sizeof flag);
        return true;
    }
    case TEXT:
    case NAMED:
        if (!read_copy(json, out->arena, &text)) return false;
        if (m->kind == NAMED) return (*status = m->read(out, text, err)) == PL_OK;
        memcpy(to, &text, sizeof text);
        return true;
    default: return read_number(json, m, to);
    }
}

static pl_status unknown_member(pl_error *err, const pl_json_text *key) {
    char name[MOST_NAME] = "";
    snprintf(name, sizeof name, "%.*s", key->length < MOST_NAME ? (int)key->length : MOST_NAME - 1,
             key->bytes);
    const char *names[MEMBERS];
    for (size_t i = 0; i < MEMBERS; i++) names[i] = members[i].name;
    const char *near = pl_nearest(name, names, MEMBERS);
    return pl_fail(err, PL_USAGE, name, -1, "no such member of a request%s%s%s",
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static pl_status read_members(pl_asked *out, pl_json *json, pl_error *err) {
    pl_json_text key;
    pl_status status = PL_OK;
    if (!pl_json_object(json)) return PL_OK; /* json says why */
    while (status == PL_OK && pl_json_key(json, &key)) {
        size_t i = 0;
        while (i < MEMBERS && !pl_json_is(&key, members[i].name, strlen(members[i].name))) i++;
        if (i == MEMBERS) return unknown_member(err, &key);
        if (!read_member(json, &members[i], out, &status, err)) return status;
        out->gpu_given |= strcmp(members[i].name, "gpu") == 0;
    }
    return status;
}

pl_status pl_asked_read(pl_asked *out, const char *text, size_t size, pl_error *err) {
    pl_arena *arena = out->arena;
    *out = (pl_asked){.arena = arena, .what = "batch", .most = PL_UNKNOWN};
    pl_job_default(&out->job);
    pl_place_settings_default(&out->place);
    pl_json json;
    pl_json_open(&json, text, size, MOST_NESTING);
    pl_status status = read_members(out, &json, err);
    if (status != PL_OK) return status;
    if (!json.failure) pl_json_end(&json);
    if (json.failure)
        return pl_fail(err, PL_INPUT, "body", json.failure_at, "expected %s", json.failure);
    return PL_OK;
}
