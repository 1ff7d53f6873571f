/* work: see work.h.
 *
 * Floating-point operations: a product of [m, k] and [k, n] is 2 m n k, a convolution 2 for each
 * output place and weight it meets, attention two products forward and five backward (the scores
 * are made again), as torch/utils/flop_counter.py (2.11) has them. It counts the weight's gradient
 * of a grouped convolution as if every input channel met every output channel: `counted` follows,
 * `flops` does not. It does not count recurrent layers, nor elementwise work (here one per
 * element).
 *
 * Left out: what kernels read twice, and caches. */
#include "tape/work.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "tape/eager.h"

const char *pl_work_kind_name(pl_work_kind kind) {
    static const char *const names[PL_WORK_KINDS] = {
        "pointwise", "product", "convolution", "attention", "recurrent", "copy",
        "fill",      "reduce",  "softmax",     "norm",      "pool",      "gather",
        "sort",      "foreach", "transfer",    "view"};
    return kind < PL_WORK_KINDS ? names[kind] : NULL;
}

void pl_work_reserve(pl_eager *e, size_t count) {
    pl_tape *tape = e->tape;
    if (!e->calls.on || e->calls.room >= count) return;
    pl_work *grown = pl_arena_grow(tape->arena, tape->calls, &e->calls.room, count, sizeof *grown);
    if (grown) tape->calls = grown; /* else it grows later, or fails then */
}

static pl_work *push(pl_eager *e, pl_work_kind kind, pl_pass pass, pl_dtype dtype) {
    pl_tape *tape = e->tape;
    pl_work *grown = pl_arena_grow(tape->arena, tape->calls, &e->calls.room, tape->call_count + 1,
                                   sizeof *grown);
    if (!grown) {
        e->failed = true;
        return NULL;
    }
    tape->calls = grown;
    pl_work *call = &grown[tape->call_count];
    *call = (pl_work){.what = e->what,
                      .node = e->node,
                      .kind = (uint8_t)kind,
                      .class = e->class,
                      .pass = (uint8_t)pass,
                      .phase = e->phase,
                      .dtype = (uint8_t)dtype,
                      .first = tape->call_count == e->calls.begin,
                      .enters = tape->call_count == e->calls.begin ? e->calls.entered : 0,
                      .hooks = e->calls.hooks,
                      .launches = kind != PL_WORK_VIEW};
    e->calls.hooks = 0;
    tape->call_count++;
    return call;
}

/* out is written by the record at hand. */
static void claim(pl_eager *e, const pl_value *out) {
    if (!out || !out->storage || !out->storage->block || e->calls.tensors == 0) return;
    e->calls.tensors--;
    e->calls.bytes -= (double)pl_value_bytes(out);
}

/* What is computed besides products: one operation per element that is written; what moves or fills
 * computes nothing. */
static double computed(pl_work_kind kind, double bytes, pl_dtype dtype) {
    bool moves = kind == PL_WORK_COPY || kind == PL_WORK_FILL || kind == PL_WORK_GATHER ||
                 kind == PL_WORK_TRANSFER;
    int size = pl_dtype_size(dtype);
    return moves ? 0 : size ? bytes / size : bytes;
}

/* Modules called on the way from one operator's to the next one's: those around the latter that are
 * not around the former. */
static uint8_t entered(const pl_graph *g, int32_t from, int32_t to) {
    enum { DEEPEST = 32 };
    uint8_t count = 0;
    for (int up = 0; to >= 0 && up < DEEPEST; to = g->modules[to].parent, up++) {
        int32_t at = from;
        for (int k = 0; at >= 0 && at != to && k < DEEPEST; k++) at = g->modules[at].parent;
        if (at == to) break;
        count++;
    }
    return count;
}

void pl_work_begin(pl_eager *e) {
    if (!e->calls.on) return;
    e->calls.tensors = 0;
    e->calls.bytes = 0;
    e->calls.begin = e->tape->call_count;
    int32_t module = e->node >= 0 && e->phase == PL_PHASE_FORWARD ? e->graph->nodes[e->node].module
                                                                  : e->calls.module;
    e->calls.entered = module != e->calls.module ? entered(e->graph, e->calls.module, module) : 0;
    e->calls.module = module;
}

