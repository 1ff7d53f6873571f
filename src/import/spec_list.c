/* spec_list: a model as a list of layers, one after the other, as nn.Sequential runs them.
 *
 * An item is a word with numbers (`conv 64 3`, `linear 10 bias=false`), or a mapping whose first
 * key is the layer (`{conv: 64, kernel: 3}`, `lstm: {hidden: 512}`). Sizes of inputs are inferred;
 * defaults are torch.nn's, where it has any. Modules are named as nn.Sequential names them.
 *
 * Left out: graphs with more than one road but for residual; weights shared between layers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/spec_reader.h"

/* What a tensor is to the layers; batch first. */
typedef enum form {
    FEATURES, /* [N, F] */
    SEQUENCE, /* [N, L, F] */
    IMAGE,    /* [N, C, one to three edges] */
    TOKENS,   /* [N, L] int64 */
} form;

typedef struct value {
    int32_t x;
    form form;
} value;

enum { MAX_ARGS = 16 };

/* An item with its settings as a mapping, however it was written. */
typedef struct item {
    const pl_yaml *node;
    const char *name; /* of the layer */
    pl_yaml args;     /* a mapping over members */
    pl_yaml members[MAX_ARGS];
    char text[256];       /* of an item that is words */
    const pl_yaml *inner; /* a list that stands for the layer's value: residual, repeat */
} item;

typedef struct layer {
    const char *name;
    const char *places;            /* keys of the numbers behind the name, in order */
    const char *keys;              /* all of them */
    unsigned forms;                /* 1 << FEATURES | .. it can take */
    const char *expects, *instead; /* for the message */
    value (*build)(pl_sketch *s, const item *it, const char *name, value v);
} layer;

enum { F = 1 << FEATURES, S = 1 << SEQUENCE, I = 1 << IMAGE, T = 1 << TOKENS };

/* ---- words for people ---- */

static const char *described(const pl_sketch *s, value v, char *out, size_t size) {
    const pl_builder *b = s->b;
    long long n[3];
    int edges = pl_built_dims(b, v.x) - 2;
    for (int i = 0; i < 3; i++) n[i] = (long long)pl_built_size(b, v.x, i + 1);
    switch (v.form) {
    case FEATURES: snprintf(out, size, "%lld features", n[0]); break;
    case TOKENS: snprintf(out, size, "%lld tokens", n[0]); break;
    case SEQUENCE:
        snprintf(out, size, "a sequence of %lld steps of %lld features", n[0], n[1]);
        break;
    case IMAGE:
        if (edges == 1)
            snprintf(out, size, "a signal of %lld x %lld", n[0], n[1]);
        else if (edges == 2)
            snprintf(out, size, "an image of %lld x %lld x %lld", n[0], n[1], n[2]);
        else
            snprintf(out, size, "a volume of %lld x %lld x %lld x %lld", n[0], n[1], n[2],
                     (long long)pl_built_size(b, v.x, 4));
    }
    return out;
}

static int edges_of(const pl_sketch *s, value v) {
    return pl_built_dims(s->b, v.x) - 2;
}

/* ---- settings ---- */

/* A number an edge: `kernel: 3` or `kernel: [3, 5]`; absent: otherwise. */
static void per_edge(pl_sketch *s, const pl_yaml *args, const char *key, int edges, int64_t least,
                     const int64_t *otherwise, int64_t out[3]) {
    const pl_yaml *m = pl_yaml_get(args, key);
    for (int i = 0; i < 3; i++) out[i] = otherwise[i];
    if (!m || m->kind == PL_YAML_NULL) return;
    if (m->kind != PL_YAML_LIST) {
        out[0] = out[1] = out[2] = pl_spec_number(s, m, key, least);
        return;
    }
    if (m->count != (size_t)edges) {
        pl_spec_fail(s, m, "%s: expected a number, or %d of them", key, edges);
        return;
    }
    int i = 0;
    for (const pl_yaml *n = m->first; n; n = n->next, i++)
        out[i] = pl_spec_number(s, n, key, least);
}

static const int64_t none[] = {0, 0, 0}, ones[] = {1, 1, 1}, twos[] = {2, 2, 2},
                     threes[] = {3, 3, 3};

