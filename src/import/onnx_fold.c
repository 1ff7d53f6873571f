/* onnx_fold: the numbers that a file computes its shapes with.
 *
 * A file with an open batch takes sizes apart and puts them together with ordinary operators:
 * Shape, Gather, Concat, Mul, ... With the batch known all of that is arithmetic on a few numbers,
 * done here as the operators' pages (ONNX 1.23) say. A result is kept up to ONNX_MAX_NUMBERS
 * elements.
 *
 * Left out: operators on numbers that no shape needs (products of matrices, softmax, ...). */
#include "import/onnx_build.h"

#include <math.h>
#include <string.h>

static bool whole(pl_dtype dtype) {
    return !pl_dtype_is_float(dtype);
}

/* Room for the output's numbers; NULL: too many, or not known how many. */
static double *room_for(onnx_build *c, const onnx_slot *out, int64_t *count) {
    *count = pl_onnx_elements(out);
    if (*count < 0 || *count > ONNX_MAX_NUMBERS) return NULL;
    double *numbers = pl_arena_array(c->scratch, (size_t)*count + 1, sizeof *numbers);
    if (!numbers) c->no_memory = true;
    return numbers;
}

/* ---- pointwise ---- */

static double binary(const char *op, double x, double y, bool integer) {
    switch (op[0]) {
    case 'A': return op[1] == 'd' ? x + y : x != 0 && y != 0; /* Add, And */
    case 'S': return x - y;
    case 'M':
        if (op[1] == 'u') return x * y;
        if (op[1] == 'a') return x > y ? x : y;
        if (op[1] == 'i') return x < y ? x : y;
        return y == 0 ? 0 : x - floor(x / y) * y; /* Mod */
    case 'D':
        if (!integer) return x / y;
        return y == 0 ? 0 : trunc(x / y);
    case 'P': return pow(x, y);
    case 'E': return x == y;
    case 'O': return x != 0 || y != 0;
    case 'X': return (x != 0) != (y != 0);
    case 'G': return strcmp(op, "Greater") == 0 ? x > y : x >= y;
    default: return strcmp(op, "Less") == 0 ? x < y : x <= y;
    }
}

/* The element of a broadcast operand that element `at` of the output looks at. */
static int64_t element_of(const onnx_slot *in, const onnx_slot *out, int64_t at) {
    int64_t index = 0, stride = 1;
    for (int i = out->dims; i-- > 0;) {
        int64_t place = at % out->sizes[i];
        at /= out->sizes[i];
        int own = i - (out->dims - in->dims);
        if (own < 0) continue;
        if (in->sizes[own] != 1) index += place * stride;
        stride *= in->sizes[own];
    }
    return index;
}

static void fold_binary(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0), *y = onnx_in(c, n, 1);
    int64_t count;
    if (!x || !x->numbers || n->input_count > 2 || (n->input_count == 2 && (!y || !y->numbers)))
        return;
    double *numbers = room_for(c, out, &count);
    if (!numbers) return;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = y ? binary(n->op, x->numbers[element_of(x, out, i)],
                                y->numbers[element_of(y, out, i)], whole(x->dtype))
                       : x->numbers[i];
    out->numbers = numbers;
}

static void fold_where(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *which = onnx_in(c, n, 0), *x = onnx_in(c, n, 1), *y = onnx_in(c, n, 2);
    int64_t count;
    if (!which || !x || !y || !which->numbers || !x->numbers || !y->numbers) return;
    double *numbers = room_for(c, out, &count);
    if (!numbers) return;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = which->numbers[element_of(which, out, i)] != 0
                         ? x->numbers[element_of(x, out, i)]
                         : y->numbers[element_of(y, out, i)];
    out->numbers = numbers;
}

