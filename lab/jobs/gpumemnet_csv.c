/* gpumemnet_csv: lines and quotes as RFC 4180 has them, with CR LF or LF, and a byte order mark
 * allowed. Columns are found by their names in the first line, in any order; others are passed
 * over. The column "Activations-Params" is a list as Python prints it,
 *     [('linear', 1173, 2753031), ('ReLU', 1173, 0)]
 * where texts have no escapes and numbers are whole, from 0. Left out: what Python's printing could
 * do beyond that. */
#include "lab/jobs/gpumemnet_csv.h"

#include "lab/jobs/packed.h"
#include "lend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MOST = 256, TEXT_MOST = 4096, LAYERS_MOST = 100000 };
static const size_t file_most = (size_t)256 << 20; /* bytes, unpacked */

/* A field as it stands in the file. Quotes around it are outside text, doubled ones inside it. */
typedef struct field {
    const char *text;
    size_t size;
    bool doubled; /* has "" within */
} field;

typedef struct csv {
    const char *begin, *at, *end;
    const char *name; /* for messages */
    pl_arena *arena;
    pl_error *err;
} csv;

static pl_status fail_at(const csv *c, const char *at, const char *expected) {
    return pl_fail(c->err, PL_INPUT, c->name, at - c->begin, "expected %s", expected);
}

static pl_status no_memory(const csv *c) {
    return pl_fail(c->err, PL_MISSING, c->name, -1, "out of memory");
}

/* ---- lines and fields ---- */

static bool at_line_end(const csv *c) {
    return c->at == c->end || *c->at == '\n' ||
           (*c->at == '\r' && c->at + 1 < c->end && c->at[1] == '\n');
}

static pl_status next_field(csv *c, field *out) {
    *out = (field){.text = c->at};
    if (c->at < c->end && *c->at == '"') {
        const char *open = c->at++;
        out->text = c->at;
        for (;; c->at++) {
            if (c->at == c->end)
                return fail_at(c, open, "a quote at the end of what begins with this one");
            if (*c->at != '"') continue;
            if (c->at + 1 == c->end || c->at[1] != '"') break;
            out->doubled = true;
            c->at++;
        }
        out->size = (size_t)(c->at++ - out->text);
        if (!at_line_end(c) && *c->at != ',')
            return fail_at(c, c->at, "a comma or the line's end after a quoted field");
        return PL_OK;
    }
    while (!at_line_end(c) && *c->at != ',') {
        if (*c->at == '"') return fail_at(c, c->at, "no quote within a field that has none around");
        c->at++;
    }
    out->size = (size_t)(c->at - out->text);
    return PL_OK;
}

/* Fields of a line; those beyond COLUMNS_MOST are an error. The end of the line is passed. */
static pl_status next_line(csv *c, field *fields, size_t *count) {
    *count = 0;
    for (;;) {
        if (*count == COLUMNS_MOST) return fail_at(c, c->at, "at most 256 columns");
        pl_status status = next_field(c, &fields[(*count)++]);
        if (status != PL_OK) return status;
        if (at_line_end(c)) break;
        c->at++; /* the comma */
    }
    if (c->at < c->end && *c->at == '\r') c->at++;
    if (c->at < c->end) c->at++;
    return PL_OK;
}

static void skip_empty_lines(csv *c) {
    while (c->at < c->end && at_line_end(c)) c->at += *c->at == '\r' ? 2 : 1;
}

/* ---- values ---- */

static pl_status read_text(const csv *c, const field *f, const char **out) {
    if (f->size > TEXT_MOST) return fail_at(c, f->text, "a text of at most 4096 bytes");
    for (size_t i = 0; i < f->size;) {
        size_t step = pl_utf8_length((const unsigned char *)f->text + i, f->size - i);
        if (step == 0 || f->text[i] == 0)
            return fail_at(c, f->text + i, "text in UTF-8 without 0 bytes");
        i += step;
    }
    char *copy = pl_arena_string(c->arena, f->text, f->size);
    if (!copy) return no_memory(c);
    if (f->doubled) {
        char *to = copy;
        for (const char *from = copy; *from; from++) {
            *to++ = *from;
            if (*from == '"') from++; /* its double */
        }
        *to = 0;
    }
    *out = copy;
    return PL_OK;
}

