/* import: see import.h. A zip archive is a .pt2; text that starts with '{' is a model.json. Left
 * out: every other format, which is refused with what was expected. */
#include "import/import.h"

#include "core/file.h"
#include "import/pt2.h"
#include "import/zip.h"

pl_status pl_import_memory(pl_graph **out, const void *bytes, size_t size, const char *name,
                           const pl_model_settings *settings, pl_error *err) {
    *out = NULL;
    if (pl_zip_is(bytes, size)) return pl_import_pt2(out, bytes, size, name, settings, err);
    const char *text = bytes;
    size_t at = 0;
    while (at < size &&
           (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
        at++;
    if (at < size && text[at] == '{')
        return pl_import_pt2_json(out, bytes, size, name, settings, err);
    if (at == size)
        return pl_fail(err, PL_INPUT, name, (int64_t)at, "expected a model; the file is empty");
    return pl_fail(err, PL_INPUT, name, (int64_t)at,
                   "expected a .pt2 archive of torch.export.save or its model.json; this is "
                   "neither a zip archive "
                   "nor a JSON object");
}

pl_status pl_import_file(pl_graph **out, const char *path, const pl_model_settings *settings,
                         pl_error *err) {
    *out = NULL;
    pl_file file;
    pl_status status =
        pl_file_open(&file, path, settings ? settings->memory_limit : (size_t)4 << 30, err);
    if (status != PL_OK) return status;
    status = pl_import_memory(out, file.bytes, file.size, path, settings, err);
    pl_file_close(&file);
    return status;
}
