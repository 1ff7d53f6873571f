/* addresses: where the CUDA driver puts the segments that the caching allocator asks it for.
 *
 * Blocks of one size are taken by address, so this decides which. */
#ifndef PL_DEVICE_ADDRESSES_H
#define PL_DEVICE_ADDRESSES_H

#include "device/block.h"

#define PL_DRIVER_CHUNK ((int64_t)32 << 20) /* the driver takes addresses in multiples of this */
#define PL_DRIVER_PAGE  ((int64_t)2 << 20)  /* and gives them in multiples of this */

enum { PL_HOLE_CLASSES = 17 }; /* PL_DRIVER_CHUNK / PL_DRIVER_PAGE + 1 */

typedef struct pl_addresses {
    pl_block_store *store;
    pl_block
        *holes[PL_HOLE_CLASSES]; /* newest chunk first; index: pages, the last for all larger */
    pl_block *gaps;              /* free ranges above `lowest`, highest first, by next */
    int64_t lowest;              /* chunks are taken downward from here */
    int64_t chunks;              /* taken so far */
} pl_addresses;

/* Needs 2 * PL_CONTEXT_HOLES blocks reserved in store, which must outlive it. */
void pl_addresses_start(pl_addresses *addresses, pl_block_store *store,
                        const int64_t context_holes[PL_CONTEXT_HOLES]);
/* A range of at least size bytes; needs 2 blocks reserved. Never NULL. */
pl_block *pl_addresses_take(pl_addresses *addresses, int64_t size);
void pl_addresses_give(pl_addresses *addresses, pl_block *span);

#endif
