/* addresses: see addresses.h.
 *
 * Seen on an H200 (2026-11-15, driver 580.159.04, CUDA 13.0: the 131 traces' requests made again in
 * PyTorch 2.11, and random requests with the cache emptied in between; 2,400 segments): the driver
 * takes chunks of whole 32 MiB, at the top of the highest free range of addresses that has 32 MiB
 * more than that, so mostly each below the one before. A segment goes to the newest chunk that has
 * a hole for it, there to the smallest hole that will do. A chunk without segments is given back.
 * The context leaves holes in chunks of its own. The rules were
 * found from these same recordings. In a real job the loading of libraries takes
 * addresses in between, so the order there can differ; 4 of the 131 traces show it. Asked for in
 * a bare process, all 131 give the figures found here.
 *
 * Left out: what else in the process takes addresses, and other drivers' ways. */
#include "device/addresses.h"

#include "core/checked.h"

#define DRIVER_TOP ((int64_t)1 << 62)

static int hole_class(int64_t size) {
    int64_t pages = size / PL_DRIVER_PAGE;
    return pages < PL_HOLE_CLASSES - 1 ? (int)pages : PL_HOLE_CLASSES - 1;
}

static void add_hole(pl_addresses *a, pl_block *hole) {
    hole->state = PL_BLOCK_FREE;
    pl_tree_insert(a->store, &a->holes[hole_class(hole->size)], hole, -hole->born);
}

static bool better_hole(const pl_block *hole, const pl_block *best) {
    if (!best || hole->born != best->born) return !best || hole->born > best->born;
    return hole->size < best->size; /* of equal ones the lower was found first */
}

static pl_block *find_hole(pl_addresses *a, int64_t size) {
    pl_block *best = NULL;
    for (int c = hole_class(size); c < PL_HOLE_CLASSES; c++) {
        pl_block *hole = pl_tree_find(a->holes[c], INT64_MIN, 0);
        for (; hole && (!best || hole->born >= best->born);
             hole = pl_tree_find(a->holes[c], hole->key, hole->address + 1)) {
            if (hole->size >= size && better_hole(hole, best)) best = hole;
            if (best && c < PL_HOLE_CLASSES - 1)
                break; /* all of one size: the first is the best of them */
        }
    }
    return best;
}

static pl_block *new_chunk(pl_addresses *a, int64_t size) {
    size = pl_round_up(size, PL_DRIVER_CHUNK);
    for (pl_block **at = &a->gaps; *at; at = &(*at)->next) {
        pl_block *gap = *at;
        if (gap->size < size + PL_DRIVER_CHUNK) continue; /* one more is needed to align it */
        gap->size -= size;
        pl_block *chunk = pl_block_take(a->store, gap->address + gap->size, size);
        chunk->born = ++a->chunks;
        return chunk;
    }
    a->lowest -= size;
    pl_block *chunk = pl_block_take(a->store, a->lowest, size);
    chunk->born = ++a->chunks;
    return chunk;
}

pl_block *pl_addresses_take(pl_addresses *a, int64_t size) {
    size = pl_round_up(size, PL_DRIVER_PAGE);
    pl_block *span = find_hole(a, size);
    if (span)
        pl_tree_remove(&a->holes[hole_class(span->size)], span);
    else
        span = new_chunk(a, size);
    if (span->size > size) {
        pl_block *hole = pl_block_take(a->store, span->address + size, span->size - size);
        hole->born = span->born;
        span->size = size;
        pl_block_link(hole, span, span->next);
        add_hole(a, hole);
    }
    span->state = PL_BLOCK_ALLOCATED;
    return span;
}

static void drop_chunk(pl_addresses *a, pl_block *chunk) {
    pl_block *upper = NULL, *lower = a->gaps;
    while (lower && lower->address > chunk->address) {
        upper = lower;
        lower = lower->next;
    }
    if (lower && lower->address + lower->size == chunk->address) {
        chunk->address = lower->address;
        chunk->size += lower->size;
        pl_block *below = lower->next;
        pl_block_drop(a->store, lower);
        lower = below;
    }
    if (upper && chunk->address + chunk->size == upper->address) {
        upper->address = chunk->address;
        upper->size += chunk->size;
        upper->next = lower;
        pl_block_drop(a->store, chunk);
    } else {
        chunk->next = lower;
        if (upper)
            upper->next = chunk;
        else
            a->gaps = chunk;
    }
    /* What reaches the lowest chunk is free address space like all below it. */
    pl_block **last = &a->gaps;
    while ((*last)->next) last = &(*last)->next;
    if ((*last)->address == a->lowest) {
        a->lowest += (*last)->size;
        pl_block_drop(a->store, *last);
        *last = NULL;
    }
}

void pl_addresses_give(pl_addresses *a, pl_block *span) {
    pl_block *neighbours[2] = {span->prev, span->next};
    for (int i = 0; i < 2; i++) {
        pl_block *n = neighbours[i];
        if (!n || n->state != PL_BLOCK_FREE) continue;
        pl_tree_remove(&a->holes[hole_class(n->size)], n);
        if (n->address < span->address) span->address = n->address;
        span->size += n->size;
        pl_block_unlink(n);
        if (i == 0)
            span->prev = n->prev;
        else
            span->next = n->next;
        pl_block_drop(a->store, n);
    }
    if (span->prev || span->next)
        add_hole(a, span);
    else
        drop_chunk(a, span);
}

void pl_addresses_start(pl_addresses *a, pl_block_store *store,
                        const int64_t context_holes[PL_CONTEXT_HOLES]) {
    int64_t at = DRIVER_TOP;
    *a = (pl_addresses){.store = store, .lowest = DRIVER_TOP};
    for (int i = 0; i < PL_CONTEXT_HOLES; i++) {
        int64_t size = context_holes[i];
        if (size < PL_DRIVER_PAGE) continue;
        size -= size % PL_DRIVER_PAGE;
        /* Beside a range that is never given back, and so the chunk is not. */
        pl_block *context = pl_block_take(a->store, at, PL_DRIVER_PAGE);
        pl_block *hole = pl_block_take(a->store, at + PL_DRIVER_PAGE, size);
        context->state = PL_BLOCK_ALLOCATED;
        pl_block_link(hole, context, NULL);
        hole->born = -i;
        add_hole(a, hole);
        at += PL_DRIVER_PAGE + size;
    }
}
