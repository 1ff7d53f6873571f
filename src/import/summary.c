/* summary: see import/summary.h. Both tables have a heading with "Layer (type", "Output Shape" and
 * "Param #", a row per module, and totals.
 *
 *             Conv2d-1         [-1, 64, 32, 32]           9,408     torchsummary 1.5.1
 *     ├─Conv2d: 1-1            [8, 64, 32, 32]            9,408     torchinfo 1.8.0, a tree
 *
 * Layers are the leaf modules, as measured jobs list them. torchinfo's tree shows them: rows whose
 * next row is not indented further. torchsummary lists blocks as well, behind their parts: a row
 * without parameters, of a class that torch.nn does not have, is taken for one and left out.
 * Columns are found by the heading, so torchinfo's col_names and row_settings may be any.
 *
 * Left out: modules that were not run (their output is "--"), but for their parameters. */
#include "import/summary.h"

#include <string.h>

#include "core/checked.h"
#include "core/text.h"
#include "core/utf8.h"

enum { MAX_BYTES = 16 << 20, MAX_LAYERS = 1 << 20, MAX_TYPE = 128 };

typedef struct line {
    const char *at, *end; /* without the line's end */
} line;

typedef struct row {
    char type[MAX_TYPE];
    int depth;
    bool has_output;
    int64_t first, elements; /* the output's first size, the product of the others */
    int64_t parameters;
    bool frozen;
} row;

typedef struct reader {
    const char *begin, *at, *end, *name;
    int32_t number;                                    /* of the line, from 1 */
    bool tree;                                         /* torchinfo */
    int output_column, parameter_column, input_column; /* in characters; -1: none */
    pl_arena *arena;
    pl_error *err;
    pl_summary *summary;
    pl_summary_layer *layers;
    size_t count, room;
} reader;

void pl_summary_close(pl_summary **summary) {
    if (!summary || !*summary) return;
    pl_arena *arena = (*summary)->arena;
    pl_arena_free(&arena);
    *summary = NULL;
}

/* ---- lines ---- */

static bool next_line(reader *r, line *out) {
    if (r->at >= r->end) return false;
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    *out = (line){r->at, end ? end : r->end};
    r->at = end ? end + 1 : r->end;
    if (out->end > out->at && out->end[-1] == '\r') out->end--;
    r->number++;
    return true;
}

static const char *find(line l, const char *word) {
    size_t n = strlen(word);
    for (const char *at = l.at; (size_t)(l.end - at) >= n; at++)
        if (memcmp(at, word, n) == 0) return at;
    return NULL;
}

static bool is_heading(line l) {
    return find(l, "Layer (type") && find(l, "Output Shape") && find(l, "Param #");
}

/* Characters before a place: rows have glyphs of several bytes. */
static int column_of(line l, const char *place) {
    int column = 0;
    for (const char *at = l.at; at < place; column++) {
        size_t n = pl_utf8_length((const unsigned char *)at, (size_t)(l.end - at));
        at += n ? n : 1;
    }
    return column;
}

static const char *at_column(line l, int column) {
    const char *at = l.at;
    while (column-- > 0 && at < l.end) {
        size_t n = pl_utf8_length((const unsigned char *)at, (size_t)(l.end - at));
        at += n ? n : 1;
    }
    return at;
}

static pl_status fail(reader *r, line l, const char *what) {
    return pl_fail(r->err, PL_INPUT, r->name, l.at - r->begin, "line %d: %s", r->number, what);
}

/* ---- numbers ---- */

static const char *skip_spaces(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    return at;
}

/* "2,359,296"; -1 is read too. NULL: no number, or none that fits. */
static const char *read_number(const char *at, const char *end, int64_t *out) {
    bool minus = at < end && *at == '-', any = false;
    int64_t n = 0;
    for (at += minus; at < end && ((*at >= '0' && *at <= '9') || (any && *at == ',')); at++) {
        if (*at == ',') {
            if (at + 1 == end || at[1] < '0' || at[1] > '9') break; /* [8, 64]: the next size */
            continue;
        }
        if (!pl_mul_i64(n, 10, &n) || !pl_add_i64(n, *at - '0', &n)) return NULL;
        any = true;
    }
    *out = minus ? -n : n;
    return any ? at : NULL;
}

