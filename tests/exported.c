/* exported: what eager mode allocates where the exported graph shows something else: another branch
 * of the model's code, a kernel that was not chosen yet, casts that were none in the type of then,
 * names that the graph's lines do not assign.
 *
 * Each case is a graph as torch.export (2.11) writes it of the code named, cut down; the numbers
 * follow from the sizes, or are those of the same graph as eager mode has it. */
#include "by_hand.h"

static pl_node *node_of(built *b, const char *target, const char *source, int32_t self) {
    pl_node *node = add_node(b, target);
    node->source = source;
    if (self >= 0) with(node, "self", self);
    return node;
}

static void with_ints(built *b, pl_node *node, const char *name, int count, const int64_t *ints) {
    pl_arg *arg = add_arg(node, name, PL_ARG_INTS);
    arg->ints = b->ints[node - b->nodes][node->arg_count - 1];
    for (int i = 0; i < count; i++) arg->ints[arg->count++] = ints[i];
}

static int32_t with_source(built *b, int32_t made, const char *source) {
    b->nodes[b->tensors[made].producer].source = source;
    return made;
}

static int32_t module(built *b, const char *path, int32_t parent) {
    int32_t m = b->graph.module_count++;
    b->modules[m] = (pl_module){.path = path, .type = "Net", .parent = parent};
    return m;
}

static int32_t in_module(built *b, int32_t made, int32_t m) {
    b->nodes[b->tensors[made].producer].module = m;
    return made;
}

static const pl_job half = {
    .precision = PL_BF16, .optimizer = "sgd", .loss = PL_LOSS_OWN, .accumulate = 1, .world = 1};
static const pl_job autocast = {
    .precision = PL_AMP_BF16, .optimizer = "sgd", .loss = PL_LOSS_OWN, .accumulate = 1, .world = 1};

/* ---- another branch of the code ---- */

enum { SIDE = 3 };

static int32_t part_of_row(built *b, int32_t x, int64_t row, int dims) {
    pl_node *select = node_of(b, "aten.select.int", "", x);
    with_int(select, "dim", 1);
    with_int(select, "index", row);
    int32_t whole = GIVES(b, select, 8, SIDE);
    if (dims == 1) return whole;
    pl_node *slice = node_of(b, "aten.slice.Tensor", "", whole);
    with_int(slice, "dim", 1);
    with_int(slice, "start", 0);
    with_int(slice, "end", row);
    return GIVES(b, slice, 8, row);
}

/* (x with ones on its diagonal) y = b as transformers 5.22 exports it (modeling_qwen3_5.py,
 * torch_chunk_gated_delta_rule: is_torchdynamo_exporting()): rows substituted one by one. */
static int32_t substituted(built *b, int32_t x, int32_t y, int64_t diagonal) {
    pl_node *tril = node_of(b, "aten.tril.default", "", x);
    with_int(tril, "diagonal", diagonal);
    int32_t system = unary(b, "aten.neg.default", GIVES(b, tril, 8, SIDE, SIDE));
    for (int64_t row = 1; row < SIDE; row++) {
        int32_t copy = unary(b, "aten.clone.default", part_of_row(b, system, row, 2));
        int32_t sum = binary(b, "aten.add.Tensor", copy, copy);
        pl_node *write = node_of(b, "aten.copy_.default", "", part_of_row(b, system, row, 2));
        with(write, "src", sum);
        GIVES(b, write, 8, row);
    }
    pl_node *eye = add_node(b, "aten.eye.default");
    with_int(eye, "n", SIDE);
    eye->source = "";
    int32_t inverse = binary(b, "aten.add.Tensor", system, GIVES(b, eye, SIDE, SIDE));
    pl_node *product = node_of(b, "aten.matmul.default", "", inverse);
    with(product, "other", y);
    return GIVES(b, product, 8, SIDE, 16);
}

static int32_t solved(built *b, int32_t x, int32_t y) {
    pl_node *solve = node_of(b, "aten.linalg_solve_triangular.default", "", x);
    with(solve, "B", y);
    add_arg(solve, "upper", PL_ARG_BOOL)->i = 0;
    return GIVES(b, solve, 8, SIDE, 16);
}

