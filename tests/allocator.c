/* allocator: every rule of the caching allocator by a small case worked out by hand. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/allocator.h"

#define KIB ((int64_t)1 << 10)
#define MIB ((int64_t)1 << 20)

static int failures;
static const char *test_name;

static void expect(const char *what, int64_t found, int64_t wanted, int line) {
    if (found == wanted) return;
    printf("FAILED %s, line %d: %s is %" PRId64 ", should be %" PRId64 "\n", test_name, line, what,
           found, wanted);
    failures++;
}

#define EXPECT(found, wanted) expect(#found, (int64_t)(found), (int64_t)(wanted), __LINE__)

static pl_allocator *a;
static const pl_allocator_stats *s;

/* Opens `a` with these settings. */
static void start(const char *name, const char *conf, int64_t device_bytes) {
    pl_allocator_settings settings;
    pl_error err = PL_SIZED(pl_error);
    test_name = name;
    pl_allocator_settings_default(&settings);
    settings.device_bytes = device_bytes;
    if (pl_allocator_settings_parse(&settings, conf, &err) != PL_OK) {
        printf("FAILED %s: %s\n", name, err.message);
        exit(1);
    }
    a = pl_allocator_new(&settings);
    if (!a) exit(1);
    s = pl_allocator_stats_of(a);
}

static pl_block *get(int64_t bytes) {
    bool oom;
    pl_block *b = pl_allocator_alloc(a, bytes, 0, &oom);
    if (!b || oom) {
        printf("FAILED %s: %" PRId64 " bytes were refused\n", test_name, bytes);
        exit(1);
    }
    return b;
}

static void give(pl_block *b) {
    pl_allocator_free(a, b);
}

static bool refused(int64_t bytes) {
    bool oom = false;
    return !pl_allocator_alloc(a, bytes, 0, &oom) && oom;
}

static void rounding(void) {
    start("rounding", "", 0);
    EXPECT(pl_block_bytes(get(1)), 512);
    EXPECT(pl_block_bytes(get(512)), 512);
    EXPECT(pl_block_bytes(get(513)), 1024);
    EXPECT(s->allocated, 2048);
    EXPECT(s->reserved, 2 * MIB);
    EXPECT(pl_block_bytes(get(0)), 0);
    EXPECT(s->allocated, 2048);
    pl_allocator_close(&a);
    EXPECT(a == NULL, 1);
    pl_allocator_close(&a);
}

static void divisions(void) {
    start("roundup_power2_divisions:4", "roundup_power2_divisions:4", 0);
    EXPECT(pl_block_bytes(get(1200)), 1536); /* under 4 x 512: plain rounding */
    EXPECT(pl_block_bytes(get(2049)), 2560); /* steps of 512 from 2 to 4 KiB */
    EXPECT(pl_block_bytes(get(5 * KIB + 1)), 6 * KIB);
    EXPECT(pl_block_bytes(get(64 * KIB)), 64 * KIB);
    EXPECT(pl_block_bytes(get(17 * MIB)), 20 * MIB);
    pl_allocator_close(&a);
    /* The first number also below its boundary, each from its boundary on, the last above all. */
    start("roundup_power2_divisions list", "roundup_power2_divisions:[2:8,4:2,16:0,>:1]", 0);
    EXPECT(pl_block_bytes(get(1100 * KIB)), 1152 * KIB);           /* 8 steps of 128 KiB */
    EXPECT(pl_block_bytes(get(2 * MIB + 1)), 2 * MIB + 256 * KIB); /* 8 steps of 256 KiB */
    EXPECT(pl_block_bytes(get(5 * MIB)), 6 * MIB);                 /* 2 steps of 2 MiB */
    EXPECT(pl_block_bytes(get(9 * MIB)), 9 * MIB);                 /* 8 to 16 MiB: not named, off */
    EXPECT(pl_block_bytes(get(17 * MIB + 1)),
           18 * MIB); /* off; the segment's last MiB is not split */
    pl_allocator_close(&a);
}