static double unary(const char *op, double x, pl_dtype to) {
    switch (op[0]) {
    case 'N': return op[2] == 'g' ? -x : x == 0; /* Neg, Not */
    case 'A': return fabs(x);
    case 'S': return op[1] == 'q' ? sqrt(x) : (double)((x > 0) - (x < 0)); /* Sqrt, Sign */
    case 'F': return floor(x);
    case 'R': return op[1] == 'e' ? 1 / x : rint(x); /* Reciprocal, Round */
    case 'E': return exp(x);
    case 'L': return log(x);
    case 'C':
        if (op[1] == 'e') return ceil(x);
        if (to == PL_DT_BOOL) return x != 0;
        return whole(to) ? trunc(x) : x; /* Cast */
    default: return x;
    }
}

static void fold_unary(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t count;
    if (!x || !x->numbers) return;
    double *numbers = room_for(c, out, &count);
    if (!numbers || count != pl_onnx_elements(x)) return;
    for (int64_t i = 0; i < count; i++) numbers[i] = unary(n->op, x->numbers[i], out->dtype);
    out->numbers = numbers;
}

/* ---- the same numbers in another place ---- */

/* Reshape and its like: the order stays. */
static void fold_order(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0);
    if (x && x->numbers && pl_onnx_elements(x) == pl_onnx_elements(out)) out->numbers = x->numbers;
}

static void fold_expand(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t count;
    if (!x || !x->numbers) return;
    double *numbers = room_for(c, out, &count);
    if (!numbers) return;
    for (int64_t i = 0; i < count; i++) numbers[i] = x->numbers[element_of(x, out, i)];
    out->numbers = numbers;
}

/* Copies by a start and a step along each input dimension; order: the input dimension that output
 * dimension i walks. */
static void copy_strided(onnx_build *c, const onnx_slot *x, onnx_slot *out, const int *order,
                         const int64_t *start, const int64_t *step) {
    int64_t count, strides[PL_MAX_DIMS], stride = 1;
    double *numbers = room_for(c, out, &count);
    if (!numbers || x->dims != out->dims) return;
    for (int i = x->dims; i-- > 0;) {
        strides[i] = stride;
        stride *= x->sizes[i];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i, from = 0;
        for (int d = out->dims; d-- > 0;) {
            int source = order ? order[d] : d;
            int64_t place = at % out->sizes[d];
            at /= out->sizes[d];
            from +=
                ((start ? start[source] : 0) + place * (step ? step[source] : 1)) * strides[source];
        }
        if (from < 0 || from >= stride) return;
        numbers[i] = x->numbers[from];
    }
    out->numbers = numbers;
}

static void fold_transpose(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0);
    const onnx_attr *perm = onnx_ints(n, "perm");
    int order[PL_MAX_DIMS];
    if (!x || !x->numbers || x->dims != out->dims) return;
    for (int i = 0; i < x->dims; i++)
        order[i] = perm && perm->count == (uint32_t)x->dims ? (int)perm->ints[i] : x->dims - 1 - i;
    for (int i = 0; i < x->dims; i++)
        if (order[i] < 0 || order[i] >= x->dims) return;
    copy_strided(c, x, out, order, NULL, NULL);
}

static void fold_slice(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t start[PL_MAX_DIMS], count[PL_MAX_DIMS], step[PL_MAX_DIMS];
    if (x && x->numbers && pl_onnx_slice(c, n, start, count, step))
        copy_strided(c, x, out, NULL, start, step);
}

/* Parts along one dimension, from a place on. */
static void fold_split(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t start[PL_MAX_DIMS] = {0}, axis = pl_onnx_int(n, "axis", 0);
    (void)out;
    if (!x || !x->numbers || x->dims < 1) return;
    if (axis < 0) axis += x->dims;
    if (axis < 0 || axis >= x->dims) return;
    for (uint32_t i = 0; i < n->output_count; i++) {
        onnx_slot *part = onnx_out(c, n, i);
        if (!part || part->dims != x->dims) return;
        copy_strided(c, x, part, NULL, start, NULL);
        start[axis] += part->sizes[axis];
    }
}

