/* chain: see chain.h. The parser of a network's text, the plan of its memory, and the two ways
 * through it. */
#include "lab/learn/chain.h"
#include "lab/learn/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

typedef struct word {
    const char *at;
    size_t length;
} word;

/* The next part up to `mark`; *left moves behind it. */
static word next_word(word *left, char mark) {
    const char *end = memchr(left->at, mark, left->length);
    word w = {left->at, end ? (size_t)(end - left->at) : left->length};
    size_t used = w.length + (end ? 1 : 0);
    left->at += used;
    left->length -= used;
    return w;
}

static bool same(word w, const char *name) {
    return strlen(name) == w.length && memcmp(w.at, name, w.length) == 0;
}

/* A number without a sign, which no word starts as. */
static bool number_of(word w, double *out) {
    return w.length > 0 && w.at[0] >= '0' && w.at[0] <= '9' && pl_number_read(w.at, w.length, out);
}

static pl_status wrong(pl_error *err, size_t layer, word name, const char *what) {
    return pl_fail(err, PL_USAGE, "net", -1, "layer %zu, '%.*s': %s", layer + 1,
                   (int)(name.length < 40 ? name.length : 40), name.at, what);
}

static pl_status parse_layer(pl_layer *layer, size_t index, word text, size_t outputs,
                             pl_error *err) {
    word name = next_word(&text, ':');
    const pl_layer_kind *kind;
    for (size_t i = 0; (kind = pl_layer_kind_at(i)) && !same(name, kind->name); i++) {
    }
    if (!kind) return wrong(err, index, name, "there is no such layer");
    layer->kind = kind;
    size_t given = 0;
    while (text.length) {
        word part = next_word(&text, ':');
        double value;
        if (number_of(part, &value)) {
            const pl_layer_arg *arg = &kind->args[given];
            if (given == PL_LAYER_ARGS || !arg->name || layer->words)
                return wrong(err, index, name, "a number too many");
            if (value < arg->least || value > arg->most || (arg->whole && value != floor(value)))
                return pl_fail(err, PL_USAGE, "net", -1,
                               "layer %zu, '%s': %s must be%s from %s to %s", index + 1, kind->name,
                               arg->name, arg->whole ? " a whole number" : "",
                               PL_REAL("g", arg->least), PL_REAL("g", arg->most));
            layer->args[given++] = value;
            continue;
        }
        size_t w = 0;
        while (w < sizeof kind->words / sizeof *kind->words && kind->words[w] &&
               !same(part, kind->words[w]))
            w++;
        if (w == sizeof kind->words / sizeof *kind->words || !kind->words[w])
            return wrong(err, index, name, "neither a number nor a word that it knows");
        layer->words |= 1u << w;
    }
    for (; given < PL_LAYER_ARGS && kind->args[given].name; given++) {
        const pl_layer_arg *arg = &kind->args[given];
        if (isnan(arg->standard))
            return pl_fail(err, PL_USAGE, "net", -1, "layer %zu, '%s': %s is not given", index + 1,
                           kind->name, arg->name);
        layer->args[given] = arg->standard == PL_OUTPUTS ? (double)outputs : arg->standard;
    }
    return PL_OK;
}

/* Connects the layers' shapes and gives each its place among the weights. */
static pl_status shape(pl_chain *chain, pl_error *err) {
    pl_shape flows = {0};
    for (size_t i = 0; i < chain->count; i++) {
        pl_layer *layer = &chain->layers[i];
        word name = {layer->kind->name, strlen(layer->kind->name)};
        pl_layer_wants wants = layer->kind->wants;
        if (i == 0) {
            chain->takes_steps = wants == PL_SEQUENCE || wants == PL_STEPS;
            flows.sequence = chain->takes_steps;
            flows.width = chain->takes_steps ? chain->channels : chain->columns;
            if (flows.width == 0)
                return wrong(err, i, name,
                             chain->takes_steps ? "the samples have no steps"
                                                : "the samples have no columns");
            if (flows.width > PL_WIDTH_MOST) return wrong(err, i, name, "its input is too wide");
        } else if (wants == PL_COLUMNS || wants == PL_STEPS)
            return wrong(err, i, name, "it can only stand first");
        else if (wants == PL_SEQUENCE && !flows.sequence)
            return wrong(err, i, name, "it wants a sequence, and a vector flows here");
        layer->in = flows;
        const char *what = layer->kind->shape(layer, chain->columns);
        if (what) return wrong(err, i, name, what);
        flows = layer->out;
        if (flows.width > PL_WIDTH_MOST) return wrong(err, i, name, "its output is too wide");
        if (i == 0 && flows.sequence && !chain->takes_steps) chain->fixed = flows.steps;
        for (size_t t = 0; t < layer->tensor_count; t++) {
            pl_net_tensor *tensor = &layer->tensors[t];
            size_t size = tensor->rows * tensor->columns; /* at most 65536 * 24576 */
            tensor->plain = chain->weights;
            tensor->packed = chain->packed;
            chain->weights += size;
            chain->packed +=
                tensor->use == PL_MATRIX ? pl_panels_size(tensor->rows, tensor->columns) : size;
            chain->packed = (chain->packed + PL_PANEL - 1) / PL_PANEL * PL_PANEL;
            if (chain->weights > PL_CHAIN_WEIGHTS)
                return wrong(err, i, name, "the network has too many weights");
        }
        layer->states = chain->states;
        chain->states += layer->state_count;
        chain->across_samples |= layer->kind->across_samples;
    }
    if (flows.sequence)
        return pl_fail(
            err, PL_USAGE, "net", -1,
            "the last layer gives a sequence: pool it (sum, mean, max, first, last, ends)");
    if (flows.width != chain->outputs)
        return pl_fail(err, PL_USAGE, "net", -1,
                       "the last layer gives %zu numbers, should give %zu", flows.width,
                       chain->outputs);
    return PL_OK;
}

