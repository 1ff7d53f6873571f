/* costly KIND N: an input of tests/costly.h on stdout, for tests/test_limits.sh. */
#include <zlib.h>

#include "costly.h"

static void put(uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++) putchar((int)(value >> (8 * i) & 255));
}

/* What a zip's local header and its central directory both say of a member. */
static void put_member(uint32_t crc, size_t packed, size_t size, size_t name) {
    put(20, 2);
    put(0, 2);
    put(8, 2); /* deflated */
    put(0, 4);
    put(crc, 4);
    put((uint32_t)packed, 4);
    put((uint32_t)size, 4);
    put((uint32_t)name, 2);
    put(0, 2);
}

/* A .pt2 archive whose model.json is n MiB of blanks, deflated 1,000 : 1. */
static int deflated(int n) {
    static const char name[] = "m/models/model.json";
    size_t size = (size_t)n << 20, length = sizeof name - 1;
    uLongf packed = compressBound(size) + 64;
    char *text = malloc(size);
    unsigned char *bytes = malloc(packed);
    if (!text || !bytes) return 4;
    memset(text, ' ', size);
    text[0] = '{';
    z_stream z = {.next_in = (unsigned char *)text,
                  .avail_in = (unsigned)size,
                  .next_out = bytes,
                  .avail_out = (unsigned)packed};
    if (deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        return 4;
    packed = z.total_out;
    deflateEnd(&z);
    uint32_t crc = (uint32_t)crc32(0, (unsigned char *)text, (unsigned)size);
    put(0x04034b50, 4);
    put_member(crc, packed, size, length);
    fwrite(name, 1, length, stdout);
    fwrite(bytes, 1, packed, stdout);
    put(0x02014b50, 4);
    put(20, 2);
    put_member(crc, packed, size, length);
    put(0, 2);
    put(0, 2);
    put(0, 2);
    put(0, 4);
    put(0, 4);
    fwrite(name, 1, length, stdout);
    put(0x06054b50, 4);
    put(0, 4);
    put(1, 2);
    put(1, 2);
    put((uint32_t)(46 + length), 4);
    put((uint32_t)(30 + length + packed), 4);
    put(0, 2);
    free(text);
    free(bytes);
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        char *(*make)(int n, size_t *size);
    } kinds[] = {{"chain", costly_chain}, {"strange", costly_strange}, {"symbols", costly_symbols},
                 {"marks", costly_marks}, {"keys", costly_keys},       {"layers", costly_layers}};
    if (argc != 3) return 2;
    int n = atoi(argv[2]);
    if (strcmp(argv[1], "deflated") == 0) return deflated(n);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(argv[1], kinds[i].name) != 0) continue;
        size_t size;
        char *text = kinds[i].make(n, &size);
        fwrite(text, 1, size, stdout);
        free(text);
        return 0;
    }
    return 2;
}
