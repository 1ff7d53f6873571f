/* learner: the registry. The library's own rows, those it needs to answer, and those that the
 * laboratory adds. */
#include "learn/learner.h"

#include <stdatomic.h>
#include <string.h>

static const pl_learner *const own[] = {&pl_learner_forest, &pl_learner_leafwise};
enum { OWN = sizeof own / sizeof *own };

static const pl_learner_rows *_Atomic added;

void pl_learners_add(const pl_learner_rows *rows) {
    atomic_store(&added, rows);
}

const pl_learner *pl_learner_at(size_t index) {
    if (index < OWN) return own[index];
    const pl_learner_rows *more = atomic_load(&added);
    return more && index - OWN < more->count ? more->rows[index - OWN] : NULL;
}

const pl_learner *pl_learner_find(const char *name) {
    const pl_learner *row;
    for (size_t i = 0; (row = pl_learner_at(i)); i++)
        if (strcmp(row->name, name) == 0) return row;
    return NULL;
}

void pl_learned_close(pl_learned **learned) {
    if (learned && *learned) (*learned)->learner->close(learned);
}
