/* finetune: what --train makes of a graph: what trains, where adapters go and what they cost,
 * packed weights, and how wrong names and lack of memory come back. */
#include "graph/finetune.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/arena.h"
#include "estimate/model.h"
#include "graph_sound.h"

static const char *folder, *measured;

static pl_model *open_model(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    pl_model *model = NULL;
    pl_error err = {0};
    if (pl_model_open(&model, path, NULL, &err) != PL_OK) check_say(path, 0, err.message);
    return model;
}

/* The graph of a model for a text of --train, to be closed; NULL where it fails. */
static pl_graph *changed(const pl_model *model, const char *train, bool plain, bool checkpoint,
                         pl_error *err) {
    pl_job job;
    pl_job_default(&job);
    pl_graph *graph = NULL;
    bool owned = false;
    int64_t batch, seq;
    pl_finetune how;
    if (pl_finetune_parse(&how, train, err) != PL_OK ||
        pl_model_graph(model, &job, NULL, &graph, &owned, &batch, &seq, err) != PL_OK)
        return NULL;
    if (!owned && pl_graph_bind(&graph, graph, NULL, NULL, err) != PL_OK) return NULL;
    how.plain = plain;
    how.checkpoint = checkpoint;
    if (pl_graph_finetune(graph, &how, err) != PL_OK) pl_graph_close(&graph);
    return graph;
}

static pl_graph *change(const pl_model *model, const char *train) {
    pl_error err = {0};
    pl_graph *graph = changed(model, train, false, false, &err);
    if (!graph) {
        check_say(__FILE__, __LINE__, err.message);
        return NULL;
    }
    const char *wrong = graph_unsound(graph);
    if (wrong) check_say(__FILE__, __LINE__, wrong);
    return graph;
}

static const pl_tensor *parameter(const pl_graph *g, const char *path) {
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER && strcmp(g->tensors[i].path, path) == 0)
            return &g->tensors[i];
    return NULL;
}

static int64_t trainable(const pl_graph *g) {
    int64_t sum = 0;
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER && g->tensors[i].requires_grad &&
            g->tensors[i].tied < 0)
            sum += pl_tensor_elements(&g->tensors[i]);
    return sum;
}

static int count_nodes(const pl_graph *g, const char *target) {
    int count = 0;
    for (int32_t i = 0; i < g->node_count; i++) count += strcmp(g->nodes[i].target, target) == 0;
    return count;
}

static bool says(const char *text, const char *part) {
    if (strstr(text, part)) return true;
    printf("    '%s' does not say '%s'\n", text, part);
    return false;
}

static pl_report *report_of(const pl_model *model, const pl_job *job) {
    pl_report *report = NULL;
    pl_error err = {0};
    if (pl_estimate(&report, model, job, &err) != PL_OK) check_say(__FILE__, __LINE__, err.message);
    return report;
}

/* ---- the text ---- */

static void texts_are_read(void) {
    pl_finetune how;
    pl_error err = {0};
    CHECK_INT(pl_finetune_parse(&how, "all", &err), PL_OK);
    CHECK_INT(how.kind, PL_FINETUNE_ALL);
    CHECK_INT(pl_finetune_parse(&how, "head", &err), PL_OK);
    CHECK_INT(how.kind, PL_FINETUNE_HEAD);
    CHECK_INT(pl_finetune_parse(&how, "lora-r16", &err), PL_OK);
    CHECK_INT(how.kind, PL_FINETUNE_LORA);
    CHECK_INT(how.rank, 16);
    CHECK(!how.modules);
    CHECK_INT(pl_finetune_parse(&how, "qlora-r64:q_proj,v_proj", &err), PL_OK);
    CHECK_INT(how.kind, PL_FINETUNE_QLORA);
    CHECK_INT(how.rank, 64);
    CHECK_STR(how.modules, "q_proj,v_proj");
    static const char *const bad[] = {"",
                                      "none",
                                      "lora",
                                      "lora-r",
                                      "lora-r8x",
                                      "lora-r8:",
                                      "heads",
                                      "lora-r-1",
                                      "qlora-r0",
                                      "lora-r1e3",
                                      "lora-r65537",
                                      "LORA-r8",
                                      "lora-r99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err = (pl_error){0};
        if (pl_finetune_parse(&how, bad[i], &err) != PL_USAGE)
            check_say(__FILE__, __LINE__, bad[i]);
        CHECK_STR(err.where, "train");
    }
}

