/* onnx: see onnx.h. The way from bytes to a recipe, and from a recipe to a graph; the parts are in
 * the other onnx_*.c files. */
#include "import/onnx.h"

#include <stdio.h>
#include <string.h>

#include "import/onnx_fx.h"
#include "import/onnx_plan.h"
#include "import/onnx_wire.h"

enum { ASSUMED_BATCH = 1, ASSUMED_SEQ = 128 };

/* ---- what it is ---- */

/* ModelProto: ir_version 1 varint, texts 2, 3, 4, 6, model_version 5 varint, graph 7, opset_import
 * 8, metadata_props 14, training_info 20, functions 25, configuration 26. The graph may be cut
 * short: reading it will show. */
bool pl_onnx_is(const void *bytes, size_t size) {
    static const uint8_t types[] = {9, 0, 2, 2, 2, 0, 2, 2, 2};
    pl_wire w = pl_wire_of(bytes, size);
    pl_wire_field f;
    bool version = false;
    for (int i = 0; i < 64; i++) {
        const uint8_t *at = w.at;
        if (!pl_wire_next(&w, &f)) {
            /* a long field that ends behind the file: the graph, cut short */
            return version && w.wrong && at < w.end && (*at == (7 << 3 | 2) || *at == (8 << 3 | 2));
        }
        bool later = f.number == 14 || f.number == 20 || f.number == 25 || f.number == 26;
        if (!later && (f.number > 8 || types[f.number] != f.type)) return false;
        if (later && f.type != 2) return false;
        if (f.number == 1 && (f.value == 0 || f.value > 1000)) return false;
        version |= f.number == 1;
        if (version && f.number == 7) return true;
    }
    return false;
}

/* ---- open dimensions ---- */

static bool is_initializer(const onnx_graph *g, int32_t id) {
    return g->values[id].initializer != NULL;
}

/* The first dimension of inputs is the batch, the second of inputs of integers the sequence. */
static void find_roles(onnx_plan *p) {
    const onnx_graph *g = &p->graph;
    p->batch = p->seq = -1;
    bool open_batch = false, open_seq = false;
    for (size_t i = 0; i < g->input_count; i++) {
        const onnx_value *v = &g->values[g->inputs[i]];
        if (is_initializer(g, g->inputs[i]) || v->dims < 1) continue;
        const onnx_dim *d = v->dim;
        if (d[0].param >= 0 && !p->roles[d[0].param]) p->roles[d[0].param] = 'b';
        if (d[0].param >= 0) open_batch = true;
        if (d[0].number > 0 && p->batch < 0) p->batch = d[0].number;
        if (v->dims < 2 || pl_dtype_is_float(v->dtype)) continue;
        if (d[1].param >= 0 && !p->roles[d[1].param]) p->roles[d[1].param] = 's';
        if (d[1].param >= 0) open_seq = true;
        if (d[1].number > 0 && p->seq < 0) p->seq = d[1].number;
    }
    if (open_batch) p->batch = -1;
    if (open_seq) p->seq = -1;
}

static bool has_role(const onnx_plan *p, uint8_t role) {
    for (size_t i = 0; i < p->graph.param_count; i++)
        if (p->roles[i] == role) return true;
    return false;
}

/* ---- building ---- */

const char *pl_onnx_copy(onnx_build *c, const char *text) {
    /* the same text follows itself often: lines, types */
    enum { CACHE = 256 };
    size_t at = ((uintptr_t)text >> 3) % CACHE;
    if (c->copied[at] != text) {
        c->copied[at] = text;
        c->copies[at] = pl_build_text(c->b, "%s", text);
    }
    return c->copies[at];
}

