/* kept: see kept.h. A hash table of chains and a list by use under one lock, which is held for some
 * hundred nanoseconds: no item is made or freed under it. */
#include "request/kept.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/mix.h"

enum { BUCKETS = 1 << 14 };

struct pl_kept {
    pthread_mutex_t lock;
    pl_item *buckets[BUCKETS];
    pl_item *newest, *oldest;
    size_t most;
    uint64_t secret;
    pl_kept_counts counts;
};

pl_kept *pl_kept_open(size_t most_bytes) {
    pl_kept *kept = calloc(1, sizeof *kept);
    if (!kept) return NULL;
    pthread_mutex_init(&kept->lock, NULL);
    kept->most = most_bytes;
    kept->secret = pl_mix_secret(kept);
    return kept;
}

static uint64_t hash_of(const pl_kept *kept, const char *key, size_t size) {
    uint64_t hash = size, word;
    for (; size >= 8; key += 8, size -= 8) {
        memcpy(&word, key, 8);
        hash = pl_mix(hash, word, kept->secret);
    }
    word = 0;
    memcpy(&word, key, size);
    return pl_mix(hash, word, kept->secret);
}

/* ---- under the lock ---- */

static void unlink_use(pl_kept *kept, pl_item *item) {
    *(item->newer ? &item->newer->older : &kept->newest) = item->older;
    *(item->older ? &item->older->newer : &kept->oldest) = item->newer;
    item->newer = item->older = NULL;
}

static void link_newest(pl_kept *kept, pl_item *item) {
    item->older = kept->newest;
    if (kept->newest) kept->newest->newer = item;
    kept->newest = item;
    if (!kept->oldest) kept->oldest = item;
}

static pl_item *look(const pl_kept *kept, uint64_t hash, const char *key, size_t size) {
    pl_item *item = kept->buckets[hash % BUCKETS];
    while (item && !(item->hash == hash && item->key_size == size && !memcmp(item->key, key, size)))
        item = item->chain;
    return item;
}

/* Out of the table; true: nobody holds it, and it is to be freed. */
static bool drop(pl_kept *kept, pl_item *item) {
    pl_item **at = &kept->buckets[item->hash % BUCKETS];
    while (*at != item) at = &(*at)->chain;
    *at = item->chain;
    item->chain = NULL;
    unlink_use(kept, item);
    kept->counts.items--;
    kept->counts.bytes -= item->bytes;
    return --item->users == 0;
}

/* Makes room; what is to be freed is chained. */
static pl_item *make_room(pl_kept *kept, size_t bytes) {
    pl_item *gone = NULL;
    while (kept->oldest && kept->counts.bytes > kept->most - bytes) {
        pl_item *item = kept->oldest;
        kept->counts.dropped++;
        if (!drop(kept, item)) continue;
        item->chain = gone;
        gone = item;
    }
    return gone;
}

/* ---- what callers ask ---- */

pl_item *pl_kept_find(pl_kept *kept, const char *key, size_t size) {
    uint64_t hash = hash_of(kept, key, size);
    pthread_mutex_lock(&kept->lock);
    pl_item *item = look(kept, hash, key, size);
    if (item) {
        item->users++;
        kept->counts.found++;
        unlink_use(kept, item);
        link_newest(kept, item);
    } else {
        kept->counts.missed++;
    }
    pthread_mutex_unlock(&kept->lock);
    return item;
}

pl_item *pl_kept_add(pl_kept *kept, pl_item *item) {
    pl_item *gone = NULL, *use = item;
    item->hash = hash_of(kept, item->key, item->key_size);
    item->users = 1;
    item->chain = item->newer = item->older = NULL;
    pthread_mutex_lock(&kept->lock);
    pl_item *there = look(kept, item->hash, item->key, item->key_size);
    if (there) {
        there->users++;
        use = there;
        gone = item;
    } else if (item->bytes <= kept->most) {
        gone = make_room(kept, item->bytes);
        item->chain = kept->buckets[item->hash % BUCKETS];
        kept->buckets[item->hash % BUCKETS] = item;
        link_newest(kept, item);
        item->users++;
        kept->counts.items++;
        kept->counts.bytes += item->bytes;
    }
    pthread_mutex_unlock(&kept->lock);
    while (gone) {
        pl_item *next = gone->chain;
        gone->free(gone);
        gone = next;
    }
    return use;
}

void pl_kept_remove(pl_kept *kept, pl_item *item) {
    pthread_mutex_lock(&kept->lock);
    if (look(kept, item->hash, item->key, item->key_size) == item) drop(kept, item);
    pthread_mutex_unlock(&kept->lock);
}

void pl_kept_give(pl_kept *kept, pl_item *item) {
    if (!item) return;
    pthread_mutex_lock(&kept->lock);
    bool last = --item->users == 0;
    pthread_mutex_unlock(&kept->lock);
    if (last) item->free(item);
}

pl_kept_counts pl_kept_count(pl_kept *kept) {
    pthread_mutex_lock(&kept->lock);
    pl_kept_counts counts = kept->counts;
    pthread_mutex_unlock(&kept->lock);
    return counts;
}

void pl_kept_close(pl_kept **given) {
    if (!given || !*given) return;
    pl_kept *kept = *given;
    for (pl_item *item = kept->newest; item;) {
        pl_item *older = item->older;
        if (--item->users == 0) item->free(item);
        item = older;
    }
    pthread_mutex_destroy(&kept->lock);
    free(kept);
    *given = NULL;
}