static void same_events(built *a, built *b) {
    static char text[MOST_TEXT];
    for (int k = 0; k < 2; k++) {
        pl_phase phase = k ? PL_PHASE_BACKWARD : PL_PHASE_FORWARD;
        pl_tape *first = train(a, &plain), *second = train(b, &plain);
        if (first)
            snprintf(text, sizeof text, "%s", text_of(first, phase_of(first, phase, 1), true));
        if (first && second) CHECK_STR(text_of(second, phase_of(second, phase, 1), true), text);
        CHECK(strchr(text, ':') != NULL);
        pl_tape_close(&first);
        pl_tape_close(&second);
    }
}

static void substitution_is_a_triangular_solve(void) {
    built *a = new_graph(), *b = new_graph();
    int32_t x = PARAMETER(a, 8, SIDE, SIDE), y = PARAMETER(a, 8, SIDE, 16);
    finish(a, solved(a, x, y));
    x = PARAMETER(b, 8, SIDE, SIDE);
    y = PARAMETER(b, 8, SIDE, 16);
    finish(b, substituted(b, x, y, -1));
    same_events(a, b);
    free(a);
    free(b);
}

/* Code that has the loop in eager mode too (4.57: masked_fill in place of tril) runs as it is. */
static void other_loops_stay(void) {
    built *b = new_graph();
    int32_t x = PARAMETER(b, 8, SIDE, SIDE), y = PARAMETER(b, 8, SIDE, 16);
    finish(b, substituted(b, x, y, 0));
    pl_tape *tape = train(b, &plain);
    if (tape) {
        span s = phase_of(tape, PL_PHASE_FORWARD, 1);
        int copies = 0;
        for (size_t i = s.begin; i < s.end; i++)
            copies += tape->events[i] > 0 && tape->blocks[tape->events[i]].bytes == 8 * 4 * 1;
        CHECK(copies > 0);
    }
    pl_tape_close(&tape);
    free(b);
}

/* ---- masks ---- */

static const char *const mask_line = "modeling_rembert.py:570: attention_mask = mask_function(";

/* scores + where(true, 0, -inf) of attention that is written out (modeling_rembert.py, 5.22): with
 * no padding there is no mask in eager mode. causal: positions are compared. */
static int32_t masked_scores(built *b, int32_t scores, bool causal) {
    pl_node *range = add_node(b, "aten.arange.default");
    with_int(range, "end", 32);
    range->source = mask_line;
    int32_t positions = gives(b, range, PL_DT_I64, SIZES(1, 1, 1, 32));
    pl_node *compare =
        node_of(b, causal ? "aten.le.Tensor" : "aten.ge.Scalar", mask_line, positions);
    if (causal)
        with(compare, "other", positions);
    else
        with_int(compare, "other", 0);
    int32_t allowed = gives(b, compare, PL_DT_BOOL, SIZES(1, 1, 1, 32));
    pl_node *zeros = add_node(b, "aten.zeros.default");
    with_ints(b, zeros, "size", 0, NULL);
    add_arg(zeros, "dtype", PL_ARG_DTYPE)->i = PL_DT_F32;
    zeros->source = mask_line;
    int32_t zero = gives(b, zeros, PL_DT_F32, 0, NULL);
    pl_node *where = add_node(b, "aten.where.ScalarOther");
    where->source = mask_line;
    with(where, "condition", allowed);
    with(where, "self", zero);
    add_arg(where, "other", PL_ARG_FLOAT)->f = -1e38;
    int32_t mask = GIVES(b, where, 1, 1, 1, 32);
    return with_source(
        b, binary(b, "aten.add.Tensor", scores, mask),
        "modeling_rembert.py:184: attention_scores = attention_scores + attention_mask");
}

