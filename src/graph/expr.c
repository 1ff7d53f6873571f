/* expr: see expr.h. Parsed by recursive descent into steps in postfix order, run on a small stack.
 * Values are exact fractions of two int64 until a function makes a floating-point number of them.
 */
#include "graph/expr.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/number.h"

enum { MAX_DEPTH = 200, MAX_STACK = 256 };

typedef enum op {
    OP_NUMBER,  /* .n */
    OP_FLOAT,   /* .f */
    OP_SYMBOL,  /* .n */
    OP_UNKNOWN, /* .count arguments; cannot be evaluated */
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIVIDE,
    OP_FLOOR_DIV,
    OP_CEIL_DIV,
    OP_MOD,
    OP_POW,
    OP_MAX,
    OP_MIN,
    OP_NEG,
    OP_ABS,
    OP_FLOOR,
    OP_CEIL,
    OP_TRUNC,
    OP_ROUND,
    OP_TO_FLOAT,
    OP_SQRT,
    OP_IDENTITY,
    OP_MODULAR, /* (a // b) % c */
    OP_WHERE,   /* condition, then, else */
    OP_PIECES,  /* .count pairs of value, condition */
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_AND,
    OP_OR,
    OP_NOT,
    OP_SHIFT_LEFT,
    OP_SHIFT_RIGHT,
} op;

typedef struct step {
    uint8_t op;
    uint32_t count;
    union {
        int64_t n;
        double f;
    };
} step;

struct pl_expr {
    const char *text;
    step *steps;
    uint32_t step_count;
    int32_t index;
    bool constant;
};

/* ---- functions by name ---- */

/* least, most: arguments; most above 2 of a two-argument step means it is applied from left to
 * right. */
static const struct function {
    const char *name;
    op op;
    uint32_t least, most;
} functions[] = {
    {"Add", OP_ADD, 1, UINT32_MAX},
    {"Mul", OP_MUL, 1, UINT32_MAX},
    {"Pow", OP_POW, 2, 2},
    {"FloorDiv", OP_FLOOR_DIV, 2, 2},
    {"CleanDiv", OP_FLOOR_DIV, 2, 2},
    {"CeilDiv", OP_CEIL_DIV, 2, 2},
    {"Mod", OP_MOD, 2, 2},
    {"PythonMod", OP_MOD, 2, 2},
    {"Max", OP_MAX, 1, UINT32_MAX},
    {"Min", OP_MIN, 1, UINT32_MAX},
    {"ModularIndexing", OP_MODULAR, 3, 3},
    {"Where", OP_WHERE, 3, 3},
    {"floor", OP_FLOOR, 1, 1},
    {"ceiling", OP_CEIL, 1, 1},
    {"FloorToInt", OP_FLOOR, 1, 1},
    {"CeilToInt", OP_CEIL, 1, 1},
    {"TruncToInt", OP_TRUNC, 1, 1},
    {"TruncToFloat", OP_TRUNC, 1, 1},
    {"RoundToInt", OP_ROUND, 1, 1},
    {"Trunc", OP_TRUNC, 1, 1},
    {"Abs", OP_ABS, 1, 1},
    {"ToFloat", OP_TO_FLOAT, 1, 1},
    {"IntTrueDiv", OP_DIVIDE, 2, 2},
    {"FloatTrueDiv", OP_DIVIDE, 2, 2},
    {"FloatPow", OP_POW, 2, 2},
    {"PowByNatural", OP_POW, 2, 2},
    {"OpaqueUnaryFn_sqrt", OP_SQRT, 1, 1},
    {"sqrt", OP_SQRT, 1, 1},
    {"Identity", OP_IDENTITY, 1, 1},
    {"Rational", OP_DIVIDE, 2, 2},
    {"Equality", OP_EQ, 2, 2},
    {"Eq", OP_EQ, 2, 2},
    {"Unequality", OP_NE, 2, 2},
    {"Ne", OP_NE, 2, 2},
    {"StrictLessThan", OP_LT, 2, 2},
    {"LessThan", OP_LE, 2, 2},
    {"StrictGreaterThan", OP_GT, 2, 2},
    {"GreaterThan", OP_GE, 2, 2},
    {"And", OP_AND, 1, UINT32_MAX},
    {"Or", OP_OR, 1, UINT32_MAX},
    {"Not", OP_NOT, 1, 1},
    {"LShift", OP_SHIFT_LEFT, 2, 2},
    {"RShift", OP_SHIFT_RIGHT, 2, 2},
};

