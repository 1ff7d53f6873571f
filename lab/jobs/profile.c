/* profile: see profile.h.
 *
 * The features are those the three papers name (1: input, kind of model, layers, parameters,
 * precision; 2: the same with the optimizer; 3, section 4.3: batch, parameters, activations,
 * activations x batch, counts of layer types, activation function as sine and cosine), and products
 * of them that a network would otherwise have to learn from a thousand jobs: bytes of weights, of
 * training state, of activations. Magnitudes are log2(1 + x). From a graph, a layer is an innermost
 * module that ran; its output is its last operator's. Left out: operators outside of leaf modules
 * (residual sums, attention written out), which no record of layers has. */
#include "lab/jobs/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lend.h"

/* ---- kinds of layers ---- */

/* The first row whose text stands in the class's name holds; case does not count. GPUMemNet's CSV
 * writes "batch_normalization". */
static const struct {
    const char *part;
    pl_profile_kind kind;
} kind_rows[] = {
    {"dropout", PL_LAYER_DROPOUT},
    {"droppath", PL_LAYER_DROPOUT},
    {"stochasticdepth", PL_LAYER_DROPOUT},
    {"batchnorm", PL_LAYER_BATCH_NORM},
    {"batch_norm", PL_LAYER_BATCH_NORM},
    {"weightnorm", PL_LAYER_OTHER},
    {"norm", PL_LAYER_LAYER_NORM},
    {"embedding", PL_LAYER_EMBEDDING},
    {"attention", PL_LAYER_ATTENTION},
    {"conv", PL_LAYER_CONVOLUTION},
    {"pool", PL_LAYER_POOLING},
    {"softmax", PL_LAYER_OTHER},
    {"upsampl", PL_LAYER_OTHER}, /* UpsamplingBilinear2d */
    {"linear", PL_LAYER_LINEAR},
    {"lstm", PL_LAYER_RECURRENT},
    {"gru", PL_LAYER_RECURRENT},
    {"rnn", PL_LAYER_RECURRENT},
    {"elu", PL_LAYER_ACTIVATION}, /* ReLU, GELU, SELU, CELU, ... */
    {"silu", PL_LAYER_ACTIVATION},
    {"swish", PL_LAYER_ACTIVATION},
    {"tanh", PL_LAYER_ACTIVATION},
    {"sigmoid", PL_LAYER_ACTIVATION},
    {"mish", PL_LAYER_ACTIVATION},
    {"softplus", PL_LAYER_ACTIVATION},
    {"softsign", PL_LAYER_ACTIVATION},
    {"activation", PL_LAYER_ACTIVATION},
    {"hardshrink", PL_LAYER_ACTIVATION},
};

static const char *find_part(const char *text, const char *part) {
    size_t length = strlen(part);
    for (; *text; text++) {
        size_t i = 0;
        while (i < length && text[i] && (text[i] | 32) == (part[i] | 32)) i++;
        if (i == length) return text;
    }
    return NULL;
}

pl_profile_kind pl_profile_kind_of(const char *type) {
    if (strcmp(type, "Conv1D") == 0) return PL_LAYER_LINEAR; /* GPT-2's name for a transposed one */
    for (size_t i = 0; i < sizeof kind_rows / sizeof *kind_rows; i++)
        if (find_part(type, kind_rows[i].part)) return kind_rows[i].kind;
    return PL_LAYER_OTHER;
}

/* ---- sums ---- */

static int64_t add(int64_t a, int64_t b) {
    int64_t sum;
    return pl_add_i64(a, b, &sum) ? sum : INT64_MAX;
}

int64_t pl_profile_activations(const pl_profile *profile) {
    int64_t sum = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        sum = add(sum, profile->layers[i].activations);
    return sum;
}

int64_t pl_profile_count(const pl_profile *profile, pl_profile_kind kind) {
    int64_t count = 0;
    for (size_t i = 0; i < profile->layer_count; i++) count += profile->layers[i].kind == kind;
    return count;
}

static bool is_half(pl_precision precision) {
    return precision == PL_BF16 || precision == PL_FP16;
}

static bool is_amp(pl_precision precision) {
    return precision == PL_AMP_BF16 || precision == PL_AMP_FP16;
}

