/* Graphs in the making: parameters in the order of named_parameters, ties, lines, shapes of
 * operators as PyTorch has them, and every failure reported. */
#include "graph/aten.h"
#include "graph/recipe.h"

#include <math.h>

#include "check.h"
#include "graph_sound.h"

static pl_graph *finished(pl_builder *b) {
    pl_graph *g = NULL;
    pl_error err = {0};
    CHECK_INT(pl_builder_finish(&b, &g, &err), PL_OK);
    if (!g) printf("    %s: %s\n", err.where, err.message);
    CHECK(b == NULL);
    CHECK(!g || !graph_unsound(g));
    return g;
}

static int32_t linear(pl_builder *b, const char *name, int32_t x, int64_t out, bool bias) {
    pl_module_enter(b, name, "torch.nn.modules.linear.Linear");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(out, pl_built_size(b, x, -1)));
    int32_t c = bias ? pl_build_parameter(b, "bias", PL_SIZES(out)) : PL_NONE;
    x = pl_aten_linear(b, x, w, c);
    pl_module_leave(b);
    return x;
}

/* A block registers norm, fc2, fc1 in this order and calls them in another. */
static void parameters_come_as_registered(void) {
    pl_builder *b = pl_builder_open("m", 0);
    pl_module_enter(b, "", "Model");
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2, 8));
    pl_module_children(b, "head blocks scale");
    for (int i = 0; i < 2; i++) {
        pl_module_enter(b, pl_build_text(b, "blocks.%d", i), "Block");
        pl_module_children(b, "norm fc2 fc1");
        x = linear(b, "fc1", x, 16, true);
        x = linear(b, "fc2", x, 8, false);
        pl_module_leave(b);
    }
    x = linear(b, "head", x, 4, true);
    int32_t scale = pl_build_parameter(b, "scale", PL_SIZES(4));
    x = pl_aten_mul(b, x, scale);
    pl_build_output(b, x);
    pl_module_leave(b);
    pl_graph *g = finished(b);
    static const char *const paths[] = {"scale",
                                        "head.weight",
                                        "head.bias",
                                        "blocks.0.fc2.weight",
                                        "blocks.0.fc1.weight",
                                        "blocks.0.fc1.bias",
                                        "blocks.1.fc2.weight",
                                        "blocks.1.fc1.weight",
                                        "blocks.1.fc1.bias"};
    for (int32_t i = 0; g && i < 9; i++) {
        CHECK_INT(g->tensors[i].role, PL_ROLE_PARAMETER);
        CHECK_STR(g->tensors[i].path, paths[i]);
        CHECK(g->tensors[i].requires_grad);
    }
    CHECK_INT(g->node_count, 6);
    CHECK_STR(pl_node_module(g, 3), "blocks.1.fc2");
    CHECK_STR(g->modules[0].path, "");
    pl_graph_close(&g);
}

static void calls_share_and_names_tie(void) {
    pl_builder *b = pl_builder_open("m", 0);
    pl_module_enter(b, "", "Model");
    pl_module_children(b, "decoder embed");
    int32_t ids = pl_build_input(b, "ids", PL_DT_I64, PL_SIZES(2, 3));
    pl_module_enter(b, "embed", "torch.nn.modules.sparse.Embedding");
    int32_t table = pl_build_parameter(b, "weight", PL_SIZES(100, 8));
    int32_t x = pl_aten_embedding(b, table, ids, PL_NONE);
    pl_module_leave(b);
    for (int i = 0; i < 3; i++) x = linear(b, "shared", x, 8, true);
    pl_module_enter(b, "decoder", "torch.nn.modules.linear.Linear");
    x = pl_aten_linear(b, x, pl_build_tied(b, "weight", table), PL_NONE);
    pl_module_leave(b);
    pl_build_output(b, x);
    pl_graph *g = finished(b);
    int parameters = 0, tied = 0;
    for (int32_t i = 0; i < g->tensor_count; i++) {
        parameters += g->tensors[i].role == PL_ROLE_PARAMETER;
        tied += g->tensors[i].tied >= 0;
    }
    CHECK_INT(parameters, 4); /* decoder.weight, embed.weight, shared's two */
    CHECK_INT(tied, 1);
    /* The name that Python meets first is the tensor; the other is tied to it. */
    CHECK_STR(g->tensors[0].path, "decoder.weight");
    CHECK_INT(g->tensors[0].tied, -1);
    CHECK_STR(g->tensors[1].path, "embed.weight");
    CHECK_INT(g->tensors[1].tied, 0);
    CHECK_INT(g->modules[3].call, 1);
    CHECK_STR(g->modules[3].path, "shared");
    pl_graph_close(&g);
}