/* padding: a number an edge, or `same`. */
static void read_padding(pl_sketch *s, const pl_yaml *args, int edges, pl_nn_window *w) {
    const pl_yaml *m = pl_yaml_get(args, "padding");
    if (!m || !m->text || strcmp(m->text, "same") != 0) {
        per_edge(s, args, "padding", edges, 0, none, w->padding);
        return;
    }
    for (int i = 0; i < edges; i++) {
        if (w->kernel[i] % 2 == 0 || w->stride[i] != 1)
            pl_spec_fail(s, m, "padding: `same` needs an odd kernel and a stride of 1");
        w->padding[i] = w->dilation[i] * (w->kernel[i] / 2);
    }
}

static pl_nn_window read_window(pl_sketch *s, const pl_yaml *args, int edges,
                                const int64_t *kernel) {
    pl_nn_window w = {.groups = pl_spec_int(s, args, "groups", 1, 1),
                      .bias = pl_spec_bool(s, args, "bias", true),
                      .ceil = pl_spec_bool(s, args, "ceil", false)};
    bool pool = kernel == twos;
    per_edge(s, args, "kernel", edges, 1, kernel, w.kernel);
    per_edge(s, args, "stride", edges, 1, pool ? w.kernel : ones, w.stride);
    per_edge(s, args, "dilation", edges, 1, ones, w.dilation);
    per_edge(s, args, "output_padding", edges, 0, none, w.output_padding);
    read_padding(s, args, edges, &w);
    return w;
}

/* ---- layers ---- */

static value linear(pl_sketch *s, const item *it, const char *name, value v) {
    int64_t out = pl_spec_need(s, &it->args, "out", "linear");
    v.x = pl_nn_linear(s->b, name, v.x, out, pl_spec_bool(s, &it->args, "bias", true));
    return v;
}

static value conv(pl_sketch *s, const item *it, const char *name, value v) {
    int edges = edges_of(s, v);
    int64_t out = pl_spec_need(s, &it->args, "out", "conv"), in = pl_built_size(s->b, v.x, 1);
    pl_nn_window w = read_window(s, &it->args, edges, threes);
    if (in % w.groups != 0 || out % w.groups != 0)
        pl_spec_fail(s, it->node, "conv: %lld groups do not divide %lld and %lld channels",
                     (long long)w.groups, (long long)in, (long long)out);
    v.x = pl_nn_conv(s->b, name, edges, v.x, out, &w);
    return v;
}

static value conv_transpose(pl_sketch *s, const item *it, const char *name, value v) {
    int edges = edges_of(s, v);
    int64_t out = pl_spec_need(s, &it->args, "out", "convtranspose");
    int64_t in = pl_built_size(s->b, v.x, 1);
    pl_nn_window w = read_window(s, &it->args, edges, threes);
    if (in % w.groups != 0 || out % w.groups != 0)
        pl_spec_fail(s, it->node, "convtranspose: %lld groups do not divide %lld and %lld channels",
                     (long long)w.groups, (long long)in, (long long)out);
    v.x = pl_nn_conv_transpose(s->b, name, edges, v.x, out, &w);
    return v;
}

static value max_pool(pl_sketch *s, const item *it, const char *name, value v) {
    pl_nn_window w = read_window(s, &it->args, edges_of(s, v), twos);
    v.x = pl_nn_max_pool(s->b, name, edges_of(s, v), v.x, &w);
    return v;
}

static value avg_pool(pl_sketch *s, const item *it, const char *name, value v) {
    pl_nn_window w = read_window(s, &it->args, edges_of(s, v), twos);
    v.x = pl_nn_avg_pool(s->b, name, edges_of(s, v), v.x, &w);
    return v;
}

static value global_pool(pl_sketch *s, const item *it, const char *name, value v) {
    int64_t sizes[3];
    per_edge(s, &it->args, "size", edges_of(s, v), 1, ones, sizes);
    v.x = pl_nn_adaptive_avg_pool(s->b, name, edges_of(s, v), v.x, sizes);
    return v;
}

static value upsample(pl_sketch *s, const item *it, const char *name, value v) {
    int64_t scale = pl_spec_int(s, &it->args, "scale", 1, 2);
    bool smooth = pl_spec_word(s, &it->args, "mode", "nearest linear bilinear", 0) > 0;
    v.x = pl_nn_upsample(s->b, name, edges_of(s, v), v.x, scale, smooth);
    return v;
}

