/* hf_config: see hf_config.h.
 *
 * Objects are flattened to dotted keys, sorted; lists keep their numbers and strings. Where
 * a key stands twice the last one counts, as with Python's json. Labels (id2label, label2id) are
 * counted, not kept: some models have twenty thousand.
 *
 * Keys that a file leaves out are its class's defaults in transformers: hf_defaults.txt has them, a
 * line per model_type, made by tools/hf_defaults.py.
 *
 * Left out: lists inside lists and objects inside lists, which only count as elements. */
#include "import/hf_config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/json.h"

/* Real configs have at most a few hundred keys and a few kilobytes; labels and lists of tokens a
 * few hundred kilobytes. */
enum { MAX_BYTES = 16 << 20, MAX_KEYS = 1 << 16, MAX_ITEMS = 1 << 18, MAX_NESTING = 16 };
#define MAX_NUMBER (INT64_C(1) << 40)

typedef enum kind { OTHER, NOTHING, INTEGER, REAL, BOOLEAN, STRING, LIST, OBJECT } kind;

typedef struct item {
    kind kind;
    int64_t i; /* INTEGER, BOOLEAN; members of an OBJECT, elements of a LIST */
    double f;  /* INTEGER too */
    const char *s;
    const struct item *items; /* LIST: [i] */
} item;

typedef struct entry {
    const char *key;
    const char *said; /* the file's name for it, which the class takes for key */
    item value;
    int64_t at; /* byte of the value */
} entry;

typedef struct place {
    const char *key;
    size_t entry;
} place;

struct pl_config {
    entry *entries;
    size_t count, room;
    place *places; /* [place_count], by key */
    size_t place_count;
    int64_t items;    /* in lists, all together */
    pl_config *usual; /* what its class holds where the file says nothing; NULL: not known */
};

extern const char pl_hf_defaults[], pl_hf_defaults_end[];

/* ---- reading ---- */

static bool add(pl_config *c, pl_arena *arena, const char *key, const char *said, item value,
                int64_t at) {
    void *grown = pl_arena_grow(arena, c->entries, &c->room, c->count + 1, sizeof *c->entries);
    if (!grown) return false;
    c->entries = grown;
    c->entries[c->count++] = (entry){key, said, value, at};
    return true;
}

static bool read_number(pl_json *json, item *out) {
    pl_json before = *json;
    if (!pl_json_number(json, &out->f)) return false;
    out->kind = INTEGER;
    for (const char *c = before.at; c < json->at; c++)
        if (*c == '.' || *c == 'e' || *c == 'E' || *c == 'N' || *c == 'I') out->kind = REAL;
    bool exact = true;
    if (out->kind == INTEGER && pl_json_int(&before, &out->i, &exact) && !exact) out->kind = REAL;
    return true;
}

/* Anything but lists and objects, which are passed over. */
static bool read_scalar(pl_json *json, pl_arena *arena, item *out) {
    pl_json_text text;
    bool truth = false;
    *out = (item){.kind = OTHER};
    switch (pl_json_peek(json)) {
    case '"':
        if (!pl_json_string(json, &text)) return false;
        out->kind = STRING;
        out->s = pl_json_copy(arena, &text, NULL);
        return out->s || pl_json_fail(json, "less text: out of memory");
    case 't':
    case 'f':
        if (!pl_json_bool(json, &truth)) return false;
        out->kind = BOOLEAN;
        out->i = truth;
        return true;
    case 'n': out->kind = NOTHING; return pl_json_null(json);
    case 'N':
    case 'I':
    case '-':
    case '0': return read_number(json, out);
    default: return pl_json_skip(json);
    }
}

static bool read_list(pl_config *c, pl_json *json, pl_arena *arena, item *out) {
    item *items = NULL;
    size_t count = 0, room = 0;
    *out = (item){.kind = LIST};
    if (!pl_json_list(json)) return false;
    while (pl_json_item(json)) {
        if (++c->items > MAX_ITEMS)
            return pl_json_fail(json, "shorter lists: not a model's config");
        void *grown = pl_arena_grow(arena, items, &room, count + 1, sizeof *items);
        if (!grown) return pl_json_fail(json, "less text: out of memory");
        items = grown;
        if (!read_scalar(json, arena, &items[count++])) return false;
    }
    out->items = items;
    out->i = (int64_t)count;
    return !json->failure;
}

