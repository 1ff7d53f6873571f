/* by_hand: graphs made by hand, trained on a made-up device, and what was allocated. Included by
 * the tests that hold rules of src/tape.
 *
 * The device is a made-up one with the H200's numbers; it has no convolutions. */
#ifndef PL_TESTS_BY_HAND_H
#define PL_TESTS_BY_HAND_H

#include "check.h"

#include "tape/tape.h"

#include <stdlib.h>

/* ---- a graph by hand ---- */

enum { MOST_TENSORS = 64, MOST_NODES = 32, MOST_ARGS = 12, MOST_TEXT = 4096 };

typedef struct built {
    pl_graph graph;
    pl_tensor tensors[MOST_TENSORS];
    int64_t sizes[MOST_TENSORS][PL_MAX_DIMS], strides[MOST_TENSORS][PL_MAX_DIMS];
    pl_node nodes[MOST_NODES];
    pl_arg args[MOST_NODES][MOST_ARGS];
    int32_t outputs[MOST_NODES][4], lists[MOST_NODES][8];
    int64_t ints[MOST_NODES][MOST_ARGS][PL_MAX_DIMS];
    pl_module modules[4];
    int32_t inputs[8], results[4];
    char names[MOST_TENSORS][16];
} built;

static inline built *new_graph(void) {
    built *b = calloc(1, sizeof *b);
    if (!b) abort();
    b->graph = (pl_graph){.name = "made by hand",
                          .torch_version = "2.11.0",
                          .tensors = b->tensors,
                          .nodes = b->nodes,
                          .modules = b->modules,
                          .inputs = b->inputs,
                          .outputs = b->results};
    b->modules[0] = (pl_module){.path = "", .type = "Net", .parent = -1};
    b->graph.module_count = 1;
    return b;
}

static inline int32_t tensor(built *b, pl_role role, pl_dtype dtype, int dims,
                             const int64_t *sizes) {
    int32_t id = b->graph.tensor_count++;
    if (id >= MOST_TENSORS) abort();
    snprintf(b->names[id], sizeof b->names[id], "t%d", (int)id);
    int64_t step = 1;
    for (int i = dims; i-- > 0;) {
        b->sizes[id][i] = sizes[i];
        b->strides[id][i] = step;
        step *= sizes[i];
    }
    b->tensors[id] = (pl_tensor){.name = b->names[id],
                                 .path = role == PL_ROLE_PARAMETER ? b->names[id] : NULL,
                                 .dtype = dtype,
                                 .role = role,
                                 .requires_grad = role == PL_ROLE_PARAMETER,
                                 .dims = (uint8_t)dims,
                                 .sizes = b->sizes[id],
                                 .strides = b->strides[id],
                                 .producer = -1,
                                 .tied = -1};
    if (role == PL_ROLE_INPUT) b->inputs[b->graph.input_count++] = id;
    return id;
}

#define SIZES(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) {                       \
        __VA_ARGS__                                                                                \
    }
#define PARAMETER(b, ...) tensor(b, PL_ROLE_PARAMETER, PL_DT_F32, SIZES(__VA_ARGS__))
#define INPUT(b, ...)     tensor(b, PL_ROLE_INPUT, PL_DT_F32, SIZES(__VA_ARGS__))
#define INDICES(b, ...)   tensor(b, PL_ROLE_INPUT, PL_DT_I64, SIZES(__VA_ARGS__))

static inline pl_node *add_node(built *b, const char *target) {
    int32_t id = b->graph.node_count++;
    if (id >= MOST_NODES) abort();
    b->nodes[id] =
        (pl_node){.target = target, .args = b->args[id], .outputs = b->outputs[id], .source = ""};
    return &b->nodes[id];
}

static inline pl_arg *add_arg(pl_node *node, const char *name, pl_arg_kind kind) {
    if (node->arg_count >= MOST_ARGS) abort();
    pl_arg *arg = &node->args[node->arg_count++];
    *arg = (pl_arg){.name = name, .kind = kind};
    return arg;
}

static inline void with(pl_node *node, const char *name, int32_t id) {
    add_arg(node, name, PL_ARG_TENSOR)->tensor = id;
}

static inline void with_int(pl_node *node, const char *name, int64_t value) {
    add_arg(node, name, PL_ARG_INT)->i = value;
}

static inline int32_t gives(built *b, pl_node *node, pl_dtype dtype, int dims,
                            const int64_t *sizes) {
    int32_t id = tensor(b, PL_ROLE_VALUE, dtype, dims, sizes);
    b->tensors[id].producer = (int32_t)(node - b->nodes);
    node->outputs[node->output_count++] = id;
    return id;
}

#define GIVES(b, node, ...) gives(b, node, PL_DT_F32, SIZES(__VA_ARGS__))

static inline int32_t unary(built *b, const char *target, int32_t x) {
    pl_node *node = add_node(b, target);
    with(node, "self", x);
    return gives(b, node, PL_DT_F32, b->tensors[x].dims, b->sizes[x]);
}

static inline int32_t binary(built *b, const char *target, int32_t x, int32_t y) {
    pl_node *node = add_node(b, target);
    with(node, "self", x);
    with(node, "other", y);
    int32_t wide = b->tensors[y].dims > b->tensors[x].dims ? y : x;
    return gives(b, node, PL_DT_F32, b->tensors[wide].dims, b->sizes[wide]);
}

static inline int32_t linear(built *b, int32_t x, int32_t weight, int32_t bias) {
    pl_node *node = add_node(b, "aten.linear.default");
    with(node, "input", x);
    with(node, "weight", weight);
    if (bias >= 0) with(node, "bias", bias);
    int64_t sizes[PL_MAX_DIMS];
    memcpy(sizes, b->sizes[x], sizeof sizes);
    sizes[b->tensors[x].dims - 1] = b->sizes[weight][0];
    return gives(b, node, PL_DT_F32, b->tensors[x].dims, sizes);
}

