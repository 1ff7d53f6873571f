/* cost: what one record of a step takes on a card.
 *
 * A roofline with floors. Products, and convolutions and recurrent layers as products, are cut into
 * tiles that the multiprocessors take in waves; the tile and the cut of the depth that end first
 * are assumed to be those that cuBLAS or cuDNN choose. Everything else takes the longest of three:
 * its bytes at a share of the memory's bandwidth, its elements' instructions, and the longest chain
 * of items that one block works through (batch norm gives a channel to a block, the gradient of a
 * layer norm's weight 32 columns to one).
 *
 * The forms come from the kernels that PyTorch 2.11 launches; the constants in cost_tables.c from
 * profiled steps on an H200 (tools/calibrate). Other cards: the same shares of their rates in the
 * catalogue. Left out: clocks that fall under load, kernels that run side by side. */
#include "device/cost.h"

#include "device/cost_tables.h"
#include "device/workspace.h"

#include <math.h>

static double at_least(double value, double low) {
    return value > low ? value : low;
}

static double at_most(double value, double high) {
    return value < high ? value : high;
}

/* Sizes that overflowed, are not known or make no sense count nothing. */
static double sane(double value) {
    return value > 0 && value < 1e18 ? value : 0;
}

static double up(double value) { /* ceil() of what is not negative, without a call */
    if (!(value > 0 && value < 1e15)) return value > 0 ? value : 0;
    double down = (double)(int64_t)value;
    return down < value ? down + 1 : down;
}

static double blocks_of(double size, double block) {
    return up(size / block);
}

/* The longer of two, and a little more where they are near each other. */
static double together(double a, double b) {
    double low = at_most(a, b), high = at_least(a, b);
    if (!(low > 0.2 * high)) return high;
    double r = low / high;
    r *= r;
    return high * sqrt(sqrt(1 + r * r));
}

/* ---- the card ---- */

typedef struct card {
    const pl_gpu *gpu;
    double sms;
    double slots;     /* blocks of 128 threads that the card holds */
    double bandwidth; /* bytes per microsecond */
    double cache;     /* bytes of the second-level cache; 0: not known, nothing stays in it */
    double rate;      /* fp32 operations per microsecond */
} card;

static card card_of(const pl_gpu *gpu) {
    double sms = gpu->sms > 0 ? gpu->sms : 1, threads = gpu->threads > 0 ? gpu->threads : 2048;
    return (card){
        .gpu = gpu,
        .sms = sms,
        .slots = sms * threads / 128,
        .bandwidth = at_least(sane(gpu->bandwidth_gbps), 1) * 1e3,
        .cache = sane(gpu->l2_mib) * 1048576,
        .rate = at_least(sane(gpu->fp32_tflops), 0.1) * 1e6,
    };
}

typedef struct unit {
    double rate; /* operations per microsecond of the whole card */
    int which;   /* PL_COST_FP32, ... */
    double size; /* bytes of an element */
} unit;

static double size_of(int dtype) {
    switch (dtype) {
    case PL_DT_F16:
    case PL_DT_BF16:
    case PL_DT_I16:
    case PL_DT_U16: return 2;
    case PL_DT_F64:
    case PL_DT_I64:
    case PL_DT_C64: return 8;
    case PL_DT_U8:
    case PL_DT_I8:
    case PL_DT_BOOL: return 1;
    default: return 4;
    }
}

static unit unit_of(const card *on, int dtype, bool tf32) {
    const pl_gpu *gpu = on->gpu;
    unit with = {on->rate, PL_COST_FP32, size_of(dtype)};
    if (dtype == PL_DT_F16 || dtype == PL_DT_BF16) {
        double half = sane(dtype == PL_DT_F16 ? gpu->fp16_tflops : gpu->bf16_tflops);
        if (half > 0) with.rate = half * 1e6, with.which = PL_COST_HALF;
    } else if (dtype == PL_DT_F64) {
        with.rate *= 0.5;
    } else if (tf32 &&
               gpu->tf32_tflops > 1.5 * gpu->fp32_tflops) { /* else plain cores do as well */
        with.rate = gpu->tf32_tflops * 1e6, with.which = PL_COST_TF32;
    }
    return with;
}

