/* onnx: the reader of ONNX files. Files of torch.onnx (tools/onnx_reference.py) become the
 * operators that PyTorch was exported from, whichever exporter wrote them; operators one by one,
 * from models written here byte by byte, have the sizes that ONNX's pages say; damaged and odd
 * files are refused with their place. */
#include <stdlib.h>

#include "check.h"
#include "core/file.h"
#include "graph_sound.h"
#include "import/onnx.h"
#include "import/onnx_wire.h"

static const char *folder;

/* ---- models written here ---- */

typedef struct bytes {
    unsigned char data[1 << 16];
    size_t size;
} bytes;

static void byte(bytes *b, unsigned value) {
    if (b->size < sizeof b->data) b->data[b->size++] = (unsigned char)value;
}

static void varint(bytes *b, uint64_t value) {
    for (; value >= 128; value >>= 7) byte(b, (unsigned)(value & 127) | 128);
    byte(b, (unsigned)value);
}

static void number(bytes *b, unsigned field, int64_t value) {
    varint(b, field << 3);
    varint(b, (uint64_t)value);
}

static void span(bytes *b, unsigned field, const void *data, size_t size) {
    varint(b, field << 3 | 2);
    varint(b, size);
    for (size_t i = 0; i < size; i++) byte(b, ((const unsigned char *)data)[i]);
}

static void text(bytes *b, unsigned field, const char *t) {
    span(b, field, t, strlen(t));
}

static void inner(bytes *b, unsigned field, const bytes *message) {
    span(b, field, message->data, message->size);
}

/* "2x3x8": sizes into out, how many. A name stands for an open dimension: -1. */
static int read_sizes(const char *t, int64_t *out) {
    int count = 0;
    while (*t && *t != ' ') {
        char *end;
        out[count] = strtoll(t, &end, 10);
        if (end == t) out[count] = -1;
        count++;
        t = *t == 'N' ? t + 1 : end;
        if (*t == 'x') t++;
    }
    return count;
}

/* ValueInfoProto of float or int64; open dimensions are called "N". */
static void value_info(bytes *graph, unsigned field, const char *name, int type,
                       const char *sizes) {
    static bytes info, tensor, shape, dim, whole;
    info.size = tensor.size = shape.size = whole.size = 0;
    int64_t list[16];
    int count = sizes ? read_sizes(sizes, list) : 0;
    for (int i = 0; i < count; i++) {
        dim.size = 0;
        if (list[i] >= 0)
            number(&dim, 1, list[i]);
        else
            text(&dim, 2, "N");
        inner(&shape, 1, &dim);
    }
    number(&tensor, 1, type);
    if (sizes) inner(&tensor, 2, &shape);
    inner(&whole, 1, &tensor);
    text(&info, 1, name);
    inner(&info, 2, &whole);
    inner(graph, field, &info);
}

/* Operands: "f2x3" an input of floats, "j2x3" one of int64, "w8x3" weights, "i[1,2]" and "s5"
 * integers (a vector, a number), "n0.5" a number, "-" left out. */
static void operand(bytes *graph, bytes *node, const char *t, int at) {
    char name[32];
    static bytes tensor;
    tensor.size = 0;
    snprintf(name, sizeof name, *t == 'w' ? "layer.w%d" : "v%d", at);
    text(node, 1, *t == '-' ? "" : name);
    int64_t list[64];
    if (*t == '-') return;
    if (*t == 'f' || *t == 'j') {
        value_info(graph, 11, name, *t == 'f' ? 1 : 7, t + 1);
        return;
    }
    text(&tensor, 8, name);
    if (*t == 'w') {
        int count = read_sizes(t + 1, list);
        for (int i = 0; i < count; i++) number(&tensor, 1, list[i]);
        number(&tensor, 2, 1);
        number(&tensor, 14, 1);
    } else if (*t == 'n') {
        float value = (float)atof(t + 1);
        number(&tensor, 2, 1);
        span(&tensor, 9, &value, sizeof value);
    } else {
        int count = 0;
        for (const char *c = t + 1 + (t[1] == '['); *c && *c != ']' && *c != ' ';) {
            list[count++] = strtoll(c, (char **)(uintptr_t)&c, 10);
            if (*c == ',') c++;
        }
        if (*t == 'i') number(&tensor, 1, count);
        number(&tensor, 2, 7);
        span(&tensor, 9, list, (size_t)count * sizeof *list);
    }
    inner(graph, 5, &tensor);
}

