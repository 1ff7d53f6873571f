/* names: see names.h. Open addressing, linear probing, at most half full. */
#include "import/names.h"

#include <string.h>

#include "core/mix.h"

static uint64_t load(const char *bytes, size_t count) {
    uint64_t word = 0;
    memcpy(&word, bytes, count);
    return word;
}

static uint64_t hash_of(const pl_names *names, const char *bytes, size_t length, uint64_t space) {
    uint64_t hash = pl_mix(names->seed, space ^ (uint64_t)length << 40, names->seed);
    for (; length >= 8; bytes += 8, length -= 8) hash = pl_mix(hash, load(bytes, 8), names->seed);
    if (length) hash = pl_mix(hash, load(bytes, length), names->seed);
    return hash ^ hash >> 29;
}

static bool grow(pl_names *names, size_t count) {
    pl_name_slot *slots = pl_arena_array(names->arena, count, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < names->count; i++) {
        size_t at = names->entries[i].hash & (count - 1);
        while (slots[at].entry) at = (at + 1) & (count - 1);
        slots[at] = (pl_name_slot){(uint32_t)(names->entries[i].hash >> 32), (uint32_t)i + 1};
    }
    names->slots = slots;
    names->slot_count = count;
    return true;
}

bool pl_names_open(pl_names *names, pl_arena *arena, size_t expected) {
    *names = (pl_names){.arena = arena};
    names->seed = pl_mix_secret(arena);
    size_t slots = 256;
    while (slots < expected * 2 && slots < (size_t)1 << 30) slots *= 2;
    names->entries = pl_arena_grow(arena, NULL, &names->capacity, expected, sizeof *names->entries);
    return (expected == 0 || names->entries) && grow(names, slots);
}

/* The slot where the name stands or would stand. */
static size_t probe(const pl_names *names, const char *bytes, size_t length, uint64_t space,
                    uint64_t hash) {
    size_t at = hash & (names->slot_count - 1);
    for (; names->slots[at].entry; at = (at + 1) & (names->slot_count - 1)) {
        if (names->slots[at].hash != (uint32_t)(hash >> 32)) continue;
        const pl_name *e = &names->entries[names->slots[at].entry - 1];
        if (e->hash == hash && e->length == length && e->space == space &&
            !memcmp(e->bytes, bytes, length))
            break;
    }
    return at;
}

int32_t pl_names_find(const pl_names *names, const char *bytes, size_t length, uint64_t space) {
    size_t at = probe(names, bytes, length, space, hash_of(names, bytes, length, space));
    return (int32_t)names->slots[at].entry - 1;
}

int32_t pl_names_get(pl_names *names, const char *bytes, size_t length, uint64_t space) {
    uint64_t hash = hash_of(names, bytes, length, space);
    size_t at = probe(names, bytes, length, space, hash);
    if (names->slots[at].entry) return (int32_t)names->slots[at].entry - 1;
    if (length > UINT32_MAX || names->count >= INT32_MAX - 1) return -1;
    if ((names->count + 1) * 2 > names->slot_count) {
        if (!grow(names, names->slot_count * 2)) return -1;
        at = probe(names, bytes, length, space, hash);
    }
    pl_name *grown = pl_arena_grow(names->arena, names->entries, &names->capacity, names->count + 1,
                                   sizeof *grown);
    if (!grown) return -1;
    names->entries = grown;
    grown[names->count] = (pl_name){
        .bytes = bytes, .hash = hash, .space = space, .length = (uint32_t)length, .value = -1};
    names->slots[at] = (pl_name_slot){(uint32_t)(hash >> 32), (uint32_t)names->count + 1};
    return (int32_t)names->count++;
}