static bool count_members(pl_json *json, item *out) {
    pl_json_text key;
    *out = (item){.kind = OBJECT};
    if (!pl_json_object(json)) return false;
    while (pl_json_key(json, &key)) {
        out->i++;
        if (!pl_json_skip(json)) return false;
    }
    return !json->failure;
}

/* prefix: "" or "text_config." */
static bool read_object(pl_config *c, pl_json *json, pl_arena *arena, const char *prefix,
                        int64_t *members) {
    pl_json_text name;
    *members = 0;
    if (!pl_json_object(json)) return false;
    while (pl_json_key(json, &name)) {
        if (c->count >= MAX_KEYS) return pl_json_fail(json, "fewer keys: not a model's config");
        size_t length = 0, start = strlen(prefix);
        const char *last = pl_json_copy(arena, &name, &length);
        char *key = last ? pl_arena_alloc(arena, start + length + 2) : NULL;
        if (!key) return pl_json_fail(json, "less text: out of memory");
        memcpy(key, prefix, start);
        memcpy(key + start, last, length + 1);
        ++*members;
        item value;
        char first = pl_json_peek(json);
        int64_t at = json->at - json->begin;
        if (first == '{' && (strcmp(last, "id2label") == 0 || strcmp(last, "label2id") == 0)) {
            if (!count_members(json, &value)) return false;
        } else if (first == '{') {
            char *inner = pl_arena_alloc(arena, start + length + 2);
            if (!inner) return pl_json_fail(json, "less text: out of memory");
            memcpy(inner, key, start + length);
            inner[start + length] = '.';
            value = (item){.kind = OBJECT};
            if (!read_object(c, json, arena, inner, &value.i)) return false;
        } else if (first == '[') {
            if (!read_list(c, json, arena, &value)) return false;
        } else if (!read_scalar(json, arena, &value)) {
            return false;
        }
        if (!add(c, arena, key, key, value, at))
            return pl_json_fail(json, "less text: out of memory");
    }
    return !json->failure;
}

/* ---- finding ---- */

static int by_key(const void *x, const void *y) {
    const place *a = x, *b = y;
    int order = strcmp(a->key, b->key);
    return order ? order : a->entry < b->entry ? -1 : 1;
}

/* Sorted by key, of equal ones the last: no choice of keys makes finding them slow. */
static bool index_entries(pl_config *c, pl_arena *arena) {
    c->places = pl_arena_array(arena, c->count + 1, sizeof *c->places);
    c->place_count = 0;
    if (!c->places) return false;
    for (size_t i = 0; i < c->count; i++) c->places[i] = (place){c->entries[i].key, i};
    qsort(c->places, c->count, sizeof *c->places, by_key);
    for (size_t i = 0; i < c->count; i++) {
        bool again = i + 1 < c->count && strcmp(c->places[i].key, c->places[i + 1].key) == 0;
        if (!again) c->places[c->place_count++] = c->places[i];
    }
    return true;
}