int pl_profile_weight_bytes(const pl_profile *profile) {
    if (profile->job.precision == PL_PRECISION_AS_EXPORTED && profile->parameters > 0) {
        int64_t each = profile->parameter_bytes / profile->parameters;
        return each >= 1 && each <= 8 ? (int)each : 4;
    }
    return is_half(profile->job.precision) ? 2 : 4;
}

int pl_profile_compute_bytes(const pl_profile *profile) {
    return is_amp(profile->job.precision) ? 2 : pl_profile_weight_bytes(profile);
}

int pl_profile_state_bytes(const pl_profile *profile) {
    const pl_optimizer *optimizer =
        profile->job.optimizer ? pl_optimizer_find(profile->job.optimizer) : NULL;
    int tensors = 0;
    for (const char *s = optimizer ? optimizer->state : ""; *s; s++)
        tensors += *s == 'p' || *s == 'f';
    return tensors * pl_profile_weight_bytes(profile);
}

void pl_profile_complete(pl_profile *profile, pl_profile_layer *layers, size_t layer_count) {
    int64_t parameters = 0;
    for (size_t i = 0; i < layer_count; i++) {
        layers[i].kind = pl_profile_kind_of(layers[i].type);
        parameters = add(parameters, layers[i].parameters);
    }
    profile->layers = layers;
    profile->layer_count = layer_count;
    if (profile->parameters == PL_UNKNOWN) profile->parameters = parameters;
    if (profile->trainable == PL_UNKNOWN) profile->trainable = profile->parameters;
    if (profile->parameter_bytes == PL_UNKNOWN) {
        int each = is_half(profile->job.precision) ? 2 : 4;
        if (!pl_mul_i64(profile->parameters, each, &profile->parameter_bytes))
            profile->parameter_bytes = INT64_MAX;
    }
    if (profile->buffer_bytes == PL_UNKNOWN) profile->buffer_bytes = 0;
}

/* ---- guesses ---- */

/* What of a layer's output is alive at the peak, in outputs: dropout keeps its mask, a recurrent
 * layer its gates, what is neither often makes a view. Read off 1,580 measured jobs (2026-11-15,
 * H200): with these the guess alone has a median error of 11 %. */
static const double kept_outputs[PL_LAYER_KINDS] = {
    [PL_LAYER_LINEAR] = 1,     [PL_LAYER_CONVOLUTION] = 1, [PL_LAYER_BATCH_NORM] = 1,
    [PL_LAYER_LAYER_NORM] = 1, [PL_LAYER_DROPOUT] = 1.25,  [PL_LAYER_ACTIVATION] = 1,
    [PL_LAYER_EMBEDDING] = 1,  [PL_LAYER_POOLING] = 1,     [PL_LAYER_RECURRENT] = 3,
    [PL_LAYER_ATTENTION] = 1,  [PL_LAYER_OTHER] = 0.5};
static const double kept_by_checkpointing = 0.35; /* of the activations */
static const double usual_context = 760.0 * 1048576;

double pl_profile_guess_bytes(const pl_profile *p) {
    const pl_optimizer *optimizer = p->job.optimizer ? pl_optimizer_find(p->job.optimizer) : NULL;
    bool trains = !optimizer || strcmp(optimizer->name, "none") != 0;
    double batch = p->job.batch > 0 ? (double)p->job.batch : 1;
    double weight = pl_profile_weight_bytes(p), compute = pl_profile_compute_bytes(p);
    double shards = p->job.parallel == PL_FSDP2 && p->job.world > 1 ? p->job.world : 1;
    double outputs = 0, largest = 0, last = 0, temporaries = 0;
    for (size_t i = 0; i < p->layer_count; i++) {
        last = (double)p->layers[i].activations;
        outputs += kept_outputs[p->layers[i].kind] * last;
        largest = fmax(largest, last);
    }
    if (!trains) outputs = 2 * largest;
    if (trains && p->job.checkpoint) outputs *= kept_by_checkpointing;
    for (const char *s = optimizer ? optimizer->step : ""; *s; s++)
        temporaries += *s == 'P' || *s == 'F' || *s == 'M';
    double state = trains ? (double)p->trainable * (weight + pl_profile_state_bytes(p)) : 0;
    double fixed = ((double)p->parameter_bytes + state) / shards;
    double casts = is_amp(p->job.precision) ? 2 * (double)p->parameters : 0;
    double logits = last * batch * (8 + compute); /* in float32, and their gradient */
    double backward = batch * compute * outputs + logits + casts;
    double step = temporaries * (double)p->trainable * weight / shards;
    return usual_context + fixed + fmax(backward, step);
}

