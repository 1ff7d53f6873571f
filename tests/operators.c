/* operators: what the rules of src/tape allocate, keep and free, against allocator traces.
 *
 * tests/data/operators.txt has one line per operator, read off traces of training jobs; the cases
 * below add what one operator alone does not show: broadcasting, shared storage, frozen parameters,
 * autocast's cache, checkpointing, accumulation, optimizers, and the table itself. Numbers are
 * those of the jobs named (2026-11-15, PyTorch 2.11, H200) or follow from the sizes. */
#include "by_hand.h"

#include "tape/operator.h"
#include "tape/optimizer.h"

#include <ctype.h>

/* ---- lines of the file ---- */

static pl_dtype dtype_named(const char *name) {
    static const struct {
        const char *name;
        pl_dtype dtype;
    } names[] = {{"i64", PL_DT_I64}, {"bool", PL_DT_BOOL}, {"f16", PL_DT_F16}, {"c64", PL_DT_C64}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0) return names[i].dtype;
    return PL_DT_UNKNOWN;
}

/* "32x256:bool" */
static bool read_output(built *b, pl_node *node, char *text) {
    char *colon = strchr(text, ':');
    pl_dtype dtype = colon ? dtype_named(colon + 1) : PL_DT_F32;
    if (colon) *colon = 0;
    int64_t sizes[PL_MAX_DIMS];
    int dims = 0;
    for (char *at = text; *at && dims < PL_MAX_DIMS;) {
        sizes[dims++] = strtoll(at, &at, 10);
        if (*at == 'x')
            at++;
        else if (*at)
            return false;
    }
    gives(b, node, dtype, dims, sizes);
    return dtype != PL_DT_UNKNOWN;
}

static bool read_argument(built *b, pl_node *node, char *text, int32_t y, int32_t first) {
    char *value = strchr(text, '=');
    if (!value) return false;
    *value++ = 0;
    int at = (int)(node - b->nodes);
    if (strcmp(value, "y") == 0) {
        with(node, text, y);
    } else if (*value == '#') {
        char *dot;
        long k = strtol(value + 1, &dot, 10), output = *dot == '.' ? strtol(dot + 1, NULL, 10) : 0;
        if (first + k >= at || output >= b->nodes[first + k].output_count) return false;
        with(node, text, b->nodes[first + k].outputs[output]);
    } else if (*value == '[') {
        pl_arg *arg = add_arg(node, text, PL_ARG_INTS);
        arg->ints = b->ints[at][node->arg_count - 1];
        for (char *c = value + 1; *c && *c != ']' && arg->count < PL_MAX_DIMS;) {
            arg->ints[arg->count++] = strtoll(c, &c, 10);
            if (*c == ',') c++;
        }
    } else if (*value == 's') {
        add_arg(node, text, PL_ARG_STRING)->s = value + 1;
    } else if (*value == 'f') {
        add_arg(node, text, PL_ARG_FLOAT)->f = strtod(value + 1, NULL);
    } else if (*value == 'd') {
        add_arg(node, text, PL_ARG_DTYPE)->i = strtoll(value + 1, NULL, 10);
    } else if (strcmp(value, "none") == 0) {
        add_arg(node, text, PL_ARG_NONE);
    } else if (isdigit((unsigned char)*value) || *value == '-') {
        with_int(node, text, strtoll(value, NULL, 10));
    } else {
        return false;
    }
    return true;
}

/* "aten.abs.default 32x256x256 self=y; ..": returns the last node's first output, -1 where it
 * cannot be read. */
static int32_t read_nodes(built *b, char *text, int32_t y) {
    int32_t first = b->graph.node_count, last = -1;
    char *next_node = NULL;
    for (char *line = strtok_r(text, ";", &next_node); line;
         line = strtok_r(NULL, ";", &next_node)) {
        char *next = NULL, *target = strtok_r(line, " ", &next),
             *outputs = strtok_r(NULL, " ", &next), *more = NULL;
        if (!target || !outputs) return -1;
        pl_node *node = add_node(b, target);
        for (char *arg = strtok_r(NULL, " ", &next); arg; arg = strtok_r(NULL, " ", &next))
            if (!read_argument(b, node, arg, y, first)) return -1;
        for (char *out = strtok_r(outputs, "+", &more); out; out = strtok_r(NULL, "+", &more))
            if (!read_output(b, node, out)) return -1;
        last = node->outputs[0];
    }
    return last;
}

/* From the event after which the nodes begin, to the mean's result; and in backward from the mean's
 * gradient to the first block of the linear layer. */
static span forward_part(const pl_tape *tape, int32_t mean) {
    span s = phase_of(tape, PL_PHASE_FORWARD, 1);
    size_t begin = s.begin, end = s.end;
    for (size_t i = s.begin; i < s.end; i++) {
        int32_t event = tape->events[i];
        if (event <= 0) continue;
        if (tape->blocks[event].node == 0) begin = i + 1;
        if (tape->blocks[event].node == mean && end == s.end) end = i;
    }
    return (span){begin, end};
}

