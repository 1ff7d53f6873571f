/* jobs: measured jobs as they are read from files, and profiles: what is known of a job from its
 * graph or from its record, and as numbers that learners take. From the root of the sources:
 *     test_jobs FOLDER
 * with the fixture's jobs.jsonl.xz and graphs.tar.xz. */
#include <lzma.h>

#include "fixture.h"
#include "lab/jobs/kin.h"

/* ---- profiles ---- */

static void classes_have_kinds(void) {
    static const struct {
        const char *type;
        pl_profile_kind kind;
    } rows[] = {
        {"Linear", PL_LAYER_LINEAR},
        {"NonDynamicallyQuantizableLinear", PL_LAYER_LINEAR},
        {"Conv1D", PL_LAYER_LINEAR}, /* GPT-2's */
        {"linear", PL_LAYER_LINEAR}, /* GPUMemNet's */
        {"Conv1d", PL_LAYER_CONVOLUTION},
        {"ConvTranspose2d", PL_LAYER_CONVOLUTION},
        {"BatchNorm2d", PL_LAYER_BATCH_NORM},
        {"FrozenBatchNorm2d", PL_LAYER_BATCH_NORM},
        {"batch_normalization", PL_LAYER_BATCH_NORM},
        {"LayerNorm", PL_LAYER_LAYER_NORM},
        {"Qwen3RMSNorm", PL_LAYER_LAYER_NORM},
        {"GroupNorm", PL_LAYER_LAYER_NORM},
        {"ConvNextLayerNorm", PL_LAYER_LAYER_NORM},
        {"Dropout", PL_LAYER_DROPOUT},
        {"StochasticDepth", PL_LAYER_DROPOUT},
        {"SwinDropPath", PL_LAYER_DROPOUT},
        {"ReLU", PL_LAYER_ACTIVATION},
        {"LeakyReLU", PL_LAYER_ACTIVATION},
        {"GELUActivation", PL_LAYER_ACTIVATION},
        {"SiLU", PL_LAYER_ACTIVATION},
        {"Hardswish", PL_LAYER_ACTIVATION},
        {"Sigmoid", PL_LAYER_ACTIVATION},
        {"Embedding", PL_LAYER_EMBEDDING},
        {"MaxPool2d", PL_LAYER_POOLING},
        {"AdaptiveAvgPool2d", PL_LAYER_POOLING},
        {"LSTM", PL_LAYER_RECURRENT},
        {"GRU", PL_LAYER_RECURRENT},
        {"MultiheadAttention", PL_LAYER_ATTENTION},
        {"Softmax", PL_LAYER_OTHER},
        {"Flatten", PL_LAYER_OTHER},
        {"Upsample", PL_LAYER_OTHER},
        {"UpsamplingBilinear2d", PL_LAYER_OTHER},
        {"Identity", PL_LAYER_OTHER},
        {"", PL_LAYER_OTHER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (pl_profile_kind_of(rows[i].type) != rows[i].kind) {
            check_say(__FILE__, __LINE__, rows[i].type);
            printf("    is of kind %d\n", (int)pl_profile_kind_of(rows[i].type));
        }
}

/* Leaf modules that ran on the GPU, elements of their outputs per sample and their parameters, as
 * forward hooks saw them (result.layers of the ground truth, 2026-11-15). */
static void graphs_have_the_layers_that_ran(void) {
    static const struct {
        const char *id;
        int64_t count, activations, parameters;
    } rows[] = {
        {"cnn-0001", 23, 33052033, 1653889},
        {"cnn-0333", 74, 1733949, 597304},
        {"cnn-0529", 50, 9050724, 76972068},
        {"cnn-1326", 6, 2457724, 3196},
        {"mlp-0084", 10, 84730, 338638205},
        {"mlp-0190", 3, 4589, 6396688},
        {"mlp-0957", 11, 15254, 18627136},
        {"rnn-0056", 3, 64010, 1631242},
        {"rnn-0658", 2, 16394, 5441546},
        {"tfm-0522", 75, 25985026, 65576960},
        {"tfm-1211", 13, 9437186, 96681984},
        {"tfm-1637", 52, 9601024, 102217472},
        {"tv-alexnet-0", 21, 1098216, 61100840},
        {"tv-resnet18-0", 60, 7477736, 11689512},
        {"tv-squeezenet1_0-0", 57, 9333112, 1248424},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const pl_measured *item = find_job(jobs, rows[i].id);
        if (!item || !item->facts.has_graph) {
            check_say(__FILE__, __LINE__, rows[i].id);
            continue;
        }
        const pl_profile *p = &item->profile;
        int64_t parameters = 0, kinds = 0;
        for (size_t k = 0; k < p->layer_count; k++) parameters += p->layers[k].parameters;
        for (int k = 0; k < PL_LAYER_KINDS; k++) kinds += pl_profile_count(p, (pl_profile_kind)k);
        if ((int64_t)p->layer_count != rows[i].count ||
            pl_profile_activations(p) != rows[i].activations || parameters != rows[i].parameters)
            printf("    %s: %zu layers, %" PRId64 " activations, %" PRId64 " parameters\n",
                   rows[i].id, p->layer_count, pl_profile_activations(p), parameters);
        CHECK_INT(p->layer_count, rows[i].count);
        CHECK_INT(pl_profile_activations(p), rows[i].activations);
        CHECK_INT(parameters, rows[i].parameters);
        CHECK_INT(kinds, rows[i].count);
    }
    const pl_measured *alexnet = find_job(jobs, "tv-alexnet-0");
    CHECK_INT(pl_profile_count(&alexnet->profile, PL_LAYER_CONVOLUTION), 5);
    CHECK_INT(pl_profile_count(&alexnet->profile, PL_LAYER_LINEAR), 3);
    CHECK_INT(pl_profile_count(&alexnet->profile, PL_LAYER_ACTIVATION), 7);
    CHECK_INT(pl_profile_count(&alexnet->profile, PL_LAYER_POOLING), 4);
    CHECK_INT(pl_profile_count(&alexnet->profile, PL_LAYER_DROPOUT), 2);
    CHECK_INT(alexnet->profile.input_elements, 3 * 224 * 224);
}

static void totals_of_graphs_are_those_measured(void) {
    size_t compared = 0, parameters = 0, trainable = 0, bytes = 0, batches = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        const pl_measured *got = &jobs->items[i], *want = &bare->items[i];
        CHECK_STR(got->facts.id, want->facts.id);
        if (!got->facts.has_graph) continue;
        compared++;
        parameters += got->profile.parameters == want->profile.parameters;
        trainable += got->profile.trainable == want->profile.trainable;
        bytes += got->profile.parameter_bytes == want->profile.parameter_bytes;
        batches += got->profile.job.batch == want->profile.job.batch;
    }
    CHECK(compared > 150 && compared < jobs->count);
    CHECK_INT(parameters, compared);
    CHECK_INT(trainable, compared);
    CHECK_INT(bytes, compared);
    /* But for nrnn-0-amp-bf16, nrnn-3-amp-fp16 and nrnn-5-bf16, whose first dimension is the
     * sequence: graphs do not say so. */
    CHECK_INT(batches, compared - 3);
}

static void state_is_the_optimizers(void) {
    static const struct {
        const char *optimizer;
        pl_precision precision;
        int weight, compute, state;
    } rows[] = {
        {"sgd", PL_FP32, 4, 4, 0},        {"sgd-momentum", PL_FP32, 4, 4, 4},
        {"adam", PL_FP32, 4, 4, 8},       {"adamw", PL_TF32, 4, 4, 8},
        {"adamw", PL_BF16, 2, 2, 4},      {"adamw", PL_AMP_BF16, 4, 2, 8},
        {"adam-fused", PL_FP16, 2, 2, 4}, {"adamw-amsgrad", PL_AMP_FP16, 4, 2, 12},
        {"rmsprop", PL_FP32, 4, 4, 4},    {"adafactor", PL_FP32, 4, 4, 0},
        {"none", PL_FP32, 4, 4, 0},       {"adamw", PL_PRECISION_AS_EXPORTED, 2, 2, 4},
        {"no-such", PL_FP32, 4, 4, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_profile p = {.parameters = 10, .trainable = 10, .parameter_bytes = 20};
        p.job.optimizer = rows[i].optimizer;
        p.job.precision = rows[i].precision;
        CHECK_INT(pl_profile_weight_bytes(&p), rows[i].weight);
        CHECK_INT(pl_profile_compute_bytes(&p), rows[i].compute);
        CHECK_INT(pl_profile_state_bytes(&p), rows[i].state);
    }
}

static void what_is_not_given_is_summed_up(void) {
    pl_profile_layer layers[] = {{.type = "Conv2d", .activations = 100, .parameters = 30},
                                 {.type = "ReLU", .activations = 100},
                                 {.type = "Linear", .activations = 10, .parameters = 70}};
    pl_profile p = {.parameters = -1, .trainable = -1, .parameter_bytes = -1, .buffer_bytes = -1};
    p.job.precision = PL_BF16;
    pl_profile_complete(&p, layers, 3);
    CHECK_INT(p.parameters, 100);
    CHECK_INT(p.trainable, 100);
    CHECK_INT(p.parameter_bytes, 200);
    CHECK_INT(p.buffer_bytes, 0);
    CHECK_INT(pl_profile_activations(&p), 210);
    CHECK_INT(p.layers[1].kind, PL_LAYER_ACTIVATION);
    p = (pl_profile){.parameters = 7, .trainable = 3, .parameter_bytes = 5, .buffer_bytes = 2};
    pl_profile_complete(&p, layers, 3);
    CHECK(p.parameters == 7 && p.trainable == 3 && p.parameter_bytes == 5 && p.buffer_bytes == 2);
    layers[0].activations = layers[1].activations = INT64_MAX; /* no overflow */
    CHECK_INT(pl_profile_activations(&p), INT64_MAX);
}

static double feature(const pl_profile *p, pl_view view, const char *name) {
    float values[PL_MOST_FEATURES];
    pl_features_of(p, view, values);
    for (size_t i = 0; i < pl_feature_count(view); i++)
        if (strcmp(pl_feature_names(view)[i], name) == 0) return (double)values[i];
    check_say(__FILE__, __LINE__, name);
    return NAN;
}

static void features_are_what_their_names_say(void) {
    pl_profile_layer layers[] = {{.type = "Linear", .activations = 63, .parameters = 1000},
                                 {.type = "GELU", .activations = 63},
                                 {.type = "Linear", .activations = 1, .parameters = 23}};
    pl_profile p = {.parameters = -1, .trainable = 511, .parameter_bytes = -1, .buffer_bytes = -1};
    pl_job_default(&p.job);
    p.job.precision = PL_AMP_BF16;
    p.job.optimizer = "adam";
    p.job.batch = 7;
    p.job.checkpoint = true;
    pl_profile_complete(&p, layers, 3);
    const double tolerance = 1e-5;
#define FEATURE(view, name, want) CHECK(fabs(feature(&p, view, name) - (want)) < tolerance)
    FEATURE(PL_VIEW_FEATURES, "log2 batch", 3);
    FEATURE(PL_VIEW_FEATURES, "log2 parameters", 10);
    FEATURE(PL_VIEW_FEATURES, "log2 trainable", 9);
    FEATURE(PL_VIEW_FEATURES, "log2 activations", 7);
    FEATURE(PL_VIEW_FEATURES, "log2 activations x batch", log2(127 * 7 + 1));
    FEATURE(PL_VIEW_FEATURES, "log2 activation bytes", log2(127 * 7 * 2 + 1));
    FEATURE(PL_VIEW_FEATURES, "log2 parameter bytes", log2(4 * 1023 + 1));
    FEATURE(PL_VIEW_FEATURES, "log2 gradient and optimizer bytes", log2(511 * 12 + 1));
    FEATURE(PL_VIEW_FEATURES, "log2 linear", log2(3));
    FEATURE(PL_VIEW_FEATURES, "log2 layers", 2);
    FEATURE(PL_VIEW_FEATURES, "amp", 1);
    FEATURE(PL_VIEW_FEATURES, "tf32", 0);
    FEATURE(PL_VIEW_FEATURES, "weight bytes", 4);
    FEATURE(PL_VIEW_FEATURES, "compute bytes", 2);
    FEATURE(PL_VIEW_FEATURES, "optimizer states", 2);
    FEATURE(PL_VIEW_FEATURES, "checkpoint", 1);
    FEATURE(PL_VIEW_FEATURES, "frozen share", 1 - 511.0 / 1023);
    FEATURE(PL_VIEW_COUNTS, "batch", 7);
    FEATURE(PL_VIEW_COUNTS, "activations x batch", 889);
    FEATURE(PL_VIEW_COUNTS, "linear", 2);
    FEATURE(PL_VIEW_COUNTS, "log2 activation", 1);
#undef FEATURE
    double sine = feature(&p, PL_VIEW_COUNTS, "sin activation function"),
           cosine = feature(&p, PL_VIEW_COUNTS, "cos activation function");
    CHECK(fabs(sine * sine + cosine * cosine - 1) < tolerance);
    layers[1].type = "ReLU";
    CHECK(fabs(feature(&p, PL_VIEW_COUNTS, "sin activation function") - sine) > 0.1);
    layers[1].type = "NewGELUActivation"; /* the same function */
    CHECK(feature(&p, PL_VIEW_COUNTS, "sin activation function") == sine);
}

static void check_numbers(const pl_profile *p) {
    float values[PL_MOST_FEATURES];
    for (int view = 0; view < PL_VIEWS; view++) {
        pl_features_of(p, (pl_view)view, values);
        for (size_t i = 0; i < pl_feature_count((pl_view)view); i++) CHECK(isfinite(values[i]));
    }
    size_t channels = pl_channel_count();
    float *steps = malloc((p->layer_count * channels + 1) * sizeof *steps);
    if (!steps) return;
    pl_steps_of(p, steps);
    for (size_t i = 0; i < p->layer_count; i++) {
        double kinds = 0;
        for (size_t c = 0; c < channels; c++) {
            CHECK(isfinite(steps[i * channels + c]));
            if (c < PL_LAYER_KINDS) kinds += (double)steps[i * channels + c];
        }
        CHECK(kinds == 1);
        CHECK(steps[i * channels + p->layers[i].kind] == 1);
    }
    free(steps);
    double bytes = pl_profile_guess_bytes(p), flops = pl_profile_guess_flops(p);
    CHECK(isfinite(bytes) && bytes > 0 && isfinite(flops) && flops > 0);
}

static void check_unique(const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        CHECK(names[i] && names[i][0]);
        for (size_t k = 0; names[i] && k < i; k++) CHECK(strcmp(names[i], names[k]) != 0);
    }
}

static void numbers_are_finite_and_their_names_unique(void) {
    for (int view = 0; view < PL_VIEWS; view++) {
        CHECK(pl_feature_count((pl_view)view) <= PL_MOST_FEATURES);
        check_unique(pl_feature_names((pl_view)view), pl_feature_count((pl_view)view));
    }
    check_unique(pl_channel_names(), pl_channel_count());
    for (size_t i = 0; i < jobs->count; i++) {
        check_numbers(&jobs->items[i].profile);
        check_numbers(&bare->items[i].profile);
    }
    pl_profile_layer huge = {.type = "Linear", .activations = INT64_MAX, .parameters = INT64_MAX};
    pl_profile p = {.parameters = -1, .trainable = -1, .parameter_bytes = -1, .buffer_bytes = -1};
    pl_job_default(&p.job);
    p.job.batch = INT64_MAX;
    pl_profile_complete(&p, &huge, 1);
    check_numbers(&p);
    p = (pl_profile){0};
    check_numbers(&p);
    /* The guess is crude, and near: learners learn what is left. */
    size_t within = 0, count = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        const pl_measured *item = &jobs->items[i];
        if (!item->facts.has_graph) continue;
        double share = pl_profile_guess_bytes(&item->profile) / (double)item->facts.measured_bytes;
        within += share > 0.5 && share < 2;
        count++;
    }
    CHECK((double)within > 0.9 * (double)count);
}

