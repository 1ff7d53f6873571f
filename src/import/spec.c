/* spec: see spec.h. What a spec is recognised by, how its keys are read, and the recipe over it;
 * the models are in spec_family.c and spec_list.c, their layers in spec_nn.c.
 *
 * Left out: training settings other than batch, sequence and loss, which are the command's. */
#include "import/spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "import/json.h"
#include "import/spec_reader.h"

/* ---- failures ---- */

void pl_spec_fail(pl_sketch *s, const pl_yaml *node, const char *format, ...) {
    if (pl_build_failed(s->b)) return;
    char text[360];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    s->position = node->position;
    pl_build_fail(s->b, PL_INPUT, s->file, "line %d: %s", node->line, text);
}

/* ---- words ---- */

int pl_spec_index(const char *words, const char *word) {
    size_t length = strlen(word);
    for (int i = 0; *words; i++) {
        size_t n = strcspn(words, " ");
        if (n == length && memcmp(words, word, n) == 0) return i;
        words += n + (words[n] == ' ');
    }
    return -1;
}

/* Letters that differ, where one may be left out, put in or swapped; above 8: far. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
    size_t row[3][24];
    if (n > 20 || m > 20) return 9;
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *pl_spec_nearest(const char *words, const char *word, size_t *length) {
    const char *best = "";
    size_t least = strlen(word) / 2 < 2 ? strlen(word) / 2 : 2;
    *length = 0;
    while (*words) {
        size_t n = strcspn(words, " "), d = distance(words, n, word, strlen(word));
        if (d <= least && (d < least || *length == 0)) {
            best = words;
            *length = n;
            least = d;
        }
        words += n + (words[n] == ' ');
    }
    return best;
}

void pl_spec_keys(pl_sketch *s, const pl_yaml *map, const char *what, const char *known) {
    for (const pl_yaml *m = map->first; m && !pl_build_failed(s->b); m = m->next) {
        if (pl_spec_index(known, m->key) >= 0) continue;
        size_t n;
        const char *near = pl_spec_nearest(known, m->key, &n);
        if (n > 0)
            pl_spec_fail(s, m, "`%.40s` is no key of %s; did you mean `%.*s`?", m->key, what,
                         (int)n, near);
        else
            pl_spec_fail(s, m, "`%.40s` is no key of %s; it has: %s", m->key, what, known);
    }
}

/* ---- keys ---- */

/* Absent and null are the same. */
static const pl_yaml *member(const pl_yaml *map, const char *key) {
    const pl_yaml *m = pl_yaml_get(map, key);
    return m && m->kind != PL_YAML_NULL ? m : NULL;
}

int64_t pl_spec_number(pl_sketch *s, const pl_yaml *node, const char *what, int64_t least) {
    if (node->kind != PL_YAML_INT)
        pl_spec_fail(s, node, "%s: expected a whole number%s%.40s", what,
                     node->text ? ", not " : "", node->text ? node->text : "");
    else if (node->i < least || node->i > PL_SPEC_MAX_SIZE)
        pl_spec_fail(s, node, "%s: expected %lld to %d, not %lld", what, (long long)least,
                     PL_SPEC_MAX_SIZE, (long long)node->i);
    else
        return node->i;
    return least;
}

int64_t pl_spec_int(pl_sketch *s, const pl_yaml *map, const char *key, int64_t least,
                    int64_t otherwise) {
    const pl_yaml *m = member(map, key);
    return m ? pl_spec_number(s, m, key, least) : otherwise;
}

int64_t pl_spec_need(pl_sketch *s, const pl_yaml *map, const char *key, const char *what) {
    if (!member(map, key)) pl_spec_fail(s, map, "%s needs `%s`", what, key);
    return pl_spec_int(s, map, key, 1, 1);
}

double pl_spec_share(pl_sketch *s, const pl_yaml *map, const char *key, double otherwise) {
    const pl_yaml *m = member(map, key);
    if (!m) return otherwise;
    if ((m->kind == PL_YAML_INT || m->kind == PL_YAML_FLOAT) && m->f >= 0 && m->f <= 1) return m->f;
    pl_spec_fail(s, m, "%s: expected a share from 0 to 1", key);
    return otherwise;
}

bool pl_spec_bool(pl_sketch *s, const pl_yaml *map, const char *key, bool otherwise) {
    const pl_yaml *m = pl_yaml_get(map, key);
    if (!m) return otherwise;
    if (m->kind == PL_YAML_BOOL) return m->i;
    if (m->kind == PL_YAML_NULL && !m->text[0]) return true; /* {norm_first}: named is meant */
    if (m->kind == PL_YAML_NULL) return otherwise;
    int word = m->text ? pl_spec_index("no yes off on", m->text) : -1;
    if (word < 0) pl_spec_fail(s, m, "%s: expected true or false", key);
    return word & 1;
}