void pl_work_made(pl_eager *e, int64_t bytes) {
    if (!e->calls.on || e->kind == PL_WORKSPACE) return;
    e->calls.tensors++;
    e->calls.bytes += (double)bytes;
}

static pl_work *put(pl_eager *e, const pl_work_known *known) {
    pl_dtype dtype = known->dtype    ? known->dtype
                     : known->out[0] ? (pl_dtype)known->out[0]->dtype
                                     : PL_DT_F32;
    pl_work *call = push(e, known->kind, known->pass, dtype);
    if (!call) return NULL;
    if (known->class != PL_KERNEL_PLAIN) call->class = (uint8_t)known->class;
    call->written = known->written;
    for (size_t i = 0; i < sizeof known->out / sizeof *known->out; i++) {
        if (!known->out[i]) continue;
        claim(e, known->out[i]);
        call->written += (double)pl_value_bytes(known->out[i]);
    }
    if (known->launches) call->launches = known->launches;
    call->read = known->read;
    call->rows = known->rows;
    call->columns = known->columns;
    call->strided = known->strided;
    call->flops = computed((pl_work_kind)call->kind, call->written, dtype);
    return call;
}

void pl_work_kernels(pl_eager *e, const pl_work_known *known) {
    if (e->calls.on) put(e, known);
}

void pl_work_end(pl_eager *e, const pl_work_rest *rest) {
    if (!e->calls.on || e->failed) return;
    bool said = e->tape->call_count > e->calls.begin;
    if (said) { /* what it saved through hooks after its kernels were noted */
        e->tape->calls[e->tape->call_count - 1].hooks += e->calls.hooks;
        e->calls.hooks = 0;
    }
    pl_dtype dtype = rest->like ? (pl_dtype)rest->like->dtype : PL_DT_F32;
    bool made = e->calls.tensors > 0 && rest->kind != PL_WORK_VIEW,
         in_place = !made && !said && rest->in_place_bytes > 0;
    if (!made && said) return;
    if (!made && !in_place) {
        push(e, PL_WORK_VIEW, rest->pass, dtype);
        return;
    }
    pl_work_known known = {.kind = rest->kind,
                           .pass = rest->pass,
                           .launches = rest->launches ? rest->launches
                                       : made         ? e->calls.tensors
                                                      : 1,
                           .read = rest->read,
                           .written = made ? e->calls.bytes : rest->in_place_bytes,
                           .rows = rest->rows,
                           .columns = rest->columns,
                           .strided = rest->strided,
                           .dtype = dtype};
    /* A chain of kernels reads what the one before it wrote. */
    if (!rest->launches && known.launches > 1)
        known.read += known.written * (known.launches - 1) / known.launches;
    if (rest->zeroed)
        put(e, &(pl_work_known){.kind = PL_WORK_FILL,
                                .pass = rest->pass,
                                .written = known.written,
                                .dtype = dtype});
    put(e, &known);
    e->calls.tensors = 0;
    e->calls.bytes = 0;
}

void pl_work_move(pl_eager *e, pl_work_kind kind, pl_pass pass, double read, double written,
                  const pl_value *out) {
    if (!e->calls.on) return;
    put(e,
        &(pl_work_known){
            .kind = kind, .pass = pass, .read = read, .written = out ? 0 : written, .out = {out}});
}

void pl_work_copy(pl_eager *e, pl_pass pass, const pl_value *from, const pl_value *to) {
    if (!e->calls.on) return;
    put(e, &(pl_work_known){.kind = PL_WORK_COPY,
                            .pass = pass,
                            .read = pl_work_bytes(from),
                            .strided = pl_work_gathers(from, to),
                            .out = {to}});
}

void pl_work_fill(pl_eager *e, pl_pass pass, const pl_value *out) {
    if (e->calls.on) put(e, &(pl_work_known){.kind = PL_WORK_FILL, .pass = pass, .out = {out}});
}

void pl_work_pointwise(pl_eager *e, pl_pass pass, const pl_value *a, const pl_value *b,
                       const pl_value *out) {
    if (!e->calls.on) return;
    bool in_place = out == a;
    put(e, &(pl_work_known){.kind = PL_WORK_POINTWISE,
                            .pass = pass,
                            .read = pl_work_bytes(a) + (b ? pl_work_bytes(b) : 0),
                            .written = in_place ? pl_work_bytes(a) : 0,
                            .strided = pl_work_gathers(a, out) || (b && pl_work_gathers(b, out)),
                            .dtype = (pl_dtype)out->dtype,
                            .out = {in_place ? NULL : out}});
}