/* Three products per weight (forward and twice backward); how often a weight is used per sample is
 * the geometric mean of the outputs around it over the weights of a layer. */
double pl_profile_guess_flops(const pl_profile *p) {
    double sum = 0, before = 1;
    for (size_t i = 0; i < p->layer_count; i++) {
        const pl_profile_layer *l = &p->layers[i];
        double out = (double)l->activations, weights = (double)l->parameters;
        if (l->kind == PL_LAYER_LINEAR || l->kind == PL_LAYER_RECURRENT)
            sum += sqrt(before * out * weights);
        else if (l->kind == PL_LAYER_CONVOLUTION)
            sum += 3 * sqrt(before * out * weights);
        before = out > 1 ? out : 1;
    }
    double batch = p->job.batch > 0 ? (double)p->job.batch : 1;
    return 6 * batch * sum + 1;
}

/* ---- from a graph ---- */

/* A parameter and the length of its module's path in its own: "layers.0.fc" of
 * "layers.0.fc.weight". */
typedef struct owned {
    const char *path;
    size_t length;
    int64_t elements;
} owned;

static int compare_paths(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t shorter = a_length < b_length ? a_length : b_length;
    int order = memcmp(a, b, shorter);
    if (order != 0) return order;
    return a_length < b_length ? -1 : a_length > b_length;
}

static int compare_owned(const void *x, const void *y) {
    const owned *a = x, *b = y;
    return compare_paths(a->path, a->length, b->path, b->length);
}

static int64_t parameters_of(const owned *all, size_t count, const char *path) {
    size_t length = strlen(path), from = 0, to = count;
    while (from < to) { /* the first of the module */
        size_t middle = from + (to - from) / 2;
        if (compare_paths(all[middle].path, all[middle].length, path, length) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    int64_t sum = 0;
    for (; from < count && compare_paths(all[from].path, all[from].length, path, length) == 0;
         from++)
        sum = add(sum, all[from].elements);
    return sum;
}

static void sum_tensors(pl_profile *out, const pl_graph *g, owned *all, size_t *count) {
    int half = is_half(out->job.precision) ? 2 : 0;
    int full = out->job.precision == PL_PRECISION_AS_EXPORTED ? 0 : 4;
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *t = &g->tensors[i];
        int64_t n = pl_tensor_elements(t), size = pl_dtype_size(t->dtype), bytes;
        if (pl_dtype_is_float(t->dtype) && (half || full)) size = half ? half : full;
        if (!pl_mul_i64(n, size, &bytes)) bytes = INT64_MAX;
        if (t->role == PL_ROLE_PARAMETER) {
            const char *dot = t->path ? strrchr(t->path, '.') : NULL;
            if (t->path) all[(*count)++] = (owned){t->path, dot ? (size_t)(dot - t->path) : 0, n};
            if (t->tied >= 0) continue;
            out->parameters = add(out->parameters, n);
            out->parameter_bytes = add(out->parameter_bytes, bytes);
            if (t->requires_grad) out->trainable = add(out->trainable, n);
        } else if (t->role == PL_ROLE_BUFFER) {
            out->buffer_bytes = add(out->buffer_bytes, bytes);
        }
    }
}

static int64_t output_elements(const pl_graph *g, const pl_node *node) {
    for (uint32_t k = 0; k < node->output_count; k++)
        if (node->outputs[k] >= 0) return pl_tensor_elements(&g->tensors[node->outputs[k]]);
    return 0;
}

bool pl_profile_of_graph(pl_profile *out, const pl_graph *g, const pl_job *job, int64_t batch,
                         int64_t seq, pl_arena *arena) {
    *out = (pl_profile){.job = *job};
    out->job.batch = batch;
    out->job.seq = seq;
    int64_t samples = batch > 0 ? batch : 1;
    size_t modules = (size_t)g->module_count, count = 0, parameters = 0;
    owned *all = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *all);
    uint8_t *inner = pl_arena_array(arena, modules + 1, 1); /* 1: some module inside it ran */
    int32_t *place = pl_arena_array(arena, modules + 1, sizeof *place); /* its layer + 1; 0: none */
    pl_profile_layer *layers = pl_arena_array(arena, modules + 1, sizeof *layers);
    if (!all || !inner || !place || !layers) return false;
    sum_tensors(out, g, all, &parameters);
    qsort(all, parameters, sizeof *all, compare_owned);
    for (int32_t i = 0; i < g->input_count; i++)
        out->input_elements =
            add(out->input_elements, pl_tensor_elements(&g->tensors[g->inputs[i]]) / samples);
    for (int32_t i = 0; i < g->node_count; i++)
        for (int32_t m = g->nodes[i].module; m >= 0;) {
            m = g->modules[m].parent;
            if (m < 0 || inner[m]) break;
            inner[m] = 1;
        }
    for (int32_t i = 0; i < g->node_count; i++) {
        int32_t m = g->nodes[i].module;
        if (m < 0 || inner[m]) continue;
        if (!place[m]) {
            const char *dot = strrchr(g->modules[m].type, '.');
            layers[count] = (pl_profile_layer){
                .type = dot ? dot + 1 : g->modules[m].type,
                .parameters = parameters_of(all, parameters, g->modules[m].path)};
            place[m] = (int32_t)++count;
        }
        layers[place[m] - 1].activations = output_elements(g, &g->nodes[i]) / samples;
    }
    pl_profile_complete(out, layers, count);
    return true;
}