/* part: "text_config.", of the configuration inside, or "". */
static const entry *find_one(const pl_config *c, const char *part, const char *key, size_t length) {
    size_t low = 0, high = c->place_count, before = strlen(part);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const place *at = &c->places[middle];
        int order = strncmp(at->key, part, before);
        if (order == 0) order = strncmp(at->key + before, key, length);
        if (order == 0 && at->key[before + length]) order = 1;
        if (order == 0) return &c->entries[at->entry];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* The first alternative that is there and not null, *null: one was there and null. */
static const entry *find_here(const pl_config *c, const char *part, const char *keys, bool *null) {
    for (const char *key = keys; *key;) {
        size_t length = strcspn(key, "|");
        const entry *e = find_one(c, part, key, length);
        if (e && e->value.kind != NOTHING) return e;
        if (e) *null = true;
        key += length + (key[length] == '|');
    }
    return NULL;
}

/* The file's, else its class's. */
static const entry *find_in(const pl_config *c, const char *part, const char *keys) {
    bool null = false;
    const entry *e = find_here(c, part, keys, &null);
    return e || null || !c->usual ? e : find_here(c->usual, part, keys, &null);
}

static const entry *find(const pl_config *c, const char *keys) {
    return find_in(c, "", keys);
}

static const entry *of_model(const pl_hf *m, const char *keys) {
    return find_in(m->config, m->part, keys);
}

pl_status pl_config_read(pl_config **out, pl_arena *arena, const char *bytes, size_t size,
                         const char *file, pl_error *err) {
    *out = NULL;
    if (size > MAX_BYTES)
        return pl_fail(err, PL_INPUT, file, MAX_BYTES,
                       "%zu bytes: more than a config.json can have (%d)", size, (int)MAX_BYTES);
    pl_config *c = pl_arena_alloc(arena, sizeof *c);
    pl_json json;
    int64_t members = 0;
    pl_json_open(&json, bytes, size, MAX_NESTING);
    if (!c || !read_object(c, &json, arena, "", &members) || !pl_json_end(&json)) {
        if (!c || (json.failure && strstr(json.failure, "out of memory")))
            return pl_budget_fail(err, pl_arena_budget(arena), file);
        return pl_fail(err, PL_INPUT, file, json.failure_at, "expected %s", json.failure);
    }
    if (!index_entries(c, arena)) return pl_budget_fail(err, pl_arena_budget(arena), file);
    *out = c;
    return PL_OK;
}

bool pl_config_promote(pl_config *c, pl_arena *arena, const char *name) {
    size_t length = strlen(name), count = c->count;
    for (size_t i = 0; i < count; i++) {
        entry e = c->entries[i];
        if (strncmp(e.key, name, length) == 0 && e.key[length] == '.' &&
            !add(c, arena, e.key + length + 1, e.said, e.value, e.at))
            return false;
    }
    return index_entries(c, arena);
}

bool pl_config_demote(pl_config *c, pl_arena *arena, const char *name) {
    static const char *const own[] = {"model_type",         "architectures", "dtype",
                                      "torch_dtype",        "_name_or_path", "transformers_version",
                                      "quantization_config"};
    size_t length = strlen(name), count = c->count;
    for (size_t i = 0; i < count; i++) {
        entry e = c->entries[i];
        const char *config = strstr(e.key, "_config");
        bool kept = config && (!config[7] || config[7] == '.');
        for (size_t k = 0; k < sizeof own / sizeof *own && !kept; k++)
            kept = strcmp(e.key, own[k]) == 0;
        if (kept) continue;
        size_t end = strlen(e.key);
        char *key = pl_arena_alloc(arena, length + end + 2);
        if (!key) return false;
        memcpy(key, name, length);
        key[length] = '.';
        memcpy(key + length + 1, e.key, end + 1);
        if (!add(c, arena, key, e.said, e.value, e.at)) return false;
    }
    return index_entries(c, arena);
}

/* ---- defaults ---- */

/* The JSON of a model type's line; NULL: there is none. */
static const char *defaults_of(const char *model_type, size_t *size) {
    size_t length = strlen(model_type);
    const char *line = pl_hf_defaults, *end = pl_hf_defaults_end;
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        if ((size_t)(stop - line) > length && memcmp(line, model_type, length) == 0 &&
            line[length] == ' ') {
            *size = (size_t)(stop - line) - length - 1;
            return line + length + 1;
        }
        line = stop + 1;
    }
    return NULL;
}

bool pl_config_known(const char *model_type) {
    size_t size;
    return model_type && defaults_of(model_type, &size);
}

/* A line's keys behind prefix; where it stands twice in c, the later counts. */
static bool add_defaults(pl_config *c, pl_arena *arena, const char *prefix,
                         const char *model_type) {
    size_t size;
    int64_t members, before = (int64_t)c->count;
    const char *text = model_type ? defaults_of(model_type, &size) : NULL;
    if (!text) return true;
    pl_json json;
    pl_json_open(&json, text, size, MAX_NESTING);
    if (!read_object(c, &json, arena, prefix, &members)) return false;
    for (int64_t i = before; i < (int64_t)c->count; i++) c->entries[i].at = 0;
    return true;
}

