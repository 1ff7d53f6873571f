/* trace: see trace.h.
 *
 * The text is walked once; tables are checked against each other at the end, since they may come in
 * any order. Every count is bounded by the text's length and the arena's limit, every size by
 * PL_MAX_BYTES. Keys that are not known are passed over. */
#include "import/trace.h"

#include <stdio.h>
#include <string.h>

#include "import/json.h"

enum { VERSION = 1, MOST_STEPS = 64, MOST_TOKENS = 1 << 28 };

typedef struct reader {
    pl_json json;
    pl_arena *arena;
    pl_trace *trace;
    const char **operators;
    size_t operator_count, operator_room, function_room, warning_room, storage_room, tensor_room,
        event_room, mark_room, layer_room, module_room, node_room, parameter_room;
    pl_module *modules;
    pl_node *nodes;
    pl_tensor *parameters;
    int32_t *parameter_storage;
    size_t module_count, node_count, parameter_count, parameter_storage_room;
    int64_t *ints; /* of the list being read */
    int64_t steps; /* of training, as the job says; 0: it does not */
    size_t int_count, int_room;
    bool no_memory, versioned;
    char message[160];
} reader;

static bool no_memory(reader *r) {
    r->no_memory = true;
    return pl_json_fail(&r->json, "memory within the limit");
}

/* Room for one more element of an array of the trace. */
#define GROW(r, array, count, room)                                                                \
    (((array) = pl_arena_grow((r)->arena, (array), &(room), (count) + 1, sizeof *(array))) != NULL)

static bool text(reader *r, const char **out) {
    pl_json_text read;
    if (!pl_json_string(&r->json, &read)) return false;
    *out = pl_json_copy(r->arena, &read, NULL);
    return *out || no_memory(r);
}

static bool texts(reader *r, const char ***list, size_t *count, size_t *room) {
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        const char *one;
        if (!text(r, &one)) return false;
        const char **grown = pl_arena_grow(r->arena, *list, room, *count + 1, sizeof *grown);
        if (!grown) return no_memory(r);
        *list = grown;
        (*list)[(*count)++] = one;
    }
    return !r->json.failure;
}

static bool whole(reader *r, int64_t low, int64_t high, const char *expected, int64_t *out) {
    const char *at = r->json.at;
    if (!pl_json_int(&r->json, out, NULL)) return false;
    return (*out >= low && *out <= high) || pl_json_fail_at(&r->json, at, expected);
}

/* A list of integers into r->ints. */
static bool numbers(reader *r) {
    r->int_count = 0;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        int64_t value = 0;
        if (!pl_json_int(&r->json, &value, NULL)) return false;
        if (!GROW(r, r->ints, r->int_count, r->int_room)) return no_memory(r);
        r->ints[r->int_count++] = value;
    }
    return !r->json.failure;
}

static bool more(reader *r, const char *expected) {
    return pl_json_item(&r->json) || pl_json_fail(&r->json, expected);
}

/* Closes a list after its last known element: further ones are passed over. */
static bool rest(reader *r) {
    while (pl_json_item(&r->json)) pl_json_skip(&r->json);
    return !r->json.failure;
}

static bool keep_ints(reader *r, int64_t **out) {
    *out = pl_arena_array(r->arena, r->int_count + 1, sizeof **out);
    if (!*out) return no_memory(r);
    if (r->int_count) memcpy(*out, r->ints, r->int_count * sizeof **out);
    return true;
}

/* ---- tables ---- */

/* [bytes, kind] and, where it is not the default one, a stream; kind "" where it was not said. */
static bool storage(reader *r) {
    static const struct {
        const char *name;
        int8_t kind;
    } kinds[] = {{"weights", PL_WEIGHTS},
                 {"gradients", PL_GRADIENTS},
                 {"optimizer", PL_OPTIMIZER},
                 {"inputs", PL_INPUTS}};
    pl_trace *t = r->trace;
    pl_trace_storage s = {.tensor = -1, .kind = -1};
    pl_json_text kind;
    int64_t stream = 0;
    if (!pl_json_list(&r->json) || !more(r, "a storage's bytes") ||
        !whole(r, 0, PL_MAX_BYTES, "bytes from 0 to 2^56", &s.bytes) ||
        !more(r, "a storage's kind") || !pl_json_string(&r->json, &kind))
        return false;
    if (pl_json_item(&r->json) &&
        (!whole(r, 0, UINT8_MAX, "a stream from 0 to 255", &stream) || !rest(r)))
        return false;
    if (r->json.failure) return false;
    s.stream = (uint8_t)stream;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (pl_json_is(&kind, kinds[i].name, strlen(kinds[i].name))) s.kind = kinds[i].kind;
    if (!GROW(r, t->storages, t->storage_count, r->storage_room)) return no_memory(r);
    t->storages[t->storage_count++] = s;
    return true;
}

