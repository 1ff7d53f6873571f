/* queues: see queues.h.
 *
 * In time slices (NVIDIA's default for processes that share a card) kernels of two processes never
 * run at once. A process that has nothing to run gives the card away at once; one that has work
 * keeps it until its slice is over if another waits; of several that wait, the next in a fixed order gets it. A host-bound loop therefore lives in the
 * gaps of another; two device-bound ones take turns. The host goes on issuing while its kernels
 * wait, and meets the delay where it waits for the card: at the copies of the next batch, which are
 * made from pageable memory and need the card themselves. Under MPS kernels of both run at once,
 * each at a pace that the caller knows.
 *
 * Intervals between issues vary by half, repeatably: equal loops would else fall into step. Left
 * out: that the host waits where thousands of launches are pending, or reads a value in mid-step;
 * copies in each other's way; hosts in each other's way. */
#include "decide/queues.h"

#include <math.h>
#include <stdint.h>

/* A step's kernels are put together into at most so many; events followed; steps that suffice. */
enum { MOST_KERNELS = 200, MOST_EVENTS = 60000, ENOUGH_STEPS = 16 };
static const double trip_ms = 0.005; /* a small copy */

void pl_queue_of(pl_queue *out, double step_ms, double device_ms, double host_ms, double launches) {
    double kernels = launches >= 1 ? floor(fmin(launches, MOST_KERNELS)) : 1;
    double device = fmin(device_ms, step_ms), host = fmin(host_ms, step_ms);
    double kernel = device / kernels, copy;
    /* The last kernel ends with the step: it was issued before, or runs after the others. */
    if (host > device) {
        copy = fmax(0, step_ms - host - kernel);
        host = step_ms - copy - kernel;
    } else {
        copy = fmax(0, step_ms - device - host / kernels);
        host = fmin(host, (step_ms - copy - device) * kernels);
    }
    *out = (pl_queue){copy, fmax(0, host / kernels), kernel, (int)kernels};
}

static double alone_ms(const pl_queue *q) {
    return q->copy + fmax(q->gap * q->kernels + q->kernel, q->gap + q->kernel * q->kernels);
}

typedef struct loop {
    const pl_queue *is;
    double issue_at; /* of the next kernel or trip */
    double left;     /* of the kernel that runs or is the next to */
    int issued, done;
    int trips;     /* still to be made before kernels are issued */
    double passed; /* kernels since the first step ended; -1: not yet */
    double since, until;
    uint32_t dice;
} loop;

static double varied(loop *l) {
    l->dice = l->dice * 1664525u + 1013904223u;
    return l->is->gap * (0.5 + (double)(l->dice >> 8) / 16777216.0);
}

static void issue(loop *l, double now) {
    while (l->trips == 0 && l->issued < l->is->kernels && l->issue_at <= now) {
        l->issued++;
        l->issue_at += varied(l);
    }
}

static void begin_step(loop *l, double now, int trips) {
    l->trips = trips;
    l->done = l->issued = 0;
    l->left = trips ? trip_ms : l->is->kernel;
    l->issue_at = now + l->is->copy / (trips ? trips : 1) + (trips ? 0 : varied(l));
}

/* The kernel or trip that ran is over. */
static void finish(loop *l, double now, int trips) {
    if (l->trips > 0) {
        bool more = --l->trips > 0;
        l->left = more ? trip_ms : l->is->kernel;
        l->issue_at = now + (more ? l->is->copy / trips : varied(l));
        return;
    }
    l->left = l->is->kernel;
    if (l->passed >= 0) l->passed++, l->until = now;
    if (++l->done < l->is->kernels) return;
    if (l->passed < 0) l->passed = 0, l->since = l->until = now;
    begin_step(l, now, trips);
}

static bool has_work(const loop *l, double now) {
    return l->trips > 0 ? l->issue_at <= now : l->issued > l->done;
}

/* Loops that share a card. */
typedef struct sharing {
    int count;
    const double *full; /* NULL: two, whose paces the rules have */
    const pl_queue_rules *rules;
} sharing;

/* The card, one loop's after the other's. */
typedef struct turns {
    int owner;
    double free_at;   /* it has been given to the owner */
    double slice_end; /* INFINITY: no other waits */
} turns;

/* The next loop behind the owner that has work; -1: no other has. */
static int next_of(const turns *t, const bool *has, int count) {
    for (int i = 1; i < count; i++)
        if (has[(t->owner + i) % count]) return (t->owner + i) % count;
    return -1;
}

static void share_at_once(double *pace, const bool *has, const sharing *s) {
    double full = 0;
    for (int i = 0; s->full && i < s->count; i++) full += has[i] ? s->full[i] : 0;
    for (int i = 0; i < s->count; i++)
        pace[i] = !has[i] ? 0 : s->full ? 1 / fmax(1, full) : has[!i] ? s->rules->pace[i] : 1;
}

