/* cluster: see cluster.h. The file is JSON (docs/formats.md): cards, each with its kind, what is to be kept free,
 * how it is shared, and what runs there, as estimates or as bytes that were seen. */
#include "decide/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/file.h"
#include "core/sized.h"
#include "decide/demand.h"
#include "import/json.h"

enum {
    MOST_BYTES = 256 << 20,
    MOST_NESTING = 64,
    MOST_CARDS = 1 << 20,
    MOST_NAME = 120,
    MOST_JOBS = 1024
};
#define MOST_SEEN (INT64_C(1) << 50)

/* ---- cards and jobs ---- */

static pl_status out_of_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

static void *grown(void *array, size_t *room, size_t need, size_t size) {
    if (need <= *room) return array;
    size_t more = *room ? 2 * *room : 8;
    while (more < need) more *= 2;
    void *moved = realloc(array, more * size);
    if (moved) *room = more;
    return moved;
}

/* One of each kind, so that cards share it. */
static const pl_gpu *kind_of(pl_cluster *c, const char *name, pl_error *err) {
    pl_gpu *gpu = NULL;
    if (pl_gpu_open(&gpu, name, c->own, err) != PL_OK) return NULL;
    for (size_t i = 0; i < c->gpu_count; i++)
        if (strcmp(c->gpus[i]->name, gpu->name) == 0 &&
            c->gpus[i]->capacity_bytes == gpu->capacity_bytes) {
            pl_gpu_close(&gpu);
            return c->gpus[i];
        }
    void *more = grown(c->gpus, &c->gpu_room, c->gpu_count + 1, sizeof *c->gpus);
    if (!more) {
        pl_gpu_close(&gpu);
        out_of_memory(err);
        return NULL;
    }
    c->gpus = more;
    return c->gpus[c->gpu_count++] = gpu;
}

static pl_status add_job(pl_card *card, const pl_demand *job, pl_error *err) {
    void *more = grown(card->jobs, &card->room, card->count + 1, sizeof *card->jobs);
    if (!more) return out_of_memory(err);
    card->jobs = more;
    card->jobs[card->count++] = *job;
    card->current = false;
    return PL_OK;
}

pl_status pl_cluster_add(pl_cluster *cluster, size_t card, const pl_demand *job, pl_error *err) {
    pl_demand own = {0};
    if (card >= cluster->count) return pl_fail(err, PL_USAGE, "card", -1, "no such card");
    if (!PL_SIZED_OK(job, calibrated))
        return pl_fail(err, PL_USAGE, "job", -1, "a pl_demand whose size is not set");
    own.low_bytes = own.upper_bytes = PL_UNKNOWN;
    pl_sized_read(&own, sizeof own, job, job->size);
    return add_job(&cluster->cards[card], &own, err);
}

pl_status pl_cluster_remove(pl_cluster *cluster, size_t index, const char *name, pl_error *err) {
    pl_card *card = index < cluster->count ? &cluster->cards[index] : NULL;
    for (size_t i = 0; card && i < card->count; i++) {
        if (strcmp(card->jobs[i].name, name) != 0) continue;
        memmove(&card->jobs[i], &card->jobs[i + 1], (card->count - i - 1) * sizeof *card->jobs);
        card->count--;
        card->current = false;
        return PL_OK;
    }
    return pl_fail(err, PL_USAGE, "name", -1, "no such job on that card: %.100s", name);
}

/* ---- the file ---- */

typedef struct reading {
    pl_cluster *cluster;
    pl_arena *arena;
    pl_json json;
    pl_status status; /* of what is not JSON's fault */
    pl_error *err;
    const char *name;
} reading;

/* {"name":"a","seen_bytes":N}: what is known of it is what it holds; else an estimate's object, perhaps with
 * seen_bytes beside. */
