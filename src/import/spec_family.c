/* spec_family: models by family and a few numbers: MLP, CNN, Transformer, RNN, with the
 * architectures of GPUMemNet's generators (pyramid, uniform, bottleneck, gradual, hourglass, ...).
 *
 * What a key builds was read from the exported graphs of the measured made-up jobs (2026-11-15,
 * PyTorch 2.11), whose `model` object is such a spec; widths and channels of an architecture
 * without a list of them follow the rules beside their functions.
 *
 * Left out: strided convolutions, other convolutions than square ones; the list of layers
 * (spec_list.c) has them. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "import/spec_reader.h"

/* A numbered child: "3", "body.3". */
static const char *numbered(pl_builder *b, const char *stem, int64_t i) {
    return pl_build_text(b, "%s%lld", stem, (long long)i);
}

static const char sequential[] = "torch.nn.modules.container.Sequential";

/* Keys of every spec. */
#define COMMON "kind name batch seq loss "

/* ---- MLP ---- */

static const char mlp_archs[] = "uniform pyramid bottleneck gradual";
enum { UNIFORM, PYRAMID, BOTTLENECK, GRADUAL };

/* Hidden width i of n, from the first width and the outputs:
 *   uniform     first
 *   pyramid     halved each time, not below the outputs
 *   bottleneck  first / (k + 1), k steps from the nearer end, not below a quarter of the outputs
 *   gradual     from the first in equal steps towards the outputs */
static int64_t mlp_width(int arch, int64_t first, int64_t out, int64_t i, int64_t n) {
    int64_t k = i < n - 1 - i ? i : n - 1 - i, w = first;
    if (arch == PYRAMID) w = i < 62 && (first >> i) > out ? first >> i : out;
    if (arch == PYRAMID && i == 0) w = first;
    if (arch == BOTTLENECK) w = first / (k + 1) > out / 4 ? first / (k + 1) : out / 4;
    if (arch == GRADUAL)
        w = (int64_t)llround((double)first + (double)(out - first) * (double)i / (double)n);
    return w > 0 ? w : 1;
}

/* `widths:` (or `channels` of each convolution) as a list; NULL: not given. */
static const pl_yaml *width_list(pl_sketch *s, const pl_yaml *root, int64_t *count) {
    const pl_yaml *widths = pl_yaml_get(root, "widths");
    if (!widths || widths->kind == PL_YAML_NULL) return NULL;
    if (widths->kind != PL_YAML_LIST)
        pl_spec_fail(s, widths, "widths: expected a list of whole numbers");
    else if (widths->count > PL_SPEC_MAX_REPEAT)
        pl_spec_fail(s, widths, "widths: %zu of them; the most is %d", widths->count,
                     PL_SPEC_MAX_REPEAT);
    *count = (int64_t)widths->count;
    return widths;
}

static int64_t depth_of(pl_sketch *s, const pl_yaml *root, const char *key, const char *what) {
    int64_t depth = pl_spec_need(s, root, key, what);
    if (depth > PL_SPEC_MAX_REPEAT)
        pl_spec_fail(s, pl_yaml_get(root, key), "%s: %lld layers; the most is %d", key,
                     (long long)depth, PL_SPEC_MAX_REPEAT);
    return depth;
}

