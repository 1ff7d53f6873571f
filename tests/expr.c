/* Expressions of sizes: what torch.export writes in both its forms comes to the number Python would
 * give; what is wrong is refused with its place; no value overflows unseen. */
#include "graph/expr.h"

#include "check.h"

static const char *const symbols[] = {"s0", "s77", "u1"};
static const int64_t values[] = {7, 12, 1000000007};

static int32_t symbol(void *context, const char *name, size_t length) {
    (void)context;
    for (int32_t i = 0; i < 3; i++)
        if (strlen(symbols[i]) == length && !memcmp(symbols[i], name, length)) return i;
    return 0;
}

static pl_expr *parse(pl_arena *arena, const char *text, const char **failure, size_t *position) {
    return pl_expr_parse(arena, text, strlen(text), 0, symbol, NULL, failure, position);
}

/* s0 is 7, s77 is 12. */
static void numbers(void) {
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {
        {"4", 4},
        {"s0", 7},
        {"Symbol('s77', positive=True, integer=True)", 12},
        {"Symbol(\"s77\")", 12},
        {"4*s77", 48},
        {"-s0 + 10", 3},
        {"2*s0**2", 98},
        {"-s0**2", -49},
        {"2**-1*s77", 6},
        {"2**3**2", 512},
        {"((s0 - 1)//2) + 1", 4},
        {"(s0//2)", 3},
        {"(-s0)//2", -4},
        {"-s0 % 4", 1},
        {"s0/2*4", 14},
        {"s77/4", 3},
        {"s0 - -3", 10},
        {" ( s0 ) ", 7},
        {"FloorDiv(s0, 2)", 3},
        {"CleanDiv(s77, 3)", 4},
        {"CeilDiv(s0, 2)", 4},
        {"CeilDiv(s77, 2)", 6},
        {"Mod(s0, 4)", 3},
        {"PythonMod(-s0, 4)", 1},
        {"Max(1, s0)", 7},
        {"Max(1, s0, s77, 3)", 12},
        {"Min(16, Mul(Integer(16), Symbol('s0', positive=True, integer=True)))", 16},
        {"Add(Mul(Integer(12), FloorDiv(Add(Symbol('s0', integer=True), Integer(-1)), "
         "Integer(2))), Integer(12))",
         48},
        {"Pow(Symbol('s0', positive=True, integer=True), Integer(2))", 49},
        {"Mul(Rational(1, 2), Symbol('s77'))", 6},
        {"Mul(Pow(Integer(2), Integer(-1)), s77)", 6},
        {"ceiling(s0/2)", 4},
        {"floor(s0/2)", 3},
        {"ceiling(-s0/2)", -3},
        {"floor(s77/2)", 6},
        {"Abs(3 - s0)", 4},
        {"ModularIndexing(s77, 5, 2)", 0},
        {"ModularIndexing(s77, 3, 3)", 1},
        {"TruncToInt(IntTrueDiv(s0, 2))", 3},
        {"TruncToInt(FloatTrueDiv(ToFloat(-s0), ToFloat(2)))", -3},
        {"CeilToInt(s0*Float('0.5', precision=53))", 4},
        {"FloorToInt(2.5*s0)", 17},
        {"RoundToInt(Mul(Float('1.0e1'), s0))", 70},
        {"FloatPow(ToFloat(Integer(16)), Float('0.5', precision=53))", 4},
        {"OpaqueUnaryFn_sqrt(s77 + 4)", 4},
        {"PowByNatural(s0, 2)", 49},
        {"Where(s0 < 8, 1, 2)", 1},
        {"Where(Eq(s0, 8), 1, 2)", 2},
        {"Piecewise((1, s0 > 100), (2, s0 >= 7), (3, True))", 2},
        {"Piecewise(ExprCondPair(Integer(1), StrictGreaterThan(s0, Integer(100))), "
         "ExprCondPair(Integer(3), true))",
         3},
        {"Where((s0 > 1) & (s77 > 100), 1, 2)", 2},
        {"Where((s0 > 1) | (s77 > 100), 1, 2)", 1},
        {"Where(~(s0 > 1), 1, 2)", 2},
        {"Where(Ne(s0, 7), 1, Where(s0 != 7, 5, 6))", 6},
        {"Identity(s0)", 7},
        {"s0 << 3", 56},
        {"s77 >> 2", 3},
        {"LShift(1, s0)", 128},
        {"Min(s0, oo)", 7},
        {"Max(s0, -int_oo)", 7},
        {"u1*u1", 1000000014000000049},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775807 - s0*1317624576693539401", 0},
        {"9223372036854775807 // 9223372036854775807", 1},
        {"((((((((((s0))))))))))", 7},
        {"Add(s0)", 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_arena *arena = pl_arena_new(0);
        const char *failure;
        size_t position;
        pl_expr *expr = parse(arena, rows[i].text, &failure, &position);
        int64_t value = -999;
        if (!expr) printf("  %s: expected %s at %zu\n", rows[i].text, failure, position);
        CHECK(expr != NULL);
        if (expr && !pl_expr_value(expr, values, &value, &failure))
            printf("  %s comes to %s\n", rows[i].text, failure);
        if (value != rows[i].value) printf("  %s\n", rows[i].text);
        CHECK_INT(value, rows[i].value);
        pl_arena_free(&arena);
    }
}

static void refused_with_place(void) {
    static const struct {
        const char *text;
        size_t position;
        const char *expected;
    } rows[] = {
        {"", 0, "a number, a symbol or a function"},
        {"4*", 2, "a number, a symbol or a function"},
        {"4 4", 2, "an operator or the end"},
        {"(s0", 3, "')'"},
        {"Mul(4, s0", 9, "',' or ')'"},
        {"Mod(4)", 6, "another number of arguments"},
        {"Mul()", 5, "another number of arguments"},
        {"Symbol(s0)", 7, "a name in quotes"},
        {"Symbol('s0", 10, "the closing quote"},
        {"Symbol('s0', positive)", 21, "an assumption such as positive=True"},
        {"Symbol('s0', positive=)", 22, "True, False or a number"},
        {"Piecewise(1)", 10, "'('"},
        {"9223372036854775808", 0, "an integer of 64 bits"},
        {"s0 + $", 5, "a number, a symbol or a function"},
        {"s0 @ 2", 3, "an operator or the end"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_arena *arena = pl_arena_new(0);
        const char *failure;
        size_t position;
        pl_expr *expr = parse(arena, rows[i].text, &failure, &position);
        CHECK(expr == NULL);
        if (expr || position != rows[i].position) printf("  %s\n", rows[i].text);
        CHECK_STR(failure, rows[i].expected);
        CHECK_INT(position, rows[i].position);
        pl_arena_free(&arena);
    }
}

static void no_value(void) {
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"s0 // 0", "a division by zero"},
        {"Mod(s0, 0)", "a division by zero"},
        {"s0/0", "a division by zero"},
        {"0**-1", "a division by zero"},
        {"s0/2", "a size that is no integer"},
        {"2.5*s0", "a size that is no integer"},
        {"u1**3", "a number too large for 64 bits"},
        {"u1**9223372036854775807", "a number too large for 64 bits"},
        {"9223372036854775807 + 1", "a number too large for 64 bits"},
        {"-9223372036854775807 - 2", "a number too large for 64 bits"},
        {"3**s0 * 9223372036854775807", "a number too large for 64 bits"},
        {"FloorToInt(1e30)", "a number too large for 64 bits"},
        {"1e30", "a number too large for 64 bits"},
        {"s0 + oo", "a number too large for 64 bits"},
        {"1 << 63", "a shift by a small integer"},
        {"SomethingNew(s0, 2)", "a function that this program does not know"},
        {"Piecewise((1, s0 > 100))", "a condition that holds"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_arena *arena = pl_arena_new(0);
        const char *failure = NULL;
        size_t position;
        int64_t value;
        pl_expr *expr = parse(arena, rows[i].text, &failure, &position);
        CHECK(expr != NULL);
        CHECK(expr && !pl_expr_value(expr, values, &value, &failure));
        CHECK_STR(failure, rows[i].why);
        pl_arena_free(&arena);
    }
}

static void nesting_is_bounded(void) {
    enum { DEEP = 100000 };
    static char text[DEEP * 4 + 16];
    static const char *const units[] = {"(", "-", "Max(", "2**", "Where(1,", "Float('", "1+("};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        size_t length = strlen(units[u]), at = 0;
        while (at + length < DEEP) {
            memcpy(text + at, units[u], length);
            at += length;
        }
        text[at] = '\0';
        pl_arena *arena = pl_arena_new(0);
        const char *failure = NULL;
        size_t position;
        CHECK(parse(arena, text, &failure, &position) == NULL);
        CHECK(failure != NULL);
        pl_arena_free(&arena);
    }
    /* long, but flat: allowed */
    size_t at = 0;
    text[at++] = '1';
    while (at < DEEP) {
        text[at++] = '+';
        text[at++] = '1';
    }
    text[at] = '\0';
    pl_arena *arena = pl_arena_new(0);
    const char *failure;
    size_t position;
    int64_t value = 0;
    pl_expr *expr = parse(arena, text, &failure, &position);
    CHECK(expr && pl_expr_value(expr, values, &value, &failure));
    CHECK_INT(value, 50001);
    /* many pieces at once need a stack of their own */
    at = (size_t)sprintf(text, "Piecewise(");
    for (int i = 0; i < 1000; i++)
        at += (size_t)sprintf(text + at, "%s(1, s0 > 100)", i ? "," : "");
    strcpy(text + at, ")");
    CHECK(parse(arena, text, &failure, &position) == NULL);
    CHECK_STR(failure, "a shorter expression");
    pl_arena_free(&arena);
}

