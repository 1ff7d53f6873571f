/* rivals: the analytical estimators on figures worked out by hand: a made-up profile, a small MLP
 * and a tiny GPT-2; what they refuse, and counts too large for 63 bits. */
#include <string.h>

#include "check.h"
#include "lab/estimators/method.h"

extern const pl_estimator pl_estimator_horus, pl_estimator_dnnmem, pl_estimator_llmem,
    pl_estimator_zero, pl_estimator_accelerate, pl_estimator_faketensor;

static const pl_estimator *const rivals[] = {&pl_estimator_horus,      &pl_estimator_dnnmem,
                                             &pl_estimator_llmem,      &pl_estimator_zero,
                                             &pl_estimator_accelerate, &pl_estimator_faketensor};
enum { RIVALS = sizeof rivals / sizeof *rivals };

#define MIB (INT64_C(1) << 20)

static const char *folder;

/* Linear(10, 20), ReLU, Linear(20, 5): 325 parameters, 45 activations per sample. */
static pl_profile_layer layers[] = {{"Linear", PL_LAYER_LINEAR, 20, 220},
                                    {"ReLU", PL_LAYER_ACTIVATION, 20, 0},
                                    {"Linear", PL_LAYER_LINEAR, 5, 105}};

typedef struct made_up {
    pl_job job;
    pl_gpu gpu;
    pl_profile profile;
    pl_subject subject;
} made_up;

static void make_up(made_up *m) {
    *m = (made_up){0};
    pl_job_default(&m->job);
    m->job.batch = 8;
    m->job.precision = PL_FP32;
    m->gpu = *pl_gpu_find("h200");
    m->profile = (pl_profile){.parameters = 325,
                              .trainable = 325,
                              .parameter_bytes = 1300,
                              .buffer_bytes = 100,
                              .input_elements = 10,
                              .layers = layers,
                              .layer_count = 3};
    m->subject = (pl_subject){.job = &m->job, .gpu = &m->gpu, .profile = &m->profile};
}

/* The peak, or minus the status. The job of the profile is the one asked about. */
static int64_t peak_of(const pl_estimator *e, made_up *m, pl_error *err) {
    m->profile.job = m->job;
    pl_report *report = pl_report_new(NULL, 0);
    pl_status status = e->estimate(report, &m->subject, NULL, err);
    int64_t peak = status == PL_OK ? report->peak_bytes : -(int64_t)status;
    if (status == PL_OK) {
        CHECK_INT(report->low_bytes, PL_UNKNOWN);
        CHECK_INT(report->high_bytes, PL_UNKNOWN);
    }
    pl_report_close(&report);
    return peak;
}

static int64_t peak(const pl_estimator *e, made_up *m) {
    pl_error err = {0};
    return peak_of(e, m, &err);
}

static void rows_say_what_they_are(void) {
    for (int i = 0; i < RIVALS; i++) {
        const pl_estimator_info *info = &rivals[i]->info;
        CHECK_INT(info->kind, PL_ANALYTICAL);
        CHECK(info->title && info->title[0] && !strchr(info->title, '\n'));
        CHECK(info->source && info->source[0] && info->leaves_out && info->leaves_out[0]);
        CHECK(!info->learns && !rivals[i]->method && rivals[i]->estimate);
        for (int k = 0; k < i; k++) CHECK(strcmp(info->name, rivals[k]->info.name) != 0);
    }
    CHECK(!pl_estimator_horus.info.needs_graph && !pl_estimator_zero.info.needs_graph);
    CHECK(!pl_estimator_accelerate.info.needs_graph && pl_estimator_faketensor.info.needs_graph);
}

/* Formulas that do not look at the batch say so, whatever the batch. */
static void states_alone_are_said_to_be_that(void) {
    for (int i = 0; i < RIVALS; i++) {
        made_up m;
        make_up(&m);
        m.job.batch = 1 << 30;
        m.profile.job = m.job;
        if (rivals[i]->info.needs_graph) continue;
        pl_report *report = pl_report_new(NULL, 0);
        CHECK_INT(rivals[i]->estimate(report, &m.subject, NULL, NULL), PL_OK);
        bool blind = rivals[i] == &pl_estimator_zero || rivals[i] == &pl_estimator_accelerate;
        CHECK_INT(report->warning_count, blind);
        if (report->warning_count)
            CHECK(strstr(report->warnings[0], "activations are not counted") != NULL);
        pl_report_close(&report);
    }
}

