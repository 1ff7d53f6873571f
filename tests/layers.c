/* The networks' layers: every kind's gradients against finite differences, of its inputs and of its
 * weights, with sequences of different lengths; losses and Adam against numbers worked out by hand;
 * training that repeats byte for byte; files that give the same predictions, and hostile ones that
 * give an error.
 *
 * The differences are taken through the 32-bit forward, summed in double: y is multiplied by random
 * numbers and summed, each input moves by 1/64 and by 1/128 each way, and the two central
 * differences are extrapolated to 0 (Richardson). That leaves 1e-3 or so of the largest gradient.
 * Where the two disagree there is a corner within (ReLU inside an encoder, the largest of a pool):
 * such places are skipped, and may be few. */
#include "lab/learn/adam.h"
#include "lab/learn/loss.h"
#include "lab/learn/network.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

enum { COLUMNS = 4, CHANNELS = 5, SAMPLES = 5, ROWS = 17 };
static const size_t begin[SAMPLES + 1] = {0, 7, 12, 16, 17, 17}; /* the last one is empty */
static size_t token_begin[SAMPLES + 1] = {0, 4, 8, 12, 16, 20};

/* ---- gradients ---- */

typedef struct rig {
    pl_chain chain;
    const pl_layer *layer; /* under test */
    pl_batch batch;        /* as the layer sees it */
    float columns[SAMPLES * COLUMNS];
    float *x, *y, *r, *dx, *kept, *scratch, *weights, *packed, *gradients, *states;
    float room[PL_PANEL_ROOM];
    size_t x_count, y_count;
    const pl_kernels *kernels;
} rig;

static float *numbers(size_t count) {
    return calloc(count + 1, sizeof(float));
}

/* text: the layer, after its input: "steps" or "columns". */
static bool rig_open(rig *g, const char *text, bool steps, uint64_t seed) {
    char net[256];
    pl_error err = {0};
    memset(g, 0, sizeof *g);
    bool first = strncmp(text, "tokens", 6) == 0 || strcmp(text, "steps") == 0 ||
                 strcmp(text, "columns") == 0;
    const char *source = steps ? "steps," : "columns,", *behind[] = {",linear", ",sum,linear"};
    pl_status status = PL_USAGE;
    for (size_t i = 0; i < 2 && status != PL_OK; i++) {
        snprintf(net, sizeof net, "%s%s%s", first ? "" : source, text, behind[i]);
        status = pl_chain_open(&g->chain, net, strlen(net), COLUMNS, CHANNELS, 1, &err);
    }
    if (status != PL_OK) {
        printf("    %s: %s\n", net, err.message);
        return false;
    }
    const pl_layer *l = g->layer = &g->chain.layers[first ? 0 : 1];
    pl_extent all = {.count = SAMPLES, .rows = ROWS, .squares = 49 + 25 + 16 + 1, .longest = 7};
    g->batch = (pl_batch){.extent = pl_chain_extent(&g->chain, &all),
                          .begin = g->chain.fixed ? token_begin : begin,
                          .columns = g->columns,
                          .column_count = COLUMNS};
    g->x_count = pl_rows(l->in, &g->batch.extent) * l->in.width;
    g->y_count = pl_rows(l->out, &g->batch.extent) * l->out.width;
    g->x = numbers(g->x_count);
    g->dx = numbers(g->x_count);
    g->y = numbers(g->y_count);
    g->r = numbers(g->y_count);
    g->kept = numbers(l->kind->kept ? l->kind->kept(l, &g->batch.extent, true) : 0);
    g->scratch = numbers(l->kind->scratch ? l->kind->scratch(l, &g->batch.extent, true) : 0);
    g->weights = numbers(g->chain.weights);
    g->gradients = numbers(g->chain.weights);
    g->packed = aligned_alloc(64, (g->chain.packed + 16) / 16 * 64);
    g->states = numbers(g->chain.states);
    g->kernels = pl_kernels_here();

    pl_random random = pl_random_seed(seed, 1);
    pl_chain_start(&g->chain, g->weights, g->states, &random);
    /* What starts at 0 or 1 moves away from it, so that nothing hides there. */
    for (size_t i = 0; i < g->chain.weights; i++)
        g->weights[i] += 0.3f * (float)pl_random_normal(&random);
    for (size_t i = 0; i < SAMPLES * COLUMNS; i++) g->columns[i] = (float)pl_random_normal(&random);
    for (size_t i = 0; i < g->x_count; i++) {
        g->x[i] = (float)pl_random_normal(&random);
        if (fabsf(g->x[i]) < 0.1f) g->x[i] = g->x[i] < 0 ? -0.1f : 0.1f; /* off the corners */
    }
    if (strncmp(text, "embedding", 9) == 0)
        for (size_t i = 0; i < g->x_count; i += l->in.width)
            g->x[i + 1] = (float)pl_random_below(&random, 3);
    for (size_t i = 0; i < g->y_count; i++) g->r[i] = (float)pl_random_normal(&random);
    return true;
}

static void rig_close(rig *g) {
    float *all[] = {g->x,       g->y,       g->r,      g->dx,        g->kept,
                    g->scratch, g->weights, g->packed, g->gradients, g->states};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    pl_chain_close(&g->chain);
}

