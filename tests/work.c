/* What a step asks of the card: records of small models, kernels, sizes and bytes by hand.
 *
 *     test_work TRACES     folder with recorded traces
 */
#include "graph/aten.h"
#include "graph/recipe.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "core/file.h"
#include "device/simulate.h"
#include "import/trace.h"
#include "tape/replay.h"

/* ---- a model and its step ---- */

static pl_builder *open_model(void) {
    pl_builder *b = pl_builder_open("m", 0);
    pl_module_enter(b, "", "Model");
    return b;
}

static int32_t linear(pl_builder *b, const char *name, int32_t x, int64_t out, bool bias) {
    pl_module_enter(b, name, "torch.nn.modules.linear.Linear");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(out, pl_built_size(b, x, -1)));
    int32_t c = bias ? pl_build_parameter(b, "bias", PL_SIZES(out)) : PL_NONE;
    x = pl_aten_linear(b, x, w, c);
    pl_module_leave(b);
    return x;
}

/* The tape of three steps of the model, whose loss is mean squared error on x. */
static pl_tape *train(pl_builder *b, int32_t x, const pl_job *how) {
    pl_build_output(b, x);
    pl_module_leave(b);
    pl_graph *g = NULL;
    pl_tape *tape = NULL;
    pl_error err = {0};
    pl_tape_device device = pl_tape_device_of(pl_gpu_find("h200"));
    bool made = pl_builder_finish(&b, &g, &err) == PL_OK &&
                pl_tape_train(&tape, g, how, PL_TAPE_STEPS, &device, NULL, &err) == PL_OK;
    CHECK(made);
    if (!made) printf("    %s\n", err.message);
    /* the records refer to names of the graph, which the tape does not own */
    static pl_graph *kept;
    pl_graph_close(&kept);
    kept = g;
    return tape;
}

static pl_job plain(pl_precision precision, const char *optimizer) {
    return (pl_job){.precision = precision,
                    .optimizer = optimizer,
                    .loss = PL_LOSS_MSE,
                    .accumulate = 1,
                    .world = 1};
}

/* The nth record of a kind in a phase; an empty one where there is none. */
static pl_work nth(const pl_tape *tape, pl_phase phase, pl_work_kind kind, int n) {
    for (size_t i = 0; tape && i < tape->call_count; i++)
        if (tape->calls[i].phase == phase && tape->calls[i].kind == kind && n-- == 0)
            return tape->calls[i];
    check_say(__FILE__, __LINE__, "a record is missing");
    return (pl_work){.what = ""};
}

static int count(const pl_tape *tape, pl_phase phase, pl_work_kind kind) {
    int n = 0;
    for (size_t i = 0; tape && i < tape->call_count; i++)
        n += tape->calls[i].phase == phase && tape->calls[i].kind == kind;
    return n;
}

static double counted(const pl_tape *tape) {
    double n = 0;
    for (size_t i = 0; tape && i < tape->call_count; i++) n += tape->calls[i].counted;
    return n;
}

/* ---- cases ---- */

/* [64, 256] -> 512 -> relu, float32. */
static void a_linear_layer_is_products_and_a_sum(void) {
    pl_builder *b = open_model();
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(64, 256));
    x = pl_aten_unary(b, "aten.relu.default", linear(b, "fc", x, 512, true));
    pl_job how = plain(PL_FP32, "sgd");
    pl_tape *tape = train(b, x, &how);
    pl_work p = nth(tape, PL_PHASE_FORWARD, PL_WORK_PRODUCT, 0);
    CHECK_STR(p.what, "aten.linear.default");
    CHECK_INT(p.rows, 64);
    CHECK_INT(p.depth, 256);
    CHECK_INT(p.columns, 512);
    CHECK_INT(p.flops, 2 * 64 * 256 * 512);
    CHECK_INT(p.read, 4 * (64 * 256 + 256 * 512));
    CHECK_INT(p.written, 4 * 64 * 512);
    CHECK(!p.transposed[0] && p.transposed[1]);
    CHECK_INT(p.launches, 1);
    pl_work relu = nth(tape, PL_PHASE_FORWARD, PL_WORK_POINTWISE, 0);
    CHECK_INT(relu.read, 4 * 64 * 512);
    CHECK_INT(relu.written, 4 * 64 * 512);
    CHECK(!relu.strided);
    /* The input wants no gradient: the weight's product alone, then the bias's sum over rows. */
    CHECK_INT(count(tape, PL_PHASE_BACKWARD, PL_WORK_PRODUCT), 1);
    pl_work w = nth(tape, PL_PHASE_BACKWARD, PL_WORK_PRODUCT, 0);
    CHECK_INT(w.pass, PL_PASS_BACKWARD_WEIGHT);
    CHECK_INT(w.depth, 64);
    CHECK_INT(w.flops, 2 * 64 * 256 * 512);
    pl_work sum = nth(tape, PL_PHASE_BACKWARD, PL_WORK_REDUCE, 0);
    CHECK_INT(sum.rows, 512);
    CHECK_INT(sum.columns, 64);
    CHECK_INT(sum.read, 4 * 64 * 512);
    CHECK(sum.strided);
    CHECK_INT(counted(tape), 2 * 2 * 64 * 256 * 512);
    pl_tape_close(&tape);
}

