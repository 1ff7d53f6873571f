/* config.json of decoders: published files have the published numbers of parameters; a file that no
 * family is known for is built by its keys, with what they leave open in the upper end. */
#include "check.h"
#include "graph_sound.h"
#include "import/hf.h"

static pl_graph *graph_of(const char *text, pl_recipe **recipe) {
    pl_reading settings = {.depth_limit = 512};
    pl_error err = PL_SIZED(pl_error);
    pl_graph *graph = NULL;
    *recipe = NULL;
    if (pl_import_hf(recipe, text, strlen(text), "config.json", &settings, &err) == PL_OK)
        (*recipe)->build(*recipe, 2, 16, NULL, &graph, &err);
    if (!graph) printf("# %s\n", err.message);
    return graph;
}

static int64_t parameters(const pl_graph *g) {
    int64_t count = 0;
    for (int32_t i = 0; g && i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER && g->tensors[i].tied < 0)
            count += pl_tensor_elements(&g->tensors[i]);
    return count;
}

static int count_of(const pl_graph *g, const char *target) {
    int count = 0;
    for (int32_t i = 0; g && i < g->node_count; i++)
        count += strcmp(g->nodes[i].target, target) == 0;
    return count;
}

/* Shortened to what counts; what they leave out is their class's. */
static const struct {
    const char *text;
    int64_t parameters;
} published[] = {
    {"{\"model_type\":\"cohere2\",\"hidden_size\":4096,\"num_hidden_layers\":32,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336}",
     8028033024},
    {"{\"model_type\":\"glm4\",\"hidden_size\":4096,\"num_hidden_layers\":40,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":2,\"head_dim\":128,"
     "\"intermediate_size\":13696,\"vocab_size\":151552,\"attention_bias\":true}",
     9400279040},
    {"{\"model_type\":\"olmo3\",\"hidden_size\":4096,\"num_hidden_layers\":32,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":32,\"intermediate_size\":11008,"
     "\"vocab_size\":100278}",
     7298011136},
    {"{\"model_type\":\"seed_oss\",\"hidden_size\":5120,\"num_hidden_layers\":64,"
     "\"num_attention_heads\":80,\"num_key_value_heads\":8,\"head_dim\":128,"
     "\"intermediate_size\":27648,\"vocab_size\":155136,\"attention_bias\":true,"
     "\"attention_out_bias\":false}",
     36151104512},
    {"{\"model_type\":\"apertus\",\"hidden_size\":4096,\"num_hidden_layers\":32,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":21504,"
     "\"vocab_size\":131072}",
     8053338176},
    {"{\"model_type\":\"exaone4\",\"hidden_size\":2048,\"num_hidden_layers\":30,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":4096,"
     "\"vocab_size\":102400,\"tie_word_embeddings\":true}",
     1279391488},
    {"{\"model_type\":\"gemma3n_text\",\"hidden_size\":2048,\"num_hidden_layers\":35,"
     "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":256,"
     "\"intermediate_size\":16384,\"vocab_size\":262400,\"num_kv_shared_layers\":15}",
     6835235568},
    {"{\"model_type\":\"lfm2\",\"hidden_size\":2048,\"num_hidden_layers\":16,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"block_ff_dim\":12288,"
     "\"vocab_size\":65536,\"full_attn_idxs\":[2,5,8,10,12,14]}",
     1170340608},
    {"{\"model_type\":\"falcon_mamba\",\"hidden_size\":4096,\"num_hidden_layers\":64,"
     "\"intermediate_size\":8192,\"vocab_size\":65024,\"tie_word_embeddings\":false}",
     7272665088},
    {"{\"model_type\":\"mamba2\",\"hidden_size\":4096,\"num_hidden_layers\":64,"
     "\"vocab_size\":32768}",
     7285403648},
    {"{\"model_type\":\"jamba\",\"hidden_size\":4096,\"num_hidden_layers\":32,"
     "\"intermediate_size\":14336,\"vocab_size\":65536}",
     51570323328},
    {"{\"model_type\":\"bamba\",\"vocab_size\":128256,\"attn_layer_indices\":[9,18,27],"
     "\"mamba_d_state\":128}",
     9780235392},
    {"{\"model_type\":\"nemotron_h\",\"hidden_size\":4480,\"intermediate_size\":15680,"
     "\"hybrid_override_pattern\":\"M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-\","
     "\"num_attention_heads\":40,\"mamba_head_dim\":80}",
     8888227328},
    {"{\"model_type\":\"falcon_h1\",\"hidden_size\":1024,\"num_hidden_layers\":36,"
     "\"intermediate_size\":2048,\"num_attention_heads\":8,\"num_key_value_heads\":2,"
     "\"head_dim\":64,\"vocab_size\":32784,\"mamba_d_ssm\":1536,\"mamba_n_heads\":24,"
     "\"mamba_d_head\":64,\"mamba_d_state\":128}",
     521411104},
    {"{\"model_type\":\"rwkv\",\"hidden_size\":768,\"num_hidden_layers\":12,"
     "\"vocab_size\":50277}",
     169342464},
    {"{\"model_type\":\"minicpm3\"}", 4073875968},
};

static void as_published(void) {
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        pl_recipe *recipe;
        pl_graph *g = graph_of(published[i].text, &recipe);
        CHECK_INT(parameters(g), published[i].parameters);
        CHECK(recipe && !recipe->resembles && !recipe->guessed);
        CHECK(g && !graph_unsound(g));
        pl_graph_close(&g);
        pl_recipe_close(&recipe);
    }
}

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"                        \
    "\"num_key_value_heads\":2,\"intermediate_size\":128,\"vocab_size\":100,"                      \
    "\"rms_norm_eps\":1e-5"

/* Of a model that nobody knows, keys choose what is built; others what it may have besides. */
static void unknown_by_their_keys(void) {
    static const struct {
        const char *keys;
        int softmaxes, masks, norms; /* of float32 scores; of windows; square roots */
        int64_t unseen;
    } rows[] = {
        {"", 0, 0, 5, 0},
        {",\"attn_logit_softcapping\":50.0", 2, 0, 5, 0},
        {",\"sliding_window\":8", 0, 1, 5, 0},
        {",\"sliding_window\":8,\"use_sliding_window\":false", 0, 0, 5, 0},
        {",\"use_qk_norm\":true", 0, 0, 9, 0},
        {",\"other_vocab_size\":1000", 0, 0, 5, 64000},
        {",\"vision_config\":{\"hidden_size\":32,\"num_hidden_layers\":3}", 0, 0, 5,
         3 * 32 * (4 * 32 + 3 * 4 * 32)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        pl_recipe *recipe;
        snprintf(text, sizeof text, "{\"model_type\":\"new\"," SIZES "%s}", rows[i].keys);
        pl_graph *g = graph_of(text, &recipe);
        CHECK_INT(count_of(g, "aten.softmax.int"), rows[i].softmaxes);
        CHECK_INT(count_of(g, "aten.gt.Tensor"), rows[i].masks);
        CHECK_INT(count_of(g, "aten.rsqrt.default"), rows[i].norms);
        CHECK(recipe && recipe->resembles && recipe->unseen == rows[i].unseen);
        pl_graph_close(&g);
        pl_recipe_close(&recipe);
    }
}

int main(void) {
    RUN(as_published);
    RUN(unknown_by_their_keys);
    return check_done();
}
