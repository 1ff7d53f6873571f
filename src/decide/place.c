/* place: where a job may go: for each card whether it fits there, with what risk of an out-of-memory for
 * those on it, how much slower each gets, and why not.
 *
 * Peaks add up, since what a process has reserved stays reserved; so do contexts, which a peak includes. The risk is
 * of the sum of all their intervals (spread.c), not of their upper ends. Slowdowns of two jobs are pl_collocate's; of
 * more pl_collocate_all's, which follows them all at once and was not measured: reported by `calibrated`. Left out:
 * less context under MPS, host's cores, cards' links. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/budget.h"
#include "core/error.h"
#include "core/number.h"
#include "core/sized.h"
#include "decide/cluster.h"
#include "decide/collocate.h"

static const char *const policy_names[] = {"exclusive", "pack", "spread", "interference"};
enum { POLICIES = sizeof policy_names / sizeof *policy_names, REASON = 200 };

const char *pl_policy_name(pl_policy policy) {
    return (unsigned)policy < POLICIES ? policy_names[policy] : NULL;
}

bool pl_policy_parse(const char *name, pl_policy *out) {
    for (int i = 0; i < POLICIES; i++)
        if (strcmp(name, policy_names[i]) == 0) {
            *out = (pl_policy)i;
            return true;
        }
    return false;
}

void pl_place_settings_default_sized(pl_place_settings *settings, size_t size) {
    pl_place_settings own = {
        .size = sizeof own, .policy = PL_PACK, .risk = 0.01, .most_slowdown = INFINITY};
    pl_sized_fill(settings, size, &own, sizeof own);
}

/* An option and its sentence. */
typedef struct ranked {
    pl_place_option option; /* its first member */
    double order;           /* smaller is better */
    char reason[REASON];
} ranked;

struct pl_placement {
    size_t count;
    ranked *list;
};

const pl_place_option *pl_placement_at(const pl_placement *p, size_t index) {
    return index < p->count ? &p->list[index].option : NULL;
}

void pl_placement_close(pl_placement **p) {
    if (!p || !*p) return;
    free((*p)->list);
    free(*p);
    *p = NULL;
}

/* ---- slowdowns ---- */

/* Fills what is known of times, jobs[count - 1] being the new one; false: out of memory. */
static bool fill_times(pl_place_option *o, const pl_card *card, const pl_demand *jobs,
                       size_t count) {
    const pl_figure unknown = {NAN, NAN, NAN};
    o->slowdown = unknown;
    o->worst_slowdown = o->gain = NAN;
    if (count == 1) {
        o->slowdown = (pl_figure){1, 1, 1};
        o->worst_slowdown = o->gain = 1;
        return true;
    }
    pl_figure *now = malloc(2 * count * sizeof *now), *before = now ? now + count : NULL;
    if (!now) return false;
    if (pl_collocate_all(now, jobs, count, card->gpu, card->sharing, NULL) == PL_OK &&
        pl_collocate_all(before, jobs, count - 1, card->gpu, card->sharing, NULL) == PL_OK) {
        double with = 0, without = 0, worst = 1;
        for (size_t i = 0; i < count; i++) {
            worst = fmax(worst, now[i].value);
            with += 1 / now[i].value;
            without += i + 1 < count ? 1 / before[i].value : 0;
        }
        o->slowdown = now[count - 1];
        o->worst_slowdown = worst;
        o->gain = with - without;
    }
    free(now);
    return true;
}

/* ---- one card ---- */

/* Within an argument list. */
#define GIB(bytes)     PL_REAL(".2f", (double)(bytes) / 1073741824)
#define PERCENT(share) PL_REAL(".1f", 100 * (share))

static const pl_demand *demand_for(const pl_card *card, const pl_demand *jobs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(jobs[i].gpu, card->gpu->name) == 0) return &jobs[i];
        const pl_gpu *known = pl_gpu_find(jobs[i].gpu);
        if (known && strcmp(known->name, card->gpu->name) == 0) return &jobs[i];
    }
    return NULL;
}

__attribute__((format(printf, 2, 3))) static void because(ranked *r, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(r->reason, sizeof r->reason, format, list);
    va_end(list);
}

/* What was found of the last empty card: the next is mostly one like it. */
typedef struct empty_card {
    const pl_demand *job;
    int64_t usable_bytes;
    double risk;
} empty_card;