/* ---- as numbers ---- */

enum {
    F_BATCH,
    F_SEQ,
    F_PARAMETERS,
    F_TRAINABLE,
    F_ACTIVATIONS,
    F_ACTIVATIONS_BATCH,
    F_ACTIVATION_BYTES,
    F_LARGEST_BYTES,
    F_OUTPUT_BYTES,
    F_PARAMETER_BYTES,
    F_STATE_BYTES,
    F_TOTAL_BYTES,
    F_LAYERS,
    F_KINDS, /* PL_LAYER_KINDS of them */
    F_FUNCTION_SIN = F_KINDS + PL_LAYER_KINDS,
    F_FUNCTION_COS,
    F_WEIGHT_SIZE,
    F_COMPUTE_SIZE,
    F_AMP,
    F_TF32,
    F_STATES,
    F_TEMPORARIES,
    F_CHECKPOINT,
    F_ACCUMULATE,
    F_CHANNELS_LAST,
    F_BENCHMARK,
    F_EXPANDABLE,
    F_WORLD,
    F_FROZEN,
    F_LOSS_CE,
    F_LOSS_OWN,
    FEATURES
};

static const char *const feature_names[FEATURES] = {
    [F_BATCH] = "log2 batch",
    [F_SEQ] = "log2 sequence",
    [F_PARAMETERS] = "log2 parameters",
    [F_TRAINABLE] = "log2 trainable",
    [F_ACTIVATIONS] = "log2 activations",
    [F_ACTIVATIONS_BATCH] = "log2 activations x batch",
    [F_ACTIVATION_BYTES] = "log2 activation bytes",
    [F_LARGEST_BYTES] = "log2 largest layer bytes",
    [F_OUTPUT_BYTES] = "log2 last layer bytes",
    [F_PARAMETER_BYTES] = "log2 parameter bytes",
    [F_STATE_BYTES] = "log2 gradient and optimizer bytes",
    [F_TOTAL_BYTES] = "log2 guessed bytes",
    [F_LAYERS] = "log2 layers",
    [F_KINDS + PL_LAYER_LINEAR] = "log2 linear",
    [F_KINDS + PL_LAYER_CONVOLUTION] = "log2 convolution",
    [F_KINDS + PL_LAYER_BATCH_NORM] = "log2 batch norm",
    [F_KINDS + PL_LAYER_LAYER_NORM] = "log2 layer norm",
    [F_KINDS + PL_LAYER_DROPOUT] = "log2 dropout",
    [F_KINDS + PL_LAYER_ACTIVATION] = "log2 activation",
    [F_KINDS + PL_LAYER_EMBEDDING] = "log2 embedding",
    [F_KINDS + PL_LAYER_POOLING] = "log2 pooling",
    [F_KINDS + PL_LAYER_RECURRENT] = "log2 recurrent",
    [F_KINDS + PL_LAYER_ATTENTION] = "log2 attention",
    [F_KINDS + PL_LAYER_OTHER] = "log2 other",
    [F_FUNCTION_SIN] = "sin activation function",
    [F_FUNCTION_COS] = "cos activation function",
    [F_WEIGHT_SIZE] = "weight bytes",
    [F_COMPUTE_SIZE] = "compute bytes",
    [F_AMP] = "amp",
    [F_TF32] = "tf32",
    [F_STATES] = "optimizer states",
    [F_TEMPORARIES] = "optimizer temporaries",
    [F_CHECKPOINT] = "checkpoint",
    [F_ACCUMULATE] = "log2 accumulate",
    [F_CHANNELS_LAST] = "channels last",
    [F_BENCHMARK] = "cudnn benchmark",
    [F_EXPANDABLE] = "expandable segments",
    [F_WORLD] = "log2 ranks",
    [F_FROZEN] = "frozen share",
    [F_LOSS_CE] = "loss ce",
    [F_LOSS_OWN] = "loss own",
};

