/* cost: that the price of a call behaves as a card does: more work takes no less time, nothing is
 * faster than the card's rates or than a launch, a faster card is not slower, shares are shares,
 * and sizes out of all reason give numbers all the same. Exactness is judged by tools/calibrate. */
#include "device/cost.h"
#include "check.h"

#include <math.h>

static const pl_work_kind moving[] = {
    PL_WORK_POINTWISE, PL_WORK_COPY, PL_WORK_FILL,   PL_WORK_REDUCE, PL_WORK_SOFTMAX,
    PL_WORK_NORM,      PL_WORK_POOL, PL_WORK_GATHER, PL_WORK_SORT,   PL_WORK_FOREACH};
enum { MOVING = sizeof moving / sizeof *moving };

static const pl_gpu *h200(void) {
    return pl_gpu_find("h200");
}

static pl_cost priced(const pl_work *call, const pl_gpu *gpu, bool tf32) {
    pl_cost cost;
    pl_cost_of(&cost, call, gpu, tf32);
    return cost;
}

static bool share(double value) {
    return value >= 0 && value <= 1;
}

static bool sound(const pl_cost *cost) {
    return isfinite(cost->us) && cost->us >= 0 && share(cost->active) && share(cost->occupied) &&
           share(cost->dram) && share(cost->tensor) && cost->occupied <= cost->active + 1e-9;
}

static pl_work bytes_of(pl_work_kind kind, double bytes) {
    return (pl_work){.kind = (uint8_t)kind,
                     .dtype = PL_DT_F32,
                     .launches = 1,
                     .tensors = 1,
                     .read = bytes,
                     .written = bytes};
}

static pl_work product_of(int64_t rows, int64_t columns, int64_t depth, pl_dtype dtype) {
    double size = dtype == PL_DT_F32 ? 4 : 2;
    double m = (double)rows, n = (double)columns, k = (double)depth;
    return (pl_work){.kind = PL_WORK_PRODUCT,
                     .dtype = (uint8_t)dtype,
                     .launches = 1,
                     .rows = rows,
                     .columns = columns,
                     .depth = depth,
                     .count = 1,
                     .flops = 2 * m * n * k,
                     .read = (m * k + n * k) * size,
                     .written = m * n * size};
}

static pl_conv conv_of(int64_t batch, int64_t in, int64_t out, int64_t groups, int64_t side,
                       int64_t kernel) {
    return (pl_conv){.dims = 2,
                     .batch = batch,
                     .in_channels = in,
                     .out_channels = out,
                     .groups = groups,
                     .in = {side, side},
                     .kernel = {kernel, kernel},
                     .stride = {1, 1},
                     .padding = {kernel / 2, kernel / 2},
                     .dilation = {1, 1},
                     .out = {side, side},
                     .dtype = PL_DT_BF16,
                     .tf32 = true};
}

static pl_work of_conv(const pl_conv *conv, pl_pass pass) {
    double in = (double)(conv->batch * conv->in_channels * conv->in[0] * conv->in[1]) * 2;
    double out = (double)(conv->batch * conv->out_channels * conv->out[0] * conv->out[1]) * 2;
    return (pl_work){.kind = PL_WORK_CONVOLUTION,
                     .pass = (uint8_t)pass,
                     .dtype = PL_DT_BF16,
                     .launches = 1,
                     .read = in,
                     .written = out,
                     .shape = conv};
}

/* Twice the bytes never take less time, by any kind, type of pass or layout; and past what the
 * cache holds they take nearly twice as long. */
static void more_bytes_take_longer(void) {
    for (int k = 0; k < MOVING; k++)
        for (int pass = 0; pass < PL_PASSES; pass++)
            for (int strided = 0; strided < 2; strided++) {
                double before = 0;
                for (double bytes = 4; bytes < 1e11; bytes *= 2) {
                    pl_work call = bytes_of(moving[k], bytes);
                    call.pass = (uint8_t)pass;
                    call.strided = strided;
                    pl_cost cost = priced(&call, h200(), false);
                    CHECK(sound(&cost));
                    CHECK(cost.us >= before * (1 - 1e-9));
                    if (bytes > 1e9) CHECK(cost.us > before * 1.8 && cost.us < before * 2.2);
                    before = cost.us;
                }
            }
}

