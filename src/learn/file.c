/* file: the bytes of a model file. Numbers stand little-endian, floats as IEEE 754;
 * both sides build them by shifting, so that the machine's own order does not matter.
 *
 * The reader trusts nothing: it never reads past the end, and a number that is not finite is a
 * failure, because no trained weight is one. The checksum is trained.c's. */
#include "learn/file.h"
#include "core/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Room for `more` bytes at the end, or NULL; they are counted as written. */
static unsigned char *extend(pl_writer *w, size_t more) {
    if (w->failed) return NULL;
    if (more > SIZE_MAX / 4 - w->size) {
        w->failed = true;
        return NULL;
    }
    size_t need = w->size + more;
    if (need > w->capacity) {
        size_t capacity = w->capacity ? w->capacity : 256;
        while (capacity < need) capacity *= 2;
        unsigned char *bytes = realloc(w->bytes, capacity);
        if (!bytes) {
            w->failed = true;
            return NULL;
        }
        w->bytes = bytes;
        w->capacity = capacity;
    }
    unsigned char *at = w->bytes + w->size;
    w->size = need;
    return at;
}

static void put_u32(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}

void pl_write_u8(pl_writer *w, uint8_t value) {
    unsigned char *at = extend(w, 1);
    if (at) at[0] = value;
}

void pl_write_u32(pl_writer *w, uint32_t value) {
    unsigned char *at = extend(w, 4);
    if (at) put_u32(at, value);
}

void pl_write_u64(pl_writer *w, uint64_t value) {
    unsigned char *at = extend(w, 8);
    if (!at) return;
    put_u32(at, (uint32_t)value);
    put_u32(at + 4, (uint32_t)(value >> 32));
}

void pl_write_f32(pl_writer *w, float value) {
    pl_write_floats(w, &value, 1);
}

void pl_write_f64(pl_writer *w, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    pl_write_u64(w, bits);
}

void pl_write_text(pl_writer *w, const char *text) {
    size_t length = strlen(text);
    if (length > UINT32_MAX) {
        w->failed = true;
        return;
    }
    pl_write_u32(w, (uint32_t)length);
    pl_write_bytes(w, text, length);
}

void pl_write_bytes(pl_writer *w, const void *bytes, size_t size) {
    if (size == 0) return;
    unsigned char *at = extend(w, size);
    if (at) memcpy(at, bytes, size);
}

void pl_write_floats(pl_writer *w, const float *values, size_t count) {
    if (count > SIZE_MAX / 4) {
        w->failed = true;
        return;
    }
    if (count == 0) return;
    unsigned char *at = extend(w, count * 4);
    if (!at) return;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        put_u32(at + 4 * i, bits);
    }
}

void pl_write_align(pl_writer *w, size_t align) {
    size_t rest = w->size % align;
    unsigned char *at = rest ? extend(w, align - rest) : NULL;
    if (at) memset(at, 0, align - rest);
}

static void fail_at(pl_reader *r, size_t at, const char *expected) {
    if (r->failure) return;
    r->failure = expected;
    r->failure_at = at;
}

void pl_read_fail(pl_reader *r, const char *expected) {
    fail_at(r, r->at, expected);
}

void pl_read_no_memory(pl_reader *r) {
    if (!r->failure) r->no_memory = true;
    pl_read_fail(r, "enough memory");
}

/* The next `size` bytes, or NULL and the failure. */
static const unsigned char *take(pl_reader *r, size_t size, const char *expected) {
    if (r->failure) return NULL;
    if (size > r->size - r->at) {
        pl_read_fail(r, expected);
        return NULL;
    }
    const unsigned char *at = r->bytes + r->at;
    r->at += size;
    return at;
}

void pl_read_align(pl_reader *r, size_t align) {
    size_t rest = r->at % align;
    const unsigned char *at = rest ? take(r, align - rest, "bytes of 0, the file ends") : NULL;
    for (size_t i = 0; at && i < align - rest; i++)
        if (at[i]) fail_at(r, r->at - (align - rest) + i, "a byte of 0");
}

uint8_t pl_read_u8(pl_reader *r) {
    const unsigned char *at = take(r, 1, "a byte, the file ends");
    return at ? at[0] : 0;
}

uint32_t pl_read_u32(pl_reader *r) {
    const unsigned char *at = take(r, 4, "a number of 4 bytes, the file ends");
    return at ? pl_u32_at(at) : 0;
}

uint64_t pl_read_u64(pl_reader *r) {
    const unsigned char *at = take(r, 8, "a number of 8 bytes, the file ends");
    return at ? (uint64_t)pl_u32_at(at) | (uint64_t)pl_u32_at(at + 4) << 32 : 0;
}

float pl_read_f32(pl_reader *r) {
    float value = 0;
    return pl_read_floats(r, &value, 1) ? value : 0;
}

double pl_read_f64(pl_reader *r) {
    size_t at = r->at;
    uint64_t bits = pl_read_u64(r);
    if ((bits >> 52 & 0x7ff) == 0x7ff) {
        fail_at(r, at, "a finite number");
        return 0;
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t pl_read_u32_in(pl_reader *r, uint32_t least, uint32_t most, const char *expected) {
    size_t at = r->at;
    uint32_t value = pl_read_u32(r);
    if (!r->failure && (value < least || value > most)) fail_at(r, at, expected);
    return r->failure ? 0 : value;
}

char *pl_read_text(pl_reader *r, size_t most) {
    size_t at = r->at;
    uint32_t length = pl_read_u32(r);
    if (!r->failure && length > most) fail_at(r, at, "a text that is not as long as this");
    const unsigned char *bytes = take(r, length, "a text, the file ends in it");
    if (!bytes) return NULL;
    for (size_t i = 0; i < length;) {
        size_t step = bytes[i] ? pl_utf8_length(bytes + i, length - i) : 0;
        if (step == 0) {
            fail_at(r, at + 4 + i, "text in UTF-8 without 0 bytes");
            return NULL;
        }
        i += step;
    }
    char *text = malloc((size_t)length + 1);
    if (!text) {
        pl_read_no_memory(r);
        return NULL;
    }
    if (length) memcpy(text, bytes, length);
    text[length] = 0;
    return text;
}

bool pl_read_floats(pl_reader *r, float *out, size_t count) {
    if (!pl_read_has(r, count, 4)) return false;
    size_t begin = r->at;
    const unsigned char *at = r->bytes + begin;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = pl_u32_at(at + 4 * i);
        if ((bits >> 23 & 0xff) == 0xff) {
            fail_at(r, begin + 4 * i, "a finite number");
            return false;
        }
        memcpy(&out[i], &bits, sizeof bits);
    }
    r->at += 4 * count;
    return true;
}

const void *pl_read_bytes(pl_reader *r, size_t size) {
    return take(r, size, "more bytes, the file ends");
}

bool pl_read_has(pl_reader *r, size_t count, size_t size) {
    if (r->failure) return false;
    size_t left = r->size - r->at;
    if (size > 0 && count > left / size) {
        pl_read_fail(r, "as many values as were announced, the file ends");
        return false;
    }
    return true;
}
