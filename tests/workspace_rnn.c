/* workspace_rnn: what cuDNN's recurrent layers take, against measured numbers.
 *
 * Each row is a measured layer (tools/measure/rnn_sdpa.py; an H200 on 2026-11-15, PyTorch 2.11,
 * cuDNN 9.19): at least one for every cell, algorithm, type and number of directions, one and more
 * layers, with and without projection and dropout. All must be met to the byte. */
#include "device/workspace.h"

#include "check.h"

enum { RELU = PL_RNN_RELU, TANH = PL_RNN_TANH, LSTM = PL_RNN_LSTM, GRU = PL_RNN_GRU };
enum { F16 = PL_DT_F16, F32 = PL_DT_F32, BF16 = PL_DT_BF16 };

typedef struct row {
    int mode, dtype;
    int64_t layers, directions, batch, seq, input, hidden, projection;
    double dropout;
    int64_t weights;                    /* elements */
    int64_t reserve, forward, backward; /* bytes */
} row;

/* clang-format off */
static const row rows[] = {
    {RELU, F16, 1, 1, 20, 500, 300, 128, 0, 0, 55040, 2560256, 57249312, 57249312},
    {RELU, F32, 1, 1, 64, 100, 256, 128, 0, 0, 49408, 3277056, 67764992, 67764992},
    {RELU, F32, 1, 1, 1, 500, 512, 256, 0, 0.2, 197120, 512256, 18397472, 18397472},
    {RELU, F32, 1, 1, 1, 100, 32, 384, 0, 0, 160512, 153856, 11059488, 9675552},
    {RELU, F32, 2, 1, 256, 16, 1024, 384, 0, 0.2, 837120, 19071232, 156961024, 91687168},
    {RELU, F32, 2, 1, 2, 5, 300, 1024, 0, 0.2, 3457024, 124416, 30858976, 30858976},
    {RELU, F16, 3, 1, 64, 500, 16, 100, 0, 0.2, 52200, 32800256, 117148192, 117148192},
    {RELU, BF16, 1, 2, 16, 50, 32, 1024, 0, 0, 2166784, 3277056, 38048128, 38048128},
    {RELU, F32, 1, 2, 256, 32, 1024, 64, 0, 0, 139520, 4194560, 251037952, 251037952},
    {RELU, F32, 3, 2, 2, 25, 100, 384, 0, 0.2, 2145792, 787456, 60678496, 59987296},
    {RELU, BF16, 4, 2, 16, 50, 64, 32, 0, 0, 25088, 717056, 68239744, 68239744},
    {RELU, BF16, 6, 2, 256, 1, 256, 32, 0, 0.2, 49920, 381184, 103057664, 103057664},
    {TANH, BF16, 1, 1, 256, 128, 32, 384, 0, 0.2, 160512, 25166080, 114551040, 114551040},
    {TANH, F16, 1, 1, 20, 1, 16, 1024, 0, 0, 1067008, 41216, 10888864, 10888864},
    {TANH, F32, 1, 1, 128, 256, 300, 1024, 0, 0.2, 1357824, 134217984, 631948544, 631948544},
    {TANH, F32, 1, 1, 256, 256, 16, 32, 0, 0.2, 1600, 8388864, 126034176, 126034176},
    {TANH, F32, 2, 1, 16, 64, 128, 128, 0, 0, 66048, 1573120, 25526656, 25526656},
    {TANH, F16, 6, 1, 64, 25, 64, 1024, 0, 0.2, 11612160, 37069056, 90981120, 90981120},
    {TANH, BF16, 6, 1, 20, 5, 16, 512, 0, 0, 2897920, 1126656, 57146016, 57146016},
    {TANH, F16, 1, 2, 64, 25, 300, 384, 0, 0.2, 526848, 2457856, 43783936, 32724736},
    {TANH, F32, 1, 2, 8, 128, 128, 256, 0, 0, 197632, 2097408, 38650176, 38650176},
    {TANH, F32, 4, 2, 16, 50, 512, 16, 0, 0.2, 21760, 736256, 77953408, 77953408},
    {GRU, F16, 1, 1, 4, 100, 1024, 768, 0, 0, 4133376, 3686656, 20977952, 20977952},
    {GRU, F32, 1, 1, 1, 50, 300, 16, 0, 0, 15264, 19456, 8684352, 8684352},
    {GRU, F32, 1, 1, 20, 256, 32, 200, 0, 0.2, 140400, 24576256, 26720544, 26720544},
    {GRU, F16, 2, 1, 1, 5, 1024, 32, 0, 0, 107904, 4416, 17029792, 17029792},
    {GRU, F16, 2, 1, 8, 128, 100, 768, 0, 0, 5548032, 20447488, 34474304, 34474304},
    {GRU, BF16, 2, 1, 2, 32, 16, 1024, 0, 0, 9498624, 1704192, 36319520, 36319520},
    {GRU, F32, 3, 1, 128, 100, 128, 384, 0, 0.2, 2366208, 394445056, 142411008, 142411008},
    {GRU, F32, 6, 1, 8, 500, 32, 2048, 0, 0, 138682368, 1343488256, 713400640, 713400640},
    {GRU, F16, 1, 2, 20, 100, 100, 32, 0, 0.2, 25728, 1536256, 21806240, 21806240},
    {GRU, F32, 1, 2, 1, 256, 1024, 1024, 0, 0, 12595200, 12583168, 80797984, 80797984},
    {GRU, BF16, 2, 2, 8, 50, 32, 32, 0, 0.2, 31488, 672256, 33988928, 33988928},
    {GRU, F16, 2, 2, 64, 25, 512, 100, 0, 0, 549600, 8320256, 51878400, 51878400},
    {GRU, F32, 2, 2, 1, 25, 100, 200, 0, 0, 1084800, 520256, 38157152, 38157152},
    {LSTM, F16, 1, 1, 2, 64, 512, 16, 0, 0, 33920, 20736, 8911904, 8911904},
    {LSTM, F16, 1, 1, 64, 1, 16, 256, 128, 0.2, 182272, 213248, 9227008, 9227008},
    {LSTM, F16, 1, 1, 8, 5, 64, 200, 0, 0, 212800, 80256, 8928448, 8928448},
    {LSTM, F32, 1, 1, 8, 10, 64, 128, 0, 0, 99328, 205056, 9695552, 9695552},
    {LSTM, F16, 2, 1, 32, 5, 300, 1024, 0, 0.2, 13828096, 3625216, 47773952, 47773952},
    {LSTM, F32, 2, 1, 20, 50, 100, 64, 0, 0.2, 75776, 2824256, 23190560, 23190560},
    {LSTM, BF16, 3, 1, 20, 5, 32, 100, 0, 0.2, 215200, 342816, 25838240, 25838240},
    {LSTM, F16, 6, 1, 64, 64, 64, 16, 8, 0, 11264, 5767424, 52364544, 52364544},
    {LSTM, F32, 6, 1, 32, 16, 16, 1024, 512, 0, 26329088, 92274944, 174096896, 174096896},
    {LSTM, BF16, 1, 2, 8, 16, 100, 2048, 0, 0, 35225600, 5243136, 95315264, 95315264},
    {LSTM, F16, 1, 2, 16, 25, 300, 512, 256, 0, 2547712, 5325056, 28601088, 28601088},
    {LSTM, F32, 1, 2, 2, 128, 300, 32, 0, 0, 85504, 327936, 19557152, 19557152},
    {LSTM, F32, 2, 2, 16, 100, 300, 256, 0, 0.2, 2719744, 36249856, 70045056, 70045056},
    {LSTM, F16, 3, 2, 20, 32, 16, 1024, 0, 0.2, 58900480, 45220096, 189354400, 189354400},
    {LSTM, BF16, 3, 2, 20, 128, 64, 256, 0, 0, 3813376, 44564736, 77349280, 77349280},
    {LSTM, F16, 4, 2, 1, 64, 64, 100, 0, 0, 857600, 589056, 69218144, 69218144},
    {LSTM, F32, 4, 2, 8, 5, 16, 1024, 512, 0.2, 46333952, 9533696, 257526592, 257526592},
};
/* clang-format on */

