/* onnx_model: see onnx_model.h. Numbers in comments are those of the fields in onnx.proto.
 *
 * Two passes over the graph: the first gives initializers and declared values their numbers, the
 * second reads nodes. Every span is bounded by the one around it, so that no length in a file is
 * believed further than the file reaches; what is kept is at most in proportion to the file, but
 * for sizes, which are checked where tensors are made. */
#include "import/onnx_model.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/utf8.h"
#include "import/onnx_wire.h"

typedef struct reader {
    onnx_graph *g;
    pl_error *err;
    pl_status status;
    pl_wire_field graph;
    size_t value_room, node_room, input_room, output_room, initializer_room, param_room;
} reader;

static bool fail_at(reader *r, const uint8_t *at, const char *what) {
    if (r->status == PL_OK)
        r->status = pl_fail(r->err, PL_INPUT, r->g->name, at ? at - r->g->bytes : 0, "%s", what);
    return false;
}

static bool no_memory(reader *r) {
    if (r->status == PL_OK)
        r->status = pl_budget_fail(r->err, pl_arena_budget(r->g->arena), r->g->name);
    return false;
}

/* Whether a message was read to its end. */
static bool ended(reader *r, const pl_wire *w) {
    if (!w->wrong) return r->status == PL_OK;
    return fail_at(r, w->wrong, "expected a field of a protocol buffer");
}

#define GROW(r, array, count, room)                                                                \
    ((count) < (room) || grow((r), (void **)&(array), &(room), (count) + 1, sizeof *(array)))
static bool grow(reader *r, void **array, size_t *room, size_t need, size_t size) {
    void *moved = pl_arena_grow(r->g->arena, *array, room, need, size);
    if (!moved) return no_memory(r);
    *array = moved;
    return true;
}

/* ---- texts and names ---- */

const char *pl_onnx_text(onnx_graph *g, const char *bytes, size_t size) {
    int32_t entry = pl_names_get(&g->names, bytes, size, ONNX_SPACE_TEXTS);
    if (entry < 0) return NULL;
    if (!g->names.entries[entry].copy)
        g->names.entries[entry].copy = pl_arena_string(g->arena, bytes, size);
    return g->names.entries[entry].copy;
}

/* A text of the file: UTF-8 without 0, since it may be shown. */
static bool text_of(reader *r, const pl_wire_field *f, const char **out) {
    if (f->type != 2) return fail_at(r, f->bytes, "expected a text");
    for (size_t i = 0; i < f->size;) {
        size_t n = f->bytes[i] ? pl_utf8_length(f->bytes + i, f->size - i) : 0;
        if (n == 0) return fail_at(r, f->bytes + i, "expected UTF-8");
        i += n;
    }
    *out = pl_onnx_text(r->g, (const char *)f->bytes, f->size);
    return *out || no_memory(r);
}

static bool is_text(const pl_wire_field *f, const char *text) {
    return f->type == 2 && f->size == strlen(text) && memcmp(f->bytes, text, f->size) == 0;
}

/* The value of this name, made where it is new; -1 for an empty name. */
static bool value_of(reader *r, const pl_wire_field *f, int32_t *out) {
    onnx_graph *g = r->g;
    *out = -1;
    if (f->type != 2) return fail_at(r, NULL, "expected the name of a value");
    if (f->size == 0) return true;
    int32_t entry = pl_names_get(&g->names, (const char *)f->bytes, f->size, ONNX_SPACE_VALUES);
    if (entry < 0) return no_memory(r);
    if (g->names.entries[entry].value < 0) {
        const char *name;
        if (!text_of(r, f, &name) || !GROW(r, g->values, g->value_count, r->value_room))
            return false;
        g->values[g->value_count] = (onnx_value){.name = name, .producer = -1, .dims = -1};
        g->names.entries[entry].value = (int32_t)g->value_count++;
    }
    *out = g->names.entries[entry].value;
    return true;
}

int32_t pl_onnx_value(const onnx_graph *g, const char *name, size_t length) {
    int32_t entry = pl_names_find(&g->names, name, length, ONNX_SPACE_VALUES);
    return entry < 0 ? -1 : g->names.entries[entry].value;
}

/* ---- tensors ---- */