static void more_flops_take_longer(void) {
    static const pl_dtype types[] = {PL_DT_F32, PL_DT_BF16, PL_DT_F16};
    for (int t = 0; t < 3; t++)
        for (int which = 0; which < 3; which++) { /* rows, columns, depth */
            double before = 0;
            for (int64_t size = 8; size <= 1 << 17; size *= 2) { /* less: rows not aligned */
                pl_work call = product_of(which == 0 ? size : 512, which == 1 ? size : 512,
                                          which == 2 ? size : 512, types[t]);
                pl_cost cost = priced(&call, h200(), false);
                CHECK(sound(&cost));
                CHECK(cost.us >= before * 0.85); /* other kernels win at other sizes */
                before = cost.us;
            }
        }
}

/* No launch is free, none reads faster than the memory once the cache is too small, no product is
 * faster than its unit. */
static void floors(void) {
    for (int k = 0; k < MOVING; k++) {
        pl_work small = bytes_of(moving[k], 4), large = bytes_of(moving[k], 4e9);
        CHECK(priced(&small, h200(), false).us >= 0.6);
        CHECK(priced(&small, h200(), false).us < 100);
        pl_cost cost = priced(&large, h200(), false);
        CHECK(cost.us >= 8e9 / (h200()->bandwidth_gbps * 1e3));
        small.launches = 10;
        if (moving[k] == PL_WORK_POINTWISE || moving[k] == PL_WORK_FOREACH)
            CHECK(priced(&small, h200(), false).us >= 6);
    }
    pl_work call = product_of(1, 1, 1, PL_DT_F32);
    CHECK(priced(&call, h200(), false).us >= 1);
    call = product_of(8192, 8192, 8192, PL_DT_BF16);
    pl_cost cost = priced(&call, h200(), false);
    double peak = call.flops / (h200()->bf16_tflops * 1e6);
    CHECK(cost.us > peak && cost.us < peak * 2);
    CHECK(cost.tensor > 0.5);
    call.dtype = PL_DT_F32;
    cost = priced(&call, h200(), false);
    CHECK(cost.us > call.flops / (h200()->fp32_tflops * 1e6));
    CHECK(cost.tensor == 0);
    CHECK(priced(&call, h200(), true).us < cost.us / 3);
}

static void views_are_free(void) {
    pl_work call = {.kind = PL_WORK_VIEW, .launches = 0, .read = 1e6};
    CHECK(priced(&call, h200(), false).us == 0);
    call = bytes_of(PL_WORK_POINTWISE, 1e6);
    call.launches = 0;
    CHECK(priced(&call, h200(), false).us == 0);
}

/* Every card of the catalogue: large work in proportion to its rates. */
static void cards_scale(void) {
    pl_work copy = bytes_of(PL_WORK_POINTWISE, 4e9),
            matrix = product_of(16384, 16384, 4096, PL_DT_F32);
    double copy_us = priced(&copy, h200(), false).us,
           product_us = priced(&matrix, h200(), false).us;
    const pl_gpu *gpu;
    for (size_t i = 0; (gpu = pl_gpu_at(i)); i++) {
        double ratio = h200()->bandwidth_gbps / gpu->bandwidth_gbps;
        double slower = priced(&copy, gpu, false).us / copy_us / ratio;
        /* of MIG's smallest instances some have memory whose rate their multiprocessors cannot use */
        bool few = strstr(gpu->name, "-1g.") != NULL;
        CHECK(slower > 0.9 && slower < (few ? 1.4 : 1.1));
        ratio = h200()->fp32_tflops / gpu->fp32_tflops;
        double got = priced(&matrix, gpu, false).us / product_us / ratio;
        CHECK(got > 0.7 && got < 1.4);                        /* waves end differently */
        pl_work half = product_of(512, 512, 512, PL_DT_BF16); /* some have no such unit */
        pl_cost cost = priced(&half, gpu, true);
        CHECK(sound(&cost) && cost.us > 0);
    }
}

