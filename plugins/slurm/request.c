/* request: see request.h. The rows are the members of a request of /v1/estimate (serve/openapi.json), but for the model
 * and the card: which card it is, Slurm knows; a test compares them. */
#include "request.h"

#include <string.h>

typedef enum kind { WHOLE, REAL, TRUTH, WORDS } kind;

static const struct row {
    const char *name;
    kind kind;
} rows[] = {
    {"batch", WHOLE},         {"seq", WHOLE},
    {"precision", WORDS},     {"optimizer", WORDS},
    {"train", WORDS},         {"loss", WORDS},
    {"checkpoint", TRUTH},    {"accumulate", WHOLE},
    {"channels_last", TRUTH}, {"cudnn_benchmark", TRUTH},
    {"alloc_conf", WORDS},    {"parallel", WORDS},
    {"load", WORDS},          {"estimator", WORDS},
    {"host_speed", REAL},     {"copy_gbps", REAL},
    {"risk", REAL},           {"task", WORDS},
    {"attention", WORDS},
};
enum { ROWS = sizeof rows / sizeof *rows };
_Static_assert((int)ROWS == (int)REQUEST_SETTINGS, "request.h has room for each row");

const char *request_setting(size_t index) {
    return index < ROWS ? rows[index].name : NULL;
}

static const struct row *row_of(const char *name, size_t length) {
    for (size_t i = 0; i < ROWS; i++) {
        if (strlen(rows[i].name) != length) continue;
        size_t same = 0;
        while (same < length && (name[same] == '-' ? '_' : name[same]) == rows[i].name[same])
            same++;
        if (same == length) return &rows[i];
    }
    return NULL;
}

static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == ',';
}

static bool is_one_of(const char *value, const char *const *words) {
    for (; *words; words++)
        if (strcmp(value, *words) == 0) return true;
    return false;
}

/* Whether a value can be one of its row, and the value as JSON has it. */
static bool settle(const struct row *r, char *value) {
    static const char *const yes[] = {"true", "yes", "1", NULL}, *const no[] = {"false", "no", "0",
                                                                                NULL};
    const char *end = value + strlen(value);
    int64_t number;
    switch (r->kind) {
    case WHOLE: return text_whole(value, end, false, &number) && number > 0 && value[0] != '0';
    case REAL: {
        size_t whole = strspn(value, "0123456789"), part = 0;
        if (value[whole] == '.') part = 1 + strspn(value + whole + 1, "0123456789");
        return whole && part != 1 && !value[whole + part] && (whole == 1 || value[0] != '0');
    }
    case TRUTH:
        if (is_one_of(value, yes))
            memcpy(value, "true", sizeof "true");
        else if (is_one_of(value, no))
            memcpy(value, "false", sizeof "false");
        else
            return false;
        return true;
    case WORDS: break;
    }
    return value[0];
}

static bool fail(text *wrong, const char *what, const char *item) {
    text_add(wrong, "%s: '%.100s'", what, item);
    return false;
}

static bool unknown(text *wrong, const char *name) {
    text_add(wrong, "no setting is called '%.40s'; there are model", name);
    for (size_t i = 0; i < ROWS; i++) text_add(wrong, ", %s", rows[i].name);
    return false;
}

/* One item, without its quotes: name[named] "=" value, or a value alone (named 0). */
static bool take(request *out, const char *item, size_t named, text *wrong, bool first) {
    const char *value = named ? item + named + 1 : item;
    const struct row *r = row_of(item, named ? named : strlen(item));
    if ((named == 5 && memcmp(item, "model", 5) == 0) || (!named && first && !r)) {
        if (out->model[0]) return fail(wrong, "a second model", value);
        if (!*value || strlen(value) >= REQUEST_MODEL)
            return fail(wrong, "no name of a model", value);
        memcpy(out->model, value, strlen(value) + 1);
        return true;
    }
    if (named == 3 && memcmp(item, "gpu", 3) == 0)
        return fail(wrong, "the card is Slurm's to choose: ask for it by --gres=gpu:TYPE:1", item);
    if (!r) {
        char name[64] = "";
        size_t length = named ? named : strlen(item);
        memcpy(name, item, length < sizeof name ? length : sizeof name - 1);
        return unknown(wrong, name);
    }
    if (!named) {
        if (r->kind != TRUTH) return fail(wrong, "a setting without a value", item);
        value = "true";
    }
    char *to = out->values[r - rows];
    if (*to) return fail(wrong, "a setting that was said before", item);
    if (strlen(value) >= REQUEST_VALUE) return fail(wrong, "too long a value", item);
    memcpy(to, value, strlen(value) + 1);
    static const char *const wanted[] = {"a whole number of at least 1 is wanted",
                                         "a number is wanted", "true or false is wanted",
                                         "a word is wanted"};
    return settle(r, to) || fail(wrong, wanted[r->kind], item);
}