static span backward_part(const pl_tape *tape, int32_t mean) {
    span s = phase_of(tape, PL_PHASE_BACKWARD, 1);
    size_t begin = s.end, end = s.end;
    for (size_t i = s.begin; i < s.end; i++) {
        int32_t event = tape->events[i];
        if (event <= 0) continue;
        if (tape->blocks[event].node == mean && begin == s.end) begin = i;
        if (tape->blocks[event].node == 0 && end == s.end) end = i;
    }
    return (span){begin, end};
}

static void try_line(char *fields[5]) {
    built *b = new_graph();
    int32_t x = INPUT(b, 32, 256, 256), weight = PARAMETER(b, 256, 256), bias = PARAMETER(b, 256);
    int32_t y = linear(b, x, weight, bias), last = read_nodes(b, fields[2], y);
    if (last < 0) {
        check_say(__FILE__, __LINE__, "the line cannot be read");
        free(b);
        return;
    }
    const pl_tensor *z = &b->tensors[last];
    int64_t rows = z->dims ? z->sizes[0] : 1, columns = 1;
    for (int i = 1; i < z->dims; i++) columns *= z->sizes[i];
    pl_node *flatten = add_node(b, "aten.flatten.using_ints");
    with(flatten, "self", last);
    with_int(flatten, "start_dim", 1);
    int32_t flat = gives(b, flatten, z->dtype, 2, (int64_t[]){rows, columns});
    pl_node *single = add_node(b, "aten.to.dtype");
    with(single, "self", flat);
    add_arg(single, "dtype", PL_ARG_DTYPE)->i = PL_DT_F32;
    int32_t cast = GIVES(b, single, rows, columns);
    pl_node *mean = add_node(b, "aten.mean.dim");
    with(mean, "self", cast);
    pl_arg *dim = add_arg(mean, "dim", PL_ARG_INTS);
    dim->ints = b->ints[mean - b->nodes][1];
    dim->ints[0] = dim->count = 1;
    finish(b, GIVES(b, mean, rows));
    pl_tape *tape = train(b, &plain);
    if (tape) {
        int32_t at = (int32_t)(mean - b->nodes);
        CHECK_STR(text_of(tape, forward_part(tape, at), true), fields[3]);
        CHECK_STR(text_of(tape, backward_part(tape, at), false), fields[4]);
        CHECK_INT(tape->unknown_count, 0);
    }
    pl_tape_close(&tape);
    free(b);
}

static void try_file(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("not ok %s: cannot be read\n", path);
        check_failed_cases++;
        return;
    }
    static char line[2 * MOST_TEXT];
    int count = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!*line || *line == '#') continue;
        char *fields[5], *at = line;
        int n = 0;
        for (; at && n < 5; n++) {
            fields[n] = at;
            at = strstr(at, " | ");
            if (at) {
                *at = 0;
                at += 3;
            }
        }
        check_failures_in_case = 0;
        if (n == 5)
            try_line(fields);
        else
            check_say(path, count, "five fields wanted");
        printf("%s %s (%s)\n", check_failures_in_case ? "not ok" : "ok", fields[0],
               n > 1 ? fields[1] : "");
        check_failed_cases += check_failures_in_case != 0;
        count++;
    }
    fclose(file);
    check_failures_in_case = 0;
    CHECK(count >= 100);
    if (check_failures_in_case) check_failed_cases++;
}

/* ---- what one operator alone does not show ---- */

/* The number's gradient is a view; the product's two are made whole, other's first, and the
 * vector's is summed. */
static void broadcast_gradients_are_summed(void) {
    built *b = new_graph();
    int32_t a = PARAMETER(b, 64, 256), v = PARAMETER(b, 256);
    finish(b, binary(b, "aten.mul.Tensor", a, v));
    CHECK_EVENTS(b, &plain, PL_PHASE_BACKWARD, 1, false, "1:4 2:65536 3:65536 4:1024 -2 -1");
    free(b);
}

/* nops-tok-24, permute_copy and movedim: a permutation allocates nothing, making it contiguous one
 * tensor. */
static void views_share_storage(void) {
    built *b = new_graph();
    int32_t p = PARAMETER(b, 32, 64);
    pl_node *t = add_node(b, "aten.transpose.int");
    with(t, "self", p);
    with_int(t, "dim0", 0);
    with_int(t, "dim1", 1);
    int32_t turned = GIVES(b, t, 64, 32);
    b->strides[turned][0] = 1;
    b->strides[turned][1] = 64;
    finish(b, turned);
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true, "1:4");
    free(b);
    b = new_graph();
    p = PARAMETER(b, 32, 64);
    pl_node *view = add_node(b, "aten.view.default");
    with(view, "self", p);
    int32_t flat = GIVES(b, view, 2048);
    finish(b, unary(b, "aten.exp.default", flat));
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true, "1:8192 2:4");
    free(b);
}

