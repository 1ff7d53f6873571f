/* schedule: see schedule.h.
 *
 * PyTorch issues kernels without waiting for them: the host's clock runs on by what each call costs
 * it (host.c), a kernel begins when it has been issued and the one before it has ended. What reads
 * a value back, and copies from memory that is not pinned, make the host wait. The step is walked
 * twice, since the host may be a part of a step ahead; the second walk's length is the step's.
 *
 * Left out: several streams, the limit of launches in the queue (1,024), clocks. */
#include "device/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "device/host.h"

/* Between two kernels of one stream when the second waits in the queue, microseconds. */
static const double gap_us = 0.9;

/* ---- costs, remembered: layers repeat ---- */

enum { REMEMBERED = 2048 };

typedef struct remembered {
    const pl_work *calls[REMEMBERED]; /* NULL: none yet, and what follows is not set */
    pl_cost costs[REMEMBERED];
    double host[REMEMBERED];
} remembered;

static bool alike(const pl_work *a, const pl_work *b) {
    return a->kind == b->kind && a->class == b->class && a->pass == b->pass &&
           a->dtype == b->dtype && a->phase == b->phase && a->first == b->first &&
           a->enters == b->enters && a->strided == b->strided && a->biased == b->biased &&
           a->hooks == b->hooks && a->launches == b->launches && a->tensors == b->tensors &&
           a->read == b->read && a->written == b->written && a->rows == b->rows &&
           a->columns == b->columns && a->depth == b->depth && a->count == b->count &&
           a->transposed[0] == b->transposed[0] && a->transposed[1] == b->transposed[1] &&
           a->shape == b->shape && a->what == b->what && a->flops == b->flops;
}

static size_t place_of(const pl_work *c) {
    uint64_t words[4], hash = (uint64_t)c->kind * 31 + c->pass * 7 + c->first + 2u * c->enters;
    memcpy(&words[0], &c->read, 8);
    memcpy(&words[1], &c->written, 8);
    words[2] = (uint64_t)(uintptr_t)c->what + (uint64_t)(uintptr_t)c->shape;
    words[3] = (uint64_t)c->rows * 1000003 + (uint64_t)c->depth + (uint64_t)c->launches;
    for (int i = 0; i < 4; i++) { /* doubles have their bits at the top: folded down each time */
        hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return (size_t)hash % REMEMBERED;
}

/* ---- the walk ---- */

typedef struct clocks {
    double host, device;
} clocks;

/* The kernels of one record are issued evenly over the host's time for it. */
static void advance(clocks *c, const pl_work *call, double device_us, double host_us) {
    double begin = c->host;
    c->host += host_us;
    if (call->launches) {
        if (call->waits && call->kind == PL_WORK_TRANSFER && c->device > c->host)
            begin = c->host = c->device;
        double each = host_us / call->launches, start = begin + each;
        if (call->kind == PL_WORK_TRANSFER) start = c->host;
        if (c->device > start) start = c->device;
        double end = start + device_us + gap_us * call->launches,
               issued = c->host + device_us / call->launches;
        c->device = end > issued ? end : issued;
    }
    if (call->waits && c->device > c->host) c->host = c->device;
}

static double last(const clocks *c) {
    return c->host > c->device ? c->host : c->device;
}

/* One step's time by a host. times: [call] {card's or copy's, host's} microseconds, at the speed of
 * 1 and the rate in copy_gbps. */
static double walk(const pl_tape *tape, float (*times)[2], double copy_gbps,
                   const pl_host_rates *host) {
    clocks c = {0};
    double ends[2] = {0}, copies = copy_gbps / host->copy_gbps;
    if (!(copies >= 0)) copies = 1; /* both are ready when the step begins */
    for (int turn = 0; turn < 2; turn++) {
        c.host += pl_host_step_us() / host->speed;
        for (size_t i = 0; i < tape->call_count; i++) {
            const pl_work *call = &tape->calls[i];
            double by = call->kind == PL_WORK_TRANSFER ? copies : 1;
            advance(&c, call, (double)times[i][0] * by, (double)times[i][1] / host->speed);
        }
        ends[turn] = last(&c);
    }
    return ends[1] - ends[0];
}

/* What was told of the host, the rest as given. */
static pl_host_rates host_of(const pl_schedule_settings *settings, pl_host_rates other) {
    if (settings->host_speed > 0) other.speed = settings->host_speed;
    if (settings->copy_gbps > 0) other.copy_gbps = settings->copy_gbps;
    return other;
}

bool pl_schedule_of(pl_schedule *out, const pl_tape *tape, const pl_gpu *gpu,
                    const pl_schedule_settings *settings) {
    const pl_host_rates host = host_of(settings, pl_hosts_measured.usual);
    *out = (pl_schedule){.host = host};
    remembered *known = malloc(sizeof *known);
    if (known) memset(known->calls, 0, sizeof known->calls);
    pl_arena *scratch = pl_arena_new(pl_arena_budget(tape->arena));
    float(*times)[2] =
        scratch ? pl_arena_array(scratch, tape->call_count + 1, sizeof *times) : NULL;
    bool ready = known && times;
    for (size_t i = 0; ready && i < tape->call_count; i++) {
        const pl_work *call = &tape->calls[i];
        size_t at = place_of(call);
        if (!known->calls[at] || !alike(known->calls[at], call)) {
            known->calls[at] = call;
            known->costs[at] = (pl_cost){0};
            if (call->kind == PL_WORK_TRANSFER)
                known->costs[at].us = pl_host_transfer_us(call->read, host.copy_gbps);
            else if (call->launches)
                pl_cost_of(&known->costs[at], call, gpu, settings->tf32);
            known->host[at] = pl_host_us(call);
        }
        const pl_cost *cost = &known->costs[at];
        double host_us = known->host[at] / host.speed;
        times[i][0] = (float)cost->us;
        times[i][1] = (float)known->host[at];
        out->host_us += host_us;
        out->flops[call->phase] += call->flops;
        out->counted += call->counted;
        if (call->kind == PL_WORK_TRANSFER) {
            out->transfer_us += cost->us;
        } else {
            out->device_us += cost->us;
            out->moved += call->read + call->written;
            out->launches += call->launches;
        }
        out->kinds_us[call->kind] += cost->us;
        out->waits += call->waits;
        out->active += cost->us * cost->active;
        out->occupied += cost->us * cost->occupied;
        out->dram += cost->us * cost->dram;
        out->tensor += cost->us * cost->tensor;
        if (settings->see) settings->see(settings->context, call, cost->us, host_us);
    }
    out->host_us += pl_host_step_us() / host.speed;
    if (ready) {
        const pl_host_rates slow = host_of(settings, pl_hosts_measured.slow),
                            fast = host_of(settings, pl_hosts_measured.fast);
        bool told = settings->host_speed > 0 && settings->copy_gbps > 0;
        out->step_us = walk(tape, times, host.copy_gbps, &host);
        out->slow_us = told ? out->step_us : walk(tape, times, host.copy_gbps, &slow);
        out->fast_us = told ? out->step_us : walk(tape, times, host.copy_gbps, &fast);
    }
    double *shares[] = {&out->active, &out->occupied, &out->dram, &out->tensor};
    for (int i = 0; i < 4; i++) *shares[i] = out->step_us > 0 ? *shares[i] / out->step_us : 0;
    pl_arena_free(&scratch);
    free(known);
    return ready;
}
