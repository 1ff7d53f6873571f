/* adapters: see adapters.h.
 *
 * As PEFT 0.21 does it (tuners/lora/layer.py, bnb.py): the layer becomes a module whose base_layer
 * is the old one, beside lora_A [r, in] and lora_B [out, r], which are float32 whatever the model
 * is. The input is cast to their type, the product scaled and added, the sum cast back. A packed
 * weight is bitsandbytes' (src/tape/op_finetune.c has the rules of the operators written here).
 *
 * Left out: dropout on the adapters (PEFT's default is none), adapters on embeddings and
 * convolutions, DoRA and other variants, modules_to_save. */
#include "graph/adapters.h"

#include <string.h>

#include "core/checked.h"

typedef struct changer {
    const pl_graph *from;
    pl_graph to;
    pl_arena *arena;
    const pl_finetune *how;
    pl_linear_layer *layers;
    int32_t layer_count;
    int32_t *map;        /* [tensor_count] old tensor to new */
    int32_t *adapter_of; /* [tensor_count] the layer whose adapters stand behind it, -1 */
    bool failed;         /* out of memory, or: */
    bool too_large;      /* sizes that no tensor has */
} changer;

/* ---- tensors ---- */

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
        if (!pl_mul_i64(step, sizes[i] > 0 ? sizes[i] : 1, &step)) c->failed = c->too_large = true;
    }
    if (!pl_tensor_fits(t)) c->failed = c->too_large = true;
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

static int32_t add_adapter(changer *c, const pl_linear_layer *l, const char *end, int64_t rows,
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

/* A packed weight: two numbers per byte, [ceil(n / 2), 1]. */
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
        pl_linear_layer *l = &c->layers[i];
        if (!l->adapted || l->same != i) continue;
        bool own = l->bias > l->weight && g->tensors[l->bias].role == PL_ROLE_PARAMETER;
        c->adapter_of[own ? l->bias : l->weight] = i;
    }
    for (int32_t i = 0; i < g->tensor_count && !c->failed; i++) {
        c->map[i] = c->to.tensor_count;
        c->to.tensors[c->to.tensor_count++] = g->tensors[i];
        if (c->layer_count) c->to.tensors[c->map[i]].requires_grad = false;
        if (c->adapter_of[i] < 0) continue;
        pl_linear_layer *l = &c->layers[c->adapter_of[i]];
        const char *ends[2] = {c->how->plain ? ".a.weight" : ".lora_A.default.weight",
                               c->how->plain ? ".b.weight" : ".lora_B.default.weight"};
        l->a = add_adapter(c, l, ends[0], c->how->rank, l->in);
        l->b = add_adapter(c, l, ends[1], l->out, c->how->rank);
    }
    const char *base = c->how->plain ? ".base" : ".base_layer";
    for (int32_t i = 0; i < c->layer_count && !c->failed; i++) {
        pl_linear_layer *l = &c->layers[i];
        l->a = c->layers[l->same].a;
        l->b = c->layers[l->same].b;
        if (l->same != i) continue;
        int32_t own[2] = {l->weight, l->bias};
        for (int k = 0; k < 2; k++) {
            pl_tensor *t = own[k] >= 0 ? &c->to.tensors[c->map[own[k]]] : NULL;
            if (!t || t->role != PL_ROLE_PARAMETER) continue;
            if (k == 0 && l->packed) pack(c, t);
            const char *rest =
                t->path && strncmp(t->path, l->path, l->length) == 0 ? t->path + l->length : NULL;
            if (l->adapted && rest && *rest == '.')
                t->path =
                    joined(c, joined(c, l->path, l->length, base), l->length + strlen(base), rest);
        }
    }
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].tied >= 0) c->to.tensors[c->map[i]].tied = c->map[g->tensors[i].tied];
}

/* ---- nodes ---- */

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
static void add_base(changer *c, const pl_linear_layer *l, int32_t module, int32_t into,
                     const char *source) {
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
static void add_adapted(changer *c, const pl_linear_layer *l) {
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
            module =
                add_module(c, old_parent, l->path, l->length, "", "peft.tuners.lora.layer.Linear");
        }
    }
    int32_t base_module = add_module(c, module, l->path, l->length, plain ? ".base" : ".base_layer",
                                     l->packed ? "bitsandbytes.nn.modules.Linear4bit" : old_type);
    int32_t a_module =
        add_module(c, module, l->path, l->length, plain ? ".a" : ".lora_A.default", linear);
    int32_t b_module =
        add_module(c, module, l->path, l->length, plain ? ".b" : ".lora_B.default", linear);
    pl_dtype type = y_old->dtype, wide = plain ? type : PL_DT_F32;
    int64_t sizes[PL_MAX_DIMS];
    memcpy(sizes, y_old->sizes, y_old->dims * sizeof *sizes);
    int32_t x = c->map[l->input], out = c->map[l->output];
    /* Of what dies at once the older tensor goes first: in result + product it is the product. */
    int32_t scaled =
        plain || packed ? -1 : add_tensor(c, y_old, "scaled", wide, y_old->dims, sizes);
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
                   scaled);
        if (!c->failed) /* alpha / r, a number */
            c->to.nodes[c->to.node_count - 1].args[1] =
                (pl_arg){.name = "other", .kind = PL_ARG_FLOAT, .f = 1};
    }
    if (packed)
        o = add_op(c, place, "peft.to_unless_autocast.default", module, convert_line, self_other, o,
                   c->map[l->input], y_old, 0, type, -1);
    bool last = plain || packed;
    pl_dtype sum = last || type == PL_DT_F64 ? type : PL_DT_F32;
    result = add_op(c, place, "aten.add.Tensor", module, packed ? packed_sum_line : line,
                    self_other, result, o, y_old, 0, sum, last ? out : -1);
    if (!last)
        add_op(c, place, "peft.to_result.default", module, result_line, self_weight, result,
               c->map[l->weight], y_old, 0, type, out);
}

/* transformers' gradient_checkpointing_enable, and PEFT, let the output of the input embeddings
 * want a gradient where their weight does not (enable_input_require_grads), so that backward goes
 * all the way down. That is the first embedding, or a vision model's first convolution, wherever it
 * is called. Returns its weight, or -1. */
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
        const pl_linear_layer *l =
            next < c->layer_count && c->layers[next].first == i ? &c->layers[next] : NULL;
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
            pl_node_tensor(n, "weight") != embedding || n->output_count != 1 || n->outputs[0] < 0)
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

/* At most six tensors, six nodes and four modules more per layer than there were. */
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
pl_status pl_adapters_add(pl_graph *graph, pl_linear_layers *layers, const pl_finetune *how,
                          pl_error *err) {
    changer made = {.from = graph,
                    .arena = graph->arena,
                    .how = how,
                    .layers = layers->of,
                    .layer_count = layers->count};
    changer *c = &made;
    if (!make_room(c)) return pl_budget_fail(err, pl_arena_budget(graph->arena), graph->name);
    copy_tensors(c);
    if (!c->failed) copy_nodes(c);
    int32_t *inputs = mapped(c, graph->inputs, graph->input_count),
            *outputs = mapped(c, graph->outputs, graph->output_count);
    int32_t(*mutations)[2] =
        pl_arena_array(c->arena, (size_t)graph->mutation_count + 1, sizeof *mutations);
    if (c->too_large)
        return pl_fail(err, PL_USAGE, "train", -1, "adapters too large: rank %lld",
                       (long long)c->how->rank);
    if (c->failed || !mutations)
        return pl_budget_fail(err, pl_arena_budget(graph->arena), graph->name);
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
