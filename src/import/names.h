/* names: a hash table of strings, each in a space of its own (tensors of a graph, expressions,
 * modules).
 *
 * Bytes are not copied: they must live as long as the table. Entries are numbered from 0 in the
 * order they came; their addresses change as the table grows. The hash is seeded by the table's
 * address, so that a file cannot be made to collide on purpose with ease. */
#ifndef PL_IMPORT_NAMES_H
#define PL_IMPORT_NAMES_H

#include "core/arena.h"

typedef struct pl_name {
    const char *bytes;
    uint64_t hash, space;
    uint32_t length;
    int32_t value;    /* the caller's; -1 when new */
    const char *copy; /* the caller's; NULL when new */
} pl_name;

typedef struct pl_name_slot {
    uint32_t hash, entry; /* entry + 1; 0: empty */
} pl_name_slot;

typedef struct pl_names {
    pl_arena *arena;
    pl_name *entries;
    size_t count, capacity;
    pl_name_slot *slots;
    size_t slot_count; /* a power of two */
    uint64_t seed;
} pl_names;

/* arena: holds the table. expected: names that will likely come. False: out of memory. */
bool pl_names_open(pl_names *names, pl_arena *arena, size_t expected);

/* The entry's number, -1 out of memory. */
int32_t pl_names_get(pl_names *names, const char *bytes, size_t length, uint64_t space);
/* The same, -1 where there is no such entry. */
int32_t pl_names_find(const pl_names *names, const char *bytes, size_t length, uint64_t space);

#endif