/* Attributes: "axis=1 pads=1,1 mode=linear alpha=0.5f". */
static void attributes(bytes *node, const char *t) {
    static bytes attr;
    while (t && *t) {
        char name[32], value[64];
        if (sscanf(t, "%31[^=]=%63s", name, value) != 2) return;
        attr.size = 0;
        text(&attr, 1, name);
        size_t length = strlen(value);
        if (value[length - 1] == 'f' && strchr(value, '.')) {
            float f = (float)atof(value);
            varint(&attr, 2 << 3 | 5);
            for (size_t i = 0; i < 4; i++) byte(&attr, ((unsigned char *)&f)[i]);
        } else if (value[0] == '-' || (value[0] >= '0' && value[0] <= '9')) {
            bool list = strchr(value, ',') != NULL;
            for (const char *c = value; *c;) {
                number(&attr, list ? 8 : 3, strtoll(c, (char **)(uintptr_t)&c, 10));
                if (*c == ',') c++;
            }
        } else {
            text(&attr, 4, value);
        }
        inner(node, 5, &attr);
        t += strcspn(t, " ");
        t += *t == ' ';
    }
}

/* A model of one node. */
static void one_node(bytes *model, const char *op, const char *operands, const char *attrs) {
    static bytes graph, node, set;
    graph.size = node.size = set.size = model->size = 0;
    int at = 0;
    for (const char *t = operands; *t; at++) {
        operand(&graph, &node, t, at);
        t += strcspn(t, " ");
        t += *t == ' ';
    }
    text(&node, 2, "y");
    text(&node, 3, "/layer/node");
    text(&node, 4, op);
    attributes(&node, attrs);
    inner(&graph, 1, &node);
    value_info(&graph, 12, "y", 1, NULL);
    number(model, 1, 8);
    text(model, 2, "pytorch");
    number(&set, 2, 17);
    inner(model, 8, &set);
    inner(model, 7, &graph);
}

static pl_status build(const bytes *model, int64_t batch, pl_graph **graph, pl_error *err) {
    pl_recipe *recipe = NULL;
    *graph = NULL;
    pl_status status = pl_import_onnx(&recipe, model->data, model->size, "m.onnx", NULL, err);
    if (status == PL_OK)
        status = recipe->build(recipe, recipe->batch_assumed ? batch : recipe->batch, recipe->seq,
                               NULL, graph, err);
    pl_recipe_close(&recipe);
    return status;
}

/* ---- operators, one by one ---- */