int pl_spec_word(pl_sketch *s, const pl_yaml *map, const char *key, const char *words,
                 int otherwise) {
    const pl_yaml *m = member(map, key);
    if (!m) return otherwise;
    int found = m->text ? pl_spec_index(words, m->text) : -1;
    if (found >= 0) return found;
    size_t n = 0;
    const char *near = m->text ? pl_spec_nearest(words, m->text, &n) : "";
    if (n > 0)
        pl_spec_fail(s, m, "%s: there is no `%.40s`; did you mean `%.*s`?", key, m->text, (int)n,
                     near);
    else
        pl_spec_fail(s, m, "%s: expected one of: %s", key, words);
    return otherwise;
}

/* ---- the recipe ---- */

/* Whether the model has a sequence; *given: what the file says beside `seq`. */
static bool has_seq(const pl_yaml *root, int64_t *given) {
    const pl_yaml *kind = member(root, "kind");
    if (kind)
        return kind->text && pl_spec_family_has_seq(pl_spec_index(pl_spec_families, kind->text));
    return pl_spec_list_has_seq(root, given);
}

typedef struct description {
    const pl_yaml *root;
    const char *file;
} description;

static void build_model(pl_sketch *s, const pl_yaml *root) {
    const pl_yaml *kind = pl_yaml_get(root, "kind");
    if (kind && pl_yaml_get(root, "layers") && pl_yaml_get(root, "layers")->kind == PL_YAML_LIST) {
        pl_spec_fail(s, kind, "`kind` and a list of `layers` exclude each other");
        return;
    }
    int32_t out;
    if (kind) {
        int family = pl_spec_word(s, root, "kind", pl_spec_families, -1);
        if (family < 0) {
            pl_spec_fail(s, kind, "kind: expected one of: %s", pl_spec_families);
            return;
        }
        out = pl_spec_family(s, root, family);
    } else {
        out = pl_spec_list(s, root);
    }
    /* Cross entropy is the job's: `--loss auto` takes it of what is returned. */
    if (pl_spec_word(s, root, "loss", "ce mse", 0) == 1) {
        const pl_tensor *t = pl_built(s->b, out);
        int64_t sizes[PL_MAX_DIMS];
        int dims = t->dims;
        memcpy(sizes, t->sizes, (size_t)dims * sizeof *sizes);
        int32_t target = pl_build_input(s->b, "target", t->dtype, dims, sizes);
        out = pl_aten_mse_loss(s->b, out, target);
    }
    pl_build_output(s->b, out);
}

static pl_status build(const pl_recipe *recipe, int64_t batch, int64_t seq, pl_budget *budget,
                       pl_graph **out, pl_error *err) {
    const description *d = recipe->description;
    *out = NULL;
    pl_error local;
    if (!err) err = &local;
    if (batch < 1 || (recipe->seq != PL_UNKNOWN && seq < 1))
        return pl_fail(err, PL_USAGE, batch < 1 ? "batch" : "seq", -1, "expected at least 1");
    pl_sketch s = {.b = pl_builder_open(recipe->name, budget),
                   .file = d->file,
                   .batch = batch,
                   .seq = seq,
                   .at = d->root,
                   .position = -1};
    if (!s.b) return pl_budget_fail(err, budget, d->file);
    build_model(&s, d->root);
    pl_status status = pl_builder_finish(&s.b, out, err);
    if (status == PL_INPUT && s.position < 0) { /* an operator's complaint: say where */
        char text[300], where[64];
        snprintf(text, sizeof text, "%.299s", err->message);
        snprintf(where, sizeof where, "%.63s", err->where);
        return pl_fail(err, status, d->file, s.at->position, "line %d: %s%s%s%s", s.at->line, where,
                       where[0] ? ": " : "", text, s.note);
    }
    if (status == PL_INPUT) err->position = s.position;
    return status;
}

/* Batch and sequence, where the file says. */
static pl_status read_sizes(pl_recipe *r, const pl_yaml *root, const char *name, pl_error *err) {
    const pl_yaml *batch = member(root, "batch");
    if (batch && (batch->kind != PL_YAML_INT || batch->i < 1 || batch->i > PL_SPEC_MAX_SIZE))
        return pl_fail(err, PL_INPUT, name, batch->position,
                       "line %d: batch: expected a whole number from 1", batch->line);
    r->batch = batch ? batch->i : 1;
    r->batch_assumed = !batch;
    const pl_yaml *seq = member(root, "seq");
    if (seq && (seq->kind != PL_YAML_INT || seq->i < 1 || seq->i > PL_SPEC_MAX_SIZE))
        return pl_fail(err, PL_INPUT, name, seq->position,
                       "line %d: seq: expected a whole number from 1", seq->line);
    int64_t given = PL_UNKNOWN;
    if (!has_seq(root, &given)) return PL_OK;
    if (seq) given = seq->i;
    r->seq_assumed = given < 1;
    r->seq = given < 1 ? 128 : given;
    const pl_yaml *positions = member(root, "positions"); /* checked when built */
    if (!positions || positions->kind != PL_YAML_INT || positions->i < 1) return PL_OK;
    r->most_seq = positions->i;
    if (r->seq_assumed && r->seq > r->most_seq) r->seq = r->most_seq;
    if (r->seq > r->most_seq)
        return pl_fail(err, PL_INPUT, name, seq ? seq->position : positions->position,
                       "line %d: seq: %lld, but there are %lld positions",
                       seq ? seq->line : positions->line, (long long)r->seq,
                       (long long)r->most_seq);
    return PL_OK;
}

