/* jobs: see jobs.h, and pl_jobs_open in the public header.
 *
 * A file is ground truth (JSON lines, record.c) or GPUMemNet's CSV (gpumemnet_csv.c), told apart by
 * the first line; JSON lines whose first has a member "cin" are convolutions (convs.c).
 * Profiles come from the graphs where there are any, so that training sees what an estimate will
 * see. Graphs are closed again: nine hundred of them are gigabytes. */
#include "lab/jobs/jobs.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/jobs/gpumemnet_csv.h"
#include "lab/jobs/packed.h"
#include "lend.h"

enum { MOST_THREADS = 256, MOST_JOBS = 1000000, MOST_LINE = 64 << 20 /* bytes */ };
enum { LEAST_SHARE = 256 << 20 }; /* bytes of a thread, where there are several */
static const int64_t mib = 1 << 20;
static const double most_mib = 1e9; /* a petabyte: no card is as large */

void pl_jobs_settings_default_sized(pl_jobs_settings *settings, size_t size) {
    const pl_jobs_settings usual = {.gpu = "h200"};
    pl_sized_fill(settings, size, &usual, sizeof usual);
}

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

static pl_status over_limit(const char *path, size_t position, pl_error *err) {
    return pl_fail(err, PL_MISSING, path, (int64_t)position,
                   "out of memory, or over the limit set for it");
}

/* ---- threads ---- */

typedef struct workers {
    atomic_size_t next;
    size_t count;
    pl_jobs_work *work;
    void *context;
    pl_limits limits; /* of each thread */
    uint8_t *again;   /* [count]: more than that; NULL: there is one thread */
    /* cancelled of the jobs' limits, what it last said, and who may call it */
    int (*cancelled)(void *context);
    void *cancel_context;
    atomic_bool stop;
    pthread_t caller;
} workers;

static int ask_caller(void *shared) {
    workers *c = shared;
    if (pthread_equal(pthread_self(), c->caller) && c->cancelled(c->cancel_context))
        atomic_store(&c->stop, true);
    return atomic_load(&c->stop);
}

static void *work_on(void *shared) {
    workers *c = shared;
    const pl_turn turn = {&c->limits, !c->again};
    for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->count;)
        if (!c->work(c->context, i, &turn)) c->again[i] = 1;
    return NULL;
}

/* What the files have left of the memory; SIZE_MAX: no limit. */
static size_t memory_left(const pl_jobs *jobs) {
    size_t all = jobs->limits.memory_bytes, used = jobs->budget.bytes;
    return all == 0 ? SIZE_MAX : used < all ? all - used : 1;
}

/* The calling thread works too, so that it goes on where no other can be started. */
void pl_jobs_each(const pl_jobs *jobs, size_t count, int threads, pl_jobs_work *work,
                  void *context) {
    workers c = {.count = count,
                 .work = work,
                 .context = context,
                 .limits = jobs->limits,
                 .cancelled = jobs->limits.cancelled,
                 .cancel_context = jobs->limits.cancel_context,
                 .caller = pthread_self()};
    long cores = threads > 0 ? threads : sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : (size_t)cores;
    size_t left = memory_left(jobs), started = 0;
    if (wanted > left / LEAST_SHARE) wanted = left / LEAST_SHARE;
    if (wanted > count) wanted = count;
    if (wanted > 1 && !(c.again = calloc(count, 1))) wanted = 1;
    if (c.cancelled) {
        c.limits.cancelled = ask_caller;
        c.limits.cancel_context = &c;
    }
    if (jobs->limits.memory_bytes) c.limits.memory_bytes = wanted > 1 ? left / wanted : left;
    pthread_t others[MOST_THREADS];
    while (started + 1 < wanted && pthread_create(&others[started], NULL, work_on, &c) == 0)
        started++;
    work_on(&c);
    for (size_t i = 0; i < started; i++) pthread_join(others[i], NULL);
    if (jobs->limits.memory_bytes) c.limits.memory_bytes = memory_left(jobs);
    const pl_turn last = {&c.limits, true};
    for (size_t i = 0; c.again && i < count; i++)
        if (c.again[i]) work(context, i, &last);
    free(c.again);
}

static size_t limit_of(size_t memory_bytes) {
    return memory_bytes ? memory_bytes : SIZE_MAX;
}

