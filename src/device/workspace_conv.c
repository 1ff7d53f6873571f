/* workspace_conv: how much workspace a cuDNN convolution takes.
 *
 * cuDNN picks an engine by heuristics that are not published; what an engine takes is simple
 * arithmetic. So: a decision tree per pass (workspace_tree.c, fitted) picks one of the formulas
 * below (found by taking measured bytes apart), and the formula gives the bytes. The formulas and
 * features stand in tools/workspace/formulas.py too, in the same order; fit.py --cases writes rows
 * to hold the two against each other.
 *
 * How good: on 227,367 measured passes (H200, cuDNN 9.19, 2026-11-15; most are layers of small
 * networks with any number of channels) some formula is within 1 KiB in 80 %, and within 1.1 % of
 * the tensors' bytes in 90 %; choosing it is the hard part. Of the passes of whole recorded jobs
 * over 8 MiB, with their job and its layers held out: 76 % within 1 KiB, median error 0, 90th
 * percentile 18 % of the tensors' bytes, bias 1.9 %, too low by more than 5 % in 8 %. Backward-data
 * is best (90 % within 1 KiB), backward-weight worst (58 %, since the number of its slices was not
 * found out; median 0.01 %). Grouped ones and TF32 switched off are worse: fit.py prints the table.
 * The largest workspace that benchmark tries is known to an order only (half precision: median 15
 * %; float32, where Fourier engines are tried: a factor of two and more).
 *
 * Other cards: the formulas use their number of multiprocessors; the trees are the H200's. Below
 * compute capability 8.0 there is no TF32, so float32 runs as with cudnn.allow_tf32 off. Their
 * doubt has a floor. Left out: deterministic mode, the environment's limits, batches that PyTorch
 * splits because a tensor has 2^31 elements or more. */
#include "device/workspace.h"
#include "device/workspace_tree.h"

#include "core/checked.h"

enum {
    PER_TILE_FLAGS = 679
}; /* bytes of flags and alignment beside the partial tiles; the most seen */

/* A plain convolution x [n, c, s] -> y [n, k, p] with r weights per pair of channels. A transposed
 * one has the roles of x and y, and of forward and backward-data, exchanged. */
typedef struct shape {
    int64_t n, c, k, g;
    int64_t s, p, r;  /* volumes: input, output, kernel */
    int64_t y_tiles4; /* tiles of 4 in every spatial direction of y */
    int64_t e;        /* bytes per element */
    int64_t in_width, kernel_width, stride, dilation, padding;
    int64_t sms;
    const int64_t *x, *w; /* [spatial]: sizes of the input and of the kernel */
    int dims, spatial;    /* dims: at least 2 */
    pl_conv_pass pass;
    bool last, tf32, bf16, transposed, benchmark;
} shape;

/* Products are done in double for the tree's features and in int64 behind this cap for the
 * formulas: with every factor checked in read(), no product of theirs can pass it. */
static const double most_bytes = 4e18;

/* Streaming multiprocessors by compute capability, the largest common card of each. */
static int64_t multiprocessors(int major, int minor) {
    static const struct {
        int major, minor, sms;
    } cards[] = {{7, 0, 80},  {7, 5, 40},  {8, 0, 108},  {8, 6, 84},
                 {8, 9, 142}, {9, 0, 132}, {10, 0, 148}, {12, 0, 170}};
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++)
        if (cards[i].major == major && cards[i].minor == minor) return cards[i].sms;
    return 132;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static bool positive(const int64_t *values, int count) {
    for (int i = 0; i < count; i++)
        if (values[i] < 1 || values[i] > (int64_t)1 << 32) return false;
    return true;
}

