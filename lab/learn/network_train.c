/* network_train: fitting a network's weights to samples.
 *
 * A batch is cut among `threads` lanes, each with a room and gradients of its own, summed in the
 * lanes' order: the same samples, options, seed and number of threads give the same bytes. A
 * network with batch norm has one lane. Each chain of an ensemble is trained by itself. An epoch's
 * samples are shuffled and dealt into batches of near the same size, none above `batch`; sequences
 * are not padded, so that nothing is gained by batching like with like.
 *
 * All a chain needs while it is trained is one block of memory: weights, moments, the lanes'
 * gradients, and room for the largest batch that can occur. */
#include "lab/learn/adam.h"
#include "lab/learn/loss.h"
#include "lab/learn/network.h"
#include "lab/learn/options.h"
#include "lab/learn/random.h"
#include "lend.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LANES_MOST = 16 };

#define TEXT(key)                                                                                  \
    { key, 0, 1, 0, false } /* least above most: a text */
static const pl_option network_options[] = {
    TEXT("net"),   /* the chains; standard below */
    TEXT("loss"),  /* mse, mae, huber; cross-entropy */
    TEXT("store"), /* f32, f16, int8: see network_file.c */
    {"epochs", 100, 1, 100000, true},
    {"batch", 64, 1, 65536, true},      /* samples */
    {"rate", 0.001, 1e-9, 10, false},   /* Adam's */
    {"drop-epoch", 0, 0, 100000, true}, /* after it, the rate times drop-factor; 0: never */
    {"drop-factor", 0.1, 0, 1, false},
    {"cosine", 0, 0, 1, true},          /* 1: the rate falls to 0 along half a cosine */
    {"warmup", 0, 0, 1e9, true},        /* steps over which the rate rises */
    {"l2", 0, 0, 10, false},            /* Adam's weight_decay */
    {"decay", 0, 0, 10, false},         /* AdamW's weight_decay */
    {"clip", 0, 0, 1e9, false},         /* longest gradient; 0: any */
    {"patience", 0, 0, 100000, true},   /* epochs without a better validation loss; 0: all run */
    {"average", 0, 0, 0.999999, false}, /* a moving mean of the weights is kept; 0: none */
    {"huber", 1, 1e-9, 1e9, false},     /* where its square becomes a line */
    {"smoothing", 0, 0, 0.99, false},   /* share of a label spread over all classes */
    {"ordinal", 0, 0, 0.99, false},     /* share of a label on the classes beside it */
    {"balance", 0, 0, 1, true},         /* 1: every class weighs the same */
    {"members", 1, 1, PL_NETWORK_MEMBERS, true}, /* how often all of `net` is repeated */
    {"threads", 1, 1, LANES_MOST, true},
};
enum { OPTIONS = sizeof network_options / sizeof *network_options };
static const char standard_net[] = "linear:64,relu,linear:64,relu,linear";

static double option(const pl_learn_settings *settings, const char *key) {
    return pl_options_number(settings->options, network_options, OPTIONS, key);
}

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

/* ---- the trainer ---- */

struct trainer;

typedef struct lane {
    struct trainer *trainer;
    size_t number;
    pl_gathered gathered;
    float *gradients; /* [weights] */
    float *room;
    float *d_out;    /* [lane's samples, outputs] */
    uint32_t *index; /* [lane's samples] */
    size_t count;    /* samples now */
    double loss;     /* sum of weight * loss of the samples now */
    double squares;  /* of this lane's slice of the gradient */
    pthread_t thread;
    bool started;
} lane;

