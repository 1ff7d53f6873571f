/* What the tape takes beyond the usual: layers and operators without number, sizes without end.
 *
 * Each case was refused for a wrong reason, leaked, or overflowed once. Overflows are seen by the
 * build with sanitizers; where one shows in the answer, the case asks for it. */
#include "graph/aten.h"

#include <stdlib.h>

#include "check.h"
#include "core/budget.h"
#include "device/simulate.h"
#include "tape/operator.h"
#include "tape/tape.h"

/* ---- a model and its tape ---- */

static pl_builder *open_model(void) {
    pl_builder *b = pl_builder_open("m", 0);
    pl_module_enter(b, "", "Model");
    return b;
}

static pl_job plain(void) {
    pl_job job;
    pl_job_default(&job);
    job.precision = PL_FP32;
    job.optimizer = "sgd";
    job.loss = PL_LOSS_MSE;
    return job;
}

/* Status of three steps of the model whose output is x; *tape may be NULL: closed here. */
static pl_status train(pl_builder *b, int32_t x, const pl_job *job, pl_tape **tape, pl_error *err) {
    pl_tape *made = NULL;
    static pl_graph *kept;   /* names on the tape are the graph's */
    static pl_budget budget; /* outlives the tape */
    budget = (pl_budget){.most_bytes = (size_t)256 << 20};
    pl_graph_close(&kept);
    pl_tape_device device = pl_tape_device_of(pl_gpu_find("h200"));
    pl_build_output(b, x);
    pl_module_leave(b);
    pl_status status = pl_builder_finish(&b, &kept, err);
    if (status == PL_OK)
        status = pl_tape_train(&made, kept, job, PL_TAPE_STEPS, &device, &budget, err);
    if (tape)
        *tape = made;
    else
        pl_tape_close(&made);
    return status;
}

/* Blocks of a kind that the last step allocates. */
static int made_in_last_step(const pl_tape *tape, pl_kind kind) {
    int count = 0;
    for (size_t i = 1; tape && i < tape->block_count; i++)
        count += tape->blocks[i].kind == kind && tape->blocks[i].step == PL_TAPE_STEPS - 1 &&
                 tape->blocks[i].tensor >= 0;
    return count;
}

/* ---- cases ---- */

/* nn.LSTM(8, 8, layers, bidirectional=True): 8 parameters per layer, each with a gradient. */
static void bidirectional_lstms_may_be_deep(void) {
    enum { MOST = 1025, KNOWN = 1024 };
    const int depths[] = {31, 32, KNOWN, MOST};
    static int32_t params[MOST * 8];
    for (size_t k = 0; k < sizeof depths / sizeof *depths; k++) {
        int layers = depths[k], count = 0;
        pl_builder *b = open_model();
        int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(4, 5, 8));
        pl_module_enter(b, "lstm", "torch.nn.modules.rnn.LSTM");
        for (int i = 0; i < layers * 2; i++)
            for (int part = 0; part < 4; part++) {
                const char *name = pl_build_text(b, "p%d_%d", i, part);
                params[count++] =
                    part > 1
                        ? pl_build_parameter(b, name, PL_SIZES(32))
                        : pl_build_parameter(b, name, PL_SIZES(32, part == 0 && i > 1 ? 16 : 8));
            }
        int32_t state[2];
        for (int i = 0; i < 2; i++)
            state[i] = pl_aten_make(b, "aten.zeros.default", PL_DT_F32, 3,
                                    (const int64_t[]){layers * 2, 4, 8}, 0);
        x = pl_aten_recurrent(b, "lstm", x, state, count, params, true, layers, 0, true, true,
                              NULL);
        pl_module_leave(b);
        pl_job job = plain();
        pl_tape *tape = NULL;
        pl_error err = {0};
        CHECK_INT(train(b, x, &job, &tape, &err), PL_OK);
        if (!tape) printf("    %d layers: %s\n", layers, err.message);
        CHECK(tape && tape->used_rnn == (layers <= KNOWN));
        /* views of one buffer: the first that is accumulated names it */
        CHECK(made_in_last_step(tape, PL_GRADIENTS) > 0);
        /* deeper than the rule knows them: on the safe side, and reported */
        CHECK_INT(tape ? tape->unknown_count : 9, layers > KNOWN);
        CHECK_INT(tape ? tape->note_count : 9, layers > KNOWN);
        if (tape && tape->note_count)
            CHECK_STR(tape->notes[0], "aten.lstm.input: sizes or a form that its rule does not "
                                      "cover, treated on the safe side");
        pl_tape_close(&tape);
    }
}