static bool shape(reader *r, uint8_t *dims, int64_t **out) {
    const char *at = r->json.at;
    if (!numbers(r)) return false;
    if (r->int_count > PL_MAX_DIMS) return pl_json_fail_at(&r->json, at, "at most 16 dimensions");
    *dims = (uint8_t)r->int_count;
    return keep_ints(r, out);
}

/* [storage, dtype, sizes, strides] */
static bool tensor(reader *r) {
    pl_trace *t = r->trace;
    pl_trace_tensor made = {0};
    int64_t index, dtype;
    uint8_t strides = 0;
    const char *at = r->json.at;
    if (!pl_json_list(&r->json) || !more(r, "a tensor's storage") ||
        !whole(r, 0, INT32_MAX, "a storage's number", &index) || !more(r, "a tensor's type") ||
        !whole(r, 0, PL_DT_COUNT - 1, "a type's number", &dtype) || !more(r, "a tensor's sizes") ||
        !shape(r, &made.dims, &made.sizes) || !more(r, "a tensor's strides") ||
        !shape(r, &strides, &made.strides) || !rest(r))
        return false;
    made.storage = (int32_t)index;
    made.dtype = (pl_dtype)dtype;
    pl_tensor probe = {.dtype = pl_dtype_size(made.dtype) ? made.dtype : PL_DT_F64,
                       .dims = made.dims,
                       .sizes = made.sizes,
                       .strides = made.strides};
    if (strides != made.dims || !pl_tensor_fits(&probe))
        return pl_json_fail_at(&r->json, at, "sizes and strides of a tensor that fits");
    if (!GROW(r, t->tensors, t->tensor_count, r->tensor_room)) return no_memory(r);
    t->tensors[t->tensor_count++] = made;
    return true;
}

/* [path, type, parent] */
static bool module(reader *r) {
    pl_module m = {0};
    int64_t parent;
    const char *at = r->json.at;
    if (!pl_json_list(&r->json) || !more(r, "a module's path") || !text(r, &m.path) ||
        !more(r, "a module's type") || !text(r, &m.type) || !more(r, "a module's parent") ||
        !whole(r, -1, (int64_t)r->module_count - 1, "an earlier module, or -1", &parent) ||
        !rest(r))
        return false;
    m.parent = (int32_t)parent;
    if (pl_module_too_deep(r->modules, m.parent))
        return pl_json_fail_at(&r->json, at, "at most 256 modules, one inside the other");
    if (!GROW(r, r->modules, r->module_count, r->module_room)) return no_memory(r);
    r->modules[r->module_count++] = m;
    return true;
}

/* [path, storage, dtype, sizes, "parameter" or "buffer", trainable] */
static bool parameter(reader *r) {
    pl_tensor p = {.producer = -1, .tied = -1, .persistent = true};
    int64_t index, dtype;
    pl_json_text role;
    const char *at = r->json.at;
    if (!pl_json_list(&r->json) || !more(r, "a parameter's path") || !text(r, &p.path) ||
        !more(r, "a parameter's storage") ||
        !whole(r, 0, INT32_MAX, "a storage's number", &index) || !more(r, "a parameter's type") ||
        !whole(r, 0, PL_DT_COUNT - 1, "a type's number", &dtype) ||
        !more(r, "a parameter's sizes") || !shape(r, &p.dims, &p.sizes) ||
        !more(r, "\"parameter\" or \"buffer\"") || !pl_json_string(&r->json, &role) ||
        !more(r, "whether it is trained") || !pl_json_bool(&r->json, &p.requires_grad) || !rest(r))
        return false;
    p.name = p.path;
    p.dtype = (pl_dtype)dtype;
    p.role = PL_JSON_IS(&role, "buffer") ? PL_ROLE_BUFFER : PL_ROLE_PARAMETER;
    p.strides = pl_arena_array(r->arena, (size_t)p.dims + 1, sizeof *p.strides);
    if (!p.strides) return no_memory(r);
    bool fits = true;
    for (int i = p.dims; i-- > 0;) {
        int64_t inner = i + 1 < p.dims ? p.strides[i + 1] : 1,
                size = i + 1 < p.dims ? p.sizes[i + 1] : 1;
        fits &= p.sizes[i] >= 0 && !__builtin_mul_overflow(inner, size ? size : 1, &p.strides[i]);
    }
    if (!fits || !pl_tensor_fits(&p)) return pl_json_fail_at(&r->json, at, "a tensor that fits");
    if (!GROW(r, r->parameters, r->parameter_count, r->parameter_room) ||
        !GROW(r, r->parameter_storage, r->parameter_count, r->parameter_storage_room))
        return no_memory(r);
    r->parameter_storage[r->parameter_count] = (int32_t)index;
    r->parameters[r->parameter_count++] = p;
    return true;
}