static pl_net_pass rig_pass(rig *g, bool training, bool packed) {
    return (pl_net_pass){.products = {.kernels = g->kernels, .room = g->room},
                         .batch = &g->batch,
                         .weights = packed ? g->packed : g->weights,
                         .packed = packed,
                         .states = g->states,
                         .gradients = g->gradients,
                         .training = training,
                         .random = pl_random_seed(7, 7),
                         .scratch = g->scratch};
}

static double rig_value(rig *g) {
    pl_net_pass pass = rig_pass(g, true, false);
    g->layer->kind->forward(g->layer, &pass, g->x, g->y, g->kept);
    double sum = 0;
    for (size_t i = 0; i < g->y_count; i++) sum += (double)g->y[i] * (double)g->r[i];
    return sum;
}

static double slope(rig *g, float *at, float step) {
    float was = *at;
    *at = was + step;
    double up = rig_value(g), high = (double)*at;
    *at = was - step;
    double down = rig_value(g), low = (double)*at;
    *at = was;
    return (up - down) / (high - low);
}

/* Compares `count` analytic gradients with differences; says how many were off or at a corner. */
static void compare(rig *g, const char *what, const char *text, float *at, const float *analytic,
                    size_t count) {
    double largest = 0.05;
    size_t off = 0, corners = 0;
    double worst = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)analytic[i]));
    for (size_t i = 0; i < count; i++) {
        double wide = slope(g, &at[i], 1.0f / 64), narrow = slope(g, &at[i], 1.0f / 128);
        double numeric = narrow + (narrow - wide) / 3, error = fabs(numeric - (double)analytic[i]);
        if (error <= 3e-3 * largest) {
            worst = fmax(worst, error / largest);
            continue;
        }
        if (fabs(wide - narrow) > 3e-3 * largest)
            corners++;
        else if (off++ == 0)
            printf("    %s of %s, number %zu: %g, differences say %g\n", what, text, i,
                   (double)analytic[i], numeric);
    }
    CHECK_INT(off, 0);
    CHECK(corners * 10 <= count);
}

static void gradients_of(const char *text, bool steps) {
    rig *g = malloc(sizeof *g);
    if (!g || !rig_open(g, text, steps, 11)) {
        CHECK(g == NULL);
        free(g);
        return;
    }
    const pl_layer *l = g->layer;
    size_t from = l->tensor_count ? l->tensors[0].plain : 0, count = 0;
    for (size_t t = 0; t < l->tensor_count; t++)
        count += l->tensors[t].rows * l->tensors[t].columns;

    /* Gradients are added to; dx is written, whatever stood there. */
    for (size_t i = 0; i < g->chain.weights; i++) g->gradients[i] = 0.5f;
    for (size_t i = 0; i < g->x_count; i++) g->dx[i] = 99;
    rig_value(g);
    pl_net_pass pass = rig_pass(g, true, false);
    l->kind->backward(l, &pass, g->x, g->y, g->r, g->dx, g->kept);
    float *analytic = numbers(count);
    for (size_t i = 0; i < count; i++) analytic[i] = g->gradients[from + i] - 0.5f;

    /* The same when no one wants dx. */
    for (size_t i = 0; i < g->chain.weights; i++) g->gradients[i] = 0.5f;
    rig_value(g);
    pass = rig_pass(g, true, false);
    l->kind->backward(l, &pass, g->x, g->y, g->r, NULL, g->kept);
    float apart = 0;
    for (size_t i = 0; i < count; i++)
        apart = fmaxf(apart, fabsf(g->gradients[from + i] - 0.5f - analytic[i]));
    CHECK(apart < 1e-4f);

    if (strncmp(text, "embedding", 9) == 0) /* ids have no gradient: they are not moved */
        for (size_t i = 1; i < g->x_count; i += l->in.width) CHECK(g->dx[i] == 0);
    else
        compare(g, "input", text, g->x, g->dx, g->x_count);
    compare(g, "weights", text, g->weights + from, analytic, count);
    free(analytic);
    rig_close(g);
    free(g);
}

/* A case for every kind; layers.every_kind_is_here finds one that is missing. */
static const struct {
    const char *text;
    bool steps, columns; /* on a sequence, on a vector */
} cases[] = {
    {"steps", true, false},
    {"columns", false, true},
    {"tokens:6", false, true},
    {"append", true, true},
    {"embedding:1:3:4", true, false},
    {"positions:4", true, false},
    {"sinusoid", true, false},
    {"linear:18", true, true},
    {"dropout:0.3", true, true},
    {"layernorm", true, true},
    {"batchnorm", true, true},
    {"relu", true, true},
    {"leaky", true, true},
    {"elu", true, true},
    {"gelu", true, true},
    {"silu", true, true},
    {"tanh", true, true},
    {"sigmoid", true, true},
    {"attention:4:3", true, false},
    {"attention:2:3:0:residual", true, false},
    {"attention:1:0:0.2:causal", true, false},
    {"encoder:5:9:0", true, false},
    {"encoder:1:17:0.2:4:gelu", true, false},
    {"encoder:5:9:0.1:pre:gelu:causal", true, false},
    {"gru:3", true, false},
    {"gru:9:reversed", true, false},
    {"bigru:6:10", true, false},
    {"sum", true, false},
    {"mean", true, false},
    {"max", true, false},
    {"first", true, false},
    {"last", true, false},
    {"ends:2", true, false},
    {"flatten:6", true, false},
};
enum { CASES = sizeof cases / sizeof *cases };

