/* allocator: see allocator.h.
 *
 * A segment is what cudaMalloc gives; it is cut into blocks, kept in a chain by address. Free
 * blocks stand in a pool (one for small and one for large requests of each stream), ordered by
 * size, then address. Pools, rounding, search, splitting, merging, giving back and the order in
 * which these are tried were read in c10/cuda/CUDACachingAllocator.cpp, in a revision before 2.11,
 * and compared event by event with PyTorch 2.11.0 answering random requests on an H200 (2026-11-15,
 * driver 580.159.04; 28 runs, 70,000 events, all alike). Which of two blocks of one size is taken
 * depends on where the driver put their segments: see addresses.c.
 *
 * Left out: CUDA graphs' private pools, blocks shared between streams (record_stream), the memory
 * that other processes hold.
 *
 * Cost: a pool is an array of bins by size, found by bitmap, each a small treap; so an event takes
 * a few tens of nanoseconds. Memory is linear in live and cached blocks. */
#include "device/allocator.h"

#include "core/checked.h"
#include "device/addresses.h"

#define MIB ((int64_t)1 << 20)

#define MIN_BLOCK     ((int64_t)512) /* every size is a multiple */
#define SMALL_SIZE    (1 * MIB)      /* the largest request of the small pool */
#define SMALL_SEGMENT (2 * MIB)      /* its segments, or pages of its expandable segment */
#define MIN_LARGE     (10 * MIB)     /* requests from here on get a segment of their own size, */
#define ROUND_LARGE   (2 * MIB)      /* rounded to this; smaller ones share large_segment_size */
#define MAX_REQUEST   ((int64_t)1 << 46) /* more is out of memory on any card */
#define MAX_RESERVED  ((int64_t)1 << 60)
/* An expandable segment's addresses on an endless card. */
#define ENDLESS_SPACE ((int64_t)1 << 48)

enum {
    BINS = 4096,
    WORD_BITS = 64,
    STREAMS = 1024,
    BLOCKS_AN_EVENT = 8, /* the most new blocks that one alloc or one unmapping needs */
};

typedef struct pool {
    pl_block *bins[BINS];
    uint64_t words[BINS / WORD_BITS]; /* a bit for each bin that is not empty */
    uint64_t summary;                 /* a bit for each word that is not 0 */
    pl_block *unmapped;               /* by address */
    bool small;
} pool;

struct pl_allocator {
    pl_allocator_settings settings;
    pl_allocator_stats stats;
    pl_arena *arena;
    pool **pools; /* [stream * 2 + (small ? 1 : 0)]; NULL where never used */
    size_t pool_capacity, pool_count;
    int64_t allowed;        /* memory_fraction of the card; INT64_MAX: no limit */
    int64_t large_searches; /* in the large pools, all streams; counted for garbage collection */
    pl_block_store store;
    pl_addresses addresses;
};

/* ---- pools ---- */

/* Exact for small pools below 2 MiB; for large ones 64 steps to each power of two. */
static unsigned bin_of(const pool *p, int64_t size) {
    uint64_t units = (uint64_t)size / (uint64_t)MIN_BLOCK;
    if (p->small) return units < BINS ? (unsigned)units : BINS - 1;
    if (units < 64) return (unsigned)units;
    unsigned log = 63 - (unsigned)__builtin_clzll(units);
    return (log - 5) * 64 + (unsigned)(units >> (log - 6) & 63);
}

static inline bool is_large(const pl_block *b) {
    return (b->pool & 1) == 0;
}

static inline pool *pool_of(const pl_allocator *a, const pl_block *b) {
    return a->pools[b->pool];
}

static void pool_insert(pl_allocator *a, pl_block *b) {
    pool *p = pool_of(a, b);
    unsigned bin = bin_of(p, b->size);
    b->state = PL_BLOCK_FREE;
    b->born = a->large_searches;
    pl_tree_insert(&a->store, &p->bins[bin], b, b->size);
    p->words[bin / WORD_BITS] |= (uint64_t)1 << bin % WORD_BITS;
    p->summary |= (uint64_t)1 << bin / WORD_BITS;
}