/* The sum of a card's jobs is made once for all that ask. */
static bool fill_risk(pl_place_option *o, pl_card *card, const pl_demand *job, empty_card *last) {
    double usable = (double)o->usable_bytes;
    if (card->count == 0) {
        if (last->job != job || last->usable_bytes != o->usable_bytes) {
            pl_spread *alone = malloc(sizeof *alone);
            if (!alone) return false;
            pl_spread_start(alone, fmax(usable, 1));
            pl_spread_jobs(alone, job, 1);
            *last = (empty_card){job, o->usable_bytes, pl_spread_above(alone, usable)};
            free(alone);
        }
        o->risk = last->risk;
        return true;
    }
    if (!card->spread) card->spread = malloc(sizeof *card->spread);
    pl_spread *with = card->spread ? malloc(sizeof *with) : NULL;
    if (!with) return false;
    bool alike = false; /* errs as one that is there does */
    for (size_t i = 0; i < card->count; i++) alike |= strcmp(card->jobs[i].name, job->name) == 0;
    if (!card->current) {
        pl_spread_start(card->spread, fmax(usable, 1));
        pl_spread_jobs(card->spread, card->jobs, card->count);
        card->current = true;
    }
    pl_demand *all = alike ? malloc((card->count + 1) * sizeof *all) : NULL;
    if (all) {
        memcpy(all, card->jobs, card->count * sizeof *all);
        all[card->count] = *job;
        pl_spread_start(with, fmax(usable, 1));
        pl_spread_jobs(with, all, card->count + 1);
    } else {
        memcpy(with, card->spread, sizeof *with);
        pl_spread_jobs(with, job, 1);
    }
    o->risk = pl_spread_above(with, usable);
    free(all);
    free(with);
    return !alike || all;
}

/* What speaks against the card; "" where nothing does. */
static void judge(ranked *r, const pl_card *card, const pl_place_settings *s) {
    pl_place_option *o = &r->option;
    if (s->policy == PL_EXCLUSIVE && card->count) {
        because(r, "%zu job%s on it already", card->count, card->count > 1 ? "s run" : " runs");
    } else if (s->most_jobs && (int64_t)card->count >= s->most_jobs) {
        because(r, "%zu jobs on it already, and no more than %lld are to share a card", card->count,
                (long long)s->most_jobs);
    } else if (o->expected_bytes > o->usable_bytes) {
        because(r, "%s GiB more than the %s GiB that it has for them",
                GIB(o->expected_bytes - o->usable_bytes), GIB(o->usable_bytes));
    } else if (o->risk > s->risk) {
        because(r, "the chance of an out-of-memory is %s %%, more than %s %%", PERCENT(o->risk),
                PERCENT(s->risk));
    } else if (isfinite(s->most_slowdown) && !isfinite(o->worst_slowdown)) {
        because(r, "how much slower the jobs on it would get is not known");
    } else if (o->worst_slowdown > s->most_slowdown) {
        because(r, "a job on it would take %s times as long, more than %s",
                PL_REAL(".2f", o->worst_slowdown), PL_REAL(".2f", s->most_slowdown));
    } else {
        o->possible = true;
        if (card->count == 0)
            because(r, "empty, with %s GiB left", GIB(o->usable_bytes - o->expected_bytes));
        else
            because(r, "beside %zu, with %s GiB left", card->count,
                    GIB(o->usable_bytes - o->expected_bytes));
    }
}

static double order_of(const pl_place_option *o, const pl_place_settings *s, const pl_card *card) {
    double left = (double)(o->usable_bytes - o->expected_bytes);
    switch (s->policy) {
    case PL_EXCLUSIVE: return (double)card->gpu->capacity_bytes;
    case PL_PACK: return left;
    case PL_SPREAD: return (double)card->count * 1e18 - left;
    default: return isfinite(o->gain) ? -o->gain * 1e18 + left : INFINITY;
    }
}

