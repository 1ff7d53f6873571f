/* engine: autograd's backward pass over the functions that eager operators recorded.
 *
 * PyTorch's engine runs ready functions by falling sequence number, parameters' AccumulateGrad at
 * once (torch/csrc/autograd/engine.cpp, functions/accumulate_grad.h, input_buffer.cpp, 2.11).
 * Functions here are kept in order of creation, and what made a function's input is always older,
 * so walking them from the newest to the oldest is that order. Between the call of a function and
 * the hand-over of its gradients the engine sums them to the inputs' sizes and casts them to their
 * types (validate_outputs); then the incoming gradient goes, then what was saved (of a checkpointed
 * block, run again: before the types, since its unpack hook lets go).
 *
 * Left out: hooks, retained gradients, create_graph, several devices. */
#include "tape/eager.h"

#include "core/checked.h"

pl_edge pl_edge_to(pl_value *value) {
    if (value->fn) value->fn->refs++;
    return (pl_edge){.fn = value->fn,
                     .leaf = value->fn || !value->needs_grad ? -1 : value->leaf,
                     .output = value->output,
                     .wanted = value->needs_grad,
                     .dims = value->dims,
                     .dtype = value->dtype,
                     .sizes = value->sizes,
                     .strides = value->strides};
}

pl_fn *pl_fn_new(pl_eager *e, const char *name, pl_backward *backward, int input_count,
                 pl_value *const *inputs, int output_count) {
    if (!e->grad_enabled || e->failed) return NULL;
    bool wanted = false;
    for (int i = 0; i < input_count; i++) wanted |= inputs[i] && inputs[i]->needs_grad;
    if (!wanted) return NULL;
    pl_edge *edges;
    pl_value **grads;
    /* in one piece: the function, its edges, its gradients */
    pl_fn *fn = pl_arena_alloc(e->step_arena, sizeof *fn + (size_t)input_count * sizeof *edges +
                                                  (size_t)output_count * sizeof *grads);
    pl_fn **grown =
        fn ? pl_arena_grow(e->step_arena, e->fns, &e->fn_room, e->fn_count + 1, sizeof *grown)
           : NULL;
    if (!grown) {
        e->failed = true;
        return NULL;
    }
    edges = (pl_edge *)(fn + 1);
    grads = (pl_value **)(edges + input_count);
    e->fns = grown;
    e->fns[e->fn_count++] = fn;
    *fn = (pl_fn){.backward = backward,
                  .name = name,
                  .edges = edges,
                  .grads = grads,
                  .node = e->node,
                  .work = e->work,
                  .kernels = e->kernels,
                  .zeroes = e->zeroes,
                  .edge_count = input_count,
                  .output_count = output_count};
    for (int i = 0; i < input_count; i++) {
        edges[i].leaf = -1;
        if (inputs[i] && inputs[i]->needs_grad) edges[i] = pl_edge_to(inputs[i]);
    }
    return fn;
}

void pl_fn_output(pl_fn *fn, pl_value *value, int output) {
    bool complex = value->dtype == PL_DT_C64 || value->dtype == PL_DT_C128;
    if (!fn || (!pl_dtype_is_float(value->dtype) && !complex)) return;
    if (value->fn) value->fn->refs--; /* in place: fn's edge holds what came before */
    fn->refs++;
    value->fn = fn;
    value->output = output;
    value->needs_grad = true;
    value->leaf = -1;
}

int pl_save(pl_eager *e, pl_fn *fn, pl_value *value) {
    if (!fn) return -1;
    if (fn->saved_count == fn->saved_room) {
        enum { FEW = 4 };
        size_t room = fn->saved ? (size_t)fn->saved_room : FEW;
        pl_value **grown =
            fn->saved ? pl_arena_grow(e->step_arena, fn->saved, &room, room * 2, sizeof *grown)
                      : pl_arena_array(e->step_arena, room, sizeof *grown);
        if (!grown || room > INT32_MAX) {
            e->failed = true;
            return -1;
        }
        fn->saved = grown;
        fn->saved_room = (int32_t)room;
    }
    int slot = fn->saved_count++;
    pl_checkpoint_frame *frame = e->frame;
    if (frame && e->calls.on) e->calls.hooks++;
    if (!frame) {
        fn->saved[slot] = pl_hold(value);
    } else if (!frame->replaying) {
        void *grown = pl_arena_grow(e->step_arena, frame->places, &frame->place_room,
                                    frame->place_count + 1, sizeof *frame->places);
        if (!grown) {
            e->failed = true;
            return -1;
        }
        frame->places = grown;
        frame->places[frame->place_count].fn = fn;
        frame->places[frame->place_count++].slot = slot;
        if (!fn->frame) frame->users++;
        fn->frame = frame;
    } else if (frame->filled < frame->place_count) {
        pl_fn *owner = frame->places[frame->filled].fn;
        int place = frame->places[frame->filled++].slot;
        if (!owner->gone) owner->saved[place] = pl_hold(value);
    }
    return slot;
}