static void pool_remove(pl_allocator *a, pl_block *b) {
    pool *p = pool_of(a, b);
    unsigned bin = bin_of(p, b->size);
    pl_tree_remove(&p->bins[bin], b);
    if (p->bins[bin]) return;
    p->words[bin / WORD_BITS] &= ~((uint64_t)1 << bin % WORD_BITS);
    if (!p->words[bin / WORD_BITS]) p->summary &= ~((uint64_t)1 << bin / WORD_BITS);
}

/* The first bin after `bin` that is not empty; BINS: none. */
static unsigned next_bin(const pool *p, unsigned bin) {
    unsigned word = bin / WORD_BITS, bit = bin % WORD_BITS;
    uint64_t rest = bit == WORD_BITS - 1 ? 0 : p->words[word] & ~(uint64_t)0 << (bit + 1);
    if (!rest) {
        uint64_t words = word == WORD_BITS - 1 ? 0 : p->summary & ~(uint64_t)0 << (word + 1);
        if (!words) return BINS;
        word = (unsigned)__builtin_ctzll(words);
        rest = p->words[word];
    }
    return word * WORD_BITS + (unsigned)__builtin_ctzll(rest);
}

static pl_block *pool_find(const pool *p, int64_t size, int64_t address) {
    unsigned bin = bin_of(p, size);
    pl_block *found = pl_tree_find(p->bins[bin], size, address);
    if (found) return found;
    bin = next_bin(p, bin);
    return bin < BINS ? pl_tree_find(p->bins[bin], 0, 0) : NULL;
}

static pl_block *pool_largest(const pool *p) {
    if (!p->summary) return NULL;
    unsigned word = 63 - (unsigned)__builtin_clzll(p->summary);
    unsigned bit = 63 - (unsigned)__builtin_clzll(p->words[word]);
    return pl_tree_last(p->bins[word * WORD_BITS + bit]);
}

static pl_block *pool_first(const pool *p) {
    return pool_find(p, 0, 0);
}

static pl_block *pool_after(const pool *p, const pl_block *b) {
    return pool_find(p, b->size, b->address + 1);
}

static pool *get_pool(pl_allocator *a, int stream, bool small) {
    size_t index = (size_t)stream * 2 + (small ? 1 : 0);
    if (index < a->pool_count && a->pools[index]) return a->pools[index];
    if (stream < 0 || stream >= STREAMS) return NULL;
    pool **pools = pl_arena_grow(a->arena, a->pools, &a->pool_capacity, index + 1, sizeof *pools);
    if (!pools) return NULL;
    a->pools = pools;
    pools[index] = pl_arena_alloc(a->arena, sizeof(pool));
    if (!pools[index]) return NULL;
    pools[index]->small = small;
    if (a->pool_count <= index) a->pool_count = index + 1;
    return pools[index];
}

/* ---- segments ---- */

static void reserve_bytes(pl_allocator *a, int64_t bytes) {
    a->stats.reserved += bytes;
    if (a->stats.reserved > a->stats.peak_reserved) a->stats.peak_reserved = a->stats.reserved;
}

static bool card_has(const pl_allocator *a, int64_t bytes) {
    int64_t most = a->settings.device_bytes ? a->settings.device_bytes : MAX_RESERVED;
    return bytes <= most - a->stats.reserved;
}

static void tell(const pl_allocator *a, const pl_block *b, int64_t address, int64_t bytes,
                 bool pages, bool made) {
    if (a->settings.segment)
        a->settings.segment(a->settings.segment_context, address, bytes, b->pool / 2, pages, made);
}

/* cudaFree of a segment that is one free block. */
static void release_segment(pl_allocator *a, pl_block *b) {
    tell(a, b, b->address, b->size, false, false);
    pool_remove(a, b);
    a->stats.reserved -= b->size;
    a->stats.segments--;
    pl_addresses_give(&a->addresses, b->span);
    pl_block_drop(&a->store, b);
}

