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
static bool checkpoints, shards;

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
    return check_done();
}