/* Rows of these many elements: other kernels unless all begin at a multiple of 16 bytes. */
static void align(unit *with, int64_t a, int64_t b, int64_t c) {
    int64_t need = with->which == PL_COST_HALF ? 8 : with->which == PL_COST_TF32 ? 4 : 1;
    if (a % need == 0 && b % need == 0 && c % need == 0) return;
    bool even = a % 2 == 0 && b % 2 == 0 && c % 2 == 0;
    with->which += even ? PL_COST_TF32_EVEN - PL_COST_TF32 : PL_COST_TF32_ODD - PL_COST_TF32;
}

/* Of bytes, the share that the cache holds since the kernels before. */
static double held(double bytes, const card *on) {
    if (on->cache <= 0) return 0;
    double ratio = bytes / (on->cache * pl_cost_generals.held);
    return 1 / (1 + ratio * ratio);
}

/* Of the same bytes, what the memory sees. */
static double missed(double cached) {
    return 1 - cached * (1 - pl_cost_generals.leak);
}

/* Of the time of so many kernels, the share in which those multiprocessors run that have work. */
static double running(double us, double launches) {
    return pl_cost_generals.tail * us / (us + pl_cost_generals.ramp * launches);
}

/* One kernel after another. */
static void add(pl_cost *sum, pl_cost more) {
    double us = sum->us + more.us;
    if (!(us > 0)) return;
    double a = sum->us / us, b = more.us / us;
    sum->active = sum->active * a + more.active * b;
    sum->occupied = sum->occupied * a + more.occupied * b;
    sum->dram = sum->dram * a + more.dram * b;
    sum->tensor = sum->tensor * a + more.tensor * b;
    sum->us = us;
}

/* ---- kernels that move bytes ---- */

typedef struct moved {
    double bytes, elements;
    double chain;  /* items that wait for each other */
    double blocks; /* 0: as many as the elements need */
    double launches;
} moved;

static pl_cost moving(pl_cost_class class, moved what, const card *on) {
    const pl_cost_moving *of = &pl_cost_moving_of[class];
    double cached = held(what.bytes, on);
    double rate = on->bandwidth * (of->share + (of->cached - of->share) * cached);
    double stream = together(what.bytes / rate, what.elements * of->work / on->rate);
    stream = together(stream, what.chain * of->chain * 1e-3 * (1 + of->miss * (1 - cached)));
    double us = what.launches * of->floor + stream;
    if (!(us > 0)) return (pl_cost){0};
    double blocks = what.blocks > 0 ? what.blocks : blocks_of(what.elements, 512 * what.launches);
    double spread = blocks / on->sms;
    double busy = at_most(spread, 1) * running(us, what.launches);
    return (pl_cost){
        .us = us,
        .active = busy,
        .occupied = busy * at_most(of->warps, of->warps * spread / pl_cost_generals.spread),
        .dram = at_most(what.bytes * of->traffic * missed(cached) / (on->bandwidth * us), 1),
    };
}

/* Batch norm: PyTorch's and cuDNN's kernels give each channel to one block; those for channels-last
 * cut the batch. */
static pl_cost batch_norm(const pl_work *call, moved what, const card *on) {
    bool backward = call->pass != PL_PASS_FORWARD, cudnn = call->dtype != PL_DT_BF16;
    if (call->class == PL_KERNEL_BATCH_NORM_NATIVE) cudnn = false;
    pl_cost_class class = cudnn ? PL_COST_BATCH_NORM_CUDNN : PL_COST_BATCH_NORM;
    double channels = sane((double)call->rows), each = sane((double)call->columns);
    what.blocks = channels;
    what.chain = each * at_least(1, channels * 4 / on->slots); /* of 512 threads */
    if (cudnn && backward && size_of(call->dtype) < 4 && each <= 18432)
        what.chain *= 0.35; /* held in registers from the first pass to the second */
    if (call->strided) {
        class = PL_COST_BATCH_NORM_LAST;
        what.blocks = blocks_of(channels, 32) * at_most(128, blocks_of(each, 256));
        what.chain = at_least(each, 1) / at_most(128, blocks_of(each, 256));
    }
    return moving((pl_cost_class)(class + backward), what, on);
}

