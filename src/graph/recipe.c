/* recipe: see recipe.h. Opening, warnings and closing; what builds is the importer's. */
#include "graph/recipe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

pl_recipe *pl_recipe_open(const char *name, pl_budget *budget) {
    pl_arena *arena = pl_arena_new(budget);
    pl_recipe *r = arena ? pl_arena_alloc(arena, sizeof *r) : NULL;
    if (r) r->name = pl_arena_string(arena, name, strlen(name));
    if (!r || !r->name) {
        pl_arena_free(&arena);
        return NULL;
    }
    r->arena = arena;
    r->batch = 1;
    r->seq = PL_UNKNOWN;
    r->most_batch = r->most_seq = INT64_MAX;
    r->dtype = PL_DT_F32;
    return r;
}

bool pl_recipe_warn(pl_recipe *recipe, const char *format, ...) {
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *copy = pl_arena_string(recipe->arena, text, strlen(text));
    const char **grown = pl_arena_grow(recipe->arena, recipe->warnings, &recipe->warning_room,
                                       recipe->warning_count + 1, sizeof *grown);
    if (!copy || !grown) return false;
    recipe->warnings = grown;
    grown[recipe->warning_count++] = copy;
    return true;
}

void pl_recipe_close(pl_recipe **recipe) {
    if (!recipe || !*recipe) return;
    pl_arena *arena = (*recipe)->arena;
    pl_arena_free(&arena);
    *recipe = NULL;
}