/* ---- graphs ---- */

/* The model as the job's record describes it. */
static pl_status open_described(pl_model **out, const pl_measured *item, const pl_limits *limits,
                                pl_error *err) {
    if (!item->description)
        return pl_fail(err, PL_MISSING, item->facts.id, -1, "its record does not describe a model");
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    settings.limits = limits;
    settings.task = item->task;
    settings.first = &item->job;
    return pl_model_open_memory(out, item->description, strlen(item->description), item->facts.id,
                                &settings, err);
}

/* The file of the graph `name` in the first folder that has it; false: none has. */
static bool find_graph(char path[4096], bool *packed, const pl_jobs *jobs, const char *name) {
    static const struct {
        const char *ending;
        bool packed;
    } forms[] = {{".pt2", false}, {".json", false}, {".pt2.xz", true}, {".json.xz", true}};
    for (size_t i = 0; i < jobs->graph_count; i++)
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
            int length = snprintf(path, 4096, "%s/%s%s", jobs->graphs[i], name, forms[k].ending);
            *packed = forms[k].packed;
            if (length > 0 && length < 4096 && access(path, F_OK) == 0) return true;
        }
    return false;
}

pl_status pl_jobs_graph(pl_model **out, const pl_jobs *jobs, const pl_measured *item,
                        const pl_limits *given, pl_error *err) {
    char path[4096], *bytes;
    bool packed;
    size_t size;
    *out = NULL;
    if (item->described) return open_described(out, item, given, err);
    if (!item->graph || !find_graph(path, &packed, jobs, item->graph))
        return pl_fail(err, PL_MISSING, item->facts.id, -1, "no graph");
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    pl_limits limits = *given;
    settings.limits = &limits;
    if (!packed) return pl_model_open(out, path, &settings, err);
    pl_status status = pl_packed_read(&bytes, &size, path, limit_of(limits.memory_bytes), err);
    if (status == PL_OK && limits.memory_bytes) limits.memory_bytes -= size;
    if (status == PL_OK)
        status = pl_model_open_memory(out, bytes, size, item->facts.id, &settings, err);
    free(bytes);
    return status;
}

/* Which graph is the job's, and the sizes it is asked for. A graph of its own was exported with
 * them; another job's has another batch. */
static void choose_graph(const pl_jobs *jobs, pl_measured *item) {
    char path[4096];
    bool packed;
    item->described = false;
    item->job.train = NULL;
    item->job.batch = item->job.seq = PL_UNKNOWN;
    if (find_graph(path, &packed, jobs, item->facts.id)) {
        item->graph = item->facts.id;
    } else if (item->of && find_graph(path, &packed, jobs, item->of)) {
        item->graph = item->of;
        item->job.batch = item->profile.job.batch;
    }
}

/* Described, where that is wanted and can be; else by a graph. What is wrong with a description is
 * reported where there is no graph either. */
static pl_status open_first(pl_model **out, const pl_jobs *jobs, pl_measured *item,
                            const pl_limits *limits, pl_error *err) {
    if (jobs->described) { /* built for the sizes it ran with */
        item->described = true;
        item->job.batch = item->profile.job.batch;
        item->job.train = item->train;
        item->job.seq = item->no_sequence ? PL_UNKNOWN : item->profile.job.seq;
        pl_status status = open_described(out, item, limits, err);
        if (status == PL_OK || jobs->graph_count == 0) return status;
        pl_job described = item->job;
        choose_graph(jobs, item);
        if (item->graph) return pl_jobs_graph(out, jobs, item, limits, err);
        item->job = described;
        item->described = true;
        return status;
    }
    choose_graph(jobs, item);
    return pl_jobs_graph(out, jobs, item, limits, err);
}

typedef struct reading {
    pl_jobs *jobs;
    const pl_jobs_settings *settings;
    pthread_mutex_t lock; /* of the arena and of what follows */
    size_t done;
    bool failed; /* out of memory */
} reading;