/* Takes src, a free or unmapped neighbour like dst, into dst, which is in no tree. */
static void merge(pl_allocator *a, pl_block *dst, pl_block *src, enum pl_block_state state) {
    if (!src || src->state != state) return;
    if (state == PL_BLOCK_FREE)
        pool_remove(a, src);
    else
        pl_tree_remove(&pool_of(a, src)->unmapped, src);
    if (src == dst->prev) {
        dst->address = src->address;
        dst->span = src->span;
    }
    dst->size += src->size;
    pl_block_unlink(src);
    pl_block_drop(&a->store, src);
}

/* Backs the first pages of b, an unmapped block, with memory: `size` bytes rounded up to pages. */
static bool map_pages(pl_allocator *a, pl_block *b, int64_t size) {
    pool *p = pool_of(a, b);
    int64_t bytes = pl_round_up(size, p->small ? SMALL_SEGMENT : a->settings.large_segment_size);
    if (!card_has(a, bytes)) return false;
    pl_tree_remove(&p->unmapped, b);
    if (bytes < b->size) {
        pl_block *rest = pl_block_take(&a->store, b->address + bytes, b->size - bytes);
        rest->pool = b->pool;
        rest->span = b->span;
        rest->state = PL_BLOCK_UNMAPPED;
        pl_block_link(rest, b, b->next);
        pl_tree_insert(&a->store, &p->unmapped, rest, 0);
        b->size = bytes;
    }
    tell(a, b, b->address, bytes, true, true);
    merge(a, b, b->prev, PL_BLOCK_FREE);
    merge(a, b, b->next, PL_BLOCK_FREE);
    pool_insert(a, b);
    reserve_bytes(a, bytes);
    return true;
}

/* Gives back the whole pages of b, a free block of an expandable segment. */
static void unmap_pages(pl_allocator *a, pl_block *b) {
    pool *p = pool_of(a, b);
    int64_t page = p->small ? SMALL_SEGMENT : a->settings.large_segment_size;
    int64_t base = b->span->address;
    int64_t from = base + pl_round_up(b->address - base, page);
    int64_t end = b->address + b->size, to = end - (end - base) % page;
    if (from >= to) return;
    pool_remove(a, b);
    for (int side = 0; side < 2; side++) {
        int64_t size = side == 0 ? from - b->address : end - to;
        if (!size) continue;
        pl_block *part = pl_block_take(&a->store, side == 0 ? b->address : to, size);
        part->pool = b->pool;
        part->span = b->span;
        if (side == 0)
            pl_block_link(part, b->prev, b);
        else
            pl_block_link(part, b, b->next);
        pool_insert(a, part);
    }
    b->address = from;
    b->size = to - from;
    tell(a, b, from, b->size, true, false);
    a->stats.reserved -= b->size;
    merge(a, b, b->prev, PL_BLOCK_UNMAPPED);
    merge(a, b, b->next, PL_BLOCK_UNMAPPED);
    if (b->prev || b->next) {
        b->state = PL_BLOCK_UNMAPPED;
        pl_tree_insert(&a->store, &p->unmapped, b, 0);
    } else { /* nothing of the segment is left */
        pl_addresses_give(&a->addresses, b->span);
        pl_block_drop(&a->store, b);
    }
}

static bool has_room(const pl_block *b, int64_t size) {
    int64_t room = 0;
    for (; b && b->state != PL_BLOCK_ALLOCATED && room < size; b = b->next) room += b->size;
    return room >= size;
}

/* Where an expandable segment can grow to hold size: the lowest run of free and unmapped blocks
 * that starts at an unmapped block or at the free one before it; a new segment where there is none.
 */
