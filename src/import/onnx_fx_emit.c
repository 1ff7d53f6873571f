/* onnx_fx_emit: appends a printed call of PyTorch's to a graph in the making.
 *
 * Sizes and types of the results are those that ONNX's own nodes have. torch.onnx breaks some
 * operators into others before it prints them (torch/onnx/_internal/exporter/_decomp.py); those
 * that eager mode does not run are put back: see `targets`. */
#include "import/onnx_fx.h"
#include "import/onnx_plan.h"

#include <string.h>

/* What is printed, what eager mode runs. outputs: how many of the results count, 0: all. */
static const struct target {
    const char *printed, *run;
    uint8_t outputs;
    bool train; /* a batch norm of a file exported for inference trains all the same */
} targets[] = {
    {"aten._native_batch_norm_legit_functional.default", "aten.batch_norm.default", 1, true},
    {"aten._native_batch_norm_legit_no_training.default", "aten.batch_norm.default", 1, true},
    {"aten._native_batch_norm_legit.default", "aten.batch_norm.default", 1, true},
    {"aten.native_batch_norm.default", "aten.batch_norm.default", 1, true},
    {"aten.batch_norm.default", "aten.batch_norm.default", 1, true},
    {"aten.native_dropout.default", "aten.dropout.default", 1, false},
    {"aten.native_layer_norm.default", "aten.layer_norm.default", 1, false},
    {"aten._fused_rms_norm.default", "aten.rms_norm.default", 1, false},
    {"aten._unsafe_index.Tensor", "aten.index.Tensor", 0, false},
    {"aten._unsafe_view.default", "aten.reshape.default", 0, false}, /* see is_reshape */
    {"aten.view_copy.default", "aten.view.default", 0, false},
    {"aten._softmax.default", "aten.softmax.int", 0, false},
    {"aten._log_softmax.default", "aten.log_softmax.int", 0, false},
    {"prims.convert_element_type.default", "aten.to.dtype", 0, false},
};

static const struct target *target_of(const char *printed) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].printed, printed) == 0) return &targets[i];
    return NULL;
}

/* Sizes taken apart and checked: their results are numbers, known already. */
static bool is_size(const char *target) {
    return strncmp(target, "aten.sym_", 9) == 0 || strncmp(target, "aten._assert", 12) == 0 ||
           strncmp(target, "aten._local_scalar", 18) == 0;
}

static const onnx_slot *slot_of(const onnx_build *c, const fx_arg *a) {
    return a->kind == FX_VALUE && a->value >= 0 ? &c->slots[a->value] : NULL;
}

/* An integer, written out or computed by the file. */
static bool integer_of(const onnx_build *c, const fx_arg *a, int64_t *out) {
    const onnx_slot *s = slot_of(c, a);
    if (a->kind == FX_INT || a->kind == FX_BOOL)
        *out = a->i;
    else if (s && s->numbers && pl_onnx_elements(s) == 1)
        *out = pl_onnx_integer(s->numbers[0]);
    else
        return false;
    return true;
}

/* ---- tensors that are not found by name ---- */

/* Values that a call's nodes take from elsewhere and that are no numbers, in order. */
static int outside_inputs(const onnx_build *c, const fx_call *call, int32_t *out, int most) {
    int count = 0;
    for (int32_t i = call->first; i <= call->last; i++) {
        const onnx_node *n = &c->g->nodes[i];
        for (uint32_t k = 0; n->fx == call && k < n->input_count; k++) {
            int32_t id = n->inputs[k];
            if (id < 0) continue;
            int32_t from = c->g->values[id].producer;
            bool inside = from >= 0 && c->g->nodes[from].fx == call, seen = false;
            const onnx_slot *s = &c->slots[id];
            for (int j = 0; j < count; j++) seen |= out[j] == id;
            bool number = s->numbers && s->tensor == PL_NONE;
            if (!inside && !seen && !number && count < most) out[count++] = id;
        }
    }
    return count;
}

enum { MOST_INPUTS = 64 };

typedef struct resolver {
    int32_t inputs[MOST_INPUTS];
    int count;
    uint64_t taken; /* bits: inputs that some argument names */
} resolver;

static void claim(resolver *r, const fx_arg *a) {
    if (a->kind == FX_VALUE)
        for (int i = 0; i < r->count; i++)
            if (r->inputs[i] == a->value) r->taken |= UINT64_C(1) << i;
    for (uint32_t i = 0; a->kind == FX_LIST && i < a->count; i++) claim(r, &a->items[i]);
}

/* The value of an argument; a name that the simplifier took away stands for the next input that no
 * other argument names. */
static int32_t value_of(resolver *r, const fx_arg *a) {
    if (a->kind != FX_VALUE || a->value >= 0) return a->kind == FX_VALUE ? a->value : -1;
    for (int i = 0; i < r->count; i++)
        if (!(r->taken >> i & 1)) {
            r->taken |= UINT64_C(1) << i;
            return r->inputs[i];
        }
    return -1;
}

