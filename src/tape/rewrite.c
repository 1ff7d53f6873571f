/* rewrite: see rewrite.h.
 *
 * Hugging Face transformers (masking_utils.py, integrations/sdpa_attention.py, 5.17) makes an
 * attention mask only when it must: without padding it calls scaled_dot_product_attention with
 * is_causal and, for grouped heads, with enable_gqa. Under torch.export it cannot look, so the
 * graph holds the mask, its making, and keys and values repeated for every head. Eager mode, which
 * trains, has none of that (operator traces of hf-gpt2-0, hf-llama-1b-0; 2026-11-15). A mask is
 * taken out where its making says so by name, depends on no input of the model, and its window (if
 * it slides) is as long as the sequence. Where a model has a bias of its own (T5), the export
 * selects between bias and minus infinity by a mask repeated for every sample; eager mode passes
 * the bias as it is, or, for a causal mask, selects once for all samples (hf-t5-small-0).
 *
 * Gated delta nets (modeling_qwen3_5.py and its kin, 5.22) solve a triangular system; under
 * torch.export, "since not all export targets support the fast triangular solver", they substitute
 * row by row and multiply. */
#include "tape/rewrite.h"

#include <string.h>

static const char *const mask_makers[] = {"create_causal_mask(",
                                          "create_sliding_window_causal_mask(",
                                          "create_chunked_causal_mask(",
                                          "create_bidirectional_mask(",
                                          "create_masks_for_generate(",
                                          "_update_causal_mask(",
                                          "_prepare_4d_causal_attention_mask_for_sdpa(",
                                          "_prepare_4d_attention_mask_for_sdpa(",
                                          "_create_attention_masks(",
                                          "mask_function(",
                                          "mask_creation_functions["};

/* Models that ask for the mask in any case (allow_is_causal_skip=False). */
static const char *const mask_keepers[] = {"transformers.models.falcon.",
                                           "transformers.models.diffusion_gemma."};

static bool keeps_mask(const pl_graph *g, int32_t node) {
    int32_t m = g->nodes[node].module;
    for (size_t i = 0; m >= 0 && i < sizeof mask_keepers / sizeof *mask_keepers; i++)
        if (strncmp(g->modules[m].type, mask_keepers[i], strlen(mask_keepers[i])) == 0) return true;
    return false;
}

/* The one that a line calls, or NULL. (Comments behind it may name others.) */
static const char *mask_maker(const char *source) {
    for (size_t i = 0; i < sizeof mask_makers / sizeof *mask_makers; i++)
        if (strstr(source, mask_makers[i])) return mask_makers[i];
    return NULL;
}

bool pl_makes_mask(const char *source) {
    return mask_maker(source) != NULL;
}

/* By the line of code; in a graph without stack traces, by the module that holds it. */
static bool makes_mask(const pl_graph *g, int32_t node) {
    const char *source = g->nodes[node].source;
    int32_t m = g->nodes[node].module;
    if (!*source) return m >= 0 && strncmp(g->modules[m].type, "transformers.", 13) == 0;
    return pl_makes_mask(source);
}

typedef struct cone {
    const pl_graph *graph;
    uint8_t *seen;   /* [node_count] */
    int32_t *stack;  /* [node_count] */
    int64_t window;  /* largest number subtracted from a position */
    bool from_input; /* depends on an input of the model */
    bool positions;  /* made of arange, or of a triangle */
    bool causal;     /* compares two positions with <= */
    bool slides;     /* .. with >, or divides positions into chunks */
} cone;

static void walk_tensor(cone *c, int32_t id, int32_t *top) {
    if (id < 0) return;
    const pl_tensor *t = &c->graph->tensors[id];
    if (t->role == PL_ROLE_INPUT || t->role == PL_ROLE_PARAMETER) c->from_input = true;
    if (t->producer >= 0 && !c->seen[t->producer]) {
        c->seen[t->producer] = 1;
        c->stack[(*top)++] = t->producer;
    }
}

