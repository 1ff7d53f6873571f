/* model: see model.h. Batch and sequence are named by the importer (a symbol's role) where the
 * export left them open; in a static graph they are the first two sizes of the first input. A
 * recipe is built anew for each batch and sequence. */
#include "estimate/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sized.h"
#include "graph/data_sizes.h"
#include "graph/finetune.h"
#include "import/graph_json.h"
#include "import/import.h"
#include "estimate/job.h"

const char *pl_version(void) {
    return PL_VERSION;
}

int pl_version_number(void) {
    return PL_VERSION_NUMBER;
}

void pl_model_settings_default_sized(pl_model_settings *settings, size_t size) {
    const pl_model_settings usual = {.depth_limit = PL_USUAL_DEPTH};
    pl_sized_fill(settings, size, &usual, sizeof usual);
}

static const pl_symbol *symbol_of_role(const pl_graph *g, const char *role) {
    for (int32_t i = 0; i < g->symbol_count; i++)
        if (strcmp(g->symbols[i].role, role) == 0) return &g->symbols[i];
    return NULL;
}

static int64_t hint_of(const pl_symbol *symbol) {
    return symbol->hint != PL_UNKNOWN ? symbol->hint : symbol->least;
}

/* Batch and sequence of the graph as it was exported. */
static void find_shape(const pl_graph *g, int64_t *batch, int64_t *seq) {
    *batch = *seq = PL_UNKNOWN;
    for (int32_t i = 0; i < g->input_count; i++) {
        const pl_tensor *in = &g->tensors[g->inputs[i]];
        if (*batch == PL_UNKNOWN && in->dims > 0) *batch = in->sizes[0];
        if (*seq == PL_UNKNOWN && in->dims == 2 && !pl_dtype_is_float(in->dtype))
            *seq = in->sizes[1];
    }
    const pl_symbol *b = symbol_of_role(g, "batch"), *s = symbol_of_role(g, "seq");
    if (b) *batch = hint_of(b);
    if (s) *seq = hint_of(s);
}

static pl_symbol symbol_named(const char *role, int64_t hint, int64_t most) {
    return (pl_symbol){.name = role, .hint = hint, .least = 1, .most = most, .role = role};
}

/* Of a summary nothing but counts is known. */
static void describe_summary(pl_model *model) {
    const pl_summary *s = model->summary;
    model->symbols[0] = symbol_named("batch", s->batch, INT64_MAX);
    model->info = (pl_model_info){.name = s->name,
                                  .torch_version = "",
                                  .parameters = s->parameters,
                                  .trainable = s->trainable,
                                  .parameter_bytes = PL_UNKNOWN,
                                  .buffer_bytes = PL_UNKNOWN,
                                  .operators = PL_UNKNOWN,
                                  .batch = s->batch,
                                  .seq = PL_UNKNOWN,
                                  .symbol_count = 1};
}

/* A trace was recorded for one batch, one precision and one optimizer. */
static void describe_trace(pl_model *model) {
    const pl_trace *t = model->trace;
    model->info.batch = t->batch > 0 ? t->batch : PL_UNKNOWN;
    model->info.seq = PL_UNKNOWN;
    int length = snprintf(model->recorded, sizeof model->recorded, "%.40s%s%.40s",
                          t->precision[0] ? t->precision : "precision as recorded",
                          t->optimizer[0] ? ", " : "", t->optimizer);
    if (t->accumulate > 1 && length >= 0)
        length += snprintf(model->recorded + length, sizeof model->recorded - (size_t)length,
                           ", %lld backward passes per step", (long long)t->accumulate);
    if (t->checkpoint && length >= 0)
        length += snprintf(model->recorded + length, sizeof model->recorded - (size_t)length,
                           ", checkpointing");
    bool kind = t->parallel[0] != 0;
    if (t->world > 1 && length >= 0)
        snprintf(model->recorded + length, sizeof model->recorded - (size_t)length,
                 ", rank %lld of %lld%s%.16s%s", (long long)t->rank, (long long)t->world,
                 kind ? " (" : "", t->parallel, kind ? ")" : "");
    model->info.recorded = model->recorded;
}