/* Group norm: the moments of a group, of `rows`, are one block's. The gradient of its weight adds
 * up what the samples (`columns`) left of each channel. */
static pl_cost group_norm(const pl_work *call, moved what, const card *on) {
    what.blocks = sane((double)call->rows);
    if (call->pass == PL_PASS_BACKWARD_WEIGHT) {
        what.chain = 100 * sane((double)call->columns);
        return moving(PL_COST_NORM_WEIGHTS, what, on);
    }
    what.chain = sane((double)call->columns) * at_least(1, what.blocks * 4 / on->slots);
    bool backward = call->pass == PL_PASS_BACKWARD;
    return moving(backward ? PL_COST_GROUP_NORM_BACKWARD : PL_COST_GROUP_NORM, what, on);
}

/* Layer norm and its like: a block of 128 threads per row; the gradient of weight and bias walks
 * down the rows in blocks of 32 columns, and in many more once the rows are many and the columns
 * few. */
static pl_cost norm(const pl_work *call, moved what, const card *on) {
    double rows = sane((double)call->rows), columns = sane((double)call->columns);
    if (call->pass != PL_PASS_BACKWARD_WEIGHT) {
        what.blocks = rows;
        what.chain = rows / on->slots * 1000;
        bool backward = call->pass == PL_PASS_BACKWARD;
        return moving(backward ? PL_COST_NORM_BACKWARD : PL_COST_NORM, what, on);
    }
    what.bytes *= 2.0 / 3;
    what.blocks = blocks_of(columns, 32);
    what.chain = rows;
    if (rows > 65536 && what.blocks < on->sms / 2) what.chain = 0, what.blocks = on->slots;
    return moving(PL_COST_NORM_WEIGHTS, what, on);
}

/* Innermost sums: 32 threads per output, or 512 once they are long, and more blocks when longer
 * still. Others run in blocks of 128 columns by as many as fill the card, whose last one adds up
 * the others' results. */
static pl_cost reduce(const pl_work *call, moved what, const card *on) {
    double rows = sane((double)call->rows), columns = sane((double)call->columns);
    what.elements = sane(call->read) / size_of(call->dtype);
    if (!call->strided) {
        if (rows > 0 && columns > 0) what.elements = rows * (columns + 32);
        what.chain = at_most(columns / (columns < 8192 ? 32 : 512), 256);
        return moving(PL_COST_REDUCE, what, on);
    }
    double across = blocks_of(at_least(rows, 1), 128), down = 1;
    if (columns >= 1024) down = at_least(at_most(columns / 64, up(on->slots / across)), 1);
    what.chain = down * at_most(rows / 128, 1) + columns / (8 * down);
    what.blocks = across * down;
    return moving(PL_COST_REDUCE_STRIDED, what, on);
}

/* A row is a warp's up to 1,024 columns; longer ones are read again unless shared memory holds
 * them. */
static pl_cost softmax(const pl_work *call, moved what, const card *on) {
    bool backward = call->pass != PL_PASS_FORWARD;
    double columns = sane((double)call->columns);
    int class = columns * size_of(call->dtype) > 49152 ? PL_COST_SOFTMAX_LONG : PL_COST_SOFTMAX;
    if (columns > 1024 && columns <= 2048 && !backward) class = PL_COST_SOFTMAX_LONG;
    what.blocks = sane((double)call->rows);
    what.chain = at_most(columns, 1024);
    return moving((pl_cost_class)(class + backward), what, on);
}

/* The gradient of an embedding: up to 3,072 indices one kernel goes through them all, 32 columns
 * per block; of more, which are sorted first (records of their own), the sums. */