/* Whether every tensor among the arguments can be had. */
static bool resolvable(const onnx_build *c, const fx_call *call, const resolver *all) {
    resolver r = *all;
    for (uint32_t i = 0; i < call->arg_count; i++) {
        const fx_arg *a = &call->args[i];
        if (!a->name || a->mark == '%') continue;
        if (a->kind == FX_VALUE) {
            int32_t id = value_of(&r, a);
            if (id < 0 || (c->slots[id].dims < 0 && c->slots[id].tensor == PL_NONE)) return false;
        }
        for (uint32_t k = 0; a->mark == '*' && a->kind == FX_LIST && k < a->count; k++)
            if (a->items[k].kind == FX_VALUE && value_of(&r, &a->items[k]) < 0) return false;
    }
    return true;
}

/* ---- arguments ---- */

static void add_list(onnx_build *c, resolver *r, const fx_arg *a, const onnx_slot *result) {
    enum { MOST = 256 };
    uint32_t count = a->count < MOST ? a->count : MOST;
    if (a->mark == '*') {
        int32_t list[MOST];
        for (uint32_t i = 0; i < count; i++)
            list[i] = a->items[i].kind == FX_VALUE ? pl_onnx_tensor(c, value_of(r, &a->items[i]))
                                                   : PL_NONE;
        pl_call_tensors(c->b, a->name, (int)count, list);
        return;
    }
    int64_t ints[MOST];
    for (uint32_t i = 0; i < count; i++) {
        if (a->items[i].kind == FX_FLOAT) return; /* scale factors: the sizes are known */
        /* a size that the simplifier worked in: the result has it */
        if (!integer_of(c, &a->items[i], &ints[i]))
            ints[i] = result && i < (uint32_t)result->dims ? result->sizes[i] : -1;
    }
    pl_call_ints(c->b, a->name, (int)count, ints);
}

static void add_arg(onnx_build *c, resolver *r, const fx_arg *a, const onnx_slot *result) {
    int64_t i;
    switch (a->kind) {
    case FX_INT: pl_call_int(c->b, a->name, a->i); break;
    case FX_FLOAT: pl_call_float(c->b, a->name, a->f); break;
    case FX_BOOL: pl_call_bool(c->b, a->name, a->i != 0); break;
    case FX_DTYPE: pl_call_dtype(c->b, a->name, (pl_dtype)a->i); break;
    case FX_TEXT: pl_call_string(c->b, a->name, pl_onnx_copy(c, a->text)); break;
    case FX_LIST: add_list(c, r, a, result); break;
    case FX_VALUE:
        if (a->mark == '%') {
            if (integer_of(c, a, &i)) pl_call_int(c->b, a->name, i);
        } else {
            int32_t id = value_of(r, a);
            const onnx_slot *s = id >= 0 ? &c->slots[id] : NULL;
            if (s && s->tensor == PL_NONE && s->numbers && s->dims == 0)
                pl_call_float(c->b, a->name, s->numbers[0]);
            else
                pl_call_tensor(c->b, a->name, id >= 0 ? c->slots[id].tensor : PL_NONE);
        }
        break;
    default: pl_call_tensor(c->b, a->name, PL_NONE); break;
    }
}

/* Tensors first: making one ends the call being written. */
static void prepare(onnx_build *c, const fx_call *call, const resolver *all) {
    resolver r = *all;
    for (uint32_t i = 0; i < call->arg_count; i++) {
        const fx_arg *a = &call->args[i];
        if (!a->name || a->mark == '%') continue;
        if (a->kind == FX_VALUE) {
            int32_t id = value_of(&r, a);
            bool number = id >= 0 && c->slots[id].numbers && c->slots[id].dims == 0;
            if (id >= 0 && !number) pl_onnx_tensor(c, id);
        }
        for (uint32_t k = 0; a->mark == '*' && a->kind == FX_LIST && k < a->count; k++)
            if (a->items[k].kind == FX_VALUE) pl_onnx_tensor(c, value_of(&r, &a->items[k]));
    }
}

/* Operators with several results; of others only the last node's is one. */
static bool has_many(const char *target) {
    static const char *const many[] = {
        "split",    "unsafe_split",   "chunk",   "unbind", "topk",    "sort",    "max.",
        "min.",     "lstm",           "gru",     "rnn_",   "native_", "_native", "var_mean",
        "max_pool", "_embedding_bag", "meshgrid"};
    const char *dot = strchr(target, '.');
    for (size_t i = 0; dot && i < sizeof many / sizeof *many; i++)
        if (strncmp(dot + 1, many[i], strlen(many[i])) == 0) return true;
    return false;
}