static float magnitude(double x) {
    return (float)log2(1 + (x > 0 ? x : 0));
}

/* Activation functions on a circle, in the order of this table: near ones keep alike tensors. */
static const char *const functions[] = {"relu6", "relu",     "leaky",  "prelu", "elu",
                                        "selu",  "gelu",     "silu",   "swish", "mish",
                                        "tanh",  "softplus", "sigmoid"};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* The place of the most frequent one; -1: none. */
static int function_of(const pl_profile *profile) {
    int counts[FUNCTIONS] = {0}, best = -1;
    for (size_t i = 0; i < profile->layer_count; i++) {
        if (profile->layers[i].kind != PL_LAYER_ACTIVATION) continue;
        int found = -1;
        size_t longest = 0;
        for (int f = 0; f < FUNCTIONS; f++)
            if (strlen(functions[f]) > longest &&
                find_part(profile->layers[i].type, functions[f])) {
                found = f;
                longest = strlen(functions[f]);
            }
        if (found >= 0) counts[found]++;
    }
    for (int f = 0; f < FUNCTIONS; f++)
        if (counts[f] && (best < 0 || counts[f] > counts[best])) best = f;
    return best;
}

/* Both 0 without one. */
static void function_angle(const pl_profile *profile, float *sine, float *cosine) {
    int function = function_of(profile);
    if (function < 0) return;
    double angle = 2 * 3.14159265358979323846 * function / FUNCTIONS;
    *sine = (float)sin(angle);
    *cosine = (float)cos(angle);
}

