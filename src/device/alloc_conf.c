/* alloc_conf: the settings of the caching allocator, and PYTORCH_CUDA_ALLOC_CONF's syntax.
 *
 * Keys as in c10/core/AllocatorConfig.h and c10/cuda/CUDAAllocatorConfig.h of PyTorch 2.11; ranges
 * and the order of reading as in a recent AllocatorConfig.cpp: `key:value` pairs between commas,
 * lists in square brackets, white space ignored, large_segment_size_mb read before the rest because
 * others are checked against it. Stricter than PyTorch in one thing: a number must be the whole
 * value. Keys that change no size on the device are accepted and their values not looked at;
 * backend:cudaMallocAsync is refused, since that is another allocator. */
#include "device/allocator.h"

#include <stdlib.h>
#include <string.h>

#include "core/number.h"

#define MIB ((int64_t)1 << 20)
enum { WORD = 64, MIN_LARGE_SEGMENT_MB = 10 };
#define MAX_MB (INT64_MAX / MIB)

void pl_allocator_settings_default(pl_allocator_settings *settings) {
    *settings = (pl_allocator_settings){
        .max_split_size = INT64_MAX,
        .max_non_split_rounding = 20 * MIB,
        .memory_fraction = 1,
        .large_segment_size = 20 * MIB,
        .context_holes = {6 * MIB, 416 * MIB, 22 * MIB}, /* 2026-11-15, driver 580.159.04 */
    };
}

/* One token: a word without its white space, or one of , : [ ]; "" at the end. */
typedef struct reader {
    const char *conf, *at;
    const char *start; /* of the token, in conf */
    char word[WORD];   /* the token; longer ones are cut and `cut` is set */
    bool cut;
    pl_error *err;
} reader;

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_mark(char c) {
    return c == ',' || c == ':' || c == '[' || c == ']';
}

static void next_token(reader *r) {
    size_t length = 0;
    r->cut = false;
    while (is_space(*r->at)) r->at++;
    r->start = r->at;
    if (is_mark(*r->at)) {
        r->word[length++] = *r->at++;
    } else {
        for (; *r->at && !is_mark(*r->at); r->at++) {
            if (is_space(*r->at)) continue;
            if (length + 1 < WORD)
                r->word[length++] = *r->at;
            else
                r->cut = true;
        }
    }
    r->word[length] = 0;
}

static bool is(const reader *r, const char *token) {
    return !r->cut && !strcmp(r->word, token);
}

static pl_status fail(const reader *r, const char *key, const char *expected) {
    return pl_fail(r->err, PL_USAGE, "alloc_conf", r->start - r->conf,
                   "%s: expected %s, found '%s'", key, expected, r->word);
}

static pl_status expect(reader *r, const char *key, const char *mark, const char *expected) {
    next_token(r);
    return is(r, mark) ? PL_OK : fail(r, key, expected);
}

static bool whole_number(const reader *r, int64_t *out) {
    int64_t value = 0;
    if (r->cut || !r->word[0]) return false;
    for (const char *c = r->word; *c; c++) {
        if (*c < '0' || *c > '9' || value > (INT64_MAX - 9) / 10) return false;
        value = value * 10 + (*c - '0');
    }
    *out = value;
    return true;
}

/* The token as megabytes, at least `least`, at most what fits. */
static pl_status megabytes(reader *r, const char *key, int64_t least, int64_t *out) {
    int64_t value;
    next_token(r);
    if (!whole_number(r, &value)) return fail(r, key, "a whole number of MiB");
    if (value < least)
        return pl_fail(r->err, PL_USAGE, "alloc_conf", r->start - r->conf,
                       "%s: must be at least %lld", key, (long long)least);
    *out = (value < MAX_MB ? value : MAX_MB) * MIB;
    return PL_OK;
}

static pl_status fraction(reader *r, const char *key, double *out) {
    double value;
    next_token(r);
    if (r->cut || !pl_number_read(r->word, strlen(r->word), &value) || !(value >= 0 && value <= 1))
        return fail(r, key, "a number from 0 to 1");
    *out = value;
    return PL_OK;
}

static pl_status read_large_segment(reader *r, const char *key, pl_allocator_settings *s) {
    return megabytes(r, key, MIN_LARGE_SEGMENT_MB + 1, &s->large_segment_size);
}

static pl_status read_max_split(reader *r, const char *key, pl_allocator_settings *s) {
    return megabytes(r, key, s->large_segment_size / MIB, &s->max_split_size);
}

static pl_status read_non_split(reader *r, const char *key, pl_allocator_settings *s) {
    return megabytes(r, key, s->large_segment_size / MIB, &s->max_non_split_rounding);
}

static pl_status read_gc(reader *r, const char *key, pl_allocator_settings *s) {
    pl_status status = fraction(r, key, &s->gc_threshold);
    if (status == PL_OK && (s->gc_threshold <= 0 || s->gc_threshold >= 1))
        return fail(r, key, "a number between 0 and 1, neither of them");
    return status;
}

static pl_status read_fraction(reader *r, const char *key, pl_allocator_settings *s) {
    return fraction(r, key, &s->memory_fraction);
}

static pl_status read_expandable(reader *r, const char *key, pl_allocator_settings *s) {
    next_token(r);
    if (!is(r, "True") && !is(r, "False")) return fail(r, key, "True or False");
    s->expandable_segments = is(r, "True");
    return PL_OK;
}