static void names_that_are_not_there_are_reported(void) {
    pl_model *model = open_model("bert-tiny.pt2");
    pl_error err = {0};
    CHECK(!changed(model, "lora-r4:query,quarry", false, false, &err));
    CHECK_INT(err.code, PL_USAGE);
    CHECK_STR(err.where, "train");
    CHECK(says(err.message, "\"quarry\"") && says(err.message, "query (2)") &&
          says(err.message, "dense (") && says(err.message, "all-linear"));
    CHECK(!changed(model, "lora-r4:", false, false, &err));
    CHECK(!changed(model, "lora-r4:,query", false, false, &err));
    CHECK(!changed(model, "lora-r4:uery", false, false, &err)); /* part of a name is no name */
    pl_model_close(&model);
    model = open_model("resnet18.pt2");
    CHECK(!changed(model, "lora-r4", false, false, &err));
    CHECK(says(err.message, "fc (1)"));
    CHECK(!changed(model, "qlora-r4:fc", false, false, &err)); /* the head is not packed */
    CHECK_INT(err.code, PL_USAGE);
    pl_model_close(&model);
}

/* ---- what trains ---- */

static void a_head_trains_alone_and_under_both_names(void) {
    pl_model *model = open_model("resnet18.pt2");
    pl_graph *g = change(model, "head");
    if (g) {
        CHECK_INT(trainable(g), pl_tensor_elements(parameter(g, "fc.weight")) +
                                    pl_tensor_elements(parameter(g, "fc.bias")));
        CHECK(parameter(g, "fc.weight")->requires_grad && parameter(g, "fc.bias")->requires_grad);
    }
    pl_graph_close(&g);
    pl_model_close(&model);
    model = open_model("gpt2-tiny.pt2");
    g = change(model, "head");
    if (g) {
        const pl_tensor *embedding = parameter(g, "transformer.wte.weight");
        CHECK(embedding && embedding->requires_grad);
        CHECK_INT(trainable(g), pl_tensor_elements(embedding));
    }
    pl_graph_close(&g);
    g = change(model, "all");
    if (g) CHECK_INT(trainable(g), pl_model_describe(model)->parameters);
    pl_graph_close(&g);
    pl_model_close(&model);
}

/* A layer [out, in] gets lora_A [r, in] and lora_B [out, r]; nothing else trains. */
static void adapters_stand_beside_the_layers_named(void) {
    pl_model *model = open_model("bert-tiny.pt2");
    pl_graph *g = change(model, "lora-r4");
    const char *path = "bert.encoder.layer.1.attention.self.query.base_layer.weight";
    const pl_tensor *w = g ? parameter(g, path) : NULL;
    CHECK(w != NULL);
    if (w) {
        CHECK(!w->requires_grad);
        CHECK_INT(trainable(g), 2 * 2 * 4 * (w->sizes[0] + w->sizes[1])); /* layers, q and v */
        const pl_tensor *a =
            parameter(g, "bert.encoder.layer.1.attention.self.query.lora_A.default.weight");
        const pl_tensor *b =
            parameter(g, "bert.encoder.layer.1.attention.self.query.lora_B.default.weight");
        CHECK(a && b && a == w + 2 && b == w + 3); /* weight, bias, A, B */
        if (a && b) {
            CHECK(a->requires_grad && a->keeps_type && a->dtype == PL_DT_F32);
            CHECK_INT(a->sizes[0], 4);
            CHECK_INT(a->sizes[1], w->sizes[1]);
            CHECK_INT(b->sizes[0], w->sizes[0]);
            CHECK_INT(b->sizes[1], 4);
        }
        CHECK(!parameter(g, "bert.encoder.layer.1.attention.self.key.lora_A.default.weight"));
        CHECK_INT(count_nodes(g, "peft.to_result.default"), 4);
        CHECK_INT(count_nodes(g, "peft.requires_grad_.default"), 0);
    }
    pl_graph_close(&g);
    pl_model_close(&model);
}