/* [type, output elements per sample, parameters] */
static bool layer(reader *r) {
    pl_trace *t = r->trace;
    pl_trace_layer l;
    if (!pl_json_list(&r->json) || !more(r, "a layer's type") || !text(r, &l.type) ||
        !more(r, "a layer's outputs") || !whole(r, 0, PL_MAX_BYTES, "elements", &l.outputs) ||
        !more(r, "a layer's parameters") || !whole(r, 0, PL_MAX_BYTES, "elements", &l.parameters) ||
        !rest(r))
        return false;
    if (!GROW(r, t->layers, t->layer_count, r->layer_room)) return no_memory(r);
    t->layers[t->layer_count++] = l;
    return true;
}

/* [event, phase, step] */
static bool mark(reader *r) {
    pl_trace *t = r->trace;
    int64_t event, phase, step;
    if (!pl_json_list(&r->json) || !more(r, "a mark's event") ||
        !whole(r, 0, MOST_TOKENS, "an event's number", &event) || !more(r, "a mark's phase") ||
        !whole(r, 0, PL_PHASE_OPTIMIZER, "a phase from 0 to 4", &phase) ||
        !more(r, "a mark's step") || !whole(r, 0, MOST_STEPS, "a step from 0 to 64", &step) ||
        !rest(r))
        return false;
    const char *at = r->json.at;
    if (!GROW(r, t->marks, t->mark_count, r->mark_room)) return no_memory(r);
    if (t->mark_count && t->marks[t->mark_count - 1].step > step)
        return pl_json_fail_at(&r->json, at, "steps in order");
    t->marks[t->mark_count++] =
        (pl_trace_mark){.event = (size_t)event, .phase = (uint8_t)phase, .step = (uint8_t)step};
    return true;
}

/* ---- events ---- */

static bool ids(reader *r, int32_t **out, uint32_t *count) {
    if (!numbers(r)) return false;
    *out = r->int_count ? pl_arena_array(r->arena, r->int_count, sizeof **out) : NULL;
    if (r->int_count && !*out) return no_memory(r);
    for (size_t i = 0; i < r->int_count; i++) {
        if (r->ints[i] < -1 || r->ints[i] > INT32_MAX)
            return pl_json_fail(&r->json, "tensors' numbers");
        (*out)[i] = (int32_t)r->ints[i];
    }
    *count = (uint32_t)r->int_count;
    return true;
}

/* Integers where all are; a list with a fraction in it becomes floats. */
static bool list_attribute(reader *r, pl_arg *arg) {
    r->int_count = 0;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        char next = pl_json_peek(&r->json);
        bool truth = false;
        double value = 0;
        if (next == 't' || next == 'f') {
            if (!pl_json_bool(&r->json, &truth)) return false;
            value = truth;
        } else if (!pl_json_number(&r->json, &value)) {
            return false;
        }
        if (!GROW(r, r->ints, r->int_count, r->int_room)) return no_memory(r);
        r->ints[r->int_count++] =
            value > -9e15 && value < 9e15 ? (int64_t)value : 0; /* NaN: nought */
    }
    arg->kind = PL_ARG_INTS;
    arg->count = (uint32_t)r->int_count;
    return !r->json.failure && keep_ints(r, &arg->ints);
}

