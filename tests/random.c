/* random: the caching allocator against PyTorch's own, request by request.
 *
 * tests/data/random.txt holds random requests, under settings of every kind, and what PyTorch 2.11
 * answered to them on an H200: bytes allocated and reserved, retries, segments, and which requests
 * found the card full. The memory limit is per_process_memory_fraction's. These are the first
 * events of 13 of 28 recorded runs of 2,500 events each; all 28 agree in every event.
 *
 * A text line per run: alloc_conf or "-", the card's memory in bytes, then words: N, an allocation
 * of N bytes on stream 0; N@S, on stream S; oN, one that runs out of memory; -K, a free of the K-th
 * youngest allocation alive, from 1; e, the cache emptied; =A,R,T,S, what must hold now: allocated,
 * reserved, retries, segments.
 *
 * Usage: random FIXTURE */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/allocator.h"

enum { ALIVE = 4096 };

/* true: the run went as recorded. */
static bool run(char *line, int64_t *events) {
    char *save = NULL, *conf = strtok_r(line, " \n", &save), *total = strtok_r(NULL, " \n", &save);
    pl_allocator_settings settings;
    pl_error err = PL_SIZED(pl_error);
    static pl_block *alive[ALIVE];
    size_t count = 0;
    int64_t done = 0, checks = 0;
    bool good = true;
    if (!conf || !total) {
        printf("FAILED: a line is too short\n");
        return false;
    }
    pl_allocator_settings_default(&settings);
    settings.device_bytes = settings.total_bytes = strtoll(total, NULL, 10);
    /* No kernel had run in these, and a second stream had been made. */
    int64_t holes[PL_CONTEXT_HOLES] = {26 << 20};
    memcpy(settings.context_holes, holes, sizeof holes);
    if (pl_allocator_settings_parse(&settings, strcmp(conf, "-") ? conf : "", &err) != PL_OK) {
        printf("FAILED: %s: %s\n", conf, err.message);
        return false;
    }
    pl_allocator *a = pl_allocator_new(&settings);
    if (!a) return false;
    const pl_allocator_stats *s = pl_allocator_stats_of(a);
    for (char *word; good && (word = strtok_r(NULL, " \n", &save));) {
        if (*word == 'e') {
            pl_allocator_empty_cache(a);
            done++;
        } else if (*word == '-') {
            size_t k = (size_t)strtoull(word + 1, NULL, 10);
            if (k == 0 || k > count) {
                printf("FAILED: %s: event %" PRId64 " frees what is not alive\n", conf, done);
                good = false;
                break;
            }
            k = count - k;
            pl_allocator_free(a, alive[k]);
            memmove(&alive[k], &alive[k + 1], (count - k - 1) * sizeof *alive);
            count--;
            done++;
        } else if (*word == '=') {
            char now[128];
            snprintf(now, sizeof now, "=%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, s->allocated,
                     s->reserved, s->retries, s->segments);
            checks++;
            if (strcmp(now, word) != 0) {
                printf("FAILED: %s: after event %" PRId64 ": recorded %s, simulated %s\n", conf,
                       done, word, now);
                good = false;
            }
        } else {
            bool full = *word == 'o', oom = false;
            char *end;
            int64_t bytes = strtoll(word + full, &end, 10);
            int stream = *end == '@' ? (int)strtol(end + 1, NULL, 10) : 0;
            pl_block *b = pl_allocator_alloc(a, bytes, stream, &oom);
            if (oom != full || (b != NULL) == full || (b && count == ALIVE)) {
                printf("FAILED: %s: event %" PRId64 " (%s): out of memory: recorded %d, simulated "
                       "%d\n",
                       conf, done, word, full, oom);
                good = false;
            } else if (b) {
                alive[count++] = b;
            }
            done++;
        }
    }
    if (good && !checks) {
        printf("FAILED: %s: no check in this line\n", conf);
        good = false;
    }
    if (good) printf("ok: %" PRId64 " events: %s\n", done, conf);
    *events += done;
    pl_allocator_close(&a);
    return good;
}

int main(int argc, char **argv) {
    FILE *in = argc == 2 ? fopen(argv[1], "r") : NULL;
    char *line = NULL;
    size_t size = 0;
    int64_t events = 0;
    int runs = 0, failed = 0;
    if (!in) {
        fprintf(stderr, "usage: random FIXTURE\n");
        return 1;
    }
    while (getline(&line, &size, in) > 0) {
        if (line[0] == '#') continue;
        runs++;
        failed += !run(line, &events);
    }
    fclose(in);
    free(line);
    printf("%d of %d runs as recorded, %" PRId64 " events\n", runs - failed, runs, events);
    return failed || !runs;
}
