/* op_convolution: convolutions of one to three dimensions, grouped and transposed.
 *
 * Rules: aten/src/ATen/native/Convolution.cpp, native/cudnn/Conv_v8.cpp (2.11). The output is
 * allocated, then the library's workspace for the length of the kernel; the bias is added in place.
 * Backward: the input's gradient and its workspace, then the weight's and its, then the bias's sum.
 * Operands that are not in the memory format of the kernel are copied first. The sizes of
 * workspaces come from the device (src/device/workspace.h). */
#include "tape/operator.h"

#include <string.h>

#include "core/checked.h"
#include "core/mix.h"

static bool wants_channels_last(const pl_value *v) {
    if (v->dims < 4 || v->sizes[1] == 1) return false;
    return v->strides[1] == 1 && !pl_is_contiguous(v);
}

/* One of a list argument's numbers; a single one stands for all. */
static int64_t nth(const pl_node *node, const char *name, int i, int64_t otherwise) {
    const pl_arg *arg = pl_node_arg(node, name);
    if (!arg) return otherwise;
    if (arg->kind == PL_ARG_INT) return arg->i;
    if (arg->kind != PL_ARG_INTS || arg->count == 0) return otherwise;
    return arg->ints[(uint32_t)i < arg->count ? (uint32_t)i : arg->count - 1];
}

static bool describe(pl_eager *e, const pl_node *node, const pl_value *x, const pl_value *weight,
                     const pl_tensor *out, bool transposed, pl_conv *conv) {
    int dims = weight->dims - 2;
    if (dims < 1 || dims > 3 || x->dims != weight->dims || out->dims != weight->dims) return false;
    *conv = (pl_conv){.dims = dims,
                      .batch = x->sizes[0],
                      .in_channels = x->sizes[1],
                      .out_channels = out->sizes[1],
                      .groups = pl_node_int(node, "groups", 1),
                      .transposed = transposed,
                      .dtype = (pl_dtype)x->dtype,
                      .tf32 = true,
                      .channels_last = wants_channels_last(x) || wants_channels_last(weight),
                      .benchmark = e->job->cudnn_benchmark};
    for (int i = 0; i < dims; i++) {
        conv->in[i] = x->sizes[2 + i];
        conv->out[i] = out->sizes[2 + i];
        conv->kernel[i] = weight->sizes[2 + i];
        conv->stride[i] = nth(node, "stride", i, 1);
        conv->dilation[i] = nth(node, "dilation", i, 1);
        conv->padding[i] = nth(node, "padding", i, 0);
        const pl_arg *padding = pl_node_arg(node, "padding");
        if (padding && padding->kind == PL_ARG_STRING)
            conv->padding[i] = strcmp(padding->s, "same") == 0
                                   ? pl_times(conv->dilation[i], conv->kernel[i] - 1) / 2
                                   : 0;
    }
    return true;
}

/* The slot where the shape stands or would stand; the table is never full. */
static int32_t *tried_slot(const pl_eager *e, const pl_conv *conv, pl_conv_pass pass) {
    uint64_t words[(sizeof *conv + 7) / 8] = {0}, secret = pl_mix_secret(e->tape), hash = pass;
    memcpy(words, conv, sizeof *conv);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) hash = pl_mix(hash, words[i], secret);
    size_t at = (size_t)(hash ^ hash >> 29) & (e->tried_slot_count - 1);
    for (; e->tried_slots[at]; at = (at + 1) & (e->tried_slot_count - 1)) {
        size_t i = (size_t)e->tried_slots[at] - 1;
        if (e->tried[i].pass == pass && memcmp(&e->tried[i].conv, conv, sizeof *conv) == 0) break;
    }
    return &e->tried_slots[at];
}

/* At most half of the slots are used. */
static bool grow_tried(pl_eager *e) {
    if (e->tried_count < e->tried_slot_count / 2) return true;
    size_t count = e->tried_slot_count ? e->tried_slot_count * 2 : 64;
    int32_t *slots = pl_arena_array(e->tape->arena, count, sizeof *slots);
    if (!slots) return false;
    e->tried_slots = slots;
    e->tried_slot_count = count;
    for (size_t i = 0; i < e->tried_count; i++)
        *tried_slot(e, &e->tried[i].conv, e->tried[i].pass) = (int32_t)i + 1;
    return true;
}

/* cudnn.benchmark: the first call of a shape tries every plan in one large block and empties the
 * cache. */
static bool first_call(pl_eager *e, const pl_conv *conv, pl_conv_pass pass) {
    if (!grow_tried(e)) {
        e->failed = true;
        return false;
    }
    int32_t *slot = tried_slot(e, conv, pass);
    if (*slot) return false;
    void *grown = pl_arena_grow(e->tape->arena, e->tried, &e->tried_room, e->tried_count + 1,
                                sizeof *e->tried);
    if (!grown) {
        e->failed = true;
        return false;
    }
    e->tried = grown;
    memcpy(&e->tried[e->tried_count].conv, conv, sizeof *conv); /* compared byte by byte */
    e->tried[e->tried_count++].pass = pass;
    *slot = (int32_t)e->tried_count;
    return true;
}

void pl_conv_workspace(pl_eager *e, const pl_conv *conv, pl_conv_pass pass) {
    const pl_tape_device *d = e->device;
    if (d->conv_native(conv)) return;
    e->tape->used_cudnn = e->tape->used_convolutions = true;
    if (conv->benchmark && first_call(e, conv, pass)) {
        int64_t tried = d->conv_tried(d->context, conv, pass, d->cc_major, d->cc_minor, NULL);
        /* Plans that want more than is free are not tried (Conv_v8.cpp): how large the largest of
         * the others is, nobody knows. */
        while (d->memory && tried > d->memory / 2) tried /= 2;
        pl_scratch(e, tried);
        pl_cache_emptied(e);
    }
    pl_scratch(e, d->conv(d->context, conv, pass, d->cc_major, d->cc_minor, NULL));
}