/* Digits from *at on, and *at behind them; false: none, or more than an int64 holds. */
static bool take_whole(const char **at, const char *end, int64_t *out) {
    const char *p = *at;
    int64_t value = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *p - '0', &value))
            return false;
    if (p == *at) return false;
    *at = p;
    *out = value;
    return true;
}

static pl_status read_whole(const csv *c, const field *f, int64_t *out) {
    const char *at = f->text, *end = f->text + f->size;
    if (!take_whole(&at, end, out) || at != end)
        return fail_at(c, f->text, "a whole number from 0");
    return PL_OK;
}

/* A finite number from 0. */
static bool parse_number(const field *f, double *out) {
    pl_json json;
    pl_json_open(&json, f->text, f->size, 1);
    return f->size > 0 && f->text[0] >= '0' && f->text[0] <= '9' && pl_json_number(&json, out) &&
           json.at == f->text + f->size && isfinite(*out);
}

static pl_status read_average(const csv *c, const field *f, double *out) {
    *out = NAN;
    if (f->size == 0 || (f->size == 3 && memcmp(f->text, "nan", 3) == 0)) return PL_OK;
    return parse_number(f, out) ? PL_OK : fail_at(c, f->text, "a number from 0, nan or nothing");
}

/* ---- the list of layers ---- */

static void skip_blanks(const char **at, const char *end) {
    while (*at < end && **at == ' ') ++*at;
}

/* The character, with blanks around it. */
static bool take(const char **at, const char *end, char c) {
    skip_blanks(at, end);
    if (*at == end || **at != c) return false;
    ++*at;
    skip_blanks(at, end);
    return true;
}

/* 'text' or "text", the latter with its quotes doubled by the CSV around it. */
static pl_status read_type(const csv *c, const char **at, const char *end, const char **out) {
    const char *p = *at;
    size_t quotes = p < end && *p == '\'' ? 1 : end - p >= 2 && p[0] == '"' && p[1] == '"' ? 2 : 0;
    if (quotes == 0) return fail_at(c, p, "a layer's type in quotes");
    char quote = *p;
    const char *text = p + quotes;
    for (p = text; p < end && *p != quote; p++)
        if (*p == '\\') return fail_at(c, p, "a layer's type without escapes");
    if ((size_t)(end - p) < quotes || p == text)
        return fail_at(c, text, "a layer's type and the quote behind it");
    size_t size = (size_t)(p - text);
    field f = {.text = text, .size = size, .doubled = memchr(text, '"', size) != NULL};
    *at = p + quotes;
    return read_text(c, &f, out);
}

/* The next number of a tuple, the comma before it included. */
static pl_status read_size(const csv *c, const char **at, const char *end, int64_t *out) {
    if (!take(at, end, ',')) return fail_at(c, *at, "a comma");
    const char *p = *at;
    return take_whole(at, end, out) ? PL_OK : fail_at(c, p, "a whole number from 0");
}

static pl_status read_layer(const csv *c, const char **at, const char *end,
                            pl_gpumemnet_layer *layer) {
    if (!take(at, end, '(')) return fail_at(c, *at, "a layer, as ('linear', 64, 4160)");
    pl_status status = read_type(c, at, end, &layer->type);
    if (status == PL_OK) status = read_size(c, at, end, &layer->activations);
    if (status == PL_OK) status = read_size(c, at, end, &layer->parameters);
    if (status == PL_OK && !take(at, end, ')'))
        status = fail_at(c, *at, "a closing bracket after a layer's two numbers");
    return status;
}

