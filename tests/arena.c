/* The arena: zeroed, aligned, bounded by its limit, and every failure of memory reported. */
#include "core/arena.h"
#include "core/checked.h"

#include "check.h"

static void zeroed_and_aligned(void) {
    pl_arena *arena = pl_arena_new(0);
    CHECK(arena != NULL);
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        unsigned char *bytes = pl_arena_alloc(arena, size);
        CHECK(bytes != NULL);
        if (!bytes) break;
        CHECK_INT((uintptr_t)bytes % 16, 0);
        int sum = 0;
        for (size_t i = 0; i < size; i++) sum |= bytes[i];
        CHECK_INT(sum, 0);
        memset(bytes, 0xff, size);
    }
    pl_arena_free(&arena);
    CHECK(arena == NULL);
    pl_arena_free(&arena);
    pl_arena_free(NULL);
}

static void limit_holds(void) {
    pl_budget budget = {.most_bytes = 1 << 20};
    pl_arena *arena = pl_arena_new(&budget);
    CHECK(pl_arena_alloc(arena, 1 << 19) != NULL);
    CHECK(pl_arena_alloc(arena, 1 << 20) == NULL);
    CHECK(pl_arena_alloc(arena, SIZE_MAX) == NULL);
    CHECK(pl_arena_array(arena, SIZE_MAX / 2, 4) == NULL);
    pl_arena_free(&arena);
}

static void grown_array_keeps_its_contents(void) {
    pl_arena *arena = pl_arena_new(0);
    size_t capacity = 0;
    int *numbers = NULL;
    for (int i = 0; i < 10000; i++) {
        numbers = pl_arena_grow(arena, numbers, &capacity, (size_t)i + 1, sizeof *numbers);
        if (!numbers) break;
        numbers[i] = i;
    }
    CHECK(numbers != NULL);
    int wrong = 0;
    for (int i = 0; numbers && i < 10000; i++) wrong += numbers[i] != i;
    CHECK_INT(wrong, 0);
    pl_arena_free(&arena);
}

/* Arenas of one budget that grow by turns, are freed in any order and grow again: what they give is
 * zeroed each time and nobody else's, and the budget has all of it back. */
static void large_requests_share_chunks(void) {
    enum { ARENAS = 5, ROUNDS = 40, PIECES = 200, PIECE = 9000 };
    pl_budget budget = {.most_bytes = 64 << 20};
    pl_arena *arenas[ARENAS] = {0};
    unsigned char *pieces[ARENAS][PIECES];
    size_t counts[ARENAS] = {0};
    uint32_t random = 1;
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525u + 1013904223u;
        int k = (int)(random >> 16) % ARENAS;
        if (!arenas[k]) arenas[k] = pl_arena_new(&budget);
        size_t more = (size_t)(random >> 8) % PIECES;
        for (size_t i = 0; i < more && counts[k] < PIECES; i++) {
            unsigned char *piece = pl_arena_alloc(arenas[k], PIECE);
            CHECK(piece != NULL);
            if (!piece) return;
            for (int j = 0; j < PIECE; j++) wrong += piece[j] != 0;
            memset(piece, k + 1, PIECE);
            pieces[k][counts[k]++] = piece;
        }
        for (int a = 0; a < ARENAS; a++)
            for (size_t i = 0; i < counts[a]; i++)
                wrong += pieces[a][i][0] != a + 1 || pieces[a][i][PIECE - 1] != a + 1;
        CHECK(budget.bytes <= budget.most_bytes);
        if (counts[k] == PIECES) {
            if (random & 1)
                pl_arena_free(&arenas[k]);
            else
                pl_arena_reset(arenas[k]);
            counts[k] = 0;
        }
    }
    CHECK_INT(wrong, 0);
    for (int a = 0; a < ARENAS; a++) pl_arena_free(&arenas[a]);
    CHECK_INT(budget.bytes, 0);
    CHECK(budget.chunk == NULL);
}

static void told_to_fail(void) {
    pl_arena *arena = pl_arena_new(0);
    pl_arena_fail_after(2);
    CHECK(pl_arena_alloc(arena, 8) != NULL);
    CHECK(pl_arena_alloc(arena, 8) != NULL);
    CHECK(pl_arena_alloc(arena, 8) == NULL);
    pl_arena_fail_after(-1);
    CHECK(pl_arena_alloc(arena, 8) != NULL);
    pl_arena_free(&arena);
}

static void strings_end(void) {
    pl_arena *arena = pl_arena_new(0);
    CHECK_STR(pl_arena_string(arena, "layers.0", 6), "layers");
    CHECK_STR(pl_arena_string(arena, "", 0), "");
    pl_arena_free(&arena);
}

static void sums_that_do_not_fit(void) {
    int64_t out = 0;
    CHECK(!pl_mul_i64(INT64_MAX, 2, &out));
    CHECK(!pl_add_i64(INT64_MAX, 1, &out));
    CHECK(pl_mul_i64(3, 4, &out) && out == 12);
    CHECK_INT(pl_round_up(513, 512), 1024);
    CHECK_INT(pl_round_up(512, 512), 512);
    CHECK_INT(pl_round_up(0, 512), 0);
    CHECK_INT(pl_round_up(INT64_MAX, 512), INT64_MAX);
}

int main(void) {
    RUN(zeroed_and_aligned);
    RUN(limit_holds);
    RUN(grown_array_keeps_its_contents);
    RUN(large_requests_share_chunks);
    RUN(told_to_fail);
    RUN(strings_end);
    RUN(sums_that_do_not_fit);
    return check_done();
}
