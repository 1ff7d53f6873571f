/* optimizer: see optimizer.h.
 *
 * Rules read in torch/optim (2.11): the default implementation on CUDA is foreach, which works on
 * all parameters at once and so holds whole sets of temporaries; fused works in place and keeps its
 * step counters on the card. Checked against allocator traces (nopt-*-mlp; 2026-11-15, PyTorch
 * 2.11, H200).
 *
 *   state  p    a tensor like the parameter
 *          f    the same, made by cloning the gradient in the first step
 *          s    a float32 scalar on the card
 *          q    like the parameter in 8 bits, in float32 where it has fewer than 4,096 elements
 *          a    of the same: a float32 for each 256 elements, or nothing
 *          r c  a row and a column factor of parameters of two and more dimensions; of vectors r
 *               is a whole tensor and c nothing
 *   step   P    a whole set of temporaries like the parameters, kept to the end of the step
 *          -    frees the oldest set
 *          (..) for one parameter after another:
 *               n     a temporary like the parameter
 *               b     the same as bool
 *               s     a float32 scalar
 *               1..9  frees the newest, the one before it, ...
 *               k     a Python name takes the newest, and drops what it held for the one before
 *               S     makes the state, in the first step
 *          F M  the loops of Adafactor and Muon, below
 *   work   the kernels of a step: tensors like the parameter that each reads and writes, then how
 *          many lists go together in one foreach kernel, or * for a kernel per parameter; l behind
 *          it: with a number per parameter; s alone: a foreach kernel over the step counters */
#include "tape/optimizer.h"

#include <string.h>