static pl_block *find_growth(pl_allocator *a, pool *p, int16_t index, int64_t size) {
    for (pl_block *b = pl_tree_find(p->unmapped, 0, 0); b;
         b = pl_tree_find(p->unmapped, 0, b->address + 1)) {
        pl_block *start = b->prev && b->prev->state == PL_BLOCK_FREE ? b->prev : b;
        if (has_room(start, size)) return start;
    }
    int64_t page = p->small ? SMALL_SEGMENT : a->settings.large_segment_size;
    /* PyTorch reserves the addresses of 9/8 of the card, so that pages can move to the end. */
    int64_t total = a->settings.total_bytes;
    int64_t space = total ? total + total / 8 : ENDLESS_SPACE;
    if (space < size) return NULL;
    pl_block *span = pl_addresses_take(&a->addresses, pl_round_up(space, page));
    pl_block *b = pl_block_take(&a->store, span->address, pl_round_up(space, page));
    b->span = span;
    b->pool = index;
    b->state = PL_BLOCK_UNMAPPED;
    pl_tree_insert(&a->store, &p->unmapped, b, 0);
    return b;
}

static pl_block *grow_segment(pl_allocator *a, pool *p, int16_t index, int64_t size) {
    pl_block *b = find_growth(a, p, index, size);
    if (!b) return NULL;
    if (b->state == PL_BLOCK_UNMAPPED && !map_pages(a, b, size < b->size ? size : b->size))
        return NULL;
    while (b->size < size) { /* b is free, and what follows it is not mapped */
        pl_block *next = b->next;
        int64_t more = size - b->size;
        if (!map_pages(a, next, more < next->size ? more : next->size)) return NULL;
        b = next; /* it took b in */
    }
    pool_remove(a, b);
    return b;
}

static int64_t segment_size(const pl_allocator *a, int64_t size) {
    if (size <= SMALL_SIZE) return SMALL_SEGMENT;
    if (size < MIN_LARGE) return a->settings.large_segment_size;
    return pl_round_up(size, ROUND_LARGE);
}

/* cudaMalloc. NULL: the card is full. */
static pl_block *new_segment(pl_allocator *a, pool *p, int16_t index, int64_t size) {
    int64_t bytes = segment_size(a, size);
    if (bytes > a->allowed - a->stats.reserved) return NULL;
    if (a->settings.expandable_segments) return grow_segment(a, p, index, size);
    if (!card_has(a, bytes)) return NULL;
    pl_block *span = pl_addresses_take(&a->addresses, bytes);
    pl_block *b = pl_block_take(&a->store, span->address, bytes);
    b->span = span;
    b->pool = index;
    a->stats.segments++;
    reserve_bytes(a, bytes);
    tell(a, b, b->address, bytes, false, true);
    return b;
}

/* ---- giving back ---- */

static void release_pool(pl_allocator *a, pool *p) {
    pl_block *next;
    for (pl_block *b = pool_first(p); b; b = next) {
        next = pool_after(p, b);
        if (a->settings.expandable_segments) {
            /* What is put back is less than a page and comes before `next` or is stepped over. */
            int64_t size = b->size, address = b->address;
            if (!pl_block_reserve(&a->store, BLOCKS_AN_EVENT)) return;
            unmap_pages(a, b);
            next = pool_find(p, size, address + 1);
        } else if (!b->prev && !b->next) {
            release_segment(a, b);
        }
    }
}

static void release_cache(pl_allocator *a) {
    for (size_t i = 0; i < a->pool_count; i++) {
        if (a->pools[i]) release_pool(a, a->pools[i]);
    }
}

/* With max_split_size: gives back one free block that is large enough, or as many of the largest as
 * make up for it. false: not enough. */
static bool release_oversize(pl_allocator *a, pool *p, int64_t size) {
    int64_t limit = a->settings.max_split_size;
    if (limit == INT64_MAX || a->settings.expandable_segments) return false;
    int64_t need = size < limit ? limit : size, released = 0;
    pl_block *b = pool_find(p, need, 0);
    if (b) {
        release_segment(a, b);
        return true;
    }
    while (released < need && (b = pool_largest(p)) && b->size >= limit) {
        released += b->size;
        release_segment(a, b);
    }
    return released >= need;
}