static void thirty_thousand_unknown_operators_are_listed_once(void) {
    enum { KINDS = 30000 };
    pl_builder *b = open_model();
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2));
    for (int i = 0; i < KINDS + 2; i++) {
        int name = i == KINDS ? 7 : i > KINDS ? 0 : i; /* two of them again */
        x = pl_aten_unary(b, pl_build_text(b, "aten.made_up_%d.default", name), x);
    }
    pl_job job = plain();
    job.optimizer = "none";
    pl_tape *tape = NULL;
    pl_error err = {0};
    CHECK_INT(train(b, x, &job, &tape, &err), PL_OK);
    if (!tape) printf("    %s\n", err.message);
    CHECK_INT(tape ? tape->unknown_count : 0, KINDS);
    for (size_t i = 0; tape && i < tape->unknown_count; i += KINDS - 1) {
        char name[64];
        snprintf(name, sizeof name, "aten.made_up_%zu.default", i);
        CHECK_STR(tape->unknown[i], name);
    }
    pl_tape_close(&tape);
}

/* Every parameter gets its gradient, however many an operator without a rule is given. */
static void unknown_operators_may_take_many_tensors(void) {
    enum { TENSORS = 400 };
    int32_t list[TENSORS];
    pl_builder *b = open_model();
    for (int i = 0; i < TENSORS; i++)
        list[i] = pl_build_parameter(b, pl_build_text(b, "p%d", i), PL_SIZES(16));
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(16));
    pl_call(b, "aten.made_up.default");
    pl_call_tensors(b, "tensors", TENSORS, list);
    pl_call_tensor(b, "x", x);
    int32_t y = pl_call_result_like(b, x);
    pl_job job = plain();
    pl_tape *tape = NULL;
    pl_error err = {0};
    CHECK_INT(train(b, y, &job, &tape, &err), PL_OK);
    if (!tape) printf("    %s\n", err.message);
    CHECK_INT(made_in_last_step(tape, PL_GRADIENTS), TENSORS);
    pl_tape_close(&tape);
}

static void group_norm_with_groups_without_end_is_refused(void) {
    const int64_t groups[] = {INT64_MAX, INT64_C(1) << 61, INT64_C(1) << 43};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        pl_builder *b = open_model();
        int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(8, 16, 4, 4));
        pl_call(b, "aten.group_norm.default");
        pl_call_tensor(b, "input", x);
        pl_call_int(b, "num_groups", groups[i]);
        int32_t y = pl_call_result_like(b, x);
        pl_job job = plain();
        pl_error err = {0};
        CHECK_INT(train(b, y, &job, NULL, &err), PL_INPUT);
        CHECK(strstr(err.message, "aten.group_norm.default") && strstr(err.message, "2^44"));
    }
}

static void products_of_sizes_without_end_are_refused(void) {
    const int64_t n = INT64_C(1) << 43;
    pl_builder *b = open_model();
    int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(n, 1)),
            y = pl_build_input(b, "y", PL_DT_F32, PL_SIZES(1, n));
    pl_call(b, "aten.mm.default");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "mat2", y);
    int32_t z = pl_call_result(b, PL_DT_F32, PL_SIZES(1024, 1024));
    pl_job job = plain();
    pl_error err = {0};
    CHECK_INT(train(b, z, &job, NULL, &err), PL_INPUT);
    CHECK(strstr(err.message, "2^44") != NULL);
}

/* Sizes and steps whose products do not fit 64 bits, through every operator of the table: refused
 * or answered. */
