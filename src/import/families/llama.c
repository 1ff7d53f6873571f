/* llama: Llama and the decoders built on its plan, a row each. decoder.c has the blocks.
 *
 * Rules: transformers 5.22, models/<package>/modeling_<package>.py; rows, at the end, by its modular_*.py, which
 * say what a model changes. Heads: causal, sequence and token classification (modeling_layers.py),
 * none.
 *
 * Left out: output_router_logits' extra loss (small), Gemma 3's images. */
#include <math.h>
#include <string.h>

#include "import/families/decoder.h"
#include "import/families/latent.h"

/* ---- the model ---- */

int32_t pl_decoder_embed(pl_decoding *d, const char *name, int32_t ids, int32_t *weight) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    bool scaled = d->plan->scaled_embedding;
    int64_t rows = pl_hf_need(m, "vocab_size");
    pl_module_enter(b, name,
                    scaled ? pl_decoder_type(d, "TextScaledWordEmbedding")
                           : "torch.nn.modules.sparse.Embedding");
    *weight = pl_build_parameter(b, "weight", PL_SIZES(rows, d->width));
    if (scaled) pl_line(b, "return embedding * self.embed_scale.to(self.weight.dtype)");
    int32_t x = pl_aten_embedding(b, *weight, ids, pl_hf_pad(m));
    if (scaled) {
        int32_t scale = pl_build_buffer(b, "embed_scale", PL_DT_F32, false, 0, NULL);
        x = pl_aten_mul(b, x, pl_aten_to(b, scale, m->dtype));
    }
    pl_module_leave(b);
    if (!d->plan->multipliers) return x;
    pl_line(b, "2: inputs_embeds = inputs_embeds * self.embedding_multiplier");
    return pl_aten_scalar(b, "aten.mul.Tensor", x, pl_hf_float(m, "embedding_multiplier", 1));
}

static void begin(pl_decoding *d, const char *name) {
    pl_module_enter(d->m->b, name,
                    pl_decoder_type(d, d->plan->two_rotaries ? "TextModel" : "Model"));
    pl_module_children(d->m->b, "embed_tokens layers norm rotary_emb");
}

/* What follows the embedding, inside the model's module. */
static int32_t run(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    const char *last = d->plan->last_norm ? d->plan->last_norm : "norm";
    d->embeds = x;
    int32_t position_ids = d->position_ids;
    if (position_ids == PL_NONE) {
        pl_line(b, "1: position_ids = torch.arange(");
        position_ids = pl_aten_arange(b, m->seq);
        position_ids = pl_aten_scalar(b, "aten.add.Tensor", position_ids, 0);
        pl_line(b, "2: position_ids = position_ids.unsqueeze(0)");
        d->position_ids = position_ids = pl_aten_unsqueeze(b, position_ids, 0);
    }
    bool full = false, sliding = false;
    for (int64_t i = 0; i < d->layers; i++) *(pl_decoder_slides(d, i) ? &sliding : &full) = true;
    if (full && !d->masked) d->mask[0] = pl_decoder_mask(d, false);
    if (sliding && !d->masked) d->mask[1] = pl_decoder_mask(d, true);
    pl_line(b, "");
    if (d->plan->layers) return pl_decoder_norm(d, last, d->plan->layers(d, x));
    if (pl_decoder_has_angles(d)) pl_decoder_make_rotary(d, position_ids);
    if (d->plan->norm_first) x = pl_decoder_norm(d, "norm", x);
    for (int64_t i = 0; i < d->layers && !pl_build_failed(b); i++) x = pl_decoder_layer(d, i, x);
    return pl_decoder_norm(d, last, x);
}

static int32_t body(pl_decoding *d, const char *name, int32_t ids, int32_t *weight) {
    begin(d, name);
    d->ids = ids;
    pl_line(d->m->b, "inputs_embeds = self.embed_tokens(input_ids)");
    int32_t x = run(d, pl_decoder_embed(d, "embed_tokens", ids, weight));
    pl_module_leave(d->m->b);
    return x;
}

