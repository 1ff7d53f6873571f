/* onnx_shape_layer: sizes of the results of products, norms, pools, recurrent layers, attention,
 * reductions and losses.
 *
 * Rules: the operators' pages of ONNX 1.23 (onnx.ai/onnx/operators), opsets 9 to 23 where
 * torch.onnx writes them. Sizes that do not fit each other are left unknown. Left out: einsum with
 * "...". */
#include "import/onnx_shape.h"

#include <string.h>

#include "core/checked.h"

/* ---- norms ---- */

/* BatchNormalization: the running statistics behind the result. */
void pl_onnx_infer_batch_norm(onnx_build *c, const onnx_node *n) {
    pl_onnx_infer_same(c, n);
    const onnx_slot *mean = onnx_in(c, n, 3);
    for (uint32_t i = 1; i < n->output_count; i++)
        if (onnx_known(mean)) pl_onnx_set(onnx_out(c, n, i), mean->dtype, mean->dims, mean->sizes);
}

/* LayerNormalization: mean and inverse deviation behind the result. */
void pl_onnx_infer_layer_norm(onnx_build *c, const onnx_node *n) {
    pl_onnx_infer_same(c, n);
    const onnx_slot *in = onnx_in(c, n, 0);
    if (!onnx_known(in)) return;
    int64_t sizes[PL_MAX_DIMS] = {0};
    int axis = onnx_axis(pl_onnx_int(n, "axis", -1), in->dims);
    for (int i = 0; i < in->dims; i++) sizes[i] = axis >= 0 && i >= axis ? 1 : in->sizes[i];
    for (uint32_t i = 1; i < n->output_count; i++)
        pl_onnx_set(onnx_out(c, n, i), PL_DT_F32, in->dims, sizes);
}

/* ---- products ---- */

/* "bij,bjk->bik": each letter's size from the operands; spaces do not count, "..." is left out. */
void pl_onnx_infer_einsum(onnx_build *c, const onnx_node *n) {
    int64_t size_of[128], sizes[PL_MAX_DIMS];
    const char *at = pl_onnx_string(n, "equation", "");
    for (int i = 0; i < 128; i++) size_of[i] = -1;
    uint32_t operand = 0;
    int dim = 0;
    for (; *at && *at != '-'; at++) {
        const onnx_slot *x = onnx_in(c, n, operand);
        if (*at == ' ') continue;
        if (*at == ',') {
            operand++;
            dim = 0;
            continue;
        }
        if ((unsigned char)*at >= 128 || *at == '.' || !onnx_known(x) || dim >= x->dims) return;
        size_of[(int)*at] = x->sizes[dim++];
    }
    if (at[0] != '-' || at[1] != '>' || !onnx_in(c, n, 0)) return;
    dim = 0;
    for (at += 2; *at; at++) {
        if (*at == ' ') continue;
        if ((unsigned char)*at >= 128 || dim >= PL_MAX_DIMS || size_of[(int)*at] < 0) return;
        sizes[dim++] = size_of[(int)*at];
    }
    pl_onnx_set(onnx_out(c, n, 0), onnx_in(c, n, 0)->dtype, dim, sizes);
}

void pl_onnx_infer_matmul(onnx_build *c, const onnx_node *n) {
    const onnx_slot *a = onnx_in(c, n, 0), *b = onnx_in(c, n, 1);
    if (!onnx_known(a) || !onnx_known(b) || a->dims == 0 || b->dims == 0) return;
    onnx_slot x = {.dims = a->dims > 2 ? a->dims - 2 : 0},
              y = {.dims = b->dims > 2 ? b->dims - 2 : 0}, all = {0};
    memcpy(x.sizes, a->sizes, (size_t)x.dims * sizeof *x.sizes);
    memcpy(y.sizes, b->sizes, (size_t)y.dims * sizeof *y.sizes);
    if (!pl_onnx_broadcast(&x, &y, &all)) return;
    int64_t inner = a->sizes[a->dims - 1], other = b->sizes[b->dims > 1 ? b->dims - 2 : 0];
    if (inner != other) return;
    if (a->dims > 1) all.sizes[all.dims++] = a->sizes[a->dims - 2];
    if (b->dims > 1) all.sizes[all.dims++] = b->sizes[b->dims - 1];
    pl_onnx_set(onnx_out(c, n, 0), a->dtype, all.dims, all.sizes);
}

