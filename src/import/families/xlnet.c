/* xlnet: XLNet: attention written as sums over named axes, against content and against distances.
 *
 * The order of operators, names and lines are those of transformers 5.22,
 * models/xlnet/modeling_xlnet.py. Called as model(input_ids, labels): no memory of earlier text, no
 * permutation, one stream. Sequences stand first: [seq, batch, hidden].
 *
 * Left out: attn_type uni, bi_data, two streams (perm_mask and target_mapping of its own training).
 */
#include <math.h>
#include <string.h>

#include "import/families/encoder.h"

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    int64_t vocab, hidden, layers, heads, head, inner;
    double eps, drop;
    const char *act;
    int32_t word;
} model;

static void enter(const model *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, "xlnet", pl_build_text(o->b, "XLNet%s", class));
}

static int32_t sums(const model *o, const char *equation, int32_t x, int32_t y, int dims,
                    const int64_t *sizes) {
    pl_builder *b = o->b;
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_call(b, "aten.einsum.default");
    pl_call_string(b, "equation", equation);
    pl_call_tensors(b, "tensors", 2, (int32_t[]){x, y});
    return pl_call_result(b, dtype, dims, sizes);
}

/* [length, batch, hidden] by a parameter [hidden, heads, head]. */
static int32_t project(const model *o, const char *line, int32_t x, int32_t w) {
    pl_line(o->b, line);
    return sums(o, "ibh,hnd->ibnd", x, w,
                PL_SIZES(pl_built_size(o->b, x, 0), o->m->batch, o->heads, o->head));
}