/* The profile's layers outlive the graph they were read from: copied into the jobs' arena. */
static bool keep_profile(pl_arena *arena, pl_measured *item, const pl_profile *p) {
    pl_profile_layer *layers = pl_arena_array(arena, p->layer_count + 1, sizeof *layers);
    if (!layers) return false;
    for (size_t i = 0; i < p->layer_count; i++) {
        layers[i] = p->layers[i];
        bool same = i > 0 && strcmp(p->layers[i].type, layers[i - 1].type) == 0;
        layers[i].type = same
                             ? layers[i - 1].type
                             : pl_arena_string(arena, p->layers[i].type, strlen(p->layers[i].type));
        if (!layers[i].type) return false;
    }
    item->profile = *p;
    item->profile.layers = layers;
    return true;
}

bool pl_measured_cut_off(const pl_measured *item) {
    return item->graph_status == PL_LIMIT ||
           (item->graph_status == PL_MISSING && item->facts.has_graph);
}

static bool read_graph(void *context, size_t index, const pl_turn *turn) {
    reading *r = context;
    pl_measured *item = &r->jobs->items[index];
    pl_model *model = NULL;
    item->graph_status = open_first(&model, r->jobs, item, turn->limits, &item->graph_error);
    pl_graph *g = NULL;
    bool owned = false;
    int64_t batch, seq;
    pl_profile profile = {0};
    pl_budget budget;
    pl_budget_start(&budget, turn->limits);
    if (model) budget.bytes = model->budget.bytes;
    pl_arena *scratch = item->graph_status == PL_OK ? pl_arena_new(&budget) : NULL;
    bool profiled = false;
    pl_status status = item->graph_status;
    if (status == PL_OK)
        status = scratch
                     ? pl_model_graph(model, &item->job, &budget, &g, &owned, &batch, &seq, NULL)
                     : PL_MISSING;
    if (status == PL_OK) {
        profiled = pl_profile_of_graph(&profile, g, &item->job, batch, seq, scratch);
        if (!profiled) status = PL_MISSING;
    }
    if (status != PL_OK && item->graph_status == PL_OK && (status == PL_MISSING || budget.spent))
        item->graph_status = pl_budget_fail(&item->graph_error, &budget, item->facts.id);
    bool again = item->graph_status == PL_LIMIT && !turn->last;
    pthread_mutex_lock(&r->lock);
    /* one that memory did not suffice for is there all the same */
    item->facts.has_graph =
        item->graph_status != PL_MISSING || item->graph || (item->described && item->description);
    if (profiled && !keep_profile(r->jobs->arena, item, &profile)) r->failed = true;
    r->done += !again;
    if (r->settings->progress && !again)
        r->settings->progress(r->done, r->jobs->count, r->settings->progress_context);
    pthread_mutex_unlock(&r->lock);
    if (owned) pl_graph_close(&g);
    pl_arena_free(&scratch);
    pl_model_close(&model);
    return !again;
}

/* ---- files ---- */

static pl_measured *new_item(pl_jobs *jobs, const pl_jobs_settings *settings) {
    jobs->items = pl_arena_grow(jobs->arena, jobs->items, &jobs->capacity, jobs->count + 1,
                                sizeof *jobs->items);
    if (!jobs->items) return NULL;
    pl_measured *item = &jobs->items[jobs->count];
    *item = (pl_measured){.facts = {.id = "",
                                    .family = "",
                                    .source = "",
                                    .precision = "",
                                    .optimizer = "",
                                    .model = "",
                                    .message = "",
                                    .measured_bytes = PL_UNKNOWN,
                                    .measured_allocated = PL_UNKNOWN,
                                    .measured_reserved = PL_UNKNOWN,
                                    .measured_overhead = PL_UNKNOWN,
                                    .fold = -1},
                          .graph_status = PL_MISSING,
                          .flops_per_step = NAN,
                          .step_ms = NAN};
    for (int c = 0; c < PL_COUNTERS; c++) item->counters[c] = NAN;
    pl_job_default(&item->job);
    item->job.host_speed = 1; /* the ground truth's host, of records that name none */
    item->job.copy_gbps = 20;
    if (settings->gpu) item->job.gpu = pl_gpu_find(settings->gpu)->name; /* outlives settings */
    item->profile = (pl_profile){.parameters = PL_UNKNOWN,
                                 .trainable = PL_UNKNOWN,
                                 .parameter_bytes = PL_UNKNOWN,
                                 .buffer_bytes = PL_UNKNOWN,
                                 .input_elements = PL_UNKNOWN};
    item->profile.job.batch = item->profile.job.seq = PL_UNKNOWN;
    pl_fail(&item->graph_error, PL_MISSING, NULL, -1, "no graph");
    return item;
}

