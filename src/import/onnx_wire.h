/* onnx_wire: protocol buffers as they lie in memory, field by field.
 *
 * Encoding: protobuf.dev/programming-guides/encoding. A message is a row of (number, wire type,
 * value); texts, bytes and messages are spans of the file, so that weights inside it are stepped
 * over and never looked at. Nothing is copied.
 *
 * Left out: groups (wire types 3 and 4), which ONNX does not use, and packing anything. */
#ifndef PL_IMPORT_ONNX_WIRE_H
#define PL_IMPORT_ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pl_wire {
    const uint8_t *at, *end;
    const uint8_t *wrong; /* the first byte that cannot be understood, or NULL */
} pl_wire;

typedef struct pl_wire_field {
    uint32_t number;
    uint8_t type;         /* 0 varint, 1 eight bytes, 2 span, 5 four bytes */
    uint64_t value;       /* of types 0, 1, 5 */
    const uint8_t *bytes; /* of type 2 */
    size_t size;
} pl_wire_field;

static inline pl_wire pl_wire_of(const void *bytes, size_t size) {
    return (pl_wire){.at = bytes, .end = bytes ? (const uint8_t *)bytes + size : NULL};
}
static inline pl_wire pl_wire_in(const pl_wire_field *field) {
    return pl_wire_of(field->bytes, field->size);
}

/* The next field; false at the end and where `wrong` is set. */
bool pl_wire_next(pl_wire *wire, pl_wire_field *field);
/* One varint at a wire's place (packed lists). */
bool pl_wire_varint(pl_wire *wire, uint64_t *value);

static inline double pl_wire_float(uint64_t bits) {
    union {
        uint32_t u;
        float f;
    } word = {(uint32_t)bits};
    return (double)word.f;
}
static inline double pl_wire_double(uint64_t bits) {
    union {
        uint64_t u;
        double f;
    } word = {bits};
    return word.f;
}

#endif