/* value.contiguous(the kernel's format), for the length of the call: the copy, or NULL where it is
 * so already. What is saved is the value itself. */
static pl_value *format_copy(pl_eager *e, const pl_value *value, bool channels_last) {
    bool last = wants_channels_last(value) || value->dims < 4 || value->sizes[1] == 1;
    if (channels_last ? last : pl_is_contiguous(value)) return NULL;
    pl_value *copy = pl_new(e, (pl_dtype)value->dtype, value->dims, value->sizes, NULL);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_COPY,
                                        .pass = pl_work_pass(e),
                                        .read = pl_work_bytes(value),
                                        .strided = true,
                                        .out = {copy}});
    return copy;
}

/* A new tensor in the kernel's format. Export runs on other devices, whose kernels choose
 * otherwise: the strides in the graph do not count. */
static pl_value *new_in_format(pl_eager *e, pl_dtype dtype, int dims, const int64_t *sizes,
                               bool channels_last) {
    if (!channels_last || dims < 4) return pl_new(e, dtype, dims, sizes, NULL);
    int64_t strides[PL_MAX_DIMS], step = sizes[1];
    strides[1] = 1;
    for (int i = dims - 1; i >= 2; i--) {
        strides[i] = step;
        step = pl_times(step, sizes[i]);
    }
    strides[0] = step;
    return pl_new(e, dtype, dims, sizes, strides);
}

/* Edges: input, weight, bias. Saved: input, weight; rule: the pl_conv. */
static void convolution_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_conv *conv = fn->rule;
    pl_value *grad = grads[0], *x = fn->saved[0], *weight = fn->saved[1];
    pl_value *copy = format_copy(e, grad, conv->channels_last);
    pl_value *xc = format_copy(e, x, conv->channels_last),
             *wc = format_copy(e, weight, conv->channels_last);
    if (fn->edges[0].wanted) {
        out[0] = new_in_format(e, (pl_dtype)x->dtype, x->dims, x->sizes, conv->channels_last);
        pl_work_convolution(e, PL_CONV_BACKWARD_DATA, conv, (double)weight->elements, out[0]);
        pl_conv_workspace(e, conv, PL_CONV_BACKWARD_DATA);
    }
    if (fn->edges[1].wanted) {
        out[1] = new_in_format(e, (pl_dtype)weight->dtype, weight->dims, weight->sizes,
                               conv->channels_last);
        pl_work_convolution(e, PL_CONV_BACKWARD_WEIGHT, conv, (double)weight->elements, out[1]);
        pl_conv_workspace(e, conv, PL_CONV_BACKWARD_WEIGHT);
    }
    if (fn->edge_count > 2 && fn->edges[2].wanted) {
        out[2] = pl_new_flat(e, (pl_dtype)grad->dtype, grad->sizes[1]);
        pl_work_reduce(e, PL_PASS_BACKWARD, copy ? copy : grad, ~2u, out[2]);
        pl_reduce_scratch(e, copy ? copy : grad, ~2u, 4);
    }
    pl_drop(e, wc);
    pl_drop(e, xc);
    pl_drop(e, copy);
}

/* conv1d to conv3d, conv_transpose1d to 3d, convolution; `forward` of the row is "T" for the
 * transposed ones. */
void pl_run_convolution(pl_eager *e, const pl_node *node, const pl_operator *op) {
    static const char *const names[] = {"input", "weight", "bias"};
    pl_value *v[3];
    for (int i = 3; i-- > 0;) {
        pl_value *value = pl_arg_value(e, node, names[i]);
        v[i] =
            value && e->autocast ? pl_autocast_to(e, value, (pl_dtype)e->autocast) : pl_hold(value);
    }
    pl_agree(e, 3, v);
    const pl_tensor *shape = pl_output_tensor(e, node, 0);
    bool transposed =
        (op->forward && *op->forward == 'T') || pl_node_int(node, "transposed", 0) != 0;
    pl_conv *conv = pl_arena_alloc(e->step_arena, sizeof *conv);
    if (!conv) e->failed = true;
    if (conv && v[0] && v[1] && shape && describe(e, node, v[0], v[1], shape, transposed, conv)) {
        pl_value *x = v[0], *w = v[1];
        size_t mark = pl_work_mark(e);
        pl_value *xc = format_copy(e, x, conv->channels_last),
                 *wc = format_copy(e, w, conv->channels_last);
        pl_value *result =
            new_in_format(e, (pl_dtype)x->dtype, shape->dims, shape->sizes, conv->channels_last);
        pl_work_convolution(e, PL_CONV_FORWARD, conv, (double)w->elements, result);
        if (v[2]) /* the bias is added in place */
            pl_work_pointwise(e, PL_PASS_FORWARD, result, v[2], result);
        pl_conv_workspace(e, conv, PL_CONV_FORWARD);
        pl_drop(e, wc);
        pl_drop(e, xc);
        pl_value *inputs[3] = {x, w, v[2]};
        pl_fn *fn =
            pl_fn_new(e, "ConvolutionBackward0", convolution_backward, v[2] ? 3 : 2, inputs, 1);
        if (fn) {
            fn->rule = conv;
            pl_save(e, fn, x);
            pl_save(e, fn, w);
            pl_work_saved(e, mark);
            pl_fn_output(fn, result, 0);
        }
        pl_set_output(e, node, 0, result);
    }
    for (int i = 0; i < 3; i++) pl_drop(e, v[i]);
}
