/* The zip reader: stored, deflated and zip64 members come out whole; archives that lie about
 * themselves are refused with their place, before anything of the claimed size is taken. */
#include "import/zip.h"

#include <stdlib.h>
#include <zlib.h>

#include "check.h"

/* ---- a writer, just able enough ---- */

typedef struct buffer {
    unsigned char bytes[1 << 16];
    size_t size;
} buffer;

static void put(buffer *b, uint64_t value, int count) {
    for (int i = 0; i < count; i++) b->bytes[b->size++] = (unsigned char)(value >> (8 * i));
}

static void put_bytes(buffer *b, const void *bytes, size_t count) {
    memcpy(b->bytes + b->size, bytes, count);
    b->size += count;
}

/* What to write, and what to lie about. */
typedef struct recipe {
    const char *name, *data;
    bool deflate, zip64, end64;
    unsigned padding; /* bytes of extra field in the local header */
    uint16_t flags, method;
    int64_t size, packed, header, crc; /* -1: the truth */
} recipe;

static const recipe plain = {.name = "a/model.json",
                             .data = "hello, hello, hello, hello",
                             .size = -1,
                             .packed = -1,
                             .header = -1,
                             .crc = -1};

static void write_zip(buffer *b, const recipe *rs, int count) {
    size_t headers[8], sizes[8], packeds[8];
    uint32_t crcs[8];
    b->size = 0;
    for (int i = 0; i < count; i++) {
        const recipe *r = &rs[i];
        unsigned char packed[4096];
        sizes[i] = strlen(r->data);
        packeds[i] = sizes[i];
        crcs[i] = (uint32_t)crc32(0, (const unsigned char *)r->data, (uInt)sizes[i]);
        memcpy(packed, r->data, sizes[i]);
        if (r->deflate) {
            z_stream z = {0};
            deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
            z.next_in = (unsigned char *)(uintptr_t)r->data;
            z.avail_in = (uInt)sizes[i];
            z.next_out = packed;
            z.avail_out = sizeof packed;
            deflate(&z, Z_FINISH);
            packeds[i] = z.total_out;
            deflateEnd(&z);
        }
        headers[i] = b->size;
        put(b, 0x04034b50, 4);
        put(b, 45, 2);
        put(b, r->flags, 2);
        put(b, r->deflate ? 8 : r->method, 2);
        put(b, 0, 4);
        put(b, crcs[i], 4);
        put(b, packeds[i], 4);
        put(b, sizes[i], 4);
        put(b, strlen(r->name), 2);
        put(b, r->padding, 2);
        put_bytes(b, r->name, strlen(r->name));
        for (unsigned k = 0; k < r->padding; k++) put(b, 'Z', 1);
        put_bytes(b, packed, packeds[i]);
    }
    size_t directory = b->size;
    for (int i = 0; i < count; i++) {
        const recipe *r = &rs[i];
        uint64_t size = r->size < 0 ? sizes[i] : (uint64_t)r->size,
                 packed = r->packed < 0 ? packeds[i] : (uint64_t)r->packed;
        uint64_t header = r->header < 0 ? headers[i] : (uint64_t)r->header;
        put(b, 0x02014b50, 4);
        put(b, 45, 2);
        put(b, 45, 2);
        put(b, r->flags, 2);
        put(b, r->deflate ? 8 : r->method, 2);
        put(b, 0, 4);
        put(b, r->crc < 0 ? crcs[i] : (uint64_t)r->crc, 4);
        put(b, r->zip64 ? UINT32_MAX : packed, 4);
        put(b, r->zip64 ? UINT32_MAX : size, 4);
        put(b, strlen(r->name), 2);
        put(b, r->zip64 ? 4 + 6 + 4 + 24 : 0, 2);
        put(b, 0, 2);
        put(b, 0, 8);
        put(b, r->zip64 ? UINT32_MAX : header, 4);
        put_bytes(b, r->name, strlen(r->name));
        if (r->zip64) {
            put(b, 0x5455, 2); /* another field first */
            put(b, 6, 2);
            put(b, 0, 6);
            put(b, 1, 2);
            put(b, 24, 2);
            put(b, size, 8);
            put(b, packed, 8);
            put(b, header, 8);
        }
    }
    size_t length = b->size - directory;
    bool end64 = count && rs[0].end64;
    if (end64) {
        size_t at = b->size;
        put(b, 0x06064b50, 4);
        put(b, 44, 8);
        put(b, 45, 2);
        put(b, 45, 2);
        put(b, 0, 8);
        put(b, (uint64_t)count, 8);
        put(b, (uint64_t)count, 8);
        put(b, length, 8);
        put(b, directory, 8);
        put(b, 0x07064b50, 4);
        put(b, 0, 4);
        put(b, at, 8);
        put(b, 1, 4);
    }
    put(b, 0x06054b50, 4);
    put(b, 0, 4);
    put(b, end64 ? UINT16_MAX : (uint64_t)count, 2);
    put(b, end64 ? UINT16_MAX : (uint64_t)count, 2);
    put(b, end64 ? UINT32_MAX : length, 4);
    put(b, end64 ? UINT32_MAX : directory, 4);
    put(b, 0, 2);
}

