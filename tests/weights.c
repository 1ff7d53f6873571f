/* weights: model files and the library's own weights: used where they lie, checked, refused with a
 * reason, read by threads and forks at once, and every failure of memory said to be one.
 *
 * malloc, calloc and realloc of the library are those below (the linker's --wrap). */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "check.h"
#include <plimsoll/lab.h>

#include "estimate/estimator.h"
#include "estimate/weights.h"
#include "estimate/workspace_forest.h"
#include "learn/forest.h"
#include "learn/leafwise.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

/* ---- memory that fails ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static _Thread_local long left = -1; /* allocations that succeed; below 0: all */

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

/* ---- the library's own ---- */

/* The estimators that have weights in the library. */
static const char *own_name(size_t index) {
    const pl_estimator *row;
    for (size_t i = 0; (row = pl_estimator_row(i)) != NULL; i++)
        if (row->built_in && index-- == 0) return row->info.name;
    return NULL;
}

static const unsigned char *own_bytes(const char *name, size_t *size) {
    const pl_built_in *own = pl_estimator_named(name)->built_in;
    *size = own ? (size_t)(own->end - own->begin) : 0;
    return own ? own->begin : NULL;
}

static void own_weights_are_sound(void) {
    size_t count = 0, size;
    for (const char *name; (name = own_name(count)) != NULL; count++) {
        const unsigned char *bytes = own_bytes(name, &size);
        pl_weights *weights = NULL;
        pl_error err = {0};
        pl_status status = pl_weights_read(&weights, bytes, size, false, name, &err);
        if (status == PL_INPUT && strcmp(name, "xgboost") == 0 && strstr(err.message, "libxgboost"))
            continue; /* not on this machine */
        if (status != PL_OK) check_say(name, (int)err.position, err.message);
        if (weights) CHECK_STR(weights->info.estimator, name);
        pl_weights_close(&weights);
    }
    CHECK(count >= 1);
}

static bool inside(const void *at, const unsigned char *bytes, size_t size) {
    return (const unsigned char *)at >= bytes && (const unsigned char *)at < bytes + size;
}

static void own_forests_are_used_where_they_lie(void) {
    const pl_weights *weights = NULL;
    pl_error err = {0};
    size_t size;
    const unsigned char *bytes = own_bytes("hybrid", &size);
    CHECK_INT(pl_weights_for(&weights, pl_estimator_named("hybrid"), NULL, &err), PL_OK);
    if (!weights || !bytes) return;
    for (size_t i = 0; i < weights->part_count; i++) {
        const pl_trained *part = weights->parts[i];
        const pl_trees *trees = part->learner == &pl_learner_forest
                                    ? &((const pl_forest *)part->learned)->trees
                                    : &((const pl_leafwise *)part->learned)->trees;
        CHECK(inside(trees->roots, bytes, size) && inside(trees->nodes, bytes, size));
        CHECK(trees->share_count == 0 || inside(trees->shares, bytes, size));
        CHECK(inside(part->target, bytes, size) && inside(part->columns[0].name, bytes, size));
    }
}

/* A copy of the library's own decision tree, aligned as it is. */
static unsigned char *copy_of(const char *name, size_t *size) {
    const unsigned char *own = own_bytes(name, size);
    unsigned char *bytes = own ? malloc(*size) : NULL;
    if (bytes) memcpy(bytes, own, *size);
    return bytes;
}

static unsigned char *text_in(unsigned char *bytes, size_t size, const char *text) {
    for (size_t i = 176; i + strlen(text) < size; i++)
        if (memcmp(bytes + i, text, strlen(text) + 1) == 0) return bytes + i;
    return NULL;
}

/* Trusted bytes are not checked, but a name that leads nowhere is an error all the same. */
static void damaged_names_are_refused(void) {
    static const char *const names[] = {"leafwise", "hybrid"};
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        unsigned char *bytes = copy_of("hybrid", &size);
        if (!bytes) return;
        pl_weights *weights = NULL;
        pl_error err = {0};
        text_in(bytes, size, names[i])[0] ^= 1;
        CHECK_INT(pl_weights_read(&weights, bytes, size, true, "damaged", &err), PL_INPUT);
        CHECK(weights == NULL && err.message[0]);
        free(bytes);
    }
}

static void fix_sum(unsigned char *part) {
    uint64_t size = 0;
    for (int i = 0; i < 8; i++) size |= (uint64_t)part[16 + i] << 8 * i;
    uint32_t sum = (uint32_t)crc32_z(0, part + 16, (size_t)size + 8);
    for (int i = 0; i < 4; i++) part[12 + i] = (unsigned char)(sum >> 8 * i);
}

