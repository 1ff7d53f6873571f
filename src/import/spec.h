/* spec: a model that somebody sketched, in YAML or JSON.
 *
 * By family (`kind: mlp | cnn | transformer | rnn` and a few numbers), or by layers (`input:` and a
 * list `layers:`). Every key, with its default: docs/formats.md. */
#ifndef PL_IMPORT_SPEC_H
#define PL_IMPORT_SPEC_H

#include "graph/recipe.h"
#include "import/reading.h"

/* reading: NULL for the usual. Built once for the batch and sequence of the file, so that whatever
 * is wrong with it is reported here, with its line. On failure *out is NULL. */
pl_status pl_import_spec(pl_recipe **out, const char *bytes, size_t size, const char *name,
                         const pl_reading *reading, pl_error *err);

/* Whether a text is meant as one: has `kind` or `layers` among its top-level keys, and none that a
 * Hugging Face config or an exported model.json has. */
bool pl_spec_is(const char *bytes, size_t size);

#endif