/* Gives back unsplit large blocks, those free for longer than the average first, until reserved
 * bytes are under gc_threshold of what is allowed. */
static void collect_garbage(pl_allocator *a) {
    int64_t threshold = (int64_t)(a->settings.gc_threshold * (double)a->allowed);
    if (a->stats.reserved <= threshold || a->settings.expandable_segments) return;
    int64_t target = a->stats.reserved - threshold, reclaimed = 0, total_age = 0, count = 0;
    for (size_t i = 0; i < a->pool_count; i += 2) {
        if (!a->pools[i]) continue;
        for (pl_block *b = pool_first(a->pools[i]); b; b = pool_after(a->pools[i], b)) {
            if (b->prev || b->next) continue;
            total_age += a->large_searches - b->born;
            count++;
        }
    }
    for (bool freed = true; reclaimed < target && freed && count > 0;) {
        double age = (double)total_age / (double)count;
        freed = false;
        for (size_t i = 0; i < a->pool_count; i += 2) {
            pl_block *next;
            if (!a->pools[i]) continue;
            for (pl_block *b = pool_first(a->pools[i]); b; b = next) {
                next = pool_after(a->pools[i], b);
                if (b->prev || b->next || (double)(a->large_searches - b->born) < age) continue;
                freed = true;
                reclaimed += b->size;
                total_age -= a->large_searches - b->born;
                count--;
                release_segment(a, b);
            }
        }
    }
}

/* ---- requests ---- */

static int64_t round_request(const pl_allocator_settings *s, int64_t bytes) {
    if (bytes < MIN_BLOCK) return MIN_BLOCK;
    int log = 63 - __builtin_clzll((unsigned long long)bytes);
    int interval = log < 20 ? 0 : log - 20; /* from 1 MiB on */
    if (interval >= PL_ROUNDUP_INTERVALS) interval = PL_ROUNDUP_INTERVALS - 1;
    int64_t divisions = s->roundup_divisions[interval];
    if (divisions > 1 && bytes / MIN_BLOCK >= divisions && bytes > MIN_BLOCK * divisions)
        return pl_round_up(bytes, ((int64_t)1 << log) / divisions);
    return pl_round_up(bytes, MIN_BLOCK);
}

/* How large b could get: with the unmapped addresses behind it. */
static int64_t reach(const pl_block *b) {
    return b->size + (b->next && b->next->state == PL_BLOCK_UNMAPPED ? b->next->size : 0);
}

static pl_block *find_free(pl_allocator *a, pool *p, int64_t size) {
    const pl_allocator_settings *s = &a->settings;
    if (!p->small) a->large_searches++;
    pl_block *b = pool_find(p, size, 0);
    if (!b) return NULL;
    if (s->expandable_segments) {
        /* The part that can still grow is taken last: its size is what it can reach. */
        while (b->next && b->next->state == PL_BLOCK_UNMAPPED) {
            pl_block *after = pool_after(p, b);
            if (!after || reach(after) >= reach(b)) break;
            b = after;
        }
    }
    if (size < s->max_split_size ? b->size >= s->max_split_size
                                 : b->size - size >= s->max_non_split_rounding)
        return NULL;
    pool_remove(a, b);
    return b;
}

static bool should_split(const pl_allocator *a, const pl_block *b, int64_t size) {
    int64_t rest = b->size - size;
    if (!is_large(b) || a->settings.expandable_segments) return rest >= MIN_BLOCK;
    return size < a->settings.max_split_size && rest > SMALL_SIZE;
}

static pl_block *find_memory(pl_allocator *a, pool *p, int16_t index, int64_t size) {
    pl_block *b = find_free(a, p, size);
    if (b) return b;
    if (a->settings.gc_threshold > 0 && a->allowed < INT64_MAX) collect_garbage(a);
    if ((b = new_segment(a, p, index, size))) return b;
    if (release_oversize(a, p, size) && (b = new_segment(a, p, index, size))) return b;
    release_cache(a);
    a->stats.retries++;
    if (!pl_block_reserve(&a->store, BLOCKS_AN_EVENT)) return NULL;
    return new_segment(a, p, index, size);
}