static value flatten(pl_sketch *s, const item *it, const char *name, value v) {
    (void)it;
    return (value){pl_nn_flatten(s->b, name, v.x), FEATURES};
}

static value batch_norm(pl_sketch *s, const item *it, const char *name, value v) {
    (void)it;
    v.x = pl_nn_batch_norm(s->b, name, v.x);
    return v;
}

static value layer_norm(pl_sketch *s, const item *it, const char *name, value v) {
    (void)it;
    v.x = pl_nn_layer_norm(s->b, name, v.x);
    return v;
}

static value rms_norm(pl_sketch *s, const item *it, const char *name, value v) {
    (void)it;
    v.x = pl_nn_rms_norm(s->b, name, v.x);
    return v;
}

static value group_norm(pl_sketch *s, const item *it, const char *name, value v) {
    int64_t groups = pl_spec_int(s, &it->args, "groups", 1, 32);
    int64_t channels = pl_built_size(s->b, v.x, 1);
    if (channels % groups != 0)
        pl_spec_fail(s, it->node, "groupnorm: %lld groups do not divide %lld channels",
                     (long long)groups, (long long)channels);
    v.x = pl_nn_group_norm(s->b, name, v.x, groups);
    return v;
}

static value dropout(pl_sketch *s, const item *it, const char *name, value v) {
    double p = pl_spec_share(s, &it->args, "p", 0.5);
    bool channels = pl_spec_bool(s, &it->args, "channels", false);
    if (channels && v.form != IMAGE)
        pl_spec_fail(s, it->node, "dropout: only images have channels to drop");
    v.x = channels ? pl_nn_dropout_channels(s->b, name, edges_of(s, v), v.x, p)
                   : pl_nn_dropout(s->b, name, v.x, p);
    return v;
}

static value embedding(pl_sketch *s, const item *it, const char *name, value v) {
    int64_t vocab = pl_spec_need(s, &it->args, "vocab", "embedding");
    int64_t width = pl_spec_need(s, &it->args, "width", "embedding");
    return (value){pl_nn_embedding(s->b, name, v.x, vocab, width), SEQUENCE};
}

/* Learnt positions, added: an Embedding of as many rows as the sequence has steps, or `most`. */
static value positions(pl_sketch *s, const item *it, const char *name, value v) {
    int64_t steps = pl_built_size(s->b, v.x, 1), width = pl_built_size(s->b, v.x, 2);
    int64_t rows = pl_spec_int(s, &it->args, "most", 1, steps);
    if (rows < steps)
        pl_spec_fail(s, it->node, "positions: %lld of them for %lld steps", (long long)rows,
                     (long long)steps);
    pl_module_enter(s->b, name, "Positions");
    pl_line(s->b, "return x + self.pos(torch.arange(x.shape[1]))");
    int32_t place = pl_nn_embedding(s->b, "pos", pl_aten_arange(s->b, steps), rows, width);
    v.x = pl_aten_add(s->b, v.x, place);
    pl_module_leave(s->b);
    return v;
}

static value recurrent(pl_sketch *s, const item *it, const char *name, value v, int cell) {
    int64_t hidden = pl_spec_need(s, &it->args, "hidden", it->name);
    int64_t layers = pl_spec_int(s, &it->args, "layers", 1, 1);
    double p = pl_spec_share(s, &it->args, "dropout", 0);
    bool both = pl_spec_bool(s, &it->args, "bidirectional", false);
    v.x = pl_nn_recurrent(s->b, name, cell, v.x, hidden, layers, both, p);
    return v;
}

static value lstm(pl_sketch *s, const item *it, const char *name, value v) {
    return recurrent(s, it, name, v, 0);
}

static value gru(pl_sketch *s, const item *it, const char *name, value v) {
    return recurrent(s, it, name, v, 1);
}

static value rnn(pl_sketch *s, const item *it, const char *name, value v) {
    return recurrent(s, it, name, v, 2);
}

static int64_t read_heads(pl_sketch *s, const item *it, value v) {
    int64_t heads = pl_spec_int(s, &it->args, "heads", 1, 8), width = pl_built_size(s->b, v.x, 2);
    if (width % heads != 0)
        pl_spec_fail(s, it->node, "%s: %lld heads do not divide a width of %lld", it->name,
                     (long long)heads, (long long)width);
    return heads;
}