/* "bf16, as the config says"; "fp32 and fp16, as exported". Of a recipe the config's type, where it
 * has one: the graph is built for the first job's. */
static void describe_weights(pl_model *model) {
    static const struct {
        pl_dtype dtype;
        const char *name;
    } types[] = {
        {PL_DT_F32, "fp32"}, {PL_DT_BF16, "bf16"}, {PL_DT_F16, "fp16"}, {PL_DT_F64, "fp64"}};
    enum { TYPES = sizeof types / sizeof *types };
    const pl_graph *g = model->graph;
    const pl_recipe *r = model->recipe;
    bool has[TYPES] = {false};
    for (int k = 0; k < TYPES; k++) {
        if (r && r->dtype_from) has[k] = r->dtype == types[k].dtype;
        for (int32_t i = 0; !(r && r->dtype_from) && i < g->tensor_count; i++)
            has[k] = has[k] || (g->tensors[i].role == PL_ROLE_PARAMETER &&
                                g->tensors[i].dtype == types[k].dtype);
    }
    char *out = model->as_exported;
    size_t room = sizeof model->as_exported, used = 0;
    for (int k = 0; k < TYPES; k++)
        if (has[k] && used < room)
            used += (size_t)snprintf(out + used, room - used, "%s%s", used ? " and " : "",
                                     types[k].name);
    const char *from = !r ? "as exported" : r->dtype_from ? r->dtype_from : "as the file has it";
    if (used == 0)
        snprintf(out, room, "precision %s", from);
    else if (used < room)
        snprintf(out + used, room - used, ", %s", from);
    model->info.as_exported = out;
}

static void describe(pl_model *model) {
    if (model->summary) {
        describe_summary(model);
        return;
    }
    const pl_graph *g = model->graph;
    pl_model_info *info = &model->info;
    *info = (pl_model_info){.name = g->name,
                            .torch_version = g->torch_version,
                            .operators = g->node_count,
                            .symbol_count = (size_t)g->symbol_count};
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *t = &g->tensors[i];
        int64_t n = pl_tensor_elements(t);
        if (t->role == PL_ROLE_PARAMETER && t->tied < 0) {
            info->parameters += n;
            info->parameter_bytes += n * pl_dtype_size(t->dtype);
            if (t->requires_grad) info->trainable += n;
        } else if (t->role == PL_ROLE_BUFFER) {
            info->buffer_bytes += n * pl_dtype_size(t->dtype);
        }
    }
    find_shape(g, &info->batch, &info->seq);
    if (model->trace)
        describe_trace(model);
    else
        describe_weights(model);
    const pl_recipe *r = model->recipe;
    if (!r) return;
    info->batch = r->batch;
    info->seq = r->seq;
    info->symbol_count = r->seq != PL_UNKNOWN ? 2 : 1;
    model->symbols[0] = symbol_named("batch", r->batch, r->most_batch);
    model->symbols[1] = symbol_named("seq", r->seq, r->most_seq);
}

/* The type of the weights that a job trains, as the recipe is built for it: casts of the model's
 * own are then where they would be. */
static pl_dtype weights_of(const pl_recipe *r, pl_precision precision) {
    static const pl_dtype types[] = {
        [PL_FP32] = PL_DT_F32, [PL_TF32] = PL_DT_F32,     [PL_BF16] = PL_DT_BF16,
        [PL_FP16] = PL_DT_F16, [PL_AMP_BF16] = PL_DT_F32, [PL_AMP_FP16] = PL_DT_F32};
    return precision == PL_PRECISION_AS_EXPORTED ? r->dtype : types[precision];
}

static bool within(int64_t asked, int64_t most) {
    return asked >= 1 && asked <= most;
}