static const struct {
    const char *op, *operands, *attrs, *out, *target;
} cases[] = {
    {"Relu", "f2x3", "", "2x3", "aten.relu.default"},
    {"Add", "f2x3 w3", "", "2x3", "aten.add.Tensor"},
    {"Mul", "f2x3 n0.5", "", "2x3", "aten.mul.Tensor"},
    {"Sub", "n1.0 f2x3", "", "2x3", "aten.rsub.Scalar"},
    {"Div", "n1.0 f2x3", "", "2x3", "aten.reciprocal.default"},
    {"Pow", "f2x3 n2.0", "", "2x3", "aten.pow.Tensor_Scalar"},
    {"Greater", "f2x3 n0.0", "", "2x3", "aten.gt.Tensor"},
    {"Clip", "f2x3 n0.0 n6.0", "", "2x3", "aten.hardtanh.default"},
    {"LeakyRelu", "f2x3", "alpha=0.2f", "2x3", "aten.leaky_relu.default"},
    {"Softmax", "f2x3", "axis=-1", "2x3", "aten.softmax.int"},
    {"Gelu", "f2x3", "", "2x3", "aten.gelu.default"},
    {"Conv", "f2x3x8x8 w8x3x3x3 w8", "strides=2,2 pads=1,1,1,1", "2x8x4x4", "aten.conv2d.default"},
    {"Conv", "f2x4x9 w8x2x3", "group=2 dilations=2,", "2x8x5", "aten.conv1d.default"},
    {"Conv", "f2x3x7x7 w4x3x3x3", "auto_pad=SAME_UPPER strides=2,2", "2x4x4x4",
     "aten.conv2d.default"},
    {"Conv", "f2x3x8x8 w4x3x3x3", "pads=0,0,1,1", "2x4x7x7", "aten.conv2d.default"},
    {"ConvTranspose", "f2x8x4x4 w8x3x2x2", "strides=2,2", "2x3x8x8", "aten.conv_transpose2d.input"},
    {"MaxPool", "f2x3x7x7", "kernel_shape=3,3 strides=2,2", "2x3x3x3", "aten.max_pool2d.default"},
    {"MaxPool", "f2x3x8x8", "kernel_shape=3,3 strides=2,2 ceil_mode=1", "2x3x4x4",
     "aten.max_pool2d.default"},
    {"AveragePool", "f2x3x8", "kernel_shape=2,2", NULL, NULL},
    {"AveragePool", "f2x3x8x8", "kernel_shape=2,2 strides=2,2", "2x3x4x4",
     "aten.avg_pool2d.default"},
    {"GlobalAveragePool", "f2x3x8x8", "", "2x3x1x1", "aten.adaptive_avg_pool2d.default"},
    {"MatMul", "f2x4x3 f2x3x5", "", "2x4x5", "aten.matmul.default"},
    {"MatMul", "f2x3 f4x5", "", NULL, NULL},
    {"Gemm", "f2x3 w5x3 w5", "transB=1", "2x5", "aten.linear.default"},
    {"Gemm", "f2x3 w3x5 w5", "", "2x5", "aten.addmm.default"},
    {"LayerNormalization", "f2x3x8 w8 w8", "axis=-1", "2x3x8", "aten.layer_norm.default"},
    {"BatchNormalization", "f2x3x8x8 w3 w3 w3 w3", "", "2x3x8x8", "aten.batch_norm.default"},
    {"GroupNormalization", "f2x8x4 w8 w8", "num_groups=2", "2x8x4", "aten.group_norm.default"},
    {"ReduceMean", "f2x3x4", "axes=1,2 keepdims=0", "2", "aten.mean.dim"},
    {"ReduceSum", "f2x3x4 i[-1]", "", "2x3x1", "aten.sum.dim_IntList"},
    {"Reshape", "f2x3x4 i[0,-1]", "", "2x12", "aten.reshape.default"},
    {"Reshape", "f2x3 i[4,2]", "", NULL, NULL},
    {"Flatten", "f2x3x4", "axis=2", "6x4", "aten.reshape.default"},
    {"Transpose", "f2x3x4", "perm=2,0,1", "4x2x3", "aten.permute.default"},
    {"Squeeze", "f2x1x4 i[1]", "", "2x4", "aten.view.default"},
    {"Unsqueeze", "f2x4 i[-1]", "", "2x4x1", "aten.view.default"},
    {"Concat", "f2x3 f2x5", "axis=1", "2x8", "aten.cat.default"},
    {"Slice", "f4x9 i[1] i[9223372036854775807] i[1] i[3]", "", "4x3", "aten.slice.Tensor"},
    {"Slice", "f4x9 i[-1] i[-9223372036854775807] i[1] i[-1]", "", "4x9", "aten.flip.default"},
    {"Gather", "w10x4 j2x3", "", "2x3x4", "aten.embedding.default"},
    {"Gather", "f4x3x2 s1", "axis=1", "4x2", "aten.select.int"},
    {"GatherElements", "f4x3 j4x2", "axis=1", "4x2", "aten.gather.default"},
    {"Expand", "f1x3 i[2,4,3]", "", "2x4x3", "aten.expand.default"},
    {"Tile", "f2x3 i[2,2]", "", "4x6", "aten.repeat.default"},
    {"Pad", "f2x3x4 i[0,0,1,0,0,2]", "", "2x3x7", "aten.constant_pad_nd.default"},
    {"Resize", "f2x3x4x4 - - i[2,3,8,8]", "mode=linear", "2x3x8x8", "aten.upsample_bilinear2d.vec"},
    {"TopK", "f2x9 i[3]", "", "2x3", "aten.topk.default"},
    {"ArgMax", "f2x9", "axis=1 keepdims=0", "2", "aten.argmax.default"},
    {"CumSum", "f2x9 s1", "", "2x9", "aten.cumsum.default"},
    {"Trilu", "f3x3", "upper=0", "3x3", "aten.tril.default"},
    {"DepthToSpace", "f2x8x3x3", "blocksize=2", "2x2x6x6", "aten.pixel_shuffle.default"},
    {"Einsum", "f2x3x4 f2x4x5", "equation=bij,bjk->bik", "2x3x5", "aten.einsum.default"},
    {"Where", "f2x3 n1.0 f2x3", "", "2x3", "aten.masked_fill.Scalar"},
    {"LSTM", "f5x2x3 w1x16x3 w1x16x4 w1x32", "hidden_size=4", "5x1x2x4", "aten.permute.default"},
    {"Attention", "f2x4x6x8 f2x4x6x8 f2x4x6x8", "", "2x4x6x8",
     "aten.scaled_dot_product_attention.default"},
    {"Frobnicate", "f2x3", "", NULL, NULL},
    {"If", "f2x3", "", NULL, NULL},
};