void pl_onnx_infer_gemm(onnx_build *c, const onnx_node *n) {
    const onnx_slot *a = onnx_in(c, n, 0), *b = onnx_in(c, n, 1);
    if (!onnx_known(a) || !onnx_known(b) || a->dims != 2 || b->dims != 2) return;
    int64_t sizes[2] = {a->sizes[pl_onnx_int(n, "transA", 0) ? 1 : 0],
                        b->sizes[pl_onnx_int(n, "transB", 0) ? 0 : 1]};
    pl_onnx_set(onnx_out(c, n, 0), a->dtype, 2, sizes);
}

/* Attributes of a window; auto_pad as the operators' pages have it. */
void pl_onnx_window(const onnx_node *n, int dims, const int64_t *in, const int64_t *kernel,
                    int64_t *stride, int64_t *pads, int64_t *dilation) {
    static const struct {
        const char *name;
        int64_t otherwise;
        int times;
    } rows[] = {{"strides", 1, 1}, {"dilations", 1, 1}, {"pads", 0, 2}};
    int64_t *lists[] = {stride, dilation, pads};
    for (int k = 0; k < 3; k++) {
        const onnx_attr *a = pl_onnx_attr(n, rows[k].name);
        bool given = a && a->kind == ONNX_INTS && a->count == (uint32_t)(dims * rows[k].times);
        for (int i = 0; i < dims * rows[k].times; i++)
            lists[k][i] = given ? a->ints[i] : rows[k].otherwise;
    }
    const char *automatic = pl_onnx_string(n, "auto_pad", "NOTSET");
    if (strncmp(automatic, "SAME", 4) != 0) return;
    for (int i = 0; i < dims && stride[i] > 0; i++) {
        int64_t out = (in[i] + stride[i] - 1) / stride[i], total;
        if (__builtin_mul_overflow(out - 1, stride[i], &total)) total = 0;
        total += (kernel[i] - 1) * dilation[i] + 1 - in[i];
        if (total < 0) total = 0;
        bool lower = strcmp(automatic, "SAME_LOWER") == 0;
        pads[i] = (total + (lower ? 1 : 0)) / 2;
        pads[i + dims] = total - pads[i];
    }
}

/* A window over the spatial dimensions; -1 out of range. */
static int64_t windowed(int64_t in, int64_t kernel, int64_t stride, int64_t begin, int64_t end,
                        int64_t dilation, bool ceil) {
    int64_t span, room;
    if (stride <= 0 || dilation <= 0 || kernel <= 0 || in < 0 || begin < 0 || end < 0 ||
        !pl_mul_i64(kernel - 1, dilation, &span) || !pl_add_i64(in, begin, &room) ||
        !pl_add_i64(room, end, &room) || span >= room)
        return -1;
    room -= span + 1;
    int64_t out = room / stride + 1;
    /* the last window must start inside the input or its left padding */
    if (ceil && room % stride && out * stride < in + begin) out++;
    return out;
}

