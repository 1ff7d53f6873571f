/* spec_list: a model as a list of layers, one after the other, as nn.Sequential runs them.
 *
 * An item is a word with numbers (`conv 64 3`, `linear 10 bias=false`), or a mapping whose first
 * key is the layer (`{conv: 64, kernel: 3}`, `lstm: {hidden: 512}`). Sizes of inputs are inferred;
 * defaults are torch.nn's, where it has any. Modules are named as nn.Sequential names them.
 *
 * Left out: graphs with more than one path but for residual; weights shared between layers. */
#include <stdio.h>
#include <string.h>

#include "import/spec_item.h"

enum { F = 1 << FEATURES, S = 1 << SEQUENCE, I = 1 << IMAGE, T = 1 << TOKENS };

/* ---- words for people ---- */

static const char *described(const pl_sketch *s, pl_spec_value v, char *out, size_t size) {
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

static int edges_of(const pl_sketch *s, pl_spec_value v) {
    return pl_built_dims(s->b, v.x) - 2;
}

/* ---- settings ---- */

/* A number per edge: `kernel: 3` or `kernel: [3, 5]`; absent: otherwise. */
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

/* padding: a number per edge, or `same`. */
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

static pl_spec_value linear(pl_sketch *s, const pl_spec_item *it, const char *name,
                            pl_spec_value v) {
    int64_t out = pl_spec_need(s, &it->args, "out", "linear");
    v.x = pl_nn_linear(s->b, name, v.x, out, pl_spec_bool(s, &it->args, "bias", true));
    return v;
}

static pl_spec_value conv(pl_sketch *s, const pl_spec_item *it, const char *name, pl_spec_value v) {
    int edges = edges_of(s, v);
    int64_t out = pl_spec_need(s, &it->args, "out", "conv"), in = pl_built_size(s->b, v.x, 1);
    pl_nn_window w = read_window(s, &it->args, edges, threes);
    if (in % w.groups != 0 || out % w.groups != 0)
        pl_spec_fail(s, it->node, "conv: %lld groups do not divide %lld and %lld channels",
                     (long long)w.groups, (long long)in, (long long)out);
    v.x = pl_nn_conv(s->b, name, edges, v.x, out, &w);
    return v;
}

static pl_spec_value conv_transpose(pl_sketch *s, const pl_spec_item *it, const char *name,
                                    pl_spec_value v) {
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

static pl_spec_value max_pool(pl_sketch *s, const pl_spec_item *it, const char *name,
                              pl_spec_value v) {
    pl_nn_window w = read_window(s, &it->args, edges_of(s, v), twos);
    v.x = pl_nn_max_pool(s->b, name, edges_of(s, v), v.x, &w);
    return v;
}

static pl_spec_value avg_pool(pl_sketch *s, const pl_spec_item *it, const char *name,
                              pl_spec_value v) {
    pl_nn_window w = read_window(s, &it->args, edges_of(s, v), twos);
    v.x = pl_nn_avg_pool(s->b, name, edges_of(s, v), v.x, &w);
    return v;
}

static pl_spec_value global_pool(pl_sketch *s, const pl_spec_item *it, const char *name,
                                 pl_spec_value v) {
    int64_t sizes[3];
    per_edge(s, &it->args, "size", edges_of(s, v), 1, ones, sizes);
    v.x = pl_nn_adaptive_avg_pool(s->b, name, edges_of(s, v), v.x, sizes);
    return v;
}

static pl_spec_value upsample(pl_sketch *s, const pl_spec_item *it, const char *name,
                              pl_spec_value v) {
    int64_t scale = pl_spec_int(s, &it->args, "scale", 1, 2);
    bool smooth = pl_spec_word(s, &it->args, "mode", "nearest linear bilinear", 0) > 0;
    v.x = pl_nn_upsample(s->b, name, edges_of(s, v), v.x, scale, smooth);
    return v;
}

static pl_spec_value flatten(pl_sketch *s, const pl_spec_item *it, const char *name,
                             pl_spec_value v) {
    (void)it;
    return (pl_spec_value){pl_nn_flatten(s->b, name, v.x), FEATURES};
}

static pl_spec_value batch_norm(pl_sketch *s, const pl_spec_item *it, const char *name,
                                pl_spec_value v) {
    (void)it;
    v.x = pl_nn_batch_norm(s->b, name, v.x);
    return v;
}

static pl_spec_value layer_norm(pl_sketch *s, const pl_spec_item *it, const char *name,
                                pl_spec_value v) {
    (void)it;
    v.x = pl_nn_layer_norm(s->b, name, v.x);
    return v;
}

static pl_spec_value rms_norm(pl_sketch *s, const pl_spec_item *it, const char *name,
                              pl_spec_value v) {
    (void)it;
    v.x = pl_nn_rms_norm(s->b, name, v.x);
    return v;
}

static pl_spec_value group_norm(pl_sketch *s, const pl_spec_item *it, const char *name,
                                pl_spec_value v) {
    int64_t groups = pl_spec_int(s, &it->args, "groups", 1, 32);
    int64_t channels = pl_built_size(s->b, v.x, 1);
    if (channels % groups != 0)
        pl_spec_fail(s, it->node, "groupnorm: %lld groups do not divide %lld channels",
                     (long long)groups, (long long)channels);
    v.x = pl_nn_group_norm(s->b, name, v.x, groups);
    return v;
}

static pl_spec_value dropout(pl_sketch *s, const pl_spec_item *it, const char *name,
                             pl_spec_value v) {
    double p = pl_spec_share(s, &it->args, "p", 0.5);
    bool channels = pl_spec_bool(s, &it->args, "channels", false);
    if (channels && v.form != IMAGE)
        pl_spec_fail(s, it->node, "dropout: only images have channels to drop");
    v.x = channels ? pl_nn_dropout_channels(s->b, name, edges_of(s, v), v.x, p)
                   : pl_nn_dropout(s->b, name, v.x, p);
    return v;
}

static pl_spec_value embedding(pl_sketch *s, const pl_spec_item *it, const char *name,
                               pl_spec_value v) {
    int64_t vocab = pl_spec_need(s, &it->args, "vocab", "embedding");
    int64_t width = pl_spec_need(s, &it->args, "width", "embedding");
    return (pl_spec_value){pl_nn_embedding(s->b, name, v.x, vocab, width), SEQUENCE};
}

/* Learnt positions, added: an Embedding of as many rows as the sequence has steps, or `most`. */
static pl_spec_value positions(pl_sketch *s, const pl_spec_item *it, const char *name,
                               pl_spec_value v) {
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

static pl_spec_value recurrent(pl_sketch *s, const pl_spec_item *it, const char *name,
                               pl_spec_value v, int cell) {
    int64_t hidden = pl_spec_need(s, &it->args, "hidden", it->name);
    int64_t layers = pl_spec_int(s, &it->args, "layers", 1, 1);
    double p = pl_spec_share(s, &it->args, "dropout", 0);
    bool both = pl_spec_bool(s, &it->args, "bidirectional", false);
    v.x = pl_nn_recurrent(s->b, name, cell, v.x, hidden, layers, both, p);
    return v;
}

static pl_spec_value lstm(pl_sketch *s, const pl_spec_item *it, const char *name, pl_spec_value v) {
    return recurrent(s, it, name, v, 0);
}

static pl_spec_value gru(pl_sketch *s, const pl_spec_item *it, const char *name, pl_spec_value v) {
    return recurrent(s, it, name, v, 1);
}

static pl_spec_value rnn(pl_sketch *s, const pl_spec_item *it, const char *name, pl_spec_value v) {
    return recurrent(s, it, name, v, 2);
}

static int64_t read_heads(pl_sketch *s, const pl_spec_item *it, pl_spec_value v) {
    int64_t heads = pl_spec_int(s, &it->args, "heads", 1, 8), width = pl_built_size(s->b, v.x, 2);
    if (width % heads != 0)
        pl_spec_fail(s, it->node, "%s: %lld heads do not divide a width of %lld", it->name,
                     (long long)heads, (long long)width);
    return heads;
}

static pl_spec_value attention(pl_sketch *s, const pl_spec_item *it, const char *name,
                               pl_spec_value v) {
    int64_t heads = read_heads(s, it, v);
    double p = pl_spec_share(s, &it->args, "dropout", 0);
    bool causal = pl_spec_bool(s, &it->args, "causal", false);
    if (!pl_build_failed(s->b)) v.x = pl_nn_attention(s->b, name, v.x, heads, p, causal);
    return v;
}

static pl_spec_value transformer(pl_sketch *s, const pl_spec_item *it, const char *name,
                                 pl_spec_value v) {
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
    s->layers += layers;
    if (s->layers > PL_SPEC_MAX_LAYERS)
        pl_spec_fail(s, it->node, "more than %d layers", PL_SPEC_MAX_LAYERS);
    pl_module_enter(s->b, name, "torch.nn.modules.transformer.TransformerEncoder");
    for (int64_t i = 0; i < layers && !pl_build_failed(s->b); i++)
        v.x = pl_nn_encoder_layer(s->b, pl_build_text(s->b, "layers.%lld", (long long)i), v.x, &e);
    pl_module_leave(s->b);
    return v;
}

static pl_spec_value last_step(pl_sketch *s, const pl_spec_item *it, const char *name,
                               pl_spec_value v) {
    (void)it;
    pl_module_enter(s->b, name, "Last");
    v = (pl_spec_value){pl_aten_select(s->b, v.x, 1, -1), FEATURES};
    pl_module_leave(s->b);
    return v;
}

static pl_spec_value mean_step(pl_sketch *s, const pl_spec_item *it, const char *name,
                               pl_spec_value v) {
    (void)it;
    pl_module_enter(s->b, name, "Mean");
    v = (pl_spec_value){pl_aten_reduce(s->b, "aten.mean.dim", v.x, 1, false), FEATURES};
    pl_module_leave(s->b);
    return v;
}

/* Channels to the end: [N, C, H, W] to [N, H * W, C], as a vision transformer cuts its patches. */
static pl_spec_value to_sequence(pl_sketch *s, const pl_spec_item *it, const char *name,
                                 pl_spec_value v) {
    (void)it;
    pl_module_enter(s->b, name, "Sequence");
    v.x = pl_aten_flatten(s->b, v.x, 2, -1);
    v = (pl_spec_value){pl_aten_transpose(s->b, v.x, 1, 2), SEQUENCE};
    pl_module_leave(s->b);
    return v;
}

static pl_spec_value activation(pl_sketch *s, const pl_spec_item *it, const char *name,
                                pl_spec_value v) {
    const pl_yaml given = {.kind = PL_YAML_STRING, .text = it->name, .key = "act"};
    const pl_yaml map = {.kind = PL_YAML_MAP, .first = &given, .count = 1};
    int act = pl_spec_word(s, &map, "act", pl_nn_activations, 0);
    v.x = pl_nn_activation(s->b, name, act, pl_spec_bool(s, &it->args, "inplace", false), v.x);
    return v;
}

static pl_spec_value residual(pl_sketch *s, const pl_spec_item *it, const char *name,
                              pl_spec_value v);
static pl_spec_value repeat(pl_sketch *s, const pl_spec_item *it, const char *name,
                            pl_spec_value v);

#define WINDOW "kernel stride padding dilation groups bias"
static const char images[] = "an image";
static const char steps[] = "a sequence";

/* Keys of `places` come first in an item's words. */
const pl_spec_layer pl_spec_layers[] = {
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
    {"dropout", "p", "p channels", F | S | I, "numbers", NULL, dropout},
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
    {"residual", "", "layers shortcut", F | S | I, "numbers", NULL, residual},
    {"repeat", "times", "times layers", F | S | I | T, "", NULL, repeat},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

const pl_spec_layer pl_spec_any_activation = {"activation", "",   "inplace", F | S | I,
                                              "numbers",    NULL, activation};

static pl_spec_value build_items(pl_sketch *s, const pl_yaml *list, int nesting, pl_spec_value v);

/* Where residuals and repeats find how deep they are. */
static pl_spec_value build_item(pl_sketch *s, const pl_yaml *node, const char *name, int nesting,
                                pl_spec_value v) {
    pl_spec_item it;
    s->at = node;
    if (++s->layers > PL_SPEC_MAX_LAYERS)
        pl_spec_fail(s, node, "more than %d layers", PL_SPEC_MAX_LAYERS);
    const pl_spec_layer *l = pl_build_failed(s->b) ? NULL : pl_spec_read_item(s, &it, node);
    if (!l || pl_build_failed(s->b)) return v;
    if (!(l->forms & 1u << v.form)) {
        char text[160];
        const char *instead = v.form == TOKENS ? "put `embedding` before it" : l->instead;
        pl_spec_fail(s, node, "%s expects %s, not %s%s%s", it.name, l->expects,
                     described(s, v, text, sizeof text), instead ? "; " : "",
                     instead ? instead : "");
        return v;
    }
    if (nesting > PL_SPEC_MAX_NESTING) {
        pl_spec_fail(s, node, "layers within layers deeper than %d", PL_SPEC_MAX_NESTING);
        return v;
    }
    s->nesting = nesting;
    pl_spec_value out = l->build(s, &it, name, v);
    if (pl_build_failed(s->b) && s->position < 0 && !s->note[0]) { /* an operator's complaint */
        char text[140];
        snprintf(s->note, sizeof s->note, " (%s gets %s)", it.name,
                 described(s, v, text, sizeof text));
        return v;
    }
    s->at = node;
    return out;
}

/* The children of a Sequential: "0", "1", ... */
static pl_spec_value build_items(pl_sketch *s, const pl_yaml *list, int nesting, pl_spec_value v) {
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

static bool same_shape(const pl_sketch *s, pl_spec_value a, pl_spec_value b) {
    bool same = a.form == b.form && pl_built_dims(s->b, a.x) == pl_built_dims(s->b, b.x);
    for (int i = 0; same && i < pl_built_dims(s->b, a.x); i++)
        same = pl_built_size(s->b, a.x, i) == pl_built_size(s->b, b.x, i);
    return same;
}

/* x + body(x), or shortcut(x) + body(x). */
static pl_spec_value residual(pl_sketch *s, const pl_spec_item *it, const char *name,
                              pl_spec_value v) {
    int nesting = s->nesting;
    const pl_yaml *other = pl_yaml_get(&it->args, "shortcut");
    if (!it->inner) {
        pl_spec_fail(s, it->node, "residual needs a list of layers");
        return v;
    }
    pl_module_enter(s->b, name, "Residual");
    pl_line(s->b, "y = self.body(x)");
    pl_module_enter(s->b, "body", sequential);
    pl_spec_value y = build_items(s, it->inner, nesting + 1, v), short_cut = v;
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
static pl_spec_value repeat(pl_sketch *s, const pl_spec_item *it, const char *name,
                            pl_spec_value v) {
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
static pl_spec_value read_shape(pl_sketch *s, const pl_yaml *input) {
    int64_t sizes[5] = {s->batch};
    int dims = 1;
    if (input->count < 1 || input->count > 4)
        pl_spec_fail(s, input,
                     "input: expected the sizes of one sample, as [784] or [3, 224, 224], or "
                     "{tokens: 128}");
    for (const pl_yaml *m = input->first; m && !pl_build_failed(s->b); m = m->next)
        sizes[dims++] = pl_spec_number(s, m, "input", 1);
    if (pl_build_failed(s->b)) return (pl_spec_value){PL_NONE, FEATURES};
    return (pl_spec_value){pl_build_input(s->b, "input", PL_DT_F32, dims, sizes),
                           dims == 2 ? FEATURES : IMAGE};
}

static pl_spec_value read_input(pl_sketch *s, const pl_yaml *root) {
    const pl_yaml *input = pl_yaml_get(root, "input");
    if (!input) {
        pl_spec_fail(s, root,
                     "a list of layers needs `input`: [784], [3, 224, 224], {tokens: 128}");
        return (pl_spec_value){PL_NONE, FEATURES};
    }
    if (input->kind == PL_YAML_INT) {
        int64_t n = pl_spec_number(s, input, "input", 1);
        return (pl_spec_value){pl_build_input(s->b, "input", PL_DT_F32, PL_SIZES(s->batch, n)),
                               FEATURES};
    }
    if (input->kind != PL_YAML_MAP) return read_shape(s, input);
    pl_spec_keys(s, input, "input", "tokens steps features");
    if (pl_yaml_get(input, "tokens")) {
        if (pl_yaml_get(input, "features"))
            pl_spec_fail(s, input, "input: tokens have no features; `embedding` makes them");
        return (pl_spec_value){pl_build_input(s->b, "input", PL_DT_I64, PL_SIZES(s->batch, s->seq)),
                               TOKENS};
    }
    int64_t width = pl_spec_need(s, input, "features", "an input of steps");
    return (pl_spec_value){
        pl_build_input(s->b, "input", PL_DT_F32, PL_SIZES(s->batch, s->seq, width)), SEQUENCE};
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
    pl_spec_value v = read_input(s, root);
    pl_module_enter(s->b, "", sequential);
    v = build_items(s, list, 0, v);
    pl_module_leave(s->b);
    if (!pl_build_failed(s->b) && list->count == 0)
        pl_spec_fail(s, list, "layers: the list is empty");
    if (!pl_build_failed(s->b) && v.form == TOKENS)
        pl_spec_fail(s, list, "the layers do nothing with the tokens; put `embedding` first");
    return v.x;
}
