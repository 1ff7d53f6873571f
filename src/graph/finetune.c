/* finetune: see finetune.h.
 *
 * Adapters as PEFT 0.21 puts them (tuners/lora/layer.py, bnb.py; utils/constants.py for the modules
 * that each model type gets by default; tuners_utils.py for how names are matched): the layer
 * becomes a module whose base_layer is the old one, beside lora_A [r, in] and lora_B [out, r],
 * which are float32 whatever the model is. The input is cast to their type, the product scaled and
 * added, the sum cast back. 4-bit weights as transformers 5 and bitsandbytes 0.50 make them: every
 * Linear and Conv1D but the output layer, tied weights and the module of the last parameter.
 *
 * Left out: dropout on the adapters (PEFT's default is none), adapters on embeddings, convolutions
 * and nn.MultiheadAttention, DoRA and other variants, modules_to_save, linear layers that an export
 * has decomposed into a transposed product. */
#include "graph/finetune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"

enum { MOST_RANK = 1 << 16 };

/* ---- the text ---- */

pl_status pl_finetune_parse(pl_finetune *out, const char *text, pl_error *err) {
    static const struct {
        const char *name;
        pl_finetune_kind kind;
    } kinds[] = {{"all", PL_FINETUNE_ALL},
                 {"head", PL_FINETUNE_HEAD},
                 {"lora-r", PL_FINETUNE_LORA},
                 {"qlora-r", PL_FINETUNE_QLORA}};
    *out = (pl_finetune){0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, length) != 0) continue;
        const char *rest = text + length;
        out->kind = kinds[i].kind;
        if (kinds[i].kind <= PL_FINETUNE_HEAD) {
            if (!*rest) return PL_OK;
            continue;
        }
        size_t digits = strspn(rest, "0123456789");
        if (digits == 0 || digits > 9) break;
        out->rank = strtoll(rest, NULL, 10);
        if (out->rank < 1 || out->rank > MOST_RANK)
            return pl_fail(err, PL_USAGE, "--train", -1, "rank %.*s is not between 1 and %d",
                           (int)digits, rest, MOST_RANK);
        rest += digits;
        if (!*rest) return PL_OK;
        if (*rest != ':' || !rest[1]) break;
        out->modules = rest + 1;
        return PL_OK;
    }
    return pl_fail(err, PL_USAGE, "--train", -1,
                   "\"%.100s\" is none of all, head, lora-rN[:MODULES], qlora-rN[:MODULES] "
                   "(lora-r16, lora-r8:q_proj,v_proj, qlora-r64:all-linear)",
                   text);
}

/* ---- linear layers ---- */

/* One call of a linear layer: nn.Linear is one node, Conv1D a view, addmm and a view. */
typedef struct layer {
    const char *path; /* of its module; not ended by 0 */
    size_t length;
    int32_t node, first, last;           /* the product; its first and last node */
    int32_t weight, bias, input, output; /* tensors; bias -1: none */
    int64_t in, out;                     /* features */
    int32_t same;                        /* the first layer with this weight: itself, or another call's */
    int32_t a, b;                        /* adapters, in the new graph */
    bool adapted, packed;
} layer;

typedef struct changer {
    const pl_graph *from;
    pl_graph to;
    pl_arena *arena;
    const pl_finetune *how;
    layer *layers;
    int32_t layer_count;
    int32_t *map;         /* [tensor_count] old tensor to new */
    int32_t *adapter_of;  /* [tensor_count] the layer whose adapters stand behind it, -1 */
    bool failed;          /* out of memory */
} changer;

static const pl_module *module_of(const pl_graph *g, int32_t node) {
    return g->nodes[node].module >= 0 ? &g->modules[g->nodes[node].module] : NULL;
}

static bool ends_with(const char *text, size_t length, const char *end) {
    size_t n = strlen(end);
    return length >= n && memcmp(text + length - n, end, n) == 0;
}

/* The module a layer is: that of its node, or, in graphs without modules, that of its weight. */
static bool name_layer(const pl_graph *g, layer *l) {
    const pl_module *m = module_of(g, l->node);
    const pl_tensor *w = &g->tensors[l->weight];
    size_t type = m ? strlen(m->type) : 0;
    if (m && ends_with(m->type, type, "MultiheadAttention")) return false;
    if (m && *m->path && (ends_with(m->type, type, "Linear") || ends_with(m->type, type, "Conv1D"))) {
        l->path = m->path;
        l->length = strlen(m->path);
        return true;
    }
    if (!w->path || !ends_with(w->path, strlen(w->path), ".weight")) return false;
    l->path = w->path;
    l->length = strlen(w->path) - strlen(".weight");
    return true;
}

static bool is_matrix_parameter(const pl_graph *g, int32_t id) {
    return id >= 0 && g->tensors[id].role == PL_ROLE_PARAMETER && g->tensors[id].dims == 2 &&
           pl_dtype_is_float(g->tensors[id].dtype);
}

static bool is_view(const pl_graph *g, int32_t node, int32_t module) {
    return node >= 0 && node < g->node_count && g->nodes[node].module == module &&
           strcmp(g->nodes[node].target, "aten.view.default") == 0;
}