pl_status pl_chain_open(pl_chain *chain, const char *text, size_t length, size_t columns,
                        size_t channels, size_t outputs, pl_error *err) {
    *chain = (pl_chain){.columns = columns, .channels = channels, .outputs = outputs};
    word left = {text, length};
    size_t count = 1;
    for (size_t i = 0; i < length; i++) count += text[i] == ',';
    if (length == 0 || count > PL_CHAIN_LAYERS)
        return pl_fail(err, PL_USAGE, "net", -1, "%zu layers, should be 1 to %d",
                       length ? count : 0, PL_CHAIN_LAYERS);
    chain->layers = calloc(count, sizeof *chain->layers);
    if (!chain->layers) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    pl_status status = PL_OK;
    for (; chain->count < count && status == PL_OK; chain->count++)
        status = parse_layer(&chain->layers[chain->count], chain->count, next_word(&left, ','),
                             outputs, err);
    if (status == PL_OK) status = shape(chain, err);
    if (status != PL_OK) pl_chain_close(chain);
    return status;
}

void pl_chain_close(pl_chain *chain) {
    free(chain->layers);
    *chain = (pl_chain){0};
}

/* ---- weights ---- */

void pl_chain_start(const pl_chain *chain, float *weights, float *states, pl_random *random) {
    for (size_t i = 0; i < chain->count; i++) {
        const pl_layer *layer = &chain->layers[i];
        for (size_t t = 0; t < layer->tensor_count; t++) {
            const pl_net_tensor *tensor = &layer->tensors[t];
            float *w = weights + tensor->plain;
            double bound = (double)tensor->bound;
            for (size_t j = 0; j < tensor->rows * tensor->columns; j++) switch (tensor->start) {
                case PL_ZERO: w[j] = 0; break;
                case PL_ONE: w[j] = 1; break;
                case PL_UNIFORM: w[j] = (float)((2 * pl_random_unit(random) - 1) * bound); break;
                case PL_NORMAL: w[j] = (float)(pl_random_normal(random) * bound); break;
                }
        }
        /* Moving means at 0 and variances at 1, half each. */
        for (size_t j = 0; j < layer->state_count; j++)
            states[layer->states + j] = j < layer->state_count / 2 ? 0 : 1;
    }
}

void pl_chain_pack(const pl_chain *chain, const float *plain, float *packed) {
    memset(packed, 0, chain->packed * sizeof *packed);
    for (size_t i = 0; i < chain->count; i++)
        for (size_t t = 0; t < chain->layers[i].tensor_count; t++) {
            const pl_net_tensor *tensor = &chain->layers[i].tensors[t];
            const float *from = plain + tensor->plain;
            float *to = packed + tensor->packed;
            if (tensor->use == PL_MATRIX)
                pl_panels_pack(from, tensor->columns, false, tensor->rows, tensor->columns, to);
            else
                memcpy(to, from, tensor->rows * tensor->columns * sizeof *to);
        }
}

void pl_chain_unpack(const pl_chain *chain, const float *packed, float *plain) {
    for (size_t i = 0; i < chain->count; i++)
        for (size_t t = 0; t < chain->layers[i].tensor_count; t++) {
            const pl_net_tensor *tensor = &chain->layers[i].tensors[t];
            const float *from = packed + tensor->packed;
            float *to = plain + tensor->plain;
            if (tensor->use == PL_MATRIX)
                pl_panels_unpack(from, tensor->rows, tensor->columns, to);
            else
                memcpy(to, from, tensor->rows * tensor->columns * sizeof *to);
        }
}