/* ---- measured jobs ---- */

static void files_that_cannot_be_read(void) {
    static const struct {
        const char *text, *words;
        int64_t position; /* -2: whatever it is */
    } rows[] = {
        {"", "it is empty", 0},
        {" \n\t\n", "it is empty", 0},
        {"garbage\n", "JSON lines", 0},
        {"[{\"job\":{\"id\":\"a\",\"batch\":2}}]\n", "JSON lines", 0},
        {"\x7f"
         "ELF\x02\x01",
         "JSON lines", -2},
        {"{", "", 1},
        {JOB RESULT "}}\n" JOB "\"result\":{\"peak_al", "end of a string", 136},
        {JOB RESULT "}}\nfalse\n", "expected", 90},
        {JOB "\"result\":{}}", "peak_allocated, peak_reserved and overhead", -2},
        {JOB "\"result\":{\"peak_allocated\":-1}}", "from 0 to 2^56", 55},
        {JOB "\"result\":{\"peak_allocated\":NaN}}", "a number", 55},
        {JOB "\"result\":{\"flops_per_step\":NaN}}", "operations from 0", 55},
        {JOB "\"result\":{\"step_ms\":-3}}", "milliseconds from 0", 48},
        {JOB "\"result\":{\"step_ms\":1e999}}", "", -2},
        {JOB "\"result\":{\"smact\":NaN}}", "a share from 0 to 100", 46},
        {"{\"job\":{\"id\":\"a\",\"accumulate\":0}," RESULT "}}",
         "accumulate of the job: 0 is not between 1 and 4096", 30},
        {"{\"job\":{\"id\":\"a\",\"accumulate\":100000}," RESULT "}}",
         "accumulate of the job: 100000 is not between 1 and 4096", 30},
        {"{\"job\":{\"id\":\"a\",\"accumulate\":2147483647}," RESULT "}}",
         "accumulate of the job: 2147483647 is not", 30},
        {"{\"job\":{\"id\":\"a\",\"parallel\":{\"kind\":\"fsdp2\",\"world\":0}}," RESULT "}}",
         "world of the job: 0 is not between 1 and 16384", 52},
        {"{\"job\":{\"id\":\"a\",\"parallel\":{\"kind\":\"fsdp2\",\"stage\":9}}," RESULT "}}",
         "stage of the job: 9 is not between 2 and 3", 52},
        {"{\"job\":{\"id\":\"a\",\"batch\":0}," RESULT "}}",
         "batch of the job: 0 is not between 1 and 1099511627776", 25},
        {"{\"job\":{\"id\":\"a\",\"seq\":-5}," RESULT "}}",
         "seq of the job: -5 is not between 1 and 1099511627776", 23},
        {"{\"job\":{\"id\":\"a\",\"host_speed\":NaN}," RESULT "}}",
         "host_speed of the job: nan is not a number from 0.1 to 10", 30},
        {"{\"job\":{\"id\":\"a\",\"copy_gbps\":1e6}," RESULT "}}", "copy_gbps of the job", 29},
        {"{\"job\":{\"id\":\"a\",\"accumulate\": 200000}," RESULT "}}",
         "accumulate of the job: 200000 is not between 1 and 4096", 31},
        {JOB RESULT "}}\n{\"job\":{\"id\":\"a\",\"accumulate\":200000}," RESULT "}}",
         "accumulate of the job: 200000 is not between 1 and 4096", 120},
        {"{\"job\":{\"id\":\"a\",\"accumulate\":3000000000}," RESULT "}}", "32 bits", 30},
        {"{\"job\":{\"id\":\"a\",\"parallel\":{\"kind\":\"ddp\",\"world\":16385}}," RESULT "}}",
         "world of the job: 16385 is not between 1 and 16384", 50},
        {"{\"job\":{\"id\":\"a\",\"optimizer\":\"hope\"}," RESULT "}}",
         "optimizer of the job: no optimizer \"hope\"", 29},
        {"{\"job\":{\"id\":\"a\",\"alloc_conf\":\"x\"}," RESULT "}}", "alloc_conf of the job", 30},
        {"{\"job\":{\"id\":\"a\",\"train\":\"lora-r0\"}," RESULT "}}", "train of the job", 25},
        {"{\"d\":2,\"cin\":3,\"n\":1,\"cout\":4,\"g\":0,\"mode\":\"fp32\"}",
         "a batch, channels and groups", -2},
        {"{" RESULT "}}", "\"job\"", -2},
        {"{\"job\":{}," RESULT "}}", "an id", -2},
        {"{\"job\":{\"id\":\"../a\"}," RESULT "}}", "an id", -2},
        {"{\"job\":{\"id\":\"a\",\"precision\":\"fp99\"}," RESULT "}}", "precision", -2},
        {"{\"job\":{\"id\":\"a\",\"loss\":\"hinge\"}," RESULT "}}", "loss", -2},
        {"{\"job\":{\"id\":\"a\",\"parallel\":{\"kind\":\"tp\"}}," RESULT "}}", "ddp or fsdp2", -2},
        {"{\"job\":{\"id\":\"a\",\"accumulate\":3e9}," RESULT "}}", "an integer", 30},
        {JOB RESULT ",\"layers\":[[\"Linear\"]]}}", "three members", -2},
        {JOB RESULT ",\"layers\":[[\"Linear\",1],[\"ReLU\",1,0]]}}", "three members", -2},
        {JOB RESULT ",\"layers\":[[]]}}", "three members", -2},
        {JOB RESULT ",\"layers\":[[\"Linear\",1,2,3]]}}", "three members", -2},
        {JOB RESULT ",\"layers\":[[\"Linear\",-1,2]]}}", "from 0 to 2^56", -2},
        {JOB "\"result\":{\"peak_allocated\":1,\"peak_reserved\":9223372036854775807,"
             "\"overhead\":1}}",
         "from 0 to 2^56", -2},
        {"Filename,Depth\n", "'Max GPU Memory (MiB)'", 0},
        {"Filename,Depth\n", "'Activations-Params'", 0},
        {CSV_HEAD "\n", "at least one row", -2},
        {CSV_HEAD "\n" CSV_ROW "nan\n", "column 'Max GPU Memory (MiB)': expected a number of MiB",
         -2},
        {CSV_HEAD "\n" CSV_ROW "100\na,b\n", "10 fields", -2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = write_file("bad", rows[i].text, strlen(rows[i].text));
        pl_jobs *opened = NULL;
        pl_error err = {0};
        pl_status status = pl_jobs_open(&opened, &path, 1, NULL, &err);
        bool good = status == PL_INPUT && err.code == PL_INPUT && !opened &&
                    strcmp(err.where, path) == 0 && contains(err.message, rows[i].words) &&
                    (rows[i].position == -2 || err.position == rows[i].position) &&
                    err.position <= (int64_t)strlen(rows[i].text);
        if (!good) {
            check_say(__FILE__, __LINE__, rows[i].text);
            printf("    %d, '%s', %s, %" PRId64 "\n", (int)status, err.message, err.where,
                   err.position);
        }
        pl_jobs_close(&opened);
    }
    char *packed = NULL; /* an archive cut short */
    FILE *whole = fopen(fixture, "rb");
    size_t half = 20000;
    if (whole && (packed = malloc(half))) half = fread(packed, 1, half, whole);
    if (whole) fclose(whole);
    const char *path = packed ? write_file("half.xz", packed, half) : "";
    free(packed);
    pl_jobs *opened = NULL;
    pl_error err = {0};
    CHECK_INT(pl_jobs_open(&opened, &path, 1, NULL, &err), PL_INPUT);
    CHECK(contains(err.message, "not a whole xz file"));
    CHECK_STR(err.where, path);
}

/* 200,000 lines of 27 bytes, which packed are a few kilobytes: refused by what they unpack to, or by
 * what they become. */
static void many_jobs_meet_the_limit(void) {
    enum { COUNT = 200000 };
    static const char line[] = "{\"job\":{\"id\":\"a\"},\"error\":1}\n";
    size_t length = sizeof line - 1, size = COUNT * length, room = 1 << 20, packed_size = 0;
    char *text = malloc(size), *packed = malloc(room);
    for (size_t i = 0; text && i < COUNT; i++) memcpy(text + i * length, line, length);
    CHECK(text && packed &&
          lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, (const uint8_t *)text, size,
                                  (uint8_t *)packed, &packed_size, room) == LZMA_OK);
    static const struct {
        size_t limit;
        pl_status status;
        const char *words;
    } rows[] = {
        {(size_t)4 << 20, PL_LIMIT, "to unpack (the memory limit)"},
        {(size_t)64 << 20, PL_LIMIT, "67108864 bytes of memory"},
    };
    const char *path = write_file("many.xz", packed, packed_size);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_jobs_settings settings;
        pl_jobs_settings_default(&settings);
        pl_limits limits;
        pl_limits_default(&limits);
        limits.memory_bytes = rows[i].limit;
        settings.limits = &limits;
        pl_jobs *opened = NULL;
        pl_error err = {0};
        CHECK_INT(pl_jobs_open(&opened, &path, 1, &settings, &err), rows[i].status);
        if (!contains(err.message, rows[i].words)) CHECK_STR(err.message, rows[i].words);
        CHECK_STR(err.where, path);
        CHECK(!opened);
    }
    free(text);
    free(packed);
}

