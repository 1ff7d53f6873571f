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

/* From 2n to 4n as much is added as twice from n to 2n, and a little for sorting. */
static void grows_as_its_input(const char *what, maker make, int n) {
    int64_t once = steps_of(make, n), twice = steps_of(make, 2 * n), four = steps_of(make, 4 * n);
    printf("# %d, %d, %d %s: %.1f, %.1f, %.1f million steps\n", n, 2 * n, 4 * n, what,
           (double)once / 1e6, (double)twice / 1e6, (double)four / 1e6);
    CHECK(twice - once > n); /* it counts at all */
    CHECK((double)(four - twice) < 2.6 * (double)(twice - once));
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
    RUN(chains);
    RUN(unknown_operators);
    RUN(symbols_by_name);
    RUN(marks_of_a_trace);
    RUN(keys_that_collide);
    return check_done();
}