static const pl_optimizer optimizers[] = {
    {"sgd", "", "", "212", false, false, "sgd.py: _foreach_add_ in place"},
    {"sgd-decay", "", "P", "213 212", false, false,
     "sgd.py: gradients plus decayed parameters, _foreach_add"},
    {"sgd-fused", "", "", "212", false, true, "sgd.py: _fused_sgd_, no momentum"},
    {"sgd-momentum", "f", "", "111 212 212", false, false,
     "sgd.py: the first momentum_buffer is the gradient's clone"},
    {"sgd-momentum-decay", "f", "P", "213 111 212 212", false, false,
     "sgd.py: gradients plus decayed parameters, _foreach_add"},
    {"sgd-momentum-fused", "f", "", "323", false, true,
     "sgd.py: _fused_sgd_ (nopt-sgd-fused-mlp, which has momentum)"},
    {"sgd-nesterov", "f", "P", "213 111 212 212 212", false, false,
     "sgd.py: with weight decay (nopt-sgd-nesterov-mlp)"},
    {"adam", "pp", "P", "212 111 213 112 111l 111 313l", false, false,
     "adam.py: exp_avg, exp_avg_sq; _foreach_sqrt"},
    {"adam-8bit", "qqaa", "(S)", "31*", false, false,
     "bitsandbytes optim/optimizer.py: Optimizer2State, block-wise; read, not measured"},
    {"adam-decay", "pp", "P-P", "213 212 111 213 112 111l 111 313l", false, false,
     "adam.py: gradients plus decayed parameters first (nopt-adam-decay-mlp)"},
    {"adam-fused", "spp", "", "s 434", false, true, "adam.py: _fused_adam_"},
    {"adam-single", "pp", "(nn2k)", "21* 11* 21* 11* 11* 11* 31*", false, false,
     "adam.py: foreach=False; sqrt, then denom (nopt-adam-single-mlp)"},
    {"adamw", "pp", "P", "111 212 111 213 112 111l 111 313l", false, false,
     "adam.py: exp_avg, exp_avg_sq; _foreach_sqrt"},
    {"adamw-8bit", "qqaa", "(S)", "31*", false, false,
     "bitsandbytes optim/optimizer.py: Optimizer2State, block-wise; read, not measured"},
    {"adamw-amsgrad", "ppp", "P", "111 212 111 213 212 112 111l 111 313l", false, false,
     "adam.py: and max_exp_avg_sq (nopt-adamw-amsgrad-mlp)"},
    {"adamw-fused", "spp", "", "s 434", false, true, "adam.py: _fused_adamw_"},
    {"adamw-single", "pp", "(nn2k)", "11* 21* 11* 21* 11* 11* 11* 31*", false, false,
     "adam.py: foreach=False (nopt-adamw-single-mlp)"},
    {"rmsprop", "p", "P", "111 213 112 111 313", false, false,
     "rmsprop.py: square_avg; _foreach_sqrt"},
    {"rmsprop-centered", "ppp", "P", "111 213 212 214 111 111 111 313 212", false, false,
     "rmsprop.py: with momentum; square_avg, momentum_buffer, grad_avg"},
    {"adagrad", "p", "PP", "213 112 111 112l 313", true, false,
     "adagrad.py: sum, made with the optimizer; _foreach_sqrt, _foreach_mul"},
    {"adagrad-fused", "p", "", "323", true, true, "adagrad.py: _fused_adagrad_"},
    {"adadelta", "pp", "PP-", "111 213 112 111 112 111 212 212 111 213 212", false, false,
     "adadelta.py: square_avg, acc_delta; two _foreach_add"},
    {"adamax", "pp", "P", "212 111 112 111 212 313l", false, false,
     "adamax.py: exp_avg, exp_inf; _foreach_abs"},
    {"nadam", "pp", "P", "212 111 213 112 111l 111 313l 313l", false, false,
     "nadam.py: exp_avg, exp_avg_sq; _foreach_sqrt"},
    {"radam", "pp", "P", "212 111 213 112 111 111l 111 111l 313", false, false,
     "radam.py: exp_avg, exp_avg_sq; _foreach_sqrt"},
    {"adafactor", "rc", "F", "", false, false,
     "_adafactor.py: row_var and col_var or variance; one by one unless foreach is set"},
    {"asgd", "sssp", "P-P-", "s 213 31* 213 31* s s", false, false,
     "asgd.py: step, mu, eta, ax; _foreach_add, _foreach_sub"},
    {"rprop", "pp", "P(b1b1b1)(bsn221)-P",
     "213 112 111 11* 11* 11* 11* 11* 11* 212 11* 11* 21* 11* 11* 313", false, false,
     "rprop.py: prev, step_size; signs with three masks, gradients masked"},
    {"lion", "p", "(Snnn32k)", "11* 11* 11* 21* 11* 21* 11* 21*", false, false,
     "Chen et al. 2023, the reference loop: the update is a sum of two products"},
    {"muon", "p", "M", "", false, false,
     "_muon.py: momentum_buffer; Newton-Schulz in bfloat16 (nopt-muon-mlp2d)"},
    {"none", "", "", "", false, false, "no training"},
};

enum { OPTIMIZER_COUNT = sizeof optimizers / sizeof *optimizers };

const pl_optimizer *pl_optimizer_find(const char *name) {
    for (size_t i = 0; i < OPTIMIZER_COUNT; i++)
        if (strcmp(optimizers[i].name, name) == 0) return &optimizers[i];
    return NULL;
}

const char *pl_optimizer_name(size_t index) {
    return index < OPTIMIZER_COUNT ? optimizers[index].name : NULL;
}

/* Row factor [.., m, 1] or column factor [.., 1, n] of a parameter; a vector has one whole tensor,
 * in the row. */
static pl_value *factor(pl_eager *e, const pl_value *p, bool row) {
    if (p->dims < 2) return row ? pl_new_like(e, p, (pl_dtype)p->dtype) : NULL;
    int64_t sizes[PL_MAX_DIMS];
    memcpy(sizes, p->sizes, p->dims * sizeof *sizes);
    sizes[p->dims - (row ? 1 : 2)] = 1;
    return pl_new(e, (pl_dtype)p->dtype, p->dims, sizes, NULL);
}

