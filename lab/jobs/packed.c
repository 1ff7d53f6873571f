/* packed: see packed.h. The xz format is known by its six magic bytes (xz file
 * format 1.2.0, 2.1.1.1); unpacking is liblzma's, with several streams in a row allowed, as the xz
 * command does. The library is loaded at first use, as OpenBLAS is: linked, it costs every start of the command. */
#include "lab/jobs/packed.h"

#include <dlfcn.h>
#include <lzma.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lend.h"

enum { FIRST_ROOM = 1 << 16 };
static const uint64_t unpacker_limit = UINT64_C(512) << 20; /* memory of the decoder, bytes */

static struct {
    lzma_ret (*decoder)(lzma_stream *, uint64_t, uint32_t);
    lzma_ret (*code)(lzma_stream *, lzma_action);
    uint64_t (*memusage)(const lzma_stream *);
    void (*end)(lzma_stream *);
} xz;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* POSIX has dlsym return an object's pointer for a function's. */
static bool symbol(void *library, const char *name, void *out) {
    void *at = dlsym(library, name);
    memcpy(out, &at, sizeof at);
    return at != NULL;
}

static void load(void) {
    void *library = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL);
    found = library && symbol(library, "lzma_stream_decoder", &xz.decoder) &&
            symbol(library, "lzma_code", &xz.code) &&
            symbol(library, "lzma_memusage", &xz.memusage) && symbol(library, "lzma_end", &xz.end);
}

/* Makes room for at least one more byte, at most limit in all. */
static bool grow(char **bytes, size_t *room, size_t limit) {
    size_t more = *room ? *room : FIRST_ROOM / 2;
    more = more > limit / 2 ? limit : more * 2;
    if (more <= *room) return false;
    char *moved = realloc(*bytes, more);
    if (!moved) return false;
    *bytes = moved;
    *room = more;
    return true;
}

static pl_status over_limit(const lzma_stream *stream, const char *path, size_t limit,
                            pl_error *err) {
    return pl_fail(err, PL_LIMIT, path, (int64_t)stream->total_in,
                   "takes more than %zu bytes to unpack (the memory limit)", limit);
}

/* What is packed, the decoder and what comes out of it are within the limit together. */
static pl_status unpack(char **bytes, size_t *size, const char *packed, size_t packed_size,
                        const char *path, size_t limit, pl_error *err) {
    pthread_once(&once, load);
    if (!found)
        return pl_fail(err, PL_MISSING, path, -1,
                       "unpacking it wants liblzma.so.5, which is not installed: apt install "
                       "liblzma5");
    lzma_stream stream = LZMA_STREAM_INIT;
    uint64_t left = limit - packed_size;
    if (xz.decoder(&stream, left < unpacker_limit ? left : unpacker_limit, LZMA_CONCATENATED) !=
        LZMA_OK)
        return pl_fail(err, PL_MISSING, path, -1, "no memory for the xz decoder");
    stream.next_in = (const uint8_t *)packed;
    stream.avail_in = packed_size;
    size_t room = 0;
    lzma_ret result = LZMA_OK;
    pl_status status = PL_OK;
    while (result == LZMA_OK && status == PL_OK) {
        uint64_t decoder = xz.memusage(&stream);
        uint64_t most = decoder < left ? left - decoder : 0;
        if (*size == room && !grow(bytes, &room, (size_t)most)) {
            status = room >= most ? over_limit(&stream, path, limit, err)
                                  : pl_fail(err, PL_MISSING, path, (int64_t)stream.total_in,
                                            "no memory for it");
            break;
        }
        stream.next_out = (uint8_t *)*bytes + *size;
        stream.avail_out = room - *size;
        result = xz.code(&stream, LZMA_FINISH);
        *size = room - stream.avail_out;
    }
    if (status == PL_OK && result == LZMA_MEMLIMIT_ERROR)
        status = over_limit(&stream, path, limit, err);
    else if (status == PL_OK && result != LZMA_STREAM_END)
        status =
            pl_fail(err, result == LZMA_MEM_ERROR ? PL_MISSING : PL_INPUT, path,
                    (int64_t)stream.total_in, "not a whole xz file (liblzma code %d)", (int)result);
    xz.end(&stream);
    return status;
}

pl_status pl_packed_read(char **bytes, size_t *size, const char *path, size_t limit,
                         pl_error *err) {
    static const char magic[6] = {(char)0xfd, '7', 'z', 'X', 'Z', 0};
    *bytes = NULL;
    *size = 0;
    pl_file file;
    pl_status status = pl_file_open(&file, path, limit, err);
    if (status != PL_OK) return status;
    if (file.size >= sizeof magic && memcmp(file.bytes, magic, sizeof magic) == 0) {
        status = unpack(bytes, size, file.bytes, file.size, path, limit, err);
    } else { /* malloc's, and the caller's from here on */
        *bytes = (char *)(uintptr_t)file.bytes;
        *size = file.size;
        file.bytes = NULL;
    }
    pl_file_close(&file);
    if (status != PL_OK) {
        free(*bytes);
        *bytes = NULL;
        *size = 0;
    }
    return status;
}

pl_status pl_lab_read(char **bytes, size_t *size, const char *path, size_t most, pl_error *err) {
    *bytes = NULL;
    *size = 0;
    return pl_packed_read(bytes, size, path, most, err);
}
