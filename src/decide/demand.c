/* demand: what collocation must know of a job, of a report at hand or of the JSON that `estimate
 * --json` wrote (schema 1 of docs/formats.md).
 *
 * The file is somebody's: every key that is read must be there and of its kind, numbers must be
 * such as an estimate can say, and what is wrong is reported with its byte. A value may be null:
 * not known. Counters and launches may be missing. Left out: all else in the file, which is passed
 * over. */
#include <math.h>
#include <string.h>

#include "core/file.h"
#include "decide/demand.h"
#include "core/sized.h"
#include "core/utf8.h"
#include "estimate/report.h"
#include "import/json.h"

/* An estimate has some kilobytes; with a timeline, megabytes. */
enum { MOST_BYTES = 64 << 20, MOST_NESTING = 64, ROOM_FOR_NAMES = 1 << 20 };

/* ---- names ---- */

static const char *const sharing_names[PL_SHARINGS] = {"slices", "mps"};

const char *pl_sharing_name(pl_sharing sharing) {
    return (unsigned)sharing < PL_SHARINGS ? sharing_names[sharing] : NULL;
}

bool pl_sharing_parse(const char *name, pl_sharing *out) {
    for (int i = 0; i < PL_SHARINGS; i++)
        if (strcmp(name, sharing_names[i]) == 0) {
            *out = (pl_sharing)i;
            return true;
        }
    return false;
}

/* ---- of a report ---- */

/* As much of the text as there is room for, no character cut in two. */
static void put_name(char *out, size_t room, const char *text) {
    size_t at = 0;
    while (text[at]) {
        size_t length = pl_utf8_length((const unsigned char *)text + at, PL_UTF8_MOST);
        if (length == 0) length = 1;
        if (at + length >= room) break;
        memcpy(out + at, text + at, length);
        at += length;
    }
    out[at] = 0;
}

static void unknown(pl_demand *out) {
    *out = (pl_demand){.peak_bytes = PL_UNKNOWN,
                       .high_bytes = PL_UNKNOWN,
                       .step_ms = NAN,
                       .device_ms = NAN,
                       .host_ms = NAN,
                       .launches = NAN,
                       .smact = NAN,
                       .smocc = NAN,
                       .drama = NAN,
                       .tensor = NAN,
                       .low_bytes = PL_UNKNOWN,
                       .upper_bytes = PL_UNKNOWN};
}

bool pl_demand_of(pl_demand *given, const pl_report *report, const pl_model *model) {
    if (!PL_SIZED_OK(given, calibrated)) return false;
    pl_demand own, *out = &own;
    unknown(out);
    put_name(out->name, sizeof out->name, pl_model_describe(model)->name);
    put_name(out->gpu, sizeof out->gpu, report->gpu->name);
    out->peak_bytes = report->peak_bytes;
    out->high_bytes = report->high_bytes;
    out->step_ms = report->step_ms.value;
    out->device_ms = report->device_ms;
    out->host_ms = report->host_ms;
    out->launches = report->launches;
    out->smact = pl_report_counter(report, PL_SMACT).value;
    out->smocc = pl_report_counter(report, PL_SMOCC).value;
    out->drama = pl_report_counter(report, PL_DRAMA).value;
    out->tensor = pl_report_counter(report, PL_TENSOR).value;
    out->calibrated = report->gpu->calibrated;
    out->low_bytes = report->low_bytes;
    out->upper_bytes = report->upper_bytes;
    pl_sized_fill(given, given->size, out, sizeof own);
    return true;
}

/* ---- of a file ---- */

/* A key of the file and where its value goes. Kinds: a text of so much room, bytes, a number from
 * 0 on, a truth value. */
typedef enum kind { TEXT, BYTES, NUMBER, TRUTH } kind;

typedef struct entry {
    const char *group, *key;
    size_t offset, room;
    kind kind;
    bool optional;
    double most; /* of a number */
} entry;

#define AT(member)   offsetof(pl_demand, member)
#define ROOM(member) sizeof(((pl_demand *)0)->member)
/* Most: a step of a year, in milliseconds; kernels; percent, with some room for rounding. */
static const entry entries[] = {
    {"model", "name", AT(name), ROOM(name), TEXT, false, 0},
    {"gpu", "name", AT(gpu), ROOM(gpu), TEXT, false, 0},
    {"gpu", "calibrated", AT(calibrated), 0, TRUTH, false, 0},
    {"memory", "peak_bytes", AT(peak_bytes), 0, BYTES, false, 0},
    {"memory", "high_bytes", AT(high_bytes), 0, BYTES, false, 0},
    {"memory", "low_bytes", AT(low_bytes), 0, BYTES, true, 0},
    {"memory", "upper_bytes", AT(upper_bytes), 0, BYTES, true, 0},
    {"compute", "step_ms", AT(step_ms), 0, NUMBER, false, 3.2e10},
    {"compute", "device_ms", AT(device_ms), 0, NUMBER, false, 3.2e10},
    {"compute", "host_ms", AT(host_ms), 0, NUMBER, false, 3.2e10},
    {"compute", "launches", AT(launches), 0, NUMBER, true, 1e12},
    {"utilization", "smact", AT(smact), 0, NUMBER, true, 101},
    {"utilization", "smocc", AT(smocc), 0, NUMBER, true, 101},
    {"utilization", "drama", AT(drama), 0, NUMBER, true, 101},
    {"utilization", "tensor", AT(tensor), 0, NUMBER, true, 101},
};
enum { ENTRIES = sizeof entries / sizeof *entries };