/* r: [2 seq, batch, hidden], of all distances. */
static int32_t attention(const model *o, int32_t h, int32_t r) {
    pl_builder *b = o->b;
    int64_t batch = o->m->batch, seq = o->m->seq, n = o->heads, d = o->head;
    static const char *const names[] = {"q", "k", "v", "o", "r"};
    int32_t w[5];
    enter(o, "rel_attn", "RelativeAttention");
    for (int i = 0; i < 5; i++) w[i] = pl_build_parameter(b, names[i], PL_SIZES(o->hidden, n, d));
    int32_t to_place = pl_build_parameter(b, "r_r_bias", PL_SIZES(n, d));
    pl_build_parameter(b, "r_s_bias", PL_SIZES(n, d));
    int32_t to_word = pl_build_parameter(b, "r_w_bias", PL_SIZES(n, d));
    pl_build_parameter(b, "seg_embed", PL_SIZES(2, n, d));
    int32_t q = project(o, "q_head_h = torch.einsum(\"ibh,hnd->ibnd\", h, self.q)", h, w[0]);
    int32_t k = project(o, "k_head_h = torch.einsum(\"ibh,hnd->ibnd\", cat, self.k)", h, w[1]);
    int32_t v = project(o, "v_head_h = torch.einsum(\"ibh,hnd->ibnd\", cat, self.v)", h, w[2]);
    pl_line(b, "k_head_r = torch.einsum(\"ibh,hnd->ibnd\", r.type(self.r.dtype), self.r)");
    r = pl_aten_type_as(b, r, w[4]);
    r = sums(o, "ibh,hnd->ibnd", r, w[4], PL_SIZES(2 * seq, batch, n, d));
    pl_line(b, "ac = torch.einsum(\"ibnd,jbnd->bnij\", q_head + self.r_w_bias, k_head_h)");
    int32_t x = pl_aten_add(b, q, to_word);
    int32_t ac = sums(o, "ibnd,jbnd->bnij", x, k, PL_SIZES(batch, n, seq, seq));
    pl_line(b, "bd = torch.einsum(\"ibnd,jbnd->bnij\", q_head + self.r_r_bias, k_head_r)");
    x = pl_aten_add(b, q, to_place);
    int32_t bd = sums(o, "ibnd,jbnd->bnij", x, r, PL_SIZES(batch, n, seq, 2 * seq));
    pl_line(b, "bd = self.rel_shift_bnij(bd, klen=ac.shape[3])");
    bd = pl_aten_reshape(b, bd, PL_SIZES(batch, n, 2 * seq, seq));
    bd = pl_aten_slice(b, bd, 2, 1, INT64_MAX);
    bd = pl_aten_reshape(b, bd, PL_SIZES(batch, n, seq, 2 * seq - 1));
    bd = pl_aten_index_select(b, bd, 3, pl_aten_arange(b, seq));
    pl_line(b, "attn_score = (ac + bd + ef) * self.scale");
    x = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_add(b, ac, bd), 0);
    x = pl_aten_scalar(b, "aten.mul.Tensor", x, 1 / sqrt((double)d));
    pl_line(b, "attn_prob = nn.functional.softmax(attn_score, dim=3)");
    x = pl_aten_softmax(b, x, 3, PL_DT_UNKNOWN);
    pl_line(b, "attn_prob = self.dropout(attn_prob)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_line(b, "attn_vec = torch.einsum(\"bnij,jbnd->ibnd\", attn_prob, v_head_h)");
    x = sums(o, "bnij,jbnd->ibnd", x, v, PL_SIZES(seq, batch, n, d));
    pl_line(b, "attn_out = torch.einsum(\"ibnd,hnd->ibh\", attn_vec, self.o)");
    x = sums(o, "ibnd,hnd->ibh", x, w[3], PL_SIZES(seq, batch, o->hidden));
    pl_line(b, "attn_out = self.dropout(attn_out)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    x = pl_hf_sum(o->m, "attn_out = attn_out + h", x, h);
    pl_line(b, "output = self.layer_norm(attn_out)");
    x = pl_hf_layer_norm(o->m, "layer_norm", x, o->eps, true);
    pl_module_leave(b);
    return x;
}

static int32_t layer(const model *o, int64_t index, int32_t x, int32_t r) {
    pl_builder *b = o->b;
    pl_hf_enter_at(o->m, "layer", index, "xlnet", "XLNetLayer");
    pl_line(b, "outputs = self.rel_attn(");
    x = attention(o, x, r);
    pl_line(b, "output_h = apply_chunking_to_forward(");
    enter(o, "ff", "FeedForward");
    pl_module_children(b, "layer_norm layer_1 layer_2");
    pl_line(b, "output = self.layer_1(output)");
    int32_t y = pl_hf_linear(o->m, "layer_1", x, o->inner, true);
    y = pl_hf_activation(o->m, "activation_function", o->act, y);
    y = pl_hf_dropout(o->m, "dropout", y, o->drop);
    pl_line(b, "output = self.layer_2(output)");
    y = pl_hf_linear(o->m, "layer_2", y, o->hidden, true);
    y = pl_hf_dropout(o->m, "dropout", y, o->drop);
    pl_line(b, "output = self.layer_norm(output + inp)");
    x = pl_hf_layer_norm(o->m, "layer_norm", pl_aten_add(b, y, x), o->eps, true);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

/* Sines and cosines of the distances from seq to 1 - seq: [2 seq, batch, hidden]. */
static int32_t distances(const model *o) {
    pl_builder *b = o->b;
    pl_line(b, "inv_freq = 1 / torch.pow(10000, (freq_seq / self.d_model))");
    int32_t freq = pl_aten_to(b, pl_aten_arange(b, (o->hidden + 1) / 2), PL_DT_F32);
    freq = pl_aten_scalar(b, "aten.div.Tensor", freq, (double)o->hidden);
    freq = pl_aten_unary(b, "aten.exp.default", freq); /* stands for a power of 10,000 */
    freq = pl_aten_unary(b, "aten.reciprocal.default", freq);
    pl_line(b, "fwd_pos_seq = torch.arange(beg, end, -1.0, dtype=torch.int64).float()");
    int32_t at = pl_aten_to(b, pl_aten_arange(b, 2 * o->m->seq), PL_DT_F32);
    pl_line(b, "sinusoid_inp = pos_seq[:, None] * inv_freq");
    int32_t x = pl_aten_mul(b, pl_aten_unsqueeze(b, at, 1), freq);
    pl_line(b, "pos_emb = torch.cat([torch.sin(sinusoid_inp), torch.cos(sinusoid_inp)], dim=-1)");
    int32_t parts[2] = {pl_aten_unary(b, "aten.sin.default", x),
                        pl_aten_unary(b, "aten.cos.default", x)};
    x = pl_aten_unsqueeze(b, pl_aten_cat(b, 2, parts, -1), 1);
    return pl_aten_expand(b, x, PL_SIZES(-1, o->m->batch, -1));
}

static int32_t base(model *o) {
    pl_builder *b = o->b;
    pl_module_children(b, "mask_emb word_embedding layer");
    pl_build_parameter(b, "mask_emb", PL_SIZES(1, 1, o->hidden));
    int32_t ids = pl_hf_input_ids(o->m);
    pl_line(b, "input_ids = input_ids.transpose(0, 1).contiguous()");
    ids = pl_aten_contiguous(b, pl_aten_transpose(b, ids, 0, 1));
    pl_line(b, "word_emb_k = self.word_embedding(input_ids)");
    pl_module_enter(b, "word_embedding", "torch.nn.modules.sparse.Embedding");
    o->word = pl_build_parameter(b, "weight", PL_SIZES(o->vocab, o->hidden));
    int32_t x = pl_aten_embedding(b, o->word, ids, -1);
    pl_module_leave(b);
    pl_line(b, "output_h = self.dropout(word_emb_k)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    int32_t r = distances(o);
    pl_line(b, "pos_emb = self.dropout(pos_emb)");
    r = pl_hf_dropout(o->m, "dropout", r, o->drop);
    pl_line(b, "outputs = layer_module(");
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) x = layer(o, i, x, r);
    pl_line(b, "output = self.dropout(output_h)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_line(b, "output = output.permute(1, 0, 2).contiguous()");
    return pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(1, 0, 2)));
}

/* The state of one token, or their mean, and a layer. */
static int32_t summary(const model *o, int32_t x) {
    pl_builder *b = o->b;
    const char *type = pl_hf_string(o->m, "summary_type", "last"),
               *act = pl_hf_string(o->m, "summary_activation", "");
    enter(o, "sequence_summary", "SequenceSummary");
    pl_line(b, "output = hidden_states[:, -1]");
    if (strcmp(type, "mean") == 0)
        x = pl_aten_reduce(b, "aten.mean.dim", x, 1, false);
    else if (strcmp(type, "last") == 0 || strcmp(type, "first") == 0)
        x = pl_aten_select(b, x, 1, strcmp(type, "last") == 0 ? -1 : 0);
    else
        pl_hf_refuse(o->m, "summary_type", "expected last, first or mean");
    pl_line(b, "output = self.summary(output)");
    if (pl_hf_bool(o->m, "summary_use_proj", true))
        x = pl_hf_linear(o->m, "summary", x, o->hidden, true);
    pl_line(b, "output = self.activation(output)");
    if (*act) x = pl_hf_activation(o->m, "activation", act, x);
    pl_line(b, "output = self.last_dropout(output)");
    double drop = pl_hf_float(o->m, "summary_last_dropout", 0.1);
    if (drop > 0) x = pl_hf_dropout(o->m, "last_dropout", x, drop);
    pl_module_leave(b);
    return x;
}

static model read_keys(pl_hf *m) {
    model o = {.m = m, .b = m->b, .word = PL_NONE};
    o.vocab = pl_hf_size(m, "vocab_size", 32000);
    o.hidden = pl_hf_size(m, "d_model|hidden_size", 1024);
    o.layers = pl_hf_depth(m, "n_layer|num_hidden_layers", 24);
    o.heads = pl_hf_size(m, "n_head|num_attention_heads", 16);
    o.inner = pl_hf_size(m, "d_inner", 4096);
    o.eps = pl_hf_float(m, "layer_norm_eps", 1e-12);
    o.drop = pl_hf_float(m, "dropout", 0.1);
    o.act = pl_hf_string(m, "ff_activation", "gelu");
    pl_hf_divides(m, "n_head|num_attention_heads", o.hidden, o.heads);
    o.head = o.hidden / o.heads;
    if (strcmp(pl_hf_string(m, "attn_type", "bi"), "bi") != 0)
        pl_hf_refuse(m, "attn_type", "only bi is built");
    if (pl_hf_bool(m, "bi_data", false)) pl_hf_refuse(m, "bi_data", "this is not built");
    if (o.hidden % 2) pl_hf_refuse(m, "d_model", "expected an even width");
    return o;
}

static void build(pl_hf *m) {
    pl_builder *b = m->b;
    model o = read_keys(m);
    if (pl_build_failed(b)) return;
    bool causal = m->task == PL_TASK_CAUSAL, classify = m->task == PL_TASK_CLASSIFY;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "Model");
        pl_build_output(b, base(&o));
        pl_module_leave(b);
        return;
    }
    enter(&o, "",
          causal     ? "LMHeadModel"
          : classify ? "ForSequenceClassification"
                     : "ForTokenClassification");
    enter(&o, "transformer", "Model");
    int32_t x = base(&o);
    pl_module_leave(b);
    if (causal) {
        pl_line(b, "logits = self.lm_loss(hidden_states)");
        x = pl_hf_bool(m, "tie_word_embeddings", true)
                ? pl_hf_tied_linear(m, "lm_loss", x, o.word, o.vocab, true)
                : pl_hf_linear(m, "lm_loss", x, o.vocab, true);
        pl_hf_own_token_loss(m, x);
    } else if (classify) {
        x = summary(&o, x);
        pl_line(b, "logits = self.logits_proj(output)");
        pl_hf_classification_loss(m, pl_hf_linear(m, "logits_proj", x, pl_hf_labels(m), true));
    } else {
        pl_line(b, "logits = self.classifier(sequence_output)");
        pl_hf_own_token_loss(m, pl_hf_linear(m, "classifier", x, pl_hf_labels(m), true));
    }
    pl_module_leave(b);
}

const pl_hf_family pl_hf_xlnet[] = {
    {.model_type = "xlnet",
     .tasks =
         1u << PL_TASK_CAUSAL | 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_TOKENS | 1u << PL_TASK_BASE,
     .usual = PL_TASK_CAUSAL,
     .build = build,
     .version = "5.22",
     .no_attention = 1u << PL_ATTN_SDPA | 1u << PL_ATTN_FLASH2},
    {0},
};