/* Whether node i is a linear layer's product; fills *l. */
static bool read_layer(const pl_graph *g, int32_t i, layer *l) {
    const pl_node *n = &g->nodes[i];
    bool linear = strcmp(n->target, "aten.linear.default") == 0;
    if ((!linear && strcmp(n->target, "aten.addmm.default") != 0) || n->output_count != 1 ||
        n->outputs[0] < 0)
        return false;
    *l = (layer){.node = i,
                 .first = i,
                 .last = i,
                 .weight = pl_node_tensor(n, linear ? "weight" : "mat2"),
                 .bias = pl_node_tensor(n, linear ? "bias" : "self"),
                 .input = pl_node_tensor(n, linear ? "input" : "mat1"),
                 .output = n->outputs[0]};
    if (l->input < 0 || !is_matrix_parameter(g, l->weight) || !name_layer(g, l)) return false;
    const int64_t *sizes = g->tensors[l->weight].sizes;
    l->in = sizes[linear ? 1 : 0];
    l->out = sizes[linear ? 0 : 1];
    if (!linear && is_view(g, i - 1, n->module) && is_view(g, i + 1, n->module) &&
        g->nodes[i - 1].outputs[0] == l->input &&
        pl_node_tensor(&g->nodes[i + 1], "self") == l->output) {
        l->first = i - 1;
        l->last = i + 1;
        l->input = pl_node_tensor(&g->nodes[i - 1], "self");
        l->output = g->nodes[i + 1].outputs[0];
    }
    const pl_tensor *x = &g->tensors[l->input], *y = &g->tensors[l->output];
    return x->dims > 0 && y->dims == x->dims && x->sizes[x->dims - 1] == l->in &&
           y->sizes[y->dims - 1] == l->out;
}

static bool find_layers(changer *c) {
    const pl_graph *g = c->from;
    c->layers = pl_arena_array(c->arena, (size_t)g->node_count + 1, sizeof *c->layers);
    int32_t *of_weight = pl_arena_array(c->arena, (size_t)g->tensor_count + 1, sizeof *of_weight);
    if (!c->layers || !of_weight) return false;
    for (int32_t i = 0; i < g->node_count; i++) {
        layer *l = &c->layers[c->layer_count];
        if (!read_layer(g, i, l)) continue;
        if (!of_weight[l->weight]) of_weight[l->weight] = c->layer_count + 1;
        l->same = of_weight[l->weight] - 1;
        c->layer_count++;
    }
    return true;
}

/* ---- names ---- */

/* utils/constants.py: what each of transformers' model types gets. Types are folders of
 * transformers.models. */
static const struct {
    const char *type, *modules;
} type_modules[] = {
    {"bart", "q_proj,v_proj"},
    {"bert", "query,value"},
    {"bloom", "query_key_value"},
    {"codegen", "qkv_proj"},
    {"deberta", "in_proj"},
    {"deberta_v2", "query_proj,value_proj"},
    {"electra", "query,value"},
    {"falcon", "query_key_value"},
    {"gemma", "q_proj,v_proj"},
    {"gemma2", "q_proj,v_proj"},
    {"gemma3", "q_proj,v_proj"},
    {"gpt2", "c_attn"},
    {"gpt_bigcode", "c_attn"},
    {"gpt_neo", "q_proj,v_proj"},
    {"gpt_neox", "query_key_value"},
    {"gptj", "q_proj,v_proj"},
    {"layoutlm", "query,value"},
    {"llama", "q_proj,v_proj"},
    {"mistral", "q_proj,v_proj"},
    {"mixtral", "q_proj,v_proj"},
    {"mpt", "Wqkv"},
    {"mt5", "q,v"},
    {"nemotron_h", "q_proj,k_proj,v_proj,o_proj"},
    {"opt", "q_proj,v_proj"},
    {"phi", "q_proj,v_proj,fc1,fc2"},
    {"qwen2", "q_proj,v_proj"},
    {"qwen3", "q_proj,v_proj"},
    {"roberta", "query,value"},
    {"rwkv", "key,value,receptance,output"},
    {"stablelm", "q_proj,v_proj"},
    {"t5", "q,v"},
    {"xlm_roberta", "query,value"},
};

/* For models that PEFT has no row for: the first of these whose layers are all there. */
static const char *const usual_modules[] = {"q_proj,v_proj", "query,value", "q_lin,v_lin",
                                            "query_proj,value_proj", "to_q,to_v", "q,v",
                                            "query_key_value", "qkv_proj", "qkv", "Wqkv", "c_attn",
                                            "in_proj"};

static bool matches(const layer *l, const char *name, size_t length) {
    if (length > l->length || memcmp(l->path + l->length - length, name, length) != 0) return false;
    return length == l->length || l->path[l->length - length - 1] == '.';
}