int32_t pl_decoder_model(pl_decoding *d, const char *name, int32_t embeds) {
    begin(d, name);
    int32_t x = run(d, embeds);
    pl_module_leave(d->m->b);
    return x;
}

/* ---- heads ---- */

int32_t pl_decoder_head(pl_decoding *d, int32_t x, bool tied, int32_t weight) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    pl_line(b, "1: hidden_states = hidden_states / self.config.logits_scaling");
    if (d->plan->states_over) x = pl_aten_scalar(b, "aten.div.Tensor", x, 1);
    pl_line(b, "1: logits = self.lm_head(hidden_states)");
    int64_t vocab = pl_hf_need(m, "vocab_size");
    int32_t logits = tied ? pl_hf_tied_linear(m, "lm_head", x, weight, vocab, d->head_bias)
                          : pl_hf_linear(m, "lm_head", x, vocab, d->head_bias);
    double cap = d->plan->caps ? pl_hf_float(m, "final_logit_softcapping|logits_soft_cap", 0) : 0;
    if (cap > 0) {
        pl_line(b, "2: logits = logits / self.config.final_logit_softcapping");
        logits = pl_aten_scalar(b, "aten.div.Tensor", logits, cap);
        pl_line(b, "3: logits = torch.tanh(logits)");
        logits = pl_aten_unary(b, "aten.tanh.default", logits);
        pl_line(b, "4: logits = logits * self.config.final_logit_softcapping");
        logits = pl_aten_scalar(b, "aten.mul.Tensor", logits, cap);
    }
    if (d->plan->multipliers || d->plan->logit_scale) {
        pl_line(b, "2: logits = logits * scale");
        bool times = d->plan->logits_times || !d->plan->multipliers;
        logits = pl_aten_scalar(b, times ? "aten.mul.Tensor" : "aten.div.Tensor", logits,
                                pl_hf_float(m, "logits_scaling|logit_scale", 1));
    }
    return logits;
}

static void causal(pl_decoding *d, int32_t ids) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t weight = PL_NONE;
    pl_module_enter(b, "", pl_decoder_type(d, "ForCausalLM"));
    pl_module_children(b, "model lm_head");
    int32_t x = body(d, "model", ids, &weight);
    bool tied = pl_hf_bool(m, "tie_word_embeddings", d->plan->tied);
    pl_hf_causal_loss(m, pl_decoder_head(d, x, tied, weight));
    pl_module_leave(b);
}

/* The logits of the last token that is no padding. Where the file has no padding token one is
 * assumed: transformers takes batches of one alone then. */
static void classify(pl_decoding *d, int32_t ids) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t weight = PL_NONE;
    pl_module_enter(b, "", pl_decoder_type(d, "ForSequenceClassification"));
    pl_module_children(b, "model score");
    int32_t x = body(d, "model", ids, &weight);
    pl_line(b, "logits = self.score(hidden_states)");
    int32_t logits = pl_hf_linear(m, "score", x, pl_hf_labels(m), false);
    int64_t pad = pl_hf_pad(m);
    int32_t pooled = pl_hf_last_token(m, ids, pad < 0 ? 0 : pad, logits);
    pl_hf_classification_loss(m, pooled);
    pl_module_leave(b);
}

static void tag(pl_decoding *d, int32_t ids) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t weight = PL_NONE;
    double dropout = pl_hf_float(m, "classifier_dropout|hidden_dropout", 0.1);
    pl_module_enter(b, "", pl_decoder_type(d, "ForTokenClassification"));
    pl_module_children(b, "model dropout score");
    int32_t x = body(d, "model", ids, &weight);
    pl_line(b, "2: sequence_output = self.dropout(sequence_output)");
    x = pl_hf_dropout(m, "dropout", x, dropout);
    pl_line(b, "logits = self.score(sequence_output)");
    pl_hf_token_loss(m, pl_hf_linear(m, "score", x, pl_hf_labels(m), true));
    pl_module_leave(b);
}

