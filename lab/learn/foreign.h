/* foreign: a learner's library that is not ours, loaded when it is first asked for, and the model
 * bytes that only it understands. */
#ifndef PL_LAB_FOREIGN_H
#define PL_LAB_FOREIGN_H

#include "lend.h"

enum { PL_FOREIGN_MOST = 256 << 20 }; /* bytes of a model, not compressed */

/* Where in a struct of function pointers a function goes. */
typedef struct pl_foreign_symbol {
    const char *name;
    size_t offset;
} pl_foreign_symbol;

/* The first of the places that is a library with all symbols; functions is filled. A place is a
 * library's name or path, "$NAME" a variable that holds one, "$NAME/rest" or "~/rest" a path below;
 * '*' stands for anything within a part of a path. The library stays loaded. false: there is none.
 */
bool pl_foreign_open(void *functions, const pl_foreign_symbol *symbols, size_t symbol_count,
                     const char *const *places, size_t place_count);

/* Whether there is memory enough to call such a library with `bytes` of data. They end the process
 * where memory is out (OpenMP cannot start its threads, the loader has no room for thread-local
 * data, an exception leaves a thread), so that room for what they take is asked for first, and given
 * back. false: out of memory. */
bool pl_foreign_room(size_t bytes);

/* A number as text that every library reads, whatever the locale: whole digits and a power of ten,
 * "314159265e-8". out: 32 bytes. */
void pl_foreign_number(char *out, double value);

/* u64 length, u64 compressed length, u64 checksum of what follows (FNV-1a), the bytes compressed
 * (zlib: the libraries' bytes are wordy). Reading gives a copy, malloc'ed, with a 0 behind it; NULL
 * where something does not fit: a damaged file never reaches the library. */
void pl_foreign_write(pl_writer *writer, const void *bytes, size_t size);
void *pl_foreign_read(pl_reader *reader, size_t *size);

#endif