/* The order of PEFT's forward, and Conv1D, whose weight lies the other way round. */
static void an_adapted_layer_is_PEFTs_forward(void) {
    static const char *const targets[] = {
        "aten.view.default", "aten.addmm.default",  "aten.view.default",
        "aten.to.other",     "aten.linear.default", "aten.linear.default",
        "aten.mul.Tensor",   "aten.add.Tensor",     "peft.to_result.default"};
    pl_model *model = open_model("gpt2-tiny.pt2");
    pl_graph *g = change(model, "lora-r2");
    size_t at = 0;
    for (int32_t i = 0; g && i < g->node_count && at < sizeof targets / sizeof *targets; i++) {
        const char *module = pl_node_module(g, i);
        if (strncmp(module, "transformer.h.0.attn.c_attn", 27) != 0) continue;
        CHECK_STR(g->nodes[i].target, targets[at]);
        at++;
    }
    CHECK_INT(at, sizeof targets / sizeof *targets);
    if (g) {
        const pl_tensor *w = parameter(g, "transformer.h.0.attn.c_attn.base_layer.weight");
        const pl_tensor *a = parameter(g, "transformer.h.0.attn.c_attn.lora_A.default.weight");
        const pl_tensor *b = parameter(g, "transformer.h.0.attn.c_attn.lora_B.default.weight");
        CHECK(w && a && b && w->sizes[0] == a->sizes[1] && w->sizes[1] == b->sizes[0]);
    }
    pl_graph_close(&g);
    pl_model_close(&model);
}

static void all_linear_leaves_the_head_out(void) {
    pl_model *model = open_model("gpt2-tiny.pt2");
    pl_graph *g = change(model, "lora-r2:all-linear");
    if (g) {
        CHECK(parameter(g, "transformer.h.1.mlp.c_proj.lora_A.default.weight") != NULL);
        CHECK(!parameter(g, "lm_head.lora_A.default.weight"));
    }
    pl_graph_close(&g);
    g = change(model, "lora-r2:lm_head"); /* named, it gets one */
    if (g) CHECK(parameter(g, "lm_head.lora_A.default.weight") != NULL);
    pl_graph_close(&g);
    g = change(model, "lora-r2:mlp.c_proj"); /* more of the path than its end */
    if (g) CHECK(!parameter(g, "transformer.h.1.attn.c_proj.lora_A.default.weight"));
    pl_graph_close(&g);
    pl_model_close(&model);
}

/* Falcon's own Linear, a product with weight.T: adapted by PEFT as any nn.Linear, which it is made
 * from; packed by transformers not at all, which packs nn.Linear itself alone. */
static void falcons_layers_are_linear(void) {
    for (int biased = 0; biased < 2; biased++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"model_type\":\"falcon\",\"hidden_size\":64,\"num_hidden_layers\":2,"
                 "\"num_attention_heads\":4,\"vocab_size\":100,\"bias\":%s}",
                 biased ? "true" : "false");
        pl_model *model = NULL;
        pl_error err = {0};
        CHECK_INT(pl_model_open_memory(&model, text, strlen(text), "falcon", NULL, &err), PL_OK);
        if (!model) return;
        /* queries of 64, a key and a value of 16 */
        const int64_t a_layer = 4 * 64 + (64 + 2 * 16) * 4;
        static const char *const ways[] = {"lora-r4", "qlora-r4", "lora-r4:query_key_value"};
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            pl_graph *g = change(model, ways[i]);
            if (!g) continue;
            CHECK_INT(trainable(g), 2 * a_layer);
            CHECK_INT(count_nodes(g, "bitsandbytes.linear_4bit.default"), 0);
            CHECK_INT(count_nodes(g, "aten.numpy_T.default"), 8);
            CHECK(parameter(g, "transformer.h.1.self_attention.query_key_value.lora_A.default."
                               "weight") != NULL);
            CHECK(parameter(g, "transformer.h.0.self_attention.query_key_value.base_layer."
                               "weight") != NULL);
            CHECK((parameter(g, "transformer.h.0.self_attention.query_key_value.base_layer.bias") !=
                   NULL) == biased);
            pl_graph_close(&g);
        }
        pl_graph *g = change(model, "lora-r4:all-linear");
        /* query_key_value, dense, dense_h_to_4h, dense_4h_to_h */
        if (g) CHECK_INT(trainable(g), 2 * (a_layer + 4 * 128 + 2 * 4 * (64 + 256)));
        pl_graph_close(&g);
        pl_job job;
        pl_job_default(&job);
        job.estimator = "sim";
        int64_t peaks[2] = {0};
        for (int i = 0; i < 2; i++) {
            job.train = ways[i];
            pl_report *r = report_of(model, &job);
            if (r) peaks[i] = r->allocated_bytes;
            pl_report_close(&r);
        }
        CHECK(peaks[0] > 0 && peaks[0] == peaks[1]);
        pl_model_close(&model);
    }
}