void pl_onnx_infer_convolution(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *w = onnx_in(c, n, 1);
    if (!onnx_known(x) || !onnx_known(w) || x->dims < 3 || x->dims > 2 + ONNX_SPATIAL ||
        w->dims != x->dims)
        return;
    int dims = x->dims - 2;
    int64_t stride[ONNX_SPATIAL], dilation[ONNX_SPATIAL], pads[ONNX_SPATIAL * 2],
        sizes[2 + ONNX_SPATIAL];
    pl_onnx_window(n, dims, x->sizes + 2, w->sizes + 2, stride, pads, dilation);
    sizes[0] = x->sizes[0];
    sizes[1] = w->sizes[0];
    for (int i = 0; i < dims; i++) {
        sizes[i + 2] = windowed(x->sizes[i + 2], w->sizes[i + 2], stride[i], pads[i],
                                pads[i + dims], dilation[i], false);
        if (sizes[i + 2] < 0) return;
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

void pl_onnx_infer_convolution_transposed(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *w = onnx_in(c, n, 1);
    if (!onnx_known(x) || !onnx_known(w) || x->dims < 3 || x->dims > 2 + ONNX_SPATIAL ||
        w->dims != x->dims)
        return;
    int dims = x->dims - 2;
    int64_t stride[ONNX_SPATIAL], dilation[ONNX_SPATIAL], pads[ONNX_SPATIAL * 2],
        sizes[2 + ONNX_SPATIAL];
    pl_onnx_window(n, dims, x->sizes + 2, w->sizes + 2, stride, pads, dilation);
    const onnx_attr *more = onnx_ints(n, "output_padding"), *given = onnx_ints(n, "output_shape");
    sizes[0] = x->sizes[0];
    if (!pl_mul_i64(w->sizes[1], pl_onnx_int(n, "group", 1), &sizes[1])) return;
    for (int i = 0; i < dims; i++) {
        int64_t extra = more && more->count == (uint32_t)dims ? more->ints[i] : 0, sum, span;
        if (!pl_mul_i64(x->sizes[i + 2] - 1, stride[i], &sum) ||
            !pl_mul_i64(w->sizes[i + 2] - 1, dilation[i], &span) || !pl_add_i64(sum, span, &sum))
            return;
        sum += 1 + extra - pads[i] - pads[i + dims];
        sizes[i + 2] = given && given->count == (uint32_t)dims ? given->ints[i] : sum;
        if (sizes[i + 2] < 0) return;
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

void pl_onnx_infer_pool(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    const onnx_attr *kernel = onnx_ints(n, "kernel_shape");
    if (!onnx_known(x) || x->dims < 3 || x->dims > 2 + ONNX_SPATIAL || !kernel ||
        kernel->count != (uint32_t)(x->dims - 2))
        return;
    int dims = x->dims - 2;
    int64_t stride[ONNX_SPATIAL], dilation[ONNX_SPATIAL], pads[ONNX_SPATIAL * 2],
        sizes[2 + ONNX_SPATIAL];
    pl_onnx_window(n, dims, x->sizes + 2, kernel->ints, stride, pads, dilation);
    memcpy(sizes, x->sizes, 2 * sizeof *sizes);
    for (int i = 0; i < dims; i++) {
        sizes[i + 2] = windowed(x->sizes[i + 2], kernel->ints[i], stride[i], pads[i],
                                pads[i + dims], dilation[i], pl_onnx_int(n, "ceil_mode", 0) != 0);
        if (sizes[i + 2] < 0) return;
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
    pl_onnx_set(onnx_out(c, n, 1), PL_DT_I64, x->dims, sizes);
}

void pl_onnx_infer_global_pool(onnx_build *c, const onnx_node *n) {
    pl_onnx_infer_same(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    for (int i = 2; onnx_known(out) && i < out->dims; i++) out->sizes[i] = 1;
}

/* x [seq, batch, in], w [directions, gates * hidden, in]; Y [seq, directions, batch, hidden]. */
void pl_onnx_infer_recurrent(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *r = onnx_in(c, n, 2);
    if (!onnx_known(x) || !onnx_known(r) || x->dims != 3 || r->dims != 3) return;
    bool batch_first = pl_onnx_int(n, "layout", 0) != 0;
    int64_t seq = x->sizes[batch_first], batch = x->sizes[!batch_first], ways = r->sizes[0],
            hidden = r->sizes[2];
    int64_t whole[4] = {seq, ways, batch, hidden}, turned[4] = {batch, seq, ways, hidden},
            last[3] = {ways, batch, hidden}, last_turned[3] = {batch, ways, hidden};
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, 4, batch_first ? turned : whole);
    pl_onnx_set(onnx_out(c, n, 1), x->dtype, 3, batch_first ? last_turned : last);
    pl_onnx_set(onnx_out(c, n, 2), x->dtype, 3, batch_first ? last_turned : last);
}

/* Attention of opset 23: 4-d [batch, heads, seq, size], or 3-d with the heads in the last. */
void pl_onnx_infer_attention(onnx_build *c, const onnx_node *n) {
    const onnx_slot *q = onnx_in(c, n, 0), *v = onnx_in(c, n, 2);
    if (!onnx_known(q) || !onnx_known(v) || q->dims != v->dims || (q->dims != 4 && q->dims != 3))
        return;
    int64_t sizes[4];
    memcpy(sizes, q->sizes, (size_t)q->dims * sizeof *sizes);
    if (q->dims == 4) {
        sizes[3] = v->sizes[3];
    } else {
        int64_t heads = pl_onnx_int(n, "q_num_heads", 1), kv = pl_onnx_int(n, "kv_num_heads", 1);
        if (heads <= 0 || kv <= 0 || !pl_mul_i64(v->sizes[2] / kv, heads, &sizes[2])) return;
    }
    pl_onnx_set(onnx_out(c, n, 0), q->dtype, q->dims, sizes);
}

/* ---- reductions ---- */

void pl_onnx_infer_reduce(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    if (!onnx_known(x)) return;
    int64_t axes[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    int count = pl_onnx_list(c, n, "axes", 1, axes, PL_MAX_DIMS), dims = 0;
    bool keep = pl_onnx_int(n, "keepdims", 1) != 0, given = onnx_in(c, n, 1) != NULL;
    if (count < 0 && given) return;
    bool all = count <= 0 && !pl_onnx_int(n, "noop_with_empty_axes", 0);
    for (int i = 0; i < x->dims; i++) {
        bool reduced = all;
        for (int k = 0; k < count; k++) reduced |= onnx_axis(axes[k], x->dims) == i;
        if (!reduced || keep) sizes[dims++] = reduced ? 1 : x->sizes[i];
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

void pl_onnx_infer_arg_reduce(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int axis = onnx_known(x) ? onnx_axis(pl_onnx_int(n, "axis", 0), x->dims) : -1, dims = 0;
    int64_t sizes[PL_MAX_DIMS];
    if (axis < 0) return;
    for (int i = 0; i < x->dims; i++)
        if (i != axis || pl_onnx_int(n, "keepdims", 1)) sizes[dims++] = i == axis ? 1 : x->sizes[i];
    pl_onnx_set(onnx_out(c, n, 0), PL_DT_I64, dims, sizes);
}

void pl_onnx_infer_top_k(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t k, sizes[PL_MAX_DIMS];
    int axis = onnx_known(x) ? onnx_axis(pl_onnx_int(n, "axis", -1), x->dims) : -1;
    if (axis < 0 || pl_onnx_integers(onnx_in(c, n, 1), &k, 1) != 1 || k < 0) return;
    memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    sizes[axis] = k;
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
    pl_onnx_set(onnx_out(c, n, 1), PL_DT_I64, x->dims, sizes);
}

/* SoftmaxCrossEntropyLoss: the loss, and the logarithms of the probabilities. */
void pl_onnx_infer_loss(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *t = onnx_in(c, n, 1);
    if (!onnx_known(x) || !onnx_known(t)) return;
    bool none = strcmp(pl_onnx_string(n, "reduction", "mean"), "none") == 0;
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, none ? t->dims : 0, t->sizes);
    pl_onnx_set(onnx_out(c, n, 1), x->dtype, x->dims, x->sizes);
}
