/* graph_sound: whether a graph keeps what graph.h promises; for the tests of importers and their
 * fuzzer. NULL, or what is wrong. */
#ifndef PL_TESTS_GRAPH_SOUND_H
#define PL_TESTS_GRAPH_SOUND_H

#include "graph/expr.h"
#include "graph/graph.h"

static inline bool sound_id(const pl_graph *g, int32_t id, bool none_allowed) {
    return id < g->tensor_count && (id >= 0 || (none_allowed && id == -1));
}

static inline const char *sound_arg(const pl_graph *g, const pl_arg *a, int32_t node) {
    if (!a->name) return "an argument without a name";
    if (a->kind == PL_ARG_TENSOR &&
        (!sound_id(g, a->tensor, false) || g->tensors[a->tensor].producer >= node))
        return "a tensor argument that is not there yet";
    if (a->kind == PL_ARG_TENSORS)
        for (uint32_t i = 0; i < a->count; i++)
            if (!sound_id(g, a->list[i], true) ||
                (a->list[i] >= 0 && g->tensors[a->list[i]].producer >= node))
                return "a tensor in a list that is not there yet";
    if (a->kind == PL_ARG_INTS || a->kind == PL_ARG_BOOLS) {
        int64_t any = 0; /* of all, so that sanitizers see each one read */
        for (uint32_t i = 0; i < a->count; i++) any |= a->ints[i];
        if (a->kind == PL_ARG_BOOLS && (any & ~INT64_C(1)))
            return "a truth value that is neither 0 nor 1";
        if (a->list_expr)
            for (uint32_t i = 0; i < a->count; i++)
                if (a->list_expr[i] && pl_expr_index(a->list_expr[i]) >= g->expr_count)
                    return "an unknown expression";
    }
    if (a->kind == PL_ARG_FLOATS && a->count && !a->floats) return "floats that are NULL";
    if (a->kind == PL_ARG_STRING && !a->s) return "a string argument that is NULL";
    if (a->kind == PL_ARG_BOOL && (a->i & ~INT64_C(1)))
        return "a truth value that is neither 0 nor 1";
    if (a->expr && pl_expr_index(a->expr) >= g->expr_count) return "an unknown expression";
    return NULL;
}

static inline const char *graph_unsound(const pl_graph *g) {
    if (!g->name || !g->torch_version) return "no name";
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *t = &g->tensors[i];
        if (!t->name) return "a tensor without a name";
        if (t->dims > PL_MAX_DIMS) return "too many dimensions";
        if (t->producer < -1 || t->producer >= g->node_count) return "a producer that is not there";
        if (t->role != PL_ROLE_VALUE && t->producer >= 0) return "an input that a node makes";
        if ((t->role == PL_ROLE_PARAMETER || t->role == PL_ROLE_BUFFER) && !t->path)
            return "a parameter without a path";
        if (t->tied < -1 || t->tied >= g->tensor_count || t->tied == i) return "tied to nothing";
        bool made = t->role != PL_ROLE_VALUE;
        if (t->producer >= 0) {
            const pl_node *n = &g->nodes[t->producer];
            for (uint32_t k = 0; k < n->output_count; k++) made = made || n->outputs[k] == i;
        }
        if (made && !pl_tensor_fits(t)) return "a tensor too large";
    }
    for (int32_t i = 0; i < g->node_count; i++) {
        const pl_node *n = &g->nodes[i];
        if (!n->target || !n->source) return "a node without target or source";
        if (n->module < -1 || n->module >= g->module_count) return "a module that is not there";
        for (uint32_t k = 0; k < n->arg_count; k++) {
            const char *wrong = sound_arg(g, &n->args[k], i);
            if (wrong) return wrong;
        }
        for (uint32_t k = 0; k < n->output_count; k++)
            if (!sound_id(g, n->outputs[k], true) ||
                (n->outputs[k] >= 0 && g->tensors[n->outputs[k]].producer != i))
                return "an output that is not the node's";
    }
    for (int32_t i = 0; i < g->module_count; i++)
        if (!g->modules[i].path || !g->modules[i].type || g->modules[i].parent < -1 ||
            g->modules[i].parent >= i)
            return "a module before its parent";
    for (int32_t i = 0; i < g->input_count; i++)
        if (!sound_id(g, g->inputs[i], false) || g->tensors[g->inputs[i]].role != PL_ROLE_INPUT)
            return "an odd input";
    for (int32_t i = 0; i < g->output_count; i++)
        if (!sound_id(g, g->outputs[i], true)) return "an odd output";
    for (int32_t i = 0; i < g->mutation_count; i++)
        if (!sound_id(g, g->mutations[i][0], false) || !sound_id(g, g->mutations[i][1], false))
            return "an odd mutation";
    for (int32_t i = 0; i < g->symbol_count; i++)
        if (!g->symbols[i].name || !g->symbols[i].role || g->symbols[i].least > g->symbols[i].most)
            return "an odd symbol";
    return NULL;
}

#endif