/* relu keeps its result, the product keeps it twice: one block. */
static void saved_twice_is_held_once(void) {
    built *b = new_graph();
    int32_t y = unary(b, "aten.relu.default", PARAMETER(b, 64, 64));
    finish(b, binary(b, "aten.mul.Tensor", y, y));
    CHECK_INT(kept_after_forward(b, &plain), 16384 + 4);
    free(b);
}

/* In place nothing is made forward; on a view backward goes by way of the base (nops-tok-11,
 * sigmoid_). */
static void in_place_writes_over(void) {
    built *b = new_graph();
    int32_t y = unary(b, "aten.exp.default", PARAMETER(b, 64, 64));
    finish(b, unary(b, "aten.relu_.default", y));
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true, "1:16384 2:4");
    free(b);
}

static void frozen_parameters_save_nothing(void) {
    built *b = new_graph();
    int32_t frozen = PARAMETER(b, 64, 64), p = PARAMETER(b, 64, 64);
    b->tensors[frozen].requires_grad = false;
    int32_t y = unary(b, "aten.relu.default", frozen);
    finish(b, binary(b, "aten.add.Tensor", y, p));
    CHECK_INT(kept_after_forward(b, &plain), 4);
    pl_tape *tape = train(b, &plain);
    if (tape) {
        size_t end = phase_of(tape, PL_PHASE_BACKWARD, 1).end;
        CHECK_INT(alive(tape, end, PL_GRADIENTS), 16384); /* p's alone */
    }
    pl_tape_close(&tape);
    free(b);
}

/* nloss-ce_float, its first layer [2048, 256] to 512: the gradient of relu, the weight's, the
 * bias's with its sum's scratch space (512 outputs by 8 blocks of 32 by 16 sums). cuBLAS's
 * workspaces were taken in the first step. */
static void linear_layers(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 2048, 256), w = PARAMETER(b, 512, 256), bias = PARAMETER(b, 512);
    finish(b, unary(b, "aten.relu.default", linear(b, x, w, bias)));
    CHECK_INT(kept_after_forward(b, &plain), 4194304 + 4); /* relu's result */
    CHECK_EVENTS(b, &plain, PL_PHASE_BACKWARD, 1, false,
                 "1:4 2:4194304 -(4194304) 3:524288 4:2048 5:8388608 6:16 -6 -5 -2 -1");
    pl_tape *tape = train(b, &plain);
    if (tape) {
        span s = phase_of(tape, PL_PHASE_FORWARD, 0);
        CHECK_INT(alive(tape, s.end, PL_WORKSPACE), 33554432 + 1048576);
        CHECK(tape->used_blas && tape->used_blas_backward && tape->used_blas_lt);
    }
    pl_tape_close(&tape);
    free(b);
}

/* nops-tok-25, bmm: both operands kept; mat2's gradient first. Here one of them is no parameter's
 * child. */
static void batched_products(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 8, 32, 64), p = PARAMETER(b, 8, 64, 16);
    pl_node *node = add_node(b, "aten.bmm.default");
    with(node, "self", x);
    with(node, "mat2", p);
    finish(b, GIVES(b, node, 8, 32, 16));
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true, "1:16384 2:4 -1");
    /* the gradient is a number expanded, and copied for cuBLAS */
    CHECK_EVENTS(b, &plain, PL_PHASE_BACKWARD, 1, false, "1:4 2:16384 3:32768 -2 -1");
    free(b);
}

/* max_pool2d 3, stride 2 of [16, 64, 56, 56] (nops-img-0): values and int64 places, both kept with
 * the input. */
static void pooling(void) {
    built *b = new_graph();
    int32_t y = unary(b, "aten.exp.default", PARAMETER(b, 16, 64, 56, 56));
    pl_node *node = add_node(b, "aten.max_pool2d.default");
    with(node, "self", y);
    finish(b, GIVES(b, node, 16, 64, 28, 28));
    pl_tape *tape = train(b, &plain);
    if (tape) {
        CHECK_INT(alive(tape, phase_of(tape, PL_PHASE_FORWARD, 1).end, PL_ACTIVATIONS),
                  12845056 + 6422528 + 4);
        span s = phase_of(tape, PL_PHASE_BACKWARD, 1);
        CHECK_STR(text_of(tape, s, false),
                  "1:4 2:12845056 -(6422528) 3:12845056 -2 -(12845056) -1");
    }
    pl_tape_close(&tape);
    free(b);
}

static void embed(built *b, int64_t count, int64_t rows, int64_t width) {
    int32_t table = PARAMETER(b, rows, width), places = INDICES(b, count);
    pl_node *node = add_node(b, "aten.embedding.default");
    with(node, "weight", table);
    with(node, "indices", places);
    finish(b, GIVES(b, node, count, width));
}

/* Up to 3,072 indices: the gradient alone, and a copy of an expanded one. */
static void embedding_of_few(void) {
    built *b = new_graph();
    embed(b, 64, 100, 16);
    CHECK_EVENTS(b, &plain, PL_PHASE_BACKWARD, 1, false, "1:4 2:4096 3:6400 -2 -1");
    free(b);
}