/* TensorProto.DataType */
static const pl_dtype dtypes[] = {
    PL_DT_UNKNOWN,    PL_DT_F32,    PL_DT_U8,        PL_DT_I8,   PL_DT_U16,  PL_DT_I16,
    PL_DT_I32,        PL_DT_I64,    PL_DT_UNKNOWN,   PL_DT_BOOL, PL_DT_F16,  PL_DT_F64,
    PL_DT_I32,        PL_DT_I64,    PL_DT_C64,       PL_DT_C128, PL_DT_BF16, PL_DT_F8E4M3FN,
    PL_DT_F8E4M3FNUZ, PL_DT_F8E5M2, PL_DT_F8E5M2FNUZ};

static pl_dtype dtype_of(uint64_t number) {
    return number < sizeof dtypes / sizeof *dtypes ? dtypes[number] : PL_DT_UNKNOWN;
}

/* A repeated varint, packed or not: calls take for each. */
typedef bool taker(reader *r, uint64_t value, void *context);

static bool each_varint(reader *r, const pl_wire_field *f, taker *take, void *context) {
    if (f->type == 0) return take(r, f->value, context);
    if (f->type != 2) return fail_at(r, NULL, "expected an integer or a list of them");
    pl_wire w = pl_wire_in(f);
    uint64_t value;
    while (w.at < w.end) {
        if (!pl_wire_varint(&w, &value)) return ended(r, &w);
        if (!take(r, value, context)) return false;
    }
    return true;
}

static bool take_size(reader *r, uint64_t value, void *context) {
    onnx_tensor *t = context;
    if (t->dims >= PL_MAX_DIMS) return fail_at(r, NULL, "expected at most 16 dimensions");
    if ((int64_t)value < 0) return fail_at(r, NULL, "expected sizes that are not negative");
    t->sizes[t->dims++] = (int64_t)value;
    return true;
}

typedef struct numbers {
    double *list;
    size_t count, room; /* room: elements of the tensor */
    bool is_half, is_bf16;
} numbers;

static double from_half(uint64_t bits, bool bf16) {
    if (bf16) return pl_wire_float(bits << 16);
    int exponent = (int)(bits >> 10 & 31);
    double part = (double)(bits & 1023) / 1024, sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) return part > 0 ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1 + part, exponent - 15) : ldexp(part, -14));
}

static bool take_number(reader *r, uint64_t value, void *context) {
    numbers *n = context;
    (void)r;
    if (n->count >= n->room) return true;
    n->list[n->count++] =
        n->is_half || n->is_bf16 ? from_half(value, n->is_bf16) : (double)(int64_t)value;
    return true;
}

static double raw_number(const uint8_t *at, pl_dtype dtype) {
    uint64_t bits = 0;
    int size = pl_dtype_size(dtype);
    for (int i = size; i-- > 0;) bits = bits << 8 | at[i];
    switch (dtype) {
    case PL_DT_F32: return pl_wire_float(bits);
    case PL_DT_F64: return pl_wire_double(bits);
    case PL_DT_F16: return from_half(bits, false);
    case PL_DT_BF16: return from_half(bits, true);
    case PL_DT_I8: return (double)(int8_t)bits;
    case PL_DT_I16: return (double)(int16_t)bits;
    case PL_DT_I32: return (double)(int32_t)bits;
    default: return (double)(int64_t)bits;
    }
}

/* Whether numbers of this type can be kept. */
static bool countable(pl_dtype dtype) {
    switch (dtype) {
    case PL_DT_F32:
    case PL_DT_F64:
    case PL_DT_F16:
    case PL_DT_BF16:
    case PL_DT_U8:
    case PL_DT_I8:
    case PL_DT_U16:
    case PL_DT_I16:
    case PL_DT_I32:
    case PL_DT_I64:
    case PL_DT_BOOL: return true;
    default: return false;
    }
}

/* Numbers of a small tensor: raw_data (9), or the list for its type (4 float, 5 int32, 7 int64, 10
 * double). */
