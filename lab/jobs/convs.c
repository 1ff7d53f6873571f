/* convs: see convs.h.
 *
 * A line of tools/measure/convs.py: {"d": dimensions, "n": batch, "cin", "cout", "in", "k", "s",
 * "p", "dil", "op": one size per dimension, "g": groups, "t": transposed, "cl": channels last,
 * "mode": fp32, tf32, bf16 or fp16, "bench", "backend", "src", and of each pass "f", "bd", "bw":
 * [bytes asked for and given back, bytes kept], or null where it was not seen; "f1", "bd1", "bw1": the largest of the first call}.
 * PyTorch's own copies come first among what is given back, so the workspace is the last of it. */
#include "lab/jobs/convs.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lend.h"

enum { DEPTH_LIMIT = 8, NEAR = 9 /* channels */, IMAGE = 3 /* channels of an image */ };

/* ---- a line ---- */

typedef struct line {
    int64_t d, n, cin, cout, g, t, cl, bench;
    int64_t in[3], k[3], s[3], p[3], dil[3], op[3];
    int64_t bytes[PL_CONV_PASSES], tried[PL_CONV_PASSES];
    pl_json_text mode, backend, source;
} line;

typedef struct field {
    const char *key;
    size_t at; /* in a line */
} field;

#define AT(member) offsetof(line, member)
static const field numbers[] = {{"d", AT(d)},
                                {"n", AT(n)},
                                {"cin", AT(cin)},
                                {"cout", AT(cout)},
                                {"g", AT(g)},
                                {"t", AT(t)},
                                {"cl", AT(cl)},
                                {"bench", AT(bench)},
                                {"f1", AT(tried[PL_CONV_FORWARD])},
                                {"bd1", AT(tried[PL_CONV_BACKWARD_DATA])},
                                {"bw1", AT(tried[PL_CONV_BACKWARD_WEIGHT])}};
static const field lists[] = {{"in", AT(in)}, {"k", AT(k)},     {"s", AT(s)},
                              {"p", AT(p)},   {"dil", AT(dil)}, {"op", AT(op)}};
static const field passes[] = {{"f", AT(bytes[PL_CONV_FORWARD])},
                               {"bd", AT(bytes[PL_CONV_BACKWARD_DATA])},
                               {"bw", AT(bytes[PL_CONV_BACKWARD_WEIGHT])}};
static const field texts[] = {{"mode", AT(mode)}, {"backend", AT(backend)}, {"src", AT(source)}};

#define FIND(table, name) find(table, sizeof table / sizeof *table, name)
/* Where in a line the key's value goes; -1: not in the table. */
static ptrdiff_t find(const field *table, size_t count, const pl_json_text *name) {
    for (size_t i = 0; i < count; i++)
        if (pl_json_is(name, table[i].key, strlen(table[i].key))) return (ptrdiff_t)table[i].at;
    return -1;
}

static int64_t *number_at(line *l, ptrdiff_t at) {
    return (int64_t *)(void *)((char *)l + at);
}

static void read_list(pl_json *json, int64_t out[3]) {
    int count = 0;
    if (!pl_json_list(json)) return;
    while (pl_json_item(json)) {
        if (count == 3) {
            pl_json_fail(json, "at most three dimensions");
            return;
        }
        pl_json_int(json, &out[count++], NULL);
    }
}

/* [[asked for and given back ...], ...]: the last of the first list, 0 where it is empty. */
static void read_pass(pl_json *json, int64_t *bytes) {
    *bytes = 0;
    if (!pl_json_list(json) || !pl_json_item(json) || !pl_json_list(json)) return;
    while (pl_json_item(json)) pl_json_int(json, bytes, NULL);
    while (pl_json_item(json)) pl_json_skip(json);
}

