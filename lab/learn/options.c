/* options: a learner's settings in text, checked once against a table and then asked for by key.
 *
 * Numbers are decimal (core/number.h). Values hold no blanks; there is no quoting. */
#include "lab/learn/options.h"

#include <math.h>
#include <string.h>

#include "lend.h"

/* A pair "key=value", pointing into the text. */
typedef struct pair {
    const char *key, *value;
    size_t key_size, value_size; /* bytes */
} pair;

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next pair, and *text behind it. false: no more. A word without '=' has value NULL. */
static bool next_pair(const char **text, pair *out) {
    const char *at = *text;
    while (is_blank(*at)) at++;
    if (!*at) return false;
    const char *end = at;
    while (*end && !is_blank(*end)) end++;
    const char *equals = memchr(at, '=', (size_t)(end - at));
    out->key = at;
    out->key_size = (size_t)((equals ? equals : end) - at);
    out->value = equals ? equals + 1 : NULL;
    out->value_size = equals ? (size_t)(end - equals - 1) : 0;
    *text = end;
    return true;
}

static bool is_key(const pair *p, const char *key) {
    return strlen(key) == p->key_size && memcmp(key, p->key, p->key_size) == 0;
}

static const pl_option *find(const pair *p, const pl_option *known, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (is_key(p, known[i].key)) return &known[i];
    return NULL;
}

static bool is_text(const pl_option *option) {
    return option->least > option->most;
}

static pl_status unknown_key(const pair *p, int64_t position, const pl_option *known, size_t count,
                             pl_error *err) {
    char keys[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(known[i].key), between = i ? 2 : 0;
        if (used + between + size >= sizeof keys) break;
        if (i) memcpy(keys + used, ", ", between);
        memcpy(keys + used + between, known[i].key, size + 1);
        used += between + size;
    }
    return pl_fail(err, PL_USAGE, "options", position, "unknown option '%.*s', known are: %s",
                   p->key_size > 40 ? 40 : (int)p->key_size, p->key, keys);
}

static pl_status check_pair(const pair *p, const char *text, const pl_option *known, size_t count,
                            pl_error *err) {
    int64_t key_at = p->key - text;
    int key_shown = p->key_size > 40 ? 40 : (int)p->key_size;
    int value_shown = p->value_size > 40 ? 40 : (int)p->value_size;
    if (!p->value || p->key_size == 0)
        return pl_fail(err, PL_USAGE, "options", key_at, "'%.*s' is not key=value",
                       p->value ? value_shown + 1 : key_shown, p->key);
    const pl_option *option = find(p, known, count);
    if (!option) return unknown_key(p, key_at, known, count, err);
    int64_t value_at = p->value - text;
    if (p->value_size == 0)
        return pl_fail(err, PL_USAGE, "options", value_at, "%s= has no value", option->key);
    if (is_text(option)) return PL_OK;
    double value;
    if (!pl_number_read(p->value, p->value_size, &value))
        return pl_fail(err, PL_USAGE, "options", value_at, "%s=%.*s: a number is expected",
                       option->key, value_shown, p->value);
    if (option->whole && value != floor(value))
        return pl_fail(err, PL_USAGE, "options", value_at, "%s=%.*s: a whole number is expected",
                       option->key, value_shown, p->value);
    if (!(value >= option->least && value <= option->most))
        return pl_fail(err, PL_USAGE, "options", value_at,
                       "%s=%.*s: a number from %s to %s is expected", option->key, value_shown,
                       p->value, PL_REAL(".15g", option->least), PL_REAL(".15g", option->most));
    return PL_OK;
}

pl_status pl_options_check(const char *text, const pl_option *known, size_t count, pl_error *err) {
    const char *at = text;
    pair p;
    while (next_pair(&at, &p)) {
        pl_status status = check_pair(&p, text, known, count, err);
        if (status != PL_OK) return status;
    }
    return PL_OK;
}

double pl_options_number(const char *text, const pl_option *known, size_t count, const char *key) {
    double value = NAN;
    for (size_t i = 0; i < count; i++)
        if (strcmp(known[i].key, key) == 0) value = known[i].standard;
    pair p;
    while (next_pair(&text, &p)) {
        double number;
        if (p.value && is_key(&p, key) && pl_number_read(p.value, p.value_size, &number))
            value = number;
    }
    return value;
}

bool pl_options_text(const char *text, const char *key, char *out, size_t size) {
    pair p, last = {0};
    while (next_pair(&text, &p))
        if (p.value && is_key(&p, key)) last = p;
    if (!last.value || last.value_size >= size) return false;
    memcpy(out, last.value, last.value_size);
    out[last.value_size] = 0;
    return true;
}