/* net = Sequential: for each width Linear, [BatchNorm1d], activation, [Dropout]; then Linear. */
static int32_t mlp(pl_sketch *s, const pl_yaml *root) {
    pl_builder *b = s->b;
    pl_spec_keys(s, root, "mlp", COMMON "inp out widths act bn dropout arch width depth");
    int64_t in = pl_spec_need(s, root, "inp", "an mlp"),
            out = pl_spec_need(s, root, "out", "an mlp");
    int arch = pl_spec_word(s, root, "arch", mlp_archs, UNIFORM);
    int act = pl_spec_word(s, root, "act", pl_nn_activations, 0);
    bool bn = pl_spec_bool(s, root, "bn", false);
    double dropout = pl_spec_share(s, root, "dropout", 0);
    int64_t depth = 0, first = pl_spec_int(s, root, "width", 1, in);
    const pl_yaml *list = width_list(s, root, &depth);
    if (!list) depth = depth_of(s, root, "depth", "an mlp without `widths`");
    const pl_yaml *width = list ? list->first : NULL;
    int64_t at = 0;
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(s->batch, in));
    pl_module_enter(b, "", "MLP");
    pl_module_enter(b, "net", sequential);
    for (int64_t i = 0; i < depth && !pl_build_failed(b); i++) {
        int64_t w =
            width ? pl_spec_number(s, width, "widths", 1) : mlp_width(arch, first, out, i, depth);
        if (width) width = width->next;
        x = pl_nn_linear(b, numbered(b, "", at++), x, w, true);
        if (bn) x = pl_nn_batch_norm(b, numbered(b, "", at++), x);
        x = pl_nn_activation(b, numbered(b, "", at++), act, false, x);
        if (dropout > 0) x = pl_nn_dropout(b, numbered(b, "", at++), x, dropout);
    }
    x = pl_nn_linear(b, numbered(b, "", at), x, out, true);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

/* ---- CNN ---- */

static const char cnn_archs[] = "uniform pyramid bottleneck gradual hourglass residual dense";
enum { HOURGLASS = 4, RESIDUAL, DENSE };

typedef struct cnn {
    int64_t base, depth, kernel;
    int arch, act;
    bool bn, inplace;
    double dropout;
} cnn;

/* Channels of block i:
 *   uniform, residual  base
 *   pyramid            base more every second block, up to 512 (or base, where that is more)
 *   bottleneck         base, a quarter of it, base, and again
 *   gradual            an eighth of base more each time
 *   hourglass          down in equal steps to the middle, at least 8, and up again
 *   dense              a quarter of base, which is put beside the block's input */
static int64_t cnn_channels(const cnn *c, int64_t i) {
    int64_t base = c->base, half = c->depth / 2, grown;
    switch (c->arch) {
    case PYRAMID:
        if (!pl_mul_i64(base, 1 + i / 2, &grown) || grown > 512) grown = base > 512 ? base : 512;
        return grown;
    case BOTTLENECK: return i % 3 == 1 && base / 4 > 0 ? base / 4 : base;
    case GRADUAL: return base + i * (base / 8);
    case HOURGLASS: {
        int64_t from = i > half ? i - half : half - i;
        grown = (int64_t)llrint((double)base * (double)(from + 1) / (double)(half + 1));
        return grown > 8 ? grown : 8;
    }
    case DENSE: return base / 4 > 0 ? base / 4 : 1;
    default: return base;
    }
}

static pl_nn_window square(int64_t kernel, int64_t stride, int64_t padding, bool bias) {
    return (pl_nn_window){.kernel = {kernel, kernel, kernel},
                          .stride = {stride, stride, stride},
                          .padding = {padding, padding, padding},
                          .dilation = {1, 1, 1},
                          .groups = 1,
                          .bias = bias};
}

/* body = Sequential(Conv2d, [BatchNorm2d], activation, [Dropout2d]); a residual block adds its
 * input, through a convolution of one pixel where channels differ; a dense one puts it in front. */
static int32_t cnn_block(pl_sketch *s, const cnn *c, const char *name, int32_t x, int64_t out) {
    pl_builder *b = s->b;
    int64_t in = pl_built_size(b, x, 1), at = 0;
    pl_nn_window window = square(c->kernel, 1, c->kernel / 2, !c->bn), one = square(1, 1, 0, true);
    pl_module_enter(b, name, "ConvBlock");
    pl_line(b, "y = self.body(x)");
    pl_module_enter(b, "body", sequential);
    int32_t y = pl_nn_conv(b, numbered(b, "", at++), 2, x, out, &window);
    if (c->bn) y = pl_nn_batch_norm(b, numbered(b, "", at++), y);
    y = pl_nn_activation(b, numbered(b, "", at++), c->act, c->inplace, y);
    if (c->dropout > 0) y = pl_nn_dropout_channels(b, numbered(b, "", at++), 2, y, c->dropout);
    pl_module_leave(b);
    if (c->arch == RESIDUAL) {
        pl_line(b, "return y + self.proj(x)");
        if (in != out) x = pl_nn_conv(b, "proj", 2, x, out, &one);
        y = pl_aten_add(b, y, x);
    } else if (c->arch == DENSE) {
        pl_line(b, "return torch.cat([x, y], 1)");
        const int32_t both[] = {x, y};
        y = pl_aten_cat(b, 2, both, 1);
    }
    pl_module_leave(b);
    return y;
}

