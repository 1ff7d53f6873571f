/* hf: see hf.h. Which model a config.json means, what it is trained to do, and how it is built.
 *
 * Rules: transformers 5.22, configuration_utils.py (names of keys, labels), modeling_utils.py (the
 * attention implementation), models/auto (which class a task means). A config says nothing of the
 * batch: one sample and a sequence of at most 1,024 are assumed where the caller does not say.
 *
 * Left out: models of remote code, quantised weights, configs of two models in one (a text model
 * inside a larger one is built alone, with a warning). */
#include "import/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/families/decoder.h"
#include "import/hf_config.h"
#include "import/hf_unknown.h"

enum { USUAL_SEQ = 1024, LEAST_TEXT = 256 /* beside a picture */ };

/* A file in families/ is one line here. */
static const pl_hf_family *const families[] = {
    // clang-format off
    pl_hf_llama,
    pl_hf_mixtures,
    pl_hf_llama_more,
    pl_hf_gemma,
    pl_hf_hybrids,
    pl_hf_gpt,
    pl_hf_bert,
    pl_hf_bert_more,
    pl_hf_vision,
    pl_hf_t5,
    pl_hf_bart,
    pl_hf_deberta,
    pl_hf_mamba,
    pl_hf_mamba2,
    pl_hf_state_spaces,
    pl_hf_lfm2,
    pl_hf_minimax,
    pl_hf_rwkv,
    pl_hf_zamba2,
    pl_hf_recurrent_gemma,
    pl_hf_modernbert_decoder,
    pl_hf_clip,
    pl_hf_modernbert,
    pl_hf_deberta_v1,
    pl_hf_llava,
    pl_hf_qwen_vl,
    pl_hf_swin,
    pl_hf_convnext,
    pl_hf_segformer,
    pl_hf_wav2vec2,
    pl_hf_xlnet,
    pl_hf_xlm,
    pl_hf_convnets,
    pl_hf_detr,
    // clang-format on
};

typedef struct description {
    const pl_config *config;
    const pl_hf_family *family;
    bool guessed; /* model_type is not known: the family is what the keys look like */
    const char *file;
    pl_task task;
    pl_hf_attention attn;
    int64_t picture[2]; /* asked for: height and width; 0: not */
} description;

static const pl_hf_family *find_family(const char *model_type) {
    for (size_t i = 0; model_type && i < sizeof families / sizeof *families; i++)
        for (const pl_hf_family *f = families[i]; f->model_type; f++)
            if (strcmp(f->model_type, model_type) == 0) return f;
    return NULL;
}

const char *pl_model_type_name(size_t index) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (const pl_hf_family *f = families[i]; f->model_type; f++)
            if (index-- == 0) return f->model_type;
    return NULL;
}

/* ---- tasks ---- */

static const struct {
    const char *name; /* as the command says it */
    pl_task task;
} task_names[] = {
    {"causal", PL_TASK_CAUSAL},
    {"masked", PL_TASK_MASKED},
    {"seq2seq", PL_TASK_SEQ2SEQ},
    {"classify", PL_TASK_CLASSIFY},
    {"tokens", PL_TASK_TOKENS},
    {"segment", PL_TASK_SEGMENT},
    {"detect", PL_TASK_DETECT},
    {"ctc", PL_TASK_CTC},
    {"base", PL_TASK_BASE},
    {"image-text", PL_TASK_PICTURES},
    /* as models/auto calls them */
    {"causal-lm", PL_TASK_CAUSAL},
    {"masked-lm", PL_TASK_MASKED},
    {"classification", PL_TASK_CLASSIFY},
    {"sequence-classification", PL_TASK_CLASSIFY},
    {"image-classification", PL_TASK_CLASSIFY},
    {"audio-classification", PL_TASK_CLASSIFY},
    {"token-classification", PL_TASK_TOKENS},
    {"image-text-to-text", PL_TASK_PICTURES},
    {"semantic-segmentation", PL_TASK_SEGMENT},
    {"object-detection", PL_TASK_DETECT},
};

