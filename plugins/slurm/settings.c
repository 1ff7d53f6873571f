/* settings: see settings.h. */
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_TEXT = 64 << 10 };

void settings_default(settings *out) {
    memset(out, 0, sizeof *out);
    memcpy(out->daemon.socket, "/run/plimsoll/plimsoll.sock", sizeof "/run/plimsoll/plimsoll.sock");
    out->deadline_ms = 20;
    out->rest_ms = 1000;
    out->submit_ms = 20000;
    out->report_ms = 1000;
    out->sample_ms = 1000;
    out->shard_bytes = INT64_C(1) << 30;
    out->most_file = INT64_C(256) << 20;
    memcpy(out->nvml, "libnvidia-ml.so.1", sizeof "libnvidia-ml.so.1");
    out->rewrite = out->refuse = out->tell = out->report = true;
}

typedef struct words {
    const char *at, *end;
} words;

static bool copy(char *to, size_t room, const char *from, const char *end) {
    size_t length = (size_t)(end - from);
    if (length >= room) return false;
    memcpy(to, from, length);
    to[length] = 0;
    return true;
}

/* Reads a file whole; -1: it cannot be, or is larger than room. */
static long slurp(const char *path, char *room, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    size_t have = 0;
    ssize_t got = 1;
    while (got > 0 && have < size) {
        got = read(fd, room + have, size - have);
        if (got > 0) have += (size_t)got;
    }
    close(fd);
    if (got < 0 || have == size) return -1;
    room[have] = 0;
    return (long)have;
}

/* "/path" or "http://host:port" */
static bool read_daemon(settings *s, words value) {
    memset(s->daemon.socket, 0, sizeof s->daemon.socket);
    s->daemon.host[0] = 0;
    if (value.at < value.end && *value.at == '/')
        return copy(s->daemon.socket, sizeof s->daemon.socket, value.at, value.end);
    static const char scheme[] = "http://";
    size_t length = sizeof scheme - 1;
    if ((size_t)(value.end - value.at) <= length || memcmp(value.at, scheme, length) != 0)
        return false;
    value.at += length;
    if (value.end[-1] == '/') value.end--;
    const char *port = value.end;
    while (port > value.at && *port != ':') port--;
    int64_t number;
    if (port == value.at || !text_whole(port + 1, value.end, false, &number) || number > 65535)
        return false;
    const char *host = value.at, *host_end = port;
    if (*host == '[' && host_end[-1] == ']') { /* an address of IPv6 */
        host++;
        host_end--;
    }
    return copy(s->daemon.port, sizeof s->daemon.port, port + 1, value.end) &&
           copy(s->daemon.host, sizeof s->daemon.host, host, host_end);
}

/* The first line of a file. */
static bool read_token(settings *s, words value) {
    char path[1024], room[sizeof s->daemon.token];
    if (!copy(path, sizeof path, value.at, value.end) || slurp(path, room, sizeof room) < 0)
        return false;
    room[strcspn(room, " \t\r\n")] = 0;
    memcpy(s->daemon.token, room, sizeof room);
    return room[0];
}

static bool read_nvml(settings *s, words value) {
    return copy(s->nvml, sizeof s->nvml, value.at, value.end) && s->nvml[0];
}

static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* "h200 gpu=h200 shards=140 reserve=1GiB" */
static bool read_card(settings *s, words value) {
    if (s->count == SETTINGS_CARDS) return false;
    card *c = &s->cards[s->count];
    *c = (card){.reserve = -1};
    bool first = true;
    for (const char *at = value.at; at < value.end;) {
        while (at < value.end && blank(*at)) at++;
        const char *end = at;
        while (end < value.end && !blank(*end)) end++;
        if (at == end) break;
        const char *equals = memchr(at, '=', (size_t)(end - at));
        if (first) {
            if (equals || !copy(c->type, sizeof c->type, at, end) ||
                !copy(c->gpu, sizeof c->gpu, at, end))
                return false;
            first = false;
        } else if (!equals) {
            return false;
        } else {
            words given = {equals + 1, end};
            size_t name = (size_t)(equals - at);
            bool right = false;
            if (name == 3 && memcmp(at, "gpu", 3) == 0)
                right = copy(c->gpu, sizeof c->gpu, given.at, given.end) && c->gpu[0];
            else if (name == 6 && memcmp(at, "shards", 6) == 0)
                right = text_whole(given.at, given.end, false, &c->shards);
            else if (name == 7 && memcmp(at, "reserve", 7) == 0)
                right = text_size(given.at, given.end, &c->reserve);
            if (!right) return false;
        }
        at = end;
    }
    if (first || settings_card(s, c->type)) return false;
    s->count++;
    return true;
}

typedef enum kind { WHOLE, SIZE, YES, OWN } kind;

