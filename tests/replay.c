/* replay: recorded allocator traces through src/device/allocator.c.
 *
 * A trace holds what PyTorch 2.11 allocated and freed on an H200 in three training steps, and the
 * peaks its allocator reached. Replayed here, every peak_allocated and peak_reserved must come out.
 *
 * Usage: replay FIXTURE [ALL.jsonl.xz] [--bench] [--pack OUT ID...]
 *   FIXTURE       tests/data/traces.txt: 16 of those that are exact, packed; all must be.
 *   ALL.jsonl.xz  the whole set (read through xzcat); at least 125 of its traces must be exact.
 *                 Where it does not exist, the test says so and goes on.
 *   --bench       times the replay of every trace.
 *   --pack        writes the traces with these ids from ALL to OUT, in the packed form.
 *
 * Packed form, a text line per trace: id, peak_allocated, peak_reserved, number of events,
 * alloc_conf or "-", then words: N, an allocation of N bytes; -K, a free of the K-th youngest
 * allocation alive, from 1; e, the cache emptied. xN after a word: N times the word. Lines with a #
 * are comments.
 *
 * The traces name no call of empty_cache, but segments given back do: none of these jobs met a full
 * card, so a run of "s" events is one call (cuDNN's benchmark mode empties the cache after it has
 * tried its algorithms). Which segments go, and all peaks, are our allocator's doing. A call that
 * gave nothing back is not in a trace and would change nothing. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/allocator.h"

enum { NEEDED = 125, BENCH_ROUNDS = 50 };

typedef struct event {
    char kind; /* a, f, e */
    int32_t id;
    int64_t bytes;
} event;

typedef struct trace {
    char id[64], conf[128];
    int64_t allocated, reserved; /* the peaks measured */
    event *events;
    size_t count, capacity;
    int32_t ids; /* one more than the largest */
} trace;

typedef struct result {
    int64_t allocated, reserved;
    double seconds;
    bool ok; /* went through to the end */
} result;

static void die(const char *what) {
    fprintf(stderr, "replay: %s\n", what);
    exit(1);
}

static void add_event(trace *t, char kind, int64_t id, int64_t bytes) {
    if (id < 0 || id > INT32_MAX - 1) die("an allocation's number is out of range");
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 1024;
        t->events = realloc(t->events, t->capacity * sizeof *t->events);
        if (!t->events) die("out of memory");
    }
    if (id >= t->ids) t->ids = (int32_t)id + 1;
    t->events[t->count++] = (event){kind, (int32_t)id, bytes};
}

/* ---- the JSON lines of the whole set, as they are written: no spaces, keys in any order ---- */

static bool find_text(const char *line, const char *key, char *out, size_t size) {
    const char *at = strstr(line, key);
    out[0] = 0;
    if (!at) return false;
    at += strlen(key);
    size_t length = strcspn(at, "\"");
    if (length >= size) die("a value is too long");
    memcpy(out, at, length);
    out[length] = 0;
    return true;
}

static int64_t find_number(const char *line, const char *key) {
    const char *at = strstr(line, key);
    if (!at) die("a trace lacks a figure");
    return strtoll(at + strlen(key), NULL, 10);
}

static void parse_json(trace *t, const char *line) {
    const char *result_at = strstr(line, "\"result\":");
    const char *at = strstr(line, "\"events\":[");
    if (!result_at || !at) die("a line is no trace");
    t->count = 0;
    t->ids = 0;
    if (!find_text(line, "\"id\":\"", t->id, sizeof t->id)) die("a trace has no id");
    find_text(line, "\"alloc_conf\":\"", t->conf, sizeof t->conf);
    t->allocated = find_number(result_at, "\"peak_allocated\":");
    t->reserved = find_number(result_at, "\"peak_reserved\":");
    bool giving_back = false;
    for (at += strlen("\"events\":["); *at == '['; at += *at == ',') {
        char *end;
        if (strncmp(at, "[\"", 2) != 0 || strncmp(at + 3, "\",", 2) != 0) die("an event is broken");
        char kind = at[2];
        int64_t id = strtoll(at + 5, &end, 10);
        if (*end != ',') die("an event is broken");
        int64_t bytes = strtoll(end + 1, &end, 10);
        if (*end != ']') die("an event is broken");
        at = end + 1;
        if (kind == 'a' || kind == 'f')
            add_event(t, kind, id, bytes);
        else if (kind == 's' && !giving_back)
            add_event(t, 'e', 0, 0);
        else if (kind != 's' && kind != 'S')
            die("an event is of no known kind");
        giving_back = kind == 's';
    }
    if (*at != ']') die("the events do not end");
}

/* ---- the packed form ---- */

