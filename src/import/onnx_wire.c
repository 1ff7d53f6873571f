/* onnx_wire: see onnx_wire.h. */
#include "import/onnx_wire.h"

bool pl_wire_varint(pl_wire *wire, uint64_t *value) {
    uint64_t sum = 0;
    const uint8_t *at = wire->at;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (at == wire->end) break;
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) break; /* more than 64 bits */
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            wire->at = at;
            *value = sum;
            return true;
        }
    }
    wire->wrong = wire->at;
    return false;
}

static bool fixed(pl_wire *wire, size_t count, uint64_t *value) {
    if ((size_t)(wire->end - wire->at) < count) {
        wire->wrong = wire->at;
        return false;
    }
    *value = 0;
    for (size_t i = count; i-- > 0;) *value = *value << 8 | wire->at[i];
    wire->at += count;
    return true;
}

bool pl_wire_next(pl_wire *wire, pl_wire_field *field) {
    if (wire->wrong || wire->at == wire->end) return false;
    const uint8_t *start = wire->at;
    uint64_t key, size;
    *field = (pl_wire_field){0};
    if (!pl_wire_varint(wire, &key)) return false;
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff) {
        wire->wrong = start;
        return false;
    }
    field->number = (uint32_t)(key >> 3);
    field->type = key & 7;
    switch (field->type) {
    case 0: return pl_wire_varint(wire, &field->value);
    case 1: return fixed(wire, 8, &field->value);
    case 5: return fixed(wire, 4, &field->value);
    case 2:
        if (!pl_wire_varint(wire, &size)) return false;
        if (size > (size_t)(wire->end - wire->at)) break;
        field->bytes = wire->at;
        field->size = (size_t)size;
        wire->at += size;
        return true;
    default: break;
    }
    wire->wrong = start;
    return false;
}