/* The sum of everything: a number, the model's own loss. */
static inline void finish(built *b, int32_t x) {
    pl_node *node = add_node(b, "aten.sum.default");
    with(node, "self", x);
    b->results[0] = gives(b, node, PL_DT_F32, 0, NULL);
    b->graph.output_count = 1;
}

/* ---- a run, and what it did ---- */

static inline int64_t no_workspace(void *context, const pl_conv *conv, pl_conv_pass pass, int major,
                                   int minor, double *doubt) {
    (void)context, (void)conv, (void)pass, (void)major, (void)minor;
    if (doubt) *doubt = 0;
    return 0;
}
static inline bool not_native(const pl_conv *conv) {
    (void)conv;
    return false;
}
static inline bool no_rnn(const pl_rnn *rnn, int major, int minor, pl_rnn_memory *out) {
    (void)rnn, (void)major, (void)minor;
    *out = (pl_rnn_memory){0};
    return true;
}
static inline int64_t no_attention(const pl_attention *attention, bool backward, int major,
                                   int minor, double *doubt) {
    (void)attention, (void)backward, (void)major, (void)minor;
    if (doubt) *doubt = 0;
    return 0;
}

static const pl_tape_device device = {.cc_major = 9,
                                      .cc_minor = 0,
                                      .sms = 132,
                                      .threads_per_sm = 2048,
                                      .cublas_bytes = 33554432,
                                      .cublaslt_bytes = 1048576,
                                      .conv = no_workspace,
                                      .conv_tried = no_workspace,
                                      .conv_native = not_native,
                                      .rnn = no_rnn,
                                      .attention = no_attention};

enum { STEPS = 2 };

static const pl_job plain = {
    .precision = PL_FP32, .optimizer = "sgd", .loss = PL_LOSS_OWN, .accumulate = 1, .world = 1};

static inline pl_tape *train(const built *b, const pl_job *how) {
    pl_tape *tape = NULL;
    pl_error error = {0};
    if (pl_tape_train(&tape, &b->graph, how, STEPS, &device, NULL, &error) != PL_OK) {
        printf("    %s\n", error.message);
        check_say(__FILE__, __LINE__, "pl_tape_train failed");
    }
    return tape;
}

typedef struct span {
    size_t begin, end; /* events */
} span;

/* Events of a phase of a step, all its passes. */
static inline span phase_of(const pl_tape *tape, pl_phase phase, int step) {
    span s = {0, 0};
    for (size_t i = 0; i < tape->mark_count; i++) {
        if (tape->marks[i].phase != phase || tape->marks[i].step != step) continue;
        if (s.end == 0) s.begin = tape->marks[i].event;
        s.end = i + 1 < tape->mark_count ? tape->marks[i + 1].event : tape->event_count;
    }
    return s;
}

/* Events as text, as in tests/data/operators.txt. inner: leaves out frees of blocks of before. */
static inline const char *text_of(const pl_tape *tape, span s, bool inner) {
    static char text[MOST_TEXT];
    int32_t mine[128];
    int count = 0;
    size_t at = 0;
    text[0] = 0;
    for (size_t i = s.begin; i < s.end && at + 48 < sizeof text; i++) {
        int32_t event = tape->events[i], block = event < 0 ? -event : event;
        long long bytes = (long long)tape->blocks[block].bytes;
        int known = -1;
        for (int k = 0; k < count; k++)
            if (mine[k] == block) known = k;
        const char *space = at ? " " : "";
        if (event > 0 && count < 128) {
            mine[count++] = block;
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d:%lld", space, count, bytes);
        } else if (known >= 0) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%s-%d", space, known + 1);
        } else if (!inner) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%s-(%lld)", space, bytes);
        }
    }
    return text;
}

/* Bytes alive after so many events, of one kind or (PL_KINDS) all. */
static inline int64_t alive(const pl_tape *tape, size_t events, pl_kind kind) {
    int64_t sum = 0;
    for (size_t i = 0; i < events; i++) {
        int32_t event = tape->events[i];
        const pl_tape_block *block = &tape->blocks[event < 0 ? -event : event];
        if (kind == PL_KINDS || block->kind == kind)
            sum += event > 0 ? block->bytes : event < 0 ? -block->bytes : 0;
    }
    return sum;
}

static inline int64_t peak(const pl_tape *tape, span s) {
    int64_t now = alive(tape, s.begin, PL_KINDS), most = now;
    for (size_t i = s.begin; i < s.end; i++) {
        int32_t event = tape->events[i];
        int64_t bytes = tape->blocks[event < 0 ? -event : event].bytes;
        now += event > 0 ? bytes : -bytes;
        if (now > most) most = now;
    }
    return most;
}

static inline int64_t kept_after_forward(const built *b, const pl_job *how) {
    pl_tape *tape = train(b, how);
    if (!tape) return -1;
    int64_t bytes = alive(tape, phase_of(tape, PL_PHASE_FORWARD, 1).end, PL_ACTIVATIONS);
    pl_tape_close(&tape);
    return bytes;
}

#define CHECK_EVENTS(b, how, phase, step, inner, want)                                             \
    do {                                                                                           \
        pl_tape *tape_ = train(b, how);                                                            \
        if (tape_) CHECK_STR(text_of(tape_, phase_of(tape_, phase, step), inner), want);           \
        pl_tape_close(&tape_);                                                                     \
    } while (0)

#endif