static void pack(FILE *out, const trace *t) {
    int32_t *alive = malloc(((size_t)t->ids + 1) * sizeof *alive);
    size_t count = 0, run = 0;
    char word[32] = "", last[32] = "";
    if (!alive) die("out of memory");
    fprintf(out, "%s %" PRId64 " %" PRId64 " %zu %s", t->id, t->allocated, t->reserved, t->count,
            t->conf[0] ? t->conf : "-");
    for (size_t i = 0; i <= t->count; i++) {
        const event *e = &t->events[i < t->count ? i : 0];
        word[0] = 0;
        if (i == t->count) {
        } else if (e->kind == 'a') {
            alive[count++] = e->id;
            snprintf(word, sizeof word, "%" PRId64, e->bytes);
        } else if (e->kind == 'e') {
            strcpy(word, "e");
        } else {
            size_t k = count;
            while (k && alive[k - 1] != e->id) k--;
            if (!k) die("a free of what is not alive");
            snprintf(word, sizeof word, "-%zu", count - k + 1);
            memmove(&alive[k - 1], &alive[k], (count - k) * sizeof *alive);
            count--;
        }
        if (i && strcmp(word, last) != 0) {
            if (run > 1)
                fprintf(out, " %sx%zu", last, run);
            else
                fprintf(out, " %s", last);
            run = 0;
        }
        run++;
        strcpy(last, word);
    }
    fputc('\n', out);
    free(alive);
}

static void unpack(trace *t, char *line) {
    char *save = NULL, *word = strtok_r(line, " \n", &save);
    const char *head[5];
    for (int i = 0; i < 5; i++, word = strtok_r(NULL, " \n", &save)) {
        if (!word) die("a packed line is too short");
        head[i] = word;
    }
    t->count = 0;
    t->ids = 0;
    snprintf(t->id, sizeof t->id, "%s", head[0]);
    snprintf(t->conf, sizeof t->conf, "%s", strcmp(head[4], "-") ? head[4] : "");
    t->allocated = strtoll(head[1], NULL, 10);
    t->reserved = strtoll(head[2], NULL, 10);
    size_t events = (size_t)strtoull(head[3], NULL, 10), alive_count = 0;
    int32_t *alive = malloc((events + 1) * sizeof *alive), next = 0;
    if (!alive) die("out of memory");
    for (; word; word = strtok_r(NULL, " \n", &save)) {
        char *end = word;
        int64_t value = *word == 'e' ? 0 : strtoll(word, &end, 10);
        bool empty = *word == 'e', is_free = *word == '-';
        if (empty) end = word + 1;
        long times = *end == 'x' ? strtol(end + 1, &end, 10) : 1;
        if (*end || times < 1) die("a packed word is broken");
        for (; times > 0; times--) {
            if (empty) {
                add_event(t, 'e', 0, 0);
            } else if (!is_free) {
                if (alive_count > events) die("too many packed events");
                alive[alive_count++] = next;
                add_event(t, 'a', next++, value);
            } else {
                size_t k = (size_t)-value;
                if (k == 0 || k > alive_count) die("a packed free of what is not alive");
                k = alive_count - k;
                add_event(t, 'f', alive[k], 0);
                memmove(&alive[k], &alive[k + 1], (alive_count - k - 1) * sizeof *alive);
                alive_count--;
            }
        }
    }
    if (t->count != events) die("a packed line has another number of events than it says");
    free(alive);
}

/* ---- replaying ---- */