static void operators(void) {
    static bytes model;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pl_graph *g = NULL;
        pl_error err = {0};
        one_node(&model, cases[i].op, cases[i].operands, cases[i].attrs);
        pl_status status = build(&model, 2, &g, &err);
        int failures = check_failures_in_case;
        if (!cases[i].out) {
            CHECK_INT(status, PL_INPUT);
            CHECK(err.message[0] && strncmp(err.where, "m.onnx", 6) == 0);
        } else if (status != PL_OK) {
            check_say(__FILE__, __LINE__, err.message);
        } else {
            int64_t want[16];
            int dims = read_sizes(cases[i].out, want);
            const pl_tensor *t = &g->tensors[g->outputs[0]];
            CHECK(graph_unsound(g) == NULL);
            CHECK_INT(t->dims, dims);
            for (int d = 0; d < dims && d < t->dims; d++) CHECK_INT(t->sizes[d], want[d]);
            CHECK_STR(g->nodes[g->node_count - 1].target, cases[i].target);
        }
        if (check_failures_in_case > failures) printf("    in case %zu, %s\n", i, cases[i].op);
        pl_graph_close(&g);
    }
}

/* ---- the wire ---- */

static void wire(void) {
    static const struct {
        const char *bytes;
        size_t size, wrong; /* wrong: the byte, 99 none */
    } rows[] = {
        {"\x08\x01", 2, 99},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 99}, /* 2^64 - 1 */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, 1},  /* one bit more */
        {"\x08\x80", 2, 1},
        {"\x0a\x05hello", 7, 99},
        {"\x0a\x06hello", 7, 0},
        {"\x0b\x0c", 2, 0}, /* a group */
        {"\x00\x01", 2, 0}, /* field 0 */
        {"\x0d\x01\x02\x03", 4, 1},
        {"\x09\x01\x02\x03\x04\x05\x06\x07\x08", 9, 99},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_wire w = pl_wire_of(rows[i].bytes, rows[i].size);
        pl_wire_field f;
        while (pl_wire_next(&w, &f)) continue;
        CHECK_INT(w.wrong ? w.wrong - (const uint8_t *)rows[i].bytes : 99, rows[i].wrong);
    }
}

static void told_apart(void) {
    static bytes model;
    one_node(&model, "Relu", "f2x3", "");
    CHECK(pl_onnx_is(model.data, model.size));
    CHECK(pl_onnx_is(model.data, model.size - 3)); /* cut short: a broken one */
    CHECK(!pl_onnx_is("", 0));
    CHECK(!pl_onnx_is("{\"a\": 1}", 8));
    CHECK(!pl_onnx_is("PK\003\004aaaaaaaaaaaa", 16));
    CHECK(!pl_onnx_is("kind: mlp\nlayers: 3\n", 20));
    CHECK(!pl_onnx_is("\x08\x08", 2)); /* a version and no graph */
}

/* ---- files of torch.onnx ---- */