/* Marks the layers that one of `modules` names. The first name without a layer, or NULL. */
static const char *mark(changer *c, const char *modules) {
    for (const char *name = modules;;) {
        size_t length = strcspn(name, ",");
        bool found = false;
        for (int32_t i = 0; i < c->layer_count && length > 0; i++)
            if (matches(&c->layers[i], name, length)) c->layers[i].adapted = found = true;
        if (!found) return name;
        name += length;
        if (!*name) return NULL;
        name++;
    }
}

static void unmark(changer *c) {
    for (int32_t i = 0; i < c->layer_count; i++) c->layers[i].adapted = false;
}

/* The model's type in transformers: the row's modules, or NULL. */
static const char *modules_of_type(const pl_graph *g) {
    static const char prefix[] = "transformers.models.";
    for (int32_t i = 0; i < g->module_count; i++) {
        const char *type = g->modules[i].type;
        if (strncmp(type, prefix, sizeof prefix - 1) != 0) continue;
        type += sizeof prefix - 1;
        size_t length = strcspn(type, ".");
        for (size_t k = 0; k < sizeof type_modules / sizeof *type_modules; k++)
            if (strlen(type_modules[k].type) == length &&
                memcmp(type_modules[k].type, type, length) == 0)
                return type_modules[k].modules;
        return NULL;
    }
    return NULL;
}

/* " q_proj (16), v_proj (16)": the layers' last names, each once. */
static void list_layers(const changer *c, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (int32_t i = 0; i < c->layer_count; i++) {
        const layer *l = &c->layers[i];
        size_t start = l->length;
        while (start > 0 && l->path[start - 1] != '.') start--;
        const char *name = l->path + start;
        size_t length = l->length - start;
        int32_t count = 0;
        bool earlier = false;
        for (int32_t k = 0; k < c->layer_count && !earlier; k++) {
            bool same = c->layers[k].same == k && matches(&c->layers[k], name, length);
            earlier = same && k < i;
            count += same;
        }
        if (earlier || l->same != i || length > 60) continue;
        if (used + length + 24 > size) {
            memcpy(out + used, " ...", 5);
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s %.*s (%d)", used ? "," : "",
                                 (int)length, name, count);
    }
}

/* Names of output layers, which "all-linear" leaves out (get_output_embeddings, and the heads of
 * classifiers). */
static const char *const heads[] = {"lm_head", "embed_out", "decoder", "proj_out",
                                    "vocab_projector", "generator_lm_head", "classifier", "score"};

static pl_status choose_layers(changer *c, pl_error *err) {
    char list[300];
    const char *modules = c->how->modules, *missing = NULL;
    if (c->layer_count == 0)
        return pl_fail(err, PL_USAGE, "--train", -1, "the graph has no linear layers to adapt");
    if (modules && strcmp(modules, "all-linear") == 0) {
        for (int32_t i = 0; i < c->layer_count; i++) c->layers[i].adapted = true;
        layer *last = &c->layers[c->layer_count - 1];
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
            if (matches(last, heads[k], strlen(heads[k]))) last->adapted = c->layer_count == 1;
        return PL_OK;
    }
    if (modules) {
        missing = mark(c, modules);
    } else {
        modules = modules_of_type(c->from);
        missing = modules ? mark(c, modules) : "";
        for (size_t i = 0; missing && i < sizeof usual_modules / sizeof *usual_modules; i++) {
            unmark(c);
            missing = mark(c, usual_modules[i]);
        }
    }
    if (!missing) return PL_OK;
    list_layers(c, list, sizeof list);
    if (!c->how->modules)
        return pl_fail(err, PL_USAGE, "--train", -1,
                       "no layers that adapters usually go to; name some behind a colon, or "
                       "all-linear:%s",
                       list);
    return pl_fail(err, PL_USAGE, "--train", -1,
                   "no linear layer is called \"%.*s\"; there are%s, or all-linear",
                   (int)(strcspn(missing, ",") < 60 ? strcspn(missing, ",") : 60), missing, list);
}

/* ---- 4-bit weights ---- */

static void count_uses(const pl_graph *g, int32_t *uses) {
    for (int32_t i = 0; i < g->node_count; i++)
        for (uint32_t k = 0; k < g->nodes[i].arg_count; k++) {
            const pl_arg *arg = &g->nodes[i].args[k];
            if (arg->kind == PL_ARG_TENSOR && arg->tensor >= 0) uses[arg->tensor]++;
            for (uint32_t j = 0; arg->kind == PL_ARG_TENSORS && j < arg->count; j++)
                if (arg->list[j] >= 0) uses[arg->list[j]]++;
        }
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].tied >= 0) uses[i] = uses[g->tensors[i].tied] = INT32_MAX / 2;
}

/* Marks the layers whose weights transformers would pack (quantizers/base.py:
 * get_keys_to_not_convert; integrations/bitsandbytes.py: replace_with_bnb_linear). */