static value attention(pl_sketch *s, const item *it, const char *name, value v) {
    int64_t heads = read_heads(s, it, v);
    double p = pl_spec_share(s, &it->args, "dropout", 0);
    bool causal = pl_spec_bool(s, &it->args, "causal", false);
    if (!pl_build_failed(s->b)) v.x = pl_nn_attention(s->b, name, v.x, heads, p, causal);
    return v;
}

static value transformer(pl_sketch *s, const item *it, const char *name, value v) {
    pl_nn_encoder e = {.heads = read_heads(s, it, v),
                       .ff = pl_spec_int(s, &it->args, "ff", 1, 2048),
                       .dropout = pl_spec_share(s, &it->args, "dropout", 0.1),
                       .act = pl_spec_word(s, &it->args, "act", "relu gelu", 0),
                       .norm_first = pl_spec_bool(s, &it->args, "norm_first", false),
                       .causal = pl_spec_bool(s, &it->args, "causal", false)};
    int64_t layers = pl_spec_int(s, &it->args, "layers", 1, 1);
    if (layers > PL_SPEC_MAX_REPEAT)
        pl_spec_fail(s, it->node, "transformer: %lld layers; the most is %d", (long long)layers,
                     PL_SPEC_MAX_REPEAT);
    pl_module_enter(s->b, name, "torch.nn.modules.transformer.TransformerEncoder");
    for (int64_t i = 0; i < layers && !pl_build_failed(s->b); i++)
        v.x = pl_nn_encoder_layer(s->b, pl_build_text(s->b, "layers.%lld", (long long)i), v.x, &e);
    pl_module_leave(s->b);
    return v;
}

static value last_step(pl_sketch *s, const item *it, const char *name, value v) {
    (void)it;
    pl_module_enter(s->b, name, "Last");
    v = (value){pl_aten_select(s->b, v.x, 1, -1), FEATURES};
    pl_module_leave(s->b);
    return v;
}

static value mean_step(pl_sketch *s, const item *it, const char *name, value v) {
    (void)it;
    pl_module_enter(s->b, name, "Mean");
    v = (value){pl_aten_reduce(s->b, "aten.mean.dim", v.x, 1, false), FEATURES};
    pl_module_leave(s->b);
    return v;
}

/* Channels to the end: [N, C, H, W] to [N, H * W, C], as a vision transformer cuts its patches. */
static value to_sequence(pl_sketch *s, const item *it, const char *name, value v) {
    (void)it;
    pl_module_enter(s->b, name, "Sequence");
    v.x = pl_aten_flatten(s->b, v.x, 2, -1);
    v = (value){pl_aten_transpose(s->b, v.x, 1, 2), SEQUENCE};
    pl_module_leave(s->b);
    return v;
}

static value activation(pl_sketch *s, const item *it, const char *name, value v) {
    const pl_yaml given = {.kind = PL_YAML_STRING, .text = it->name, .key = "act"};
    const pl_yaml map = {.kind = PL_YAML_MAP, .first = &given, .count = 1};
    int act = pl_spec_word(s, &map, "act", pl_nn_activations, 0);
    v.x = pl_nn_activation(s->b, name, act, pl_spec_bool(s, &it->args, "inplace", false), v.x);
    return v;
}

static value residual(pl_sketch *s, const item *it, const char *name, value v);
static value repeat(pl_sketch *s, const item *it, const char *name, value v);

#define WINDOW "kernel stride padding dilation groups bias"
static const char images[] = "an image";
static const char steps[] = "a sequence";