static void symbols_and_constants(void) {
    pl_arena *arena = pl_arena_new(0);
    const char *failure;
    size_t position;
    CHECK_INT(pl_expr_symbol(parse(arena, "s77", &failure, &position)), 1);
    CHECK_INT(pl_expr_symbol(parse(arena, "Symbol('s77', integer=True)", &failure, &position)), 1);
    CHECK_INT(pl_expr_symbol(parse(arena, "2*s77", &failure, &position)), -1);
    CHECK_INT(pl_expr_symbol(parse(arena, "4", &failure, &position)), -1);
    CHECK(pl_expr_is_constant(parse(arena, "Integer(4)*2", &failure, &position)));
    CHECK(!pl_expr_is_constant(parse(arena, "4*s0", &failure, &position)));
    CHECK_STR(pl_expr_text(parse(arena, "4*s0", &failure, &position)), "4*s0");
    pl_arena_free(&arena);
}

static void memory_runs_out(void) {
    static const char text[] =
        "Max(1, Mul(Integer(4), Symbol('s77', positive=True)), s0 + 2, s0 // 3, 4, 5, 6, 7, 8, 9)";
    int failures = 0;
    for (long count = 0; count < 20; count++) {
        pl_arena *arena = pl_arena_new(0);
        const char *failure = "";
        size_t position;
        pl_arena_fail_after(count);
        pl_expr *expr = parse(arena, text, &failure, &position);
        pl_arena_fail_after(-1);
        if (!expr) {
            failures++;
            CHECK(failure == NULL);
        }
        pl_arena_free(&arena);
    }
    CHECK(failures > 0 && failures < 20);
}

int main(void) {
    RUN(numbers);
    RUN(refused_with_place);
    RUN(no_value);
    RUN(nesting_is_bounded);
    RUN(symbols_and_constants);
    RUN(memory_runs_out);
    return check_done();
}