/* ---- memory ---- */

pl_extent pl_chain_extent(const pl_chain *chain, const pl_extent *samples) {
    if (chain->takes_steps) return *samples;
    return (pl_extent){.count = samples->count,
                       .rows = samples->count * chain->fixed,
                       .squares = samples->count * chain->fixed * chain->fixed,
                       .longest = chain->fixed};
}

static size_t rounded(size_t floats) { /* each piece begins on a cache line */
    return (floats + 15) / 16 * 16;
}
static size_t kept_of(const pl_layer *l, const pl_extent *extent, bool training) {
    return l->kind->kept ? rounded(l->kind->kept(l, extent, training)) : 0;
}
static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

/* The room: [panel room] [scratch] then, training, [gradient] [gradient] and each layer's [output]
 * [kept]; predicting, [output] [output] in turn and one [kept] for all. */
typedef struct plan {
    size_t scratch, wide, kept; /* largest of any layer */
    size_t all;                 /* every layer's output and kept */
} plan;

static plan plan_of(const pl_chain *chain, const pl_extent *extent, bool training) {
    plan p = {0};
    for (size_t i = 0; i < chain->count; i++) {
        const pl_layer *l = &chain->layers[i];
        size_t out = rounded(pl_rows(l->out, extent) * l->out.width);
        size_t kept = kept_of(l, extent, training);
        p.wide = most(p.wide, out);
        p.kept = most(p.kept, kept);
        if (l->kind->scratch)
            p.scratch = most(p.scratch, rounded(l->kind->scratch(l, extent, training)));
        p.all += out + kept;
    }
    return p;
}

size_t pl_chain_room(const pl_chain *chain, const pl_extent *extent, bool training, bool packed) {
    const size_t limit = (size_t)1 << 33; /* floats: 32 GiB */
    if (extent->count > limit || extent->rows >> 28 || extent->squares >> 36) return 0;
    plan p = plan_of(chain, extent, training);
    size_t room = (packed ? 0 : PL_PANEL_ROOM) + p.scratch +
                  (training ? 2 * p.wide + p.all : 2 * p.wide + p.kept);
    return room > limit ? 0 : most(room, 1);
}

/* ---- the two ways ---- */

static float *begin_pass(pl_net_pass *pass, const plan *p, float *room) {
    if (!pass->packed) {
        pass->products.room = room;
        room += PL_PANEL_ROOM;
    }
    pass->scratch = room;
    return room + p->scratch;
}

const float *pl_chain_forward(const pl_chain *chain, pl_net_pass *pass, const float *x,
                              float *room) {
    const pl_extent *extent = &pass->batch->extent;
    plan p = plan_of(chain, extent, pass->training);
    float *at = begin_pass(pass, &p, room);
    if (pass->training) {
        at += 2 * p.wide;
        for (size_t i = 0; i < chain->count; i++) {
            const pl_layer *l = &chain->layers[i];
            float *y = at, *kept = y + rounded(pl_rows(l->out, extent) * l->out.width);
            l->kind->forward(l, pass, x, y, kept);
            at = kept + kept_of(l, extent, true);
            x = y;
        }
        return x;
    }
    float *kept = at + 2 * p.wide;
    size_t turn = 0;
    for (size_t i = 0; i < chain->count; i++) {
        const pl_layer *l = &chain->layers[i];
        if (l->kind->only_training) continue;
        float *y = at + turn * p.wide;
        l->kind->forward(l, pass, x, y, kept);
        x = y;
        turn = !turn;
    }
    return x;
}

void pl_chain_backward(const pl_chain *chain, pl_net_pass *pass, const float *x, const float *d_out,
                       float *room) {
    const pl_extent *extent = &pass->batch->extent;
    plan p = plan_of(chain, extent, true);
    float *gradient = begin_pass(pass, &p, room);
    float *end = gradient + 2 * p.wide + p.all;
    size_t turn = 0;
    for (size_t i = chain->count; i-- > 0;) {
        const pl_layer *l = &chain->layers[i];
        float *kept = end - kept_of(l, extent, true);
        float *y = kept - rounded(pl_rows(l->out, extent) * l->out.width);
        const float *before = x;
        if (i > 0) {
            const pl_layer *previous = l - 1;
            before = y - kept_of(previous, extent, true) -
                     rounded(pl_rows(previous->out, extent) * previous->out.width);
        }
        float *dx = i > 0 ? gradient + turn * p.wide : NULL;
        l->kind->backward(l, pass, before, y, d_out, dx, kept);
        d_out = dx;
        turn = !turn;
        end = y;
    }
}
