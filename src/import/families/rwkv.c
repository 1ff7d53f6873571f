/* rwkv: RWKV 4 as transformers runs it in plain PyTorch: a loop over the sequence that makes some twenty
 * small tensors per step, all of which backward needs.
 *
 * Rules: transformers 5.22, models/rwkv/modeling_rwkv.py, rwkv_linear_attention_cpu: what runs where its
 * CUDA kernel is not compiled (no ninja); with it a job needs less.
 *
 * Where layers and sequence make more than MOST_STEPS steps, neighbours are built as one step over
 * several places: their tensors' bytes add up to the same. */
#include "import/families/scan.h"

#define MODULE "transformers.models.rwkv.modeling_rwkv.Rwkv"
#define ADD    "aten.add.Tensor"
#define SUB    "aten.sub.Tensor"
#define MUL    "aten.mul.Tensor"
#define EXP    "aten.exp.default"

enum { MOST_STEPS = 768, MOST_STEPS_A_LAYER = 200 };

typedef struct rwkv {
    pl_hf *m;
    pl_builder *b;
    int64_t width, inner_attention, inner, layers;
    int64_t together; /* steps built as one */
    double eps;
} rwkv;

/* x w + shifted (1 - w), w a parameter [1,1,width] */
static int32_t mixed(rwkv *r, const char *line, int32_t weight, int32_t x, int32_t shifted) {
    pl_builder *b = r->b;
    pl_line(b, line);
    int32_t y = pl_aten_mul(b, x, weight);
    pl_call(b, "aten.rsub.Scalar");
    pl_call_tensor(b, "self", weight);
    pl_call_float(b, "other", 1);
    int32_t rest = pl_call_result_like(b, weight);
    return pl_aten_add(b, y, pl_aten_mul(b, shifted, rest));
}

/* The sequence a place later. x [B,S,width] */
static int32_t shift(rwkv *r, int32_t x) {
    pl_module_enter(r->b, "time_shift", "torch.nn.modules.padding.ZeroPad2d");
    x = pl_aten_pad(r->b, x, 4, (int64_t[]){0, 0, 1, -1});
    pl_module_leave(r->b);
    return x;
}

static int32_t exp_of_difference(pl_builder *b, int32_t x, int32_t y) {
    return pl_aten_unary(b, EXP, pl_aten_binary(b, SUB, x, y));
}

static int32_t zeros(pl_builder *b, int32_t like) {
    int64_t batch = pl_built_size(b, like, 0), width = pl_built_size(b, like, -1);
    return pl_aten_make(b, "aten.zeros.default", PL_DT_F32, PL_SIZES(batch, 1, width), 0);
}

static int32_t shortened(pl_builder *b, int32_t x, int64_t count) {
    return pl_built_size(b, x, 1) > count ? pl_aten_slice(b, x, 1, 0, count) : x;
}

/* rwkv_linear_attention_cpu: decay, first [A], key, value [B,S,A] to the same */
static int32_t attend(rwkv *r, int32_t decay, int32_t first, int32_t key, int32_t value) {
    pl_builder *b = r->b;
    int64_t seq = r->m->seq;
    pl_module_enter(b, "rwkv_linear_attention", "rwkv_linear_attention_cpu");
    pl_line(b, "output = torch.zeros_like(key)");
    pl_call(b, "aten.zeros_like.default");
    pl_call_tensor(b, "self", key);
    int32_t out = pl_call_result_like(b, key);
    pl_line(b, "num_state = torch.zeros_like(key[:, 0], dtype=torch.float32)");
    int32_t num = zeros(b, key);
    pl_line(b, "den_state = torch.zeros_like(key[:, 0], dtype=torch.float32)");
    int32_t den = zeros(b, key);
    pl_line(b, "max_state = torch.zeros_like(key[:, 0], dtype=torch.float32) - 1e38");
    int32_t most = pl_aten_scalar(b, SUB, zeros(b, key), 1e38);
    pl_line(b, "time_decay = -torch.exp(time_decay)");
    decay = pl_aten_unary(b, "aten.neg.default", pl_aten_unary(b, EXP, decay));
    for (int64_t i = 0; i < seq && !pl_build_failed(b); i += r->together) {
        int64_t to = i + r->together < seq ? i + r->together : seq;
        long long at = (long long)i;
        num = shortened(b, num, to - i);
        den = shortened(b, den, to - i);
        most = shortened(b, most, to - i);
        pl_line(b, pl_build_text(b, "%lld: current_key = key[:, current_index].float()", at));
        int32_t k = pl_aten_to(b, pl_aten_slice(b, key, 1, i, to), PL_DT_F32);
        pl_line(b, "");
        int32_t v = pl_aten_slice(b, value, 1, i, to);
        pl_line(b, pl_build_text(b, "%lld: max_for_output = torch.maximum(", at));
        int32_t top =
            pl_aten_binary(b, "aten.maximum.default", most, pl_aten_binary(b, ADD, k, first));
        pl_line(b, pl_build_text(b, "%lld: e1 = torch.exp(max_state - max_for_output)", at));
        int32_t e1 = exp_of_difference(b, most, top);
        pl_line(b, pl_build_text(b, "%lld: e2 = torch.exp(current_key + time_first - max)", at));
        int32_t e2 = exp_of_difference(b, pl_aten_binary(b, ADD, k, first), top);
        pl_line(b, pl_build_text(b, "%lld: numerator = e1 * num_state + e2 * value", at));
        int32_t above = pl_aten_add(b, pl_aten_mul(b, e1, num), pl_aten_mul(b, e2, v));
        pl_line(b, pl_build_text(b, "%lld: denominator = e1 * den_state + e2", at));
        int32_t below = pl_aten_add(b, pl_aten_mul(b, e1, den), e2);
        pl_line(b, "");
        int32_t y = pl_aten_binary(b, "aten.div.Tensor", above, below);
        y = pl_scan_to_type_of(b, y, key);
        int32_t place = pl_aten_slice(b, out, 1, i, to);
        pl_call(b, "aten.copy_.default");
        pl_call_tensor(b, "self", place);
        pl_call_tensor(b, "src", y);
        pl_call_result_like(b, place);
        pl_line(b, pl_build_text(b, "%lld: max_for_state = torch.maximum(", at));
        top = pl_aten_binary(b, "aten.maximum.default", pl_aten_binary(b, ADD, most, decay), k);
        pl_line(b, pl_build_text(b, "%lldb: e1 = torch.exp(max_state + time_decay - max)", at));
        e1 = exp_of_difference(b, pl_aten_binary(b, ADD, most, decay), top);
        pl_line(b, pl_build_text(b, "%lldb: e2 = torch.exp(current_key - max_for_state)", at));
        e2 = exp_of_difference(b, k, top);
        pl_line(b, pl_build_text(b, "%lld: num_state = e1 * num_state + e2 * value", at));
        num = pl_aten_add(b, pl_aten_mul(b, e1, num), pl_aten_mul(b, e2, v));
        pl_line(b, pl_build_text(b, "%lld: den_state = e1 * den_state + e2", at));
        den = pl_aten_add(b, pl_aten_mul(b, e1, den), e2);
        most = top;
    }
    pl_module_leave(b);
    return out;
}