void pl_work_reduce(pl_eager *e, pl_pass pass, const pl_value *in, uint32_t reduced,
                    const pl_value *out) {
    if (!e->calls.on) return;
    int innermost = -1;
    for (int i = 0; i < in->dims; i++)
        if (in->sizes[i] > 1 && in->strides[i] != 0 &&
            (innermost < 0 || in->strides[i] < in->strides[innermost]))
            innermost = i;
    put(e, &(pl_work_known){.kind = PL_WORK_REDUCE,
                            .pass = pass,
                            .read = pl_work_bytes(in),
                            .rows = out->elements,
                            .columns = out->elements ? in->elements / out->elements : 0,
                            .strided = innermost >= 0 && !(reduced >> innermost & 1),
                            .dtype = (pl_dtype)in->dtype,
                            .out = {out}});
}

static bool column_major(const pl_value *m) {
    int r = m->dims - 2, c = m->dims - 1;
    return m->strides[r] == 1 && (m->strides[c] != 1 || m->sizes[c] == 1) && m->sizes[r] > 1;
}

/* Few tiles and a great depth: cuBLAS cuts the depth, and another kernel adds the parts up. By kind
 * of operand the depth beyond which products of so many tiles are cut; sizes that are no multiples
 * of eight keep half types from the newest kernels. Counted in the traces of data/h200 (1,336
 * shapes, right for 19 in 20; 2026-11-16, H200, cuBLAS 13). */
static bool cut_along_depth(const pl_eager *e, const pl_work *call) {
    enum { TILE = 128 };
    int64_t tiles = pl_times(pl_div_up(call->rows, TILE), pl_div_up(call->columns, TILE)),
            sms = e->device->sms, depth = call->depth;
    bool half = pl_dtype_is_half((pl_dtype)call->dtype),
         odd = (call->rows | call->columns | depth) % 8 != 0;
    if (half && !odd)
        return tiles <= sms && depth > (tiles <= sms / 16 ? 2048 : tiles <= sms / 4 ? 4096 : 8192);
    if (half) return tiles <= sms / 2 && depth > (tiles <= sms / 4 ? 512 : 1024);
    if (tiles <= sms / 16) return depth > 256;
    return tiles <= sms / 2 && depth > 512 && (tiles <= sms / 4 || depth <= 8192);
}

void pl_work_product(pl_eager *e, pl_pass pass, const pl_value *a, const pl_value *b,
                     const pl_value *out, bool biased) {
    if (!e->calls.on || a->dims < 2 || b->dims < 2) return;
    pl_work *call = push(e, PL_WORK_PRODUCT, pass, (pl_dtype)a->dtype);
    claim(e, out);
    if (!call) return;
    call->count = a->dims > 2 ? a->sizes[0] : 1;
    call->rows = a->sizes[a->dims - 2];
    call->depth = a->sizes[a->dims - 1];
    call->columns = b->sizes[b->dims - 1];
    call->transposed[0] = column_major(a);
    call->transposed[1] = column_major(b);
    call->read = pl_work_bytes(a) + pl_work_bytes(b);
    call->written = (double)pl_value_bytes(out);
    call->flops = 2.0 * (double)call->count * (double)call->rows * (double)call->columns *
                  (double)call->depth;
    call->counted = call->flops;
    call->biased = biased;
    if (a->dims == 2 && !biased && cut_along_depth(e, call)) call->launches = 2;
}

void pl_work_product_of(pl_eager *e, pl_dtype dtype, int64_t count, int64_t rows, int64_t depth,
                        int64_t columns) {
    if (!e->calls.on) return;
    pl_work *call = push(e, PL_WORK_PRODUCT, PL_PASS_FORWARD, dtype);
    if (!call) return;
    double size = pl_dtype_size(dtype), m = (double)rows, k = (double)depth, n = (double)columns,
           times = (double)count;
    call->count = count;
    call->rows = rows;
    call->depth = depth;
    call->columns = columns;
    call->read = size * times * (m * k + k * n);
    call->written = size * times * m * n;
    call->flops = 2 * times * m * k * n;
    if (count == 1 && cut_along_depth(e, call)) call->launches = 2;
}