typedef struct trainer {
    const pl_chain *chain;
    const pl_samples *samples, *valid;
    const pl_kernels *kernels;
    const pl_openblas *blas;
    pl_learn_loss loss;
    pl_adam adam;
    pl_rate_schedule schedule;
    double average;
    uint64_t seed, stream; /* of the dropout's random numbers */
    uint64_t step;
    size_t batch, lane_count, lane_samples; /* at most */
    lane lanes[LANES_MOST];
    float *weights, *mean, *square; /* [weights] each */
    float *averaged, *best;         /* [weights], NULL: not kept */
    float *states, *best_states;    /* [states] */
    const float *judged;            /* the weights that are validated: weights or averaged */
    uint32_t *order, *valid_order;  /* [samples], [valid samples], the latter longest first */
    uint64_t *keys;                 /* to sort a batch */
    double weight_sum;              /* of the batch's samples */
    pl_adam_step now;

    /* The lanes' threads wait for `turn` to grow, run `work` and count down. */
    pthread_mutex_t lock;
    pthread_cond_t begin, done;
    uint64_t turn;
    size_t running;
    void (*work)(lane *);
} trainer;

/* ---- lanes ---- */

static void *lane_thread(void *argument) {
    lane *l = argument;
    trainer *t = l->trainer;
    for (uint64_t seen = 0;;) {
        pthread_mutex_lock(&t->lock);
        while (t->turn == seen) pthread_cond_wait(&t->begin, &t->lock);
        seen = t->turn;
        void (*work)(lane *) = t->work;
        pthread_mutex_unlock(&t->lock);
        if (!work) return NULL;
        work(l);
        pthread_mutex_lock(&t->lock);
        if (--t->running == 0) pthread_cond_signal(&t->done);
        pthread_mutex_unlock(&t->lock);
    }
}

static void announce(trainer *t, void (*work)(lane *)) {
    pthread_mutex_lock(&t->lock);
    t->work = work;
    t->running = t->lane_count - 1;
    t->turn++;
    pthread_cond_broadcast(&t->begin);
    pthread_mutex_unlock(&t->lock);
}