/* "[8, 64, 32, 32]", and of a list of them the first. *at is put behind. */
static bool read_shape(const char **at, const char *end, int64_t *first, int64_t *elements) {
    const char *c = skip_spaces(*at, end);
    while (c < end && (*c == '[' || *c == '(')) c++;
    if (c == *at || c == end || (c[-1] != '[' && c[-1] != '(')) return false;
    *elements = 1;
    bool any = false;
    for (;; any = true) {
        int64_t n;
        c = skip_spaces(c, end);
        c = read_number(c, end, &n);
        if (!c || n < -1 || (any && n < 0)) return false;
        if (!any)
            *first = n;
        else if (!pl_mul_i64(*elements, n, elements))
            return false;
        c = skip_spaces(c, end);
        if (c == end) return false;
        if (*c == ']' || *c == ')') break;
        if (*c != ',') return false;
        c = skip_spaces(c + 1, end);
        if (c < end && (*c == ']' || *c == ')')) break; /* (64,) */
    }
    int depth = 1; /* past the brackets around it, whatever is in them */
    for (; c < end && depth > 0; c++) depth += *c == '[' ? 1 : *c == ']' || *c == ')' ? -1 : 0;
    while (c < end && (*c == ']' || *c == ')')) c++;
    *at = c;
    return true;
}

/* ---- rows ---- */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(char c) {
    return is_letter(c) || (c >= '0' && c <= '9');
}

/* The class at the start of a row, its column in characters; false: none. */
static bool read_type(line l, row *out, const char **behind, int *column) {
    const char *at = l.at;
    while (at < l.end && !is_letter(*at)) at++;
    *column = column_of(l, at);
    size_t n = 0;
    for (; at < l.end && (is_name(*at) || *at == '.') && n + 1 < sizeof out->type; at++)
        out->type[n++] = *at;
    out->type[n] = 0;
    *behind = at;
    return n > 0;
}

/* "9,408", "(9,408)" of frozen ones, "--" and "(recursive)" of none. */
static bool read_parameters(const char *at, const char *end, row *out) {
    at = skip_spaces(at, end);
    out->frozen = at < end && *at == '(';
    if (out->frozen) at++;
    out->parameters = 0;
    if (at < end && (*at == '-' || *at == 'r')) return true;
    return read_number(at, end, &out->parameters) != NULL;
}

/* "            Conv2d-1         [-1, 64, 32, 32]           9,408" */
static bool read_flat(line l, row *out) {
    const char *at;
    int column;
    int64_t index;
    if (!read_type(l, out, &at, &column) || at == l.end || *at != '-') return false;
    at = read_number(at + 1, l.end, &index);
    if (!at) return false;
    out->has_output = read_shape(&at, l.end, &out->first, &out->elements);
    return out->has_output && read_parameters(at, l.end, out);
}

/* "│    └─Conv2d: 3-1      [8, 64, 16, 16]           (36,864)": names start at 0, 2, 7, 12, ... */
static bool read_tree(const reader *r, line l, row *out) {
    const char *behind;
    int column;
    if (!read_type(l, out, &behind, &column)) return false;
    out->depth = column == 0 ? 0 : (column - 2) / 5 + 1;
    const char *shape = at_column(l, r->output_column);
    out->has_output = read_shape(&shape, l.end, &out->first, &out->elements);
    return read_parameters(at_column(l, r->parameter_column), l.end, out);
}

/* ---- layers ---- */

