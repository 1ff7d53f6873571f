/* zamba2: Zamba 2: Mamba 2's layers, and in some of them a transformer beside it whose weights those layers share
 * (num_mem_blocks of them in turn), with an adapter of each layer's own.
 *
 * Rules: transformers 5.22, models/zamba2/modeling_zamba2.py, as it runs without mamba-ssm and causal-conv1d.
 *
 * Left out: use_shared_attention_adapter, classification. */
#include <math.h>
#include <string.h>

#include "import/families/decoder.h"
#include "import/families/mamba.h"

enum { MOST_BLOCKS = 16 };

/* The weights of a transformer that layers share; PL_NONE: not made yet. */
typedef struct shared {
    int32_t norms[2], q, k, v, o, gate_up, down;
} shared;

typedef struct zamba {
    pl_decoding *d;
    pl_mamba2 mix;
    shared blocks[MOST_BLOCKS];
    int64_t count;    /* of blocks */
    int64_t rank;     /* of adapters */
    int32_t original; /* the embeddings, copied */
    bool bias;
} zamba;

/* layers_block_type, else the class's: the first five, then each sixth and some more. */
static bool is_hybrid(pl_decoding *d, int64_t layer) {
    static const int usual[] = {6, 12, 18, 24, 30, 36, 42, 47, 51};
    if (layer < pl_hf_list(d->m, "layers_block_type|layer_types"))
        return strcmp(pl_hf_list_string(d->m, "layers_block_type|layer_types", layer, ""),
                      "hybrid") == 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (layer == usual[i]) return true;
    return false;
}

static int32_t linear(zamba *z, const char *name, int32_t *weight, int32_t x, int64_t out,
                      bool bias) {
    pl_hf *m = z->d->m;
    pl_builder *b = m->b;
    if (*weight != PL_NONE) return pl_hf_tied_linear(m, name, x, *weight, out, bias);
    pl_module_enter(b, name, "torch.nn.modules.linear.Linear");
    *weight = pl_build_parameter(b, "weight", PL_SIZES(out, pl_built_size(b, x, -1)));
    int32_t shift = bias ? pl_build_parameter(b, "bias", PL_SIZES(out)) : PL_NONE;
    x = pl_aten_linear(b, x, *weight, shift);
    pl_module_leave(b);
    return x;
}

static int32_t norm(zamba *z, const char *name, int32_t *weight, int32_t x) {
    pl_builder *b = z->d->m->b;
    pl_dtype type = pl_built(b, x)->dtype;
    pl_module_enter(b, name, z->d->norm_type);
    if (*weight == PL_NONE)
        *weight = pl_build_parameter(b, "weight", PL_SIZES(pl_built_size(b, x, -1)));
    else
        pl_build_tied(b, "weight", *weight);
    pl_line(b, "1: hidden_states = hidden_states.to(torch.float32)");
    x = pl_aten_to(b, x, PL_DT_F32);
    pl_line(b, "variance = hidden_states.pow(2).mean(-1, keepdim=True)");
    int32_t v = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", x, 2);
    v = pl_aten_reduce(b, "aten.mean.dim", v, -1, true);
    pl_line(b, "2: hidden_states = hidden_states * torch.rsqrt(variance + eps)");
    v = pl_aten_scalar(b, "aten.add.Tensor", v, z->d->eps);
    x = pl_aten_mul(b, x, pl_aten_unary(b, "aten.rsqrt.default", v));
    pl_line(b, "return self.weight * hidden_states.to(input_dtype)");
    x = pl_aten_mul(b, *weight, pl_aten_to(b, x, type));
    pl_module_leave(b);
    return x;
}

static int32_t heads_of(zamba *z, const char *line, int32_t x) {
    pl_hf *m = z->d->m;
    pl_line(m->b, line);
    x = pl_aten_view(m->b, x, PL_SIZES(m->batch, m->seq, -1, z->d->head_dim));
    return pl_aten_transpose(m->b, x, 1, 2);
}