static result replay(const trace *t, const int64_t *holes) {
    result r = {0};
    pl_allocator_settings settings;
    pl_error err = PL_SIZED(pl_error);
    pl_allocator_settings_default(&settings);
    if (holes) memcpy(settings.context_holes, holes, sizeof settings.context_holes);
    if (pl_allocator_settings_parse(&settings, t->conf, &err) != PL_OK) die(err.message);
    pl_block **blocks = calloc((size_t)t->ids + 1, sizeof *blocks);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    pl_allocator *a = pl_allocator_new(&settings);
    if (!a || !blocks) die("out of memory");
    r.ok = true;
    for (size_t i = 0; i < t->count && r.ok; i++) {
        const event *e = &t->events[i];
        if (e->kind == 'a') {
            r.ok = !blocks[e->id] && (blocks[e->id] = pl_allocator_alloc(a, e->bytes, 0, NULL));
        } else if (e->kind == 'f') {
            r.ok = blocks[e->id] != NULL;
            pl_allocator_free(a, blocks[e->id]);
            blocks[e->id] = NULL;
        } else {
            pl_allocator_empty_cache(a);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    r.seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    r.allocated = pl_allocator_stats_of(a)->peak_allocated;
    r.reserved = pl_allocator_stats_of(a)->peak_reserved;
    pl_allocator_close(&a);
    free(blocks);
    return r;
}

static bool is_exact(const trace *t, const result *r) {
    return r->ok && r->allocated == t->allocated && r->reserved == t->reserved;
}

/* What keeps a trace from being exact. Libraries that a job loads take addresses, and which of two
 * blocks of one size is used depends on addresses; a trace does not say where they went. So it is
 * tried whether the figures come out with addresses as they are before the first kernel (seen on
 * the same machine): then only the order of addresses was off. */
static const char *reason_for(const trace *t, const result *r) {
    static const int64_t before_kernels[PL_CONTEXT_HOLES] = {2 << 20, 24 << 20, 32 << 20};
    if (!r->ok) return "the replay stopped: an event does not fit what came before it";
    result other = replay(t, before_kernels);
    if (is_exact(t, &other))
        return "order of addresses: exact with the ranges that the context has before its first "
               "kernel;\n    probably libraries loaded in the job moved them, which no trace shows";
    return "NOT EXPLAINED";
}

typedef struct tally {
    int traces, exact;
    int64_t events;
    double seconds;
} tally;

static void check(const trace *t, tally *sum, bool bench) {
    result r = replay(t, NULL);
    bool exact = is_exact(t, &r);
    sum->traces++;
    sum->exact += exact;
    printf("%-26s %13" PRId64 " %13" PRId64 " %13" PRId64 " %13" PRId64 "  %s\n", t->id,
           t->allocated, r.allocated, t->reserved, r.reserved, exact ? "exact" : "NOT EXACT");
    if (!exact) printf("    %s\n", reason_for(t, &r));
    for (int i = 0; bench && i < BENCH_ROUNDS; i++) {
        sum->seconds += replay(t, NULL).seconds;
        sum->events += (int64_t)t->count;
    }
}

static void head(const char *what) {
    printf("%s\n%-26s %13s %13s %13s %13s\n", what, "job", "allocated", "replayed", "reserved",
           "replayed");
}

static void report(const tally *sum) {
    printf("%d of %d exact\n", sum->exact, sum->traces);
    if (sum->events)
        printf("%.1f ns an event over %" PRId64 " events, each trace from an empty allocator\n",
               sum->seconds * 1e9 / (double)sum->events, sum->events);
}

int main(int argc, char **argv) {
    const char *fixture = NULL, *whole = NULL, *pack_to = NULL;
    char *line = NULL, **pack_ids = NULL;
    int pack_count = 0;
    size_t size = 0;
    bool bench = false, failed = false;
    trace t = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            bench = true;
        else if (!strcmp(argv[i], "--pack") && i + 1 < argc) {
            pack_to = argv[i + 1];
            pack_ids = &argv[i + 2];
            pack_count = argc - i - 2;
            break;
        } else if (!fixture)
            fixture = argv[i];
        else
            whole = argv[i];
    }
    if (!fixture) die("usage: replay FIXTURE [ALL.jsonl.xz] [--bench] [--pack OUT ID...]");

    FILE *in = pack_to ? NULL : fopen(fixture, "r");
    if (!in && !pack_to) die("the fixture cannot be opened");
    if (in) {
        tally sum = {0};
        head("fixture");
        while (getline(&line, &size, in) > 0) {
            if (line[0] == '#') continue;
            unpack(&t, line);
            check(&t, &sum, bench);
        }
        fclose(in);
        report(&sum);
        if (sum.traces == 0 || sum.exact != sum.traces) failed = true;
    }

    if (!whole || access(whole, R_OK) != 0 || strchr(whole, '\'')) {
        printf("whole set: skipped, %s is not there\n", whole ? whole : "its file");
    } else {
        char command[4096];
        snprintf(command, sizeof command, "xzcat '%s'", whole);
        FILE *out = pack_to ? fopen(pack_to, "w") : NULL;
        if (pack_to && !out) die("the packed file cannot be written");
        in = popen(command, "r");
        if (!in) die("xzcat cannot be started");
        tally sum = {0};
        if (!out) head("whole set");
        while (getline(&line, &size, in) > 0) {
            parse_json(&t, line);
            if (!out) check(&t, &sum, bench);
            for (int i = 0; out && i < pack_count; i++) {
                if (!strcmp(pack_ids[i], t.id)) pack(out, &t);
            }
        }
        if (pclose(in) != 0) die("xzcat failed");
        if (out && fclose(out) != 0) die("the packed file cannot be written");
        if (!out) {
            report(&sum);
            if (sum.exact < NEEDED) failed = true;
        }
    }
    free(t.events);
    free(line);
    if (failed) printf("FAILED: the fixture must be exact, and %d of the whole set\n", NEEDED);
    return failed ? 1 : 0;
}
