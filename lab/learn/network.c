/* network: see network.h. Making and closing one, bringing samples together, and predicting.
 *
 * Predicting works in memory of its own for each call (a network is shared between threads), a few
 * hundred steps at a time so that what flows stays in the cache. It never needs BLAS. */
#include "lab/learn/network.h"

#include <stdlib.h>
#include <string.h>

/* ---- open and close ---- */

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

pl_status pl_network_parse(pl_network **out, const char *text, size_t columns, size_t channels,
                           size_t outputs, pl_error *err) {
    *out = NULL;
    pl_network *n = calloc(1, sizeof *n);
    if (!n) return no_memory(err);
    n->learned = (pl_learned){&pl_learner_network, outputs};
    n->columns = columns;
    n->channels = channels;
    n->text = strdup(text);
    pl_status status = n->text ? PL_OK : no_memory(err);
    size_t weights = 0;
    while (status == PL_OK) {
        size_t length = strcspn(text, "|");
        if (n->member_count == PL_NETWORK_MEMBERS) {
            status = pl_fail(err, PL_USAGE, "net", -1, "more than %d chains", PL_NETWORK_MEMBERS);
            break;
        }
        pl_chain *chain = &n->members[n->member_count];
        status = pl_chain_open(chain, text, length, columns, channels, outputs, err);
        if (status != PL_OK) break;
        n->member_count++;
        weights += chain->weights;
        if (weights > PL_CHAIN_WEIGHTS)
            status = pl_fail(err, PL_USAGE, "net", -1, "the network has too many weights");
        text += length;
        if (*text++ == 0) break;
    }
    pl_learned *closed = &n->learned;
    if (status != PL_OK)
        pl_network_close(&closed);
    else
        *out = n;
    return status;
}

bool pl_network_allocate(pl_network *n) {
    size_t floats = 0;
    for (size_t m = 0; m < n->member_count; m++)
        floats +=
            (n->members[m].packed + n->members[m].states + PL_PANEL - 1) / PL_PANEL * PL_PANEL;
    n->block = aligned_alloc(64, (floats ? floats : PL_PANEL) * sizeof *n->block);
    if (!n->block) return false;
    float *at = n->block;
    for (size_t m = 0; m < n->member_count; m++) {
        n->weights[m] = at;
        at += (n->members[m].packed + n->members[m].states + PL_PANEL - 1) / PL_PANEL * PL_PANEL;
    }
    return true;
}

pl_status pl_network_open(pl_network **out, const char *text, size_t columns, size_t channels,
                          size_t outputs, pl_error *err) {
    pl_status status = pl_network_parse(out, text, columns, channels, outputs, err);
    if (status != PL_OK || pl_network_allocate(*out)) return status;
    pl_learned *closed = &(*out)->learned;
    pl_network_close(&closed);
    *out = NULL;
    return no_memory(err);
}

void pl_network_close(pl_learned **learned) {
    if (!learned || !*learned) return;
    pl_network *n = (pl_network *)*learned;
    for (size_t m = 0; m < n->member_count; m++) pl_chain_close(&n->members[m]);
    free(n->block);
    free(n->text);
    free(n);
    *learned = NULL;
}

/* ---- samples ---- */

pl_status pl_network_fits(const pl_network *n, const pl_samples *samples, pl_error *err) {
    bool steps = false;
    for (size_t m = 0; m < n->member_count; m++) steps |= n->members[m].takes_steps;
    if (samples->columns != n->columns)
        return pl_fail(err, PL_INPUT, NULL, -1,
                       "the samples have %zu columns, the network wants %zu", samples->columns,
                       n->columns);
    if (!steps) return PL_OK;
    if (samples->channels != n->channels)
        return pl_fail(err, PL_INPUT, NULL, -1,
                       "the samples' steps have %zu channels, the network wants %zu",
                       samples->channels, n->channels);
    for (size_t i = 0; i < samples->count; i++)
        if (pl_sample_steps(samples, i) > PL_STEPS_MOST)
            return pl_fail(err, PL_INPUT, NULL, -1, "sample %zu has %zu steps, more than %d", i + 1,
                           pl_sample_steps(samples, i), PL_STEPS_MOST);
    return PL_OK;
}