/* Whose kernel runs, and how fast. */
static void share(double *pace, turns *t, const bool *has, double now, const sharing *s) {
    const pl_queue_rules *rules = s->rules;
    if (rules->at_once) {
        share_at_once(pace, has, s);
        return;
    }
    for (int i = 0; i < s->count; i++) pace[i] = 0;
    int next = next_of(t, has, s->count);
    if (next < 0) t->slice_end = INFINITY;
    if (next >= 0 && (!has[t->owner] || now >= t->slice_end)) {
        t->owner = next;
        t->free_at = now + rules->turn;
        t->slice_end = INFINITY;
        next = next_of(t, has, s->count);
    }
    if (next >= 0 && t->slice_end == INFINITY) t->slice_end = fmax(now, t->free_at) + rules->slice;
    if (has[t->owner] && now >= t->free_at) pace[t->owner] = 1;
}

/* When something changes next; INFINITY: never. */
static double next_event(const loop *loops, const double *pace, const turns *t, const bool *has,
                         double now, int count) {
    double next = INFINITY;
    for (int i = 0; i < count; i++) {
        const loop *l = &loops[i];
        if (l->trips > 0 ? l->issue_at > now : l->issued < l->is->kernels)
            next = fmin(next, l->issue_at);
        if (pace[i] > 0) next = fmin(next, now + l->left / pace[i]);
    }
    if (has[t->owner] && now < t->free_at) next = fmin(next, t->free_at);
    return fmin(next, t->slice_end);
}

/* Mean steps of loops run together. Where not even one ended: by how far it came. */
static void follow(double *step, const pl_queue *queues, const sharing *s) {
    loop loops[PL_QUEUES_MOST];
    const pl_queue_rules *rules = s->rules;
    for (int i = 0; i < s->count; i++) {
        loops[i] = (loop){.is = &queues[i], .passed = -1, .dice = 12345};
        begin_step(&loops[i], 0, rules->trips);
    }
    turns t = {.slice_end = INFINITY};
    double now = 0;
    for (int events = 0; events < MOST_EVENTS; events++) {
        bool has[PL_QUEUES_MOST];
        double pace[PL_QUEUES_MOST];
        for (int i = 0; i < s->count; i++) has[i] = has_work(&loops[i], now);
        share(pace, &t, has, now, s);
        double next = next_event(loops, pace, &t, has, now, s->count);
        if (next == INFINITY) break;
        double passed = fmax(0, next - now);
        now = fmax(now, next);
        bool enough = true;
        for (int i = 0; i < s->count; i++) {
            loop *l = &loops[i];
            if (pace[i] > 0) l->left -= passed * pace[i];
            if (pace[i] > 0 && l->left <= 1e-9 * l->is->kernel + 1e-12)
                finish(l, now, rules->trips);
            issue(l, now);
            enough &= l->passed >= ENOUGH_STEPS * (double)l->is->kernels;
        }
        if (enough) break;
    }
    for (int i = 0; i < s->count; i++) {
        const loop *l = &loops[i];
        double came = (l->done + (l->trips ? 0 : 1 - l->left / l->is->kernel)) / l->is->kernels;
        double alone = l->is->copy + came * (alone_ms(l->is) - l->is->copy);
        step[i] = l->passed > 0 ? (l->until - l->since) / l->passed * l->is->kernels
                                : alone_ms(l->is) * now / alone;
    }
}

static double over_alone(double step, const pl_queue *loop) {
    double over = step / alone_ms(loop);
    return isfinite(over) ? fmax(1, over) : 1;
}

/* Whoever begins has the card first: the mean of both orders. */
void pl_queues_run(double slowdown[2], const pl_queue loops[2], const pl_queue_rules *rules) {
    pl_queue swapped[2] = {loops[1], loops[0]};
    pl_queue_rules other = *rules;
    other.pace[0] = rules->pace[1];
    other.pace[1] = rules->pace[0];
    double first[2], second[2];
    follow(first, loops, &(sharing){.count = 2, .rules = rules});
    follow(second, swapped, &(sharing){.count = 2, .rules = &other});
    for (int i = 0; i < 2; i++) slowdown[i] = over_alone((first[i] + second[!i]) / 2, &loops[i]);
}

/* The mean over who begins, the others behind it in their order. */
void pl_queues_run_many(double *slowdown, const pl_queue *loops, const double *full, int count,
                        const pl_queue_rules *rules) {
    double sum[PL_QUEUES_MOST] = {0}, step[PL_QUEUES_MOST], turned_full[PL_QUEUES_MOST];
    pl_queue turned[PL_QUEUES_MOST];
    for (int first = 0; first < count; first++) {
        for (int i = 0; i < count; i++) {
            turned[i] = loops[(first + i) % count];
            turned_full[i] = full[(first + i) % count];
        }
        follow(step, turned, &(sharing){count, turned_full, rules});
        for (int i = 0; i < count; i++) sum[(first + i) % count] += step[i] / count;
    }
    for (int i = 0; i < count; i++) slowdown[i] = over_alone(sum[i], &loops[i]);
}