/* false: not a convolution, or too large for the arithmetic that follows. */
static bool read(const pl_conv *conv, pl_conv_pass pass, int major, int minor, shape *d) {
    if (conv->dims < 1 || conv->dims > 3 || (unsigned)pass >= PL_CONV_PASSES) return false;
    const int64_t counts[] = {conv->batch, conv->in_channels, conv->out_channels, conv->groups};
    if (!positive(counts, 4) || !positive(conv->in, conv->dims) ||
        !positive(conv->out, conv->dims) || !positive(conv->kernel, conv->dims) ||
        !positive(conv->stride, conv->dims) || !positive(conv->dilation, conv->dims))
        return false;
    if (conv->in_channels % conv->groups || conv->out_channels % conv->groups) return false;
    const int64_t *x = conv->transposed ? conv->out : conv->in;
    const int64_t *y = conv->transposed ? conv->in : conv->out;
    static const pl_conv_pass swapped[] = {PL_CONV_BACKWARD_DATA, PL_CONV_FORWARD,
                                           PL_CONV_BACKWARD_WEIGHT};
    *d = (shape){.n = conv->batch,
                 .c = conv->transposed ? conv->out_channels : conv->in_channels,
                 .k = conv->transposed ? conv->in_channels : conv->out_channels,
                 .g = conv->groups,
                 .s = 1,
                 .p = 1,
                 .r = 1,
                 .y_tiles4 = conv->batch,
                 .e = pl_dtype_size(conv->dtype),
                 .in_width = x[conv->dims - 1],
                 .kernel_width = conv->kernel[conv->dims - 1],
                 .sms = multiprocessors(major, minor),
                 .x = x,
                 .w = conv->kernel,
                 .spatial = conv->dims,
                 .dims = conv->dims < 2 ? 2 : conv->dims,
                 .pass = conv->transposed ? swapped[pass] : pass,
                 .last = conv->channels_last,
                 .bf16 = conv->dtype == PL_DT_BF16,
                 .transposed = conv->transposed,
                 .benchmark = conv->benchmark};
    d->tf32 = d->e == 2 || (conv->tf32 && major >= 8);
    if (d->e != 2 && d->e != 4 && d->e != 8) return false;
    double s = 1, p = 1, r = 1;
    for (int i = 0; i < conv->dims; i++) {
        s *= (double)x[i];
        p *= (double)y[i];
        r *= (double)conv->kernel[i];
        if (conv->stride[i] > d->stride) d->stride = conv->stride[i];
        if (conv->dilation[i] > d->dilation) d->dilation = conv->dilation[i];
        if (conv->padding[i] > d->padding) d->padding = conv->padding[i];
    }
    /* The largest products below: converted tensors padded by up to 16 per group, and 36 values per
     * Winograd tile. */
    double n = (double)d->n, c = (double)d->c * 16, k = (double)d->k * 16;
    if (n * c * s * 8 > most_bytes || n * k * p * 8 > most_bytes ||
        c * k * r * n * 8 > most_bytes || n * (p + 64) * (c + k) * 144 > most_bytes ||
        c * k * 144 > most_bytes)
        return false;
    for (int i = 0; i < conv->dims; i++) {
        d->s *= x[i];
        d->p *= y[i];
        d->r *= conv->kernel[i];
        d->y_tiles4 *= ceil_div(y[i], 4);
    }
    return true;
}

/* ---- formulas ---- */

/* Tensor-core engines read 16 bytes of channels at a time. */
static int64_t step16(const shape *d) {
    return d->e >= 16 ? 1 : 16 / d->e;
}

static int64_t tensor_bytes(const shape *d) {
    return d->e * (d->n * d->c * d->s + d->n * d->k * d->p + d->k * (d->c / d->g) * d->r);
}

static int64_t power_of_two(int64_t value) {
    int64_t result = 1;
    while (result < value) result *= 2;
    return result;
}

/* x, y and w in channels last with the channels of a group padded: those of them that are not so
 * already. */