static void horus_is_its_formula(void) {
    made_up m;
    make_up(&m);
    CHECK_INT(peak(&pl_estimator_horus, &m), 4 * (45 * 8 + 325 + 8 * 325));
    m.job.batch = 1;
    CHECK_INT(peak(&pl_estimator_horus, &m), 4 * (45 + 325 + 325));
    m.job.precision = PL_BF16; /* it does not look */
    CHECK_INT(peak(&pl_estimator_horus, &m), 4 * (45 + 325 + 325));
    m.job.batch = PL_UNKNOWN;
    CHECK_INT(peak(&pl_estimator_horus, &m), -PL_USAGE);
}

static void zero_parts_what_its_stage_parts(void) {
    made_up m;
    make_up(&m);
    CHECK_INT(peak(&pl_estimator_zero, &m), 20 * 325);
    CHECK(pl_parallel_parse("ddp:4", &m.job));
    CHECK_INT(peak(&pl_estimator_zero, &m), 20 * 325);
    CHECK(pl_parallel_parse("fsdp2:4:2", &m.job));
    CHECK_INT(peak(&pl_estimator_zero, &m), 2 * 325 + 18 * 325 / 4);
    CHECK(pl_parallel_parse("fsdp2:4", &m.job)); /* stage 3: the largest layer has 220 */
    CHECK_INT(peak(&pl_estimator_zero, &m), 4 * 220 + 18 * 325 / 4);
    /* T5-3B on 8 GPUs, from DeepSpeed's documentation: 6.09 GB. */
    CHECK(pl_parallel_parse("fsdp2:8:3", &m.job));
    pl_profile_layer largest = {"Linear", PL_LAYER_LINEAR, 0, 32000000};
    m.profile.parameters = 2851000000;
    m.profile.layers = &largest;
    m.profile.layer_count = 1;
    CHECK_INT(peak(&pl_estimator_zero, &m), 6542750000);
    CHECK_INT(6542750000 * 100 >> 30, 609);
}

static void accelerate_multiplies_the_model(void) {
    made_up m;
    make_up(&m);
    CHECK_INT(peak(&pl_estimator_accelerate, &m), 4 * 1400);
    m.job.optimizer = "sgd"; /* Adam all the same */
    CHECK_INT(peak(&pl_estimator_accelerate, &m), 4 * 1400);
    m.job.precision = PL_AMP_BF16;
    CHECK_INT(peak(&pl_estimator_accelerate, &m), 2 * 1400);
    m.job.precision = PL_BF16;
    m.profile.parameter_bytes = 650;
    m.profile.buffer_bytes = 50;
    CHECK_INT(peak(&pl_estimator_accelerate, &m), 2 * 1400);
    m.job.optimizer = "none";
    CHECK_INT(peak(&pl_estimator_accelerate, &m), 700);
}

static void too_large_is_an_error(void) {
    static const pl_estimator *const by_counts[] = {&pl_estimator_horus, &pl_estimator_zero,
                                                    &pl_estimator_accelerate};
    for (size_t i = 0; i < sizeof by_counts / sizeof *by_counts; i++) {
        made_up m;
        make_up(&m);
        pl_error err = {0};
        m.profile.parameters = INT64_MAX / 2;
        m.profile.parameter_bytes = INT64_MAX / 2;
        CHECK_INT(peak_of(by_counts[i], &m, &err), -PL_INPUT);
        CHECK_INT(err.code, PL_INPUT);
        CHECK_STR(err.where, by_counts[i]->info.name);
        m.profile.parameters = m.profile.parameter_bytes = PL_UNKNOWN;
        CHECK_INT(peak(by_counts[i], &m), -PL_INPUT);
    }
    made_up m;
    make_up(&m);
    m.job.batch = INT64_MAX / 45; /* fits once, not four times */
    CHECK_INT(peak(&pl_estimator_horus, &m), -PL_INPUT);
}

static void training_formulas_refuse_inference(void) {
    static const pl_estimator *const trains[] = {&pl_estimator_horus, &pl_estimator_zero,
                                                 &pl_estimator_llmem};
    for (size_t i = 0; i < sizeof trains / sizeof *trains; i++) {
        made_up m;
        make_up(&m);
        m.job.optimizer = "none";
        CHECK_INT(peak(trains[i], &m), -PL_USAGE);
    }
}