static void segments(void) {
    start("segments", "", 0);
    get(1 * MIB);
    EXPECT(s->reserved, 2 * MIB);
    get(1 * MIB); /* the rest of it */
    EXPECT(s->reserved, 2 * MIB);
    get(1 * MIB + 1);
    EXPECT(s->reserved, 22 * MIB);
    get(10 * MIB - 512); /* what is left of the 20 MiB is just under 19 */
    EXPECT(s->reserved, 22 * MIB);
    get(10 * MIB); /* 8 MiB left there: its own segment, of 10 MiB */
    EXPECT(s->reserved, 32 * MIB);
    get(11 * MIB);
    EXPECT(s->reserved, 44 * MIB);
    EXPECT(s->segments, 4);
    EXPECT(s->peak_reserved, 44 * MIB);
    pl_allocator_close(&a);
    start("large_segment_size_mb", "large_segment_size_mb:32", 0);
    get(2 * MIB);
    EXPECT(s->reserved, 32 * MIB);
    get(10 * MIB);
    EXPECT(s->reserved, 32 * MIB);
    pl_allocator_close(&a);
}

static void splitting(void) {
    start("splitting", "", 0);
    pl_block *b = get(20 * MIB);
    give(b);
    b = get(19 * MIB); /* exactly 1 MiB would be left: too little in the large pool */
    EXPECT(pl_block_bytes(b), 20 * MIB);
    give(b);
    b = get(19 * MIB - 512);
    EXPECT(pl_block_bytes(b), 19 * MIB - 512);
    EXPECT(s->allocated, 19 * MIB - 512);
    EXPECT(s->peak_allocated, 20 * MIB);
    give(b);
    b = get(1 * MIB - 512); /* small pool: 512 bytes are enough to split */
    pl_block *c = get(1 * MIB), *d = get(512);
    EXPECT(pl_block_bytes(b), 1 * MIB - 512);
    EXPECT(pl_block_address(c), pl_block_address(b) + 1 * MIB - 512);
    EXPECT(pl_block_address(d), pl_block_address(c) + 1 * MIB);
    EXPECT(s->reserved, 22 * MIB);
    pl_allocator_close(&a);
}

static void best_fit(void) {
    start("best fit", "", 0);
    pl_block *b[8];
    for (int i = 0; i < 8; i++) b[i] = get((i + 1) * 1024);
    int64_t third = pl_block_address(b[2]), fifth = pl_block_address(b[4]);
    give(b[4]);
    give(b[2]);
    b[2] = get(2600); /* the smallest that is large enough, and no remainder of 512 */
    EXPECT(pl_block_address(b[2]), third);
    EXPECT(pl_block_bytes(b[2]), 3072);
    b[4] = get(3000);
    EXPECT(pl_block_address(b[4]), fifth);
    pl_allocator_close(&a);
    start("ties", "", 0);
    for (int i = 0; i < 6; i++) b[i] = get(1024);
    int64_t second = pl_block_address(b[1]), fourth = pl_block_address(b[3]);
    give(b[3]); /* freed first, yet the lower address is taken first */
    give(b[1]);
    EXPECT(pl_block_address(get(1024)), second);
    EXPECT(pl_block_address(get(1024)), fourth);
    pl_allocator_close(&a);
}

static void merging(void) {
    /* Every order of freeing three neighbours ends in one block of the whole segment. */
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 6; i++) {
        start("merging", "", 0);
        pl_block *b[3];
        for (int k = 0; k < 3; k++) b[k] = get(4 * MIB);
        int64_t address = pl_block_address(b[0]);
        for (int k = 0; k < 3; k++) give(b[orders[i][k]]);
        pl_block *all = get(20 * MIB);
        EXPECT(pl_block_address(all), address);
        EXPECT(s->reserved, 20 * MIB);
        EXPECT(s->allocated, 20 * MIB);
        give(all);
        pl_allocator_empty_cache(a);
        EXPECT(s->reserved, 0);
        EXPECT(s->segments, 0);
        EXPECT(s->peak_reserved, 20 * MIB);
        pl_allocator_close(&a);
    }
    start("empty cache keeps what is in use", "", 0);
    pl_block *b = get(4 * MIB);
    give(get(30 * MIB));
    give(get(100));
    pl_allocator_empty_cache(a);
    EXPECT(s->reserved, 20 * MIB);
    give(b);
    pl_allocator_empty_cache(a);
    EXPECT(s->reserved, 0);
    pl_allocator_close(&a);
}