/* Keys of `places` come first in an item's words. */
static const layer layers[] = {
    {"linear", "out", "out bias", F | S, "features", "put `flatten` before it", linear},
    {"conv", "out kernel stride padding", "out " WINDOW, I, images, NULL, conv},
    {"convtranspose", "out kernel stride padding", "out output_padding " WINDOW, I, images, NULL,
     conv_transpose},
    {"maxpool", "kernel stride padding", "kernel stride padding dilation ceil", I, images, NULL,
     max_pool},
    {"avgpool", "kernel stride padding", "kernel stride padding ceil", I, images, NULL, avg_pool},
    {"globalpool", "size", "size", I, images, "use `mean` for sequences", global_pool},
    {"upsample", "scale", "scale mode", I, images, NULL, upsample},
    {"flatten", "", "", I | S, "an image or a sequence", NULL, flatten},
    {"batchnorm", "", "", F | I, "features or an image", "use `layernorm` for sequences",
     batch_norm},
    {"layernorm", "", "", F | S, "features or a sequence", "use `groupnorm` for images",
     layer_norm},
    {"rmsnorm", "", "", F | S, "features or a sequence", "use `groupnorm` for images", rms_norm},
    {"groupnorm", "groups", "groups", I, images, "use `layernorm` for sequences", group_norm},
    {"dropout", "p", "p channels", F | S | I, "numbers", "put `embedding` before it", dropout},
    {"embedding", "vocab width", "vocab width", T, "tokens", "say `input: {tokens: 128}`",
     embedding},
    {"positions", "most", "most", S, steps, "put `embedding` before it", positions},
    {"lstm", "hidden layers", "hidden layers bidirectional dropout", S, steps, NULL, lstm},
    {"gru", "hidden layers", "hidden layers bidirectional dropout", S, steps, NULL, gru},
    {"rnn", "hidden layers", "hidden layers bidirectional dropout", S, steps, NULL, rnn},
    {"attention", "heads", "heads dropout causal", S, steps, NULL, attention},
    {"transformer", "layers heads ff", "layers heads ff dropout act norm_first causal", S, steps,
     NULL, transformer},
    {"last", "", "", S, steps, NULL, last_step},
    {"mean", "", "", S, steps, "use `globalpool` for images", mean_step},
    {"sequence", "", "", I, images, NULL, to_sequence},
    {"residual", "", "layers shortcut", F | S | I, "numbers", "put `embedding` before it",
     residual},
    {"repeat", "times", "times layers", F | S | I | T, "", NULL, repeat},
};
enum { LAYERS = sizeof layers / sizeof *layers };

static const layer any_activation = {
    "activation", "", "inplace", F | S | I, "numbers", "put `embedding` before it", activation};

/* Other names that people use. */
static const char *const aliases[][2] = {
    {"fc", "linear"},
    {"dense", "linear"},
    {"conv1d", "conv"},
    {"conv2d", "conv"},
    {"conv3d", "conv"},
    {"bn", "batchnorm"},
    {"batchnorm1d", "batchnorm"},
    {"batchnorm2d", "batchnorm"},
    {"maxpool2d", "maxpool"},
    {"avgpool2d", "avgpool"},
    {"adaptiveavgpool", "globalpool"},
    {"selfattention", "attention"},
    {"swish", "silu"},
    {"leakyrelu", "leaky_relu"},
};

static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return length > 0;
    return false;
}

static const layer *layer_of(const char **name) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i][0], *name) == 0) *name = aliases[i][1];
    for (size_t i = 0; i < LAYERS; i++)
        if (strcmp(layers[i].name, *name) == 0) return &layers[i];
    return has_word(pl_nn_activations, *name) ? &any_activation : NULL;
}

/* ---- items ---- */

static void add_member(pl_sketch *s, item *it, const char *key, const pl_yaml *from) {
    if (it->args.count >= MAX_ARGS) {
        pl_spec_fail(s, it->node, "%s: more than %d settings", it->name, MAX_ARGS);
        return;
    }
    pl_yaml *m = &it->members[it->args.count];
    *m = *from;
    m->key = key;
    m->next = NULL;
    if (it->args.count > 0) it->members[it->args.count - 1].next = m;
    it->args.first = it->members;
    it->args.count++;
}

/* The nth word of a list; NULL past its end. Kept in buffer. */
static const char *place_at(const char *places, int n, char buffer[32]) {
    for (; *places; n--) {
        size_t length = strcspn(places, " ");
        if (n == 0 && length < 32) {
            memcpy(buffer, places, length);
            buffer[length] = 0;
            return buffer;
        }
        places += length + (places[length] == ' ');
    }
    return NULL;
}

/* The key itself, as the layer's table has it: a string that stays. */
static const char *known_key(const layer *l, const char *key) {
    static const char *const all[] = {
        "out",    "kernel",         "stride",   "padding", "dilation", "groups",
        "bias",   "output_padding", "ceil",     "size",    "scale",    "mode",
        "p",      "channels",       "vocab",    "width",   "most",     "hidden",
        "layers", "bidirectional",  "dropout",  "heads",   "causal",   "ff",
        "act",    "norm_first",     "shortcut", "times",   "inplace"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i], key) == 0 && has_word(l->keys, key)) return all[i];
    return NULL;
}