void pl_onnx_enter(onnx_build *c, const onnx_node *n) {
    const onnx_module *modules = c->g->modules;
    int32_t chain[64];
    int depth = n->module < 0 ? 0 : modules[n->module].depth, same = 0;
    if (depth > 60) return;
    for (int32_t m = n->module, i = depth; m >= 0; m = modules[m].parent) chain[--i] = m;
    while (same < depth && same < c->depth && c->entered[same] == chain[same]) same++;
    for (; c->depth > same; c->depth--) pl_module_leave(c->b);
    for (; c->depth < depth; c->depth++) {
        c->entered[c->depth] = chain[c->depth];
        pl_module_enter(c->b, modules[chain[c->depth]].name, modules[chain[c->depth]].type);
    }
    pl_line(c->b, *n->source ? pl_onnx_copy(c, n->source) : "");
}

int32_t pl_onnx_tensor(onnx_build *c, int32_t value) {
    if (value < 0) return PL_NONE;
    onnx_slot *s = &c->slots[value];
    if (s->tensor != PL_NONE || s->dims < 0) return s->tensor;
    if (!s->numbers && !is_initializer(c->g, value)) return PL_NONE;
    /* numbers that the file computes from sizes: code would make them with arange, full or tensor
     */
    const char *target =
        s->dims == 1 && !pl_dtype_is_float(s->dtype) ? "aten.arange.default" : "aten.full.default";
    int32_t like = pl_onnx_like(c, value);
    pl_call(c->b, like == PL_NONE ? target : "aten.new_full.default");
    if (like != PL_NONE) pl_call_tensor(c->b, "self", like);
    if (s->dims != 1) pl_call_ints(c->b, "size", s->dims, s->sizes);
    s->tensor = pl_call_result(c->b, s->dtype, s->dims, s->sizes);
    return s->tensor;
}

static void make_weights(onnx_build *c, const onnx_plan *p) {
    const onnx_graph *g = c->g;
    for (size_t i = 0; i < g->initializer_count; i++) {
        int32_t id = g->initializers[i];
        const onnx_tensor *t = g->values[id].initializer;
        onnx_slot *s = &c->slots[id];
        s->dtype = t->dtype;
        s->dims = t->dims;
        memcpy(s->sizes, t->sizes, sizeof s->sizes);
        s->numbers = t->numbers;
    }
    /* tied: the embedding's name comes first, as it is registered first */
    for (size_t i = 0; i < p->weight_count; i++) {
        const onnx_weight *w = &p->weights[i];
        if (!w->tied) continue;
        pl_build_parameter_dtype(c->b, c->slots[w->value].dtype);
        c->slots[w->value].tensor = pl_build_parameter(c->b, w->tied, 2, c->slots[w->value].sizes);
    }
    for (size_t i = 0; i < p->weight_count; i++) {
        const onnx_weight *w = &p->weights[i];
        if (w->tied) {
            pl_build_tied(c->b, w->path, c->slots[w->value].tensor);
            continue;
        }
        if (w->value < 0) {
            pl_build_parameter_dtype(c->b, w->dtype);
            int32_t id = w->role == PL_ROLE_PARAMETER
                             ? pl_build_parameter(c->b, w->path, w->dims, w->sizes)
                             : pl_build_buffer(c->b, w->path, w->dtype, true, w->dims, w->sizes);
            if (c->made[w->node] == PL_NONE) c->made[w->node] = id;
            continue;
        }
        onnx_slot *s = &c->slots[w->value];
        int64_t sizes[PL_MAX_DIMS];
        memcpy(sizes, s->sizes, sizeof sizes);
        if (w->turned && s->dims == 2) sizes[0] = s->sizes[1], sizes[1] = s->sizes[0];
        if (w->role == PL_ROLE_PARAMETER) {
            pl_build_parameter_dtype(c->b, s->dtype);
            s->tensor = pl_build_parameter(c->b, w->path, s->dims, sizes);
        } else {
            s->tensor =
                pl_build_buffer(c->b, w->path, s->dtype, w->role == PL_ROLE_BUFFER, s->dims, sizes);
        }
    }
}