static pl_status read_lines(pl_jobs *jobs, const char *path, const char *bytes, size_t size,
                            const pl_jobs_settings *settings, pl_error *err) {
    const char *first = memchr(bytes, '\n', size);
    bool convs = pl_convs_line(bytes, first ? (size_t)(first - bytes) : size);
    for (size_t from = 0; from < size;) {
        const char *end = memchr(bytes + from, '\n', size - from);
        size_t length = end ? (size_t)(end - bytes) - from : size - from;
        size_t blank = 0;
        while (blank < length && bytes[from + blank] && strchr(" \t\r", bytes[from + blank]))
            blank++;
        if (blank < length && convs) {
            pl_status status =
                pl_convs_read(&jobs->convs, jobs->arena, path, bytes + from, length, from, err);
            if (status != PL_OK) return status;
        } else if (blank < length) {
            if (length > MOST_LINE)
                return pl_fail(err, PL_INPUT, path, (int64_t)from,
                               "expected lines of at most %d bytes", MOST_LINE);
            if (jobs->count == MOST_JOBS)
                return pl_fail(err, PL_INPUT, path, (int64_t)from, "expected at most %d jobs",
                               MOST_JOBS);
            if (!new_item(jobs, settings)) return over_limit(path, from, err);
            pl_status status = pl_record_read(jobs, path, bytes + from, length, from, err);
            if (status != PL_OK) return status;
            jobs->count++;
        }
        from += length + 1;
    }
    return PL_OK;
}

/* GPUMemNet's rows: fp32 MLPs, trained by Adam with cross-entropy, measured by nvidia-smi. */
static pl_status read_rows(pl_jobs *jobs, const char *path, const char *bytes, size_t size,
                           const pl_jobs_settings *settings, pl_error *err) {
    pl_gpumemnet_rows rows;
    pl_status status = pl_gpumemnet_read(&rows, bytes, size, path, jobs->arena, err);
    for (size_t i = 0; status == PL_OK && i < rows.count; i++) {
        const pl_gpumemnet_row *row = &rows.rows[i];
        pl_measured *item = new_item(jobs, settings);
        pl_profile_layer *layers =
            pl_arena_array(jobs->arena, row->layer_count + 1, sizeof *layers);
        if (!item || !layers) return over_limit(path, (size_t)row->position, err);
        for (size_t k = 0; k < row->layer_count; k++)
            layers[k] = (pl_profile_layer){.type = row->layers[k].type,
                                           .activations = row->layers[k].activations,
                                           .parameters = row->layers[k].parameters};
        item->facts.id = item->facts.model = row->filename;
        item->facts.family = "mlp";
        item->facts.source = "gpumemnet";
        item->facts.precision = "fp32";
        item->facts.optimizer = item->job.optimizer = "adam";
        if (!(row->max_mib < most_mib))
            return pl_fail(err, PL_INPUT, path, row->position,
                           "expected less than %s MiB of memory", PL_REAL("g", most_mib));
        item->facts.measured_bytes = (int64_t)(row->max_mib * (double)mib);
        item->job.precision = PL_FP32;
        item->job.loss = PL_LOSS_CE;
        item->profile.job = item->job;
        item->profile.job.batch = row->batch;
        item->profile.parameters = row->total_parameters;
        pl_profile_complete(&item->profile, layers, row->layer_count);
        jobs->count++;
    }
    if (status == PL_OK) jobs->bin_bytes = 1000 * mib;
    return status;
}

/* Whether the first line can be one of titles; which they are is the reader's to say. */
static bool is_table(const char *bytes, size_t size) {
    bool comma = false;
    if (size == 0 || bytes[0] == '[' || bytes[0] == '<') return false;
    for (size_t i = 0; i < size && bytes[i] != '\n'; i++) {
        if (iscntrl((unsigned char)bytes[i]) && bytes[i] != '\r') return false;
        comma |= bytes[i] == ',';
    }
    return comma;
}