static void one_gpu_estimators_refuse_more(void) {
    static const pl_estimator *const alone[] = {&pl_estimator_dnnmem, &pl_estimator_llmem,
                                                &pl_estimator_faketensor};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        made_up m;
        make_up(&m);
        pl_error err = {0};
        CHECK(pl_parallel_parse("ddp:2", &m.job));
        CHECK_INT(peak_of(alone[i], &m, &err), -PL_USAGE);
        CHECK_STR(err.where, "parallel");
    }
}

/* ---- with a graph ---- */

static pl_arena *arena;

/* A subject of a file's graph; false: said why. */
static bool open_subject(made_up *m, pl_model **model, pl_graph **g, bool *owned, const char *file,
                         int64_t batch) {
    char path[512];
    pl_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, file);
    make_up(m);
    m->job.batch = batch;
    m->job.optimizer = "adam";
    int64_t seq;
    pl_status status = pl_model_open(model, path, NULL, &err);
    for (int32_t i = 0; status == PL_OK && i < (*model)->graph->symbol_count; i++)
        (*model)->graph->symbols[i].most = INT64_MAX; /* larger than it was exported for */
    if (status == PL_OK &&
        pl_model_graph(*model, &m->job, NULL, g, owned, &batch, &seq, &err) == PL_OK &&
        pl_profile_of_graph(&m->profile, *g, &m->job, batch, seq, arena)) {
        m->subject.model = *model;
        m->subject.graph = *g;
        return true;
    }
    check_say(path, 0, err.message);
    pl_model_close(model);
    return false;
}

/* One estimate of a file's graph, or minus the status. */
static int64_t graph_peak(const pl_estimator *e, const char *file, int64_t batch,
                          const char *optimizer, pl_full_report *copy) {
    made_up m;
    pl_model *model = NULL;
    pl_graph *g = NULL;
    bool owned = false;
    if (!open_subject(&m, &model, &g, &owned, file, batch)) return -1;
    m.job.optimizer = optimizer;
    pl_error err = {0};
    pl_report *report = pl_report_new(NULL, 0);
    pl_status status = e->estimate(report, &m.subject, NULL, &err);
    int64_t result = status == PL_OK ? report->peak_bytes : -(int64_t)status;
    if (copy) *copy = *pl_report_full(report); /* numbers alone are looked at */
    pl_report_close(&report);
    if (owned) pl_graph_close(&g);
    pl_model_close(&model);
    return result;
}

/* mlp.pt2 is Linear(16, 32), ReLU, Linear(32, 4), float32, cross-entropy: 2048 + 128 + 512 + 16
 * bytes of weights. With a batch of 4 the peak is where the first layer's gradients are made:
 * weights, input 256, target 32, loss and its gradient 4 each, gradient of the hidden layer 512,
 * and the gradients of all weights. */
static void faketensor_counts_tensors_to_the_byte(void) {
    pl_full_report r;
    int64_t weights = 2048 + 128 + 512 + 16;
    CHECK_INT(graph_peak(&pl_estimator_faketensor, "mlp.pt2", 4, "adam", &r),
              2 * weights + 256 + 32 + 4 + 4 + 512);
    CHECK_INT(r.breakdown[PL_WEIGHTS], weights);
    CHECK_INT(r.breakdown[PL_GRADIENTS], weights);
    CHECK_INT(r.breakdown[PL_INPUTS], 256 + 32);
    CHECK_INT(r.breakdown[PL_OPTIMIZER], PL_UNKNOWN);
    CHECK_INT(r.breakdown[PL_CONTEXT], PL_UNKNOWN);
    CHECK_INT(r.report.peak_phase, PL_PHASE_BACKWARD);
    /* The optimizer does not count. */
    CHECK_INT(graph_peak(&pl_estimator_faketensor, "mlp.pt2", 4, "sgd", NULL),
              2 * weights + 256 + 32 + 4 + 4 + 512);
    /* Forward alone: weights, input and target, and the hidden layer before and after ReLU. */
    CHECK_INT(graph_peak(&pl_estimator_faketensor, "mlp.pt2", 4, "none", NULL),
              weights + 256 + 32 + 512 + 512);
}