/* nhf-distilbert-1: 4,096 indices into 28,000 rows of 512. */
static void embedding_of_many(void) {
    built *b = new_graph();
    embed(b, 4096, 28000, 512);
    CHECK_EVENTS(b, &plain, PL_PHASE_BACKWARD, 1, false,
                 "1:4 2:8388608 3:32768 4:32768 5:32768 6:83455 -6 -5 7:57344000 8:32768 9:8 "
                 "10:32768 11:1279 -11 -10 "
                 "12:32768 13:32768 14:1279 -14 15:8 16:36040 17:9226240 -17 -16 -15 -13 -12 -9 -8 "
                 "-4 -3 -2 -1");
    free(b);
}

/* ncell-lstm-fp32, 256 sequences of 256 into 512: gates of the input and of the state, workspace,
 * both states; gates, workspace and the state before are kept. Backward, here of the hidden state's
 * sum: the gates' gradient serves both products, its sum both biases; then the two weights'. */
static void lstm_cell(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 256, 256), h = INPUT(b, 256, 512), c = INPUT(b, 256, 512);
    pl_node *node = add_node(b, "aten.lstm_cell.default");
    with(node, "input", x);
    pl_arg *states = add_arg(node, "hx", PL_ARG_TENSORS);
    states->list = b->lists[0];
    states->count = 2;
    states->list[0] = h;
    states->list[1] = c;
    with(node, "w_ih", PARAMETER(b, 2048, 256));
    with(node, "w_hh", PARAMETER(b, 2048, 512));
    with(node, "b_ih", PARAMETER(b, 2048));
    with(node, "b_hh", PARAMETER(b, 2048));
    int32_t hidden = GIVES(b, node, 256, 512);
    GIVES(b, node, 256, 512);
    finish(b, hidden);
    pl_tape *tape = train(b, &plain);
    if (tape) {
        const char *text = text_of(tape, phase_of(tape, PL_PHASE_FORWARD, 1), true);
        CHECK(strncmp(text, "1:2097152 2:2097152 3:2097152 4:524288 5:524288", 47) == 0);
        CHECK_INT(alive(tape, phase_of(tape, PL_PHASE_FORWARD, 1).end, PL_ACTIVATIONS),
                  3 * 2097152 + 524288 + 4);
        CHECK_STR(text_of(tape, phase_of(tape, PL_PHASE_BACKWARD, 1), true),
                  "1:4 2:2097152 3:524288 4:8192 -3 5:8192 6:4194304 7:2097152 -2 -1");
    }
    pl_tape_close(&tape);
    free(b);
}

/* ---- losses: a parameter [2048, 2000] against a batch's targets, as in nloss-* ---- */

static void check_loss(const char *target, pl_precision precision, const char *forward,
                       const char *backward) {
    built *b = new_graph();
    int32_t p = PARAMETER(b, 2048, 2000), y = INPUT(b, 2048, 2000);
    pl_node *node = add_node(b, target);
    with(node, "self", p);
    with(node, "target", y);
    b->results[0] = gives(b, node, PL_DT_F32, 0, NULL);
    b->graph.output_count = 1;
    pl_job how = plain;
    how.precision = precision;
    CHECK_EVENTS(b, &how, PL_PHASE_FORWARD, 1, true, forward);
    CHECK_EVENTS(b, &how, PL_PHASE_BACKWARD, 1, false, backward);
    free(b);
}

static void losses(void) {
    /* the result keeps a block like the elements */
    check_loss("aten.mse_loss.default", PL_FP32, "1:16384000 2:16384000 3:2000 4:4 -4 -3 -2",
               "1:4 2:16384000 -1");
    check_loss("aten.huber_loss.default", PL_FP32, "1:16384000 2:4 3:2000 4:4 -4 -3 -1",
               "1:4 2:16384000 -1");
    /* composites: what their parts keep */
    check_loss("aten.l1_loss.default", PL_BF16, "1:8192000 2:8192000 3:2 4:2000 5:4 -5 -4 -2",
               "1:2 2:8192000 3:8192000 4:8192000 -3 -2 -(8192000) -1");
    check_loss("aten.poisson_nll_loss.default", PL_BF16,
               "1:8192000 2:8192000 3:8192000 -1 4:2 5:2000 6:4 -6 -5 -3",
               "1:2 2:8192000 3:8192000 4:8192000 -2 -(8192000) 5:8192000 -3 -5 -1");
    check_loss("aten.hinge_embedding_loss.default", PL_BF16,
               "1:8192000 2:8192000 3:8192000 4:4096000 5:8192000 6:4096000 7:8192000 8:8192000 "
               "9:2 10:2000 11:4 -11 -10 -8 -7 -5 -2 -1",
               "1:2 2:8192000 3:2 4:8192000 -3 -(4096000) 5:2 6:8192000 -5 -2 -(4096000) 7:2 "
               "8:4096000 9:8192000 -8 -7 -6 "
               "-(8192000) 10:8192000 -9 -10 -1");
}