static int32_t attention(rwkv *r, int32_t x) {
    pl_hf *m = r->m;
    pl_builder *b = r->b;
    int64_t a = r->inner_attention;
    pl_module_enter(b, "attention", MODULE "SelfAttention");
    int32_t decay = pl_build_parameter(b, "time_decay", PL_SIZES(a));
    int32_t first = pl_build_parameter(b, "time_first", PL_SIZES(a));
    int32_t mix[3] = {pl_build_parameter(b, "time_mix_key", PL_SIZES(1, 1, r->width)),
                      pl_build_parameter(b, "time_mix_value", PL_SIZES(1, 1, r->width)),
                      pl_build_parameter(b, "time_mix_receptance", PL_SIZES(1, 1, r->width))};
    pl_line(b, "shifted = self.time_shift(hidden)");
    int32_t shifted = shift(r, x);
    int32_t k = mixed(r, "1: key = hidden * mix + shifted * (1 - mix)", mix[0], x, shifted);
    int32_t v = mixed(r, "1: value = hidden * mix + shifted * (1 - mix)", mix[1], x, shifted);
    int32_t g = mixed(r, "1: receptance = hidden * mix + shifted * (1 - mix)", mix[2], x, shifted);
    pl_line(b, "2: key = self.key(key)");
    k = pl_hf_linear(m, "key", k, a, false);
    pl_line(b, "2: value = self.value(value)");
    v = pl_hf_linear(m, "value", v, a, false);
    pl_line(b, "2: receptance = torch.sigmoid(self.receptance(receptance))");
    g = pl_aten_unary(b, "aten.sigmoid.default", pl_hf_linear(m, "receptance", g, a, false));
    pl_line(b, "rwkv, layer_state = rwkv_linear_attention(");
    int32_t y = attend(r, decay, first, k, v);
    pl_line(b, "return self.output(receptance * rwkv)");
    y = pl_hf_linear(m, "output", pl_aten_mul(b, g, y), r->width, false);
    pl_module_leave(b);
    return y;
}

static int32_t feed_forward(rwkv *r, int32_t x) {
    pl_hf *m = r->m;
    pl_builder *b = r->b;
    pl_module_enter(b, "feed_forward", MODULE "FeedForward");
    int32_t mix[2] = {pl_build_parameter(b, "time_mix_key", PL_SIZES(1, 1, r->width)),
                      pl_build_parameter(b, "time_mix_receptance", PL_SIZES(1, 1, r->width))};
    pl_line(b, "shifted = self.time_shift(hidden)");
    int32_t shifted = shift(r, x);
    int32_t k = mixed(r, "1: key = hidden * mix + shifted * (1 - mix)", mix[0], x, shifted);
    int32_t g = mixed(r, "1: receptance = hidden * mix + shifted * (1 - mix)", mix[1], x, shifted);
    pl_line(b, "2: key = torch.square(torch.relu(self.key(key)))");
    k = pl_aten_unary(b, "aten.relu.default", pl_hf_linear(m, "key", k, r->inner, false));
    k = pl_aten_unary(b, "aten.square.default", k);
    pl_line(b, "value = self.value(key)");
    int32_t v = pl_hf_linear(m, "value", k, r->width, false);
    pl_line(b, "2: receptance = torch.sigmoid(self.receptance(receptance))");
    g = pl_aten_unary(b, "aten.sigmoid.default", pl_hf_linear(m, "receptance", g, r->width, false));
    pl_line(b, "return receptance * value");
    x = pl_aten_mul(b, g, v);
    pl_module_leave(b);
    return x;
}