static pl_status choose_packed(changer *c, pl_error *err) {
    const pl_graph *g = c->from;
    int32_t *uses = pl_arena_array(c->arena, (size_t)g->tensor_count + 1, sizeof *uses);
    if (!uses) return pl_fail(err, PL_MISSING, g->name, -1, "out of memory");
    count_uses(g, uses);
    for (int32_t i = 0; i < c->layer_count; i++) uses[c->layers[i].weight]--;
    int32_t last = g->tensor_count - 1, packed = 0;
    while (last >= 0 && g->tensors[last].role != PL_ROLE_PARAMETER) last--;
    for (int32_t i = 0; i < c->layer_count; i++) {
        layer *l = &c->layers[i];
        const pl_module *m = module_of(g, l->node);
        bool plain = !m || strcmp(m->type, "torch.nn.modules.linear.Linear") == 0 ||
                     ends_with(m->type, strlen(m->type), "Conv1D") ||
                     strncmp(m->path, l->path, l->length) != 0;
        l->packed = plain && uses[l->weight] == 0 && l->same != c->layers[c->layer_count - 1].same &&
                    l->weight != last && l->bias != last;
        packed += l->packed;
    }
    if (packed) return PL_OK;
    return pl_fail(err, PL_USAGE, "--train", -1,
                   "no linear layer whose weight could be kept in 4 bits (the output layer and tied "
                   "weights are not)");
}

/* ---- the new graph ---- */

static int32_t add_tensor(changer *c, const pl_tensor *model, const char *name, pl_dtype dtype,
                          int dims, const int64_t *sizes) {
    pl_tensor *t = &c->to.tensors[c->to.tensor_count];
    int64_t *room = pl_arena_array(c->arena, (size_t)dims * 2 + 1, sizeof *room);
    if (!room) {
        c->failed = true;
        return 0;
    }
    *t = *model;
    t->name = name;
    t->dtype = dtype;
    t->dims = (uint8_t)dims;
    t->sizes = room;
    t->strides = room + dims;
    t->offset = 0;
    t->producer = t->tied = -1;
    int64_t step = 1;
    for (int i = dims; i-- > 0;) {
        room[i] = sizes[i];
        room[dims + i] = step;
        if (!pl_mul_i64(step, sizes[i] > 0 ? sizes[i] : 1, &step)) c->failed = true;
    }
    if (!pl_tensor_fits(t)) c->failed = true;
    return c->to.tensor_count++;
}

static const char *joined(changer *c, const char *path, size_t length, const char *end) {
    size_t n = strlen(end);
    char *text = pl_arena_alloc(c->arena, length + n + 1);
    if (!text) {
        c->failed = true;
        return "";
    }
    memcpy(text, path, length);
    memcpy(text + length, end, n + 1);
    return text;
}

static int32_t add_adapter(changer *c, const layer *l, const char *end, int64_t rows,
                           int64_t columns) {
    const char *path = joined(c, l->path, l->length, end);
    const pl_tensor *weight = &c->from->tensors[l->weight];
    int32_t id = add_tensor(c, weight, path, c->how->plain ? weight->dtype : PL_DT_F32, 2,
                            (const int64_t[]){rows, columns});
    if (c->failed) return 0;
    pl_tensor *t = &c->to.tensors[id];
    t->path = path;
    t->requires_grad = true;
    t->keeps_type = !c->how->plain;
    return id;
}

/* A packed weight: two numbers a byte, [ceil(n / 2), 1]. */
static void pack(changer *c, pl_tensor *t) {
    int64_t n = pl_tensor_elements(t);
    int64_t *room = pl_arena_array(c->arena, 4, sizeof *room);
    if (!room) {
        c->failed = true;
        return;
    }
    room[0] = n / 2 + n % 2;
    room[1] = room[2] = room[3] = 1;
    t->sizes = room;
    t->strides = room + 2;
    t->dtype = PL_DT_U8;
}

/* Tensors keep their order, adapters stand behind the layer's own parameters: the order of
 * named_parameters, in which weights are placed. */
static void copy_tensors(changer *c) {
    const pl_graph *g = c->from;
    for (int32_t i = 0; i < c->layer_count; i++) {
        layer *l = &c->layers[i];
        if (!l->adapted || l->same != i) continue;
        bool own = l->bias > l->weight && g->tensors[l->bias].role == PL_ROLE_PARAMETER;
        c->adapter_of[own ? l->bias : l->weight] = i;
    }
    for (int32_t i = 0; i < g->tensor_count && !c->failed; i++) {
        c->map[i] = c->to.tensor_count;
        c->to.tensors[c->to.tensor_count++] = g->tensors[i];
        if (c->layer_count) c->to.tensors[c->map[i]].requires_grad = false;
        if (c->adapter_of[i] < 0) continue;
        layer *l = &c->layers[c->adapter_of[i]];
        const char *ends[2] = {c->how->plain ? ".a.weight" : ".lora_A.default.weight",
                               c->how->plain ? ".b.weight" : ".lora_B.default.weight"};
        l->a = add_adapter(c, l, ends[0], c->how->rank, l->in);
        l->b = add_adapter(c, l, ends[1], l->out, c->how->rank);
    }
    const char *base = c->how->plain ? ".base" : ".base_layer";
    for (int32_t i = 0; i < c->layer_count && !c->failed; i++) {
        layer *l = &c->layers[i];
        l->a = c->layers[l->same].a;
        l->b = c->layers[l->same].b;
        if (l->same != i) continue;
        int32_t own[2] = {l->weight, l->bias};
        for (int k = 0; k < 2; k++) {
            pl_tensor *t = own[k] >= 0 ? &c->to.tensors[c->map[own[k]]] : NULL;
            if (!t || t->role != PL_ROLE_PARAMETER) continue;
            if (k == 0 && l->packed) pack(c, t);
            const char *rest = t->path && strncmp(t->path, l->path, l->length) == 0
                                   ? t->path + l->length
                                   : NULL;
            if (l->adapted && rest && *rest == '.')
                t->path = joined(c, joined(c, l->path, l->length, base), l->length + strlen(base),
                                 rest);
        }
    }
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].tied >= 0) c->to.tensors[c->map[i]].tied = c->map[g->tensors[i].tied];
}