static void masks_of_nothing_are_not_added(void) {
    built *b = new_graph();
    finish(b, unary(b, "aten.exp.default", masked_scores(b, PARAMETER(b, 2, 4, 32, 32), false)));
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true, "1:32768 2:4");
    free(b);
    b = new_graph(); /* a causal one is: positions, where they are allowed, 0, -inf and the mask */
    finish(b, unary(b, "aten.exp.default", masked_scores(b, PARAMETER(b, 2, 4, 32, 32), true)));
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true,
                 "1:256 2:32 -1 3:4 4:4 5:128 -4 -2 -3 6:32768 7:32768 8:4 -5 -6");
    free(b);
}

/* Masks that are added have the embeddings' type (masking_utils.py: dtype=inputs_embeds.dtype): in
 * a bf16 job of a float32 export the scores stay bf16. */
static void masks_have_the_type_of_the_model(void) {
    built *b = new_graph();
    finish(b, unary(b, "aten.exp.default", masked_scores(b, PARAMETER(b, 2, 4, 32, 32), true)));
    CHECK_EVENTS(b, &half, PL_PHASE_FORWARD, 1, true,
                 "1:256 2:32 -1 3:2 4:2 5:64 -4 -2 -3 6:16384 7:16384 8:2 -5 -6");
    free(b);
}

/* transformers' repeat_kv of keys [2, 2, 32, head], twice for each head, behind a causal mask that
 * export alone makes. */
static int32_t grouped_attention(built *b, int64_t head) {
    static const char *const line =
        "modeling_gemma4.py:400: causal_mask = create_causal_mask(  # not sliding";
    int32_t q = PARAMETER(b, 2, 4, 32, head), kv = PARAMETER(b, 2, 2, 32, head);
    pl_node *unsqueeze = node_of(b, "aten.unsqueeze.default", "", kv);
    with_int(unsqueeze, "dim", 2);
    pl_node *expand = node_of(b, "aten.expand.default", "", GIVES(b, unsqueeze, 2, 2, 1, 32, head));
    pl_node *reshape = node_of(b, "aten.reshape.default", "", GIVES(b, expand, 2, 2, 2, 32, head));
    int32_t many = GIVES(b, reshape, 2, 4, 32, head);
    pl_node *ones = add_node(b, "aten.arange.default");
    with_int(ones, "end", 32);
    ones->source = line;
    int32_t positions = gives(b, ones, PL_DT_I64, SIZES(1, 1, 1, 32));
    pl_node *below = node_of(b, "aten.le.Tensor", line, positions);
    with(below, "other", positions);
    int32_t mask = gives(b, below, PL_DT_BOOL, SIZES(1, 1, 32, 32));
    pl_node *node = add_node(b, "aten.scaled_dot_product_attention.default");
    with(node, "query", q);
    with(node, "key", many);
    with(node, "value", many);
    with(node, "attn_mask", mask);
    node->source = "sdpa_attention.py:150: attn_output = scaled_dot_product_attention(";
    return GIVES(b, node, 2, 4, 32, head);
}

/* sdpa_attention.py, 5.22 (use_gqa_in_sdpa): heads of up to 256 go to the kernel in groups, larger
 * ones are repeated in eager mode too. The mask is made in neither; a word in a comment of its line
 * ("sliding") makes it no other. In bf16 cuDNN's kernel takes groups: the result, its logsumexp and
 * two numbers. */
static void groups_of_large_heads_are_repeated(void) {
    built *b = new_graph();
    finish(b, grouped_attention(b, 64));
    CHECK_EVENTS(b, &half, PL_PHASE_FORWARD, 1, true, "1:32768 2:1024 3:8 4:8 5:2");
    free(b);
    b = new_graph(); /* the repeated keys, the memory-efficient kernel's float sums, a logsumexp */
    finish(b, grouped_attention(b, 320));
    CHECK_EVENTS(b, &half, PL_PHASE_FORWARD, 1, true, "1:163840 2:163840 3:1024 4:327680 -4 5:2");
    free(b);
}

/* ---- kernels ---- */

/* attention.cpp, 2.11: flash_attention pads heads of other than multiples of 8 elements
 * (pad_last_dim<8>) and takes its result's first part; mobilevit_s has heads of 36. Three padded
 * tensors, the result, its logsumexp, the random state and a number beside it (flash_api.cpp). */