/* nloss-ce_float: log-probabilities kept, the loss and the total weight; two gradients backward. */
static void cross_entropy(void) {
    built *b = new_graph();
    int32_t p = PARAMETER(b, 2048, 2000), y = INDICES(b, 2048);
    pl_node *node = add_node(b, "aten.cross_entropy_loss.default");
    with(node, "self", p);
    with(node, "target", y);
    b->results[0] = gives(b, node, PL_DT_F32, 0, NULL);
    b->graph.output_count = 1;
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true, "1:16384000 2:4 3:4");
    CHECK_EVENTS(b, &plain, PL_PHASE_BACKWARD, 1, false,
                 "1:4 2:16384000 -(4) 3:16384000 -2 -(16384000) -1");
    free(b);
}

/* ---- the training loop ---- */

/* A weight used twice is cast once, and the copy goes with the region. */
static void autocast_caches_weights(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 16, 64), w = PARAMETER(b, 64, 64);
    finish(b, linear(b, linear(b, x, w, -1), w, -1));
    pl_job how = plain;
    how.precision = PL_AMP_BF16;
    pl_tape *tape = train(b, &how);
    if (tape) {
        span s = phase_of(tape, PL_PHASE_FORWARD, 1);
        int casts = 0;
        for (size_t i = s.begin; i < s.end; i++)
            casts += tape->events[i] > 0 && tape->blocks[tape->events[i]].bytes == 64 * 64 * 2;
        CHECK_INT(casts, 1);
        CHECK_INT(alive(tape, tape->event_count, PL_WEIGHTS), 64 * 64 * 4);
    }
    pl_tape_close(&tape);
    free(b);
}

static built *two_blocks(void) {
    built *b = new_graph();
    static const char *const paths[] = {"layers.0", "layers.0.act", "layers.1"};
    int32_t y = PARAMETER(b, 64, 64);
    b->modules[1] = (pl_module){.path = paths[0], .type = "Block", .parent = 0};
    b->modules[2] = (pl_module){.path = paths[1], .type = "Act", .parent = 1};
    b->modules[3] = (pl_module){.path = paths[2], .type = "Block", .parent = 0};
    b->graph.module_count = 3;
    for (int i = 0; i < 4; i++) {
        y = unary(b, "aten.exp.default", y);
        b->nodes[i].module = i == 0 ? 1 : i == 3 ? 0 : 2;
    }
    finish(b, y);
    return b;
}

/* Three exponentials in a block keep three results without checkpointing; with it they are made
 * again backward. */
static void checkpointed_blocks_keep_their_input(void) {
    built *b = two_blocks();
    pl_job how = plain;
    CHECK_INT(kept_after_forward(b, &how), 4 * 16384 + 4);
    how.checkpoint = true;
    CHECK_INT(kept_after_forward(b, &how), 16384 + 4); /* of the node after the block */
    pl_tape *tape = train(b, &how);
    if (tape) {
        int64_t made = 0;
        span s = phase_of(tape, PL_PHASE_BACKWARD, 1);
        for (size_t i = s.begin; i < s.end; i++) made += tape->events[i] > 0;
        CHECK_INT(made, 1 + 4 + 3); /* the first gradient, four more, and three results again */
    }
    pl_tape_close(&tape);
    free(b);
}

/* Two passes per step: the second pass's gradients are added to the first's and go. */
static void accumulated_gradients(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 16, 64), w = PARAMETER(b, 64, 64);
    finish(b, linear(b, x, w, -1));
    pl_job how = plain;
    how.accumulate = 2;
    pl_tape *tape = train(b, &how);
    if (tape) {
        size_t passes = 0;
        for (size_t i = 0; i < tape->mark_count; i++)
            passes += tape->marks[i].phase == PL_PHASE_FORWARD;
        CHECK_INT(passes, 4);
        CHECK_INT(alive(tape, phase_of(tape, PL_PHASE_BACKWARD, 1).end, PL_GRADIENTS), 64 * 64 * 4);
    }
    pl_tape_close(&tape);
    free(b);
}

/* ---- optimizers ---- */

/* The layers of nopt-*-mlp: bytes kept by the first step, and the most that the second holds for
 * itself. `near`: bytes by which small scalars that are not simulated may change the second. */