static pl_cost gather(const pl_work *call, moved what, const card *on) {
    double rows = sane((double)call->rows), columns = sane((double)call->columns);
    what.launches = call->launches;
    if (call->pass == PL_PASS_FORWARD) {
        what.chain = columns > 1 ? rows : 0; /* a block per row */
        return moving(PL_COST_GATHER, what, on);
    }
    if (call->class != PL_KERNEL_EMBEDDING) return moving(PL_COST_GATHER_BACKWARD, what, on);
    what.elements = rows * columns;
    if (rows > 3072) return moving(PL_COST_EMBEDDING_BACKWARD, what, on);
    what.blocks = blocks_of(columns, 32);
    what.chain = rows;
    return moving(PL_COST_EMBEDDING_FEW, what, on);
}

static pl_cost pool(const pl_work *call, moved what, const card *on) {
    bool most = call->class == PL_KERNEL_MAX_POOL;
    int class = most ? PL_COST_POOL_MAX : PL_COST_POOL;
    if (most && call->pass == PL_PASS_FORWARD)
        what.elements = sane(call->written) / (size_of(call->dtype) + 8); /* and its index */
    return moving((pl_cost_class)(class + (call->pass != PL_PASS_FORWARD)), what, on);
}

/* Of kernels that read `tensors` of rows times columns and write one. */
static void rows_by_columns(moved *what, const pl_work *call, double tensors) {
    double elements = sane((double)call->rows) * sane((double)call->columns);
    if (elements <= 0) return;
    what->elements = elements;
    what->bytes = elements * size_of(call->dtype) * (tensors + 1);
}

static pl_cost moves(const pl_work *call, const card *on) {
    double read = sane(call->read), written = sane(call->written);
    moved what = {
        .bytes = read + written, .elements = written / size_of(call->dtype), .launches = 1};
    if (call->kind == PL_WORK_NORM || call->kind == PL_WORK_SOFTMAX)
        rows_by_columns(&what, call, call->pass == PL_PASS_FORWARD ? 1 : 2);
    switch ((pl_work_kind)call->kind) {
    case PL_WORK_REDUCE: return reduce(call, what, on);
    case PL_WORK_SOFTMAX: return softmax(call, what, on);
    case PL_WORK_POOL: return pool(call, what, on);
    case PL_WORK_GATHER: return gather(call, what, on);
    case PL_WORK_NORM:
        if (call->class == PL_KERNEL_BATCH_NORM || call->class == PL_KERNEL_BATCH_NORM_NATIVE)
            return batch_norm(call, what, on);
        if (call->class == PL_KERNEL_GROUP_NORM) return group_norm(call, what, on);
        return norm(call, what, on);
    default: break;
    }
    if (call->kind != PL_WORK_FILL && call->class == PL_KERNEL_NLL_LOSS) {
        /* reads one class per row */
        double rows = at_most(sane((double)call->rows), 2048);
        return moving(PL_COST_LOSS, (moved){.launches = 1, .blocks = 1, .chain = rows}, on);
    }
    what.launches = call->launches;
    pl_cost_class class = call->strided ? PL_COST_POINTWISE_STRIDED : PL_COST_POINTWISE;
    if (call->kind == PL_WORK_COPY) {
        class = PL_COST_COPY;
        if (read > 0 && written > read * 1.5) class = PL_COST_COPY_WIDENING;
        if (call->strided) class = PL_COST_COPY_STRIDED;
    } else if (call->kind == PL_WORK_POINTWISE && !call->strided) {
        /* a half and a float make a float: 6 bytes read for 4 written */
        if (size_of(call->dtype) == 4 && fabs(read - 1.5 * written) < 0.01 * written)
            class = PL_COST_POINTWISE_MIXED;
    } else if (call->kind == PL_WORK_FILL) {
        class = call->class == PL_KERNEL_RANDOM ? PL_COST_RANDOM : PL_COST_FILL;
    } else if (call->kind == PL_WORK_SORT) {
        class = PL_COST_SORT;
    } else if (call->kind == PL_WORK_FOREACH) {
        class = call->class == PL_KERNEL_FUSED ? PL_COST_FUSED : PL_COST_FOREACH;
        /* a block goes through 65,536 elements of one tensor */
        double tensors = at_least((double)call->tensors, 1);
        what.chain = at_most(3 * what.elements / tensors, 65536) * what.launches;
    }
    return moving(class, what, on);
}