/* Configurations inside: the file names their type, else the outer class does; what the outer
 * class sets in one that it makes itself holds where the file has none. */
static bool add_inner_defaults(pl_config *c, pl_config *usual, pl_arena *arena) {
    static const char type[] = ".model_type";
    size_t count = usual->count;
    for (size_t i = 0; i < count; i++) {
        const char *key = usual->entries[i].key;
        size_t length = strlen(key), end = sizeof type - 1;
        if (length <= end || strcmp(key + length - end, type) != 0) continue;
        char *prefix = pl_arena_string(arena, key, length - end + 1); /* with the dot */
        if (!prefix) return false;
        const entry *own = find_one(c, "", key, length),
                    *object = find_one(c, "", key, length - end);
        const char *inner =
            own && own->value.kind == STRING ? own->value.s : usual->entries[i].value.s;
        size_t start = usual->count;
        if (!add_defaults(usual, arena, prefix, inner)) return false;
        if (object && object->value.kind == OBJECT) continue;
        for (size_t j = 0; j < start; j++) {
            entry e = usual->entries[j];
            if (strncmp(e.key, prefix, length - end + 1) == 0 && j < count &&
                !add(usual, arena, e.key, e.key, e.value, 0))
                return false;
        }
    }
    return true;
}

/* Keys that the file has by another name ("=.hidden_size": "n_embd") stand under their own too. */
static bool add_names(pl_config *c, const pl_config *usual, pl_arena *arena) {
    for (size_t i = 0; i < usual->count; i++) {
        const char *key = usual->entries[i].key, *sign = strstr(key, "=.");
        if (!sign || usual->entries[i].value.kind != STRING) continue;
        const char *name = usual->entries[i].value.s;
        size_t prefix = (size_t)(sign - key), other = strlen(sign + 2), own = strlen(name);
        char *alias = pl_arena_alloc(arena, prefix + other + 1);
        char *target = pl_arena_alloc(arena, prefix + own + 1);
        if (!alias || !target) return false;
        memcpy(alias, key, prefix);
        memcpy(alias + prefix, sign + 2, other + 1);
        memcpy(target, key, prefix);
        memcpy(target + prefix, name, own + 1);
        const entry *e = find_one(c, "", alias, prefix + other);
        if (e && !find_one(c, "", target, prefix + own) &&
            !add(c, arena, target, e->key, e->value, e->at))
            return false;
    }
    return index_entries(c, arena);
}

bool pl_config_defaults(pl_config *c, pl_arena *arena, const char *model_type) {
    if (!pl_config_known(model_type)) return true;
    if (!c->usual) {
        c->usual = pl_arena_alloc(arena, sizeof *c->usual);
        if (!c->usual) return false;
        *c->usual = (pl_config){0};
    }
    return add_defaults(c->usual, arena, "", model_type) &&
           add_inner_defaults(c, c->usual, arena) && add_names(c, c->usual, arena) &&
           index_entries(c->usual, arena);
}

bool pl_config_given(const pl_config *c, const char *keys) {
    bool null = false;
    return find_here(c, "", keys, &null) || null;
}

bool pl_config_has(const pl_config *c, const char *key) {
    return find(c, key) != NULL;
}

const char *pl_config_text(const pl_config *c, const char *key) {
    const entry *e = find(c, key);
    return e && e->value.kind == STRING ? e->value.s : NULL;
}

const char *pl_config_listed(const pl_config *c, const char *key, int64_t index) {
    const entry *e = find(c, key);
    return e && e->value.kind == LIST && index < e->value.i && e->value.items[index].kind == STRING
               ? e->value.items[index].s
               : NULL;
}

const char *pl_config_first(const pl_config *c, const char *key) {
    return pl_config_listed(c, key, 0);
}