static int64_t converted(const shape *d, int64_t step, bool power) {
    int64_t c = pl_round_up(d->c / d->g, step), k = pl_round_up(d->k / d->g, step);
    if (power) {
        c = power_of_two(c);
        k = power_of_two(k);
    }
    bool pad_c = c != d->c / d->g, pad_k = k != d->k / d->g;
    int64_t bytes = 0;
    if (pad_c || (!d->last && d->s > 1 && d->c > 1)) bytes += d->n * c * d->g * d->s * d->e;
    if (pad_k || (!d->last && d->p > 1 && d->k > 1)) bytes += d->n * k * d->g * d->p * d->e;
    if (pad_c || pad_k || (!d->last && d->r > 1 && d->c > d->g))
        bytes += c * k * d->g * d->r * d->e;
    return bytes;
}

static int64_t tiles(int64_t rows, int64_t columns, int64_t m, int64_t n) {
    return ceil_div(rows, m) * ceil_div(columns, n);
}

/* A weight gradient sums over batch and space: it is cut into as many slices as keep every
 * multiprocessor busy, each with a partial result of whole m x n tiles in fp32. */
static int64_t slices(const shape *d, int64_t m, int64_t n) {
    int64_t t = tiles(d->k / d->g, d->c / d->g * d->r, m, n) * d->g;
    int64_t count = t < d->sms ? d->sms / t : 1;
    int64_t all = count * t < 2 * d->sms ? count * t : 2 * d->sms;
    return all * m * n * 4;
}

/* The last, incomplete wave of 128 x 128 tiles is shared by all multiprocessors (stream-k): two
 * fp32 tiles each. */
static int64_t shared_wave(const shape *d) {
    bool forward = d->pass == PL_CONV_FORWARD;
    return tiles(d->n * (forward ? d->p : d->s), forward ? d->k : d->c, 128, 128) % d->sms * 131072;
}

static int64_t none(const shape *d) {
    (void)d;
    return 0;
}
static int64_t small(const shape *d) {
    (void)d;
    return 400;
}
static int64_t converted_padded(const shape *d) {
    return converted(d, step16(d), false) + 147;
}
static int64_t converted_unpadded(const shape *d) {
    return converted(d, 1, false) + 16;
}
/* The input and the weight converted, the output written as it is wanted. */
static int64_t x_and_w_by(const shape *d, int64_t step) {
    int64_t c = pl_round_up(d->c / d->g, step);
    return (d->n * c * d->g * d->s + d->k * c * d->r) * d->e + 16;
}
static int64_t x_and_w(const shape *d) {
    return x_and_w_by(d, 1);
}
static int64_t x_and_w_padded(const shape *d) {
    return x_and_w_by(d, step16(d));
}
/* The 1x1 weight gradient in NCHW: one product per image, summed afterwards. */
static int64_t per_image(const shape *d) {
    return d->n * d->k * (d->c / d->g) * d->r * 4 + 400;
}
/* F(4x4, 3x3): 36 values per tile, in fp32. */
static int64_t winograd(const shape *d) {
    return 36 * (d->y_tiles4 * (d->c + d->k) + d->c * d->k) * 4;
}
static int64_t slices_64(const shape *d) {
    return converted(d, step16(d), false) + slices(d, 64, 64) + PER_TILE_FLAGS;
}
static int64_t slices_128(const shape *d) {
    return converted(d, step16(d), false) + slices(d, 128, 128) + PER_TILE_FLAGS;
}
static int64_t slices_256(const shape *d) {
    return converted(d, step16(d), false) + slices(d, 256, 128) + PER_TILE_FLAGS;
}
static int64_t converted_power(const shape *d) {
    return converted(d, step16(d), true) + 147;
}
static int64_t converted_wave(const shape *d) {
    return converted(d, step16(d), false) + shared_wave(d) + 431;
}