static pl_status read_layers(const csv *c, const field *f, pl_gpumemnet_row *row) {
    const char *at = f->text, *end = f->text + f->size;
    size_t most = 0;
    if (!take(&at, end, '[')) return fail_at(c, at, "a list of layers, as [('linear', 64, 4160)]");
    for (const char *p = at; p < end; p++) most += *p == '(';
    if (most > LAYERS_MOST) return fail_at(c, f->text, "at most 100000 layers");
    pl_gpumemnet_layer *layers = pl_arena_array(c->arena, most + 1, sizeof *layers);
    if (!layers) return no_memory(c);
    row->layers = layers;
    while (!take(&at, end, ']')) {
        if (row->layer_count > 0 && !take(&at, end, ','))
            return fail_at(c, at, "a comma or the end of the list of layers");
        pl_status status = read_layer(c, &at, end, &layers[row->layer_count]);
        if (status != PL_OK) return status;
        row->layer_count++;
    }
    if (at != end) return fail_at(c, at, "nothing after the list of layers");
    if (row->layer_count == 0) return fail_at(c, f->text, "at least one layer");
    return PL_OK;
}

/* ---- columns ---- */

typedef enum kind { TEXT, WHOLE, POSITIVE, LAYERS, MEMORY, AVERAGE } kind;

typedef struct column {
    const char *title;
    kind kind;
    size_t offset; /* in pl_gpumemnet_row */
} column;

#define AT(member) offsetof(pl_gpumemnet_row, member)
static const column columns[] = {
    {"Filename", TEXT, AT(filename)},
    {"Depth", WHOLE, AT(depth)},
    {"Activations-Params", LAYERS, 0},
    {"Activation Function", TEXT, AT(activation)},
    {"Total Activations", WHOLE, AT(total_activations)},
    {"Total Parameters", WHOLE, AT(total_parameters)},
    {"Batch Size", POSITIVE, AT(batch)},
    {"Batch Normalization Layers", WHOLE, AT(batch_norm_layers)},
    {"Dropout Layers", WHOLE, AT(dropout_layers)},
    {"Max GPU Memory (MiB)", MEMORY, AT(max_mib)},
    {"Avg GPUTL", AVERAGE, AT(gputl)},
    {"Avg GRACT", AVERAGE, AT(gract)},
    {"Avg SMACT", AVERAGE, AT(smact)},
    {"Avg SMOCC", AVERAGE, AT(smocc)},
    {"Avg FP32A", AVERAGE, AT(fp32a)},
};
enum { COLUMNS = sizeof columns / sizeof *columns, ABSENT = COLUMNS_MOST };

static bool is_title(const field *f, const char *title) {
    return f->size == strlen(title) && memcmp(f->text, title, f->size) == 0;
}

/* place[i]: which field column i is, or ABSENT. */
static pl_status find_columns(const csv *c, const field *fields, size_t count, size_t *place) {
    char missing[320] = "";
    size_t used = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        place[i] = ABSENT;
        for (size_t k = 0; k < count; k++) {
            if (!is_title(&fields[k], columns[i].title)) continue;
            if (place[i] != ABSENT)
                return pl_fail(c->err, PL_INPUT, c->name, fields[k].text - c->begin,
                               "expected the column '%s' once", columns[i].title);
            place[i] = k;
        }
        size_t size = strlen(columns[i].title);
        if (place[i] != ABSENT || columns[i].kind == AVERAGE || used + size + 5 > sizeof missing)
            continue;
        if (used) memcpy(missing + used, ", ", 2);
        used += used ? 2 : 0;
        missing[used++] = '\'';
        memcpy(missing + used, columns[i].title, size);
        used += size;
        missing[used++] = '\'';
        missing[used] = 0;
    }
    if (!used) return PL_OK;
    return pl_fail(c->err, PL_INPUT, c->name, count ? fields[0].text - c->begin : 0,
                   "expected a first line that names the columns; missing: %s", missing);
}

