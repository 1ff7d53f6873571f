/* pl_crc32 is zlib's crc32 at every length, place and content. */
#include "core/crc32.h"

#include <stdlib.h>
#include <zlib.h>

#include "check.h"

static void known_value(void) {
    CHECK_INT(pl_crc32("123456789", 9), 0xcbf43926);
    CHECK_INT(pl_crc32("", 0), 0);
}

/* Short lengths and those from where it folds on, at every place within 16 bytes; then long ones. */
static void as_zlib_has_it(void) {
    enum { SIZE = 1 << 20, SHORT = 400, FOLDED = 16 << 10, PLACES = 16 };
    unsigned char *bytes = malloc(SIZE);
    CHECK(bytes != NULL);
    if (!bytes) return;
    uint32_t random = 7;
    for (size_t i = 0; i < SIZE; i++) {
        random = random * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(random >> 24);
    }
    int wrong = 0;
    for (size_t size = 0; size < FOLDED + SHORT; size += size == SHORT ? FOLDED - SHORT : 1)
        for (size_t at = 0; at < PLACES; at++)
            wrong += pl_crc32(bytes + at, size) != crc32_z(0, bytes + at, size);
    for (size_t size = SIZE - PLACES; size > FOLDED; size -= size / 7 + 1)
        wrong += pl_crc32(bytes + size % PLACES, size) != crc32_z(0, bytes + size % PLACES, size);
    memset(bytes, 0, SIZE / 2);
    memset(bytes + SIZE / 2, 0xff, SIZE / 2);
    for (size_t size = 1; size < SIZE; size = size * 3 + 1)
        wrong += pl_crc32(bytes + SIZE / 2 - size / 2, size) !=
                 crc32_z(0, bytes + SIZE / 2 - size / 2, size);
    CHECK_INT(wrong, 0);
    free(bytes);
}

int main(void) {
    RUN(known_value);
    RUN(as_zlib_has_it);
    return check_done();
}
