/* kept: models that were opened, and answers that were given, shared by threads and held within so many
 * bytes: the least recently asked go first. What is in use stays until it is given back. */
#ifndef PL_REQUEST_KEPT_H
#define PL_REQUEST_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Something kept: the first member of what the caller keeps. */
typedef struct pl_item {
    struct pl_item *chain;         /* of the same bucket */
    struct pl_item *newer, *older; /* by use */
    uint64_t hash;
    size_t key_size, bytes; /* bytes: what it counts as */
    const char *key;        /* [key_size], the item's own */
    int users;              /* those who hold it, and one where it is in the table */
    void (*free)(struct pl_item *item);
} pl_item;

typedef struct pl_kept pl_kept;

pl_kept *pl_kept_open(size_t most_bytes); /* NULL: out of memory */
void pl_kept_close(pl_kept **kept);       /* once nothing of it is in use */

/* The item of that key, to be given back; NULL: there is none. */
pl_item *pl_kept_find(pl_kept *kept, const char *key, size_t key_size);
/* Puts an item (key, key_size, bytes and free set) in and gives the one to use, to be given back: the
 * same, or another's that came first, and the given one is freed. What is larger than all there is room
 * for is given back unkept. */
pl_item *pl_kept_add(pl_kept *kept, pl_item *item);
/* Out of the table, where it is still there; who holds it still does. */
void pl_kept_remove(pl_kept *kept, pl_item *item);
void pl_kept_give(pl_kept *kept, pl_item *item); /* takes NULL */

typedef struct pl_kept_counts {
    size_t items, bytes;
    uint64_t found, missed, dropped;
} pl_kept_counts;

pl_kept_counts pl_kept_count(pl_kept *kept);

#endif