/* x [B,S,2 width] to [B,S,width] */
static int32_t attention(zamba *z, shared *s, int32_t x) {
    pl_decoding *d = z->d;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    pl_module_enter(b, "self_attn", d->attention_type);
    pl_line(b, "1: query_states = self.q_proj(hidden_states)");
    int32_t q = linear(z, "q_proj", &s->q, x, d->heads * d->head_dim, false);
    pl_line(b, "1: key_states = self.k_proj(hidden_states)");
    int32_t k = linear(z, "k_proj", &s->k, x, d->kv_heads * d->head_dim, false);
    pl_line(b, "1: value_states = self.v_proj(hidden_states)");
    int32_t v = linear(z, "v_proj", &s->v, x, d->kv_heads * d->head_dim, false);
    q = heads_of(z, "2: query_states = query_states.view(hidden_shape).transpose(1, 2)", q);
    k = heads_of(z, "2: key_states = key_states.view(hidden_shape).transpose(1, 2)", k);
    v = heads_of(z, "2: value_states = value_states.view(hidden_shape).transpose(1, 2)", v);
    if (pl_hf_bool(m, "use_mem_rope", false)) pl_decoder_turn(d, &q, &k, v, false);
    x = pl_decoder_attend(d, q, k, v, false);
    pl_line(b, "2: attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    x = pl_aten_reshape(b, x, PL_SIZES(m->batch, m->seq, -1));
    pl_line(b, "3: attn_output = self.o_proj(attn_output)");
    x = linear(z, "o_proj", &s->o, x, d->width, false);
    pl_module_leave(b);
    return x;
}

static int32_t feed_forward(zamba *z, shared *s, int64_t index, int32_t x) {
    pl_decoding *d = z->d;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t parts[2];
    pl_module_enter(b, "feed_forward", d->mlp_type);
    pl_line(b, "1: gate_up_state = self.gate_up_proj(hidden_state)");
    int32_t y = linear(z, "gate_up_proj", &s->gate_up, x, 2 * d->inner, z->bias);
    pl_line(b, "2: gate_up_state = gate_up_state + self.gate_up_proj_adapter_list[layer_idx](x)");
    pl_module_enter(b, pl_build_text(b, "gate_up_proj_adapter_list.%lld", (long long)index),
                    "torch.nn.modules.container.Sequential");
    x = pl_hf_linear(m, "1", pl_hf_linear(m, "0", x, z->rank, false), 2 * d->inner, false);
    pl_module_leave(b);
    y = pl_aten_add(b, y, x);
    pl_line(b, "3: gate_up_state = torch.chunk(gate_up_state, 2, dim=-1)");
    pl_aten_chunk(b, y, 2, -1, parts);
    pl_line(b, "hidden_state = self.act_fn(gate_up_state[0]) * gate_up_state[1]");
    y = pl_aten_mul(b, pl_hf_activation(m, "act_fn", d->act, parts[0]), parts[1]);
    pl_line(b, "output = self.down_proj(hidden_state)");
    y = linear(z, "down_proj", &s->down, y, d->width, z->bias);
    pl_module_leave(b);
    return y;
}

/* The shared transformer, for the index-th layer that has it, and the layer's linear map. */
static int32_t beside(zamba *z, int64_t index, int32_t x) {
    pl_decoding *d = z->d;
    pl_builder *b = d->m->b;
    shared *s = &z->blocks[index % z->count];
    pl_line(b, "1: transformer_hidden_states = self.shared_transformer(");
    pl_module_enter(b, "shared_transformer", pl_decoder_type(d, "AttentionDecoderLayer"));
    pl_line(b, "1: hidden_states = torch.concatenate([hidden_states, original], dim=-1)");
    x = pl_aten_cat(b, 2, (int32_t[]){x, z->original}, -1);
    pl_line(b, "2: hidden_states = self.input_layernorm(hidden_states)");
    x = norm(z, "input_layernorm", &s->norms[0], x);
    pl_line(b, "3: hidden_states = self.self_attn(hidden_states=hidden_states)");
    x = attention(z, s, x);
    pl_line(b, "4: hidden_states = self.pre_ff_layernorm(hidden_states)");
    x = norm(z, "pre_ff_layernorm", &s->norms[1], x);
    pl_line(b, "5: hidden_states = self.feed_forward(hidden_states, layer_idx)");
    x = feed_forward(z, s, index, x);
    pl_module_leave(b);
    pl_line(b, "2: transformer_hidden_states = self.linear(transformer_hidden_states)");
    return pl_hf_linear(d->m, "linear", x, d->width, false);
}

static int32_t mamba_layer(zamba *z, int32_t x, int32_t more) {
    pl_decoding *d = z->d;
    pl_builder *b = d->m->b;
    int32_t y = x;
    pl_line(b, "1: hidden_states = hidden_states + transformer_hidden_states");
    if (more != PL_NONE) y = pl_aten_add(b, x, more);
    pl_line(b, "2: hidden_states = self.input_layernorm(hidden_states)");
    y = pl_decoder_norm(d, "input_layernorm", y);
    pl_line(b, "3: hidden_states = self.mamba(hidden_states=hidden_states)");
    y = pl_mamba2_mix(d->m, &z->mix, y);
    pl_line(b, "4: hidden_states = residual + hidden_states");
    return pl_aten_add(b, x, y);
}

static bool read_keys(zamba *z) {
    pl_decoding *d = z->d;
    pl_hf *m = d->m;
    int64_t shares = pl_hf_int(m, "n_mamba_heads", 8);
    z->count = pl_hf_int(m, "num_mem_blocks", 1);
    z->rank = pl_hf_need(m, "adapter_rank");
    z->bias = pl_hf_bool(m, "add_bias_linear", false);
    d->head_dim = 2 * d->width / d->heads;
    d->rotary_dim = d->head_dim;
    d->scale = 1 / sqrt((double)d->head_dim / 2);
    if (z->count < 1 || z->count > MOST_BLOCKS)
        pl_hf_refuse(m, "num_mem_blocks", "expected 1 to %d", MOST_BLOCKS);
    if (pl_hf_bool(m, "use_shared_attention_adapter", false))
        pl_hf_refuse(m, "use_shared_attention_adapter", "its adapters are not built");
    z->mix = (pl_mamba2){.name = "mamba",
                         .type = pl_decoder_type(d, "MambaMixer"),
                         .norm_type = pl_decoder_type(d, "RMSNormGated"),
                         .width = d->width,
                         .inner = pl_hf_int(m, "mamba_expand", 2) * d->width,
                         .heads = shares,
                         .groups = pl_hf_int(m, "mamba_ngroups", 1),
                         .state = pl_hf_int(m, "mamba_d_state", 64),
                         .kernel = pl_hf_int(m, "mamba_d_conv", 4),
                         .chunk = pl_hf_int(m, "chunk_size", 256),
                         .bias = z->bias,
                         .conv_bias = true,
                         .out_bias = z->bias,
                         .act = "silu",
                         .eps = 1e-5,
                         .norm = PL_MAMBA2_NORM_GROUPS};
    z->mix.head_dim = shares > 0 ? z->mix.inner / shares : 0;
    for (int i = 0; i < MOST_BLOCKS; i++)
        z->blocks[i] =
            (shared){{PL_NONE, PL_NONE}, PL_NONE, PL_NONE, PL_NONE, PL_NONE, PL_NONE, PL_NONE};
    return pl_mamba2_fits(m, &z->mix, "n_mamba_heads", "mamba_ngroups");
}

static int32_t layers(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    zamba z = {.d = d};
    if (!read_keys(&z)) return x;
    pl_line(b, "original_hidden_states = torch.clone(inputs_embeds)");
    z.original = pl_aten_clone(b, x);
    if (pl_hf_bool(d->m, "use_mem_rope", false)) pl_decoder_make_rotary(d, d->position_ids);
    for (int64_t i = 0, hybrids = 0; i < d->layers && !pl_build_failed(b); i++) {
        bool hybrid = is_hybrid(d, i);
        pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)i),
                        pl_decoder_type(d, hybrid ? "HybridLayer" : "MambaDecoderLayer"));
        int32_t more = hybrid ? beside(&z, hybrids++, x) : PL_NONE;
        if (hybrid) pl_module_enter(b, "mamba_decoder", pl_decoder_type(d, "MambaDecoderLayer"));
        x = mamba_layer(&z, x, more);
        if (hybrid) pl_module_leave(b);
        pl_module_leave(b);
    }
    return x;
}

static int64_t usual_inner(pl_hf *m, int64_t inner) {
    return pl_hf_has(m, "intermediate_size") ? inner : 4 * pl_hf_int(m, "hidden_size", 2560);
}

const pl_hf_family pl_hf_zamba2[] = {
    {PL_DECODER_ROW("zamba2", PL_DECODER_CAUSAL),
     .warning = "state spaces are simulated as transformers runs them without the packages "
                "mamba-ssm and causal-conv1d; with their kernels a job needs less",
     PL_DECODER_PLAN(.package = "zamba2", .prefix = "Zamba2", .eps = "rms_norm_eps", .tied = true,
                     .no_head_dim = true, .listed = true, .inner_of = usual_inner, .layers = layers,
                     .last_norm = "final_layernorm")},
    {0},
};