static bool read_numbers(reader *r, const pl_wire_field *f, onnx_tensor *t) {
    pl_wire w = pl_wire_in(f);
    pl_wire_field part;
    size_t count = (size_t)t->elements;
    numbers n = {
        .room = count, .is_half = t->dtype == PL_DT_F16, .is_bf16 = t->dtype == PL_DT_BF16};
    n.list = pl_arena_array(r->g->arena, count + 1, sizeof *n.list);
    if (!n.list) return no_memory(r);
    bool external = false;
    while (pl_wire_next(&w, &part)) {
        size_t size = part.number == 10 ? 8 : 4;
        if (part.number == 14 && part.type == 0) {
            external = part.value == 1;
        } else if (part.number == 9 && part.type == 2 && n.count == 0) {
            size_t wide = (size_t)pl_dtype_size(t->dtype);
            if (part.size / wide < count) continue;
            for (; n.count < count; n.count++)
                n.list[n.count] = raw_number(part.bytes + n.count * wide, t->dtype);
        } else if (part.number == 5 || part.number == 7) {
            if (!each_varint(r, &part, take_number, &n)) return false;
        } else if ((part.number == 4 || part.number == 10) && part.type == 2) {
            for (size_t i = 0; i + size <= part.size && n.count < count; i += size)
                n.list[n.count++] =
                    raw_number(part.bytes + i, part.number == 4 ? PL_DT_F32 : PL_DT_F64);
        } else if ((part.number == 4 || part.number == 10) && n.count < count) {
            n.list[n.count++] =
                part.type == 5 ? pl_wire_float(part.value) : pl_wire_double(part.value);
        }
    }
    if (n.count == count && !external) t->numbers = n.list;
    return ended(r, &w);
}

static bool read_tensor(reader *r, const pl_wire_field *f, onnx_tensor **out, pl_wire_field *name) {
    if (f->type != 2) return fail_at(r, NULL, "expected a tensor");
    onnx_tensor *t = pl_arena_alloc(r->g->arena, sizeof *t);
    if (!t) return no_memory(r);
    pl_wire w = pl_wire_in(f);
    pl_wire_field part, raw = {0};
    while (pl_wire_next(&w, &part)) {
        if (part.number == 1 && !each_varint(r, &part, take_size, t)) return false;
        if (part.number == 2 && part.type == 0) t->dtype = dtype_of(part.value);
        if (part.number == 8 && name) *name = part;
        if (part.number == 9 && part.type == 2) raw = part;
    }
    if (!ended(r, &w)) return false;
    t->elements = 1;
    for (int i = 0; i < t->dims; i++)
        if (!pl_mul_i64(t->elements, t->sizes[i], &t->elements) || t->elements > PL_MAX_BYTES / 16)
            return fail_at(r, f->bytes, "expected a tensor of at most 2^52 elements");
    *out = t;
    int wide = pl_dtype_size(t->dtype);
    if (wide > 0 && raw.size / (size_t)wide >= (size_t)t->elements) t->raw = raw.bytes;
    if (t->elements > ONNX_MAX_NUMBERS || !countable(t->dtype)) return true;
    return read_numbers(r, f, t);
}

/* ---- declared types ---- */

static bool param_of(reader *r, const pl_wire_field *f, int32_t *out) {
    onnx_graph *g = r->g;
    if (f->size == 0) return true;
    int32_t entry = pl_names_get(&g->names, (const char *)f->bytes, f->size, ONNX_SPACE_PARAMS);
    if (entry < 0) return no_memory(r);
    if (g->names.entries[entry].value < 0) {
        if (!GROW(r, g->params, g->param_count, r->param_room) ||
            !text_of(r, f, &g->params[g->param_count]))
            return false;
        g->names.entries[entry].value = (int32_t)g->param_count++;
    }
    *out = g->names.entries[entry].value;
    return true;
}

/* TensorShapeProto: dim 1 of dim_value 1, dim_param 2. */
static bool read_shape(reader *r, const pl_wire_field *f, onnx_value *v) {
    onnx_dim dims[PL_MAX_DIMS];
    int count = 0;
    pl_wire w = pl_wire_in(f);
    pl_wire_field dim, part;
    while (pl_wire_next(&w, &dim)) {
        if (dim.number != 1 || dim.type != 2) continue;
        if (count == PL_MAX_DIMS) return fail_at(r, dim.bytes, "expected at most 16 dimensions");
        onnx_dim d = {-1, -1};
        pl_wire inner = pl_wire_in(&dim);
        while (pl_wire_next(&inner, &part)) {
            if (part.number == 1 && part.type == 0) d.number = (int64_t)part.value;
            if (part.number == 2 && part.type == 2 && !param_of(r, &part, &d.param)) return false;
        }
        if (!ended(r, &inner)) return false;
        if (d.number < -1) d.number = -1;
        dims[count++] = d;
    }
    if (!ended(r, &w)) return false;
    onnx_dim *kept = pl_arena_array(r->g->arena, (size_t)count + 1, sizeof *kept);
    if (!kept) return no_memory(r);
    if (count) memcpy(kept, dims, (size_t)count * sizeof *kept);
    v->dims = count;
    v->dim = kept;
    return true;
}