static pl_status read_value(const csv *c, const column *column, const field *f,
                            pl_gpumemnet_row *row) {
    void *to = (char *)row + column->offset;
    int64_t *whole = to;
    double *number = to;
    pl_status status;
    switch (column->kind) {
    case TEXT: return read_text(c, f, to);
    case WHOLE: return read_whole(c, f, whole);
    case POSITIVE:
        status = read_whole(c, f, whole);
        if (status == PL_OK && *whole == 0) status = fail_at(c, f->text, "a number above 0");
        return status;
    case LAYERS: return read_layers(c, f, row);
    case MEMORY:
        if (!parse_number(f, number) || !(*number > 0))
            return fail_at(c, f->text, "a number of MiB above 0");
        return PL_OK;
    case AVERAGE: break;
    }
    return read_average(c, f, number);
}

static pl_status read_row(const csv *c, const field *fields, const size_t *place,
                          pl_gpumemnet_row *row) {
    static const field none = {.text = ""};
    for (size_t i = 0; i < COLUMNS; i++) {
        pl_status status =
            read_value(c, &columns[i], place[i] == ABSENT ? &none : &fields[place[i]], row);
        if (status == PL_OK) continue;
        /* Say also which column it was. */
        char what[sizeof c->err->message];
        if (!c->err || status != PL_INPUT) return status;
        memcpy(what, c->err->message, sizeof what);
        return pl_fail(c->err, PL_INPUT, c->name, c->err->position, "column '%s': %s",
                       columns[i].title, what);
    }
    return PL_OK;
}

bool pl_gpumemnet_is(const char *bytes, size_t size) {
    static const char title[] = "Activations-Params";
    const char *line = memchr(bytes, '\n', size);
    size_t length = line ? (size_t)(line - bytes) : size;
    for (size_t i = 0; i + sizeof title - 1 <= length; i++)
        if (memcmp(bytes + i, title, sizeof title - 1) == 0) return bytes[0] != '{';
    return false;
}

pl_status pl_gpumemnet_read(pl_gpumemnet_rows *out, const char *bytes, size_t size,
                            const char *name, pl_arena *arena, pl_error *err) {
    *out = (pl_gpumemnet_rows){0};
    csv c = {
        .begin = bytes, .at = bytes, .end = bytes + size, .name = name, .arena = arena, .err = err};
    field fields[COLUMNS_MOST];
    size_t count, place[COLUMNS], titles = 0, capacity = 0;
    pl_gpumemnet_row *rows = NULL;
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) c.at += 3;
    skip_empty_lines(&c);
    if (c.at == c.end) return fail_at(&c, c.at, "a first line that names the columns");
    pl_status status = next_line(&c, fields, &titles);
    if (status == PL_OK) status = find_columns(&c, fields, titles, place);
    for (skip_empty_lines(&c); status == PL_OK && c.at < c.end; skip_empty_lines(&c)) {
        const char *line = c.at;
        rows = pl_arena_grow(arena, rows, &capacity, out->count + 1, sizeof *rows);
        if (!rows) {
            status = no_memory(&c);
            break;
        }
        pl_gpumemnet_row *row = &rows[out->count];
        *row = (pl_gpumemnet_row){.position = line - bytes};
        status = next_line(&c, fields, &count);
        if (status == PL_OK && count != titles)
            status = pl_fail(err, PL_INPUT, name, line - bytes,
                             "expected %zu fields, as many as the first line has, this one has %zu",
                             titles, count);
        if (status == PL_OK) status = read_row(&c, fields, place, row);
        if (status == PL_OK) out->count++;
    }
    if (status == PL_OK && out->count == 0) status = fail_at(&c, c.end, "at least one row");
    out->rows = rows;
    if (status != PL_OK) *out = (pl_gpumemnet_rows){0};
    return status;
}

pl_status pl_gpumemnet_open(pl_gpumemnet_rows *out, const char *path, pl_arena *arena,
                            pl_error *err) {
    char *bytes;
    size_t size;
    *out = (pl_gpumemnet_rows){0};
    pl_status status = pl_packed_read(&bytes, &size, path, file_most, err);
    if (status == PL_OK)
        status = pl_gpumemnet_read(out, bytes ? bytes : "", size, path, arena, err);
    free(bytes);
    return status;
}
