/* onnx: models in ONNX's format (onnx.ai), as torch.onnx.export writes them.
 *
 * The file becomes a recipe: a graph of PyTorch's operators is built for each batch and sequence
 * that is asked for, with the file's open dimensions set. Weights are never read, in the file or
 * beside it. What the file says of where its nodes came from is used (names of modules, PyTorch's
 * calls); what exporters take apart is put back: see onnx_fx_emit.c and onnx_pattern.c.
 *
 * Left out: If, Loop and Scan, quantised operators, operators whose sizes depend on data. */
#ifndef PL_IMPORT_ONNX_H
#define PL_IMPORT_ONNX_H

#include "core/error.h"
#include "graph/recipe.h"
#include "import/reading.h"

/* Whether bytes look like a ModelProto: its fields, and a graph among them. */
bool pl_onnx_is(const void *bytes, size_t size);
/* bytes are not kept. name: for messages. On failure *out is NULL. */
pl_status pl_import_onnx(pl_recipe **out, const void *bytes, size_t size, const char *name,
                         const pl_reading *reading, pl_error *err);

#endif