/* ValueInfoProto: name 1, type 2 of tensor_type 1 of elem_type 1, shape 2. */
static bool read_value(reader *r, const pl_wire_field *f, int32_t *out) {
    pl_wire w = pl_wire_in(f);
    pl_wire_field part, name = {.type = 2}, type = {0}, inner, field;
    if (f->type != 2) return fail_at(r, NULL, "expected a declared value");
    while (pl_wire_next(&w, &part)) {
        if (part.number == 1) name = part;
        if (part.number == 2 && part.type == 2) type = part;
    }
    if (!ended(r, &w) || !value_of(r, &name, out)) return false;
    if (*out < 0) return fail_at(r, f->bytes, "expected the name of a declared value");
    onnx_value *v = &r->g->values[*out];
    pl_wire types = pl_wire_in(&type);
    while (type.bytes && pl_wire_next(&types, &inner)) {
        if (inner.number != 1 || inner.type != 2) continue;
        pl_wire fields = pl_wire_in(&inner);
        v->declared = true;
        while (pl_wire_next(&fields, &field)) {
            if (field.number == 1 && field.type == 0) v->dtype = dtype_of(field.value);
            if (field.number == 2 && field.type == 2 && !read_shape(r, &field, v)) return false;
        }
        if (!ended(r, &fields)) return false;
    }
    return !type.bytes || ended(r, &types);
}

/* ---- nodes ---- */

typedef struct ints {
    int64_t *list;
    size_t count, room;
} ints;

static bool take_int(reader *r, uint64_t value, void *context) {
    ints *n = context;
    if (!GROW(r, n->list, n->count, n->room)) return false;
    n->list[n->count++] = (int64_t)value;
    return true;
}

/* AttributeProto: name 1, f 2, i 3, s 4, t 5, g 6, floats 7, ints 8. */
static bool read_attr(reader *r, const pl_wire_field *f, onnx_attr *a) {
    pl_wire w = pl_wire_in(f);
    pl_wire_field part;
    ints list = {0};
    double *floats = NULL;
    size_t count = 0, room = 0;
    onnx_tensor *tensor = NULL;
    *a = (onnx_attr){.name = ""};
    while (pl_wire_next(&w, &part)) {
        switch (part.number) {
        case 1:
            if (!text_of(r, &part, &a->name)) return false;
            break;
        case 2: a->kind = ONNX_FLOAT, a->f = pl_wire_float(part.value); break;
        case 3: a->kind = ONNX_INT, a->i = (int64_t)part.value; break;
        case 4:
            if (part.type != 2 || part.size > 4096) break; /* a blob: no operator here takes one */
            a->kind = ONNX_TEXT;
            if (!text_of(r, &part, &a->text)) return false;
            break;
        case 5:
            a->kind = ONNX_TENSOR;
            if (!read_tensor(r, &part, &tensor, NULL)) return false;
            a->tensor = tensor;
            break;
        case 6: a->kind = ONNX_GRAPH; break;
        case 7:
            a->kind = ONNX_FLOATS;
            if (part.type == 2) {
                for (size_t i = 0; i + 4 <= part.size; i += 4) {
                    if (!GROW(r, floats, count, room)) return false;
                    floats[count++] = raw_number(part.bytes + i, PL_DT_F32);
                }
            } else {
                if (!GROW(r, floats, count, room)) return false;
                floats[count++] = pl_wire_float(part.value);
            }
            break;
        case 8:
            a->kind = ONNX_INTS;
            if (!each_varint(r, &part, take_int, &list)) return false;
            break;
        case 20: /* an empty list has no field but its type */
            if (a->kind == ONNX_NOTHING && part.value == 7) a->kind = ONNX_INTS;
            if (a->kind == ONNX_NOTHING && part.value == 6) a->kind = ONNX_FLOATS;
            break;
        default: break;
        }
    }
    if (list.count > UINT32_MAX || count > UINT32_MAX) return no_memory(r);
    a->ints = list.list;
    a->floats = floats;
    a->count = (uint32_t)(a->kind == ONNX_FLOATS ? count : list.count);
    return ended(r, &w);
}

