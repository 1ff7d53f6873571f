/* modernbert_decoder: ModernBERT's decoder (Ettin): Llama's plan with its layers wired as ModernBERT's, norms
 * without biases, two kinds of positions.
 *
 * Rules: transformers 5.22, models/modernbert_decoder/modeling_modernbert_decoder.py.
 *
 * Left out: classification. */
#include "import/families/decoder.h"

static int32_t norm(pl_decoding *d, const char *name, int32_t x) {
    return pl_hf_layer_norm(d->m, name, x, d->eps, pl_hf_bool(d->m, "norm_bias", false));
}

static int32_t feed_forward(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    bool bias = pl_hf_bool(m, "mlp_bias", false);
    int32_t parts[2];
    pl_module_enter(b, "mlp", d->mlp_type);
    pl_line(b, "input, gate = self.Wi(hidden_states).chunk(2, dim=-1)");
    pl_aten_chunk(b, pl_hf_linear(m, "Wi", x, 2 * d->inner, bias), 2, -1, parts);
    pl_line(b, "return self.Wo(self.drop(self.act(input) * gate))");
    x = pl_aten_mul(b, pl_hf_activation(m, "act", d->act, parts[0]), parts[1]);
    x = pl_hf_dropout(m, "drop", x, pl_hf_float(m, "mlp_dropout", 0));
    x = pl_hf_linear(m, "Wo", x, d->width, bias);
    pl_module_leave(b);
    return x;
}

static int32_t layer(pl_decoding *d, int64_t index, int32_t x) {
    pl_builder *b = d->m->b;
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)index),
                    pl_decoder_type(d, "Layer"));
    pl_module_children(b, "attn_norm attn mlp_norm mlp");
    pl_line(b, "1: hidden_states = self.attn_norm(hidden_states)");
    int32_t y = index > 0 ? norm(d, "attn_norm", x) : x;
    pl_line(b, "attn_outputs = self.attn(hidden_states)");
    y = pl_decoder_attention(d, index, y);
    pl_line(b, "2: hidden_states = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    pl_line(b, "3: hidden_states = self.mlp_norm(hidden_states)");
    y = norm(d, "mlp_norm", x);
    pl_line(b, "mlp_output = self.mlp(hidden_states)");
    y = feed_forward(d, y);
    pl_line(b, "4: hidden_states = residual + mlp_output");
    x = pl_aten_add(b, x, y);
    pl_module_leave(b);
    return x;
}

static int32_t layers(pl_decoding *d, int32_t x) {
    pl_decoder_make_rotary(d, d->position_ids);
    for (int64_t i = 0; i < d->layers && !pl_build_failed(d->m->b); i++) x = layer(d, i, x);
    return x;
}

static int32_t embed(pl_decoding *d, int32_t ids, int32_t *weight) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    pl_module_enter(b, "embeddings", pl_decoder_type(d, "Embeddings"));
    pl_line(b, "hidden_states = self.drop(self.norm(self.tok_embeddings(input_ids)))");
    pl_module_enter(b, "tok_embeddings", "torch.nn.modules.sparse.Embedding");
    *weight = pl_build_parameter(b, "weight", PL_SIZES(pl_hf_need(m, "vocab_size"), d->width));
    int32_t x = pl_aten_embedding(b, *weight, ids, pl_hf_pad(m));
    pl_module_leave(b);
    x = norm(d, "norm", x);
    x = pl_hf_dropout(m, "drop", x, pl_hf_float(m, "embedding_dropout", 0));
    pl_module_leave(b);
    return x;
}

static void build_decoder(pl_hf *m) {
    pl_builder *b = m->b;
    pl_decoding d;
    pl_decoder_read(&d, m, m->family->plan);
    bool causal = m->task == PL_TASK_CAUSAL, tied = pl_hf_bool(m, "tie_word_embeddings", true);
    int32_t weight;
    if (causal) pl_module_enter(b, "", pl_decoder_type(&d, "ForCausalLM"));
    if (causal) pl_module_children(b, "model lm_head decoder");
    int32_t ids = pl_hf_input_ids(m);
    pl_line(b, "hidden_states = self.embeddings(input_ids)");
    int32_t x = embed(&d, ids, &weight);
    pl_line(b, "position_ids = torch.arange(seq_length).unsqueeze(0).expand(batch_size, -1)");
    int32_t at = pl_aten_unsqueeze(b, pl_aten_arange(b, m->seq), 0);
    d.position_ids = pl_aten_expand(b, at, PL_SIZES(m->batch, -1));
    pl_line(b, "outputs = self.model(input_ids)");
    x = pl_decoder_model(&d, causal ? "model" : "", x);
    if (!causal) {
        pl_build_output(b, x);
        return;
    }
    pl_line(b, "hidden_states = self.lm_head(hidden_states)");
    pl_module_enter(b, "lm_head", pl_decoder_type(&d, "PredictionHead"));
    pl_line(b, "return self.norm(self.act(self.dense(hidden_states)))");
    x = pl_hf_linear(m, "dense", x, d.width, pl_hf_bool(m, "classifier_bias", false));
    x = pl_hf_activation(m, "act", pl_hf_string(m, "classifier_activation", "gelu"), x);
    x = norm(&d, "norm", x);
    pl_module_leave(b);
    pl_line(b, "logits = self.decoder(hidden_states)");
    bool bias = pl_hf_bool(m, "decoder_bias", true);
    int64_t vocab = pl_hf_need(m, "vocab_size");
    x = tied ? pl_hf_tied_linear(m, "decoder", x, weight, vocab, bias)
             : pl_hf_linear(m, "decoder", x, vocab, bias);
    pl_hf_causal_loss(m, x);
    pl_module_leave(b);
}

const pl_hf_family pl_hf_modernbert_decoder[] = {
    {.model_type = "modernbert-decoder",
     .tasks = 1u << PL_TASK_CAUSAL | 1u << PL_TASK_BASE,
     .usual = PL_TASK_CAUSAL,
     .build = build_decoder,
     .version = "5.22",
     PL_DECODER_PLAN(.package = "modernbert_decoder", .prefix = "ModernBertDecoder",
                     .norm = PL_NORM_LAYER, .eps = "norm_eps", .norm_bias = "norm_bias",
                     .qkv_bias = "attention_bias", .out_bias = "attention_bias",
                     .window = PL_WINDOW_FIRST, .pattern = 3, .two_rotaries = true,
                     .layers = layers, .last_norm = "final_norm")},
    {0},
};
