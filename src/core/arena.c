/* arena: see arena.h. Blocks double from 64 KiB to 8 MiB, so that a request makes few calls to
 * calloc and cost stays linear. */
#include "core/arena.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"

typedef struct block {
    struct block *next;
    size_t size, used;
} block;

struct pl_arena {
    block *head;  /* the one being filled, then the full ones */
    block *spare; /* emptied by pl_arena_reset */
    pl_budget *budget; /* NULL: no limits */
    size_t used;
};

enum { ALIGN = 16, FIRST_BLOCK = 64 << 10, LAST_BLOCK = 8 << 20 };
#define HEADER ((sizeof(block) + ALIGN - 1) & ~(size_t)(ALIGN - 1))

static _Thread_local long fail_after = -1;

void pl_arena_fail_after(long count) {
    fail_after = count;
}

static bool told_to_fail(void) {
    if (fail_after < 0) return false;
    if (fail_after == 0) return true;
    fail_after--;
    return false;
}

pl_arena *pl_arena_new(pl_budget *budget) {
    if (told_to_fail()) return NULL;
    pl_arena *arena = calloc(1, sizeof *arena);
    if (arena) arena->budget = budget;
    return arena;
}

static void free_blocks(block *b, pl_budget *budget) {
    while (b) {
        block *next = b->next;
        pl_budget_give(budget, HEADER + b->size);
        free(b);
        b = next;
    }
}

void pl_arena_free(pl_arena **arena) {
    if (!arena || !*arena) return;
    free_blocks((*arena)->head, (*arena)->budget);
    free_blocks((*arena)->spare, (*arena)->budget);
    free(*arena);
    *arena = NULL;
}

void pl_arena_reset(pl_arena *arena) {
    while (arena->head) {
        block *b = arena->head;
        arena->head = b->next;
        memset((char *)b + HEADER, 0, b->used);
        b->used = 0;
        b->next = arena->spare;
        arena->spare = b;
    }
    arena->used = 0;
}

/* Bytes that may still be taken. */
static size_t room_left(const pl_budget *budget) {
    return budget && budget->most_bytes ? budget->most_bytes - budget->bytes : SIZE_MAX;
}

static bool add_block(pl_arena *arena, size_t bytes) {
    if (arena->spare && arena->spare->size >= bytes) {
        block *b = arena->spare;
        arena->spare = b->next;
        b->next = arena->head;
        arena->head = b;
        return true;
    }
    size_t size = arena->head ? arena->head->size * 2 : FIRST_BLOCK;
    if (size > LAST_BLOCK) size = LAST_BLOCK;
    if (size < bytes) size = bytes;
    if (size > bytes && room_left(arena->budget) < HEADER + size) size = bytes;
    if (size > SIZE_MAX - HEADER || !pl_budget_take(arena->budget, HEADER + size)) return false;
    block *b = calloc(1, HEADER + size);
    if (!b) {
        pl_budget_give(arena->budget, HEADER + size);
        return false;
    }
    b->size = size;
    b->next = arena->head;
    arena->head = b;
    return true;
}

void *pl_arena_alloc(pl_arena *arena, size_t bytes) {
    if (told_to_fail() || bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (bytes == 0) bytes = ALIGN;
    if ((!arena->head || arena->head->size - arena->head->used < bytes) && !add_block(arena, bytes))
        return NULL;
    char *at = (char *)arena->head + HEADER + arena->head->used;
    arena->head->used += bytes;
    arena->used += bytes;
    return at;
}

void *pl_arena_array(pl_arena *arena, size_t count, size_t size) {
    size_t bytes;
    return pl_mul_size(count, size, &bytes) ? pl_arena_alloc(arena, bytes) : NULL;
}

char *pl_arena_string(pl_arena *arena, const char *bytes, size_t length) {
    char *copy = length < SIZE_MAX ? pl_arena_alloc(arena, length + 1) : NULL;
    if (copy && length) memcpy(copy, bytes, length);
    return copy;
}

size_t pl_arena_used(const pl_arena *arena) {
    return arena->used;
}

pl_budget *pl_arena_budget(const pl_arena *arena) {
    return arena ? arena->budget : NULL;
}

void *pl_arena_grow(pl_arena *arena, void *array, size_t *capacity, size_t need, size_t size) {
    if (need <= *capacity) return array;
    size_t room = *capacity ? *capacity * 2 : 16;
    if (room < need) room = need;
    void *grown = pl_arena_array(arena, room, size);
    if (!grown) return NULL;
    if (array) memcpy(grown, array, *capacity * size);
    *capacity = room;
    return grown;
}