static void flash_pads_heads(void) {
    built *b = new_graph();
    int32_t q = PARAMETER(b, 2, 4, 16, 36), k = PARAMETER(b, 2, 4, 16, 36),
            v = PARAMETER(b, 2, 4, 16, 36);
    pl_node *node = add_node(b, "aten.scaled_dot_product_attention.default");
    with(node, "query", q);
    with(node, "key", k);
    with(node, "value", v);
    finish(b, GIVES(b, node, 2, 4, 16, 36));
    CHECK_EVENTS(b, &half, PL_PHASE_FORWARD, 1, true,
                 "1:10240 2:10240 3:10240 4:10240 5:512 6:16 7:8 8:2");
    /* the slice's gradient is a whole, the kernel's three, each then cut to its first part */
    CHECK_EVENTS(b, &half, PL_PHASE_BACKWARD, 1, true,
                 "1:2 2:10240 3:10240 4:10240 5:10240 -2 6:9216 -5 7:9216 -4 8:9216 -3 -1");
    free(b);
}

/* layer_norm.cpp, 2.11: a weight of another type than the input's has no fused kernel
 * (rms_norm_composite): the input in float, its square, the mean's root, the product with it and
 * with the weight, and the result in the input's type. Under autocast a layer before it gives
 * bf16. */
static void rms_norm_of_two_types(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 32, 64), w = PARAMETER(b, 64, 64), scale = PARAMETER(b, 64);
    int32_t y = linear(b, x, w, -1);
    pl_node *norm = add_node(b, "aten.rms_norm.default");
    with(norm, "input", y);
    with_ints(b, norm, "normalized_shape", 1, (int64_t[]){64});
    with(norm, "weight", scale);
    finish(b, GIVES(b, norm, 32, 64));
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true, "1:8192 2:8192 3:128 4:4 -2");
    /* weight and input cast, their product; float, square, mean, root, two products, the result */
    CHECK_EVENTS(b, &autocast, PL_PHASE_FORWARD, 1, true,
                 "1:8192 2:4096 3:4096 4:8192 5:8192 6:128 -5 7:128 -6 8:8192 9:8192 10:4096 -9 -3 "
                 "11:4 -10 -1");
    free(b);
}

/* autocast_mode.cpp, 2.11: a weight's copy is kept for all that follow, and leads to the weight even
 * where it was first made without gradients (HRM's cycles of which the last alone is trained). */
static void copies_made_without_gradients_lead_on(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 32, 64), w = PARAMETER(b, 64, 64);
    int32_t y = linear(b, x, w, -1);
    b->nodes[b->tensors[y].producer].no_grad = true;
    finish(b, linear(b, y, w, -1));
    pl_tape *tape = train(b, &autocast);
    if (tape) {
        size_t end = phase_of(tape, PL_PHASE_BACKWARD, 1).end;
        CHECK_INT(alive(tape, end, PL_GRADIENTS), 64 * 64 * 4);
        int casts = 0;
        span s = phase_of(tape, PL_PHASE_FORWARD, 1);
        for (size_t i = s.begin; i < s.end; i++)
            casts += tape->events[i] > 0 && tape->blocks[tape->events[i]].bytes == 64 * 64 * 2;
        CHECK_INT(casts, 1);
    }
    pl_tape_close(&tape);
    free(b);
}

/* Products of x.float() and weight.float() are written for a region without autocast, which the
 * meta device does not have (transformers' maybe_autocast, 5.22: routers, rotary tables). */
static void products_of_floats_stay_float(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 32, 64), w = PARAMETER(b, 64, 64);
    int32_t y = linear(b, x, w, -1);
    with_source(b, y,
                "modeling_ernie4_5_moe.py:348: logits = F.linear(x.float(), self.weight.float())");
    finish(b, unary(b, "aten.relu.default", y));
    CHECK_EVENTS(b, &autocast, PL_PHASE_FORWARD, 1, true, "1:8192 2:8192 3:4 -1");
    free(b);
}

