/* evaluate: every job of a ground-truth file through an estimator, one thread a core.
 *
 * The file is JSON lines, {"job": {...}, "result": {...}} (docs/formats.md): of the job, how it was
 * trained; of the result, peak_allocated, peak_reserved and overhead, in bytes. Batch and sequence
 * are those of the job's graph, which was exported with them. What was measured is peak_reserved +
 * overhead: what nvidia-smi shows at the peak. Left out: summing up, which is the caller's
 * (cli/evaluate.c). */
#include "core/arena.h"
#include "core/checked.h"
#include "core/clock.h"
#include "core/error.h"
#include "estimate/packed.h"
#include "import/json.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_LIMIT = 64, MOST_THREADS = 256 };
static const size_t file_limit = (size_t)2 << 30,
                    graph_limit = (size_t)1 << 30; /* bytes, unpacked */

/* A job as it is worked on. A worker writes to its own items only. */
typedef struct item {
    pl_job job;
    pl_trial trial;
    pl_error error;
} item;

typedef struct evaluation {
    pl_evaluation open; /* first, so that a pl_evaluation * is an evaluation * */
    pl_arena *arena;
    const char *graphs;
    item *items;
    size_t count, capacity;
    const pl_evaluate_settings *settings;
    atomic_size_t next;
    pthread_mutex_t lock; /* of the progress callback and done */
    size_t done;
} evaluation;

void pl_evaluate_settings_default(pl_evaluate_settings *settings) {
    pl_job job;
    pl_job_default(&job);
    *settings = (pl_evaluate_settings){.estimator = job.estimator, .gpu = "h200"};
}

/* ---- reading a job ---- */

typedef struct reader {
    pl_json json;
    pl_arena *arena;
    bool no_memory;
} reader;

static void read_text(reader *r, const char **out) {
    pl_json_text text;
    if (pl_json_peek(&r->json) == 'n') {
        pl_json_null(&r->json);
    } else if (pl_json_string(&r->json, &text)) {
        char *copy = pl_json_copy(r->arena, &text, NULL);
        if (copy)
            *out = copy;
        else
            r->no_memory = true;
    }
}

static void read_int(reader *r, int *out) {
    int64_t number = 0;
    const char *at = r->json.at;
    if (!pl_json_int(&r->json, &number, NULL)) return;
    if (number < 0 || number > INT_MAX)
        pl_json_fail_at(&r->json, at, "a number from 0 to 2147483647");
    else
        *out = (int)number;
}

static void read_bytes(reader *r, int64_t *out) {
    const char *at = r->json.at;
    if (pl_json_int(&r->json, out, NULL) && *out < 0)
        pl_json_fail_at(&r->json, at, "bytes, from 0 on");
}

static void read_parallel(reader *r, pl_job *job) {
    pl_json_text key;
    const char *kind = "", *at = r->json.at;
    if (pl_json_peek(&r->json) == 'n') {
        pl_json_null(&r->json);
        return;
    }
    if (!pl_json_object(&r->json)) return;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "kind"))
            read_text(r, &kind);
        else if (PL_JSON_IS(&key, "world"))
            read_int(r, &job->world);
        else if (PL_JSON_IS(&key, "stage"))
            read_int(r, &job->stage);
        else if (PL_JSON_IS(&key, "mp"))
            pl_json_bool(&r->json, &job->parallel_mixed);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return;
    if (strcmp(kind, "fsdp2") == 0)
        job->parallel = PL_FSDP2;
    else if (strcmp(kind, "ddp") == 0)
        job->parallel = PL_DDP;
    else
        pl_json_fail_at(&r->json, at, "a parallel kind of ddp or fsdp2");
}