/* Half precision computed in fp32: every tensor in fp32, channels padded to 4. */
static int64_t converted_fp32(const shape *d) {
    int64_t c = pl_round_up(d->c / d->g, 4), k = pl_round_up(d->k / d->g, 4);
    return (d->n * c * d->g * d->s + d->n * k * d->g * d->p + c * k * d->g * d->r) * 4 + 16;
}
static int64_t converted_always(const shape *d) {
    return tensor_bytes(d) + 16;
}
/* Seen only among the plans that benchmark tries: a partial weight every eight outputs. */
static int64_t slice_8_pixels(const shape *d) {
    int64_t outputs = d->n * d->p, weight = d->k * (d->c / d->g) * d->r * 4, bytes;
    if (!pl_mul_i64(outputs / 8 + outputs / 384, weight, &bytes) ||
        !pl_add_i64(bytes, tensor_bytes(d), &bytes))
        return INT64_MAX;
    return bytes;
}

/* Bytes of one channel's Fourier transform in every direction but half of the last: complex fp32,
 * the next powers of two that hold the filtered image; backward-data needs room for one more. */
static int64_t fourier(const shape *d) {
    int64_t bytes = 8;
    for (int i = 0; i < d->spatial; i++) {
        int64_t least = d->pass == PL_CONV_FORWARD ? 16 : 17, need = d->x[i] + d->w[i] - 1;
        int64_t size = power_of_two(need > least ? need : least);
        if (!pl_mul_i64(bytes, i == d->spatial - 1 ? size / 2 + 1 : size, &bytes)) return INT64_MAX;
    }
    return bytes;
}
static int64_t fft(const shape *d) {
    int64_t bytes;
    return pl_mul_i64(d->c / d->g * d->k + d->n * (d->c + d->k), fourier(d), &bytes) ? bytes
                                                                                     : INT64_MAX;
}
/* With the weights' transform kept in two orders. */
static int64_t fft_both(const shape *d) {
    int64_t one = fourier(d), weights, bytes;
    if (one > INT64_MAX - 4 * d->r || !pl_mul_i64(d->c / d->g * d->k, one + 4 * d->r, &weights) ||
        !pl_add_i64(fft(d), weights, &bytes))
        return INT64_MAX;
    return bytes;
}

/* In tiles of 32 x 32 (half of it, complex fp32), two tiles of every image at a time. */
static int64_t fft_tiles(const shape *d) {
    int64_t bytes;
    return pl_mul_i64(d->c / d->g * d->k + 2 * d->n * (d->c + d->k), 32 * 17 * 8, &bytes)
               ? bytes
               : INT64_MAX;
}

/* A weight gradient in slices, each a whole fp32 weight with the channels padded. What sets their
 * number was not found: it is 1 to 132, and the counts below stand for the ranges around them. */
static int64_t split(const shape *d, int64_t count) {
    int64_t c = pl_round_up(d->c / d->g, step16(d)), k = pl_round_up(d->k / d->g, step16(d)), bytes;
    if (!pl_mul_i64(c * k * d->g * d->r, count * 4, &bytes) ||
        !pl_add_i64(bytes, converted(d, step16(d), false) + 144, &bytes))
        return INT64_MAX;
    return bytes;
}
static int64_t split_1(const shape *d) {
    return split(d, 1);
}
static int64_t split_8(const shape *d) {
    return split(d, 8);
}
static int64_t split_23(const shape *d) {
    return split(d, 23);
}
static int64_t split_60(const shape *d) {
    return split(d, 60);
}
static int64_t split_122(const shape *d) {
    return split(d, 122);
}
static int64_t slices_64_128(const shape *d) {
    return converted(d, step16(d), false) + slices(d, 64, 128) + PER_TILE_FLAGS;
}