/* How a class in `architectures` ends; the first that fits. */
static const struct {
    const char *ending;
    pl_task task;
} endings[] = {
    {"ForCausalLM", PL_TASK_CAUSAL},
    {"LMHeadModel", PL_TASK_CAUSAL},
    {"ForMaskedLM", PL_TASK_MASKED},
    {"ForPreTraining", PL_TASK_MASKED},
    {"ForSequenceClassification", PL_TASK_CLASSIFY},
    {"ForImageClassification", PL_TASK_CLASSIFY},
    {"ForAudioClassification", PL_TASK_CLASSIFY},
    {"ForTokenClassification", PL_TASK_TOKENS},
    {"ForSemanticSegmentation", PL_TASK_SEGMENT},
    {"ForObjectDetection", PL_TASK_DETECT},
    {"ForCTC", PL_TASK_CTC},
    {"ForConditionalGeneration", PL_TASK_SEQ2SEQ},
    {"ForSpeechSeq2Seq", PL_TASK_SEQ2SEQ},
    {"MTModel", PL_TASK_SEQ2SEQ},
    {"Model", PL_TASK_BASE},
};

static const char *task_name(pl_task task) {
    for (size_t i = 0; i < sizeof task_names / sizeof *task_names; i++)
        if (task_names[i].task == task) return task_names[i].name;
    return "";
}

static bool can(const pl_hf_family *f, pl_task task) {
    return (f->tasks >> task & 1u) != 0;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

static pl_task task_of_architecture(const char *name) {
    for (size_t i = 0; name && i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i].ending)) return endings[i].task;
    return PL_TASK_AUTO;
}

/* A task's name and what may stand behind it: "image-text:640x480", a picture's width and height. */
static pl_task named_task(const char *asked, int64_t picture[2]) {
    size_t length = strcspn(asked, ":");
    pl_task task = PL_TASK_AUTO;
    for (size_t i = 0; i < sizeof task_names / sizeof *task_names; i++)
        if (strlen(task_names[i].name) == length && strncmp(task_names[i].name, asked, length) == 0)
            task = task_names[i].task;
    if (!asked[length]) return task;
    enum { MOST_SIDE = 99999 };
    char *by, *end;
    long width = strtol(asked + length + 1, &by, 10);
    long height = *by == 'x' ? strtol(by + 1, &end, 10) : 0;
    if (task != PL_TASK_PICTURES || width < 1 || width > MOST_SIDE || height < 1 ||
        height > MOST_SIDE || *end)
        return PL_TASK_AUTO;
    picture[0] = height;
    picture[1] = width;
    return task;
}

static bool is_asked(const char *task) {
    return task && *task && strcmp(task, "auto") != 0;
}

static pl_status choose_task(description *d, pl_recipe *recipe, const char *asked, pl_error *err) {
    const pl_hf_family *f = d->family;
    d->task = f->usual;
    if (is_asked(asked)) {
        pl_task task = named_task(asked, d->picture);
        char has[128] = "";
        for (int t = 1; t < PL_TASKS; t++)
            if (can(f, (pl_task)t) && strlen(has) + 32 < sizeof has)
                snprintf(has + strlen(has), sizeof has - strlen(has), "%s%s", *has ? ", " : "",
                         task_name((pl_task)t));
        if (task == PL_TASK_AUTO || !can(f, task))
            return pl_fail(err, PL_USAGE, "task", -1, "%s is no task of %s, which has: %s", asked,
                           f->model_type, has);
        if (d->picture[0] && !f->any_size)
            return pl_fail(err, PL_USAGE, "task", -1,
                           "%s takes pictures of one size, which the config says: %s is not "
                           "followed",
                           f->model_type, asked);
        d->task = task;
        return PL_OK;
    }
    const char *architecture = pl_config_first(d->config, "architectures");
    pl_task task = task_of_architecture(architecture);
    if (task == PL_TASK_AUTO && !architecture) return PL_OK;
    if (can(f, PL_TASK_SEQ2SEQ) && ends_with(architecture, "EncoderModel"))
        return pl_fail(err, PL_INPUT, d->file, pl_config_at(d->config, "architectures"),
                       "architectures: %.60s, an encoder alone, is not built; the task base or "
                       "seq2seq builds encoder and decoder",
                       architecture);
    if (task == PL_TASK_SEQ2SEQ && can(f, PL_TASK_PICTURES)) task = PL_TASK_PICTURES;
    if (can(f, task)) {
        d->task = task;
        if (ends_with(architecture, "ForPreTraining"))
            pl_recipe_warn(recipe,
                           "%.60s has heads and losses that are not built; taken as a model for "
                           "the task %s",
                           architecture, task_name(task));
        return PL_OK;
    }
    if (task == PL_TASK_SEQ2SEQ && can(f, PL_TASK_CAUSAL)) { /* a text model inside a larger one */
        d->task = PL_TASK_CAUSAL;
        return PL_OK;
    }
    pl_recipe_warn(recipe, "%s is not built; taken as a model for the task %s", architecture,
                   task_name(d->task));
    return PL_OK;
}