static void walk(cone *c, int32_t id) {
    int32_t top = 0;
    walk_tensor(c, id, &top);
    while (top > 0) {
        const pl_node *n = &c->graph->nodes[c->stack[--top]];
        bool subtracts = strcmp(n->target, "aten.sub.Tensor") == 0;
        bool triangle = strncmp(n->target, "aten.tri", 8) == 0;
        c->positions |= triangle || strncmp(n->target, "aten.arange.", 12) == 0;
        c->causal |= triangle || strcmp(n->target, "aten.le.Tensor") == 0 ||
                     strcmp(n->target, "aten.ge.Tensor") == 0;
        c->slides |= strcmp(n->target, "aten.gt.Tensor") == 0 ||
                     strncmp(n->target, "aten.floor_divide.", 18) == 0;
        for (uint32_t i = 0; i < n->arg_count; i++) {
            const pl_arg *arg = &n->args[i];
            if (arg->kind == PL_ARG_TENSOR) walk_tensor(c, arg->tensor, &top);
            for (uint32_t k = 0; arg->kind == PL_ARG_TENSORS && k < arg->count; k++)
                walk_tensor(c, arg->list[k], &top);
            if (subtracts && arg->kind == PL_ARG_INT && arg->i > c->window) c->window = arg->i;
        }
    }
}

/* The node behind a tensor, past the views and slices that layers put on a mask. */
static int32_t maker_of(const pl_graph *g, int32_t id) {
    static const char *const passing[] = {
        "aten.slice.Tensor",  "aten.expand.default",  "aten.to.dtype",         "aten.to.device",
        "aten.alias.default", "aten.to.dtype_layout", "aten.unsqueeze.default"};
    for (int steps = 0; steps < 16 && id >= 0; steps++) {
        int32_t at = g->tensors[id].producer;
        if (at < 0 || makes_mask(g, at)) return at;
        bool passes = false;
        for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
            passes |= strcmp(g->nodes[at].target, passing[i]) == 0;
        if (!passes || g->nodes[at].arg_count == 0 || g->nodes[at].args[0].kind != PL_ARG_TENSOR)
            return -1;
        id = g->nodes[at].args[0].tensor;
    }
    return -1;
}

/* where(mask, bias, -inf): the bias, or -1. *condition: the mask. */
static int32_t masked_bias(const pl_graph *g, int32_t id, int32_t *condition) {
    int32_t at = id >= 0 ? g->tensors[id].producer : -1;
    if (at < 0 || strncmp(g->nodes[at].target, "aten.where.", 11) != 0) return -1;
    const pl_node *n = &g->nodes[at];
    if (n->arg_count < 3 || n->args[0].kind != PL_ARG_TENSOR || n->args[1].kind != PL_ARG_TENSOR)
        return -1;
    *condition = n->args[0].tensor;
    return n->args[1].tensor;
}

/* What a copy made contiguous was before, or the same tensor (5.22 lays a bias out so). */
static int32_t before_contiguous(const pl_graph *g, int32_t id) {
    int32_t at = id >= 0 ? g->tensors[id].producer : -1;
    bool copies = at >= 0 && strcmp(g->nodes[at].target, "aten.contiguous.default") == 0 &&
                  g->nodes[at].arg_count > 0 && g->nodes[at].args[0].kind == PL_ARG_TENSOR;
    return copies ? g->nodes[at].args[0].tensor : id;
}

/* Tensor id gets the sizes of like, and is laid out row by row. */
static bool resize_like(pl_graph *g, pl_arena *arena, int32_t id, const pl_tensor *like) {
    int64_t *strides = pl_arena_array(arena, (size_t)like->dims + 1, sizeof *strides), stride = 1;
    if (!strides) return false;
    for (int i = like->dims; i-- > 0; stride *= like->sizes[i]) strides[i] = stride;
    g->tensors[id].sizes = like->sizes;
    g->tensors[id].strides = strides;
    return true;
}

/* repeat_kv: unsqueeze, expand, reshape; the tensor before them, or the same one. */
static int32_t before_repeat(const pl_graph *g, int32_t id) {
    static const char *const chain[] = {"aten.reshape.default", "aten.expand.default",
                                        "aten.unsqueeze.default"};
    int32_t at = id;
    for (int i = 0; i < 3; i++) {
        int32_t node = at >= 0 ? g->tensors[at].producer : -1;
        bool alike =
            node >= 0 && (strcmp(g->nodes[node].target, chain[i]) == 0 ||
                          (i == 2 && strncmp(g->nodes[node].target, "aten.slice.", 11) == 0));
        /* x[:, :, None, :, :] is slices around the unsqueeze */
        while (alike && strncmp(g->nodes[node].target, "aten.slice.", 11) == 0 &&
               g->nodes[node].args[0].kind == PL_ARG_TENSOR) {
            node = g->tensors[g->nodes[node].args[0].tensor].producer;
            alike = node >= 0;
        }
        if (!alike || strcmp(g->nodes[node].target, chain[i]) != 0 ||
            g->nodes[node].args[0].kind != PL_ARG_TENSOR)
            return id;
        at = g->nodes[node].args[0].tensor;
    }
    while (g->tensors[at].producer >= 0) {
        const pl_node *n = &g->nodes[g->tensors[at].producer];
        bool whole = strncmp(n->target, "aten.slice.", 11) == 0 &&
                     n->args[0].kind == PL_ARG_TENSOR &&
                     pl_tensor_elements(&g->tensors[n->args[0].tensor]) ==
                         pl_tensor_elements(&g->tensors[at]);
        if (!whole) break;
        at = n->args[0].tensor;
    }
    return g->tensors[at].dims == 4 ? at : id;
}

