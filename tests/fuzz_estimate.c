/* fuzz_estimate: graphs that no exporter would write. Whatever a sound graph says (any operator on
 * any tensors, sizes of nought or near 2^62, arguments left out or of another kind), the tape and
 * its simulation end with a status; they do not crash, leak or hang.
 *
 *     test_fuzz_estimate COUNT FILE.pt2...
 * Graphs are read from the files, damaged in memory from a seed (the same each time), and simulated
 * under settings drawn at random. Damaged bytes are fuzz_import's part. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/schedule.h"
#include "device/simulate.h"
#include "import_graph.h"
#include "tape/operator.h"

static uint64_t state = 0x9e3779b97f4a7c15u; /* xorshift64 (G. Marsaglia, 2003) */

static size_t below(size_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? (size_t)(state % limit) : 0;
}

static int64_t odd_size(void) {
    static const int64_t sizes[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    8,
                                    64,
                                    1000,
                                    3073,
                                    65537,
                                    1 << 20,
                                    (int64_t)1 << 31,
                                    (int64_t)1 << 40,
                                    (int64_t)1 << 62};
    return sizes[below(sizeof sizes / sizeof *sizes)];
}

static const pl_dtype types[] = {PL_DT_F32,  PL_DT_F16, PL_DT_BF16, PL_DT_I64,
                                 PL_DT_BOOL, PL_DT_F64, PL_DT_U8,   PL_DT_C64};

/* Other sizes for a tensor, dense or expanded strides. */
static void damage_tensor(pl_graph *g, pl_tensor *t) {
    if (below(3) == 0) t->dtype = types[below(sizeof types / sizeof *types)];
    if (below(3) == 0) t->requires_grad = !t->requires_grad;
    int dims = below(2) ? t->dims : (int)below(7);
    int64_t *sizes = pl_arena_array(g->arena, (size_t)dims + 1, sizeof *sizes);
    int64_t *strides = pl_arena_array(g->arena, (size_t)dims + 1, sizeof *strides);
    if (!sizes || !strides) return;
    int64_t step = 1;
    for (int i = dims; i-- > 0;) {
        sizes[i] = i < t->dims && below(4) ? t->sizes[i]
                   : below(5)              ? (int64_t)below(40)
                                           : odd_size();
        strides[i] = below(12) ? step : 0;
        if (sizes[i] > 0 && step < ((int64_t)1 << 40) / sizes[i]) step *= sizes[i];
    }
    pl_tensor shape = *t;
    shape.sizes = sizes;
    shape.strides = strides;
    shape.dims = (uint8_t)dims;
    shape.size_expr = shape.stride_expr = NULL;
    if (pl_tensor_fits(&shape)) *t = shape; /* what the importer lets through */
}

static void damage_arg(pl_graph *g, pl_arg *arg) {
    switch (below(5)) {
    case 0: *arg = (pl_arg){.name = arg->name, .kind = PL_ARG_NONE}; break;
    case 1:
        *arg = (pl_arg){.name = arg->name,
                        .kind = PL_ARG_TENSOR,
                        .tensor = (int32_t)below((size_t)g->tensor_count)};
        break;
    case 2:
        *arg = (pl_arg){
            .name = arg->name, .kind = PL_ARG_INT, .i = below(2) ? -odd_size() : odd_size()};
        break;
    case 3: *arg = (pl_arg){.name = arg->name, .kind = PL_ARG_FLOAT, .f = 0.5}; break;
    default: {
        uint32_t count = (uint32_t)below(6);
        int64_t *ints = pl_arena_array(g->arena, count + 1u, sizeof *ints);
        if (!ints) return;
        for (uint32_t i = 0; i < count; i++)
            ints[i] = below(3) ? (int64_t)below(6) - 3 : -odd_size();
        *arg = (pl_arg){.name = arg->name, .kind = PL_ARG_INTS, .count = count, .ints = ints};
    }
    }
}