static void warn_of_attention(const description *d, pl_recipe *recipe, bool given,
                              const char *name) {
    const char *says = given ? "attention" : "_attn_implementation";
    if ((d->family->no_attention >> d->attn & 1u) != 0)
        pl_recipe_warn(recipe, "%s %.40s is not followed: %s has attention of its own alone", says,
                       name, d->family->model_type);
}

static pl_status choose_attention(description *d, pl_recipe *recipe, const char *asked,
                                  pl_error *err) {
    static const struct {
        const char *name;
        pl_hf_attention attn;
    } names[] = {{"sdpa", PL_ATTN_SDPA},
                 {"eager", PL_ATTN_EAGER},
                 {"flash2", PL_ATTN_FLASH2},
                 {"flash_attention_2", PL_ATTN_FLASH2},
                 {"flash_attention_3", PL_ATTN_FLASH2}};
    bool given = asked && *asked && strcmp(asked, "auto") != 0;
    const char *name =
        given ? asked : pl_config_text(d->config, "_attn_implementation|attn_implementation");
    d->attn = PL_ATTN_SDPA;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0) {
            d->attn = names[i].attn;
            warn_of_attention(d, recipe, given, name);
            return PL_OK;
        }
    if (given)
        return pl_fail(err, PL_USAGE, "attention", -1, "%s is none of sdpa, eager, flash2", asked);
    if (name)
        pl_recipe_warn(recipe, "_attn_implementation \"%.40s\" is not known: sdpa is assumed",
                       name);
    return PL_OK;
}

/* ---- the family ---- */

/* The key that speaks of layers without attention among those with it: state spaces, recurrences,
 * linear attention, convolutions (Jamba, Zamba, Bamba, Nemotron-H, Qwen3-Next, LFM2,
 * RecurrentGemma, ..). NULL: none does. */
static const char *hybrid_key(const pl_config *c) {
    static const char *const starts[] = {"mamba_",
                                         "use_mamba",
                                         "n_mamba_heads",
                                         "ssm_",
                                         "state_size",
                                         "time_step_",
                                         "layers_block_type",
                                         "block_types",
                                         "hybrid_override_pattern",
                                         "attn_layer_",
                                         "full_attn_",
                                         "linear_attn",
                                         "linear_num_",
                                         "linear_conv_",
                                         "lru_width",
                                         "conv_L_cache",
                                         "conv_kernel"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        const char *key = pl_config_starting(c, starts[i]);
        if (key) return key;
    }
    const char *layer;
    for (int64_t i = 0; (layer = pl_config_listed(c, "layer_types", i)); i++)
        if (!ends_with(layer, "attention") || strcmp(layer, "linear_attention") == 0)
            return "layer_types";
    return NULL;
}

/* hybrid: the key that the family is refused for, though it looks like Llama; NULL: none. */
static pl_status unknown_family(const char *model_type, const char *hybrid, int64_t at,
                                const char *file, pl_error *err) {
    char names[440] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (const pl_hf_family *f = families[i]; f->model_type; f++) {
            size_t n = strlen(f->model_type);
            if (used + n + 2 >= sizeof names) continue;
            memcpy(names + used, used ? ", " : "", used ? 2 : 0);
            used += used ? 2 : 0;
            memcpy(names + used, f->model_type, n + 1);
            used += n;
        }
    if (hybrid)
        return pl_fail(err, PL_INPUT, file, at < 0 ? 0 : at,
                       "%.40s: state-space and hybrid layers are not built; model_type %.40s is "
                       "not one of: %s",
                       hybrid, model_type ? model_type : "(none)", names);
    return pl_fail(err, PL_INPUT, file, at < 0 ? 0 : at, "model_type %.40s is not one of: %s",
                   model_type ? model_type : "(none)", names);
}

static bool has_tower(const pl_hf_family *f, const pl_config *config) {
    char word[64];
    const char *type = pl_config_text(config, "vision_config.model_type");
    if (!f->towers) return true;
    snprintf(word, sizeof word, " %.60s ", type ? type : "");
    return strstr(f->towers, word) != NULL;
}

/* A model of pictures and text is built whole where its tower and its language model are ones that
 * are known inside others, and unless a task is asked for that only the language model has. */