/* ---- products ---- */

typedef struct shape {
    double rows, columns, depth, count; /* count times [rows, depth] x [depth, columns] */
    double bytes;                       /* read and written */
    bool biased; /* a bias is added: cuBLASLt, which cuts no depth in float32 */
} shape;

static pl_cost product(const pl_cost_product *of, shape s, const unit *with, const card *on,
                       double factor) {
    double per_sm = with->rate / on->sms, best = INFINITY, best_blocks = 1;
    double result = s.rows * s.columns * s.count;
    for (int i = 0; i < PL_COST_TILES; i++) {
        const pl_cost_tile *tile = &of->tiles[i];
        double blocks =
            blocks_of(s.rows, tile->rows) * blocks_of(s.columns, tile->columns) * s.count;
        double split = 1;
        if (blocks * 2 <= on->sms && s.count == 1 && !(s.biased && with->which == PL_COST_FP32))
            split = up(at_most(on->sms / blocks, s.depth / 128) - 0.999);
        split = at_least(at_most(split, of->cuts), 1);
        double work = 2 * tile->rows * tile->columns / (per_sm * tile->share);
        double whole = blocks_of(blocks, on->sms) * s.depth * at_least(work, of->step);
        if (whole < best) best = whole, best_blocks = blocks;
        if (split <= 1) continue;
        double cut = up(s.depth / split) * at_least(work, of->step) + of->split +
                     4 * result * split / (on->bandwidth * of->cached);
        if (cut < best) best = cut, best_blocks = blocks * split;
    }
    double cached = held(s.bytes, on);
    double rate = on->bandwidth * (of->share + (of->cached - of->share) * cached);
    double us = together(best, s.bytes / rate) * factor + of->floor;
    double spread = best_blocks / on->sms;
    double busy = (spread < 1 ? spread : spread / up(spread)) * running(us, 1);
    return (pl_cost){
        .us = us,
        .active = busy,
        .occupied = busy * of->warps,
        .dram = at_most(s.bytes * of->traffic * missed(cached) / (on->bandwidth * us), 1),
        .tensor = with->which == PL_COST_FP32
                      ? 0
                      : at_most(result * 2 * s.depth * of->pipe / (with->rate * us), 1),
    };
}

/* Of a call whose shape is not known. */
static pl_cost unshaped(const pl_work *call, const unit *with, const card *on) {
    double flops = sane(call->flops), side = at_least(cbrt(flops / 2), 1);
    shape s = {side, side, side, 1, sane(call->read) + sane(call->written), false};
    return product(&pl_cost_products[with->which], s, with, on, 1);
}

static pl_cost matrix(const pl_work *call, unit *with, const card *on) {
    shape s = {.rows = sane((double)call->rows),
               .columns = sane((double)call->columns),
               .depth = sane((double)call->depth),
               .count = at_least(sane((double)call->count), 1),
               .bytes = sane(call->read) + sane(call->written),
               .biased = call->biased};
    if (s.rows <= 0 || s.columns <= 0 || s.depth <= 0) return unshaped(call, with, on);
    bool vector = call->columns == 1; /* lies as it likes */
    align(with, call->transposed[0] ? call->rows : call->depth,
          call->transposed[1] || vector ? call->depth : call->columns, vector ? 0 : call->columns);
    return product(&pl_cost_products[with->which], s, with, on, 1);
}

/* ---- convolutions ---- */

typedef struct sizes {
    double in, out; /* places: batch times the spatial sizes */
    double taps, c, k, groups;
} sizes;

