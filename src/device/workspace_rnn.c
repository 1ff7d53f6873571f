/* workspace_rnn: what cuDNN's recurrent layers take from PyTorch's allocator: the packed weights,
 * the reserve that backward needs, and the workspaces of both passes.
 *
 * Which algorithm runs is PyTorch's choice (get_algo in aten/src/ATen/native/cudnn/RNN.cpp). The
 * sizes were found by taking 420 measured layers apart (H200, PyTorch 2.11, cuDNN 9.19,
 * 2026-11-15): the workspace is exact on 417 of them, forward and backward, and at most 352 bytes
 * off on the other three (sizes that are no multiple of 32 bytes); reserve and weights are exact on
 * all. The rules were made on those same layers. The 15 recorded jobs of the ground truth with such
 * layers were not used for them; they have all four sizes, the three jobs with amp-bf16 once asked
 * for in fp16: autocast runs these layers in fp16 whatever its type (AutocastRNN.cpp), so that is
 * the type to ask for there. Left out: packed sequences of unequal length; and three cases that get
 * the training size of the standard algorithm and a higher uncertainty: PERSIST_STATIC (one layer,
 * one direction, fp16, sizes that are multiples of 128, batches that are multiples of 8), which no
 * measured layer used, forward without training, and fp64. */
#include "device/workspace.h"

/* Products of sizes up to these, times the factors below, stay within an int64_t. */
#define MOST_LAYERS 1024
#define MOST_SIZE   ((int64_t)1 << 24)
#define MOST_BYTES  ((int64_t)1 << 48) /* of one tensor */

typedef enum algorithm { STANDARD, PERSIST_STATIC, PERSIST_SMALL } algorithm;

/* What depends on the cell. Sizes below in units of u: batch x seq x hidden elements in bytes, one
 * direction. */
typedef struct cell {
    int64_t gates;                         /* weight matrices per layer and direction and kind */
    int64_t reserve;                       /* u per layer and direction kept for backward */
    int64_t small_forward, small_backward; /* the largest hidden size of PERSIST_SMALL */
    int64_t small_extra;                   /* u more in PERSIST_SMALL's plain plan */
} cell;

static const cell cells[] = {
    [PL_RNN_RELU] = {1, 1, 384, 256, 9},
    [PL_RNN_TANH] = {1, 1, 384, 256, 9},
    [PL_RNN_LSTM] = {4, 5, 192, 128, 12},
    [PL_RNN_GRU] = {3, 6, 192, 128, 14},
};

