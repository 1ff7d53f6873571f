/* build: see build.h.
 *
 * Arrays grow in a scratch arena and move to the graph's when it is finished. Parameters are then
 * put into the order of named_parameters (a module's own, then its children's, each as registered):
 * a tree of path components remembers in which order components were first met or announced.
 *
 * Strides are found when all is there (layout.c). Left out: symbolic sizes. */
#include "graph/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/layout.h"

enum { MAX_DEPTH = 64, MAX_OPERATORS = 4 << 20 };

/* A component of a path: a module, or at the end of one a parameter. */
typedef struct component {
    const char *name;
    uint32_t length, hash;
    int32_t parent, first, last, next; /* children in order, -1: none */
    int32_t tensor;                    /* a parameter's or buffer's, else -1 */
    int32_t calls;                     /* of the module so far */
} component;

typedef struct level {
    int32_t module, component;
    const char *line;
} level;

struct pl_builder {
    pl_graph *graph;
    pl_arena *scratch;
    pl_tensor *tensors;
    pl_node *nodes;
    pl_module *modules;
    component *components;
    size_t tensor_count, tensor_room, node_count, node_room, module_count, module_room,
        component_count, component_room;
    int32_t *slots; /* a hash table of components by parent and name; 0: empty */
    size_t slot_count;
    int32_t *inputs, *outputs;
    size_t input_count, input_room, output_count, output_room;
    level levels[MAX_DEPTH];
    int depth;
    pl_dtype parameter_dtype;
    bool no_grad;
    pl_autocast autocast;
    /* the operator being written */
    pl_arg *args;
    int32_t *results;
    size_t arg_count, arg_room, result_count, result_room;
    bool calling;
    size_t called, given; /* nodes and inputs before modules that are not called */
    pl_tensor nothing;
    int64_t no_sizes[1];
    pl_error failure; /* code PL_OK: none */
};

/* ---- failures ---- */

void pl_build_fail(pl_builder *b, pl_status code, const char *where, const char *format, ...) {
    if (b->failure.code != PL_OK) return;
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    pl_fail(&b->failure, code, where, -1, "%s", text);
}

bool pl_build_failed(const pl_builder *b) {
    return b->failure.code != PL_OK;
}

bool pl_build_no_memory(pl_builder *b) {
    if (!pl_build_failed(b))
        pl_budget_fail(&b->failure, pl_arena_budget(b->scratch), b->graph->name);
    return false;
}

const char *pl_build_text(pl_builder *b, const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (length < 0) length = 0;
    if ((size_t)length >= sizeof text) length = sizeof text - 1;
    const char *copy = pl_arena_string(b->graph->arena, text, (size_t)length);
    if (!copy) pl_build_no_memory(b);
    return copy ? copy : "";
}

/* Room for one more in an array of the scratch arena. */
#define GROW(b, array, count, room)                                                                \
    ((count) < (room) || grow((b), (void **)&(array), &(room), (count) + 1, sizeof *(array)))
static bool grow(pl_builder *b, void **array, size_t *room, size_t need, size_t size) {
    void *moved = pl_arena_grow(b->scratch, *array, room, need, size);
    if (!moved) return pl_build_no_memory(b);
    *array = moved;
    return true;
}

void *pl_build_array(pl_builder *b, int64_t count, size_t size) {
    void *array = pl_build_failed(b) ? NULL : pl_arena_array(b->scratch, (size_t)count + 1, size);
    if (!array) pl_build_no_memory(b);
    return array;
}

/* ---- opening ---- */