static pl_rnn request(const row *r) {
    return (pl_rnn){.mode = (pl_rnn_mode)r->mode,
                    .layers = r->layers,
                    .directions = r->directions,
                    .batch = r->batch,
                    .seq = r->seq,
                    .input = r->input,
                    .hidden = r->hidden,
                    .projection = r->projection,
                    .bias = true,
                    .training = true,
                    .dropout = r->dropout,
                    .dtype = (pl_dtype)r->dtype};
}

static void measured(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_rnn rnn = request(&rows[i]);
        pl_rnn_memory memory;
        int before = check_failures_in_case;
        CHECK(pl_workspace_rnn(&rnn, 9, 0, &memory));
        CHECK_INT(memory.weights, rows[i].weights);
        CHECK_INT(memory.reserve, rows[i].reserve);
        CHECK_INT(memory.forward, rows[i].forward);
        CHECK_INT(memory.backward, rows[i].backward);
        CHECK(memory.uncertainty > 0 && memory.uncertainty <= 0.05);
        if (check_failures_in_case > before) printf("    in row %zu\n", i);
    }
}

/* cuDNN's buffer has biases whether the module has them or not; no reserve without training. */
static void without(void) {
    pl_rnn rnn = request(&rows[0]);
    pl_rnn_memory memory;
    rnn.bias = rnn.training = false;
    CHECK(pl_workspace_rnn(&rnn, 9, 0, &memory));
    CHECK_INT(memory.weights, rows[0].weights);
    CHECK_INT(memory.reserve, 0);
}