static void fold_concat(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    int64_t axis = pl_onnx_int(n, "axis", 0), count, inner = 1, done = 0;
    if (axis < 0) axis += out->dims;
    if (axis < 0 || axis >= out->dims) return;
    for (uint32_t i = 0; i < n->input_count; i++)
        if (!onnx_in(c, n, i) || !onnx_in(c, n, i)->numbers) return;
    double *numbers = room_for(c, out, &count);
    if (!numbers) return;
    for (int i = (int)axis; i < out->dims; i++) inner *= out->sizes[i];
    for (uint32_t i = 0; i < n->input_count; i++) {
        const onnx_slot *x = onnx_in(c, n, i);
        int64_t part = 1, total = pl_onnx_elements(x);
        if (x->dims != out->dims) return;
        for (int d = (int)axis; d < x->dims; d++) part *= x->sizes[d];
        for (int64_t k = 0; part > 0 && k < total; k++) {
            int64_t to = k / part * inner + done + k % part;
            if (to >= count) return;
            numbers[to] = x->numbers[k];
        }
        done += part;
    }
    out->numbers = numbers;
}

static void fold_gather(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0), *at = onnx_in(c, n, 1);
    int64_t axis = pl_onnx_int(n, "axis", 0), count, inner = 1;
    if (!x || !at || !x->numbers || !at->numbers || x->dims < 1) return;
    if (axis < 0) axis += x->dims;
    if (axis < 0 || axis >= x->dims) return;
    double *numbers = room_for(c, out, &count);
    int64_t picks = pl_onnx_elements(at), size = x->sizes[axis];
    if (!numbers || picks <= 0) return;
    for (int i = (int)axis + 1; i < x->dims; i++) inner *= x->sizes[i];
    for (int64_t i = 0; inner > 0 && i < count; i++) {
        int64_t pick = pl_onnx_integer(at->numbers[i / inner % picks]);
        if (pick < 0) pick += size;
        if (pick < 0 || pick >= size) return;
        numbers[i] = x->numbers[(i / inner / picks * size + pick) * inner + i % inner];
    }
    out->numbers = numbers;
}

/* ---- sums ---- */

static void fold_reduce(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t total = pl_onnx_elements(x);
    if (!x || !x->numbers || total < 1 || pl_onnx_elements(out) != 1) return;
    double *number = pl_arena_alloc(c->scratch, sizeof *number), sum = x->numbers[0];
    if (!number) {
        c->no_memory = true;
        return;
    }
    for (int64_t i = 1; i < total; i++) {
        double y = x->numbers[i];
        sum = n->op[6] == 'P'                      ? sum * y
              : n->op[6] == 'S' || n->op[7] == 'e' ? sum + y
              : strcmp(n->op, "ReduceMax") == 0    ? (sum > y ? sum : y)
                                                   : (sum < y ? sum : y);
    }
    *number = strcmp(n->op, "ReduceMean") == 0 ? sum / (double)total : sum;
    out->numbers = number;
}

static void fold_cumsum(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t count;
    if (!x || !x->numbers || x->dims != 1) return;
    double *numbers = room_for(c, out, &count), sum = 0;
    for (int64_t i = 0; numbers && i < count; i++) numbers[i] = sum += x->numbers[i];
    out->numbers = numbers;
}

/* ---- makers ---- */

static void fold_shape(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *x = onnx_in(c, n, 0);
    int64_t count, from = pl_onnx_int(n, "start", 0);
    double *numbers = room_for(c, out, &count);
    if (!numbers || !x) return;
    if (from < 0) from += x->dims;
    if (from < 0) from = 0;
    for (int64_t i = 0; i < count && from + i < x->dims; i++)
        numbers[i] = (double)x->sizes[from + i];
    out->numbers = numbers;
}

static void fold_size(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    int64_t total = pl_onnx_elements(onnx_in(c, n, 0)), count;
    double *numbers = total < 0 ? NULL : room_for(c, out, &count);
    if (!numbers) return;
    numbers[0] = (double)total;
    out->numbers = numbers;
}