/* use_gqa_in_sdpa (sdpa_attention.py, 5.22): heads that a kernel takes; others are repeated in eager
 * mode too. */
static bool takes_groups(const pl_tensor *key, const pl_tensor *value) {
    enum { LARGEST_HEAD = 256 };
    return key->dims > 0 && value->dims > 0 &&
           key->sizes[key->dims - 1] == value->sizes[value->dims - 1] &&
           key->sizes[key->dims - 1] <= LARGEST_HEAD;
}

/* Modules whose call is an autograd function written in Python: export looks through it and shows
 * the operators of its forward, which eager mode runs without recording them. */
static const struct {
    const char *type, *target;
} own_functions[] = {
    {"transformers.models.bloom.modeling_bloom.BloomGelu", "transformers.bloom_gelu.default"}};

static const char *own_function(const pl_graph *g, int32_t node) {
    int32_t m = g->nodes[node].module;
    for (size_t i = 0; m >= 0 && i < sizeof own_functions / sizeof *own_functions; i++)
        if (strcmp(g->modules[m].type, own_functions[i].type) == 0) return own_functions[i].target;
    return NULL;
}

/* Products that models compute in float whatever autocast says, in a region without it that the
 * graph does not show: on the meta device, on which models are exported, there is no autocast, and
 * code asks first (transformers' maybe_autocast, 5.22). By the module, or by their line:
 * F.linear(x.float(), self.weight.float()). (Of matmul(q.float(), k.float()) there are those that
 * autocast casts back, DeepSeek V3.2's indexer.) */
static const char *const float_products[] = {"timm.models.efficientvit_mit.LiteMLA"};

static bool in_float(const pl_graph *g, const pl_node *n) {
    static const char *const products[] = {"aten.matmul.", "aten.linear.", "aten.bmm.",
                                           "aten.baddbmm.", "aten.mm."};
    bool product = false;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        product |= strncmp(n->target, products[i], strlen(products[i])) == 0;
    if (!product || n->autocast != PL_AUTOCAST_JOB) return false;
    for (size_t i = 0; n->module >= 0 && i < sizeof float_products / sizeof *float_products; i++)
        if (strcmp(g->modules[n->module].type, float_products[i]) == 0) return true;
    return strstr(n->source, "weight.float()") != NULL;
}

/* first..last, the nodes of one call, become one operator over the call's input; the others are
 * then swept. */
static bool join_call(pl_graph *g, pl_arena *arena, int32_t first, int32_t last,
                      const char *target) {
    if (g->nodes[first].arg_count == 0 || g->nodes[first].args[0].kind != PL_ARG_TENSOR)
        return true;
    pl_arg *args = pl_arena_array(arena, 1, sizeof *args);
    if (!args) return false;
    args[0] = g->nodes[first].args[0];
    args[0].name = "self";
    g->nodes[last].args = args;
    g->nodes[last].arg_count = 1;
    g->nodes[last].target = target;
    return true;
}

/* What substitution by rows is made of, beside the matrix it fills in. */
static const char *const substitution[] = {
    "aten.neg.default",       "aten.select.int",   "aten.slice.Tensor",    "aten.clone.default",
    "aten.unsqueeze.default", "aten.mul.Tensor",   "aten.sum.dim_IntList", "aten.add.Tensor",
    "aten.copy_.default",     "aten.alias.default"};

static bool is_tensor(const pl_node *n, uint32_t position) {
    return position < n->arg_count && n->args[position].kind == PL_ARG_TENSOR &&
           n->args[position].tensor >= 0;
}

static bool substitutes(const char *target) {
    for (size_t i = 0; i < sizeof substitution / sizeof *substitution; i++)
        if (strcmp(target, substitution[i]) == 0) return true;
    return false;
}

