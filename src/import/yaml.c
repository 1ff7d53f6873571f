/* yaml: see yaml.h. A recursive reader over the bytes; a block's extent is its column. Rules: YAML
 * 1.2.2, chapters 6 to 8 and the core schema of chapter 10; RFC 8259 is within them. */
#include "import/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "core/utf8.h"

typedef struct reader {
    const char *begin, *at, *end, *line_start;
    int32_t line;
    int depth, depth_limit;
    pl_arena *arena;
    const char *name;
    pl_error *err;
    pl_status status;
} reader;

static pl_yaml *fail(reader *r, const char *at, const char *format, ...) PL_PRINTF(3, 4);
static pl_yaml *fail(reader *r, const char *at, const char *format, ...) {
    if (r->status != PL_OK) return NULL;
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    r->status = pl_fail(r->err, PL_INPUT, r->name, at - r->begin, "line %d: %s", r->line, text);
    return NULL;
}

static pl_yaml *no_memory(reader *r) {
    if (r->status == PL_OK) r->status = pl_budget_fail(r->err, pl_arena_budget(r->arena), r->name);
    return NULL;
}

static pl_yaml *new_node(reader *r, pl_yaml_kind kind) {
    pl_yaml *node = r->status == PL_OK ? pl_arena_alloc(r->arena, sizeof *node) : NULL;
    if (!node) return no_memory(r);
    node->kind = kind;
    node->line = r->line;
    node->position = r->at - r->begin;
    return node;
}

/* ---- characters ---- */