/* A graph that memory does not suffice for is not one that is not there. */
static void a_graph_beyond_the_limit_is_reported(void) {
    static const char line[] =
        "{\"job\":{\"id\":\"a\",\"batch\":2,\"config\":{\"model_type\":\"llama\","
        "\"hidden_size\":64,\"intermediate_size\":64,\"num_attention_heads\":4,"
        "\"num_hidden_layers\":400,\"vocab_size\":100}},"
        "\"result\":{\"peak_allocated\":1,\"peak_reserved\":2,\"overhead\":3}}\n";
    const char *path = write_file("one.jsonl", line, sizeof line - 1);
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    settings.described = true;
    pl_limits limits;
    pl_limits_default(&limits);
    limits.memory_bytes = (size_t)1 << 20;
    settings.limits = &limits;
    pl_jobs *opened = NULL;
    pl_error err = {0};
    CHECK_INT(pl_jobs_open(&opened, &path, 1, &settings, &err), PL_OK);
    CHECK_STR(err.message, "");
    if (opened) {
        const pl_measured *item = &opened->items[0];
        CHECK(item->facts.has_graph);
        CHECK_INT(item->graph_status, PL_LIMIT);
        CHECK(contains(item->graph_error.message, "memory"));
    }
    pl_jobs_close(&opened);
}

