/* arena: memory for one request, taken in growing blocks and given back all at once.
 *
 * What comes from an arena is zeroed and aligned to 16 bytes. An arena is used by one thread.
 * What it holds counts against the request's budget. */
#ifndef PL_CORE_ARENA_H
#define PL_CORE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/budget.h"

typedef struct pl_arena pl_arena;

pl_arena *pl_arena_new(pl_budget *budget); /* budget NULL: no limits. NULL: out of memory */
void pl_arena_free(pl_arena **arena);      /* takes NULL and a pointer to NULL */

/* All three return NULL when memory is out, the budget is spent or count * size overflows. */
void *pl_arena_alloc(pl_arena *arena, size_t bytes);
void *pl_arena_array(pl_arena *arena, size_t count, size_t size);
char *pl_arena_string(pl_arena *arena, const char *bytes, size_t length); /* adds the 0 */

size_t pl_arena_used(const pl_arena *arena);
pl_budget *pl_arena_budget(const pl_arena *arena); /* takes NULL; NULL: no limits */

/* Takes everything back and keeps the blocks for what comes next. */
void pl_arena_reset(pl_arena *arena);

/* Grows an array kept in an arena: returns the (possibly moved) array with room for at least `need`
 * elements and updates *capacity, or NULL. Old room is not given back before the arena is. */
void *pl_arena_grow(pl_arena *arena, void *array, size_t *capacity, size_t need, size_t size);

/* For tests: every allocation fails after `count` more have succeeded; negative: never. Per thread.
 */
void pl_arena_fail_after(long count);

#endif