static bool built_whole(const description *d, const pl_config *config, const char *asked) {
    int64_t picture[2];
    return d->family && d->family->picture && has_tower(d->family, config) &&
           pl_decoder_plan(pl_config_text(config, "text_config.model_type")) &&
           (!is_asked(asked) || named_task(asked, picture) == PL_TASK_AUTO ||
            can(d->family, named_task(asked, picture)));
}

static pl_status choose_family(description *d, pl_config *config, pl_recipe *recipe,
                               const char *asked, pl_error *err) {
    const char *type = pl_config_text(config, "model_type");
    if (type && !pl_config_defaults(config, recipe->arena, type))
        return pl_budget_fail(err, pl_arena_budget(recipe->arena), d->file);
    d->family = find_family(type);
    if (d->family && d->family->picture && !pl_config_given(config, "text_config") &&
        pl_config_given(config, "hidden_size")) {
        if (!pl_config_given(config, "vision_config")) /* a text model under the whole one's name */
            d->family = find_family(d->family->text);
        else if (!pl_config_demote(config, recipe->arena, "text_config")) /* Qwen2-VL's first */
            return pl_budget_fail(err, pl_arena_budget(recipe->arena), d->file);
    }
    if (built_whole(d, config, asked)) return PL_OK;
    const char *inner = pl_config_text(config, "text_config.model_type");
    if (d->family && d->family->whole) return PL_OK;
    if (!pl_config_has(config, "hidden_size") && pl_config_has(config, "text_config.hidden_size")) {
        if (!pl_config_promote(config, recipe->arena, "text_config"))
            return pl_budget_fail(err, pl_arena_budget(recipe->arena), d->file);
        if (inner && !pl_config_defaults(config, recipe->arena, inner))
            return pl_budget_fail(err, pl_arena_budget(recipe->arena), d->file);
        pl_recipe_warn(recipe,
                       "%.40s has a text model and others: the text model%s%.40s alone is built",
                       type ? type : "the file", inner ? " " : "", inner ? inner : "");
        recipe->guessed = true;
        recipe->unseen = pl_unseen_parameters(config);
        if (find_family(inner))
            d->family = find_family(inner);
        else if (d->family && inner)
            pl_recipe_warn(recipe, "model_type %.40s is not known; it is built as %s's text model",
                           inner, d->family->model_type);
        if (d->family && d->family->picture) d->family = find_family(d->family->text);
        if (!type) type = inner;
    }
    if (d->family) return PL_OK;
    bool like = pl_looks_like_llama(config);
    const char *hybrid = like ? hybrid_key(config) : NULL;
    if (hybrid || !like)
        return unknown_family(type, hybrid, pl_config_at(config, hybrid ? hybrid : "model_type"),
                              d->file, err);
    /* Experts as Mixtral's or, where the keys are named as Qwen's and OLMoE's are, as Qwen's (both
     * normalise queries and keys). */
    bool experts = pl_config_experts(config),
         mixtral = pl_config_has(config, "num_local_experts") &&
                   !pl_config_has(config, "moe_intermediate_size");
    d->family = find_family(!experts ? "llama" : mixtral ? "mixtral" : "qwen3_moe");
    d->guessed = recipe->guessed = recipe->resembles = true;
    recipe->unseen = pl_unseen_parameters(config);
    pl_recipe_warn(recipe,
                   "model_type %.40s is not known; its keys are Llama's, and it is built as %s",
                   type ? type : "(none)", experts ? "llama with experts" : "llama");
    if (recipe->unseen > 0)
        pl_recipe_warn(recipe,
                       "its keys speak of other parts, up to %lld parameters, which are not built: "
                       "they are in the upper end",
                       (long long)recipe->unseen);
    return PL_OK;
}

/* ---- what else the file says ---- */

/* Sizes that a file leaves to its class: true of transformers, and not what most would expect. */
static void warn_of_defaults(pl_recipe *recipe, const pl_config *c, bool inside) {
    static const char *const keys[] = {
        "hidden_size|n_embd|d_model|dim|embed_dim|hidden_dim",
        "num_hidden_layers|n_layer|n_layers|num_layers",
        "num_attention_heads|n_head|n_heads|num_heads",
        "intermediate_size|n_inner|d_ff|ffn_dim|hidden_dim",
        "vocab_size",
    };
    char names[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char room[64];
        const char *key = keys[i];
        if (inside) {
            snprintf(room, sizeof room, "text_config.%.*s", (int)strcspn(key, "|"), key);
            key = room;
        }
        int64_t value = pl_config_number(c, key);
        if (value < 0 || pl_config_given(c, key)) continue;
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%.*s %lld", *names ? ", " : "",
                             (int)strcspn(keys[i], "|"), keys[i], (long long)value);
        if (used >= sizeof names) used = sizeof names - 1;
    }
    if (*names)
        pl_recipe_warn(recipe, "not in the file, so as transformers' class has it: %s", names);
}

