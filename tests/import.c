/* The .pt2 importer: real exports of PyTorch 2.11 give the graph that their model has; bad files
 * are refused with file, place and what was expected; memory that runs out is reported. Argument:
 * the folder of fixtures (tools/export_fixtures.py made them). */
#include "import_graph.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "core/file.h"
#include "costly.h"
#include "graph_sound.h"
#include "import/pt2.h"
#include "import/zip.h"

static const char *folder = "tests/data/graphs";

static pl_graph *open_fixture(const char *name) {
    char path[512];
    pl_error err = {0};
    pl_graph *graph = NULL;
    snprintf(path, sizeof path, "%s/%s.pt2", folder, name);
    if (import_graph_file(&graph, path, NULL, &err) != PL_OK)
        printf("  %s: %s at %lld: %s\n", path, err.where, (long long)err.position, err.message);
    CHECK(graph != NULL);
    if (graph) {
        const char *wrong = graph_unsound(graph);
        if (wrong) printf("  %s: %s\n", name, wrong);
        CHECK(wrong == NULL);
        CHECK_STR(graph->name, name);
    }
    return graph;
}

static int32_t find(const pl_graph *g, const char *name) {
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (!strcmp(g->tensors[i].name, name)) return i;
    printf("  no tensor %s\n", name);
    return -1;
}

/* The nth node with a target. */
static const pl_node *node_of(const pl_graph *g, const char *target, int nth) {
    for (int32_t i = 0; i < g->node_count; i++)
        if (!strcmp(g->nodes[i].target, target) && nth-- == 0) return &g->nodes[i];
    return NULL;
}

static void check_sizes(const pl_graph *g, const char *name, int dims, const int64_t *sizes,
                        const int64_t *strides) {
    int32_t id = find(g, name);
    CHECK(id >= 0);
    if (id < 0) return;
    const pl_tensor *t = &g->tensors[id];
    CHECK_INT(t->dims, dims);
    for (int i = 0; i < dims && i < t->dims; i++) {
        CHECK_INT(t->sizes[i], sizes[i]);
        CHECK_INT(t->strides[i], strides[i]);
    }
}
#define INTS(...) ((const int64_t[]){__VA_ARGS__})

static void mlp(void) {
    pl_graph *g = open_fixture("mlp");
    if (!g) return;
    CHECK(!strncmp(g->torch_version, "2.11.0", 6));
    CHECK_INT(g->node_count, 3);
    CHECK_INT(g->tensor_count, 8);
    /* parameters first, in the model's order */
    CHECK_STR(g->tensors[0].path, "layers.0.weight");
    CHECK_STR(g->tensors[1].path, "layers.0.bias");
    CHECK_STR(g->tensors[2].path, "layers.2.weight");
    CHECK_STR(g->tensors[3].path, "layers.2.bias");
    CHECK_INT(g->tensors[0].role, PL_ROLE_PARAMETER);
    CHECK(g->tensors[0].requires_grad);
    CHECK_INT(g->tensors[0].dtype, PL_DT_F32);
    check_sizes(g, "p_layers_0_weight", 2, INTS(32, 16), INTS(16, 1));
    CHECK_INT(g->input_count, 1);
    CHECK_INT(g->output_count, 1);
    CHECK_STR(g->tensors[g->inputs[0]].name, "x");
    CHECK_INT(g->tensors[g->inputs[0]].role, PL_ROLE_INPUT);
    CHECK(g->tensors[g->inputs[0]].path == NULL);
    CHECK_INT(g->outputs[0], find(g, "linear_1"));
    CHECK_STR(g->nodes[0].target, "aten.linear.default");
    CHECK_INT(pl_node_tensor(&g->nodes[0], "input"), g->inputs[0]);
    CHECK_INT(pl_node_tensor(&g->nodes[0], "weight"), 0);
    CHECK_INT(pl_node_tensor(&g->nodes[0], "other"), -1);
    CHECK(pl_node_arg(&g->nodes[0], "other") == NULL);
    CHECK_STR(g->modules[g->nodes[0].module].path, "layers.0");
    CHECK_STR(g->modules[g->nodes[0].module].type, "torch.nn.modules.linear.Linear");
    CHECK_STR(g->modules[g->modules[g->nodes[0].module].parent].path, "layers");
    CHECK(strstr(g->nodes[0].source, "return self.layers(x)") != NULL);
    CHECK(!strncmp(g->nodes[0].source, "export_fixtures.py:", 19));
    CHECK_INT(g->symbol_count, 1);
    CHECK_STR(g->symbols[0].role, "batch");
    CHECK_INT(g->symbols[0].hint, 4);
    CHECK_INT(g->symbols[0].least, 1);
    CHECK_INT(g->symbols[0].most, 65536);
    pl_graph_close(&g);
    CHECK(g == NULL);
    pl_graph_close(&g);
    pl_graph_close(NULL);
}

/* Frames of a stack trace and the modules around a node tell which line called each module: GPT-2's
 * blocks from a loop, a layer of PyTorch's own from its block. */