static const struct {
    const char *name, *job;
    pl_precision precision;
    int64_t kept, most, near;
} optimizer_rows[] = {
    {"sgd", "nopt-sgd-mlp", PL_FP32, 0, 0, 0},
    {"sgd-momentum-fused", "nopt-sgd-fused-mlp", PL_FP32, 34404768, 0, 0},
    {"sgd-nesterov", "nopt-sgd-nesterov-mlp", PL_BF16, 17202384, 17202384, 0},
    {"adam", "nopt-adam-mlp", PL_FP32, 68809536, 34404768, 0},
    {"adam-decay", "nopt-adam-decay-mlp", PL_FP32, 68809536, 34404768, 0},
    {"adam-fused", "nopt-adam-fused-mlp", PL_FP32, 68809568, 0, 0},
    {"adam-single", "nopt-adam-single-mlp", PL_FP32, 68809536, 32703908, 0},
    {"adamw-single", "nopt-adamw-single-mlp", PL_FP32, 68809536, 32703908, 0},
    {"adamw-amsgrad", "nopt-adamw-amsgrad-mlp", PL_FP32, 103214304, 34404768, 0},
    {"rmsprop", "nopt-rmsprop-mlp", PL_FP32, 34404768, 34404768, 0},
    {"rmsprop-centered", "nopt-rmsprop-centered-mlp", PL_FP32, 103214304, 34404768, 0},
    {"adagrad", "nopt-adagrad-mlp", PL_FP32, 0, 68809536, 0}, /* made with the optimizer */
    {"adadelta", "nopt-adadelta-mlp", PL_FP32, 68809536, 68809536, 0},
    {"adamax", "nopt-adamax-mlp", PL_FP32, 68809536, 34404768, 0},
    {"nadam", "nopt-nadam-mlp", PL_FP32, 68809536, 34404768, 0},
    {"radam", "nopt-radam-mlp", PL_FP32, 68809536, 34404768, 0},
    {"adafactor", "nopt-adafactor-mlp", PL_FP32, 83104, 16383108, 8192},
    {"asgd", "nopt-asgd-mlp", PL_FP32, 34404864, 34404768, 0},
    {"rprop", "nopt-rprop-mlp", PL_FP32, 68809536, 54840272, 0},
    {"lion", "nopt-lion-mlp", PL_FP32, 34404768, 49052308, 0},
};

static void optimizers_keep_and_take(void) {
    static const int64_t widths[] = {1000, 1777, 2300, 515, 3000};
    built *b = new_graph();
    int32_t y = INPUT(b, 8, 1000);
    for (int i = 0; i < 4; i++) {
        int32_t w = PARAMETER(b, widths[i + 1], widths[i]), bias = PARAMETER(b, widths[i + 1]);
        y = linear(b, y, w, bias);
    }
    finish(b, y);
    for (size_t i = 0; i < sizeof optimizer_rows / sizeof *optimizer_rows; i++) {
        pl_job how = plain;
        how.optimizer = optimizer_rows[i].name;
        how.precision = optimizer_rows[i].precision;
        pl_tape *tape = train(b, &how);
        if (!tape) continue;
        int before = check_failures_in_case;
        span first = phase_of(tape, PL_PHASE_OPTIMIZER, 0),
             second = phase_of(tape, PL_PHASE_OPTIMIZER, 1);
        CHECK_INT(alive(tape, first.end, PL_OPTIMIZER) - alive(tape, first.begin, PL_OPTIMIZER),
                  optimizer_rows[i].kept);
        int64_t most = peak(tape, second) - alive(tape, second.begin, PL_KINDS),
                off = most - optimizer_rows[i].most;
        if (off < -optimizer_rows[i].near || off > optimizer_rows[i].near)
            CHECK_INT(most, optimizer_rows[i].most);
        if (check_failures_in_case != before)
            printf("    of %s (%s)\n", optimizer_rows[i].name, optimizer_rows[i].job);
        pl_tape_close(&tape);
    }
    free(b);
}

/* nopt-muon-mlp2d: three matrices; 2 bytes of scalars and its reductions' scratch are not
 * simulated. */
static void muon(void) {
    static const int64_t widths[] = {1024, 2048, 1536, 1000};
    built *b = new_graph();
    int32_t y = INPUT(b, 8, 1024);
    for (int i = 0; i < 3; i++) y = linear(b, y, PARAMETER(b, widths[i + 1], widths[i]), -1);
    finish(b, y);
    pl_job how = plain;
    how.optimizer = "muon";
    pl_tape *tape = train(b, &how);
    if (tape) {
        span first = phase_of(tape, PL_PHASE_OPTIMIZER, 0),
             second = phase_of(tape, PL_PHASE_OPTIMIZER, 1);
        CHECK_INT(alive(tape, first.end, PL_OPTIMIZER), 27115520);
        CHECK_INT(peak(tape, second) - alive(tape, second.begin, PL_KINDS), 34603008);
    }
    pl_tape_close(&tape);
    free(b);
}

static void every_optimizer_runs(void) {
    built *b = new_graph();
    finish(b, linear(b, INPUT(b, 4, 8), PARAMETER(b, 16, 8), PARAMETER(b, 16)));
    const char *name;
    for (size_t i = 0; (name = pl_optimizer_name(i)); i++) {
        CHECK(pl_optimizer_find(name) != NULL && *pl_optimizer_find(name)->source);
        pl_job how = plain;
        how.optimizer = name;
        pl_tape *tape = train(b, &how);
        CHECK(tape != NULL);
        pl_tape_close(&tape);
    }
    CHECK(pl_optimizer_find("adamx") == NULL);
    free(b);
}

