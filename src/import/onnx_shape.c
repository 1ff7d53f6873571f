/* onnx_shape: types and sizes of an ONNX node's results.
 *
 * Rules: the operators' pages of ONNX 1.23 (onnx.ai/onnx/operators), opsets 9 to 23 where
 * torch.onnx writes them. A row an operator. What a rule cannot say is taken from the file's own
 * declaration where it has numbers, or names of dimensions that are known.
 *
 * Left out: If, Loop, Scan and what depends on data (NonZero, Unique, Compress). */
#include "import/onnx_build.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"

int64_t pl_onnx_elements(const onnx_slot *s) {
    int64_t total = 1;
    if (!s || s->dims < 0) return -1;
    for (int i = 0; i < s->dims; i++)
        if (s->sizes[i] < 0 || !pl_mul_i64(total, s->sizes[i], &total)) return -1;
    return total;
}

int64_t pl_onnx_integer(double number) {
    if (!(number > -9.2e18)) return INT64_MIN;
    return number < 9.2e18 ? (int64_t)number : INT64_MAX;
}

int pl_onnx_integers(const onnx_slot *s, int64_t *out, int most) {
    int64_t count = pl_onnx_elements(s);
    if (!s || !s->numbers || count < 0 || count > most) return -1;
    for (int64_t i = 0; i < count; i++) out[i] = pl_onnx_integer(s->numbers[i]);
    return (int)count;
}

int pl_onnx_list(const onnx_build *c, const onnx_node *n, const char *attr, uint32_t input,
                 int64_t *out, int most) {
    const onnx_attr *a = pl_onnx_attr(n, attr);
    if (a && a->kind == ONNX_INTS && a->count <= (uint32_t)most) {
        if (a->count) memcpy(out, a->ints, a->count * sizeof *out);
        return (int)a->count;
    }
    if (a && a->kind == ONNX_INT && most > 0) {
        out[0] = a->i;
        return 1;
    }
    return pl_onnx_integers(onnx_in(c, n, input), out, most);
}

/* ---- helpers ---- */

static void set(onnx_slot *s, pl_dtype dtype, int dims, const int64_t *sizes) {
    if (!s || dims < 0 || dims > PL_MAX_DIMS) return;
    s->dtype = dtype;
    s->dims = dims;
    if (dims) memcpy(s->sizes, sizes, (size_t)dims * sizeof *sizes);
}

static bool known(const onnx_slot *s) {
    return s && s->dims >= 0;
}

/* A dimension from the start; -1: out of range. */
static int axis_of(int64_t axis, int dims) {
    if (axis < 0) axis += dims;
    return axis >= 0 && axis < dims ? (int)axis : -1;
}

static bool broadcast(const onnx_slot *a, const onnx_slot *b, onnx_slot *out) {
    if (!known(a) || !known(b)) return false;
    int dims = a->dims > b->dims ? a->dims : b->dims;
    int64_t sizes[PL_MAX_DIMS];
    for (int i = 0; i < dims; i++) {
        int64_t x = i + a->dims >= dims ? a->sizes[i + a->dims - dims] : 1;
        int64_t y = i + b->dims >= dims ? b->sizes[i + b->dims - dims] : 1;
        if (x != y && x != 1 && y != 1) return false;
        sizes[i] = x == 1 ? y : x;
    }
    set(out, a->dtype, dims, sizes);
    return true;
}

/* TensorProto.DataType of a `to` attribute. */
static pl_dtype dtype_at(int64_t number, pl_dtype otherwise) {
    static const struct {
        int64_t number;
        pl_dtype dtype;
    } rows[] = {{1, PL_DT_F32},  {2, PL_DT_U8},   {3, PL_DT_I8},   {4, PL_DT_U16},  {5, PL_DT_I16},
                {6, PL_DT_I32},  {7, PL_DT_I64},  {9, PL_DT_BOOL}, {10, PL_DT_F16}, {11, PL_DT_F64},
                {12, PL_DT_I32}, {13, PL_DT_I64}, {16, PL_DT_BF16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].number == number) return rows[i].dtype;
    return otherwise;
}

typedef void rule(onnx_build *c, const onnx_node *n);

/* ---- alike ---- */

static void same(onnx_build *c, const onnx_node *n) {
    const onnx_slot *in = onnx_in(c, n, 0);
    if (known(in)) set(onnx_out(c, n, 0), in->dtype, in->dims, in->sizes);
}

static void same_bool(onnx_build *c, const onnx_node *n) {
    const onnx_slot *in = onnx_in(c, n, 0);
    if (known(in)) set(onnx_out(c, n, 0), PL_DT_BOOL, in->dims, in->sizes);
}

static void pointwise(onnx_build *c, const onnx_node *n) {
    onnx_slot *out = onnx_out(c, n, 0);
    if (!out || !known(onnx_in(c, n, 0))) return;
    onnx_slot sum = *onnx_in(c, n, 0);
    for (uint32_t i = 1; i < n->input_count; i++)
        if (!broadcast(&sum, onnx_in(c, n, i), &sum)) return;
    set(out, sum.dtype, sum.dims, sum.sizes);
}