/* A leaf's class is an index here. */
static int64_t (*const formulas[])(const shape *) = {
    none,
    small,
    converted_padded,
    converted_unpadded,
    x_and_w,
    per_image,
    winograd,
    slices_64,
    slices_128,
    slices_256,
    converted_power,
    converted_wave,
    converted_fp32,
    converted_always,
    slice_8_pixels,
    fft,
    fft_both,
    fft_tiles,
    x_and_w_padded,
    split_1,
    split_8,
    split_23,
    split_60,
    split_122,
    slices_64_128,
};
enum { FORMULAS = sizeof formulas / sizeof formulas[0] };
_Static_assert((int)FORMULAS == PL_CONV_FORMULAS, "workspace.h has another number of formulas");

/* ---- the tree ---- */

enum { FEATURES = PL_CONV_FEATURES };

const char *const pl_workspace_conv_features[FEATURES] = {
    "half",
    "bf16",
    "tf32",
    "channels_last",
    "dims",
    "batch",
    "c_per_group",
    "k_per_group",
    "c",
    "k",
    "groups",
    "in_volume",
    "out_volume",
    "in_width",
    "kernel_volume",
    "kernel_width",
    "stride",
    "dilation",
    "padding",
    "c_unaligned",
    "k_unaligned",
    "n_out",
    "n_in",
    "reduction",
    "x_elements",
    "y_elements",
    "w_elements",
    "tiles_forward",
    "tiles_weight",
    "macs",
    "transposed",
    "benchmark",
    "image_share",
    "tiles_data",
    "wave_forward",
    "wave_data",
    "c_evenness",
    "k_evenness",
    "c_by_k",
    "row_elements",
    "tiles_weight_64",
};

/* The lowest bit set, 64 at most. */
static int64_t evenness(int64_t value) {
    int64_t bit = value & -value;
    return bit < 64 ? bit : 64;
}

/* The list of tools/workspace/formulas.py. */
static void features(const shape *d, double *f) {
    int64_t cg = d->c / d->g, kg = d->k / d->g, step = step16(d);
    double n = (double)d->n, c = (double)d->c, k = (double)d->k, s = (double)d->s, p = (double)d->p,
           r = (double)d->r;
    double weight = k * (double)cg * r;
    int64_t forward_tiles = tiles(d->n * d->p, kg, 128, 128);
    int64_t data_tiles = tiles(d->n * d->s, cg, 128, 128);
    const double all[FEATURES] = {
        d->e == 2,
        d->bf16,
        d->tf32,
        d->last,
        d->dims,
        n,
        (double)cg,
        (double)kg,
        c,
        k,
        (double)d->g,
        s,
        p,
        (double)d->in_width,
        r,
        (double)d->kernel_width,
        (double)d->stride,
        (double)d->dilation,
        (double)d->padding,
        cg % step != 0,
        kg % step != 0,
        n * p,
        n * s,
        (double)cg * r,
        n * c * s,
        n * k * p,
        weight,
        (double)forward_tiles,
        (double)tiles(kg, cg * d->r, 128, 128),
        n * p * weight,
        d->transposed,
        d->benchmark,
        1000.0 * n * weight / (n * (c * s + k * p)),
        (double)data_tiles,
        (double)(forward_tiles % d->sms),
        (double)(data_tiles % d->sms),
        (double)evenness(cg),
        (double)evenness(kg),
        1000.0 * c / k,
        (double)(d->in_width * cg),
        (double)tiles(kg, cg * d->r, 64, 64),
    };
    for (int i = 0; i < FEATURES; i++) f[i] = all[i];
}

static const pl_workspace_node *leaf_of(const shape *d, bool tried) {
    double f[FEATURES];
    features(d, f);
    const pl_workspace_node *node =
        &pl_workspace_tree[pl_workspace_tree_roots[d->pass + (tried ? 3 : 0)]];
    while (node->feature >= 0)
        node = &pl_workspace_tree[f[node->feature] <= node->value ? node->low : node->high];
    return node;
}