static void release_saved(pl_eager *e, pl_fn *fn) {
    for (int i = 0; i < fn->saved_count; i++) {
        pl_value *value = fn->saved[i];
        fn->saved[i] = NULL;
        pl_drop(e, value);
    }
}

/* The functions' hooks hold the frame, and the frame what the call was given. */
void pl_frame_leave(pl_eager *e, pl_checkpoint_frame *frame) {
    if (!frame || --frame->users > 0) return;
    for (int32_t i = 0; i < frame->input_count; i++) pl_drop(e, frame->inputs[i]);
    frame->input_count = 0;
}

void pl_fn_cut(pl_fn *fn, int edge) {
    if (fn->edges[edge].fn) fn->edges[edge].fn->refs--;
    fn->edges[edge] = (pl_edge){.leaf = -1};
}

/* Functions on a path from the loss have been called, and all below them: nothing is left to free
 * there. */
void pl_fn_drop(pl_eager *e, pl_fn *fn) {
    if (--fn->refs > 0 || fn->reached) return;
    fn->next_gone = NULL;
    for (pl_fn *list = fn; list;) {
        pl_fn *gone = list;
        list = list->next_gone;
        release_saved(e, gone);
        pl_frame_leave(e, gone->frame);
        gone->gone = true;
        for (int i = 0; i < gone->edge_count; i++) {
            pl_fn *below = gone->edges[i].fn;
            gone->edges[i].fn = NULL;
            if (!below || --below->refs > 0 || below->reached) continue;
            below->next_gone = list;
            list = below;
        }
    }
}

/* ---- gradients on their way ---- */

/* input_buffer.cpp: in place when the buffer holds the only reference to a dense tensor and its
 * storage. A view's storage has a second holder, its base, which autograd's view records keep. */
static bool can_add_in_place(const pl_value *value) {
    return !value->view && value->refs == 1 && value->storage->refs == 1 && pl_is_dense(value);
}

/* buffer + arriving, both references taken. */
static pl_value *accumulate(pl_eager *e, pl_value *buffer, pl_value *arriving) {
    if (!buffer) return arriving;
    if (can_add_in_place(buffer)) {
        pl_work_pointwise(e, PL_PASS_BACKWARD, buffer, arriving, buffer);
        pl_drop(e, arriving);
        return buffer;
    }
    pl_value *sum = pl_new_like(e, buffer, buffer->dtype);
    pl_work_pointwise(e, PL_PASS_BACKWARD, buffer, arriving, sum);
    pl_drop(e, buffer);
    pl_drop(e, arriving);
    return sum;
}

/* utils/grad_layout_contract.h: a dense parameter's gradient has its strides, any other's is
 * row-major. */
static bool obeys_layout(const pl_value *grad, const pl_value *parameter) {
    if (!pl_is_dense(parameter)) return pl_is_contiguous(grad);
    for (int i = 0; i < grad->dims; i++)
        if (grad->sizes[i] != 1 && grad->strides[i] != parameter->strides[i]) return false;
    return true;
}

static void relabel(pl_eager *e, const pl_value *value, pl_kind kind, int32_t tensor) {
    if (!value->storage->block) return;
    pl_tape_block *block = &e->tape->blocks[value->storage->block];
    block->kind = (uint8_t)kind;
    block->tensor = tensor;
}