static void streams(void) {
    bool oom;
    start("streams", "", 0);
    give(get(4 * MIB));
    pl_block *b = pl_allocator_alloc(a, 4 * MIB, 3, &oom);
    EXPECT(s->reserved, 40 * MIB);
    give(get(4 * MIB));
    EXPECT(s->reserved, 40 * MIB);
    pl_allocator_free(a, b);
    b = pl_allocator_alloc(a, 4 * MIB, 3, &oom);
    EXPECT(s->reserved, 40 * MIB);
    EXPECT(pl_allocator_alloc(a, 1, -1, &oom) == NULL, 1);
    EXPECT(oom, 0);
    EXPECT(pl_allocator_alloc(a, 1, 1024, NULL) == NULL, 1);
    pl_allocator_free(a, NULL);
    pl_allocator_close(&a);
}

static void max_split(void) {
    start("max_split_size_mb", "max_split_size_mb:32", 0);
    pl_block *b = get(32 * MIB);
    give(b);
    b = get(8 * MIB); /* may not take a block of the very limit either */
    EXPECT(s->reserved, 52 * MIB);
    give(b);
    pl_allocator_empty_cache(a);
    b = get(40 * MIB);
    give(b);
    get(8 * MIB); /* may not take the 40 MiB block */
    EXPECT(s->reserved, 60 * MIB);
    b = get(32 * MIB); /* at the limit: takes it whole */
    EXPECT(pl_block_bytes(b), 40 * MIB);
    EXPECT(s->reserved, 60 * MIB);
    give(b);
    pl_block *big = get(60 * MIB);
    give(big);
    b = get(40 * MIB);
    big = get(40 * MIB); /* 60 is 20 too large or more: a new one */
    EXPECT(pl_block_bytes(big), 40 * MIB);
    EXPECT(s->reserved, 160 * MIB);
    EXPECT(pl_block_bytes(get(40 * MIB + 1)), 60 * MIB);
    pl_allocator_close(&a);
    start("max_non_split_rounding_mb", "max_split_size_mb:32,max_non_split_rounding_mb:30", 0);
    give(get(69 * MIB)); /* 70 */
    b = get(40 * MIB + 1);
    EXPECT(pl_block_bytes(b), 70 * MIB);
    give(b);
    EXPECT(pl_block_bytes(get(40 * MIB)), 40 * MIB);
    pl_allocator_close(&a);
}

static void full_card(void) {
    start("out of memory", "", 100 * MIB);
    pl_block *b = get(60 * MIB);
    EXPECT(refused(41 * MIB), 1);
    EXPECT(s->retries, 1);
    EXPECT(s->allocated, 60 * MIB);
    give(b);
    get(80 * MIB); /* 60 cached: given back, then it fits */
    EXPECT(s->retries, 2);
    EXPECT(s->reserved, 80 * MIB);
    EXPECT(s->peak_reserved, 80 * MIB);
    get(20 * MIB);
    EXPECT(s->retries, 2);
    EXPECT(refused(1), 1);
    EXPECT(refused(INT64_MAX), 1);
    EXPECT(s->reserved, 100 * MIB);
    pl_allocator_close(&a);

    start("retry gives back the small pool too", "", 22 * MIB);
    give(get(100));
    give(get(15 * MIB));
    get(22 * MIB);
    EXPECT(s->reserved, 22 * MIB);
    EXPECT(s->retries, 1);
    pl_allocator_close(&a);

    /* Oversize blocks go first, and only as many as needed; that is not counted as a retry. */
    start("oversize blocks are given back first", "max_split_size_mb:32", 200 * MIB);
    pl_block *c[3] = {get(40 * MIB), get(50 * MIB), get(60 * MIB)};
    for (int i = 0; i < 3; i++) give(c[i]);
    give(get(10 * MIB));
    get(100 * MIB); /* 60 and 50 go */
    EXPECT(s->reserved, 150 * MIB);
    EXPECT(s->retries, 0);
    pl_allocator_close(&a);

    start("per_process_memory_fraction", "per_process_memory_fraction:0.5", 100 * MIB);
    b = get(50 * MIB);
    EXPECT(refused(1), 1);
    give(b);
    get(2 * MIB);
    EXPECT(s->reserved, 50 * MIB);
    EXPECT(refused(50 * MIB), 1);
    pl_allocator_close(&a);
}