/* ---- the table ---- */

/* No row: named, and taken for an operator that keeps all it sees. */
static void unknown_operators_are_named(void) {
    built *b = new_graph();
    int32_t y = unary(b, "aten.exp.default", PARAMETER(b, 64, 64));
    finish(b, unary(b, "aten.never_heard_of.default", y));
    pl_tape *tape = train(b, &plain);
    if (tape) {
        CHECK_INT(tape->unknown_count, 1);
        CHECK_STR(tape->unknown_count ? tape->unknown[0] : "", "aten.never_heard_of.default");
        CHECK_INT(alive(tape, phase_of(tape, PL_PHASE_FORWARD, 1).end, PL_ACTIVATIONS),
                  2 * 16384 + 4);
    }
    pl_tape_close(&tape);
    CHECK(pl_operator_find("other.mul.Tensor") == NULL);
    free(b);
}

/* ---- aliases ---- */

/* What PyTorch 2.11 calls an alias (its documentation, and the aliases in
 * torch/testing/_internal/common_methods_invocations.py) where the original has a row. */
static const char *const aliases[][2] = {
    {"aten.absolute.default", "aten.abs.default"},
    {"aten.arccos.default", "aten.acos.default"},
    {"aten.arccosh.default", "aten.acosh.default"},
    {"aten.arcsin.default", "aten.asin.default"},
    {"aten.arcsinh.default", "aten.asinh.default"},
    {"aten.arctan.default", "aten.atan.default"},
    {"aten.arctan2.default", "aten.atan2.default"},
    {"aten.arctanh.default", "aten.atanh.default"},
    {"aten.clip.default", "aten.clamp.default"},
    {"aten.concat.default", "aten.cat.default"},
    {"aten.concatenate.default", "aten.cat.default"},
    {"aten.det.default", "aten.linalg_det.default"},
    {"aten.divide.default", "aten.div.default"},
    {"aten.fix.default", "aten.trunc.default"},
    {"aten.ger.default", "aten.outer.default"},
    {"aten.greater.default", "aten.gt.default"},
    {"aten.greater_equal.default", "aten.ge.default"},
    {"aten.inverse.default", "aten.linalg_inv.default"},
    {"aten.less.default", "aten.lt.default"},
    {"aten.less_equal.default", "aten.le.default"},
    {"aten.linalg_diagonal.default", "aten.diagonal.default"},
    {"aten.linalg_matmul.default", "aten.matmul.default"},
    {"aten.mH.default", "aten.adjoint.default"},
    {"aten.matrix_exp.default", "aten.linalg_matrix_exp.default"},
    {"aten.max.other", "aten.maximum.default"},
    {"aten.min.other", "aten.minimum.default"},
    {"aten.moveaxis.default", "aten.movedim.default"},
    {"aten.multiply.default", "aten.mul.default"},
    {"aten.negative.default", "aten.neg.default"},
    {"aten.not_equal.default", "aten.ne.default"},
    {"aten.pinverse.default", "aten.linalg_pinv.default"},
    {"aten.row_stack.default", "aten.vstack.default"},
    {"aten.slogdet.default", "aten.linalg_slogdet.default"},
    {"aten.special_digamma.default", "aten.digamma.default"},
    {"aten.special_erf.default", "aten.erf.default"},
    {"aten.special_erfc.default", "aten.erfc.default"},
    {"aten.special_erfinv.default", "aten.erfinv.default"},
    {"aten.special_exp2.default", "aten.exp2.default"},
    {"aten.special_expit.default", "aten.sigmoid.default"},
    {"aten.special_expm1.default", "aten.expm1.default"},
    {"aten.special_gammaln.default", "aten.lgamma.default"},
    {"aten.special_log1p.default", "aten.log1p.default"},
    {"aten.special_log_softmax.default", "aten.log_softmax.default"},
    {"aten.special_logit.default", "aten.logit.default"},
    {"aten.special_logsumexp.default", "aten.logsumexp.default"},
    {"aten.special_psi.default", "aten.digamma.default"},
    {"aten.special_round.default", "aten.round.default"},
    {"aten.special_sinc.default", "aten.sinc.default"},
    {"aten.special_softmax.default", "aten.softmax.default"},
    {"aten.special_xlogy.default", "aten.xlogy.default"},
    {"aten.subtract.default", "aten.sub.default"},
    {"aten.swapaxes.default", "aten.transpose.default"},
    {"aten.swapdims.default", "aten.transpose.default"},
    {"aten.trapz.default", "aten.trapezoid.default"},
    {"aten.true_divide.default", "aten.div.default"},
    {"aten.clip.Tensor", "aten.clamp.Tensor"},
    {"aten.greater.Scalar", "aten.gt.Scalar"},
    {"aten.subtract.Tensor", "aten.sub.Tensor"},
};

