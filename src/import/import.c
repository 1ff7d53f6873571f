/* import: see import.h. A zip archive is a .pt2; of a JSON object the top-level keys decide, by the
 * table below; the rest is asked of the readers one by one. Left out: endings of names, which say
 * nothing. */
#include "import/import.h"

#include <string.h>

#include "core/file.h"
#include "import/folder.h"
#include "import/graph_json.h"
#include "import/hf.h"
#include "import/json.h"
#include "import/onnx.h"
#include "import/pt2.h"
#include "import/spec.h"
#include "import/summary.h"
#include "import/trace.h"
#include "import/whatis.h"
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

static size_t blanks(const char *text, size_t size) {
    size_t at = 0;
    while (at < size &&
           (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
        at++;
    return at;
}

pl_status pl_import_memory(pl_imported *out, const void *bytes, size_t size, const char *name,
                           const pl_reading *reading, pl_error *err) {
    *out = (pl_imported){0};
    const char *what = pl_whatis_head(bytes, size);
    if (what) return pl_fail(err, PL_INPUT, name, -1, "%s", what);
    if (pl_zip_is(bytes, size)) return pl_import_pt2(&out->graph, bytes, size, name, reading, err);
    const char *text = bytes;
    /* JSON behind a mark of UTF-8, as editors of Windows write it; places are counted from behind it. */
    size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t at = mark + blanks(text + mark, size - mark);
    if (mark && at < size && text[at] == '{') {
        text += mark;
        size -= mark;
        at -= mark;
    }
    if (at == size)
        return pl_fail(err, PL_INPUT, name, (int64_t)at, "expected a model; the file is empty");
    if (text[at] == '{') {
        read_fn *read = reader_of(text, size);
        if (read) return read(out, text, size, name, reading, err);
        if (pl_spec_is(text, size)) return read_spec(out, text, size, name, reading, err);
        char kind[300];
        if (pl_whatis_json(kind, sizeof kind, text, size))
            return pl_fail(err, PL_INPUT, name, -1, "%s", kind);
        pl_json json; /* is it broken, or of no kind that is known? */
        pl_json_open(&json, text, size, PL_JSON_MAX_DEPTH);
        bool whole = pl_json_skip(&json);
        if (whole && pl_json_end(&json))
            return pl_fail(err, PL_INPUT, name, (int64_t)at,
                           "%s; this object has none of their keys", expected);
        if (whole && text[json.failure_at] == '{')
            return pl_fail(err, PL_INPUT, name, json.failure_at,
                           "several objects of JSON one behind the other: data, not a model");
        return pl_fail(err, PL_INPUT, name, json.failure_at, "expected %s", json.failure);
    }
    if (pl_onnx_is(bytes, size))
        return pl_import_onnx(&out->recipe, bytes, size, name, reading, err);
    if (pl_summary_is(text, size))
        return pl_import_summary(&out->summary, text, size, name, reading, err);
    if (pl_spec_is(text, size)) return read_spec(out, text, size, name, reading, err);
    what = pl_whatis_text(bytes, size, name);
    if (what) return pl_fail(err, PL_INPUT, name, -1, "%s", what);
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

/* Whether a path that cannot be opened could be a model's name at Hugging Face: two words of letters,
 * digits, ".", "_" and "-" with one slash between them, and no ending of a model file. */
static bool is_model_id(const char *path) {
    static const char *const endings[] = {".json", ".pt2", ".onnx", ".yaml", ".yml", ".txt", ".pt"};
    const char *slash = strchr(path, '/');
    size_t length = strlen(path);
    if (!slash || slash == path || !slash[1] || strchr(slash + 1, '/') || path[0] == '.')
        return false;
    for (const char *c = path; *c; c++)
        if (!(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') && !(*c >= '0' && *c <= '9') &&
            !strchr("._-/", *c))
            return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t tail = strlen(endings[i]);
        if (length > tail && strcmp(path + length - tail, endings[i]) == 0) return false;
    }
    return true;
}

static pl_status no_such_file(const char *path, pl_error *err) {
    return pl_fail(
        err, PL_INPUT, path, -1,
        "no such file; of a model at Hugging Face the config.json is the file to give: `hf "
        "download %.120s config.json` fetches it",
        path);
}

pl_status pl_import_file(pl_imported *out, const char *path, const pl_reading *reading,
                         pl_error *err) {
    *out = (pl_imported){0};
    const pl_reading used = pl_reading_of(reading);
    pl_file file;
    unsigned char head[PL_WHATIS_HEAD];
    char inside[4500];
    if (pl_folder_is(path)) {
        pl_status status = pl_folder_model(inside, sizeof inside, path, err);
        if (status != PL_OK) return status;
        path = inside;
    }
    pl_status status = pl_file_begin(&file, path, err);
    if (status != PL_OK && strstr(path, "://"))
        return pl_fail(err, PL_INPUT, path, -1,
                       "an address: nothing is fetched; download the file, and give that");
    if (status != PL_OK) return is_model_id(path) ? no_such_file(path, err) : status;
    file.budget = used.budget;
    size_t size = file.size < sizeof head ? file.size : sizeof head;
    bool pieces = file.plain && !used.map && size > 0;
    if (pieces) status = pl_file_piece(&file, 0, head, size, err);
    /* Weights of many gigabytes are told for what they are without being read. */
    const char *what = status == PL_OK && pieces ? pl_whatis_head(head, size) : NULL;
    if (what)
        status = pl_fail(err, PL_INPUT, path, -1, "%s", what);
    else if (status == PL_OK && pieces && pl_zip_is(head, size))
        status = pl_import_pt2_file(&out->graph, &file, path, &used, err);
    else if (status == PL_OK)
        status = import_whole(out, &file, path, &used, err);
    pl_file_close(&file);
    return status;
}