static void garbage(void) {
    const char *conf = "per_process_memory_fraction:0.5,garbage_collection_threshold:0.5";
    start("garbage_collection_threshold", conf, 400 * MIB);
    pl_block *old = get(30 * MIB), *young = get(40 * MIB), *used = get(32 * MIB);
    give(old);
    give(get(2 * MIB));             /* searches of the large pool are what blocks age by */
    EXPECT(s->reserved, 102 * MIB); /* it took the 30 MiB one */
    give(used);
    used = get(31 * MIB);
    EXPECT(s->reserved, 102 * MIB);
    give(young);
    get(50 * MIB); /* over half of 200: the 30 MiB one is old, the 40 one was freed last */
    EXPECT(s->reserved, 122 * MIB);
    EXPECT(s->retries, 0);
    pl_allocator_close(&a);
    start("no collection without a memory fraction", "garbage_collection_threshold:0.1", 400 * MIB);
    give(get(100 * MIB));
    get(150 * MIB);
    EXPECT(s->reserved, 250 * MIB);
    pl_allocator_close(&a);
}

static void expandable(void) {
    start("expandable_segments", "expandable_segments:True", 1024 * MIB);
    pl_block *b = get(15 * MIB);
    EXPECT(s->reserved, 20 * MIB); /* pages of 20 MiB */
    pl_block *c = get(30 * MIB);   /* 5 are left; one segment, so they are used */
    EXPECT(s->reserved, 60 * MIB);
    EXPECT(pl_block_address(c), pl_block_address(b) + 15 * MIB);
    pl_block *d = get(15 * MIB - 512); /* splits down to 512 bytes in the large pool as well */
    EXPECT(pl_block_bytes(d), 15 * MIB - 512);
    EXPECT(s->reserved, 60 * MIB);
    get(512);
    EXPECT(s->reserved, 62 * MIB); /* small pool: pages of 2 MiB */
    get(512 * KIB);
    get(512 * KIB);
    get(1 * MIB); /* 512 bytes short: one page more */
    EXPECT(s->reserved, 64 * MIB);
    EXPECT(s->segments, 0);
    int64_t address = pl_block_address(c);
    give(c); /* 15 to 45 of the segment: the page from 20 to 40 is wholly free */
    pl_allocator_empty_cache(a);
    EXPECT(s->reserved, 44 * MIB);
    c = get(30 * MIB); /* the hole is the lowest place */
    EXPECT(pl_block_address(c), address);
    EXPECT(s->reserved, 64 * MIB);
    give(b);
    give(c);
    give(d);
    pl_allocator_empty_cache(a);
    EXPECT(s->reserved, 4 * MIB);
    pl_allocator_close(&a);

    start("expandable: what can grow is used last", "expandable_segments:True", 0);
    b = get(40 * MIB);
    c = get(20 * MIB);
    d = get(30 * MIB); /* 100 mapped, 90 used: 10 MiB at the end */
    give(b);           /* and 40 MiB at the start */
    int64_t start_of_all = pl_block_address(b);
    EXPECT(pl_block_address(get(9 * MIB)), start_of_all);
    EXPECT(s->reserved, 100 * MIB);
    pl_allocator_close(&a);

    start("expandable: full card", "expandable_segments:True", 100 * MIB);
    b = get(40 * MIB);
    c = get(20 * MIB);
    give(b);
    EXPECT(refused(81 * MIB), 1);
    EXPECT(s->retries, 1);
    EXPECT(s->reserved, 20 * MIB); /* the pages of b were given back */
    get(80 * MIB);
    EXPECT(s->reserved, 100 * MIB);
    give(c);
    pl_allocator_close(&a);
}

