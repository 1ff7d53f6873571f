/* finetune: see finetune.h. Here: the text, what trains in all and head, and the order of the rest:
 * layers are found and chosen (linear.c), then the graph is written anew (adapters.c). */
#include "graph/finetune.h"

#include <stdlib.h>
#include <string.h>

#include "graph/adapters.h"

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
            return pl_fail(err, PL_USAGE, "train", -1, "rank %.*s is not between 1 and %d",
                           (int)digits, rest, MOST_RANK);
        rest += digits;
        if (!*rest) return PL_OK;
        if (*rest != ':' || !rest[1]) break;
        out->modules = rest + 1;
        return PL_OK;
    }
    return pl_fail(err, PL_USAGE, "train", -1,
                   "\"%.100s\" is none of all, head, lora-rN[:MODULES], qlora-rN[:MODULES] "
                   "(lora-r16, lora-r8:q_proj,v_proj, qlora-r64:all-linear)",
                   text);
}

int64_t pl_packed_experts(const pl_graph *graph) {
    int64_t sum = 0;
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const pl_tensor *t = &graph->tensors[i];
        if (t->role == PL_ROLE_PARAMETER && t->dims == 3 && t->tied < 0 && t->path &&
            pl_dtype_is_float(t->dtype) && strstr(t->path, "experts."))
            sum += pl_tensor_elements(t);
    }
    return sum;
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
        pl_linear_layer l;
        if (pl_linear_read(g, i, &l)) {
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
    return pl_fail(err, PL_USAGE, "train", -1,
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
    if (!tensors) return pl_budget_fail(err, pl_arena_budget(graph->arena), graph->name);
    memcpy(tensors, graph->tensors, (size_t)graph->tensor_count * sizeof *tensors);
    train_tensors(graph, tensors, path, length);
    graph->tensors = tensors;
    return PL_OK;
}

pl_status pl_graph_finetune(pl_graph *graph, const pl_finetune *how, pl_error *err) {
    pl_linear_layers layers = {.graph = graph};
    pl_status status = PL_OK;
    bool adapts = how->kind == PL_FINETUNE_LORA || how->kind == PL_FINETUNE_QLORA;
    if (adapts && !pl_linear_find(&layers, graph, graph->arena))
        return pl_budget_fail(err, pl_arena_budget(graph->arena), graph->name);
    if (adapts) status = pl_linear_adapt(&layers, how->modules, err);
    if (status == PL_OK && how->kind == PL_FINETUNE_QLORA)
        status = pl_linear_pack(&layers, graph->arena, err);
    if (!adapts && how->kind != PL_FINETUNE_NONE) status = choose_trained(graph, how, err);
    if (status == PL_OK && (adapts || (how->checkpoint && pl_finetune_hooks(graph))))
        status = pl_adapters_add(graph, &layers, how, err);
    return status;
}