static pl_status consider(ranked *r, pl_cluster *cluster, size_t index, const pl_demand *jobs,
                          size_t count, const pl_place_settings *s, empty_card *last,
                          pl_error *err) {
    pl_card *card = &cluster->cards[index];
    const pl_demand *job = demand_for(card, jobs, count);
    pl_place_option *o = &r->option;
    *o = (pl_place_option){.card = index,
                           .expected_bytes = PL_UNKNOWN,
                           .usable_bytes = pl_card_usable(card),
                           .risk = NAN,
                           .slowdown = {NAN, NAN, NAN},
                           .worst_slowdown = NAN,
                           .gain = NAN,
                           .jobs = (int64_t)card->count};
    r->order = INFINITY;
    if (!job || job->peak_bytes < 0) {
        because(r, "the job was not estimated for %s", card->gpu->title);
        return PL_OK;
    }
    o->expected_bytes = job->peak_bytes;
    for (size_t i = 0; i < card->count; i++)
        o->expected_bytes += card->jobs[i].peak_bytes > 0 ? card->jobs[i].peak_bytes : 0;
    o->calibrated = card->gpu->calibrated && job->calibrated && card->count < 2;
    pl_demand *all = malloc((card->count + 1) * sizeof *all);
    if (!all || !fill_risk(o, card, job, last)) {
        free(all);
        return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    }
    if (card->count) memcpy(all, card->jobs, card->count * sizeof *all);
    all[card->count] = *job;
    bool filled = fill_times(o, card, all, card->count + 1);
    free(all);
    if (!filled) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    judge(r, card, s);
    r->order = o->possible ? order_of(o, s, card) : INFINITY;
    return PL_OK;
}

static int by_order(const void *x, const void *y) {
    const ranked *a = x, *b = y;
    if (a->option.possible != b->option.possible) return a->option.possible ? -1 : 1;
    if (a->order != b->order) return a->order < b->order ? -1 : 1;
    return a->option.card < b->option.card ? -1 : a->option.card > b->option.card;
}

/* ---- all of them ---- */

static pl_status check(const pl_place_settings *s, pl_error *err) {
    if ((unsigned)s->policy >= POLICIES)
        return pl_fail(err, PL_USAGE, "policy", -1, "no such policy");
    if (!(s->risk >= 1e-6 && s->risk <= 0.5))
        return pl_fail(err, PL_USAGE, "risk", -1, "expected a chance from 0.000001 to 0.5");
    if (!(s->most_slowdown >= 1))
        return pl_fail(err, PL_USAGE, "most_slowdown", -1, "expected 1 or more");
    if (s->most_jobs < 0) return pl_fail(err, PL_USAGE, "most_jobs", -1, "expected 0 or more");
    return PL_OK;
}

pl_status pl_place(pl_placement **out, const pl_cluster *given, const pl_demand *jobs, size_t count,
                   const pl_place_settings *settings, pl_error *err) {
    *out = NULL;
    pl_cluster *cluster = (pl_cluster *)(uintptr_t)given; /* its sums are made when asked for */
    pl_place_settings s;
    pl_place_settings_default(&s);
    if (settings && !PL_SIZED_OK(settings, risk))
        return pl_fail(err, PL_USAGE, "settings", -1, "a struct whose size is not set");
    if (settings) pl_sized_read(&s, sizeof s, settings, settings->size);
    pl_status status = check(&s, err);
    if (status != PL_OK) return status;
    if (count && !PL_SIZED_OK(jobs, calibrated))
        return pl_fail(err, PL_USAGE, "jobs", -1, "a pl_demand whose size is not set");
    pl_budget budget;
    pl_budget_start(&budget, s.limits);
    if (!pl_budget_take(&budget, cluster->count * sizeof(ranked)))
        return pl_budget_fail(err, &budget, "cluster");
    pl_placement *p = calloc(1, sizeof *p);
    pl_demand *own = calloc(count + 1, sizeof *own);
    if (p) p->list = calloc(cluster->count, sizeof *p->list);
    if (!p || !own || !p->list) status = pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    for (size_t i = 0; own && i < count; i++) { /* theirs may be smaller */
        own[i].low_bytes = own[i].upper_bytes = PL_UNKNOWN;
        pl_sized_read(&own[i], sizeof *own, (const char *)jobs + i * jobs->size, jobs->size);
    }
    empty_card last = {0};
    for (size_t i = 0; status == PL_OK && i < cluster->count; i++) {
        bool kept = cluster->cards[i].count && !cluster->cards[i].spread;
        if ((kept && !pl_budget_take(&budget, sizeof(pl_spread))) || !pl_budget_poll(&budget))
            status = pl_budget_fail(err, &budget, "cluster");
        else
            status = consider(&p->list[p->count++], cluster, i, own, count, &s, &last, err);
    }
    free(own);
    if (status != PL_OK) {
        pl_placement_close(&p);
        return status;
    }
    qsort(p->list, p->count, sizeof *p->list, by_order);
    for (size_t i = 0; i < p->count; i++) p->list[i].option.reason = p->list[i].reason;
    *out = p;
    return PL_OK;
}