/* body = Sequential of blocks, with MaxPool2d(2) behind every pool_every-th of them while the image
 * has 8 pixels or more; AdaptiveAvgPool2d(1), Linear. */
static int32_t convolutional(pl_sketch *s, const pl_yaml *root) {
    pl_builder *b = s->b;
    pl_spec_keys(s, root, "cnn",
                 COMMON "channels size classes base depth arch kernel act bn dropout inplace "
                        "pool_every widths");
    int64_t channels = pl_spec_int(s, root, "channels", 1, 3);
    int64_t size = pl_spec_need(s, root, "size", "a cnn");
    int64_t classes = pl_spec_int(s, root, "classes", 1, 1000);
    int64_t pool_every = pl_spec_int(s, root, "pool_every", 0, 0);
    cnn c = {.kernel = pl_spec_int(s, root, "kernel", 1, 3),
             .arch = pl_spec_word(s, root, "arch", cnn_archs, UNIFORM),
             .act = pl_spec_word(s, root, "act", pl_nn_activations, 0),
             .bn = pl_spec_bool(s, root, "bn", true),
             .inplace = pl_spec_bool(s, root, "inplace", false),
             .dropout = pl_spec_share(s, root, "dropout", 0)};
    const pl_yaml *list = width_list(s, root, &c.depth);
    if (!list) {
        c.depth = depth_of(s, root, "depth", "a cnn without `widths`");
        c.base = pl_spec_need(s, root, "base", "a cnn without `widths`");
    }
    const pl_yaml *width = list ? list->first : NULL;
    int64_t at = 0;
    static const int64_t single[] = {1, 1};
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(s->batch, channels, size, size));
    pl_module_enter(b, "", "CNN");
    pl_module_enter(b, "body", sequential);
    pl_nn_window half = square(2, 2, 0, false);
    for (int64_t i = 0; i < c.depth && !pl_build_failed(b); i++) {
        int64_t out = width ? pl_spec_number(s, width, "widths", 1) : cnn_channels(&c, i);
        if (width) width = width->next;
        x = cnn_block(s, &c, numbered(b, "", at++), x, out);
        if (pool_every && (i + 1) % pool_every == 0 && pl_built_size(b, x, 2) >= 8)
            x = pl_nn_max_pool(b, numbered(b, "", at++), 2, x, &half);
    }
    pl_module_leave(b);
    x = pl_nn_adaptive_avg_pool(b, "pool", 2, x, single);
    x = pl_aten_flatten(b, x, 1, -1);
    x = pl_nn_linear(b, "fc", x, classes, true);
    pl_module_leave(b);
    return x;
}

/* ---- Transformer ---- */

/* standard and decoder_only: as GPUMemNet calls them. */
static const char transformer_archs[] = "decoder encoder encdec standard decoder_only";
enum { DECODER, ENCODER, ENCDEC };
static const char transformer_mlps[] = "gelu relu swiglu";
enum { MLP_GELU, MLP_RELU, MLP_SWIGLU };

typedef struct transformer {
    int64_t d, heads, ff;
    bool rms, eager;
    int mlp;
    double dropout;
} transformer;

/* RMSNorm written out: x * rsqrt(mean(x^2) + 1e-6) * weight. */
static int32_t norm(pl_builder *b, const transformer *t, const char *name, int32_t x) {
    if (!t->rms) return pl_nn_layer_norm(b, name, x);
    pl_module_enter(b, name, "RMSNorm");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(t->d));
    int32_t y = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", x, 2);
    y = pl_aten_reduce(b, "aten.mean.dim", y, -1, true);
    y = pl_aten_scalar(b, "aten.add.Tensor", y, 1e-6);
    y = pl_aten_unary(b, "aten.rsqrt.default", y);
    y = pl_aten_mul(b, x, y);
    y = pl_aten_mul(b, y, w);
    pl_module_leave(b);
    return y;
}

