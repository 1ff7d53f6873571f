/* config: see config.h. A setting is a row of a table; sizes may end in KiB, MiB or GiB. */
#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/nearest.h"

#define AT(m) offsetof(config, m)
static const struct row {
    const char *name;
    size_t at;
    const char *text; /* its default; NULL: a number */
    int64_t number, least, most;
    const char *help;
} rows[] = {
    {"listen", AT(listen), "127.0.0.1:9477", 0, 0, 0, "address and port of TCP; none: no TCP"},
    {"socket", AT(socket), "", 0, 0, 0, "path of a Unix socket"},
    {"socket-users", AT(socket_users), "", 0, 0, 0,
     "users who may use that socket, by commas; without: whoever can open it"},
    {"data", AT(data), "", 0, 0, 0,
     "folder of the history and of models; without, nothing outlasts the process"},
    {"tokens", AT(tokens), "", 0, 0, 0,
     "file of lines `TOKEN SCOPE,..`: read, estimate, record, metrics, all; needed beyond loopback"},
    {"tls-cert", AT(tls_cert), "", 0, 0, 0, "certificate, PEM"},
    {"tls-key", AT(tls_key), "", 0, 0, 0, "its key, PEM"},
    {"gpus", AT(gpus), "", 0, 0, 0, "file of cards of one's own"},
    {"log", AT(log), "text", 0, 0, 0, "text or json, a line per request, to standard error; off"},
    {"workers", AT(workers), NULL, 0, 0, 256,
     "threads for estimates, and as many for what takes longer; 0: as many as processors"},
    {"queue", AT(queue), NULL, 1024, 1, 1 << 20, "requests that wait for either"},
    {"connections", AT(connections), NULL, 16384, 1, 1 << 20, "open at once"},
    {"idle-s", AT(idle_s), NULL, 60, 1, 86400, "seconds a connection may be silent"},
    {"request-s", AT(request_s), NULL, 30, 1, 3600, "seconds for a request to be sent whole"},
    {"body-bytes", AT(body_bytes), NULL, 256 << 20, 1024, INT64_C(1) << 40, "of one request"},
    {"bodies-bytes", AT(bodies_bytes), NULL, INT64_C(1) << 30, 1024, INT64_C(1) << 44,
     "of all requests under way"},
    {"model-bytes", AT(model_bytes), NULL, INT64_C(1) << 30, 0, INT64_C(1) << 44,
     "of models kept in memory"},
    {"answer-bytes", AT(answer_bytes), NULL, 64 << 20, 0, INT64_C(1) << 44,
     "of answers kept in memory"},
    {"stored-bytes", AT(stored_bytes), NULL, INT64_C(16) << 30, 0, INT64_C(1) << 50,
     "of models in the data folder"},
    {"stored-jobs", AT(stored_jobs), NULL, 1000000, 1000, INT64_C(1) << 40,
     "jobs in the history; the oldest go first"},
    {"memory-bytes", AT(memory_bytes), NULL, INT64_C(1) << 30, 1 << 20, INT64_C(1) << 44,
     "that computing one request may take"},
    {"events", AT(events), NULL, 1 << 28, 1, INT64_C(1) << 44,
     "allocations and frees that it may simulate"},
    {"timeout-ms", AT(timeout_ms), NULL, 10000, 1, 3600000,
     "that it may take, and may wait before that"},
    {"rate", AT(rate), NULL, 0, 0, 1 << 30, "requests a second of one address; 0: any"},
    {"drain-s", AT(drain_s), NULL, 10, 0, 3600, "seconds for what is under way at the end"},
};
enum { ROWS = sizeof rows / sizeof *rows, MOST_FILE = 1 << 20 };

static bool set_text(config *c, const struct row *r, const char *value, size_t length) {
    char *copy = strndup(value, length), **to = (char **)((char *)c + r->at);
    if (!copy) return false;
    free(*to);
    *to = copy;
    return true;
}

static const struct row *row_of(const char *name, size_t length) {
    for (size_t i = 0; i < ROWS; i++)
        if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

static bool wrong(pl_error *err, const char *where, int64_t line, const char *format, const char *a,
                  const char *b) {
    pl_fail(err, PL_USAGE, where, line, format, a, b);
    return false;
}

static bool read_number(const struct row *r, const char *text, int64_t *out) {
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || errno || value < 0) return false;
    while (*end == ' ') end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0 && value <= INT64_MAX >> units[i].shift) {
            *out = (int64_t)value << units[i].shift;
            return *out >= r->least && *out <= r->most;
        }
    return false;
}

static bool set(config *c, const char *name, size_t length, const char *value, size_t size,
                const char *where, int64_t line, pl_error *err) {
    const struct row *r = row_of(name, length);
    char key[64], text[64];
    snprintf(key, sizeof key, "%.*s", (int)(length < 63 ? length : 63), name);
    if (!r) {
        const char *names[ROWS];
        for (size_t i = 0; i < ROWS; i++) names[i] = rows[i].name;
        const char *near = pl_nearest(key, names, ROWS);
        return wrong(err, where, line,
                     near ? "%s: no such setting; did you mean %s?" : "%s: no such setting%s", key,
                     near ? near : "");
    }
    if (r->text)
        return set_text(c, r, value, size) || wrong(err, where, line, "out of memory%s%s", "", "");
    snprintf(text, sizeof text, "%.*s", (int)(size < 63 ? size : 63), value);
    int64_t number;
    if (!read_number(r, text, &number)) {
        char range[64];
        snprintf(range, sizeof range, "%lld to %lld", (long long)r->least, (long long)r->most);
        return wrong(err, where, line, "%s: expected a whole number from %s", key, range);
    }
    memcpy((char *)c + r->at, &number, sizeof number);
    return true;
}