/* bitsandbytes' state of 8 bits, or the largest of each block of it; NULL: it has none. */
static pl_value *quantized(pl_eager *e, const pl_value *p, bool scales) {
    enum { LEAST = 4096, BLOCK = 256 };
    if (p->elements < LEAST) return scales ? NULL : pl_new_like(e, p, PL_DT_F32);
    return scales ? pl_new_flat(e, PL_DT_F32, (p->elements + BLOCK - 1) / BLOCK)
                  : pl_new_like(e, p, PL_DT_U8);
}

static bool has_grad(const pl_leaf *leaf) {
    return leaf->grad || leaf->reduced;
}

/* The part of a parameter that this rank trains. */
static const pl_value *owned(const pl_leaf *leaf) {
    return leaf->shard ? leaf->shard : leaf->value;
}

/* State stays for ever: its storage is never dropped. */
static void make_leaf_state(pl_eager *e, const pl_optimizer *optimizer, const pl_leaf *leaf) {
    uint8_t kind = e->kind;
    e->kind = PL_OPTIMIZER;
    for (const char *s = optimizer->state; *s; s++) {
        pl_value *made = *s == 's'                ? pl_new_flat(e, PL_DT_F32, -1)
                         : *s == 'q' || *s == 'a' ? quantized(e, owned(leaf), *s == 'a')
                         : *s == 'r' || *s == 'c'
                             ? factor(e, owned(leaf), *s == 'r')
                             : pl_new_like(e, owned(leaf), (pl_dtype)owned(leaf)->dtype);
        if (made && made->storage->block)
            e->tape->blocks[made->storage->block].tensor = leaf->tensor;
    }
    e->kind = kind;
}

static void make_state(pl_eager *e, const pl_optimizer *optimizer) {
    e->what = optimizer->name;
    for (int32_t i = 0; i < e->leaf_count; i++)
        if (has_grad(&e->leaves[i]) || optimizer->at_start)
            make_leaf_state(e, optimizer, &e->leaves[i]);
}

void pl_optimizer_make(pl_eager *e, const pl_optimizer *optimizer) {
    if (optimizer->at_start) make_state(e, optimizer);
}

typedef struct set {
    int32_t *blocks; /* [leaf_count] */
} set;

static set take_set(pl_eager *e) {
    set s = {pl_arena_array(e->step_arena, (size_t)e->leaf_count + 1, sizeof *s.blocks)};
    if (!s.blocks) {
        e->failed = true;
        return s;
    }
    for (int32_t i = 0; i < e->leaf_count; i++)
        if (has_grad(&e->leaves[i]))
            s.blocks[i] = pl_block_new(e, pl_value_bytes(owned(&e->leaves[i])));
    return s;
}

/* Python frees a list from its end. */
static void free_set(pl_eager *e, set s) {
    for (int32_t i = e->leaf_count; s.blocks && i-- > 0;) pl_block_gone(e, s.blocks[i]);
}

/* ---- one parameter after another ---- */

enum { MOST_HELD = 8 };

/* Runs the program up to its ')' for each parameter. */
static void run_loop(pl_eager *e, const pl_optimizer *optimizer, const char *program, bool first) {
    int32_t named = 0;
    for (int32_t i = 0; i < e->leaf_count; i++) {
        const pl_leaf *leaf = &e->leaves[i];
        if (!has_grad(leaf)) continue;
        const pl_value *p = owned(leaf);
        int32_t held[MOST_HELD];
        int count = 0;
        for (const char *s = program; *s && *s != ')'; s++) {
            if (*s == 'S') {
                if (first) make_leaf_state(e, optimizer, leaf);
            } else if (*s == 'k' && count > 0) {
                pl_block_gone(e, named);
                named = held[--count];
            } else if (*s >= '1' && *s <= '9') {
                int at = count - (*s - '0');
                if (at < 0) continue;
                pl_block_gone(e, held[at]);
                for (count--; at < count; at++) held[at] = held[at + 1];
            } else if (count < MOST_HELD) {
                int64_t bytes = *s == 's' ? 4 : *s == 'b' ? p->elements : pl_value_bytes(p);
                held[count++] = pl_block_new(e, bytes);
            }
        }
        while (count > 0) pl_block_gone(e, held[--count]);
    }
    pl_block_gone(e, named);
}