/* Scores written out: [N, heads, L, L] masked, normalised, dropped out. */
static int32_t eager_attention(pl_builder *b, const transformer *t, const int32_t part[3],
                               bool causal) {
    int64_t length = pl_built_size(b, part[0], 2);
    pl_line(b, "a = q @ k.transpose(-2, -1) / math.sqrt(D // self.h)");
    int32_t a = pl_aten_matmul(b, part[0], pl_aten_transpose(b, part[1], -2, -1));
    a = pl_aten_scalar(b, "aten.div.Tensor", a, sqrt((double)(t->d / t->heads)));
    if (causal) {
        pl_line(b, "a = a.masked_fill(torch.ones(T, T).triu(1), -inf)");
        int32_t mask =
            pl_aten_make(b, "aten.ones.default", PL_DT_BOOL, PL_SIZES(length, length), 1);
        pl_call(b, "aten.triu.default");
        pl_call_tensor(b, "self", mask);
        pl_call_int(b, "diagonal", 1);
        mask = pl_call_result_like(b, mask);
        a = pl_aten_masked_fill(b, a, mask, -INFINITY);
    }
    pl_line(b, "y = F.dropout(a.softmax(-1), self.p) @ v");
    a = pl_aten_softmax(b, a, -1, PL_DT_UNKNOWN);
    a = pl_aten_dropout(b, a, t->dropout);
    return pl_aten_matmul(b, a, part[2]);
}

/* x [N, L, d]; memory: what keys and values are made of, PL_NONE: of x. */
static int32_t attention(pl_builder *b, const transformer *t, const char *name, int32_t x,
                         int32_t memory, bool causal) {
    int64_t n = pl_built_size(b, x, 0), l = pl_built_size(b, x, 1), heads = t->heads;
    int32_t part[3];
    pl_module_enter(b, name, "Attention");
    if (memory >= 0) {
        pl_module_children(b, "q kv out");
        pl_line(b, "q, k, v = self.q(x), *self.kv(mem).chunk(2, -1)");
        part[0] = pl_nn_linear(b, "q", x, t->d, true);
        pl_aten_chunk(b, pl_nn_linear(b, "kv", memory, 2 * t->d, true), 2, -1, part + 1);
    } else {
        pl_line(b, "q, k, v = self.kv(x).chunk(3, -1)");
        pl_aten_chunk(b, pl_nn_linear(b, "kv", x, 3 * t->d, true), 3, -1, part);
    }
    pl_line(b, "q, k, v = (t.view(B, L, self.h, D // self.h).transpose(1, 2) for t in (q, k, v))");
    for (int i = 0; i < 3; i++) {
        part[i] = pl_aten_view(b, part[i], PL_SIZES(n, l, heads, t->d / heads));
        part[i] = pl_aten_transpose(b, part[i], 1, 2);
    }
    int32_t y;
    if (t->eager) {
        y = eager_attention(b, t, part, causal);
    } else {
        pl_line(b, "y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)");
        y = pl_aten_attention(b, part[0], part[1], part[2], PL_NONE, t->dropout, causal, NAN,
                              false);
    }
    pl_line(b, "return self.out(y.transpose(1, 2).reshape(B, T, D))");
    y = pl_aten_transpose(b, y, 1, 2);
    y = pl_aten_reshape(b, y, PL_SIZES(n, l, t->d));
    y = pl_nn_linear(b, "out", y, t->d, true);
    pl_module_leave(b);
    return y;
}

static int32_t feed_forward(pl_builder *b, const transformer *t, int32_t x) {
    pl_module_enter(b, "mlp", "Mlp");
    if (t->mlp == MLP_SWIGLU) {
        int32_t half[2];
        pl_line(b, "a, b = self.up(x).chunk(2, -1)");
        pl_aten_chunk(b, pl_nn_linear(b, "up", x, 2 * t->ff, true), 2, -1, half);
        pl_line(b, "return self.down(F.silu(a) * b)");
        x = pl_aten_mul(b, pl_aten_unary(b, "aten.silu.default", half[0]), half[1]);
    } else {
        pl_line(b, "return self.down(self.act(self.up(x)))");
        x = pl_nn_linear(b, "up", x, t->ff, true);
        x = pl_nn_activation(b, "act", t->mlp == MLP_RELU ? 0 : 1, false, x);
    }
    x = pl_nn_linear(b, "down", x, t->d, true);
    pl_module_leave(b);
    return x;
}