/* 64 parts of 8 x 512 by 512 x 8 in float32: few tiles, cut along the depth. */
static void deep_products_are_cut(void) {
    pl_builder *b = open_model();
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(8, 512));
    pl_job how = plain(PL_FP32, "sgd");
    pl_tape *tape = train(b, linear(b, "fc", x, 8, false), &how);
    CHECK_INT(nth(tape, PL_PHASE_FORWARD, PL_WORK_PRODUCT, 0).launches, 2);
    CHECK_INT(nth(tape, PL_PHASE_BACKWARD, PL_WORK_PRODUCT, 0).launches, 1); /* a depth of 8 */
    pl_tape_close(&tape);
}

/* [8, 16, 32, 32] by [32, 16, 3, 3] with a bias, bfloat16. */
static void a_convolution_turns_its_operands(void) {
    pl_builder *b = open_model();
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(8, 16, 32, 32));
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(32, 16, 3, 3)),
            c = pl_build_parameter(b, "bias", PL_SIZES(32));
    const int64_t one[2] = {1, 1};
    x = pl_aten_conv(b, 2, x, w, c, one, one, one, 1);
    pl_job how = plain(PL_BF16, "sgd");
    pl_tape *tape = train(b, pl_aten_unary(b, "aten.relu.default", x), &how);
    const double places = 8 * 32 * 32, weight = 32 * 16 * 9, in = 16 * places, out = 32 * places;
    pl_work f = nth(tape, PL_PHASE_FORWARD, PL_WORK_CONVOLUTION, 0);
    CHECK_INT(f.flops, 2 * places * weight);
    CHECK_INT(f.read, 2 * (in + weight));
    CHECK_INT(f.written, 2 * out);
    CHECK_INT(f.launches, 4); /* input and weight turned, the kernel, the output turned */
    CHECK_INT(f.dtype, PL_DT_BF16);
    pl_work bias = nth(tape, PL_PHASE_FORWARD, PL_WORK_POINTWISE, 0);
    CHECK_INT(bias.read, 2 * (out + 32));
    CHECK_INT(bias.written, 2 * out);
    CHECK(bias.strided); /* it is broadcast */
    CHECK_INT(count(tape, PL_PHASE_BACKWARD, PL_WORK_CONVOLUTION), 1);
    pl_work g = nth(tape, PL_PHASE_BACKWARD, PL_WORK_CONVOLUTION, 0);
    CHECK_INT(g.pass, PL_PASS_BACKWARD_WEIGHT);
    CHECK_INT(g.flops, 2 * places * weight);
    pl_work sum = nth(tape, PL_PHASE_BACKWARD, PL_WORK_REDUCE, 0);
    CHECK_INT(sum.rows, 32);
    CHECK_INT(sum.columns, places);
    CHECK(!sum.strided);
    pl_tape_close(&tape);
}

/* Layer norm of [64, 256] behind a linear layer, float32. */
static void a_layer_norm_is_one_kernel_and_two(void) {
    pl_builder *b = open_model();
    int32_t x = linear(b, "fc", pl_build_input(b, "x", PL_DT_F32, PL_SIZES(64, 32)), 256, false);
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(256)),
            c = pl_build_parameter(b, "bias", PL_SIZES(256));
    pl_job how = plain(PL_FP32, "sgd");
    pl_tape *tape = train(b, pl_aten_layer_norm(b, x, 1, w, c, 1e-5), &how);
    const int64_t whole = 4 * 64 * 256;
    pl_work f = nth(tape, PL_PHASE_FORWARD, PL_WORK_NORM, 0);
    CHECK_INT(f.rows, 64);
    CHECK_INT(f.columns, 256);
    CHECK_INT(f.read, whole);
    CHECK_INT(f.written, whole + 2 * 4 * 64); /* mean and inverse deviation per row */
    CHECK_INT(f.launches, 1);
    CHECK_INT(count(tape, PL_PHASE_BACKWARD, PL_WORK_NORM), 2);
    pl_work dx = nth(tape, PL_PHASE_BACKWARD, PL_WORK_NORM, 0),
            dw = nth(tape, PL_PHASE_BACKWARD, PL_WORK_NORM, 1);
    CHECK_INT(dx.pass, PL_PASS_BACKWARD);
    CHECK_INT(dx.read, 2 * whole);
    CHECK_INT(dx.written, whole);
    CHECK_INT(dw.pass, PL_PASS_BACKWARD_WEIGHT);
    CHECK_INT(dw.written, 2 * 4 * 256);
    pl_tape_close(&tape);
}