/* A word of an item as a scalar node. */
static pl_yaml word_node(const pl_yaml *from, const char *text) {
    pl_yaml node = {.kind = PL_YAML_STRING, .line = from->line, .position = from->position};
    char *end;
    node.text = text;
    long long whole = strtoll(text, &end, 10);
    if (end != text && !*end && strlen(text) < 18) {
        node.kind = PL_YAML_INT;
        node.i = whole;
        node.f = (double)whole;
    } else if (strspn(text, "0123456789.e-+") == strlen(text) && *text) {
        node.f = strtod(text, &end);
        if (!*end) node.kind = PL_YAML_FLOAT;
    } else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        node.kind = PL_YAML_BOOL;
        node.i = *text == 't';
    }
    return node;
}

/* "conv 64 3 stride=2": numbers take the layer's places, the rest is key=value, or a key alone. */
static const layer *read_words(pl_sketch *s, item *it) {
    if (strlen(it->node->text) >= sizeof it->text) {
        pl_spec_fail(s, it->node, "a layer of more than %zu letters", sizeof it->text - 1);
        return NULL;
    }
    strcpy(it->text, it->node->text);
    const layer *l = NULL;
    int place = 0;
    for (char *at = it->text, *next; at && *at; at = next) {
        next = strchr(at, ' ');
        if (next) *next++ = 0;
        if (!*at) continue;
        if (!l) {
            it->name = at;
            l = layer_of(&it->name);
            if (!l) return NULL;
            continue;
        }
        char *equals = strchr(at, '='), buffer[32];
        if (equals) *equals = 0;
        bool alone = !equals && has_word(l->keys, at);
        const char *key = equals || alone ? at : place_at(l->places, place++, buffer);
        const char *known = key ? known_key(l, key) : NULL;
        if (!known) {
            pl_spec_fail(s, it->node, "%s: `%s` is not understood here; %s%s", it->name, at,
                         l->keys[0] ? "it has: " : "it has no settings", l->keys);
            return NULL;
        }
        pl_yaml node = word_node(it->node, alone ? "true" : equals ? equals + 1 : at);
        add_member(s, it, known, &node);
    }
    return l;
}

/* {conv: 64, kernel: 3}, {lstm: {hidden: 512}}, {residual: [...]}. */
static const layer *read_map(pl_sketch *s, item *it) {
    const pl_yaml *first = it->node->first;
    if (!first) {
        it->name = "{}";
        return NULL;
    }
    it->name = first->key;
    const layer *l = layer_of(&it->name);
    if (!l) return NULL;
    char buffer[32];
    const char *place = place_at(l->places, 0, buffer);
    bool holds = l->build == residual || l->build == repeat;
    if (first->kind == PL_YAML_MAP) {
        for (const pl_yaml *m = first->first; m; m = m->next) add_member(s, it, m->key, m);
    } else if (first->kind == PL_YAML_LIST && holds) {
        it->inner = first;
    } else if (first->kind != PL_YAML_NULL) {
        if (place)
            add_member(s, it, known_key(l, place), first);
        else
            pl_spec_fail(s, first, "%s takes no number", it->name);
    }
    for (const pl_yaml *m = first->next; m; m = m->next) add_member(s, it, m->key, m);
    pl_spec_keys(s, &it->args, it->name, l->keys);
    const pl_yaml *inner = pl_yaml_get(&it->args, "layers");
    if (holds && inner) it->inner = inner;
    return l;
}

static const char known_layers[] =
    "linear conv convtranspose maxpool avgpool globalpool upsample flatten batchnorm layernorm "
    "rmsnorm groupnorm dropout embedding positions lstm gru rnn attention transformer last mean "
    "sequence residual repeat, and activations";

static const layer *read_item(pl_sketch *s, item *it, const pl_yaml *node) {
    *it = (item){.node = node, .name = ""};
    it->args = (pl_yaml){.kind = PL_YAML_MAP, .line = node->line, .position = node->position};
    const layer *l = NULL;
    if (node->kind == PL_YAML_MAP)
        l = read_map(s, it);
    else if (node->text && node->text[0] && node->kind == PL_YAML_STRING)
        l = read_words(s, it);
    if (!l)
        pl_spec_fail(s, node, "expected a layer, not `%.40s`; there are: %s",
                     it->name[0]  ? it->name
                     : node->text ? node->text
                                  : "a list",
                     known_layers);
    return l;
}