/* ---- casts that were none ---- */

static int32_t to_float(built *b, int32_t x, const char *source) {
    pl_node *to = node_of(b, "aten.to.dtype", source, x);
    add_arg(to, "dtype", PL_ARG_DTYPE)->i = PL_DT_F32;
    return gives(b, to, PL_DT_F32, b->tensors[x].dims, b->sizes[x]);
}

/* diffusers' PatchEmbed: (latent + pos_embed).to(latent.dtype). The positions are float32 in a job
 * of bf16 weights; what is named has the type that its line gave. */
static void a_name_tells_the_type(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 32, 64), w = PARAMETER(b, 64, 64);
    int32_t latent = unary(b, "aten.relu.default", linear(b, x, w, -1));
    with_source(b, latent, "embeddings.py:366: latent = latent.flatten(2).transpose(1, 2)");
    pl_node *made = add_node(b, "aten.zeros.default");
    with_ints(b, made, "size", 2, (int64_t[]){32, 64});
    add_arg(made, "dtype", PL_ARG_DTYPE)->i = PL_DT_F32;
    made->source = "embeddings.py:380: pos_embed = pos_embed.float()";
    int32_t positions = GIVES(b, made, 32, 64);
    const char *line = "embeddings.py:388: return (latent + pos_embed).to(latent.dtype)";
    int32_t sum = with_source(b, binary(b, "aten.add.Tensor", latent, positions), line);
    finish(b, unary(b, "aten.exp.default", to_float(b, sum, line)));
    /* product, relu, positions, sum in float, and in bf16, its exponential */
    CHECK_EVENTS(b, &half, PL_PHASE_FORWARD, 1, true,
                 "1:4096 2:4096 -1 3:8192 4:8192 5:4096 -4 6:4096 -5 7:2 -3");
    free(b);
}

/* A function of which the graph shows the call alone (transformers' causal_conv1d_fn, 5.22): x is
 * cast on its way in, and back on its way out, behind an activation whose line is another. */
static void a_call_casts_back(void) {
    const char *line = "modeling_qwen3_5.py:578: mixed_qkv = causal_conv1d_fn(";
    built *b = new_graph();
    int32_t x = INPUT(b, 32, 64), w = PARAMETER(b, 64, 64);
    int32_t layer = module(b, "layer", 0);
    int32_t y = in_module(b, linear(b, x, w, -1), layer);
    with_source(b, y, "modeling_qwen3_5.py:554: mixed_qkv = self.in_proj_qkv(hidden_states)");
    int32_t wide = in_module(b, to_float(b, y, line), layer);
    int32_t out = in_module(b, with_source(b, unary(b, "aten.exp.default", wide), line), layer);
    int32_t active = in_module(b, unary(b, "aten.silu.default", out), layer);
    with_source(b, active, "activations.py:103: return nn.functional.silu(input)");
    int32_t back = in_module(b, to_float(b, active, line), layer);
    finish(b, unary(b, "aten.exp.default", back));
    /* weight, input and product in bf16; the copy in float32, its exponential and silu; bf16 again,
     * which the next exponential casts anew */
    pl_tape *tape = train(b, &autocast);
    if (tape) {
        const char *text = text_of(tape, phase_of(tape, PL_PHASE_FORWARD, 1), true);
        CHECK_STR(
            text,
            "1:8192 2:4096 3:4096 4:8192 5:8192 -4 6:8192 7:4096 -3 -6 8:8192 9:8192 -8 -7 10:4 -1");
    }
    pl_tape_close(&tape);
    free(b);
}

/* x.transpose(1, 2).to(torch.float32, memory_format=torch.contiguous_format) of float32 is x itself,
 * turned; of bf16 it is a copy row by row, and so is what is made of it: it can be seen as other
 * sizes without one more. */
