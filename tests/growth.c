/* What reading and estimating cost as the input grows, counted in basic blocks executed and not in
 * time: the library that this program is linked with is compiled with -fsanitize-coverage=trace-pc,
 * so that every basic block calls the function below. The same input gives the same count on any
 * machine, however busy it is. A cost that grows as the square of the input's size is four times as
 * much for twice the input. Not seen: what libc does inside memcpy, strcmp and their like. */
#include <stdlib.h>

#include "check.h"
#include "costly.h"
#include "plimsoll/plimsoll.h"

static int64_t steps;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    steps++;
}

typedef char *(*maker)(int n, size_t *size);

/* What the job asks for beside its defaults. */
static bool checkpoints, shards, benchmarks;

/* Basic blocks executed to read a text of n things and to estimate its job. */
static int64_t steps_of(maker make, int n) {
    size_t size = 0;
    char *text = make(n, &size);
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_error err = {0};
    pl_job job;
    pl_job_default(&job);
    job.estimator = "sim";
    job.optimizer = "sgd";
    job.checkpoint = checkpoints;
    job.cudnn_benchmark = benchmarks;
    if (shards) job.parallel = PL_FSDP2, job.world = 4;
    steps = 0;
    pl_status status = pl_model_open_memory(&model, text, size, "growth", NULL, &err);
    if (status == PL_OK) status = pl_estimate(&report, model, &job, &err);
    int64_t counted = steps;
    if (status != PL_OK)
        printf("  %s at %lld: %s\n", err.where, (long long)err.position, err.message);
    CHECK_INT(status, PL_OK);
    pl_report_close(&report);
    pl_model_close(&model);
    free(text);
    return counted;
}

/* From 2n to 4n as much is added as twice from n to 2n, and a little for sorting: `most` as much. */
static void grows_by(const char *what, maker make, int n, double most) {
    int64_t once = steps_of(make, n), twice = steps_of(make, 2 * n), four = steps_of(make, 4 * n);
    printf("# %d, %d, %d %s: %.1f, %.1f, %.1f million steps\n", n, 2 * n, 4 * n, what,
           (double)once / 1e6, (double)twice / 1e6, (double)four / 1e6);
    CHECK(twice - once > n); /* it counts at all */
    CHECK((double)(four - twice) < most * (double)(twice - once));
}

static void grows_as_its_input(const char *what, maker make, int n) {
    grows_by(what, make, n, 2.6);
}

/* A Llama of n layers, each with a block to checkpoint and to shard. */
static char *layers(int n, size_t *size) {
    char *text = malloc(1024);
    if (!text) abort();
    *size =
        (size_t)snprintf(text, 1024,
                         "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":%d,"
                         "\"num_attention_heads\":4,\"intermediate_size\":128,"
                         "\"vocab_size\":100,\"max_position_embeddings\":16}",
                         n);
    return text;
}

/* The same with experts, and a list, twenty times as long, of other layers that have none. */
static char *layers_beside_a_list(int n, size_t *size) {
    size_t room = 1024 + (size_t)n * 160, at;
    char *text = malloc(room);
    if (!text) abort();
    at = (size_t)snprintf(text, room,
                          "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,"
                          "\"num_hidden_layers\":%d,\"num_attention_heads\":4,"
                          "\"intermediate_size\":128,\"moe_intermediate_size\":32,"
                          "\"num_experts\":4,\"num_experts_per_tok\":2,\"vocab_size\":100,"
                          "\"max_position_embeddings\":16,\"mlp_only_layers\":[",
                          n);
    for (int i = n * 20; i-- > 0;)
        at += (size_t)snprintf(text + at, room - at, "%d%s", n + i % 7, i ? "," : "]}");
    *size = at;
    return text;
}

/* ---- plimsoll's own graphs ---- */

typedef enum shape {
    BARE_BUFFERS, /* parameters of modules of their own; as many buffers of modules that have none */
    MIXED,        /* buffers before the parameters, and each module's two parameters far apart */
    SIBLINGS,     /* numbered modules in one list, each of another type */
    DEEP,         /* modules one inside the other, as deep as is allowed, an operator in the last */
    CONVOLUTIONS, /* each of another shape */
    ONE_BLOCK,    /* two blocks, one with all operators, which take values from before it */
} shape;