static void many(void) {
    /* Enough blocks for deep trees, and all bytes come back. */
    enum { COUNT = 20000 };
    static pl_block *b[COUNT];
    static const char *const confs[] = {"", "expandable_segments:True", "max_split_size_mb:40"};
    uint32_t random = 1;
    for (size_t k = 0; k < sizeof confs / sizeof *confs; k++) {
        start("many blocks", confs[k], 0);
        memset(b, 0, sizeof b);
        int64_t sum = 0;
        for (int i = 0; i < 10 * COUNT; i++) {
            random = random * 1664525 + 1013904223;
            size_t at = random >> 8 & 0x3fff;
            if (b[at]) {
                sum -= pl_block_bytes(b[at]);
                give(b[at]);
                b[at] = NULL;
            } else {
                random = random * 1664525 + 1013904223;
                b[at] = get((int64_t)(random >> (8 + (random >> 4 & 15))) + 1);
                sum += pl_block_bytes(b[at]);
            }
        }
        EXPECT(s->allocated, sum);
        EXPECT(s->reserved >= s->allocated, 1);
        for (int i = 0; i < COUNT; i++) give(b[i]);
        EXPECT(s->allocated, 0);
        pl_allocator_empty_cache(a);
        EXPECT(s->reserved, 0);
        EXPECT(s->segments, 0);
        pl_allocator_close(&a);
    }
}

/* With every allocation of this machine's memory failing in turn: no crash, no wrong answer. */
static void no_memory(void) {
    test_name = "allocation failure";
    for (int expandable_too = 0; expandable_too < 2; expandable_too++) {
        int refusals = 0;
        for (long fail = 0; fail < 60; fail++) {
            pl_allocator_settings settings;
            pl_allocator_settings_default(&settings);
            settings.expandable_segments = expandable_too != 0;
            settings.device_bytes = 1024 * MIB;
            pl_block *b[500] = {0};
            pl_arena_fail_after(fail);
            pl_allocator *x = pl_allocator_new(&settings);
            for (int i = 0; x && i < 500; i++) {
                bool oom = false;
                b[i] = pl_allocator_alloc(x, (i % 7 + 1) * 300 * KIB, i % 3, &oom);
                refusals += !b[i];
                EXPECT(oom, 0);
                if (i % 5 == 4) {
                    pl_allocator_free(x, b[i - 2]);
                    b[i - 2] = NULL;
                }
            }
            int64_t sum = 0;
            for (int i = 0; x && i < 500; i++) {
                if (b[i]) sum += pl_block_bytes(b[i]);
            }
            if (x) EXPECT(pl_allocator_stats_of(x)->allocated, sum);
            for (int i = 0; x && i < 500; i += 2) pl_allocator_free(x, b[i]);
            if (x) pl_allocator_empty_cache(x);
            pl_arena_fail_after(-1);
            for (int i = 1; x && i < 500; i += 2) pl_allocator_free(x, b[i]);
            if (x) pl_allocator_empty_cache(x);
            if (x) EXPECT(pl_allocator_stats_of(x)->reserved, 0);
            pl_allocator_close(&x);
        }
        EXPECT(refusals > 0, 1);
    }
}