pl_builder *pl_builder_open(const char *name, pl_budget *budget) {
    pl_arena *scratch = pl_arena_new(budget), *arena = pl_arena_new(budget);
    pl_builder *b = scratch ? pl_arena_alloc(scratch, sizeof *b) : NULL;
    pl_graph *graph = arena ? pl_arena_alloc(arena, sizeof *graph) : NULL;
    if (graph) graph->name = pl_arena_string(arena, name, strlen(name));
    if (!b || !graph || !graph->name) {
        pl_arena_free(&scratch);
        pl_arena_free(&arena);
        return NULL;
    }
    graph->arena = arena;
    graph->torch_version = "";
    b->graph = graph;
    b->scratch = scratch;
    b->parameter_dtype = PL_DT_F32;
    b->nothing = (pl_tensor){.name = "",
                             .dtype = PL_DT_F32,
                             .sizes = b->no_sizes,
                             .strides = b->no_sizes,
                             .producer = -1,
                             .tied = -1};
    if (GROW(b, b->components, b->component_count, b->component_room))
        b->components[b->component_count++] = (component){
            .name = "", .parent = -1, .first = -1, .last = -1, .next = -1, .tensor = -1};
    b->levels[0] = (level){.module = -1, .component = 0, .line = ""};
    return b;
}

void pl_builder_close(pl_builder **b) {
    if (!b || !*b) return;
    pl_arena *scratch = (*b)->scratch;
    if ((*b)->graph) pl_graph_close(&(*b)->graph);
    pl_arena_free(&scratch);
    *b = NULL;
}

/* ---- paths ---- */

