/* onnx_shape_view: sizes of what moves elements or makes them of nothing: reshapes, concatenations,
 * slices, indexing, padding, resizing, constants, random numbers.
 *
 * Rules: the operators' pages of ONNX 1.23 (onnx.ai/onnx/operators), opsets 9 to 23 where
 * torch.onnx writes them. Left out: sequences but for what SplitToSequence makes, and what depends
 * on data (NonZero, Unique, Compress). */
#include "import/onnx_shape.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"

void pl_onnx_infer_reshape(onnx_build *c, const onnx_node *n) {
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
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

void pl_onnx_infer_flatten(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t axis = pl_onnx_int(n, "axis", 1), sizes[2] = {1, 1};
    if (pl_onnx_elements(x) < 0) return;
    if (axis < 0) axis += x->dims;
    for (int i = 0; i < x->dims; i++) sizes[i >= axis] *= x->sizes[i];
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, 2, sizes);
}

void pl_onnx_infer_transpose(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    const onnx_attr *perm = onnx_ints(n, "perm");
    int64_t sizes[PL_MAX_DIMS];
    if (!onnx_known(x) || (perm && perm->count != (uint32_t)x->dims)) return;
    for (int i = 0; i < x->dims; i++) {
        int64_t from = perm ? perm->ints[i] : x->dims - 1 - i;
        if (from < 0 || from >= x->dims) return;
        sizes[i] = x->sizes[from];
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

void pl_onnx_infer_squeeze(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t axes[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    if (!onnx_known(x)) return;
    int count = pl_onnx_list(c, n, "axes", 1, axes, PL_MAX_DIMS), dims = 0;
    if (count < 0 && onnx_in(c, n, 1)) return;
    for (int i = 0; i < x->dims; i++) {
        bool named = count < 0 && x->sizes[i] == 1;
        for (int k = 0; k < count; k++) named |= onnx_axis(axes[k], x->dims) == i;
        if (!named || x->sizes[i] != 1) sizes[dims++] = x->sizes[i];
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

void pl_onnx_infer_unsqueeze(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t axes[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    int count = pl_onnx_list(c, n, "axes", 1, axes, PL_MAX_DIMS), from = 0;
    if (!onnx_known(x) || count < 0 || x->dims + count > PL_MAX_DIMS) return;
    int dims = x->dims + count;
    for (int i = 0; i < dims; i++) {
        bool made = false;
        for (int k = 0; k < count; k++) made |= onnx_axis(axes[k], dims) == i;
        if (!made && from >= x->dims) return;
        sizes[i] = made ? 1 : x->sizes[from++];
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

void pl_onnx_infer_concat(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int axis = onnx_known(x) ? onnx_axis(pl_onnx_int(n, "axis", 0), x->dims) : -1;
    int64_t sizes[PL_MAX_DIMS];
    if (axis < 0) return;
    memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    for (uint32_t i = 1; i < n->input_count; i++) {
        const onnx_slot *y = onnx_in(c, n, i);
        if (!onnx_known(y) || y->dims != x->dims ||
            !pl_add_i64(sizes[axis], y->sizes[axis], &sizes[axis]))
            return;
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

void pl_onnx_infer_split(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int axis = onnx_known(x) ? onnx_axis(pl_onnx_int(n, "axis", 0), x->dims) : -1;
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
        pl_onnx_set(onnx_out(c, n, i), x->dtype, x->dims, sizes);
    }
}

/* A sequence: what torch.split becomes where nobody simplified the file. */
void pl_onnx_infer_split_to_sequence(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    onnx_slot *out = onnx_out(c, n, 0);
    int axis = onnx_known(x) ? onnx_axis(pl_onnx_int(n, "axis", 0), x->dims) : -1;
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

void pl_onnx_infer_sequence_at(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t at;
    if (!x || !x->list || pl_onnx_integers(onnx_in(c, n, 1), &at, 1) != 1) return;
    if (at < 0) at += x->list_count;
    if (at < 0 || at >= x->list_count) return;
    pl_onnx_set(onnx_out(c, n, 0), x->list[at].dtype, x->list[at].dims, x->list[at].sizes);
}

bool pl_onnx_slice(const onnx_build *c, const onnx_node *n, int64_t *start, int64_t *count,
                   int64_t *step) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t starts[PL_MAX_DIMS], ends[PL_MAX_DIMS], axes[PL_MAX_DIMS], steps[PL_MAX_DIMS];
    int named = pl_onnx_list(c, n, "starts", 1, starts, PL_MAX_DIMS);
    int axis_count = pl_onnx_list(c, n, "axes", 3, axes, PL_MAX_DIMS),
        step_count = pl_onnx_list(c, n, "steps", 4, steps, PL_MAX_DIMS);
    if (!onnx_known(x) || named < 0 || pl_onnx_list(c, n, "ends", 2, ends, PL_MAX_DIMS) != named)
        return false;
    if ((onnx_in(c, n, 3) && axis_count != named) || (onnx_in(c, n, 4) && step_count != named))
        return false;
    for (int i = 0; i < x->dims; i++) {
        start[i] = 0;
        step[i] = 1;
        count[i] = x->sizes[i];
    }
    for (int k = 0; k < named; k++) {
        int axis = onnx_axis(axis_count > k ? axes[k] : k, x->dims);
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

void pl_onnx_infer_slice(onnx_build *c, const onnx_node *n) {
    int64_t start[PL_MAX_DIMS], count[PL_MAX_DIMS], step[PL_MAX_DIMS];
    const onnx_slot *x = onnx_in(c, n, 0);
    if (pl_onnx_slice(c, n, start, count, step))
        pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, count);
}

void pl_onnx_infer_gather(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *at = onnx_in(c, n, 1);
    int axis = onnx_known(x) ? onnx_axis(pl_onnx_int(n, "axis", 0), x->dims) : -1, dims = 0;
    int64_t sizes[PL_MAX_DIMS];
    if (axis < 0 || !onnx_known(at) || x->dims - 1 + at->dims > PL_MAX_DIMS) return;
    for (int i = 0; i < axis; i++) sizes[dims++] = x->sizes[i];
    for (int i = 0; i < at->dims; i++) sizes[dims++] = at->sizes[i];
    for (int i = axis + 1; i < x->dims; i++) sizes[dims++] = x->sizes[i];
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

void pl_onnx_infer_gather_elements(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *at = onnx_in(c, n, 1);
    if (onnx_known(x) && onnx_known(at))
        pl_onnx_set(onnx_out(c, n, 0), x->dtype, at->dims, at->sizes);
}

void pl_onnx_infer_gather_nd(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *at = onnx_in(c, n, 1);
    int64_t batch = pl_onnx_int(n, "batch_dims", 0), sizes[PL_MAX_DIMS];
    if (!onnx_known(x) || !onnx_known(at) || at->dims < 1 || batch < 0) return;
    int64_t last = at->sizes[at->dims - 1];
    int dims = at->dims - 1;
    if (last < 1 || batch + last > x->dims || dims + x->dims - batch - last > PL_MAX_DIMS) return;
    memcpy(sizes, at->sizes, (size_t)dims * sizeof *sizes);
    for (int64_t i = batch + last; i < x->dims; i++) sizes[dims++] = x->sizes[i];
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, dims, sizes);
}

void pl_onnx_infer_expand(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    onnx_slot to = {0};
    int dims = pl_onnx_integers(onnx_in(c, n, 1), to.sizes, PL_MAX_DIMS);
    onnx_slot *out = onnx_out(c, n, 0);
    if (!onnx_known(x) || dims < 0 || !out) return;
    to.dims = dims;
    for (int i = 0; i < dims; i++)
        if (to.sizes[i] < 0) return;
    onnx_slot sum = {0};
    if (pl_onnx_broadcast(x, &to, &sum)) pl_onnx_set(out, x->dtype, sum.dims, sum.sizes);
}

void pl_onnx_infer_tile(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t times[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    if (!onnx_known(x) || pl_onnx_integers(onnx_in(c, n, 1), times, PL_MAX_DIMS) != x->dims) return;
    for (int i = 0; i < x->dims; i++)
        if (times[i] < 0 || !pl_mul_i64(x->sizes[i], times[i], &sizes[i])) return;
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

void pl_onnx_infer_shape(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    if (!onnx_known(x)) return;
    int64_t from = pl_onnx_int(n, "start", 0), to = pl_onnx_int(n, "end", x->dims);
    if (from < 0) from += x->dims;
    if (to < 0) to += x->dims;
    from = from < 0 ? 0 : from > x->dims ? x->dims : from;
    to = to < 0 ? 0 : to > x->dims ? x->dims : to;
    int64_t count = to > from ? to - from : 0;
    pl_onnx_set(onnx_out(c, n, 0), PL_DT_I64, 1, &count);
}

void pl_onnx_infer_size(onnx_build *c, const onnx_node *n) {
    pl_onnx_set(onnx_out(c, n, 0), PL_DT_I64, 0, NULL);
}

void pl_onnx_infer_constant(onnx_build *c, const onnx_node *n) {
    onnx_slot *out = onnx_out(c, n, 0);
    for (uint32_t i = 0; i < n->attr_count; i++) {
        const onnx_attr *a = &n->attrs[i];
        int64_t count = a->count;
        switch (a->kind) {
        case ONNX_TENSOR:
            pl_onnx_set(out, a->tensor->dtype, a->tensor->dims, a->tensor->sizes);
            break;
        case ONNX_INT: pl_onnx_set(out, PL_DT_I64, 0, NULL); break;
        case ONNX_FLOAT: pl_onnx_set(out, PL_DT_F32, 0, NULL); break;
        case ONNX_INTS: pl_onnx_set(out, PL_DT_I64, 1, &count); break;
        case ONNX_FLOATS: pl_onnx_set(out, PL_DT_F32, 1, &count); break;
        default: break;
        }
    }
}

void pl_onnx_infer_constant_of_shape(onnx_build *c, const onnx_node *n) {
    int64_t sizes[PL_MAX_DIMS];
    int dims = pl_onnx_integers(onnx_in(c, n, 0), sizes, PL_MAX_DIMS);
    const onnx_attr *value = pl_onnx_attr(n, "value");
    for (int i = 0; i < dims; i++)
        if (sizes[i] < 0) return;
    pl_onnx_set(onnx_out(c, n, 0), value && value->tensor ? value->tensor->dtype : PL_DT_F32, dims,
                sizes);
}

void pl_onnx_infer_range(onnx_build *c, const onnx_node *n) {
    const onnx_slot *from = onnx_in(c, n, 0), *to = onnx_in(c, n, 1), *by = onnx_in(c, n, 2);
    if (!from || !to || !by || !from->numbers || !to->numbers || !by->numbers ||
        pl_onnx_elements(from) < 1 || pl_onnx_elements(to) < 1 || pl_onnx_elements(by) < 1 ||
        by->numbers[0] == 0)
        return;
    double steps = ceil((to->numbers[0] - from->numbers[0]) / by->numbers[0]);
    int64_t count = steps > 0 && steps < 1e15 ? (int64_t)steps : 0;
    pl_onnx_set(onnx_out(c, n, 0), from->dtype, 1, &count);
}

void pl_onnx_infer_pad(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t pads[PL_MAX_DIMS * 2], axes[PL_MAX_DIMS], sizes[PL_MAX_DIMS];
    int count = pl_onnx_list(c, n, "pads", 1, pads, PL_MAX_DIMS * 2),
        named = pl_onnx_integers(onnx_in(c, n, 3), axes, PL_MAX_DIMS);
    if (!onnx_known(x) || count < 0) return;
    if (named < 0)
        for (named = 0; named < x->dims; named++) axes[named] = named;
    if (count != named * 2) return;
    memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    for (int k = 0; k < named; k++) {
        int axis = onnx_axis(axes[k], x->dims);
        if (axis < 0 || !pl_add_i64(sizes[axis], pads[k], &sizes[axis]) ||
            !pl_add_i64(sizes[axis], pads[k + named], &sizes[axis]) || sizes[axis] < 0)
            return;
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

void pl_onnx_infer_resize(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    bool upsample = n->input_count <= 2; /* Upsample, and Resize before opset 11 */
    const onnx_slot *scales = onnx_in(c, n, upsample ? 1 : 2), *to = onnx_in(c, n, 3);
    int64_t sizes[PL_MAX_DIMS];
    if (!onnx_known(x)) return;
    if (to && pl_onnx_integers(to, sizes, PL_MAX_DIMS) == x->dims) {
        pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
        return;
    }
    if (!scales || !scales->numbers || pl_onnx_elements(scales) != x->dims) return;
    for (int i = 0; i < x->dims; i++) {
        double scaled = floor((double)x->sizes[i] * scales->numbers[i]);
        if (!(scaled >= 0 && scaled < 1e15)) return;
        sizes[i] = (int64_t)scaled;
    }
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, x->dims, sizes);
}

void pl_onnx_infer_depth_to_space(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t by = pl_onnx_int(n, "blocksize", 1), area, sizes[4];
    if (!onnx_known(x) || x->dims != 4 || by <= 0 || by > 65536) return;
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
    pl_onnx_set(onnx_out(c, n, 0), x->dtype, 4, sizes);
}

void pl_onnx_infer_one_hot(onnx_build *c, const onnx_node *n) {
    const onnx_slot *x = onnx_in(c, n, 0), *values = onnx_in(c, n, 2);
    int64_t depth, sizes[PL_MAX_DIMS];
    if (!onnx_known(x) || x->dims >= PL_MAX_DIMS ||
        pl_onnx_integers(onnx_in(c, n, 1), &depth, 1) != 1)
        return;
    int axis = onnx_axis(pl_onnx_int(n, "axis", -1), x->dims + 1), from = 0;
    if (axis < 0 || depth < 0) return;
    for (int i = 0; i <= x->dims; i++) sizes[i] = i == axis ? depth : x->sizes[from++];
    pl_onnx_set(onnx_out(c, n, 0), values ? values->dtype : x->dtype, x->dims + 1, sizes);
}

/* Random numbers of a shape that the node has. */
void pl_onnx_infer_random_shape(onnx_build *c, const onnx_node *n) {
    const onnx_attr *a = pl_onnx_attr(n, "shape");
    if (a && a->kind == ONNX_INTS)
        pl_onnx_set(onnx_out(c, n, 0), pl_onnx_dtype(pl_onnx_int(n, "dtype", 1), PL_DT_F32),
                    (int)a->count, a->ints);
}

void pl_onnx_infer_random_like(onnx_build *c, const onnx_node *n) {
    pl_onnx_infer_same(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    if (onnx_known(out)) out->dtype = pl_onnx_dtype(pl_onnx_int(n, "dtype", 0), out->dtype);
}