static void every_kind_is_here(void) {
    const pl_layer_kind *kind;
    for (size_t k = 0; (kind = pl_layer_kind_at(k)); k++) {
        size_t found = 0;
        for (size_t i = 0; i < CASES; i++)
            found += strlen(kind->name) == strcspn(cases[i].text, ":") &&
                     strncmp(cases[i].text, kind->name, strlen(kind->name)) == 0;
        if (!found) printf("    no case for %s\n", kind->name);
        CHECK(found > 0);
    }
}

static void gradients_hold(void) {
    for (size_t i = 0; i < CASES; i++) {
        int before = check_failures_in_case;
        if (cases[i].steps) gradients_of(cases[i].text, true);
        if (cases[i].columns) gradients_of(cases[i].text, false);
        if (check_failures_in_case > before) printf("    in %s\n", cases[i].text);
    }
}

/* Predicting, with weights in panels, gives what the trained layout gives; so do both kernels. */
static void predicting_is_training_without_noise(void) {
    static const char *const texts[] = {"linear:18",     "layernorm",     "batchnorm",
                                        "attention:4:3", "encoder:5:9:0", "encoder:5:33:0:pre:gelu",
                                        "bigru:6:10",    "gru:17",        "gelu",
                                        "silu",          "tanh",          "tokens:7"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rig *g = malloc(sizeof *g);
        if (!g || !rig_open(g, texts[i], strcmp(texts[i], "tokens:7") != 0, 5)) {
            CHECK(g == NULL);
            free(g);
            continue;
        }
        pl_chain_pack(&g->chain, g->weights, g->packed);
        float *other = numbers(g->y_count);
        pl_net_pass pass = rig_pass(g, false, true);
        g->layer->kind->forward(g->layer, &pass, g->x, g->y, g->kept);
        pass = rig_pass(g, false, false);
        pass.products.kernels = pl_kernels_plain();
        g->layer->kind->forward(g->layer, &pass, g->x, other, g->kept);
        float apart = 0;
        for (size_t j = 0; j < g->y_count; j++) apart = fmaxf(apart, fabsf(g->y[j] - other[j]));
        if (apart > 2e-5f) printf("    %s: %g\n", texts[i], (double)apart);
        CHECK(apart <= 2e-5f);
        float *back = numbers(g->chain.weights);
        pl_chain_unpack(&g->chain, g->packed, back);
        CHECK(memcmp(back, g->weights, g->chain.weights * sizeof *back) == 0);
        free(back);
        free(other);
        rig_close(g);
        free(g);
    }
}

/* The way through several layers: a few weights of each, by differences of the whole chain. */
static void chain_gradients_hold(void) {
    static const char net[] = "bigru:4:3,encoder:7:10:0,mean,append,layernorm,tanh,linear:2";
    rig *g = malloc(sizeof *g);
    pl_error err = PL_SIZED(pl_error);
    if (!g || !rig_open(g, "tanh", true, 3)) return;
    pl_chain chain;
    CHECK_INT(pl_chain_open(&chain, net, strlen(net), COLUMNS, CHANNELS, 2, &err), PL_OK);
    float *weights = numbers(chain.weights), *gradients = numbers(chain.weights);
    float *room =
        aligned_alloc(64, pl_chain_room(&chain, &g->batch.extent, true, false) * 4 + 64 -
                              pl_chain_room(&chain, &g->batch.extent, true, false) * 4 % 64);
    pl_random random = pl_random_seed(2, 2);
    pl_chain_start(&chain, weights, NULL, &random);
    float r[SAMPLES * 2];
    for (size_t i = 0; i < SAMPLES * 2; i++) r[i] = (float)pl_random_normal(&random);
    pl_net_pass pass = rig_pass(g, true, false);
    pass.weights = weights;
    pass.gradients = gradients;
    pl_chain_forward(&chain, &pass, g->x, room);
    pl_chain_backward(&chain, &pass, g->x, r, room);
    size_t off = 0;
    for (size_t i = 0; i < chain.weights; i += 7) {
        double value[2];
        for (int way = 0; way < 2; way++) {
            float was = weights[i];
            weights[i] += way ? 0.01f : -0.01f;
            const float *y = pl_chain_forward(&chain, &pass, g->x, room);
            value[way] = 0;
            for (size_t j = 0; j < SAMPLES * 2; j++) value[way] += (double)y[j] * (double)r[j];
            weights[i] = was;
        }
        off += fabs((value[1] - value[0]) / 0.02 - (double)gradients[i]) > 5e-3;
    }
    CHECK(off <= 2); /* corners of the encoder's ReLU */
    free(room);
    free(weights);
    free(gradients);
    pl_chain_close(&chain);
    rig_close(g);
    free(g);
}

/* The same numbers as PyTorch 2.11 (float64, 2026-11) gives for nn.GRU, one of 2 forward and one of
 * 4 on the flipped steps, nn.TransformerEncoderLayer post-norm with ReLU and pre-norm with GELU,
 * nn.LayerNorm and nn.Linear. Weight i is sin(0.7 i + 0.01 i^2) / 2, counted in our order; input i
 * is cos(0.3 i). */