const char *pl_config_starting(const pl_config *c, const char *start) {
    size_t length = strlen(start);
    for (size_t i = 0; i < c->count; i++) {
        const entry *e = &c->entries[i];
        if (strncmp(e->key, start, length) == 0 && e->value.kind != NOTHING && !strchr(e->key, '.'))
            return e->key;
    }
    return c->usual ? pl_config_starting(c->usual, start) : NULL;
}

const char *pl_config_key(const pl_config *c, size_t index) {
    if (index < c->count) return c->entries[index].key;
    return c->usual ? pl_config_key(c->usual, index - c->count) : NULL;
}

bool pl_config_experts(const pl_config *c) {
    const entry *made = find(c, "is_moe");
    if (made && made->value.kind == BOOLEAN && !made->value.i) return false;
    return pl_config_has(c, PL_HF_CHOSEN) && pl_config_number(c, PL_HF_EXPERTS) != 1 &&
           pl_config_has(c, PL_HF_EXPERTS);
}

int64_t pl_config_number(const pl_config *c, const char *key) {
    const entry *e = find(c, key);
    return e && e->value.kind == INTEGER && e->value.i >= 0 && e->value.i <= MAX_NUMBER ? e->value.i
                                                                                        : -1;
}

bool pl_config_true(const pl_config *c, const char *key) {
    const entry *e = find(c, key);
    return e && e->value.kind == BOOLEAN && e->value.i;
}

int64_t pl_config_at(const pl_config *c, const char *key) {
    const entry *e = find(c, key);
    return e ? e->at : -1;
}

/* ---- what families ask ---- */

const char *pl_hf_within(pl_hf *m, const char *part) {
    const char *before = m->part;
    m->part = part;
    return before;
}

static void refuse(pl_hf *m, const char *key, int64_t at, const char *what) {
    if (!pl_build_failed(m->b)) m->failed_at = at;
    pl_build_fail(m->b, PL_INPUT, m->file, "%.*s: %s", (int)strcspn(key, "|"), key, what);
}

/* The alternative that a message is about: the one that counts, else one that is null. */
static const entry *found(const pl_hf *m, const char *keys) {
    const entry *e = of_model(m, keys);
    for (const char *key = keys; !e && *key;) {
        size_t length = strcspn(key, "|");
        e = find_one(m->config, m->part, key, length);
        key += length + (key[length] == '|');
    }
    return e;
}

void pl_hf_refuse(pl_hf *m, const char *key, const char *format, ...) {
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const entry *e = found(m, key);
    refuse(m, e ? e->said : key, e ? e->at : 0, text);
}

static int64_t whole(pl_hf *m, const char *key, const item *value, int64_t at, int64_t otherwise) {
    if (value->kind == NOTHING) return otherwise;
    if (value->kind != INTEGER)
        refuse(m, key, at, "expected a whole number");
    else if (value->i < 0 || value->i > MAX_NUMBER)
        refuse(m, key, at, "expected a number from 0 to 2^40");
    else
        return value->i;
    return otherwise;
}

int64_t pl_hf_int(pl_hf *m, const char *key, int64_t otherwise) {
    const entry *e = of_model(m, key);
    return e ? whole(m, e->said, &e->value, e->at, otherwise) : otherwise;
}

int64_t pl_hf_need(pl_hf *m, const char *key) {
    const entry *e = of_model(m, key);
    if (!e) {
        const entry *null = found(m, key);
        if (null)
            refuse(m, null->said, null->at, "the model needs this key, and it is null");
        else
            refuse(m, pl_build_text(m->b, "%s%s", m->part, key), 0,
                   "the model needs this key, and the file has none");
        return 1;
    }
    int64_t value = whole(m, e->said, &e->value, e->at, 1);
    if (value < 1) refuse(m, e->said, e->at, "expected a number from 1 to 2^40");
    return value < 1 ? 1 : value;
}

int64_t pl_hf_layers(pl_hf *m, const char *key) {
    int64_t count = pl_hf_need(m, key);
    if (count <= PL_HF_MAX_LAYERS) return count;
    pl_hf_refuse(m, key, "%lld: more than %d are not built", (long long)count, PL_HF_MAX_LAYERS);
    return 1;
}