static sizes sizes_of(const pl_conv *conv) {
    sizes s = {(double)conv->batch, (double)conv->batch, 1, 0, 0, 1};
    for (int i = 0; i < conv->dims && i < 3; i++) {
        s.in *= (double)conv->in[i];
        s.out *= (double)conv->out[i];
        s.taps *= (double)conv->kernel[i];
    }
    s.in = sane(s.in), s.out = sane(s.out), s.taps = sane(s.taps);
    s.c = sane((double)conv->in_channels), s.k = sane((double)conv->out_channels);
    s.groups = at_least(sane((double)conv->groups), 1);
    if (conv->transposed) { /* as the plain one whose gradient it is */
        double t = s.in;
        s.in = s.out, s.out = t;
        t = s.c;
        s.c = s.k, s.k = t;
    }
    return s;
}

static pl_cost depthwise(const pl_conv *conv, int pass, const sizes *s, const unit *with,
                         const card *on) {
    moved what = {.bytes = (s->in * s->c + s->out * s->k) * with->size, .launches = 1};
    bool back = pass == PL_PASS_BACKWARD, native = pl_workspace_conv_native(conv);
    what.elements = (back ? s->in * s->c : s->out * s->k) * (2.5 + s->taps);
    int class = PL_COST_DEPTHWISE + pass;
    if (conv->channels_last) {
        class = PL_COST_DEPTHWISE_LAST + pass;
        if (class == PL_COST_DEPTHWISE_LAST_WEIGHTS && with->size > 2)
            class = PL_COST_DEPTHWISE_LAST_WEIGHTS_FP32;
    } else if (!native) {
        class = PL_COST_DEPTHWISE_CUDNN + pass;
        if (back && s->in > s->out) what.elements *= 4; /* strides have a slower kernel */
    } else if (pass == PL_PASS_BACKWARD_WEIGHT) {
        what.blocks = s->k * s->taps;
        what.chain = s->out;
    }
    return moving((pl_cost_class) class, what, on);
}

/* Changing a tensor of `places` by channels to channels-last or back, by squares of 32. */
static pl_cost relaid(double places, double channels, const unit *with, const card *on) {
    return moving(PL_COST_LAYOUT,
                  (moved){.bytes = 2 * places * channels * with->size,
                          .elements = places * blocks_of(channels, 32) * 32,
                          .launches = 1},
                  on);
}

/* With a kernel of one point an image is a matrix as it lies: one product per image, whose rows are
 * as long as the image has places; the weight's gradients of the images are added up after. */
static pl_cost pointwise(int pass, const sizes *s, double batch, unit with, const card *on) {
    double places = s->out / batch;
    align(&with, (int64_t)places, (int64_t)(pass == PL_PASS_BACKWARD_WEIGHT ? 0 : s->c), 0);
    shape p = {.rows = places, .columns = s->k, .depth = s->c, .count = batch};
    if (pass == PL_PASS_BACKWARD) p.columns = s->c, p.depth = s->k;
    p.bytes = (s->in * s->c + s->out * s->k) * with.size;
    if (pass == PL_PASS_BACKWARD_WEIGHT) {
        p.rows = s->k, p.columns = s->c, p.depth = places;
        p.bytes += 8 * batch * s->k * s->c;
    }
    return product(&pl_cost_products[with.which], p, &with, on, 1);
}

/* As one product, by channels-last kernels; tensors that lie otherwise are changed before and
 * after. */
static pl_cost dense(const pl_conv *conv, int pass, const sizes *s, unit with, const card *on) {
    bool first = !conv->channels_last;
    double small = 2e7; /* multiplications */
    if (first && with.which == PL_COST_TF32 &&
        (s->c < 4 || s->out * s->k * s->c / s->groups * s->taps < small))
        with = unit_of(on, PL_DT_F32, false);
    double c = s->c / s->groups, k = s->k / s->groups, weights = s->k * c * s->taps;
    align(&with, (int64_t)c, (int64_t)k, 0);
    if (with.which > PL_COST_HALF)
        c = blocks_of(c, 16 / with.size) * 16 / with.size; /* filled up */
    shape p = {.count = s->groups, .bytes = (s->in * s->c + s->out * s->k + weights) * with.size};
    if (pass == PL_PASS_BACKWARD_WEIGHT)
        p.rows = k, p.columns = c * s->taps, p.depth = s->out;
    else if (pass == PL_PASS_FORWARD)
        p.rows = s->out, p.columns = k, p.depth = c * s->taps;
    else
        p.rows = s->in, p.columns = c, p.depth = k * s->taps * s->out / s->in;
    pl_cost cost =
        product(&pl_cost_convs[with.which], p, &with, on, pl_cost_conv_factor[pass][with.which]);
    if (first && with.which != PL_COST_FP32) {
        add(&cost, relaid(s->in, s->c, &with, on));
        add(&cost, relaid(s->out, s->k, &with, on));
        if (s->taps > 1) add(&cost, relaid(s->k * s->taps, c, &with, on));
    }
    if (s->taps > 1 || s->in != s->out || s->groups > 1 || !first) return cost;
    pl_cost other = pointwise(pass, s, at_least(sane((double)conv->batch), 1), with, on);
    return other.us < cost.us ? other : cost;
}