/* Norms first: x + drop(att(n1(x))), [x + drop(xatt(nx(x), memory))], x + drop(mlp(n2(x))). */
static int32_t transformer_block(pl_builder *b, const transformer *t, const char *name, int32_t x,
                                 int32_t memory, bool causal) {
    pl_module_enter(b, name, "Block");
    pl_module_children(b, "n1 att n2 mlp drop nx xatt");
    pl_line(b, "x = x + self.drop(self.att(self.n1(x)))");
    int32_t y = attention(b, t, "att", norm(b, t, "n1", x), PL_NONE, causal);
    x = pl_aten_add(b, x, pl_nn_dropout(b, "drop", y, t->dropout));
    if (memory >= 0) {
        pl_line(b, "x = x + self.drop(self.xatt(self.nx(x), mem))");
        y = attention(b, t, "xatt", norm(b, t, "nx", x), memory, false);
        x = pl_aten_add(b, x, pl_nn_dropout(b, "drop", y, t->dropout));
    }
    pl_line(b, "return x + self.drop(self.mlp(self.n2(x)))");
    y = feed_forward(b, t, norm(b, t, "n2", x));
    x = pl_aten_add(b, x, pl_nn_dropout(b, "drop", y, t->dropout));
    pl_module_leave(b);
    return x;
}

/* Embeddings of tokens and positions, a stack of blocks (or two, the second looking at the first),
 * a norm, and a head without bias on every token or on their mean. */
static int32_t transformer_model(pl_sketch *s, const pl_yaml *root) {
    pl_builder *b = s->b;
    pl_spec_keys(s, root, "transformer",
                 COMMON "arch d heads layers ff vocab norm mlp dropout attn tie head classes "
                        "positions");
    transformer t = {.d = pl_spec_need(s, root, "d", "a transformer"),
                     .heads = pl_spec_int(s, root, "heads", 1, 8),
                     .rms = pl_spec_word(s, root, "norm", "layernorm rmsnorm", 0) == 1,
                     .mlp = pl_spec_word(s, root, "mlp", transformer_mlps, MLP_GELU),
                     .dropout = pl_spec_share(s, root, "dropout", 0),
                     .eager = pl_spec_word(s, root, "attn", "sdpa eager", 0) == 1};
    int arch = pl_spec_word(s, root, "arch", transformer_archs, DECODER);
    arch = arch == 3 ? ENCDEC : arch == 4 ? DECODER : arch;
    t.ff = pl_spec_int(s, root, "ff", 1, 4 * t.d);
    int64_t layers = depth_of(s, root, "layers", "a transformer");
    int64_t vocab = pl_spec_need(s, root, "vocab", "a transformer");
    bool classify = pl_spec_word(s, root, "head", "lm cls", 0) == 1;
    bool tie = pl_spec_bool(s, root, "tie", false) && !classify;
    int64_t classes = pl_spec_int(s, root, "classes", 1, 2);
    int64_t positions = pl_spec_int(s, root, "positions", 1, s->seq);
    if (t.d % t.heads != 0)
        pl_spec_fail(s, root, "d: %lld is no multiple of %lld heads", (long long)t.d,
                     (long long)t.heads);
    if (s->seq > positions)
        pl_build_fail(b, PL_USAGE, "seq", "the spec has %lld positions, not %lld",
                      (long long)positions, (long long)s->seq);
    int32_t tokens = pl_build_input(b, "i", PL_DT_I64, PL_SIZES(s->batch, s->seq));
    pl_module_enter(b, "", "Transformer");
    pl_module_children(b, "tok pos enc dec norm head");
    int32_t x[2] = {PL_NONE, PL_NONE}; /* the decoder's is made first */
    for (int i = 0; i < (arch == ENCDEC ? 2 : 1); i++) {
        int32_t token = pl_nn_embedding(b, "tok", tokens, vocab, t.d);
        int32_t place = pl_nn_embedding(b, "pos", pl_aten_arange(b, s->seq), positions, t.d);
        x[i] = pl_aten_add(b, token, place);
    }
    int32_t y = x[arch == ENCDEC ? 1 : 0], memory = PL_NONE;
    if (arch != DECODER)
        for (int64_t i = 0; i < layers && !pl_build_failed(b); i++)
            y = transformer_block(b, &t, numbered(b, "enc.", i), y, PL_NONE, false);
    if (arch == ENCDEC) {
        memory = y;
        y = x[0];
    }
    if (arch != ENCODER)
        for (int64_t i = 0; i < layers && !pl_build_failed(b); i++)
            y = transformer_block(b, &t, numbered(b, "dec.", i), y, memory, true);
    pl_line(b, "x = self.norm(x)");
    y = norm(b, &t, "norm", y);
    pl_line(b, "return self.head(x)");
    if (classify) y = pl_aten_reduce(b, "aten.mean.dim", y, 1, false);
    if (tie) {
        pl_module_enter(b, "tok", "torch.nn.modules.sparse.Embedding");
        int32_t w = pl_build_parameter(b, "weight", PL_SIZES(vocab, t.d));
        pl_module_leave(b);
        pl_module_enter(b, "head", "torch.nn.modules.linear.Linear");
        y = pl_aten_linear(b, y, pl_build_tied(b, "weight", w), PL_NONE);
        pl_module_leave(b);
    } else {
        y = pl_nn_linear(b, "head", y, classify ? classes : vocab, false);
    }
    pl_module_leave(b);
    return y;
}