static bool read_job(reading *r, pl_card *card) {
    pl_demand job = PL_SIZED(pl_demand);
    pl_json_text key;
    char name[MOST_NAME] = "";
    int64_t seen = PL_UNKNOWN;
    bool estimate = false;
    pl_json_peek(&r->json);
    const char *from = r->json.at;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        estimate |= PL_JSON_IS(&key, "schema");
        if (PL_JSON_IS(&key, "seen_bytes") ? !pl_json_whole(&r->json, &seen, MOST_SEEN)
            : PL_JSON_IS(&key, "name")     ? !pl_json_name(&r->json, r->arena, name, sizeof name)
                                           : !pl_json_skip(&r->json))
            return false;
    }
    if (r->json.failure) return false;
    if (!estimate && seen == PL_UNKNOWN)
        return pl_json_fail_at(&r->json, from, "a job: an estimate's object, or seen_bytes");
    job.step_ms = job.device_ms = job.host_ms = job.launches = NAN;
    job.smact = job.smocc = job.drama = job.tensor = NAN;
    if (estimate)
        r->status = pl_demand_read(&job, from, (size_t)(r->json.at - from), r->name, r->err);
    if (r->status != PL_OK) return false;
    if (*name) snprintf(job.name, sizeof job.name, "%s", name);
    if (seen != PL_UNKNOWN)
        job.low_bytes = job.peak_bytes = job.high_bytes = job.upper_bytes = seen;
    if (card->count >= MOST_JOBS) return pl_json_fail_at(&r->json, from, "fewer jobs on a card");
    return (r->status = add_job(card, &job, r->err)) == PL_OK;
}

static bool read_sharing(reading *r, pl_sharing *out) {
    char name[32];
    const char *at = r->json.at;
    if (!pl_json_name(&r->json, r->arena, name, sizeof name)) return false;
    return pl_sharing_parse(name, out) || pl_json_fail_at(&r->json, at, "slices or mps");
}

/* So many more of it, named NAME/0, NAME/1, .. */
static bool repeat(reading *r, pl_card *card, int64_t times, const char *at) {
    pl_cluster *c = r->cluster;
    if (times < 1 || times > MOST_CARDS || c->count + (size_t)times > MOST_CARDS)
        return pl_json_fail_at(&r->json, at, "a count from 1, and about a million cards in all");
    if (times > 1 && card->count)
        return pl_json_fail_at(&r->json, at, "cards with jobs one by one, without a count");
    void *more = grown(c->cards, &c->room, c->count + (size_t)times, sizeof *c->cards);
    if (!more) {
        r->status = out_of_memory(r->err);
        return false;
    }
    c->cards = more;
    for (int64_t i = 0; i < times; i++) {
        char name[MOST_NAME + 24];
        snprintf(name, sizeof name, times > 1 ? "%s/%lld" : "%s", card->name, (long long)i);
        pl_card own = *card;
        own.name = strdup(name);
        if (!own.name) {
            r->status = out_of_memory(r->err);
            return false;
        }
        c->cards[c->count++] = own;
        card->jobs = NULL; /* the first has them */
        card->count = card->room = 0;
    }
    return true;
}

static bool read_members(reading *r, pl_card *card, char *gpu, int64_t *times) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        bool read;
        if (PL_JSON_IS(&key, "name"))
            read = pl_json_name(&r->json, r->arena, card->name, MOST_NAME);
        else if (PL_JSON_IS(&key, "gpu"))
            read = pl_json_name(&r->json, r->arena, gpu, MOST_NAME);
        else if (PL_JSON_IS(&key, "reserve_bytes"))
            read = pl_json_whole(&r->json, &card->reserve_bytes, MOST_SEEN);
        else if (PL_JSON_IS(&key, "count"))
            read = pl_json_whole(&r->json, times, MOST_CARDS);
        else if (PL_JSON_IS(&key, "sharing"))
            read = read_sharing(r, &card->sharing);
        else if (PL_JSON_IS(&key, "jobs")) {
            read = pl_json_list(&r->json);
            while (read && pl_json_item(&r->json)) read = read_job(r, card);
        } else {
            read = pl_json_fail_at(&r->json, key.bytes,
                                   "name, gpu, count, reserve_bytes, sharing or jobs");
        }
        if (!read) return false;
    }
    return !r->json.failure;
}

static bool read_card(reading *r) {
    char name[MOST_NAME] = "", gpu[MOST_NAME] = "";
    pl_card card = {.name = name};
    int64_t times = 1;
    pl_json_peek(&r->json);
    const char *from = r->json.at;
    bool read = read_members(r, &card, gpu, &times);
    if (read && !*gpu) read = pl_json_fail_at(&r->json, from, "a card with its kind: \"gpu\"");
    if (read && !*name) snprintf(name, sizeof name, "card%zu", r->cluster->count);
    if (read) {
        card.gpu = kind_of(r->cluster, gpu, r->err);
        if (!card.gpu) {
            if (r->err) r->err->position = from - r->json.begin;
            r->status = PL_INPUT;
            read = false;
        }
    }
    if (read && card.reserve_bytes >= card.gpu->capacity_bytes)
        read = pl_json_fail_at(&r->json, from, "less to keep free than the card has");
    if (read) read = repeat(r, &card, times, from);
    free(card.jobs); /* where no card took them */
    return read;
}

