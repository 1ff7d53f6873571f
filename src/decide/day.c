/* day: a cluster's day under one policy, event by event: jobs come, wait, are put on cards, take their peak, end, or run
 * out of memory.
 *
 * A job takes its peak some time after its start (its first steps, in which the cards that share it warm up); until then it counts
 * for nothing. Where those at their peaks and it take more than the card has, it is the one that dies, since it is
 * the one that asks; its time is lost, and it comes to the end of the queue. After some crashes it gets cards of its own.
 * The queue is served in order; a job that fits nowhere is overtaken by the next ones, until it has waited too long.
 * A job moves as fast as the slowest of its cards lets it: pl_collocate's slowdowns, of more than two jobs what
 * each of the others costs, added up, which was not measured.
 *
 * Left out: where cards stand to each other, preemption, that speed differs by card, users who ask for more after a crash. */
#include "decide/day.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/sized.h"

struct pl_day {
    pl_day_outcome outcome;
    char policy[64];
    pl_day_point points[DAY_POINTS];
    size_t point_count;
};

/* Those of the same time in this order: cards are free before others need them. */
typedef enum event_kind { ENDS, PEAKS } event_kind;

typedef struct event {
    double time;
    event_kind kind;
    int32_t job;
    uint32_t version;
} event;

typedef struct day {
    pl_day_outcome *o;
    const pl_day_settings *settings;
    pl_day_cards *cards;
    pl_day_job *jobs;
    size_t job_count, next; /* next: to come */
    event *heap;
    size_t events, event_room;
    int32_t first, last; /* of the queue; -1: empty */
    int64_t waiting;
    uint32_t round; /* of frees */
    int32_t *chosen, *freed;
    pl_day_sums sums;
    double now;
    pl_budget budget;
    pl_error *err;
} day;

void pl_day_settings_default_sized(pl_day_settings *settings, size_t size) {
    pl_day_settings own = {.size = sizeof own,
                           .seed = 1,
                           .risk = 0.01,
                           .most_slowdown = INFINITY,
                           .backfill = 32,
                           .patience_s = 21600,
                           .peak_s = 60,
                           .crashes = 2,
                           .guess_whole = 0.3,
                           .guess_low = 0.1,
                           .guess_spare = 1.2};
    pl_sized_fill(settings, size, &own, sizeof own);
}

static pl_status no_memory(const day *d) {
    return pl_fail(d->err, PL_MISSING, NULL, -1, "out of memory");
}

/* ---- events: a heap ---- */

static bool sooner(const event *a, const event *b) {
    if (a->time != b->time) return a->time < b->time;
    if (a->kind != b->kind) return a->kind < b->kind;
    return a->job < b->job;
}

static bool push(day *d, event e) {
    if (d->events == d->event_room) {
        size_t room = d->event_room ? 2 * d->event_room : 1024;
        void *more = realloc(d->heap, room * sizeof *d->heap);
        if (!more) return false;
        d->heap = more;
        d->event_room = room;
    }
    size_t at = d->events++;
    for (; at && sooner(&e, &d->heap[(at - 1) / 2]); at = (at - 1) / 2)
        d->heap[at] = d->heap[(at - 1) / 2];
    d->heap[at] = e;
    return true;
}

static void pop(day *d) {
    event last = d->heap[--d->events];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= d->events) break;
        if (child + 1 < d->events && sooner(&d->heap[child + 1], &d->heap[child])) child++;
        if (!sooner(&d->heap[child], &last)) break;
        d->heap[at] = d->heap[child];
        at = child;
    }
    d->heap[at] = last;
}

/* Drops events that are void. */
static const event *soonest(day *d) {
    while (d->events && d->heap[0].version != d->jobs[d->heap[0].job].version) pop(d);
    return d->events ? &d->heap[0] : NULL;
}

/* ---- the queue ---- */

static void enqueue(day *d, int32_t job) {
    pl_day_job *j = &d->jobs[job];
    j->before = d->last;
    j->behind = -1;
    j->since = d->now; /* it waits from now on */
    j->tried = 0;
    if (d->last >= 0)
        d->jobs[d->last].behind = job;
    else
        d->first = job;
    d->last = job;
    d->waiting++;
    d->sums.waiting = (double)d->waiting;
}

static void dequeue(day *d, int32_t job) {
    pl_day_job *j = &d->jobs[job];
    if (j->before >= 0)
        d->jobs[j->before].behind = j->behind;
    else
        d->first = j->behind;
    if (j->behind >= 0)
        d->jobs[j->behind].before = j->before;
    else
        d->last = j->before;
    j->waited += d->now - j->since;
    d->waiting--;
    d->sums.waiting = (double)d->waiting;
}