static void read_line(pl_json *json, line *l) {
    pl_json_text key;
    if (!pl_json_object(json)) return;
    while (pl_json_key(json, &key)) {
        ptrdiff_t number = FIND(numbers, &key), list = FIND(lists, &key), pass = FIND(passes, &key),
                  text = FIND(texts, &key);
        if (number >= 0 && pl_json_peek(json) != 'n')
            pl_json_int(json, number_at(l, number), NULL);
        else if (list >= 0)
            read_list(json, number_at(l, list));
        else if (pass >= 0 && pl_json_peek(json) != 'n')
            read_pass(json, number_at(l, pass));
        else if (text >= 0 && pl_json_peek(json) == '"')
            pl_json_string(json, (pl_json_text *)(void *)((char *)l + text));
        else
            pl_json_skip(json);
    }
    pl_json_end(json);
}

/* ---- what it means ---- */

/* Layers of whole recorded jobs count most, of known models less, then made-up ones, and those of
 * small networks, of which there are many, least. */
static const struct {
    const char *source;
    float weight;
} sources[] = {
    {"traced", 1}, {"torchvision", 1}, {"random", 0.8f}, {"cnn", 0.5f}, {"cnn-near", 0.5f}};

static const struct {
    const char *mode;
    pl_dtype dtype;
    bool tf32;
} modes[] = {{"fp32", PL_DT_F32, false},
             {"tf32", PL_DT_F32, true},
             {"bf16", PL_DT_BF16, true},
             {"fp16", PL_DT_F16, true}};

static const char *const backends[] = {"Cudnn", "CudnnTranspose", "CudaDepthwise2d",
                                       "CudaDepthwise3d"};

static bool is(const pl_json_text *text, const char *word) {
    return pl_json_is(text, word, strlen(word));
}

/* What was expected and is not so; NULL: all is well. */
static const char *take(pl_measured_conv *item, const line *l) {
    const int64_t most = (int64_t)1 << 28;
    if (l->d < 1 || l->d > 3) return "a \"d\" of 1 to 3";
    const int64_t counts[] = {l->n, l->cin, l->cout, l->g};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        if (counts[k] < 1 || counts[k] > most) return "a batch, channels and groups of 1 to 2^28";
    for (int pass = 0; pass < PL_CONV_PASSES; pass++)
        if (l->bytes[pass] < PL_UNKNOWN || l->bytes[pass] > PL_MAX_BYTES ||
            l->tried[pass] < PL_UNKNOWN || l->tried[pass] > PL_MAX_BYTES)
            return "bytes from 0 to 2^56";
    pl_conv *c = &item->conv;
    *c = (pl_conv){.dims = (int)l->d,
                   .batch = l->n,
                   .in_channels = l->cin,
                   .out_channels = l->cout,
                   .groups = l->g,
                   .transposed = l->t != 0,
                   .dtype = PL_DT_F32,
                   .channels_last = l->cl != 0,
                   .benchmark = l->bench != 0};
    size_t mode = 0;
    while (mode < sizeof modes / sizeof *modes && !is(&l->mode, modes[mode].mode)) mode++;
    if (mode == sizeof modes / sizeof *modes) return "a \"mode\" of fp32, tf32, bf16 or fp16";
    c->dtype = modes[mode].dtype;
    c->tf32 = modes[mode].tf32;
    for (int i = 0; i < c->dims; i++) {
        const int64_t sizes[] = {l->in[i], l->k[i], l->s[i], l->p[i], l->dil[i], l->op[i]};
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            if (sizes[k] < 0 || sizes[k] > most) return "sizes from 0 to 2^28";
        if (l->s[i] < 1) return "strides of 1 or more";
        int64_t reach = l->dil[i] * (l->k[i] - 1);
        c->in[i] = l->in[i];
        c->kernel[i] = l->k[i];
        c->stride[i] = l->s[i];
        c->padding[i] = l->p[i];
        c->dilation[i] = l->dil[i];
        c->out[i] = l->t ? (l->in[i] - 1) * l->s[i] - 2 * l->p[i] + reach + l->op[i] + 1
                         : (l->in[i] + 2 * l->p[i] - reach - 1) / l->s[i] + 1;
    }
    item->weight = 1;
    for (size_t k = 0; k < sizeof sources / sizeof *sources; k++)
        if (is(&l->source, sources[k].source)) item->weight = sources[k].weight;
    memcpy(item->bytes, l->bytes, sizeof item->bytes);
    memcpy(item->tried, l->tried, sizeof item->tried);
    return NULL;
}