static void settings(void) {
    static const struct {
        const char *conf, *part; /* part: in the message */
    } bad[] = {
        {"max_spilt_size_mb:64", "max_spilt_size_mb"},
        {"max_split_size_mb", "':'"},
        {"max_split_size_mb:", "a value"},
        {"max_split_size_mb:19", "at least 20"},
        {"max_split_size_mb:-1", "MiB"},
        {"max_split_size_mb:64MB", "64MB"},
        {"max_split_size_mb:99999999999999999999", "MiB"},
        {"max_split_size_mb:64 expandable_segments:True", "','"},
        {"max_split_size_mb:64]", "','"},
        {"max_split_size_mb:30,large_segment_size_mb:32", "at least 32"},
        {"large_segment_size_mb:10", "at least 11"},
        {"max_non_split_rounding_mb:19", "at least 20"},
        {"garbage_collection_threshold:1", "between 0 and 1"},
        {"garbage_collection_threshold:0", "between 0 and 1"},
        {"garbage_collection_threshold:nan", "0 to 1"},
        {"per_process_memory_fraction:1.5", "0 to 1"},
        {"expandable_segments:true", "True or False"},
        {"roundup_power2_divisions:3", "power of two"},
        {"roundup_power2_divisions:[3:4]", "boundary"},
        {"roundup_power2_divisions:[4:3]", "0 or a power of two"},
        {"roundup_power2_divisions:[4:4", "']'"},
        {"roundup_power2_divisions:[4]", "':'"},
        {"roundup_power2_divisions:[", "']'"},
        {"backend:cudaMallocAsync", "native"},
        {"pinned_num_register_threads", "':'"},
        {"pinned_num_register_threads:", "a value"},
        {",", "unknown"},
        {":", "unknown"},
        {"a_name_that_is_longer_than_any_setting_has_and_longer_than_the_buffer_for_it:1",
         "unknown"},
    };
    pl_allocator_settings x, before;
    pl_error err = PL_SIZED(pl_error);
    test_name = "settings";
    pl_allocator_settings_default(&x);
    x.device_bytes = 7;
    EXPECT(
        pl_allocator_settings_parse(&x, " max_split_size_mb : 64 ,expandable_segments:True,", &err),
        PL_OK);
    EXPECT(x.max_split_size, 64 * MIB);
    EXPECT(x.expandable_segments, 1);
    EXPECT(x.device_bytes, 7);
    EXPECT(x.large_segment_size, 20 * MIB);
    EXPECT(x.context_holes[1], 416 * MIB);
    EXPECT(pl_allocator_settings_parse(&x,
                                       "pinned_use_background_threads:True,backend:native,"
                                       "release_lock_on_cudamalloc:False,"
                                       "pinned_num_register_threads:[8,4],"
                                       "garbage_collection_threshold:0.8,"
                                       "per_process_memory_fraction:0.25,large_segment_size_mb:40",
                                       &err),
           PL_OK);
    EXPECT(x.max_split_size == INT64_MAX, 1); /* what is not named is reset */
    EXPECT(x.expandable_segments, 0);
    EXPECT(fabs(x.gc_threshold - 0.8) < 1e-12, 1);
    EXPECT(fabs(x.memory_fraction - 0.25) < 1e-12, 1);
    EXPECT(x.large_segment_size, 40 * MIB);
    EXPECT(x.max_non_split_rounding, 40 * MIB);
    EXPECT(pl_allocator_settings_parse(&x, "roundup_power2_divisions:[2:8,16:4,>:2]", NULL), PL_OK);
    static const int64_t wanted[PL_ROUNDUP_INTERVALS] = {8, 8, 0, 0, 4, 2, 2, 2,
                                                         2, 2, 2, 2, 2, 2, 2, 2};
    for (int i = 0; i < PL_ROUNDUP_INTERVALS; i++) EXPECT(x.roundup_divisions[i], wanted[i]);
    EXPECT(pl_allocator_settings_parse(&x, "roundup_power2_divisions:[1048576:4]", NULL), PL_OK);
    EXPECT(x.roundup_divisions[PL_ROUNDUP_INTERVALS - 1], 4);
    EXPECT(pl_allocator_settings_parse(&x, NULL, &err), PL_OK);
    EXPECT(x.roundup_divisions[0], 0);
    before = x;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(&err, 0, sizeof err);
        pl_status status = pl_allocator_settings_parse(&x, bad[i].conf, &err);
        if (status != PL_USAGE || err.code != PL_USAGE || !strstr(err.message, bad[i].part) ||
            strcmp(err.where, "alloc_conf") != 0 || err.position < 0) {
            printf("FAILED settings: '%s' gave %d, '%s'\n", bad[i].conf, (int)status, err.message);
            failures++;
        }
        EXPECT(memcmp(&x, &before, sizeof x), 0);
    }
}

int main(void) {
    rounding();
    divisions();
    segments();
    splitting();
    best_fit();
    merging();
    streams();
    max_split();
    full_card();
    garbage();
    expandable();
    many();
    no_memory();
    settings();
    printf(failures ? "%d failures\n" : "allocator: all as expected\n", failures);
    return failures != 0;
}