/* AccumulateGrad: steals the gradient where nobody else holds it, clones it where somebody does. */
static void accumulate_grad(pl_eager *e, pl_leaf *leaf) {
    pl_value *arriving = leaf->arriving;
    leaf->arriving = NULL;
    pl_work_host(e, "AccumulateGrad", 1);
    if (leaf->grad) { /* .grad += arriving */
        pl_work_pointwise(e, PL_PASS_BACKWARD, leaf->grad, arriving, leaf->grad);
        pl_drop(e, arriving);
        return;
    }
    if (arriving->refs == 1 && obeys_layout(arriving, leaf->value)) {
        leaf->grad = arriving;
    } else {
        const pl_value *p = leaf->value;
        leaf->grad =
            pl_new(e, arriving->dtype, p->dims, p->sizes, pl_is_dense(p) ? p->strides : NULL);
        pl_work_copy(e, PL_PASS_BACKWARD, arriving, leaf->grad);
        pl_drop(e, arriving);
    }
    relabel(e, leaf->grad, PL_GRADIENTS, leaf->tensor);
}

/* Marks what the loss depends on, and counts what each parameter will receive. */
static void find_reached(pl_eager *e, pl_fn *root) {
    for (int32_t i = 0; i < e->leaf_count; i++) e->leaves[i].expected = 0;
    root->reached = true;
    for (size_t i = e->fn_count; i-- > 0;) {
        pl_fn *fn = e->fns[i];
        if (!fn->reached) continue;
        for (int k = 0; k < fn->edge_count; k++) {
            const pl_edge *edge = &fn->edges[k];
            if (edge->fn)
                edge->fn->reached = true;
            else if (edge->leaf >= 0)
                e->leaves[edge->leaf].expected++;
        }
    }
}

/* Whether everything the function saved is there; not so where a checkpointed block, run again,
 * took another way. */
static bool has_saved(const pl_fn *fn) {
    for (int i = 0; i < fn->saved_count; i++)
        if (!fn->saved[i]) return false;
    return true;
}

/* What a function's kernels read: the gradients that arrived and what was saved; of pools and
 * gathers the places alone, the rest is kept for its sizes. */
static pl_work_rest rest_of(const pl_fn *fn) {
    pl_work_rest rest = {.pass = PL_PASS_BACKWARD,
                         .kind = (pl_work_kind)fn->work,
                         .launches = fn->kernels,
                         .zeroed = fn->zeroes};
    bool places = rest.kind == PL_WORK_POOL || rest.kind == PL_WORK_GATHER;
    for (int i = 0; i < fn->output_count; i++)
        if (fn->grads[i]) {
            rest.read += pl_work_bytes(fn->grads[i]);
            rest.like = fn->grads[i];
        }
    rest.strided = rest.like && !pl_is_dense(rest.like);
    for (int i = 0; i < fn->saved_count; i++) {
        const pl_value *saved = fn->saved[i];
        if (!saved || (places && pl_dtype_is_float(saved->dtype))) continue;
        rest.read += pl_work_bytes(saved);
        rest.strided |= rest.like && pl_work_gathers(saved, rest.like);
        if (places && saved->elements > rest.rows) rest.rows = saved->elements;
    }
    if (rest.kind == PL_WORK_GATHER && rest.rows > 0 && rest.like)
        rest.columns = rest.like->elements / rest.rows;
    return rest;
}