static void lines_that_called_modules(void) {
    static const struct {
        const char *path, *line;
    } calls[] = {{"", ""},
                 {"transformer.wte", "modeling_gpt2.py:569: inputs_embeds = self.wte(input_ids)"},
                 {"transformer.h.0", "modeling_gpt2.py:608: hidden_states = block("},
                 {"transformer.h.0.ln_1", "modeling_gpt2.py:273: hidden_states = self.ln_1("},
                 {"transformer.h.0.attn", "modeling_gpt2.py:274: attn_output, _ = self.attn("}};
    pl_graph *g = open_fixture("gpt2-tiny");
    if (!g) return;
    size_t found = 0;
    for (int32_t m = 0; m < g->module_count; m++)
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            if (strcmp(g->modules[m].path, calls[i].path) != 0) continue;
            const char *line = g->modules[m].line ? g->modules[m].line : "none";
            CHECK(strncmp(line, calls[i].line, strlen(calls[i].line)) == 0);
            found++;
        }
    CHECK_INT(found, sizeof calls / sizeof *calls);
    pl_graph_close(&g);
}

static void static_graph(void) {
    pl_graph *g = open_fixture("mlp-static"), *bound = NULL;
    if (!g) return;
    CHECK_INT(g->symbol_count, 0);
    CHECK_INT(pl_graph_bind(&bound, g, NULL, NULL, NULL), PL_OK);
    CHECK(bound && bound->nodes == g->nodes);
    check_sizes(bound, "linear", 2, INTS(4, 32), INTS(32, 1));
    pl_graph_close(&bound);
    pl_graph_close(&g);
}

static void bound_to_a_batch(void) {
    pl_graph *g = open_fixture("mlp"), *bound = NULL;
    if (!g) return;
    pl_error err = {0};
    CHECK_INT(pl_graph_bind(&bound, g, INTS(100), NULL, &err), PL_OK);
    if (bound) {
        check_sizes(bound, "linear", 2, INTS(100, 32), INTS(32, 1));
        CHECK_INT(bound->symbols[0].hint, 100);
        CHECK(bound->tensors[find(bound, "linear")].size_expr == NULL);
        CHECK(bound->tensors[0].sizes == g->tensors[0].sizes); /* shared */
        CHECK(graph_unsound(bound) == NULL);
    }
    pl_graph_close(&bound);
    check_sizes(g, "linear", 2, INTS(4, 32), INTS(32, 1));
    CHECK_INT(pl_graph_bind(&bound, g, INTS(0), NULL, &err), PL_USAGE);
    CHECK_STR(err.message, "batch s77 is 0; the file was exported for 1 to 65536");
    CHECK(bound == NULL);
    CHECK_INT(pl_graph_bind(&bound, g, INTS(65537), NULL, &err), PL_USAGE);
    pl_graph_close(&g);
}

/* tools/export_fixtures.py, class Mixed: batch 6, sequence 18 at export. */
static void check_mixed(const pl_graph *g) {
    int32_t scale = find(g, "b_scale");
    CHECK_INT(g->tensors[scale].role, PL_ROLE_BUFFER);
    CHECK(g->tensors[scale].persistent);
    CHECK(!g->tensors[find(g, "b_scratch")].persistent);
    CHECK_INT(g->tensors[find(g, "c_lifted_tensor_0")].role, PL_ROLE_CONSTANT);
    CHECK_INT(g->tensors[find(g, "ids")].dtype, PL_DT_I64);
    /* tied weights */
    CHECK_INT(g->tensors[find(g, "p_tok_weight")].tied, find(g, "p_head_weight"));
    CHECK_INT(g->tensors[find(g, "p_head_weight")].tied, -1);
    CHECK_INT(g->tensors[find(g, "p_fc_weight")].tied, -1);
    /* three calls of one module */
    for (int i = 0; i < 3; i++) {
        const pl_node *n = node_of(g, "aten.linear.default", i);
        CHECK(n && n->module >= 0);
        if (!n) continue;
        CHECK_STR(g->modules[n->module].path, "fc");
        CHECK_INT(g->modules[n->module].call, i);
        CHECK_INT(n->autocast, i == 2 ? PL_AUTOCAST_BF16 : PL_AUTOCAST_JOB);
        CHECK(!n->no_grad);
    }
    /* the no_grad part is inlined */
    const pl_node *cos = node_of(g, "aten.cos.default", 0);
    CHECK(cos && cos->no_grad);
    CHECK(!node_of(g, "higher_order.wrap_with_set_grad_enabled", 0));
    CHECK(!node_of(g, "higher_order.wrap_with_autocast", 0));
    const pl_node *add = node_of(g, "aten.add.Tensor", 0);
    CHECK(add && cos && pl_node_tensor(add, "other") == cos->outputs[0]);
    CHECK(add && !add->no_grad);
    /* sizes are no nodes */
    CHECK(!node_of(g, "_operator.mul", 0) && !node_of(g, "aten.sym_size.int", 0) &&
          !node_of(g, "torch.sym_float", 0));
    const pl_node *chunk = node_of(g, "aten.chunk.default", 0);
    CHECK(chunk && chunk->output_is_list && chunk->output_count == 2);
    /* PyTorch 2.6 writes 0 for every offset */
    CHECK(chunk &&
          g->tensors[chunk->outputs[1]].offset == (strncmp(g->torch_version, "2.6", 3) ? 8 : 0));
    CHECK_INT(chunk ? pl_node_int(chunk, "dim", 0) : 0, -1);
    const pl_node *lstm = node_of(g, "aten.lstm.input", 0);
    CHECK(lstm && !lstm->output_is_list && lstm->output_count == 3);
    const pl_arg *params = lstm ? pl_node_arg(lstm, "params") : NULL;
    CHECK(params && params->kind == PL_ARG_TENSORS && params->count == 4);
    CHECK_INT(lstm ? pl_node_int(lstm, "batch_first", 0) : 0, 1);
    const pl_node *fill = node_of(g, "aten.masked_fill.Scalar", 0);
    CHECK(fill && isinf(pl_node_float(fill, "value", 0)) && pl_node_float(fill, "value", 0) < 0);
    const pl_node *norm = node_of(g, "aten.batch_norm.default", 0);
    CHECK(norm && fabs(pl_node_float(norm, "eps", 0) - 1e-5) < 1e-12);
    CHECK(norm && pl_node_float(norm, "nothing", 2.5) == 2.5);
    const pl_node *index = node_of(g, "aten.index.Tensor", 0);
    const pl_arg *indices = index ? pl_node_arg(index, "indices") : NULL;
    CHECK(indices && indices->kind == PL_ARG_TENSORS && indices->count == 1);
    const pl_node *to = node_of(g, "aten.to.dtype", 0);
    CHECK_INT(to ? pl_node_int(to, "dtype", 0) : 0, PL_DT_F32);
    /* symbolic arguments have their value at export */
    const pl_node *zeros = node_of(g, "aten.zeros.default", 2);
    const pl_arg *size = zeros ? pl_node_arg(zeros, "size") : NULL;
    CHECK(size && size->kind == PL_ARG_INTS && size->count == 2 && size->list_expr);
    if (size && size->count == 2) {
        CHECK_INT(size->ints[0], 12);
        CHECK_INT(size->ints[1], 55);
    }
    const pl_node *mul = node_of(g, "aten.mul.Tensor", 1);
    CHECK(mul && fabs(pl_node_float(mul, "other", 0) - sqrt(6)) < 1e-9);
    CHECK_INT(g->symbol_count, 2);
    CHECK_INT(g->output_count, 7);
}

