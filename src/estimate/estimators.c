/* estimators: the registry. The library's own rows, and those that the laboratory adds. */
#include <stdatomic.h>
#include <string.h>

#include "estimate/estimator.h"

extern const pl_estimator pl_estimator_hybrid, pl_estimator_sim;

static const pl_estimator *const own[] = {&pl_estimator_hybrid, &pl_estimator_sim};
enum { OWN = sizeof own / sizeof *own };

static const pl_estimator_rows *_Atomic added;

void pl_estimators_add(const pl_estimator_rows *rows) {
    atomic_store(&added, rows);
}

const pl_estimator *pl_estimator_row(size_t index) {
    if (index < OWN) return own[index];
    const pl_estimator_rows *more = atomic_load(&added);
    return more && index - OWN < more->count ? more->rows[index - OWN] : NULL;
}

const pl_estimator *pl_estimator_named(const char *name) {
    const pl_estimator *row = NULL;
    for (size_t i = 0; name && (row = pl_estimator_row(i)); i++)
        if (strcmp(row->info.name, name) == 0) return row;
    return NULL;
}

const pl_estimator_info *pl_estimator_at(size_t index) {
    const pl_estimator *row = pl_estimator_row(index);
    return row ? &row->info : NULL;
}

const pl_estimator_info *pl_estimator_find(const char *name) {
    const pl_estimator *row = pl_estimator_named(name);
    return row ? &row->info : NULL;
}

const char *pl_estimator_name(size_t index) {
    const pl_estimator *row = pl_estimator_row(index);
    return row ? row->info.name : NULL;
}

const char *pl_estimator_kind_name(pl_estimator_kind kind) {
    static const char *const names[] = {
        [PL_SIMULATION] = "simulation", [PL_ANALYTICAL] = "formula", [PL_LEARNED] = "learned"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}