/* The first graph of a recipe: for the job that comes first where it is known and makes sense. */
static pl_status build_first(pl_model *model, const pl_job *first, pl_error *err) {
    pl_recipe wanted = *model->recipe;
    if (first && within(first->batch, wanted.most_batch)) wanted.batch = first->batch;
    if (first && wanted.seq != PL_UNKNOWN && within(first->seq, wanted.most_seq))
        wanted.seq = first->seq;
    if (first) wanted.dtype = weights_of(model->recipe, first->precision);
    model->built_batch = wanted.batch;
    model->built_seq = wanted.seq;
    model->built_dtype = wanted.dtype;
    return wanted.build(&wanted, wanted.batch, wanted.seq, &model->budget, &model->graph, err);
}

/* The parts of a model, from what the file turned out to hold. */
static pl_status take_imported(pl_model *model, const pl_imported *imported, const pl_job *first,
                               pl_error *err) {
    model->graph = imported->graph;
    model->recipe = imported->recipe;
    model->trace = imported->trace;
    model->summary = imported->summary;
    if (model->trace) model->graph = &model->trace->graph;
    pl_status status = model->recipe ? build_first(model, first, err) : PL_OK;
    if (status == PL_OK && model->graph &&
        !pl_budget_operators(&model->budget, model->graph->node_count))
        status = pl_budget_fail(err, &model->budget, model->graph->name);
    if (status == PL_OK) describe(model);
    return status;
}

/* path, or bytes of size under the name path. */
static pl_status open_model(pl_model **out, const char *path, const void *bytes, size_t size,
                            const pl_model_settings *given, pl_error *err) {
    *out = NULL;
    if (!path) return pl_fail(err, PL_USAGE, "path", -1, "expected the name of a file");
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    if (given && !PL_SIZED_OK(given, map))
        return pl_fail(err, PL_USAGE, "settings", -1,
                       "settings of %zu bytes; pl_model_settings_default sets their size",
                       given->size);
    if (given) pl_sized_read(&settings, sizeof settings, given, given->size);
    pl_job first;
    pl_status status = pl_limits_check(settings.limits, err);
    if (status == PL_OK && settings.first) status = pl_job_read(&first, settings.first, err);
    if (status != PL_OK) return status;
    pl_model *model = calloc(1, sizeof *model);
    if (!model) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    pl_limits_default(&model->limits);
    if (settings.limits)
        pl_sized_read(&model->limits, sizeof model->limits, settings.limits, settings.limits->size);
    pl_budget_start(&model->budget, &model->limits);
    pl_imported imported;
    pl_reading reading = {.budget = &model->budget,
                          .depth_limit = settings.depth_limit,
                          .map = settings.map,
                          .task = settings.task,
                          .attention = settings.attention};
    status = bytes ? pl_import_memory(&imported, bytes, size, path, &reading, err)
                   : pl_import_file(&imported, path, &reading, err);
    if (status == PL_OK)
        status = take_imported(model, &imported, settings.first ? &first : NULL, err);
    if (status == PL_OK)
        *out = model;
    else
        pl_model_close(&model);
    return status;
}

pl_status pl_model_open(pl_model **out, const char *path, const pl_model_settings *settings,
                        pl_error *err) {
    return open_model(out, path, NULL, 0, settings, err);
}

pl_status pl_model_open_memory(pl_model **out, const void *bytes, size_t size, const char *name,
                               const pl_model_settings *settings, pl_error *err) {
    return open_model(out, name, bytes ? bytes : "", size, settings, err);
}

void pl_model_close(pl_model **model) {
    if (!model || !*model) return;
    if (!(*model)->trace) pl_graph_close(&(*model)->graph); /* else it is the trace's */
    pl_recipe_close(&(*model)->recipe);
    pl_trace_close(&(*model)->trace);
    pl_summary_close(&(*model)->summary);
    free(*model);
    *model = NULL;
}

const pl_model_info *pl_model_describe(const pl_model *model) {
    return &model->info;
}