/* StringStringEntryProto: key 1, value 2. */
static bool read_metadata(reader *r, const pl_wire_field *f, onnx_node *n) {
    pl_wire w = pl_wire_in(f);
    pl_wire_field part, key = {0}, value = {0};
    while (pl_wire_next(&w, &part)) {
        if (part.number == 1 && part.type == 2) key = part;
        if (part.number == 2 && part.type == 2) value = part;
    }
    if (!ended(r, &w) || !value.bytes) return r->status == PL_OK;
    const char *text = (const char *)value.bytes;
    if (is_text(&key, "pkg.torch.onnx.name_scopes"))
        n->scopes = text, n->scopes_size = value.size;
    else if (is_text(&key, "pkg.torch.onnx.class_hierarchy"))
        n->classes = text, n->classes_size = value.size;
    else if (is_text(&key, "pkg.torch.onnx.stack_trace"))
        n->trace = text, n->trace_size = value.size;
    else if (is_text(&key, "pkg.torch.onnx.fx_node"))
        n->fx_text = text, n->fx_size = value.size;
    else if (is_text(&key, "pkg.onnxscript.rewriter.rule_name")) {
        static const char rule[] = "FuseBatchNormInto";
        for (size_t i = 0; i + sizeof rule - 1 <= value.size && !n->folded_norm; i++)
            n->folded_norm = memcmp(text + i, rule, sizeof rule - 1) == 0;
    }
    return true;
}

/* NodeProto: input 1, output 2, name 3, op_type 4, attribute 5, domain 7, metadata_props 9. */
static bool read_node(reader *r, const pl_wire_field *f) {
    onnx_graph *g = r->g;
    if (f->type != 2) return fail_at(r, NULL, "expected a node");
    if (!GROW(r, g->nodes, g->node_count, r->node_room)) return false;
    size_t ins = 0, outs = 0, attrs = 0;
    pl_wire w = pl_wire_in(f);
    pl_wire_field part;
    while (pl_wire_next(&w, &part)) {
        ins += part.number == 1;
        outs += part.number == 2;
        attrs += part.number == 5;
    }
    if (!ended(r, &w)) return false;
    if (ins + outs + attrs > INT32_MAX) return no_memory(r);
    onnx_node n = {.op = "",
                   .name = "",
                   .domain = "",
                   .source = "",
                   .module = -1,
                   .position = f->bytes - g->bytes};
    n.inputs = pl_arena_array(g->arena, ins + 1, sizeof *n.inputs);
    n.outputs = pl_arena_array(g->arena, outs + 1, sizeof *n.outputs);
    n.attrs = pl_arena_array(g->arena, attrs + 1, sizeof *n.attrs);
    if (!n.inputs || !n.outputs || !n.attrs) return no_memory(r);
    w = pl_wire_in(f);
    while (pl_wire_next(&w, &part)) {
        bool ok = true;
        int32_t id;
        switch (part.number) {
        case 1:
            ok = value_of(r, &part, &id);
            n.inputs[n.input_count++] = id;
            if (ok && id >= 0) g->values[id].uses++;
            break;
        case 2:
            ok = value_of(r, &part, &id);
            n.outputs[n.output_count++] = id;
            if (!ok || id < 0) break;
            if (g->values[id].producer >= 0 || g->values[id].initializer)
                return fail_at(r, part.bytes, "expected every value to be made once");
            g->values[id].producer = (int32_t)g->node_count;
            break;
        case 3: ok = text_of(r, &part, &n.name); break;
        case 4: ok = text_of(r, &part, &n.op); break;
        case 5: ok = part.type == 2 && read_attr(r, &part, &n.attrs[n.attr_count++]); break;
        case 7: ok = text_of(r, &part, &n.domain); break;
        case 9: ok = part.type != 2 || read_metadata(r, &part, &n); break;
        default: break;
        }
        if (!ok) return fail_at(r, part.bytes ? part.bytes : f->bytes, "expected a node");
    }
    g->nodes[g->node_count++] = n;
    return true;
}

/* ---- the graph ---- */

static bool read_initializer(reader *r, const pl_wire_field *f) {
    onnx_graph *g = r->g;
    onnx_tensor *t;
    pl_wire_field name = {.type = 2};
    int32_t id;
    if (!read_tensor(r, f, &t, &name) || !value_of(r, &name, &id)) return false;
    if (id < 0) return fail_at(r, f->bytes, "expected the name of an initializer");
    if (g->values[id].initializer)
        return fail_at(r, f->bytes, "expected one initializer of a name, not two");
    if (!GROW(r, g->initializers, g->initializer_count, r->initializer_room)) return false;
    g->values[id].initializer = t;
    g->initializers[g->initializer_count++] = id;
    return true;
}