static void equal_to_pytorch(void) {
    static const char net[] =
        "bigru:2:4,encoder:2:4:0,encoder:3:7:0:pre:gelu,layernorm,mean,linear:2";
    static const float want[SAMPLES - 1][2] = {{0.6009659f, -0.7668848f},
                                               {0.6118980f, -0.7763369f},
                                               {0.6157922f, -0.7797607f},
                                               {0.6104398f, -0.7774442f}};
    pl_network *n = NULL;
    CHECK_INT(pl_network_open(&n, net, 0, CHANNELS, 2, NULL), PL_OK);
    if (!n) return;
    const pl_chain *chain = &n->members[0];
    CHECK_INT(chain->weights, 751);
    float *weights = numbers(chain->weights), x[ROWS * CHANNELS], out[SAMPLES * 2];
    for (size_t i = 0; i < chain->weights; i++) {
        double at = (double)i;
        weights[i] = (float)(0.5 * sin(0.7 * at + 0.01 * at * at));
    }
    for (size_t i = 0; i < ROWS * CHANNELS; i++) x[i] = (float)cos(0.3 * (double)i);
    pl_chain_pack(chain, weights, n->weights[0]);
    pl_samples samples = {
        .count = SAMPLES, .values = x, .channels = CHANNELS, .steps = x, .begin = begin};
    CHECK_INT(pl_learner_network.predict(&n->learned, &samples, out, NULL), PL_OK);
    for (size_t i = 0; i + 1 < SAMPLES; i++)
        for (size_t c = 0; c < 2; c++) {
            float apart = fabsf(out[i * 2 + c] - want[i][c]);
            if (apart > 3e-6f) printf("    sample %zu: %g apart\n", i, (double)apart);
            CHECK(apart <= 3e-6f);
        }
    free(weights);
    pl_learned *learned = &n->learned;
    pl_learner_network.close(&learned);
}

/* What a causal layer gives at a step does not change with later steps; what others give does. */
static void causal_layers_do_not_look_ahead(void) {
    static const char *const texts[] = {
        "attention:1:4:0:causal", "encoder:5:9:0:causal", "gru:3",
        "attention:1:4",          "encoder:5:9:0",        "gru:3:reversed"};
    for (size_t i = 0; i < 6; i++) {
        rig *g = malloc(sizeof *g);
        if (!g || !rig_open(g, texts[i], true, 6)) {
            CHECK(g == NULL);
            free(g);
            continue;
        }
        size_t seen = 6 * g->layer->out.width; /* the first 6 of the first sample's 7 steps */
        float *before = numbers(g->y_count);
        rig_value(g);
        memcpy(before, g->y, g->y_count * sizeof *before);
        for (size_t c = 0; c < CHANNELS; c++) g->x[6 * CHANNELS + c] += 1;
        rig_value(g);
        bool same = memcmp(before, g->y, seen * sizeof *before) == 0;
        if (same != (i < 3)) printf("    %s\n", texts[i]);
        CHECK(same == (i < 3));
        /* Other samples never change. */
        CHECK(memcmp(before + 7 * g->layer->out.width, g->y + 7 * g->layer->out.width,
                     (ROWS - 7) * g->layer->out.width * sizeof *before) == 0);
        free(before);
        rig_close(g);
        free(g);
    }
}

static void dropout_drops_its_share(void) {
    enum { COUNT = 100003 };
    float *x = numbers(COUNT), *y = numbers(COUNT), *z = numbers(COUNT);
    for (size_t i = 0; i < COUNT; i++) x[i] = 1;
    const pl_kernels *both[] = {pl_kernels_here(), pl_kernels_plain()};
    for (size_t k = 0; k < 2; k++) {
        both[k]->drop(12345, 0.25f, x, k ? z : y, COUNT);
        size_t dropped = 0;
        for (size_t i = 0; i < COUNT; i++) dropped += (k ? z : y)[i] == 0;
        CHECK(fabs((double)dropped / COUNT - 0.25) < 0.01);
    }
    CHECK(memcmp(y, z, COUNT * sizeof *y) == 0); /* the same on every machine */
    both[0]->drop(54321, 0.25f, x, z, COUNT);
    CHECK(memcmp(y, z, COUNT * sizeof *y) != 0);
    free(x);
    free(y);
    free(z);
}

/* ---- losses, Adam ---- */