static void fill_features(const pl_profile *profile, float *out) {
    const pl_job *job = &profile->job;
    memset(out, 0, FEATURES * sizeof *out);
    double batch = job->batch > 0 ? (double)job->batch : 1;
    double activations = (double)pl_profile_activations(profile);
    double compute = pl_profile_compute_bytes(profile), weight = pl_profile_weight_bytes(profile);
    double trainable = (double)profile->trainable;
    double largest = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        largest = fmax(largest, (double)profile->layers[i].activations);
    double last =
        profile->layer_count ? (double)profile->layers[profile->layer_count - 1].activations : 0;
    const pl_optimizer *optimizer = job->optimizer ? pl_optimizer_find(job->optimizer) : NULL;
    bool trains = !optimizer || strcmp(optimizer->name, "none") != 0;
    double state = trains ? trainable * (weight + pl_profile_state_bytes(profile)) : 0;
    double ranks = job->world > 1 ? job->world : 1;
    double shards = job->parallel == PL_FSDP2 ? ranks : 1;
    double alive = trains ? activations : largest;
    out[F_BATCH] = magnitude((double)job->batch);
    out[F_SEQ] = magnitude((double)job->seq);
    out[F_PARAMETERS] = magnitude((double)profile->parameters);
    out[F_TRAINABLE] = magnitude(trainable);
    out[F_ACTIVATIONS] = magnitude(activations);
    out[F_ACTIVATIONS_BATCH] = magnitude(activations * batch);
    out[F_ACTIVATION_BYTES] = magnitude(alive * batch * compute);
    out[F_LARGEST_BYTES] = magnitude(largest * batch * compute);
    out[F_OUTPUT_BYTES] = magnitude(last * batch * 4); /* losses are computed in float32 */
    out[F_PARAMETER_BYTES] = magnitude((double)profile->parameter_bytes / shards);
    out[F_STATE_BYTES] = magnitude(state / shards);
    out[F_TOTAL_BYTES] = magnitude(pl_profile_guess_bytes(profile));
    out[F_LAYERS] = magnitude((double)profile->layer_count);
    for (size_t i = 0; i < profile->layer_count; i++) out[F_KINDS + profile->layers[i].kind] += 1;
    for (int kind = 0; kind < PL_LAYER_KINDS; kind++)
        out[F_KINDS + kind] = magnitude((double)out[F_KINDS + kind]);
    function_angle(profile, &out[F_FUNCTION_SIN], &out[F_FUNCTION_COS]);
    out[F_WEIGHT_SIZE] = (float)weight;
    out[F_COMPUTE_SIZE] = (float)compute;
    out[F_AMP] = is_amp(job->precision);
    out[F_TF32] = job->precision == PL_TF32;
    out[F_STATES] = (float)(pl_profile_state_bytes(profile) / weight);
    for (const char *s = optimizer ? optimizer->step : ""; *s; s++)
        out[F_TEMPORARIES] += *s == 'P' || *s == 'F' || *s == 'M';
    out[F_CHECKPOINT] = job->checkpoint;
    out[F_ACCUMULATE] = magnitude(job->accumulate - 1);
    out[F_CHANNELS_LAST] = job->channels_last;
    out[F_BENCHMARK] = job->cudnn_benchmark;
    out[F_EXPANDABLE] =
        job->alloc_conf && strstr(job->alloc_conf, "expandable_segments:True") != NULL;
    out[F_WORLD] = magnitude(ranks - 1);
    out[F_FROZEN] =
        profile->parameters > 0 ? (float)(1 - trainable / (double)profile->parameters) : 0;
    out[F_LOSS_CE] = job->loss == PL_LOSS_CE;
    out[F_LOSS_OWN] = job->loss == PL_LOSS_OWN;
}

/* Paper 3's: magnitudes and counts, as they are and as log2, and the activation function. */
enum {
    N_BATCH,
    N_PARAMETERS,
    N_ACTIVATIONS,
    N_ACTIVATIONS_BATCH,
    N_KINDS,
    N_LOGS = N_KINDS + PL_LAYER_KINDS,
    N_FUNCTION_SIN = 2 * N_LOGS,
    N_FUNCTION_COS,
    COUNTS
};

#define BOTH(place, name) [place] = name, [N_LOGS + (place)] = "log2 " name
static const char *const count_names[COUNTS] = {
    BOTH(N_BATCH, "batch"),
    BOTH(N_PARAMETERS, "parameters"),
    BOTH(N_ACTIVATIONS, "activations"),
    BOTH(N_ACTIVATIONS_BATCH, "activations x batch"),
    BOTH(N_KINDS + PL_LAYER_LINEAR, "linear"),
    BOTH(N_KINDS + PL_LAYER_CONVOLUTION, "convolution"),
    BOTH(N_KINDS + PL_LAYER_BATCH_NORM, "batch norm"),
    BOTH(N_KINDS + PL_LAYER_LAYER_NORM, "layer norm"),
    BOTH(N_KINDS + PL_LAYER_DROPOUT, "dropout"),
    BOTH(N_KINDS + PL_LAYER_ACTIVATION, "activation"),
    BOTH(N_KINDS + PL_LAYER_EMBEDDING, "embedding"),
    BOTH(N_KINDS + PL_LAYER_POOLING, "pooling"),
    BOTH(N_KINDS + PL_LAYER_RECURRENT, "recurrent"),
    BOTH(N_KINDS + PL_LAYER_ATTENTION, "attention"),
    BOTH(N_KINDS + PL_LAYER_OTHER, "other"),
    [N_FUNCTION_SIN] = "sin activation function",
    [N_FUNCTION_COS] = "cos activation function",
};
#undef BOTH

