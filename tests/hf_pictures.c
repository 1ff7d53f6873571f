/* config.json of models that take pictures beside text: published files have the published numbers of
 * parameters, the sequence holds the picture's tokens, a task picks what is called. */
#include <stdlib.h>

#include "check.h"
#include "graph_sound.h"
#include "import/hf.h"

static pl_status open_text(pl_recipe **recipe, const char *text, const char *task, pl_error *err) {
    pl_reading settings = {.depth_limit = 512, .task = task};
    *err = (pl_error)PL_SIZED(pl_error);
    return pl_import_hf(recipe, text, strlen(text), "config.json", &settings, err);
}

/* seq 0: the recipe's own. */
static pl_graph *graph_of(const char *text, const char *task, int64_t seq, pl_error *err) {
    pl_recipe *recipe = NULL;
    pl_graph *graph = NULL;
    if (open_text(&recipe, text, task, err) == PL_OK)
        recipe->build(recipe, 2, seq ? seq : recipe->seq, NULL, &graph, err);
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

/* As their files on the hub say, shortened to what counts. */
static const struct {
    const char *text;
    int64_t parameters, tokens; /* of a picture */
} published[] = {
    {"{\"architectures\":[\"Qwen2VLForConditionalGeneration\"],\"model_type\":\"qwen2_vl\","
     "\"hidden_size\":1536,\"intermediate_size\":8960,\"max_position_embeddings\":32768,"
     "\"max_window_layers\":28,\"num_attention_heads\":12,\"num_hidden_layers\":28,"
     "\"num_key_value_heads\":2,\"rms_norm_eps\":1e-06,\"sliding_window\":32768,"
     "\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\",\"use_sliding_window\":false,"
     "\"vision_config\":{\"depth\":32,\"embed_dim\":1280,\"mlp_ratio\":4,\"num_heads\":16,"
     "\"in_chans\":3,\"hidden_size\":1536,\"patch_size\":14,\"spatial_merge_size\":2,"
     "\"spatial_patch_size\":14,\"temporal_patch_size\":2},\"rope_scaling\":{\"type\":\"mrope\","
     "\"mrope_section\":[16,24,24]},\"vocab_size\":151936}",
     2208985600, 391},
    {"{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"mm_tokens_per_image\":256,"
     "\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":2560,\"intermediate_size\":10240,"
     "\"model_type\":\"gemma3_text\",\"num_hidden_layers\":34,\"sliding_window\":1024},"
     "\"torch_dtype\":\"bfloat16\",\"vision_config\":{\"hidden_size\":1152,\"image_size\":896,"
     "\"intermediate_size\":4304,\"model_type\":\"siglip_vision_model\",\"num_attention_heads\":16,"
     "\"num_hidden_layers\":27,\"patch_size\":14,\"vision_use_head\":false}}",
     4300079472, 256},
    {"{\"architectures\":[\"LlavaForConditionalGeneration\"],\"model_type\":\"llava\","
     "\"text_config\":{\"model_type\":\"llama\",\"rms_norm_eps\":1e-05,\"vocab_size\":32064},"
     "\"tie_word_embeddings\":false,\"torch_dtype\":\"float16\",\"vision_config\":{"
     "\"hidden_size\":1024,\"image_size\":336,\"intermediate_size\":4096,\"model_type\":"
     "\"clip_vision_model\",\"num_attention_heads\":16,\"num_hidden_layers\":24,\"patch_size\":14,"
     "\"projection_dim\":768},\"vision_feature_layer\":-2,"
     "\"vision_feature_select_strategy\":\"default\",\"vocab_size\":32064}",
     7063427072, 576},
    {"{\"architectures\":[\"PaliGemmaForConditionalGeneration\"],\"hidden_size\":2048,"
     "\"model_type\":\"paligemma\",\"projection_dim\":2048,\"text_config\":{\"hidden_size\":2048,"
     "\"intermediate_size\":16384,\"model_type\":\"gemma\",\"num_attention_heads\":8,"
     "\"num_hidden_layers\":18,\"num_key_value_heads\":1,\"vocab_size\":257216},"
     "\"torch_dtype\":\"float32\",\"vision_config\":{\"hidden_size\":1152,"
     "\"intermediate_size\":4304,\"model_type\":\"siglip_vision_model\",\"num_attention_heads\":16,"
     "\"num_hidden_layers\":27,\"patch_size\":14,\"projection_dim\":2048,"
     "\"vision_use_head\":false}}",
     2923466480, 256},
};

static void numbers_are_the_published_ones(void) {
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        pl_error err;
        pl_recipe *recipe = NULL;
        CHECK_INT(open_text(&recipe, published[i].text, NULL, &err), PL_OK);
        CHECK(recipe && !recipe->guessed && warns(recipe, "a picture to each sample"));
        int64_t seq = recipe ? recipe->seq : 1;
        pl_recipe_close(&recipe);
        pl_graph *g = graph_of(published[i].text, NULL, 0, &err);
        CHECK(g && !graph_unsound(g));
        if (g) CHECK_INT(parameters(g), published[i].parameters);
        if (g) CHECK_INT(count_of(g, "aten.masked_scatter.default"), 1);
        pl_graph_close(&g);
        CHECK(seq >= published[i].tokens + 256);
        g = graph_of(published[i].text, NULL, published[i].tokens, &err);
        CHECK(g);
        pl_graph_close(&g);
        g = graph_of(published[i].text, NULL, published[i].tokens - 1, &err);
        CHECK(!g && err.code == PL_USAGE && strstr(err.message, "shorter than the"));
        /* text alone: the tower's weights lie there, and it is not run */
        g = graph_of(published[i].text, "causal", 8, &err);
        CHECK(g && !graph_unsound(g));
        if (g) CHECK_INT(parameters(g), published[i].parameters);
        if (g) CHECK_INT(g->input_count, 2);
        if (g) CHECK_INT(count_of(g, "aten.masked_scatter.default"), 0);
        pl_graph_close(&g);
    }
}