static void make_inputs(onnx_build *c) {
    const onnx_graph *g = c->g;
    for (size_t i = 0; i < g->input_count; i++) {
        int32_t id = g->inputs[i];
        const onnx_value *v = &g->values[id];
        onnx_slot *s = &c->slots[id];
        if (is_initializer(g, id)) continue;
        if (v->dims < 0) {
            pl_build_fail(c->b, PL_INPUT, g->name, "input %.100s: expected its dimensions",
                          v->name);
            return;
        }
        s->dtype = v->dtype;
        s->dims = v->dims;
        for (int k = 0; k < v->dims; k++) {
            s->sizes[k] = v->dim[k].param >= 0 ? c->params[v->dim[k].param] : v->dim[k].number;
            if (s->sizes[k] >= 0) continue;
            pl_build_fail(
                c->b, PL_INPUT, g->name,
                "dimension %d of input %.100s is open (%.60s) and neither the batch nor a "
                "sequence: export it with a size",
                k, v->name, v->dim[k].param >= 0 ? g->params[v->dim[k].param] : "no name");
            return;
        }
        s->tensor = pl_build_input(c->b, v->name, s->dtype, s->dims, s->sizes);
    }
}

/* Whether a node outside of a module takes a value. */
static bool leaves(const onnx_graph *g, int32_t value, int32_t module) {
    for (size_t i = 0; i < g->node_count; i++) {
        const onnx_node *n = &g->nodes[i];
        for (uint32_t k = 0; n->module != module && k < n->input_count; k++)
            if (n->inputs[k] == value) return true;
    }
    return false;
}

/* Casts that do nothing in the type of the export are not in the file. Those of transformers'
 * rotary embeddings matter: they compute in float32 and return the type of what they are given, and
 * without the cast all of a bf16 model's attention would be float32. */
static void cast_rotary(onnx_build *c, const onnx_node *n) {
    const onnx_graph *g = c->g;
    if (n->module < 0 || !strstr(g->modules[n->module].type, "RotaryEmbedding") ||
        strncmp(g->modules[n->module].type, "transformers.", 13) != 0)
        return;
    for (uint32_t i = 0; i < n->fx->output_count; i++) {
        onnx_slot *s = &c->slots[n->fx->outputs[i]];
        if (s->tensor == PL_NONE || s->dtype != PL_DT_F32 ||
            !leaves(g, n->fx->outputs[i], n->module))
            continue;
        pl_line(c->b, "return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)");
        s->tensor = pl_aten_to(c->b, s->tensor, s->dtype);
    }
}

/* A node whose call is known waits for the last node of the call. */
static void emit_node(onnx_build *c, const onnx_plan *p, int32_t i) {
    const onnx_node *n = &c->g->nodes[i];
    if (!n->fx) {
        pl_onnx_emit(c, p, i);
        return;
    }
    if (i != n->fx->last) return;
    const onnx_node *lead = n;
    pl_onnx_enter(c, lead);
    if (!n->folded_norm && pl_onnx_fx_emit(c, n->fx)) {
        cast_rotary(c, n);
        return;
    }
    for (int32_t k = n->fx->first; k <= i; k++)
        if (c->g->nodes[k].fx == n->fx) pl_onnx_emit(c, p, k);
}