/* ---- 4 bits ---- */

static void weights_are_packed_but_the_output_layers(void) {
    pl_model *model = open_model("gpt2-tiny.pt2");
    pl_graph *g = change(model, "qlora-r2");
    const pl_tensor *plain = parameter(model->graph, "transformer.h.0.mlp.c_fc.weight");
    const pl_tensor *w = g ? parameter(g, "transformer.h.0.mlp.c_fc.weight") : NULL;
    CHECK(w && plain);
    if (w && plain) {
        CHECK(pl_is_packed(w));
        CHECK_INT(pl_tensor_elements(w), (pl_tensor_elements(plain) + 1) / 2);
        CHECK(!pl_is_packed(parameter(g, "transformer.wte.weight")));
        CHECK(!pl_is_packed(parameter(g, "transformer.h.0.ln_1.weight")));
        CHECK_INT(count_nodes(g, "aten.addmm.default"), 0);
        CHECK_INT(count_nodes(g, "bitsandbytes.linear_4bit.default"), 8); /* four per layer */
        CHECK_INT(count_nodes(g, "peft.to_result.default"), 0);
    }
    pl_graph_close(&g);
    pl_model_close(&model);
}

/* ---- what it costs ---- */

static void what_is_frozen_has_no_gradient_and_no_state(void) {
    pl_model *model = open_model("gpt2-tiny.pt2");
    pl_job job;
    pl_job_default(&job);
    job.batch = 8;
    job.seq = 64;
    job.estimator = "sim";
    job.want_alive = true;
    static const char *const ways[] = {"all", "lora-r4:all-linear", "lora-r4", "qlora-r4"};
    int64_t before = INT64_MAX;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        job.train = ways[i];
        pl_graph *g = change(model, ways[i]);
        pl_report *r = report_of(model, &job);
        if (g && r) {
            int64_t state = 0;
            for (size_t k = 0; k < r->alive_count; k++)
                if (pl_report_alive(r, k)->kind == PL_OPTIMIZER && pl_report_alive(r, k)->bytes > 8)
                    state += pl_report_alive(r, k)->bytes;
            CHECK_INT(state, 2 * 4 * trainable(g));
            char number[64];
            snprintf(number, sizeof number, "\"trainable\":%" PRId64 ",", trainable(g));
            CHECK(says(pl_report_json(r, model), number));
            CHECK(r->allocated_bytes < before);
            CHECK_INT(r->unknown_count, 0);
            before = r->allocated_bytes;
        }
        pl_report_close(&r);
        pl_graph_close(&g);
    }
    pl_model_close(&model);
}

static void four_bits_are_reported(void) {
    pl_model *model = open_model("gpt2-tiny.pt2");
    pl_job job;
    pl_job_default(&job);
    double width[2] = {0};
    for (int i = 0; i < 2; i++) {
        job.train = i ? "qlora-r4" : "lora-r4";
        pl_report *r = report_of(model, &job);
        bool warned = false;
        for (size_t k = 0; r && k < r->warning_count; k++)
            warned |= strstr(r->warnings[k], "bitsandbytes") != NULL;
        CHECK(warned == (i == 1));
        if (r) width[i] = (double)(r->high_bytes - r->low_bytes) / (double)r->peak_bytes;
        pl_report_close(&r);
    }
    CHECK(width[1] > width[0]);
    pl_model_close(&model);
}

