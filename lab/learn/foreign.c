/* foreign: dlopen of libraries that may not be there, from the loader's path and the places where
 * Python's packages keep theirs.
 *
 * XGBoost and LightGBM parse their own model bytes, and neither promises to survive hostile ones.
 * The length and the checksum here protect from accidents: a file cut short, a flipped bit, another
 * version's bytes written over. They do not protect from someone who makes a file on purpose and
 * computes the checksum: a model of these two learners is to be trusted like the program itself. */
#include "lab/learn/foreign.h"

#include <dlfcn.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static bool load(const char *path, void *functions, const pl_foreign_symbol *symbols,
                 size_t count) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) {
            dlclose(library);
            return false;
        }
        /* POSIX lets a function's address be kept in a void *; C has no cast for it. */
        memcpy((char *)functions + symbols[i].offset, &symbol, sizeof symbol);
    }
    return true;
}

/* The place with its variable put in. false: the variable is not set, or it is too long. */
static bool expand(char *out, size_t size, const char *place) {
    const char *rest = place;
    const char *value = "";
    if (place[0] == '~') {
        value = getenv("HOME");
        rest = place + 1;
    } else if (place[0] == '$') {
        char name[64];
        size_t length = strcspn(place + 1, "/");
        if (length >= sizeof name) return false;
        memcpy(name, place + 1, length);
        name[length] = 0;
        value = getenv(name);
        rest = place + 1 + length;
    }
    if (!value || (rest != place && !value[0])) return false;
    int written = snprintf(out, size, "%s%s", value, rest);
    return written > 0 && (size_t)written < size;
}

bool pl_foreign_open(void *functions, const pl_foreign_symbol *symbols, size_t symbol_count,
                     const char *const *places, size_t place_count) {
    char path[4096];
    for (size_t i = 0; i < place_count; i++) {
        if (!expand(path, sizeof path, places[i])) continue;
        if (!strchr(places[i], '*')) {
            if (load(path, functions, symbols, symbol_count)) return true;
            continue;
        }
        glob_t found = {0};
        bool loaded = false;
        if (glob(path, 0, NULL, &found) == 0)
            for (size_t k = found.gl_pathc; k-- > 0 && !loaded;) /* the newest version first */
                loaded = load(found.gl_pathv[k], functions, symbols, symbol_count);
        globfree(&found);
        if (loaded) return true;
    }
    return false;
}

bool pl_foreign_room(size_t bytes) {
    /* Measured of XGBoost 1.7: 25 MiB for the library, its threads and a model of 400 trees. */
    enum { LIBRARY = 48 << 20, TIMES = 4 };
    if (bytes > (SIZE_MAX - LIBRARY) / TIMES) return false;
    void *room = malloc(LIBRARY + TIMES * bytes);
    free(room);
    return room != NULL;
}

void pl_foreign_number(char *out, double value) {
    int power = value == 0 || !isfinite(value) ? 0 : (int)floor(log10(fabs(value))) - 8;
    double scaled = power < 0 ? value * pow(10, -power) : value / pow(10, power);
    snprintf(out, 32, "%llde%d", isfinite(scaled) ? llrint(scaled) : 0, power);
}

static uint64_t checksum(const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    uint64_t sum = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++) sum = (sum ^ at[i]) * UINT64_C(1099511628211);
    return sum;
}

void pl_foreign_write(pl_writer *writer, const void *bytes, size_t size) {
    uLongf packed_size = compressBound(size);
    Bytef *packed = malloc(packed_size);
    if (!packed || compress2(packed, &packed_size, bytes, size, Z_BEST_COMPRESSION) != Z_OK)
        writer->failed = true;
    if (!writer->failed) {
        pl_write_u64(writer, size);
        pl_write_u64(writer, packed_size);
        pl_write_u64(writer, checksum(packed, packed_size));
        pl_write_bytes(writer, packed, packed_size);
    }
    free(packed);
}

void *pl_foreign_read(pl_reader *reader, size_t *size) {
    uint64_t length = pl_read_u64(reader), packed_size = pl_read_u64(reader);
    uint64_t sum = pl_read_u64(reader);
    *size = 0;
    /* zlib packs a thousandfold at the most: no small file asks for much memory */
    if (length == 0 || length > PL_FOREIGN_MOST || packed_size > PL_FOREIGN_MOST ||
        length / 1100 > packed_size)
        pl_read_fail(reader, "1 byte to 256 MiB of a model");
    const void *packed = reader->failure ? NULL : pl_read_bytes(reader, (size_t)packed_size);
    if (!packed) return NULL;
    if (checksum(packed, (size_t)packed_size) != sum) {
        pl_read_fail(reader, "a model whose checksum is right");
        return NULL;
    }
    unsigned char *bytes = malloc((size_t)length + 1);
    uLongf unpacked = (uLongf)length;
    if (!bytes) {
        pl_read_no_memory(reader);
        return NULL;
    }
    int done = uncompress(bytes, &unpacked, packed, (uLong)packed_size);
    if (done == Z_MEM_ERROR) pl_read_no_memory(reader);
    if (done != Z_OK || unpacked != length) {
        pl_read_fail(reader, "a model that can be unpacked");
        free(bytes);
        return NULL;
    }
    bytes[length] = 0;
    *size = (size_t)length;
    return bytes;
}