static value build_items(pl_sketch *s, const pl_yaml *list, int nesting, value v);

/* Where residuals and repeats find how deep they are. */
static value build_item(pl_sketch *s, const pl_yaml *node, const char *name, int nesting, value v) {
    item it;
    s->at = node;
    if (++s->layers > PL_SPEC_MAX_LAYERS)
        pl_spec_fail(s, node, "more than %d layers", PL_SPEC_MAX_LAYERS);
    const layer *l = pl_build_failed(s->b) ? NULL : read_item(s, &it, node);
    if (!l || pl_build_failed(s->b)) return v;
    if (!(l->forms & 1u << v.form)) {
        char text[160];
        pl_spec_fail(s, node, "%s expects %s, not %s%s%s", it.name, l->expects,
                     described(s, v, text, sizeof text), l->instead ? "; " : "",
                     l->instead ? l->instead : "");
        return v;
    }
    if (nesting > PL_SPEC_MAX_NESTING) {
        pl_spec_fail(s, node, "layers within layers deeper than %d", PL_SPEC_MAX_NESTING);
        return v;
    }
    s->nesting = nesting;
    v = l->build(s, &it, name, v);
    s->at = node;
    return v;
}

/* The children of a Sequential: "0", "1", ... */
static value build_items(pl_sketch *s, const pl_yaml *list, int nesting, value v) {
    if (list->kind != PL_YAML_LIST) {
        pl_spec_fail(s, list, "layers: expected a list");
        return v;
    }
    int64_t i = 0;
    for (const pl_yaml *m = list->first; m && !pl_build_failed(s->b); m = m->next, i++)
        v = build_item(s, m, pl_build_text(s->b, "%lld", (long long)i), nesting, v);
    return v;
}

static const char sequential[] = "torch.nn.modules.container.Sequential";

static bool same_shape(const pl_sketch *s, value a, value b) {
    bool same = a.form == b.form && pl_built_dims(s->b, a.x) == pl_built_dims(s->b, b.x);
    for (int i = 0; same && i < pl_built_dims(s->b, a.x); i++)
        same = pl_built_size(s->b, a.x, i) == pl_built_size(s->b, b.x, i);
    return same;
}

/* x + body(x), or shortcut(x) + body(x). */
static value residual(pl_sketch *s, const item *it, const char *name, value v) {
    int nesting = s->nesting;
    const pl_yaml *other = pl_yaml_get(&it->args, "shortcut");
    if (!it->inner) {
        pl_spec_fail(s, it->node, "residual needs a list of layers");
        return v;
    }
    pl_module_enter(s->b, name, "Residual");
    pl_line(s->b, "y = self.body(x)");
    pl_module_enter(s->b, "body", sequential);
    value y = build_items(s, it->inner, nesting + 1, v), short_cut = v;
    pl_module_leave(s->b);
    pl_line(s->b, "return y + self.shortcut(x)");
    if (other) {
        pl_module_enter(s->b, "shortcut", sequential);
        short_cut = build_items(s, other, nesting + 1, v);
        pl_module_leave(s->b);
    }
    char from[160], to[160];
    if (!pl_build_failed(s->b) && !same_shape(s, short_cut, y))
        pl_spec_fail(s, it->node,
                     "residual: its layers make %s, but %s %s; give it a `shortcut` of layers",
                     described(s, y, to, sizeof to), other ? "the shortcut makes" : "its input is",
                     described(s, short_cut, from, sizeof from));
    else
        y.x = pl_aten_add(s->b, y.x, short_cut.x);
    pl_module_leave(s->b);
    return y;
}