const pl_symbol *pl_model_symbol(const pl_model *model, size_t index) {
    if (index >= model->info.symbol_count) return NULL;
    return model->recipe || model->summary ? &model->symbols[index] : &model->graph->symbols[index];
}

static pl_status refuse(pl_error *err, const char *option, const char *what, int64_t asked,
                        int64_t has) {
    if (has == PL_UNKNOWN)
        return pl_fail(err, PL_USAGE, option, -1,
                       "the graph has no %s dimension that could be %lld", what, (long long)asked);
    return pl_fail(
        err, PL_USAGE, option, -1,
        "the graph was made for a %s of %lld alone; to ask for another, convert its description "
        "again, or export it with a dynamic one: "
        "torch.export.export(model, args, dynamic_shapes={\"x\": {%d: torch.export.Dim(\"%s\")}})",
        what, (long long)has, strcmp(what, "batch") == 0 ? 0 : 1, what);
}

/* A size that the recipe can be built for. */
static pl_status check_size(pl_error *err, const char *option, int64_t asked, int64_t most) {
    if (within(asked, most)) return PL_OK;
    return pl_fail(err, PL_USAGE, option, -1, "%lld is not between 1 and %lld", (long long)asked,
                   (long long)most);
}

static pl_status build_for(const pl_model *model, const pl_job *job, pl_budget *budget,
                           pl_graph **out, bool *owned, int64_t *batch, int64_t *seq,
                           pl_error *err) {
    const pl_recipe *r = model->recipe;
    if (job->seq != PL_UNKNOWN && r->seq == PL_UNKNOWN)
        return pl_fail(err, PL_USAGE, "seq", -1, "this model has no sequence length to choose");
    if (job->batch != PL_UNKNOWN) *batch = job->batch;
    if (job->seq != PL_UNKNOWN) *seq = job->seq;
    pl_status status = check_size(err, "batch", *batch, r->most_batch);
    if (status == PL_OK && *seq != PL_UNKNOWN) status = check_size(err, "seq", *seq, r->most_seq);
    pl_recipe wanted = *r;
    wanted.dtype = weights_of(r, job->precision);
    bool same = *batch == model->built_batch && *seq == model->built_seq &&
                wanted.dtype == model->built_dtype;
    if (status != PL_OK || same) return status;
    status = r->build(&wanted, *batch, *seq, budget, out, err);
    *owned = status == PL_OK;
    return status;
}

/* What was recorded is as it is: a job that asks for something else is refused. */
static pl_status check_recorded(const pl_model *model, const pl_job *job, pl_error *err) {
    const pl_trace *t = model->trace;
    const char *precision = pl_precision_name((size_t)job->precision), *option = NULL;
    if (job->batch != PL_UNKNOWN && job->batch != t->batch) option = "batch";
    if (job->seq != PL_UNKNOWN) option = "seq";
    if (job->precision != PL_PRECISION_AS_EXPORTED && strcmp(precision, t->precision) != 0)
        option = "precision";
    if (job->checkpoint && !t->checkpoint) option = "checkpoint";
    if (job->channels_last && !t->channels_last) option = "channels_last";
    if (job->accumulate > 1 && job->accumulate != t->accumulate) option = "accumulate";
    if (job->parallel != PL_ALONE) option = "parallel";
    if (job->train) option = "train";
    if (!option) return PL_OK;
    return pl_fail(err, PL_USAGE, option, -1,
                   "a trace is of one job, as it was recorded (batch %lld, %s); record it again",
                   (long long)t->batch, model->recorded);
}

/* Only counts: no graph, the batch alone. */
static pl_status size_summary(const pl_model *model, const pl_job *job, int64_t *batch,
                              pl_error *err) {
    const char *option = job->seq != PL_UNKNOWN ? "seq" : job->train ? "train" : NULL;
    if (option)
        return pl_fail(err, PL_USAGE, option, -1, "of this file only counts of layers are known");
    *batch = job->batch != PL_UNKNOWN ? job->batch : model->summary->batch;
    if (*batch == PL_UNKNOWN)
        return pl_fail(err, PL_USAGE, "batch", -1, "the text names no batch; say one");
    return PL_OK;
}

