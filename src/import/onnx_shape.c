/* onnx_shape: types and sizes of an ONNX node's results.
 *
 * Rules: the operators' pages of ONNX 1.23 (onnx.ai/onnx/operators), opsets 9 to 23 where
 * torch.onnx writes them. One row per operator; the rules are here where a result is like an
 * operand, else in files by family (onnx_shape.h). What a rule cannot say is taken from the file's
 * own declaration where it has numbers, or names of dimensions that are known.
 *
 * Left out: If, Loop, Scan and what depends on data (NonZero, Unique, Compress). */
#include "import/onnx_shape.h"

#include <string.h>

#include "core/checked.h"

/* ---- numbers and sizes ---- */

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

void pl_onnx_set(onnx_slot *s, pl_dtype dtype, int dims, const int64_t *sizes) {
    if (!s || dims < 0 || dims > PL_MAX_DIMS) return;
    s->dtype = dtype;
    s->dims = dims;
    if (dims) memcpy(s->sizes, sizes, (size_t)dims * sizeof *sizes);
}

bool pl_onnx_broadcast(const onnx_slot *a, const onnx_slot *b, onnx_slot *out) {
    if (!onnx_known(a) || !onnx_known(b)) return false;
    int dims = a->dims > b->dims ? a->dims : b->dims;
    int64_t sizes[PL_MAX_DIMS];
    for (int i = 0; i < dims; i++) {
        int64_t x = i + a->dims >= dims ? a->sizes[i + a->dims - dims] : 1;
        int64_t y = i + b->dims >= dims ? b->sizes[i + b->dims - dims] : 1;
        if (x != y && x != 1 && y != 1) return false;
        sizes[i] = x == 1 ? y : x;
    }
    pl_onnx_set(out, a->dtype, dims, sizes);
    return true;
}