static void losses_hold(void) {
    static const char *const names[] = {"mse", "mae", "huber", "cross-entropy"};
    static const float weights[4] = {1, 0.5f, 2, 1};
    for (size_t k = 0; k < 4; k++) {
        pl_error err = PL_SIZED(pl_error);
        pl_learn_loss loss = {
            .outputs = k == 3 ? 4 : 1, .huber = 0.7f, .smoothing = 0.1f, .ordinal = 0.2f};
        if (k == 3) loss.class_weights = weights;
        CHECK_INT(pl_loss_find(&loss.kind, names[k], k == 3, &err), PL_OK);
        for (int32_t label = 0; label < 4; label++)
            for (int big = 0; big < 2; big++) {
                float out[4] = {0.3f, -0.2f, 1.1f, 0.4f}, d[4];
                static const float shares[4] = {0.1f, 0.6f, 0.3f, 0};
                pl_truth truth = {.target = big ? 2.5f : 0.1f,
                                  .label = label,
                                  .shares = big ? shares : NULL,
                                  .weight = 1.5f};
                pl_loss_row(&loss, out, &truth, d);
                for (size_t c = 0; c < loss.outputs; c++) {
                    float was = out[c];
                    out[c] = was + 1e-3f;
                    double up = pl_loss_row(&loss, out, &truth, NULL), high = (double)out[c];
                    out[c] = was - 1e-3f;
                    double down = pl_loss_row(&loss, out, &truth, NULL), low = (double)out[c];
                    out[c] = was;
                    CHECK(fabs((up - down) / (high - low) - (double)d[c]) < 2e-3);
                }
            }
    }
    /* By hand: 2 logits of 0, class 0: ln 2; Huber of 3 from 1: 1 * (3 - 0.5). */
    pl_learn_loss ce = {.outputs = 2}, huber = {.outputs = 1, .huber = 1};
    float zero[2] = {0, 0}, three = 3;
    pl_loss_find(&ce.kind, NULL, true, NULL);
    pl_loss_find(&huber.kind, "huber", false, NULL);
    pl_truth none = {.weight = 1};
    CHECK(fabs(pl_loss_row(&ce, zero, &none, NULL) - log(2)) < 1e-12);
    CHECK(fabs(pl_loss_row(&huber, &three, &none, NULL) - 2.5) < 1e-12);
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_loss_find(&ce.kind, "huber", true, &err), PL_USAGE);
    CHECK_INT(pl_loss_find(&ce.kind, "hinge", false, &err), PL_USAGE);
}

static bool near(float got, double want) {
    if (fabs((double)got - want) < 1e-6) return true;
    printf("    %.9g, should be %.9g\n", (double)got, want);
    return false;
}

static void adam_by_hand(void) {
    /* The first step moves by rate, whatever the gradient: 1 - 0.1 * 0.5 / (0.5 + 1e-8). The
     * second, gradient -0.25: m = 0.9 * 0.05 - 0.025 = 0.02, v = 0.999 * 0.00025 + 0.001 * 0.0625 =
     * 0.00031225; m / 0.19 = 0.105263158, v / 0.001999 = 0.156203102, 0.9 - 0.1 * 0.105263158 /
     * 0.395225381. */
    const pl_kernels *both[] = {pl_kernels_here(), pl_kernels_plain()};
    for (size_t k = 0; k < 2; k++) {
        float w[11], g[11], m[11] = {0}, v[11] = {0};
        for (size_t i = 0; i < 11; i++) w[i] = 1, g[i] = 0.5f;
        pl_adam adam = {0};
        pl_adam_step step = pl_adam_next(&adam, 0.1, 0);
        both[k]->adam(&step, w, g, m, v, 11);
        CHECK(near(w[0], 0.9) && near(w[10], 0.9));
        for (size_t i = 0; i < 11; i++) g[i] = -0.25f;
        step = pl_adam_next(&adam, 0.1, 0);
        both[k]->adam(&step, w, g, m, v, 11);
        CHECK(near(w[0], 0.9 - 0.1 * 0.105263158 / 0.395225381) && near(w[10], (double)w[0]));
    }
    /* L2 makes a gradient of 0 one of 0.01 * weight, which moves it by rate. Decoupled decay
     * shrinks it by rate * decay and leaves the rest alone. */
    float w = 2, g = 0, m = 0, v = 0;
    pl_adam l2 = {.l2 = 0.01}, decay = {.decay = 0.5};
    pl_adam_step step = pl_adam_next(&l2, 0.1, 0);
    pl_kernels_here()->adam(&step, &w, &g, &m, &v, 1);
    CHECK(near(w, 1.9) && near(m, 0.002) && near(v, 0.001 * 0.0004));
    w = 2, m = 0, v = 0;
    step = pl_adam_next(&decay, 0.1, 0);
    pl_kernels_here()->adam(&step, &w, &g, &m, &v, 1);
    CHECK(near(w, 1.9) && m == 0);
    /* A gradient (3, 4) is 5 long; clipped to 1 it is (0.6, 0.8). */
    float pair[2] = {3, 4}, weights[2] = {0}, mean[2] = {0}, square[2] = {0};
    CHECK(fabs(pl_adam_squares(pair, 2) - 25) < 1e-12);
    pl_adam clip = {.clip = 1};
    step = pl_adam_next(&clip, 0.1, 25);
    pl_kernels_here()->adam(&step, weights, pair, mean, square, 2);
    CHECK(near(mean[0], 0.06) && near(mean[1], 0.08));
    step = pl_adam_next(&clip, 0.1, 0.25);
    CHECK(step.scale == 1);

    pl_rate_schedule s = {.rate = 0.01, .drop_epoch = 80, .drop_factor = 0.1};
    CHECK(fabs(pl_schedule_rate(&s, 80, 0) - 0.01) < 1e-12);
    CHECK(fabs(pl_schedule_rate(&s, 81, 0) - 0.001) < 1e-12);
    s = (pl_rate_schedule){.rate = 1, .cosine = true, .warmup = 4, .steps = 100};
    CHECK(fabs(pl_schedule_rate(&s, 1, 0) - 0.25) < 1e-12);
    CHECK(fabs(pl_schedule_rate(&s, 1, 50) - 0.5) < 1e-12);
}

/* ---- learning ---- */

enum { COUNT = 120, MOST_STEPS = 9 };

typedef struct world {
    float values[COUNT * COLUMNS], steps[COUNT * MOST_STEPS * CHANNELS], targets[COUNT];
    int32_t classes[COUNT];
    size_t begin[COUNT + 1];
    pl_samples samples, valid; /* the same */
} world;

