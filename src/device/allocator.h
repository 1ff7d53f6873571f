/* allocator: PyTorch's CUDA caching allocator, as arithmetic.
 *
 * Addresses are numbers; nothing is allocated on any device. The rules were read in
 * c10/cuda/CUDACachingAllocator.cpp (a revision before 2.11) and c10/core/AllocatorConfig.h (2.11),
 * and hold for PyTorch 2.11 as far as running it showed (tests/random.c, tests/replay.c). */
#ifndef PL_DEVICE_ALLOCATOR_H
#define PL_DEVICE_ALLOCATOR_H

#include "core/arena.h"
#include "core/error.h"

enum { PL_ROUNDUP_INTERVALS = 16, PL_CONTEXT_HOLES = 4 };

typedef struct pl_allocator_settings {
    pl_budget *budget;    /* of this machine's memory and time; NULL (default): no limits */
    int64_t device_bytes; /* what cudaMalloc can give in all: capacity less context; 0 (default):
                             endless */
    int64_t total_bytes;  /* the card's whole memory, what memory_fraction is of; 0 (default):
                             device_bytes */
    bool expandable_segments;       /* default false */
    int64_t max_split_size;         /* bytes; INT64_MAX (default): none */
    int64_t max_non_split_rounding; /* bytes; default: large_segment_size */
    /* roundup_power2_divisions for sizes from 1 MiB << i on (the first also below); 0 (default):
     * off */
    int64_t roundup_divisions[PL_ROUNDUP_INTERVALS];
    double gc_threshold;        /* 0 (default): off */
    double memory_fraction;     /* per_process_memory_fraction; 1 (default): no limit of its own */
    int64_t large_segment_size; /* bytes; default 20 MiB */
    /* Addresses that the context leaves free in ranges of its own, bytes, newest range first; they
       decide ties between blocks of one size. Default: as on an H200 after the first kernel */
    int64_t context_holes[PL_CONTEXT_HOLES];
    /* default NULL: told of segments, or pages of one, that are taken from the driver or given back */
    void (*segment)(void *context, int64_t address, int64_t bytes, int stream, bool pages,
                    bool made);
    void *segment_context;
} pl_allocator_settings;

void pl_allocator_settings_default(pl_allocator_settings *settings);
/* Reads PYTORCH_CUDA_ALLOC_CONF's syntax into *settings; what conf does not name gets its default,
 * but budget, device_bytes, total_bytes and
 * context_holes are kept. NULL is as "". PL_USAGE names what it does not know,
 * and then *settings is as it was. */
pl_status pl_allocator_settings_parse(pl_allocator_settings *settings, const char *conf,
                                      pl_error *err);

typedef struct pl_allocator pl_allocator;
typedef struct pl_block pl_block; /* opaque: one allocation */

typedef struct pl_allocator_stats {
    int64_t allocated, reserved; /* now */
    int64_t peak_allocated, peak_reserved;
    int64_t retries;  /* times the cache was given back for want of memory */
    int64_t segments; /* held now; as in PyTorch, expandable ones are not counted */
} pl_allocator_stats;

pl_allocator *pl_allocator_new(const pl_allocator_settings *settings); /* NULL: out of memory */
void pl_allocator_close(pl_allocator **allocator);                     /* takes NULL */

/* NULL: out of memory, on the simulated card (then *oom is true) or on this machine; the allocator
 * stays usable. oom may be NULL. bytes of 0 gives a block of no size. stream: a small number (0 to
 * 1023), blocks are kept apart by stream. */
pl_block *pl_allocator_alloc(pl_allocator *allocator, int64_t bytes, int stream, bool *oom);
/* Takes NULL. A block is freed once, on the stream it came from. */
void pl_allocator_free(pl_allocator *allocator, pl_block *block);
int64_t pl_block_bytes(const pl_block *block);   /* what it counts in `allocated` */
int64_t pl_block_address(const pl_block *block); /* made up, but ordered as the driver's are */
/* torch.cuda.empty_cache(). On an out of memory of this machine some of the cache may stay. */
void pl_allocator_empty_cache(pl_allocator *allocator);
const pl_allocator_stats *pl_allocator_stats_of(const pl_allocator *allocator);

#endif