static pl_recipe *open_file(const char *name, pl_error *err) {
    char path[512];
    pl_file file;
    pl_recipe *recipe = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (pl_file_open(&file, path, SIZE_MAX, err) != PL_OK) return NULL;
    CHECK(pl_onnx_is(file.bytes, file.size));
    pl_import_onnx(&recipe, file.bytes, file.size, name, NULL, err);
    pl_file_close(&file);
    return recipe;
}

/* Whether the targets of a graph, shortened to their names, are these; others between them are
 * views. */
static void check_operators(const pl_graph *g, const char *const *want) {
    for (int32_t i = 0; i < g->node_count; i++) {
        const char *t = g->nodes[i].target;
        static const char *const views[] = {"aten.view.",      "aten.reshape.", "aten.permute.",
                                            "aten.transpose.", "aten.slice.",   "aten.split",
                                            "aten.add_."};
        bool view = false;
        for (size_t k = 0; k < sizeof views / sizeof *views; k++)
            view |= strncmp(t, views[k], strlen(views[k])) == 0;
        if (view) continue;
        if (!*want) {
            check_say(__FILE__, __LINE__, t);
            return;
        }
        char target[128];
        snprintf(target, sizeof target, "aten.%s", *want);
        CHECK_STR(t, target);
        want++;
    }
    CHECK(!*want);
}

static int64_t parameters(const pl_graph *g) {
    int64_t sum = 0;
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER && g->tensors[i].tied < 0)
            sum += pl_tensor_elements(&g->tensors[i]);
    return sum;
}

typedef struct file_case {
    const char *name;
    int64_t batch, seq, parameters, out[3];
    size_t warnings;
    const char *operators[16];
} file_case;

#define CNN "conv2d.default", "batch_norm.default", "relu_.default", "max_pool2d.default"
#define BLOCK                                                                                      \
    "embedding.default", "layer_norm.default", "linear.default",                                   \
        "scaled_dot_product_attention.default", "add.Tensor", "linear.default", "gelu.default",    \
        "linear.default", "add.Tensor", "linear.default"

static const file_case files[] = {
    {"cnn-old-train.onnx", 5, -1, 1522, {5, 10}, 0, {CNN, "dropout.default", "linear.default"}},
    {"cnn-new-train.onnx", 5, -1, 1522, {5, 10}, 0, {CNN, "dropout.default", "linear.default"}},
    /* folded into the convolution, and put back */
    {"cnn-old-eval.onnx", 5, -1, 1522, {5, 10}, 2, {CNN, "linear.default"}},
    {"cnn-new-eval.onnx", 5, -1, 1522, {5, 10}, 2, {CNN, "linear.default"}},
    {"cnn-static.onnx", 2, -1, 1522, {2, 10}, 0, {CNN, "dropout.default", "linear.default"}},
    {"block-old-train.onnx", 3, 7, 3520, {3, 7, 100}, 1, {BLOCK}},
    {"block-old-13.onnx", 3, 7, 3520, {3, 7, 100}, 1, {BLOCK}},
    {"block-new-train.onnx", 3, 7, 3520, {3, 7, 100}, 1, {BLOCK}},
    /* constants folded: the tied weight stands there twice, once transposed */
    {"block-old-eval.onnx", 3, 7, 3520, {3, 7, 100}, 1, {BLOCK}},
    {"gru-old.onnx",
     3,
     -1,
     836,
     {3, 4},
     1,
     {"full.default", "gru.input", "select.int", "linear.default"}},
    {"groups-old.onnx",
     3,
     -1,
     372,
     {3, 4},
     1,
     {"conv2d.default", "group_norm.default", "silu_.default", "conv_transpose2d.input",
      "upsample_nearest2d.vec", "mean.dim"}},
};

static void exported(void) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const file_case *f = &files[i];
        pl_error err = {0};
        pl_graph *g = NULL;
        int failures = check_failures_in_case;
        pl_recipe *r = open_file(f->name, &err);
        if (!r || r->build(r, f->batch, f->seq, NULL, &g, &err) != PL_OK) {
            check_say(__FILE__, __LINE__, err.message);
        } else {
            const pl_tensor *out = &g->tensors[g->outputs[0]];
            CHECK(graph_unsound(g) == NULL);
            CHECK_INT(r->warning_count, f->warnings);
            CHECK_INT(parameters(g), f->parameters);
            for (int d = 0; d < out->dims && d < 3; d++) CHECK_INT(out->sizes[d], f->out[d]);
            check_operators(g, f->operators);
        }
        if (check_failures_in_case > failures) printf("    in %s\n", f->name);
        pl_graph_close(&g);
        pl_recipe_close(&r);
    }
}