/* Into a bound graph: what was assumed of sizes that depend on data. */
static bool tell_sizes(pl_graph *bound, const pl_graph *g, const int64_t *values,
                       const pl_data_size *sizes) {
    const char *texts[PL_DATA_KINDS];
    int count = pl_data_sizes_told(g, values, sizes, bound->arena, texts);
    if (count <= 0) return count == 0;
    size_t notes = (size_t)(g->note_count + count);
    const char **all = pl_arena_array(bound->arena, notes, sizeof *all);
    if (!all) return false;
    if (g->note_count) memcpy(all, g->notes, (size_t)g->note_count * sizeof *all);
    memcpy(all + g->note_count, texts, (size_t)count * sizeof *all);
    bound->notes = all;
    bound->note_count = (int32_t)notes;
    for (int32_t i = 0; i < g->symbol_count; i++)
        if (sizes[i].kind != PL_DATA_GIVEN) bound->data |= (uint8_t)(1u << sizes[i].kind);
    return true;
}

static pl_status bind_symbols(const pl_graph *g, int64_t *values, pl_data_case which,
                              pl_budget *budget, pl_graph **out, pl_error *err) {
    pl_arena *scratch = pl_arena_new(budget);
    pl_data_size *sizes =
        scratch ? pl_arena_array(scratch, (size_t)g->symbol_count, sizeof *sizes) : NULL;
    pl_status status = sizes && pl_data_sizes(g, which, values, sizes, scratch)
                           ? pl_graph_bind(out, g, values, budget, err)
                           : pl_budget_fail(err, budget, g->name);
    if (status == PL_OK && !tell_sizes(*out, g, values, sizes)) {
        pl_graph_close(out);
        status = pl_budget_fail(err, budget, g->name);
    }
    pl_arena_free(&scratch);
    return status;
}

static pl_status find_graph(const pl_model *model, const pl_job *job, pl_data_case which,
                            pl_budget *budget, pl_graph **out, bool *owned, int64_t *batch,
                            int64_t *seq, pl_error *err) {
    const pl_graph *g = model->graph;
    *out = model->graph;
    *owned = false;
    *batch = model->info.batch;
    *seq = model->info.seq;
    if (model->recipe) return build_for(model, job, budget, out, owned, batch, seq, err);
    if (model->trace) return check_recorded(model, job, err);
    if (model->summary) return size_summary(model, job, batch, err);
    const pl_symbol *b = symbol_of_role(g, "batch"), *s = symbol_of_role(g, "seq");
    if (job->batch != PL_UNKNOWN && !b && job->batch != *batch)
        return refuse(err, "batch", "batch", job->batch, *batch);
    if (job->seq != PL_UNKNOWN && !s && job->seq != *seq)
        return refuse(err, "seq", "seq", job->seq, *seq);
    if (g->symbol_count == 0) return PL_OK;
    int64_t *values = calloc((size_t)g->symbol_count, sizeof *values);
    if (!values) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    for (int32_t i = 0; i < g->symbol_count; i++) {
        const pl_symbol *symbol = &g->symbols[i];
        values[i] = symbol == b && job->batch != PL_UNKNOWN ? job->batch
                    : symbol == s && job->seq != PL_UNKNOWN ? job->seq
                                                            : hint_of(symbol);
        if (symbol == b) *batch = values[i];
        if (symbol == s) *seq = values[i];
    }
    pl_status status = bind_symbols(g, values, which, budget, out, err);
    *owned = status == PL_OK;
    free(values);
    return status;
}