/* Of a model that is built as what its keys look like: the choices that its keys name. */
static pl_decoder amended(pl_hf *m) {
    pl_decoder plan = *(const pl_decoder *)m->family->plan;
    if (pl_hf_float(m, "attn_logit_softcapping", 0) > 0) plan.caps = plan.eager_only = true;
    if (pl_hf_float(m, "final_logit_softcapping", 0) > 0) plan.caps = true;
    if (pl_hf_has(m, "sliding_window") && pl_hf_bool(m, "use_sliding_window", true))
        plan.window = pl_hf_has(m, "max_window_layers") ? PL_WINDOW_LAST : PL_WINDOW_ALL;
    static const char *const norms[] = {"use_qk_norm", "qk_layernorm", "use_qk_layernorm"};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (pl_hf_has(m, norms[i]) && pl_hf_bool(m, norms[i], false)) plan.qk = PL_QK_VIEW;
    if (pl_hf_has(m, "use_bias")) plan.qkv_bias = plan.out_bias = plan.mlp_bias = "use_bias";
    if (pl_hf_has(m, "use_qkv_bias")) plan.qkv_bias = "use_qkv_bias";
    if (pl_hf_has(m, "qkv_bias")) plan.qkv_bias = "qkv_bias";
    return plan;
}

void pl_decoder_build(pl_hf *m) {
    const pl_decoder *plan = m->family->plan, own = m->guessed ? amended(m) : *plan;
    pl_decoding d;
    if (m->guessed) plan = &own;
    if (plan->eager_only && m->attn == PL_ATTN_SDPA) m->attn = PL_ATTN_EAGER;
    pl_decoder_read(&d, m, plan);
    int32_t ids = pl_hf_input_ids(m), weight = PL_NONE;
    switch (m->task) {
    case PL_TASK_CLASSIFY: classify(&d, ids); break;
    case PL_TASK_TOKENS: tag(&d, ids); break;
    case PL_TASK_BASE: pl_build_output(m->b, body(&d, "", ids, &weight)); break;
    default: causal(&d, ids);
    }
}

#define ROW    PL_DECODER_ROW
#define PLAN   PL_DECODER_PLAN
#define CAUSAL PL_DECODER_CAUSAL
#define HEADS  PL_DECODER_HEADS

static const pl_decoder gemma3 = {.package = "gemma3",
                                  .prefix = "Gemma3",
                                  .norm = PL_NORM_RMS_ONE,
                                  .eps = "rms_norm_eps",
                                  .wiring = PL_WIRING_SANDWICH,
                                  .qk = PL_QK_HEADS,
                                  .window = PL_WINDOW_PATTERN,
                                  .tied = true,
                                  .qkv_bias = "attention_bias",
                                  .out_bias = "attention_bias",
                                  .scaled_embedding = true,
                                  .caps = true,
                                  .two_rotaries = true};