/* Four heads of 64 over 128 tokens, bfloat16: cuDNN's kernels on an H200. */
static void attention_has_kernels_around_it(void) {
    pl_builder *b = open_model();
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2, 128, 256));
    int32_t of[3];
    for (int i = 0; i < 3; i++)
        of[i] =
            pl_aten_transpose(b,
                              pl_aten_view(b, linear(b, pl_build_text(b, "fc%d", i), x, 256, false),
                                           PL_SIZES(2, 128, 4, 64)),
                              1, 2);
    x = pl_aten_attention(b, of[0], of[1], of[2], PL_NONE, 0, true, NAN, false);
    pl_job how = plain(PL_BF16, "sgd");
    pl_tape *tape = train(b, x, &how);
    const double scores = 2.0 * 2 * 4 * 128 * 128 * 64, operand = 2.0 * 2 * 4 * 128 * 64;
    pl_work f = nth(tape, PL_PHASE_FORWARD, PL_WORK_ATTENTION, 0),
            g = nth(tape, PL_PHASE_BACKWARD, PL_WORK_ATTENTION, 0);
    CHECK_INT(f.counted, 2 * scores);
    CHECK_INT(f.flops, scores); /* causal: half of them */
    CHECK_INT(f.read, 3 * operand);
    CHECK_INT(f.launches, 1);
    CHECK_INT(g.counted, 5 * scores);
    CHECK_INT(g.launches, 3);
    CHECK_INT(((const pl_attention *)f.shape)->backend, PL_ATTENTION_CUDNN);
    pl_tape_close(&tape);
}

/* AdamW over two matrices: eight foreach operators. 458 chunks and one go in two launches of 320.
 */
static void adamw_is_eight_passes(void) {
    const int64_t big = 30000 * 1000, small = 1000 * 8;
    pl_builder *b = open_model();
    int32_t x = linear(b, "a", pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2, 8)), 1000, false);
    pl_job how = plain(PL_FP32, "adamw");
    pl_tape *tape = train(b, linear(b, "b", x, 30000, false), &how);
    CHECK_INT(count(tape, PL_PHASE_OPTIMIZER, PL_WORK_FOREACH), 8);
    double read = 0, written = 0;
    for (int i = 0; i < 8; i++) {
        pl_work c = nth(tape, PL_PHASE_OPTIMIZER, PL_WORK_FOREACH, i);
        CHECK_INT(c.launches, 2);
        CHECK_INT(c.tensors, 2);
        read += c.read;
        written += c.written;
    }
    CHECK_INT(read, 4 * (big + small) * (1 + 2 + 1 + 2 + 1 + 1 + 1 + 3));
    CHECK_INT(written, 4 * (big + small) * 8);
    pl_tape_close(&tape);
    b = open_model();
    x = linear(b, "a", pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2, 8)), 8, false);
    how = plain(PL_FP32, "adamw-fused");
    tape = train(b, x, &how);
    CHECK_INT(count(tape, PL_PHASE_OPTIMIZER, PL_WORK_FOREACH), 2); /* the step counters too */
    pl_tape_close(&tape);
}

/* A table of 1,000 rows looked up 8 times: its gradient is zeroed, then added to. */
static void an_embedding_reads_its_rows(void) {
    pl_builder *b = open_model();
    int32_t ids = pl_build_input(b, "ids", PL_DT_I64, PL_SIZES(2, 4)),
            table = pl_build_parameter(b, "weight", PL_SIZES(1000, 16));
    pl_job how = plain(PL_FP32, "sgd");
    pl_tape *tape = train(b, pl_aten_embedding(b, table, ids, PL_NONE), &how);
    pl_work f = nth(tape, PL_PHASE_FORWARD, PL_WORK_GATHER, 0);
    CHECK_INT(f.rows, 8);
    CHECK_INT(f.columns, 16);
    CHECK_INT(f.read, 8 * 8 + 4 * 8 * 16);
    CHECK_INT(f.written, 4 * 8 * 16);
    int fills = count(tape, PL_PHASE_BACKWARD, PL_WORK_FILL); /* the first gradient is one too */
    CHECK_INT(fills, 2);
    CHECK_INT(nth(tape, PL_PHASE_BACKWARD, PL_WORK_FILL, 1).written, 4 * 1000 * 16);
    CHECK_INT(count(tape, PL_PHASE_BACKWARD, PL_WORK_GATHER), 1);
    pl_tape_close(&tape);
}

