/* hf_unknown: what can be said of a config.json whose model_type no family is known by: whether its
 * keys are Llama's, and what else they may mean.
 *
 * Left out: keys that say how blocks are wired, of which no two families' are alike. */
#include "import/hf_unknown.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/hf_config.h"

/* What every model of Llama's plan has; others may have some of them. */
bool pl_looks_like_llama(const pl_config *c) {
    static const char *const keys[] = {"hidden_size",         "num_hidden_layers",
                                       "num_attention_heads", "intermediate_size",
                                       "vocab_size",          "rms_norm_eps"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!pl_config_has(c, keys[i])) return false;
    return !pl_config_has(c, "n_routed_experts|kv_lora_rank"); /* DeepSeek's attention is another */
}

static double number(const pl_config *c, const char *key) {
    int64_t value = pl_config_number(c, key);
    return value > 0 ? (double)value : 0;
}

/* The parameters of a transformer with these sizes: attention 4 w w, feed-forward 3 w inner. */
static double tower(const pl_config *c, const char *object) {
    static const char *const widths[] = {"hidden_size", "d_model", "embed_dim", "dim", "width"};
    static const char *const depths[] = {"num_hidden_layers", "depth",     "num_layers", "layers",
                                         "encoder_layers",    "num_blocks"};
    char key[160];
    double width = 0, depth = 0;
    for (size_t i = 0; width < 1 && i < sizeof widths / sizeof *widths; i++) {
        snprintf(key, sizeof key, "%.100s.%s", object, widths[i]);
        width = number(c, key);
    }
    for (size_t i = 0; depth < 1 && i < sizeof depths / sizeof *depths; i++) {
        snprintf(key, sizeof key, "%.100s.%s", object, depths[i]);
        depth = number(c, key);
    }
    snprintf(key, sizeof key, "%.100s.intermediate_size", object);
    double inner = number(c, key);
    return depth * width * (4 * width + 3 * (inner > 4 * width ? inner : 4 * width));
}

static bool ends(const char *text, const char *with) {
    size_t length = strlen(text), n = strlen(with);
    return length > n && strcmp(text + length - n, with) == 0;
}

/* Rows that are embedded besides the vocabulary's: a table of the width of the model, or of that of
 * an input of each layer. */
static double table(const pl_config *c, const char *key) {
    double layers = number(c, "num_hidden_layers"), width = number(c, "hidden_size");
    double own = number(c, "hidden_size_per_layer_input") * layers;
    return number(c, key) * (own > width ? own : width);
}

int64_t pl_unseen_parameters(const pl_config *c) {
    double sum = 0;
    const char *key;
    for (size_t i = 0; (key = pl_config_key(c, i)); i++) {
        bool again = false; /* the class's, where the file has it */
        for (size_t j = 0; j < i && !again; j++) again = strcmp(pl_config_key(c, j), key) == 0;
        const char *dot = strchr(key, '.');
        if (again || strncmp(key, "text_config", 11) == 0) continue;
        if (!dot && ends(key, "_config"))
            sum += tower(c, key);
        else if (!dot && strstr(key, "vocab_size") && strcmp(key, "vocab_size") != 0)
            sum += table(c, key);
    }
    return sum < 1e15 ? (int64_t)sum : (int64_t)1e15;
}