/* ---- parsing ---- */

typedef struct parser {
    const char *begin, *at, *end;
    const char *failure;
    const char *failure_at;
    bool no_memory;
    int depth;
    pl_arena *arena;
    step *steps;
    size_t count, capacity;
    pl_expr_symbol_fn *symbol;
    void *context;
    bool constant;
} parser;

static bool fail(parser *p, const char *expected) {
    if (!p->failure && !p->no_memory) {
        p->failure = expected;
        p->failure_at = p->at;
    }
    return false;
}

static bool emit(parser *p, step s) {
    step *grown = pl_arena_grow(p->arena, p->steps, &p->capacity, p->count + 1, sizeof *p->steps);
    if (!grown) {
        p->no_memory = true;
        return false;
    }
    p->steps = grown;
    p->steps[p->count++] = s;
    return true;
}

static bool emit_op(parser *p, op o, uint32_t count) {
    return emit(p, (step){.op = (uint8_t)o, .count = count});
}

static char look(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n')) p->at++;
    return p->at < p->end ? *p->at : '\0';
}

static bool take(parser *p, const char *token) {
    look(p);
    size_t length = strlen(token);
    if ((size_t)(p->end - p->at) < length || memcmp(p->at, token, length) != 0) return false;
    p->at += length;
    return true;
}

static bool expect(parser *p, const char *token, const char *name) {
    return take(p, token) || fail(p, name);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static bool expression(parser *p);

static bool number(parser *p) {
    const char *start = p->at;
    int64_t value = 0;
    bool fits = true;
    for (; p->at < p->end && is_digit(*p->at); p->at++)
        fits = fits && pl_mul_i64(value, 10, &value) && pl_add_i64(value, *p->at - '0', &value);
    const char *after = p->at;
    bool real = false;
    if (after < p->end && *after == '.') {
        real = true;
        do after++;
        while (after < p->end && is_digit(*after));
    }
    if (after < p->end && (*after == 'e' || *after == 'E')) {
        const char *exponent = after + 1;
        if (exponent < p->end && (*exponent == '-' || *exponent == '+')) exponent++;
        if (exponent < p->end && is_digit(*exponent)) {
            real = true;
            for (after = exponent; after < p->end && is_digit(*after);) after++;
        }
    }
    if (!real) {
        if (!fits) {
            p->at = start;
            return fail(p, "an integer of 64 bits");
        }
        return emit(p, (step){.op = OP_NUMBER, .n = value});
    }
    double f = NAN;
    pl_number_read(start, (size_t)(after - start), &f); /* it has this form */
    p->at = after;
    return emit(p, (step){.op = OP_FLOAT, .f = f});
}

/* 's77' or "s77" */
static bool quoted(parser *p, const char **start, size_t *length) {
    char quote = look(p);
    if (quote != '\'' && quote != '"') return fail(p, "a name in quotes");
    *start = ++p->at;
    while (p->at < p->end && *p->at != quote) p->at++;
    if (p->at == p->end) return fail(p, "the closing quote");
    *length = (size_t)(p->at - *start);
    p->at++;
    return true;
}

/* ", positive=True" and the like, up to the closing parenthesis, which it takes. */
static bool keywords(parser *p) {
    while (take(p, ",")) {
        look(p);
        const char *start = p->at;
        while (p->at < p->end && is_name(*p->at)) p->at++;
        if (p->at == start || !take(p, "=")) return fail(p, "an assumption such as positive=True");
        look(p);
        start = p->at;
        while (p->at < p->end && is_name(*p->at)) p->at++;
        if (p->at == start) return fail(p, "True, False or a number");
    }
    return expect(p, ")", "')'");
}

static bool add_symbol(parser *p, const char *name, size_t length) {
    int32_t index = p->symbol(p->context, name, length);
    if (index < 0) {
        p->no_memory = true;
        return false;
    }
    p->constant = false;
    return emit(p, (step){.op = OP_SYMBOL, .n = index});
}

static bool named(parser *p, const char *name, size_t length, const char *word) {
    (void)p;
    return strlen(word) == length && !memcmp(name, word, length);
}

/* Piecewise((value, condition), ...) or, in srepr, Piecewise(ExprCondPair(value, condition), ...).
 */
static bool pieces(parser *p) {
    uint32_t count = 0;
    do {
        take(p, "ExprCondPair");
        if (!expect(p, "(", "'('") || !expression(p) || !expect(p, ",", "','") || !expression(p) ||
            !expect(p, ")", "')'"))
            return false;
        count++;
    } while (take(p, ","));
    return expect(p, ")", "')'") && emit_op(p, OP_PIECES, count);
}

static bool call(parser *p, const char *name, size_t length) {
    const char *text;
    size_t text_length;
    if (named(p, name, length, "Symbol") || named(p, name, length, "Dummy"))
        return quoted(p, &text, &text_length) && add_symbol(p, text, text_length) && keywords(p);
    if (named(p, name, length, "Integer")) return expression(p) && expect(p, ")", "')'");
    if (named(p, name, length, "Float")) {
        if (look(p) != '\'' && look(p) != '"') return expression(p) && keywords(p);
        if (!quoted(p, &text, &text_length)) return false;
        parser inner = *p;
        inner.at = text;
        inner.end = text + text_length;
        bool read = expression(&inner) && (look(&inner) == '\0' || fail(&inner, "a number"));
        p->steps = inner.steps;
        p->count = inner.count;
        p->capacity = inner.capacity;
        p->failure = inner.failure;
        p->failure_at = inner.failure_at;
        p->no_memory = inner.no_memory;
        return read && keywords(p);
    }
    if (named(p, name, length, "Piecewise")) return pieces(p);
    const struct function *f = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !f; i++)
        if (named(p, name, length, functions[i].name)) f = &functions[i];
    uint32_t count = 0;
    if (!take(p, ")")) {
        do {
            if (!expression(p)) return false;
            count++;
            if (f && f->most > 3 && count > 1 && !emit_op(p, f->op, 2)) return false;
        } while (take(p, ","));
        if (!expect(p, ")", "',' or ')'")) return false;
    }
    if (!f) return emit_op(p, OP_UNKNOWN, count);
    if (count < f->least || count > f->most) return fail(p, "another number of arguments");
    return f->most > 3 || emit_op(p, f->op, count);
}