static pl_status read_file(pl_jobs *jobs, const char *path, const pl_jobs_settings *settings,
                           pl_error *err) {
    char *bytes;
    size_t size, first = 0, before = jobs->count + jobs->convs.count;
    size_t limit = limit_of(jobs->limits.memory_bytes), used = jobs->budget.bytes;
    pl_status status =
        pl_packed_read(&bytes, &size, path, limit - (used < limit ? used : limit), err);
    if (status != PL_OK) return status;
    if (!pl_budget_take(&jobs->budget, size)) { /* the text is there while it is read */
        free(bytes);
        return pl_budget_fail(err, &jobs->budget, path);
    }
    while (first < size && isspace((unsigned char)bytes[first])) first++;
    if (first == size)
        status = pl_fail(err, PL_INPUT, path, 0,
                         "expected JSON lines, one per job, or GPUMemNet's CSV; it is empty");
    else if (bytes[first] == '{')
        status = read_lines(jobs, path, bytes, size, settings, err);
    else if (is_table(bytes + first, size - first))
        status = read_rows(jobs, path, bytes, size, settings, err);
    else
        status = pl_fail(err, PL_INPUT, path, (int64_t)first,
                         "expected JSON lines, an object a job, or GPUMemNet's CSV");
    free(bytes);
    pl_budget_give(&jobs->budget, size);
    const char *slash = strrchr(path, '/');
    char text[512];
    int length = snprintf(text, sizeof text, "%s%s%s (%zu)", jobs->data, jobs->data[0] ? ", " : "",
                          slash ? slash + 1 : path, jobs->count + jobs->convs.count - before);
    if (status == PL_OK && length > 0) {
        jobs->data = pl_arena_string(jobs->arena, text, strlen(text));
        if (!jobs->data) status = no_memory(err);
    }
    return status;
}

/* ---- groups ---- */

typedef struct named {
    const char *name;
    size_t item;
} named;

static int compare_named(const void *x, const void *y) {
    const named *a = x, *b = y;
    int order = strcmp(a->name, b->name);
    return order ? order : a->item < b->item ? -1 : a->item > b->item;
}

enum { BY_MODEL, BY_FAMILY, BY_KIN, GROUPINGS };

static const char *group_of(const pl_measured *item, int by) {
    const pl_trial *t = &item->facts;
    const char *model = t->model[0] ? t->model : item->of ? item->of : t->id;
    return by == BY_FAMILY ? t->family : by == BY_KIN && item->kin ? item->kin : model;
}

/* Numbers the names in the order of the alphabet, so that they do not depend on the files' order.
 */
static bool number_groups(pl_jobs *jobs) {
    named *names = malloc((jobs->count + 1) * sizeof *names);
    if (!names) return false;
    for (int by = 0; by < GROUPINGS; by++) {
        for (size_t i = 0; i < jobs->count; i++)
            names[i] = (named){group_of(&jobs->items[i], by), i};
        qsort(names, jobs->count, sizeof *names, compare_named);
        uint32_t number = 0;
        for (size_t i = 0; i < jobs->count; i++) {
            if (i > 0 && strcmp(names[i].name, names[i - 1].name) != 0) number++;
            pl_measured *item = &jobs->items[names[i].item];
            *(by == BY_FAMILY ? &item->family
              : by == BY_KIN  ? &item->kindred
                              : &item->model) = number;
        }
        *(by == BY_FAMILY ? &jobs->family_count
          : by == BY_KIN  ? &jobs->kin_count
                          : &jobs->model_count) = number + 1;
    }
    free(names);
    return true;
}

/* ---- opening and closing ---- */

/* The folders of graphs, checked and copied. */
static pl_status take_folders(pl_jobs *jobs, const pl_jobs_settings *settings, pl_error *err) {
    struct stat folder;
    size_t more = settings->more_graphs ? settings->more_graph_count : 0;
    jobs->graphs = pl_arena_array(jobs->arena, more + 1, sizeof *jobs->graphs);
    for (size_t i = 0; jobs->graphs && i <= more; i++) {
        const char *name = i == 0 ? settings->graphs : settings->more_graphs[i - 1];
        if (!name) continue;
        if (stat(name, &folder) != 0 || !S_ISDIR(folder.st_mode))
            return pl_fail(err, PL_INPUT, name, -1, "no such folder");
        jobs->graphs[jobs->graph_count] = pl_arena_string(jobs->arena, name, strlen(name));
        if (!jobs->graphs[jobs->graph_count++]) return no_memory(err);
    }
    return jobs->graphs ? PL_OK : no_memory(err);
}