/* The events of three runs of w (a parameter) and x through the operator: in float32, under
 * autocast, and what the optimizer sees. */
static char *events_of(const char *target, bool in_place) {
    char *all = calloc(3, MOST_TEXT);
    if (!all) abort();
    for (int mixed = 0; mixed < 2; mixed++) {
        built *b = new_graph();
        int32_t w = PARAMETER(b, 32, 256), x = INPUT(b, 32, 256);
        if (in_place) w = unary(b, "aten.mul.Tensor", w);
        finish(b, unary(b, "aten.relu.default", binary(b, target, w, x)));
        pl_job how = plain;
        if (mixed) how.precision = PL_AMP_BF16;
        pl_tape *tape = train(b, &how);
        if (tape) {
            strcat(all, text_of(tape, phase_of(tape, PL_PHASE_FORWARD, 1), false));
            strcat(all, "; ");
            strcat(all, text_of(tape, phase_of(tape, PL_PHASE_BACKWARD, 1), false));
            /* joins, which take a list and not two tensors, are beyond their rules here */
            CHECK(tape->unknown_count == 0 || pl_operator_find(tape->unknown[0]));
        }
        pl_tape_close(&tape);
        free(b);
    }
    return all;
}

static void aliases_are_what_they_name(void) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        const pl_operator *row = pl_operator_find(aliases[i][0]);
        CHECK(row && row == pl_operator_find(aliases[i][1]) && !row->same_as);
        char *alias = events_of(aliases[i][0], false), *original = events_of(aliases[i][1], false);
        CHECK_STR(alias, original);
        CHECK(strlen(alias) > 20);
        free(original);
        free(alias);
    }
    /* in place, where the original has a row for that */
    const char *const forms[][2] = {{"aten.absolute_.default", "aten.abs_.default"},
                                    {"aten.clip_.default", "aten.clamp_.default"},
                                    {"aten.subtract_.Tensor", "aten.sub_.Tensor"},
                                    {"aten.swapdims_.default", "aten.transpose_.default"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        CHECK(pl_operator_find(forms[i][0]) == pl_operator_find(forms[i][1]));
        char *alias = events_of(forms[i][0], true), *original = events_of(forms[i][1], true);
        CHECK_STR(alias, original);
        free(original);
        free(alias);
    }
}

static void the_table_is_sound(void) {
    const pl_operator *before = NULL, *op;
    size_t count = 0;
    for (; (op = pl_operator_at(count)); before = op, count++) {
        int failures = check_failures_in_case;
        CHECK(!before || strcmp(before->name, op->name) < 0);
        CHECK(op->same_as ? !op->source && !op->run && !op->forward && !op->backward
                          : op->source && *op->source);
        if (!op->run) {
            for (const char *c = op->forward ? op->forward : ""; *c; c++)
                CHECK(strchr("otTbseimc=-123456789", *c));
            bool formula = false;
            for (const char *c = op->backward ? op->backward : ""; *c; c++) {
                if (*c == '|')
                    formula = false;
                else if (*c == ':' && !formula)
                    formula = true;
                else
                    CHECK(strchr(formula ? "gnNtTQcmMfFiIsv-123456789" : "abcdefghrx", *c));
            }
        }
        char target[128];
        snprintf(target, sizeof target, "aten.%s%s", op->name,
                 strchr(op->name, '.') ? "" : ".default");
        const pl_operator *found = pl_operator_find(target);
        CHECK(op->same_as ? found && found != op && strcmp(found->name, op->same_as) == 0
                          : found == op);
        if (check_failures_in_case != failures) printf("    of %s\n", op->name);
    }
    CHECK(count > 500);
    CHECK(pl_operator_find("aten.add_.Tensor") == pl_operator_find("aten.add.Tensor"));
    CHECK(pl_operator_in_place("aten.add_.Tensor") && !pl_operator_in_place("aten.add.Tensor"));
    CHECK(!pl_operator_in_place("aten.__and__.Tensor"));
}

int main(int argc, char **argv) {
    try_file(argc > 1 ? argv[1] : "tests/data/operators.txt");
    RUN(broadcast_gradients_are_summed);
    RUN(views_share_storage);
    RUN(saved_twice_is_held_once);
    RUN(in_place_writes_over);
    RUN(frozen_parameters_save_nothing);
    RUN(linear_layers);
    RUN(batched_products);
    RUN(pooling);
    RUN(embedding_of_few);
    RUN(embedding_of_many);
    RUN(lstm_cell);
    RUN(losses);
    RUN(cross_entropy);
    RUN(autocast_caches_weights);
    RUN(checkpointed_blocks_keep_their_input);
    RUN(accumulated_gradients);
    RUN(optimizers_keep_and_take);
    RUN(muon);
    RUN(every_optimizer_runs);
    RUN(unknown_operators_are_named);
    RUN(aliases_are_what_they_name);
    RUN(the_table_is_sound);
    return check_done();
}