static pl_status add_layer(reader *r, const char *type, int64_t activations, int64_t parameters) {
    if (r->count >= MAX_LAYERS)
        return pl_fail(r->err, PL_INPUT, r->name, r->at - r->begin, "more than %d layers",
                       MAX_LAYERS);
    if (r->count >= r->room) {
        pl_summary_layer *moved =
            pl_arena_grow(r->arena, r->layers, &r->room, r->count + 1, sizeof *r->layers);
        if (!moved) return pl_budget_fail(r->err, pl_arena_budget(r->arena), r->name);
        r->layers = moved;
    }
    const char *copy = pl_arena_string(r->arena, type, strlen(type));
    if (!copy) return pl_budget_fail(r->err, pl_arena_budget(r->arena), r->name);
    r->layers[r->count++] = (pl_summary_layer){copy, activations, parameters};
    return PL_OK;
}

/* Classes of torch.nn start so: what else has no parameters is a block, or a function of somebody's
 * own. */
static bool of_torch(const char *type) {
    static const char *const starts[] = {
        "Linear",       "Conv",          "BatchNorm",  "LayerNorm", "GroupNorm",
        "InstanceNorm", "RMSNorm",       "Dropout",    "Alpha",     "Feature",
        "ReLU",         "LeakyReLU",     "PReLU",      "RReLU",     "ELU",
        "SELU",         "CELU",          "GELU",       "SiLU",      "Mish",
        "Sigmoid",      "Tanh",          "Softmax",    "Softplus",  "Softsign",
        "Hard",         "LogSoftmax",    "LogSigmoid", "Threshold", "GLU",
        "MaxPool",      "AvgPool",       "Adaptive",   "LPPool",    "Embedding",
        "LSTM",         "GRU",           "RNN",        "Flatten",   "Unflatten",
        "Identity",     "Upsample",      "Pixel",      "Multihead", "Zero",
        "Reflection",   "Replication",   "Fold",       "Unfold",    "LocalResponseNorm",
        "Bilinear",     "ChannelShuffle"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(type, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

/* A row that is complete: whether the next is deeper is known. */
static pl_status take(reader *r, const row *row, bool inner) {
    if (row->has_output && r->summary->batch == PL_UNKNOWN && row->first > 0)
        r->summary->batch = row->first;
    if (inner) /* a container's own parameters stand beside those of its parts */
        return row->parameters > 0 ? add_layer(r, row->type, 0, row->parameters) : PL_OK;
    if (!row->has_output && row->parameters == 0) return PL_OK;
    if (!r->tree && row->parameters == 0 && !of_torch(row->type)) return PL_OK;
    return add_layer(r, row->type, row->has_output ? row->elements : 0, row->parameters);
}

/* "Total params: 11,689,512" */
static void read_total(line l, const char *word, int64_t *out) {
    const char *at = find(l, word);
    int64_t n;
    if (at && read_number(skip_spaces(at + strlen(word), l.end), l.end, &n) && n >= 0) *out = n;
}

static bool is_ruler(line l) {
    return l.end - l.at >= 8 && (*l.at == '=' || *l.at == '-') && l.at[1] == *l.at &&
           l.at[2] == *l.at;
}

static pl_status read_rows(reader *r) {
    line l;
    row rows[2] = {0}; /* the new one and the last */
    size_t seen = 0;
    bool total = false;
    while (next_line(r, &l)) {
        if (is_ruler(l)) {
            if (seen > 0) break;
            continue;
        }
        if (skip_spaces(l.at, l.end) == l.end) continue;
        row *now = &rows[seen % 2], *last = &rows[(seen + 1) % 2];
        *now = (row){.first = PL_UNKNOWN};
        if (r->tree ? !read_tree(r, l, now) : !read_flat(l, now))
            return fail(r, l,
                        r->tree ? "expected a module, its output's shape and its parameters"
                                : "expected `Conv2d-1 [-1, 64, 32, 32] 9,408`");
        if (seen == 0 && r->input_column >= 0) {
            const char *at = at_column(l, r->input_column);
            int64_t first;
            if (!read_shape(&at, l.end, &first, &r->summary->input_elements))
                r->summary->input_elements = PL_UNKNOWN;
        }
        pl_status status = seen > 0 ? take(r, last, r->tree && now->depth > last->depth) : PL_OK;
        if (status != PL_OK) return status;
        seen++;
    }
    if (seen == 0) return fail(r, (line){r->at, r->at}, "the table has no rows");
    pl_status status = take(r, &rows[(seen + 1) % 2], false);
    while (status == PL_OK && next_line(r, &l)) {
        total = total || find(l, "Total params:");
        read_total(l, "Total params:", &r->summary->parameters);
        if (!find(l, "Non-trainable params:"))
            read_total(l, "Trainable params:", &r->summary->trainable);
    }
    if (status == PL_OK && !total)
        status = fail(r, (line){r->at, r->at}, "expected `Total params:`; the text is cut short");
    return status;
}

static pl_status read_text(reader *r) {
    line l;
    for (;;) {
        if (!next_line(r, &l)) return fail(r, (line){r->at, r->at}, "expected the table's heading");
        if (is_heading(l)) break;
    }
    const char *input = find(l, "Input Shape");
    r->tree = find(l, "depth-idx") != NULL || (l.at < l.end && *l.at == 'L');
    r->output_column = column_of(l, find(l, "Output Shape"));
    r->parameter_column = column_of(l, find(l, "Param #"));
    r->input_column = r->tree && input ? column_of(l, input) : -1;
    pl_status status = read_rows(r);
    if (status != PL_OK) return status;
    if (r->count == 0) return fail(r, (line){r->begin, r->begin}, "the table has no layers");
    int64_t sum = 0;
    for (size_t i = 0; i < r->count; i++)
        if (!pl_add_i64(sum, r->layers[i].parameters, &sum)) sum = INT64_MAX;
    pl_summary *s = r->summary;
    s->layers = r->layers;
    s->layer_count = r->count;
    if (s->parameters == PL_UNKNOWN) s->parameters = sum;
    if (s->trainable == PL_UNKNOWN) s->trainable = s->parameters;
    return PL_OK;
}

pl_status pl_import_summary(pl_summary **out, const char *bytes, size_t size, const char *name,
                            const pl_reading *reading, pl_error *err) {
    *out = NULL;
    if (size > MAX_BYTES)
        return pl_fail(err, PL_INPUT, name, 0, "a text of %zu bytes; the most is %d", size,
                       MAX_BYTES);
    const char *zero = size ? memchr(bytes, 0, size) : NULL;
    if (zero) return pl_fail(err, PL_INPUT, name, zero - bytes, "expected text, found a 0");
    pl_arena *arena = pl_arena_new(reading ? reading->budget : NULL);
    pl_summary *summary = arena ? pl_arena_alloc(arena, sizeof *summary) : NULL;
    const char *own = summary ? pl_short_name(arena, name) : NULL;
    if (!own) {
        pl_arena_free(&arena);
        return pl_budget_fail(err, reading ? reading->budget : NULL, name);
    }
    *summary = (pl_summary){.arena = arena,
                            .name = own,
                            .batch = PL_UNKNOWN,
                            .parameters = PL_UNKNOWN,
                            .trainable = PL_UNKNOWN,
                            .input_elements = PL_UNKNOWN};
    reader r = {.begin = bytes,
                .at = bytes,
                .end = bytes + size,
                .name = name,
                .arena = arena,
                .err = err,
                .summary = summary};
    pl_status status = read_text(&r);
    if (status != PL_OK)
        pl_summary_close(&summary);
    else
        *out = summary;
    return status;
}

bool pl_summary_is(const char *bytes, size_t size) {
    enum { TALK = 1 << 16 };
    reader r = {.begin = bytes, .at = bytes, .end = bytes + (size < TALK ? size : TALK)};
    line l;
    if (size == 0 || memchr(bytes, 0, (size_t)(r.end - r.at))) return false;
    while (next_line(&r, &l))
        if (is_heading(l)) return true;
    return false;
}