static void damage_node(pl_graph *g, pl_node *n) {
    static const char *const names[] = {"self",
                                        "input",
                                        "weight",
                                        "bias",
                                        "other",
                                        "mat1",
                                        "mat2",
                                        "dim",
                                        "query",
                                        "key",
                                        "value",
                                        "attn_mask",
                                        "indices",
                                        "tensors",
                                        "hx",
                                        "params",
                                        "normalized_shape",
                                        "padding",
                                        "stride",
                                        "groups"};
    size_t rows = 0;
    while (pl_operator_at(rows)) rows++;
    if (below(2)) {
        const char *name = pl_operator_at(below(rows))->name;
        char *target = pl_arena_alloc(g->arena, strlen(name) + 16);
        if (target) {
            sprintf(target, "aten.%s.default", name);
            n->target = target;
        }
    }
    if (n->arg_count) {
        pl_arg *arg = &n->args[below(n->arg_count)];
        if (below(2))
            damage_arg(g, arg);
        else
            arg->name = names[below(sizeof names / sizeof *names)];
    }
    if (n->arg_count && below(6) == 0) n->arg_count--;
    if (n->output_count && below(8) == 0) n->output_count--;
}

static void damage(pl_graph *g) {
    size_t times = 1 + below(8);
    while (times--) {
        if (below(2))
            damage_tensor(g, &g->tensors[below((size_t)g->tensor_count)]);
        else if (g->node_count)
            damage_node(g, &g->nodes[below((size_t)g->node_count)]);
    }
}

static const char *one_of(const char *(*name)(size_t)) {
    size_t count = 0;
    while (name(count)) count++;
    return name(below(count));
}

static bool simulate_once(const pl_graph *g) {
    pl_job job = {.precision = (pl_precision)below(7),
                  .optimizer = one_of(pl_optimizer_name),
                  .loss = (pl_loss)below(5),
                  .checkpoint = below(3) == 0,
                  .channels_last = below(4) == 0,
                  .cudnn_benchmark = below(4) == 0,
                  .accumulate = 1 + (int)below(2),
                  .parallel = below(4)   ? PL_ALONE
                              : below(2) ? PL_DDP
                                         : PL_FSDP2,
                  .world = 1 + (int)below(8),
                  .stage = 2 + (int)below(2),
                  .parallel_mixed = below(2)};
    size_t cards = 0;
    while (pl_gpu_at(cards)) cards++;
    const pl_gpu *gpu = pl_gpu_at(below(cards));
    pl_tape_device device = pl_tape_device_of(gpu);
    pl_allocator_settings settings;
    pl_allocator_settings_default(&settings);
    settings.expandable_segments = below(4) == 0;
    settings.device_bytes = settings.total_bytes = gpu->capacity_bytes;
    pl_error err = {0};
    pl_tape *tape = NULL;
    pl_simulation s;
    pl_budget budget = {.most_bytes = (size_t)256 << 20};
    pl_status status = pl_tape_train(&tape, g, &job, PL_TAPE_STEPS, &device, &budget, &err);
    if (status == PL_OK) {
        pl_overhead(gpu, tape);
        status = pl_simulate(&s, tape, g, &settings, false, NULL, &err);
        pl_schedule walk;
        bool walked = pl_schedule_of(&walk, tape, gpu,
                                     &(pl_schedule_settings){.host_speed = 1, .copy_gbps = 20});
        double sum = walk.step_us + walk.active + walk.occupied + walk.dram + walk.tensor;
        if (walked && !(sum >= 0 && sum < INFINITY)) {
            printf("not ok: a step of %g microseconds\n", walk.step_us);
            exit(1);
        }
    }
    pl_tape_close(&tape);
    if (status != PL_OK && (err.code != status || !err.message[0])) {
        printf("not ok: a failure without its reason\n");
        exit(1);
    }
    return status == PL_OK;
}

int main(int count, char **args) {
    if (count < 3) return 2;
    long rounds = atol(args[1]), ended = 0;
    for (long i = 0; i < rounds; i++) {
        const char *path = args[2 + i % (count - 2)];
        pl_error err = {0};
        pl_graph *g = NULL;
        if (import_graph_file(&g, path, NULL, &err) != PL_OK) {
            printf("not ok: %s: %s\n", path, err.message);
            return 1;
        }
        damage(g);
        ended += simulate_once(g);
        pl_graph_close(&g);
    }
    printf("ok damaged_graphs: %ld of %ld simulated to the end, the others refused\n", ended,
           rounds);
    return 0;
}
