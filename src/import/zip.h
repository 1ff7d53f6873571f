/* zip: one member out of an archive, in memory or in a file, without reading the others.
 *
 * From PKWARE's APPNOTE 6.3.10: the end record, its zip64 form, the central directory, local
 * headers. Stored members, which is how PyTorch writes them, are given in place; deflated ones are
 * inflated by zlib. Of a file the end, the directory and the member are read; weights of many
 * gigabytes beside it never are.
 *
 * Left out: encryption, archives split over several files, methods other than stored and deflated.
 */
#ifndef PL_IMPORT_ZIP_H
#define PL_IMPORT_ZIP_H

#include "core/arena.h"
#include "core/error.h"
#include "core/file.h"

typedef struct pl_zip {
    const unsigned char *bytes; /* NULL: pieces of file, into arena */
    const pl_file *file;
    pl_arena *arena;
    size_t size;
    const char *where;              /* for messages */
    const unsigned char *directory; /* the central directory, from offset begin of the archive */
    size_t begin, at, end;          /* at, end: what is left of it, as offsets of the archive */
    uint64_t left;                  /* members in it */
} pl_zip;

typedef struct pl_zip_member {
    const char *name; /* not terminated */
    size_t name_length;
    uint64_t packed, size, header; /* bytes; header: offset of the local header */
    uint64_t entry;                /* offset of its directory entry */
    uint32_t crc;
    uint16_t method, flags;
} pl_zip_member;

bool pl_zip_is(const void *bytes, size_t size);

/* where: kept by pointer; so are a plain file, which stays open, and the arena that its pieces go
 * into. */
pl_status pl_zip_open_file(pl_zip *zip, const pl_file *file, pl_arena *arena, const char *where,
                           pl_error *err);
pl_status pl_zip_open(pl_zip *zip, const void *bytes, size_t size, const char *where,
                      pl_error *err);
/* The next member; *found false after the last. */
pl_status pl_zip_next(pl_zip *zip, pl_zip_member *member, bool *found, pl_error *err);
/* Its content, CRC checked: in place when stored, else in arena. where: the member's name for
 * messages. More than the arena's budget has is refused; so is what is beyond PL_ZIP_ROOM bytes and more than
 * PL_ZIP_RATIO times what it was packed into: exported models have up to 33 times. */
enum { PL_ZIP_ROOM = 16 << 20, PL_ZIP_RATIO = 200 };
pl_status pl_zip_read(const pl_zip *zip, const pl_zip_member *member, pl_arena *arena,
                      const char *where, const void **bytes, size_t *size, pl_error *err);

#endif
