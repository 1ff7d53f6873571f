/* record: a line of ground truth, {"job": {...}, "result": {...}} (docs/formats.md).
 *
 * Of the job, how it was trained; of the result, peak_allocated, peak_reserved and overhead in
 * bytes, flops_per_step and step_ms, the counters (percent), params, and layers: [type, output
 * elements per sample, parameters] of every leaf module. Memory, times or counters must be there,
 * unless the line has an error in place of a result: nothing was measured then. Batch and sequence
 * are the record's; a graph was exported with them. */
#include "lab/jobs/jobs.h"
#include "lab/jobs/kin.h"
#include "lend.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { DEPTH_LIMIT = 64, MOST_LAYERS = 100000, MOST_MEMBERS = 32 };

/* Where a member of the job stands in the line, for what pl_job_check says of it. */
typedef struct place {
    pl_json_text key;
    const char *at;
} place;

typedef struct reader {
    pl_json json;
    pl_arena *arena;
    bool no_memory;
    const char *line;
    place places[MOST_MEMBERS];
    size_t place_count;
} reader;

/* The value of `key` comes next. */
static void note_place(reader *r, const pl_json_text *key) {
    pl_json_peek(&r->json); /* skips blanks */
    if (r->place_count < MOST_MEMBERS)
        r->places[r->place_count++] = (place){.key = *key, .at = r->json.at};
}

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

/* A whole number from least to most; null leaves it as it is. */
static void read_whole(reader *r, int64_t *out, int64_t least, int64_t most, const char *expected) {
    int64_t number = 0;
    const char *at = r->json.at;
    if (pl_json_peek(&r->json) == 'n') {
        pl_json_null(&r->json);
    } else if (pl_json_int(&r->json, &number, NULL)) {
        if (number >= least && number <= most)
            *out = number;
        else
            pl_json_fail_at(&r->json, at, expected);
    }
}

/* Of a job: which numbers it may have, pl_job_check says. */
static void read_size(reader *r, int64_t *out) {
    read_whole(r, out, INT64_MIN, INT64_MAX, "");
}

static void read_int(reader *r, int *out) {
    int64_t number = *out;
    read_whole(r, &number, INT_MIN, INT_MAX, "a number of 32 bits");
    *out = (int)number;
}

static void read_rate(reader *r, double *out) {
    if (pl_json_peek(&r->json) == 'n')
        pl_json_null(&r->json);
    else if (pl_json_number(&r->json, out) && *out < 0)
        pl_json_fail(&r->json, "a number above 0");
}

static void read_bytes(reader *r, int64_t *out) {
    read_whole(r, out, 0, PL_MAX_BYTES, "bytes or elements from 0 to 2^56");
}

/* A number from least to most, which NaN is not; null leaves it as it is. */
static void read_within(reader *r, double *out, double least, double most, const char *expected) {
    double number = NAN;
    const char *at = r->json.at;
    if (pl_json_peek(&r->json) == 'n') {
        pl_json_null(&r->json);
    } else if (pl_json_number(&r->json, &number)) {
        if (number >= least && number <= most)
            *out = number;
        else
            pl_json_fail_at(&r->json, at, expected);
    }
}