const pl_hf_family pl_hf_llama[] = {
    {ROW("llama", HEADS),
     PLAN(.package = "llama", .prefix = "Llama", .eps = "rms_norm_eps",
          .qkv_bias = "attention_bias", .out_bias = "attention_bias", .mlp_bias = "mlp_bias")},
    {ROW("mistral", HEADS), PLAN(.package = "mistral", .prefix = "Mistral", .eps = "rms_norm_eps",
                                 .window = PL_WINDOW_ALL)},
    {ROW("qwen2", HEADS), PLAN(.package = "qwen2", .prefix = "Qwen2", .eps = "rms_norm_eps",
                               .qkv_bias = "", .window = PL_WINDOW_LAST)},
    {ROW("qwen2_vl_text", CAUSAL),
     PLAN(.package = "qwen2_vl", .prefix = "Qwen2VL", .eps = "rms_norm_eps", .qkv_bias = "",
          .window = PL_WINDOW_LAST, .grid_rotary = true)},
    {ROW("qwen3", HEADS),
     PLAN(.package = "qwen3", .prefix = "Qwen3", .eps = "rms_norm_eps", .qk = PL_QK_VIEW,
          .qkv_bias = "attention_bias", .out_bias = "attention_bias", .window = PL_WINDOW_LAST)},
    {ROW("gemma", HEADS), PLAN(.package = "gemma", .prefix = "Gemma", .norm = PL_NORM_RMS_ONE,
                               .eps = "rms_norm_eps", .tied = true, .qkv_bias = "attention_bias",
                               .out_bias = "attention_bias", .scaled_embedding = true)},
    {ROW("gemma2", HEADS), .no_attention = 1u << PL_ATTN_SDPA,
     PLAN(.package = "gemma2", .prefix = "Gemma2", .norm = PL_NORM_RMS_ONE, .eps = "rms_norm_eps",
          .wiring = PL_WIRING_SANDWICH, .window = PL_WINDOW_ALTERNATE, .tied = true,
          .qkv_bias = "attention_bias", .out_bias = "attention_bias", .scaled_embedding = true,
          .caps = true, .eager_only = true)},
    {ROW("gemma3_text", HEADS), .plan = &gemma3},
    {ROW("phi3", HEADS),
     PLAN(.package = "phi3", .prefix = "Phi3", .eps = "rms_norm_eps", .mlp = PL_MLP_FUSED,
          .window = PL_WINDOW_ALL, .fused_qkv = true, .rotary_share = 1, .dropouts = true)},
    {ROW("granite", CAUSAL), PLAN(.package = "granite", .prefix = "Granite", .eps = "rms_norm_eps",
                                  .qkv_bias = "attention_bias", .out_bias = "attention_bias",
                                  .mlp_bias = "mlp_bias", .multipliers = true)},
    {ROW("olmo", CAUSAL),
     PLAN(.package = "olmo", .prefix = "Olmo", .norm = PL_NORM_BARE, .qkv_bias = "attention_bias",
          .out_bias = "attention_bias", .float_rotary = true)},
    {ROW("olmo2", CAUSAL),
     PLAN(.package = "olmo2", .prefix = "Olmo2", .norm = PL_NORM_RMS_FLOAT, .eps = "rms_norm_eps",
          .wiring = PL_WIRING_POST, .qk = PL_QK_WHOLE, .qkv_bias = "attention_bias",
          .out_bias = "attention_bias", .float_rotary = true)},
    {ROW("smollm3", HEADS),
     PLAN(.package = "smollm3", .prefix = "SmolLM3", .eps = "rms_norm_eps",
          .window = PL_WINDOW_LAST, .tied = true, .qkv_bias = "attention_bias",
          .out_bias = "attention_bias", .mlp_bias = "mlp_bias", .rotary_layers = PL_ROTARY_LISTED)},
    {ROW("starcoder2", HEADS),
     PLAN(.package = "starcoder2", .prefix = "Starcoder2", .norm = PL_NORM_LAYER,
          .eps = "norm_epsilon", .mlp = PL_MLP_PLAIN, .plain = {"c_fc", "act", "c_proj"},
          .window = PL_WINDOW_ALL, .tied = true, .qkv_bias = "use_bias", .out_bias = "use_bias",
          .mlp_bias = "use_bias", .mlp_dropouts = true)},
    {ROW("cohere", CAUSAL),
     PLAN(.package = "cohere", .prefix = "Cohere", .norm = PL_NORM_MEAN, .eps = "layer_norm_eps",
          .wiring = PL_WIRING_PARALLEL, .tied = true, .qkv_bias = "attention_bias",
          .out_bias = "attention_bias", .logit_scale = true)},
    {ROW("stablelm", HEADS),
     PLAN(.package = "stablelm", .prefix = "StableLm", .norm = PL_NORM_LAYER,
          .eps = "layer_norm_eps", .qkv_bias = "use_qkv_bias", .rotary_share = 0.25,
          .one_dropout = true)},
    {0},
};

const pl_decoder *pl_decoder_plan(const char *model_type) {
    static const pl_hf_family *const tables[] = {pl_hf_llama, pl_hf_mixtures};
    for (size_t i = 0; model_type && i < sizeof tables / sizeof *tables; i++)
        for (const pl_hf_family *f = tables[i]; f->model_type; f++)
            if (strcmp(f->model_type, model_type) == 0 && f->plan) return f->plan;
    return NULL;
}
