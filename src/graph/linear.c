/* linear: see linear.h.
 *
 * Names are matched as PEFT 0.21 does (tuners/tuners_utils.py: a module's whole path, or its end
 * behind a dot), the modules of each model type are those of its utils/constants.py. What is packed
 * follows transformers 5 (quantizers/base.py, integrations/bitsandbytes.py): every Linear and
 * Conv1D but the output layer, tied weights and the module of the last parameter.
 *
 * Left out: nn.MultiheadAttention, and linear layers that an export has decomposed into a
 * transposed product, but for those of a module that is a Linear by its name (Falcon's). */
#include "graph/linear.h"

#include <stdio.h>
#include <string.h>

static const pl_module *module_of(const pl_graph *g, int32_t node) {
    return g->nodes[node].module >= 0 ? &g->modules[g->nodes[node].module] : NULL;
}

static bool ends_with(const char *text, size_t length, const char *end) {
    size_t n = strlen(end);
    return length >= n && memcmp(text + length - n, end, n) == 0;
}

/* The module a layer is: that of its node, or, in graphs without modules, that of its weight. */
static bool name_layer(const pl_graph *g, pl_linear_layer *l) {
    const pl_module *m = module_of(g, l->node);
    const pl_tensor *w = &g->tensors[l->weight];
    size_t type = m ? strlen(m->type) : 0;
    if (m && ends_with(m->type, type, "MultiheadAttention")) return false;
    if (m && *m->path &&
        (ends_with(m->type, type, "Linear") || ends_with(m->type, type, "Conv1D"))) {
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

static bool fits(const pl_graph *g, const pl_linear_layer *l) {
    const pl_tensor *x = &g->tensors[l->input], *y = &g->tensors[l->output];
    return x->dims > 0 && y->dims == x->dims && x->sizes[x->dims - 1] == l->in &&
           y->sizes[y->dims - 1] == l->out;
}

static bool is_view(const pl_graph *g, int32_t node, int32_t module) {
    return node >= 0 && node < g->node_count && g->nodes[node].module == module &&
           g->nodes[node].output_count == 1 && g->nodes[node].outputs[0] >= 0 &&
           strcmp(g->nodes[node].target, "aten.view.default") == 0;
}

/* FalconLinear: weight.T, input @ that, and where there is a bias a sum. Node i is the product. */
static bool read_transposed(const pl_graph *g, int32_t i, pl_linear_layer *l) {
    const pl_node *n = &g->nodes[i], *turn = i > 0 ? n - 1 : NULL, *sum = n + 1;
    const pl_module *m = module_of(g, i);
    if (!turn || !m || !ends_with(m->type, strlen(m->type), "Linear") ||
        turn->module != n->module || strcmp(turn->target, "aten.numpy_T.default") != 0 ||
        turn->output_count != 1 || turn->outputs[0] < 0 || n->output_count != 1 ||
        n->outputs[0] < 0 || pl_node_tensor(n, "other") != turn->outputs[0])
        return false;
    *l = (pl_linear_layer){.node = i,
                           .first = i - 1,
                           .last = i,
                           .weight = pl_node_tensor(turn, "self"),
                           .bias = -1,
                           .input = pl_node_tensor(n, "self"),
                           .output = n->outputs[0]};
    if (l->input < 0 || !is_matrix_parameter(g, l->weight) || !name_layer(g, l)) return false;
    l->in = g->tensors[l->weight].sizes[1];
    l->out = g->tensors[l->weight].sizes[0];
    int32_t bias = -1;
    if (i + 1 < g->node_count && sum->module == n->module && sum->output_count == 1 &&
        sum->outputs[0] >= 0 && strcmp(sum->target, "aten.add.Tensor") == 0 &&
        pl_node_tensor(sum, "self") == l->output)
        bias = pl_node_tensor(sum, "other");
    if (bias >= 0 && g->tensors[bias].role == PL_ROLE_PARAMETER) {
        l->bias = bias;
        l->last = i + 1;
        l->output = sum->outputs[0];
    }
    return true;
}

/* Whether node i is a linear layer's product; fills *l. */
bool pl_linear_read(const pl_graph *g, int32_t i, pl_linear_layer *l) {
    const pl_node *n = &g->nodes[i];
    if (strcmp(n->target, "aten.matmul.default") == 0)
        return read_transposed(g, i, l) && fits(g, l);
    bool linear = strcmp(n->target, "aten.linear.default") == 0;
    if ((!linear && strcmp(n->target, "aten.addmm.default") != 0) || n->output_count != 1 ||
        n->outputs[0] < 0)
        return false;
    *l = (pl_linear_layer){.node = i,
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
    return fits(g, l);
}

bool pl_linear_find(pl_linear_layers *c, const pl_graph *graph, pl_arena *arena) {
    *c = (pl_linear_layers){.graph = graph};
    const pl_graph *g = graph;
    c->of = pl_arena_array(arena, (size_t)g->node_count + 1, sizeof *c->of);
    int32_t *of_weight = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *of_weight);
    if (!c->of || !of_weight) return false;
    for (int32_t i = 0; i < g->node_count; i++) {
        pl_linear_layer *l = &c->of[c->count];
        if (!pl_linear_read(g, i, l)) continue;
        if (!of_weight[l->weight]) of_weight[l->weight] = c->count + 1;
        l->same = of_weight[l->weight] - 1;
        c->count++;
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
static const char *const usual_modules[] = {
    "q_proj,v_proj", "query,value", "q_lin,v_lin",     "query_proj,value_proj",
    "to_q,to_v",     "q,v",         "query_key_value", "qkv_proj",
    "qkv",           "Wqkv",        "c_attn",          "in_proj"};

static bool matches(const pl_linear_layer *l, const char *name, size_t length) {
    if (length > l->length || memcmp(l->path + l->length - length, name, length) != 0) return false;
    return length == l->length || l->path[l->length - length - 1] == '.';
}

/* Marks the layers that one of `modules` names. The first name without a layer, or NULL. */
static const char *mark(pl_linear_layers *c, const char *modules) {
    for (const char *name = modules;;) {
        size_t length = strcspn(name, ",");
        bool found = false;
        for (int32_t i = 0; i < c->count && length > 0; i++)
            if (matches(&c->of[i], name, length)) c->of[i].adapted = found = true;
        if (!found) return name;
        name += length;
        if (!*name) return NULL;
        name++;
    }
}

static void unmark(pl_linear_layers *c) {
    for (int32_t i = 0; i < c->count; i++) c->of[i].adapted = false;
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
static void list_layers(const pl_linear_layers *c, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (int32_t i = 0; i < c->count; i++) {
        const pl_linear_layer *l = &c->of[i];
        size_t start = l->length;
        while (start > 0 && l->path[start - 1] != '.') start--;
        const char *name = l->path + start;
        size_t length = l->length - start;
        int32_t count = 0;
        bool earlier = false;
        for (int32_t k = 0; k < c->count && !earlier; k++) {
            bool same = c->of[k].same == k && matches(&c->of[k], name, length);
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

/* Of model types whose experts PEFT 0.21 adapts as parameters (utils/transformers_weight_conversion.py):
 * what their names were while they were linear layers. */
static const struct {
    const char *type, *names;
} expert_names[] = {
    {"mixtral", "w1,w2,w3,gate"},
    {"minimax", "w1,w2,w3,gate"},
    {"afmoe", "gate_proj,up_proj,down_proj,gate"},
    {"deepseek_v2", "gate_proj,up_proj,down_proj,gate"},
    {"deepseek_v3", "gate_proj,up_proj,down_proj,gate"},
    {"dots1", "gate_proj,up_proj,down_proj,gate"},
    {"ernie4_5_moe", "gate_proj,up_proj,down_proj,gate"},
    {"flex_olmo", "gate_proj,up_proj,down_proj,gate"},
    {"glm4_moe", "gate_proj,up_proj,down_proj,gate"},
    {"hunyuan_v1_moe", "gate_proj,up_proj,down_proj,gate"},
    {"olmoe", "gate_proj,up_proj,down_proj,gate"},
    {"qwen3_moe", "gate_proj,up_proj,down_proj,gate"},
    {"qwen3_next", "gate_proj,up_proj,down_proj,gate"},
};

/* Whether one of `modules`, names with commas, is one of `names`; all-linear is all of them. */
static bool names_one_of(const char *modules, const char *names) {
    if (strcmp(modules, "all-linear") == 0) return true;
    for (const char *name = modules; *name;) {
        size_t length = strcspn(name, ","), last = length;
        while (last > 0 && name[last - 1] != '.') last--;
        for (const char *at = names; at; at = strchr(at, ',')) {
            if (*at == ',') at++;
            if (strcspn(at, ",") == length - last && !memcmp(at, name + last, length - last))
                return true;
        }
        name += length;
        if (*name) name++;
    }
    return false;
}

/* Packed experts that the names reach are adapted by computing each layer's changed weights, which
 * live until its backward: not a few adapters more, but the experts once more. Not simulated. */
static pl_status check_experts(const pl_linear_layers *c, const char *modules, pl_error *err) {
    int64_t experts = modules ? pl_packed_experts(c->graph) : 0;
    for (size_t i = 0; experts && i < sizeof expert_names / sizeof *expert_names; i++) {
        char type[64];
        snprintf(type, sizeof type, "transformers.models.%s.", expert_names[i].type);
        bool is = false;
        for (int32_t m = 0; m < c->graph->module_count && !is; m++)
            is = strncmp(c->graph->modules[m].type, type, strlen(type)) == 0;
        if (is && names_one_of(modules, expert_names[i].names))
            return pl_fail(
                err, PL_USAGE, "train", -1,
                "\"%.100s\" reaches the experts, which this model keeps packed, %lld "
                "parameters in all: PEFT 0.21 adapts them by target_parameters and computes "
                "each layer's changed weights, which is not simulated; name the layers "
                "without them, such as q_proj,k_proj,v_proj,o_proj",
                modules, (long long)experts);
    }
    return PL_OK;
}

/* Not the product of a module of another class, such as a mixture's router. */
static bool is_linear_module(const pl_graph *g, const pl_linear_layer *l) {
    const pl_module *m = module_of(g, l->node);
    size_t type = m ? strlen(m->type) : 0;
    if (!m || strlen(m->path) != l->length || memcmp(m->path, l->path, l->length) != 0) return true;
    return ends_with(m->type, type, "Linear") || ends_with(m->type, type, "Conv1D");
}

/* Names of output layers, which "all-linear" leaves out (get_output_embeddings, and the heads of
 * classifiers). */
static const char *const heads[] = {
    "lm_head",         "embed_out",         "decoder",    "proj_out",
    "vocab_projector", "generator_lm_head", "classifier", "score"};

pl_status pl_linear_adapt(pl_linear_layers *c, const char *modules, pl_error *err) {
    char list[300];
    const char *asked = modules, *missing = NULL;
    if (c->count == 0)
        return pl_fail(err, PL_USAGE, "train", -1, "the graph has no linear layers to adapt");
    pl_status status = check_experts(c, modules, err);
    if (status != PL_OK) return status;
    if (modules && strcmp(modules, "all-linear") == 0) {
        for (int32_t i = 0; i < c->count; i++)
            c->of[i].adapted = is_linear_module(c->graph, &c->of[i]);
        pl_linear_layer *last = &c->of[c->count - 1];
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
            if (matches(last, heads[k], strlen(heads[k]))) last->adapted = c->count == 1;
        return PL_OK;
    }
    if (modules) {
        missing = mark(c, modules);
    } else {
        modules = modules_of_type(c->graph);
        missing = modules ? mark(c, modules) : "";
        for (size_t i = 0; missing && i < sizeof usual_modules / sizeof *usual_modules; i++) {
            unmark(c);
            missing = mark(c, usual_modules[i]);
        }
    }
    if (!missing) return PL_OK;
    list_layers(c, list, sizeof list);
    if (!asked)
        return pl_fail(err, PL_USAGE, "train", -1,
                       "no layers that adapters usually go to; name some behind a colon, or "
                       "all-linear:%s",
                       list);
    return pl_fail(err, PL_USAGE, "train", -1,
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
 * get_keys_to_not_convert; integrations/bitsandbytes.py: replace_with_bnb_linear, which takes
 * nn.Linear itself and no class made from it: of Falcon's layers, which are such, it packs none and
 * trains adapters beside weights as they are). */
pl_status pl_linear_pack(pl_linear_layers *c, pl_arena *arena, pl_error *err) {
    const pl_graph *g = c->graph;
    int32_t *uses = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *uses);
    if (!uses) return pl_budget_fail(err, pl_arena_budget(arena), g->name);
    count_uses(g, uses);
    for (int32_t i = 0; i < c->count; i++) uses[c->of[i].weight]--;
    int32_t last = g->tensor_count - 1, packed = 0, left = 0;
    while (last >= 0 && g->tensors[last].role != PL_ROLE_PARAMETER) last--;
    for (int32_t i = 0; i < c->count; i++) {
        pl_linear_layer *l = &c->of[i];
        const pl_module *m = module_of(g, l->node);
        bool plain = !m || strcmp(m->type, "torch.nn.modules.linear.Linear") == 0 ||
                     ends_with(m->type, strlen(m->type), "Conv1D") ||
                     strncmp(m->path, l->path, l->length) != 0;
        l->packed = plain && uses[l->weight] == 0 && l->same != c->of[c->count - 1].same &&
                    l->weight != last && l->bias != last;
        packed += l->packed;
        left += !plain;
    }
    if (packed || left) return PL_OK;
    return pl_fail(
        err, PL_USAGE, "train", -1,
        "no linear layer whose weight could be kept in 4 bits (the output layer and tied "
        "weights are not)");
}