static void read_parallel(reader *r, pl_job *job) {
    pl_json_text key;
    const char *kind = "", *load = "full", *at = r->json.at; /* load: as the first were measured */
    if (pl_json_peek(&r->json) == 'n') {
        pl_json_null(&r->json);
        return;
    }
    if (!pl_json_object(&r->json)) return;
    while (pl_json_key(&r->json, &key)) {
        note_place(r, &key);
        if (PL_JSON_IS(&key, "kind"))
            read_text(r, &kind);
        else if (PL_JSON_IS(&key, "world"))
            read_int(r, &job->world);
        else if (PL_JSON_IS(&key, "stage"))
            read_int(r, &job->stage);
        else if (PL_JSON_IS(&key, "load"))
            read_text(r, &load);
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
    if (!pl_load_parse(load, &job->load))
        pl_json_fail_at(&r->json, at, "a load of auto, full or sharded");
}

/* first, a space, second; NULL: out of memory, which the reader knows then. */
static const char *joined(reader *r, const char *first, size_t length, const char *second) {
    size_t more = strlen(second);
    char *text = pl_arena_alloc(r->arena, length + more + 2);
    r->no_memory |= !text;
    if (!text) return NULL;
    memcpy(text, first, length);
    text[length] = ' ';
    memcpy(text + length + 1, second, more + 1);
    return text;
}

/* What keeps jobs of a model together: its kind and name, or for one made up all that describes
 * it; and those of its kin: of one made up its kind and what its generator calls it. */
static void read_model(reader *r, pl_measured *item) {
    pl_trial *trial = &item->facts;
    pl_json_text key;
    const char *kind = "", *name = "", *variety = "", *from = r->json.at;
    if (pl_json_peek(&r->json) != '{') {
        pl_json_skip(&r->json);
        return;
    }
    from = r->json.at;
    if (!pl_json_object(&r->json)) return;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "kind") && pl_json_peek(&r->json) == '"')
            read_text(r, &kind);
        else if (PL_JSON_IS(&key, "name") && pl_json_peek(&r->json) == '"')
            read_text(r, &name);
        else if ((PL_JSON_IS(&key, "arch") || PL_JSON_IS(&key, "cell")) &&
                 pl_json_peek(&r->json) == '"')
            read_text(r, &variety);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure || r->no_memory) return;
    size_t raw = (size_t)(r->json.at - from);
    int shared = 0;
    const char *kin = name[0] ? pl_kin_of(name, &shared) : variety;
    item->kin = name[0] ? joined(r, kin, (size_t)shared, "") : joined(r, kind, strlen(kind), kin);
    if (name[0]) {
        trial->model = joined(r, kind, strlen(kind), name);
        return;
    }
    char *copy = pl_arena_alloc(r->arena, raw + 1);
    r->no_memory |= !copy;
    if (!copy) return;
    memcpy(copy, from, raw);
    trial->model = copy;
}

/* The whole of an object, as it stands. */
static void read_raw(reader *r, const char **out) {
    if (pl_json_peek(&r->json) != '{') {
        pl_json_skip(&r->json);
        return;
    }
    const char *from = r->json.at;
    if (!pl_json_skip(&r->json)) return;
    *out = pl_arena_string(r->arena, from, (size_t)(r->json.at - from));
    r->no_memory |= !*out;
}

/* The task that an Auto class means; NULL: none that is known. */
static const char *task_of(const char *class) {
    static const char *const rows[][2] = {
        {"AutoModelForCausalLM", "causal"},
        {"AutoModelForMaskedLM", "masked"},
        {"AutoModelForSeq2SeqLM", "seq2seq"},
        {"AutoModelForSpeechSeq2Seq", "seq2seq"},
        {"AutoModelForSequenceClassification", "classify"},
        {"AutoModelForImageClassification", "classify"},
        {"AutoModelForAudioClassification", "classify"},
        {"AutoModelForTokenClassification", "tokens"},
        {"AutoModelForSemanticSegmentation", "segment"},
        {"AutoModel", "base"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i][0], class) == 0) return rows[i][1];
    return NULL;
}

/* The next of a layer's three members is there. */
static bool next_member(reader *r) {
    if (pl_json_item(&r->json)) return true;
    if (!r->json.failure) pl_json_fail(&r->json, "three members in the layer before");
    return false;
}

static void read_layers(reader *r, pl_measured *i) {
    pl_profile_layer *layers = NULL;
    size_t count = 0, capacity = 0;
    if (!pl_json_list(&r->json)) return;
    while (pl_json_item(&r->json)) {
        pl_profile_layer layer = {.type = ""};
        if (!pl_json_list(&r->json)) return;
        if (next_member(r)) read_text(r, &layer.type);
        if (next_member(r)) read_bytes(r, &layer.activations);
        if (next_member(r)) read_bytes(r, &layer.parameters);
        if (pl_json_item(&r->json)) pl_json_fail(&r->json, "three members in a layer");
        if (r->json.failure || r->no_memory) return;
        if (count == MOST_LAYERS) {
            pl_json_fail(&r->json, "at most 100000 layers");
            return;
        }
        layers = pl_arena_grow(r->arena, layers, &capacity, count + 1, sizeof *layers);
        r->no_memory |= !layers;
        if (!layers) return;
        layers[count++] = layer;
    }
    i->profile.layers = layers;
    i->profile.layer_count = count;
}

