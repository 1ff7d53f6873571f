/* arena: see arena.h. Blocks double from 64 KiB to 8 MiB, so that a request makes few calls to
 * calloc and cost stays linear.
 *
 * A large request cuts its blocks from chunks of 2 MiB, aligned to that, which the kernel
 * is asked to back with one huge page each: one page fault in place of 512, each of which costs
 * 1 to 2 us. All arenas of a budget cut from the same chunk, since few of them fill one alone. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "core/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/checked.h"

typedef struct pl_chunk {
    size_t cut;     /* bytes from its beginning, this header among them */
    size_t reached; /* the most it was: from there on it is as the kernel gave it, zeroed */
    size_t blocks;  /* that lie in it */
} chunk;

typedef struct block {
    struct block *next;
    chunk *chunk; /* it was cut from; NULL: calloc's */
    size_t size, used;
} block;

struct pl_arena {
    block *head;       /* the one being filled, then the full ones */
    block *spare;      /* emptied by pl_arena_reset */
    pl_budget *budget; /* NULL: no limits */
    size_t used;
};

enum {
    ALIGN = 16,
    FIRST_BLOCK = 64 << 10,
    LAST_BLOCK = 8 << 20,
    CHUNK = 2 << 20,
    CUT = 128 << 10, /* a block of a chunk: small, since cutting another costs nothing */
    /* what shows that a request is large: an arena that has grown to its third block, or all that
       the request holds, its model among it */
    LARGE_BLOCK = 256 << 10,
    LARGE_REQUEST = 1 << 20,
};
#define HEADER       ((sizeof(block) + ALIGN - 1) & ~(size_t)(ALIGN - 1))
#define CHUNK_HEADER ((sizeof(chunk) + ALIGN - 1) & ~(size_t)(ALIGN - 1))

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

/* ---- chunks ---- */

#ifdef MADV_HUGEPAGE
/* Zeroed, or NULL. */
static chunk *map_chunk(void) {
    char *at = mmap(NULL, 2 * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    size_t before = CHUNK - (uintptr_t)at % CHUNK; /* 1 to CHUNK */
    if (before < CHUNK) munmap(at + before + CHUNK, CHUNK - before);
    munmap(at, before);
    madvise(at + before, CHUNK, MADV_HUGEPAGE); /* a kernel that has none gives small pages */
    return (chunk *)(void *)(at + before);
}
#else
static chunk *map_chunk(void) {
    return NULL;
}
#endif

/* Bytes that may still be taken. */
static size_t room_left(const pl_budget *budget) {
    return budget && budget->most_bytes ? budget->most_bytes - budget->bytes : SIZE_MAX;
}

/* A block of `least` bytes or more from the budget's chunk, or from a new one; NULL where it has no
 * room for one, the request is small or the block too large. size: what calloc would be asked for.
 * The budget pays for the chunk. */
static block *cut_block(pl_budget *budget, size_t least, size_t size) {
    if (!budget || least > CHUNK - CHUNK_HEADER - HEADER) return NULL;
    if (budget->chunk && CHUNK - budget->chunk->cut < HEADER + least) budget->chunk = NULL;
    if (!budget->chunk) {
        bool large = size >= LARGE_BLOCK || budget->bytes >= LARGE_REQUEST;
        if (!large || room_left(budget) < CHUNK) return NULL;
        budget->chunk = map_chunk();
        if (!budget->chunk) return NULL;
        budget->chunk->cut = budget->chunk->reached = CHUNK_HEADER;
        pl_budget_take(budget, CHUNK);
    }
    chunk *c = budget->chunk;
    size_t room = CHUNK - c->cut - HEADER;
    size_t bytes = least > CUT ? least : CUT;
    if (bytes > room) bytes = room;
    size_t from = c->cut, to = from + HEADER + bytes;
    block *b = (block *)(void *)((char *)c + from);
    if (from < c->reached) memset(b, 0, (to < c->reached ? to : c->reached) - from);
    if (c->reached < to) c->reached = to;
    c->cut = to;
    *b = (block){.chunk = c, .size = bytes};
    c->blocks++;
    return b;
}

/* The last block cut is cut again; a chunk goes with its last block. */
static void put_back(pl_budget *budget, block *b) {
    chunk *c = b->chunk;
    if (--c->blocks == 0) {
        if (budget->chunk == c) budget->chunk = NULL;
        munmap(c, CHUNK);
        pl_budget_give(budget, CHUNK);
    } else if ((char *)b + HEADER + b->size == (char *)c + c->cut) {
        c->cut -= HEADER + b->size;
    }
}

/* ---- arenas ---- */

static void free_blocks(block *b, pl_budget *budget) {
    while (b) {
        block *next = b->next;
        if (b->chunk) {
            put_back(budget, b);
        } else {
            pl_budget_give(budget, HEADER + b->size);
            free(b);
        }
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
    block *b = pl_budget_poll(arena->budget) ? cut_block(arena->budget, bytes, size) : NULL;
    if (!b) {
        if (size > bytes && room_left(arena->budget) < HEADER + size) size = bytes;
        if (size > SIZE_MAX - HEADER || !pl_budget_take(arena->budget, HEADER + size)) return false;
        b = calloc(1, HEADER + size);
        if (!b) {
            pl_budget_give(arena->budget, HEADER + size);
            return false;
        }
        b->size = size;
    }
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