/* -x.tril(-1) is filled in row by row, the identity added, and what comes of it is multiplied from
 * the left alone: each product becomes the solution of (x with ones on its diagonal) y = b, and
 * nothing of the rest runs. first: the tril; made: [tensor_count]. false: out of memory. */
static bool join_substitution(pl_graph *g, pl_arena *arena, int32_t first, uint8_t *made) {
    const pl_node *n = &g->nodes[first];
    if (!is_tensor(n, 0) || n->output_count != 1 || n->outputs[0] < 0 ||
        pl_node_int(n, "diagonal", 0) != -1)
        return true;
    enum { PRODUCTS = 8 };
    int32_t system = n->args[0].tensor, products[PRODUCTS], last = first;
    int count = 0, rows = 0;
    memset(made, 0, (size_t)g->tensor_count);
    made[n->outputs[0]] = 1;
    for (int32_t i = first + 1; i < g->node_count; i++) {
        const pl_node *at = &g->nodes[i];
        bool reached = false;
        for (uint32_t k = 0; k < at->arg_count; k++)
            reached |= is_tensor(at, k) && made[at->args[k].tensor];
        if (!reached) continue;
        if (strcmp(at->target, "aten.matmul.default") == 0) {
            if (count == PRODUCTS || !is_tensor(at, 1) || !made[at->args[0].tensor] ||
                made[at->args[1].tensor])
                return true;
            products[count++] = i;
            continue;
        }
        if (count > 0 || !substitutes(at->target)) return true;
        rows += strcmp(at->target, "aten.copy_.default") == 0;
        for (uint32_t k = 0; k < at->output_count; k++)
            if (at->outputs[k] >= 0) made[at->outputs[k]] = 1;
        last = i;
    }
    for (int32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] >= 0 && made[g->outputs[i]]) return true;
    if (count == 0 || rows == 0) return true;
    for (int i = 0; i < count; i++) {
        pl_node *product = &g->nodes[products[i]];
        pl_arg *args = pl_arena_array(arena, 5, sizeof *args);
        if (!args) return false;
        args[0] = (pl_arg){.name = "self", .kind = PL_ARG_TENSOR, .tensor = system};
        args[1] = product->args[1];
        args[1].name = "B";
        args[2] = (pl_arg){.name = "upper", .kind = PL_ARG_BOOL};
        args[3] = (pl_arg){.name = "left", .kind = PL_ARG_BOOL, .i = 1};
        args[4] = (pl_arg){.name = "unitriangular", .kind = PL_ARG_BOOL, .i = 1};
        product->args = args;
        product->arg_count = 5;
        product->target = "aten.linalg_solve_triangular.default";
    }
    for (int32_t i = first; i <= last; i++) { /* what was written in place has uses no more */
        pl_node *at = &g->nodes[i];
        bool gone = at->output_count > 0;
        for (uint32_t k = 0; k < at->output_count; k++)
            gone &= at->outputs[k] < 0 || made[at->outputs[k]];
        if (!gone) continue;
        at->arg_count = at->output_count = 0;
        at->target = "aten._assert_async.default";
    }
    return true;
}

static void count_uses(const pl_graph *g, int32_t *uses) {
    for (int32_t i = 0; i < g->node_count; i++)
        for (uint32_t k = 0; k < g->nodes[i].arg_count; k++) {
            const pl_arg *arg = &g->nodes[i].args[k];
            if (arg->kind == PL_ARG_TENSOR && arg->tensor >= 0) uses[arg->tensor]++;
            for (uint32_t j = 0; arg->kind == PL_ARG_TENSORS && j < arg->count; j++)
                if (arg->list[j] >= 0) uses[arg->list[j]]++;
        }
    for (int32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] >= 0) uses[g->outputs[i]]++;
}

/* Takes out, from the last to the first, the nodes that were only there for what is not used now.
 */
static void sweep(pl_graph *g, const int32_t *before, int32_t *uses) {
    for (int32_t i = g->node_count; i-- > 0;) {
        pl_node *n = &g->nodes[i];
        bool dead = n->output_count > 0, was_used = false;
        for (uint32_t k = 0; k < n->output_count; k++) {
            if (n->outputs[k] < 0) continue;
            dead &= uses[n->outputs[k]] == 0;
            was_used |= before[n->outputs[k]] > 0;
        }
        /* checks of a tensor's type hold nothing alive */
        bool check = strncmp(n->target, "aten._assert", 12) == 0;
        if (!(dead && was_used) && !check) continue;
        for (uint32_t k = 0; k < n->arg_count; k++) {
            const pl_arg *arg = &n->args[k];
            if (arg->kind == PL_ARG_TENSOR && arg->tensor >= 0) uses[arg->tensor]--;
            for (uint32_t j = 0; arg->kind == PL_ARG_TENSORS && j < arg->count; j++)
                if (arg->list[j] >= 0) uses[arg->list[j]]--;
        }
        n->arg_count = n->output_count = 0;
        n->target = "aten._assert_async.default";
    }
}

