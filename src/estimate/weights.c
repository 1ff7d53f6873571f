/* weights: see weights.h.
 *
 * A model file is one part after another, each with its own header and checksum (learn/trained.h).
 * The library's own stand in its read-only data (built from models/, see meson.build) and are used
 * there: nothing is looked for at run time, and trees are not even read. */
#include "estimate/weights.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "estimate/estimator.h"

static const size_t file_most = (size_t)1 << 30; /* bytes */

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

pl_weights *pl_weights_new(void) {
    return calloc(1, sizeof(pl_weights));
}

bool pl_weights_add(pl_weights *weights, pl_trained *part) {
    if (weights->part_count == PL_MOST_WEIGHTS) {
        pl_trained_close(&part);
        return false;
    }
    if (weights->part_count == 0)
        weights->info = (pl_weights_info){.estimator = part->estimator,
                                          .target = part->target,
                                          .options = part->options,
                                          .command = part->command,
                                          .data = part->data,
                                          .seed = part->seed,
                                          .rows = (int64_t)part->rows};
    weights->parts[weights->part_count++] = part;
    return true;
}

const pl_trained *pl_weights_part(const pl_weights *weights, const char *target) {
    for (size_t i = 0; i < weights->part_count; i++)
        if (strcmp(weights->parts[i]->target, target) == 0) return weights->parts[i];
    return NULL;
}

void pl_weights_close(pl_weights **weights) {
    if (!weights || !*weights) return;
    for (size_t i = 0; i < (*weights)->part_count; i++) pl_trained_close(&(*weights)->parts[i]);
    free((*weights)->bytes);
    free(*weights);
    *weights = NULL;
}

const pl_weights_info *pl_weights_describe(const pl_weights *weights) {
    return &weights->info;
}

pl_status pl_weights_read(pl_weights **out, const unsigned char *bytes, size_t size, bool trusted,
                          const char *name, pl_error *err) {
    *out = NULL;
    pl_weights *weights = pl_weights_new();
    pl_status status = weights ? PL_OK : no_memory(err);
    for (size_t at = 0; status == PL_OK && (at < size || at == 0);) {
        pl_trained *part = NULL;
        size_t taken = 0;
        status = (trusted ? pl_trained_read_trusted : pl_trained_read)(&part, bytes + at, size - at,
                                                                       &taken, name, err);
        if (status != PL_OK && err && err->position >= 0) err->position += (int64_t)at;
        if (status != PL_OK) break;
        if (weights->part_count && strcmp(part->estimator, weights->info.estimator) != 0) {
            status = pl_fail(err, PL_INPUT, name, (int64_t)at, "a part of %s in a file of %s",
                             part->estimator, weights->info.estimator);
            pl_trained_close(&part);
        } else if (pl_weights_part(weights, part->target)) {
            status = pl_fail(err, PL_INPUT, name, (int64_t)at, "a second part of target \"%s\"",
                             part->target);
            pl_trained_close(&part);
        } else if (!pl_weights_add(weights, part)) {
            status = pl_fail(err, PL_INPUT, name, (int64_t)at, "expected at most %d parts",
                             PL_MOST_WEIGHTS);
        }
        at += taken;
    }
    if (status != PL_OK) pl_weights_close(&weights);
    *out = weights;
    return status;
}

/* ---- files ---- */

pl_status pl_weights_open(pl_weights **out, const char *path, pl_error *err) {
    *out = NULL;
    pl_file file;
    pl_status status = pl_file_open(&file, path, file_most, err);
    if (status != PL_OK) return status;
    size_t size = file.size;
    void *bytes = pl_file_take(&file);
    status = pl_weights_read(out, bytes, size, false, path, err);
    if (status == PL_OK)
        (*out)->bytes = bytes;
    else
        free(bytes);
    const char *name = status == PL_OK ? (*out)->info.estimator : "";
    const pl_estimator *estimator = pl_estimator_named(name);
    if (status == PL_OK && (!estimator || !estimator->info.learns))
        status = pl_fail(err, PL_INPUT, path, -1,
                         "weights of an estimator \"%s\" that this version does not have", name);
    /* A file with a right checksum may be of another version. */
    for (size_t i = 0; status == PL_OK && estimator->check && i < (*out)->part_count; i++)
        status = estimator->check((*out)->parts[i], path, err);
    if (status != PL_OK) pl_weights_close(out);
    return status;
}

pl_status pl_weights_save(const pl_weights *weights, const char *path, pl_error *err) {
    return pl_trained_save(weights->parts, weights->part_count, path, err);
}

/* ---- the library's own ---- */

/* Read once. No lock is held meanwhile, which a fork in another thread would leave locked in the
 * child: those who come at the same time each read, and the first one's stays. */
static pl_status read_own(const pl_weights **out, pl_built_in *own, const char *name,
                          pl_error *err) {
    pl_weights *kept = atomic_load(&own->read), *mine = NULL;
    pl_status status = PL_OK;
    if (!kept)
        status =
            pl_weights_read(&mine, own->begin, (size_t)(own->end - own->begin), true, name, err);
    if (mine && strcmp(mine->info.estimator, name) != 0)
        status = pl_fail(err, PL_INPUT, name, -1, "the library's own weights are those of %s",
                         mine->info.estimator);
    if (status == PL_OK && mine) {
        mine->built_in = true;
        if (atomic_compare_exchange_strong(&own->read, &kept, mine)) {
            kept = mine;
            mine = NULL;
        }
    }
    pl_weights_close(&mine);
    *out = kept;
    return status;
}

pl_status pl_weights_for(const pl_weights **out, const pl_estimator *estimator,
                         const pl_weights *given, pl_error *err) {
    const char *name = estimator->info.name;
    *out = given;
    if (given && strcmp(given->info.estimator, name) != 0)
        return pl_fail(err, PL_USAGE, "weights", -1, "weights of %s cannot serve %s",
                       given->info.estimator, name);
    if (given) return PL_OK;
    pl_built_in *own = estimator->built_in;
    if (!own)
        return pl_fail(err, PL_USAGE, "estimator", -1,
                       "no weights of %s are built in: they have to be trained and given", name);
    return read_own(out, own, name, err);
}