/* An id names a graph's file: nothing that leads out of the folder. */
static bool names_file(const char *id) {
    return id[0] && id[0] != '.' && !strchr(id, '/');
}

static void read_job(reader *r, pl_measured *i) {
    pl_json_text key;
    pl_job *job = &i->job;
    pl_trial *trial = &i->facts;
    const char *loss = "auto", *class = "", *architecture = NULL;
    if (!pl_json_object(&r->json)) return;
    const char *at = r->json.at;
    while (pl_json_key(&r->json, &key)) {
        note_place(r, &key);
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
        else if (PL_JSON_IS(&key, "model"))
            read_model(r, i);
        else if (PL_JSON_IS(&key, "arch"))
            read_text(r, &architecture);
        else if (PL_JSON_IS(&key, "config"))
            read_raw(r, &i->description);
        else if (PL_JSON_IS(&key, "auto"))
            read_text(r, &class);
        else if (PL_JSON_IS(&key, "train"))
            read_text(r, &i->train);
        else if (PL_JSON_IS(&key, "batch"))
            read_size(r, &i->profile.job.batch);
        else if (PL_JSON_IS(&key, "seq"))
            read_size(r, &i->profile.job.seq);
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
        else if (PL_JSON_IS(&key, "of"))
            read_text(r, &i->of);
        else if (PL_JSON_IS(&key, "copy_gbps"))
            read_rate(r, &job->copy_gbps);
        else if (PL_JSON_IS(&key, "host_speed"))
            read_rate(r, &job->host_speed);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return;
    i->task = task_of(class);
    i->no_sequence = strstr(class, "Image") || strstr(class, "Audio");
    if (strstr(class, "Audio")) i->description = NULL; /* how long the sounds are, no record says */
    if (!i->description && trial->model[0] == '{') i->description = trial->model; /* made up */
    if (architecture) /* whose models stay together, whatever their size */
        trial->model = i->kin = architecture;
    if (trial->optimizer[0]) job->optimizer = trial->optimizer;
    if (trial->precision[0] && !pl_precision_parse(trial->precision, &job->precision))
        pl_json_fail_at(&r->json, at, "a precision that is known");
    else if (strcmp(loss, "auto") != 0 && !pl_loss_parse(loss, &job->loss))
        pl_json_fail_at(&r->json, at, "a loss that is known");
    else if (!names_file(trial->id) || (i->of && !names_file(i->of)))
        pl_json_fail_at(&r->json, at, "a job with an id that can name a file");
}

/* The counter of a key; PL_COUNTERS: none. */
static pl_counter counter_of(const pl_json_text *key) {
    pl_counter c = 0;
    while (c < PL_COUNTERS && !pl_json_is(key, pl_counter_name(c), strlen(pl_counter_name(c)))) c++;
    return c;
}

static void read_result(reader *r, pl_measured *i) {
    pl_trial *trial = &i->facts;
    pl_json_text key;
    if (!pl_json_object(&r->json)) return;
    while (pl_json_key(&r->json, &key)) {
        pl_counter counter = counter_of(&key);
        if (counter < PL_COUNTERS)
            read_within(r, &i->counters[counter], 0, 100, "a share from 0 to 100");
        else if (PL_JSON_IS(&key, "peak_allocated"))
            read_bytes(r, &trial->measured_allocated);
        else if (PL_JSON_IS(&key, "peak_reserved"))
            read_bytes(r, &trial->measured_reserved);
        else if (PL_JSON_IS(&key, "overhead"))
            read_bytes(r, &trial->measured_overhead);
        else if (PL_JSON_IS(&key, "flops_per_step"))
            read_within(r, &i->flops_per_step, 0, 1e30, "operations from 0 to 1e30");
        else if (PL_JSON_IS(&key, "step_ms"))
            read_within(r, &i->step_ms, 0, 1e12, "milliseconds from 0 to 1e12");
        else if (PL_JSON_IS(&key, "params"))
            read_bytes(r, &i->profile.parameters);
        else if (PL_JSON_IS(&key, "trainable"))
            read_bytes(r, &i->profile.trainable);
        else if (PL_JSON_IS(&key, "param_bytes"))
            read_bytes(r, &i->profile.parameter_bytes);
        else if (PL_JSON_IS(&key, "buffer_bytes"))
            read_bytes(r, &i->profile.buffer_bytes);
        else if (PL_JSON_IS(&key, "layers") && pl_json_peek(&r->json) == '[')
            read_layers(r, i);
        else
            pl_json_skip(&r->json);
    }
}

/* The reader ends on its failure, if any. */
static void read_line(reader *r, pl_measured *i) {
    pl_json_text key;
    bool job = false, result = false, failed = false;
    if (!pl_json_object(&r->json)) return;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "job")) {
            read_job(r, i);
            job = true;
        } else if (PL_JSON_IS(&key, "result")) {
            read_result(r, i);
            result = true;
        } else {
            failed |= PL_JSON_IS(&key, "error");
            pl_json_skip(&r->json);
        }
    }
    pl_trial *t = &i->facts;
    pl_json_end(&r->json);
    if (r->json.failure) return;
    bool memory =
        t->measured_allocated >= 0 && t->measured_reserved >= 0 && t->measured_overhead >= 0;
    bool counted = false;
    for (int c = 0; c < PL_COUNTERS; c++) counted |= !isnan(i->counters[c]);
    if (!job)
        pl_json_fail(&r->json, "a member \"job\" in the line before");
    else if (!memory && !counted && isnan(i->step_ms) && isnan(i->flops_per_step) &&
             (result || !failed))
        pl_json_fail(&r->json, "peak_allocated, peak_reserved and overhead in the line's result, "
                               "or flops_per_step and step_ms");
    else if (memory && !pl_add_i64(t->measured_reserved, t->measured_overhead, &t->measured_bytes))
        pl_json_fail(&r->json, "a reserve and an overhead that can be added");
}