static pl_dtype weights_dtype(const pl_config *c, pl_recipe *recipe) {
    static const struct {
        const char *name;
        pl_dtype dtype;
    } names[] = {{"bfloat16", PL_DT_BF16},
                 {"float16", PL_DT_F16},
                 {"float32", PL_DT_F32},
                 {"half", PL_DT_F16},
                 {"float", PL_DT_F32}};
    const char *name = pl_config_text(c, "dtype|torch_dtype");
    if (name && strncmp(name, "torch.", 6) == 0) name += 6;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            recipe->dtype_from = "as the config says";
            return names[i].dtype;
        }
    if (name)
        pl_recipe_warn(recipe, "dtype \"%.40s\" is not known: weights are taken to be float32",
                       name);
    recipe->dtype_from =
        name ? "since the config's type is not known" : "since the config names no type";
    return PL_DT_F32;
}

static void warn_of_keys(pl_recipe *recipe, const pl_config *c) {
    if (pl_config_has(c, "quantization_config")) {
        const char *method = pl_config_text(c, "quantization_config.quant_method");
        pl_recipe_warn(
            recipe, "quantization_config%s%.40s is not followed: weights are counted unquantised",
            method ? " " : "", method ? method : "");
        recipe->guessed = true;
    }
    static const char *const flags[] = {"output_hidden_states", "output_attentions"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (pl_config_true(c, flags[i]))
            pl_recipe_warn(recipe, "%s is not followed: what it keeps is not counted", flags[i]);
    if (pl_config_true(c, "gradient_checkpointing"))
        pl_recipe_warn(
            recipe,
            "gradient_checkpointing is not followed: only the job says whether it checkpoints");
    if (pl_config_number(c, "chunk_size_feed_forward") > 0)
        pl_recipe_warn(recipe, "chunk_size_feed_forward is not followed");
}

static void choose_sizes(pl_recipe *recipe, const description *d) {
    const pl_hf_family *f = d->family;
    recipe->batch_assumed = true;
    if (f->no_seq) return;
    const char *key = f->positions ? f->positions
                                   : "max_position_embeddings|n_positions|max_sequence_length|"
                                     "max_seq_len|seq_length|n_ctx";
    int64_t most =
        pl_config_has(d->config, key) ? pl_config_number(d->config, key) : f->usual_positions;
    if (f->learnt_positions && most > f->kept_positions)
        recipe->most_seq = most -= f->kept_positions;
    recipe->seq = most > 0 && most < USUAL_SEQ ? most : USUAL_SEQ;
    if (f->usual_seq > 0) recipe->seq = f->usual_seq;
    recipe->seq_assumed = true;
}

/* config.json says little; the folder or the hub's name more. */
static const char *name_model(const pl_config *c, const char *file, char *room, size_t size) {
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    size_t length = strlen(base);
    if (length > 5 && strcmp(base + length - 5, ".json") == 0) length -= 5;
    const char *known = pl_config_text(c, "_name_or_path");
    if (!known || !*known) known = pl_config_text(c, "model_type");
    if (length == 6 && strncmp(base, "config", 6) == 0 && known && *known)
        snprintf(room, size, "%.200s", known);
    else
        snprintf(room, size, "%.*s", length > 200 ? 200 : (int)length, base);
    return room;
}

/* ---- building ---- */

static pl_hf model_of(const description *d, pl_builder *b) {
    return (pl_hf){.b = b,
                   .config = d->config,
                   .part = "",
                   .family = d->family,
                   .guessed = d->guessed,
                   .task = d->task,
                   .attn = d->attn,
                   .batch = 1,
                   .seq = 1,
                   .file = d->file,
                   .failed_at = -1,
                   .picture = {d->picture[0], d->picture[1]}};
}

/* The sequence holds the picture's tokens: where none is said there is room for a text too. What is
 * wrong with the keys is said when the model is built. */
static pl_status choose_picture(pl_recipe *recipe, const description *d, pl_error *err) {
    pl_budget *budget = pl_arena_budget(recipe->arena);
    pl_builder *b = pl_builder_open("picture", budget);
    if (!b) return pl_budget_fail(err, budget, d->file);
    pl_hf m = model_of(d, b);
    pl_hf_picture picture = d->family->picture(&m);
    bool failed = pl_build_failed(b);
    pl_builder_close(&b);
    if (failed) return PL_OK;
    if (picture.tokens > recipe->seq - LEAST_TEXT)
        recipe->seq = (picture.tokens + 2 * LEAST_TEXT - 1) / LEAST_TEXT * LEAST_TEXT;
    pl_recipe_warn(recipe,
                   "a picture to each sample is assumed, of %lld x %lld pixels%s: %lld tokens of "
                   "the sequence stand for it%s",
                   (long long)picture.width, (long long)picture.height,
                   d->family->any_size ? " behind its processor" : "", (long long)picture.tokens,
                   d->family->any_size && !d->picture[0]
                       ? " (the task image-text:WIDTHxHEIGHT says another)"
                       : "");
    return PL_OK;
}

static pl_status build(const pl_recipe *recipe, int64_t batch, int64_t seq, pl_budget *budget,
                       pl_graph **out, pl_error *err) {
    const description *d = recipe->description;
    *out = NULL;
    if (batch < 1 || (seq < 1 && !d->family->no_seq))
        return pl_fail(err, PL_USAGE, batch < 1 ? "batch" : "seq", -1, "expected at least 1");
    pl_builder *b = pl_builder_open(recipe->name, budget);
    if (!b) return pl_budget_fail(err, budget, d->file);
    pl_hf m = model_of(d, b);
    m.batch = batch;
    m.seq = seq;
    m.dtype = recipe->dtype;
    pl_build_parameter_dtype(b, recipe->dtype);
    d->family->build(&m);
    pl_status status = pl_builder_finish(&b, out, err);
    if (status == PL_INPUT && err && m.failed_at >= 0) err->position = m.failed_at;
    return status;
}

static pl_status describe(pl_recipe *recipe, const char *bytes, size_t size, const char *file,
                          const pl_reading *reading, pl_error *err) {
    description *d = pl_arena_alloc(recipe->arena, sizeof *d);
    pl_config *config = NULL;
    if (!d) return pl_budget_fail(err, pl_arena_budget(recipe->arena), file);
    d->file = pl_arena_string(recipe->arena, file, strlen(file));
    if (!d->file) return pl_budget_fail(err, pl_arena_budget(recipe->arena), file);
    pl_status status = pl_config_read(&config, recipe->arena, bytes, size, d->file, err);
    const char *asked = reading ? reading->task : NULL;
    if (status == PL_OK) status = choose_family(d, config, recipe, asked, err);
    if (status != PL_OK) return status;
    d->config = config;
    char room[256];
    name_model(config, file, room, sizeof room);
    recipe->name = pl_arena_string(recipe->arena, room, strlen(room));
    if (!recipe->name) return pl_budget_fail(err, pl_arena_budget(recipe->arena), file);
    status = choose_task(d, recipe, asked, err);
    if (status == PL_OK)
        status = choose_attention(d, recipe, reading ? reading->attention : NULL, err);
    if (status != PL_OK) return status;
    recipe->dtype = weights_dtype(config, recipe);
    warn_of_keys(recipe, config);
    warn_of_defaults(recipe, config, d->family->picture != NULL);
    if (d->family->warning) pl_recipe_warn(recipe, "%s", d->family->warning);
    choose_sizes(recipe, d);
    if (d->task == PL_TASK_PICTURES)
        status = choose_picture(recipe, d, err);
    else if (d->family->picture)
        pl_recipe_warn(recipe,
                       "called with text alone: the tower for pictures lies beside it and is not "
                       "run (the task image-text runs it)");
    if (status != PL_OK) return status;
    recipe->description = d;
    recipe->build = build;
    return PL_OK;
}

pl_status pl_import_hf(pl_recipe **out, const char *bytes, size_t size, const char *name,
                       const pl_reading *reading, pl_error *err) {
    *out = NULL;
    pl_budget *budget = reading ? reading->budget : NULL;
    pl_recipe *recipe = pl_recipe_open(name, budget);
    if (!recipe) return pl_budget_fail(err, budget, name);
    pl_status status = describe(recipe, bytes, size, name, reading, err);
    if (status == PL_OK)
        *out = recipe;
    else
        pl_recipe_close(&recipe);
    return status;
}