static pl_status read_backend(reader *r, const char *key, pl_allocator_settings *s) {
    (void)s;
    next_token(r);
    if (is(r, "native")) return PL_OK;
    return fail(r, key, "native, the one allocator that is simulated");
}

static bool power_of_two(int64_t value) {
    return value > 0 && (value & (value - 1)) == 0;
}

/* Either one number for all sizes, or [boundary:divisions, ..., >:divisions], boundaries in MiB.
 * The first boundary's number also holds for everything below it, ">" for everything above the
 * last. */
static pl_status read_divisions(reader *r, const char *key, pl_allocator_settings *s) {
    int64_t *divisions = s->roundup_divisions, value, boundary = 0;
    int last = 0;
    bool first = true;
    next_token(r);
    if (!is(r, "[")) {
        if (!whole_number(r, &value) || !power_of_two(value)) return fail(r, key, "a power of two");
        for (int i = 0; i < PL_ROUNDUP_INTERVALS; i++) divisions[i] = value;
        return PL_OK;
    }
    next_token(r);
    while (!is(r, "]")) {
        bool rest = is(r, ">");
        if (!rest && (!whole_number(r, &boundary) || !power_of_two(boundary)))
            return fail(r, key, "a boundary in MiB that is a power of two, or '>'");
        pl_status status = expect(r, key, ":", "':' between a boundary and its divisions");
        if (status != PL_OK) return status;
        next_token(r);
        if (!whole_number(r, &value) || (value && !power_of_two(value)))
            return fail(r, key, "0 or a power of two");
        if (rest) {
            for (int i = last + 1; i < PL_ROUNDUP_INTERVALS; i++) divisions[i] = value;
        } else {
            int index = 0;
            while (index < PL_ROUNDUP_INTERVALS - 1 && boundary >> (index + 1)) index++;
            for (int i = 0; first && i < index; i++) divisions[i] = value;
            first = false;
            divisions[index] = value;
            last = index;
        }
        next_token(r);
        if (is(r, ","))
            next_token(r);
        else if (!is(r, "]"))
            return fail(r, key, "',' or ']'");
    }
    return PL_OK;
}

/* For keys without effect on device memory: steps over a word or a bracketed list. */
static pl_status skip_value(reader *r, const char *key, pl_allocator_settings *s) {
    (void)s;
    next_token(r);
    if (!r->word[0] || is(r, ",") || is(r, ":") || is(r, "]")) return fail(r, key, "a value");
    if (!is(r, "[")) return PL_OK;
    while (!is(r, "]")) {
        next_token(r);
        if (!r->word[0]) return fail(r, key, "']'");
    }
    return PL_OK;
}

static const struct {
    const char *key;
    pl_status (*read)(reader *, const char *, pl_allocator_settings *);
} keys[] = {
    {"large_segment_size_mb", read_large_segment}, /* first: see read_pairs */
    {"max_split_size_mb", read_max_split},
    {"max_non_split_rounding_mb", read_non_split},
    {"garbage_collection_threshold", read_gc},
    {"roundup_power2_divisions", read_divisions},
    {"expandable_segments", read_expandable},
    {"per_process_memory_fraction", read_fraction},
    {"backend", read_backend},
    {"release_lock_on_cudamalloc", skip_value},
    {"release_lock_on_hipmalloc", skip_value},
    {"graph_capture_record_stream_reuse", skip_value},
    {"pinned_use_cuda_host_register", skip_value},
    {"pinned_use_hip_host_register", skip_value},
    {"pinned_num_register_threads", skip_value},
    {"pinned_reserve_segment_size_mb", skip_value},
    {"pinned_use_background_threads", skip_value},
};

enum { KEYS = sizeof keys / sizeof *keys, LARGE_SEGMENT_KEY = 0 };

/* first_pass: large_segment_size_mb alone, everything else stepped over; else the other way round.
 */
static pl_status read_pairs(const char *conf, bool first_pass, pl_allocator_settings *s,
                            pl_error *err) {
    reader r = {.conf = conf, .at = conf, .err = err};
    next_token(&r);
    while (r.word[0]) {
        int k = 0;
        while (k < KEYS && !is(&r, keys[k].key)) k++;
        if (k == KEYS)
            return pl_fail(err, PL_USAGE, "alloc_conf", r.start - conf, "unknown setting '%s'",
                           r.word);
        const char *key = keys[k].key;
        pl_status status = expect(&r, key, ":", "':' after it");
        if (status != PL_OK) return status;
        status = first_pass == (k == LARGE_SEGMENT_KEY) ? keys[k].read(&r, key, s)
                                                        : skip_value(&r, key, s);
        if (status != PL_OK) return status;
        next_token(&r);
        if (is(&r, ","))
            next_token(&r);
        else if (r.word[0])
            return fail(&r, key, "','");
    }
    return PL_OK;
}

pl_status pl_allocator_settings_parse(pl_allocator_settings *settings, const char *conf,
                                      pl_error *err) {
    pl_allocator_settings s;
    pl_allocator_settings_default(&s);
    s.device_bytes = settings->device_bytes;
    s.total_bytes = settings->total_bytes;
    memcpy(s.context_holes, settings->context_holes, sizeof s.context_holes);
    if (!conf) conf = "";
    pl_status status = read_pairs(conf, true, &s, err);
    if (status != PL_OK) return status;
    s.max_non_split_rounding = s.large_segment_size;
    status = read_pairs(conf, false, &s, err);
    if (status == PL_OK) *settings = s;
    return status;
}