static void lines_follow_calls(void) {
    pl_builder *b = pl_builder_open("m", 0);
    pl_module_enter(b, "", "Model");
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2, 8));
    pl_line(b, "y = self.fc(x)");
    x = linear(b, "fc", x, 8, true); /* of torch.nn: its caller's line */
    pl_module_enter(b, "act", "Activation");
    x = pl_aten_unary(b, "aten.relu.default", x); /* its own: none yet */
    pl_module_leave(b);
    x = pl_aten_unary(b, "aten.neg.default", x);
    pl_build_no_grad(b, true);
    pl_build_autocast(b, PL_AUTOCAST_OFF);
    x = pl_aten_unary(b, "aten.neg.default", x);
    pl_graph *g = finished(b);
    CHECK_STR(g->nodes[0].source, "y = self.fc(x)");
    CHECK_STR(g->nodes[1].source, "");
    CHECK_STR(g->nodes[2].source, "y = self.fc(x)");
    CHECK(!g->nodes[2].no_grad);
    CHECK(g->nodes[3].no_grad);
    CHECK_INT(g->nodes[3].autocast, PL_AUTOCAST_OFF);
    pl_graph_close(&g);
}

/* A row: what is built from x, and its sizes; expected as PyTorch 2.11 gives them. */
typedef int32_t make_fn(pl_builder *b, int32_t x);

static int32_t view(pl_builder *b, int32_t x) {
    return pl_aten_view(b, x, PL_SIZES(2, -1, 4));
}
static int32_t flat(pl_builder *b, int32_t x) {
    return pl_aten_flatten(b, x, 1, -1);
}
static int32_t permuted(pl_builder *b, int32_t x) {
    return pl_aten_permute(b, x, PL_SIZES(0, 2, 3, 1));
}
static int32_t convolved(pl_builder *b, int32_t x) {
    int32_t w = pl_build_parameter(b, "w", PL_SIZES(16, 4, 3, 3));
    return pl_aten_conv(b, 2, x, w, PL_NONE, (int64_t[]){2, 2}, (int64_t[]){1, 1},
                        (int64_t[]){1, 1}, 1);
}
static int32_t grown(pl_builder *b, int32_t x) {
    int32_t w = pl_build_parameter(b, "w", PL_SIZES(4, 6, 2, 2));
    return pl_aten_conv_transpose(b, 2, x, w, PL_NONE, (int64_t[]){2, 2}, (int64_t[]){0, 0},
                                  (int64_t[]){1, 0}, 1, (int64_t[]){1, 1});
}
static int32_t pooled(pl_builder *b, int32_t x) {
    return pl_aten_pool(b, "aten.max_pool2d.default", 2, x, (int64_t[]){3, 3}, (int64_t[]){2, 2},
                        (int64_t[]){0, 0}, NULL, true);
}
static int32_t product(pl_builder *b, int32_t x) {
    return pl_aten_matmul(b, x, pl_build_input(b, "y", PL_DT_F32, PL_SIZES(1, 8, 5)));
}
static int32_t padded(pl_builder *b, int32_t x) {
    return pl_aten_pad(b, x, PL_SIZES(1, 2, -1, 0));
}
static int32_t picked(pl_builder *b, int32_t x) {
    int32_t at[2] = {PL_NONE, pl_build_input(b, "i", PL_DT_I64, PL_SIZES(7, 3))};
    return pl_aten_index(b, x, 2, at);
}
static int32_t sliced(pl_builder *b, int32_t x) {
    return pl_aten_slice(b, x, -1, 1, INT64_MAX);
}
static int32_t averaged(pl_builder *b, int32_t x) {
    return pl_aten_reduce(b, "aten.mean.dim", x, -2, true);
}
static int32_t spread(pl_builder *b, int32_t x) {
    return pl_aten_expand(b, pl_aten_unsqueeze(b, x, 1), PL_SIZES(-1, 5, -1, -1, -1));
}