/* The dynamo exporter's metadata: modules, lines, paths of parameters. */
static void metadata(void) {
    pl_error err = {0};
    pl_graph *g = NULL;
    pl_recipe *r = open_file("block-new-train.onnx", &err);
    CHECK(r && r->build(r, 2, 5, NULL, &g, &err) == PL_OK);
    for (int32_t i = 0; g && i < g->node_count; i++) {
        if (strcmp(g->nodes[i].target, "aten.gelu.default") != 0) continue;
        CHECK_STR(pl_node_module(g, i), "act");
        CHECK_STR(g->modules[g->nodes[i].module].type, "torch.nn.modules.activation.GELU");
        CHECK(strstr(g->nodes[i].source, "return self.head(") != NULL);
    }
    CHECK(g && strcmp(g->tensors[0].path, "emb.weight") == 0);
    pl_graph_close(&g);
    pl_recipe_close(&r);
    r = open_file("cnn-old-train.onnx", &err);
    CHECK(r && r->build(r, 2, -1, NULL, &g, &err) == PL_OK);
    if (g) CHECK_STR(pl_node_module(g, 0), "conv1");
    pl_graph_close(&g);
    pl_recipe_close(&r);
}

/* ---- refusals ---- */

static void refused(void) {
    static bytes model;
    pl_error err = {0};
    pl_graph *g = NULL;
    pl_recipe *r = open_file("cnn-static.onnx", &err);
    CHECK(r && r->build(r, 3, -1, NULL, &g, &err) == PL_USAGE);
    CHECK(strstr(err.message, "batch of 2") != NULL && !g);
    pl_recipe_close(&r);

    one_node(&model, "Relu", "f2x3xN", ""); /* neither batch nor sequence */
    CHECK_INT(build(&model, 2, &g, &err), PL_INPUT);
    CHECK(strstr(err.message, "is open (N)") != NULL);

    one_node(&model, "Relu", "fNx3", "");
    CHECK_INT(build(&model, 1 << 20, &g, &err), PL_OK);
    pl_graph_close(&g);
    CHECK_INT(build(&model, INT64_MAX / 4, &g, &err), PL_INPUT); /* larger than any memory */

    one_node(&model, "If", "f2x3", "");
    CHECK_INT(build(&model, 2, &g, &err), PL_INPUT);
    CHECK(strstr(err.message, "/layer/node is a If") != NULL && err.position > 0);

    one_node(&model, "Relu", "f2x3", "");
    CHECK_INT(pl_import_onnx(&r, model.data, model.size - 1, "m.onnx", NULL, &err), PL_INPUT);
    CHECK(err.position >= 0 && !r);
}

/* Memory that runs out anywhere makes a status. */
static void no_memory(void) {
    static const char *const names[] = {"cnn-new-eval.onnx", "block-old-train.onnx"};
    for (size_t i = 0; i < 2; i++) {
        long failed = 0;
        for (long count = 0; count < 4000; count++) {
            pl_error err = {0};
            pl_graph *g = NULL;
            pl_arena_fail_after(count);
            pl_recipe *r = open_file(names[i], &err);
            pl_status status = r ? r->build(r, 2, 5, NULL, &g, &err) : err.code;
            pl_arena_fail_after(-1);
            bool done = status == PL_OK;
            if (!done) {
                CHECK_INT(status, PL_MISSING);
                failed++;
            }
            pl_graph_close(&g);
            pl_recipe_close(&r);
            if (done || check_failures_in_case > 5) break;
        }
        CHECK(failed > 20);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    folder = argv[1];
    RUN(wire);
    RUN(told_apart);
    RUN(operators);
    RUN(exported);
    RUN(metadata);
    RUN(refused);
    RUN(no_memory);
    return check_done();
}