/* A number, or a mask turned into floats, that later calls happen to share with this one is no
 * result of it. */
static bool is_result(const onnx_build *c, const fx_call *call, int32_t value) {
    if (c->g->values[value].producer == call->last) return true;
    return !c->slots[value].numbers && has_many(call->target);
}

/* reshape of what cannot be viewed is printed as clone and _unsafe_view: whether this is such a
 * clone. */
static bool is_reshape(const onnx_build *c, const fx_call *call) {
    int32_t value = call->output_count == 1 ? call->outputs[0] : -1;
    if (value < 0 || !call->contiguous || strcmp(call->target, "aten.clone.default") != 0)
        return false;
    const onnx_graph *g = c->g;
    const fx_call *next = NULL;
    for (size_t i = (size_t)call->last + 1; i < g->node_count && i < (size_t)call->last + 64; i++)
        for (uint32_t k = 0; k < g->nodes[i].input_count; k++) {
            if (g->nodes[i].inputs[k] != value) continue;
            if (next && next != g->nodes[i].fx) return false;
            next = g->nodes[i].fx;
        }
    return next && strcmp(next->target, "aten._unsafe_view.default") == 0;
}

/* A dropout with p = 0 is decomposed to a clone (torch/_decomp/decompositions.py), where eager
 * PyTorch returns its input. A line that clones itself is believed. */
static bool is_dropout(const onnx_build *c, const fx_call *call) {
    const onnx_node *n = &c->g->nodes[call->last];
    if (strcmp(call->target, "aten.clone.default") != 0 || call->contiguous ||
        call->output_count != 1 || !pl_dtype_is_float(c->slots[call->outputs[0]].dtype))
        return false;
    if (n->module >= 0 && strstr(c->g->modules[n->module].type, "Dropout")) return true;
    return *n->source && !strstr(n->source, "clone(") && !strstr(n->source, "copy(");
}

static void add_results(onnx_build *c, const fx_call *call, const struct target *t) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < call->output_count; i++) {
        onnx_slot *s = &c->slots[call->outputs[i]];
        if (!is_result(c, call, call->outputs[i])) continue;
        if (t && t->outputs && count == t->outputs) break;
        count++;
        if (s->list) {
            pl_call_list(c->b);
            for (int k = 0; k < s->list_count; k++) {
                int32_t id =
                    pl_call_result(c->b, s->list[k].dtype, s->list[k].dims, s->list[k].sizes);
                if (k == 0) s->list_tensor = id;
            }
        } else {
            s->tensor = pl_call_result(c->b, s->dtype, s->dims, s->sizes);
        }
    }
    bool parts = strncmp(call->target, "aten.split", 10) == 0 ||
                 strncmp(call->target, "aten.chunk", 10) == 0 ||
                 strncmp(call->target, "aten.unbind", 11) == 0;
    if (parts && count > 1) pl_call_list(c->b);
}

bool pl_onnx_fx_emit(onnx_build *c, const fx_call *call) {
    if (is_size(call->target)) return true;
    const struct target *t = target_of(call->target);
    if (call->output_count == 0) return true;
    const onnx_slot *result = NULL;
    for (uint32_t i = call->output_count; i-- > 0;) {
        const onnx_slot *s = &c->slots[call->outputs[i]];
        if (s->dims < 0 && !s->list) return false;
        if (is_result(c, call, call->outputs[i])) result = s;
    }
    if (!result) return true;
    resolver r = {.count = 0};
    r.count = outside_inputs(c, call, r.inputs, MOST_INPUTS);
    for (uint32_t i = 0; i < call->arg_count; i++) claim(&r, &call->args[i]);
    if (!resolvable(c, call, &r)) return false;
    prepare(c, call, &r);
    if ((is_reshape(c, call) || is_dropout(c, call)) && call->arg_count &&
        call->args[0].kind == FX_VALUE && call->args[0].value >= 0) {
        c->slots[call->outputs[0]].tensor = pl_onnx_tensor(c, call->args[0].value);
        return true;
    }
    const char *target = t ? t->run : call->target;
    if (call->contiguous && strcmp(target, "aten.clone.default") == 0)
        target = "aten.contiguous.default";
    const char *in_place = pl_onnx_in_place(c->g, call->last, target);
    if (strncmp(target, "aten.batch_norm", 15) == 0) pl_onnx_count_batch(c, call->last);
    pl_call(c->b, in_place ? in_place : t ? target : pl_onnx_copy(c, target));
    for (uint32_t i = 0; i < call->arg_count; i++) {
        const fx_arg *a = &call->args[i];
        bool training = t && t->train && a->name && strcmp(a->name, "training") == 0;
        if (a->name && !training) add_arg(c, &r, a, result->list ? NULL : result);
    }
    if (t && t->train) pl_call_bool(c->b, "training", true);
    add_results(c, call, t);
    return true;
}
