/* file: the bytes of a model file, written and read little-endian whatever the machine.
 *
 * Both remember their first failure and do nothing after it, so that a chain of calls is checked
 * once at its end. */
#ifndef PL_LEARN_FILE_H
#define PL_LEARN_FILE_H

#include "core/error.h"

#include <string.h>

typedef struct pl_writer {
    unsigned char *bytes; /* malloc'ed; the caller frees it */
    size_t size, capacity;
    bool failed; /* out of memory */
} pl_writer;

void pl_write_u8(pl_writer *w, uint8_t value);
void pl_write_u32(pl_writer *w, uint32_t value);
void pl_write_u64(pl_writer *w, uint64_t value);
void pl_write_f32(pl_writer *w, float value);
void pl_write_f64(pl_writer *w, double value);
void pl_write_text(pl_writer *w, const char *text);                    /* u32 length, bytes */
void pl_write_bytes(pl_writer *w, const void *bytes, size_t size);     /* as they are */
void pl_write_floats(pl_writer *w, const float *values, size_t count); /* f32s, no length */
void pl_write_align(pl_writer *w, size_t align);                       /* with bytes of 0 */

typedef struct pl_reader {
    const unsigned char *bytes;
    size_t size, at;
    const char *failure; /* NULL, or what was expected; static text */
    size_t failure_at;   /* byte */
    bool no_memory;      /* that is the failure: nothing is wrong with the file */
    bool kept;           /* the bytes outlive what is read, which may point into them */
    bool trusted;        /* the library's own, checked when it was built: not checked again */
} pl_reader;

/* After a failure, all of these give 0, "" or false. */
uint8_t pl_read_u8(pl_reader *r);
uint32_t pl_read_u32(pl_reader *r);
uint64_t pl_read_u64(pl_reader *r);
float pl_read_f32(pl_reader *r);  /* refuses NaN and infinity */
double pl_read_f64(pl_reader *r); /* the same */
/* A number from least to most, else the failure `expected`. */
uint32_t pl_read_u32_in(pl_reader *r, uint32_t least, uint32_t most, const char *expected);
/* The text's copy, malloc'ed; at most `most` bytes, valid UTF-8, no 0 inside. NULL on failure. */
char *pl_read_text(pl_reader *r, size_t most);
/* Copies count numbers out; refuses NaN and infinity. */
bool pl_read_floats(pl_reader *r, float *out, size_t count);
/* A pointer to the next `size` bytes, or NULL. */
const void *pl_read_bytes(pl_reader *r, size_t size);
/* Whether at least count * size bytes are left, else the failure: ask before allocating for them.
 */
bool pl_read_has(pl_reader *r, size_t count, size_t size);
void pl_read_align(pl_reader *r, size_t align);        /* past bytes of 0, to a multiple of align */
void pl_read_fail(pl_reader *r, const char *expected); /* at the present byte */
void pl_read_no_memory(pl_reader *r);

/* Numbers anywhere. */
static inline uint32_t pl_u32_at(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static inline float pl_f32_at(const unsigned char *at) {
    uint32_t bits = pl_u32_at(at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Whether a file's arrays can be the machine's. */
#define PL_LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

#endif
