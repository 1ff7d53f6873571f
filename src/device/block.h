/* block: what the caching allocator and the driver's addresses are made of: ranges of addresses in
 * chains and in ordered trees.
 *
 * Internal to src/device. Blocks come from an arena, a slab at a time, and go back to a list of
 * spare ones. Trees are treaps ordered by (key, address), with the links inside the blocks; the
 * functions are inline because every event of a tape goes through them a few times. */
#ifndef PL_DEVICE_BLOCK_H
#define PL_DEVICE_BLOCK_H

#include "device/allocator.h"

enum pl_block_state { PL_BLOCK_FREE, PL_BLOCK_ALLOCATED, PL_BLOCK_UNMAPPED, PL_BLOCK_EMPTY };

/* A block of a segment, or a range of the driver's addresses (a span or a hole of one). */
struct pl_block {
    int64_t address, size;
    int64_t key;            /* order in a tree, before address: size, or 0 for address alone */
    pl_block *prev, *next;  /* neighbours in the segment, NULL at its ends */
    pl_block *left, *right; /* in the tree that holds it */
    pl_block *span;    /* the whole segment's range; in the first block or in all, see splitting */
    uint32_t priority; /* of the treap: parents have no less than their children */
    int16_t pool;
    uint8_t state;
    int64_t born; /* of a free block: large_searches when it became free; of a span: its
                     chunk's number */
};

typedef struct pl_block_store {
    pl_arena *arena;
    pl_block *spare; /* chained by next */
    int64_t spare_count;
    uint32_t random; /* never 0 */
} pl_block_store;

enum { PL_BLOCK_SLAB = 64 }; /* blocks taken from the arena at a time */

/* After it, `count` calls of pl_block_take cannot fail. */
static inline bool pl_block_reserve(pl_block_store *store, int count) {
    while (store->spare_count < count) {
        pl_block *slab = pl_arena_array(store->arena, PL_BLOCK_SLAB, sizeof *slab);
        if (!slab) return false;
        for (int i = 0; i < PL_BLOCK_SLAB; i++) {
            slab[i].next = store->spare;
            store->spare = &slab[i];
        }
        store->spare_count += PL_BLOCK_SLAB;
    }
    return true;
}

static inline pl_block *pl_block_take(pl_block_store *store, int64_t address, int64_t size) {
    pl_block *b = store->spare;
    store->spare = b->next;
    store->spare_count--;
    b->address = address;
    b->size = size;
    b->prev = b->next = b->span = NULL;
    return b;
}

static inline void pl_block_drop(pl_block_store *store, pl_block *b) {
    b->next = store->spare;
    store->spare = b;
    store->spare_count++;
}

static inline void pl_block_link(pl_block *b, pl_block *prev, pl_block *next) {
    b->prev = prev;
    b->next = next;
    if (prev) prev->next = b;
    if (next) next->prev = b;
}

static inline void pl_block_unlink(pl_block *b) {
    if (b->prev) b->prev->next = b->next;
    if (b->next) b->next->prev = b->prev;
}

static inline bool pl_block_before(const pl_block *a, int64_t key, int64_t address) {
    return a->key < key || (a->key == key && a->address < address);
}

static inline uint32_t pl_block_random(pl_block_store *store) { /* xorshift32, Marsaglia 2003 */
    store->random ^= store->random << 13;
    store->random ^= store->random >> 17;
    store->random ^= store->random << 5;
    return store->random;
}

static inline void pl_tree_insert(pl_block_store *store, pl_block **at, pl_block *b, int64_t key) {
    b->key = key;
    if (!*at) {
        b->left = b->right = NULL;
        b->priority = pl_block_random(store);
        *at = b;
        return;
    }
    b->priority = pl_block_random(store);
    while (*at && (*at)->priority >= b->priority)
        at = pl_block_before(*at, key, b->address) ? &(*at)->right : &(*at)->left;
    pl_block *rest = *at, **left = &b->left, **right = &b->right;
    *at = b;
    while (rest) {
        if (pl_block_before(rest, key, b->address)) {
            *left = rest;
            left = &rest->right;
            rest = *left;
        } else {
            *right = rest;
            right = &rest->left;
            rest = *right;
        }
    }
    *left = *right = NULL;
}

static inline void pl_tree_remove(pl_block **at, const pl_block *b) {
    while (*at != b) at = pl_block_before(*at, b->key, b->address) ? &(*at)->right : &(*at)->left;
    pl_block *left = b->left, *right = b->right;
    while (left && right) {
        if (left->priority >= right->priority) {
            *at = left;
            at = &left->right;
            left = *at;
        } else {
            *at = right;
            at = &right->left;
            right = *at;
        }
    }
    *at = left ? left : right;
}

/* The first at or after (key, address), or NULL. */
static inline pl_block *pl_tree_find(pl_block *root, int64_t key, int64_t address) {
    pl_block *found = NULL;
    while (root) {
        if (pl_block_before(root, key, address)) {
            root = root->right;
        } else {
            found = root;
            root = root->left;
        }
    }
    return found;
}

static inline pl_block *pl_tree_last(pl_block *root) {
    while (root && root->right) root = root->right;
    return root;
}

#endif