/* Experts that are packed in one tensor per layer: neither in 4 bits nor adapted, and where PEFT would
 * adapt them, refused. As PEFT 0.21.2 and transformers 5.17 do it (2026-11-16). */
static void packed_experts_are_reported(void) {
    static const struct {
        const char *config, *train, *part; /* of a warning; of the error, where it is refused */
        bool refused;
    } jobs[] = {
        {"mixtral", "lora-r4", "the experts, 86 % of the parameters, get no adapters", false},
        {"mixtral", "lora-r4:q_proj,v_proj", "get no adapters", false},
        {"mixtral", "qlora-r4", "the experts, 86 % of the parameters, are not in 4 bits", false},
        {"mixtral", "all", NULL, false},
        {"mixtral", "lora-r4:all-linear", "reaches the experts", true},
        {"mixtral", "lora-r4:q_proj,w1,w3", "reaches the experts", true},
        {"mixtral", "qlora-r4:all-linear", "reaches the experts", true},
        {"qwen3_moe", "lora-r4:gate_proj,up_proj", "reaches the experts", true},
        {"qwen3_moe", "lora-r4:mlp.down_proj", "reaches the experts", true},
        {"qwen3_moe", "lora-r4:o_proj", "get no adapters", false},
        {"qwen2_moe", "lora-r4:all-linear", "get no adapters", false},
        {"qwen2_moe", "lora-r4:gate_proj", "get no adapters", false},
        {"llama", "qlora-r4:all-linear", NULL, false},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char path[64];
        snprintf(path, sizeof path, "tests/data/configs/%s.json", jobs[i].config);
        pl_model *model = NULL;
        pl_report *r = NULL;
        pl_error err = PL_SIZED(pl_error);
        pl_job job;
        pl_job_default(&job);
        job.batch = 1;
        job.seq = 16;
        job.train = jobs[i].train;
        CHECK_INT(pl_model_open(&model, path, NULL, &err), PL_OK);
        CHECK_INT(pl_estimate(&r, model, &job, &err), jobs[i].refused ? PL_USAGE : PL_OK);
        if (jobs[i].refused && !strstr(err.message, jobs[i].part))
            CHECK_STR(err.message, jobs[i].part);
        int seen = 0;
        for (size_t k = 0; r && k < r->warning_count; k++)
            seen += jobs[i].part ? strstr(r->warnings[k], jobs[i].part) != NULL
                                 : strstr(r->warnings[k], "the experts, ") != NULL;
        CHECK_INT(seen, jobs[i].part && !jobs[i].refused ? 1 : 0);
        pl_report_close(&r);
        pl_model_close(&model);
    }
}

/* Adapters are float32 whatever the model is, so that half a model does not halve them. */
static void adapters_keep_their_type(void) {
    pl_model *model = open_model("gpt2-tiny.pt2");
    pl_job job;
    pl_job_default(&job);
    job.estimator = "sim";
    job.want_alive = true;
    job.train = "lora-r4";
    job.precision = PL_BF16;
    pl_report *r = report_of(model, &job);
    int seen = 0;
    for (size_t i = 0; r && i < r->alive_count; i++) {
        const pl_alive *a = pl_report_alive(r, i);
        if (a->kind != PL_WEIGHTS) continue;
        pl_graph *g = model->graph;
        const pl_tensor *plain = parameter(g, a->tensor);
        if (plain) CHECK_INT(a->bytes, 2 * pl_tensor_elements(plain));
        if (strstr(a->tensor, "c_attn.lora_A")) {
            const pl_tensor *w = parameter(g, "transformer.h.0.attn.c_attn.weight");
            CHECK_INT(a->bytes, 4 * 4 * w->sizes[0]);
            seen++;
        }
    }
    CHECK_INT(seen, 2);
    pl_report_close(&r);
    pl_model_close(&model);
}