/* targets: a column plus the mean of a channel over the sample's steps; classes: the target's sign.
 */
static void make_world(world *w) {
    pl_random random = pl_random_seed(4, 4);
    memset(w, 0, sizeof *w);
    for (size_t i = 0; i < COUNT; i++) {
        size_t steps = 1 + pl_random_below(&random, MOST_STEPS);
        for (size_t j = 0; j < COLUMNS; j++)
            w->values[i * COLUMNS + j] = (float)pl_random_normal(&random);
        w->begin[i + 1] = w->begin[i] + steps;
        float sum = 0;
        for (size_t t = w->begin[i]; t < w->begin[i + 1]; t++) {
            for (size_t c = 0; c < CHANNELS; c++)
                w->steps[t * CHANNELS + c] = (float)pl_random_normal(&random);
            sum += w->steps[t * CHANNELS + 2];
        }
        w->targets[i] = w->values[i * COLUMNS + 1] + sum / (float)steps;
        w->classes[i] = w->targets[i] > 0.5f ? 2 : w->targets[i] > -0.5f ? 1 : 0;
    }
    w->samples = (pl_samples){.count = COUNT,
                              .columns = COLUMNS,
                              .values = w->values,
                              .channels = CHANNELS,
                              .steps = w->steps,
                              .begin = w->begin,
                              .targets = w->targets};
    w->valid = w->samples;
}

typedef struct curve {
    int points;
    double first, last, least;
} curve;

static void follow(const pl_epoch *epoch, void *context) {
    curve *c = context;
    if (c->points++ == 0) c->first = c->least = epoch->train_loss;
    c->last = epoch->train_loss;
    if (epoch->valid_loss < c->least || c->points == 1) c->least = epoch->valid_loss;
}

static pl_learned *fit(const world *w, const char *options, curve *c, pl_writer *file) {
    pl_error err = {0};
    pl_learned *learned = NULL;
    pl_learn_settings settings = {.options = options,
                                  .seed = 3,
                                  .valid = &w->valid,
                                  .progress = follow,
                                  .progress_context = c};
    *c = (curve){0};
    if (pl_learner_network.train(&learned, &w->samples, &settings, &err) != PL_OK)
        printf("    %s: %s\n", options, err.message);
    CHECK(learned != NULL);
    if (learned && file) pl_learner_network.save(learned, file);
    return learned;
}

static pl_learned *reopen(const pl_writer *file, const char **failure) {
    pl_reader reader = {.bytes = file->bytes, .size = file->size};
    pl_learned *learned = pl_learner_network.load(&reader, COLUMNS, CHANNELS);
    if (failure) *failure = reader.failure;
    CHECK(learned || reader.failure);
    CHECK(!learned || reader.at == reader.size);
    return learned;
}

/* Every store, layer family and way of training: learns, repeats, and is the same when read back.
 */
static void learns_repeats_and_reopens(void) {
    static const char *const options[] = {
        "epochs=60 batch=16 rate=0.01 net=linear:16,batchnorm,relu,dropout:0.1,linear",
        "epochs=30 batch=16 rate=0.01 "
        "net=steps,linear:8,positions:6,encoder:2:16:0.1,mean,append,linear threads=2",
        "epochs=30 batch=16 rate=0.01 store=f16 "
        "net=bigru:6:10,ends:6,append,relu,dropout:0.01,linear clip=10 l2=0.001",
        "epochs=40 batch=16 rate=0.01 store=int8 net=tokens:8,encoder:2:16:0:pre:gelu,mean,linear "
        "decay=0.01 cosine=1 warmup=5",
        "epochs=30 batch=16 rate=0.01 members=2 average=0.9 patience=5 loss=huber "
        "net=linear:8,elu,linear|linear:16,tanh,linear",
    };
    world *w = malloc(sizeof *w);
    if (!w) return;
    make_world(w);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        curve c, again;
        pl_writer files[3] = {0};
        pl_learned *one = fit(w, options[i], &c, &files[0]),
                   *two = fit(w, options[i], &again, &files[1]);
        if (!(c.last < 0.8 * c.first))
            printf("    %s: loss from %g to %g\n", options[i], c.first, c.last);
        CHECK(c.last < 0.8 * c.first);
        CHECK(files[0].size == files[1].size &&
              memcmp(files[0].bytes, files[1].bytes, files[0].size) == 0);
        pl_learned *read = reopen(&files[0], NULL);
        if (read) pl_learner_network.save(read, &files[2]);
        CHECK(files[0].size == files[2].size &&
              memcmp(files[0].bytes, files[2].bytes, files[0].size) == 0);
        float before[COUNT], after[COUNT];
        if (one && read) {
            CHECK_INT(pl_learner_network.predict(one, &w->samples, before, NULL), PL_OK);
            CHECK_INT(pl_learner_network.predict(read, &w->samples, after, NULL), PL_OK);
            CHECK(memcmp(before, after, sizeof before) == 0);
            /* A sample alone is predicted as it is among others. */
            int apart = 0;
            for (size_t s = 0; s < COUNT; s++) {
                pl_samples alone = w->samples;
                alone.count = 1;
                alone.values += s * COLUMNS;
                alone.begin += s;
                float value;
                pl_learner_network.predict(one, &alone, &value, NULL);
                apart += memcmp(&value, &before[s], sizeof value) != 0;
            }
            CHECK_INT(apart, 0);
        }
        pl_learner_network.close(&one);
        pl_learner_network.close(&two);
        pl_learner_network.close(&read);
        for (size_t f = 0; f < 3; f++) free(files[f].bytes);
    }
    free(w);
}