static bool read_text(pl_json *json, const entry *e, pl_demand *out, pl_arena *arena) {
    pl_json_text text;
    if (!pl_json_string(json, &text)) return false;
    char *name = pl_json_copy(arena, &text, NULL);
    if (!name) return pl_json_fail_at(json, text.bytes, "a name of less than a megabyte");
    put_name((char *)out + e->offset, e->room, name);
    return true;
}

static bool read_entry(pl_json *json, const entry *e, pl_demand *out, pl_arena *arena) {
    char *to = (char *)out + e->offset;
    if (e->kind == TEXT) return read_text(json, e, out, arena);
    if (e->kind == TRUTH) {
        bool truth;
        if (!pl_json_bool(json, &truth)) return false;
        memcpy(to, &truth, sizeof truth);
        return true;
    }
    if (pl_json_peek(json) == 'n') return pl_json_null(json);
    const char *at = json->at;
    if (e->kind == BYTES) {
        int64_t bytes;
        bool exact = true;
        if (!pl_json_int(json, &bytes, &exact)) return false;
        if (bytes < 0 || !exact) return pl_json_fail_at(json, at, "bytes from 0 on, or null");
        memcpy(to, &bytes, sizeof bytes);
        return true;
    }
    double number;
    if (!pl_json_number(json, &number)) return false;
    if (!(number >= 0 && number <= e->most))
        return pl_json_fail_at(json, at, "a number that an estimate can say, or null");
    memcpy(to, &number, sizeof number);
    return true;
}

static bool read_group(pl_json *json, const pl_json_text *group, pl_demand *out, bool *seen,
                       pl_arena *arena) {
    pl_json_text key;
    if (!pl_json_object(json)) return false;
    while (pl_json_key(json, &key)) {
        int i = 0;
        while (i < ENTRIES && !(pl_json_is(group, entries[i].group, strlen(entries[i].group)) &&
                                pl_json_is(&key, entries[i].key, strlen(entries[i].key))))
            i++;
        if (i == ENTRIES ? !pl_json_skip(json) : !read_entry(json, &entries[i], out, arena))
            return false;
        if (i < ENTRIES) seen[i] = true;
    }
    return !json->failure;
}

static bool is_group(const pl_json_text *key) {
    for (int i = 0; i < ENTRIES; i++)
        if (pl_json_is(key, entries[i].group, strlen(entries[i].group))) return true;
    return false;
}

static bool read_estimate(pl_json *json, pl_demand *out, bool *seen, int64_t *schema,
                          pl_arena *arena) {
    pl_json_text key;
    if (!pl_json_object(json)) return false;
    while (pl_json_key(json, &key)) {
        bool read = PL_JSON_IS(&key, "schema") ? pl_json_int(json, schema, NULL)
                    : is_group(&key)           ? read_group(json, &key, out, seen, arena)
                                               : pl_json_skip(json);
        if (!read) return false;
    }
    return !json->failure && pl_json_end(json);
}

static const char what[] = "no estimate in JSON";

static pl_status read_demand(pl_demand *out, const char *bytes, size_t size, const char *path,
                             pl_error *err) {
    unknown(out);
    pl_status status = PL_OK;
    pl_budget budget = {.most_bytes = ROOM_FOR_NAMES};
    pl_arena *arena = pl_arena_new(&budget);
    pl_json json;
    bool seen[ENTRIES] = {false};
    int64_t schema = PL_UNKNOWN;
    pl_json_open(&json, bytes, size, MOST_NESTING);
    if (!arena)
        status = pl_fail(err, PL_MISSING, path, -1, "out of memory");
    else if (!read_estimate(&json, out, seen, &schema, arena))
        status =
            pl_fail(err, PL_INPUT, path, json.failure_at, "%s: expected %s", what, json.failure);
    else if (schema == PL_UNKNOWN)
        status = pl_fail(err, PL_INPUT, path, 0, "%s: the key \"schema\" is missing", what);
    else if (schema != 1)
        status = pl_fail(err, PL_INPUT, path, 0, "schema %lld; this version reads schema 1",
                         (long long)schema);
    for (int i = 0; status == PL_OK && i < ENTRIES; i++)
        if (!seen[i] && !entries[i].optional)
            status = pl_fail(err, PL_INPUT, path, 0, "%s: the key \"%s.%s\" is missing", what,
                             entries[i].group, entries[i].key);
    if (status != PL_OK) unknown(out);
    pl_arena_free(&arena);
    return status;
}

pl_status pl_demand_read(pl_demand *out, const char *bytes, size_t size, const char *name,
                         pl_error *err) {
    pl_demand own;
    pl_status status = read_demand(&own, bytes, size, name, err);
    pl_sized_fill(out, out->size, &own, sizeof own);
    return status;
}

pl_status pl_demand_open(pl_demand *out, const char *path, pl_error *err) {
    if (!PL_SIZED_OK(out, calibrated))
        return pl_fail(err, PL_USAGE, "out", -1, "a pl_demand whose size is not set");
    pl_file file;
    pl_status status = pl_file_open(&file, path, MOST_BYTES, err);
    if (status != PL_OK) {
        pl_demand none;
        unknown(&none);
        pl_sized_fill(out, out->size, &none, sizeof none);
    }
    if (status == PL_LIMIT) return pl_fail(err, PL_INPUT, path, -1, "%s: larger than 64 MiB", what);
    if (status != PL_OK) return status;
    status = pl_demand_read(out, file.bytes, file.size, path, err);
    pl_file_close(&file);
    return status;
}