static void call(pl_eager *e, pl_fn *fn) {
    pl_value *out_few[PL_MAX_GRADS] = {0}, **out = out_few;
    if (fn->edge_count > PL_MAX_GRADS) {
        out = pl_arena_array(e->step_arena, (size_t)fn->edge_count, sizeof *out);
        if (!out) {
            e->failed = true;
            return;
        }
    }
    e->node = fn->node;
    if (fn->frame && !fn->frame->done) e->recompute(e, fn->frame);
    e->what = fn->name;
    e->class = fn->class;
    bool any = false;
    for (int i = 0; i < fn->output_count; i++) any |= fn->grads[i] != NULL;
    pl_work_begin(e);
    if (any && has_saved(fn))
        fn->backward(e, fn, fn->grads, out);
    else if (any)
        e->tape->incomplete = true;
    if (e->calls.on) {
        pl_work_rest rest = {.pass = PL_PASS_BACKWARD};
        if (e->calls.tensors) rest = rest_of(fn);
        pl_work_end(e, &rest);
    }
    /* what a checkpointed block made again is the function's alone once it is unpacked */
    if (fn->frame) release_saved(e, fn);
    for (int i = 0; i < fn->edge_count; i++) {
        const pl_edge *edge = &fn->edges[i];
        if (!out[i]) continue;
        if (!pl_same_sizes(out[i], edge->dims, edge->sizes))
            out[i] = pl_sum_to(e, out[i], edge->dims, edge->sizes);
        out[i] = pl_cast_raw(e, out[i], edge->dtype);
    }
    for (int i = 0; i < fn->output_count; i++) {
        pl_drop(e, fn->grads[i]);
        fn->grads[i] = NULL;
    }
    release_saved(e, fn);
    pl_frame_leave(e, fn->frame);
    for (int i = 0; i < fn->edge_count; i++) {
        const pl_edge *edge = &fn->edges[i];
        if (edge->fn && out[i])
            edge->fn->grads[edge->output] = accumulate(e, edge->fn->grads[edge->output], out[i]);
        else if (edge->leaf >= 0) {
            pl_leaf *leaf = &e->leaves[edge->leaf];
            if (out[i]) leaf->arriving = accumulate(e, leaf->arriving, out[i]);
            leaf->expected--;
        } else
            pl_drop(e, out[i]);
    }
    for (int i = 0; i < fn->edge_count; i++) {
        pl_leaf *leaf = fn->edges[i].leaf >= 0 ? &e->leaves[fn->edges[i].leaf] : NULL;
        if (leaf && leaf->expected == 0 && leaf->arriving) accumulate_grad(e, leaf);
    }
    e->class = PL_KERNEL_PLAIN;
}

void pl_backward_from(pl_eager *e, pl_value *loss) {
    if (!loss->fn || e->failed) return;
    bool grad_enabled = e->grad_enabled;
    uint8_t kind = e->kind;
    e->in_backward = true;
    e->grad_enabled = false;
    e->kind = PL_TEMPORARY;
    find_reached(e, loss->fn);
    e->what = "ones_like";
    pl_work_begin(e);
    loss->fn->grads[loss->output] = pl_new_like(e, loss, loss->dtype);
    pl_work_end(e, &(pl_work_rest){.kind = PL_WORK_FILL, .like = loss});
    /* The first gradient is also held by the caller of the engine until the end. */
    pl_value *first = pl_hold(loss->fn->grads[loss->output]);
    for (size_t i = e->fn_count; i-- > 0 && !e->failed;)
        if (e->fns[i]->reached) {
            if (e->before_fn) e->before_fn(e, e->fns[i]);
            call(e, e->fns[i]);
        }
    pl_drop(e, first);
    e->in_backward = false;
    e->grad_enabled = grad_enabled;
    e->kind = kind;
}

/* ---- sums and casts ---- */

/* The launch that aten/src/ATen/native/cuda/Reduce.cuh (2.11) chooses for a reduction, and from it
 * the buffer that blocks share when one output is summed by several of them. Dimensions are those
 * of TensorIterator: reduced ones first, by rising stride, neighbours in one run joined. */