/* A plain model changed is the graph that PyTorch exports of a model with adapters. */
static void adapters_are_as_exported(void) {
    static const pl_precision precisions[] = {PL_FP32, PL_BF16, PL_AMP_BF16, PL_AMP_FP16};
    pl_model *plain = open_model("gpt2-tiny.pt2"), *exported = open_model("gpt2-tiny-lora.pt2");
    pl_error err = {0};
    pl_graph *was = plain->graph, *graph = changed(plain, "lora-r4:c_attn", true, false, &err);
    CHECK(graph != NULL);
    for (size_t i = 0; graph && i < 8; i++) {
        pl_job job;
        pl_job_default(&job);
        job.precision = precisions[i / 2];
        job.checkpoint = i % 2;
        job.estimator = "sim";
        pl_report *a = report_of(exported, &job);
        plain->graph = graph;
        graph->symbol_count = graph->expr_count = 0;
        pl_report *b = report_of(plain, &job);
        plain->graph = was;
        if (a && b) {
            CHECK_INT(b->events, a->events);
            CHECK_INT(b->allocated_bytes, a->allocated_bytes);
            CHECK_INT(b->reserved_bytes, a->reserved_bytes);
        }
        pl_report_close(&a);
        pl_report_close(&b);
    }
    pl_graph_close(&graph);
    pl_model_close(&plain);
    pl_model_close(&exported);
}

/* ---- as measured ---- */

typedef struct measured_model {
    char name[32];
    pl_model *model;
} measured_model;

static double off(int64_t got, int64_t want) {
    return (double)got / (double)want - 1;
}

static bool within(double error, double most, const char *line) {
    if (error <= most && error >= -most) return true;
    printf("    %.4f off: %s", error, line);
    return false;
}

/* Each job of the file: what is allocated within 0.1 %, what is reserved within 1 %. */
static void jobs_come_out_as_measured(void) {
    FILE *file = fopen(measured, "r");
    CHECK(file != NULL);
    measured_model models[8] = {0};
    size_t count = 0, tried = 0, exact = 0;
    char line[1024], name[32], train[64], precision[16];
    while (file && fgets(line, sizeof line, file)) {
        long long batch, seq, allocated, reserved, outside;
        int checkpoint, length = 0;
        pl_error err = {0};
        if (sscanf(line, "config %31s %n", name, &length) == 1 && length > 0 && count < 8) {
            measured_model *m = &models[count++];
            memcpy(m->name, name, sizeof name);
            if (pl_model_open_memory(&m->model, line + length, strlen(line + length), name, NULL,
                                     &err) != PL_OK)
                check_say(name, 0, err.message);
            continue;
        }
        if (sscanf(line, "%31s %63s %lld %lld %15s %d %lld %lld %lld", name, train, &batch, &seq,
                   precision, &checkpoint, &allocated, &reserved, &outside) != 9)
            continue;
        pl_job job;
        pl_job_default(&job);
        job.train = train;
        job.batch = batch;
        job.seq = seq;
        job.checkpoint = checkpoint != 0;
        job.estimator = "sim";
        CHECK(pl_precision_parse(precision, &job.precision));
        const pl_model *model = NULL;
        for (size_t i = 0; i < count; i++)
            if (strcmp(models[i].name, name) == 0) model = models[i].model;
        pl_report *r = model ? report_of(model, &job) : NULL;
        CHECK(r != NULL);
        if (!r) continue;
        tried++;
        exact += r->allocated_bytes == allocated && r->reserved_bytes == reserved;
        CHECK(within(off(r->allocated_bytes, allocated), 0.001, line));
        CHECK(within(off(r->reserved_bytes, reserved), 0.01, line));
        CHECK(within(off(r->overhead_bytes, outside), 0.01, line));
        pl_report_close(&r);
    }
    if (file) fclose(file);
    for (size_t i = 0; i < count; i++) pl_model_close(&models[i].model);
    printf("  %zu measured jobs, %zu of them exact to the byte\n", tried, exact);
    CHECK_INT(tried, 27);
    CHECK(exact >= 10);
}