static char peek(const reader *r, size_t ahead) {
    return (size_t)(r->end - r->at) > ahead ? r->at[ahead] : '\n';
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static bool at_end_of_line(const reader *r) {
    return r->at == r->end || *r->at == '\n';
}

static void skip_spaces(reader *r) {
    while (r->at < r->end && is_space(*r->at)) r->at++;
}

/* Spaces, and a comment if one starts here. */
static void skip_rest(reader *r) {
    bool apart = r->at == r->line_start || is_space(r->at[-1]);
    skip_spaces(r);
    apart = apart || r->at == r->line_start || is_space(r->at[-1]);
    if (r->at < r->end && *r->at == '#' && apart)
        while (!at_end_of_line(r)) r->at++;
}

static void next_line(reader *r) {
    r->at++;
    r->line_start = r->at;
    r->line++;
}

/* To the next thing that is no space, comment or end of line. false: the text ends. */
static bool to_content(reader *r) {
    for (;;) {
        skip_rest(r);
        if (r->at == r->end) return false;
        if (*r->at != '\n') return true;
        next_line(r);
    }
}

static int column(const reader *r) {
    return (int)(r->at - r->line_start);
}

/* "- ": an element of a block sequence. */
static bool at_dash(const reader *r) {
    return r->at < r->end && *r->at == '-' && (is_space(peek(r, 1)) || peek(r, 1) == '\n');
}

/* ---- scalars ---- */

static bool same_word(const char *text, const char *lower) {
    if (strcmp(text, lower) == 0) return true;
    if (text[0] != lower[0] - 'a' + 'A') return false;
    if (strcmp(text + 1, lower + 1) == 0) return true; /* True */
    for (; *text && *lower; text++, lower++)
        if (*text != *lower - 'a' + 'A') return false;
    return !*text && !*lower; /* TRUE */
}

void pl_yaml_resolve(pl_yaml *node) {
    const char *t = node->text, *digits = t + (*t == '-' || *t == '+');
    size_t whole = strspn(digits, "0123456789");
    if (!*t || strcmp(t, "~") == 0 || same_word(t, "null")) {
        node->kind = PL_YAML_NULL;
    } else if (same_word(t, "true") || same_word(t, "false")) {
        node->kind = PL_YAML_BOOL;
        node->i = *t == 't' || *t == 'T';
    } else if (whole > 0 && !digits[whole] && whole < 19) {
        node->kind = PL_YAML_INT;
        node->i = strtoll(t, NULL, 10);
        node->f = (double)node->i;
    } else if (whole > 0 || (digits[0] == '.' && digits[1] >= '0' && digits[1] <= '9')) {
        /* [digits][.digits][e[+-]digits] and nothing else */
        const char *at = digits + whole;
        if (*at == '.') at += 1 + strspn(at + 1, "0123456789");
        if (*at == 'e' || *at == 'E') {
            at++;
            at += *at == '-' || *at == '+';
            at = at[0] >= '0' && at[0] <= '9' ? at + strspn(at, "0123456789") : t;
        }
        if (*at || at == t) return;
        if (pl_number_read(t, strlen(t), &node->f)) node->kind = PL_YAML_FLOAT;
    }
}

/* What ends a plain scalar: the end of the line, a comment, "key:", in flow style a bracket or a
 * comma, and a bracket behind a word (see yaml.h). */
static const char *plain_end(const reader *r, bool flow) {
    const char *at = r->at;
    for (; at < r->end && *at != '\n'; at++) {
        char next = at + 1 < r->end ? at[1] : '\n';
        if (*at == '#' && at > r->at && is_space(at[-1])) break;
        if (*at == ':' && (is_space(next) || next == '\n' || (flow && strchr(",[]{}", next))))
            break;
        if (flow && strchr(",[]{}", *at)) break;
        if ((*at == '{' || *at == '[') && at > r->at && is_space(at[-1])) break;
    }
    while (at > r->at && is_space(at[-1])) at--;
    return at;
}

static const struct {
    char start;
    const char *what;
} refused[] = {
    {'&', "anchors (&name) are not read"},
    {'*', "aliases (*name) are not read"},
    {'!', "tags (!name) are not read"},
    {'|', "block scalars (|) are not read; write the text in quotes, on one line"},
    {'>', "block scalars (>) are not read; write the text in quotes, on one line"},
    {'%', "directives (%) are not read"},
    {'@', "a value cannot start with @"},
    {'`', "a value cannot start with `"},
    {',', "expected a value, found a comma"},
    {']', "found ] without its ["},
    {'}', "found } without its {"},
    {':', "expected a key before the colon"},
};

static pl_yaml *plain(reader *r, bool flow) {
    char start = peek(r, 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (start == refused[i].start) return fail(r, r->at, "%s", refused[i].what);
    if (start == '?' && is_space(peek(r, 1)))
        return fail(r, r->at, "complex keys (?) are not read");
    const char *end = plain_end(r, flow);
    pl_yaml *node = new_node(r, PL_YAML_STRING);
    if (!node) return NULL;
    node->text = pl_arena_string(r->arena, r->at, (size_t)(end - r->at));
    if (!node->text) return no_memory(r);
    r->at = end;
    pl_yaml_resolve(node);
    return node;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The escape behind a backslash, appended to out (room for 4 bytes). false: failed. */
static bool escape(reader *r, char **out) {
    static const char from[] = "\"\\/bfnrte0 ", to[] = "\"\\/\b\f\n\r\t\033\0 ";
    char c = peek(r, 0);
    const char *found = c ? memchr(from, c, sizeof from - 1) : NULL;
    if (found && c != '0') {
        r->at++;
        *(*out)++ = to[found - from];
        return true;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    for (size_t i = 1; i <= digits; i++) {
        int d = hex_digit(peek(r, i));
        if (d < 0) digits = 0;
        code = code << 4 | (uint32_t)(d & 15);
    }
    if (digits == 0) return fail(r, r->at, "an escape that is not known: \\%c", c), false;
    r->at += digits + 1;
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        code = 0xfffd; /* names are shown, not compared: no pairing of surrogates */
    char *o = *out;
    if (code < 0x80) {
        *o++ = (char)code;
    } else if (code < 0x800) {
        *o++ = (char)(0xc0 | code >> 6);
        *o++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *o++ = (char)(0xe0 | code >> 12);
        *o++ = (char)(0x80 | (code >> 6 & 63));
        *o++ = (char)(0x80 | (code & 63));
    } else {
        *o++ = (char)(0xf0 | code >> 18);
        *o++ = (char)(0x80 | (code >> 12 & 63));
        *o++ = (char)(0x80 | (code >> 6 & 63));
        *o++ = (char)(0x80 | (code & 63));
    }
    *out = o;
    return true;
}

static pl_yaml *quoted(reader *r) {
    char quote = *r->at;
    pl_yaml *node = new_node(r, PL_YAML_STRING);
    if (!node) return NULL;
    const char *start = r->at++;
    /* to the closing quote; escapes, and '' for one, are longer than what they stand for */
    const char *close = r->at;
    while (close < r->end && *close != '\n' &&
           (*close != quote || (quote == '\'' && close + 1 < r->end && close[1] == quote)))
        close += (*close == '\\' && quote == '"') || *close == quote ? 2 : 1;
    size_t room = close < r->end ? (size_t)(close - r->at) : (size_t)(r->end - r->at);
    char *text = pl_arena_alloc(r->arena, room + 1), *out = text;
    if (!text) return no_memory(r);
    for (;;) {
        if (at_end_of_line(r)) return fail(r, start, "a quote that is not closed on its line");
        char c = *r->at++;
        if (c == quote && quote == '\'' && peek(r, 0) == '\'') {
            *out++ = c;
            r->at++;
        } else if (c == quote) {
            break;
        } else if (c == '\\' && quote == '"') {
            if (!escape(r, &out)) return NULL;
        } else {
            *out++ = c;
        }
    }
    *out = 0;
    node->text = text;
    return node;
}

static pl_yaml *scalar(reader *r, bool flow) {
    return peek(r, 0) == '"' || peek(r, 0) == '\'' ? quoted(r) : plain(r, flow);
}

/* ---- collections ---- */

typedef struct list {
    pl_yaml *node;
    const pl_yaml **tail;
} list;

static bool list_open(reader *r, list *l, pl_yaml_kind kind) {
    l->node = new_node(r, kind);
    if (!l->node) return false;
    l->tail = &l->node->first;
    if (++r->depth > r->depth_limit)
        return fail(r, r->at, "nested deeper than %d", r->depth_limit), false;
    return true;
}

/* key: NULL for elements. false: failed, the child was NULL or the key is there already. */
static bool list_add(reader *r, list *l, const pl_yaml *key, pl_yaml *child) {
    if (!child) return false;
    if (key) {
        for (const pl_yaml *m = l->node->first; m; m = m->next)
            if (strcmp(m->key, key->text) == 0)
                return fail(r, r->begin + key->position,
                            "`%.60s` stands twice in one mapping (line %d)", key->text, m->line),
                       false;
        if (l->node->count >= PL_YAML_MAX_KEYS)
            return fail(r, r->at, "a mapping with more than %d keys", PL_YAML_MAX_KEYS), false;
        child->key = key->text;
    }
    *l->tail = child;
    l->tail = &child->next;
    l->node->count++;
    return true;
}

static pl_yaml *list_close(reader *r, list *l) {
    r->depth--;
    return r->status == PL_OK ? l->node : NULL;
}

static bool is_key_node(reader *r, const pl_yaml *key) {
    if (key && (key->kind == PL_YAML_LIST || key->kind == PL_YAML_MAP || !key->text))
        return fail(r, r->begin + key->position, "a key must be a word"), false;
    return key != NULL;
}

static pl_yaml *flow(reader *r);

/* Behind a scalar: the colon of a key. In flow style a quoted key needs no space behind it. */
static bool at_colon(const reader *r, bool in_flow, bool after_quote) {
    if (peek(r, 0) != ':' || r->at == r->end) return false;
    char next = peek(r, 1);
    return is_space(next) || next == '\n' || (in_flow && (after_quote || strchr(",[]{}", next)));
}

/* A value in flow style: a collection, a scalar, or a word and a collection. */
static pl_yaml *flow_value(reader *r) {
    char c = peek(r, 0);
    if (c == '{' || c == '[') return flow(r);
    pl_yaml *value = scalar(r, true);
    if (!value || c == '"' || c == '\'') return value;
    const char *behind = r->at;
    skip_spaces(r);
    if (r->at == r->end || (*r->at != '{' && *r->at != '[')) {
        r->at = behind;
        return value;
    }
    list l;
    if (!value->text[0] || !list_open(r, &l, PL_YAML_MAP)) return fail(r, r->at, "expected a word");
    l.node->line = value->line;
    l.node->position = value->position;
    list_add(r, &l, value, flow(r));
    return list_close(r, &l);
}

static pl_yaml *null_node(reader *r) {
    pl_yaml *node = new_node(r, PL_YAML_NULL);
    if (node) node->text = "";
    return node;
}

/* "key: value", "key" or a value; the colon's value, or NULL where there is none (or it failed). */
static pl_yaml *flow_pair_value(reader *r) {
    r->at++;
    if (!to_content(r)) return fail(r, r->at, "the text ends within brackets");
    return *r->at == ',' || *r->at == '}' || *r->at == ']' ? null_node(r) : flow_value(r);
}

static pl_yaml *flow(reader *r) {
    bool map = *r->at == '{';
    char close = map ? '}' : ']';
    list l;
    if (!list_open(r, &l, map ? PL_YAML_MAP : PL_YAML_LIST)) return NULL;
    int32_t first_line = r->line;
    r->at++;
    for (bool first = true;; first = false) {
        if (!to_content(r))
            return fail(r, r->at, "the text ends before the %c of line %d", close, first_line);
        if (*r->at == close) break;
        if (!first) {
            if (*r->at != ',') return fail(r, r->at, "expected , or %c", close);
            r->at++;
            if (!to_content(r))
                return fail(r, r->at, "the text ends before the %c of line %d", close, first_line);
            if (*r->at == close) break; /* a comma behind the last one */
        }
        bool in_quotes = *r->at == '"' || *r->at == '\'';
        pl_yaml *item = flow_value(r);
        if (!item) return NULL;
        if (in_quotes) skip_spaces(r);
        bool colon = item->text && at_colon(r, true, in_quotes);
        if (map) {
            if (item->kind == PL_YAML_MAP && item->count == 1 && !colon && item->first->key) {
                /* word {..} within braces: a key and its value */
                pl_yaml *value = pl_arena_alloc(r->arena, sizeof *value);
                if (!value) return no_memory(r);
                *value = *item->first;
                pl_yaml key = {.text = item->first->key, .position = item->position};
                if (!list_add(r, &l, &key, value)) return NULL;
                continue;
            }
            if (!is_key_node(r, item)) return NULL;
            if (!list_add(r, &l, item, colon ? flow_pair_value(r) : null_node(r))) return NULL;
        } else if (colon) { /* [a: b]: a mapping of one */
            list pair;
            if (!list_open(r, &pair, PL_YAML_MAP)) return NULL;
            if (!list_add(r, &pair, item, flow_pair_value(r))) return NULL;
            if (!list_add(r, &l, NULL, list_close(r, &pair))) return NULL;
        } else if (!list_add(r, &l, NULL, item)) {
            return NULL;
        }
    }
    r->at++;
    return list_close(r, &l);
}

/* ---- blocks ---- */

static pl_yaml *block(reader *r);

/* Whether a key and its colon stand here. */
static bool at_key(reader *r) {
    reader ahead = *r;
    char c = peek(r, 0);
    if (c == '"' || c == '\'') {
        const char *at = r->at + 1;
        while (at < r->end && *at != '\n' && *at != c) at += *at == '\\' && c == '"' ? 2 : 1;
        if (at >= r->end || *at != c) return false;
        ahead.at = at + 1;
        skip_spaces(&ahead);
        return at_colon(&ahead, false, true);
    }
    if (c == '{' || c == '[') return false;
    ahead.at = plain_end(r, false);
    skip_spaces(&ahead);
    return at_colon(&ahead, false, false);
}

static bool end_line(reader *r) {
    skip_rest(r);
    if (at_end_of_line(r)) return true;
    if (*r->at == ':') return fail(r, r->at, "a second key on one line"), false;
    return fail(r, r->at, "expected the end of the line, found %.20s",
                *r->at == '"' ? "a quote" : "more text"),
           false;
}

static pl_yaml *inline_value(reader *r) {
    /* the word before a bracket is read as in flow style, all else to the end of the line */
    const char *stop = plain_end(r, false);
    while (stop < r->end && is_space(*stop)) stop++;
    char c = peek(r, 0);
    bool bracket = c == '{' || c == '[' ||
                   (c != '"' && c != '\'' && stop < r->end && (*stop == '{' || *stop == '['));
    pl_yaml *value = bracket ? flow_value(r) : scalar(r, false);
    return value && end_line(r) ? value : NULL;
}

/* What stands behind "key:" or "- ": on the same line, or below and further right. least: the
 * column it must be right of; same: a sequence may stand at that very column. */
static pl_yaml *below(reader *r, int least, bool same) {
    pl_yaml *nothing = null_node(r);
    if (!to_content(r)) return nothing;
    if (column(r) > least || (same && column(r) == least && at_dash(r))) return block(r);
    return nothing;
}

/* At the next member of a block at this column; false: the block ends, or it failed. */
static bool next_member(reader *r, int at_column) {
    if (r->status != PL_OK || !to_content(r) || column(r) < at_column) return false;
    for (const char *c = r->line_start; c < r->at; c++)
        if (*c == '\t') return fail(r, c, "a tab in the indentation; use spaces"), false;
    if (column(r) > at_column)
        return fail(r, r->at, "indented by %d, but the lines before by %d", column(r), at_column),
               false;
    return true;
}

static pl_yaml *block_list(reader *r) {
    list l;
    int at_column = column(r);
    if (!list_open(r, &l, PL_YAML_LIST)) return NULL;
    do {
        if (!at_dash(r)) {
            if (at_key(r)) break; /* a list at the column of its key: the mapping goes on */
            return fail(r, r->at, "expected another `- ` item");
        }
        r->at++;
        skip_rest(r);
        pl_yaml *item = at_end_of_line(r) ? below(r, at_column, false) : block(r);
        if (!list_add(r, &l, NULL, item)) return NULL;
    } while (next_member(r, at_column));
    return list_close(r, &l);
}

static pl_yaml *block_map(reader *r) {
    list l;
    int at_column = column(r);
    if (!list_open(r, &l, PL_YAML_MAP)) return NULL;
    do {
        if (at_dash(r) || !at_key(r)) return fail(r, r->at, "expected `key: value`");
        pl_yaml *key = scalar(r, false);
        if (!is_key_node(r, key)) return NULL;
        skip_spaces(r);
        r->at++;
        skip_rest(r);
        pl_yaml *value = at_end_of_line(r) ? below(r, at_column, true) : inline_value(r);
        if (value) value->line = value->kind == PL_YAML_NULL ? key->line : value->line;
        if (!list_add(r, &l, key, value)) return NULL;
    } while (next_member(r, at_column));
    return list_close(r, &l);
}

/* Any value that starts a block: the reader stands on its first character. */
static pl_yaml *block(reader *r) {
    if (at_dash(r)) return block_list(r);
    if (at_key(r)) return block_map(r);
    return inline_value(r);
}

/* ---- the text ---- */

/* Text is UTF-8 without control characters. */
static bool check_text(reader *r) {
    for (const char *at = r->begin; at < r->end;) {
        unsigned char c = (unsigned char)*at;
        size_t n = pl_utf8_length((const unsigned char *)at, (size_t)(r->end - at));
        if (n == 0) return fail(r, at, "expected text in UTF-8"), false;
        if (c < 0x20 && c != '\n' && c != '\t' && c != '\r')
            return fail(r, at, "a control character (%d)", c), false;
        r->line += c == '\n';
        at += n;
    }
    r->line = 1;
    return true;
}

static bool at_marker(const reader *r, const char *marker) {
    return column(r) == 0 && r->end - r->at >= 3 && memcmp(r->at, marker, 3) == 0 &&
           (is_space(peek(r, 3)) || peek(r, 3) == '\n');
}

pl_status pl_yaml_read(const pl_yaml **out, const char *bytes, size_t size, const char *name,
                       int depth_limit, pl_arena *arena, pl_error *err) {
    *out = NULL;
    reader r = {.begin = bytes,
                .at = bytes,
                .end = bytes + size,
                .line_start = bytes,
                .line = 1,
                .depth_limit = depth_limit < 1                   ? 1
                               : depth_limit > PL_YAML_MAX_DEPTH ? PL_YAML_MAX_DEPTH
                                                                 : depth_limit,
                .arena = arena,
                .name = name,
                .err = err};
    if (size > PL_YAML_MAX_BYTES)
        return pl_fail(err, PL_INPUT, name, 0, "a text of %zu bytes; the most is %d", size,
                       PL_YAML_MAX_BYTES);
    if (!check_text(&r)) return r.status;
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) r.at = r.line_start = bytes + 3;
    bool content = to_content(&r);
    if (content && at_marker(&r, "---")) {
        r.at += 3;
        content = to_content(&r);
    }
    if (!content) {
        fail(&r, r.at, "expected a model; there is no content");
        return r.status;
    }
    const pl_yaml *root = block(&r);
    if (root && to_content(&r)) {
        if (at_marker(&r, "---") || at_marker(&r, "..."))
            fail(&r, r.at, "more than one document");
        else
            fail(&r, r.at, "expected the end of the text");
    }
    if (r.status == PL_OK) *out = root;
    return r.status;
}

const pl_yaml *pl_yaml_get(const pl_yaml *map, const char *key) {
    if (!map || map->kind != PL_YAML_MAP) return NULL;
    for (const pl_yaml *m = map->first; m; m = m->next)
        if (strcmp(m->key, key) == 0) return m;
    return NULL;
}
