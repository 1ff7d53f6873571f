/* Strides: views rearrange their base's, pointwise operators follow their first operand, and what
 * cannot be a view is contiguous. Expected strides are PyTorch's (2.11, meta tensors). */
#include "graph/layout.h"

#include <stdlib.h>

#include "check.h"
#include "graph/aten.h"

static void strides_are(const pl_graph *g, int32_t tensor, int dims, const int64_t *want) {
    const pl_tensor *t = &g->tensors[tensor];
    CHECK_INT(t->dims, dims);
    for (int i = 0; i < dims && i < t->dims; i++) CHECK_INT(t->strides[i], want[i]);
}

/* x [2,3,4,5]; what is made last is the output. */
static pl_graph *laid_out(pl_builder *b, int32_t out) {
    pl_graph *g = NULL;
    pl_error err = PL_SIZED(pl_error);
    pl_build_output(b, out);
    CHECK_INT(pl_builder_finish(&b, &g, &err), PL_OK);
    if (!g) exit(1);
    pl_graph_lay_out(g);
    return g;
}

static pl_builder *start(int32_t *x) {
    pl_builder *b = pl_builder_open("layout", 0);
    if (!b) exit(1);
    *x = pl_build_input(b, "x", PL_DT_F32, PL_SIZES(2, 3, 4, 5));
    return b;
}

static void one(int32_t (*make)(pl_builder *b, int32_t x), int dims, const int64_t *want) {
    int32_t x;
    pl_builder *b = start(&x);
    int32_t y = make(b, x);
    pl_graph *g = laid_out(b, y);
    strides_are(g, g->outputs[0], dims, want);
    pl_graph_close(&g);
}

static int32_t turned(pl_builder *b, int32_t x) {
    return pl_aten_transpose(b, x, 1, 2); /* [2,4,3,5] */
}
static int32_t permuted(pl_builder *b, int32_t x) {
    return pl_aten_permute(b, x, PL_SIZES(0, 3, 1, 2));
}
static int32_t widened(pl_builder *b, int32_t x) {
    return pl_aten_unsqueeze(b, turned(b, x), 1);
}
static int32_t narrowed(pl_builder *b, int32_t x) {
    return pl_aten_select(b, turned(b, x), 1, 0);
}
static int32_t cut(pl_builder *b, int32_t x) {
    return pl_aten_slice(b, turned(b, x), 3, 0, 2);
}
static int32_t spread(pl_builder *b, int32_t x) {
    return pl_aten_expand(b, pl_aten_slice(b, x, 1, 0, 1), PL_SIZES(2, 7, 4, 5));
}
static int32_t split_heads(pl_builder *b, int32_t x) {
    return pl_aten_view(b, turned(b, x), PL_SIZES(2, 2, 2, 3, 5));
}
static int32_t merged(pl_builder *b, int32_t x) {
    return pl_aten_reshape(b, turned(b, x), PL_SIZES(2, 4, 15)); /* a copy */
}
static int32_t negated(pl_builder *b, int32_t x) {
    return pl_aten_unary(b, "aten.neg.default", turned(b, x));
}
static int32_t negated_part(pl_builder *b, int32_t x) {
    return pl_aten_unary(b, "aten.neg.default", cut(b, x));
}
static int32_t first_decides(pl_builder *b, int32_t x) {
    return pl_aten_add(b, turned(b, x), pl_aten_contiguous(b, turned(b, x)));
}
static int32_t second_does_not(pl_builder *b, int32_t x) {
    return pl_aten_add(b, pl_aten_contiguous(b, turned(b, x)), turned(b, x));
}
static int32_t cast(pl_builder *b, int32_t x) {
    return pl_aten_to(b, turned(b, x), PL_DT_BF16);
}
static int32_t cast_of_a_part(pl_builder *b, int32_t x) {
    return pl_aten_to(b, cut(b, x), PL_DT_BF16);
}

#define IS(make, ...) one(make, PL_SIZES(__VA_ARGS__))

static void views(void) {
    IS(turned, 60, 5, 20, 1);
    IS(permuted, 60, 1, 20, 5);
    IS(widened, 60, 20, 5, 20, 1);
    IS(narrowed, 60, 20, 1);
    IS(cut, 60, 5, 20, 1);
    IS(spread, 60, 0, 5, 1);
    IS(split_heads, 60, 10, 5, 20, 1);
    IS(merged, 60, 15, 1);
}

static void pointwise(void) {
    IS(negated, 60, 5, 20, 1);
    IS(negated_part, 24, 2, 8, 1);
    IS(first_decides, 60, 5, 20, 1);
    IS(second_does_not, 60, 15, 5, 1);
}

static void casts(void) {
    IS(cast, 60, 5, 20, 1);
    IS(cast_of_a_part, 24, 2, 8, 1);
}

int main(void) {
    RUN(views);
    RUN(pointwise);
    RUN(casts);
    return check_done();
}