static pl_cost convolution(const pl_work *call, const card *on) {
    const pl_conv *conv = call->shape;
    unit with = unit_of(on, (int)conv->dtype, conv->tf32);
    sizes s = sizes_of(conv);
    int pass = call->pass < PL_PASSES ? call->pass : PL_PASS_FORWARD;
    if (conv->transposed && pass != PL_PASS_BACKWARD_WEIGHT) pass = PL_PASS_BACKWARD - pass;
    if (s.in <= 0 || s.out <= 0 || s.c <= 0 || s.k <= 0 || s.taps <= 0)
        return unshaped(call, &with, on);
    if (s.groups > 1 && s.c == s.groups && conv->dims < 3)
        return depthwise(conv, pass, &s, &with, on);
    return dense(conv, pass, &s, with, on);
}

/* ---- attention, recurrent layers ---- */

static pl_cost attention(const pl_work *call, const card *on) {
    const pl_attention *of = call->shape;
    unit with = unit_of(on, (int)of->dtype, true);
    bool backward = call->pass != PL_PASS_FORWARD;
    int backend = of->backend == PL_ATTENTION_FLASH       ? 0
                  : of->backend == PL_ATTENTION_EFFICIENT ? (with.size > 2 ? 1 : 2)
                                                          : 3;
    const pl_cost_attention *as = &pl_cost_attentions[backend][backward];
    double heads = sane((double)of->batch) * sane((double)of->heads);
    double queries = sane((double)of->queries), keys = sane((double)of->keys);
    double width = sane((double)of->head) + sane((double)of->value_head);
    double size = with.size, bytes = heads * (queries + keys) * width * size * (backward ? 2 : 1);
    double blocks = heads * blocks_of(backward ? keys : queries, as->block);
    double spread = blocks / on->sms;
    double whole = at_least(spread / at_least(up(spread), as->solo), 1e-3);
    /* blocks are filled up: short sequences compute what nobody reads */
    double pairs = blocks_of(queries, 64) * 64 * blocks_of(keys, 64) * 64 * (of->causal ? 0.5 : 1);
    double beside = 2 * as->pair * (1 + of->dropout + of->mask); /* exponentials and the like */
    double flops = 2 * heads * pairs * width * (backward ? 2.5 : 1);
    double work = 2 * heads * pairs * (width + beside) * (backward ? 2.5 : 1);
    double stream = bytes / (on->bandwidth * 0.7);
    /* float32's share is of TF32's rate; where there is none, of as much as the measured card has
     * of it beside plain float32, and never more than half the plain rate */
    double share = as->share;
    if (with.size > 2 && with.which == PL_COST_FP32) share = at_most(share * 7.4, 0.5);
    double us = together(work / (with.rate * share * whole), stream) + as->floor;
    double busy = at_most(spread, spread / up(spread)) * running(us, 1);
    return (pl_cost){
        .us = us,
        .active = busy,
        .occupied = busy * as->warps,
        .dram = at_most(bytes * as->traffic * missed(held(bytes, on)) / (on->bandwidth * us), 1),
        .tensor = with.which == PL_COST_FP32 ? 0 : at_most(flops * as->pipe / (with.rate * us), 1),
    };
}

