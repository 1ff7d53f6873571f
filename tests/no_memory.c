/* no_memory: reading a model and estimating a job with hybrid, where memory fails at one point after
 * the other: in the C library's malloc (the linker's --wrap) and in the arenas. Each time the answer
 * is "out of memory", and nothing is left behind (seen by the build with sanitizers).
 *     test_no_memory FILE...
 * Left out: what zlib and the C library take for themselves. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/arena.h"
#include "plimsoll/plimsoll.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long left = -1; /* allocations that succeed; below 0: all */

static bool fails(void) {
    if (left > 0) left--;
    return left == 0;
}
void *__wrap_malloc(size_t size) {
    return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *old, size_t size) {
    return fails() ? NULL : __real_realloc(old, size);
}

static char **files;
static int file_count;

/* Opens and estimates; whatever came is closed again. */
static pl_status answer(const char *path, pl_error *err) {
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_job job;
    pl_job_default(&job);
    pl_status status = pl_model_open(&model, path, NULL, err);
    if (status == PL_OK) status = pl_estimate(&report, model, &job, err);
    CHECK((report != NULL) == (status == PL_OK));
    pl_report_close(&report);
    pl_model_close(&model);
    return status;
}

/* Whether the answer was right; says what was wrong of the first few. */
static bool is_failure(const char *path, const char *what, long at, pl_status status,
                       const pl_error *err) {
    static int said;
    if (status == PL_MISSING && strcmp(err->message, "out of memory") == 0) return true;
    if (said++ < 20)
        printf("    %s, %s %ld: %d, %s: %s\n", path, what, at, (int)status, err->where,
               err->message);
    return false;
}

static void malloc_may_fail_at_any_point(void) {
    size_t points = 0, wrong = 0;
    for (int i = 0; i < file_count; i++)
        for (long after = 1;; after++) {
            pl_error err = {0};
            left = after;
            pl_status status = answer(files[i], &err);
            bool failed = left == 0;
            left = -1;
            if (!failed) {
                CHECK_INT(status, PL_OK);
                break;
            }
            points++;
            wrong += !is_failure(files[i], "malloc", after, status, &err);
        }
    printf("# %zu points at which malloc fails\n", points);
    CHECK(points > 100);
    CHECK_INT(wrong, 0);
}

/* Whether more than `count` allocations of arenas are made. */
static bool takes_more(const char *path, long count) {
    pl_error err = {0};
    pl_arena_fail_after(count + 1);
    answer(path, &err);
    pl_arena *probe = pl_arena_new(NULL); /* fails from then on where one failed */
    pl_arena_fail_after(-1);
    bool more = !probe;
    pl_arena_free(&probe);
    return more;
}

static long arena_allocations(const char *path) {
    long low = 0, high = 1;
    while (takes_more(path, high)) high *= 2;
    while (low < high) {
        long middle = low + (high - low) / 2;
        if (takes_more(path, middle))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of each input the first points one by one, then every 61st. */
static void arenas_may_fail_at_any_point(void) {
    enum { EACH = 300, STEP = 61 };
    size_t points = 0, wrong = 0;
    for (int i = 0; i < file_count; i++) {
        long count = arena_allocations(files[i]);
        for (long after = 0; after < count; after += after < EACH ? 1 : STEP) {
            pl_error err = {0};
            pl_arena_fail_after(after);
            pl_status status = answer(files[i], &err);
            pl_arena_fail_after(-1);
            points++;
            wrong += !is_failure(files[i], "arena", after, status, &err);
        }
    }
    printf("# %zu points at which an arena fails\n", points);
    CHECK(points > 1000);
    CHECK_INT(wrong, 0);
}

int main(int argc, char **argv) {
    files = argv + 1;
    file_count = argc - 1;
    RUN(malloc_may_fail_at_any_point);
    RUN(arenas_may_fail_at_any_point);
    return check_done();
}