static void read_job(reader *r, item *i) {
    pl_json_text key;
    pl_job *job = &i->job;
    pl_trial *trial = &i->trial;
    const char *loss = "auto";
    if (!pl_json_object(&r->json)) return;
    const char *at = r->json.at;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "id"))
            read_text(r, &trial->id);
        else if (PL_JSON_IS(&key, "family"))
            read_text(r, &trial->family);
        else if (PL_JSON_IS(&key, "source"))
            read_text(r, &trial->source);
        else if (PL_JSON_IS(&key, "precision"))
            read_text(r, &trial->precision);
        else if (PL_JSON_IS(&key, "optimizer"))
            read_text(r, &trial->optimizer);
        else if (PL_JSON_IS(&key, "loss"))
            read_text(r, &loss);
        else if (PL_JSON_IS(&key, "checkpoint"))
            pl_json_bool(&r->json, &job->checkpoint);
        else if (PL_JSON_IS(&key, "accumulate"))
            read_int(r, &job->accumulate);
        else if (PL_JSON_IS(&key, "channels_last"))
            pl_json_bool(&r->json, &job->channels_last);
        else if (PL_JSON_IS(&key, "cudnn_benchmark"))
            pl_json_bool(&r->json, &job->cudnn_benchmark);
        else if (PL_JSON_IS(&key, "alloc_conf"))
            read_text(r, &job->alloc_conf);
        else if (PL_JSON_IS(&key, "parallel"))
            read_parallel(r, job);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return;
    if (trial->optimizer[0]) job->optimizer = trial->optimizer;
    if (trial->precision[0] && !pl_precision_parse(trial->precision, &job->precision))
        pl_json_fail_at(&r->json, at, "a precision that is known");
    else if (strcmp(loss, "auto") != 0 && !pl_loss_parse(loss, &job->loss))
        pl_json_fail_at(&r->json, at, "a loss that is known");
    /* The id names a file: nothing that leads out of the folder. */
    else if (!trial->id[0] || trial->id[0] == '.' || strchr(trial->id, '/'))
        pl_json_fail_at(&r->json, at, "a job with an id that can name a file");
}

static void read_result(reader *r, pl_trial *trial) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "peak_allocated"))
            read_bytes(r, &trial->measured_allocated);
        else if (PL_JSON_IS(&key, "peak_reserved"))
            read_bytes(r, &trial->measured_reserved);
        else if (PL_JSON_IS(&key, "overhead"))
            read_bytes(r, &trial->measured_overhead);
        else
            pl_json_skip(&r->json);
    }
}

/* One line. The reader ends on its failure, if any. */
static void read_line(reader *r, item *i) {
    pl_json_text key;
    bool job = false;
    if (!pl_json_object(&r->json)) return;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "job")) {
            read_job(r, i);
            job = true;
        } else if (PL_JSON_IS(&key, "result")) {
            read_result(r, &i->trial);
        } else {
            pl_json_skip(&r->json);
        }
    }
    pl_trial *t = &i->trial;
    pl_json_end(&r->json);
    if (r->json.failure) return;
    if (!job)
        pl_json_fail(&r->json, "a member \"job\" in the line before");
    else if (t->measured_allocated < 0 || t->measured_reserved < 0 || t->measured_overhead < 0)
        pl_json_fail(&r->json, "peak_allocated, peak_reserved and overhead in the line's result");
    else if (!pl_add_i64(t->measured_reserved, t->measured_overhead, &t->measured_bytes))
        pl_json_fail(&r->json, "a reserve and an overhead that can be added");
}

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

static pl_status read_jobs(evaluation *e, const char *path, const char *bytes, size_t size,
                           pl_error *err) {
    for (size_t from = 0; from < size;) {
        const char *end = memchr(bytes + from, '\n', size - from);
        size_t length = end ? (size_t)(end - bytes) - from : size - from;
        size_t blank = 0;
        while (blank < length && strchr(" \t\r", bytes[from + blank])) blank++;
        if (blank < length) {
            e->items =
                pl_arena_grow(e->arena, e->items, &e->capacity, e->count + 1, sizeof *e->items);
            if (!e->items) return no_memory(err);
            item *i = &e->items[e->count];
            *i = (item){
                .trial = {.id = "", .family = "", .source = "", .precision = "", .optimizer = ""}};
            pl_job_default(&i->job);
            i->job.estimator = e->settings->estimator;
            i->job.gpu = e->settings->gpu;
            i->trial.measured_allocated = i->trial.measured_reserved = i->trial.measured_overhead =
                PL_UNKNOWN;
            reader r = {.arena = e->arena};
            pl_json_open(&r.json, bytes + from, length, DEPTH_LIMIT);
            read_line(&r, i);
            if (r.no_memory) return no_memory(err);
            if (r.json.failure)
                return pl_fail(err, PL_INPUT, path, (int64_t)from + r.json.failure_at,
                               "expected %s", r.json.failure);
            e->count++;
        }
        from += length + 1;
    }
    if (e->count == 0)
        return pl_fail(err, PL_INPUT, path, 0, "expected JSON lines, one a job; it is empty");
    return PL_OK;
}

/* ---- estimating ---- */

/* 1: opened (or *status says why not), 0: no such file. */
static bool open_graph(pl_model **model, const evaluation *e, const char *id, pl_status *status,
                       pl_error *err) {
    static const struct {
        const char *ending;
        bool packed;
    } forms[] = {{".pt2", false}, {".json", false}, {".pt2.xz", true}, {".json.xz", true}};
    char path[4096];
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        int length = snprintf(path, sizeof path, "%s/%s%s", e->graphs, id, forms[k].ending);
        if (length < 0 || (size_t)length >= sizeof path || access(path, F_OK) != 0) continue;
        if (!forms[k].packed) {
            *status = pl_model_open(model, path, NULL, err);
            return true;
        }
        char *bytes;
        size_t size;
        *status = pl_packed_read(&bytes, &size, path, graph_limit, err);
        if (*status == PL_OK) *status = pl_model_open_memory(model, bytes, size, id, NULL, err);
        free(bytes);
        return true;
    }
    return false;
}