/* Whether eager mode calls the attention without this mask; c then says whether it is causal. A
 * sliding window must be longer than the sequence (_ignore_causal_mask_sdpa). */
static bool skips(const pl_graph *g, cone *c, int32_t mask, int32_t key) {
    int32_t maker = maker_of(g, mask);
    if (maker < 0 || keeps_mask(g, maker)) return false;
    memset(c->seen, 0, (size_t)g->node_count);
    c->window = 0;
    c->from_input = c->positions = c->causal = c->slides = false;
    walk(c, mask);
    const pl_tensor *k = &g->tensors[key];
    const char *source = g->nodes[maker].source;
    if (c->from_input || (!*source && !c->positions)) return false;
    const char *called = mask_maker(source);
    /* mask_function( and a table of them stand for one: its operators say which */
    if (called && !strstr(called, "mask_function") && !strstr(called, "mask_creation_functions")) {
        c->slides = strstr(called, "sliding") || strstr(called, "chunked");
        c->causal = !strstr(called, "bidirectional") && !strstr(called, "attention_mask_for") &&
                    !strstr(called, "attention_masks");
    }
    return !c->slides || (k->dims >= 2 && c->window > k->sizes[k->dims - 2]);
}

static bool start_walk(cone *c, pl_arena *arena) {
    if (c->seen) return true;
    size_t count = (size_t)c->graph->node_count;
    c->seen = pl_arena_array(arena, count, 1);
    c->stack = pl_arena_array(arena, count, sizeof *c->stack);
    return c->seen && c->stack;
}

/* scores + mask of attention that is written out: the mask, or -1. */
static int32_t added_mask(const pl_graph *g, const pl_node *n) {
    if (strcmp(n->target, "aten.add.Tensor") != 0 || !is_tensor(n, 0) || !is_tensor(n, 1))
        return -1;
    int32_t id = n->args[1].tensor, at = id;
    for (int steps = 0; steps < 4 && g->tensors[at].producer >= 0; steps++) {
        const pl_node *made = &g->nodes[g->tensors[at].producer];
        if (strncmp(made->target, "aten.where.", 11) == 0)
            return g->tensors[id].dims == 4 ? id : -1;
        if (!is_tensor(made, 0)) return -1;
        at = made->args[0].tensor;
    }
    return -1;
}

/* A copy whose nodes and tensors can be changed. */
static pl_graph *copy_graph(const pl_graph *graph, pl_arena *arena) {
    pl_graph *g = pl_arena_alloc(arena, sizeof *g);
    pl_node *nodes = pl_arena_array(arena, (size_t)graph->node_count, sizeof *nodes);
    pl_tensor *tensors = pl_arena_array(arena, (size_t)graph->tensor_count, sizeof *tensors);
    if (!g || !nodes || !tensors) return NULL;
    *g = *graph;
    memcpy(nodes, graph->nodes, (size_t)graph->node_count * sizeof *nodes);
    memcpy(tensors, graph->tensors, (size_t)graph->tensor_count * sizeof *tensors);
    g->nodes = nodes;
    g->tensors = tensors;
    return g;
}