static void places_that_are_not_there(void) {
    pl_jobs *opened = NULL;
    pl_error err = {0};
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    const char *path = in_scratch("none"), *good = fixture;
    CHECK_INT(pl_jobs_open(&opened, &path, 1, NULL, &err), PL_INPUT);
    CHECK_STR(err.where, path);
    CHECK(!opened && contains(err.message, "No such file"));
    CHECK_INT(pl_jobs_open(&opened, NULL, 0, NULL, &err), PL_INPUT);
    CHECK(contains(err.message, "no measured jobs"));
    settings.graphs = in_scratch("no-folder");
    CHECK_INT(pl_jobs_open(&opened, &good, 1, &settings, &err), PL_INPUT);
    CHECK_STR(err.where, settings.graphs);
    CHECK(contains(err.message, "no such folder"));
    settings.graphs = fixture; /* a file */
    CHECK_INT(pl_jobs_open(&opened, &good, 1, &settings, &err), PL_INPUT);
    CHECK(contains(err.message, "no such folder"));
    settings.graphs = NULL;
    settings.gpu = "gtx-0";
    CHECK_INT(pl_jobs_open(&opened, &good, 1, &settings, &err), PL_USAGE);
    CHECK_STR(err.where, "gpu");
    CHECK(!opened && contains(err.message, "gtx-0"));
}