/* A batch cut among lanes has the gradient of the whole one. */
static void two_lanes_learn_what_one_does(void) {
    world *w = malloc(sizeof *w);
    if (!w) return;
    make_world(w);
    float out[2][COUNT];
    for (int threads = 1; threads <= 2; threads++) {
        char options[200];
        snprintf(options, sizeof options,
                 "epochs=2 batch=30 rate=0.01 clip=0.5 threads=%d "
                 "net=gru:6,encoder:2:8,mean,append,linear",
                 threads);
        curve c;
        pl_learned *learned = fit(w, options, &c, NULL);
        if (learned) pl_learner_network.predict(learned, &w->samples, out[threads - 1], NULL);
        pl_learner_network.close(&learned);
    }
    float apart = 0;
    for (size_t i = 0; i < COUNT; i++) apart = fmaxf(apart, fabsf(out[0][i] - out[1][i]));
    if (apart > 1e-4f) printf("    %g\n", (double)apart);
    CHECK(apart <= 1e-4f);
    free(w);
}

static void classifies(void) {
    world *w = malloc(sizeof *w);
    if (!w) return;
    make_world(w);
    for (pl_samples *s = &w->samples; s; s = s == &w->samples ? &w->valid : NULL) {
        s->targets = NULL;
        s->classes = w->classes;
        s->class_count = 3;
    }
    curve c;
    pl_learned *learned =
        fit(w,
            "epochs=60 batch=16 rate=0.01 net=bigru:8,mean,append,linear:16,relu,linear "
            "smoothing=0.05 ordinal=0.05 balance=1",
            &c, NULL);
    static float out[COUNT * 3];
    int right = 0;
    if (learned) {
        CHECK_INT(learned->outputs, 3);
        CHECK_INT(pl_learner_network.predict(learned, &w->samples, out, NULL), PL_OK);
        for (size_t i = 0; i < COUNT; i++) {
            int32_t most = 0;
            for (int32_t k = 1; k < 3; k++)
                if (out[i * 3 + (size_t)k] > out[i * 3 + (size_t)most]) most = k;
            right += most == w->classes[i];
        }
    }
    CHECK(right > COUNT * 9 / 10);
    pl_learner_network.close(&learned);
    w->classes[5] = 3;
    pl_error err = PL_SIZED(pl_error);
    pl_learn_settings settings = {.options = "", .seed = 1};
    CHECK_INT(pl_learner_network.train(&learned, &w->samples, &settings, &err), PL_INPUT);
    CHECK(strstr(err.message, "sample 6") != NULL);
    free(w);
}

/* A rate so high that the loss swings: the weights kept are those of the best epoch. */
static void stops_early_at_its_best(void) {
    world *w = malloc(sizeof *w);
    if (!w) return;
    make_world(w);
    curve c;
    pl_learned *learned =
        fit(w, "epochs=400 batch=16 rate=0.05 patience=4 net=linear:16,relu,linear", &c, NULL);
    CHECK(c.points < 400);
    float out[COUNT];
    double loss = 0;
    if (learned) pl_learner_network.predict(learned, &w->samples, out, NULL);
    for (size_t i = 0; learned && i < COUNT; i++)
        loss += ((double)out[i] - (double)w->targets[i]) *
                ((double)out[i] - (double)w->targets[i]) / COUNT;
    CHECK(fabs(loss - c.least) < 1e-5);
    pl_learner_network.close(&learned);
    free(w);
}