pl_status pl_import_spec(pl_recipe **out, const char *bytes, size_t size, const char *name,
                         const pl_reading *reading, pl_error *err) {
    *out = NULL;
    const pl_reading how = pl_reading_of(reading);
    pl_recipe *r = pl_recipe_open(name, how.budget);
    if (r) r->dtype_from = "PyTorch's default";
    description *d = r ? pl_arena_alloc(r->arena, sizeof *d) : NULL;
    if (d) d->file = pl_arena_string(r->arena, name, strlen(name));
    const char *own = d && d->file ? pl_short_name(r->arena, name) : NULL;
    if (!own) {
        pl_recipe_close(&r);
        return pl_budget_fail(err, how.budget, name);
    }
    r->name = own;
    pl_status status = pl_yaml_read(&d->root, bytes, size, d->file, how.depth_limit, r->arena, err);
    if (status == PL_OK && d->root->kind != PL_YAML_MAP)
        status = pl_fail(err, PL_INPUT, d->file, d->root->position,
                         "line %d: expected `kind:` or `layers:` at the top", d->root->line);
    if (status == PL_OK) status = read_sizes(r, d->root, d->file, err);
    if (status == PL_OK) {
        const pl_yaml *title = member(d->root, "name");
        if (title && title->text) r->name = title->text;
        r->description = d;
        r->build = build;
        pl_graph *graph = NULL;
        status = build(r, r->batch, r->seq, how.budget, &graph, err);
        pl_graph_close(&graph);
    }
    if (status != PL_OK)
        pl_recipe_close(&r);
    else
        *out = r;
    return status;
}

/* ---- telling apart ---- */

static const char ours[] = "kind layers";
static const char others[] =
    "plimsoll_graph model_type architectures graph_module schema_version opset_version";

/* 1: a key of a spec, -1: a key of something else, 0: says nothing. */
static int meaning(const char *bytes, size_t length) {
    char word[32];
    if (length == 0 || length >= sizeof word) return 0;
    memcpy(word, bytes, length);
    word[length] = 0;
    return pl_spec_index(others, word) >= 0 ? -1 : pl_spec_index(ours, word) >= 0 ? 1 : 0;
}

/* Keys at the left edge of YAML's block style. */
static bool block_is(const char *at, const char *end) {
    bool found = false;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        size_t length = 0;
        const char *word = at + (*at == '"' || *at == '\'');
        while (word + length < line_end && strchr(": \t\r\"'", word[length]) == NULL) length++;
        const char *colon = word + length;
        while (colon < line_end && (*colon == '"' || *colon == '\'' || *colon == ' ')) colon++;
        int says = colon < line_end && *colon == ':' ? meaning(word, length) : 0;
        if (says < 0) return false;
        found = found || says > 0;
        at = line_end + 1;
    }
    return found;
}

/* Keys of YAML's flow style, `{kind: mlp, ...}`: unquoted, so not JSON. */
static bool flow_is(const char *bytes, size_t size) {
    if (size > 1 << 20) return false;
    pl_budget own = {.most_bytes = (size_t)256 << 20};
    pl_arena *arena = pl_arena_new(&own);
    const pl_yaml *root = NULL;
    int found = 0;
    if (arena && pl_yaml_read(&root, bytes, size, "", PL_YAML_MAX_DEPTH, arena, NULL) == PL_OK)
        for (const pl_yaml *m = root->first; m && m->key; m = m->next) {
            int says = meaning(m->key, strlen(m->key));
            if (says != 0 && found >= 0) found = says;
        }
    pl_arena_free(&arena);
    return found > 0;
}

bool pl_spec_is(const char *bytes, size_t size) {
    const char *at = bytes, *end = bytes + size;
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) at += 3;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    if (at == end) return false;
    if (*at != '{') {
        for (const char *c = at; c < end && c < at + 4096; c++)
            if ((unsigned char)*c < 0x20 && *c != '\n' && *c != '\r' && *c != '\t') return false;
        return size <= PL_YAML_MAX_BYTES && block_is(at, end);
    }
    pl_json json;
    pl_json_text key;
    bool found = false;
    pl_json_open(&json, bytes, size, PL_JSON_MAX_DEPTH);
    if (!pl_json_object(&json)) return false;
    while (pl_json_key(&json, &key)) {
        int says = meaning(key.bytes, key.length);
        if (says < 0) return false;
        found = found || says > 0;
        pl_json_skip(&json);
    }
    return found || (json.failure && flow_is(bytes, size));
}