static void both_kinds_of_files(void) {
    pl_jobs *csv = open_text(CSV_HEAD "\n" CSV_ROW "100.5\n");
    if (csv) {
        const pl_measured *item = &csv->items[0];
        CHECK_INT(pl_jobs_count(csv), 1);
        CHECK_INT(pl_jobs_bin_bytes(csv), 1000 * mib);
        CHECK_STR(item->facts.id, "a.out");
        CHECK_STR(item->facts.model, "a.out");
        CHECK_INT(item->facts.measured_bytes, 100 * mib + mib / 2);
        CHECK_INT(item->facts.measured_reserved, PL_UNKNOWN);
        CHECK_INT(item->job.precision, PL_FP32);
        CHECK_STR(item->job.optimizer, "adam");
        CHECK_INT(item->profile.job.batch, 32);
        CHECK_INT(item->profile.parameters, 72);
        CHECK_INT(item->profile.layer_count, 2);
        CHECK_INT(pl_profile_activations(&item->profile), 16);
        CHECK_INT(item->profile.layers[1].kind, PL_LAYER_ACTIVATION);
        CHECK(isnan(item->flops_per_step));
    }
    pl_jobs_close(&csv);

    static const char line[] =
        "\n  {\"job\":{\"id\":\"a\",\"family\":\"cnn\",\"batch\":4,\"seq\":9,\"source\":null,"
        "\"precision\":\"amp-bf16\",\"optimizer\":\"sgd\",\"loss\":\"mse\",\"checkpoint\":true,"
        "\"accumulate\":2,\"channels_last\":true,\"alloc_conf\":\"expandable_segments:True\",\"other\":[1,{}],"
        "\"parallel\":{\"kind\":\"fsdp2\",\"world\":8,\"stage\":2,\"mp\":true},"
        "\"model\":{\"kind\":\"tv\",\"name\":\"resnet18\"}},\"more\":1,"
        "\"result\":{\"peak_allocated\":10,\"peak_reserved\":20,\"overhead\":5,\"params\":6,"
        "\"trainable\":4,\"param_bytes\":24,\"buffer_bytes\":null,\"flops_per_step\":3e9,"
        "\"step_ms\":1.5,\"layers\":[[\"Conv2d\",7,6],[\"ReLU\",7,null]]}}  \r\n\n";
    pl_jobs *lines = open_text(line);
    if (lines) {
        const pl_measured *item = &lines->items[0];
        CHECK_INT(pl_jobs_count(lines), 1);
        CHECK_INT(pl_jobs_bin_bytes(lines), 8000 * mib);
        CHECK_INT(item->facts.measured_bytes, 25);
        CHECK_INT(item->facts.measured_allocated, 10);
        CHECK_STR(item->facts.model, "tv resnet18");
        CHECK_STR(item->facts.family, "cnn");
        CHECK_STR(item->facts.source, "");
        CHECK(item->job.precision == PL_AMP_BF16 && item->job.loss == PL_LOSS_MSE);
        CHECK(item->job.checkpoint && item->job.channels_last && !item->job.cudnn_benchmark);
        CHECK(item->job.accumulate == 2 && item->job.world == 8 && item->job.stage == 2);
        CHECK(item->job.parallel == PL_FSDP2 && item->job.parallel_mixed);
        CHECK_STR(item->job.alloc_conf, "expandable_segments:True");
        CHECK_STR(item->job.optimizer, "sgd");
        CHECK(item->profile.job.batch == 4 && item->profile.job.seq == 9);
        CHECK(item->profile.parameters == 6 && item->profile.trainable == 4);
        CHECK(item->profile.parameter_bytes == 24 && item->profile.buffer_bytes == 0);
        CHECK(item->profile.layer_count == 2 && item->profile.layers[1].parameters == 0);
        CHECK(item->flops_per_step == 3e9 && item->step_ms == 1.5);
        CHECK_NEAR(pl_target_find("flop-rate")->measured(item), 2000);
        CHECK_NEAR(pl_target_find("flops")->measured(item), 3);
        CHECK(!item->facts.has_graph && item->graph_status == PL_MISSING);
    }
    pl_jobs_close(&lines);
    CHECK(!pl_target_find("time"));
}