/* ---- running ---- */

/* Its work so far is done; from now on it moves as its cards let it. Its events are made anew: one of its peak
 * stands until it is there, since that does not depend on the pace. */
static bool pace(day *d, int32_t job) {
    pl_day_job *j = &d->jobs[job];
    double slowdown = 1;
    for (int32_t k = 0; k < j->gpus; k++)
        slowdown = fmax(slowdown, pl_day_cards_slowdown(d->cards, j->cards[k], job));
    j->left = fmax(0, j->left - (d->now - j->since) / j->slowdown);
    j->since = d->now;
    j->slowdown = slowdown;
    j->version++;
    double end = d->now + j->left * slowdown;
    if (!push(d, (event){end, ENDS, job, j->version})) return false;
    if (j->at_peak) return true;
    double peak = fmax(d->now, j->start + fmin(d->settings->peak_s, j->work / 2));
    return push(d, (event){peak, PEAKS, job, j->version});
}

/* Jobs of these cards, whose slowdowns have changed; but: not that one. */
static bool pace_all(day *d, const int32_t *cards, int32_t count, int32_t but) {
    for (int32_t k = 0; k < count; k++) {
        const pl_day_card *card = pl_day_cards_at(d->cards, cards[k]);
        for (int32_t i = 0; i < card->count; i++) {
            int32_t job = card->seats[i].job;
            if (job == but) continue;
            const pl_day_job *j = &d->jobs[job];
            if (j->slowdown == card->seats[i].slowdown && j->gpus == 1) continue;
            if (!pace(d, job)) return false;
            for (int32_t n = 0; j->gpus > 1 && n < j->gpus; n++)
                d->sums.sm += pl_day_cards_busy(d->cards, j->cards[n]);
        }
        d->sums.sm += pl_day_cards_busy(d->cards, cards[k]);
    }
    return true;
}

static bool start(day *d, int32_t job) {
    pl_day_job *j = &d->jobs[job];
    bool shared = false;
    j->cards = &j->one;
    if (j->gpus > 1) j->cards = malloc((size_t)j->gpus * sizeof *j->cards);
    if (!j->cards) return false;
    memcpy(j->cards, d->chosen, (size_t)j->gpus * sizeof *j->cards);
    dequeue(d, job);
    j->runs = true;
    j->at_peak = false;
    j->start = j->since = d->now;
    j->left = j->work;
    j->slowdown = 1;
    for (int32_t k = 0; k < j->gpus; k++) {
        const pl_day_card *card = pl_day_cards_at(d->cards, j->cards[k]);
        d->sums.cards += card->count == 0;
        shared |= card->count > 0;
        if (!pl_day_cards_put(d->cards, j->cards[k], job)) return false;
    }
    d->o->placements++;
    d->o->shared += shared;
    return pace(d, job) && pace_all(d, j->cards, j->gpus, job);
}

/* Off its cards, which are `freed` then. */
static bool stop(day *d, int32_t job, int32_t *count) {
    pl_day_job *j = &d->jobs[job];
    for (int32_t k = 0; k < j->gpus; k++) {
        if (j->at_peak) {
            pl_day_cards_hold(d->cards, j->cards[k], -j->truth);
            d->sums.bytes -= j->truth;
        }
        pl_day_cards_take(d->cards, j->cards[k], job);
        const pl_day_card *card = pl_day_cards_at(d->cards, j->cards[k]);
        d->sums.cards -= card->count == 0;
        d->freed[k] = j->cards[k];
    }
    *count = j->gpus;
    d->o->held_hours += (d->now - j->start) * j->gpus / 3600;
    if (j->cards != &j->one) free(j->cards);
    j->cards = NULL;
    j->runs = j->at_peak = false;
    j->version++;
    j->since = d->now;
    return pace_all(d, d->freed, *count, -1);
}

/* ---- waiting ---- */

static bool try_start(day *d, int32_t job, const int32_t *only, size_t count, bool *started) {
    *started = pl_day_cards_choose(d->cards, job, only, count, d->chosen);
    return !*started || start(d, job);
}

/* How many of the queue's first are tried: who has waited too long is waited for. */
static int64_t window_of(const day *d) {
    return d->first >= 0 && d->now - d->jobs[d->first].since > d->settings->patience_s
               ? 1
               : d->settings->backfill;
}

/* Cards have become free: whoever was tried on all others since needs to be tried on these alone. */
static bool serve(day *d, int32_t freed) {
    int64_t seen = 0;
    d->round++;
    for (int32_t job = d->first, behind; job >= 0 && seen < window_of(d); job = behind) {
        pl_day_job *j = &d->jobs[job];
        bool started, few = j->gpus == 1 && j->tried + 1 == d->round;
        behind = j->behind;
        if (!try_start(d, job, few ? d->freed : NULL, (size_t)freed, &started)) return false;
        if (started) continue;
        j->tried = d->round;
        seen++;
    }
    return true;
}