static const struct row {
    const char *name, *wanted;
    kind kind;
    size_t at;
    int64_t least, most;
    bool (*read)(settings *s, words value);
} rows[] = {
    {"daemon", "a path or http://HOST:PORT", OWN, 0, 0, 0, read_daemon},
    {"token-file", "a file with a token", OWN, 0, 0, 0, read_token},
    {"card", "TYPE [gpu=NAME] [shards=N] [reserve=SIZE], each type once", OWN, 0, 0, 0, read_card},
    {"nvml", "a library", OWN, 0, 0, 0, read_nvml},
    {"deadline-ms", "1 to 1000", WHOLE, offsetof(settings, deadline_ms), 1, 1000, NULL},
    {"rest-ms", "0 to 600000", WHOLE, offsetof(settings, rest_ms), 0, 600000, NULL},
    {"submit-ms", "1 to 600000", WHOLE, offsetof(settings, submit_ms), 1, 600000, NULL},
    {"report-ms", "1 to 60000", WHOLE, offsetof(settings, report_ms), 1, 60000, NULL},
    {"sample-ms", "10 to 60000", WHOLE, offsetof(settings, sample_ms), 10, 60000, NULL},
    {"shard", "a size of at least 1MiB", SIZE, offsetof(settings, shard_bytes), 1 << 20,
     INT64_C(1) << 50, NULL},
    {"most-file", "a size", SIZE, offsetof(settings, most_file), 1, INT64_C(1) << 40, NULL},
    {"rewrite", "yes or no", YES, offsetof(settings, rewrite), 0, 0, NULL},
    {"refuse", "yes or no", YES, offsetof(settings, refuse), 0, 0, NULL},
    {"shards-across-gpus", "yes or no", YES, offsetof(settings, across), 0, 0, NULL},
    {"tell", "yes or no", YES, offsetof(settings, tell), 0, 0, NULL},
    {"report", "yes or no", YES, offsetof(settings, report), 0, 0, NULL},
    {"protect", "yes or no", YES, offsetof(settings, protect), 0, 0, NULL},
};

static bool is(words value, const char *word) {
    return (size_t)(value.end - value.at) == strlen(word) &&
           memcmp(value.at, word, strlen(word)) == 0;
}

static bool read_value(settings *s, const struct row *r, words value) {
    char *field = (char *)s + r->at;
    int64_t number;
    switch (r->kind) {
    case WHOLE:
    case SIZE:
        if (!(r->kind == SIZE ? text_size(value.at, value.end, &number)
                              : text_whole(value.at, value.end, false, &number)))
            return false;
        if (number < r->least || number > r->most) return false;
        memcpy(field, &number, sizeof number);
        return true;
    case YES:
        if (!is(value, "yes") && !is(value, "no")) return false;
        *(bool *)field = is(value, "yes");
        return true;
    case OWN: break;
    }
    return r->read(s, value);
}

static bool read_line(settings *s, const char *at, const char *end, text *wrong) {
    const char *comment = memchr(at, '#', (size_t)(end - at));
    if (comment) end = comment;
    while (at < end && blank(*at)) at++;
    while (end > at && blank(end[-1])) end--;
    if (at == end) return true;
    const char *equals = memchr(at, '=', (size_t)(end - at));
    if (!equals) {
        text_add(wrong, "`name = value` is wanted");
        return false;
    }
    words name = {at, equals}, value = {equals + 1, end};
    while (name.end > name.at && blank(name.end[-1])) name.end--;
    while (value.at < value.end && blank(*value.at)) value.at++;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!is(name, rows[i].name)) continue;
        if (read_value(s, &rows[i], value)) return true;
        text_add(wrong, "%s: %s is wanted", rows[i].name, rows[i].wanted);
        return false;
    }
    text_add(wrong, "no setting is called '%.*s'", (int)(name.end - name.at), name.at);
    return false;
}

bool settings_read(settings *out, const char *path, text *wrong) {
    settings_default(out);
    char *room = malloc(MOST_TEXT);
    long size = room ? slurp(path, room, MOST_TEXT) : -1;
    bool right = size >= 0;
    if (!right) text_add(wrong, "%s: %s", path, errno ? strerror(errno) : "larger than 64 KiB");
    int line = 1;
    for (const char *at = room; right && at < room + size; line++) {
        const char *end = memchr(at, '\n', (size_t)(room + size - at));
        if (!end) end = room + size;
        text_add(wrong, "%s:%d: ", path, line);
        right = read_line(out, at, end, wrong);
        if (right) *wrong = text_in(wrong->at, wrong->room);
        at = end + 1;
    }
    if (right && !out->count) {
        text_add(wrong, "%s: no card: a line `card = TYPE shards=N` per kind of GPU", path);
        right = false;
    }
    free(room);
    return right;
}

void settings_path(char *out, size_t room) {
    static const char name[] = "plimsoll.conf";
    text path = text_in(out, room);
    const char *named = getenv("PLIMSOLL_SLURM_CONF"), *slurm = getenv("SLURM_CONF");
    if (named) {
        text_add(&path, "%s", named);
        return;
    }
    const char *slash = slurm ? strrchr(slurm, '/') : NULL;
    if (slash) {
        text_add(&path, "%.*s/%s", (int)(slash - slurm), slurm, name);
        if (!path.cut && access(out, R_OK) == 0) return;
    }
    path = text_in(out, room);
    text_add(&path, "/etc/slurm/%s", name);
}

const card *settings_card(const settings *s, const char *type) {
    if (!*type) return s->count == 1 ? &s->cards[0] : NULL;
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->cards[i].type, type) == 0) return &s->cards[i];
    return NULL;
}

int64_t settings_most_shards(const settings *s, const char *type) {
    int64_t most = 0;
    for (int i = 0; i < s->count; i++) {
        if (*type && strcmp(s->cards[i].type, type) != 0) continue;
        if (!s->cards[i].shards) return 0;
        if (s->cards[i].shards > most) most = s->cards[i].shards;
    }
    return most;
}