static void fill_counts(const pl_profile *profile, float *out) {
    memset(out, 0, COUNTS * sizeof *out);
    double batch = profile->job.batch > 0 ? (double)profile->job.batch : 1;
    double activations = (double)pl_profile_activations(profile);
    double numbers[N_LOGS] = {[N_BATCH] = batch,
                              [N_PARAMETERS] = (double)profile->parameters,
                              [N_ACTIVATIONS] = activations,
                              [N_ACTIVATIONS_BATCH] = activations * batch};
    for (size_t i = 0; i < profile->layer_count; i++)
        numbers[N_KINDS + profile->layers[i].kind] += 1;
    for (int i = 0; i < N_LOGS; i++) {
        out[i] = (float)numbers[i];
        out[N_LOGS + i] = magnitude(numbers[i]);
    }
    function_angle(profile, &out[N_FUNCTION_SIN], &out[N_FUNCTION_COS]);
}

static const struct {
    size_t count;
    const char *const *names;
    void (*fill)(const pl_profile *profile, float *out);
} views[PL_VIEWS] = {[PL_VIEW_FEATURES] = {FEATURES, feature_names, fill_features},
                     [PL_VIEW_COUNTS] = {COUNTS, count_names, fill_counts}};

_Static_assert((int)FEATURES <= (int)PL_MOST_FEATURES, "room for a view");
_Static_assert((int)COUNTS <= (int)PL_MOST_FEATURES, "room for a view");

size_t pl_feature_count(pl_view view) {
    return views[view].count;
}

const char *const *pl_feature_names(pl_view view) {
    return views[view].names;
}

void pl_features_of(const pl_profile *profile, pl_view view, float *out) {
    views[view].fill(profile, out);
}

enum {
    C_ACTIVATIONS = PL_LAYER_KINDS,
    C_PARAMETERS,
    C_LOG_ACTIVATIONS,
    C_LOG_PARAMETERS,
    CHANNELS
};

static const char *const channel_names[CHANNELS] = {[PL_LAYER_LINEAR] = "linear",
                                                    [PL_LAYER_CONVOLUTION] = "convolution",
                                                    [PL_LAYER_BATCH_NORM] = "batch norm",
                                                    [PL_LAYER_LAYER_NORM] = "layer norm",
                                                    [PL_LAYER_DROPOUT] = "dropout",
                                                    [PL_LAYER_ACTIVATION] = "activation",
                                                    [PL_LAYER_EMBEDDING] = "embedding",
                                                    [PL_LAYER_POOLING] = "pooling",
                                                    [PL_LAYER_RECURRENT] = "recurrent",
                                                    [PL_LAYER_ATTENTION] = "attention",
                                                    [PL_LAYER_OTHER] = "other",
                                                    [C_ACTIVATIONS] = "activations",
                                                    [C_PARAMETERS] = "parameters",
                                                    [C_LOG_ACTIVATIONS] = "log2 activations",
                                                    [C_LOG_PARAMETERS] = "log2 parameters"};

size_t pl_channel_count(void) {
    return CHANNELS;
}

const char *const *pl_channel_names(void) {
    return channel_names;
}

void pl_steps_of(const pl_profile *profile, float *out) {
    memset(out, 0, profile->layer_count * CHANNELS * sizeof *out);
    for (size_t i = 0; i < profile->layer_count; i++, out += CHANNELS) {
        out[profile->layers[i].kind] = 1;
        out[C_ACTIVATIONS] = (float)profile->layers[i].activations;
        out[C_PARAMETERS] = (float)profile->layers[i].parameters;
        out[C_LOG_ACTIVATIONS] = magnitude((double)profile->layers[i].activations);
        out[C_LOG_PARAMETERS] = magnitude((double)profile->layers[i].parameters);
    }
}