void pl_reduce_scratch(pl_eager *e, const pl_value *in, uint32_t reduced, int accumulator_bytes) {
    int64_t size[PL_MAX_DIMS], stride[PL_MAX_DIMS];
    int count = 0, reduced_count = 0;
    for (int pass = 0; pass < 2; pass++) {
        int begin = count;
        uint32_t seen = 0;
        for (;;) {
            int best = -1;
            for (int i = in->dims; i-- > 0;)
                if (!(seen >> i & 1) && (reduced >> i & 1) == (pass == 0) && in->sizes[i] != 1 &&
                    (best < 0 || in->strides[i] < in->strides[best]))
                    best = i;
            if (best < 0) break;
            seen |= 1u << best;
            if (count > begin &&
                pl_times(stride[count - 1], size[count - 1]) == in->strides[best]) {
                size[count - 1] *= in->sizes[best];
            } else {
                size[count] = in->sizes[best];
                stride[count++] = in->strides[best];
            }
        }
        if (pass == 0) reduced_count = count;
    }
    if (in->elements == 0) return;
    int64_t inputs = 1, outputs = 1;
    for (int i = 0; i < count; i++) *(i < reduced_count ? &inputs : &outputs) *= size[i];
    bool on_fastest =
        reduced_count == count || (reduced_count > 0 && stride[0] < stride[reduced_count]);
    int64_t fastest = count == 0 ? 1 : on_fastest ? stride[0] : stride[reduced_count];
    int64_t dim0 = on_fastest ? inputs : outputs, dim1 = on_fastest ? outputs : inputs;
    int output_vector = 1;
    if (fastest == 1 && on_fastest && dim0 >= 128 && reduced_count == 1) {
        dim0 /= 4;
    } else if (fastest == 1 && !on_fastest) {
        output_vector = 4;
        for (int i = 0; i < count; i++) {
            int64_t n = i == reduced_count ? size[i] : stride[i];
            while (n % output_vector != 0) output_vector /= 2;
        }
        dim0 /= output_vector;
    }
    int most = 512 / output_vector;
    int width_cap = dim0 < most ? (int)pl_last_power2(dim0 > 0 ? dim0 : 1) : most;
    int height_cap = dim1 < most ? (int)pl_last_power2(dim1 > 0 ? dim1 : 1) : most;
    int width = width_cap < 32 ? width_cap : 32;
    int height = height_cap < most / width ? height_cap : most / width;
    width = width_cap < most / height ? width_cap : most / height;
    int64_t step_in = 1, step_out = 1;
    if (on_fastest)
        step_in *= width;
    else
        step_out *= width;
    int split_from = height * 16 < 256 ? height * 16 : 256;
    bool across_warps = pl_div_up(inputs, step_in) >= split_from;
    if (across_warps)
        step_in *= height;
    else
        step_out *= height;
    int64_t target = (int64_t)e->device->sms * (e->device->threads_per_sm / (width * height));
    int64_t grid = pl_div_up(outputs / output_vector, step_out);
    int64_t values = pl_div_up(inputs, step_in);
    if (!across_warps || values < 256 || grid > target || grid == 0) return;
    int64_t ctas = pl_div_up(target, grid), by_least = pl_div_up(values, 16),
            by_most = pl_div_up(values, 256);
    if (ctas > by_least) ctas = by_least;
    if (ctas < by_most) ctas = by_most;
    if (ctas <= 1) return;
    int64_t bytes = accumulator_bytes * outputs * ctas;
    if (!on_fastest) bytes *= (int64_t)width * output_vector;
    uint8_t kind = e->kind;
    e->kind = PL_WORKSPACE;
    int32_t buffer = pl_block_new(e, bytes), semaphores = pl_block_new(e, 4 * grid);
    pl_block_gone(e, semaphores);
    pl_block_gone(e, buffer);
    e->kind = kind;
}

static int accumulator_bytes(pl_dtype dtype) {
    return dtype == PL_DT_F64 || dtype == PL_DT_I64 ? 8
           : dtype == PL_DT_C64                     ? 8
           : dtype == PL_DT_C128                    ? 16
                                                    : 4;
}

pl_value *pl_sum_to(pl_eager *e, pl_value *value, int dims, const int64_t *sizes) {
    int leading = value->dims - dims;
    if (leading < 0) return value;
    int64_t kept[PL_MAX_DIMS];
    uint32_t reduced = 0;
    for (int i = 0; i < value->dims; i++) {
        bool sum = i < leading || (sizes[i - leading] == 1 && value->sizes[i] != 1);
        if (sum) reduced |= 1u << i;
        kept[i] = sum ? 1 : value->sizes[i];
    }
    if (!reduced) return value;
    pl_value *sum = pl_new(e, value->dtype, value->dims, kept, NULL);
    pl_work_reduce(e, PL_PASS_BACKWARD, value, reduced, sum);
    pl_reduce_scratch(e, value, reduced, accumulator_bytes(value->dtype));
    pl_drop(e, value);
    if (!leading) return sum;
    pl_value *view = pl_alias(e, sum, dims, sizes, NULL);
    pl_drop(e, sum);
    return view;
}

pl_value *pl_cast_raw(pl_eager *e, pl_value *value, pl_dtype dtype) {
    if (value->dtype == dtype) return value;
    pl_value *cast = pl_new_like(e, value, dtype);
    pl_work_copy(e, PL_PASS_BACKWARD, value, cast);
    pl_drop(e, value);
    return cast;
}
