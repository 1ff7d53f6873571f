/* shim: src/device/cost.c for Python, a table of calls at a time.
 *
 * A call is a row of SHIM_COLUMNS numbers, in the order of `columns` in calls.py; out gets five
 * numbers per call: pl_cost's. Built and loaded by calls.py. */
#include "device/cost.h"
#include "device/cost_tables.h"

enum { SHIM_COLUMNS = 50, SHIM_SHAPE = 17 };

static pl_conv conv_of(const double *s, pl_dtype dtype) {
    pl_conv c = {.dims = (int)s[0],
                 .batch = (int64_t)s[1],
                 .in_channels = (int64_t)s[2],
                 .out_channels = (int64_t)s[3],
                 .groups = (int64_t)s[4],
                 .transposed = s[5] != 0,
                 .tf32 = s[6] != 0,
                 .channels_last = s[7] != 0,
                 .benchmark = s[8] != 0,
                 .dtype = dtype};
    for (int i = 0; i < 3; i++) {
        c.in[i] = (int64_t)s[9 + i];
        c.kernel[i] = (int64_t)s[12 + i];
        c.stride[i] = (int64_t)s[15 + i];
        c.padding[i] = (int64_t)s[18 + i];
        c.dilation[i] = (int64_t)s[21 + i];
        c.out[i] = (int64_t)s[24 + i];
    }
    return c;
}

void shim(const double *rows, long count, const char *card, double *out) {
    const pl_gpu *gpu = pl_gpu_find(card);
    for (long i = 0; i < count; i++, rows += SHIM_COLUMNS, out += 5) {
        const double *s = rows + SHIM_SHAPE;
        pl_dtype dtype = (pl_dtype)rows[2];
        pl_work call = {.kind = (uint8_t)rows[0],
                        .pass = (uint8_t)rows[1],
                        .dtype = (uint8_t)rows[2],
                        .strided = rows[3] != 0,
                        .transposed = {rows[4] != 0, rows[5] != 0},
                        .launches = (int32_t)rows[6],
                        .tensors = (int32_t)rows[7],
                        .biased = (int)rows[0] == PL_WORK_PRODUCT && rows[7] > 0,
                        .flops = rows[8],
                        .read = rows[9],
                        .written = rows[10],
                        .rows = (int64_t)rows[11],
                        .columns = (int64_t)rows[12],
                        .depth = (int64_t)rows[13],
                        .count = (int64_t)rows[14],
                        .class = (uint8_t)rows[15]};
        pl_conv conv;
        pl_attention attention;
        pl_rnn rnn;
        if (call.kind == PL_WORK_CONVOLUTION) {
            conv = conv_of(s, dtype);
            call.shape = &conv;
        } else if (call.kind == PL_WORK_ATTENTION) {
            attention = (pl_attention){.backend = (pl_attention_backend)s[0],
                                       .batch = (int64_t)s[1],
                                       .heads = (int64_t)s[2],
                                       .kv_heads = (int64_t)s[3],
                                       .queries = (int64_t)s[4],
                                       .keys = (int64_t)s[5],
                                       .head = (int64_t)s[6],
                                       .value_head = (int64_t)s[7],
                                       .causal = s[8] != 0,
                                       .dropout = s[9] != 0,
                                       .mask = s[10] != 0,
                                       .mask_gradient = s[11] != 0,
                                       .dtype = dtype};
            call.shape = &attention;
        } else if (call.kind == PL_WORK_RECURRENT) {
            rnn = (pl_rnn){.mode = (pl_rnn_mode)s[0],
                           .layers = (int64_t)s[1],
                           .directions = (int64_t)s[2],
                           .batch = (int64_t)s[3],
                           .seq = (int64_t)s[4],
                           .input = (int64_t)s[5],
                           .hidden = (int64_t)s[6],
                           .projection = (int64_t)s[7],
                           .bias = s[8] != 0,
                           .training = s[9] != 0,
                           .dropout = s[10],
                           .dtype = dtype};
            call.shape = &rnn;
        }
        pl_cost cost;
        pl_cost_of(&cost, &call, gpu, rows[16] != 0);
        out[0] = cost.us, out[1] = cost.active, out[2] = cost.occupied;
        out[3] = cost.dram, out[4] = cost.tensor;
    }
}