static pl_node *add_node(changer *c, const char *target, int32_t module, const pl_node *like,
                         const char *source, uint32_t args, int32_t output) {
    pl_node *n = &c->to.nodes[c->to.node_count];
    *n = (pl_node){.target = target,
                   .args = pl_arena_array(c->arena, args, sizeof *n->args),
                   .outputs = pl_arena_array(c->arena, 1, sizeof *n->outputs),
                   .arg_count = args,
                   .output_count = output >= 0,
                   .module = module,
                   .no_grad = like->no_grad,
                   .autocast = like->autocast,
                   .source = source};
    if (!n->args || !n->outputs) {
        c->failed = true;
        return NULL;
    }
    n->outputs[0] = output;
    c->to.node_count++;
    return n;
}

static pl_arg tensor_arg(const char *name, int32_t tensor) {
    return (pl_arg){.name = name, .kind = PL_ARG_TENSOR, .tensor = tensor};
}

/* target(name0 = x, name1 = y), y -1: left out; a result like `model` with its own last size (0:
 * the model's) and type. Returns it; into: the tensor that it is, -1: a new one. */
static int32_t add_op(changer *c, const pl_node *place, const char *target, int32_t module,
                      const char *source, const char *const names[2], int32_t x, int32_t y,
                      const pl_tensor *model, int64_t last, pl_dtype dtype, int32_t into) {
    if (c->failed) return 0;
    if (into < 0) {
        int64_t sizes[PL_MAX_DIMS];
        memcpy(sizes, model->sizes, model->dims * sizeof *sizes);
        if (last) sizes[model->dims - 1] = last;
        into = add_tensor(c, model, target, dtype, model->dims, sizes);
        pl_tensor *t = &c->to.tensors[into];
        t->role = PL_ROLE_VALUE;
        t->path = NULL;
        t->requires_grad = false;
    }
    pl_node *n = add_node(c, target, module, place, source, y < 0 ? 1 : 2, into);
    if (!n) return 0;
    n->args[0] = tensor_arg(names[0], x);
    if (y >= 0) n->args[1] = tensor_arg(names[1], y);
    return into;
}

/* The module of a part of an adapted layer. */
static int32_t add_module(changer *c, int32_t parent, const char *path, size_t length,
                          const char *end, const char *type) {
    if (parent < 0 || c->failed) return parent;
    pl_module *m = &c->to.modules[c->to.module_count];
    *m = (pl_module){.path = joined(c, path, length, end),
                     .type = type,
                     .parent = parent,
                     .call = c->to.modules[parent].call};
    return c->to.module_count++;
}

static void copy_node(changer *c, const pl_node *old, int32_t module) {
    pl_node *n = add_node(c, old->target, module, old, old->source, old->arg_count, -1);
    if (!n) return;
    memcpy(n->args, old->args, old->arg_count * sizeof *n->args);
    for (uint32_t k = 0; k < n->arg_count; k++) {
        pl_arg *arg = &n->args[k];
        if (arg->kind == PL_ARG_TENSOR && arg->tensor >= 0) arg->tensor = c->map[arg->tensor];
        if (arg->kind != PL_ARG_TENSORS) continue;
        int32_t *list = pl_arena_array(c->arena, (size_t)arg->count + 1, sizeof *list);
        if (!list) {
            c->failed = true;
            return;
        }
        for (uint32_t j = 0; j < arg->count; j++)
            list[j] = arg->list[j] >= 0 ? c->map[arg->list[j]] : arg->list[j];
        arg->list = list;
    }
    n->outputs = pl_arena_array(c->arena, (size_t)old->output_count + 1, sizeof *n->outputs);
    if (!n->outputs) {
        c->failed = true;
        return;
    }
    n->output_count = old->output_count;
    n->output_is_list = old->output_is_list;
    for (uint32_t k = 0; k < old->output_count; k++)
        n->outputs[k] = old->outputs[k] >= 0 ? c->map[old->outputs[k]] : old->outputs[k];
}