/* Reads the first member from an exact copy, so that a sanitizer sees every byte too many. */
static pl_status read_first(const buffer *b, size_t size, size_t limit, char *text, size_t room,
                            pl_error *err) {
    unsigned char *exact = malloc(size ? size : 1);
    memcpy(exact, b->bytes, size);
    pl_budget budget = {.most_bytes = limit};
    pl_arena *arena = pl_arena_new(&budget);
    pl_zip zip;
    pl_zip_member member;
    bool found = false;
    const void *bytes;
    size_t length;
    memset(err, 0, sizeof *err);
    pl_status status = pl_zip_open(&zip, exact, size, "a.zip", err);
    if (status == PL_OK) status = pl_zip_next(&zip, &member, &found, err);
    if (status == PL_OK && found)
        status = pl_zip_read(&zip, &member, arena, "a.zip:m", &bytes, &length, err);
    if (status == PL_OK && found && length < room) {
        memcpy(text, bytes, length);
        text[length] = '\0';
    }
    pl_arena_free(&arena);
    free(exact);
    return status;
}

static void members_come_out(void) {
    static const struct {
        bool deflate, zip64, end64;
        unsigned padding;
    } kinds[] = {{0, 0, 0, 0}, {1, 0, 0, 0},  {0, 1, 0, 0}, {1, 1, 1, 0},
                 {0, 0, 1, 0}, {0, 0, 0, 64}, {1, 0, 0, 7}};
    static buffer b;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        recipe r = plain;
        r.deflate = kinds[i].deflate;
        r.zip64 = kinds[i].zip64;
        r.end64 = kinds[i].end64;
        r.padding = kinds[i].padding;
        recipe both[2] = {r, r};
        write_zip(&b, both, 2);
        CHECK(pl_zip_is(b.bytes, b.size));
        char text[64] = "";
        pl_error err = PL_SIZED(pl_error);
        CHECK_INT(read_first(&b, b.size, 1000, text, sizeof text, &err), PL_OK);
        CHECK_STR(text, plain.data);
    }
}

static void comment_and_empty(void) {
    static buffer b;
    write_zip(&b, &plain, 1);
    b.bytes[b.size - 2] = 200; /* a comment, with what looks like an end record in it */
    for (int i = 0; i < 200; i++) put(&b, 'c', 1);
    memcpy(b.bytes + b.size - 100, "PK\5\6", 4);
    char text[64] = "";
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(read_first(&b, b.size, 1000, text, sizeof text, &err), PL_OK);
    CHECK_STR(text, plain.data);
    write_zip(&b, &plain, 0);
    CHECK_INT(read_first(&b, b.size, 1000, text, sizeof text, &err), PL_OK);
}

static void stored_is_in_place(void) {
    static buffer b;
    recipe r = plain;
    write_zip(&b, &r, 1);
    pl_zip zip;
    pl_zip_member member;
    bool found;
    const void *bytes = NULL;
    size_t size;
    pl_arena *arena = pl_arena_new(0);
    CHECK_INT(pl_zip_open(&zip, b.bytes, b.size, "a.zip", NULL), PL_OK);
    CHECK_INT(pl_zip_next(&zip, &member, &found, NULL), PL_OK);
    CHECK_INT(pl_zip_read(&zip, &member, arena, "m", &bytes, &size, NULL), PL_OK);
    CHECK((const unsigned char *)bytes > b.bytes &&
          (const unsigned char *)bytes < b.bytes + b.size);
    CHECK_INT(pl_arena_used(arena), 0);
    CHECK_INT(pl_zip_next(&zip, &member, &found, NULL), PL_OK);
    CHECK(!found);
    pl_arena_free(&arena);
}