static void shapes_are_pytorchs(void) {
    static const struct {
        const char *name;
        make_fn *make;
        int dims;
        int64_t sizes[5];
    } rows[] = {
        {"view", view, 3, {2, 64, 4}},
        {"flatten", flat, 2, {2, 256}},
        {"permute", permuted, 4, {2, 8, 8, 4}},
        {"conv2d", convolved, 4, {2, 16, 4, 4}},
        {"conv_transpose2d", grown, 4, {2, 6, 17, 16}},
        {"max_pool2d, ceil", pooled, 4, {2, 4, 4, 4}},
        {"matmul", product, 4, {2, 4, 8, 5}},
        {"pad", padded, 4, {2, 4, 7, 11}},
        {"index", picked, 5, {2, 7, 3, 8, 8}},
        {"slice", sliced, 4, {2, 4, 8, 7}},
        {"mean", averaged, 4, {2, 4, 1, 8}},
        {"expand", spread, 5, {2, 5, 4, 8, 8}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_builder *b = pl_builder_open("m", 0);
        int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2, 4, 8, 8));
        int32_t y = rows[i].make(b, x);
        if (pl_built_dims(b, y) != rows[i].dims) printf("    %s\n", rows[i].name);
        CHECK_INT(pl_built_dims(b, y), rows[i].dims);
        for (int k = 0; k < rows[i].dims; k++) CHECK_INT(pl_built_size(b, y, k), rows[i].sizes[k]);
        pl_graph *g = finished(b);
        pl_graph_close(&g);
    }
}

static void types_are_promoted(void) {
    pl_builder *b = pl_builder_open("m", 0);
    int32_t half = pl_build_input(b, "h", PL_DT_BF16, PL_SIZES(4)),
            single = pl_build_input(b, "s", PL_DT_F32, PL_SIZES(4)),
            number = pl_build_input(b, "n", PL_DT_F32, 0, NULL),
            whole = pl_build_input(b, "i", PL_DT_I64, PL_SIZES(4));
    CHECK_INT(pl_built(b, pl_aten_add(b, half, single))->dtype, PL_DT_F32);
    CHECK_INT(pl_built(b, pl_aten_add(b, half, number))->dtype, PL_DT_BF16);
    CHECK_INT(pl_built(b, pl_aten_add(b, whole, number))->dtype, PL_DT_F32);
    CHECK_INT(pl_built(b, pl_aten_add(b, whole, half))->dtype, PL_DT_BF16);
    CHECK_INT(pl_built(b, pl_aten_scalar(b, "aten.div.Tensor", whole, 2))->dtype, PL_DT_F32);
    CHECK_INT(pl_built(b, pl_aten_scalar(b, "aten.add.Tensor", whole, 2))->dtype, PL_DT_I64);
    CHECK_INT(pl_built(b, pl_aten_binary(b, "aten.le.Tensor", single, half))->dtype, PL_DT_BOOL);
    pl_builder_close(&b);
}