/* The product itself, into tensor `into` (-1: the layer's own output) and module `module`. */
static void add_base(changer *c, const layer *l, int32_t module, int32_t into, const char *source) {
    const pl_graph *g = c->from;
    int32_t first = c->to.node_count;
    if (l->packed) {
        const pl_node *product = &g->nodes[l->node];
        uint32_t args = l->bias >= 0 ? 3 : 2;
        pl_node *n = add_node(c, "bitsandbytes.linear_4bit.default", module, product,
                              product->source, args, c->map[l->output]);
        if (!n) return;
        n->args[0] = tensor_arg("input", c->map[l->input]);
        n->args[1] = tensor_arg("weight", c->map[l->weight]);
        if (args == 3) n->args[2] = tensor_arg("bias", c->map[l->bias]);
    } else {
        for (int32_t i = l->first; i <= l->last && !c->failed; i++)
            copy_node(c, &g->nodes[i], module);
    }
    if (c->failed || into < 0) return;
    c->to.nodes[c->to.node_count - 1].outputs[0] = into;
    for (int32_t i = first; i < c->to.node_count; i++) c->to.nodes[i].source = source;
}

/* Lines of PEFT's forward, shortened: lifetime.c reads from them what holds a value. */
static const char base_line[] = "layer.py: result = self.base_layer(x)",
                  clone_line[] = "bnb.py: result = result.clone()",
                  cast_line[] = "layer.py: x = self._cast_input_dtype(x)",
                  product_line[] = "bnb.py: output = lora_B(lora_A(x)) * scaling",
                  convert_line[] = "bnb.py: output = output.to(expected_dtype)",
                  packed_sum_line[] = "bnb.py: result = result + output",
                  sum_line[] = "layer.py: result = result + lora_B(lora_A(x)) * scaling",
                  result_line[] = "layer.py: result = result.to(torch_result_dtype)",
                  plain_line[] = "";

static const char *const self_only[2] = {"self", NULL}, *const self_other[2] = {"self", "other"},
                         *const self_weight[2] = {"self", "weight"},
                         *const input_weight[2] = {"input", "weight"};

/* An adapted layer: base_layer(x) + lora_B(lora_A(x)) * scaling. */
static void add_adapted(changer *c, const layer *l) {
    static const char linear[] = "torch.nn.modules.linear.Linear";
    const pl_node *place = &c->from->nodes[l->node];
    const pl_tensor *x_old = &c->from->tensors[l->input], *y_old = &c->from->tensors[l->output];
    bool plain = c->how->plain, packed = l->packed && !plain;
    int32_t module = place->module, old_parent = module;
    const char *old_type = linear;
    if (module >= 0) {
        pl_module *m = &c->to.modules[module];
        if (strlen(m->path) == l->length && memcmp(m->path, l->path, l->length) == 0) {
            old_type = c->from->modules[module].type;
            m->type = packed ? "peft.tuners.lora.bnb.Linear4bit" : "peft.tuners.lora.layer.Linear";
        } else {
            module = add_module(c, old_parent, l->path, l->length, "",
                                "peft.tuners.lora.layer.Linear");
        }
    }
    int32_t base_module =
        add_module(c, module, l->path, l->length, plain ? ".base" : ".base_layer",
                   l->packed ? "bitsandbytes.nn.modules.Linear4bit" : old_type);
    int32_t a_module = add_module(c, module, l->path, l->length, plain ? ".a" : ".lora_A.default",
                                  linear);
    int32_t b_module = add_module(c, module, l->path, l->length, plain ? ".b" : ".lora_B.default",
                                  linear);
    pl_dtype type = y_old->dtype, wide = plain ? type : PL_DT_F32;
    int64_t sizes[PL_MAX_DIMS];
    memcpy(sizes, y_old->sizes, y_old->dims * sizeof *sizes);
    int32_t x = c->map[l->input], out = c->map[l->output];
    int32_t result = add_tensor(c, y_old, "base_layer", type, y_old->dims, sizes);
    if (c->failed) return;
    add_base(c, l, base_module, result, plain ? plain_line : base_line);
    const char *line = plain ? plain_line : packed ? product_line : sum_line;
    if (packed)
        result = add_op(c, place, "aten.clone.default", module, clone_line, self_only, result, -1,
                        y_old, 0, type, -1);
    if (!plain)
        x = add_op(c, place, packed ? "peft.to_unless_autocast.default" : "aten.to.other", module,
                   cast_line, self_other, x, l->a, x_old, 0, wide, -1);
    int32_t h = add_op(c, place, "aten.linear.default", a_module, line, input_weight, x, l->a,
                       x_old, c->how->rank, wide, -1);
    int32_t o = add_op(c, place, "aten.linear.default", b_module, line, input_weight, h, l->b,
                       y_old, 0, wide, -1);
    if (!plain) {
        o = add_op(c, place, "aten.mul.Tensor", module, line, self_other, o, l->b, y_old, 0, wide,
                   -1);
        if (!c->failed) /* alpha / r, a number */
            c->to.nodes[c->to.node_count - 1].args[1] =
                (pl_arg){.name = "other", .kind = PL_ARG_FLOAT, .f = 1};
    }
    if (packed)
        o = add_op(c, place, "peft.to_unless_autocast.default", module, convert_line, self_other, o,
                   c->map[l->input], y_old, 0, type, -1);
    bool last = plain || packed;
    pl_dtype sum = last || type == PL_DT_F64 ? type : PL_DT_F32;
    result = add_op(c, place, "aten.add.Tensor", module, packed ? packed_sum_line : line, self_other,
                    result, o, y_old, 0, sum, last ? out : -1);
    if (!last)
        add_op(c, place, "peft.to_result.default", module, result_line, self_weight, result,
               c->map[l->weight], y_old, 0, type, out);
}