static bool attribute(reader *r, pl_arg *arg) {
    *arg = (pl_arg){.name = "", .kind = PL_ARG_NONE};
    bool truth;
    double value;
    switch (pl_json_peek(&r->json)) {
    case 'n': return pl_json_null(&r->json);
    case 't':
    case 'f':
        arg->kind = PL_ARG_BOOL;
        if (!pl_json_bool(&r->json, &truth)) return false;
        arg->i = truth;
        return true;
    case '"': arg->kind = PL_ARG_STRING; return text(r, &arg->s);
    case '[': return list_attribute(r, arg);
    default:
        if (!pl_json_number(&r->json, &value)) return false;
        if (value > -9e15 && value < 9e15 && value == (double)(int64_t)value) {
            arg->kind = PL_ARG_INT;
            arg->i = (int64_t)value;
        } else {
            arg->kind = PL_ARG_FLOAT;
            arg->f = value;
        }
        return true;
    }
}

static bool attributes(reader *r, pl_trace_event *event) {
    pl_arg *list = NULL;
    size_t count = 0, room = 0;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        if (!GROW(r, list, count, room)) return no_memory(r);
        if (!attribute(r, &list[count])) return false;
        count++;
    }
    event->attributes = list;
    event->attribute_count = (uint32_t)count;
    return !r->json.failure;
}

/* A storage's number: it dies. [operator, module, function, inputs, outputs] and, for some,
 * attributes: it runs. The operator's number is kept in `node` and its module in `storage` until
 * the end. */
static bool event(reader *r) {
    pl_trace *t = r->trace;
    pl_trace_event made = {.node = PL_TRACE_DEATH, .function = -1};
    int64_t op = 0, where = 0, function = -1;
    if (pl_json_peek(&r->json) != '[') {
        if (!whole(r, 0, INT32_MAX, "an event: a storage's number or a list", &where)) return false;
        made.storage = (int32_t)where;
    } else {
        if (!pl_json_list(&r->json) || !more(r, "an operator") ||
            !whole(r, -1, INT32_MAX, "an operator's number", &op) || !more(r, "a module") ||
            !whole(r, -1, INT32_MAX, "a module's number", &where) || !more(r, "a function") ||
            !whole(r, -1, INT32_MAX, "a function's number", &function) || !more(r, "inputs") ||
            !ids(r, &made.inputs, &made.input_count) || !more(r, "outputs") ||
            !ids(r, &made.outputs, &made.output_count))
            return false;
        if (pl_json_item(&r->json) && (!attributes(r, &made) || !rest(r))) return false;
        if (r->json.failure) return false;
        made.node = (int32_t)op;
        made.storage = (int32_t)where;
        made.function = (int32_t)function;
    }
    if (!GROW(r, t->events, t->event_count, r->event_room)) return no_memory(r);
    t->events[t->event_count++] = made;
    return true;
}

/* ---- the whole ---- */

static bool backend(reader *r) {
    pl_json_text name;
    if (!pl_json_string(&r->json, &name)) return false;
    r->trace->nccl = PL_JSON_IS(&name, "nccl");
    return true;
}

static bool job(reader *r) {
    pl_trace *t = r->trace;
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        bool ok;
        if (PL_JSON_IS(&key, "batch"))
            ok = whole(r, 0, INT32_MAX, "a batch", &t->batch);
        else if (PL_JSON_IS(&key, "accumulate"))
            ok = whole(r, 1, INT32_MAX, "a count from 1", &t->accumulate);
        else if (PL_JSON_IS(&key, "steps"))
            ok = whole(r, 0, MOST_STEPS, "at most 64 steps", &r->steps);
        else if (PL_JSON_IS(&key, "world"))
            ok = whole(r, 0, INT32_MAX, "a count of ranks", &t->world);
        else if (PL_JSON_IS(&key, "rank"))
            ok = whole(r, 0, INT32_MAX, "a rank from 0", &t->rank);
        else if (PL_JSON_IS(&key, "parallel"))
            ok = text(r, &t->parallel);
        else if (PL_JSON_IS(&key, "backend"))
            ok = backend(r);
        else if (PL_JSON_IS(&key, "precision"))
            ok = text(r, &t->precision);
        else if (PL_JSON_IS(&key, "optimizer"))
            ok = text(r, &t->optimizer);
        else if (PL_JSON_IS(&key, "loss"))
            ok = text(r, &t->loss);
        else if (PL_JSON_IS(&key, "checkpoint"))
            ok = pl_json_bool(&r->json, &t->checkpoint);
        else if (PL_JSON_IS(&key, "channels_last"))
            ok = pl_json_bool(&r->json, &t->channels_last);
        else if (PL_JSON_IS(&key, "cudnn_benchmark"))
            ok = pl_json_bool(&r->json, &t->cudnn_benchmark);
        else
            ok = pl_json_skip(&r->json);
        if (!ok) return false;
    }
    return !r->json.failure;
}