/* FNV-1a from a start that the file's author does not know. */
static uint32_t hash_of(const pl_builder *b, int32_t parent, const char *name, size_t length) {
    uint64_t hash =
        (uint64_t)(uintptr_t)b->scratch * UINT64_C(0x9e3779b97f4a7c15) + (uint32_t)parent;
    for (size_t i = 0; i < length; i++)
        hash = ((hash ^ hash >> 29) ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(hash ^ hash >> 32);
}

/* Where the child stands in the table, or would stand. slots: a power of two. */
static size_t slot_of(const pl_builder *b, uint32_t hash, int32_t parent, const char *name,
                      size_t length) {
    const component *c = b->components;
    size_t at = hash & (b->slot_count - 1);
    for (; b->slots[at]; at = (at + 1) & (b->slot_count - 1)) {
        const component *found = &c[b->slots[at]];
        if (found->hash == hash && found->parent == parent && found->length == length &&
            memcmp(found->name, name, length) == 0)
            break;
    }
    return at;
}

/* Twice the slots, so that at most half are taken. Components are numbered from 1 in them. */
static bool grow_slots(pl_builder *b) {
    size_t count = b->slot_count ? b->slot_count * 2 : 256;
    int32_t *slots = pl_arena_array(b->scratch, count, sizeof *slots);
    if (!slots) return pl_build_no_memory(b);
    b->slots = slots;
    b->slot_count = count;
    for (size_t i = 1; i < b->component_count; i++) {
        size_t at = b->components[i].hash & (count - 1);
        while (slots[at]) at = (at + 1) & (count - 1);
        slots[at] = (int32_t)i;
    }
    return true;
}

/* The child of a component, made where it is new; -1: failed. */
static int32_t child_of(pl_builder *b, int32_t parent, const char *name, size_t length) {
    component *c = b->components;
    int32_t last = c[parent].last; /* most often the newest is asked for */
    if (last >= 0 && c[last].length == length && memcmp(c[last].name, name, length) == 0)
        return last;
    if ((b->component_count + 1) * 2 > b->slot_count && !grow_slots(b)) return -1;
    uint32_t hash = hash_of(b, parent, name, length);
    size_t slot = slot_of(b, hash, parent, name, length);
    if (b->slots[slot]) return b->slots[slot];
    if (!GROW(b, b->components, b->component_count, b->component_room)) return -1;
    const char *copy = pl_arena_string(b->graph->arena, name, length);
    if (!copy) {
        pl_build_no_memory(b);
        return -1;
    }
    int32_t made = (int32_t)b->component_count++;
    c = b->components;
    b->slots[slot] = made;
    c[made] = (component){.name = copy,
                          .length = (uint32_t)length,
                          .hash = hash,
                          .parent = parent,
                          .first = -1,
                          .last = -1,
                          .next = -1,
                          .tensor = -1};
    if (c[parent].last >= 0)
        c[c[parent].last].next = made;
    else
        c[parent].first = made;
    c[parent].last = made;
    return made;
}

/* "layers.0.fc" below a component; -1: failed. */
static int32_t component_at(pl_builder *b, int32_t from, const char *path) {
    while (*path && from >= 0) {
        size_t length = strcspn(path, ".");
        from = child_of(b, from, path, length);
        path += length + (path[length] == '.');
    }
    return from;
}

/* A component's whole path, in the graph's arena. */
static const char *path_of(pl_builder *b, int32_t at) {
    size_t length = 0;
    int depth = 0;
    for (int32_t i = at; i > 0; i = b->components[i].parent) {
        length += b->components[i].length + 1;
        depth++;
    }
    if (length == 0) return "";
    if (depth > MAX_DEPTH) {
        pl_build_fail(b, PL_INPUT, b->graph->name, "modules nest deeper than %d", MAX_DEPTH);
        return "";
    }
    char *path = pl_arena_alloc(b->graph->arena, length);
    if (!path) {
        pl_build_no_memory(b);
        return "";
    }
    size_t end = length - 1;
    for (int32_t i = at; i > 0; i = b->components[i].parent) {
        const component *c = &b->components[i];
        memcpy(path + end - c->length, c->name, c->length);
        end -= c->length;
        if (end > 0) path[--end] = '.';
    }
    return path;
}

/* ---- modules ---- */

static void end_call(pl_builder *b);

void pl_module_enter(pl_builder *b, const char *name, const char *type) {
    end_call(b);
    if (pl_build_failed(b)) return;
    if (b->depth + 1 >= MAX_DEPTH) {
        pl_build_fail(b, PL_INPUT, name, "modules nest deeper than %d", MAX_DEPTH);
        return;
    }
    const level *outer = &b->levels[b->depth];
    int32_t at = component_at(b, outer->component, name);
    if (at < 0 || !GROW(b, b->modules, b->module_count, b->module_room)) return;
    const char *path = path_of(b, at);
    const char *type_copy = pl_arena_string(b->graph->arena, type, strlen(type));
    if (!type_copy) {
        pl_build_no_memory(b);
        return;
    }
    int32_t module = (int32_t)b->module_count++;
    b->modules[module] = (pl_module){.path = path,
                                     .type = type_copy,
                                     .parent = outer->module,
                                     .call = b->components[at].calls++};
    bool of_torch = strncmp(type, "torch.nn.", 9) == 0;
    b->levels[++b->depth] =
        (level){.module = module, .component = at, .line = of_torch ? outer->line : ""};
}

void pl_module_leave(pl_builder *b) {
    end_call(b);
    if (!pl_build_failed(b) && b->depth > 0) b->depth--;
}

void pl_module_children(pl_builder *b, const char *names) {
    end_call(b);
    while (!pl_build_failed(b) && *names) {
        size_t length = strcspn(names, " ");
        if (length > 0) child_of(b, b->levels[b->depth].component, names, length);
        names += length + (names[length] == ' ');
    }
}

void pl_line(pl_builder *b, const char *code) {
    end_call(b);
    b->levels[b->depth].line = code;
}

/* ---- tensors ---- */

static int32_t new_tensor(pl_builder *b, const char *name, pl_dtype dtype, pl_role role, int dims,
                          const int64_t *sizes) {
    if (pl_build_failed(b)) return PL_NONE;
    if (dims < 0 || dims > PL_MAX_DIMS) {
        pl_build_fail(b, PL_INPUT, name, "a tensor of %d dimensions; the most is %d", dims,
                      PL_MAX_DIMS);
        return PL_NONE;
    }
    if (!GROW(b, b->tensors, b->tensor_count, b->tensor_room)) return PL_NONE;
    int64_t *numbers = pl_arena_array(b->graph->arena, (size_t)dims * 2 + 1, sizeof *numbers);
    if (!numbers) {
        pl_build_no_memory(b);
        return PL_NONE;
    }
    pl_tensor t = {.name = name,
                   .dtype = dtype,
                   .role = role,
                   .dims = (uint8_t)dims,
                   .sizes = numbers,
                   .strides = numbers + dims,
                   .producer = -1,
                   .tied = -1};
    int64_t stride = 1;
    bool fits = true;
    for (int i = dims; i-- > 0;) {
        t.sizes[i] = sizes[i];
        t.strides[i] = stride;
        fits = fits && sizes[i] >= 0 &&
               !__builtin_mul_overflow(stride, sizes[i] > 1 ? sizes[i] : 1, &stride);
    }
    if (!fits || !pl_tensor_fits(&t)) {
        pl_build_fail(b, PL_INPUT, name,
                      "a tensor that is larger than any memory, or of negative size");
        return PL_NONE;
    }
    b->tensors[b->tensor_count] = t;
    return (int32_t)b->tensor_count++;
}

void pl_build_parameter_dtype(pl_builder *b, pl_dtype dtype) {
    b->parameter_dtype = dtype;
}

/* A tensor that the present module owns; that of an earlier call where there is one. */
static int32_t owned_tensor(pl_builder *b, const char *name, pl_dtype dtype, pl_role role, int dims,
                            const int64_t *sizes) {
    end_call(b);
    if (pl_build_failed(b)) return PL_NONE;
    int32_t at = component_at(b, b->levels[b->depth].component, name);
    if (at < 0) return PL_NONE;
    int32_t old = b->components[at].tensor;
    if (old >= 0) {
        const pl_tensor *t = &b->tensors[old];
        bool same = t->dims == dims;
        for (int i = 0; i < dims && same; i++) same = t->sizes[i] == sizes[i];
        if (same) return old;
        pl_build_fail(b, PL_INPUT, t->path, "one parameter with two shapes");
        return PL_NONE;
    }
    const char *path = path_of(b, at);
    int32_t id = new_tensor(b, path, dtype, role, dims, sizes);
    if (id < 0) return PL_NONE;
    b->tensors[id].path = path;
    b->components[at].tensor = id;
    return id;
}

int32_t pl_build_parameter(pl_builder *b, const char *name, int dims, const int64_t *sizes) {
    int32_t id = owned_tensor(b, name, b->parameter_dtype, PL_ROLE_PARAMETER, dims, sizes);
    if (id >= 0) b->tensors[id].requires_grad = true;
    return id;
}

int32_t pl_build_tied(pl_builder *b, const char *name, int32_t other) {
    if (other < 0 || pl_build_failed(b)) return PL_NONE;
    while (b->tensors[other].tied >= 0) other = b->tensors[other].tied;
    const pl_tensor *t = &b->tensors[other];
    int32_t id = owned_tensor(b, name, t->dtype, PL_ROLE_PARAMETER, t->dims, t->sizes);
    if (id < 0 || id == other) return id;
    b->tensors[id].requires_grad = b->tensors[other].requires_grad;
    b->tensors[id].tied = other;
    return id;
}

int32_t pl_build_buffer(pl_builder *b, const char *name, pl_dtype dtype, bool persistent, int dims,
                        const int64_t *sizes) {
    int32_t id = owned_tensor(b, name, dtype, PL_ROLE_BUFFER, dims, sizes);
    if (id >= 0) b->tensors[id].persistent = persistent;
    return id;
}

int32_t pl_build_input(pl_builder *b, const char *name, pl_dtype dtype, int dims,
                       const int64_t *sizes) {
    end_call(b);
    int32_t id = new_tensor(b, pl_build_text(b, "%s", name), dtype, PL_ROLE_INPUT, dims, sizes);
    if (id >= 0 && GROW(b, b->inputs, b->input_count, b->input_room))
        b->inputs[b->input_count++] = id;
    return id;
}

void pl_build_output(pl_builder *b, int32_t tensor) {
    end_call(b);
    if (tensor >= 0 && !pl_build_failed(b) && GROW(b, b->outputs, b->output_count, b->output_room))
        b->outputs[b->output_count++] = tensor;
}

void pl_build_freeze(pl_builder *b, int32_t parameter) {
    if (parameter >= 0 && !pl_build_failed(b)) b->tensors[parameter].requires_grad = false;
}

const pl_tensor *pl_built(const pl_builder *b, int32_t tensor) {
    return tensor >= 0 && (size_t)tensor < b->tensor_count ? &b->tensors[tensor] : &b->nothing;
}

int64_t pl_built_size(const pl_builder *b, int32_t tensor, int dim) {
    const pl_tensor *t = pl_built(b, tensor);
    if (dim < 0) dim += t->dims;
    return dim >= 0 && dim < t->dims ? t->sizes[dim] : 1;
}

int pl_built_dims(const pl_builder *b, int32_t tensor) {
    return pl_built(b, tensor)->dims;
}

/* ---- operators ---- */

/* The operator being written gets its arguments and outputs. */
static void end_call(pl_builder *b) {
    if (!b->calling) return;
    b->calling = false;
    if (pl_build_failed(b)) return;
    pl_node *node = &b->nodes[b->node_count - 1];
    node->args = pl_arena_array(b->graph->arena, b->arg_count + 1, sizeof *node->args);
    node->outputs = pl_arena_array(b->graph->arena, b->result_count + 1, sizeof *node->outputs);
    if (!node->args || !node->outputs) {
        pl_build_no_memory(b);
        return;
    }
    if (b->arg_count) memcpy(node->args, b->args, b->arg_count * sizeof *b->args);
    if (b->result_count) memcpy(node->outputs, b->results, b->result_count * sizeof *b->results);
    node->arg_count = (uint32_t)b->arg_count;
    node->output_count = (uint32_t)b->result_count;
}

void pl_call(pl_builder *b, const char *target) {
    end_call(b);
    if (pl_build_failed(b)) return;
    if (b->node_count >= MAX_OPERATORS) {
        pl_build_fail(b, PL_INPUT, target, "more than %d operators", MAX_OPERATORS);
        return;
    }
    if (!pl_budget_operators(pl_arena_budget(b->scratch), (int64_t)b->node_count + 1)) {
        pl_build_no_memory(b);
        return;
    }
    if (!GROW(b, b->nodes, b->node_count, b->node_room)) return;
    const level *at = &b->levels[b->depth];
    b->nodes[b->node_count++] = (pl_node){.target = target,
                                          .module = at->module,
                                          .no_grad = b->no_grad,
                                          .autocast = (uint8_t)b->autocast,
                                          .source = at->line};
    b->arg_count = b->result_count = 0;
    b->calling = true;
}

/* The next argument of the operator being written; NULL: failed. */
static pl_arg *next_arg(pl_builder *b, const char *name, pl_arg_kind kind) {
    if (pl_build_failed(b) || !b->calling || !GROW(b, b->args, b->arg_count, b->arg_room))
        return NULL;
    pl_arg *arg = &b->args[b->arg_count++];
    *arg = (pl_arg){.name = name, .kind = kind};
    return arg;
}

void pl_call_tensor(pl_builder *b, const char *name, int32_t tensor) {
    pl_arg *arg = next_arg(b, name, tensor >= 0 ? PL_ARG_TENSOR : PL_ARG_NONE);
    if (arg && tensor >= 0) arg->tensor = tensor;
}

void pl_call_tensors(pl_builder *b, const char *name, int count, const int32_t *tensors) {
    pl_arg *arg = next_arg(b, name, PL_ARG_TENSORS);
    if (!arg) return;
    arg->list = pl_arena_array(b->graph->arena, (size_t)count + 1, sizeof *arg->list);
    if (!arg->list) {
        pl_build_no_memory(b);
        return;
    }
    if (count > 0) memcpy(arg->list, tensors, (size_t)count * sizeof *tensors);
    arg->count = (uint32_t)count;
}

void pl_call_int(pl_builder *b, const char *name, int64_t value) {
    pl_arg *arg = next_arg(b, name, PL_ARG_INT);
    if (arg) arg->i = value;
}

void pl_call_ints(pl_builder *b, const char *name, int count, const int64_t *values) {
    pl_arg *arg = next_arg(b, name, PL_ARG_INTS);
    if (!arg) return;
    arg->ints = pl_arena_array(b->graph->arena, (size_t)count + 1, sizeof *arg->ints);
    if (!arg->ints) {
        pl_build_no_memory(b);
        return;
    }
    if (count > 0) memcpy(arg->ints, values, (size_t)count * sizeof *values);
    arg->count = (uint32_t)count;
}

void pl_call_float(pl_builder *b, const char *name, double value) {
    pl_arg *arg = next_arg(b, name, PL_ARG_FLOAT);
    if (arg) arg->f = value;
}

void pl_call_bool(pl_builder *b, const char *name, bool value) {
    pl_arg *arg = next_arg(b, name, PL_ARG_BOOL);
    if (arg) arg->i = value;
}

void pl_call_dtype(pl_builder *b, const char *name, pl_dtype value) {
    pl_arg *arg = next_arg(b, name, PL_ARG_DTYPE);
    if (arg) arg->i = (int64_t)value;
}

void pl_call_string(pl_builder *b, const char *name, const char *value) {
    pl_arg *arg = next_arg(b, name, PL_ARG_STRING);
    if (arg) arg->s = value;
}

int32_t pl_call_result(pl_builder *b, pl_dtype dtype, int dims, const int64_t *sizes) {
    if (pl_build_failed(b) || !b->calling || !GROW(b, b->results, b->result_count, b->result_room))
        return PL_NONE;
    /* A value is named by its operator; its number makes it unique where it is written out. */
    int32_t id =
        new_tensor(b, b->nodes[b->node_count - 1].target, dtype, PL_ROLE_VALUE, dims, sizes);
    if (id < 0) return PL_NONE;
    b->tensors[id].producer = (int32_t)b->node_count - 1;
    b->results[b->result_count++] = id;
    return id;
}

int32_t pl_call_result_like(pl_builder *b, int32_t like) {
    const pl_tensor *t = pl_built(b, like);
    return pl_call_result(b, t->dtype, t->dims, t->sizes);
}

void pl_call_list(pl_builder *b) {
    if (!pl_build_failed(b) && b->calling) b->nodes[b->node_count - 1].output_is_list = true;
}

bool pl_build_no_grad(pl_builder *b, bool on) {
    end_call(b);
    bool before = b->no_grad;
    b->no_grad = on;
    return before;
}

pl_autocast pl_build_autocast(pl_builder *b, pl_autocast region) {
    end_call(b);
    pl_autocast before = b->autocast;
    b->autocast = region;
    return before;
}

enum { DROPPED = -2 }; /* the producer of a value that no graph has */

void pl_build_uncalled(pl_builder *b, bool on) {
    end_call(b);
    if (on) {
        b->called = b->node_count;
        b->given = b->input_count;
        return;
    }
    for (size_t i = b->tensor_count; i-- > 0;) {
        pl_tensor *t = &b->tensors[i];
        if (t->role == PL_ROLE_VALUE && t->producer >= (int32_t)b->called) t->producer = DROPPED;
    }
    for (size_t i = b->given; i < b->input_count; i++) b->tensors[b->inputs[i]].producer = DROPPED;
    b->node_count = b->called;
    b->input_count = b->given;
}

/* ---- finishing ---- */

/* Numbers the parameters below a component: its own, then its children's. Depth is that of paths,
 * which path_of bounds. */
static void number_below(const pl_builder *b, int32_t at, pl_role role, int32_t *place,
                         int32_t *next) {
    const component *c = b->components;
    for (int32_t i = c[at].first; i >= 0; i = c[i].next)
        if (c[i].tensor >= 0 && b->tensors[c[i].tensor].role == role)
            place[c[i].tensor] = (*next)++;
    for (int32_t i = c[at].first; i >= 0; i = c[i].next)
        if (c[i].first >= 0) number_below(b, i, role, place, next);
}

static void renumber(int32_t *id, const int32_t *place) {
    if (*id >= 0) *id = place[*id];
}

static void *copied(pl_builder *b, const void *from, size_t count, size_t size) {
    void *to = pl_arena_array(b->graph->arena, count + 1, size);
    if (!to)
        pl_build_no_memory(b);
    else if (count)
        memcpy(to, from, count * size);
    return to;
}

/* Parameters, then buffers, then the rest as it came. */
static void put_in_order(pl_builder *b) {
    pl_graph *g = b->graph;
    int32_t *place = pl_arena_array(b->scratch, b->tensor_count + 1, sizeof *place), next = 0;
    g->tensors = pl_arena_array(g->arena, b->tensor_count + 1, sizeof *g->tensors);
    if (!place || !g->tensors) {
        pl_build_no_memory(b);
        return;
    }
    for (size_t i = 0; i < b->tensor_count; i++) place[i] = -1;
    number_below(b, 0, PL_ROLE_PARAMETER, place, &next);
    number_below(b, 0, PL_ROLE_BUFFER, place, &next);
    for (size_t i = 0; i < b->tensor_count; i++)
        if (place[i] < 0 && b->tensors[i].producer != DROPPED) place[i] = next++;
    g->tensor_count = next;
    for (size_t i = 0; i < b->tensor_count; i++) {
        if (place[i] < 0) continue;
        pl_tensor *t = &g->tensors[place[i]];
        *t = b->tensors[i];
        renumber(&t->tied, place);
    }
    for (size_t i = 0; i < b->node_count; i++) {
        pl_node *node = &b->nodes[i];
        for (uint32_t k = 0; k < node->output_count; k++) renumber(&node->outputs[k], place);
        for (uint32_t k = 0; k < node->arg_count; k++) {
            pl_arg *arg = &node->args[k];
            if (arg->kind == PL_ARG_TENSOR) renumber(&arg->tensor, place);
            for (uint32_t j = 0; arg->kind == PL_ARG_TENSORS && j < arg->count; j++)
                renumber(&arg->list[j], place);
        }
    }
    for (size_t i = 0; i < b->input_count; i++) renumber(&b->inputs[i], place);
    for (size_t i = 0; i < b->output_count; i++) renumber(&b->outputs[i], place);
}

/* A tied name that comes first is the one the other is tied to, as Python meets them. */
static void turn_ties(pl_graph *g) {
    for (int32_t i = 0; i < g->tensor_count; i++) {
        int32_t other = g->tensors[i].tied;
        if (other < 0 || i > other) continue;
        for (int32_t k = 0; k < g->tensor_count; k++)
            if (g->tensors[k].tied == other && k != i) g->tensors[k].tied = i;
        g->tensors[other].tied = i;
        g->tensors[i].tied = -1;
    }
}

pl_status pl_builder_finish(pl_builder **builder, pl_graph **out, pl_error *err) {
    pl_builder *b = *builder;
    pl_graph *g = b->graph;
    *out = NULL;
    end_call(b);
    if (!pl_build_failed(b)) put_in_order(b);
    if (!pl_build_failed(b)) {
        g->node_count = (int32_t)b->node_count;
        g->module_count = (int32_t)b->module_count;
        g->input_count = (int32_t)b->input_count;
        g->output_count = (int32_t)b->output_count;
        g->nodes = copied(b, b->nodes, b->node_count, sizeof *b->nodes);
        g->modules = copied(b, b->modules, b->module_count, sizeof *b->modules);
        g->inputs = copied(b, b->inputs, b->input_count, sizeof *b->inputs);
        g->outputs = copied(b, b->outputs, b->output_count, sizeof *b->outputs);
    }
    pl_status status = b->failure.code;
    if (status == PL_OK) {
        turn_ties(g);
        pl_graph_lay_out(g);
        *out = g;
        b->graph = NULL;
    } else if (err) {
        *err = b->failure;
    }
    pl_builder_close(builder);
    return status;
}