/* The same layers, made anew each time; a Sequential each where there are several. */
static value repeat(pl_sketch *s, const item *it, const char *name, value v) {
    int nesting = s->nesting;
    int64_t times = pl_spec_need(s, &it->args, "times", "repeat");
    if (times > PL_SPEC_MAX_REPEAT)
        pl_spec_fail(s, it->node, "repeat: %lld times; the most is %d", (long long)times,
                     PL_SPEC_MAX_REPEAT);
    if (!it->inner || it->inner->kind != PL_YAML_LIST) {
        pl_spec_fail(s, it->node, "repeat needs `layers`, a list");
        return v;
    }
    pl_module_enter(s->b, name, sequential);
    for (int64_t i = 0; i < times && !pl_build_failed(s->b); i++) {
        const char *number = pl_build_text(s->b, "%lld", (long long)i);
        if (++s->layers > PL_SPEC_MAX_LAYERS) {
            pl_spec_fail(s, it->node, "more than %d layers", PL_SPEC_MAX_LAYERS);
        } else if (it->inner->count == 1) {
            v = build_item(s, it->inner->first, number, nesting + 1, v);
        } else {
            pl_module_enter(s->b, number, sequential);
            v = build_items(s, it->inner, nesting + 1, v);
            pl_module_leave(s->b);
        }
    }
    pl_module_leave(s->b);
    return v;
}

/* ---- the input ---- */

/* [features], [channels, length], [channels, height, width], [channels, depth, height, width]. */
static value read_shape(pl_sketch *s, const pl_yaml *input) {
    int64_t sizes[5] = {s->batch};
    int dims = 1;
    if (input->count < 1 || input->count > 4)
        pl_spec_fail(s, input,
                     "input: expected the sizes of one sample, as [784] or [3, 224, 224], or "
                     "{tokens: 128}");
    for (const pl_yaml *m = input->first; m && !pl_build_failed(s->b); m = m->next)
        sizes[dims++] = pl_spec_number(s, m, "input", 1);
    if (pl_build_failed(s->b)) return (value){PL_NONE, FEATURES};
    return (value){pl_build_input(s->b, "input", PL_DT_F32, dims, sizes),
                   dims == 2 ? FEATURES : IMAGE};
}

static value read_input(pl_sketch *s, const pl_yaml *root) {
    const pl_yaml *input = pl_yaml_get(root, "input");
    if (!input) {
        pl_spec_fail(s, root,
                     "a list of layers needs `input`: [784], [3, 224, 224], {tokens: 128}");
        return (value){PL_NONE, FEATURES};
    }
    if (input->kind == PL_YAML_INT) {
        int64_t n = pl_spec_number(s, input, "input", 1);
        return (value){pl_build_input(s->b, "input", PL_DT_F32, PL_SIZES(s->batch, n)), FEATURES};
    }
    if (input->kind != PL_YAML_MAP) return read_shape(s, input);
    pl_spec_keys(s, input, "input", "tokens steps features");
    if (pl_yaml_get(input, "tokens")) {
        if (pl_yaml_get(input, "features"))
            pl_spec_fail(s, input, "input: tokens have no features; `embedding` makes them");
        return (value){pl_build_input(s->b, "input", PL_DT_I64, PL_SIZES(s->batch, s->seq)),
                       TOKENS};
    }
    int64_t width = pl_spec_need(s, input, "features", "an input of steps");
    return (value){pl_build_input(s->b, "input", PL_DT_F32, PL_SIZES(s->batch, s->seq, width)),
                   SEQUENCE};
}

bool pl_spec_list_has_seq(const pl_yaml *root, int64_t *given) {
    const pl_yaml *input = pl_yaml_get(root, "input"), *m = pl_yaml_get(input, "tokens");
    if (!m) m = pl_yaml_get(input, "steps");
    if (m && m->kind == PL_YAML_INT && m->i >= 1 && m->i <= PL_SPEC_MAX_SIZE) *given = m->i;
    return input && input->kind == PL_YAML_MAP;
}

int32_t pl_spec_list(pl_sketch *s, const pl_yaml *root) {
    pl_spec_keys(s, root, "a list of layers", "name batch seq loss input layers");
    const pl_yaml *list = pl_yaml_get(root, "layers");
    if (!list) {
        pl_spec_fail(s, root, "expected `kind` or `layers`");
        return PL_NONE;
    }
    value v = read_input(s, root);
    pl_module_enter(s->b, "", sequential);
    v = build_items(s, list, 0, v);
    pl_module_leave(s->b);
    if (!pl_build_failed(s->b) && list->count == 0)
        pl_spec_fail(s, list, "layers: the list is empty");
    if (!pl_build_failed(s->b) && v.form == TOKENS)
        pl_spec_fail(s, list, "the layers do nothing with the tokens; put `embedding` first");
    return v.x;
}