/* One layer that PyTorch gives to PERSIST_STATIC, and cards that were not measured. */
static void unsure(void) {
    pl_rnn rnn = {.mode = PL_RNN_LSTM,
                  .layers = 1,
                  .directions = 1,
                  .batch = 32,
                  .seq = 50,
                  .input = 256,
                  .hidden = 512,
                  .training = true,
                  .dtype = PL_DT_F16};
    pl_rnn_memory persistent, standard, elsewhere;
    CHECK(pl_workspace_rnn(&rnn, 9, 0, &persistent));
    rnn.batch = 33;
    CHECK(pl_workspace_rnn(&rnn, 9, 0, &standard));
    CHECK(pl_workspace_rnn(&rnn, 8, 0, &elsewhere));
    CHECK(persistent.uncertainty > standard.uncertainty);
    CHECK(elsewhere.uncertainty > standard.uncertainty);
    CHECK_INT(elsewhere.forward, standard.forward);
}

static void nonsense(void) {
    const pl_rnn good = request(&rows[0]);
    pl_rnn_memory memory;
    pl_rnn bad[12];
    for (size_t i = 0; i < 12; i++) bad[i] = good;
    bad[0].layers = 0;
    bad[1].directions = 3;
    bad[2].batch = -1;
    bad[3].seq = 0;
    bad[4].input = INT64_MAX;
    bad[5].hidden = 0;
    bad[6].projection = good.hidden + 1;
    bad[7].dtype = PL_DT_UNKNOWN;
    bad[8].mode = (pl_rnn_mode)9;
    bad[9].layers = INT64_MAX;
    bad[10].batch = bad[10].seq = bad[10].hidden = (int64_t)1 << 24;
    bad[11].hidden = bad[11].input = (int64_t)1 << 24;
    bad[11].layers = 1024;
    for (size_t i = 0; i < 12; i++) CHECK(!pl_workspace_rnn(&bad[i], 9, 0, &memory));
}

int main(void) {
    RUN(measured);
    RUN(without);
    RUN(unsure);
    RUN(nonsense);
    return check_done();
}