pl_dtype pl_onnx_dtype(int64_t number, pl_dtype otherwise) {
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

/* ---- alike ---- */

void pl_onnx_infer_same(onnx_build *c, const onnx_node *n) {
    const onnx_slot *in = onnx_in(c, n, 0);
    if (onnx_known(in)) pl_onnx_set(onnx_out(c, n, 0), in->dtype, in->dims, in->sizes);
}

static void same_bool(onnx_build *c, const onnx_node *n) {
    const onnx_slot *in = onnx_in(c, n, 0);
    if (onnx_known(in)) pl_onnx_set(onnx_out(c, n, 0), PL_DT_BOOL, in->dims, in->sizes);
}

static void pointwise(onnx_build *c, const onnx_node *n) {
    onnx_slot *out = onnx_out(c, n, 0);
    if (!out || !onnx_known(onnx_in(c, n, 0))) return;
    onnx_slot sum = *onnx_in(c, n, 0);
    for (uint32_t i = 1; i < n->input_count; i++)
        if (!pl_onnx_broadcast(&sum, onnx_in(c, n, i), &sum)) return;
    pl_onnx_set(out, sum.dtype, sum.dims, sum.sizes);
}

static void comparison(onnx_build *c, const onnx_node *n) {
    pointwise(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    if (onnx_known(out)) out->dtype = PL_DT_BOOL;
}

static void where(onnx_build *c, const onnx_node *n) {
    pointwise(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    if (onnx_known(out) && onnx_known(onnx_in(c, n, 1))) out->dtype = onnx_in(c, n, 1)->dtype;
}

static void dropout(onnx_build *c, const onnx_node *n) {
    pl_onnx_infer_same(c, n);
    const onnx_slot *in = onnx_in(c, n, 0);
    if (onnx_known(in)) pl_onnx_set(onnx_out(c, n, 1), PL_DT_BOOL, in->dims, in->sizes);
}

static void cast(onnx_build *c, const onnx_node *n) {
    pl_onnx_infer_same(c, n);
    onnx_slot *out = onnx_out(c, n, 0);
    const onnx_slot *like = strcmp(n->op, "CastLike") == 0 ? onnx_in(c, n, 1) : NULL;
    if (onnx_known(out))
        out->dtype = like ? like->dtype : pl_onnx_dtype(pl_onnx_int(n, "to", 0), out->dtype);
}

/* ---- the table ---- */

/* Sorted by name: strcmp. */
static const struct {
    const char *op;
    onnx_infer *infer;
} rules[] = {
    {"Abs", pl_onnx_infer_same},
    {"Acos", pl_onnx_infer_same},
    {"Add", pointwise},
    {"And", comparison},
    {"ArgMax", pl_onnx_infer_arg_reduce},
    {"ArgMin", pl_onnx_infer_arg_reduce},
    {"Asin", pl_onnx_infer_same},
    {"Atan", pl_onnx_infer_same},
    {"Attention", pl_onnx_infer_attention},
    {"AveragePool", pl_onnx_infer_pool},
    {"BatchNormalization", pl_onnx_infer_batch_norm},
    {"Bernoulli", pl_onnx_infer_random_like},
    {"BitwiseAnd", pointwise},
    {"BitwiseNot", pl_onnx_infer_same},
    {"BitwiseOr", pointwise},
    {"BitwiseXor", pointwise},
    {"Cast", cast},
    {"CastLike", cast},
    {"Ceil", pl_onnx_infer_same},
    {"Celu", pl_onnx_infer_same},
    {"Clip", pl_onnx_infer_same},
    {"Concat", pl_onnx_infer_concat},
    {"Constant", pl_onnx_infer_constant},
    {"ConstantOfShape", pl_onnx_infer_constant_of_shape},
    {"Conv", pl_onnx_infer_convolution},
    {"ConvTranspose", pl_onnx_infer_convolution_transposed},
    {"Cos", pl_onnx_infer_same},
    {"CumSum", pl_onnx_infer_same},
    {"DepthToSpace", pl_onnx_infer_depth_to_space},
    {"Div", pointwise},
    {"Dropout", dropout},
    {"Einsum", pl_onnx_infer_einsum},
    {"Elu", pl_onnx_infer_same},
    {"Equal", comparison},
    {"Erf", pl_onnx_infer_same},
    {"Exp", pl_onnx_infer_same},
    {"Expand", pl_onnx_infer_expand},
    {"Flatten", pl_onnx_infer_flatten},
    {"Floor", pl_onnx_infer_same},
    {"GRU", pl_onnx_infer_recurrent},
    {"Gather", pl_onnx_infer_gather},
    {"GatherElements", pl_onnx_infer_gather_elements},
    {"GatherND", pl_onnx_infer_gather_nd},
    {"Gelu", pl_onnx_infer_same},
    {"Gemm", pl_onnx_infer_gemm},
    {"GlobalAveragePool", pl_onnx_infer_global_pool},
    {"GlobalMaxPool", pl_onnx_infer_global_pool},
    {"Greater", comparison},
    {"GreaterOrEqual", comparison},
    {"GroupNormalization", pl_onnx_infer_same},
    {"HardSigmoid", pl_onnx_infer_same},
    {"HardSwish", pl_onnx_infer_same},
    {"Identity", pl_onnx_infer_same},
    {"InstanceNormalization", pl_onnx_infer_same},
    {"IsInf", same_bool},
    {"IsNaN", same_bool},
    {"LRN", pl_onnx_infer_same},
    {"LSTM", pl_onnx_infer_recurrent},
    {"LayerNormalization", pl_onnx_infer_layer_norm},
    {"LeakyRelu", pl_onnx_infer_same},
    {"Less", comparison},
    {"LessOrEqual", comparison},
    {"Log", pl_onnx_infer_same},
    {"LogSoftmax", pl_onnx_infer_same},
    {"LpNormalization", pl_onnx_infer_same},
    {"MatMul", pl_onnx_infer_matmul},
    {"Max", pointwise},
    {"MaxPool", pl_onnx_infer_pool},
    {"Mean", pointwise},
    {"Min", pointwise},
    {"Mish", pl_onnx_infer_same},
    {"Mod", pointwise},
    {"Mul", pointwise},
    {"Neg", pl_onnx_infer_same},
    {"NegativeLogLikelihoodLoss", pl_onnx_infer_loss},
    {"Not", pl_onnx_infer_same},
    {"OneHot", pl_onnx_infer_one_hot},
    {"Or", comparison},
    {"PRelu", pl_onnx_infer_same},
    {"Pad", pl_onnx_infer_pad},
    {"Pow", pointwise},
    {"RMSNormalization", pl_onnx_infer_same},
    {"RNN", pl_onnx_infer_recurrent},
    {"RandomNormal", pl_onnx_infer_random_shape},
    {"RandomNormalLike", pl_onnx_infer_random_like},
    {"RandomUniform", pl_onnx_infer_random_shape},
    {"RandomUniformLike", pl_onnx_infer_random_like},
    {"Range", pl_onnx_infer_range},
    {"Reciprocal", pl_onnx_infer_same},
    {"ReduceL1", pl_onnx_infer_reduce},
    {"ReduceL2", pl_onnx_infer_reduce},
    {"ReduceLogSumExp", pl_onnx_infer_reduce},
    {"ReduceMax", pl_onnx_infer_reduce},
    {"ReduceMean", pl_onnx_infer_reduce},
    {"ReduceMin", pl_onnx_infer_reduce},
    {"ReduceProd", pl_onnx_infer_reduce},
    {"ReduceSum", pl_onnx_infer_reduce},
    {"ReduceSumSquare", pl_onnx_infer_reduce},
    {"Relu", pl_onnx_infer_same},
    {"Reshape", pl_onnx_infer_reshape},
    {"Resize", pl_onnx_infer_resize},
    {"RotaryEmbedding", pl_onnx_infer_same},
    {"Round", pl_onnx_infer_same},
    {"ScatterElements", pl_onnx_infer_same},
    {"ScatterND", pl_onnx_infer_same},
    {"Selu", pl_onnx_infer_same},
    {"SequenceAt", pl_onnx_infer_sequence_at},
    {"Shape", pl_onnx_infer_shape},
    {"Sigmoid", pl_onnx_infer_same},
    {"Sign", pl_onnx_infer_same},
    {"Sin", pl_onnx_infer_same},
    {"Size", pl_onnx_infer_size},
    {"Slice", pl_onnx_infer_slice},
    {"Softmax", pl_onnx_infer_same},
    {"SoftmaxCrossEntropyLoss", pl_onnx_infer_loss},
    {"Softplus", pl_onnx_infer_same},
    {"Softsign", pl_onnx_infer_same},
    {"SpaceToDepth", pl_onnx_infer_depth_to_space},
    {"Split", pl_onnx_infer_split},
    {"SplitToSequence", pl_onnx_infer_split_to_sequence},
    {"Sqrt", pl_onnx_infer_same},
    {"Squeeze", pl_onnx_infer_squeeze},
    {"Sub", pointwise},
    {"Sum", pointwise},
    {"Swish", pl_onnx_infer_same},
    {"Tan", pl_onnx_infer_same},
    {"Tanh", pl_onnx_infer_same},
    {"ThresholdedRelu", pl_onnx_infer_same},
    {"Tile", pl_onnx_infer_tile},
    {"TopK", pl_onnx_infer_top_k},
    {"Transpose", pl_onnx_infer_transpose},
    {"Trilu", pl_onnx_infer_same},
    {"Unsqueeze", pl_onnx_infer_unsqueeze},
    {"Upsample", pl_onnx_infer_resize},
    {"Where", where},
    {"Xor", comparison},
};

static onnx_infer *rule_of(const char *op) {
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
    pl_onnx_set(s, v->dtype, v->dims, sizes);
}

void pl_onnx_infer(onnx_build *c, const onnx_node *n) {
    onnx_infer *infer = n->domain[0] && strcmp(n->domain, "ai.onnx") != 0 ? NULL : rule_of(n->op);
    if (infer) infer(c, n);
    for (uint32_t i = 0; i < n->output_count; i++)
        if (n->outputs[i] >= 0) from_declaration(c, n->outputs[i]);
}