static void layouts_follow_the_casts(void) {
    built *b = new_graph();
    int32_t x = PARAMETER(b, 4, 8, 16);
    pl_node *turn = node_of(b, "aten.transpose.int", "", x);
    with_int(turn, "dim0", 1);
    with_int(turn, "dim1", 2);
    int32_t turned = GIVES(b, turn, 4, 16, 8);
    pl_node *to = node_of(b, "aten.to.dtype",
                          "delta.py:1: x = x.transpose(1, 2).to(torch.float32, "
                          "memory_format=torch.contiguous_format)",
                          turned);
    add_arg(to, "dtype", PL_ARG_DTYPE)->i = PL_DT_F32;
    add_arg(to, "memory_format", PL_ARG_STRING)->s = "contiguous";
    int32_t plain_rows = GIVES(b, to, 4, 16, 8), made = unary(b, "aten.exp.default", plain_rows);
    int32_t like[] = {turned, plain_rows, made};
    for (int i = 0; i < 3; i++) {
        b->strides[like[i]][1] = 1;
        b->strides[like[i]][2] = 16;
    }
    pl_node *rows = node_of(b, "aten.reshape.default", "", made);
    finish(b, GIVES(b, rows, 4, 128));
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true, "1:2048 2:2048 3:4 -2"); /* one more */
    CHECK_EVENTS(b, &half, PL_PHASE_FORWARD, 1, true, "1:2048 2:2048 3:4 -1");
    free(b);
}

/* A linear layer takes arguments of one type: in a bf16 job there was a cast before it that the
 * float32 graph does not show (diffusers' timesteps_proj.to(dtype=hidden_dtype)). */
static void products_agree_on_a_type(void) {
    built *b = new_graph();
    int32_t w = PARAMETER(b, 64, 64);
    pl_node *made = add_node(b, "aten.zeros.default");
    with_ints(b, made, "size", 2, (int64_t[]){32, 64});
    add_arg(made, "dtype", PL_ARG_DTYPE)->i = PL_DT_F32;
    made->source = "embeddings.py:77: emb = timesteps[:, None].float() * emb[None, :]";
    int32_t emb = GIVES(b, made, 32, 64);
    finish(b, linear(b, emb, w, -1));
    CHECK_EVENTS(b, &half, PL_PHASE_FORWARD, 1, true, "1:8192 2:4096 3:4096 4:2 -1 -3");
    free(b);
}

/* transformers' loss functions take logits.float(), whose name the export then has for the logits
 * that the model returns: the wider copy goes with the call, the logits stay. */
static void logits_outlive_their_wider_copy(void) {
    const char *line = "modeling_bert.py:90: loss = self.loss_function(logits=logits)";
    built *b = new_graph();
    int32_t x = INPUT(b, 32, 64), w = PARAMETER(b, 64, 64);
    int32_t logits = linear(b, x, w, -1);
    with_source(b, logits, "modeling_bert.py:80: logits = self.lm_head(hidden_states)");
    int32_t wide = to_float(b, logits, line);
    int32_t loss = with_source(b, unary(b, "aten.exp.default", wide), line);
    finish(b, loss);
    b->nodes[b->graph.node_count - 1].source = line;
    b->results[1] = wide;
    b->graph.output_count = 2;
    pl_tape *tape = train(b, &half);
    if (tape) {
        /* the logits, the copy, its exponential, the loss; the copy goes, then the logits */
        CHECK_STR(text_of(tape, phase_of(tape, PL_PHASE_FORWARD, 1), true),
                  "1:4096 2:8192 3:8192 4:4 -2 -1");
    }
    pl_tape_close(&tape);
    free(b);
}

/* ---- names ---- */

/* The bytes that forward takes at its most beyond what was there. */
static int64_t forward_peak(const built *b) {
    pl_tape *tape = train(b, &plain);
    if (!tape) return -1;
    span s = phase_of(tape, PL_PHASE_FORWARD, 1);
    int64_t bytes = peak(tape, s) - alive(tape, s.begin, PL_KINDS);
    pl_tape_close(&tape);
    return bytes;
}

/* diffusers' AutoencoderTiny quantizes what its encoder gave to bytes: no gradient goes back, but
 * the name enc, of the line that called the encoder, holds it and all that led to it until the call
 * ends. */