void pl_work_groups(pl_eager *e, pl_pass pass, pl_dtype dtype, int64_t count, int64_t rows,
                    int64_t depth, int64_t columns, int launches) {
    if (!e->calls.on) return;
    size_t at = e->tape->call_count;
    pl_work_product_of(e, dtype, count, rows, depth, columns);
    if (e->tape->call_count == at) return;
    e->tape->calls[at].pass = (uint8_t)pass;
    e->tape->calls[at].launches = launches;
}

/* A copy that outlives the step. Layers repeat: records of one kind that follow each other closely
 * share theirs. */
static const void *keep(pl_eager *e, const pl_work *call, const void *shape, size_t size) {
    enum { NEAR = 128 };
    const pl_work *first = e->tape->calls;
    for (const pl_work *c = call; c-- > first && call - c < NEAR;)
        if (c->kind == call->kind && c->shape && memcmp(c->shape, shape, size) == 0)
            return c->shape;
    void *copy = pl_arena_alloc(e->tape->arena, size);
    if (copy)
        memcpy(copy, shape, size);
    else
        e->failed = true;
    return copy;
}

/* cuDNN's kernels for tensor cores want channels last: operands in PyTorch's own order are turned
 * before and the result after, and the weights' gradient is often summed in parts. A kernel of one
 * place and stride 1 is a product in either order; images of up to three channels, depthwise
 * convolutions and small ones in float32 have kernels of their own. Counted in the traces of
 * data/h200 (2026-11-16, H200, PyTorch 2.11, cuDNN 9). */
static int convolution_launches(pl_conv_pass pass, const pl_conv *c, double flops) {
    const double small = 3e8, large = 1e9;
    bool weight = pass == PL_CONV_BACKWARD_WEIGHT, half = pl_dtype_is_half(c->dtype), point = true,
         unit = c->groups == 1;
    double places = 1;
    int64_t image = 1;
    for (int i = 0; i < c->dims; i++) {
        places *= (double)c->kernel[i];
        image = image * (c->out[i] % 16) % 16; /* of the image's size, what 16 does not divide */
        point &= c->kernel[i] == 1;
        unit &= c->stride[i] == 1 && c->padding[i] == 0;
    }
    if (c->groups > 1 && c->groups == c->in_channels)
        return weight && half && c->channels_last ? 2 : 1;
    if (c->channels_last) return weight ? 2 : 1;
    if (point && unit) { /* a product, where images begin at multiples of 16 bytes */
        bool turned =
            image * pl_dtype_size(c->dtype) % 16 && c->in_channels % 8 == 0 && flops >= large;
        return turned ? 3 : weight ? 2 : 1;
    }
    if (c->dtype == PL_DT_F64) return 1;
    if (!half && flops < small)
        return c->in_channels < 64 || pass == PL_CONV_BACKWARD_DATA ? 1 : weight ? 4 : 3;
    if (c->in_channels < 4) return !half ? 1 : weight ? 5 : places < 49 ? 1 : 4;
    if (point && c->groups == 1) return weight ? 4 : 3;
    int launches = weight ? 5 : 4;
    /* wide groups, and forward long kernels, one group after the other */
    int64_t wide = c->in_channels > c->out_channels ? c->in_channels : c->out_channels;
    bool one_by_one = c->groups > 1 && c->groups < 4096 &&
                      (wide / c->groups >= 256 ||
                       (wide / c->groups >= 32 && places > 25 && pass == PL_CONV_FORWARD));
    return one_by_one ? launches * (int)c->groups : launches;
}

void pl_work_convolution(pl_eager *e, pl_conv_pass pass, const pl_conv *conv, double weight,
                         const pl_value *out) {
    if (!e->calls.on) return;
    pl_pass as = pass == PL_CONV_FORWARD         ? PL_PASS_FORWARD
                 : pass == PL_CONV_BACKWARD_DATA ? PL_PASS_BACKWARD
                                                 : PL_PASS_BACKWARD_WEIGHT;
    pl_work *call = push(e, PL_WORK_CONVOLUTION, as, conv->dtype);
    claim(e, out);
    if (!call) return;
    call->shape = keep(e, call, conv, sizeof *conv);
    double size = (double)pl_dtype_size(conv->dtype);
    double in = (double)conv->batch * (double)conv->in_channels,
           made = (double)conv->batch * (double)conv->out_channels, places = 1;
    for (int i = 0; i < conv->dims; i++) {
        in *= (double)conv->in[i];
        made *= (double)conv->out[i];
        places *= (double)(conv->transposed ? conv->in[i] : conv->out[i]);
    }
    call->flops = call->counted = 2 * (double)conv->batch * places * weight;
    if (pass == PL_CONV_BACKWARD_WEIGHT) call->counted *= (double)conv->groups;
    double all = size * (in + made + weight);
    call->launches = convolution_launches(pass, conv, call->flops);
    call->written = size * (pass == PL_CONV_FORWARD         ? made
                            : pass == PL_CONV_BACKWARD_DATA ? in
                                                            : weight);
    call->read = all - call->written;
}