static void lies_are_refused(void) {
    enum field { FLAGS, METHOD, CRC, HEADER, PACKED, SIZE };
    static const struct {
        enum field field;
        int64_t value;
        bool deflate, zip64;
        size_t limit;
        const char *message;
    } rows[] = {
        {FLAGS, 1, 0, 0, 1000, "not encrypted"},
        {METHOD, 12, 0, 0, 1000, "zip method 12"},
        {CRC, 1, 0, 0, 1000, "CRC 00000001"},
        {CRC, 1, 1, 0, 1 << 20, "CRC 00000001"},
        {HEADER, 100000, 0, 0, 1000, "local header"},
        {HEADER, 3, 0, 0, 1000, "local header"},
        {HEADER, 0x7fffffff, 0, 0, 1000, "local header"},
        {HEADER, INT64_MAX, 0, 1, 1000, "local header"},
        {PACKED, 100000, 0, 0, 1000, "within the file"},
        {PACKED, INT64_MAX, 0, 1, 1000, "within the file"},
        {SIZE, 27, 0, 0, 1 << 20, "one size, not two"},
        {SIZE, 100000, 0, 0, 1000, "given (1000)"},
        {SIZE, INT64_MAX, 0, 1, (size_t)4 << 30, "given (4294967296)"},
        {SIZE, 27, 1, 0, 1 << 20, "deflated bytes"},
        {SIZE, 25, 1, 0, 1 << 20, "deflated bytes"},
        {PACKED, 5, 1, 0, 1 << 20, "deflated bytes"},
        {SIZE, 2000000000, 1, 0, (size_t)4 << 30, "200 times"},
    };
    static buffer b;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        recipe r = plain;
        r.deflate = rows[i].deflate;
        r.zip64 = rows[i].zip64;
        switch (rows[i].field) {
        case FLAGS: r.flags = (uint16_t)rows[i].value; break;
        case METHOD: r.method = (uint16_t)rows[i].value; break;
        case CRC: r.crc = rows[i].value; break;
        case HEADER: r.header = rows[i].value; break;
        case PACKED: r.packed = rows[i].value; break;
        case SIZE: r.size = rows[i].value; break;
        }
        write_zip(&b, &r, 1);
        char text[64];
        pl_error err = PL_SIZED(pl_error);
        bool limit = strstr(rows[i].message, "given") != NULL;
        CHECK_INT(read_first(&b, b.size, rows[i].limit, text, sizeof text, &err),
                  limit ? PL_LIMIT : PL_INPUT);
        CHECK_STR(err.where, "a.zip:m");
        CHECK(err.position > 0 && (size_t)err.position < b.size);
        if (!strstr(err.message, rows[i].message))
            printf("  '%s' is not in '%s'\n", rows[i].message, err.message);
        CHECK(strstr(err.message, rows[i].message) != NULL);
    }
}

/* A real bomb: 40 MB of zeros in 40 KB. It is refused where it is over the limit, and where it is
 * not: no model is packed like this. */
static void bomb_is_refused(void) {
    enum { SIZE = 40 << 20 };
    unsigned char *zeros = calloc(1, SIZE);
    static buffer b;
    recipe r = plain;
    r.deflate = true;
    write_zip(&b, &r, 1);
    z_stream z = {0};
    unsigned char *packed = malloc(1 << 16);
    deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
    z.next_in = zeros;
    z.avail_in = SIZE;
    z.next_out = packed;
    z.avail_out = 1 << 16;
    CHECK_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
    pl_zip zip = {.bytes = packed, .size = z.total_out};
    unsigned char *archive = malloc(64 + z.total_out);
    memset(archive, 0, 64);
    memcpy(archive, "PK\3\4", 4);
    memcpy(archive + 30, packed, z.total_out);
    zip.bytes = archive;
    zip.size = 30 + z.total_out;
    pl_zip_member member = {.packed = z.total_out, .size = SIZE, .method = 8};
    pl_budget budget = {.most_bytes = 1 << 20};
    pl_arena *arena = pl_arena_new(&budget);
    const void *bytes;
    size_t size;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_zip_read(&zip, &member, arena, "bomb", &bytes, &size, &err), PL_LIMIT);
    CHECK_INT(pl_arena_used(arena), 0);
    budget = (pl_budget){0};
    CHECK_INT(pl_zip_read(&zip, &member, arena, "bomb", &bytes, &size, &err), PL_INPUT);
    CHECK(strstr(err.message, "200 times the packed size") != NULL);
    CHECK_INT(pl_arena_used(arena), 0);
    deflateEnd(&z);
    pl_arena_free(&arena);
    free(archive);
    free(packed);
    free(zeros);
}

static void every_cut_and_every_byte(void) {
    static buffer b, other;
    for (int kind = 0; kind < 3; kind++) {
        recipe r = plain;
        r.deflate = kind == 1;
        r.zip64 = r.end64 = kind == 2;
        write_zip(&b, &r, 1);
        for (size_t size = 0; size < b.size; size++) {
            char text[64];
            pl_error err = PL_SIZED(pl_error);
            CHECK_INT(read_first(&b, size, 1000, text, sizeof text, &err), PL_INPUT);
            CHECK(err.position >= 0 && err.message[0]);
        }
        for (size_t at = 0; at < b.size; at++) {
            for (int bit = 0; bit < 8; bit++) {
                other = b;
                other.bytes[at] ^= (unsigned char)(1 << bit);
                char text[64] = "";
                pl_error err = PL_SIZED(pl_error);
                /* some bytes say nothing that matters; the content is never a wrong one */
                if (read_first(&other, b.size, 1000, text, sizeof text, &err) == PL_OK && text[0])
                    CHECK_STR(text, plain.data);
            }
        }
    }
}

int main(void) {
    RUN(members_come_out);
    RUN(comment_and_empty);
    RUN(stored_is_in_place);
    RUN(lies_are_refused);
    RUN(bomb_is_refused);
    RUN(every_cut_and_every_byte);
    return check_done();
}