static void no_operator_overflows(void) {
    const int64_t sizes[][4] = {{INT64_C(1) << 41, 1, 1, 1},
                                {1, 1, 1, INT64_C(1) << 41},
                                {INT64_C(1) << 20, INT64_C(1) << 11, 1 << 5, 1 << 5},
                                {0, INT64_C(1) << 20, INT64_C(1) << 20, 1},
                                {3, 1, INT64_C(1) << 38, 1}};
    const int64_t steps[] = {INT64_MAX, INT64_C(1) << 61, INT64_MIN, 3};
    const int64_t ints[] = {INT64_MAX, INT64_C(1) << 60, 1, -1};
    int tried = 0;
    for (size_t row = 0; pl_operator_at(row); row++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            pl_builder *b = open_model();
            int32_t w = pl_build_parameter(b, "w", 4, sizes[k]),
                    x = pl_build_input(b, "x", PL_DT_F32, 4, sizes[(k + 1) % 5]);
            const char *name = pl_operator_at(row)->name;
            pl_call(b, pl_build_text(b, strchr(name, '.') ? "aten.%s" : "aten.%s.default", name));
            pl_call_tensor(b, row % 2 ? "self" : "input", w);
            pl_call_tensor(b, row % 3 ? "other" : "weight", x);
            const char *const names[] = {"step", "num_groups", "dim", "groups", "dilation"};
            for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                pl_call_int(b, names[i], steps[(row + k + i) % 4]);
            pl_call_ints(b, "padding", 4, ints);
            pl_call_ints(b, "pad", 4, ints);
            int32_t y = pl_call_result(b, PL_DT_F32, 4, sizes[(k + row) % 5]);
            pl_job job = plain();
            job.channels_last = row % 2;
            pl_error err = {0};
            pl_status status = train(b, y, &job, NULL, &err);
            CHECK(status == PL_OK || status == PL_INPUT || status == PL_USAGE);
            tried++;
        }
    CHECK(tried > 1000);
}

/* A row of twenty scratch tensors: all of them live at once, and none stays. */
static void scratch_of_a_row_has_no_end(void) {
    int64_t sizes[] = {256}, strides[] = {1};
    pl_tensor tensors[2] = {
        {.name = "x", .dtype = PL_DT_F32, .dims = 1, .sizes = sizes, .strides = strides},
        {.name = "y", .dtype = PL_DT_F32, .dims = 1, .sizes = sizes, .strides = strides}};
    pl_arg arg = {.name = "self", .kind = PL_ARG_TENSOR, .tensor = 0};
    int32_t outputs[] = {1};
    pl_node node = {.target = "aten.made_up.default",
                    .args = &arg,
                    .arg_count = 1,
                    .outputs = outputs,
                    .output_count = 1,
                    .source = ""};
    pl_graph graph = {.tensors = tensors, .tensor_count = 2, .nodes = &node, .node_count = 1};
    pl_operator row = {.name = "made_up", .forward = "tttttttttttttttttttto"};
    pl_arena *arena = pl_arena_new(0);
    pl_tape tape = {.arena = arena};
    pl_value *env[2] = {0};
    uint8_t types[2] = {0};
    pl_job job = plain();
    pl_eager e = {.tape = &tape,
                  .step_arena = arena,
                  .graph = &graph,
                  .job = &job,
                  .env = env,
                  .types = types,
                  .node = -1};
    env[0] = pl_new_flat(&e, PL_DT_F32, 256);
    size_t before = tape.event_count;
    pl_run_by_rule(&e, &node, &row);
    int64_t now = 0, most = 0;
    for (size_t i = before; i < tape.event_count; i++) {
        int32_t event = tape.events[i];
        now += event > 0 ? tape.blocks[event].bytes : -tape.blocks[-event].bytes;
        if (now > most) most = now;
    }
    CHECK_INT(most, 21 * 1024);
    CHECK_INT(now, 1024);
    CHECK(!e.failed);
    pl_arena_free(&arena);
}

/* What a checked job cannot have: the tape says so all the same. */
static void jobs_that_make_no_sense_are_refused(void) {
    for (int i = 0; i < 4; i++) {
        pl_builder *b = open_model();
        int32_t x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(4, 8)),
                w = pl_build_parameter(b, "w", PL_SIZES(8, 8));
        x = pl_aten_linear(b, x, w, PL_NONE);
        pl_job job = plain();
        if (i == 0) job.optimizer = NULL;
        if (i == 1) job.accumulate = 0;
        job.parallel = PL_FSDP2;
        job.world = i == 2 ? 0 : i == 3 ? -2 : 4;
        pl_error err = {0};
        CHECK_INT(train(b, x, &job, NULL, &err), PL_USAGE);
        CHECK(err.message[0]);
    }
}

int main(void) {
    RUN(bidirectional_lstms_may_be_deep);
    RUN(thirty_thousand_unknown_operators_are_listed_once);
    RUN(unknown_operators_may_take_many_tensors);
    RUN(group_norm_with_groups_without_end_is_refused);
    RUN(products_of_sizes_without_end_are_refused);
    RUN(no_operator_overflows);
    RUN(scratch_of_a_row_has_no_end);
    RUN(jobs_that_make_no_sense_are_refused);
    return check_done();
}