/* Every lane does `work`; the first one here. */
static void all_lanes(trainer *t, void (*work)(lane *)) {
    if (t->lane_count > 1) announce(t, work);
    work(&t->lanes[0]);
    if (t->lane_count == 1) return;
    pthread_mutex_lock(&t->lock);
    while (t->running) pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static pl_status start_lanes(trainer *t, pl_error *err) {
    for (size_t i = 1; i < t->lane_count; i++) {
        if (pthread_create(&t->lanes[i].thread, NULL, lane_thread, &t->lanes[i]) != 0)
            return pl_fail(err, PL_MISSING, "threads", -1, "a thread could not be started");
        t->lanes[i].started = true;
    }
    return PL_OK;
}

static void stop_lanes(trainer *t) {
    announce(t, NULL);
    for (size_t i = 1; i < t->lane_count; i++)
        if (t->lanes[i].started) pthread_join(t->lanes[i].thread, NULL);
}

/* The lane's slice of the weights: from, count. */
static size_t slice(const lane *l, size_t *count) {
    size_t all = l->trainer->chain->weights, each = (all / l->trainer->lane_count + 15) / 16 * 16;
    size_t from = each * l->number < all ? each * l->number : all;
    bool last = l->number + 1 == l->trainer->lane_count;
    *count = last || from + each > all ? all - from : each;
    return from;
}

/* ---- a step ---- */

static pl_net_pass pass_of(lane *l, bool training) {
    trainer *t = l->trainer;
    pl_net_pass pass = {.products = {.kernels = t->kernels, .blas = t->blas},
                        .batch = &l->gathered.batch,
                        .weights = training ? t->weights : t->judged,
                        .states = t->states,
                        .new_states = training ? t->states : NULL,
                        .gradients = l->gradients,
                        .training = training};
    if (training)
        pass.random = pl_random_seed(t->seed, t->stream + t->step * LANES_MOST + l->number);
    return pass;
}

static pl_truth truth_of(const pl_samples *s, size_t i) {
    return (pl_truth){.target = s->targets ? s->targets[i] : 0,
                      .label = s->classes ? s->classes[i] : 0,
                      .shares = s->shares ? s->shares + i * s->class_count : NULL,
                      .weight = s->weights ? s->weights[i] : 1};
}
static float weight_of(const pl_learn_loss *loss, const pl_samples *s, size_t i) {
    pl_truth truth = truth_of(s, i);
    return pl_loss_weight(loss, &truth);
}

/* The lane's share of the batch, there and back. */
static void learn(lane *l) {
    trainer *t = l->trainer;
    const pl_samples *s = t->samples;
    size_t outputs = t->chain->outputs;
    memset(l->gradients, 0, t->chain->weights * sizeof *l->gradients);
    l->loss = 0;
    if (l->count == 0) return;
    pl_network_gather(&l->gathered, t->chain, s, l->index, l->count);
    pl_net_pass pass = pass_of(l, true);
    const float *out = pl_chain_forward(t->chain, &pass, l->gathered.x, l->room);
    float share = t->weight_sum > 0 ? (float)(1 / t->weight_sum) : 0;
    for (size_t i = 0; i < l->count; i++) {
        size_t at = l->index[i];
        float *d = l->d_out + i * outputs;
        pl_truth truth = truth_of(s, at);
        l->loss += pl_loss_row(&t->loss, out + i * outputs, &truth, d);
        for (size_t c = 0; c < outputs; c++) d[c] *= share;
    }
    pl_chain_backward(t->chain, &pass, l->gathered.x, l->d_out, l->room);
}

/* Sums the lanes' gradients over a slice. */
static void reduce(lane *l) {
    trainer *t = l->trainer;
    size_t count, from = slice(l, &count);
    float *sum = t->lanes[0].gradients + from;
    for (size_t i = 1; i < t->lane_count; i++)
        t->kernels->add(sum, t->lanes[i].gradients + from, count);
    l->squares = t->adam.clip > 0 ? pl_adam_squares(sum, count) : 0;
}

static void move(lane *l) {
    trainer *t = l->trainer;
    size_t count, from = slice(l, &count);
    t->kernels->adam(&t->now, t->weights + from, t->lanes[0].gradients + from, t->mean + from,
                     t->square + from, count);
    if (!t->averaged) return;
    /* At first the mean is short, else it would remember where it started. */
    double known = (1 + (double)t->step) / (10 + (double)t->step);
    float keep = (float)fmin(t->average, known);
    float *a = t->averaged + from, *w = t->weights + from;
    for (size_t i = 0; i < count; i++) a[i] = keep * a[i] + (1 - keep) * w[i];
}

static double learn_batch(trainer *t, uint32_t *index, size_t count, double epoch) {
    t->weight_sum = 0;
    for (size_t i = 0; i < count; i++)
        t->weight_sum += (double)weight_of(&t->loss, t->samples, index[i]);
    if (t->chain->takes_steps) pl_network_sort(t->samples, index, count, t->keys);
    for (size_t i = 0; i < t->lane_count; i++) t->lanes[i].count = 0;
    for (size_t i = 0; i < count; i++) { /* in turn: each lane's stay sorted */
        lane *l = &t->lanes[i % t->lane_count];
        l->index[l->count++] = index[i];
    }
    all_lanes(t, learn);
    all_lanes(t, reduce);
    double loss = 0, squares = 0;
    for (size_t i = 0; i < t->lane_count; i++) {
        loss += t->lanes[i].loss;
        squares += t->lanes[i].squares;
    }
    double rate = pl_schedule_rate(&t->schedule, epoch, (double)t->step);
    t->now = pl_adam_next(&t->adam, rate, squares);
    all_lanes(t, move);
    t->step++;
    return loss;
}

/* ---- validation ---- */

static void measure_loss(lane *l) {
    trainer *t = l->trainer;
    const pl_samples *s = t->valid;
    l->loss = 0;
    size_t each = t->lane_samples, outputs = t->chain->outputs;
    for (size_t from = l->number * each; from < s->count; from += each * t->lane_count) {
        size_t count = s->count - from < each ? s->count - from : each;
        pl_network_gather(&l->gathered, t->chain, s, t->valid_order + from, count);
        pl_net_pass pass = pass_of(l, false);
        const float *out = pl_chain_forward(t->chain, &pass, l->gathered.x, l->room);
        for (size_t i = 0; i < count; i++) {
            size_t at = t->valid_order[from + i];
            pl_truth truth = truth_of(s, at);
            l->loss += pl_loss_row(&t->loss, out + i * outputs, &truth, NULL);
        }
    }
}

static double valid_loss(trainer *t) {
    if (!t->valid) return NAN;
    all_lanes(t, measure_loss);
    double loss = 0, weight = 0;
    for (size_t i = 0; i < t->lane_count; i++) loss += t->lanes[i].loss;
    for (size_t i = 0; i < t->valid->count; i++) weight += (double)weight_of(&t->loss, t->valid, i);
    return weight > 0 ? loss / weight : NAN;
}

/* ---- all epochs ---- */

static pl_status run(trainer *t, const pl_learn_settings *settings, size_t member, size_t members,
                     pl_error *err) {
    size_t count = t->samples->count, batches = (count + t->batch - 1) / t->batch;
    int epochs = (int)option(settings, "epochs"), patience = (int)option(settings, "patience");
    t->schedule.steps = (double)epochs * (double)batches;
    double total_weight = 0, best = INFINITY;
    int since = 0;
    for (size_t i = 0; i < count; i++) total_weight += (double)weight_of(&t->loss, t->samples, i);
    if (!(total_weight > 0)) return pl_fail(err, PL_INPUT, "weights", -1, "all samples weigh 0");
    pl_random shuffle = pl_random_seed(t->seed, t->stream - 1);
    for (int epoch = 1; epoch <= epochs; epoch++) {
        double loss = 0;
        for (size_t i = 0; i < count; i++) t->order[i] = (uint32_t)i;
        pl_random_shuffle(&shuffle, t->order, count);
        for (size_t b = 0; b < batches; b++) {
            size_t from = b * count / batches, to = (b + 1) * count / batches;
            if (!pl_budget_poll(settings->budget))
                return pl_budget_fail(err, settings->budget, "network");
            loss += learn_batch(t, t->order + from, to - from, epoch);
        }
        loss /= total_weight;
        if (!isfinite(loss))
            return pl_fail(
                err, PL_USAGE, "rate", -1,
                "the loss is no longer finite in epoch %d: a lower rate, or clip, may help", epoch);
        double valid = valid_loss(t);
        if (settings->progress) {
            pl_epoch at = {.epoch = (int)member * epochs + epoch,
                           .epochs = (int)members * epochs,
                           .train_loss = loss,
                           .valid_loss = valid};
            settings->progress(&at, settings->progress_context);
        }
        if (!t->best) continue;
        if (valid < best) {
            best = valid;
            since = 0;
            memcpy(t->best, t->judged, t->chain->weights * sizeof *t->best);
            memcpy(t->best_states, t->states, t->chain->states * sizeof *t->best_states);
        } else if (++since >= patience)
            break;
    }
    if (t->best && isfinite(best)) {
        memcpy(t->states, t->best_states, t->chain->states * sizeof *t->states);
        memcpy(t->weights, t->best, t->chain->weights * sizeof *t->weights);
    } else if (t->averaged)
        memcpy(t->weights, t->averaged, t->chain->weights * sizeof *t->weights);
    return PL_OK;
}

/* ---- memory ---- */

static int longer(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x > y ? -1 : x < y;
}

/* The largest extent that `most` of the samples can have. */
static bool largest(const pl_chain *chain, const pl_samples *samples, size_t most, pl_extent *out) {
    pl_extent e = {.count = samples->count < most ? samples->count : most};
    if (chain->takes_steps && samples->count) {
        size_t *steps = malloc(samples->count * sizeof *steps);
        if (!steps) return false;
        for (size_t i = 0; i < samples->count; i++) steps[i] = pl_sample_steps(samples, i);
        qsort(steps, samples->count, sizeof *steps, longer);
        e.longest = steps[0];
        for (size_t i = 0; i < e.count; i++) {
            e.rows += steps[i];
            e.squares += steps[i] * steps[i];
        }
        free(steps);
    }
    *out = pl_chain_extent(chain, &e);
    return true;
}

/* Hands out pieces of the block, each on a cache line; measures only while block is NULL. */
typedef struct carver {
    char *block;
    size_t used;
} carver;

static void *piece(carver *c, size_t count, size_t size) {
    char *at = c->block ? c->block + c->used : NULL;
    c->used += (count * size + 63) / 64 * 64;
    return at;
}

static void carve(trainer *t, carver *c, size_t room, size_t rows, bool keep_best) {
    size_t n = t->chain->weights, states = t->chain->states, each = t->lane_samples;
    t->weights = piece(c, n, sizeof(float));
    t->mean = piece(c, n, sizeof(float));
    t->square = piece(c, n, sizeof(float));
    t->averaged = t->average > 0 ? piece(c, n, sizeof(float)) : NULL;
    t->best = keep_best ? piece(c, n, sizeof(float)) : NULL;
    t->states = piece(c, states, sizeof(float));
    t->best_states = piece(c, states, sizeof(float));
    t->order = piece(c, t->samples->count, sizeof(uint32_t));
    t->valid_order = piece(c, t->valid ? t->valid->count : 0, sizeof(uint32_t));
    size_t sorted = t->valid && t->valid->count > t->batch ? t->valid->count : t->batch;
    t->keys = piece(c, sorted, sizeof(uint64_t));
    for (size_t i = 0; i < t->lane_count; i++) {
        lane *l = &t->lanes[i];
        *l = (lane){.trainer = t, .number = i};
        l->gradients = piece(c, n, sizeof(float));
        l->room = piece(c, room, sizeof(float));
        l->d_out = piece(c, each * t->chain->outputs, sizeof(float));
        l->index = piece(c, each, sizeof(uint32_t));
        l->gathered.begin = piece(c, each + 1, sizeof(size_t));
        l->gathered.columns = piece(c, each * t->chain->columns, sizeof(float));
        l->gathered.steps =
            piece(c, t->chain->takes_steps ? rows * t->chain->channels : 0, sizeof(float));
    }
}

/* Takes the block of a trainer whose chain, samples and numbers of lanes are set. */
static char *allocate(trainer *t, bool keep_best, pl_error *err) {
    pl_extent learnt = {0}, judged = {0};
    bool good = largest(t->chain, t->samples, t->lane_samples, &learnt) &&
                (!t->valid || largest(t->chain, t->valid, t->lane_samples, &judged));
    size_t room = good ? pl_chain_room(t->chain, &learnt, true, false) : 0;
    size_t other = good ? pl_chain_room(t->chain, &judged, false, false) : 0;
    if (good && (!room || !other)) {
        pl_fail(err, PL_USAGE, "batch", -1,
                "a batch of %zu samples takes more than 32 GiB: choose a smaller one", t->batch);
        return NULL;
    }
    if (other > room) room = other;
    size_t rows = learnt.rows > judged.rows ? learnt.rows : judged.rows;
    carver measure = {0}, real = {0};
    if (good) carve(t, &measure, room, rows, keep_best);
    real.block = good ? aligned_alloc(64, measure.used) : NULL;
    if (!real.block) {
        no_memory(err);
        return NULL;
    }
    carve(t, &real, room, rows, keep_best);
    return real.block;
}

/* ---- a member ---- */

/* Whether some gradient of weights is large enough for BLAS: see matrix.c. */
static bool wants_blas(const pl_chain *chain) {
    for (size_t i = 0; i < chain->count; i++)
        for (size_t j = 0; j < chain->layers[i].tensor_count; j++) {
            const pl_net_tensor *w = &chain->layers[i].tensors[j];
            if (w->use == PL_MATRIX && w->rows * w->columns >= (size_t)256 * 256) return true;
        }
    return false;
}

static pl_status train_member(pl_network *n, size_t member, const pl_samples *samples,
                              const pl_learn_settings *settings, const pl_learn_loss *loss,
                              pl_error *err) {
    const pl_chain *chain = &n->members[member];
    const pl_samples *valid = settings->valid && settings->valid->count ? settings->valid : NULL;
    trainer t = {
        .chain = chain,
        .samples = samples,
        .valid = valid,
        .kernels = pl_kernels_here(),
        .loss = *loss,
        .adam = {.l2 = option(settings, "l2"),
                 .decay = option(settings, "decay"),
                 .clip = option(settings, "clip")},
        .schedule = {.rate = option(settings, "rate"),
                     .drop_epoch = option(settings, "drop-epoch"),
                     .drop_factor = option(settings, "drop-factor"),
                     .cosine = option(settings, "cosine") > 0,
                     .warmup = option(settings, "warmup")},
        .average = option(settings, "average"),
        .seed = settings->seed,
        .stream = ((uint64_t)member << 48) + 16, /* before it: the weights' and the shuffles' */
        .batch = (size_t)option(settings, "batch"),
    };
    if (t.batch > samples->count) t.batch = samples->count;
    t.lane_count = chain->across_samples ? 1 : (size_t)option(settings, "threads");
    if (t.lane_count > t.batch) t.lane_count = t.batch;
    t.lane_samples = (t.batch + t.lane_count - 1) / t.lane_count;
    if (wants_blas(chain)) {
        pl_status status = pl_blas_open(&t.blas, err);
        if (status != PL_OK) return status;
    }
    bool keep_best = valid && option(settings, "patience") > 0;
    char *block = allocate(&t, keep_best, err);
    if (!block) return err ? err->code : PL_MISSING;

    pl_random random = pl_random_seed(settings->seed, t.stream - 2);
    pl_chain_start(chain, t.weights, t.states, &random);
    memset(t.mean, 0, chain->weights * sizeof *t.mean);
    memset(t.square, 0, chain->weights * sizeof *t.square);
    if (t.averaged) memcpy(t.averaged, t.weights, chain->weights * sizeof *t.averaged);
    t.judged = t.averaged ? t.averaged : t.weights;
    for (size_t i = 0; valid && i < valid->count; i++) t.valid_order[i] = (uint32_t)i;
    if (valid && chain->takes_steps) pl_network_sort(valid, t.valid_order, valid->count, t.keys);

    pl_status status = PL_OK;
    if (pthread_mutex_init(&t.lock, NULL) || pthread_cond_init(&t.begin, NULL) ||
        pthread_cond_init(&t.done, NULL))
        status = no_memory(err);
    if (status == PL_OK) {
        status = start_lanes(&t, err);
        if (status == PL_OK) status = run(&t, settings, member, n->member_count, err);
        stop_lanes(&t);
        pthread_cond_destroy(&t.done);
        pthread_cond_destroy(&t.begin);
        pthread_mutex_destroy(&t.lock);
    }
    if (status == PL_OK) {
        pl_network_round(chain, n->store, t.weights);
        pl_chain_pack(chain, t.weights, n->weights[member]);
        memcpy(pl_network_states(n, member), t.states, chain->states * sizeof *t.states);
    }
    free(block);
    return status;
}

/* ---- the network ---- */

/* `net`, repeated as `members` says. */
static pl_status text_of(const pl_learn_settings *settings, char out[PL_NETWORK_TEXT],
                         pl_error *err) {
    char once[PL_NETWORK_TEXT] = "";
    bool given = pl_options_text(settings->options, "net", once, sizeof once);
    if (!given) memcpy(once, standard_net, sizeof standard_net);
    size_t length = strlen(once), members = (size_t)option(settings, "members");
    bool long_one = !given && strstr(settings->options, "net=");
    if (long_one || (length + 1) * members > PL_NETWORK_TEXT)
        return pl_fail(err, PL_USAGE, "net", -1, "more than %d characters", PL_NETWORK_TEXT - 1);
    for (size_t m = 0; m < members; m++) {
        memcpy(out, once, length);
        out += length;
        *out++ = m + 1 < members ? '|' : 0;
    }
    return PL_OK;
}

static pl_status check_samples(const pl_samples *samples, const pl_samples *valid, pl_error *err) {
    bool classes = samples->class_count > 0;
    if (samples->count == 0) return pl_fail(err, PL_INPUT, NULL, -1, "there are no samples");
    if (samples->count > UINT32_MAX) return pl_fail(err, PL_INPUT, NULL, -1, "too many samples");
    if (classes ? !samples->classes : !samples->targets)
        return pl_fail(err, PL_USAGE, NULL, -1, "the samples say nothing of what is to be learnt");
    if (valid && valid->count &&
        (valid->class_count != samples->class_count ||
         (classes ? !valid->classes : !valid->targets)))
        return pl_fail(err, PL_USAGE, NULL, -1, "the validation samples are of another kind");
    for (const pl_samples *s = samples; s; s = s == samples ? valid : NULL)
        for (size_t i = 0; classes && i < s->count; i++)
            if (s->classes[i] < 0 || (size_t)s->classes[i] >= s->class_count)
                return pl_fail(err, PL_INPUT, NULL, -1, "sample %zu is of class %d of %zu", i + 1,
                               (int)s->classes[i], s->class_count);
    return PL_OK;
}

/* Weights that make every class that occurs count the same: samples / (classes * its samples). */
static float *balanced(const pl_samples *samples) {
    float *weights = calloc(samples->class_count, sizeof *weights);
    size_t occur = 0;
    if (!weights) return NULL;
    for (size_t i = 0; i < samples->count; i++) occur += (weights[samples->classes[i]] += 1) == 1;
    for (size_t c = 0; c < samples->class_count; c++)
        if (weights[c] > 0) weights[c] = (float)samples->count / ((float)occur * weights[c]);
    return weights;
}

pl_status pl_network_train(pl_learned **out, const pl_samples *samples,
                           const pl_learn_settings *settings, pl_error *err) {
    *out = NULL;
    pl_error own; /* so that a status can be read back from it */
    if (!err) err = &own;
    char text[PL_NETWORK_TEXT], word[32];
    pl_status status = pl_options_check(settings->options, network_options, OPTIONS, err);
    if (status == PL_OK) status = check_samples(samples, settings->valid, err);
    if (status == PL_OK) status = text_of(settings, text, err);
    if (status != PL_OK) return status;
    bool classes = samples->class_count > 0;
    pl_learn_loss loss = {.outputs = classes ? samples->class_count : 1,
                          .huber = (float)option(settings, "huber"),
                          .smoothing = (float)option(settings, "smoothing"),
                          .ordinal = (float)option(settings, "ordinal")};
    bool named = pl_options_text(settings->options, "loss", word, sizeof word);
    status = pl_loss_find(&loss.kind, named ? word : NULL, classes, err);
    size_t store = 0;
    if (status == PL_OK && pl_options_text(settings->options, "store", word, sizeof word)) {
        while (store < PL_STORES && strcmp(word, pl_network_stores[store]) != 0) store++;
        if (store == PL_STORES)
            status = pl_fail(err, PL_USAGE, "store", -1, "'%s' is not f32, f16 or int8", word);
    }
    pl_network *n = NULL;
    if (status == PL_OK)
        status = pl_network_open(&n, text, samples->columns, samples->channels, loss.outputs, err);
    if (status != PL_OK) return status;
    n->store = (pl_network_store)store;
    status = pl_network_fits(n, samples, err);
    if (status == PL_OK && settings->valid) status = pl_network_fits(n, settings->valid, err);
    float *weights = NULL;
    if (status == PL_OK && classes && option(settings, "balance") > 0) {
        weights = balanced(samples);
        if (!weights) status = no_memory(err);
        loss.class_weights = weights;
    }
    for (size_t m = 0; m < n->member_count && status == PL_OK; m++)
        status = train_member(n, m, samples, settings, &loss, err);
    free(weights);
    pl_learned *learned = &n->learned;
    if (status != PL_OK) pl_network_close(&learned);
    *out = learned;
    return status;
}