static bool primary(parser *p) {
    char c = look(p);
    if (c == '(') {
        p->at++;
        return expression(p) && expect(p, ")", "')'");
    }
    if (is_digit(c) || c == '.') return number(p);
    if (!is_name(c)) return fail(p, "a number, a symbol or a function");
    const char *start = p->at;
    while (p->at < p->end && is_name(*p->at)) p->at++;
    size_t length = (size_t)(p->at - start);
    if (take(p, "(")) return call(p, start, length);
    if (named(p, start, length, "oo") || named(p, start, length, "int_oo"))
        return emit(p, (step){.op = OP_FLOAT, .f = INFINITY});
    if (named(p, start, length, "True") || named(p, start, length, "true"))
        return emit(p, (step){.op = OP_NUMBER, .n = 1});
    if (named(p, start, length, "False") || named(p, start, length, "false"))
        return emit(p, (step){.op = OP_NUMBER, .n = 0});
    return add_symbol(p, start, length);
}

/* Python's order: ** binds tighter than a minus before it, looser than one after it. */
static bool unary(parser *p) {
    if (++p->depth > MAX_DEPTH) return fail(p, "less nesting");
    bool ok;
    if (take(p, "-"))
        ok = unary(p) && emit_op(p, OP_NEG, 1);
    else if (take(p, "+"))
        ok = unary(p);
    else if (take(p, "~"))
        ok = unary(p) && emit_op(p, OP_NOT, 1);
    else
        ok = primary(p) && (!take(p, "**") || (unary(p) && emit_op(p, OP_POW, 2)));
    p->depth--;
    return ok;
}

static bool product(parser *p) {
    if (!unary(p)) return false;
    for (;;) {
        op o;
        if (take(p, "//"))
            o = OP_FLOOR_DIV;
        else if (take(p, "*"))
            o = OP_MUL;
        else if (take(p, "/"))
            o = OP_DIVIDE;
        else if (take(p, "%"))
            o = OP_MOD;
        else
            return true;
        if (!unary(p) || !emit_op(p, o, 2)) return false;
    }
}