/* Backward: the rows' sums of gradient times output, the kernel, the queries' gradient from float32
 * (the memory-efficient kernel does without; op_attention.c notes its sums), and a sum for keys and
 * values whose heads are shared. Kernels seen in the traces of data/h200. */
static int attention_launches(pl_pass pass, const pl_attention *a) {
    bool apart = a->backend == PL_ATTENTION_CUDNN || a->backend == PL_ATTENTION_FLASH;
    if (pass == PL_PASS_FORWARD) return a->backend == PL_ATTENTION_CUDNN && a->dropout ? 2 : 1;
    return apart ? a->heads != a->kv_heads ? 5 : 3 : 1;
}

void pl_work_attention(pl_eager *e, pl_pass pass, const pl_attention *a) {
    if (!e->calls.on) return;
    pl_work *call = push(e, PL_WORK_ATTENTION, pass, a->dtype);
    e->calls.tensors = 0; /* all that the kernel writes */
    e->calls.bytes = 0;
    if (!call) return;
    call->shape = keep(e, call, a, sizeof *a);
    double pairs = (double)a->batch * (double)a->heads * (double)a->queries * (double)a->keys;
    double scores = 2 * pairs * (double)a->head, values = 2 * pairs * (double)a->value_head;
    call->counted = pass == PL_PASS_FORWARD ? scores + values : 3 * scores + 2 * values;
    call->flops = a->causal ? call->counted / 2 : call->counted;
    double size = (double)pl_dtype_size(a->dtype), tokens = (double)a->batch;
    double q = tokens * (double)a->heads * (double)a->queries,
           k = tokens * (double)a->kv_heads * (double)a->keys;
    double operands = size * (q * (double)a->head + k * (double)(a->head + a->value_head)),
           result = size * q * (double)a->value_head;
    call->launches = attention_launches(pass, a);
    call->read = pass == PL_PASS_FORWARD ? operands : operands + 2 * result;
    call->written = pass == PL_PASS_FORWARD ? result + 4 * q : operands;
}

/* A sweep over a layer in one direction: the inputs' gates as a product (of one direction in about
 * the root of the steps' number of parts, so that layers overlap), then a product and a pointwise
 * kernel per step, or one kernel for all steps where the weights stay on the multiprocessors.
 * Backward: the same, a pointwise kernel and three products for the weights' gradient. Counted in
 * the traces of data/h200 (2026-11-16, H200, cuDNN 9). */
static double recurrent_launches(pl_pass pass, const pl_rnn *r, double gates) {
    double hidden = (double)r->hidden, seq = (double)r->seq, layers = (double)r->layers,
           ways = (double)r->directions, sweeps = layers * ways;
    bool forward = pass == PL_PASS_FORWARD, both = r->directions > 1,
         persistent = r->dtype != PL_DT_BF16 && gates * hidden * hidden <= 65536;
    double masks = r->dropout > 0 && r->training ? (layers - 1) * ways * 2 : 0;
    double join = both && !forward ? layers : 0; /* the two directions' gradients of the input */
    if (persistent) return sweeps * (forward ? r->mode == PL_RNN_GRU ? 3 : 2 : 7) + masks + join;
    double parts = both ? 1 : forward ? floor(sqrt(seq)) : ceil(seq / 16);
    bool cut = !forward && pl_dtype_is_half(r->dtype) && gates * hidden >= 3072 && r->batch <= 128;
    return sweeps * ((cut ? 3 : 2) * seq + parts + (forward ? 0 : 4)) + masks + join;
}