/* ---- RNN ---- */

/* [Embedding], a recurrent layer, Linear on the last step. */
static int32_t recurrent(pl_sketch *s, const pl_yaml *root) {
    pl_builder *b = s->b;
    pl_spec_keys(s, root, "rnn",
                 COMMON "cell vocab inp hidden layers bidirectional dropout classes");
    int cell = pl_spec_word(s, root, "cell", "lstm gru rnn", 0);
    int64_t vocab = pl_spec_int(s, root, "vocab", 0, 0);
    int64_t in = pl_spec_need(s, root, "inp", "an rnn");
    int64_t hidden = pl_spec_need(s, root, "hidden", "an rnn");
    int64_t layers = pl_spec_int(s, root, "layers", 1, 1);
    bool both = pl_spec_bool(s, root, "bidirectional", false);
    double dropout = pl_spec_share(s, root, "dropout", 0);
    int64_t classes = pl_spec_int(s, root, "classes", 1, 2);
    int32_t x = vocab ? pl_build_input(b, "x", PL_DT_I64, PL_SIZES(s->batch, s->seq))
                      : pl_build_input(b, "x", PL_DT_F32, PL_SIZES(s->batch, s->seq, in));
    pl_module_enter(b, "", "RNN");
    pl_line(b, "x = self.emb(x)");
    if (vocab) x = pl_nn_embedding(b, "emb", x, vocab, in);
    pl_line(b, "return self.fc(self.rnn(x)[0][:, -1])");
    x = pl_nn_recurrent(b, "rnn", cell, x, hidden, layers, both, layers > 1 ? dropout : 0);
    x = pl_aten_select(b, x, 1, -1);
    x = pl_nn_linear(b, "fc", x, classes, true);
    pl_module_leave(b);
    return x;
}

/* ---- all of them ---- */

const char pl_spec_families[] = "mlp cnn transformer rnn";

static const struct {
    int32_t (*build)(pl_sketch *s, const pl_yaml *root);
    bool has_seq;
} families[] = {{mlp, false}, {convolutional, false}, {transformer_model, true}, {recurrent, true}};

int32_t pl_spec_family(pl_sketch *s, const pl_yaml *root, int family) {
    return families[family].build(s, root);
}

bool pl_spec_family_has_seq(int family) {
    return family >= 0 && families[family].has_seq;
}