static bool sum(parser *p) {
    if (!product(p)) return false;
    for (;;) {
        op o;
        if (take(p, "+"))
            o = OP_ADD;
        else if (take(p, "-"))
            o = OP_SUB;
        else
            return true;
        if (!product(p) || !emit_op(p, o, 2)) return false;
    }
}

static bool shift(parser *p) {
    if (!sum(p)) return false;
    for (;;) {
        op o;
        if (take(p, "<<"))
            o = OP_SHIFT_LEFT;
        else if (take(p, ">>"))
            o = OP_SHIFT_RIGHT;
        else
            return true;
        if (!sum(p) || !emit_op(p, o, 2)) return false;
    }
}

static bool conjunction(parser *p) {
    if (!shift(p)) return false;
    while (take(p, "&"))
        if (!shift(p) || !emit_op(p, OP_AND, 2)) return false;
    return true;
}

static bool disjunction(parser *p) {
    if (!conjunction(p)) return false;
    while (take(p, "|"))
        if (!conjunction(p) || !emit_op(p, OP_OR, 2)) return false;
    return true;
}

static bool expression(parser *p) {
    static const struct {
        const char *token;
        op op;
    } compare[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<=", OP_LE},
                   {">=", OP_GE}, {"<", OP_LT},  {">", OP_GT}};
    if (++p->depth > MAX_DEPTH) return fail(p, "less nesting");
    bool ok = disjunction(p);
    for (size_t i = 0; ok && i < sizeof compare / sizeof *compare; i++)
        if (take(p, compare[i].token)) {
            ok = disjunction(p) && emit_op(p, compare[i].op, 2);
            break;
        }
    p->depth--;
    return ok;
}

/* Values a step takes from the stack. */
static uint32_t taken(const step *s) {
    if (s->op <= OP_SYMBOL) return 0;
    return s->op == OP_PIECES ? s->count * 2 : s->count;
}

pl_expr *pl_expr_parse(pl_arena *arena, const char *text, size_t length, int32_t index,
                       pl_expr_symbol_fn *symbol, void *context, const char **failure,
                       size_t *position) {
    parser p = {.begin = text,
                .at = text,
                .end = text + length,
                .arena = arena,
                .symbol = symbol,
                .context = context,
                .constant = true};
    *failure = NULL;
    *position = 0;
    bool ok = expression(&p);
    if (ok && look(&p) != '\0') ok = fail(&p, "an operator or the end");
    if (ok && p.at < p.end) ok = fail(&p, "no NUL");
    size_t height = 0;
    for (size_t i = 0; ok && i < p.count; i++) {
        uint32_t down = taken(&p.steps[i]);
        height = height - down + 1;
        if (height > MAX_STACK) ok = fail(&p, "a shorter expression");
    }
    pl_expr *expr = ok ? pl_arena_alloc(arena, sizeof *expr) : NULL;
    if (!expr) {
        *failure = p.failure;
        *position = p.failure ? (size_t)(p.failure_at - text) : 0;
        return NULL;
    }
    *expr = (pl_expr){text, p.steps, (uint32_t)p.count, index, p.constant};
    return expr;
}

int32_t pl_expr_index(const pl_expr *expr) {
    return expr->index;
}

const char *pl_expr_text(const pl_expr *expr) {
    return expr->text;
}

int32_t pl_expr_symbol(const pl_expr *expr) {
    return expr->step_count == 1 && expr->steps[0].op == OP_SYMBOL ? (int32_t)expr->steps[0].n : -1;
}

bool pl_expr_is_constant(const pl_expr *expr) {
    return expr->constant;
}

/* ---- evaluation ---- */

/* real: f; else n / d, d > 0, in lowest terms. */
typedef struct value {
    int64_t n, d;
    double f;
    bool real;
} value;

__extension__ typedef __int128 wide;

static const char too_large[] = "a number too large for 64 bits";
static const char by_zero[] = "a division by zero";

static value whole(int64_t n) {
    return (value){.n = n, .d = 1};
}

static value real(double f) {
    return (value){.f = f, .real = true};
}

static double as_real(value v) {
    return v.real ? v.f : (double)v.n / (double)v.d;
}

static bool truth(value v) {
    return v.real ? v.f != 0 : v.n != 0;
}