static void comparison(onnx_build *c, const onnx_node *n) {
    pointwise(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    if (known(out)) out->dtype = PL_DT_BOOL;
}

static void where(onnx_build *c, const onnx_node *n) {
    pointwise(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    if (known(out) && known(onnx_in(c, n, 1))) out->dtype = onnx_in(c, n, 1)->dtype;
}

static void dropout(onnx_build *c, const onnx_node *n) {
    same(c, n);
    const onnx_slot *in = onnx_in(c, n, 0);
    if (known(in)) set(onnx_out(c, n, 1), PL_DT_BOOL, in->dims, in->sizes);
}

/* BatchNormalization: the running statistics behind the result. */
static void batch_norm(onnx_build *c, const onnx_node *n) {
    same(c, n);
    const onnx_slot *mean = onnx_in(c, n, 3);
    for (uint32_t i = 1; i < n->output_count; i++)
        if (known(mean)) set(onnx_out(c, n, i), mean->dtype, mean->dims, mean->sizes);
}

/* LayerNormalization: mean and inverse deviation behind the result. */
static void layer_norm(onnx_build *c, const onnx_node *n) {
    same(c, n);
    const onnx_slot *in = onnx_in(c, n, 0);
    if (!known(in)) return;
    int64_t sizes[PL_MAX_DIMS] = {0};
    int axis = axis_of(pl_onnx_int(n, "axis", -1), in->dims);
    for (int i = 0; i < in->dims; i++) sizes[i] = axis >= 0 && i >= axis ? 1 : in->sizes[i];
    for (uint32_t i = 1; i < n->output_count; i++)
        set(onnx_out(c, n, i), PL_DT_F32, in->dims, sizes);
}

static void cast(onnx_build *c, const onnx_node *n) {
    same(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    const onnx_slot *like = strcmp(n->op, "CastLike") == 0 ? onnx_in(c, n, 1) : NULL;
    if (known(out)) out->dtype = like ? like->dtype : dtype_at(pl_onnx_int(n, "to", 0), out->dtype);
}

/* ---- products ---- */

static void matmul(onnx_build *c, const onnx_node *n) {
    const onnx_slot *a = onnx_in(c, n, 0), *b = onnx_in(c, n, 1);
    if (!known(a) || !known(b) || a->dims == 0 || b->dims == 0) return;
    onnx_slot x = {.dims = a->dims > 2 ? a->dims - 2 : 0},
              y = {.dims = b->dims > 2 ? b->dims - 2 : 0}, all = {0};
    memcpy(x.sizes, a->sizes, (size_t)x.dims * sizeof *x.sizes);
    memcpy(y.sizes, b->sizes, (size_t)y.dims * sizeof *y.sizes);
    if (!broadcast(&x, &y, &all)) return;
    int64_t inner = a->sizes[a->dims - 1], other = b->sizes[b->dims > 1 ? b->dims - 2 : 0];
    if (inner != other) return;
    if (a->dims > 1) all.sizes[all.dims++] = a->sizes[a->dims - 2];
    if (b->dims > 1) all.sizes[all.dims++] = b->sizes[b->dims - 1];
    set(onnx_out(c, n, 0), a->dtype, all.dims, all.sizes);
}

static void gemm(onnx_build *c, const onnx_node *n) {
    const onnx_slot *a = onnx_in(c, n, 0), *b = onnx_in(c, n, 1);
    if (!known(a) || !known(b) || a->dims != 2 || b->dims != 2) return;
    int64_t sizes[2] = {a->sizes[pl_onnx_int(n, "transA", 0) ? 1 : 0],
                        b->sizes[pl_onnx_int(n, "transB", 0) ? 0 : 1]};
    set(onnx_out(c, n, 0), a->dtype, 2, sizes);
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

enum { SPATIAL = 3 };

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

static void convolution(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *w = onnx_in(c, n, 1);
    if (!known(x) || !known(w) || x->dims < 3 || x->dims > 2 + SPATIAL || w->dims != x->dims)
        return;
    int dims = x->dims - 2;
    int64_t stride[SPATIAL], dilation[SPATIAL], pads[SPATIAL * 2], sizes[2 + SPATIAL];
    pl_onnx_window(n, dims, x->sizes + 2, w->sizes + 2, stride, pads, dilation);
    sizes[0] = x->sizes[0];
    sizes[1] = w->sizes[0];
    for (int i = 0; i < dims; i++) {
        sizes[i + 2] = windowed(x->sizes[i + 2], w->sizes[i + 2], stride[i], pads[i],
                                pads[i + dims], dilation[i], false);
        if (sizes[i + 2] < 0) return;
    }
    set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

static void convolution_transposed(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *w = onnx_in(c, n, 1);
    if (!known(x) || !known(w) || x->dims < 3 || x->dims > 2 + SPATIAL || w->dims != x->dims)
        return;
    int dims = x->dims - 2;
    int64_t stride[SPATIAL], dilation[SPATIAL], pads[SPATIAL * 2], sizes[2 + SPATIAL];
    pl_onnx_window(n, dims, x->sizes + 2, w->sizes + 2, stride, pads, dilation);
    const onnx_attr *more = pl_onnx_attr(n, "output_padding"),
                    *given = pl_onnx_attr(n, "output_shape");
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
    set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

static void pool(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    const onnx_attr *kernel = pl_onnx_attr(n, "kernel_shape");
    if (!known(x) || x->dims < 3 || x->dims > 2 + SPATIAL || !kernel ||
        kernel->count != (uint32_t)(x->dims - 2))
        return;
    int dims = x->dims - 2;
    int64_t stride[SPATIAL], dilation[SPATIAL], pads[SPATIAL * 2], sizes[2 + SPATIAL];
    pl_onnx_window(n, dims, x->sizes + 2, kernel->ints, stride, pads, dilation);
    memcpy(sizes, x->sizes, 2 * sizeof *sizes);
    for (int i = 0; i < dims; i++) {
        sizes[i + 2] = windowed(x->sizes[i + 2], kernel->ints[i], stride[i], pads[i],
                                pads[i + dims], dilation[i], pl_onnx_int(n, "ceil_mode", 0) != 0);
        if (sizes[i + 2] < 0) return;
    }
    set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
    set(onnx_out(c, n, 1), PL_DT_I64, x->dims, sizes);
}

static void global_pool(onnx_build *c, const onnx_node *n) {
    same(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    for (int i = 2; known(out) && i < out->dims; i++) out->sizes[i] = 1;
}

/* x [seq, batch, in], w [directions, gates * hidden, in]; Y [seq, directions, batch, hidden]. */
static void recurrent(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *r = onnx_in(c, n, 2);
    if (!known(x) || !known(r) || x->dims != 3 || r->dims != 3) return;
    bool batch_first = pl_onnx_int(n, "layout", 0) != 0;
    int64_t seq = x->sizes[batch_first], batch = x->sizes[!batch_first], ways = r->sizes[0],
            hidden = r->sizes[2];
    int64_t whole[4] = {seq, ways, batch, hidden}, turned[4] = {batch, seq, ways, hidden},
            last[3] = {ways, batch, hidden}, last_turned[3] = {batch, ways, hidden};
    set(onnx_out(c, n, 0), x->dtype, 4, batch_first ? turned : whole);
    set(onnx_out(c, n, 1), x->dtype, 3, batch_first ? last_turned : last);
    set(onnx_out(c, n, 2), x->dtype, 3, batch_first ? last_turned : last);
}

/* Attention of opset 23: 4-d [batch, heads, seq, size], or 3-d with the heads in the last. */
static void attention(onnx_build *c, const onnx_node *n) {
    const onnx_slot *q = onnx_in(c, n, 0), *v = onnx_in(c, n, 2);
    if (!known(q) || !known(v) || q->dims != v->dims || (q->dims != 4 && q->dims != 3)) return;
    int64_t sizes[4];
    memcpy(sizes, q->sizes, (size_t)q->dims * sizeof *sizes);
    if (q->dims == 4) {
        sizes[3] = v->sizes[3];
    } else {
        int64_t heads = pl_onnx_int(n, "q_num_heads", 1), kv = pl_onnx_int(n, "kv_num_heads", 1);
        if (heads <= 0 || kv <= 0 || !pl_mul_i64(v->sizes[2] / kv, heads, &sizes[2])) return;
    }
    set(onnx_out(c, n, 0), q->dtype, q->dims, sizes);
}

/* ---- reductions ---- */

static void reduce(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    if (!known(x)) return;
    int64_t axes[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    int count = pl_onnx_list(c, n, "axes", 1, axes, PL_MAX_DIMS), dims = 0;
    bool keep = pl_onnx_int(n, "keepdims", 1) != 0, given = onnx_in(c, n, 1) != NULL;
    if (count < 0 && given) return;
    bool all = count <= 0 && !pl_onnx_int(n, "noop_with_empty_axes", 0);
    for (int i = 0; i < x->dims; i++) {
        bool reduced = all;
        for (int k = 0; k < count; k++) reduced |= axis_of(axes[k], x->dims) == i;
        if (!reduced || keep) sizes[dims++] = reduced ? 1 : x->sizes[i];
    }
    set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

static void arg_reduce(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int axis = known(x) ? axis_of(pl_onnx_int(n, "axis", 0), x->dims) : -1, dims = 0;
    int64_t sizes[PL_MAX_DIMS];
    if (axis < 0) return;
    for (int i = 0; i < x->dims; i++)
        if (i != axis || pl_onnx_int(n, "keepdims", 1)) sizes[dims++] = i == axis ? 1 : x->sizes[i];
    set(onnx_out(c, n, 0), PL_DT_I64, dims, sizes);
}

static void top_k(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t k, sizes[PL_MAX_DIMS];
    int axis = known(x) ? axis_of(pl_onnx_int(n, "axis", -1), x->dims) : -1;
    if (axis < 0 || pl_onnx_integers(onnx_in(c, n, 1), &k, 1) != 1 || k < 0) return;
    memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    sizes[axis] = k;
    set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
    set(onnx_out(c, n, 1), PL_DT_I64, x->dims, sizes);
}

/* SoftmaxCrossEntropyLoss: the loss, and the logarithms of the probabilities. */
static void loss(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *t = onnx_in(c, n, 1);
    if (!known(x) || !known(t)) return;
    bool none = strcmp(pl_onnx_string(n, "reduction", "mean"), "none") == 0;
    set(onnx_out(c, n, 0), x->dtype, none ? t->dims : 0, t->sizes);
    set(onnx_out(c, n, 1), x->dtype, x->dims, x->sizes);
}

/* ---- shapes ---- */

static void reshape(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t sizes[PL_MAX_DIMS], rest = 1;
    int dims = pl_onnx_list(c, n, "shape", 1, sizes, PL_MAX_DIMS), open = -1;
    int64_t total = pl_onnx_elements(x);
    if (dims < 0 || total < 0) return;
    for (int i = 0; i < dims; i++) {
        if (sizes[i] == 0 && !pl_onnx_int(n, "allowzero", 0) && i < x->dims) sizes[i] = x->sizes[i];
        if (sizes[i] == -1 && open < 0)
            open = i;
        else if (sizes[i] < 0 || !pl_mul_i64(rest, sizes[i], &rest))
            return;
    }
    if (open >= 0) {
        if (rest == 0 || total % rest) return;
        sizes[open] = total / rest;
        rest = total;
    }
    if (rest != total) return;
    set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

static void flatten(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t axis = pl_onnx_int(n, "axis", 1), sizes[2] = {1, 1};
    if (pl_onnx_elements(x) < 0) return;
    if (axis < 0) axis += x->dims;
    for (int i = 0; i < x->dims; i++) sizes[i >= axis] *= x->sizes[i];
    set(onnx_out(c, n, 0), x->dtype, 2, sizes);
}

static void transpose(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    const onnx_attr *perm = pl_onnx_attr(n, "perm");
    int64_t sizes[PL_MAX_DIMS];
    if (!known(x) || (perm && perm->count != (uint32_t)x->dims)) return;
    for (int i = 0; i < x->dims; i++) {
        int64_t from = perm ? perm->ints[i] : x->dims - 1 - i;
        if (from < 0 || from >= x->dims) return;
        sizes[i] = x->sizes[from];
    }
    set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

static void squeeze(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t axes[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    if (!known(x)) return;
    int count = pl_onnx_list(c, n, "axes", 1, axes, PL_MAX_DIMS), dims = 0;
    if (count < 0 && onnx_in(c, n, 1)) return;
    for (int i = 0; i < x->dims; i++) {
        bool named = count < 0 && x->sizes[i] == 1;
        for (int k = 0; k < count; k++) named |= axis_of(axes[k], x->dims) == i;
        if (!named || x->sizes[i] != 1) sizes[dims++] = x->sizes[i];
    }
    set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

static void unsqueeze(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t axes[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    int count = pl_onnx_list(c, n, "axes", 1, axes, PL_MAX_DIMS), from = 0;
    if (!known(x) || count < 0 || x->dims + count > PL_MAX_DIMS) return;
    int dims = x->dims + count;
    for (int i = 0; i < dims; i++) {
        bool made = false;
        for (int k = 0; k < count; k++) made |= axis_of(axes[k], dims) == i;
        if (!made && from >= x->dims) return;
        sizes[i] = made ? 1 : x->sizes[from++];
    }
    set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

static void concat(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int axis = known(x) ? axis_of(pl_onnx_int(n, "axis", 0), x->dims) : -1;
    int64_t sizes[PL_MAX_DIMS];
    if (axis < 0) return;
    memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    for (uint32_t i = 1; i < n->input_count; i++) {
        const onnx_slot *y = onnx_in(c, n, i);
        if (!known(y) || y->dims != x->dims ||
            !pl_add_i64(sizes[axis], y->sizes[axis], &sizes[axis]))
            return;
    }
    set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

static void split(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int axis = known(x) ? axis_of(pl_onnx_int(n, "axis", 0), x->dims) : -1;
    if (axis < 0 || n->output_count == 0) return;
    int64_t parts[256], sizes[PL_MAX_DIMS], left = x->sizes[axis];
    int count = pl_onnx_list(c, n, "split", 1, parts, 256);
    if (count < 0 && onnx_in(c, n, 1)) return;
    int64_t each = pl_div_up(left, n->output_count);
    memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    for (uint32_t i = 0; i < n->output_count; i++) {
        sizes[axis] = count > (int)i ? parts[i] : left < each ? left : each;
        if (sizes[axis] < 0 || sizes[axis] > left) return;
        left -= sizes[axis];
        set(onnx_out(c, n, i), x->dtype, x->dims, sizes);
    }
}

/* A sequence: what torch.split becomes where nobody simplified the file. */
static void split_to_sequence(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    onnx_slot *out = onnx_out(c, n, 0);
    int axis = known(x) ? axis_of(pl_onnx_int(n, "axis", 0), x->dims) : -1;
    int64_t parts[256];
    const onnx_slot *sizes = onnx_in(c, n, 1);
    int count = pl_onnx_integers(sizes, parts, 256);
    if (axis < 0 || !out || (sizes && count < 1)) return;
    bool keep = sizes || pl_onnx_int(n, "keepdims", 1), even = !sizes || sizes->dims == 0;
    int64_t left = x->sizes[axis], each = sizes ? parts[0] : 1;
    if (even && each <= 0) return;
    int64_t total = even ? pl_div_up(left, each) : count;
    if (total > 256) return;
    onnx_slot *list = pl_arena_array(c->scratch, (size_t)total + 1, sizeof *list);
    if (!list) {
        c->no_memory = true;
        return;
    }
    for (int64_t i = 0; i < total; i++) {
        onnx_slot *s = &list[i];
        *s = *x;
        s->numbers = NULL;
        s->tensor = PL_NONE;
        s->sizes[axis] = even ? (left < each ? left : each) : parts[i];
        left -= s->sizes[axis];
        if (left < 0 || s->sizes[axis] < 0) return;
        if (keep) continue;
        s->dims--;
        memmove(s->sizes + axis, s->sizes + axis + 1, (size_t)(s->dims - axis) * sizeof *s->sizes);
    }
    out->list = list;
    out->list_count = (int)total;
    out->list_tensor = PL_NONE;
}

static void sequence_at(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t at;
    if (!x || !x->list || pl_onnx_integers(onnx_in(c, n, 1), &at, 1) != 1) return;
    if (at < 0) at += x->list_count;
    if (at < 0 || at >= x->list_count) return;
    set(onnx_out(c, n, 0), x->list[at].dtype, x->list[at].dims, x->list[at].sizes);
}

bool pl_onnx_slice(const onnx_build *c, const onnx_node *n, int64_t *start, int64_t *count,
                   int64_t *step) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t starts[PL_MAX_DIMS], ends[PL_MAX_DIMS], axes[PL_MAX_DIMS], steps[PL_MAX_DIMS];
    int named = pl_onnx_list(c, n, "starts", 1, starts, PL_MAX_DIMS);
    int axis_count = pl_onnx_list(c, n, "axes", 3, axes, PL_MAX_DIMS),
        step_count = pl_onnx_list(c, n, "steps", 4, steps, PL_MAX_DIMS);
    if (!known(x) || named < 0 || pl_onnx_list(c, n, "ends", 2, ends, PL_MAX_DIMS) != named)
        return false;
    if ((onnx_in(c, n, 3) && axis_count != named) || (onnx_in(c, n, 4) && step_count != named))
        return false;
    for (int i = 0; i < x->dims; i++) {
        start[i] = 0;
        step[i] = 1;
        count[i] = x->sizes[i];
    }
    for (int k = 0; k < named; k++) {
        int axis = axis_of(axis_count > k ? axes[k] : k, x->dims);
        if (axis < 0) return false;
        int64_t size = x->sizes[axis], by = step_count > k ? steps[k] : 1, from = starts[k],
                to = ends[k];
        if (by == 0 || by == INT64_MIN) return false;
        if (from < 0) from = from < -size ? (by < 0 ? -1 : 0) : from + size;
        if (to < 0) to = to < -size ? (by < 0 ? -1 : 0) : to + size;
        if (from > size) from = by < 0 ? size - 1 : size;
        if (by < 0 && from == size) from = size - 1;
        if (to > size) to = size;
        start[axis] = from;
        step[axis] = by;
        count[axis] = by > 0 ? (to > from ? (to - from - 1) / by + 1 : 0)
                             : (from > to ? (from - to - 1) / -by + 1 : 0);
    }
    return true;
}

static void slice(onnx_build *c, const onnx_node *n) {
    int64_t start[PL_MAX_DIMS], count[PL_MAX_DIMS], step[PL_MAX_DIMS];
    const onnx_slot *x = onnx_in(c, n, 0);
    if (pl_onnx_slice(c, n, start, count, step)) set(onnx_out(c, n, 0), x->dtype, x->dims, count);
}

static void gather(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *at = onnx_in(c, n, 1);
    int axis = known(x) ? axis_of(pl_onnx_int(n, "axis", 0), x->dims) : -1, dims = 0;
    int64_t sizes[PL_MAX_DIMS];
    if (axis < 0 || !known(at) || x->dims - 1 + at->dims > PL_MAX_DIMS) return;
    for (int i = 0; i < axis; i++) sizes[dims++] = x->sizes[i];
    for (int i = 0; i < at->dims; i++) sizes[dims++] = at->sizes[i];
    for (int i = axis + 1; i < x->dims; i++) sizes[dims++] = x->sizes[i];
    set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

static void gather_elements(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *at = onnx_in(c, n, 1);
    if (known(x) && known(at)) set(onnx_out(c, n, 0), x->dtype, at->dims, at->sizes);
}

static void gather_nd(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *at = onnx_in(c, n, 1);
    int64_t batch = pl_onnx_int(n, "batch_dims", 0), sizes[PL_MAX_DIMS];
    if (!known(x) || !known(at) || at->dims < 1 || batch < 0) return;
    int64_t last = at->sizes[at->dims - 1];
    int dims = at->dims - 1;
    if (last < 1 || batch + last > x->dims || dims + x->dims - batch - last > PL_MAX_DIMS) return;
    memcpy(sizes, at->sizes, (size_t)dims * sizeof *sizes);
    for (int64_t i = batch + last; i < x->dims; i++) sizes[dims++] = x->sizes[i];
    set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

static void expand(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    onnx_slot to = {0};
    int dims = pl_onnx_integers(onnx_in(c, n, 1), to.sizes, PL_MAX_DIMS);
    onnx_slot *out = onnx_out(c, n, 0);
    if (!known(x) || dims < 0 || !out) return;
    to.dims = dims;
    for (int i = 0; i < dims; i++)
        if (to.sizes[i] < 0) return;
    onnx_slot sum = {0};
    if (broadcast(x, &to, &sum)) set(out, x->dtype, sum.dims, sum.sizes);
}

static void tile(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t times[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    if (!known(x) || pl_onnx_integers(onnx_in(c, n, 1), times, PL_MAX_DIMS) != x->dims) return;
    for (int i = 0; i < x->dims; i++)
        if (times[i] < 0 || !pl_mul_i64(x->sizes[i], times[i], &sizes[i])) return;
    set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

static void shape(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    if (!known(x)) return;
    int64_t from = pl_onnx_int(n, "start", 0), to = pl_onnx_int(n, "end", x->dims);
    if (from < 0) from += x->dims;
    if (to < 0) to += x->dims;
    from = from < 0 ? 0 : from > x->dims ? x->dims : from;
    to = to < 0 ? 0 : to > x->dims ? x->dims : to;
    int64_t count = to > from ? to - from : 0;
    set(onnx_out(c, n, 0), PL_DT_I64, 1, &count);
}

static void size(onnx_build *c, const onnx_node *n) {
    set(onnx_out(c, n, 0), PL_DT_I64, 0, NULL);
}

static void constant(onnx_build *c, const onnx_node *n) {
    onnx_slot *out = onnx_out(c, n, 0);
    for (uint32_t i = 0; i < n->attr_count; i++) {
        const onnx_attr *a = &n->attrs[i];
        int64_t count = a->count;
        switch (a->kind) {
        case ONNX_TENSOR: set(out, a->tensor->dtype, a->tensor->dims, a->tensor->sizes); break;
        case ONNX_INT: set(out, PL_DT_I64, 0, NULL); break;
        case ONNX_FLOAT: set(out, PL_DT_F32, 0, NULL); break;
        case ONNX_INTS: set(out, PL_DT_I64, 1, &count); break;
        case ONNX_FLOATS: set(out, PL_DT_F32, 1, &count); break;
        default: break;
        }
    }
}

static void constant_of_shape(onnx_build *c, const onnx_node *n) {
    int64_t sizes[PL_MAX_DIMS];
    int dims = pl_onnx_integers(onnx_in(c, n, 0), sizes, PL_MAX_DIMS);
    const onnx_attr *value = pl_onnx_attr(n, "value");
    for (int i = 0; i < dims; i++)
        if (sizes[i] < 0) return;
    set(onnx_out(c, n, 0), value && value->tensor ? value->tensor->dtype : PL_DT_F32, dims, sizes);
}

static void range(onnx_build *c, const onnx_node *n) {
    const onnx_slot *from = onnx_in(c, n, 0), *to = onnx_in(c, n, 1), *by = onnx_in(c, n, 2);
    if (!from || !to || !by || !from->numbers || !to->numbers || !by->numbers ||
        pl_onnx_elements(from) < 1 || pl_onnx_elements(to) < 1 || pl_onnx_elements(by) < 1 ||
        by->numbers[0] == 0)
        return;
    double steps = ceil((to->numbers[0] - from->numbers[0]) / by->numbers[0]);
    int64_t count = steps > 0 && steps < 1e15 ? (int64_t)steps : 0;
    set(onnx_out(c, n, 0), from->dtype, 1, &count);
}

static void pad(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t pads[PL_MAX_DIMS * 2], axes[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    int count = pl_onnx_list(c, n, "pads", 1, pads, PL_MAX_DIMS * 2),
        named = pl_onnx_integers(onnx_in(c, n, 3), axes, PL_MAX_DIMS);
    if (!known(x) || count < 0) return;
    if (named < 0)
        for (named = 0; named < x->dims; named++) axes[named] = named;
    if (count != named * 2) return;
    memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    for (int k = 0; k < named; k++) {
        int axis = axis_of(axes[k], x->dims);
        if (axis < 0 || !pl_add_i64(sizes[axis], pads[k], &sizes[axis]) ||
            !pl_add_i64(sizes[axis], pads[k + named], &sizes[axis]) || sizes[axis] < 0)
            return;
    }
    set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

static void resize(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    bool upsample = n->input_count <= 2; /* Upsample, and Resize before opset 11 */
    const onnx_slot *scales = onnx_in(c, n, upsample ? 1 : 2), *to = onnx_in(c, n, 3);
    int64_t sizes[PL_MAX_DIMS];
    if (!known(x)) return;
    if (to && pl_onnx_integers(to, sizes, PL_MAX_DIMS) == x->dims) {
        set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
        return;
    }
    if (!scales || !scales->numbers || pl_onnx_elements(scales) != x->dims) return;
    for (int i = 0; i < x->dims; i++) {
        double scaled = floor((double)x->sizes[i] * scales->numbers[i]);
        if (!(scaled >= 0 && scaled < 1e15)) return;
        sizes[i] = (int64_t)scaled;
    }
    set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

static void depth_to_space(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t by = pl_onnx_int(n, "blocksize", 1), area, sizes[4];
    if (!known(x) || x->dims != 4 || by <= 0 || by > 65536) return;
    area = by * by;
    bool out = strcmp(n->op, "DepthToSpace") == 0;
    sizes[0] = x->sizes[0];
    if (out ? !pl_mul_i64(x->sizes[2], by, &sizes[2]) || !pl_mul_i64(x->sizes[3], by, &sizes[3])
            : !pl_mul_i64(x->sizes[1], area, &sizes[1]))
        return;
    if (out) {
        sizes[1] = x->sizes[1] / area;
    } else {
        sizes[2] = x->sizes[2] / by;
        sizes[3] = x->sizes[3] / by;
    }
    set(onnx_out(c, n, 0), x->dtype, 4, sizes);
}

static void one_hot(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *values = onnx_in(c, n, 2);
    int64_t depth, sizes[PL_MAX_DIMS];
    if (!known(x) || x->dims >= PL_MAX_DIMS || pl_onnx_integers(onnx_in(c, n, 1), &depth, 1) != 1)
        return;
    int axis = axis_of(pl_onnx_int(n, "axis", -1), x->dims + 1), from = 0;
    if (axis < 0 || depth < 0) return;
    for (int i = 0; i <= x->dims; i++) sizes[i] = i == axis ? depth : x->sizes[from++];
    set(onnx_out(c, n, 0), values ? values->dtype : x->dtype, x->dims + 1, sizes);
}

/* "bij,bjk->bik": each letter's size from the operands; spaces do not count, "..." is left out. */
static void einsum(onnx_build *c, const onnx_node *n) {
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
        if ((unsigned char)*at >= 128 || *at == '.' || !known(x) || dim >= x->dims) return;
        size_of[(int)*at] = x->sizes[dim++];
    }
    if (at[0] != '-' || at[1] != '>') return;
    dim = 0;
    for (at += 2; *at; at++) {
        if (*at == ' ') continue;
        if ((unsigned char)*at >= 128 || dim >= PL_MAX_DIMS || size_of[(int)*at] < 0) return;
        sizes[dim++] = size_of[(int)*at];
    }
    set(onnx_out(c, n, 0), onnx_in(c, n, 0)->dtype, dim, sizes);
}

/* Random numbers of a shape that the node has. */
static void random_shape(onnx_build *c, const onnx_node *n) {
    const onnx_attr *a = pl_onnx_attr(n, "shape");
    if (a && a->kind == ONNX_INTS)
        set(onnx_out(c, n, 0), dtype_at(pl_onnx_int(n, "dtype", 1), PL_DT_F32), (int)a->count,
            a->ints);
}

static void random_like(onnx_build *c, const onnx_node *n) {
    same(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    if (known(out)) out->dtype = dtype_at(pl_onnx_int(n, "dtype", 0), out->dtype);
}

/* ---- the table ---- */

/* Sorted by name: strcmp. */
static const struct {
    const char *op;
    rule *infer;
} rules[] = {
    {"Abs", same},
    {"Acos", same},
    {"Add", pointwise},
    {"And", comparison},
    {"ArgMax", arg_reduce},
    {"ArgMin", arg_reduce},
    {"Asin", same},
    {"Atan", same},
    {"Attention", attention},
    {"AveragePool", pool},
    {"BatchNormalization", batch_norm},
    {"Bernoulli", random_like},
    {"BitwiseAnd", pointwise},
    {"BitwiseNot", same},
    {"BitwiseOr", pointwise},
    {"BitwiseXor", pointwise},
    {"Cast", cast},
    {"CastLike", cast},
    {"Ceil", same},
    {"Celu", same},
    {"Clip", same},
    {"Concat", concat},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Conv", convolution},
    {"ConvTranspose", convolution_transposed},
    {"Cos", same},
    {"CumSum", same},
    {"DepthToSpace", depth_to_space},
    {"Div", pointwise},
    {"Dropout", dropout},
    {"Einsum", einsum},
    {"Elu", same},
    {"Equal", comparison},
    {"Erf", same},
    {"Exp", same},
    {"Expand", expand},
    {"Flatten", flatten},
    {"Floor", same},
    {"GRU", recurrent},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"Gelu", same},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_pool},
    {"GlobalMaxPool", global_pool},
    {"Greater", comparison},
    {"GreaterOrEqual", comparison},
    {"GroupNormalization", same},
    {"HardSigmoid", same},
    {"HardSwish", same},
    {"Identity", same},
    {"InstanceNormalization", same},
    {"IsInf", same_bool},
    {"IsNaN", same_bool},
    {"LRN", same},
    {"LSTM", recurrent},
    {"LayerNormalization", layer_norm},
    {"LeakyRelu", same},
    {"Less", comparison},
    {"LessOrEqual", comparison},
    {"Log", same},
    {"LogSoftmax", same},
    {"LpNormalization", same},
    {"MatMul", matmul},
    {"Max", pointwise},
    {"MaxPool", pool},
    {"Mean", pointwise},
    {"Min", pointwise},
    {"Mish", same},
    {"Mod", pointwise},
    {"Mul", pointwise},
    {"Neg", same},
    {"NegativeLogLikelihoodLoss", loss},
    {"Not", same},
    {"OneHot", one_hot},
    {"Or", comparison},
    {"PRelu", same},
    {"Pad", pad},
    {"Pow", pointwise},
    {"RMSNormalization", same},
    {"RNN", recurrent},
    {"RandomNormal", random_shape},
    {"RandomNormalLike", random_like},
    {"RandomUniform", random_shape},
    {"RandomUniformLike", random_like},
    {"Range", range},
    {"Reciprocal", same},
    {"ReduceL1", reduce},
    {"ReduceL2", reduce},
    {"ReduceLogSumExp", reduce},
    {"ReduceMax", reduce},
    {"ReduceMean", reduce},
    {"ReduceMin", reduce},
    {"ReduceProd", reduce},
    {"ReduceSum", reduce},
    {"ReduceSumSquare", reduce},
    {"Relu", same},
    {"Reshape", reshape},
    {"Resize", resize},
    {"RotaryEmbedding", same},
    {"Round", same},
    {"ScatterElements", same},
    {"ScatterND", same},
    {"Selu", same},
    {"SequenceAt", sequence_at},
    {"Shape", shape},
    {"Sigmoid", same},
    {"Sign", same},
    {"Sin", same},
    {"Size", size},
    {"Slice", slice},
    {"Softmax", same},
    {"SoftmaxCrossEntropyLoss", loss},
    {"Softplus", same},
    {"Softsign", same},
    {"SpaceToDepth", depth_to_space},
    {"Split", split},
    {"SplitToSequence", split_to_sequence},
    {"Sqrt", same},
    {"Squeeze", squeeze},
    {"Sub", pointwise},
    {"Sum", pointwise},
    {"Swish", same},
    {"Tan", same},
    {"Tanh", same},
    {"ThresholdedRelu", same},
    {"Tile", tile},
    {"TopK", top_k},
    {"Transpose", transpose},
    {"Trilu", same},
    {"Unsqueeze", unsqueeze},
    {"Upsample", resize},
    {"Where", where},
    {"Xor", comparison},
};

static rule *rule_of(const char *op) {
    size_t low = 0, high = sizeof rules / sizeof *rules;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(op, rules[middle].op);
        if (order == 0) return rules[middle].infer;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Sizes as the file declares them. */
static void from_declaration(onnx_build *c, int32_t id) {
    const onnx_value *v = &c->g->values[id];
    onnx_slot *s = &c->slots[id];
    if (!v->declared) return;
    if (s->dtype == PL_DT_UNKNOWN) s->dtype = v->dtype;
    if (s->dims >= 0 || v->dims < 0 || s->list) return;
    int64_t sizes[PL_MAX_DIMS];
    for (int i = 0; i < v->dims; i++) {
        sizes[i] = v->dim[i].number >= 0  ? v->dim[i].number
                   : v->dim[i].param >= 0 ? c->params[v->dim[i].param]
                                          : -1;
        if (sizes[i] < 0) return;
    }
    set(s, v->dtype, v->dims, sizes);
}

void pl_onnx_infer(onnx_build *c, const onnx_node *n) {
    rule *infer = n->domain[0] && strcmp(n->domain, "ai.onnx") != 0 ? NULL : rule_of(n->op);
    if (infer) infer(c, n);
    for (uint32_t i = 0; i < n->output_count; i++)
        if (n->outputs[i] >= 0) from_declaration(c, n->outputs[i]);
}
