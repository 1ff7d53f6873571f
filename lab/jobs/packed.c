/* packed: see packed.h. The xz format is known by its six magic bytes (xz file
 * format 1.2.0, 2.1.1.1); unpacking is liblzma's, with several streams in a row allowed, as the xz
 * command does. */
#include "lab/jobs/packed.h"

#include <errno.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 1 << 16 };
static const uint64_t unpacker_limit = UINT64_C(512) << 20; /* memory of the decoder, bytes */

/* Makes room for at least one more byte, at most limit + 1 in all (so that "too long" is seen). */
static bool grow(char **bytes, size_t *room, size_t limit) {
    size_t more = *room ? *room * 2 : FIRST_ROOM;
    if (more > limit) more = limit + 1;
    if (more <= *room) return false;
    char *moved = realloc(*bytes, more);
    if (!moved) return false;
    *bytes = moved;
    *room = more;
    return true;
}

static pl_status read_plain(char **bytes, size_t *size, FILE *file, const char *path, size_t limit,
                            pl_error *err) {
    size_t room = 0;
    for (;;) {
        if (*size == room && !grow(bytes, &room, limit))
            return pl_fail(err, *size > limit ? PL_INPUT : PL_MISSING, path, (int64_t)*size,
                           *size > limit ? "larger than %zu bytes" : "no memory for it", limit);
        size_t got = fread(*bytes + *size, 1, room - *size, file);
        *size += got;
        if (got == 0) break;
    }
    if (ferror(file)) return pl_fail(err, PL_INPUT, path, (int64_t)*size, "%s", strerror(errno));
    return PL_OK;
}

static pl_status unpack(char **bytes, size_t *size, const char *packed, size_t packed_size,
                        const char *path, size_t limit, pl_error *err) {
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&stream, unpacker_limit, LZMA_CONCATENATED) != LZMA_OK)
        return pl_fail(err, PL_MISSING, path, -1, "no memory for the xz decoder");
    stream.next_in = (const uint8_t *)packed;
    stream.avail_in = packed_size;
    size_t room = 0;
    lzma_ret result = LZMA_OK;
    pl_status status = PL_OK;
    while (result == LZMA_OK) {
        if (*size == room && !grow(bytes, &room, limit)) {
            status = pl_fail(
                err, *size > limit ? PL_INPUT : PL_MISSING, path, (int64_t)stream.total_in,
                *size > limit ? "unpacks to more than %zu bytes" : "no memory for it", limit);
            break;
        }
        stream.next_out = (uint8_t *)*bytes + *size;
        stream.avail_out = room - *size;
        result = lzma_code(&stream, LZMA_FINISH);
        *size = room - stream.avail_out;
    }
    if (status == PL_OK && result != LZMA_STREAM_END)
        status =
            pl_fail(err, result == LZMA_MEM_ERROR ? PL_MISSING : PL_INPUT, path,
                    (int64_t)stream.total_in, "not a whole xz file (liblzma code %d)", (int)result);
    lzma_end(&stream);
    return status;
}

pl_status pl_packed_read(char **bytes, size_t *size, const char *path, size_t limit,
                         pl_error *err) {
    static const char magic[6] = {(char)0xfd, '7', 'z', 'X', 'Z', 0};
    *bytes = NULL;
    *size = 0;
    FILE *file = fopen(path, "rb");
    if (!file) return pl_fail(err, PL_INPUT, path, -1, "%s", strerror(errno));
    pl_status status = read_plain(bytes, size, file, path, limit, err);
    fclose(file);
    if (status == PL_OK && *size >= sizeof magic && memcmp(*bytes, magic, sizeof magic) == 0) {
        char *packed = *bytes;
        size_t packed_size = *size;
        *bytes = NULL;
        *size = 0;
        status = unpack(bytes, size, packed, packed_size, path, limit, err);
        free(packed);
    }
    if (status != PL_OK) {
        free(*bytes);
        *bytes = NULL;
        *size = 0;
    }
    return status;
}