bool pl_workspace_conv_native(const pl_conv *conv) {
    /* Read in aten/src/ATen/native/Convolution.cpp: is_depthwise, use_cudnn_depthwise and the
     * workload check. Only half precision in NCHW is ever given to cuDNN, by shape; channels last
     * always is. */
    if (conv->transposed || conv->groups < 2 || conv->in_channels != conv->groups ||
        conv->out_channels % conv->groups || conv->channels_last || conv->dims < 1 ||
        conv->dims > 3)
        return false;
    int last = conv->dims - 1;
    int64_t height = conv->dims == 1 ? 1 : conv->in[0], width = conv->in[last];
    int64_t kernel_height = conv->dims == 1 ? 1 : conv->kernel[0], kernel = conv->kernel[last];
    int64_t stride_height = conv->dims == 1 ? 1 : conv->stride[0], stride = conv->stride[last];
    if (conv->dtype != PL_DT_F16 || conv->dims == 3 || conv->in_channels < 32) return true;
    for (int i = 0; i < conv->dims; i++)
        if (conv->dilation[i] > 1) return true;
    if (stride_height != stride && height != 1) return true;
    if (height == 1 && stride == 1) return false;
    if (kernel_height != kernel || (kernel != 1 && kernel != 3 && kernel != 5) || width < 7)
        return true;
    if (stride == 1) return false;
    if (stride != 2) return true;
    if (conv->batch == 1) return kernel == 1 && width > 28;
    if (kernel == 1) return !(conv->batch <= 16 && conv->in_channels >= 128 && width <= 7);
    return !(conv->in_channels >= 512 || (conv->in_channels >= 256 && width >= 28));
}

/* On a card the trees were not fitted on, doubt has a floor: engines differ by generation, layouts
 * less so. */
static double doubt_of(double measured, int major, int minor) {
    if (major == 9 && minor == 0) return measured;
    double other = major == 8 || major == 10 || major == 12 ? 0.3 : 0.5;
    return measured > other ? measured : other;
}

bool pl_workspace_conv_choices(const pl_conv *conv, pl_conv_pass pass, int cc_major, int cc_minor,
                               pl_conv_choices *out) {
    shape d;
    double f[FEATURES];
    if (!read(conv, pass, cc_major, cc_minor, &d) || pl_workspace_conv_native(conv)) return false;
    features(&d, f);
    out->pass = d.pass;
    out->tensors = tensor_bytes(&d);
    for (int i = 0; i < FEATURES; i++) out->features[i] = (float)f[i];
    for (int i = 0; i < FORMULAS; i++) out->bytes[i] = formulas[i](&d);
    return true;
}

static int64_t answer_for(const pl_conv *conv, pl_conv_pass pass, bool tried, int cc_major,
                          int cc_minor, double *relative_uncertainty) {
    double unused;
    if (!relative_uncertainty) relative_uncertainty = &unused;
    shape d;
    if (!read(conv, pass, cc_major, cc_minor, &d)) {
        *relative_uncertainty = 1.0;
        return INT64_MAX;
    }
    if (pl_workspace_conv_native(conv)) {
        *relative_uncertainty = 0;
        return 0;
    }
    const pl_workspace_node *leaf = leaf_of(&d, tried);
    *relative_uncertainty = doubt_of(leaf->value, cc_major, cc_minor);
    return leaf->low >= 0 && leaf->low < FORMULAS ? formulas[leaf->low](&d) : 0;
}

int64_t pl_workspace_conv(const pl_conv *conv, pl_conv_pass pass, int cc_major, int cc_minor,
                          double *relative_uncertainty) {
    return answer_for(conv, pass, false, cc_major, cc_minor, relative_uncertainty);
}

int64_t pl_workspace_conv_tried(const pl_conv *conv, pl_conv_pass pass, int cc_major, int cc_minor,
                                double *relative_uncertainty) {
    int64_t kept = answer_for(conv, pass, false, cc_major, cc_minor, NULL);
    int64_t tried = answer_for(conv, pass, true, cc_major, cc_minor, relative_uncertainty);
    return tried > kept ? tried : kept;
}