bool request_read(request *out, const char *at, const char *end, text *wrong) {
    memset(out, 0, sizeof *out);
    bool first = true;
    for (;;) {
        while (at < end && blank(*at)) at++;
        if (at >= end) break;
        char item[REQUEST_MODEL + REQUEST_VALUE];
        size_t length = 0, named = 0;
        bool quoted = false;
        for (; at < end && (quoted || !blank(*at)); at++) {
            if ((unsigned char)*at < ' ') return fail(wrong, "a control character", item);
            if (*at == '"') {
                quoted = !quoted;
                continue;
            }
            if (*at == '=' && !named && !quoted && length) named = length;
            if (length + 1 >= sizeof item) return fail(wrong, "too long", "");
            item[length++] = *at;
            item[length] = 0;
        }
        item[length] = 0;
        if (quoted) return fail(wrong, "a quote that does not end", item);
        if (!length) return fail(wrong, "empty quotes", item);
        if (!take(out, item, named, wrong, first)) return false;
        first = false;
    }
    if (!out->model[0]) return fail(wrong, "no model", "model=...");
    return true;
}

/* Quoted where request_read would part it. */
static void write_item(text *out, const char *value) {
    bool quote = strpbrk(value, " \t\r,=") != NULL;
    text_add(out, quote ? "\"%s\"" : "%s", value);
}

void request_write(const request *r, text *out) {
    text_add(out, "model=");
    write_item(out, r->model);
    for (size_t i = 0; i < ROWS; i++) {
        if (!r->values[i][0]) continue;
        text_add(out, ",%s=", rows[i].name);
        write_item(out, r->values[i]);
    }
}

void request_body(const request *r, const char *gpu, const char *extra, text *out) {
    text_add(out, "{\"model\":");
    text_quote(out, r->model);
    for (size_t i = 0; i < ROWS; i++) {
        if (!r->values[i][0]) continue;
        text_add(out, ",\"%s\":", rows[i].name);
        if (rows[i].kind == WORDS)
            text_quote(out, r->values[i]);
        else
            text_add(out, "%s", r->values[i]);
    }
    if (*gpu) {
        text_add(out, ",\"gpu\":");
        text_quote(out, gpu);
    }
    text_add(out, "%s}", extra);
}

bool request_is_digest(const char *model) {
    return strncmp(model, "sha256:", 7) == 0 && strlen(model) == 71 &&
           strspn(model + 7, "0123456789abcdef") == 64;
}

static const char *behind(const char *at, const char *word) {
    return strncmp(at, word, strlen(word)) == 0 ? at + strlen(word) : NULL;
}

bool request_of_comment(const char *comment, const char **at, const char **end) {
    const char *found = comment ? behind(comment + strspn(comment, " \t"), "plimsoll:") : NULL;
    if (!found) return false;
    *at = found;
    *end = found + strlen(found);
    return true;
}

bool request_of_script(const char *script, const char **at, const char **end) {
    /* As #SBATCH lines: before the first command. */
    for (const char *line = script; line && *line;) {
        const char *next = line + strcspn(line, "\n");
        const char *inside = line + strspn(line, " \t");
        if (*inside == '#') {
            inside++;
            const char *found = behind(inside + strspn(inside, " \t"), "plimsoll:");
            if (found) {
                *at = found;
                *end = next;
                return true;
            }
        } else if (inside < next && *inside != '\r') {
            return false;
        }
        line = *next ? next + 1 : next;
    }
    return false;
}