static void mixed(void) {
    pl_graph *g = open_fixture("mixed"), *bound = NULL;
    if (!g) return;
    check_mixed(g);
    int64_t values[2];
    for (int i = 0; i < 2; i++) {
        bool batch = !strcmp(g->symbols[i].role, "batch");
        CHECK(batch || !strcmp(g->symbols[i].role, "seq"));
        CHECK_INT(g->symbols[i].hint, batch ? 6 : 18);
        values[i] = batch ? 10 : 31;
    }
    pl_error err = {0};
    CHECK_INT(pl_graph_bind(&bound, g, values, NULL, &err), PL_OK);
    if (!bound) printf("  %s\n", err.message);
    if (bound) {
        CHECK(graph_unsound(bound) == NULL);
        check_sizes(bound, "embedding", 3, INTS(10, 31, 16), INTS(496, 16, 1));
        check_sizes(bound, "conv1d", 3, INTS(10, 12, 16), INTS(192, 16, 1)); /* (31 - 1) // 2 + 1 */
        check_sizes(bound, "reshape", 2, INTS(310, 16), INTS(16, 1));
        check_sizes(bound, "zeros_2", 2, INTS(20, 94), INTS(94, 1));
        const pl_arg *size = pl_node_arg(node_of(bound, "aten.zeros.default", 2), "size");
        CHECK(size && !size->list_expr && size->ints[0] == 20 && size->ints[1] == 94);
        const pl_arg *end = pl_node_arg(node_of(bound, "aten.arange.default", 0), "end");
        CHECK(end && end->i == 10 && !end->expr);
    }
    pl_graph_close(&bound);
    pl_graph_close(&g);
}

/* The archive as PyTorch 2.6 laid it out, written by that version. */
static void older(void) {
    pl_graph *g = open_fixture("older");
    if (!g) return;
    CHECK_STR(g->torch_version, "2.6.0+cu124");
    check_mixed(g);
    pl_graph_close(&g);
}

static void decomposed(void) {
    pl_graph *g = open_fixture("mixed-decomposed");
    if (!g) return;
    CHECK_INT(g->mutation_count, 3);
    for (int32_t i = 0; i < g->mutation_count; i++) {
        CHECK_INT(g->tensors[g->mutations[i][0]].role, PL_ROLE_BUFFER);
        CHECK(g->tensors[g->mutations[i][1]].producer >= 0);
    }
    CHECK_INT(g->output_count, 7); /* the mutations are not among them */
    pl_graph_close(&g);
}

static void higher_order_stays(void) {
    pl_graph *g = open_fixture("cond");
    if (!g) return;
    const pl_node *cond = node_of(g, "higher_order.cond", 0);
    CHECK(cond != NULL);
    CHECK(!node_of(g, "aten.sin.default", 0));
    if (cond) {
        CHECK_INT(cond->arg_count, 4);
        CHECK_INT(cond->args[1].kind, PL_ARG_OTHER);
        CHECK_INT(cond->args[3].kind, PL_ARG_TENSORS);
        CHECK(cond->output_count == 1 && cond->outputs[0] >= 0);
    }
    pl_graph_close(&g);
}

static void language_models(void) {
    static const struct {
        const char *name, *from, *to;
    } rows[] = {{"gpt2-tiny", "p_transformer_wte_weight", "p_lm_head_weight"},
                {"bert-tiny", "p_cls_predictions_bias", "p_cls_predictions_decoder_bias"}};
    for (int i = 0; i < 2; i++) {
        pl_graph *g = open_fixture(rows[i].name), *bound = NULL;
        if (!g) continue;
        CHECK_INT(g->tensors[find(g, rows[i].from)].tied, find(g, rows[i].to));
        CHECK_INT(g->symbol_count, 2);
        int64_t values[2];
        for (int k = 0; k < 2; k++) values[k] = !strcmp(g->symbols[k].role, "batch") ? 3 : 9;
        CHECK_INT(pl_graph_bind(&bound, g, values, NULL, NULL), PL_OK);
        if (bound)
            check_sizes(bound, bound->tensors[bound->inputs[0]].name, 2, INTS(3, 9), INTS(9, 1));
        if (bound && i == 0)
            check_sizes(bound, "linear", 3, INTS(3, 9, 128), INTS(9 * 128, 128, 1));
        pl_graph_close(&bound);
        pl_graph_close(&g);
    }
}