/* transformers' gradient_checkpointing_enable, and PEFT, let the output of the input embeddings want
 * a gradient where their weight does not (enable_input_require_grads), so that backward goes all
 * the way down. That is the first embedding, or a vision model's first convolution, wherever it is
 * called. Returns its weight, or -1. */
static int32_t input_embedding(const pl_graph *g, const char **target) {
    bool transformers = false;
    for (int32_t i = 0; i < g->module_count && !transformers; i++)
        transformers = strncmp(g->modules[i].type, "transformers.", 13) == 0;
    for (int32_t i = 0; i < g->node_count && transformers; i++) {
        const pl_node *n = &g->nodes[i];
        bool embeds = strncmp(n->target, "aten.embedding.", 15) == 0 ||
                      strncmp(n->target, "aten.conv", 9) == 0;
        int32_t weight = embeds ? pl_node_tensor(n, "weight") : -1;
        if (weight < 0 || n->output_count != 1 || g->tensors[weight].role != PL_ROLE_PARAMETER)
            continue;
        *target = n->target;
        return weight;
    }
    return -1;
}

bool pl_finetune_hooks(const pl_graph *graph) {
    const char *target;
    int32_t embedding = input_embedding(graph, &target);
    return embedding >= 0 && !graph->tensors[embedding].requires_grad;
}

static void copy_nodes(changer *c) {
    const pl_graph *g = c->from;
    const char *embed = "";
    int32_t embedding = c->how->checkpoint ? input_embedding(g, &embed) : -1;
    int32_t next = 0;
    for (int32_t i = 0; i < g->node_count && !c->failed; i++) {
        while (next < c->layer_count && c->layers[next].last < i) next++;
        const layer *l = next < c->layer_count && c->layers[next].first == i ? &c->layers[next] : NULL;
        if (l && (l->adapted || l->packed)) {
            if (l->adapted)
                add_adapted(c, l);
            else
                add_base(c, l, g->nodes[l->node].module, -1, NULL);
            if (l->packed && !l->adapted && g->nodes[l->node].module >= 0)
                c->to.modules[g->nodes[l->node].module].type = "bitsandbytes.nn.modules.Linear4bit";
            i = l->last;
            continue;
        }
        const pl_node *n = &g->nodes[i];
        copy_node(c, n, n->module);
        if (embedding < 0 || strcmp(n->target, embed) != 0 ||
            pl_node_tensor(n, "weight") != embedding || n->outputs[0] < 0)
            continue;
        pl_node *hook = add_node(c, "peft.requires_grad_.default", n->module, n, n->source, 1, -1);
        if (hook) hook->args[0] = tensor_arg("self", c->map[n->outputs[0]]);
    }
}

static int32_t *mapped(changer *c, const int32_t *old, int32_t count) {
    int32_t *list = pl_arena_array(c->arena, (size_t)count + 1, sizeof *list);
    if (!list) c->failed = true;
    for (int32_t i = 0; list && i < count; i++) list[i] = old[i] >= 0 ? c->map[old[i]] : old[i];
    return list;
}

/* At most six tensors, six nodes and four modules a layer more than there were. */
static bool make_room(changer *c) {
    const pl_graph *g = c->from;
    size_t calls = (size_t)c->layer_count;
    c->to = *g;
    c->to.tensor_count = c->to.node_count = 0;
    c->to.tensors =
        pl_arena_array(c->arena, (size_t)g->tensor_count + 10 * calls + 1, sizeof *c->to.tensors);
    c->to.nodes =
        pl_arena_array(c->arena, 2 * (size_t)g->node_count + 8 * calls + 1, sizeof *c->to.nodes);
    c->to.modules =
        pl_arena_array(c->arena, (size_t)g->module_count + 4 * calls + 1, sizeof *c->to.modules);
    c->map = pl_arena_array(c->arena, (size_t)g->tensor_count + 1, sizeof *c->map);
    c->adapter_of = pl_arena_array(c->arena, (size_t)g->tensor_count + 1, sizeof *c->adapter_of);
    if (!c->to.tensors || !c->to.nodes || !c->to.modules || !c->map || !c->adapter_of) return false;
    if (g->module_count)
        memcpy(c->to.modules, g->modules, (size_t)g->module_count * sizeof *g->modules);
    for (int32_t i = 0; i < g->tensor_count; i++) c->adapter_of[i] = -1;
    return true;
}