static int by_key(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void pl_network_sort(const pl_samples *samples, uint32_t *index, size_t count, uint64_t *room) {
    bool sorted = true;
    for (size_t i = 1; i < count && sorted; i++)
        sorted = pl_sample_steps(samples, index[i - 1]) >= pl_sample_steps(samples, index[i]);
    if (sorted) return;
    /* A key of length and place is enough: no two are the same, so any sort is stable. There are
     * fewer than 2^32 samples in a batch. */
    for (size_t i = 0; i < count; i++)
        room[i] = (uint64_t)(PL_STEPS_MOST - pl_sample_steps(samples, index[i])) << 40 | i;
    qsort(room, count, sizeof *room, by_key);
    for (size_t i = 0; i < count; i++) room[i] = index[room[i] & 0xffffffff];
    for (size_t i = 0; i < count; i++) index[i] = (uint32_t)room[i];
}

void pl_network_gather(pl_gathered *out, const pl_chain *chain, const pl_samples *samples,
                       const uint32_t *index, size_t count) {
    size_t rows = 0;
    pl_extent extent = {.count = count};
    for (size_t i = 0; i < count; i++) {
        memcpy(out->columns + i * samples->columns, samples->values + index[i] * samples->columns,
               samples->columns * sizeof *out->columns);
        out->begin[i] = rows;
        if (!chain->takes_steps) {
            rows += chain->fixed;
            continue;
        }
        size_t steps = pl_sample_steps(samples, index[i]);
        memcpy(out->steps + rows * samples->channels,
               samples->steps + samples->begin[index[i]] * samples->channels,
               steps * samples->channels * sizeof *out->steps);
        rows += steps;
        extent.squares += steps * steps;
        if (steps > extent.longest) extent.longest = steps;
    }
    out->begin[count] = rows;
    extent.rows = rows;
    out->batch = (pl_batch){.extent = pl_chain_extent(chain, &extent),
                            .begin = out->begin,
                            .columns = out->columns,
                            .column_count = samples->columns};
    out->x = chain->takes_steps ? out->steps : out->columns;
}

/* ---- predict ---- */

enum { CHUNK_SAMPLES = 256, CHUNK_STEPS = 512 };

/* How many samples from `first` on are predicted at once; *extent: at most, of these. */
static size_t chunk(const pl_network *n, const pl_samples *samples, const uint32_t *index,
                    size_t first, pl_extent *extent) {
    size_t fixed = 1;
    bool steps = false;
    for (size_t m = 0; m < n->member_count; m++) {
        if (n->members[m].fixed > fixed) fixed = n->members[m].fixed;
        steps |= n->members[m].takes_steps;
    }
    *extent = (pl_extent){0};
    size_t i = first;
    for (; i < samples->count && i - first < CHUNK_SAMPLES; i++) {
        size_t length = steps ? pl_sample_steps(samples, index[i]) : 0;
        if (i > first &&
            (extent->rows + length > CHUNK_STEPS || (i - first + 1) * fixed > CHUNK_STEPS))
            break;
        extent->rows += length;
        extent->squares += length * length;
        if (length > extent->longest) extent->longest = length;
    }
    extent->count = i - first;
    return i - first;
}

/* The block of a prediction. */
typedef struct work {
    pl_gathered gathered;
    float *room;
} work;

static void predict_chunk(const pl_network *n, const pl_samples *samples, const uint32_t *index,
                          size_t count, work *w, float *out) {
    size_t outputs = n->learned.outputs;
    for (size_t m = 0; m < n->member_count; m++) {
        const pl_chain *chain = &n->members[m];
        pl_network_gather(&w->gathered, chain, samples, index, count);
        pl_net_pass pass = {.products = {.kernels = pl_kernels_here()},
                            .batch = &w->gathered.batch,
                            .weights = n->weights[m],
                            .packed = true,
                            .states = pl_network_states(n, m)};
        const float *y = pl_chain_forward(chain, &pass, w->gathered.x, w->room);
        float share = 1.0f / (float)n->member_count;
        for (size_t i = 0; i < count; i++) {
            float *to = out + index[i] * outputs;
            for (size_t c = 0; c < outputs; c++)
                to[c] = (m ? to[c] : 0) + y[i * outputs + c] * share;
        }
    }
}

static pl_status predict(const pl_learned *learned, const pl_samples *samples, float *out,
                         pl_error *err) {
    const pl_network *n = (const pl_network *)learned;
    pl_status status = pl_network_fits(n, samples, err);
    if (status != PL_OK || samples->count == 0) return status;
    if (samples->count > UINT32_MAX) return pl_fail(err, PL_INPUT, NULL, -1, "too many samples");
    /* All samples by length: a chunk's are near each other's. One needs no memory for that. */
    uint32_t alone = 0, *index = &alone;
    uint64_t *keys = NULL;
    if (samples->count > 1) {
        index = malloc(samples->count * sizeof *index);
        keys = malloc(samples->count * sizeof *keys);
    }
    if (!index || (samples->count > 1 && !keys)) status = no_memory(err);
    if (status == PL_OK && samples->count > 1) {
        for (size_t i = 0; i < samples->count; i++) index[i] = (uint32_t)i;
        pl_network_sort(samples, index, samples->count, keys);
    }
    work w = {0};
    size_t size = 0; /* of the block, grown to the largest chunk's */
    float *block = NULL;
    for (size_t first = 0; status == PL_OK && first < samples->count;) {
        pl_extent extent;
        size_t count = chunk(n, samples, index, first, &extent), room = 0;
        for (size_t m = 0; m < n->member_count; m++) {
            pl_extent seen = pl_chain_extent(&n->members[m], &extent);
            size_t need = pl_chain_room(&n->members[m], &seen, false, true);
            if (need == 0) status = no_memory(err);
            if (need > room) room = need;
        }
        size_t begin = (count + 1) * 2, columns = count * n->columns; /* a size_t is two floats */
        size_t need = begin + columns + extent.rows * n->channels + room + 64;
        if (status == PL_OK && need > size) {
            free(block);
            block = malloc(need * sizeof *block);
            size = need;
            if (!block) status = no_memory(err);
        }
        if (status != PL_OK) break;
        w.gathered.begin = (size_t *)(void *)block;
        w.gathered.columns = block + begin;
        w.gathered.steps = w.gathered.columns + columns;
        w.room = w.gathered.steps + extent.rows * n->channels;
        w.room += (64 - (uintptr_t)w.room % 64) % 64 / sizeof *w.room;
        predict_chunk(n, samples, index + first, count, &w, out);
        first += count;
    }
    free(block);
    if (samples->count > 1) free(index);
    free(keys);
    return status;
}

const pl_learner pl_learner_network = {
    .name = "network",
    .scaled = "standard",
    .train = pl_network_train,
    .predict = predict,
    .save = pl_network_save,
    .load = pl_network_load,
    .close = pl_network_close,
};
