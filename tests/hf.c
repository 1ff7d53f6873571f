/* config.json: keys are found and checked, what is wrong is refused with its key and byte, tasks
 * and attention are chosen as the file says, and hostile files do no harm. */
#include "import/hf.h"

#include <stdlib.h>

#include "check.h"
#include "graph_sound.h"
#include "import/hf_config.h"
#include "import/import.h"

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"                        \
    "\"intermediate_size\":128,\"vocab_size\":100,\"rms_norm_eps\":1e-6"
#define GPT(type, more)                                                                            \
    "{\"model_type\":\"" type "\",\"hidden_size\":64,\"vocab_size\":100," more "}"
#define LLAMA "{\"model_type\":\"llama\"," SIZES

static pl_status open_text(pl_recipe **recipe, const char *text, const char *task,
                           const char *attention, pl_error *err) {
    pl_reading settings = {.depth_limit = 512, .task = task, .attention = attention};
    *err = (pl_error){0};
    return pl_import_hf(recipe, text, strlen(text), "config.json", &settings, err);
}

/* The graph for a batch of 2 and a sequence of 16, or NULL with err filled. */
static pl_graph *graph_of(const char *text, const char *task, const char *attention,
                          pl_error *err) {
    pl_recipe *recipe = NULL;
    pl_graph *graph = NULL;
    if (open_text(&recipe, text, task, attention, err) == PL_OK)
        recipe->build(recipe, 2, 16, NULL, &graph, err);
    pl_recipe_close(&recipe);
    return graph;
}

static int64_t parameters(const pl_graph *g) {
    int64_t count = 0;
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER && g->tensors[i].tied < 0)
            count += pl_tensor_elements(&g->tensors[i]);
    return count;
}

static int count_of(const pl_graph *g, const char *target) {
    int count = 0;
    for (int32_t i = 0; i < g->node_count; i++) count += strcmp(g->nodes[i].target, target) == 0;
    return count;
}

static bool warns(const pl_recipe *recipe, const char *word) {
    for (size_t i = 0; i < recipe->warning_count; i++)
        if (strstr(recipe->warnings[i], word)) return true;
    return false;
}

/* ---- keys ---- */

static void keys_are_found(void) {
    static const char text[] =
        "{\"a\":1,\"b\":null,\"c\":{\"d\":{\"e\":2.5}},\"f\":[1,\"x\",[2],null],\"g\":true,"
        "\"h\":\"w\\u00e9\",\"a\":7,\"id2label\":{\"0\":\"A\",\"1\":\"B\",\"2\":\"C\"}}";
    pl_arena *arena = pl_arena_new(0);
    pl_config *config = NULL;
    pl_error err = {0};
    CHECK_INT(pl_config_read(&config, arena, text, sizeof text - 1, "config.json", &err), PL_OK);
    pl_hf m = {.b = pl_builder_open("x", 0),
               .config = config,
               .part = "",
               .file = "config.json",
               .failed_at = -1};
    CHECK_INT(pl_hf_int(&m, "a", 0), 7); /* the last counts */
    CHECK_INT(pl_hf_int(&m, "b", 5), 5); /* null is absent */
    CHECK_INT(pl_hf_int(&m, "zz|b|a", 5), 7);
    CHECK(pl_hf_float(&m, "c.d.e", 0) == 2.5);
    CHECK(pl_hf_float(&m, "a", 0) == 7);
    CHECK(!pl_hf_has(&m, "c.d.f"));
    CHECK_STR(pl_hf_within(&m, "c.d."), "");
    CHECK(pl_hf_float(&m, "zz|e", 0) == 2.5);
    CHECK(!pl_hf_has(&m, "a") && !pl_hf_has(&m, "d"));
    CHECK_STR(pl_hf_within(&m, ""), "c.d.");
    CHECK(!pl_hf_has(&m, "b"));
    CHECK(pl_hf_bool(&m, "g", false));
    CHECK_STR(pl_hf_string(&m, "h", ""), "w\xc3\xa9");
    CHECK_INT(pl_hf_list(&m, "f"), 4);
    CHECK_INT(pl_hf_list_int(&m, "f", 0, -1), 1);
    CHECK_INT(pl_hf_list_int(&m, "f", 3, 9), 9);
    CHECK_STR(pl_hf_list_string(&m, "f", 1, ""), "x");
    CHECK_INT(pl_hf_list_int(&m, "f", 4, -1), -1);
    CHECK_INT(pl_hf_labels(&m), 3);
    CHECK(!pl_build_failed(m.b));
    pl_builder_close(&m.b);
    pl_arena_free(&arena);
}