static int32_t wrong_linear(pl_builder *b, int32_t x) {
    return pl_aten_linear(b, x, pl_build_parameter(b, "w", PL_SIZES(4, 9)), PL_NONE);
}
static int32_t wrong_view(pl_builder *b, int32_t x) {
    return pl_aten_view(b, x, PL_SIZES(7, -1));
}
static int32_t wrong_add(pl_builder *b, int32_t x) {
    return pl_aten_add(b, x, pl_build_input(b, "y", PL_DT_F32, PL_SIZES(5)));
}
static int32_t wrong_conv(pl_builder *b, int32_t x) {
    int32_t w = pl_build_parameter(b, "w", PL_SIZES(4, 4, 30, 30));
    return pl_aten_conv(b, 2, x, w, PL_NONE, (int64_t[]){1, 1}, (int64_t[]){0, 0},
                        (int64_t[]){1, 1}, 1);
}
static int32_t huge(pl_builder *b, int32_t x) {
    (void)x;
    return pl_build_parameter(b, "w", PL_SIZES(INT64_C(1) << 40, INT64_C(1) << 40));
}
static int32_t negative(pl_builder *b, int32_t x) {
    (void)x;
    return pl_build_parameter(b, "w", PL_SIZES(4, -3));
}
static int32_t two_shapes(pl_builder *b, int32_t x) {
    (void)x;
    pl_build_parameter(b, "w", PL_SIZES(4, 3));
    return pl_build_parameter(b, "w", PL_SIZES(3, 4));
}
static int32_t deep(pl_builder *b, int32_t x) {
    for (int i = 0; i < 1000; i++) pl_module_enter(b, "m", "M");
    return x;
}

static void failures_stick_and_are_reported(void) {
    static const struct {
        make_fn *make;
        const char *where, *message;
    } rows[] = {
        {wrong_linear, "aten.linear.default", "last size"},
        {wrong_view, "aten.view.default", "another number of elements"},
        {wrong_add, "aten.add.Tensor", "do not go together"},
        {wrong_conv, "aten.conv2d.default", "smaller than the kernel"},
        {huge, "w", "larger than any memory"},
        {negative, "w", "negative"},
        {two_shapes, "w", "two shapes"},
        {deep, "m", "nest deeper"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_builder *b = pl_builder_open("m", 0);
        pl_error err = {0};
        pl_graph *g = NULL;
        int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2, 4, 8, 8));
        rows[i].make(b, x);
        CHECK(pl_build_failed(b));
        CHECK_INT(pl_aten_unary(b, "aten.relu.default", x), PL_NONE); /* nothing more is done */
        CHECK_INT(pl_builder_finish(&b, &g, &err), PL_INPUT);
        CHECK(g == NULL);
        CHECK_STR(err.where, rows[i].where);
        CHECK(strstr(err.message, rows[i].message) != NULL);
    }
}

static void memory_that_fails_is_reported(void) {
    bool done = false;
    for (long after = 0; after < 400 && !done; after++) {
        pl_arena_fail_after(after);
        pl_builder *b = pl_builder_open("m", 0);
        pl_graph *g = NULL;
        pl_error err = {0};
        if (!b) continue;
        pl_module_enter(b, "", "Model");
        int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2, 8));
        for (int i = 0; i < 4; i++) x = linear(b, pl_build_text(b, "fc%d", i), x, 8, true);
        pl_build_output(b, x);
        pl_status status = pl_builder_finish(&b, &g, &err);
        CHECK(status == PL_OK || (status == PL_MISSING && !g));
        done = status == PL_OK;
        pl_graph_close(&g);
    }
    pl_arena_fail_after(-1);
    CHECK(done);
}

static void warnings_of_a_recipe(void) {
    pl_recipe *r = pl_recipe_open("m", 0);
    for (int i = 0; i < 40; i++) CHECK(pl_recipe_warn(r, "number %d", i));
    CHECK_INT(r->warning_count, 40); /* none is lost */
    CHECK_STR(r->warnings[1], "number 1");
    CHECK_STR(r->warnings[39], "number 39");
    pl_recipe_close(&r);
    CHECK(r == NULL);
    pl_recipe_close(&r);
}

int main(void) {
    RUN(parameters_come_as_registered);
    RUN(calls_share_and_names_tie);
    RUN(lines_follow_calls);
    RUN(shapes_are_pytorchs);
    RUN(types_are_promoted);
    RUN(failures_stick_and_are_reported);
    RUN(memory_that_fails_is_reported);
    RUN(warnings_of_a_recipe);
    return check_done();
}