static void a_name_that_is_read_is_held(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 32, 64), w = PARAMETER(b, 64, 64), v = PARAMETER(b, 64, 64);
    int32_t encoder = module(b, "encoder", 0), decoder = module(b, "decoder", 0);
    b->modules[encoder].line = "autoencoder_tiny.py:306: enc = self.encode(sample).latents";
    b->modules[decoder].line = "autoencoder_tiny.py:316: dec = self.decode(unscaled_enc).sample";
    const char *inside = "vae.py:818: return self.layers(x)";
    int32_t enc = with_source(b, in_module(b, linear(b, x, w, -1), encoder), inside);
    enc = with_source(b, in_module(b, unary(b, "aten.exp.default", enc), encoder), inside);
    pl_node *to =
        node_of(b, "aten.to.dtype", "autoencoder_tiny.py:310: scaled_enc = self.scale(enc)", enc);
    add_arg(to, "dtype", PL_ARG_DTYPE)->i = PL_DT_U8;
    int32_t bytes = gives(b, to, PL_DT_U8, SIZES(32, 64));
    pl_node *wider =
        node_of(b, "aten.to.dtype",
                "autoencoder_tiny.py:314: unscaled_enc = self.unscale(scaled_enc)", bytes);
    add_arg(wider, "dtype", PL_ARG_DTYPE)->i = PL_DT_F32;
    int32_t dec = in_module(b, linear(b, GIVES(b, wider, 32, 64), v, -1), decoder);
    with_source(b, dec, inside);
    dec = in_module(b, unary(b, "aten.exp.default", dec), decoder);
    finish(b, with_source(b, dec, inside));
    /* the encoder's exponential, bytes, floats, the decoder's two */
    CHECK_INT(forward_peak(b), 8192 + 2048 + 3 * 8192);
    b->modules[encoder].line = "autoencoder_tiny.py:306: self.encode(sample)"; /* none holds it */
    CHECK_INT(forward_peak(b), 2048 + 3 * 8192);
    free(b);
}

/* x = block(x) in a loop: what x was before goes when the first block has returned, what a block
 * gave when the next one has. */
static void loops_let_go(void) {
    built *b = new_graph();
    int32_t x = INPUT(b, 32, 64), w = PARAMETER(b, 64, 64);
    int32_t stem = module(b, "stem", 0);
    b->modules[stem].line = "net.py:10: x = self.stem(x)";
    int32_t y = with_source(b, in_module(b, linear(b, x, w, -1), stem), "stem.py:1: return x @ w");
    for (int i = 0; i < 2; i++) {
        int32_t block = module(b, i ? "blocks.1" : "blocks.0", 0);
        b->modules[block].line = "net.py:12: x = block(x)";
        y = with_source(b, in_module(b, unary(b, "aten.add.Scalar", y), block),
                        "b.py:1: return x + 1");
    }
    pl_node *tail = node_of(b, "aten.mul.Scalar", "net.py:14: return x * 2", y);
    finish(b, GIVES(b, tail, 32, 64));
    CHECK_EVENTS(b, &plain, PL_PHASE_FORWARD, 1, true,
                 "1:8192 2:8192 -1 3:8192 -2 4:8192 5:4 -3 -4");
    free(b);
}

int main(void) {
    RUN(substitution_is_a_triangular_solve);
    RUN(other_loops_stay);
    RUN(masks_of_nothing_are_not_added);
    RUN(masks_have_the_type_of_the_model);
    RUN(groups_of_large_heads_are_repeated);
    RUN(flash_pads_heads);
    RUN(rms_norm_of_two_types);
    RUN(copies_made_without_gradients_lead_on);
    RUN(products_of_floats_stay_float);
    RUN(a_name_tells_the_type);
    RUN(a_call_casts_back);
    RUN(layouts_follow_the_casts);
    RUN(products_agree_on_a_type);
    RUN(logits_outlive_their_wider_copy);
    RUN(a_name_that_is_read_is_held);
    RUN(loops_let_go);
    return check_done();
}