static bool capability(reader *r) {
    if (!numbers(r)) return false;
    if (r->int_count == 2 && r->ints[0] >= 0 && r->ints[0] < 100 && r->ints[1] >= 0 &&
        r->ints[1] < 100) {
        r->trace->cc_major = (int)r->ints[0];
        r->trace->cc_minor = (int)r->ints[1];
    }
    return true;
}

static bool each(reader *r, bool (*one)(reader *)) {
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json))
        if (!one(r)) return false;
    return !r->json.failure;
}

static bool version(reader *r) {
    int64_t value;
    r->versioned = true;
    return whole(r, VERSION, VERSION, "version 1 of a trace", &value);
}

static bool names(reader *r) {
    return texts(r, &r->operators, &r->operator_count, &r->operator_room);
}
static bool functions(reader *r) {
    return texts(r, &r->trace->functions, &r->trace->function_count, &r->function_room);
}
static bool warnings(reader *r) {
    return texts(r, &r->trace->warnings, &r->trace->warning_count, &r->warning_room);
}
/* Words; those that are not known are passed over. */
static bool assumed(reader *r) {
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        pl_json_text word;
        if (!pl_json_string(&r->json, &word)) return false;
        if (PL_JSON_IS(&word, "sizes") || PL_JSON_IS(&word, "cards")) r->trace->bounded = true;
        if (PL_JSON_IS(&word, "unfinished")) r->trace->unfinished = true;
        if (PL_JSON_IS(&word, "compile")) r->trace->compiled = true;
    }
    return !r->json.failure;
}
static bool beyond(reader *r) {
    return whole(r, 0, PL_MAX_BYTES, "bytes from 0 to 2^56", &r->trace->beyond);
}
static bool torch_version(reader *r) {
    return text(r, &r->trace->graph.torch_version);
}
static bool model_name(reader *r) {
    return text(r, &r->trace->graph.name);
}
static bool storages(reader *r) {
    return each(r, storage);
}
static bool tensors(reader *r) {
    return each(r, tensor);
}
static bool modules(reader *r) {
    return each(r, module);
}
static bool parameters(reader *r) {
    return each(r, parameter);
}
static bool layers(reader *r) {
    return each(r, layer);
}
static bool marks(reader *r) {
    return each(r, mark);
}
static bool events(reader *r) {
    return each(r, event);
}

static const struct {
    const char *key;
    bool (*read)(reader *r);
} members[] = {{"plimsoll_trace", version},
               {"torch", torch_version},
               {"name", model_name},
               {"capability", capability},
               {"job", job},
               {"parameters", parameters},
               {"layers", layers},
               {"warnings", warnings},
               {"assumed", assumed},
               {"beyond", beyond},
               {"modules", modules},
               {"operators", names},
               {"functions", functions},
               {"storages", storages},
               {"tensors", tensors},
               {"marks", marks},
               {"events", events}};

static bool read_all(reader *r) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        size_t i = 0, count = sizeof members / sizeof *members;
        while (i < count && !pl_json_is(&key, members[i].key, strlen(members[i].key))) i++;
        if (!(i < count ? members[i].read(r) : pl_json_skip(&r->json))) return false;
    }
    return pl_json_end(&r->json);
}

/* What does not fit together, in r->message; NULL where all does. */
static const char *disagreement(reader *r) {
    pl_trace *t = r->trace;
    if (!r->versioned) return "expected \"plimsoll_trace\": 1";
    if (!t->event_count) return "the trace holds no events";
    for (size_t i = 0; i < t->tensor_count; i++)
        if ((size_t)t->tensors[i].storage >= t->storage_count)
            return "a tensor of a storage that is not there";
    for (size_t i = 0; i < r->parameter_count; i++)
        if ((size_t)r->parameter_storage[i] >= t->storage_count)
            return "a parameter in a storage that is not there";
    for (size_t i = 0; i < t->mark_count; i++)
        if (t->marks[i].event > t->event_count || (i && t->marks[i].event < t->marks[i - 1].event))
            return "marks that are not in the order of events";
    for (size_t i = 0; i < t->event_count; i++) {
        const pl_trace_event *e = &t->events[i];
        const char *wrong = NULL;
        if (e->node == PL_TRACE_DEATH) {
            if ((size_t)e->storage >= t->storage_count) wrong = "a storage";
        } else {
            if (e->node >= 0 && (size_t)e->node >= r->operator_count) wrong = "an operator";
            if (e->storage >= 0 && (size_t)e->storage >= r->module_count) wrong = "a module";
            if (e->function >= 0 && (size_t)e->function >= t->function_count) wrong = "a function";
            for (uint32_t k = 0; k < e->input_count; k++)
                if (e->inputs[k] >= 0 && (size_t)e->inputs[k] >= t->tensor_count)
                    wrong = "a tensor";
            for (uint32_t k = 0; k < e->output_count; k++)
                if (e->outputs[k] >= 0 && (size_t)e->outputs[k] >= t->tensor_count)
                    wrong = "a tensor";
        }
        if (wrong) {
            snprintf(r->message, sizeof r->message, "event %zu names %s that is not there", i,
                     wrong);
            return r->message;
        }
    }
    return NULL;
}

