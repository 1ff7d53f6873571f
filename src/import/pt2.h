/* pt2: what torch.export.save writes.
 *
 * The archive is a zip; its member models/model.json (PyTorch 2.8 on) or
 * serialized_exported_program.json (2.6, 2.7) holds the graph, as torch/_export/serde/schema.py
 * describes it: schema 8, read in versions 8.0 to 8.17. Weights are not read. Keys that are not
 * known are passed over. */
#ifndef PL_IMPORT_PT2_H
#define PL_IMPORT_PT2_H

#include "core/file.h"
#include "graph/graph.h"
#include "import/reading.h"

/* bytes: an archive; not needed after the call. name: the file, for messages; the graph's name is
 * its last part without the ending. reading: NULL for the usual. On failure *out is NULL. */
pl_status pl_import_pt2(pl_graph **out, const void *bytes, size_t size, const char *name,
                        const pl_reading *reading, pl_error *err);
/* The same of a plain file, of which the directory and the model alone are read. */
pl_status pl_import_pt2_file(pl_graph **out, const pl_file *file, const char *name,
                             const pl_reading *reading, pl_error *err);
/* The same for a model.json alone. */
pl_status pl_import_pt2_json(pl_graph **out, const void *bytes, size_t size, const char *name,
                             const pl_reading *reading, pl_error *err);

#endif