static uint32_t u32_of(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Places, links and texts that lead out of the part, or in circles. */
static void hostile_places_are_refused(void) {
    static const struct {
        long at; /* from the part's beginning; below 0: ~ of a byte of what was learnt */
        uint32_t value;
        const char *says;
    } cases[] = {
        {120, 0, "a text's place"},
        {124, 0xfffffff0u, "a text's place"},
        {144, 0xfffffff0u, "an array's place"},
        {148, 60000, "as many values as were announced"},
        {168, 0x7ffffff0u, "an array's place"},
        {172, 0x3ffffff0u, "as many values as were announced"},
        {~8L, 2, "more bytes"},                     /* trees: two, of which the second is none */
        {~12L, 0xfffffff, "more bytes"},            /* nodes */
        {~24L, 1, "a first tree that begins at 0"}, /* the first tree's root */
        {~36L, 0, "children further on"},           /* the root's right child: itself */
        {~36L, 1 << 10, "children further on"},     /* its left one again */
        {~36L, 0x3fffffu << 10, "children further on"},
        {~36L, 2 << 10 | 999, "a split of one of the columns"},
        {~32L, 0x7f800000, "a finite number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size;
        unsigned char *bytes = copy_of("decision-tree", &size);
        if (!bytes) {
            SKIP("hostile_places", "no decision tree is built in");
            return;
        }
        size_t at =
            cases[i].at < 0 ? u32_of(bytes + 168) + (size_t)~cases[i].at : (size_t)cases[i].at;
        for (int k = 0; k < 4; k++)
            bytes[at + (size_t)k] = (unsigned char)(cases[i].value >> 8 * k);
        fix_sum(bytes);
        pl_weights *weights = NULL;
        pl_error err = {0};
        CHECK_INT(pl_weights_read(&weights, bytes, size, false, "hostile", &err), PL_INPUT);
        if (!strstr(err.message, cases[i].says)) CHECK_STR(err.message, cases[i].says);
        pl_weights_close(&weights);
        free(bytes);
    }
}

/* Bytes at an odd address give the same answers. */
static void unaligned_bytes_are_copied(void) {
    size_t size;
    const unsigned char *own = own_bytes("hybrid", &size);
    unsigned char *odd = own ? malloc(size + 1) : NULL;
    pl_weights *weights = NULL;
    const pl_weights *built_in = NULL;
    pl_error err = {0};
    if (!odd) return;
    memcpy(odd + 1, own, size);
    CHECK_INT(pl_weights_read(&weights, odd + 1, size, false, "odd", &err), PL_OK);
    CHECK_INT(pl_weights_for(&built_in, pl_estimator_named("hybrid"), NULL, &err), PL_OK);
    for (size_t i = 0; weights && built_in && i < weights->part_count; i++) {
        const pl_trained *a = weights->parts[i], *b = built_in->parts[i];
        enum { CLASSES = 64 };
        const char **names = calloc(a->column_count + 1, sizeof *names);
        float *values = calloc(a->column_count + 1, sizeof *values), first[CLASSES],
              second[CLASSES];
        CHECK(names && values && a->class_count <= CLASSES);
        if (!names || !values) abort();
        for (size_t c = 0; c < a->column_count; c++) names[c] = a->columns[c].name;
        for (size_t c = 0; c < a->column_count; c++) values[c] = (float)(c * i % 7);
        pl_samples samples = {
            .count = 1, .columns = a->column_count, .values = values, .names = names};
        CHECK_INT(pl_trained_predict(a, &samples, first, &err), PL_OK);
        CHECK_INT(pl_trained_predict(b, &samples, second, &err), PL_OK);
        size_t outputs = a->class_count ? a->class_count : 1;
        CHECK(memcmp(first, second, outputs * sizeof *first) == 0);
        free(names);
        free(values);
    }
    pl_weights_close(&weights);
    free(odd);
}

/* A forest whose leaves all but say nothing: an error, not a workspace of 0. */
static void a_silent_forest_is_an_error(void) {
    size_t size, at = 0;
    unsigned char *bytes = copy_of("hybrid", &size);
    pl_weights *weights = NULL;
    pl_workspace_chooser *chooser = NULL;
    pl_error err = {0};
    if (!bytes) return;
    while (at < size) { /* every share becomes 1 of 65,535 */
        unsigned char *part = bytes + at, *learnt = part + u32_of(part + 168);
        uint64_t behind = u32_of(part + 16);
        if (u32_of(learnt)) {
            unsigned char *trees = learnt + 8;
            unsigned char *shares = trees + 16 + 8 * (u32_of(trees) + u32_of(trees + 4));
            for (uint32_t k = 0; k < u32_of(trees + 8); k++) {
                shares[4 * k + 2] = 1;
                shares[4 * k + 3] = 0;
            }
        }
        fix_sum(part);
        at += 24 + (size_t)behind;
    }
    CHECK_INT(pl_weights_read(&weights, bytes, size, false, "silent", &err), PL_OK);
    CHECK_INT(pl_workspace_chooser_open(&chooser, weights, &err), PL_OK);
    pl_tape_device device = {0};
    if (chooser) {
        pl_workspace_chooser_serve(chooser, &device);
        CHECK_INT(pl_workspace_chooser_status(chooser, &err), PL_OK);
        pl_conv conv = {.dims = 2,
                        .dtype = PL_DT_F32,
                        .batch = 8,
                        .in_channels = 16,
                        .out_channels = 16,
                        .groups = 1,
                        .in = {32, 32},
                        .out = {32, 32},
                        .kernel = {3, 3},
                        .stride = {1, 1},
                        .padding = {1, 1},
                        .dilation = {1, 1}};
        device.conv(device.context, &conv, PL_CONV_FORWARD, 9, 0, NULL);
        CHECK_INT(pl_workspace_chooser_status(chooser, &err), PL_INPUT);
        CHECK(strstr(err.message, "workspace forward"));
    }
    pl_workspace_chooser_close(&chooser);
    pl_weights_close(&weights);
    free(bytes);
}

/* ---- memory ---- */

static void every_failure_of_memory_is_said(void) {
    size_t points = 0, wrong = 0, size;
    for (size_t i = 0; own_name(i); i++) {
        const char *name = own_name(i);
        pl_error first = {0};
        const pl_weights *there = NULL; /* XGBoost may not be on this machine; what it takes itself
                                           does not fail */
        if (pl_weights_for(&there, pl_estimator_named(name), NULL, &first) != PL_OK) continue;
        char path[64];
        snprintf(path, sizeof path, "models/%s.plm", name);
        const unsigned char *bytes = own_bytes(name, &size);
        for (int way = 0; way < 3; way++)
            for (long after = 1;; after++) {
                pl_weights *weights = NULL;
                pl_error err = {0};
                left = after;
                pl_status status =
                    way == 0 ? pl_weights_open(&weights, path, &err)
                             : pl_weights_read(&weights, bytes, size, way == 1, name, &err);
                bool failed = left == 0;
                left = -1;
                if (!failed) {
                    CHECK_INT(status, PL_OK);
                    pl_weights_close(&weights);
                    break;
                }
                points++;
                wrong += status != PL_MISSING || weights || strcmp(err.message, "out of memory");
            }
    }
    printf("# %zu points at which memory fails\n", points);
    CHECK(points > 100);
    CHECK_INT(wrong, 0);
}

/* ---- threads and forks ---- */

enum { READERS = 3, ROUNDS = 20, CHILDREN = 3 };

static const pl_weights *read_all(const char *but) {
    const pl_weights *last = NULL;
    for (size_t i = 0; own_name(i); i++)
        if (strcmp(own_name(i), but) != 0)
            pl_weights_for(&last, pl_estimator_named(own_name(i)), NULL, NULL);
    return last;
}

static _Atomic int waiting;

static void *first_readers(void *none) {
    (void)none;
    atomic_fetch_sub(&waiting, 1);
    while (atomic_load(&waiting) > 0) {
    }
    read_all("xgboost"); /* its library has locks of its own */
    return NULL;
}

/* In a process that has read nothing yet: threads read while others fork. Children that wait for
 * ever are ended by their alarm. 0: all came to their end. */
static int fork_while_reading(void) {
    pthread_t readers[READERS];
    int bad = 0;
    atomic_store(&waiting, READERS + 1);
    for (int i = 0; i < READERS; i++) pthread_create(&readers[i], NULL, first_readers, NULL);
    atomic_fetch_sub(&waiting, 1);
    while (atomic_load(&waiting) > 0) {
    }
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            alarm(20); /* one that waits for ever */
            _exit(read_all("xgboost") ? 0 : 1);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status = 0;
        if (children[i] < 0 || waitpid(children[i], &status, 0) < 0 || status != 0) bad++;
    }
    for (int i = 0; i < READERS; i++) pthread_join(readers[i], NULL);
    return bad;
}

static void forks_do_not_wait_for_readers(void) {
    int stuck = 0;
    fflush(stdout);
    for (int i = 0; i < ROUNDS; i++) {
        pid_t fresh = fork();
        int status = 0;
        if (fresh == 0) _exit(fork_while_reading());
        if (fresh < 0 || waitpid(fresh, &status, 0) < 0 || !WIFEXITED(status)) stuck++;
        stuck += WEXITSTATUS(status);
    }
    CHECK_INT(stuck, 0);
}

int main(void) {
    pl_lab_register();
#ifdef SANITIZED /* their own malloc is locked in the child */
    SKIP("forks_do_not_wait_for_readers",
         "a sanitizer's memory is left locked by a fork among threads");
    (void)forks_do_not_wait_for_readers;
#else
    RUN(forks_do_not_wait_for_readers); /* first: nothing is read yet */
#endif
    RUN(own_weights_are_sound);
    RUN(own_forests_are_used_where_they_lie);
    RUN(damaged_names_are_refused);
    RUN(hostile_places_are_refused);
    RUN(unaligned_bytes_are_copied);
    RUN(a_silent_forest_is_an_error);
    RUN(every_failure_of_memory_is_said);
    return check_done();
}