static void bad_options_are_reported(void) {
    static const struct {
        const char *options, *says;
    } bad[] = {
        {"net=linear:0,linear", "width"},
        {"net=linear:3", "should give 1"},
        {"net=", "no value"},
        {"net=linear:4,,linear", "no such layer"},
        {"net=linear:4:5,linear", "too many"},
        {"net=linear:4:wide,linear", "knows"},
        {"net=convolution:3,linear", "no such layer"},
        {"net=linear:4,gru:3,last,linear", "wants a sequence"},
        {"net=steps,linear:4", "pool it"},
        {"net=linear:4,tokens:3,mean,linear", "only stand first"},
        {"net=steps,encoder:2:8,mean,linear", "divide"},
        {"net=steps,encoder:2,mean,linear", "not given"},
        {"net=steps,flatten,linear", "differ"},
        {"net=embedding:5:3:2,mean,linear", "channel"},
        {"net=linear:8192,linear:8192,linear", "too many weights"},
        {"net=dropout:1.5,linear", "share"},
        {"net=linear|", "0 layers"},
        {"loss=hinge", "hinge"},
        {"loss=cross-entropy", "cross-entropy"},
        {"store=int4", "int4"},
        {"epochs=0", "epochs"},
        {"rate=fast", "rate"},
        {"depth=4", "depth"},
    };
    world *w = malloc(sizeof *w);
    if (!w) return;
    make_world(w);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pl_error err = {0}; /* of this one */
        pl_learned *learned = NULL;
        pl_learn_settings settings = {.options = bad[i].options, .seed = 1};
        pl_status status = pl_learner_network.train(&learned, &w->samples, &settings, &err);
        CHECK_INT(status, PL_USAGE);
        CHECK(learned == NULL);
        if (!strstr(err.message, bad[i].says) && !strstr(err.where, bad[i].says)) {
            printf("    %s: says '%s: %s'\n", bad[i].options, err.where, err.message);
            CHECK_STR(err.message, bad[i].says);
        }
        pl_learner_network.close(&learned);
    }
    w->values[0] = 3e38f; /* what overflows is reported, and not learnt */
    pl_error err = {0};
    pl_learned *none = NULL;
    pl_learn_settings overflow = {.options = "net=linear:64,linear epochs=3", .seed = 1};
    CHECK_INT(pl_learner_network.train(&none, &w->samples, &overflow, &err), PL_USAGE);
    CHECK(none == NULL && strstr(err.message, "finite"));
    w->values[0] = 1;
    char *many = malloc(6000);
    if (many) { /* too long a text is refused, not cut */
        memcpy(many, "net=linear", 11);
        for (size_t i = 0; i < 900; i++) strcat(many, "|relu");
        pl_learn_settings settings = {.options = many, .seed = 1};
        pl_learned *learned;
        CHECK_INT(pl_learner_network.train(&learned, &w->samples, &settings, NULL), PL_USAGE);
    }
    free(many);
    /* Other samples than it was trained on. */
    curve c;
    pl_learned *learned = fit(w, "epochs=1 net=gru:3,last,linear", &c, NULL);
    float out[COUNT];
    pl_samples other = w->samples;
    other.columns = 3;
    CHECK_INT(pl_learner_network.predict(learned, &other, out, NULL), PL_INPUT);
    other = w->samples;
    other.channels = 2;
    CHECK_INT(pl_learner_network.predict(learned, &other, out, NULL), PL_INPUT);
    pl_learner_network.close(&learned);
    free(w);
}

/* ---- hostile files ---- */

static void hostile_files_are_refused(void) {
    world *w = malloc(sizeof *w);
    if (!w) return;
    make_world(w);
    static const char *const stores[] = {"f32", "f16", "int8"};
    for (size_t s = 0; s < 3; s++) {
        char options[200];
        snprintf(
            options, sizeof options,
            "epochs=1 store=%s net=linear:6,batchnorm,relu,linear|gru:3,encoder:1:4,last,linear",
            stores[s]);
        curve c;
        pl_writer file = {0};
        pl_learned *learned = fit(w, options, &c, &file);
        pl_learner_network.close(&learned);
        const char *failure;
        /* Cut short anywhere. */
        for (size_t size = 0; size < file.size; size++) {
            pl_writer cut = {.bytes = file.bytes, .size = size};
            learned = reopen(&cut, &failure);
            CHECK(learned == NULL && failure != NULL);
            pl_learner_network.close(&learned);
        }
        /* Bytes changed: an error, or a network that still predicts. */
        pl_random random = pl_random_seed(s, 9);
        unsigned char *copy = malloc(file.size);
        float out[COUNT];
        int refused = 0;
        for (int round = 0; copy && round < 3000; round++) {
            memcpy(copy, file.bytes, file.size);
            size_t head = round % 2 ? file.size : 100;
            for (uint32_t n = 1 + pl_random_below(&random, 4); n; n--)
                copy[pl_random_below(&random, (uint32_t)head)] =
                    (unsigned char)pl_random_u32(&random);
            pl_reader reader = {.bytes = copy, .size = file.size};
            learned = pl_learner_network.load(&reader, COLUMNS, CHANNELS);
            refused += !learned;
            CHECK((learned == NULL) == (reader.failure != NULL));
            if (learned && learned->outputs == 1)
                pl_learner_network.predict(learned, &w->samples, out, NULL);
            pl_learner_network.close(&learned);
        }
        CHECK(refused > 500);
        free(copy);
        free(file.bytes);
    }
    /* A text that asks for more than the file can hold, and ones that make no sense. */
    static const char *const texts[] = {"linear:8192,linear:4000,linear",
                                        "",
                                        "|",
                                        "linear:2",
                                        "encoder:4:4,mean,linear",
                                        "linear:99999999999999999999",
                                        "\xff\xfe",
                                        "embedding:0:65536:8192,mean,linear"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pl_writer file = {0};
        pl_write_u32(&file, 1);
        pl_write_u32(&file, 1);
        pl_write_u32(&file, 0);
        pl_write_text(&file, texts[i]);
        for (int k = 0; k < 100; k++) pl_write_f32(&file, 1);
        const char *failure;
        pl_learned *learned = reopen(&file, &failure);
        CHECK(learned == NULL && failure != NULL);
        pl_learner_network.close(&learned);
        free(file.bytes);
    }
    free(w);
}

int main(void) {
    RUN(every_kind_is_here);
    RUN(gradients_hold);
    RUN(chain_gradients_hold);
    RUN(predicting_is_training_without_noise);
    RUN(equal_to_pytorch);
    RUN(causal_layers_do_not_look_ahead);
    RUN(dropout_drops_its_share);
    RUN(losses_hold);
    RUN(adam_by_hand);
    RUN(learns_repeats_and_reopens);
    RUN(two_lanes_learn_what_one_does);
    RUN(classifies);
    RUN(stops_early_at_its_best);
    RUN(bad_options_are_reported);
    RUN(hostile_files_are_refused);
    return check_done();
}