static void rename_to(pl_eager *e, int32_t *name, int32_t block) {
    pl_block_gone(e, *name);
    *name = block;
}

/* `launches` kernels one after the other over a parameter or a part of it: bytes that each reads
 * and writes. */
static void note_steps(pl_eager *e, pl_dtype dtype, int launches, double read, double written) {
    pl_work_kernels(e, &(pl_work_known){.launches = launches,
                                        .read = launches * read,
                                        .written = launches * written,
                                        .dtype = dtype});
}

/* The norm of all of it, which Python then asks for. */
static void note_norm(pl_eager *e, const pl_value *p) {
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_REDUCE,
                                        .read = (double)pl_value_bytes(p),
                                        .written = 4,
                                        .rows = 1,
                                        .columns = p->elements,
                                        .dtype = (pl_dtype)p->dtype});
    pl_work_waits(e);
}

/* _adafactor.py, for one parameter: its norm; the mean squares (norm, square_, div_, lerp_ per
 * side), their product over the rows' mean; clamp_, rsqrt_, times the gradient; the update's norm;
 * add_.
 */
static void note_adafactor(pl_eager *e, const pl_value *p) {
    pl_dtype dtype = (pl_dtype)p->dtype;
    double bytes = (double)pl_value_bytes(p);
    pl_work_begin(e);
    note_norm(e, p);
    if (p->dims > 1) {
        int64_t m = p->sizes[p->dims - 2], n = p->sizes[p->dims - 1],
                count = m > 0 && n > 0 ? p->elements / (m * n) : 0;
        for (int side = 0; side < 2; side++) {
            int64_t rows = count * (side ? n : m);
            double small = (double)rows * pl_dtype_size(dtype);
            pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_REDUCE,
                                                .read = bytes,
                                                .written = small,
                                                .rows = rows,
                                                .columns = side ? m : n,
                                                .strided = side != 0,
                                                .dtype = dtype});
            note_steps(e, dtype, 3, small, small);
        }
        pl_work_product_of(e, dtype, count, m, 1, n);
        note_steps(e, dtype, 2, (double)(count * m) * pl_dtype_size(dtype), (double)count);
        note_steps(e, dtype, 1, bytes, bytes);
    } else {
        note_steps(e, dtype, 3, bytes, bytes);
    }
    note_steps(e, dtype, 2, bytes, bytes);
    note_steps(e, dtype, 1, 2 * bytes, bytes);
    note_norm(e, p);
    note_steps(e, dtype, 1, 2 * bytes, bytes);
}

enum { TURNS = 5 }; /* of Muon's iteration */

/* _muon.py, for one matrix: two lerps, the copy in bfloat16 and its norm; then five turns of three
 * products, two of which begin with a copy; decay and update. */
static void note_muon(pl_eager *e, const pl_value *p) {
    enum { BF16 = 2 };
    int64_t m = p->sizes[0] < p->sizes[1] ? p->sizes[0] : p->sizes[1],
            n = p->sizes[0] < p->sizes[1] ? p->sizes[1] : p->sizes[0];
    double bytes = (double)pl_value_bytes(p), low = BF16 * (double)p->elements,
           gram = BF16 * (double)m * (double)m;
    pl_work_begin(e);
    note_steps(e, (pl_dtype)p->dtype, 2, 2 * bytes, bytes);
    pl_work_move(e, PL_WORK_COPY, PL_PASS_FORWARD, bytes, low, NULL);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_REDUCE,
                                        .read = low,
                                        .written = BF16,
                                        .rows = 1,
                                        .columns = p->elements,
                                        .dtype = PL_DT_BF16});
    note_steps(e, PL_DT_BF16, 1, BF16, BF16);
    note_steps(e, PL_DT_BF16, 1, low, low);
    for (int turn = 0; turn < TURNS; turn++) {
        pl_work_product_of(e, PL_DT_BF16, 1, m, n, m);
        pl_work_move(e, PL_WORK_COPY, PL_PASS_FORWARD, gram, gram, NULL);
        pl_work_product_of(e, PL_DT_BF16, 1, m, m, m);
        pl_work_move(e, PL_WORK_COPY, PL_PASS_FORWARD, low, low, NULL);
        pl_work_product_of(e, PL_DT_BF16, 1, m, m, n);
    }
    note_steps(e, (pl_dtype)p->dtype, 1, bytes, bytes);
    note_steps(e, (pl_dtype)p->dtype, 1, bytes + low, bytes);
}