/* Sides in pixels, as the processor of Qwen2-VL brings them to multiples of 28 within its bounds. */
static void sizes_of_pictures(void) {
    static const struct {
        const char *task, *says;
    } rows[] = {
        {"image-text", "644 x 476 pixels behind its processor: 391 tokens"},
        {"image-text-to-text", "644 x 476 pixels"},
        {"image-text:28x28", "56 x 56 pixels behind its processor: 4 tokens"},
        {"image-text:1000x1000", "980 x 980 pixels behind its processor: 1225 tokens"},
        {"image-text:4000x3000", "1148 x 840 pixels behind its processor: 1230 tokens"},
    };
    pl_recipe *recipe = NULL;
    pl_error err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_INT(open_text(&recipe, published[0].text, rows[i].task, &err), PL_OK);
        CHECK(recipe && warns(recipe, rows[i].says));
        pl_recipe_close(&recipe);
    }
    static const char *const wrong[] = {"image-text:",   "image-text:0x9",  "image-text:9",
                                        "image-text:9x", "image-text:9x9x", "image-text:-9x9",
                                        "causal:9x9"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_INT(open_text(&recipe, published[0].text, wrong[i], &err), PL_USAGE);
        CHECK(!recipe && strstr(err.message, "is no task of"));
    }
    pl_graph *g = graph_of(published[0].text, "image-text:30x9000", 0, &err);
    CHECK(!g && err.code == PL_USAGE && strstr(err.message, "longer than the processor"));
}

/* Where the tower is not one that is built, or a task is asked for that the text model alone has: the
 * text model, and it is said. */
static void text_models_alone(void) {
    static const char text[] =
        "{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"llama\",\"hidden_size\":64,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"intermediate_size\":128,"
        "\"vocab_size\":100},\"vision_config\":{\"model_type\":\"%s\",\"image_size\":28,"
        "\"patch_size\":14,\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
        "\"intermediate_size\":64}%s}";
    static const struct {
        const char *tower, *more, *task;
        bool alone;
        int outputs;
    } rows[] = {
        {"clip_vision_model", "", NULL, false, 3},
        {"clip_vision_model", ",\"vision_feature_layer\":[-1,0,2]", NULL, false, 3},
        {"clip_vision_model", "", "classify", true, 2},
        {"a_tower_of_its_own", "", NULL, true, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char file[1024];
        pl_error err;
        pl_recipe *recipe = NULL;
        snprintf(file, sizeof file, text, rows[i].tower, rows[i].more);
        CHECK_INT(open_text(&recipe, file, rows[i].task, &err), PL_OK);
        CHECK(recipe && recipe->guessed == rows[i].alone &&
              warns(recipe, "text model llama alone") == rows[i].alone);
        pl_recipe_close(&recipe);
        pl_graph *g = graph_of(file, rows[i].task, 16, &err);
        CHECK(g && !graph_unsound(g));
        if (g) CHECK_INT(g->output_count, rows[i].outputs);
        pl_graph_close(&g);
    }
    static const char *const wrong[] = {"3", "-4", "[0,5]", "[\"x\"]", "1.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char file[1024], more[64];
        pl_error err;
        snprintf(more, sizeof more, ",\"vision_feature_layer\":%s", wrong[i]);
        snprintf(file, sizeof file, text, "clip_vision_model", more);
        pl_graph *g = graph_of(file, NULL, 16, &err);
        CHECK(!g && err.code == PL_INPUT && strstr(err.message, "expected -3 to 2"));
        pl_graph_close(&g);
    }
}

static void memory_runs_out(void) {
    int failed = 0;
    for (long i = 0; i < 600; i++) {
        pl_error err = {0};
        pl_arena_fail_after(i);
        pl_graph *g = graph_of(published[0].text, i % 2 ? "causal" : NULL, 0, &err);
        pl_arena_fail_after(-1);
        if (!g) failed++;
        CHECK(g || err.message[0]);
        pl_graph_close(&g);
    }
    CHECK(failed > 100);
}

int main(void) {
    RUN(numbers_are_the_published_ones);
    RUN(sizes_of_pictures);
    RUN(text_models_alone);
    RUN(memory_runs_out);
    return check_done();
}
