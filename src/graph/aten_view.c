/* aten_view: see aten.h. Operators that look at a tensor in another way, cut it, put tensors
 * together, pick by index, or make one from nothing. */
#include <string.h>

#include "graph/aten.h"
#include "graph/aten_shape.h"

/* ---- other looks ---- */

/* Fills the one size that is -1. */
static bool fill_sizes(pl_builder *b, const char *target, int32_t x, int dims, const int64_t *sizes,
                       pl_shape *out) {
    int64_t known = 1, all = pl_tensor_elements(pl_built(b, x));
    int open = -1;
    bool good = dims >= 0 && dims <= PL_MAX_DIMS;
    *out = (pl_shape){.dims = dims};
    for (int i = 0; i < dims && good; i++) {
        out->sizes[i] = sizes[i];
        if (sizes[i] == -1) {
            good = open < 0;
            open = i;
        } else {
            good = sizes[i] >= 0 && !__builtin_mul_overflow(known, sizes[i], &known);
        }
    }
    if (good && open >= 0) {
        good = known > 0 && all % known == 0;
        if (good) out->sizes[open] = all / known;
    } else {
        good = good && known == all;
    }
    return pl_shape_need(b, target, good, "a view of another number of elements");
}

static int32_t view_as(pl_builder *b, const char *target, const char *name, int32_t x, int dims,
                       const int64_t *sizes) {
    pl_shape out;
    if (pl_build_failed(b) || !fill_sizes(b, target, x, dims, sizes, &out)) return PL_NONE;
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, name, out.dims, out.sizes);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_view(pl_builder *b, int32_t x, int dims, const int64_t *sizes) {
    return view_as(b, "aten.view.default", "size", x, dims, sizes);
}

int32_t pl_aten_reshape(pl_builder *b, int32_t x, int dims, const int64_t *sizes) {
    return view_as(b, "aten.reshape.default", "shape", x, dims, sizes);
}