static void convolutions(void) {
    pl_conv one = conv_of(32, 64, 64, 1, 56, 3), two = conv_of(64, 64, 64, 1, 56, 3);
    pl_conv depthwise = conv_of(32, 64, 64, 64, 56, 3);
    for (int pass = 0; pass < PL_PASSES; pass++) {
        pl_work a = of_conv(&one, (pl_pass)pass), b = of_conv(&two, (pl_pass)pass),
                c = of_conv(&depthwise, (pl_pass)pass);
        pl_cost cost = priced(&a, h200(), false), twice = priced(&b, h200(), false),
                deep = priced(&c, h200(), false);
        CHECK(sound(&cost) && sound(&twice) && sound(&deep));
        CHECK(cost.us > 2 && twice.us > cost.us && twice.us < cost.us * 2.5);
        double flops = 2.0 * 32 * 56 * 56 * 64 * 64 * 9;
        CHECK(cost.us > flops / (h200()->bf16_tflops * 1e6));
        CHECK(deep.tensor <= cost.tensor);
    }
}

static void attention_and_recurrent(void) {
    pl_attention at = {.backend = PL_ATTENTION_CUDNN,
                       .batch = 8,
                       .heads = 16,
                       .kv_heads = 16,
                       .queries = 1024,
                       .keys = 1024,
                       .head = 64,
                       .value_head = 64,
                       .dtype = PL_DT_BF16};
    double tensor = 8.0 * 16 * 1024 * 64 * 2;
    pl_work call = {.kind = PL_WORK_ATTENTION,
                    .dtype = PL_DT_BF16,
                    .launches = 1,
                    .read = 3 * tensor,
                    .written = tensor,
                    .shape = &at};
    pl_cost forward = priced(&call, h200(), false);
    call.pass = PL_PASS_BACKWARD;
    pl_cost backward = priced(&call, h200(), false);
    CHECK(sound(&forward) && sound(&backward) && backward.us > forward.us * 1.5);
    at.causal = true;
    CHECK(priced(&call, h200(), false).us < backward.us);
    at.causal = false;
    at.queries = at.keys = 4096;
    CHECK(priced(&call, h200(), false).us > backward.us * 8);

    pl_rnn rnn = {.mode = PL_RNN_LSTM,
                  .layers = 1,
                  .directions = 1,
                  .batch = 32,
                  .seq = 128,
                  .input = 256,
                  .hidden = 256,
                  .training = true,
                  .dtype = PL_DT_F32};
    call = (pl_work){.kind = PL_WORK_RECURRENT, .dtype = PL_DT_F32, .launches = 1, .shape = &rnn};
    pl_cost one = priced(&call, h200(), false);
    rnn.seq = 256;
    pl_cost longer = priced(&call, h200(), false);
    CHECK(sound(&one) && sound(&longer) && longer.us > one.us * 1.5 && longer.us < one.us * 2.5);
    rnn.layers = 2;
    CHECK(priced(&call, h200(), false).us > longer.us * 1.5);
}