static pl_status build(const pl_recipe *recipe, int64_t batch, int64_t seq, pl_budget *budget,
                       pl_graph **out, pl_error *err) {
    const onnx_plan *p = recipe->description;
    const onnx_graph *g = &p->graph;
    *out = NULL;
    if (p->batch >= 0 && batch != p->batch)
        return pl_fail(
            err, PL_USAGE, g->name, -1,
            "the file was exported for a batch of %lld alone (dynamic_shapes makes it open)",
            (long long)p->batch);
    if (p->seq >= 0 && seq >= 0 && seq != p->seq)
        return pl_fail(
            err, PL_USAGE, g->name, -1,
            "the file was exported for a sequence of %lld alone (dynamic_shapes makes it "
            "open)",
            (long long)p->seq);
    onnx_build c = {.g = g};
    c.scratch = pl_arena_new(budget);
    c.b = pl_builder_open(recipe->name, budget);
    int64_t *params =
        c.scratch ? pl_arena_array(c.scratch, g->param_count + 1, sizeof *params) : NULL;
    if (params) {
        c.slots = pl_arena_array(c.scratch, g->value_count + 1, sizeof *c.slots);
        c.made = pl_arena_array(c.scratch, g->node_count + 1, sizeof *c.made);
        c.entered = pl_arena_array(c.scratch, 64, sizeof *c.entered);
        c.copied = pl_arena_array(c.scratch, 256, sizeof *c.copied);
        c.copies = pl_arena_array(c.scratch, 256, sizeof *c.copies);
    }
    if (!c.b || !c.slots || !c.made || !c.entered || !c.copied || !c.copies) {
        pl_builder_close(&c.b);
        pl_arena_free(&c.scratch);
        return pl_budget_fail(err, budget, g->name);
    }
    for (size_t i = 0; i < g->param_count; i++)
        params[i] = p->roles[i] == 'b' ? batch : p->roles[i] == 's' ? seq : -1;
    c.params = params;
    for (size_t i = 0; i < g->value_count; i++) {
        c.slots[i].dims = -1;
        c.slots[i].tensor = c.slots[i].list_tensor = PL_NONE;
    }
    for (size_t i = 0; i < g->node_count; i++) c.made[i] = PL_NONE;
    make_weights(&c, p);
    make_inputs(&c);
    size_t at = 0;
    for (; at < g->node_count && !pl_build_failed(c.b) && !c.no_memory; at++) {
        pl_onnx_infer(&c, &g->nodes[at]);
        pl_onnx_fold(&c, &g->nodes[at]);
        if (!c.no_memory) emit_node(&c, p, (int32_t)at);
    }
    if (c.no_memory) pl_build_no_memory(c.b);
    bool failed = pl_build_failed(c.b);
    for (; c.depth > 0; c.depth--) pl_module_leave(c.b);
    for (size_t i = 0; i < g->output_count; i++) {
        int32_t id = pl_onnx_tensor(&c, g->outputs[i]);
        if (id == PL_NONE)
            pl_build_fail(c.b, PL_INPUT, g->name, "output %.100s: its sizes cannot be worked out",
                          g->values[g->outputs[i]].name);
        pl_build_output(c.b, id);
    }
    pl_error found = {0};
    pl_status status = pl_builder_finish(&c.b, out, &found);
    pl_arena_free(&c.scratch);
    if (status == PL_OK || strncmp(found.where, g->name, sizeof found.where - 1) == 0) {
        if (status != PL_OK && err) *err = found;
        return status;
    }
    /* a rule of PyTorch's operators that the node breaks */
    const onnx_node *n = failed && at > 0 ? &g->nodes[at - 1] : NULL;
    return pl_fail(err, status, g->name, n ? n->position : -1, "node %.80s (%.40s): %.200s: %.150s",
                   n ? n->name : "", n ? n->op : "", found.where, found.message);
}

/* ---- reading ---- */

static bool is_op(const onnx_node *n, const char *op) {
    return strcmp(n->op, op) == 0;
}

static bool call_starts(const onnx_node *n, const char *target) {
    return n->fx && strncmp(n->fx->target, target, strlen(target)) == 0;
}

/* What a file exported for inference has lost. */
static bool warn(pl_recipe *r, const onnx_plan *p) {
    const onnx_graph *g = &p->graph;
    bool dropout = false, trains = false;
    for (size_t i = 0; i < g->node_count; i++) {
        const onnx_node *n = &g->nodes[i];
        dropout |= is_op(n, "Dropout");
        bool batch_norm = is_op(n, "BatchNormalization");
        trains |= (batch_norm && pl_onnx_int(n, "training_mode", 0)) ||
                  call_starts(n, "aten._native_batch_norm_legit_functional");
    }
    if (p->folded && !pl_recipe_warn(r,
                                     "exported for inference: %zu batch norms were folded into the "
                                     "layers before them, and are counted as training has them",
                                     p->folded))
        return false;
    if (!dropout && !trains &&
        !pl_recipe_warn(r,
                        "exported for inference, as it seems: dropout, where the model has any, is "
                        "not in the file (model.train() with dynamo=True, or "
                        "training=TrainingMode.TRAINING, keeps it)"))
        return false;
    return true;
}