static bool read_cluster(reading *r) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (!PL_JSON_IS(&key, "cards")) {
            if (!pl_json_skip(&r->json)) return false;
            continue;
        }
        if (!pl_json_list(&r->json)) return false;
        while (pl_json_item(&r->json))
            if (!read_card(r)) return false;
    }
    return !r->json.failure && pl_json_end(&r->json);
}

pl_status pl_cluster_open_memory(pl_cluster **out, const void *bytes, size_t size, const char *name,
                                 const pl_catalogue *own, pl_error *err) {
    *out = NULL;
    pl_cluster *c = calloc(1, sizeof *c);
    pl_budget budget = {.most_bytes = MOST_BYTES};
    pl_arena *arena = pl_arena_new(&budget);
    pl_error dropped = PL_SIZED(pl_error);
    reading r = {.cluster = c, .arena = arena, .err = err ? err : &dropped, .name = name};
    pl_status status = PL_OK;
    if (!c || !arena) {
        status = out_of_memory(err);
    } else {
        c->own = own;
        pl_json_open(&r.json, bytes, size, MOST_NESTING);
        if (!read_cluster(&r))
            status = r.status != PL_OK ? r.status
                                       : pl_fail(err, PL_INPUT, name, r.json.failure_at,
                                                 "no cluster: expected %s", r.json.failure);
        else if (c->count == 0)
            status = pl_fail(err, PL_INPUT, name, 0,
                             "no cluster: the list \"cards\" is missing or empty");
    }
    pl_arena_free(&arena);
    if (status == PL_OK)
        *out = c;
    else
        pl_cluster_close(&c);
    return status;
}

pl_status pl_cluster_open(pl_cluster **out, const char *path, const pl_catalogue *own,
                          pl_error *err) {
    pl_file file;
    *out = NULL;
    pl_status status = pl_file_open(&file, path, MOST_BYTES, err);
    if (status != PL_OK) return status;
    status = pl_cluster_open_memory(out, file.bytes, file.size, path, own, err);
    pl_file_close(&file);
    return status;
}

void pl_cluster_close(pl_cluster **given) {
    if (!given || !*given) return;
    pl_cluster *c = *given;
    for (size_t i = 0; i < c->count; i++) {
        free(c->cards[i].name);
        free(c->cards[i].jobs);
        free(c->cards[i].spread);
    }
    for (size_t i = 0; i < c->gpu_count; i++) pl_gpu_close(&c->gpus[i]);
    free(c->cards);
    free(c->gpus);
    free(c);
    *given = NULL;
}

size_t pl_cluster_count(const pl_cluster *c) {
    return c->count;
}

const char *pl_cluster_name(const pl_cluster *c, size_t card) {
    return card < c->count ? c->cards[card].name : NULL;
}

const pl_gpu *pl_cluster_gpu(const pl_cluster *c, size_t card) {
    return card < c->count ? c->cards[card].gpu : NULL;
}

size_t pl_cluster_jobs(const pl_cluster *c, size_t card) {
    return card < c->count ? c->cards[card].count : 0;
}

int64_t pl_card_usable(const pl_card *card) {
    int64_t usable = pl_gpu_usable(card->gpu) - card->reserve_bytes;
    return usable > 0 ? usable : 0;
}

/* ---- what they take ---- */

static double low_of(const pl_demand *d) {
    return (double)(d->low_bytes >= 0 && d->low_bytes <= d->peak_bytes ? d->low_bytes
                                                                       : d->peak_bytes);
}

static double high_of(const pl_demand *d) {
    return (double)(d->high_bytes >= d->peak_bytes ? d->high_bytes : d->peak_bytes);
}

void pl_spread_jobs(pl_spread *s, const pl_demand *jobs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int64_t times = 0;
        bool first = true;
        for (size_t j = 0; j < count; j++) {
            if (strcmp(jobs[i].name, jobs[j].name) != 0 || jobs[i].peak_bytes != jobs[j].peak_bytes)
                continue;
            first &= j >= i;
            times++;
        }
        if (first && jobs[i].peak_bytes >= 0)
            pl_spread_add(s, low_of(&jobs[i]), (double)jobs[i].peak_bytes, high_of(&jobs[i]),
                          times);
    }
}
