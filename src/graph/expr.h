/* expr: a size that depends on dimensions left open at export.
 *
 * Read from the text torch.export writes, in both its forms: sympy's srepr, "Mul(Integer(4),
 * Symbol('s77', positive=True, integer=True))" (PyTorch 2.6 on), and the plain one of before,
 * "4*s77", "((s0 - 1)//2)
 * + 1", "Max(1, s0)". The functions are those of torch/utils/_sympy/functions.py (PyTorch 2.11)
 * that can stand in a size. A function not known here is kept and makes evaluation fail, so that a
 * graph can still be read.
 *
 * Left out: complex numbers, sums and products over an index, matrices. */
#ifndef PL_GRAPH_EXPR_H
#define PL_GRAPH_EXPR_H

#include "core/arena.h"
#include "core/error.h"

typedef struct pl_expr pl_expr;

/* Gives a symbol's number for its name; negative: out of memory. */
typedef int32_t pl_expr_symbol_fn(void *context, const char *name, size_t length);

/* text: length bytes, kept by pointer as the expression's name (so: in an arena, NUL-terminated).
 * index: the caller's number for it. *failure: what was expected, *position: byte in text.
 * NULL on failure; *failure is NULL then when memory is out. */
pl_expr *pl_expr_parse(pl_arena *arena, const char *text, size_t length, int32_t index,
                       pl_expr_symbol_fn *symbol, void *context, const char **failure,
                       size_t *position);

int32_t pl_expr_index(const pl_expr *expr);
const char *pl_expr_text(const pl_expr *expr);
/* The symbol's number where the expression is that symbol and nothing else; else -1. */
int32_t pl_expr_symbol(const pl_expr *expr);
bool pl_expr_is_constant(const pl_expr *expr); /* no symbol in it */

/* False where the value is no integer of 64 bits; *failure says why (a constant). values[i] is that
 * of symbol i. */
bool pl_expr_value(const pl_expr *expr, const int64_t *values, int64_t *out, const char **failure);

#endif