const pl_graph *pl_rewrite(const pl_graph *graph, pl_arena *arena) {
    pl_graph *g = NULL;
    cone c = {.graph = graph};
    int32_t *before = NULL, *uses = NULL, last_mask = -1, last_added = -1;
    uint8_t *made = NULL; /* [tensor_count] */
    bool last_skips = false, drops = false;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const pl_node *n = &graph->nodes[i];
        const char *own = own_function(graph, i);
        if (own) {
            int32_t last = i;
            while (last + 1 < graph->node_count && graph->nodes[last + 1].module == n->module)
                last++;
            if (!g && !(g = copy_graph(graph, arena))) return NULL;
            if (!join_call(g, arena, i, last, own)) return NULL;
            i = last;
            continue;
        }
        if (in_float(graph, n)) {
            if (!g && !(g = copy_graph(graph, arena))) return NULL;
            g->nodes[i].autocast = PL_AUTOCAST_OFF;
            continue;
        }
        if (strcmp(n->target, "aten.tril.default") == 0) {
            if (!g && !(g = copy_graph(graph, arena))) return NULL;
            if (!made && !(made = pl_arena_array(arena, (size_t)graph->tensor_count, 1)))
                return NULL;
            if (!join_substitution(g, arena, i, made)) return NULL;
            continue;
        }
        int32_t added = added_mask(graph, n);
        if (added >= 0) { /* a mask of nothing: eager mode has None there */
            if (!start_walk(&c, arena)) return NULL;
            if (added != last_added)
                drops = skips(graph, &c, added, n->args[0].tensor) && !c.causal;
            last_added = added;
            last_mask = -1; /* c says no more what it was */
            if (!drops) continue;
            if (!g && !(g = copy_graph(graph, arena))) return NULL;
            g->nodes[i].target = "aten.alias.default";
            g->nodes[i].arg_count = 1;
            continue;
        }
        if (strcmp(n->target, "aten.scaled_dot_product_attention.default") != 0) continue;
        int32_t mask = pl_node_tensor(n, "attn_mask"), key = pl_node_tensor(n, "key"),
                value = pl_node_tensor(n, "value");
        int32_t query = pl_node_tensor(n, "query");
        if (mask < 0 || key < 0 || value < 0 || query < 0) continue;
        int32_t copied = mask, where = before_contiguous(graph, mask), condition = mask,
                bias = masked_bias(graph, where, &condition);
        mask = condition;
        if (!start_walk(&c, arena)) return NULL;
        /* layers share a mask: look once */
        bool skip = mask == last_mask ? last_skips : skips(graph, &c, mask, key);
        last_mask = mask;
        last_skips = skip;
        if (!skip) continue;
        if (!g && !(g = copy_graph(graph, arena))) return NULL;
        bool causal = c.causal;
        if (bias >= 0 && causal) { /* selected once for all samples */
            g->tensors[where].sizes = graph->tensors[bias].sizes;
            g->tensors[where].strides = graph->tensors[bias].strides;
            if (copied != where && !resize_like(g, arena, copied, &graph->tensors[bias]))
                return NULL;
            continue;
        }
        if (bias >= 0 && copied != where) { /* the copy is of the bias itself */
            pl_arg *copy = pl_arena_array(arena, 1, sizeof *copy);
            pl_node *copies = &g->nodes[graph->tensors[copied].producer];
            if (!copy || !resize_like(g, arena, copied, &graph->tensors[bias])) return NULL;
            copy[0] = copies->args[0];
            copy[0].tensor = bias;
            copies->args = copy;
            copies->arg_count = 1;
            bias = copied;
        }
        pl_arg *args = pl_arena_array(arena, n->arg_count + 2, sizeof *args);
        if (!args) return NULL;
        uint32_t count = 0;
        bool grouped = takes_groups(&graph->tensors[key], &graph->tensors[value]);
        for (uint32_t k = 0; k < n->arg_count; k++) {
            pl_arg arg = n->args[k];
            if (strcmp(arg.name, "attn_mask") == 0 && bias >= 0)
                arg.tensor = bias;
            else if (strcmp(arg.name, "attn_mask") == 0)
                continue;
            if (strcmp(arg.name, "is_causal") == 0 || strcmp(arg.name, "enable_gqa") == 0) continue;
            if (grouped && strcmp(arg.name, "key") == 0) arg.tensor = before_repeat(graph, key);
            if (grouped && strcmp(arg.name, "value") == 0) arg.tensor = before_repeat(graph, value);
            args[count++] = arg;
        }
        args[count++] = (pl_arg){.name = "is_causal", .kind = PL_ARG_BOOL, .i = causal && bias < 0};
        args[count++] = (pl_arg){.name = "enable_gqa", .kind = PL_ARG_BOOL, .i = 1};
        g->nodes[i].args = args;
        g->nodes[i].arg_count = count;
    }
    if (!g) return graph;
    if (!before) before = pl_arena_array(arena, (size_t)graph->tensor_count, sizeof *before);
    if (!uses) uses = pl_arena_array(arena, (size_t)graph->tensor_count, sizeof *uses);
    if (!before || !uses) return NULL;
    count_uses(graph, before);
    count_uses(g, uses);
    sweep(g, before, uses);
    return g;
}