/* n / d brought to lowest terms; false: does not fit. */
static bool fraction(wide n, wide d, value *out) {
    if (d < 0) {
        n = -n;
        d = -d;
    }
    wide a = n < 0 ? -n : n, b = d;
    while (b) {
        wide rest = a % b;
        a = b;
        b = rest;
    }
    if (a > 1) {
        n /= a;
        d /= a;
    }
    if (n > INT64_MAX || n < -INT64_MAX || d > INT64_MAX) return false;
    *out = (value){.n = (int64_t)n, .d = (int64_t)d};
    return true;
}

static int64_t floor_of(value v) {
    int64_t q = v.n / v.d;
    return v.n % v.d < 0 ? q - 1 : q;
}

static bool real_to_int(double f, value *out) {
    if (!(f >= -9.2e18 && f <= 9.2e18)) return false;
    *out = whole((int64_t)f);
    return true;
}

/* a op b for two exact numbers; NULL: done. */
static const char *exact_pair(op o, value a, value b, value *out) {
    wide an = a.n, ad = a.d, bn = b.n, bd = b.d;
    switch (o) {
    case OP_ADD: return fraction(an * bd + bn * ad, ad * bd, out) ? NULL : too_large;
    case OP_SUB: return fraction(an * bd - bn * ad, ad * bd, out) ? NULL : too_large;
    case OP_MUL: return fraction(an * bn, ad * bd, out) ? NULL : too_large;
    case OP_DIVIDE:
        if (bn == 0) return by_zero;
        return fraction(an * bd, ad * bn, out) ? NULL : too_large;
    case OP_FLOOR_DIV:
    case OP_CEIL_DIV:
    case OP_MOD: {
        value q;
        if (bn == 0) return by_zero;
        if (!fraction(an * bd, ad * bn, &q)) return too_large;
        int64_t down = floor_of(q);
        if (o == OP_FLOOR_DIV)
            *out = whole(down);
        else if (o == OP_CEIL_DIV)
            *out = whole(q.d == 1 ? down : down + 1);
        else {
            value back;
            if (!fraction((wide)down * bn, bd, &back)) return too_large;
            return exact_pair(OP_SUB, a, back, out);
        }
        return NULL;
    }
    default: return "something else";
    }
}

static const char *power(value a, value b, value *out) {
    if (a.real || b.real || b.d != 1) {
        *out = real(pow(as_real(a), as_real(b)));
        return NULL;
    }
    int64_t times = b.n < 0 ? -b.n : b.n;
    if (b.n < 0 && a.n == 0) return by_zero;
    value result = whole(1), base = a;
    while (times) {
        if (times & 1 && !fraction((wide)result.n * base.n, (wide)result.d * base.d, &result))
            return too_large;
        times >>= 1;
        if (times && !fraction((wide)base.n * base.n, (wide)base.d * base.d, &base))
            return too_large;
    }
    if (b.n < 0 && !fraction(result.d, result.n, &result)) return too_large;
    *out = result;
    return NULL;
}

static int order(value a, value b) {
    if (a.real || b.real) {
        double x = as_real(a), y = as_real(b);
        return (x > y) - (x < y);
    }
    wide x = (wide)a.n * b.d, y = (wide)b.n * a.d;
    return (x > y) - (x < y);
}

static const char *pair(op o, value a, value b, value *out) {
    switch (o) {
    case OP_POW: return power(a, b, out);
    case OP_MAX: return *out = order(a, b) >= 0 ? a : b, NULL;
    case OP_MIN: return *out = order(a, b) <= 0 ? a : b, NULL;
    case OP_EQ: return *out = whole(order(a, b) == 0), NULL;
    case OP_NE: return *out = whole(order(a, b) != 0), NULL;
    case OP_LT: return *out = whole(order(a, b) < 0), NULL;
    case OP_LE: return *out = whole(order(a, b) <= 0), NULL;
    case OP_GT: return *out = whole(order(a, b) > 0), NULL;
    case OP_GE: return *out = whole(order(a, b) >= 0), NULL;
    case OP_AND: return *out = whole(truth(a) && truth(b)), NULL;
    case OP_OR: return *out = whole(truth(a) || truth(b)), NULL;
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT:
        if (a.real || b.real || a.d != 1 || b.d != 1 || b.n < 0 || b.n > 62)
            return "a shift by a small integer";
        if (o == OP_SHIFT_RIGHT)
            return *out = whole(floor_of((value){.n = a.n, .d = INT64_C(1) << b.n})), NULL;
        return fraction((wide)a.n * (INT64_C(1) << b.n), 1, out) ? NULL : too_large;
    default: break;
    }
    if (!a.real && !b.real) return exact_pair(o, a, b, out);
    double x = as_real(a), y = as_real(b);
    switch (o) {
    case OP_ADD: *out = real(x + y); return NULL;
    case OP_SUB: *out = real(x - y); return NULL;
    case OP_MUL: *out = real(x * y); return NULL;
    case OP_DIVIDE: *out = real(x / y); return NULL;
    case OP_FLOOR_DIV: *out = real(floor(x / y)); return NULL;
    case OP_CEIL_DIV: *out = real(ceil(x / y)); return NULL;
    case OP_MOD: *out = real(x - floor(x / y) * y); return NULL;
    default: return "something else";
    }
}

