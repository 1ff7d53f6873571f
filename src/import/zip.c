/* zip: see zip.h. Every offset and size of the archive is checked against its end before it is
 * used. */
#include "import/zip.h"

#include <zlib.h>

#include "core/crc32.h"

enum {
    LOCAL_SIZE = 30,
    ENTRY_SIZE = 46,
    END_SIZE = 22,
    LOCATOR_SIZE = 20,
    END64_SIZE = 56,
    EXTRA_ZIP64 = 1,
    FLAG_ENCRYPTED = 1,
};
#define SIGNATURE_LOCAL   UINT32_C(0x04034b50)
#define SIGNATURE_ENTRY   UINT32_C(0x02014b50)
#define SIGNATURE_END     UINT32_C(0x06054b50)
#define SIGNATURE_LOCATOR UINT32_C(0x07064b50)
#define SIGNATURE_END64   UINT32_C(0x06064b50)

static uint16_t u16(const unsigned char *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t u32(const unsigned char *at) {
    return (uint32_t)u16(at) | (uint32_t)u16(at + 2) << 16;
}

static uint64_t u64(const unsigned char *at) {
    return (uint64_t)u32(at) | (uint64_t)u32(at + 4) << 32;
}

bool pl_zip_is(const void *bytes, size_t size) {
    return size >= 4 && (u32(bytes) == SIGNATURE_LOCAL || u32(bytes) == SIGNATURE_END);
}

/* Whether [offset, offset + length) lies within size bytes. */
static bool within(uint64_t offset, uint64_t length, uint64_t size) {
    return offset <= size && length <= size - offset;
}

/* length bytes at offset, which lie within the archive: in place, or read. NULL: *status says why.
 */
static const unsigned char *piece(const pl_zip *zip, pl_arena *arena, uint64_t offset,
                                  uint64_t length, pl_status *status, pl_error *err) {
    if (zip->bytes) return zip->bytes + offset;
    unsigned char *to = length < SIZE_MAX ? pl_arena_alloc(arena, (size_t)length) : NULL;
    *status = to ? pl_file_piece(zip->file, offset, to, (size_t)length, err)
                 : pl_budget_fail(err, pl_arena_budget(arena), zip->where);
    return *status == PL_OK ? to : NULL;
}

static pl_status open_zip(pl_zip *zip, pl_error *err) {
    /* the end record stands last, before a comment of at most 64 KiB; a zip64 locator before it */
    enum { MOST = LOCATOR_SIZE + END_SIZE + 0xffff };
    const char *where = zip->where;
    size_t size = zip->size, tail = size < MOST ? size : MOST, from = size - tail;
    pl_status status = PL_OK;
    const unsigned char *bytes = piece(zip, zip->arena, from, tail, &status, err);
    if (!bytes) return status;
    size_t least = tail > END_SIZE + 0xffff ? tail - END_SIZE - 0xffff : 0, at = tail;
    bool found = false;
    if (tail >= END_SIZE) {
        for (at = tail - END_SIZE + 1; at > least && !found;) {
            at--;
            found =
                u32(bytes + at) == SIGNATURE_END && u16(bytes + at + 20) <= tail - at - END_SIZE;
        }
    }
    if (!found)
        return pl_fail(err, PL_INPUT, where, (int64_t)size,
                       "expected the zip archive's end record; the file seems to be cut short");
    const unsigned char *end = bytes + at;
    uint64_t count = u16(end + 10), length = u32(end + 12), offset = u32(end + 16);
    if (at >= LOCATOR_SIZE && u32(end - LOCATOR_SIZE) == SIGNATURE_LOCATOR) {
        uint64_t end64 = u64(end - LOCATOR_SIZE + 8);
        const unsigned char *record = NULL;
        if (within(end64, END64_SIZE, from + at)) {
            record = piece(zip, zip->arena, end64, END64_SIZE, &status, err);
            if (!record) return status;
        }
        if (!record || u32(record) != SIGNATURE_END64)
            return pl_fail(err, PL_INPUT, where, (int64_t)(from + at - LOCATOR_SIZE + 8),
                           "expected the place of the zip64 end record");
        count = u64(record + 32);
        length = u64(record + 40);
        offset = u64(record + 48);
    }
    if (!within(offset, length, from + at))
        return pl_fail(err, PL_INPUT, where, (int64_t)(from + at),
                       "expected the central directory within the file");
    zip->directory = piece(zip, zip->arena, offset, length, &status, err);
    zip->begin = zip->at = (size_t)offset;
    zip->end = (size_t)(offset + length);
    zip->left = count;
    return status;
}

pl_status pl_zip_open(pl_zip *zip, const void *bytes, size_t size, const char *where,
                      pl_error *err) {
    *zip = (pl_zip){.bytes = bytes, .size = size, .where = where};
    return open_zip(zip, err);
}

pl_status pl_zip_open_file(pl_zip *zip, const pl_file *file, pl_arena *arena, const char *where,
                           pl_error *err) {
    *zip = (pl_zip){.file = file, .arena = arena, .size = file->size, .where = where};
    return open_zip(zip, err);
}

/* The 64-bit numbers of the extra field, in the order of those that did not fit above. */
static bool read_zip64(pl_zip_member *m, const unsigned char *extra, size_t length) {
    bool want_size = m->size == UINT32_MAX, want_packed = m->packed == UINT32_MAX,
         want_header = m->header == UINT32_MAX;
    if (!want_size && !want_packed && !want_header) return true;
    while (length >= 4) {
        size_t field = u16(extra + 2);
        if (field > length - 4) return false;
        if (u16(extra) == EXTRA_ZIP64) {
            const unsigned char *at = extra + 4, *end = at + field;
            uint64_t *wanted[] = {want_size ? &m->size : NULL, want_packed ? &m->packed : NULL,
                                  want_header ? &m->header : NULL};
            for (int i = 0; i < 3; i++) {
                if (!wanted[i]) continue;
                if (end - at < 8) return false;
                *wanted[i] = u64(at);
                at += 8;
            }
            return true;
        }
        extra += 4 + field;
        length -= 4 + field;
    }
    return true; /* 4294967295 may be the true number */
}

pl_status pl_zip_next(pl_zip *zip, pl_zip_member *member, bool *found, pl_error *err) {
    *found = false;
    if (zip->left == 0) return PL_OK;
    const unsigned char *at = zip->directory + (zip->at - zip->begin);
    size_t room = zip->end - zip->at;
    if (room < ENTRY_SIZE || u32(at) != SIGNATURE_ENTRY)
        return pl_fail(err, PL_INPUT, zip->where, (int64_t)zip->at,
                       "expected an entry of the zip directory");
    size_t name = u16(at + 28), extra = u16(at + 30), comment = u16(at + 32);
    if (name + extra + comment > room - ENTRY_SIZE)
        return pl_fail(err, PL_INPUT, zip->where, (int64_t)zip->at,
                       "expected a zip directory entry that ends within it");
    *member = (pl_zip_member){
        .name = (const char *)at + ENTRY_SIZE,
        .name_length = name,
        .flags = u16(at + 8),
        .method = u16(at + 10),
        .crc = u32(at + 16),
        .packed = u32(at + 20),
        .size = u32(at + 24),
        .header = u32(at + 42),
        .entry = zip->at,
    };
    if (!read_zip64(member, at + ENTRY_SIZE + name, extra))
        return pl_fail(err, PL_INPUT, zip->where, (int64_t)zip->at,
                       "expected zip64 sizes in the directory entry");
    zip->at += ENTRY_SIZE + name + extra + comment;
    zip->left--;
    *found = true;
    return PL_OK;
}

static pl_status inflate_member(const unsigned char *packed, uint64_t packed_size,
                                unsigned char *to, uint64_t size, const char *where, int64_t start,
                                pl_error *err) {
    z_stream stream = {0};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return pl_fail(err, PL_MISSING, where, -1, "out of memory");
    int state = Z_OK;
    uint64_t given = 0, taken = 0;
    while (state == Z_OK) {
        uInt in = packed_size - given > 1u << 30 ? 1u << 30 : (uInt)(packed_size - given);
        uInt out = size - taken > 1u << 30 ? 1u << 30 : (uInt)(size - taken);
        stream.next_in = (unsigned char *)(uintptr_t)(packed + given);
        stream.avail_in = in;
        stream.next_out = to + taken;
        stream.avail_out = out;
        state = inflate(&stream, Z_NO_FLUSH);
        given += in - stream.avail_in;
        taken += out - stream.avail_out;
        if (state == Z_OK && stream.avail_in == in && stream.avail_out == out) state = Z_BUF_ERROR;
    }
    inflateEnd(&stream);
    if (state == Z_MEM_ERROR) return pl_fail(err, PL_MISSING, where, -1, "out of memory");
    if (state != Z_STREAM_END || taken != size)
        return pl_fail(err, PL_INPUT, where, start + (int64_t)given,
                       "expected %llu deflated bytes; the data are damaged or of another size",
                       (unsigned long long)size);
    return PL_OK;
}

pl_status pl_zip_read(const pl_zip *zip, const pl_zip_member *member, pl_arena *arena,
                      const char *where, const void **bytes, size_t *size, pl_error *err) {
    int64_t entry = (int64_t)member->entry;
    if (member->flags & FLAG_ENCRYPTED)
        return pl_fail(err, PL_INPUT, where, entry, "expected a member that is not encrypted");
    if (member->method != 0 && member->method != Z_DEFLATED)
        return pl_fail(err, PL_INPUT, where, entry,
                       "expected a stored or deflated member, not zip method %u", member->method);
    pl_status status = PL_OK;
    const unsigned char *local = NULL;
    if (within(member->header, LOCAL_SIZE, zip->size)) {
        local = piece(zip, arena, member->header, LOCAL_SIZE, &status, err);
        if (!local) return status;
    }
    if (!local || u32(local) != SIGNATURE_LOCAL)
        return pl_fail(err, PL_INPUT, where, entry,
                       "expected the member's local header where the directory says");
    uint64_t start = member->header + LOCAL_SIZE + u16(local + 26) + u16(local + 28);
    if (!within(start, member->packed, zip->size))
        return pl_fail(err, PL_INPUT, where, entry,
                       "expected the member's %llu bytes within the file",
                       (unsigned long long)member->packed);
    const pl_budget *budget = pl_arena_budget(arena);
    if (member->size > (budget && budget->most_bytes ? budget->most_bytes : SIZE_MAX))
        return pl_fail(err, PL_LIMIT, where, entry,
                       "a member of %llu bytes, more than the request was given (%zu)",
                       (unsigned long long)member->size, budget ? budget->most_bytes : SIZE_MAX);
    if (member->method == 0 && member->packed != member->size)
        return pl_fail(err, PL_INPUT, where, entry,
                       "expected a stored member to have one size, not two");
    if (member->method != 0 && member->size > PL_ZIP_ROOM &&
        member->size / PL_ZIP_RATIO >= member->packed)
        return pl_fail(err, PL_INPUT, where, entry,
                       "expected at most %d times the packed size, not %llu bytes of %llu",
                       PL_ZIP_RATIO, (unsigned long long)member->size,
                       (unsigned long long)member->packed);
    const unsigned char *data = piece(zip, arena, start, member->packed, &status, err);
    if (!data) return status;
    if (member->method != 0) {
        /* As much memory is taken as the directory says, and touched as far as the data go:
           the two bounds above keep it small. */
        unsigned char *to = pl_arena_array(arena, (size_t)member->size, 1);
        if (!to) return pl_budget_fail(err, budget, where);
        status = inflate_member(data, member->packed, to, member->size, where, (int64_t)start, err);
        if (status != PL_OK) return status;
        data = to;
    }
    if (pl_crc32(data, (size_t)member->size) != member->crc)
        return pl_fail(err, PL_INPUT, where, entry,
                       "expected CRC %08x: the member's data are damaged", member->crc);
    *bytes = data;
    *size = (size_t)member->size;
    return PL_OK;
}