/* What fine-tuning trains: a copy of the graph, changed. */
static pl_status finetune(const pl_job *job, pl_budget *budget, pl_graph **graph, bool *owned,
                          pl_error *err) {
    pl_finetune how = {.kind = PL_FINETUNE_NONE};
    pl_status status = job->train ? pl_finetune_parse(&how, job->train, err) : PL_OK;
    if (status == PL_OK && !*owned) {
        status = pl_graph_bind(graph, *graph, NULL, budget, err);
        *owned = status == PL_OK;
    }
    how.checkpoint = job->checkpoint;
    if (status == PL_OK) status = pl_graph_finetune(*graph, &how, err);
    if (status != PL_OK && *owned) pl_graph_close(graph);
    return status;
}

static pl_status graph_for(const pl_model *model, const pl_job *job, pl_data_case which,
                           pl_budget *budget, pl_graph **out, bool *owned, int64_t *batch,
                           int64_t *seq, pl_error *err) {
    pl_status status = find_graph(model, job, which, budget, out, owned, batch, seq, err);
    if (status == PL_OK && job->train && (model->trace || model->summary))
        return pl_fail(err, PL_USAGE, "train", -1,
                       "this file has no graph that could be changed: what trains is as it says");
    if (model->trace || model->summary) return status;
    bool changed = job->train || (job->checkpoint && status == PL_OK && pl_finetune_hooks(*out));
    return status == PL_OK && changed ? finetune(job, budget, out, owned, err) : status;
}

pl_status pl_model_graph(const pl_model *model, const pl_job *job, pl_budget *budget,
                         pl_graph **out, bool *owned, int64_t *batch, int64_t *seq, pl_error *err) {
    return graph_for(model, job, PL_DATA_EXPECTED, budget, out, owned, batch, seq, err);
}

pl_status pl_model_worst(const pl_model *model, const pl_job *job, pl_budget *budget,
                         pl_graph **out, pl_error *err) {
    bool owned;
    int64_t batch, seq;
    return graph_for(model, job, PL_DATA_WORST, budget, out, &owned, &batch, &seq, err);
}

pl_status pl_model_convert(char **out, size_t *size, const pl_model *model, const pl_job *job,
                           pl_error *err) {
    *out = NULL;
    *size = 0;
    if (!model) return pl_fail(err, PL_USAGE, "model", -1, "expected a model");
    if (model->summary || model->trace)
        return pl_fail(err, PL_USAGE, model->info.name, -1, "%s has no graph to write",
                       model->trace ? "a trace, which is of training steps and not of a model,"
                                    : "a summary, of which only counts of layers are known,");
    pl_job own;
    pl_status status = job ? pl_job_read(&own, job, err) : PL_OK;
    if (status != PL_OK) return status;
    pl_budget budget;
    pl_budget_start(&budget, job && own.limits ? own.limits : &model->limits);
    budget.bytes = model->budget.bytes;
    pl_graph *g = model->graph;
    bool owned = false;
    int64_t batch, seq;
    bool asked =
        job && (model->recipe || own.train || own.batch != PL_UNKNOWN || own.seq != PL_UNKNOWN);
    if (asked) status = pl_model_graph(model, &own, &budget, &g, &owned, &batch, &seq, err);
    if (status != PL_OK) return status;
    pl_text text = {.arena = pl_arena_new(&budget)};
    pl_graph whole = *g; /* with what reading the description assumed */
    if (model->recipe) {
        whole.notes = model->recipe->warnings;
        whole.note_count = (int32_t)model->recipe->warning_count;
        whole.guessed = model->recipe->guessed;
        whole.resembles = model->recipe->resembles;
        whole.unseen = model->recipe->unseen;
    }
    if (text.arena) pl_graph_json_write(&text, &whole);
    if (text.arena && !text.failed && (*out = malloc(text.length + 1))) {
        memcpy(*out, text.text, text.length + 1);
        *size = text.length;
    }
    pl_arena_free(&text.arena);
    if (owned) pl_graph_close(&g);
    return *out ? PL_OK : pl_budget_fail(err, &budget, NULL);
}