static pl_status refuse_control(const onnx_graph *g, pl_error *err) {
    static const char *const refused[] = {"If", "Loop", "Scan", "SequenceMap"};
    for (size_t i = 0; i < g->node_count; i++)
        for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
            if (is_op(&g->nodes[i], refused[k]) && !*g->nodes[i].domain)
                return pl_fail(
                    err, PL_INPUT, g->name, g->nodes[i].position,
                    "node %.100s is a %s: control flow cannot be followed; export without "
                    "it, or take a .pt2",
                    g->nodes[i].name, refused[k]);
    return PL_OK;
}

static pl_dtype main_dtype(const onnx_plan *p) {
    int64_t most = 0, sums[PL_DT_COUNT] = {0};
    pl_dtype dtype = PL_DT_F32;
    for (size_t i = 0; i < p->weight_count; i++) {
        if (p->weights[i].role != PL_ROLE_PARAMETER || p->weights[i].value < 0) continue;
        const onnx_tensor *t = p->graph.values[p->weights[i].value].initializer;
        sums[t->dtype] += t->elements;
        if (sums[t->dtype] > most) most = sums[t->dtype], dtype = t->dtype;
    }
    return dtype;
}

static pl_status fill(pl_recipe *r, pl_arena *scratch, const void *bytes, size_t size,
                      pl_error *err) {
    onnx_plan *p = pl_arena_alloc(r->arena, sizeof *p);
    bool ok = p != NULL;
    if (ok) {
        p->graph.arena = r->arena;
        p->graph.name = r->name;
        pl_status status = pl_onnx_read(&p->graph, scratch, bytes, size, err);
        if (status == PL_OK) status = refuse_control(&p->graph, err);
        if (status != PL_OK) return status;
        p->roles = pl_arena_array(r->arena, p->graph.param_count + 1, 1);
        ok = p->roles && pl_onnx_fx_read(&p->graph, scratch) &&
             pl_onnx_scopes(&p->graph, scratch) && pl_onnx_unshare(&p->graph, scratch) &&
             pl_onnx_fx_bind(&p->graph) && pl_onnx_patterns(p, scratch) &&
             pl_onnx_weights(p, scratch);
    }
    if (ok) {
        find_roles(p);
        ok = warn(r, p);
    }
    if (!ok) return pl_budget_fail(err, pl_arena_budget(scratch), r->name);
    p->graph.names = (pl_names){0}; /* in the scratch arena, and of the file's bytes */
    p->graph.bytes = NULL;
    r->description = p;
    r->build = build;
    r->dtype = main_dtype(p);
    r->batch_assumed = p->batch < 0;
    r->batch = p->batch < 0 ? ASSUMED_BATCH : p->batch;
    bool sequence = has_role(p, 's');
    r->seq_assumed = sequence;
    r->seq = sequence ? ASSUMED_SEQ : p->seq >= 0 ? p->seq : PL_UNKNOWN;
    return PL_OK;
}

pl_status pl_import_onnx(pl_recipe **out, const void *bytes, size_t size, const char *name,
                         const pl_reading *reading, pl_error *err) {
    *out = NULL;
    const pl_reading how = pl_reading_of(reading);
    pl_arena *scratch = pl_arena_new(how.budget);
    pl_recipe *r = scratch ? pl_recipe_open(name, how.budget) : NULL;
    pl_status status =
        r ? fill(r, scratch, bytes, size, err) : pl_budget_fail(err, how.budget, name);
    pl_arena_free(&scratch);
    if (status == PL_OK)
        *out = r;
    else
        pl_recipe_close(&r);
    return status;
}