static pl_status read_all(pl_jobs *jobs, const char *const *paths, size_t path_count,
                          const pl_jobs_settings *settings, pl_error *err) {
    pl_status folders = take_folders(jobs, settings, err);
    if (folders != PL_OK) return folders;
    if (settings->gpu && !pl_gpu_find(settings->gpu))
        return pl_fail(err, PL_USAGE, "gpu", -1, "no card \"%s\" in the catalogue", settings->gpu);
    jobs->described = settings->described;
    for (size_t i = 0; i < path_count; i++) {
        pl_status status = read_file(jobs, paths[i], settings, err);
        if (status != PL_OK) return status;
    }
    if (jobs->count == 0) return pl_fail(err, PL_INPUT, NULL, -1, "no measured jobs were given");
    if (!number_groups(jobs)) return no_memory(err);
    if (jobs->graph_count == 0 && !settings->described) return PL_OK;
    reading r = {.jobs = jobs, .settings = settings};
    if (pthread_mutex_init(&r.lock, NULL) != 0) return no_memory(err);
    jobs->budget.cancelled = NULL; /* pl_jobs_each asks; profiles are kept by any thread */
    pl_jobs_each(jobs, jobs->count, settings->threads, read_graph, &r);
    pthread_mutex_destroy(&r.lock);
    return r.failed ? no_memory(err) : PL_OK;
}

pl_status pl_jobs_open(pl_jobs **out, const char *const *paths, size_t path_count,
                       const pl_jobs_settings *given, pl_error *err) {
    *out = NULL;
    pl_lab_register();
    pl_jobs_settings own, *settings = &own;
    pl_jobs_settings_default(&own);
    if (given && !PL_SIZED_OK(given, limits))
        return pl_fail(err, PL_USAGE, "settings", -1, "settings whose size is not set");
    if (given) pl_sized_read(&own, sizeof own, given, given->size);
    pl_status status = pl_limits_check(settings->limits, err);
    if (status != PL_OK) return status;
    pl_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs) return no_memory(err);
    pl_limits_default(&jobs->limits);
    if (settings->limits)
        pl_sized_read(&jobs->limits, sizeof jobs->limits, settings->limits, settings->limits->size);
    pl_budget_start(&jobs->budget, &jobs->limits);
    jobs->arena = pl_arena_new(&jobs->budget);
    jobs->data = "";
    jobs->bin_bytes = 8000 * mib;
    jobs->threads = settings->threads;
    status = jobs->arena ? read_all(jobs, paths, path_count, settings, err) : no_memory(err);
    if (status == PL_MISSING && jobs->budget.spent) {
        char where[sizeof((pl_error *)0)->where] = "";
        if (err) memcpy(where, err->where, sizeof where);
        status = pl_budget_fail(err, &jobs->budget, where);
    }
    if (status == PL_OK)
        *out = jobs;
    else
        pl_jobs_close(&jobs);
    return status;
}

size_t pl_jobs_count(const pl_jobs *jobs) {
    return jobs->count;
}

size_t pl_jobs_without_layers(const pl_jobs *jobs) {
    size_t count = 0;
    for (size_t i = 0; i < jobs->count; i++)
        count += jobs->items[i].profile.layer_count == 0 && !pl_measured_cut_off(&jobs->items[i]);
    return count;
}

int64_t pl_jobs_bin_bytes(const pl_jobs *jobs) {
    return jobs->bin_bytes;
}

void pl_jobs_close(pl_jobs **jobs) {
    if (!jobs || !*jobs) return;
    pl_arena_free(&(*jobs)->arena);
    free(*jobs);
    *jobs = NULL;
}

static const char *const split_names[] = {"none", "row", "model", "family", "kin"};

const char *pl_split_name(size_t index) {
    return index < sizeof split_names / sizeof *split_names ? split_names[index] : NULL;
}

bool pl_split_parse(const char *name, pl_split *out) {
    for (size_t i = 0; i < sizeof split_names / sizeof *split_names; i++)
        if (strcmp(split_names[i], name) == 0) {
            *out = (pl_split)i;
            return true;
        }
    return false;
}