pl_block *pl_allocator_alloc(pl_allocator *a, int64_t bytes, int stream, bool *oom) {
    bool ignored;
    if (!oom) oom = &ignored;
    *oom = false;
    if (!pl_block_reserve(&a->store, BLOCKS_AN_EVENT)) return NULL;
    if (bytes <= 0) {
        pl_block *b = pl_block_take(&a->store, 0, 0);
        b->state = PL_BLOCK_EMPTY;
        return b;
    }
    int64_t size = bytes <= MAX_REQUEST ? round_request(&a->settings, bytes) : INT64_MAX;
    if (size > MAX_REQUEST) {
        *oom = true;
        return NULL;
    }
    pool *p = get_pool(a, stream, size <= SMALL_SIZE);
    if (!p) return NULL;
    int16_t index = (int16_t)(stream * 2 + (p->small ? 1 : 0));
    pl_block *b = find_memory(a, p, index, size);
    if (!b) {
        *oom = a->store.spare_count >= BLOCKS_AN_EVENT;
        return NULL;
    }
    if (should_split(a, b, size)) {
        pl_block *rest = pl_block_take(&a->store, b->address + size, b->size - size);
        rest->pool = index;
        rest->span = b->span;
        b->size = size;
        pl_block_link(rest, b, b->next);
        pool_insert(a, rest);
    }
    b->state = PL_BLOCK_ALLOCATED;
    a->stats.allocated += b->size;
    if (a->stats.allocated > a->stats.peak_allocated) a->stats.peak_allocated = a->stats.allocated;
    return b;
}

void pl_allocator_free(pl_allocator *a, pl_block *b) {
    if (!b) return;
    if (b->state == PL_BLOCK_EMPTY) {
        pl_block_drop(&a->store, b);
        return;
    }
    a->stats.allocated -= b->size;
    merge(a, b, b->prev, PL_BLOCK_FREE);
    merge(a, b, b->next, PL_BLOCK_FREE);
    pool_insert(a, b);
}

int64_t pl_block_bytes(const pl_block *block) {
    return block->size;
}

int64_t pl_block_address(const pl_block *block) {
    return block->address;
}

void pl_allocator_empty_cache(pl_allocator *a) {
    release_cache(a);
}

const pl_allocator_stats *pl_allocator_stats_of(const pl_allocator *a) {
    return &a->stats;
}

/* ---- the whole ---- */

pl_allocator *pl_allocator_new(const pl_allocator_settings *settings) {
    pl_arena *arena = pl_arena_new(settings->budget);
    pl_allocator *a = arena ? pl_arena_alloc(arena, sizeof *a) : NULL;
    if (!a) {
        pl_arena_free(&arena);
        return NULL;
    }
    a->arena = arena;
    a->settings = *settings;
    if (!a->settings.total_bytes) a->settings.total_bytes = settings->device_bytes;
    a->store = (pl_block_store){.arena = arena, .random = 2463534242u};
    a->allowed = INT64_MAX;
    if (settings->memory_fraction < 1 && a->settings.total_bytes)
        a->allowed = (int64_t)(settings->memory_fraction * (double)a->settings.total_bytes);
    if (!pl_block_reserve(&a->store, PL_BLOCK_SLAB) || !get_pool(a, 0, true) ||
        !get_pool(a, 0, false)) {
        pl_arena_free(&arena);
        return NULL;
    }
    pl_addresses_start(&a->addresses, &a->store, settings->context_holes);
    return a;
}

void pl_allocator_close(pl_allocator **allocator) {
    if (!allocator || !*allocator) return;
    pl_arena *arena = (*allocator)->arena;
    *allocator = NULL;
    pl_arena_free(&arena);
}