static void vision_models(void) {
    pl_graph *g = open_fixture("resnet18"), *v = open_fixture("vit"), *bound = NULL;
    if (g) {
        int64_t parameters = 0;
        for (int32_t i = 0; i < g->tensor_count; i++)
            if (g->tensors[i].role == PL_ROLE_PARAMETER)
                parameters += pl_tensor_elements(&g->tensors[i]);
        CHECK_INT(parameters, 11689512); /* torchvision's documentation */
        CHECK_INT(pl_graph_bind(&bound, g, INTS(32), NULL, NULL), PL_OK);
        if (bound)
            check_sizes(bound, "conv2d", 4, INTS(32, 64, 112, 112), INTS(802816, 12544, 112, 1));
        pl_graph_close(&bound);
    }
    if (v) {
        CHECK_INT(pl_graph_bind(&bound, v, INTS(5), NULL, NULL), PL_OK);
        if (bound)
            check_sizes(bound, bound->tensors[bound->outputs[0]].name, 2, INTS(5, 10), INTS(10, 1));
        pl_graph_close(&bound);
    }
    pl_graph_close(&g);
    pl_graph_close(&v);
}

/* ---- bad files ---- */

/* The smallest model: y = relu(x). */
static const char model[] =
    "{\"graph_module\": {\"graph\": {\"inputs\": [{\"as_tensor\": {\"name\": \"x\"}}], "
    "\"outputs\": [], \"nodes\": ["
    "{\"target\": \"torch.ops.aten.relu.default\", \"inputs\": [{\"name\": \"self\", \"arg\": "
    "{\"as_tensor\": {\"name\": \"x\"}}}], "
    "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}], \"metadata\": {\"nn_module_stack\": "
    "\"L__self__,,M;L__self__r,r,torch.R[a, b]\"}}], "
    "\"tensor_values\": {\"x\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}], \"requires_grad\": "
    "false, \"strides\": [{\"as_int\": 1}], "
    "\"storage_offset\": {\"as_int\": 0}}, \"y\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}], "
    "\"requires_grad\": false, "
    "\"strides\": [{\"as_int\": 1}], \"storage_offset\": {\"as_int\": 0}}}, \"sym_int_values\": "
    "{}}, "
    "\"signature\": {\"input_specs\": [{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": "
    "\"x\"}}}}], "
    "\"output_specs\": [{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"y\"}}}}]}}, "
    "\"range_constraints\": {}, \"schema_version\": {\"major\": 8, \"minor\": 17}, "
    "\"torch_version\": \"2.11.0\"}";

/* The model with the nth `from` made `to`, imported from an exact copy. */
static pl_status import_changed(const char *from, int nth, const char *to, pl_graph **graph,
                                pl_error *err, int64_t *place) {
    static char text[1 << 16];
    const char *at = strstr(model, from);
    while (at && nth--) at = strstr(at + 1, from);
    if (!at) {
        printf("  no '%s' in the model\n", from);
        CHECK(false);
        at = model;
    }
    size_t before = (size_t)(at - model), length = strlen(to);
    memcpy(text, model, before);
    memcpy(text + before, to, length);
    strcpy(text + before + length, at + strlen(from));
    *place = (int64_t)before;
    size_t size = strlen(text);
    char *exact = malloc(size);
    memcpy(exact, text, size);
    memset(err, 0, sizeof *err);
    pl_status status = import_graph_memory(graph, exact, size, "m.json", NULL, err);
    free(exact);
    if (*graph) CHECK(graph_unsound(*graph) == NULL);
    return status;
}