static void add_modules(costly_text *t, shape s, int n) {
    costly_add(t, "{\"path\":\"\",\"type\":\"M\",\"parent\":-1,\"call\":0}");
    if (s == SIBLINGS) costly_add(t, ",{\"path\":\"l\",\"type\":\"L\",\"parent\":0}");
    for (int i = 0; s == SIBLINGS && i < n; i++)
        costly_add(t,
                   ",{\"path\":\"l.%d\",\"type\":\"T%d\",\"parent\":%d},"
                   "{\"path\":\"l.%d.a\",\"type\":\"A\",\"parent\":%d}",
                   i, i, 1, i, 2 * i + 2);
    for (int i = 1; s == DEEP && i < 256; i++)
        costly_add(t, ",{\"path\":\"a%d\",\"type\":\"torch.nn.A\",\"parent\":%d}", i, i - 1);
    for (int i = 0; s == ONE_BLOCK && i < 2; i++)
        costly_add(t,
                   ",{\"path\":\"h.%d\",\"type\":\"H\",\"parent\":0},"
                   "{\"path\":\"h.%d.a\",\"type\":\"A\",\"parent\":%d}",
                   i, i, 2 * i + 1);
}

static void add_stored(costly_text *t, const char *role, const char *path, int number, char last) {
    costly_add(t, ",{\"role\":\"%s\",\"path\":\"%s%d.%c\",\"dtype\":\"float32\",\"sizes\":[4]%s}",
               role, path, number, last, role[0] == 'p' ? ",\"requires_grad\":true" : "");
}

/* Tensor 0 is the input, 1 a parameter; then what the shape has, then one value per node. */
static char *own_graph(shape s, int n, size_t *size) {
    costly_text t = {0};
    costly_add(&t, "{\"plimsoll_graph\":1,\"name\":\"g\",\"modules\":[");
    add_modules(&t, s, n);
    costly_add(&t, "],\"tensors\":[{\"role\":\"input\",\"dtype\":\"float32\",\"sizes\":[1,2,9000]},"
                   "{\"role\":\"parameter\",\"path\":\"w\",\"requires_grad\":true,"
                   "\"dtype\":\"float32\",\"sizes\":[2,2,1]}");
    int stored = 0, nodes = s == SIBLINGS ? 1 : n;
    for (int i = 0; s == MIXED && i < n / 2; i++, stored++) add_stored(&t, "buffer", "b", i, 'x');
    for (int k = 0; k < (s == MIXED ? 2 : s == BARE_BUFFERS); k++)
        for (int i = 0; i < n; i++, stored++) add_stored(&t, "parameter", "p", i, (char)('a' + k));
    for (int i = 0; s == BARE_BUFFERS && i < n; i++, stored++)
        add_stored(&t, "buffer", "b", i, 'x');
    for (int i = 0; i < nodes; i++)
        costly_add(&t, ",{\"dtype\":\"float32\",\"sizes\":[1,2,%d]}",
                   s == CONVOLUTIONS ? 9000 + 2 * i : 9000);
    costly_add(&t, "],\"nodes\":[");
    for (int i = 0; i < nodes; i++) {
        int made = 2 + stored + i, module = s == DEEP        ? 255
                                            : s == ONE_BLOCK ? (i < n / 2 ? 0 : 2)
                                                             : 0;
        int from = s == ONE_BLOCK && i >= n / 2 ? made - n / 2 : i ? made - 1 : 0;
        if (s == CONVOLUTIONS)
            costly_add(&t,
                       "%s{\"target\":\"aten.conv1d.default\",\"module\":0,\"args\":[[\"input\","
                       "\"tensor\",0],[\"weight\",\"tensor\",1],"
                       "[\"stride\",\"ints\",[1]],[\"padding\",\"ints\",[%d]],"
                       "[\"dilation\",\"ints\",[1]]],\"outputs\":[%d],\"source\":\"\"}",
                       i ? "," : "", i, made);
        else
            costly_add(&t,
                       "%s{\"target\":\"aten.relu.default\",\"module\":%d,\"args\":[[\"self\","
                       "\"tensor\",%d]],\"outputs\":[%d],\"source\":\"\"}",
                       i ? "," : "", module, from, made);
    }
    costly_add(&t, "],\"inputs\":[0],\"outputs\":[%d],\"mutations\":[]}", 1 + stored + nodes);
    return costly_done(&t, size);
}