double pl_hf_float(pl_hf *m, const char *key, double otherwise) {
    const entry *e = of_model(m, key);
    if (!e) return otherwise;
    if ((e->value.kind == INTEGER || e->value.kind == REAL) && isfinite(e->value.f))
        return e->value.f;
    refuse(m, e->said, e->at, "expected a number");
    return otherwise;
}

bool pl_hf_bool(pl_hf *m, const char *key, bool otherwise) {
    const entry *e = of_model(m, key);
    if (!e) return otherwise;
    if (e->value.kind == BOOLEAN) return e->value.i != 0;
    refuse(m, e->said, e->at, "expected true or false");
    return otherwise;
}

const char *pl_hf_string(pl_hf *m, const char *key, const char *otherwise) {
    const entry *e = of_model(m, key);
    if (!e) return otherwise;
    if (e->value.kind == STRING) return e->value.s;
    refuse(m, e->said, e->at, "expected a string");
    return otherwise;
}

bool pl_hf_has(pl_hf *m, const char *key) {
    return of_model(m, key) != NULL;
}

int64_t pl_hf_list(pl_hf *m, const char *key) {
    const entry *e = of_model(m, key);
    return e && e->value.kind == LIST ? e->value.i : 0;
}

static const item *element(pl_hf *m, const char *key, int64_t index, const entry **of) {
    const entry *e = of_model(m, key);
    *of = e;
    return e && e->value.kind == LIST && index >= 0 && index < e->value.i ? &e->value.items[index]
                                                                          : NULL;
}

int64_t pl_hf_list_int(pl_hf *m, const char *key, int64_t index, int64_t otherwise) {
    const entry *e;
    const item *i = element(m, key, index, &e);
    return i ? whole(m, e->said, i, e->at, otherwise) : otherwise;
}

double pl_hf_list_float(pl_hf *m, const char *key, int64_t index, double otherwise) {
    const entry *e;
    const item *i = element(m, key, index, &e);
    if (!i || i->kind == NOTHING) return otherwise;
    if (i->kind == INTEGER || i->kind == REAL) return i->f;
    refuse(m, e->said, e->at, "expected a list of numbers");
    return otherwise;
}

int64_t pl_hf_from_end(pl_hf *m, const char *key, int64_t index, int64_t count, int64_t otherwise) {
    const entry *e = of_model(m, key);
    const item *i = e && e->value.kind == LIST ? element(m, key, index, &e) : e ? &e->value : NULL;
    int64_t at = i && i->kind == INTEGER ? i->i : otherwise;
    if (e && (!i || i->kind != INTEGER || at < -count || at >= count)) {
        char text[64];
        snprintf(text, sizeof text, "expected -%lld to %lld", (long long)count,
                 (long long)count - 1);
        refuse(m, e->said, e->at, text);
        return 0;
    }
    return at < 0 ? at + count : at;
}

const char *pl_hf_list_string(pl_hf *m, const char *key, int64_t index, const char *otherwise) {
    const entry *e;
    const item *i = element(m, key, index, &e);
    if (!i) return otherwise;
    if (i->kind == STRING) return i->s;
    refuse(m, e->said, e->at, "expected a list of strings");
    return otherwise;
}

/* PreTrainedConfig: num_labels is how many id2label has, two where nothing is said. */
int64_t pl_hf_labels(pl_hf *m) {
    const entry *e = of_model(m, "id2label");
    int64_t count = e && e->value.kind == OBJECT ? e->value.i : pl_hf_int(m, "num_labels", 2);
    if (count >= 1) return count;
    pl_hf_refuse(m, e ? "id2label" : "num_labels", "expected at least one label");
    return 1;
}

int64_t pl_hf_pad(pl_hf *m) {
    const entry *e = of_model(m, "pad_token_id");
    if (!e) return -1;
    if (e->value.kind == INTEGER && e->value.i < 0)
        return 0; /* counts from the end; any row will do */
    return whole(m, e->said, &e->value, e->at, -1);
}