/* The one check, of the job with the record's sizes and training; where a member is refused, its
 * place in the file is said, of the last where there are several. */
static pl_status check_job(const reader *r, const pl_measured *i, const char *path, size_t from,
                           pl_error *err) {
    pl_job job = i->profile.job;
    job.train = i->train;
    pl_error refused = {0};
    if (pl_job_check(&job, &refused) == PL_OK) return PL_OK;
    int64_t position = (int64_t)from;
    for (size_t k = 0; k < r->place_count; k++)
        if (pl_json_is(&r->places[k].key, refused.where, strlen(refused.where)))
            position = (int64_t)from + (r->places[k].at - r->line);
    return pl_fail(err, PL_INPUT, path, position, "%s of the job: %s", refused.where,
                   refused.message);
}

pl_status pl_record_read(pl_jobs *jobs, const char *path, const char *line, size_t length,
                         size_t from, pl_error *err) {
    pl_measured *i = &jobs->items[jobs->count];
    reader r = {.arena = jobs->arena, .line = line};
    pl_json_open(&r.json, line, length, DEPTH_LIMIT);
    read_line(&r, i);
    if (r.no_memory)
        return pl_fail(err, PL_MISSING, path, (int64_t)from,
                       "out of memory, or over the limit set for it");
    if (r.json.failure)
        return pl_fail(err, PL_INPUT, path, (int64_t)from + r.json.failure_at, "expected %s",
                       r.json.failure);
    pl_job shape = i->profile.job; /* batch and seq, read apart from the job's settings */
    i->profile.job = i->job;
    i->profile.job.batch = shape.batch;
    i->profile.job.seq = shape.seq;
    pl_status status = check_job(&r, i, path, from, err);
    if (status != PL_OK) return status;
    pl_profile_complete(&i->profile, (pl_profile_layer *)i->profile.layers, i->profile.layer_count);
    return PL_OK;
}