static void estimate(const evaluation *e, item *i) {
    pl_trial *t = &i->trial;
    pl_model *model = NULL;
    pl_report *report = NULL;
    t->message = i->error.message; /* "" as long as nothing failed */
    t->has_graph = open_graph(&model, e, t->id, &t->status, &i->error);
    if (!t->has_graph) {
        t->status = pl_fail(&i->error, PL_MISSING, t->id, -1, "no graph");
        return;
    }
    if (t->status == PL_OK) t->status = pl_estimate(&report, model, &i->job, &i->error);
    if (t->status == PL_OK) {
        t->peak_bytes = report->peak_bytes;
        t->low_bytes = report->low_bytes;
        t->high_bytes = report->high_bytes;
        t->allocated_bytes = report->allocated_bytes;
        t->reserved_bytes = report->reserved_bytes;
        t->overhead_bytes = report->overhead_bytes;
        t->coverage = report->coverage;
        t->elapsed_us = report->elapsed_us;
    }
    pl_report_close(&report);
    pl_model_close(&model);
}

static void *work(void *shared) {
    evaluation *e = shared;
    for (;;) {
        size_t i = atomic_fetch_add(&e->next, 1);
        if (i >= e->count) return NULL;
        estimate(e, &e->items[i]);
        pthread_mutex_lock(&e->lock);
        e->done++;
        if (e->settings->progress)
            e->settings->progress(e->done, e->count, e->settings->progress_context);
        pthread_mutex_unlock(&e->lock);
    }
}

/* The calling thread works too, so that it goes on where no other can be started. */
static void work_in_threads(evaluation *e) {
    long cores = e->settings->threads > 0 ? e->settings->threads : sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : (size_t)cores;
    pthread_t threads[MOST_THREADS];
    size_t started = 0;
    while (started + 1 < wanted && started + 1 < e->count &&
           pthread_create(&threads[started], NULL, work, e) == 0)
        started++;
    work(e);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

pl_status pl_evaluate(pl_evaluation **out, const char *jobs, const char *graphs,
                      const pl_evaluate_settings *settings, pl_error *err) {
    *out = NULL;
    pl_evaluate_settings standard;
    pl_evaluate_settings_default(&standard);
    if (!settings) settings = &standard;
    int64_t start = pl_now_us();
    struct stat folder;
    if (stat(graphs, &folder) != 0 || !S_ISDIR(folder.st_mode))
        return pl_fail(err, PL_INPUT, graphs, -1, "no such folder");
    char *bytes;
    size_t size;
    pl_status status = pl_packed_read(&bytes, &size, jobs, file_limit, err);
    if (status != PL_OK) return status;
    pl_arena *arena = pl_arena_new(0);
    evaluation *e = arena ? pl_arena_alloc(arena, sizeof *e) : NULL;
    if (!e) {
        pl_arena_free(&arena);
        free(bytes);
        return no_memory(err);
    }
    e->arena = arena;
    e->graphs = graphs;
    e->settings = settings;
    status = read_jobs(e, jobs, bytes, size, err);
    free(bytes);
    pl_trial *trials = status == PL_OK ? pl_arena_array(arena, e->count, sizeof *trials) : NULL;
    if (status == PL_OK && !trials) status = no_memory(err);
    if (status == PL_OK && pthread_mutex_init(&e->lock, NULL) != 0) status = no_memory(err);
    if (status == PL_OK) {
        work_in_threads(e);
        pthread_mutex_destroy(&e->lock);
        for (size_t i = 0; i < e->count; i++) trials[i] = e->items[i].trial;
        const char *estimator = settings->estimator ? settings->estimator : standard.estimator;
        e->open.estimator = pl_arena_string(arena, estimator, strlen(estimator));
        if (!e->open.estimator) status = no_memory(err);
        e->open.trials = trials;
        e->open.count = e->count;
        e->open.elapsed_us = pl_now_us() - start;
    }
    if (status != PL_OK) {
        pl_arena_free(&arena);
        return status;
    }
    *out = &e->open;
    return PL_OK;
}

void pl_evaluation_close(pl_evaluation **open) {
    if (!open || !*open) return;
    pl_arena *arena = ((evaluation *)*open)->arena;
    *open = NULL;
    pl_arena_free(&arena); /* the evaluation itself lies in it */
}