static int32_t block(rwkv *r, int64_t index, int32_t x) {
    pl_hf *m = r->m;
    pl_builder *b = r->b;
    pl_module_enter(b, pl_build_text(b, "blocks.%lld", (long long)index), MODULE "Block");
    pl_module_children(b, "pre_ln ln1 ln2 attention feed_forward");
    pl_line(b, "1: hidden = self.pre_ln(hidden)");
    if (index == 0) x = pl_hf_layer_norm(m, "pre_ln", x, r->eps, true);
    pl_line(b, "attention, state = self.attention(self.ln1(hidden))");
    int32_t y = attention(r, pl_hf_layer_norm(m, "ln1", x, r->eps, true));
    pl_line(b, "2: hidden = hidden + attention");
    x = pl_aten_add(b, x, y);
    pl_line(b, "feed_forward, state = self.feed_forward(self.ln2(hidden))");
    y = feed_forward(r, pl_hf_layer_norm(m, "ln2", x, r->eps, true));
    pl_line(b, "3: hidden = hidden + feed_forward");
    x = pl_aten_add(b, x, y);
    pl_module_leave(b);
    return x;
}

static void build_rwkv(pl_hf *m) {
    rwkv r = {.m = m, .b = m->b};
    pl_builder *b = m->b;
    int64_t vocab = pl_hf_need(m, "vocab_size");
    r.width = pl_hf_need(m, "hidden_size");
    r.layers = pl_hf_layers(m, "num_hidden_layers");
    r.inner_attention = pl_hf_int(m, "attention_hidden_size", r.width);
    r.inner = pl_hf_int(m, "intermediate_size", 4 * r.width);
    r.eps = pl_hf_float(m, "layer_norm_epsilon", 1e-5);
    if (r.inner_attention < 1 || r.inner < 1)
        pl_hf_refuse(m, "attention_hidden_size|intermediate_size", "expected at least 1");
    if (pl_build_failed(b)) return;
    int64_t steps = MOST_STEPS / r.layers;
    if (steps > MOST_STEPS_A_LAYER) steps = MOST_STEPS_A_LAYER;
    if (steps < 1) steps = 1;
    r.together = (m->seq + steps - 1) / steps;
    bool causal = m->task == PL_TASK_CAUSAL;
    int32_t table;
    pl_module_enter(b, "", causal ? MODULE "ForCausalLM" : MODULE "Model");
    if (causal) pl_module_children(b, "rwkv head");
    int32_t ids = pl_hf_input_ids(m);
    if (causal) pl_module_enter(b, "rwkv", MODULE "Model");
    pl_module_children(b, "embeddings blocks ln_out");
    pl_line(b, "inputs_embeds = self.embeddings(input_ids)");
    pl_module_enter(b, "embeddings", "torch.nn.modules.sparse.Embedding");
    table = pl_build_parameter(b, "weight", PL_SIZES(vocab, r.width));
    int32_t x = pl_aten_embedding(b, table, ids, -1);
    pl_module_leave(b);
    pl_line(b, "");
    for (int64_t i = 0; i < r.layers && !pl_build_failed(b); i++) x = block(&r, i, x);
    pl_line(b, "hidden_states = self.ln_out(hidden_states)");
    x = pl_hf_layer_norm(m, "ln_out", x, 1e-5, true);
    if (!causal) {
        pl_build_output(b, x);
        pl_module_leave(b);
        return;
    }
    pl_module_leave(b);
    pl_line(b, "logits = self.head(hidden_states)");
    x = pl_hf_bool(m, "tie_word_embeddings", false)
            ? pl_hf_tied_linear(m, "head", x, table, vocab, false)
            : pl_hf_linear(m, "head", x, vocab, false);
    pl_hf_causal_loss(m, x);
    pl_module_leave(b);
}

const pl_hf_family pl_hf_rwkv[] = {
    {.model_type = "rwkv",
     .tasks = 1u << PL_TASK_CAUSAL | 1u << PL_TASK_BASE,
     .usual = PL_TASK_CAUSAL,
     .build = build_rwkv,
     .version = "5.22",
     .positions = "context_length|max_position_embeddings",
     .no_attention = 1u << PL_ATTN_SDPA | 1u << PL_ATTN_EAGER | 1u << PL_ATTN_FLASH2,
     .warning =
         "the sequential path of transformers is simulated, as it runs where its CUDA kernel "
         "is not compiled (without ninja); with it a job needs less"},
    {0},
};