/* What a file leaves out is what transformers' class holds: by its own name or another that the
 * class takes, of a configuration inside it by that one's type; a null is an answer. */
static void classes_fill_in(void) {
    static const char text[] =
        "{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"gpt2\",\"hidden_size\":64,"
        "\"n_head\":null,\"vocab_size\":7}}";
    pl_arena *arena = pl_arena_new(0);
    pl_config *config = NULL;
    pl_error err = {0};
    CHECK_INT(pl_config_read(&config, arena, text, sizeof text - 1, "config.json", &err), PL_OK);
    CHECK(pl_config_known("llava") && !pl_config_known("llav") && !pl_config_known(NULL));
    CHECK_INT(pl_config_number(config, "vision_config.image_size"), -1);
    CHECK(pl_config_defaults(config, arena, "unheard"));
    CHECK_INT(pl_config_number(config, "vision_config.image_size"), -1);
    CHECK(pl_config_defaults(config, arena, "llava"));
    static const struct {
        const char *key;
        int64_t value;
        bool given;
    } rows[] = {
        {"text_config.vocab_size", 7, true},
        {"text_config.n_embd", 64, true},   /* hidden_size, by its own name */
        {"text_config.n_layer", 12, false}, /* of GPT-2, not of Llama, which is LLaVA's usual one */
        {"text_config.n_head", -1, true},
        {"vision_config.image_size", 336, false}, /* as LLaVA makes CLIP, not as CLIP is */
        {"vision_config.num_channels", 3, false}, /* as CLIP is */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_INT(pl_config_number(config, rows[i].key), rows[i].value);
        CHECK(pl_config_given(config, rows[i].key) == rows[i].given);
    }
    pl_arena_free(&arena);
}

static void gemma_3_as_published(void) {
    static const char text[] =
        "{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":2560,"
        "\"intermediate_size\":10240,\"model_type\":\"gemma3_text\",\"num_hidden_layers\":34,"
        "\"sliding_window\":1024},\"vision_config\":{\"hidden_size\":1152}}";
    pl_recipe *recipe = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(open_text(&recipe, text, NULL, NULL, &err), PL_OK);
    CHECK(recipe && warns(recipe, "num_attention_heads 8, vocab_size 262208"));
    pl_recipe_close(&recipe);
}