/* Every way with every precision, checkpointed, and on several ranks. */
static void every_way_gives_a_sound_report(void) {
    static const char *const files[] = {"gpt2-tiny.pt2", "bert-tiny.pt2", "vit.pt2", "mlp.pt2"};
    static const char *const ways[] = {"all", "head", "lora-r4:all-linear", "qlora-r4:all-linear"};
    static const char *const ranks[] = {"ddp:4", "fsdp2:4", "fsdp2:4:2"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        pl_model *model = open_model(files[f]);
        for (size_t i = 0; model && i < 4 * 7 * 4; i++) {
            pl_job job;
            pl_job_default(&job);
            job.train = ways[i % 4];
            job.precision = (pl_precision)(i / 4 % 7);
            job.checkpoint = i % 3 == 0;
            if (i / 28) pl_parallel_parse(ranks[i / 28 - 1], &job);
            pl_report *r = report_of(model, &job);
            int64_t sum = 0;
            for (int k = 0; r && k < PL_KINDS; k++) sum += pl_report_bytes(r, (pl_kind)k);
            if (r) CHECK_INT(sum, r->peak_bytes);
            pl_report_close(&r);
        }
        pl_model_close(&model);
    }
}

/* With checkpointing, the embeddings' output wants a gradient where their weight has none. */
static void checkpointing_goes_down_to_the_embeddings(void) {
    pl_model *model = open_model("gpt2-tiny.pt2");
    pl_error err = {0};
    pl_graph *g = changed(model, "lora-r4", false, true, &err);
    if (g) {
        CHECK_INT(count_nodes(g, "peft.requires_grad_.default"), 1);
        CHECK(!graph_unsound(g));
    }
    pl_graph_close(&g);
    CHECK(!pl_finetune_hooks(model->graph));
    g = changed(model, "all", false, true, &err); /* it trains anyway */
    if (g) CHECK_INT(count_nodes(g, "peft.requires_grad_.default"), 0);
    pl_graph_close(&g);
    pl_model_close(&model);
}

/* ---- memory ---- */

static void lack_of_memory_leaves_the_graph_as_it_was(void) {
    pl_model *model = open_model("gpt2-tiny.pt2");
    pl_job job;
    pl_job_default(&job);
    int failures = 0;
    for (long after = 0; after < 4000; after++) {
        pl_graph *g = NULL;
        bool owned;
        int64_t batch, seq;
        pl_error err = {0};
        if (pl_model_graph(model, &job, NULL, &g, &owned, &batch, &seq, &err) != PL_OK || !owned)
            break;
        int32_t nodes = g->node_count, tensors = g->tensor_count;
        pl_finetune how = {.kind = PL_FINETUNE_QLORA, .rank = 4, .checkpoint = true};
        pl_arena_fail_after(after);
        pl_status status = pl_graph_finetune(g, &how, &err);
        pl_arena_fail_after(-1);
        if (status != PL_OK) {
            failures++;
            CHECK_INT(status, PL_MISSING);
            CHECK(g->node_count == nodes && g->tensor_count == tensors && !graph_unsound(g));
        }
        pl_graph_close(&g);
        if (status == PL_OK) break;
    }
    CHECK(failures > 100);
    pl_model_close(&model);
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : "tests/data/graphs";
    measured = argc > 2 ? argv[2] : "tests/data/finetune.txt";
    RUN(texts_are_read);
    RUN(names_that_are_not_there_are_reported);
    RUN(a_head_trains_alone_and_under_both_names);
    RUN(adapters_stand_beside_the_layers_named);
    RUN(an_adapted_layer_is_PEFTs_forward);
    RUN(all_linear_leaves_the_head_out);
    RUN(falcons_layers_are_linear);
    RUN(weights_are_packed_but_the_output_layers);
    RUN(what_is_frozen_has_no_gradient_and_no_state);
    RUN(four_bits_are_reported);
    RUN(packed_experts_are_reported);
    RUN(adapters_keep_their_type);
    RUN(adapters_are_as_exported);
    RUN(jobs_come_out_as_measured);
    RUN(every_way_gives_a_sound_report);
    RUN(checkpointing_goes_down_to_the_embeddings);
    RUN(lack_of_memory_leaves_the_graph_as_it_was);
    return check_done();
}