/* Adafactor: mean squares by row and by column, their product an estimate of the whole; for vectors
 * the square and a copy of the variance. Names outlive the turn they were made in. */
static void adafactor(pl_eager *e) {
    int32_t row = 0, column = 0, square = 0, estimate = 0;
    for (int32_t i = 0; i < e->leaf_count; i++) {
        const pl_value *p = owned(&e->leaves[i]);
        if (!has_grad(&e->leaves[i])) continue;
        int64_t bytes = pl_value_bytes(p), size = (int64_t)pl_dtype_size(p->dtype);
        pl_reduce_scratch(e, p, ~0u, 4);
        if (p->dims < 2) {
            rename_to(e, &square, pl_block_new(e, bytes));
        } else {
            for (int k = 1; k <= 2; k++) {
                int64_t lost = p->sizes[p->dims - k];
                rename_to(e, k == 1 ? &row : &column,
                          pl_block_new(e, lost ? p->elements / lost * size : 0));
                pl_reduce_scratch(e, p, 1u << (p->dims - k), 4);
            }
        }
        rename_to(e, &estimate, pl_block_new(e, bytes));
    }
    pl_block_gone(e, row);
    pl_block_gone(e, column);
    pl_block_gone(e, square);
    pl_block_gone(e, estimate);
}

/* Muon: the update [m, n] and its copy in bfloat16; five turns of a Gram matrix of the shorter
 * side, a polynomial of it, and its product with the copy, each replacing that of the turn before.
 * Only matrices are trained so. */
static void muon(pl_eager *e) {
    enum { BF16 = 2 };
    int32_t named = 0;
    for (int32_t i = 0; i < e->leaf_count; i++) {
        const pl_value *p = owned(&e->leaves[i]);
        if (!has_grad(&e->leaves[i]) || p->dims != 2) continue;
        int64_t side = p->sizes[0] < p->sizes[1] ? p->sizes[0] : p->sizes[1];
        int32_t update = pl_block_new(e, pl_value_bytes(p)), gram = 0, polynomial = 0;
        rename_to(e, &named, pl_block_new(e, BF16 * p->elements));
        for (int turn = 0; turn < TURNS; turn++) {
            rename_to(e, &gram, pl_block_new(e, BF16 * side * side));
            rename_to(e, &polynomial, pl_block_new(e, BF16 * side * side));
            rename_to(e, &named, pl_block_new(e, BF16 * p->elements));
        }
        pl_block_gone(e, gram);
        pl_block_gone(e, polynomial);
        pl_block_gone(e, update);
    }
    pl_block_gone(e, named);
}

/* ATen/native/cuda/MultiTensorApply.cuh: a launch takes so many tensors, by how many lists go
 * together (and fewer with a number for each), and 320 chunks of 65,536 elements; a tensor that
 * does not fit goes on in the next launch. */