/* The graph of names; events' operators become its nodes. */
static bool finish(reader *r, const char *name) {
    pl_trace *t = r->trace;
    pl_graph *g = &t->graph;
    size_t count = 0;
    for (size_t i = 0; i < t->event_count; i++) count += t->events[i].node >= 0;
    if (count > INT32_MAX) return false;
    g->nodes = pl_arena_array(r->arena, count + 1, sizeof *g->nodes);
    if (!g->nodes) return false;
    for (size_t i = 0; i < t->event_count; i++) {
        pl_trace_event *e = &t->events[i];
        if (e->node < 0) continue;
        g->nodes[g->node_count] =
            (pl_node){.target = r->operators[e->node], .module = e->storage, .source = ""};
        e->node = g->node_count++;
        e->storage = -1;
    }
    g->arena = r->arena;
    if (!g->name || !*g->name) g->name = pl_arena_string(r->arena, name, strlen(name));
    if (!g->torch_version) g->torch_version = "";
    if (!t->precision) t->precision = "";
    if (!t->optimizer) t->optimizer = "";
    if (!t->parallel) t->parallel = "";
    if (!t->loss) t->loss = "";
    if (!t->accumulate) t->accumulate = 1;
    g->modules = r->modules;
    g->module_count = (int32_t)r->module_count;
    g->tensors = r->parameters;
    g->tensor_count = (int32_t)r->parameter_count;
    for (size_t i = 0; i < r->parameter_count; i++) {
        pl_trace_storage *s = &t->storages[r->parameter_storage[i]];
        if (s->tensor < 0) s->tensor = (int32_t)i;
        if (s->kind < 0) s->kind = PL_WEIGHTS;
    }
    t->steps = t->mark_count ? t->marks[t->mark_count - 1].step + 1 : 1;
    if (r->steps && r->steps < t->steps) t->steps = (int)r->steps; /* more is no training step */
    return g->name != NULL;
}

void pl_trace_close(pl_trace **trace) {
    if (!trace || !*trace) return;
    pl_arena *arena = (*trace)->arena;
    *trace = NULL;
    pl_arena_free(&arena);
}

pl_status pl_import_trace(pl_trace **out, const void *bytes, size_t size, const char *name,
                          const pl_reading *reading, pl_error *err) {
    *out = NULL;
    const pl_reading how = pl_reading_of(reading);
    pl_arena *arena = pl_arena_new(how.budget);
    pl_trace *trace = arena ? pl_arena_alloc(arena, sizeof *trace) : NULL;
    if (!trace) {
        pl_arena_free(&arena);
        return pl_budget_fail(err, how.budget, name);
    }
    trace->arena = arena;
    reader r = {.arena = arena, .trace = trace};
    pl_json_open(&r.json, bytes, size, how.depth_limit);
    const char *wrong;
    pl_status status = PL_OK;
    if (!read_all(&r))
        status = r.no_memory ? pl_budget_fail(err, how.budget, name)
                             : pl_fail(err, PL_INPUT, name, r.json.failure_at, "expected %s",
                                       r.json.failure ? r.json.failure : "a trace");
    else if ((wrong = disagreement(&r)))
        status = pl_fail(err, PL_INPUT, name, -1, "%s", wrong);
    else if (!finish(&r, name))
        status = pl_budget_fail(err, how.budget, name);
    if (status != PL_OK) {
        pl_trace_close(&trace);
        return status;
    }
    *out = trace;
    return PL_OK;
}