bool pl_convs_line(const char *bytes, size_t length) {
    pl_json json;
    pl_json_text key;
    pl_json_open(&json, bytes, length, DEPTH_LIMIT);
    if (!pl_json_object(&json)) return false;
    while (pl_json_key(&json, &key)) {
        if (PL_JSON_IS(&key, "cin")) return true;
        if (PL_JSON_IS(&key, "job") || PL_JSON_IS(&key, "result")) return false;
        pl_json_skip(&json);
    }
    return false;
}

pl_status pl_convs_read(pl_convs *convs, pl_arena *arena, const char *path, const char *bytes,
                        size_t length, size_t from, pl_error *err) {
    pl_json json;
    line l = {.g = 1, .op = {0}};
    for (int p = 0; p < PL_CONV_PASSES; p++) l.bytes[p] = l.tried[p] = PL_UNKNOWN;
    pl_json_open(&json, bytes, length, DEPTH_LIMIT);
    read_line(&json, &l);
    bool cudnn = l.backend.length == 0;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        cudnn |= is(&l.backend, backends[i]);
    if (!json.failure && !cudnn) return PL_OK;
    pl_measured_conv *items =
        pl_arena_grow(arena, convs->items, &convs->capacity, convs->count + 1, sizeof *items);
    if (!items) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    convs->items = items;
    const char *expected = json.failure ? json.failure : take(&items[convs->count], &l);
    if (expected)
        return pl_fail(err, PL_INPUT, path, (int64_t)from + (json.failure ? json.failure_at : 0),
                       "expected %s", expected);
    convs->count++;
    return PL_OK;
}

/* ---- layers ---- */

pl_conv_layer pl_conv_layer_of(const pl_conv *conv) {
    pl_conv_layer layer;
    memset(&layer, 0, sizeof layer); /* compared byte by byte */
    layer.in_channels = conv->in_channels;
    layer.out_channels = conv->out_channels;
    layer.groups = conv->groups;
    layer.dims = conv->dims;
    layer.transposed = conv->transposed;
    for (int i = 0; i < conv->dims && i < 3; i++) {
        layer.in[i] = conv->in[i];
        layer.kernel[i] = conv->kernel[i];
        layer.stride[i] = conv->stride[i];
    }
    return layer;
}

/* Those that can be near each other stand together: by height, then the kernel's. */
static int compare_place(const pl_conv_layer *a, const pl_conv_layer *b) {
    if (a->in[0] != b->in[0]) return a->in[0] < b->in[0] ? -1 : 1;
    return a->kernel[0] < b->kernel[0] ? -1 : a->kernel[0] > b->kernel[0];
}

static int compare_layers(const void *x, const void *y) {
    int order = compare_place(x, y);
    return order ? order : memcmp(x, y, sizeof(pl_conv_layer));
}

size_t pl_conv_layers_sort(pl_conv_layer *layers, size_t count) {
    size_t kept = 0;
    qsort(layers, count, sizeof *layers, compare_layers);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || compare_layers(&layers[i], &layers[kept - 1]) != 0)
            layers[kept++] = layers[i];
    return kept;
}

static bool plain(const pl_conv_layer *layer) {
    return layer->dims == 2 && layer->groups == 1 && !layer->transposed;
}

static bool close_to(int64_t a, int64_t b) {
    return a - b <= NEAR && b - a <= NEAR;
}

bool pl_conv_layers_near(const pl_conv_layer *layers, size_t count, const pl_conv *conv) {
    pl_conv_layer own = pl_conv_layer_of(conv);
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_place(&layers[middle], &own) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && compare_place(&layers[low], &own) == 0; low++) {
        const pl_conv_layer *layer = &layers[low];
        if (memcmp(layer, &own, sizeof own) == 0) return true;
        if (!plain(layer) || !plain(&own) || !close_to(layer->out_channels, own.out_channels))
            continue;
        /* A first layer's channels are an image's: equal or not. */
        if (layer->in_channels > IMAGE ? close_to(layer->in_channels, own.in_channels)
                                       : layer->in_channels == own.in_channels)
            return true;
    }
    return false;
}
