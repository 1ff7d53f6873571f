/* import: see import.h. A zip archive is a .pt2; of a JSON object the top-level keys decide, by the
 * table below; the rest is asked of the readers one by one. Left out: endings of names, which say
 * nothing. */
#include "import/import.h"

#include <string.h>

#include "core/file.h"
#include "import/graph_json.h"
#include "import/hf.h"
#include "import/json.h"
#include "import/onnx.h"
#include "import/pt2.h"
#include "import/spec.h"
#include "import/summary.h"
#include "import/trace.h"
#include "import/zip.h"

void pl_imported_close(pl_imported *imported) {
    pl_graph_close(&imported->graph);
    pl_recipe_close(&imported->recipe);
    pl_trace_close(&imported->trace);
    pl_summary_close(&imported->summary);
}

/* ---- JSON objects ---- */

typedef pl_status read_fn(pl_imported *out, const char *text, size_t size, const char *name,
                          const pl_reading *reading, pl_error *err);

static pl_status read_pt2(pl_imported *out, const char *text, size_t size, const char *name,
                          const pl_reading *reading, pl_error *err) {
    return pl_import_pt2_json(&out->graph, text, size, name, reading, err);
}

static pl_status read_hf(pl_imported *out, const char *text, size_t size, const char *name,
                         const pl_reading *reading, pl_error *err) {
    return pl_import_hf(&out->recipe, text, size, name, reading, err);
}

static pl_status read_graph(pl_imported *out, const char *text, size_t size, const char *name,
                            const pl_reading *reading, pl_error *err) {
    return pl_import_graph_json(&out->graph, text, size, name, reading, err);
}

static pl_status read_trace(pl_imported *out, const char *text, size_t size, const char *name,
                            const pl_reading *reading, pl_error *err) {
    return pl_import_trace(&out->trace, text, size, name, reading, err);
}

static pl_status read_spec(pl_imported *out, const char *text, size_t size, const char *name,
                           const pl_reading *reading, pl_error *err) {
    return pl_import_spec(&out->recipe, text, size, name, reading, err);
}

/* The first row that has a key of the object holds; of several keys, that of the first row. */
static const struct {
    const char *key;
    read_fn *read;
    bool at_once; /* such files are long: what comes behind the key is not looked at */
} keys[] = {
    {"plimsoll_graph", read_graph, true}, {"plimsoll_trace", read_trace, true},
    {"graph_module", read_pt2, true},     {"schema_version", read_pt2, true},
    {"model_type", read_hf, false},       {"architectures", read_hf, false},
    {"kind", read_spec, false},           {"layers", read_spec, false},
};
enum { KEYS = sizeof keys / sizeof *keys };

static read_fn *reader_of(const char *text, size_t size) {
    pl_json json;
    pl_json_text key;
    size_t best = KEYS;
    pl_json_open(&json, text, size, PL_JSON_MAX_DEPTH);
    if (!pl_json_object(&json)) return NULL;
    while (pl_json_key(&json, &key)) {
        for (size_t i = 0; i < best; i++)
            if (pl_json_is(&key, keys[i].key, strlen(keys[i].key))) best = i;
        if (best < KEYS && keys[best].at_once) break;
        pl_json_skip(&json);
    }
    return best < KEYS ? keys[best].read : NULL;
}

/* ---- files ---- */

static const char expected[] =
    "expected a .pt2 archive of torch.export.save or its model.json, a Hugging Face config.json, "
    "ONNX, a layer spec (kind: or layers:), the text of torchsummary or torchinfo, or what "
    "plimsoll "
    "wrote";

pl_status pl_import_memory(pl_imported *out, const void *bytes, size_t size, const char *name,
                           const pl_reading *reading, pl_error *err) {
    *out = (pl_imported){0};
    if (pl_zip_is(bytes, size)) return pl_import_pt2(&out->graph, bytes, size, name, reading, err);
    const char *text = bytes;
    size_t at = 0;
    while (at < size &&
           (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
        at++;
    if (at == size)
        return pl_fail(err, PL_INPUT, name, (int64_t)at, "expected a model; the file is empty");
    if (text[at] == '{') {
        read_fn *read = reader_of(text, size);
        if (read) return read(out, text, size, name, reading, err);
        if (pl_spec_is(text, size)) return read_spec(out, text, size, name, reading, err);
        pl_json json; /* is it broken, or of no kind that is known? */
        pl_json_open(&json, text, size, PL_JSON_MAX_DEPTH);
        if (pl_json_skip(&json) && pl_json_end(&json))
            return pl_fail(err, PL_INPUT, name, (int64_t)at,
                           "%s; this object has none of their keys", expected);
        return pl_fail(err, PL_INPUT, name, json.failure_at, "expected %s", json.failure);
    }
    if (pl_onnx_is(bytes, size))
        return pl_import_onnx(&out->recipe, bytes, size, name, reading, err);
    if (pl_summary_is(text, size))
        return pl_import_summary(&out->summary, text, size, name, reading, err);
    if (pl_spec_is(text, size)) return read_spec(out, text, size, name, reading, err);
    return pl_fail(err, PL_INPUT, name, (int64_t)at, "%s; this is none of them", expected);
}

/* What is read whole counts against the budget of the rest. */
static pl_status import_whole(pl_imported *out, pl_file *file, const char *path,
                              const pl_reading *reading, pl_error *err) {
    pl_budget *budget = reading->budget;
    size_t limit = budget && budget->most_bytes ? budget->most_bytes - budget->bytes : SIZE_MAX;
    pl_status status =
        reading->map && file->plain ? pl_file_map(file, err) : pl_file_load(file, limit, err);
    if (status != PL_OK) return status;
    size_t held = file->mapped ? 0 : file->size;
    if (!pl_budget_take(budget, held)) return pl_budget_fail(err, budget, path);
    status = pl_import_memory(out, file->bytes, file->size, path, reading, err);
    pl_budget_give(budget, held);
    return status;
}

pl_status pl_import_file(pl_imported *out, const char *path, const pl_reading *reading,
                         pl_error *err) {
    *out = (pl_imported){0};
    const pl_reading used = pl_reading_of(reading);
    pl_file file;
    unsigned char head[4];
    pl_status status = pl_file_begin(&file, path, err);
    if (status != PL_OK) return status;
    file.budget = used.budget;
    bool pieces = file.plain && !used.map && file.size >= sizeof head;
    if (pieces) status = pl_file_piece(&file, 0, head, sizeof head, err);
    if (status == PL_OK && pieces && pl_zip_is(head, sizeof head))
        status = pl_import_pt2_file(&out->graph, &file, path, &used, err);
    else if (status == PL_OK)
        status = import_whole(out, &file, path, &used, err);
    pl_file_close(&file);
    return status;
}