#define OF_JOB(id, of, batch)                                                                      \
    "{\"job\":{\"id\":\"" id "\",\"of\":\"" of "\",\"batch\":" batch                               \
    ",\"model\":{\"kind\":\"torchvision\",\"name\":\"x\"}},\"result\":{\"step_ms\":1}}\n"

/* Times, counters and what a line says of another job; a job that did not run is kept, unmeasured.
 */
static void records_of_use(void) {
    pl_jobs *opened = open_text(
        "{\"job\":{\"id\":\"a@b2\",\"of\":\"a\",\"batch\":2,\"host_speed\":1.5},\"result\":"
        "{\"step_ms\":12.5,\"smact\":0,\"smocc\":100,\"drama\":null,\"tensor\":3.25,"
        "\"flops_per_step\":null}}\n"
        "{\"job\":{\"id\":\"b\"},\"result\":{\"drama\":7}}\n"
        "{\"job\":{\"id\":\"c\"},\"error\":\"out of time\"}\n");
    CHECK(opened != NULL);
    if (!opened) return;
    const pl_measured *a = &opened->items[0], *c = &opened->items[2];
    CHECK_INT(opened->count, 3);
    CHECK_STR(a->of, "a");
    CHECK(a->job.host_speed == 1.5);
    static const struct {
        const char *target;
        double figure;
    } rows[] = {{"step_ms", 12.5}, {"smact", 0}, {"smocc", 100}, {"tensor", 3.25}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(pl_target_find(rows[i].target)->measured(a) == rows[i].figure);
    CHECK(isnan(pl_target_find("drama")->measured(a)));
    CHECK(isnan(pl_target_find("flops")->measured(a)));
    CHECK(pl_target_find("drama")->measured(&opened->items[1]) == 7);
    for (size_t i = 0; pl_target_at(i); i++) CHECK(isnan(pl_target_at(i)->measured(c)));
    pl_jobs_close(&opened);
}

/* The graph of another job, for the job's own batch; a second folder; descriptions before graphs.
 */
static void graphs_are_looked_for(void) {
    pl_error err = {0};
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    static const char text[] =
        OF_JOB("tv-resnet18-0@b5", "tv-resnet18-0", "5") OF_JOB("lost", "no-such", "5");
    const char *path = write_file("of.jsonl", text, strlen(text));
    const char *folders[] = {in_scratch("graphs")};
    settings.graphs = "tests"; /* none in it */
    settings.more_graphs = folders;
    settings.more_graph_count = 1;
    for (int described = 0; described < 2; described++) {
        pl_jobs *opened = NULL;
        settings.described = described;
        CHECK_INT(pl_jobs_open(&opened, &path, 1, &settings, &err), PL_OK);
        if (!opened) continue;
        const pl_measured *item = &opened->items[0];
        CHECK(item->facts.has_graph && !item->described);
        CHECK_STR(item->graph, "tv-resnet18-0");
        CHECK_INT(item->job.batch, 5);
        CHECK(!opened->items[1].graph && !opened->items[1].facts.has_graph);
        pl_jobs_close(&opened);
    }
}

static void files_follow_each_other_and_groups_have_numbers(void) {
    static const char text[] =
        "{\"job\":{\"id\":\"z\",\"family\":\"b\",\"model\":{\"kind\":\"hf\",\"name\":\"x\"}}"
        "," RESULT "}}\n"
        "{\"job\":{\"id\":\"y\",\"family\":\"a\",\"model\":{\"kind\":\"mlp\",\"in\":1}}," RESULT
        "}}\n"
        "{\"job\":{\"id\":\"x\",\"family\":\"b\",\"model\":{\"kind\":\"mlp\",\"in\":2}}," RESULT
        "}}\n"
        "{\"job\":{\"id\":\"w\",\"family\":\"a\",\"model\":{\"kind\":\"mlp\",\"in\":1}}," RESULT
        "}}\n"
        "{\"job\":{\"id\":\"v\"}," RESULT "}}\n";
    char gpu[] = "a100-40gb";
    const char *paths[] = {write_file("first", text, strlen(text)), fixture,
                           write_file("rows.csv", CSV_HEAD "\n" CSV_ROW "9\n",
                                      sizeof CSV_HEAD "\n" CSV_ROW "9\n" - 1)};
    pl_jobs *all = open_files(paths, 3, NULL, gpu);
    memset(gpu, 'x', sizeof gpu - 1); /* the caller's to change */
    if (!all) return;
    CHECK_INT(pl_jobs_count(all), 5 + bare->count + 1);
    CHECK_STR(all->items[0].facts.id, "z");
    CHECK_STR(all->items[5].facts.id, bare->items[0].facts.id);
    CHECK_STR(all->items[5 + bare->count].facts.id, "a.out");
    CHECK_STR(all->items[3].job.gpu, "a100-40gb");
    CHECK_STR(all->data, "first (5), jobs.jsonl.xz (280), rows.csv (1)");
    CHECK(all->items[1].model == all->items[3].model && all->items[1].model != all->items[2].model);
    CHECK(all->items[0].model != all->items[2].model && all->items[4].model != all->items[0].model);
    CHECK(all->items[0].family == all->items[2].family);
    CHECK(all->items[0].family != all->items[1].family);
    for (size_t i = 0; i < all->count; i++) {
        CHECK(all->items[i].model < all->model_count && all->items[i].family < all->family_count);
        for (size_t k = 0; k < i; k++) {
            const pl_measured *a = &all->items[i], *b = &all->items[k];
            bool models = strcmp(a->facts.model, b->facts.model) == 0,
                 families = strcmp(a->facts.family, b->facts.family) == 0;
            if (a->facts.model[0]) CHECK_INT(a->model == b->model, models);
            CHECK_INT(a->family == b->family, families);
        }
    }
    pl_jobs_close(&all);
}

static void kin_share_a_beginning(void) {
    static const struct {
        const char *name, *kin;
    } rows[] = {
        {"resnet50", "resnet"},
        {"wide_resnet50_2", "resnet"},
        {"resnext101_32x8d", "resnet"},
        {"fcn_resnet50", "resnet"},
        {"efficientnet_b0", "mobilenet"},
        {"mnasnet1_0", "mobilenet"},
        {"deit", "vit"},
        {"vit_b_16", "vit"},
        {"llama-1b", "llama"},
        {"qwen2", "llama"},
        {"qwen3_moe", "moe"}, /* the longest beginning */
        {"xlm-roberta", "bert"},
        {"rwkv-4", "rwkv"}, /* none: by itself */
        {"squeezenet1_1", "squeezenet"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int length = 0;
        const char *kin = pl_kin_of(rows[i].name, &length);
        if (length != (int)strlen(rows[i].kin) || strncmp(kin, rows[i].kin, (size_t)length) != 0)
            check_say(__FILE__, __LINE__, rows[i].name);
    }
}

static void jobs_of_kin_have_a_number(void) {
    size_t kin = 0, same = 0;
    for (size_t i = 0; jobs && i < jobs->count; i++)
        for (size_t k = 0; k < i; k++) {
            const pl_measured *a = &jobs->items[i], *b = &jobs->items[k];
            CHECK(a->kindred < jobs->kin_count && a->kin);
            if (!a->kin || !b->kin) continue;
            CHECK_INT(a->kindred == b->kindred, strcmp(a->kin, b->kin) == 0);
            if (a->model == b->model) CHECK_INT(a->kindred, b->kindred);
            kin += a->kindred == b->kindred && a->model != b->model;
            same += a->model == b->model;
        }
    CHECK(kin > same && same > 0);
}

int main(int count, char **arguments) {
    bool opened = count == 2 && fixture_open(arguments[1], "jobs");
    if (opened) {
        RUN(classes_have_kinds);
        RUN(graphs_have_the_layers_that_ran);
        RUN(totals_of_graphs_are_those_measured);
        RUN(state_is_the_optimizers);
        RUN(what_is_not_given_is_summed_up);
        RUN(features_are_what_their_names_say);
        RUN(numbers_are_finite_and_their_names_unique);
        RUN(files_that_cannot_be_read);
        RUN(many_jobs_meet_the_limit);
        RUN(a_graph_beyond_the_limit_is_reported);
        RUN(places_that_are_not_there);
        RUN(both_kinds_of_files);
        RUN(records_of_use);
        RUN(graphs_are_looked_for);
        RUN(files_follow_each_other_and_groups_have_numbers);
        RUN(kin_share_a_beginning);
        RUN(jobs_of_kin_have_a_number);
    }
    return fixture_close(opened);
}