/* ---- the file ---- */

static bool read_line(config *c, const char *line, size_t length, const char *file, int64_t number,
                      pl_error *err) {
    const char *end = line + length, *name = line;
    while (name < end && (*name == ' ' || *name == '\t')) name++;
    if (name == end || *name == '#') return true;
    const char *sign = memchr(name, '=', (size_t)(end - name));
    if (!sign) return wrong(err, file, number, "expected `name = value`%s%s", "", "");
    const char *stop = sign, *value = sign + 1;
    while (stop > name && (stop[-1] == ' ' || stop[-1] == '\t')) stop--;
    while (value < end && (*value == ' ' || *value == '\t')) value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) end--;
    return set(c, name, (size_t)(stop - name), value, (size_t)(end - value), file, number, err);
}

static bool read_file(config *c, const char *path, pl_error *err) {
    pl_file file;
    if (pl_file_open(&file, path, MOST_FILE, err) != PL_OK) return false;
    const char *at = file.bytes, *end = at + file.size;
    bool good = true;
    for (int64_t number = 1; good && at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        good = read_line(c, at, (size_t)(stop - at), path, number, err);
        at = stop + 1;
    }
    pl_file_close(&file);
    return good;
}

/* ---- options ---- */

static void print_help(void) {
    puts(
        "plimsoll serve [--config FILE] [--check] [--NAME VALUE ...]\n\n"
        "Answers over HTTP what the command answers. Settings stand in FILE as `name = value` lines or\n"
        "on the command line as --name value, which counts over the file. SIGHUP reads tokens and cards\n"
        "anew, SIGTERM ends it once what is under way was answered. docs/serve.md says more.\n");
    for (size_t i = 0; i < ROWS; i++) {
        printf("  --%-14s %s", rows[i].name, rows[i].help);
        if (rows[i].text && *rows[i].text) printf(" (%s)", rows[i].text);
        if (!rows[i].text) printf(" (%lld)", (long long)rows[i].number);
        putchar('\n');
    }
    puts("  --check          read all of it, say whether it is right, and end");
}

/* The value of option i, behind = or the next argument; NULL: there is none. */
static const char *value_of(int argc, char **argv, int *i, size_t *length) {
    const char *name = argv[*i] + 2, *sign = strchr(name, '=');
    *length = sign ? (size_t)(sign - name) : strlen(name);
    if (sign) return sign + 1;
    return *i + 1 < argc ? argv[++*i] : NULL;
}

/* only_file: --config alone; else all but it. */
static bool read_options(config *c, int argc, char **argv, bool only_file, bool *help,
                         pl_error *err) {
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        size_t length;
        if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
            if (only_file) print_help();
            *help = true;
            return true;
        }
        if (strcmp(option, "--check") == 0) {
            c->check = true;
            continue;
        }
        if (strncmp(option, "--", 2) != 0)
            return wrong(err, option, -1, "not an option%s%s", "", "");
        const char *value = value_of(argc, argv, &i, &length);
        if (!value) return wrong(err, option, -1, "a value is missing%s%s", "", "");
        bool file = length == 6 && strncmp(option + 2, "config", 6) == 0;
        if (file != only_file) continue;
        if (file ? !read_file(c, value, err)
                 : !set(c, option + 2, length, value, strlen(value), option, -1, err))
            return false;
    }
    return true;
}

static bool makes_sense(const config *c, pl_error *err) {
    if (!*c->listen && !*c->socket)
        return wrong(err, "listen", -1, "neither an address nor a socket to listen on%s%s", "", "");
    if (!*c->tls_cert != !*c->tls_key)
        return wrong(err, "tls-cert", -1, "tls-cert and tls-key go together%s%s", "", "");
    if (strcmp(c->log, "text") != 0 && strcmp(c->log, "json") != 0 && strcmp(c->log, "off") != 0)
        return wrong(err, "log", -1, "%s is none of text, json, off%s", c->log, "");
    return true;
}

bool config_read(config *c, int argc, char **argv, bool *help, pl_error *err) {
    *c = (config){0};
    *help = false;
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].text ? !set_text(c, &rows[i], rows[i].text, strlen(rows[i].text)) : false)
            return wrong(err, NULL, -1, "out of memory%s%s", "", "");
        if (!rows[i].text) memcpy((char *)c + rows[i].at, &rows[i].number, sizeof rows[i].number);
    }
    if (!read_options(c, argc, argv, true, help, err)) return false;
    if (*help) return true;
    if (!read_options(c, argc, argv, false, help, err)) return false;
    if (strcmp(c->listen, "none") == 0) *c->listen = '\0';
    return makes_sense(c, err);
}

void config_close(config *c) {
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].text) free(*(char **)((char *)c + rows[i].at));
    *c = (config){0};
}