static bool come(day *d, int32_t job) {
    pl_day_job *j = &d->jobs[job];
    bool started;
    if (j->done) return true;
    if (!pl_day_cards_fit(d->cards, job)) {
        j->alone = true;
        d->o->alone++;
    }
    enqueue(d, job);
    if (d->waiting > window_of(d)) return true;
    if (!try_start(d, job, NULL, 0, &started)) return false;
    if (!started) j->tried = d->round;
    return true;
}

/* ---- what happens ---- */

static bool end(day *d, int32_t job) {
    int32_t freed;
    d->jobs[job].done = true;
    return stop(d, job, &freed) && serve(d, freed);
}

static bool crash(day *d, int32_t job) {
    pl_day_job *j = &d->jobs[job];
    int32_t freed;
    d->o->crashes++;
    d->o->lost_hours += (d->now - j->start) * j->gpus / 3600;
    if (!stop(d, job, &freed)) return false;
    j->crashes++;
    if (j->crashes >= d->settings->crashes && !j->alone) {
        j->alone = true;
        d->o->alone++;
    }
    enqueue(d, job);
    return serve(d, freed);
}

static bool peak(day *d, int32_t job) {
    pl_day_job *j = &d->jobs[job];
    for (int32_t k = 0; k < j->gpus; k++) {
        const pl_day_card *card = pl_day_cards_at(d->cards, j->cards[k]);
        if (card->held + j->truth > card->usable) return crash(d, job);
    }
    for (int32_t k = 0; k < j->gpus; k++) {
        const pl_day_card *card = pl_day_cards_at(d->cards, j->cards[k]);
        pl_day_cards_hold(d->cards, j->cards[k], j->truth);
        d->sums.bytes += j->truth;
        if (card->held > (double)d->o->most_held_bytes) d->o->most_held_bytes = (int64_t)card->held;
        if (card->held - card->usable > (double)d->o->most_over_bytes)
            d->o->most_over_bytes = (int64_t)(card->held - card->usable);
    }
    j->at_peak = true;
    return true;
}

static void pass_to(day *d, double time) {
    d->now = fmax(d->now, time);
    pl_day_sums_go(&d->sums, d->now);
}

static pl_status run(day *d) {
    enum { POLL = 4096 };
    for (size_t turns = 1;; turns++) {
        const event *e = soonest(d);
        bool all = d->next == d->job_count;
        if (turns % POLL == 0 && !pl_budget_poll(&d->budget))
            return pl_budget_fail(d->err, &d->budget, NULL);
        if (!e && all) break;
        bool well;
        if (!e || (!all && d->jobs[d->next].submit < e->time)) {
            pass_to(d, d->jobs[d->next].submit);
            well = come(d, (int32_t)d->next++);
        } else {
            event now = *e;
            pop(d);
            pass_to(d, now.time);
            well = now.kind == ENDS ? end(d, now.job) : peak(d, now.job);
        }
        if (!well) return no_memory(d);
    }
    return d->waiting == 0 ? PL_OK
                           : pl_fail(d->err, PL_USAGE, NULL, -1, "%lld jobs wait for ever",
                                     (long long)d->waiting);
}

/* ---- open ---- */