/* Every buffer starts at a multiple of 32 bytes. */
static int64_t up(int64_t bytes) {
    return (bytes + 31) / 32 * 32;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* get_algo. The rule asks for 98 multiprocessors or more, which is not known here: of the cards
 * with compute capability 8.0 and later, 8.0 (but the A30), 8.9's largest, 9.0 and later have them.
 */
static algorithm chosen(const pl_rnn *r, bool forward, int cc_major, int cc_minor) {
    const cell *c = &cells[r->mode];
    if (r->projection || r->dtype == PL_DT_F64) return STANDARD;
    /* cuDNN has no such kernel for bfloat16 and takes the standard one's workspace. */
    if (r->hidden <= (forward ? c->small_forward : c->small_backward))
        return r->dtype == PL_DT_BF16 ? STANDARD : PERSIST_SMALL;
    if (r->dtype != PL_DT_F16 || r->layers > 1 || r->directions > 1 || r->hidden > 1024 ||
        r->hidden % 128 || r->input % 128)
        return STANDARD;
    if (cc_major == 7 && cc_minor != 5) {
        bool batch = (r->batch % 16 == 0 && r->batch != 80 && r->batch != 112) || r->batch == 8;
        bool steps = (r->seq >= 40 && r->batch <= 128) || (r->seq >= 20 && r->batch <= 96) ||
                     (r->seq >= 10 && r->batch <= 32);
        return batch && steps ? PERSIST_STATIC : STANDARD;
    }
    if (cc_major < 8 || cc_minor == 6 || r->mode == PL_RNN_GRU || r->batch % 8 || r->batch > 128)
        return STANDARD;
    if (r->mode != PL_RNN_LSTM && r->batch >= 96 && r->hidden >= 896) return STANDARD;
    return PERSIST_STATIC;
}

/* Time steps that the standard algorithm holds at once where layers run one behind the other: a
 * block of steps for each layer and at least eight more. Measured batches: 1, 2, 4, 8, 16, 20, 32,
 * 64, 128, 256; lengths: 100 and 128 lie on either side of the limit. */
static int64_t steps_held(const pl_rnn *r) {
    if (r->layers == 1) return r->seq;
    int64_t block = r->batch == 1    ? 32
                    : r->batch <= 8  ? 16
                    : r->batch <= 16 ? 8
                    : r->batch <= 64 ? 4
                                     : 2;
    if (r->seq >= 128) block = larger(block, 8);
    int64_t held = block * r->layers + larger(block, 8);
    return held < r->seq ? held : r->seq;
}

/* The workspace is as large as the larger of two plans (it serves every pass of a training step):
 * plain, and gathered, which has the gates of all steps at once. u: see above; x: the input; h: one
 * step's hidden states of one direction; p: u after the projection. All in bytes. */
static int64_t workspace(const pl_rnn *r, algorithm how, int64_t matrices, int64_t size) {
    const cell *c = &cells[r->mode];
    bool lstm = r->mode == PL_RNN_LSTM, small = how == PERSIST_SMALL, deep = r->layers > 1;
    int64_t rows = r->batch * r->seq, h = r->batch * r->hidden * size;
    int64_t u = up(rows * r->hidden * size), x = up(rows * r->input * size);
    int64_t p = up(rows * r->projection * size);
    int64_t plain, gathered = 0, states, gathered_states;
    if (r->directions == 1) {
        states = !lstm ? 5 + small : r->projection ? 9 : 11 + small;
        gathered_states = !lstm ? 5 : small ? 8 : r->projection ? 9 : 10;
        int64_t held = steps_held(r);
        plain = 2 * u + (small || held == r->seq ? u : up(held * h)) + larger(x, u) + 2 * x;
        if (small) plain += (c->small_extra + deep) * u;
        int64_t extra = deep && r->dropout > 0;
        /* Not used by the two measured layers of 500 steps that would have needed more for it. */
        if (small)
            gathered = lstm ? (21 + extra) * u + x : 0;
        else if (r->seq <= 256)
            gathered = (c->gates + 1 + extra) * u + x + p;
    } else {
        states = !lstm ? 14 : r->projection ? 24 : 26;
        gathered_states = !lstm ? 14 : small ? 18 : r->projection ? 22 : 24;
        plain = (deep ? 12 : 10) * u + 2 * x + 4 * larger(0, x - u);
        if (small) plain += c->small_extra * u;
        if (small)
            gathered = lstm ? 30 * u + x : 0;
        else
            gathered = (2 * c->gates + 6) * u + x + 2 * p;
    }
    plain += up(states * h * r->layers);
    if (gathered) gathered += up(gathered_states * h * r->layers);
    /* Each layer and direction has 8 MiB for its matrix products and a copy of its matrices. */
    int64_t fixed = ((int64_t)8 << 20) * r->layers * r->directions + matrices * size;
    return fixed + up(8 * r->batch + 256) + larger(plain, gathered);
}

/* Kept from forward to backward: gates and states of every layer, the outputs between layers, and
 * the dropout masks, one bit per element. With a projection (always half of hidden where measured)
 * the sum is exact, its division between hidden and projection is not known. */
static int64_t reserve(const pl_rnn *r, int64_t size) {
    const cell *c = &cells[r->mode];
    int64_t rows = r->batch * r->seq * r->directions, between = r->layers - 1;
    int64_t width = r->projection ? r->projection : r->hidden;
    int64_t u = up(rows * r->hidden * size), v = up(rows * width * size);
    /* The LSTM keeps its cell states in a buffer of their own. */
    int64_t gates = r->mode == PL_RNN_LSTM ? up(4 * rows * r->hidden * size) + u
                                           : up(c->reserve * rows * r->hidden * size);
    int64_t bytes = r->layers * gates + between * v + 256;
    if (r->projection) bytes += r->layers * u + (2 * r->layers - 1) * v;
    if (r->dropout > 0) bytes += between * r->directions * up((rows * width + 7) / 8);
    return bytes;
}

static bool within(int64_t value, int64_t most) {
    return value >= 1 && value <= most;
}

bool pl_workspace_rnn(const pl_rnn *r, int cc_major, int cc_minor, pl_rnn_memory *out) {
    *out = (pl_rnn_memory){.uncertainty = 1.0};
    int64_t size = pl_dtype_size(r->dtype);
    if ((unsigned)r->mode > PL_RNN_GRU || size < 1 || size > 8 || !within(r->directions, 2) ||
        !within(r->layers, MOST_LAYERS) || !within(r->batch, MOST_SIZE) ||
        !within(r->seq, MOST_SIZE) || !within(r->input, MOST_SIZE) ||
        !within(r->hidden, MOST_SIZE) || r->projection < 0 || r->projection > r->hidden)
        return false;
    int64_t rows = r->batch * r->seq, widest = larger(r->input, r->hidden) * r->directions;
    int64_t most = MOST_BYTES / size / r->layers;
    if (rows > most / widest || r->hidden > most / widest) return false;

    int64_t gates = cells[r->mode].gates, width = r->projection ? r->projection : r->hidden;
    int64_t matrices = 0; /* elements, without biases */
    for (int64_t i = 0; i < r->layers; i++) {
        int64_t in = i ? width * r->directions : r->input;
        matrices += r->directions * r->hidden * (gates * (in + width) + r->projection);
    }
    /* cuDNN has two biases per gate, also where the module has none. */
    out->weights = matrices + 2 * gates * r->hidden * r->layers * r->directions;
    if (r->training) out->reserve = reserve(r, size);
    algorithm forward = chosen(r, true, cc_major, cc_minor);
    algorithm backward = chosen(r, false, cc_major, cc_minor);
    out->forward = workspace(r, forward, matrices, size);
    out->backward = workspace(r, backward, matrices, size);
    bool measured = cc_major == 9 && cc_minor == 0 && size <= 4 && r->training;
    bool guessed = forward == PERSIST_STATIC || backward == PERSIST_STATIC;
    out->uncertainty = !measured || guessed ? 0.2 : 0.01;
    return true;
}