static const char *single(op o, value a, value *out) {
    switch (o) {
    case OP_NEG: *out = a.real ? real(-a.f) : (value){.n = -a.n, .d = a.d}; return NULL;
    case OP_ABS:
        *out = a.real ? real(fabs(a.f)) : (value){.n = a.n < 0 ? -a.n : a.n, .d = a.d};
        return NULL;
    case OP_TO_FLOAT: *out = real(as_real(a)); return NULL;
    case OP_SQRT: *out = real(sqrt(as_real(a))); return NULL;
    case OP_NOT: *out = whole(!truth(a)); return NULL;
    case OP_IDENTITY: *out = a; return NULL;
    case OP_FLOOR:
        if (a.real) return real_to_int(floor(a.f), out) ? NULL : too_large;
        *out = whole(floor_of(a));
        return NULL;
    case OP_CEIL:
        if (a.real) return real_to_int(ceil(a.f), out) ? NULL : too_large;
        *out = whole(a.d == 1 ? a.n : floor_of(a) + 1);
        return NULL;
    case OP_TRUNC:
        if (a.real) return real_to_int(trunc(a.f), out) ? NULL : too_large;
        *out = whole(a.n / a.d);
        return NULL;
    case OP_ROUND: return real_to_int(nearbyint(as_real(a)), out) ? NULL : too_large;
    default: return "something else";
    }
}

bool pl_expr_value(const pl_expr *expr, const int64_t *values, int64_t *out, const char **failure) {
    value stack[MAX_STACK];
    uint32_t top = 0;
    const char *wrong = NULL;
    for (uint32_t i = 0; i < expr->step_count && !wrong; i++) {
        const step *s = &expr->steps[i];
        uint32_t down = taken(s);
        value *base = &stack[top - down], result = whole(0);
        switch ((op)s->op) {
        case OP_NUMBER: result = whole(s->n); break;
        case OP_FLOAT: result = real(s->f); break;
        case OP_SYMBOL:
            /* the smallest int64 has no negative; keep it out of the fractions */
            if (values[s->n] == INT64_MIN) wrong = too_large;
            result = whole(values[s->n]);
            break;
        case OP_UNKNOWN: wrong = "a function that this program does not know"; break;
        case OP_MODULAR:
            wrong = pair(OP_FLOOR_DIV, base[0], base[1], &result);
            if (!wrong) wrong = pair(OP_MOD, result, base[2], &result);
            break;
        case OP_WHERE: result = truth(base[0]) ? base[1] : base[2]; break;
        case OP_PIECES: {
            uint32_t k = 0;
            while (k < s->count && !truth(base[k * 2 + 1])) k++;
            if (k == s->count)
                wrong = "a condition that holds";
            else
                result = base[k * 2];
            break;
        }
        default:
            wrong = down == 1 ? single((op)s->op, base[0], &result)
                              : pair((op)s->op, base[0], base[1], &result);
        }
        top -= down;
        stack[top++] = result;
    }
    if (!wrong) {
        value v = stack[0];
        if (v.real && v.f == floor(v.f) && !real_to_int(v.f, &v))
            wrong = too_large;
        else if (v.real || v.d != 1)
            wrong = "a size that is no integer";
        else
            *out = v.n;
    }
    *failure = wrong;
    return !wrong;
}