/* GraphProto: node 1, initializer 5, input 11, output 12, value_info 13. */
static bool read_graph(reader *r) {
    onnx_graph *g = r->g;
    pl_wire w = pl_wire_in(&r->graph);
    pl_wire_field part;
    int32_t id;
    while (pl_wire_next(&w, &part)) {
        switch (part.number) {
        case 5:
            if (!read_initializer(r, &part)) return false;
            break;
        case 11:
            if (!read_value(r, &part, &id) || !GROW(r, g->inputs, g->input_count, r->input_room))
                return false;
            g->inputs[g->input_count++] = id;
            break;
        case 12:
            if (!read_value(r, &part, &id) || !GROW(r, g->outputs, g->output_count, r->output_room))
                return false;
            g->outputs[g->output_count++] = id;
            g->values[id].uses++;
            break;
        case 13:
            if (!read_value(r, &part, &id)) return false;
            break;
        default: break;
        }
    }
    if (!ended(r, &w)) return false;
    w = pl_wire_in(&r->graph);
    while (pl_wire_next(&w, &part))
        if (part.number == 1 && !read_node(r, &part)) return false;
    return ended(r, &w);
}

/* ModelProto: producer_name 2, producer_version 3, graph 7, opset_import 8 (domain 1, version 2).
 */
pl_status pl_onnx_read(onnx_graph *g, pl_arena *scratch, const void *bytes, size_t size,
                       pl_error *err) {
    reader r = {.g = g, .err = err, .status = PL_OK};
    pl_wire w = pl_wire_of(bytes, size);
    pl_wire_field part, inner;
    g->bytes = bytes;
    g->producer = g->producer_version = "";
    if (!pl_names_open(&g->names, scratch, size / 512 < 4096 ? size / 512 : 4096)) {
        no_memory(&r);
        return r.status;
    }
    while (pl_wire_next(&w, &part)) {
        bool ok = true;
        if (part.number == 2) ok = text_of(&r, &part, &g->producer);
        if (part.number == 3) ok = text_of(&r, &part, &g->producer_version);
        if (part.number == 7 && part.type == 2) r.graph = part;
        if (part.number == 8 && part.type == 2) {
            pl_wire set = pl_wire_in(&part);
            int64_t version = 0;
            bool own = true;
            while (pl_wire_next(&set, &inner)) {
                if (inner.number == 1) own = inner.size == 0 || is_text(&inner, "ai.onnx");
                if (inner.number == 2 && inner.type == 0) version = (int64_t)inner.value;
            }
            ok = ended(&r, &set);
            if (own) g->opset = version;
        }
        if (!ok) return r.status;
    }
    if (!ended(&r, &w)) return r.status;
    if (!r.graph.bytes) {
        fail_at(&r, bytes, "expected an ONNX model with a graph");
        return r.status;
    }
    if (!read_graph(&r)) return r.status;
    if (g->node_count == 0) fail_at(&r, r.graph.bytes, "expected a graph with nodes");
    return r.status;
}

/* ---- attributes ---- */

const onnx_attr *pl_onnx_attr(const onnx_node *n, const char *name) {
    for (uint32_t i = 0; i < n->attr_count; i++)
        if (strcmp(n->attrs[i].name, name) == 0) return &n->attrs[i];
    return NULL;
}

int64_t pl_onnx_int(const onnx_node *n, const char *name, int64_t otherwise) {
    const onnx_attr *a = pl_onnx_attr(n, name);
    return a && a->kind == ONNX_INT ? a->i : otherwise;
}

double pl_onnx_float(const onnx_node *n, const char *name, double otherwise) {
    const onnx_attr *a = pl_onnx_attr(n, name);
    return !a                      ? otherwise
           : a->kind == ONNX_FLOAT ? a->f
           : a->kind == ONNX_INT   ? (double)a->i
                                   : otherwise;
}

const char *pl_onnx_string(const onnx_node *n, const char *name, const char *otherwise) {
    const onnx_attr *a = pl_onnx_attr(n, name);
    return a && a->kind == ONNX_TEXT ? a->text : otherwise;
}