static void wrong_values_name_their_key(void) {
    static const struct {
        const char *text, *key;
        int64_t at;
    } rows[] = {
        {LLAMA ",\"num_key_value_heads\":-1}", "num_key_value_heads", -1},
        {LLAMA ",\"num_key_value_heads\":3}", "num_key_value_heads", -1},
        {LLAMA ",\"num_key_value_heads\":1.5}", "num_key_value_heads", -1},
        {LLAMA ",\"num_key_value_heads\":\"4\"}", "num_key_value_heads", -1},
        {LLAMA ",\"head_dim\":1099511627777}", "head_dim", -1},
        {LLAMA ",\"head_dim\":99999999999999999999}", "head_dim", -1},
        {LLAMA ",\"head_dim\":7}", "head_dim", -1},
        {LLAMA ",\"attention_bias\":1}", "attention_bias", -1},
        {LLAMA ",\"hidden_act\":\"gelo\"}", "hidden_act", -1},
        {LLAMA ",\"attention_dropout\":NaN}", "attention_dropout", -1},
        {LLAMA ",\"num_hidden_layers\":4097}", "num_hidden_layers", -1},
        {LLAMA ",\"num_hidden_layers\":0}", "num_hidden_layers", -1},
        {"{\"model_type\":\"llama\",\"hidden_size\":null}", "hidden_size", -1},
        /* the family's name of the key, or that which the file has */
        {GPT("gpt_neox", "\"num_hidden_layers\":2,\"num_attention_heads\":5"),
         "num_attention_heads", -1},
        {GPT("gpt_neox", "\"num_hidden_layers\":2,\"num_attention_heads\":null"),
         "num_attention_heads", -1},
        {GPT("opt", "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"ffn_dim\":0"), "ffn_dim",
         -1},
        {GPT("falcon", "\"n_layer\":2,\"n_head\":5"), "n_head", -1},
        {GPT("bloom", "\"n_layer\":2,\"n_head\":null"), "n_head", -1},
        {GPT("codegen", "\"n_layer\":2,\"rotary_dim\":8,\"num_attention_heads\":2"),
         "num_attention_heads", -1},
        {"{\"model_type\":\"distilbert\",\"n_heads\":7}", "n_heads", -1},
        {"{\"model_type\":\"distilbert\",\"num_attention_heads\":7}", "num_attention_heads", -1},
        {"{\"model_type\":\"bart\",\"encoder_attention_heads\":7}", "encoder_attention_heads", -1},
        {"{\"model_type\":\"bart\",\"decoder_attention_heads\":0}", "decoder_attention_heads", -1},
        {"{\"model_type\":\"bart\",\"decoder_layers\":5000}", "decoder_layers", -1},
        {"{\"model_type\":\"whisper\",\"decoder_attention_heads\":7}", "decoder_attention_heads",
         -1},
        {"{\"model_type\":\"whisper\",\"num_mel_bins\":0}", "num_mel_bins", -1},
        {"{\"model_type\":\"t5\",\"num_heads\":0}", "num_heads", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_error err = PL_SIZED(pl_error);
        pl_graph *graph = graph_of(rows[i].text, NULL, NULL, &err);
        char key[64];
        snprintf(key, sizeof key, "\"%s\":", rows[i].key);
        const char *last = NULL;
        for (const char *at = rows[i].text; (at = strstr(at, key)); at++) last = at;
        CHECK(!graph);
        CHECK_INT(err.code, PL_INPUT);
        CHECK_STR(err.where, "config.json");
        CHECK(strncmp(err.message, rows[i].key, strlen(rows[i].key)) == 0);
        CHECK_INT(err.position, last ? last - rows[i].text + (int64_t)strlen(key) : rows[i].at);
        if (check_failures_in_case) printf("    %s: %s\n", rows[i].text, err.message);
        pl_graph_close(&graph);
    }
}

static void broken_files(void) {
    static const struct {
        const char *text;
        int64_t at;
    } rows[] = {
        {"", 0},
        {"[]", 0},
        {"{\"model_type\":\"llama\"", 21},
        {"{\"model_type\":\"llama\"} x", 23},
        {"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":"
         "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1",
         80},
        {"{\"model_type\":\"nothing\"}", 14},
        {"{\"model_type\":7}", 14},
        {"{\"architectures\":[\"X\"]}", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_recipe *recipe = NULL;
        pl_error err = PL_SIZED(pl_error);
        CHECK_INT(open_text(&recipe, rows[i].text, NULL, NULL, &err), PL_INPUT);
        CHECK(!recipe);
        CHECK(err.message[0]);
        CHECK_INT(err.position, rows[i].at);
        pl_recipe_close(&recipe);
    }
    pl_recipe *recipe = NULL;
    pl_error err = PL_SIZED(pl_error);
    open_text(&recipe, "{\"model_type\":\"nothing\"}", NULL, NULL, &err);
    CHECK(strstr(err.message, "nothing") && strstr(err.message, "llama, mistral"));
}

static void too_much(void) {
    size_t size = 3 << 20, at = 0;
    char *text = malloc(size + 64);
    at += (size_t)sprintf(text, LLAMA);
    while (at < size) at += (size_t)sprintf(text + at, ",\"k%zu\":1", at);
    strcpy(text + at, "}");
    pl_recipe *recipe = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(open_text(&recipe, text, NULL, NULL, &err), PL_INPUT);
    CHECK(strstr(err.message, "fewer keys"));
    at = (size_t)sprintf(text, LLAMA ",\"l\":[0");
    while (at < size) at += (size_t)sprintf(text + at, ",0");
    strcpy(text + at, "]}");
    CHECK_INT(open_text(&recipe, text, NULL, NULL, &err), PL_INPUT);
    CHECK(strstr(err.message, "shorter lists"));
    free(text);
    /* sizes whose products do not fit */
    pl_graph *graph = graph_of("{\"model_type\":\"llama\",\"hidden_size\":1099511627776,"
                               "\"num_hidden_layers\":1,\"num_attention_heads\":2,"
                               "\"intermediate_size\":1099511627776,\"vocab_size\":1099511627776}",
                               NULL, NULL, &err);
    CHECK(!graph);
    CHECK(err.code == PL_INPUT || err.code == PL_MISSING);
    CHECK(err.message[0]);
}

/* ---- what is built ---- */

static void sizes_of_a_llama(void) {
    pl_error err = PL_SIZED(pl_error);
    pl_graph *g = graph_of(LLAMA ",\"num_key_value_heads\":2}", NULL, NULL, &err);
    CHECK(g);
    if (!g) return;
    CHECK(!graph_unsound(g));
    /* embedding and head; attention 64 x (64 + 32 + 32 + 64), three of 64 x 128, two norms; one
     * more */
    CHECK_INT(parameters(g), 2 * 100 * 64 + 2 * (64 * 192 + 3 * 64 * 128 + 2 * 64) + 64);
    CHECK_INT(count_of(g, "aten.scaled_dot_product_attention.default"), 2);
    CHECK_INT(count_of(g, "aten.cross_entropy_loss.default"), 1);
    CHECK_INT(g->input_count, 2);
    CHECK_INT(g->output_count, 2);
    CHECK_INT(g->tensors[g->inputs[0]].sizes[1], 16);
    pl_graph_close(&g);
    g = graph_of(LLAMA ",\"num_key_value_heads\":2,\"tie_word_embeddings\":true}", NULL, NULL,
                 &err);
    CHECK_INT(g ? parameters(g) : 0, 100 * 64 + 2 * (64 * 192 + 3 * 64 * 128 + 2 * 64) + 64);
    pl_graph_close(&g);
}

static void tasks(void) {
    static const struct {
        const char *architecture, *task, *last; /* last operator */
    } rows[] = {
        {"null", NULL, "aten.cross_entropy_loss.default"},
        {"[\"LlamaForCausalLM\"]", NULL, "aten.cross_entropy_loss.default"},
        {"[\"LlamaForCausalLM\"]", "base", "aten.mul.Tensor"},
        {"[\"LlamaModel\"]", NULL, "aten.mul.Tensor"},
        {"[\"LlamaModel\"]", "causal", "aten.cross_entropy_loss.default"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        pl_error err = PL_SIZED(pl_error);
        snprintf(text, sizeof text, LLAMA ",\"architectures\":%s}", rows[i].architecture);
        pl_graph *g = graph_of(text, rows[i].task, NULL, &err);
        CHECK(g);
        CHECK_STR(g ? g->nodes[g->node_count - 1].target : "", rows[i].last);
        pl_graph_close(&g);
    }
    static const struct {
        const char *task;
        int64_t outputs; /* of the last linear layer */
        int dims;        /* of the second output */
    } heads[] = {{"classify", 5, 2}, {"tokens", 5, 3}, {"causal", 100, 3}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        pl_error err = PL_SIZED(pl_error);
        pl_graph *g = graph_of(LLAMA ",\"num_labels\":5}", heads[i].task, NULL, &err);
        CHECK(g);
        if (!g) continue;
        const pl_tensor *logits = &g->tensors[g->outputs[1]];
        CHECK_INT(logits->dims, heads[i].dims);
        CHECK_INT(logits->sizes[logits->dims - 1], heads[i].outputs);
        pl_graph_close(&g);
    }
    pl_recipe *recipe = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(open_text(&recipe, LLAMA "}", "masked", NULL, &err), PL_USAGE);
    CHECK(strstr(err.message, "causal, classify, tokens, base"));
    CHECK_INT(open_text(&recipe, LLAMA "}", NULL, "fast", &err), PL_USAGE);
    CHECK_STR(err.where, "attention");
    CHECK_INT(open_text(&recipe, LLAMA ",\"architectures\":[\"LlamaForQuestionAnswering\"]}", NULL,
                        NULL, &err),
              PL_OK);
    CHECK(recipe && warns(recipe, "LlamaForQuestionAnswering"));
    pl_recipe_close(&recipe);
}

static void attention(void) {
    static const struct {
        const char *more, *asked;
        int kernels, softmaxes;
    } rows[] = {
        {"", NULL, 2, 0},
        {"", "eager", 0, 2},
        {"", "flash2", 2, 0},
        {",\"_attn_implementation\":\"eager\"", NULL, 0, 2},
        {",\"_attn_implementation\":\"eager\"", "sdpa", 2, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        pl_error err = PL_SIZED(pl_error);
        snprintf(text, sizeof text, LLAMA "%s}", rows[i].more);
        pl_graph *g = graph_of(text, NULL, rows[i].asked, &err);
        CHECK(g);
        if (!g) continue;
        CHECK_INT(count_of(g, "aten.scaled_dot_product_attention.default"), rows[i].kernels);
        CHECK_INT(count_of(g, "aten.softmax.int"), rows[i].softmaxes);
        pl_graph_close(&g);
    }
}

/* A mask is made only where the window is no longer than the sequence (16). */
static void windows(void) {
    static const struct { int window, masks; } rows[] = {{8, 1}, {16, 1}, {17, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        pl_error err = PL_SIZED(pl_error);
        snprintf(text, sizeof text,
                 "{\"model_type\":\"mistral\"," SIZES
                 ",\"num_key_value_heads\":4,\"sliding_window\":%d}",
                 rows[i].window);
        pl_graph *g = graph_of(text, NULL, NULL, &err);
        CHECK(g);
        CHECK_INT(g ? count_of(g, "aten.le.Tensor") : -1, rows[i].masks);
        pl_graph_close(&g);
    }
}

static void what_is_assumed(void) {
    pl_recipe *recipe = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(open_text(&recipe, LLAMA ",\"max_position_embeddings\":300,\"dtype\":\"bfloat16\"}",
                        NULL, NULL, &err),
              PL_OK);
    CHECK(recipe && recipe->batch == 1 && recipe->batch_assumed && recipe->seq == 300 &&
          recipe->seq_assumed && recipe->dtype == PL_DT_BF16 && !recipe->guessed);
    pl_recipe_close(&recipe);
    CHECK_INT(open_text(&recipe,
                        "{\"model_type\":\"new\",\"quantization_config\":{\"quant_method\":"
                        "\"awq\"}," SIZES "}",
                        NULL, NULL, &err),
              PL_OK);
    CHECK(recipe && recipe->seq == 1024 && recipe->guessed && recipe->dtype == PL_DT_F32);
    CHECK(recipe && warns(recipe, "built as llama") && warns(recipe, "awq"));
    CHECK(recipe && recipe->resembles && recipe->unseen == 0);
    pl_recipe_close(&recipe);
    CHECK_INT(open_text(&recipe,
                        "{\"model_type\":\"gemma9_vl\",\"architectures\":["
                        "\"Gemma9ForConditionalGeneration\"],\"text_config\":{\"model_type\":"
                        "\"gemma3_text\"," SIZES ",\"head_dim\":16}}",
                        NULL, NULL, &err),
              PL_OK);
    CHECK(recipe && warns(recipe, "text model"));
    pl_graph *g = NULL;
    CHECK(recipe && recipe->build(recipe, 1, 8, 0, &g, &err) == PL_OK);
    CHECK(g && count_of(g, "aten.cross_entropy_loss.default") == 1);
    pl_graph_close(&g);
    CHECK(recipe && recipe->build(recipe, 0, 8, 0, &g, &err) == PL_USAGE);
    CHECK(recipe && recipe->build(recipe, 1, 0, 0, &g, &err) == PL_USAGE);
    pl_recipe_close(&recipe);
}

/* Memory that runs out at any point: a failure that says so, nothing lost. */
static void memory_runs_out(void) {
    int failed = 0;
    for (long i = 0; i < 400; i++) {
        pl_error err = {0};
        pl_arena_fail_after(i);
        pl_graph *g = graph_of(LLAMA "}", NULL, NULL, &err);
        pl_arena_fail_after(-1);
        if (!g) failed++;
        CHECK(g || err.message[0]);
        pl_graph_close(&g);
    }
    CHECK(failed > 100);
}

/* ---- what looks like something else ---- */

static void open_and_warn(const char *text, const char *task, const char *attention,
                          const char *word, bool expected) {
    pl_recipe *recipe = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(open_text(&recipe, text, task, attention, &err), PL_OK);
    CHECK(recipe && warns(recipe, word) == expected);
    if (check_failures_in_case) printf("    %s: %s %s\n", text, word, err.message);
    pl_recipe_close(&recipe);
}

/* A model that is not known, with experts: Mixtral's plan, or Qwen's where the keys
 * are named as there. */
static void unknown_experts_are_built(void) {
    static const struct {
        const char *more;
        int64_t inner; /* of an expert; 0: no experts */
        int64_t norms; /* of queries and keys, per layer */
    } rows[] = {
        {",\"num_experts\":8,\"num_experts_per_tok\":2", 128, 32},
        {",\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32", 32, 32},
        {",\"num_local_experts\":8,\"num_experts_per_tok\":2", 128, 0},
        {",\"num_experts\":1,\"num_experts_per_tok\":1", 0, 0},
        {",\"num_experts\":8", 0, 0},
        {",\"num_experts\":8,\"num_experts_per_tok\":2,\"is_moe\":false", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        pl_error err = PL_SIZED(pl_error);
        snprintf(text, sizeof text, "{\"model_type\":\"unheard\"," SIZES "%s}", rows[i].more);
        pl_graph *g = graph_of(text, NULL, NULL, &err);
        CHECK(g && !graph_unsound(g));
        int64_t inner = rows[i].inner,
                mlp = 3 * 64 * (inner ? 8 * inner : 128) + (inner ? 8 * 64 : 0);
        if (g)
            CHECK_INT(parameters(g),
                      2 * 100 * 64 + 2 * (4 * 64 * 64 + mlp + 2 * 64 + rows[i].norms) + 64);
        pl_graph_close(&g);
        open_and_warn(text, NULL, NULL, "spread evenly", inner > 0);
        open_and_warn(text, NULL, NULL, "is not known", true);
    }
}

/* Published files, the keys that count: as many parameters as published (those of transformers' class). */
static void mixtures_as_published(void) {
    static const struct {
        const char *text;
        int64_t count;
    } rows[] = {
        {"{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,\"intermediate_size\":18432,"
         "\"moe_intermediate_size\":2048,\"num_hidden_layers\":61,\"num_attention_heads\":128,"
         "\"n_shared_experts\":1,\"n_routed_experts\":256,\"q_lora_rank\":1536,"
         "\"kv_lora_rank\":512,\"qk_rope_head_dim\":64,\"v_head_dim\":128,"
         "\"qk_nope_head_dim\":128,\"n_group\":8,\"topk_group\":4,\"num_experts_per_tok\":8,"
         "\"first_k_dense_replace\":3,\"vocab_size\":129280,\"num_nextn_predict_layers\":1}",
         671026404352}, /* DeepSeek-V3 */
        {"{\"model_type\":\"deepseek_v2\",\"hidden_size\":2048,\"intermediate_size\":10944,"
         "\"moe_intermediate_size\":1408,\"num_hidden_layers\":27,\"num_attention_heads\":16,"
         "\"num_key_value_heads\":16,\"n_shared_experts\":2,\"n_routed_experts\":64,"
         "\"q_lora_rank\":null,\"kv_lora_rank\":512,\"num_experts_per_tok\":6,"
         "\"first_k_dense_replace\":1,\"vocab_size\":102400}",
         15706484224}, /* DeepSeek-V2-Lite */
        {"{\"model_type\":\"gpt_oss\",\"hidden_size\":2880,\"intermediate_size\":2880,"
         "\"num_hidden_layers\":24,\"num_local_experts\":32,\"vocab_size\":201088}",
         20914757184}, /* gpt-oss-20b */
        {"{\"model_type\":\"glm4_moe\",\"attention_bias\":true,\"head_dim\":128,"
         "\"use_qk_norm\":false}",
         106852245504},                                     /* GLM-4.5-Air */
        {"{\"model_type\":\"llama4_text\"}", 107769861120}, /* Llama 4 Scout's text model */
        {"{\"model_type\":\"granitemoe\",\"hidden_size\":1536,\"intermediate_size\":512,"
         "\"num_hidden_layers\":32,\"num_attention_heads\":24,\"num_key_value_heads\":8,"
         "\"num_local_experts\":40,\"num_experts_per_tok\":8,\"vocab_size\":49152,"
         "\"tie_word_embeddings\":true}",
         3298788864},                                                          /* PowerMoE 3B */
        {"{\"model_type\":\"olmoe\",\"intermediate_size\":1024}", 6919161856}, /* OLMoE 1B-7B */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_error err = PL_SIZED(pl_error);
        pl_graph *g = graph_of(rows[i].text, NULL, NULL, &err);
        CHECK(g && !graph_unsound(g));
        if (g) CHECK_INT(parameters(g), rows[i].count);
        pl_graph_close(&g);
    }
}

static void mixtures_that_make_no_sense(void) {
    static const struct {
        const char *more, *key;
    } rows[] = {
        {"\"n_group\":3", "n_group"},
        {"\"topk_group\":9", "n_group"},
        {"\"num_experts_per_tok\":0", "num_experts_per_tok"},
        {"\"num_experts_per_tok\":257", "num_experts_per_tok"},
        {"\"qk_rope_head_dim\":63", "qk_rope_head_dim"},
        {"\"n_shared_experts\":1099511627776", "n_shared_experts"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        pl_error err = PL_SIZED(pl_error);
        snprintf(text, sizeof text, "{\"model_type\":\"deepseek_v3\",%s}", rows[i].more);
        pl_graph *g = graph_of(text, NULL, NULL, &err);
        CHECK(!g);
        CHECK(strstr(err.message, rows[i].key) || strstr(err.where, rows[i].key));
        pl_graph_close(&g);
    }
}

/* Gemma 3 without its images, or whose text model's type is not known: Gemma's layers, not
 * Llama's. */
static void text_models_have_the_plan_of_their_family(void) {
    const char *const texts[] = {"{\"model_type\":\"gemma3_text\"," SIZES ",\"head_dim\":16}",
                                 "{\"model_type\":\"gemma3\"," SIZES ",\"head_dim\":16}",
                                 "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":"
                                 "\"gemma3_new\"," SIZES ",\"head_dim\":16}}"};
    int64_t want = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pl_error err = PL_SIZED(pl_error);
        pl_graph *g = graph_of(texts[i], NULL, NULL, &err);
        CHECK(g && !graph_unsound(g));
        if (g && i == 0) want = parameters(g);
        if (g) CHECK_INT(parameters(g), want);
        pl_graph_close(&g);
    }
    open_and_warn(texts[2], NULL, NULL, "gemma3_new is not known", true);
}

static void hybrids_are_refused(void) {
    static const struct {
        const char *key, *value;
    } rows[] = {
        {"mamba_d_state", "16"},
        {"attn_layer_period", "8"},
        {"layers_block_type", "[\"mamba\",\"hybrid\"]"},
        {"layer_types", "[\"full_attention\",\"linear_attention\"]"},
        {"layer_types", "[\"mamba\"]"},
        {"linear_num_key_heads", "16"},
        {"lru_width", "64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        pl_recipe *recipe = NULL;
        pl_error err = PL_SIZED(pl_error);
        snprintf(text, sizeof text, "{\"model_type\":\"unheard\"," SIZES ",\"%s\":%s}", rows[i].key,
                 rows[i].value);
        CHECK_INT(open_text(&recipe, text, NULL, NULL, &err), PL_INPUT);
        CHECK(strncmp(err.message, rows[i].key, strlen(rows[i].key)) == 0);
        CHECK(strstr(err.message, "unheard") && strstr(err.message, "llama, mistral"));
        CHECK_INT(err.position,
                  (int64_t)(strstr(text, rows[i].key) - text + 2) + (int64_t)strlen(rows[i].key));
        pl_recipe_close(&recipe);
    }
    pl_error err = PL_SIZED(pl_error);
    pl_graph *g =
        graph_of("{\"model_type\":\"new\"," SIZES ",\"mamba_d_state\":null,\"layer_types\":"
                 "[\"full_attention\",\"sliding_attention\"]}",
                 NULL, NULL, &err);
    CHECK(g);
    pl_graph_close(&g);
}

/* A file without the key has as many positions as transformers' configuration says. */
static void positions_that_are_not_said(void) {
    static const struct {
        const char *text;
        int64_t most, seq;
    } rows[] = {
        {"{\"model_type\":\"bert\"}", 512, 512},
        {"{\"model_type\":\"roberta\"}", 510, 510},
        {"{\"model_type\":\"roberta\",\"max_position_embeddings\":514}", 512, 512},
        {"{\"model_type\":\"xlm-roberta\"}", 510, 510},
        {"{\"model_type\":\"camembert\"}", 510, 510},
        {"{\"model_type\":\"electra\"}", 512, 512},
        {"{\"model_type\":\"albert\",\"max_position_embeddings\":null}", 512, 512},
        {"{\"model_type\":\"distilbert\"}", 512, 512},
        {"{\"model_type\":\"deberta-v2\"}", 512, 512},
        {"{\"model_type\":\"gpt2\"}", 1024, 1024},
        {"{\"model_type\":\"gpt_bigcode\"}", 1024, 1024},
        {"{\"model_type\":\"opt\"}", 2048, 1024},
        {"{\"model_type\":\"gptj\"}", 2048, 1024},
        {"{\"model_type\":\"codegen\"}", 2048, 1024},
        {"{\"model_type\":\"gpt_neo\"}", 2048, 1024},
        {"{\"model_type\":\"bart\"}", 1024, 1024},
        {"{\"model_type\":\"whisper\"}", 448, 448},
        {LLAMA "}", INT64_MAX, 1024},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_recipe *recipe = NULL;
        pl_error err = PL_SIZED(pl_error);
        CHECK_INT(open_text(&recipe, rows[i].text, NULL, NULL, &err), PL_OK);
        CHECK(recipe && recipe->seq_assumed);
        CHECK_INT(recipe ? recipe->most_seq : -1, rows[i].most);
        CHECK_INT(recipe ? recipe->seq : -1, rows[i].seq);
        pl_recipe_close(&recipe);
    }
    /* and the builders themselves take no longer one */
    static const char *const tables[] = {"bert", "roberta", "deberta-v2", "bart", "whisper"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char text[64];
        pl_recipe *recipe = NULL;
        pl_graph *g = NULL;
        pl_error err = PL_SIZED(pl_error);
        snprintf(text, sizeof text, "{\"model_type\":\"%s\"}", tables[i]);
        CHECK_INT(open_text(&recipe, text, NULL, NULL, &err), PL_OK);
        CHECK(recipe && recipe->build(recipe, 1, recipe->seq + 1, 0, &g, &err) == PL_USAGE);
        CHECK_STR(err.where, "seq");
        CHECK(recipe && recipe->build(recipe, 1, recipe->seq, 0, &g, &err) == PL_OK);
        pl_graph_close(&g);
        pl_recipe_close(&recipe);
    }
}

static void what_is_not_followed_is_reported(void) {
    pl_recipe *recipe = NULL;
    pl_error err = PL_SIZED(pl_error);
    static const char encoder[] = "{\"model_type\":\"t5\",\"architectures\":[\"T5EncoderModel\"]}";
    CHECK_INT(open_text(&recipe, encoder, NULL, NULL, &err), PL_INPUT);
    CHECK(strstr(err.message, "T5EncoderModel"));
    CHECK_INT(err.position, strchr(encoder, '[') - encoder);
    open_and_warn(encoder, "base", NULL, "T5EncoderModel", false);
    open_and_warn("{\"model_type\":\"bert\",\"architectures\":[\"BertForPreTraining\"]}", NULL,
                  NULL, "BertForPreTraining", true);
    open_and_warn("{\"model_type\":\"bert\",\"architectures\":[\"BertForMaskedLM\"]}", NULL, NULL,
                  "BertForMaskedLM", false);
    open_and_warn("{\"model_type\":\"bert\",\"dtype\":\"bflaot16\"}", NULL, NULL, "bflaot16", true);
    open_and_warn("{\"model_type\":\"bert\",\"torch_dtype\":\"torch.half\"}", NULL, NULL, "dtype",
                  false);
    static const char flahs[] = "{\"model_type\":\"bert\",\"_attn_implementation\":\"flahs\"}";
    open_and_warn(flahs, NULL, NULL, "flahs", true);
    open_and_warn(flahs, NULL, "eager", "flahs", false);
    static const struct {
        const char *type, *attention;
        bool followed;
    } rows[] = {
        {"bert", "flash2", true},     {"bloom", "flash2", false}, {"bloom", "sdpa", false},
        {"bloom", "eager", true},     {"bloom", NULL, true},      {"deberta-v2", "flash2", false},
        {"codegen", "flash2", false}, {"gptj", "flash2", true},   {"gptj", "sdpa", false},
        {"t5", "flash2", false},      {"t5", "sdpa", true},       {"beit", "flash2", false},
        {"mamba", "eager", false},    {"gemma2", "sdpa", false},  {"falcon", "flash2", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"model_type\":\"%s\"}", rows[i].type);
        open_and_warn(text, NULL, rows[i].attention, "is not followed", !rows[i].followed);
    }
}

/* ---- told apart from other files ---- */

static void told_apart(void) {
    static const char refused[] = "is not one of: llama";
    static const struct {
        const char *text, *says;
    } rows[] = {{"{\"model_type\":\"x\"}", refused},
                {" {\"a\":{\"model_type\":1},\"architectures\":[]}", refused},
                {"{\"a\":{\"model_type\":1}}", "none of their keys"},
                {"{\"graph_module\":{},\"model_type\":1}", ""},
                {"[]", "none of them"},
                {"", "empty"},
                {"{\"a\":", "expected"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_imported made;
        pl_error err = {0};
        CHECK_INT(
            pl_import_memory(&made, rows[i].text, strlen(rows[i].text), "config.json", NULL, &err),
            PL_INPUT);
        CHECK(strstr(err.message, rows[i].says));
        CHECK((strstr(err.message, refused) != NULL) == (rows[i].says == refused));
        if (check_failures_in_case) printf("    %s: %s\n", rows[i].text, err.message);
    }
    pl_imported made;
    pl_error err = {0};
    CHECK_INT(pl_import_memory(&made, LLAMA "}", strlen(LLAMA "}"), "config.json", NULL, &err),
              PL_OK);
    CHECK(made.recipe);
    pl_recipe_close(&made.recipe);
}

int main(void) {
    RUN(keys_are_found);
    RUN(classes_fill_in);
    RUN(gemma_3_as_published);
    RUN(wrong_values_name_their_key);
    RUN(broken_files);
    RUN(too_much);
    RUN(sizes_of_a_llama);
    RUN(tasks);
    RUN(attention);
    RUN(windows);
    RUN(what_is_assumed);
    RUN(memory_runs_out);
    RUN(unknown_experts_are_built);
    RUN(mixtures_as_published);
    RUN(mixtures_that_make_no_sense);
    RUN(text_models_have_the_plan_of_their_family);
    RUN(hybrids_are_refused);
    RUN(positions_that_are_not_said);
    RUN(what_is_not_followed_is_reported);
    RUN(told_apart);
    return check_done();
}