void pl_work_recurrent(pl_eager *e, pl_pass pass, const pl_rnn *r) {
    if (!e->calls.on) return;
    pl_work *call = push(e, PL_WORK_RECURRENT, pass, r->dtype);
    e->calls.tensors = 0;
    e->calls.bytes = 0;
    if (!call) return;
    call->shape = keep(e, call, r, sizeof *r);
    double gates = r->mode == PL_RNN_LSTM ? 4 : r->mode == PL_RNN_GRU ? 3 : 1;
    double hidden = (double)r->hidden, state = (double)(r->projection ? r->projection : r->hidden),
           steps = (double)r->batch * (double)r->seq, in = (double)r->input, weights = 0, wide = 0;
    for (int64_t layer = 0; layer < r->layers; layer++) {
        weights += gates * hidden * (in + state) * (double)r->directions;
        wide += (in + gates * hidden * (double)r->directions) * steps;
        in = state * (double)r->directions;
    }
    double size = (double)pl_dtype_size(r->dtype);
    call->flops = 2 * steps * weights * (pass == PL_PASS_FORWARD ? 1 : 2);
    call->read = size * (weights * (pass == PL_PASS_FORWARD ? 1 : 2) + wide);
    call->written = size * (wide + (pass == PL_PASS_FORWARD ? 0 : weights));
    double launches = recurrent_launches(pass, r, gates);
    call->launches = (int32_t)(launches < 1e6 ? launches : 1e6);
}

void pl_work_foreach(pl_eager *e, int64_t tensors, int64_t launches, double read, double written,
                     pl_dtype dtype) {
    if (!e->calls.on || tensors == 0) return;
    pl_work *call = push(e, launches ? PL_WORK_FOREACH : PL_WORK_POINTWISE, PL_PASS_FORWARD, dtype);
    if (!call) return;
    if (!launches) launches = tensors;
    call->launches = launches > INT32_MAX ? INT32_MAX : (int32_t)launches;
    call->tensors = tensors > INT32_MAX ? INT32_MAX : (int32_t)tensors;
    call->read = read;
    call->written = written;
    call->flops = computed((pl_work_kind)call->kind, written, dtype);
}

void pl_work_host(pl_eager *e, const char *what, int32_t tensors) {
    if (!e->calls.on) return;
    pl_work *call = push(e, PL_WORK_VIEW, PL_PASS_FORWARD, PL_DT_F32);
    if (!call) return;
    call->what = what;
    call->tensors = tensors;
    call->first = true;
}

void pl_work_transfer(pl_eager *e, double bytes, const pl_value *to) {
    enum { KEPT_BYTES = 65536 };
    pl_work_move(e, PL_WORK_TRANSFER, PL_PASS_FORWARD, bytes, 0, to);
    if (bytes > KEPT_BYTES) pl_work_waits(e);
}

void pl_work_waits(pl_eager *e) {
    if (e->calls.on && e->tape->call_count) e->tape->calls[e->tape->call_count - 1].waits = true;
}

size_t pl_work_mark(const pl_eager *e) {
    return e->tape->call_count;
}

void pl_work_saved(pl_eager *e, size_t from) {
    const pl_checkpoint_frame *f = e->frame;
    if (!e->calls.on || !f || !f->replaying || f->filled < f->place_count) return;
    if (e->tape->call_count > from) e->tape->call_count = from;
    e->calls.tensors = 0;
    e->calls.bytes = 0;
}

pl_pass pl_work_pass(const pl_eager *e) {
    return e->in_backward && !e->grad_enabled ? PL_PASS_BACKWARD : PL_PASS_FORWARD;
}

double pl_work_bytes(const pl_value *value) {
    double n = 1;
    for (int i = 0; i < value->dims; i++)
        if (value->strides[i] != 0) n *= (double)value->sizes[i];
    return n * pl_dtype_size((pl_dtype)value->dtype);
}

bool pl_work_gathers(const pl_value *in, const pl_value *out) {
    if (in->elements != out->elements) return true;
    int i = in->dims, k = out->dims;
    while (i > 0 || k > 0) { /* from the last dimension, those of one element left out */
        while (i > 0 && in->sizes[i - 1] == 1) i--;
        while (k > 0 && out->sizes[k - 1] == 1) k--;
        if (i == 0 || k == 0) return i != k;
        i--;
        k--;
        if (in->sizes[i] != out->sizes[k] || in->strides[i] != out->strides[k]) return true;
    }
    return false;
}