int32_t pl_aten_flatten(pl_builder *b, int32_t x, int from, int to) {
    const char *target = "aten.flatten.using_ints";
    const pl_tensor *t = pl_built(b, x);
    if (pl_build_failed(b) || !pl_shape_dim(b, target, t->dims, &from) ||
        !pl_shape_dim(b, target, t->dims, &to))
        return PL_NONE;
    pl_shape out = {.dims = 0};
    int64_t flat = 1;
    for (int i = 0; i < t->dims; i++) {
        if (i < from || i > to) out.sizes[out.dims++] = t->sizes[i];
        if (i >= from && i <= to) flat *= t->sizes[i]; /* a part of a tensor that fits */
        if (i == to) out.sizes[out.dims++] = flat;
    }
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "start_dim", from);
    pl_call_int(b, "end_dim", to);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_transpose(pl_builder *b, int32_t x, int first, int second) {
    const char *target = "aten.transpose.int";
    const pl_tensor *t = pl_built(b, x);
    if (pl_build_failed(b) || !pl_shape_dim(b, target, t->dims, &first) ||
        !pl_shape_dim(b, target, t->dims, &second))
        return PL_NONE;
    pl_shape out = pl_shape_of(t);
    out.sizes[first] = t->sizes[second];
    out.sizes[second] = t->sizes[first];
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim0", first);
    pl_call_int(b, "dim1", second);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_permute(pl_builder *b, int32_t x, int dims, const int64_t *order) {
    const char *target = "aten.permute.default";
    const pl_tensor *t = pl_built(b, x);
    pl_shape out = {.dims = dims};
    uint32_t seen = 0;
    bool good = dims == t->dims;
    for (int i = 0; i < dims && good; i++) {
        int64_t at = order[i] < 0 ? order[i] + dims : order[i];
        good = at >= 0 && at < dims && !(seen >> at & 1);
        if (!good) break;
        seen |= 1u << at;
        out.sizes[i] = t->sizes[at];
    }
    if (!pl_shape_need(b, target, good, "an order that does not name each dimension once"))
        return PL_NONE;
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "dims", dims, order);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_contiguous(pl_builder *b, int32_t x) {
    return pl_aten_unary(b, "aten.contiguous.default", x);
}

int32_t pl_aten_unsqueeze(pl_builder *b, int32_t x, int dim) {
    const char *target = "aten.unsqueeze.default";
    const pl_tensor *t = pl_built(b, x);
    if (pl_build_failed(b) || !pl_shape_dim(b, target, t->dims + 1, &dim)) return PL_NONE;
    pl_shape out = {.dims = t->dims + 1};
    for (int i = 0; i < out.dims; i++) out.sizes[i] = i == dim ? 1 : t->sizes[i < dim ? i : i - 1];
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", dim);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_squeeze(pl_builder *b, int32_t x, int dim) {
    const char *target = "aten.squeeze.dim";
    const pl_tensor *t = pl_built(b, x);
    if (pl_build_failed(b) || !pl_shape_dim(b, target, t->dims, &dim)) return PL_NONE;
    pl_shape out = {.dims = 0};
    for (int i = 0; i < t->dims; i++)
        if (i != dim || t->sizes[i] != 1) out.sizes[out.dims++] = t->sizes[i];
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", dim);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_expand(pl_builder *b, int32_t x, int dims, const int64_t *sizes) {
    const char *target = "aten.expand.default";
    const pl_tensor *t = pl_built(b, x);
    pl_shape out = {.dims = dims};
    bool good = dims >= t->dims && dims <= PL_MAX_DIMS;
    for (int i = 0; i < dims && good; i++) {
        int at = i - (dims - t->dims);
        int64_t has = at >= 0 ? t->sizes[at] : 1;
        out.sizes[i] = sizes[i] == -1 ? has : sizes[i];
        good = (at >= 0 || sizes[i] != -1) && (has == 1 || has == out.sizes[i]);
    }
    if (!pl_shape_need(b, target, good, "sizes that do not go with the tensor's")) return PL_NONE;
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "size", dims, sizes);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_repeat(pl_builder *b, int32_t x, int dims, const int64_t *times) {
    const char *target = "aten.repeat.default";
    const pl_tensor *t = pl_built(b, x);
    pl_shape out = {.dims = dims};
    bool good = dims >= t->dims && dims <= PL_MAX_DIMS;
    for (int i = 0; i < dims && good; i++) {
        int at = i - (dims - t->dims);
        good = times[i] >= 0 &&
               !__builtin_mul_overflow(at >= 0 ? t->sizes[at] : 1, times[i], &out.sizes[i]);
    }
    if (!pl_shape_need(b, target, good, "repeats that make no sense")) return PL_NONE;
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "repeats", dims, times);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

/* ---- parts ---- */

int32_t pl_aten_slice(pl_builder *b, int32_t x, int dim, int64_t start, int64_t end) {
    const char *target = "aten.slice.Tensor";
    const pl_tensor *t = pl_built(b, x);
    if (pl_build_failed(b) || !pl_shape_dim(b, target, t->dims, &dim)) return PL_NONE;
    int64_t n = t->sizes[dim], from = start < 0 ? start + n : start, to = end < 0 ? end + n : end;
    from = from < 0 ? 0 : from > n ? n : from;
    to = to < from ? from : to > n ? n : to;
    pl_shape out = pl_shape_of(t);
    out.sizes[dim] = to - from;
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", dim);
    pl_call_int(b, "start", start);
    pl_call_int(b, "end", end);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_select(pl_builder *b, int32_t x, int dim, int64_t index) {
    const char *target = "aten.select.int";
    const pl_tensor *t = pl_built(b, x);
    if (pl_build_failed(b) || !pl_shape_dim(b, target, t->dims, &dim)) return PL_NONE;
    pl_shape out = {.dims = 0};
    for (int i = 0; i < t->dims; i++)
        if (i != dim) out.sizes[out.dims++] = t->sizes[i];
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", dim);
    pl_call_int(b, "index", index);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

/* The operator and its tensor; then the parts, equal to x but along dim. */
static void parts_along(pl_builder *b, int32_t x, int dim, int count, const int64_t *sizes,
                        int32_t *parts) {
    for (int i = 0; i < count; i++) {
        const pl_tensor *t = pl_built(b, x);
        pl_shape out = pl_shape_of(t);
        out.sizes[dim] = sizes[i];
        parts[i] = pl_call_result(b, t->dtype, out.dims, out.sizes);
    }
    pl_call_list(b);
}

static void no_parts(int count, int32_t *parts) {
    for (int i = 0; i < count; i++) parts[i] = PL_NONE;
}

enum { MAX_PARTS = 1024 };

void pl_aten_chunk(pl_builder *b, int32_t x, int count, int dim, int32_t *parts) {
    const char *target = "aten.chunk.default";
    no_parts(count, parts);
    int dims = pl_built_dims(b, x);
    if (pl_build_failed(b) || !pl_shape_dim(b, target, dims, &dim)) return;
    int64_t n = pl_built_size(b, x, dim), sizes[MAX_PARTS];
    if (!pl_shape_need(b, target, count > 0 && count <= MAX_PARTS && n % count == 0,
                       "a size that does not part evenly"))
        return;
    for (int i = 0; i < count; i++) sizes[i] = n / count;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "chunks", count);
    pl_call_int(b, "dim", dim);
    parts_along(b, x, dim, count, sizes, parts);
}

void pl_aten_split(pl_builder *b, int32_t x, int count, const int64_t *sizes, int dim,
                   int32_t *parts) {
    no_parts(count, parts);
    int dims = pl_built_dims(b, x);
    bool equal = true;
    for (int i = 1; i < count; i++) equal = equal && sizes[i] == sizes[0];
    const char *target = equal ? "aten.split.Tensor" : "aten.split_with_sizes.default";
    if (pl_build_failed(b) || !pl_shape_dim(b, target, dims, &dim)) return;
    int64_t sum = 0;
    bool good = count > 0;
    for (int i = 0; i < count && good; i++)
        good = sizes[i] >= 0 && !__builtin_add_overflow(sum, sizes[i], &sum);
    if (!pl_shape_need(b, target, good && sum == pl_built_size(b, x, dim),
                       "parts that do not add up to the whole"))
        return;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    if (equal)
        pl_call_int(b, "split_size", sizes[0]);
    else
        pl_call_ints(b, "split_sizes", count, sizes);
    pl_call_int(b, "dim", dim);
    parts_along(b, x, dim, count, sizes, parts);
}

/* ---- together ---- */

int32_t pl_aten_cat(pl_builder *b, int count, const int32_t *parts, int dim) {
    const char *target = "aten.cat.default";
    if (!pl_shape_need(b, target, count > 0, "nothing to put together")) return PL_NONE;
    const pl_tensor *t = pl_built(b, parts[0]);
    if (!pl_shape_dim(b, target, t->dims, &dim)) return PL_NONE;
    pl_shape out = pl_shape_of(t);
    bool good = true;
    for (int i = 1; i < count && good; i++) {
        const pl_tensor *u = pl_built(b, parts[i]);
        good = u->dims == out.dims;
        for (int k = 0; k < out.dims && good; k++)
            good = k == dim ? !__builtin_add_overflow(out.sizes[k], u->sizes[k], &out.sizes[k])
                            : u->sizes[k] == out.sizes[k];
    }
    if (!pl_shape_need(b, target, good, "tensors that differ along other dimensions"))
        return PL_NONE;
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensors(b, "tensors", count, parts);
    pl_call_int(b, "dim", dim);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_stack(pl_builder *b, int count, const int32_t *parts, int dim) {
    const char *target = "aten.stack.default";
    if (!pl_shape_need(b, target, count > 0, "nothing to stack")) return PL_NONE;
    const pl_tensor *t = pl_built(b, parts[0]);
    if (!pl_shape_dim(b, target, t->dims + 1, &dim)) return PL_NONE;
    pl_shape out = {.dims = t->dims + 1};
    for (int i = 0; i < out.dims; i++)
        out.sizes[i] = i == dim ? count : t->sizes[i < dim ? i : i - 1];
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensors(b, "tensors", count, parts);
    pl_call_int(b, "dim", dim);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_pad(pl_builder *b, int32_t x, int count, const int64_t *padding) {
    const char *target = "aten.pad.default";
    const pl_tensor *t = pl_built(b, x);
    pl_shape out = pl_shape_of(t);
    bool good = count >= 0 && count % 2 == 0 && count / 2 <= t->dims;
    for (int i = 0; i < count / 2 && good; i++) {
        int64_t *size = &out.sizes[t->dims - 1 - i];
        good = !__builtin_add_overflow(*size, padding[2 * i], size) &&
               !__builtin_add_overflow(*size, padding[2 * i + 1], size) && *size >= 0;
    }
    if (!pl_shape_need(b, target, good, "padding that makes no sense")) return PL_NONE;
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "pad", count, padding);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

/* ---- by index ---- */

int32_t pl_aten_embedding(pl_builder *b, int32_t weight, int32_t indices, int64_t padding_idx) {
    const char *target = "aten.embedding.default";
    const pl_tensor *w = pl_built(b, weight), *t = pl_built(b, indices);
    if (!pl_shape_need(b, target, w->dims == 2 && t->dims < PL_MAX_DIMS,
                       "a table that is no matrix"))
        return PL_NONE;
    pl_shape out = pl_shape_of(t);
    out.sizes[out.dims++] = w->sizes[1];
    pl_dtype dtype = w->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "weight", weight);
    pl_call_tensor(b, "indices", indices);
    if (padding_idx >= 0) pl_call_int(b, "padding_idx", padding_idx);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_gather(pl_builder *b, int32_t x, int dim, int32_t index) {
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_call(b, "aten.gather.default");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", dim);
    pl_call_tensor(b, "index", index);
    const pl_tensor *t = pl_built(b, index);
    return pl_call_result(b, dtype, t->dims, t->sizes);
}

int32_t pl_aten_index_select(pl_builder *b, int32_t x, int dim, int32_t index) {
    const char *target = "aten.index_select.default";
    const pl_tensor *t = pl_built(b, x);
    if (pl_build_failed(b) || !pl_shape_dim(b, target, t->dims, &dim)) return PL_NONE;
    pl_shape out = pl_shape_of(t);
    out.sizes[dim] = pl_tensor_elements(pl_built(b, index));
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", dim);
    pl_call_tensor(b, "index", index);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_index(pl_builder *b, int32_t x, int count, const int32_t *indices) {
    const char *target = "aten.index.Tensor";
    const pl_tensor *t = pl_built(b, x);
    if (!pl_shape_need(b, target, count >= 1 && count <= t->dims, "more indices than dimensions"))
        return PL_NONE;
    pl_tensor all = {.dims = 0};
    int64_t sizes[PL_MAX_DIMS];
    pl_shape out = {.dims = 0}, index;
    bool placed = false;
    for (int i = 0; i < count; i++) { /* the indices' common shape */
        if (indices[i] < 0) continue;
        if (!pl_shape_broadcast(b, target, &all, pl_built(b, indices[i]), &index)) return PL_NONE;
        memcpy(sizes, index.sizes, (size_t)index.dims * sizeof *sizes);
        all = (pl_tensor){.dims = (uint8_t)index.dims, .sizes = sizes};
    }
    if (!pl_shape_need(b, target, all.dims + t->dims <= PL_MAX_DIMS, "too many dimensions"))
        return PL_NONE;
    for (int i = 0; i < t->dims; i++) {
        if (i >= count || indices[i] < 0) {
            out.sizes[out.dims++] = t->sizes[i];
        } else if (!placed) {
            for (int k = 0; k < all.dims; k++) out.sizes[out.dims++] = all.sizes[k];
            placed = true;
        }
    }
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_tensors(b, "indices", count, indices);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_cumsum(pl_builder *b, int32_t x, int dim) {
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_call(b, "aten.cumsum.default");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", dim);
    const pl_tensor *t = pl_built(b, x);
    return pl_call_result(b, pl_dtype_is_float(dtype) ? dtype : PL_DT_I64, t->dims, t->sizes);
}

/* ---- makers ---- */

int32_t pl_aten_arange(pl_builder *b, int64_t count) {
    pl_call(b, "aten.arange.default");
    pl_call_int(b, "end", count);
    return pl_call_result(b, PL_DT_I64, 1, &count);
}

int32_t pl_aten_make(pl_builder *b, const char *target, pl_dtype dtype, int dims,
                     const int64_t *sizes, double value) {
    pl_call(b, target);
    pl_call_ints(b, "size", dims, sizes);
    if (strncmp(target, "aten.full.", 10) == 0) pl_call_float(b, "fill_value", value);
    pl_call_dtype(b, "dtype", dtype);
    return pl_call_result(b, dtype, dims, sizes);
}
