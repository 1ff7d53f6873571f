/* The walk of a step: the host's clock, the card's, and who waits for whom. Records are made by
 * hand; kernels' times are pl_cost_of's, whatever they are. */
#include "device/schedule.h"

#include <math.h>

#include "check.h"
#include "device/host.h"

enum { CALLS = 200 };

static pl_work calls[CALLS];

static pl_schedule walk_by(size_t count, double host_speed, double copy_gbps, bool *ok) {
    pl_tape tape = {.calls = calls, .call_count = count};
    pl_schedule s;
    *ok = pl_schedule_of(&s, &tape, pl_gpu_find("h200"),
                         &(pl_schedule_settings){.host_speed = host_speed, .copy_gbps = copy_gbps});
    return s;
}

static pl_schedule walk(size_t count, double host_speed, bool *ok) {
    return walk_by(count, host_speed, 20, ok);
}

/* count elementwise kernels of so many bytes each. */
static void fill(size_t count, double bytes) {
    for (size_t i = 0; i < count; i++)
        calls[i] = (pl_work){.what = "aten.relu.default",
                             .node = -1,
                             .kind = PL_WORK_POINTWISE,
                             .phase = PL_PHASE_FORWARD,
                             .dtype = PL_DT_F32,
                             .first = true,
                             .launches = 1,
                             .read = bytes,
                             .written = bytes,
                             .flops = bytes / 4};
}

static double host_of(size_t count) {
    double us = pl_host_step_us();
    for (size_t i = 0; i < count; i++) us += pl_host_us(&calls[i]);
    return us;
}

static void host_bound(void) {
    bool ok;
    fill(CALLS, 4096);
    pl_schedule s = walk(CALLS, 1, &ok);
    CHECK(ok);
    CHECK(s.launches == CALLS);
    CHECK(s.host_us > s.device_us);
    CHECK(fabs(s.host_us - host_of(CALLS)) < 0.01 * s.host_us);
    CHECK(fabs(s.step_us - s.host_us) < 0.02 * s.host_us); /* the card waits */
    CHECK(s.active < 0.5);
    pl_schedule fast = walk(CALLS, 2, &ok);
    CHECK(ok && fabs(fast.host_us - s.host_us / 2) < 0.01 * s.host_us);
    CHECK(fast.device_us == s.device_us);
    CHECK(fast.active > s.active);
}

static void device_bound(void) {
    bool ok;
    fill(CALLS, 1 << 28);
    pl_schedule s = walk(CALLS, 1, &ok);
    CHECK(ok && s.device_us > s.host_us);
    CHECK(s.step_us >= s.device_us && s.step_us < 1.05 * s.device_us);
    CHECK(s.active > 0.8 && s.active <= 1 && s.dram > 0.5 && s.dram <= 1);
    CHECK(s.moved == 2.0 * (1 << 28) * CALLS);
    pl_schedule fast = walk(CALLS, 4, &ok); /* a faster host changes nothing */
    CHECK(ok && fabs(fast.step_us - s.step_us) < 0.01 * s.step_us);
}

/* Half small, half large kernels: without a wait the host's part hides behind the card's. */
static void waits(void) {
    bool ok;
    fill(CALLS, 1 << 26);
    pl_schedule free_running = walk(CALLS, 1, &ok);
    calls[CALLS - 1].waits = true;
    pl_schedule waiting = walk(CALLS, 1, &ok);
    CHECK(waiting.waits == 1);
    CHECK(waiting.step_us > free_running.step_us);
    CHECK(waiting.step_us <= free_running.device_us + waiting.host_us + CALLS * 2.0);
}

static void nothing(void) {
    bool ok;
    pl_schedule s = walk(0, 1, &ok);
    CHECK(ok && s.launches == 0 && s.device_us == 0);
    CHECK(s.step_us == pl_host_step_us());
    CHECK(s.active == 0 && s.tensor == 0);
}

/* Costs are remembered: records that differ in anything that counts are not taken for each other.
 */
static void remembered(void) {
    bool ok;
    fill(CALLS, 4096);
    for (int i = 0; i < CALLS; i++) {
        if (i % 2) calls[i].hooks = 3;
        if (i % 3 == 0) calls[i].enters = 2;
        if (i % 5 == 0) calls[i].phase = PL_PHASE_BACKWARD;
        if (i % 7 == 0) calls[i].first = false;
    }
    pl_schedule s = walk(CALLS, 1, &ok);
    CHECK(ok && fabs(s.host_us - host_of(CALLS)) < 1e-3 * s.host_us);
}

static void transfers(void) {
    bool ok;
    calls[0] = (pl_work){.what = "inputs",
                         .node = -1,
                         .kind = PL_WORK_TRANSFER,
                         .phase = PL_PHASE_INPUT,
                         .dtype = PL_DT_F32,
                         .first = true,
                         .waits = true,
                         .launches = 1,
                         .read = 64e6};
    pl_schedule s = walk(1, 1, &ok);
    CHECK(ok && s.device_us == 0); /* copies are no kernels */
    CHECK(s.transfer_us == pl_host_transfer_us(64e6, 20) && s.transfer_us > 1000);
    CHECK(s.step_us >= s.transfer_us);
    CHECK(s.launches == 0);
}

/* Of a host that nobody told of: the usual one's step, and how long a slow one's and a fast one's is. */
static void hosts_that_nobody_told_of(void) {
    bool ok;
    const pl_host_spread *of = &pl_hosts_measured;
    fill(CALLS, 4096); /* bound by the host */
    calls[0].kind = PL_WORK_TRANSFER;
    calls[0].waits = true;
    calls[0].read = 6.4e6; /* a millisecond */
    pl_schedule any = walk_by(CALLS, PL_UNKNOWN, PL_UNKNOWN, &ok);
    CHECK(ok && any.host.speed == of->usual.speed && any.host.copy_gbps == of->usual.copy_gbps);
    CHECK(any.fast_us < any.step_us && any.step_us < any.slow_us);
    /* The ends are what the ends' hosts take. */
    pl_schedule slow = walk_by(CALLS, of->slow.speed, of->slow.copy_gbps, &ok),
                fast = walk_by(CALLS, of->fast.speed, of->fast.copy_gbps, &ok);
    CHECK(fabs(any.slow_us - slow.step_us) < 1e-3 * slow.step_us);
    CHECK(fabs(any.fast_us - fast.step_us) < 1e-3 * fast.step_us);
    CHECK(slow.slow_us == slow.step_us && slow.fast_us == slow.step_us); /* told: no spread */
    /* What was told of stays: the copies' rate alone differs. */
    pl_schedule half = walk_by(CALLS, 1, PL_UNKNOWN, &ok);
    CHECK(half.host.speed == 1 && half.slow_us - half.fast_us < any.slow_us - any.fast_us);
    CHECK(half.fast_us < half.step_us);
    /* Batches that are there when the step begins take nobody's time. */
    pl_schedule ready = walk_by(CALLS, 1, INFINITY, &ok);
    CHECK(ready.slow_us == ready.step_us && ready.transfer_us == 0);
    /* Bound by the card: whoever launches. */
    fill(CALLS, 512e6);
    pl_schedule busy = walk_by(CALLS, PL_UNKNOWN, PL_UNKNOWN, &ok);
    CHECK(busy.slow_us < 1.02 * busy.step_us && busy.fast_us > 0.98 * busy.step_us);
}

int main(void) {
    RUN(hosts_that_nobody_told_of);
    RUN(host_bound);
    RUN(device_bound);
    RUN(waits);
    RUN(nothing);
    RUN(remembered);
    RUN(transfers);
    return check_done();
}