/* Two checkpointed blocks of linear, relu, linear: made again up to what the second linear saves,
 * whose own product is not made. */
static void a_checkpointed_block_stops_early(void) {
    pl_builder *b = open_model();
    int32_t x = linear(b, "in", pl_build_input(b, "x", PL_DT_F32, PL_SIZES(4, 8)), 16, false);
    for (int i = 0; i < 2; i++) {
        pl_module_enter(b, pl_build_text(b, "layers.%d", i), "Block");
        x = pl_aten_unary(b, "aten.relu.default", linear(b, "fc1", x, 32, false));
        x = linear(b, "fc2", x, 16, false);
        pl_module_leave(b);
    }
    pl_job how = plain(PL_FP32, "sgd");
    how.checkpoint = true;
    pl_tape *tape = train(b, x, &how);
    CHECK_INT(count(tape, PL_PHASE_FORWARD, PL_WORK_PRODUCT), 5);
    int again = 0, relus = 0;
    for (size_t i = 0; tape && i < tape->call_count; i++) {
        const pl_work *c = &tape->calls[i];
        if (c->phase != PL_PHASE_BACKWARD || c->pass != PL_PASS_FORWARD) continue;
        again += c->kind == PL_WORK_PRODUCT;
        relus += strcmp(c->what, "aten.relu.default") == 0;
    }
    CHECK_INT(again, 2);
    CHECK_INT(relus, 2);
    /* the first layer's input wants no gradient */
    CHECK_INT(count(tape, PL_PHASE_BACKWARD, PL_WORK_PRODUCT), 2 + 2 * 4 + 1);
    pl_tape_close(&tape);
}

/* ---- a recorded trace ---- */

static const char *folder;

/* mlp-0625: seven linear layers, 32 samples; the same however many steps were recorded. */
static void a_trace_has_records_too(void) {
    static const int64_t widths[] = {2942, 1828, 1639, 1449, 1260, 1070, 881, 691};
    double want = 0;
    for (int i = 0; i < 7; i++)
        want += 2.0 * 32 * (double)widths[i] * (double)widths[i + 1] * (i ? 3 : 2);
    for (int steps = 1; steps <= 3; steps++) {
        char path[256];
        snprintf(path, sizeof path, "%s/mlp-0625-%d.json", folder, steps);
        pl_file file = {0};
        pl_error err = {0};
        pl_trace *trace = NULL;
        pl_tape *tape = NULL;
        pl_tape_device device = pl_tape_device_of(pl_gpu_find("h200"));
        CHECK_INT(pl_file_open(&file, path, (size_t)64 << 20, &err), PL_OK);
        CHECK_INT(pl_import_trace(&trace, file.bytes, file.size, path, NULL, &err), PL_OK);
        CHECK_INT(pl_tape_replay(&tape, trace, &device, NULL, &err), PL_OK);
        CHECK_INT(counted(tape), want);
        CHECK_INT(count(tape, PL_PHASE_FORWARD, PL_WORK_PRODUCT), 7);
        CHECK_INT(count(tape, PL_PHASE_BACKWARD, PL_WORK_PRODUCT), 13);
        CHECK_INT(count(tape, PL_PHASE_FORWARD, PL_WORK_NORM), 6);
        CHECK_INT(count(tape, PL_PHASE_OPTIMIZER, PL_WORK_FOREACH), 5); /* adagrad */
        pl_tape_close(&tape);
        pl_trace_close(&trace);
        pl_file_close(&file);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    folder = argv[1];
    RUN(a_linear_layer_is_products_and_a_sum);
    RUN(deep_products_are_cut);
    RUN(a_convolution_turns_its_operands);
    RUN(a_layer_norm_is_one_kernel_and_two);
    RUN(attention_has_kernels_around_it);
    RUN(adamw_is_eight_passes);
    RUN(an_embedding_reads_its_rows);
    RUN(a_checkpointed_block_stops_early);
    RUN(a_trace_has_records_too);
    return check_done();
}
