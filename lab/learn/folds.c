/* folds: which samples are kept apart. Groups (all jobs of one model, all models of one family) are
 * never split, or a learner would be asked about what it has seen. Groups are dealt largest first,
 * each to the smallest fold so far (as scikit-learn's GroupKFold), in the seed's order where sizes
 * are equal. Strata: as scikit-learn's StratifiedKFold with shuffling: samples sorted by class and
 * dealt round. Left out: strata together with groups. */
#include "lab/learn/folds.h"
#include "lab/learn/random.h"
#include "lend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Samples [count] sorted by group, and the groups as ranges of it in an order by the seed. */
typedef struct groups {
    uint32_t *samples; /* [count] */
    uint32_t *begin;   /* [count + 1]: group g's samples are begin[g] to begin[g + 1] */
    uint32_t *order;   /* [group_count] shuffled */
    uint32_t *load;    /* [count] room for counts */
    size_t group_count;
} groups;

typedef struct keyed {
    uint32_t key, place, sample;
} keyed;

static int compare_keyed(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Writes the samples in the order of (key, place in `first`). key NULL: by place alone. */
static bool sort_samples(uint32_t *out, const uint32_t *first, const uint32_t *key, size_t count) {
    keyed *rows = malloc(count * sizeof *rows);
    if (!rows) return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t sample = first[i];
        rows[i] = (keyed){key ? key[sample] : 0, (uint32_t)i, sample};
    }
    qsort(rows, count, sizeof *rows, compare_keyed);
    for (size_t i = 0; i < count; i++) out[i] = rows[i].sample;
    free(rows);
    return true;
}

static void groups_close(groups *g) {
    free(g->samples);
    free(g->begin);
    free(g->order);
    free(g->load);
}

static pl_status groups_open(groups *g, size_t count, const uint32_t *group, uint64_t seed,
                             pl_error *err) {
    *g = (groups){0};
    if (count == 0 || count >= UINT32_MAX)
        return pl_fail(err, PL_USAGE, "folds", -1, "%zu samples cannot be split", count);
    g->samples = malloc(count * sizeof *g->samples);
    g->begin = malloc((count + 1) * sizeof *g->begin);
    g->order = calloc(count, sizeof *g->order);
    g->load = calloc(count, sizeof *g->load);
    bool sorted = false;
    if (g->samples && g->begin && g->order && g->load) {
        for (size_t i = 0; i < count; i++) g->order[i] = (uint32_t)i;
        sorted = sort_samples(g->samples, g->order, group, count);
    }
    if (!sorted) {
        groups_close(g);
        return pl_fail(err, PL_MISSING, "folds", -1, "out of memory");
    }
    for (size_t i = 0; i < count; i++)
        if (i == 0 || !group || group[g->samples[i]] != group[g->samples[i - 1]])
            g->begin[g->group_count++] = (uint32_t)i;
    g->begin[g->group_count] = (uint32_t)count;
    for (size_t i = 0; i < g->group_count; i++) g->order[i] = (uint32_t)i;
    pl_random random = pl_random_seed(seed, 0);
    pl_random_shuffle(&random, g->order, g->group_count);
    return PL_OK;
}

static uint32_t group_size(const groups *g, uint32_t group) {
    return g->begin[group + 1] - g->begin[group];
}

/* g->order by falling size; within a size it stays. */
static bool largest_first(groups *g, size_t count) {
    uint32_t *falling = malloc(count * sizeof *falling);
    if (!falling) return false;
    for (size_t i = 0; i < g->group_count; i++)
        falling[i] = UINT32_MAX - group_size(g, (uint32_t)i);
    bool done = sort_samples(g->load, g->order, falling, g->group_count);
    memcpy(g->order, g->load, g->group_count * sizeof *g->order);
    memset(g->load, 0, count * sizeof *g->load);
    free(falling);
    return done;
}

pl_status pl_folds_deal(uint32_t *fold, size_t count, size_t folds, const uint32_t *group,
                        const uint32_t *strata, uint64_t seed, pl_error *err) {
    if (folds < 2)
        return pl_fail(err, PL_USAGE, "folds", -1, "%zu folds: at least 2 are expected", folds);
    groups g;
    pl_status status = groups_open(&g, count, group, seed, err);
    if (status != PL_OK) return status;
    if (g.group_count < folds) {
        status = pl_fail(err, PL_USAGE, "folds", -1,
                         "%zu folds of %zu %s: there must be at least one per fold", folds,
                         g.group_count, group ? "groups" : "samples");
    } else if (strata && !group) {
        if (!sort_samples(g.samples, g.order, strata, count))
            status = pl_fail(err, PL_MISSING, "folds", -1, "out of memory");
        for (size_t i = 0; status == PL_OK && i < count; i++)
            fold[g.samples[i]] = (uint32_t)(i % folds);
    } else if (!largest_first(&g, count)) {
        status = pl_fail(err, PL_MISSING, "folds", -1, "out of memory");
    } else {
        for (size_t i = 0; i < g.group_count; i++) {
            uint32_t id = g.order[i], least = 0;
            for (uint32_t f = 1; f < folds; f++)
                if (g.load[f] < g.load[least]) least = f;
            g.load[least] += group_size(&g, id);
            for (uint32_t k = g.begin[id]; k < g.begin[id + 1]; k++) fold[g.samples[k]] = least;
        }
    }
    groups_close(&g);
    return status;
}

static void mark(uint8_t *apart, const groups *g, uint32_t id) {
    for (uint32_t k = g->begin[id]; k < g->begin[id + 1]; k++) apart[g->samples[k]] = 1;
}

pl_status pl_folds_hold_out(uint8_t *apart, size_t count, double share, const uint32_t *group,
                            uint64_t seed, pl_error *err) {
    if (!(share > 0 && share < 1))
        return pl_fail(err, PL_USAGE, "folds", -1,
                       "a share of %s held out: more than 0 and less than 1 is expected",
                       PL_REAL("g", share));
    groups g;
    pl_status status = groups_open(&g, count, group, seed, err);
    if (status != PL_OK) return status;
    if (g.group_count < 2) {
        groups_close(&g);
        return pl_fail(err, PL_USAGE, "folds", -1,
                       "all %zu samples are of one group: none can be held out", count);
    }
    memset(apart, 0, count);
    /* In the seed's order, whatever brings the number held out nearer to the one wished for. */
    double wished = floor(share * (double)count + 0.5), held = 0;
    uint32_t smallest = g.order[0];
    for (size_t i = 0; i < g.group_count; i++) {
        uint32_t id = g.order[i];
        double size = group_size(&g, id);
        if (size < group_size(&g, smallest)) smallest = id;
        if (held + size >= (double)count || fabs(held + size - wished) >= fabs(held - wished))
            continue;
        mark(apart, &g, id);
        held += size;
    }
    if (held == 0) mark(apart, &g, smallest);
    groups_close(&g);
    return PL_OK;
}