static void wrong_models(void) {
    static const struct {
        const char *from;
        int nth;
        const char *to, *message;
        int64_t offset; /* of the error from where the change is; -1: elsewhere */
    } rows[] = {
        {"{\"as_int\": 4}", 0, "{\"as_int\": -4}", "a size of at least 0", 0},
        {"{\"as_int\": 4}", 0, "{\"as_int\": 99999999999999999999}", "an integer of 64 bits", 11},
        {"{\"as_int\": 4}", 0, "{\"as_int\": 4611686018427387904}", "2^56 bytes", -1},
        {"{\"as_int\": 4}", 0, "{\"as_int\": \"4\"}", "a number", 11},
        {"{\"as_int\": 4}", 0, "{\"as_int\": 1.5}", "an integer", 11},
        {"{\"as_int\": 4}", 0, "{}", "as_int or as_expr", -1},
        {"{\"as_int\": 4}", 0, "{\"as_int\": 4}, {\"as_int\": 4}", "as many strides as sizes", -1},
        {"[{\"as_int\": 4}]", 0, "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "at most 16 dimensions",
         -1},
        {"{\"as_int\": 4}", 0, "{\"as_expr\": {\"expr_str\": \"4*\"}}",
         "character 2 of the expression 4*", 28},
        {"{\"as_int\": 4}", 0, "{\"as_expr\": {\"hint\": null}}", "expr_str", -1},
        {"{\"as_int\": 1}", 0, "{\"as_int\": 9223372036854775807}", "2^56 bytes", -1},
        {"{\"as_int\": 0}", 0, "{\"as_int\": 9223372036854775807}", "2^56 bytes", -1},
        {"\"dtype\": 7, ", 0, "", "dtype, sizes and strides", -1},
        {"\"dtype\": 7", 0, "\"dtype\": -3", "dtype, sizes and strides", -1},
        {"\"sizes\"", 0, "\"shape\"", "dtype, sizes and strides", -1},
        {"false", 0, "0", "true or false", 0},
        {"\"name\": \"x\"", 1, "\"name\": \"z\"", "a tensor that the graph knows, not z", -1},
        {"\"name\": \"x\"", 1, "\"name\": \"y\"", "y to be made before it is used", -1},
        {"\"name\": \"x\"", 1, "\"label\": \"x\"", "the name of a tensor", -1},
        {"\"name\": \"y\"", 0, "\"name\": \"x\"", "x to be an input, not made by a node", -1},
        {"\"name\": \"y\"", 1, "\"name\": \"q\"", "a tensor that the graph knows, not q", -1},
        {"\"y\": {\"dtype\"", 0, "\"x\": {\"dtype\"", "one description of tensor x, not two", 1},
        {"\"y\": {\"dtype\"", 0, "\"w\": {\"dtype\"", "a tensor that the graph knows, not y", -1},
        {"{\"user_input\"", 0, "{\"parameter\"", "parameter_name", -1},
        {"[{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}", 0,
         "[{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}, {\"user_input\": "
         "{\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}",
         "x once among the inputs", -1},
        {"[{\"user_output\"", 0,
         "[{\"buffer_mutation\": {\"arg\": {\"name\": \"y\"}, \"buffer_name\": \"b\"}}, "
         "{\"user_output\"",
         "an input or buffer, not b", -1},
        {"\"input_specs\"", 0, "\"specs\"", "input_specs and output_specs", -1},
        {"\"signature\"", 0, "\"signatures\"", "graph and signature", -1},
        {"\"nodes\"", 0, "\"knots\"", "nodes and tensor_values", -1},
        {"\"graph_module\"", 0, "\"module\"", "a model of torch.export", -1},
        {"\"schema_version\"", 0, "\"schema\"", "a model of torch.export", -1},
        {"\"major\": 8", 0, "\"major\": 9", "schema version 8 (PyTorch 2.6 to 2.13), not 9.17", -1},
        {"\"target\"", 0, "\"goal\"", "target, inputs and outputs", -1},
        {"\"outputs\": [{", 0, "\"results\": [{", "target, inputs and outputs", -1},
        {"\"range_constraints\": {}", 0,
         "\"range_constraints\": {\"s0\": {\"min_val\": 5, \"max_val\": 2}}", "min_val at or below",
         -1},
        {"{\"as_tensor\": {\"name\": \"x\"}}}], ", 0, "{\"as_sym_int\": {\"as_name\": \"k\"}}}], ",
         "a symbolic number that the graph knows, not k", -1},
        {"\"sym_int_values\": {}", 0,
         "\"sym_int_values\": {\"k\": {\"as_int\": 1}, \"k\": {\"as_int\": 2}}",
         "one value of the symbolic number k", -1},
        {"\"torch_version\": \"2.11.0\"}", 0, "\"torch_version\": \"2.11.0\"} x",
         "the end of the text", 27},
        {"torch.ops.aten.relu.default", 0, "torch.ops.aten.\nrelu", "no control character", 15},
        {"\"torch.ops.aten.relu.default\", \"inputs\": [", 0,
         "\"torch.ops.higher_order.wrap_with_set_grad_enabled\", \"inputs\": [{\"name\": \"\", "
         "\"arg\": {\"as_bool\": false}}, {\"name\": \"\", "
         "\"arg\": {\"as_graph\": {\"name\": \"g\", \"graph\": {\"nodes\": [], \"tensor_values\": "
         "{}, \"outputs\": []}}}}, ",
         "as many results as the subgraph has outputs", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_graph *graph = NULL;
        pl_error err = PL_SIZED(pl_error);
        int64_t place;
        pl_status status =
            import_changed(rows[i].from, rows[i].nth, rows[i].to, &graph, &err, &place);
        if (status != PL_INPUT || !strstr(err.message, rows[i].message))
            printf("  %s -> %s: %d at %lld, '%s'\n", rows[i].from, rows[i].to, status,
                   (long long)err.position, err.message);
        CHECK_INT(status, PL_INPUT);
        CHECK(graph == NULL);
        CHECK(strstr(err.message, rows[i].message) != NULL);
        CHECK(!strncmp(err.message, "expected ", 9));
        CHECK_STR(err.where, "m.json");
        CHECK(err.position >= 0);
        if (rows[i].offset >= 0) CHECK_INT(err.position - place, rows[i].offset);
        pl_graph_close(&graph);
    }
}

static void odd_but_right(void) {
    static const struct {
        const char *from;
        int nth;
        const char *to;
    } rows[] = {
        {"{\"as_int\": 4}", 0, "4"},
        {"{\"as_int\": 4}", 0, "{\"as_int\": 4, \"as_expr\": null}"},
        {"{\"as_int\": 4}", 0, "{\"as_expr\": {\"expr_str\": \"s0\", \"hint\": {\"as_int\": 4}}}"},
        {"{\"as_int\": 4}", 0, "{\"as_expr\": {\"expr_str\": \"u0\", \"hint\": null}}"},
        {"{\"as_int\": 4}", 0, "{\"as_expr\": {\"expr_str\": \"u0\"}}"},
        {"{\"as_int\": 4}", 0, "{\"as_expr\": {\"expr_str\": \"Integer(4)\"}}"},
        {"{\"as_int\": 4}", 0,
         "{\"as_expr\": {\"expr_str\": \"Novel(s0)\", \"hint\": {\"as_int\": 4}}}"},
        {"\"dtype\": 7", 0, "\"dtype\": 99"},
        {"\"sym_int_values\": {}", 0, "\"sym_int_values\": {}, \"novel\": [{\"a\": NaN}]"},
        {"\"nn_module_stack\"", 0,
         "\"stack_trace\": \"  File \\\"/a/b.py\\\", line 3, in f\\n    x = \\\"\\u00e9\\\"\\n\", "
         "\"nn_module_stack\""},
        {"\"nn_module_stack\"", 0, "\"stack_trace\": \"File \\\"\", \"nn_module_stack\""},
        {"\"nn_module_stack\"", 0,
         "\"stack_trace\": \"File \\\"a\\\", line \\\\\", \"nn_module_stack\""},
        {"L__self__,,M;L__self__r,r,torch.R[a, b]", 0, ",;;,,,;@;@1,a@1;[,"},
        {"{\"as_tensor\": {\"name\": \"y\"}}], ", 0,
         "{\"as_tensor\": {\"name\": \"y\"}}, {\"as_tensor\": {\"name\": \"y_unused_1\"}}], "},
        {"{\"as_tensor\": {\"name\": \"y\"}}], ", 0,
         "{\"as_tensor\": {\"name\": \"y\"}}, {\"as_none\": true}, {\"as_sym_int\": {\"as_name\": "
         "\"u0\"}}, {\"as_optional_tensor\": {\"as_none\": true}}], "},
        {"{\"as_tensor\": {\"name\": \"x\"}}}], ", 0,
         "{\"as_optional_tensors\": [{\"as_none\": true}, {\"as_tensor\": {\"name\": \"x\"}}]}}, "
         "{\"name\": \"b\", \"arg\": {\"as_complex\": {\"real\": "
         "1.0, \"imag\": \"Infinity\"}}}, {\"name\": \"c\", \"arg\": {\"as_nested_tensors\": "
         "[[{\"name\": \"x\"}], []]}}, {\"name\": \"d\", \"arg\": "
         "{\"as_string_to_argument\": {\"k\": {\"as_tensor\": {\"name\": \"x\"}}, \"l\": "
         "{\"as_int\": 3}}}}, {\"name\": \"e\", \"arg\": "
         "{\"as_float\": NaN}}, {\"name\": \"f\", \"arg\": {\"as_floats\": [1, \"-Infinity\", "
         "-Infinity]}}, {\"name\": \"g\", \"arg\": {\"as_strings\": "
         "[\"a\"]}}, {\"name\": \"h\", \"arg\": {\"as_int\": 99999999999999999999}}, {\"name\": "
         "\"i\", \"arg\": {\"as_novel\": {}}}, {\"name\": "
         "\"j\", \"arg\": {\"as_bools\": [true, false]}}, {\"name\": \"k\", \"arg\": "
         "{\"as_sym_bool\": {\"as_bool\": true}}}, {\"name\": \"l\", "
         "\"arg\": {\"as_sym_floats\": [{\"as_float\": 1.5}]}}, {\"name\": \"m\", \"arg\": {}}, "
         "{\"name\": \"n\", \"arg\": {\"as_int_lists\": "
         "[[1]]}}], "},
        {"\"range_constraints\": {}", 0,
         "\"range_constraints\": {\"s0\": {\"min_val\": null, \"max_val\": null}, \"s1\": "
         "{\"min_val\": \"-int_oo\", \"max_val\": \"int_oo\"}, "
         "\"s2\": {\"min_val\": -Infinity, \"max_val\": Infinity}, \"s3\": {\"min_val\": "
         "-9223372036854775808, \"max_val\": 18446744073709551616}}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_graph *graph = NULL;
        pl_error err = PL_SIZED(pl_error);
        int64_t place;
        pl_status status =
            import_changed(rows[i].from, rows[i].nth, rows[i].to, &graph, &err, &place);
        if (status != PL_OK)
            printf("  %s -> %s: at %lld, '%s'\n", rows[i].from, rows[i].to, (long long)err.position,
                   err.message);
        CHECK_INT(status, PL_OK);
        pl_graph_close(&graph);
    }
    pl_graph *graph = NULL;
    pl_error err = PL_SIZED(pl_error);
    int64_t place;
    CHECK_INT(
        import_changed("{\"as_int\": 4}", 0,
                       "{\"as_expr\": {\"expr_str\": \"Novel(s0)\", \"hint\": {\"as_int\": 4}}}",
                       &graph, &err, &place),
        PL_OK);
    if (graph) { /* read, with its size at export; another size is refused by name */
        CHECK_INT(graph->tensors[0].sizes[0], 4);
        pl_graph *bound = NULL;
        CHECK_INT(pl_graph_bind(&bound, graph, INTS(8), NULL, &err), PL_USAGE);
        CHECK(strstr(err.message,
                     "Novel(s0) comes to a function that this program does not know") != NULL);
        CHECK(bound == NULL);
    }
    pl_graph_close(&graph);
    CHECK_INT(import_changed("{\"as_int\": 4}", 0,
                             "{\"as_expr\": {\"expr_str\": \"s0**4\", \"hint\": {\"as_int\": 16}}}",
                             &graph, &err, &place),
              PL_OK);
    if (graph) {
        pl_graph *bound = NULL;
        CHECK_INT(pl_graph_bind(&bound, graph, INTS(1 << 15), NULL, &err), PL_USAGE);
        CHECK(strstr(err.message, "too large") != NULL);
    }
    pl_graph_close(&graph);
}

/* What the smallest model holds of modules, and that order of keys does not matter. */
static void modules_and_order(void) {
    pl_graph *graph = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(import_graph_memory(&graph, model, strlen(model), "a/b.c/m.json", NULL, &err), PL_OK);
    if (graph) {
        CHECK_STR(graph->name, "m");
        CHECK_INT(graph->module_count, 2);
        CHECK_STR(graph->modules[1].path, "r");
        CHECK_STR(graph->modules[1].type, "torch.R[a, b]");
        CHECK_STR(graph->modules[0].path, "");
        CHECK_INT(graph->modules[1].parent, 0);
    }
    pl_graph_close(&graph);
    /* the signature before the graph, as a writer that sorts keys differently would have it */
    char text[4096];
    const char *graph_at = strstr(model, "\"graph\": "),
               *signature_at = strstr(model, "\"signature\": "),
               *end = strstr(model, "}, \"range_constraints\"");
    snprintf(text, sizeof text, "%.*s%.*s, %.*s%s", (int)(graph_at - model), model,
             (int)(end - signature_at), signature_at, (int)(signature_at - 2 - graph_at), graph_at,
             end);
    CHECK_INT(import_graph_memory(&graph, text, strlen(text), "m.json", NULL, &err), PL_OK);
    if (graph)
        CHECK_INT(graph->input_count, 1);
    else
        printf("  at %lld: %s\n", (long long)err.position, err.message);
    pl_graph_close(&graph);
}

static void not_a_model(void) {
    static const struct {
        const char *bytes, *message;
        size_t size;
    } rows[] = {
        {"", "empty", 0},
        {" \n", "empty", 2},
        {"\x81\x02}q", "this is none of them", 4},
        {"[]", "this is none of them", 2},
        {"{", "a key in quotes", 1},
        {"{}", "has none of their keys", 2},
        {"PK\3\4", "end record", 4},
        {"PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "models/model.json", 22},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_graph *graph = NULL;
        pl_error err = {0};
        CHECK_INT(import_graph_memory(&graph, rows[i].bytes, rows[i].size, "f", NULL, &err),
                  PL_INPUT);
        CHECK(strstr(err.message, rows[i].message) != NULL);
        CHECK_STR(err.where, "f");
        CHECK(err.position >= 0);
        CHECK(graph == NULL);
    }
    pl_graph *graph = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(import_graph_file(&graph, "tests/data/no-such-file.pt2", NULL, &err), PL_INPUT);
    CHECK(strstr(err.message, "No such file") != NULL);
    CHECK_INT(import_graph_file(&graph, "tests", NULL, &err), PL_INPUT);
    CHECK(strstr(err.message, "a folder without a config.json") != NULL);
    CHECK_INT(import_graph_file(&graph, "/dev/null", NULL, &err), PL_INPUT);
    CHECK(strstr(err.message, "not a device") != NULL);
    CHECK_INT(import_graph_file(&graph, "tests/data/no-such-file.pt2", NULL, NULL), PL_INPUT);
}

static void every_truncation(void) {
    static const char *const names[] = {"mlp", "mlp-static"};
    for (int f = 0; f < 2; f++) {
        char path[512];
        pl_file file;
        snprintf(path, sizeof path, "%s/%s.pt2", folder, names[f]);
        CHECK_INT(pl_file_open(&file, path, SIZE_MAX, NULL), PL_OK);
        for (size_t size = 0; size < file.size; size++) {
            char *exact = malloc(size ? size : 1);
            memcpy(exact, file.bytes, size);
            pl_graph *graph = NULL;
            pl_error err = {0};
            CHECK_INT(import_graph_memory(&graph, exact, size, path, NULL, &err), PL_INPUT);
            CHECK(err.position >= 0 && err.message[0] && graph == NULL);
            free(exact);
        }
        pl_file_close(&file);
    }
    for (size_t size = 0; size + 1 < sizeof model; size++) {
        char *exact = malloc(size ? size : 1);
        memcpy(exact, model, size);
        pl_graph *graph = NULL;
        pl_error err = {0};
        CHECK_INT(import_graph_memory(&graph, exact, size, "m.json", NULL, &err), PL_INPUT);
        CHECK(err.position >= 0 && err.position <= (int64_t)size && err.message[0] &&
              graph == NULL);
        free(exact);
    }
}

/* Wrapped graphs in wrapped graphs, to a depth that the settings forbid; and lists in lists. */
static void nesting_is_bounded(void) {
    enum { LEVELS = 2000 };
    static const char open[] =
        "{\"inputs\": [], \"outputs\": [], \"tensor_values\": {}, \"nodes\": [{\"target\": "
        "\"torch.ops.higher_order.wrap_with_set_grad_enabled\", \"outputs\": [], \"inputs\": "
        "[{\"arg\": "
        "{\"as_bool\": false}}, {\"arg\": {\"as_graph\": {\"graph\": ",
                      inner[] = "{\"nodes\": [], \"tensor_values\": {}}", close[] = "}}}]}]}";
    for (int levels = 5; levels <= LEVELS; levels *= 20) {
        size_t room = (size_t)levels * (sizeof open + sizeof close) + 4096;
        char *text = malloc(room), *at = text;
        at += sprintf(at, "{\"graph_module\": {\"graph\": ");
        for (int i = 0; i < levels; i++) at = stpcpy(at, open);
        at = stpcpy(at, inner);
        for (int i = 0; i < levels; i++) at = stpcpy(at, close);
        at = stpcpy(at, ", \"signature\": {\"input_specs\": [], \"output_specs\": []}}, "
                        "\"schema_version\": {\"major\": 8, \"minor\": 1}}");
        pl_graph *graph = NULL;
        pl_error err = {0};
        pl_status status =
            import_graph_memory(&graph, text, (size_t)(at - text), "deep", NULL, &err);
        CHECK_INT(status, levels == 5 ? PL_OK : PL_INPUT);
        if (levels > 5)
            CHECK(strstr(err.message, "depth limit") != NULL);
        else if (status != PL_OK)
            printf("  %s\n", err.message);
        pl_graph_close(&graph);
        pl_reading loose = {.depth_limit = 1 << 30};
        status = import_graph_memory(&graph, text, (size_t)(at - text), "deep", &loose, &err);
        CHECK_INT(status, levels < LEVELS ? PL_OK : PL_INPUT);
        pl_graph_close(&graph);
        free(text);
    }
}

static void limits_hold(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/resnet18.pt2", folder);
    pl_graph *graph = NULL;
    pl_error err = {0};
    pl_budget budget = {.most_bytes = 100000};
    pl_reading settings = {.budget = &budget, .depth_limit = 512};
    CHECK_INT(import_graph_file(&graph, path, &settings, &err), PL_LIMIT);
    CHECK(strstr(err.message, "100000") != NULL);
    CHECK_INT(budget.bytes, 0);
    budget = (pl_budget){.most_bytes = 250000}; /* the JSON fits, the graph does not */
    CHECK_INT(import_graph_file(&graph, path, &settings, &err), PL_LIMIT);
    CHECK_INT(budget.bytes, 0);
    budget = (pl_budget){0}; /* none */
    CHECK_INT(import_graph_file(&graph, path, &settings, &err), PL_OK);
    pl_graph_close(&graph);
    settings.depth_limit = 4;
    CHECK_INT(import_graph_file(&graph, path, &settings, &err), PL_INPUT);
    CHECK(strstr(err.message, "depth limit") != NULL);
}

static void memory_runs_out(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/mixed.pt2", folder);
    long count = 0;
    for (;; count++) {
        pl_graph *graph = NULL, *bound = NULL;
        pl_error err = {0};
        pl_arena_fail_after(count);
        pl_status status = import_graph_file(&graph, path, NULL, &err);
        pl_status bind = PL_OK;
        if (status == PL_OK) {
            int64_t values[2] = {graph->symbols[0].hint, graph->symbols[1].hint};
            bind = pl_graph_bind(&bound, graph, values, NULL, &err);
        }
        pl_arena_fail_after(-1);
        bool done = status == PL_OK && bind == PL_OK;
        if (!done && err.code != PL_MISSING)
            printf("  after %ld: %d, %s\n", count, err.code, err.message);
        CHECK(done || (err.code == PL_MISSING && err.message[0] && !bound));
        CHECK(status == PL_OK || !graph);
        pl_graph_close(&bound);
        pl_graph_close(&graph);
        if (done || count > 100000) break;
    }
    CHECK(count > 100 && count < 100000);
    printf("# memory refused at each of %ld allocations\n", count);
}

/* ---- growth ---- */

/* Bytes per operator do not grow with the graph; steps: tests/growth.c. */
static void memory_grows_as_the_graph(void) {
    double bytes[4] = {0};
    for (int k = 0, n = 100; k < 4; k++, n *= 10) {
        size_t size;
        char *text = costly_chain(n, &size);
        pl_graph *graph = NULL, *bound = NULL;
        CHECK_INT(import_graph_memory(&graph, text, size, "chain", NULL, NULL), PL_OK);
        if (graph) {
            CHECK_INT(graph->node_count, n);
            bytes[k] = (double)pl_arena_used(graph->arena) / n;
            CHECK_INT(pl_graph_bind(&bound, graph, INTS(64), NULL, NULL), PL_OK);
            printf("# %6d operators: %.0f bytes each\n", n, bytes[k]);
        }
        pl_graph_close(&bound);
        pl_graph_close(&graph);
        free(text);
    }
    CHECK(bytes[3] < bytes[0] * 1.5);
}

int main(int argc, char **argv) {
    if (argc > 1) folder = argv[1];
    RUN(mlp);
    RUN(lines_that_called_modules);
    RUN(static_graph);
    RUN(bound_to_a_batch);
    RUN(mixed);
    RUN(older);
    RUN(decomposed);
    RUN(higher_order_stays);
    RUN(language_models);
    RUN(vision_models);
    RUN(wrong_models);
    RUN(odd_but_right);
    RUN(modules_and_order);
    RUN(not_a_model);
    RUN(every_truncation);
    RUN(nesting_is_bounded);
    RUN(limits_hold);
    RUN(memory_runs_out);
    RUN(memory_grows_as_the_graph);
    return check_done();
}