static void repeat(pl_cost *sum, pl_cost one, double times) {
    one.us *= times;
    add(sum, one);
}

/* One layer and direction after the other: products of all steps' inputs at once, then step after
 * step; where the weights stay on the multiprocessors one kernel does all steps. cuDNN takes TF32
 * by itself. */
static pl_cost recurrent(const pl_work *call, const card *on) {
    const pl_rnn *of = call->shape;
    static const struct {
        double gates;
        int row;
    } modes[] = {[PL_RNN_RELU] = {1, 0},
                 [PL_RNN_TANH] = {1, 0},
                 [PL_RNN_LSTM] = {4, 1},
                 [PL_RNN_GRU] = {3, 2}};
    int mode = (unsigned)of->mode < 4 ? (int)of->mode : PL_RNN_LSTM;
    unit with = unit_of(on, (int)of->dtype, true);
    const pl_cost_product *as = &pl_cost_products[with.which];
    bool backward = call->pass != PL_PASS_FORWARD;
    const pl_cost_rnn *how = &pl_cost_rnns[modes[mode].row][backward];
    double h = sane((double)of->hidden), wide = modes[mode].gates * h;
    double steps = sane((double)of->seq), batch = sane((double)of->batch);
    double directions = at_least(sane((double)of->directions), 1);
    double runs = sane((double)of->layers) * directions, input = sane((double)of->input);
    if (of->layers > 1)
        input = (input + ((double)of->layers - 1) * h * directions) / (double)of->layers;
    double all = steps * batch, size = with.size;
    if (all <= 0 || wide <= 0 || input <= 0 || runs <= 0) return unshaped(call, &with, on);
    pl_cost sum = {0};
    double bytes = (all * (input + wide) + wide * input) * size;
    shape whole = {all, backward ? input : wide, backward ? wide : input, 1, bytes, false};
    repeat(&sum, product(as, whole, &with, on, 1), runs * how->whole);
    if (backward) {
        shape weights = {wide, input + h, all, 1, bytes, false};
        repeat(&sum, product(as, weights, &with, on, 1), runs * how->whole);
    }
    shape one = {batch, backward ? h : wide, backward ? wide : h, 1, wide * h * size, false};
    pl_cost step = product(as, one, &with, on, how->each);
    step.us += how->step;
    if (of->dtype != PL_DT_BF16 && wide * h <= 65536) step.us = at_most(step.us, how->persist);
    step.occupied *= 0.7, step.tensor = 0;
    repeat(&sum, step, runs * steps);
    pl_cost bias = {.us = all * how->bias * 1e-3, .active = 0.1, .occupied = 0.02};
    repeat(&sum, bias, runs);
    return sum;
}

/* ---- the call ---- */

static double share(double value) {
    return value >= 0 ? at_most(value, 1) : 0;
}

void pl_cost_of(pl_cost *out, const pl_work *call, const pl_gpu *gpu, bool tf32) {
    *out = (pl_cost){0};
    if (call->kind == PL_WORK_VIEW || call->launches <= 0) return;
    if (call->kind == PL_WORK_TRANSFER) return; /* the host's: host.c */
    card on = card_of(gpu);
    unit with = unit_of(&on, call->dtype, tf32);
    switch ((pl_work_kind)call->kind) {
    case PL_WORK_PRODUCT: *out = matrix(call, &with, &on); break;
    case PL_WORK_CONVOLUTION:
        *out = call->shape ? convolution(call, &on) : unshaped(call, &with, &on);
        break;
    case PL_WORK_ATTENTION:
        *out = call->shape ? attention(call, &on) : unshaped(call, &with, &on);
        break;
    case PL_WORK_RECURRENT:
        *out = call->shape ? recurrent(call, &on) : unshaped(call, &with, &on);
        break;
    default: *out = moves(call, &on); break;
    }
    out->us = out->us >= 0 && out->us < 1e15 ? out->us : 1e15;
    out->active = share(out->active);
    out->occupied = at_most(share(out->occupied), out->active);
    out->dram = share(out->dram);
    out->tensor = share(out->tensor);
}