/* The graph with what was chosen: adapters, packed weights, hooks. */
static pl_status change(changer *c, pl_graph *graph, pl_error *err) {
    if (!make_room(c)) return pl_fail(err, PL_MISSING, graph->name, -1, "out of memory");
    copy_tensors(c);
    if (!c->failed) copy_nodes(c);
    int32_t *inputs = mapped(c, graph->inputs, graph->input_count),
            *outputs = mapped(c, graph->outputs, graph->output_count);
    int32_t(*mutations)[2] =
        pl_arena_array(c->arena, (size_t)graph->mutation_count + 1, sizeof *mutations);
    if (c->failed || !mutations)
        return pl_fail(err, PL_MISSING, graph->name, -1,
                       "out of memory, or adapters too large: rank %lld",
                       (long long)c->how->rank);
    for (int32_t i = 0; i < graph->mutation_count; i++)
        for (int k = 0; k < 2; k++) mutations[i][k] = c->map[graph->mutations[i][k]];
    c->to.inputs = inputs;
    c->to.outputs = outputs;
    c->to.mutations = mutations;
    for (int32_t i = 0; i < c->to.tensor_count; i++) c->to.tensors[i].producer = -1;
    for (int32_t i = 0; i < c->to.node_count; i++)
        for (uint32_t k = 0; k < c->to.nodes[i].output_count; k++) {
            int32_t id = c->to.nodes[i].outputs[k];
            if (id >= 0 && c->to.tensors[id].producer < 0) c->to.tensors[id].producer = i;
        }
    *graph = c->to;
    return PL_OK;
}

/* ---- all, head ---- */

/* Whether a parameter is a module's own: "fc.weight" is fc's. */
static bool owned_by(const pl_tensor *t, const char *path, size_t length) {
    return t->path && strncmp(t->path, path, length) == 0 &&
           (length == 0 || t->path[length] == '.') && !strchr(t->path + length + (length > 0), '.');
}

/* The last node that multiplies by a parameter of its own: a linear layer or a convolution. */
static pl_status find_head(const pl_graph *g, const char **path, size_t *length, pl_error *err) {
    for (int32_t i = g->node_count; i-- > 0;) {
        const pl_node *n = &g->nodes[i];
        layer l;
        if (read_layer(g, i, &l)) {
            *path = l.path;
            *length = l.length;
            return PL_OK;
        }
        int32_t weight = strncmp(n->target, "aten.conv", 9) == 0 ? pl_node_tensor(n, "weight") : -1;
        if (weight < 0 || g->tensors[weight].role != PL_ROLE_PARAMETER || !g->tensors[weight].path)
            continue;
        const char *dot = strrchr(g->tensors[weight].path, '.');
        *path = g->tensors[weight].path;
        *length = dot ? (size_t)(dot - *path) : 0;
        return PL_OK;
    }
    return pl_fail(err, PL_USAGE, "--train", -1,
                   "the graph has no linear layer or convolution that could be its head");
}

/* A weight under two names trains under both. */
static void train_tensors(pl_graph *g, pl_tensor *tensors, const char *path, size_t length) {
    for (int32_t i = 0; i < g->tensor_count; i++) {
        pl_tensor *t = &tensors[i];
        t->requires_grad = false;
        if (t->role == PL_ROLE_PARAMETER && pl_dtype_is_float(t->dtype))
            t->requires_grad = !path || owned_by(t, path, length);
    }
    for (int32_t i = 0; path && i < g->tensor_count; i++)
        if (tensors[i].tied >= 0 && tensors[i].requires_grad)
            tensors[tensors[i].tied].requires_grad = true;
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (tensors[i].tied >= 0) tensors[i].requires_grad = tensors[tensors[i].tied].requires_grad;
}

static pl_status choose_trained(pl_graph *graph, const pl_finetune *how, pl_error *err) {
    const char *path = NULL;
    size_t length = 0;
    if (how->kind == PL_FINETUNE_HEAD) {
        pl_status status = find_head(graph, &path, &length, err);
        if (status != PL_OK) return status;
    }
    pl_tensor *tensors =
        pl_arena_array(graph->arena, (size_t)graph->tensor_count + 1, sizeof *tensors);
    if (!tensors) return pl_fail(err, PL_MISSING, graph->name, -1, "out of memory");
    memcpy(tensors, graph->tensors, (size_t)graph->tensor_count * sizeof *tensors);
    train_tensors(graph, tensors, path, length);
    graph->tensors = tensors;
    return PL_OK;
}

pl_status pl_graph_finetune(pl_graph *graph, const pl_finetune *how, pl_error *err) {
    changer c = {.from = graph, .arena = graph->arena, .how = how};
    pl_status status = PL_OK;
    if (how->kind == PL_FINETUNE_LORA || how->kind == PL_FINETUNE_QLORA) {
        if (!find_layers(&c)) return pl_fail(err, PL_MISSING, graph->name, -1, "out of memory");
        status = choose_layers(&c, err);
        if (status == PL_OK && how->kind == PL_FINETUNE_QLORA) status = choose_packed(&c, err);
        return status == PL_OK ? change(&c, graph, err) : status;
    }
    if (how->kind != PL_FINETUNE_NONE) status = choose_trained(graph, how, err);
    if (status == PL_OK && how->checkpoint && pl_finetune_hooks(graph))
        status = change(&c, graph, err);
    return status;
}