static int64_t launches_of(const pl_eager *e, int lists, bool numbers, bool counters) {
    enum { MOST_CHUNKS = 320, CHUNK = 65536 };
    static const int most[] = {110, 64, 48, 36, 30}; /* [lists - 1] */
    int room = numbers && lists == 1 ? 96 : most[lists < 1 ? 0 : lists > 5 ? 4 : lists - 1];
    int64_t launches = 0, chunks = 0;
    int tensors = 0;
    for (int32_t i = 0; i < e->leaf_count; i++) {
        if (!has_grad(&e->leaves[i])) continue;
        int64_t left = counters ? 1 : (owned(&e->leaves[i])->elements + CHUNK - 1) / CHUNK;
        tensors++;
        while (left > 0) {
            if (chunks == 0 && left > MOST_CHUNKS) { /* launches of this one alone */
                int64_t whole = (left - 1) / MOST_CHUNKS;
                launches += whole;
                left -= whole * MOST_CHUNKS;
                tensors = 1;
            }
            int64_t taken = left < MOST_CHUNKS - chunks ? left : MOST_CHUNKS - chunks;
            left -= taken;
            chunks += taken;
            if (chunks < MOST_CHUNKS && (tensors < room || left > 0)) continue;
            launches++;
            chunks = 0;
            tensors = left > 0; /* what is left of this one begins the next launch */
        }
    }
    return launches + (chunks > 0);
}

void pl_optimizer_note(pl_eager *e, const char *work) {
    if (!e->calls.on || !*work) return;
    int64_t tensors = 0, known[6][2] = {0};
    double bytes = 0;
    pl_dtype dtype = PL_DT_F32;
    for (int32_t i = 0; i < e->leaf_count; i++) {
        if (!has_grad(&e->leaves[i])) continue;
        const pl_value *p = owned(&e->leaves[i]);
        tensors++;
        bytes += (double)pl_value_bytes(p);
        dtype = (pl_dtype)p->dtype;
    }
    pl_work_begin(e);
    for (const char *at = work; *at;) {
        if (*at == 's') {
            pl_work_foreach(e, tensors, launches_of(e, 1, false, true), 4 * (double)tensors,
                            4 * (double)tensors, PL_DT_F32);
            at++;
        } else {
            int read = at[0] - '0', written = at[1] - '0', lists = at[2] == '*' ? 0 : at[2] - '0';
            bool numbers = at[3] == 'l';
            int64_t *launches = &known[lists][numbers];
            if (lists && !*launches) *launches = launches_of(e, lists, numbers, false);
            pl_work_foreach(e, tensors, *launches, read * bytes, written * bytes, dtype);
            at += numbers ? 4 : 3;
        }
        if (*at == ' ') at++;
    }
}

void pl_optimizer_calls(pl_eager *e, const pl_optimizer *optimizer) {
    if (!e->calls.on) return;
    e->class = optimizer->fused ? PL_KERNEL_FUSED : PL_KERNEL_PLAIN;
    pl_optimizer_note(e, optimizer->work);
    bool factors = strchr(optimizer->step, 'F') != NULL,
         muon = strchr(optimizer->step, 'M') != NULL;
    for (int32_t i = 0; (factors || muon) && i < e->leaf_count; i++) {
        const pl_value *p = owned(&e->leaves[i]);
        if (!has_grad(&e->leaves[i])) continue;
        if (factors) note_adafactor(e, p);
        if (muon && p->dims == 2) note_muon(e, p);
    }
    e->class = PL_KERNEL_PLAIN;
}

void pl_optimizer_step(pl_eager *e, const pl_optimizer *optimizer, bool first) {
    bool in_loop = strchr(optimizer->step, 'S') != NULL;
    if (first && !optimizer->at_start && !in_loop) make_state(e, optimizer);
    uint8_t kind = e->kind;
    e->kind = PL_TEMPORARY;
    e->what = optimizer->name;
    e->node = -1;
    pl_optimizer_calls(e, optimizer);
    set sets[4];
    int begin = 0, end = 0;
    for (const char *s = optimizer->step; *s; s++) {
        if (*s == 'P' && end < 4)
            sets[end++] = take_set(e);
        else if (*s == '-' && begin < end)
            free_set(e, sets[begin++]);
        else if (*s == 'F')
            adafactor(e);
        else if (*s == 'M')
            muon(e);
        else if (*s == '(') {
            run_loop(e, optimizer, s + 1, first);
            s = strchr(s, ')');
            if (!s) break;
        }
    }
    while (end > begin) free_set(e, sets[--end]);
    e->kind = kind;
}