/* A sample is 64 bytes of input, 8 of target, 128 of hidden layer, 16 of output. */
static void dnnmem_reserves_by_its_rule(void) {
    int64_t context = pl_gpu_find("h200")->context_bytes;
    pl_full_report r;
    /* All of it small: one segment. */
    CHECK_INT(graph_peak(&pl_estimator_dnnmem, "mlp.pt2", 4, "adam", &r), context + 2 * MIB);
    int64_t sum = 0;
    for (int k = 0; k < PL_KINDS; k++) sum += r.breakdown[k];
    CHECK_INT(sum, r.report.peak_bytes);
    CHECK_INT(r.report.reserved_bytes, 2 * MIB);
    /* Weights 2048, 512, 512, 512 rounded; Adam's state twice that. */
    CHECK_INT(r.breakdown[PL_WEIGHTS], 3584);
    CHECK_INT(r.breakdown[PL_OPTIMIZER], 2 * 3584);
    /* 65536 samples: input 4 MiB, hidden 8 MiB: with its ReLU's output and two gradients 28 MiB at
     * most: two segments of 20. Output 1 MiB, three of them and the target's 0.5 MiB: two of 2. */
    CHECK_INT(graph_peak(&pl_estimator_dnnmem, "mlp.pt2", 65536, "adam", NULL),
              context + (40 + 4) * MIB);
    /* 262144: input 16, three of the hidden layer's 32 MiB each on their own, one segment of 20 for
     * the target's 2 MiB, and one of 2 for the rest. */
    CHECK_INT(graph_peak(&pl_estimator_dnnmem, "mlp.pt2", 262144, "adam", NULL),
              context + (16 + 3 * 32 + 20 + 2) * MIB);
}

/* gpt2-tiny.pt2: 2 blocks, width 32, vocabulary 128, sequence 16; the head is tied. In steps of 2
 * MiB: two chunks; two states of 10 matrices and 8 biases; the head. */
static void llmem_is_its_formula(void) {
    int64_t context = pl_gpu_find("h200")->context_bytes, fixed = 2 * (2 + 2 * 18 + 1) * MIB;
    pl_full_report r;
    /* Small: input 1 step, 2 + 2 outputs, logits and twice the shifted ones. */
    CHECK_INT(graph_peak(&pl_estimator_llmem, "gpt2-tiny.pt2", 2, "adamw", &r),
              context + fixed + 2 * (1 + 4 + 3) * MIB);
    CHECK_INT(r.breakdown[PL_OPTIMIZER], 2 * 2 * 18 * MIB);
    /* 65536 x 16 = 2^20 tokens: 8 bytes, four times 64, 256, and twice 15/16 of 256. */
    CHECK_INT(graph_peak(&pl_estimator_llmem, "gpt2-tiny.pt2", 65536, "adamw", NULL),
              context + fixed + (8 + 4 * 64 + 256 + 2 * 240) * MIB);
}

static void llmem_refuses_what_is_no_decoder(void) {
    static const char *const others[] = {"mlp.pt2", "bert-tiny.pt2", "vit.pt2", "resnet18.pt2"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_INT(graph_peak(&pl_estimator_llmem, others[i], 2, "adamw", NULL), -PL_USAGE);
}

static void sums_over_a_graph_do_not_wrap(void) {
    made_up m;
    pl_model *model = NULL;
    pl_graph *g = NULL;
    bool owned = false;
    if (!open_subject(&m, &model, &g, &owned, "gpt2-tiny.pt2", 2)) return;
    CHECK(peak(&pl_estimator_llmem, &m) > 0);
    m.profile.parameters = INT64_MAX / 2;
    CHECK_INT(peak(&pl_estimator_llmem, &m), -PL_INPUT);
    m.gpu.context_bytes = INT64_MAX;
    CHECK_INT(peak(&pl_estimator_dnnmem, &m), -PL_INPUT);
    if (owned) pl_graph_close(&g);
    pl_model_close(&model);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    pl_lab_register();
    arena = pl_arena_new(0);
    if (!arena) return 2;
    RUN(rows_say_what_they_are);
    RUN(states_alone_are_said_to_be_that);
    RUN(horus_is_its_formula);
    RUN(zero_parts_what_its_stage_parts);
    RUN(accelerate_multiplies_the_model);
    RUN(too_large_is_an_error);
    RUN(training_formulas_refuse_inference);
    RUN(one_gpu_estimators_refuse_more);
    RUN(faketensor_counts_tensors_to_the_byte);
    RUN(dnnmem_reserves_by_its_rule);
    RUN(llmem_is_its_formula);
    RUN(llmem_refuses_what_is_no_decoder);
    RUN(sums_over_a_graph_do_not_wrap);
    pl_arena_free(&arena);
    return check_done();
}