#define OWN(name, shape)                                                                           \
    static char *name(int n, size_t *size) {                                                       \
        return own_graph(shape, n, size);                                                          \
    }
OWN(bare_buffers, BARE_BUFFERS)
OWN(mixed, MIXED)
OWN(siblings, SIBLINGS)
OWN(deep, DEEP)
OWN(convolutions, CONVOLUTIONS)
OWN(one_block, ONE_BLOCK)

static void buffers_without_parameters(void) {
    grows_as_its_input("buffers of modules without parameters", bare_buffers, 1000);
}

static void buffers_before_parameters(void) {
    grows_as_its_input("buffers before parameters", mixed, 1000);
}

static void siblings_of_other_types(void) {
    grows_as_its_input("numbered modules of other types", siblings, 1000);
}

static void operators_deep_inside(void) {
    grows_as_its_input("operators in 256 modules", deep, 1000);
}

/* Walking up the modules of an operator costs at most that: deeper ones are refused. */
static void deeper_modules_are_refused(void) {
    size_t size;
    char *text = own_graph(DEEP, 2, &size), *at = strstr(text, "],\"tensors\"");
    char *deeper = malloc(size + 64);
    if (!deeper || !at) abort();
    int head = (int)(at - text);
    int length = snprintf(deeper, size + 64,
                          "%.*s,{\"path\":\"a\",\"type\":\"A\",\"parent\":255}%s", head, text, at);
    pl_model *model = NULL;
    pl_error err = {0};
    CHECK_INT(pl_model_open_memory(&model, deeper, (size_t)length, "deep", NULL, &err), PL_INPUT);
    CHECK_INT(err.position, head + 1);
    CHECK_STR(err.message, "expected at most 256 modules, one inside the other");
    pl_model_close(&model);
    free(deeper);
    free(text);
}

static void tried_convolutions(void) {
    benchmarks = true;
    grows_as_its_input("convolutions tried by cudnn.benchmark", convolutions, 1000);
    benchmarks = false;
}

static void inputs_of_a_checkpointed_block(void) {
    checkpoints = true;
    grows_as_its_input("values that a checkpointed block holds", one_block, 1000);
    checkpoints = false;
}

static void layers_of_a_config(void) {
    grows_by("layers", layers, 400, 2.1);
}

static void checkpointed_layers(void) {
    checkpoints = true;
    grows_by("checkpointed layers", layers, 400, 2.1);
    checkpoints = false;
}

static void sharded_layers(void) {
    shards = true;
    grows_by("sharded layers", layers, 400, 2.1);
    shards = false;
}

static void layers_and_a_list(void) {
    grows_by("layers beside a list", layers_beside_a_list, 200, 2.1);
}

static void chains(void) {
    grows_as_its_input("operators", costly_chain, 4000);
}

static void unknown_operators(void) {
    grows_as_its_input("unknown operators", costly_strange, 4000);
}

static void symbols_by_name(void) {
    grows_as_its_input("symbols", costly_symbols, 1000);
}

static void marks_of_a_trace(void) {
    grows_as_its_input("marks", costly_marks, 1000);
}

static void keys_that_collide(void) {
    grows_as_its_input("colliding keys", costly_keys, 1024);
}

int main(void) {
    RUN(layers_of_a_config);
    RUN(checkpointed_layers);
    RUN(sharded_layers);
    RUN(layers_and_a_list);
    RUN(chains);
    RUN(unknown_operators);
    RUN(symbols_by_name);
    RUN(marks_of_a_trace);
    RUN(keys_that_collide);
    RUN(buffers_without_parameters);
    RUN(buffers_before_parameters);
    RUN(siblings_of_other_types);
    RUN(operators_deep_inside);
    RUN(deeper_modules_are_refused);
    RUN(tried_convolutions);
    RUN(inputs_of_a_checkpointed_block);
    return check_done();
}