/* Whatever the numbers: no NAN, no infinity, shares within bounds. */
static void hostile_sizes(void) {
    static const double doubles[] = {0, -1, 1, 1e300, INFINITY, -INFINITY, NAN, 1e18};
    static const int64_t ints[] = {0, -1, 1, 3, INT64_MAX, INT64_MIN, 1 << 20};
    enum { DOUBLES = 8, INTS = 7 };
    for (int kind = 0; kind < PL_WORK_KINDS; kind++)
        for (int i = 0; i < DOUBLES * INTS * 3; i++) {
            int64_t v = ints[i % INTS], w = ints[i / 3 % INTS];
            double d = doubles[i % DOUBLES];
            pl_conv conv = conv_of(v, w, v, i % 2 ? v : 1, w, v);
            conv.dims = i % 5;
            pl_attention at = {
                .batch = v, .heads = w, .queries = v, .keys = w, .head = v, .dtype = PL_DT_F32};
            pl_rnn rnn = {.mode = (pl_rnn_mode)(i % 6),
                          .layers = v,
                          .batch = w,
                          .seq = v,
                          .input = w,
                          .hidden = v};
            pl_work call = {.kind = (uint8_t)kind,
                            .pass = (uint8_t)(i % PL_PASSES),
                            .dtype = (uint8_t)(i % 15),
                            .launches = i % 7 == 0   ? INT32_MAX
                                        : i % 7 == 1 ? -1
                                                     : 1,
                            .tensors = (int32_t)(i % 3) - 1,
                            .flops = d,
                            .read = d,
                            .written = doubles[i / 2 % DOUBLES],
                            .rows = v,
                            .columns = w,
                            .depth = v,
                            .count = w};
            for (int shaped = 0; shaped < 2; shaped++) {
                if (shaped)
                    call.shape = kind == PL_WORK_CONVOLUTION ? (const void *)&conv
                                 : kind == PL_WORK_ATTENTION ? (const void *)&at
                                 : kind == PL_WORK_RECURRENT ? (const void *)&rnn
                                                             : NULL;
                pl_cost cost = priced(&call, h200(), i & 1);
                if (!sound(&cost)) {
                    CHECK(sound(&cost));
                    printf("    kind %d, case %d: %g us %g %g %g %g\n", kind, i, cost.us,
                           cost.active, cost.occupied, cost.dram, cost.tensor);
                    return;
                }
            }
        }
}

/* Time goes by the record's class, whatever it is called. */
static void kernels_go_by_their_class(void) {
    const struct {
        pl_work_kind kind;
        pl_pass pass;
        pl_kernel_class class;
    } rows[] = {{PL_WORK_NORM, PL_PASS_FORWARD, PL_KERNEL_BATCH_NORM},
                {PL_WORK_NORM, PL_PASS_BACKWARD, PL_KERNEL_BATCH_NORM_NATIVE},
                {PL_WORK_NORM, PL_PASS_BACKWARD, PL_KERNEL_GROUP_NORM},
                {PL_WORK_POOL, PL_PASS_BACKWARD, PL_KERNEL_MAX_POOL},
                {PL_WORK_GATHER, PL_PASS_BACKWARD, PL_KERNEL_EMBEDDING},
                {PL_WORK_POINTWISE, PL_PASS_BACKWARD, PL_KERNEL_NLL_LOSS},
                {PL_WORK_FILL, PL_PASS_FORWARD, PL_KERNEL_RANDOM},
                {PL_WORK_FOREACH, PL_PASS_FORWARD, PL_KERNEL_FUSED}};
    const char *const names[] = {"aten.batch_norm.default",
                                 "NativeBatchNormBackward0",
                                 "NativeGroupNormBackward0",
                                 "aten.max_pool2d.default",
                                 "EmbeddingBackward0",
                                 "NllLossBackward0",
                                 "aten.normal_.default",
                                 "adamw-fused",
                                 NULL};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_work call = bytes_of(rows[i].kind, 64e6);
        call.pass = (uint8_t)rows[i].pass;
        call.rows = 4096;
        call.columns = 4096;
        call.tensors = 100;
        pl_cost plain = priced(&call, h200(), false);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            call.what = names[k];
            CHECK(priced(&call, h200(), false).us == plain.us);
        }
        call.class = (uint8_t)rows[i].class;
        CHECK(priced(&call, h200(), false).us != plain.us);
    }
}

/* A cache of unknown size holds nothing: no time is less than that of a card that has one. */
static void an_unknown_cache_holds_nothing(void) {
    pl_gpu without = *h200();
    without.l2_mib = NAN;
    for (double bytes = 1e5; bytes < 1e9; bytes *= 10) {
        pl_work call = bytes_of(PL_WORK_POINTWISE, bytes);
        pl_cost cost = priced(&call, &without, false);
        CHECK(sound(&cost));
        CHECK(cost.us >= priced(&call, h200(), false).us);
    }
}

int main(void) {
    RUN(more_bytes_take_longer);
    RUN(more_flops_take_longer);
    RUN(floors);
    RUN(views_are_free);
    RUN(kernels_go_by_their_class);
    RUN(an_unknown_cache_holds_nothing);
    RUN(cards_scale);
    RUN(convolutions);
    RUN(attention_and_recurrent);
    RUN(hostile_sizes);
    return check_done();
}