static pl_status check(const pl_day_settings *s, pl_error *err) {
    const struct {
        const char *name;
        bool right;
        const char *expected;
    } rules[] = {
        {"risk", s->risk >= 1e-6 && s->risk <= 0.5, "a chance from 0.000001 to 0.5"},
        {"most_slowdown", s->most_slowdown >= 1, "1 or more"},
        {"most_jobs", s->most_jobs >= 0, "0 or more"},
        {"backfill", s->backfill >= 1 && s->backfill <= 100000, "from 1 to 100000"},
        {"patience_s", s->patience_s >= 0, "0 or more"},
        {"peak_s", s->peak_s >= 0 && s->peak_s < 1e9, "seconds from 0 on"},
        {"crashes", s->crashes >= 1 && s->crashes <= 1000, "from 1 to 1000"},
        {"guess_whole", s->guess_whole >= 0 && s->guess_whole <= 1, "a chance"},
        {"guess_low", s->guess_low >= 0 && s->guess_low <= 1, "a chance"},
        {"guess_low", s->guess_low + s->guess_whole <= 1, "no more than 1 with guess_whole"},
        {"guess_spare", s->guess_spare >= 1 && s->guess_spare <= 1000, "from 1 to 1000"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!rules[i].right)
            return pl_fail(err, PL_USAGE, rules[i].name, -1, "expected %s", rules[i].expected);
    return pl_limits_check(s->limits, err);
}

static pl_status policy_of(pl_day_policy *policy, int *by, const char *name, const pl_sizes *sizes,
                           pl_error *err) {
    static const char *const names[] = {"exclusive", "requested", "oracle"};
    for (int i = 0; i < DAY_ESTIMATOR; i++)
        if (strcmp(name, names[i]) == 0) {
            *policy = (pl_day_policy)i;
            return PL_OK;
        }
    *policy = DAY_ESTIMATOR;
    *by = pl_sizes_find(sizes, name);
    if (*by >= 0) return PL_OK;
    return pl_fail(
        err, PL_USAGE, "policy", -1,
        "%.60s is none of exclusive, requested, oracle, and the sizes have no estimates of "
        "that name",
        name);
}

static pl_status simulate(pl_day *out, const pl_cluster *cluster, const pl_arrivals *trace,
                          pl_sizes *sizes, const pl_day_settings *s, pl_error *err) {
    day d = {.o = &out->outcome, .settings = s, .first = -1, .last = -1, .round = 1, .err = err};
    pl_day_policy policy;
    int by = 0;
    double most = 0, usable = 0;
    pl_status status = policy_of(&policy, &by, out->policy, sizes, err);
    if (status != PL_OK) return status;
    for (size_t i = 0; i < cluster->count; i++) {
        double has = (double)pl_card_usable(&cluster->cards[i]);
        most = fmax(most, has);
        usable += has;
    }
    pl_budget_start(&d.budget, s->limits);
    status = pl_day_jobs_make(&d.jobs, d.o, trace, sizes, s, most, cluster, err);
    if (status != PL_OK) return status;
    d.job_count = trace->count;
    pl_day_sums_start(&d.sums, trace->jobs[trace->count - 1].submit_s / DAY_POINTS);
    d.chosen = malloc(cluster->count * sizeof *d.chosen);
    d.freed = malloc(cluster->count * sizeof *d.freed);
    status = d.chosen && d.freed
                 ? pl_day_cards_open(&d.cards, cluster, sizes, d.jobs, policy, by, s, err)
                 : no_memory(&d);
    d.o->intervals = policy == DAY_ESTIMATOR && sizes->intervals[by];
    if (status == PL_OK) status = run(&d);
    if (status == PL_OK) {
        d.o->unknown_pairs = pl_day_cards_unknown(d.cards);
        status = pl_day_figures(d.o, out->points, &out->point_count, &d.sums, d.jobs, d.job_count,
                                cluster->count, usable, err);
    }
    for (size_t i = 0; i < d.job_count; i++)
        if (d.jobs[i].cards && d.jobs[i].cards != &d.jobs[i].one) free(d.jobs[i].cards);
    pl_day_cards_close(&d.cards);
    free(d.jobs);
    free(d.heap);
    free(d.chosen);
    free(d.freed);
    return status;
}

pl_status pl_day_open(pl_day **out, const pl_cluster *cluster, const pl_arrivals *trace,
                      pl_sizes *sizes, const char *policy, const pl_day_settings *settings,
                      pl_error *err) {
    pl_day_settings s;
    int64_t begin = pl_now_us();
    *out = NULL;
    pl_day_settings_default(&s);
    if (settings && !PL_SIZED_OK(settings, limits))
        return pl_fail(err, PL_USAGE, "settings", -1, "a struct whose size is not set");
    if (settings) pl_sized_read(&s, sizeof s, settings, settings->size);
    pl_status status = check(&s, err);
    if (status != PL_OK) return status;
    if (!policy || strlen(policy) >= sizeof(*out)->policy)
        return pl_fail(err, PL_USAGE, "policy", -1, "expected the name of a policy");
    pl_day *day = calloc(1, sizeof *day);
    if (!day) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    memcpy(day->policy, policy, strlen(policy) + 1);
    day->outcome.policy = day->policy;
    status = simulate(day, cluster, trace, sizes, &s, err);
    day->outcome.elapsed_us = pl_now_us() - begin;
    if (status == PL_OK)
        *out = day;
    else
        pl_day_close(&day);
    return status;
}

void pl_day_close(pl_day **day) {
    if (!day || !*day) return;
    free(*day);
    *day = NULL;
}

const pl_day_outcome *pl_day_describe(const pl_day *day) {
    return &day->outcome;
}

const pl_day_point *pl_day_at(const pl_day *day, size_t index) {
    return index < day->point_count ? &day->points[index] : NULL;
}