static void fold_constant(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    for (uint32_t i = 0; i < n->attr_count; i++) {
        const onnx_attr *a = &n->attrs[i];
        int64_t count;
        if (a->kind == ONNX_TENSOR) {
            out->numbers = a->tensor->numbers;
            return;
        }
        double *numbers = room_for(c, out, &count);
        if (!numbers) return;
        if (a->kind == ONNX_INT)
            numbers[0] = (double)a->i;
        else if (a->kind == ONNX_FLOAT)
            numbers[0] = a->f;
        else if (a->kind == ONNX_INTS || a->kind == ONNX_FLOATS)
            for (int64_t k = 0; k < count && k < a->count; k++)
                numbers[k] = a->kind == ONNX_INTS ? (double)a->ints[k] : a->floats[k];
        else
            continue;
        out->numbers = numbers;
        return;
    }
}

static void fold_constant_of_shape(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_attr *value = pl_onnx_attr(n, "value");
    int64_t count;
    double *numbers = room_for(c, out, &count), fill = 0;
    if (!numbers) return;
    if (value && value->tensor && value->tensor->numbers && value->tensor->elements > 0)
        fill = value->tensor->numbers[0];
    for (int64_t i = 0; i < count; i++) numbers[i] = fill;
    out->numbers = numbers;
}

static void fold_range(onnx_build *c, const onnx_node *n, onnx_slot *out) {
    const onnx_slot *from = onnx_in(c, n, 0), *by = onnx_in(c, n, 2);
    int64_t count;
    if (!from || !by || !from->numbers || !by->numbers) return;
    double *numbers = room_for(c, out, &count);
    for (int64_t i = 0; numbers && i < count; i++)
        numbers[i] = from->numbers[0] + (double)i * by->numbers[0];
    out->numbers = numbers;
}

/* ---- the table ---- */

static const struct {
    const char *op;
    void (*fold)(onnx_build *c, const onnx_node *n, onnx_slot *out);
} folds[] = {
    {"Constant", fold_constant},
    {"Shape", fold_shape},
    {"Gather", fold_gather},
    {"Concat", fold_concat},
    {"Unsqueeze", fold_order},
    {"Squeeze", fold_order},
    {"Reshape", fold_order},
    {"Flatten", fold_order},
    {"Identity", fold_order},
    {"Cast", fold_unary},
    {"CastLike", fold_unary},
    {"Slice", fold_slice},
    {"Add", fold_binary},
    {"Sub", fold_binary},
    {"Mul", fold_binary},
    {"Div", fold_binary},
    {"Mod", fold_binary},
    {"Max", fold_binary},
    {"Min", fold_binary},
    {"Pow", fold_binary},
    {"Equal", fold_binary},
    {"Greater", fold_binary},
    {"GreaterOrEqual", fold_binary},
    {"Less", fold_binary},
    {"LessOrEqual", fold_binary},
    {"And", fold_binary},
    {"Or", fold_binary},
    {"Xor", fold_binary},
    {"Where", fold_where},
    {"Expand", fold_expand},
    {"Transpose", fold_transpose},
    {"Split", fold_split},
    {"ConstantOfShape", fold_constant_of_shape},
    {"Range", fold_range},
    {"Size", fold_size},
    {"ReduceProd", fold_reduce},
    {"ReduceSum", fold_reduce},
    {"ReduceMax", fold_reduce},
    {"ReduceMin", fold_reduce},
    {"ReduceMean", fold_reduce},
    {"CumSum", fold_cumsum},
    {"Neg", fold_unary},
    {"Not", fold_unary},
    {"Abs", fold_unary},
    {"Sqrt", fold_unary},
    {"Sign", fold_unary},
    {"Floor", fold_unary},
    {"Ceil", fold_unary},
    {"Round", fold_unary},
    {"Reciprocal", fold_unary},
    {"Exp", fold_unary},
    {"Log", fold_unary},
};

void pl_onnx_fold(onnx_build *c, const onnx_node *n) {
    onnx_slot *out = onnx_out(c, n, 0);
    if (!out || out->dims < 0 || (n->domain[0] && strcmp(n->domain, "ai.onnx") != 0)) return;
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (strcmp(folds[i].op, n->op) == 0) {
            folds[i].fold(c, n, out);
            return;
        }
}
