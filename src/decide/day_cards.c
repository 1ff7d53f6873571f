/* day_cards: the cards of a simulated day, as a policy sees them: what it believes that those on a card take, the risk
 * of one more, how much slower each gets.
 *
 * The decision is pl_place's with PL_PACK: of the cards where no more than the accepted risk is run of those on it and
 * the job taking more than it has (of an estimate without an interval: where their sum is no more than it has), and
 * where nobody gets slower than is allowed, the one that has the least left. It is made fast by what does
 * not change: points of each kind's interval, the sum of each card until a job comes or goes, and the risk of a kind
 * beside others, wherever these are met again. tests/day.c holds it against pl_place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decide/day.h"
#include "decide/spread.h"

enum { MOST_CLASSES = 64, MEMO = 1 << 18, MOST_SPREADS = 4096 };

typedef struct known_risk {
    uint64_t key; /* 0: none */
    double risk;
} known_risk;

typedef struct card_spread {
    int32_t card; /* -1: none */
    uint32_t version;
    pl_spread sum;
} card_spread;

typedef struct class {
    double usable, width;
    int64_t count;             /* of cards */
    pl_spread_points **points; /* by kind; NULL: not yet made */
} class;

struct pl_day_cards {
    pl_day_card *list;
    int32_t *order; /* cards by what is left, then by number */
    size_t count, empty;
    class classes[MOST_CLASSES];
    int class_count;
    pl_sizes *sizes;
    pl_day_job *jobs;
    const pl_day_settings *settings;
    pl_day_policy policy;
    int by;
    bool intervals;
    known_risk *memo;
    card_spread **spreads; /* by card modulo their number */
    size_t spread_count;
    int64_t unknown;
};

size_t pl_day_cards_count(const pl_day_cards *c) {
    return c->count;
}

const pl_day_card *pl_day_cards_at(const pl_day_cards *c, int32_t card) {
    return &c->list[card];
}

int64_t pl_day_cards_unknown(const pl_day_cards *c) {
    return c->unknown;
}

/* ---- what a policy believes ---- */

static pl_span belief(const pl_day_cards *c, const pl_day_job *j) {
    if (c->policy == DAY_REQUESTED) return (pl_span){j->guess, j->guess, j->guess};
    if (c->policy == DAY_ESTIMATOR) return c->sizes->kinds[j->kind].said[c->by];
    return (pl_span){j->truth, j->truth, j->truth};
}

static bool takes_whole(const pl_day_cards *c, const pl_day_job *j) {
    return c->policy == DAY_EXCLUSIVE || j->alone || (c->policy == DAY_REQUESTED && j->asks_whole);
}

static const pl_spread_points *points_of(pl_day_cards *c, const class *of, int32_t kind) {
    pl_spread_points **at = &of->points[kind];
    if (*at) return *at;
    pl_spread_points *p = malloc(sizeof *p);
    if (!p) return NULL;
    const pl_span *s = &c->sizes->kinds[kind].said[c->by];
    pl_spread_points_of(p, of->width, s->low, s->peak, s->high, 1);
    return *at = p;
}

/* ---- risk ---- */

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t mix_of(int32_t kind) {
    return mixed((uint64_t)kind + UINT64_C(0x9e3779b97f4a7c15));
}

static int seats_of(const pl_day_cards *c, const pl_day_card *card, int32_t kind) {
    int count = 0;
    for (int32_t i = 0; i < card->count; i++) count += c->jobs[card->seats[i].job].kind == kind;
    return count;
}

static bool first_of_kind(const pl_day_cards *c, const pl_day_card *card, int32_t seat) {
    int32_t kind = c->jobs[card->seats[seat].job].kind;
    for (int32_t i = 0; i < seat; i++)
        if (c->jobs[card->seats[i].job].kind == kind) return false;
    return true;
}

static bool put_kind(pl_day_cards *c, pl_spread *s, const class *of, int32_t kind, int times) {
    if (times == 1) {
        const pl_spread_points *p = points_of(c, of, kind);
        if (p) pl_spread_put(s, p);
        return p != NULL;
    }
    const pl_span *said = &c->sizes->kinds[kind].said[c->by];
    pl_spread_add(s, said->low, said->peak, said->high, times);
    return true;
}

/* What those on the card take, but those of one kind (-1: all); errors of one kind are one. */
static bool sum_up(pl_day_cards *c, pl_spread *s, const pl_day_card *card, int32_t but) {
    const class *of = &c->classes[card->class];
    pl_spread_start(s, fmax(card->usable, 1));
    for (int32_t i = 0; i < card->count; i++) {
        int32_t kind = c->jobs[card->seats[i].job].kind;
        if (kind == but || !first_of_kind(c, card, i)) continue;
        if (!put_kind(c, s, of, kind, seats_of(c, card, kind))) return false;
    }
    return true;
}

static card_spread *spread_of(pl_day_cards *c, int32_t card) {
    card_spread **at = &c->spreads[(size_t)card % c->spread_count];
    if (!*at) {
        *at = malloc(sizeof **at);
        if (*at) (*at)->card = -1;
    }
    return *at;
}

/* NAN: out of memory. */
static double made_risk(pl_day_cards *c, int32_t at, int32_t kind) {
    const pl_day_card *card = &c->list[at];
    const class *of = &c->classes[card->class];
    int alike = seats_of(c, card, kind);
    if (alike) {
        pl_spread others;
        pl_spread_points more;
        const pl_span *said = &c->sizes->kinds[kind].said[c->by];
        if (!sum_up(c, &others, card, kind)) return NAN;
        pl_spread_points_of(&more, of->width, said->low, said->peak, said->high, alike + 1);
        return pl_spread_above_with(&others, &more, card->usable);
    }
    const pl_spread_points *p = points_of(c, of, kind);
    card_spread *s = spread_of(c, at);
    if (!p || !s) return NAN;
    if (s->card != at || s->version != card->version) {
        if (!sum_up(c, &s->sum, card, -1)) return NAN;
        s->card = at;
        s->version = card->version;
    }
    return pl_spread_above_with(&s->sum, p, card->usable);
}

static double most_of(pl_day_cards *c, const class *of, int32_t kind) {
    const pl_spread_points *p = points_of(c, of, kind);
    return p ? p->bin[p->count - 1] * of->width : INFINITY;
}

/* Whether the policy has the job fit beside those on the card, of which there may be none. */
static bool fits(pl_day_cards *c, int32_t at, const pl_day_job *j, const pl_span *said) {
    pl_day_card *card = &c->list[at];
    if (said->peak > card->left) return false;
    if (!c->intervals) return true;
    if (card->most + most_of(c, &c->classes[card->class], j->kind) <= card->usable) return true;
    uint64_t key = mixed(card->mix ^ mixed(mix_of(j->kind) + (uint64_t)card->class)) | 1;
    known_risk *known = &c->memo[key % MEMO];
    if (known->key != key) {
        double risk = made_risk(c, at, j->kind);
        if (!(risk >= 0)) return false;
        *known = (known_risk){key, risk};
    }
    return known->risk <= c->settings->risk;
}

/* ---- slowdowns ---- */

/* What it costs a job to have the other beside it: how much longer its step takes, over alone. */
static double cost_of(pl_day_cards *c, const pl_day_card *card, int32_t job, int32_t beside,
                      bool *known) {
    const pl_job_kind *kinds = c->sizes->kinds;
    double slow = pl_sizes_slowdown(c->sizes, &kinds[c->jobs[job].kind],
                                    &kinds[c->jobs[beside].kind], card->sharing, known);
    return slow - 1;
}

static double cost(pl_day_cards *c, const pl_day_card *card, int32_t job, int32_t beside) {
    bool known;
    return cost_of(c, card, job, beside, &known);
}

static bool slow_enough(pl_day_cards *c, const pl_day_card *card, int32_t job) {
    double most = c->settings->most_slowdown, own = 1;
    if (!isfinite(most)) return false;
    for (int32_t i = 0; i < card->count; i++) {
        const pl_day_seat *s = &card->seats[i];
        own += cost(c, card, job, s->job);
        if (own > most || s->slowdown + cost(c, card, s->job, job) > most) return true;
    }
    return false;
}

/* ---- choosing ---- */

static bool may_join(pl_day_cards *c, int32_t at, int32_t job, const pl_span *said) {
    const pl_day_card *card = &c->list[at];
    const pl_day_job *j = &c->jobs[job];
    int64_t most = c->settings->most_jobs;
    return !card->whole && (!most || card->count < most) && fits(c, at, j, said) &&
           !slow_enough(c, card, job);
}

/* Empty cards that hold what the job takes, the smallest first. */
static bool choose_whole(pl_day_cards *c, const pl_day_job *j, const int32_t *only, size_t count,
                         int32_t *chosen) {
    int32_t got = 0;
    if ((size_t)j->gpus > c->empty) return false;
    while (got < j->gpus) {
        int32_t best = -1;
        for (size_t i = 0; i < count; i++) {
            int32_t at = only ? only[i] : (int32_t)i;
            const pl_day_card *card = &c->list[at];
            if (card->count || card->usable < j->truth) continue;
            bool taken = false;
            for (int32_t k = 0; k < got && !taken; k++) taken = chosen[k] == at;
            if (taken || (best >= 0 && card->usable >= c->list[best].usable)) continue;
            best = at;
            if (c->class_count == 1) break; /* the first is as good as any */
        }
        if (best < 0) return false;
        chosen[got++] = best;
    }
    return true;
}

/* ---- by what is left ---- */

static bool before(const pl_day_cards *c, int32_t a, double left, int32_t card) {
    double has = c->list[a].left;
    return has < left || (has == left && a < card);
}

/* Where in the order a card with so much left stands, or would. */
static size_t place_of(const pl_day_cards *c, double left, int32_t card) {
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (before(c, c->order[middle], left, card))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The card has so much left from now on, and moves. */
static void set_left(pl_day_cards *c, int32_t card, double left) {
    size_t from = place_of(c, c->list[card].left, card), to = place_of(c, left, card);
    int32_t *o = c->order;
    if (to > from) to--; /* counted without itself */
    if (to > from)
        memmove(&o[from], &o[from + 1], (to - from) * sizeof *o);
    else
        memmove(&o[to + 1], &o[to], (from - to) * sizeof *o);
    o[to] = card;
    c->list[card].left = left;
}

/* Of a few cards, the one with the least left that the job may join; -1: none. */
static int32_t best_of(pl_day_cards *c, int32_t job, const pl_span *said, const int32_t *only,
                       size_t count) {
    int32_t best = -1;
    for (size_t i = 0; i < count; i++) {
        if (best >= 0 && !before(c, only[i], c->list[best].left, best)) continue;
        if (may_join(c, only[i], job, said)) best = only[i];
    }
    return best;
}

bool pl_day_cards_choose(pl_day_cards *c, int32_t job, const int32_t *only, size_t count,
                         int32_t *chosen) {
    const pl_day_job *j = &c->jobs[job];
    pl_span said = belief(c, j);
    if (takes_whole(c, j)) return choose_whole(c, j, only, only ? count : c->count, chosen);
    if (only && j->gpus == 1) {
        chosen[0] = best_of(c, job, &said, only, count);
        return chosen[0] >= 0;
    }
    int32_t got = 0;
    size_t need = (size_t)j->gpus;
    for (size_t i = place_of(c, said.peak, -1); i + need <= c->count + (size_t)got; i++) {
        int32_t at = c->order[i];
        if (may_join(c, at, job, &said)) chosen[got++] = at;
        if (got == j->gpus) return true;
    }
    return false;
}

bool pl_day_cards_fit(pl_day_cards *c, int32_t job) {
    const pl_day_job *j = &c->jobs[job];
    pl_span said = belief(c, j);
    int64_t enough = 0;
    if (takes_whole(c, j)) return true;
    if (!(said.peak >= 0)) return false;
    for (int k = 0; k < c->class_count; k++) {
        const class *of = &c->classes[k];
        bool fit = said.peak <= of->usable;
        if (fit && c->intervals) {
            const pl_spread_points *p = points_of(c, of, j->kind);
            double above = p ? 0 : 1;
            for (int i = 0; p && i < p->count; i++)
                if (p->bin[i] * of->width > of->usable) above += p->chance[i];
            fit = above <= c->settings->risk;
        }
        enough += fit ? of->count : 0;
    }
    return enough >= j->gpus;
}

/* ---- coming and going ---- */

bool pl_day_cards_put(pl_day_cards *c, int32_t at, int32_t job) {
    pl_day_card *card = &c->list[at];
    pl_day_job *j = &c->jobs[job];
    if (card->count == card->room) {
        int32_t room = card->room ? 2 * card->room : 2;
        void *more = realloc(card->seats, (size_t)room * sizeof *card->seats);
        if (!more) return false;
        card->seats = more;
        card->room = room;
    }
    double own = 1;
    for (int32_t i = 0; i < card->count; i++) {
        pl_day_seat *s = &card->seats[i];
        bool known = true;
        s->slowdown += cost_of(c, card, s->job, job, &known);
        own += cost_of(c, card, job, s->job, &known);
        c->unknown += !known;
    }
    card->whole = takes_whole(c, j);
    pl_span said = belief(c, j);
    set_left(c, at, card->whole ? -1 : card->left - said.peak); /* -1: nobody is to join */
    if (c->intervals && !card->whole) card->most += most_of(c, &c->classes[card->class], j->kind);
    c->empty -= card->count == 0;
    card->seats[card->count++] = (pl_day_seat){job, own};
    card->mix += mix_of(j->kind);
    card->version++;
    return true;
}

void pl_day_cards_take(pl_day_cards *c, int32_t at, int32_t job) {
    pl_day_card *card = &c->list[at];
    const pl_day_job *j = &c->jobs[job];
    int32_t k = 0;
    while (k < card->count && card->seats[k].job != job) k++;
    if (k == card->count) return;
    memmove(&card->seats[k], &card->seats[k + 1],
            (size_t)(card->count - k - 1) * sizeof *card->seats);
    card->count--;
    card->mix -= mix_of(j->kind);
    card->version++;
    pl_span said = belief(c, j);
    if (card->count == 0) { /* no sum of differences remains */
        set_left(c, at, card->usable);
        card->most = 0;
        card->whole = false;
        c->empty++;
        return;
    }
    set_left(c, at, card->left + said.peak);
    if (c->intervals) card->most -= most_of(c, &c->classes[card->class], j->kind);
    for (int32_t i = 0; i < card->count; i++) {
        pl_day_seat *s = &card->seats[i];
        s->slowdown = card->count == 1 ? 1 : fmax(1, s->slowdown - cost(c, card, s->job, job));
    }
}

double pl_day_cards_slowdown(const pl_day_cards *c, int32_t at, int32_t job) {
    const pl_day_card *card = &c->list[at];
    for (int32_t i = 0; i < card->count; i++)
        if (card->seats[i].job == job) return card->seats[i].slowdown;
    return 1;
}

void pl_day_cards_hold(pl_day_cards *c, int32_t at, double bytes) {
    c->list[at].held += bytes;
}

double pl_day_cards_busy(pl_day_cards *c, int32_t at) {
    pl_day_card *card = &c->list[at];
    double before = card->sm, busy = 0;
    for (int32_t i = 0; i < card->count; i++) {
        const pl_day_job *j = &c->jobs[card->seats[i].job];
        double smact = c->sizes->kinds[j->kind].demand.smact;
        if (isfinite(smact)) busy += smact / 100 / j->slowdown;
    }
    card->sm = fmin(1, busy);
    return card->sm - before;
}

/* ---- open and close ---- */

/* The class of a card that has so much; -1: there are too many. */
static int class_of(pl_day_cards *c, double usable) {
    for (int k = 0; k < c->class_count; k++)
        if (c->classes[k].usable == usable) {
            c->classes[k].count++;
            return k;
        }
    if (c->class_count == MOST_CLASSES) return -1;
    class *of = &c->classes[c->class_count];
    *of = (class){.usable = usable,
                  .width = pl_spread_width(fmax(usable, 1)),
                  .count = 1,
                  .points = calloc(c->sizes->count, sizeof *of->points)};
    return of->points ? c->class_count++ : -1;
}

static pl_status fill(pl_day_cards *c, const pl_cluster *cluster, pl_error *err) {
    for (size_t i = 0; i < cluster->count; i++) {
        const pl_card *from = &cluster->cards[i];
        pl_day_card *card = &c->list[i];
        if (from->count)
            return pl_fail(err, PL_USAGE, "cluster", -1,
                           "the day begins with empty cards, and on %.100s there are jobs",
                           from->name);
        card->usable = card->left = (double)pl_card_usable(from);
        card->sharing = from->sharing;
        card->class = class_of(c, card->usable);
        if (card->class < 0)
            return pl_fail(err, PL_USAGE, "cluster", -1,
                           "more than %d sizes of cards, or out of memory", MOST_CLASSES);
    }
    c->count = c->empty = cluster->count;
    double last = -1;
    for (size_t n = 0; n < c->count;) { /* the next larger class, in the cards' order */
        double next = INFINITY;
        for (int k = 0; k < c->class_count; k++)
            if (c->classes[k].usable > last) next = fmin(next, c->classes[k].usable);
        for (size_t i = 0; i < c->count; i++)
            if (c->list[i].usable == next) c->order[n++] = (int32_t)i;
        last = next;
    }
    return PL_OK;
}

pl_status pl_day_cards_open(pl_day_cards **out, const pl_cluster *cluster, pl_sizes *sizes,
                            pl_day_job *jobs, pl_day_policy policy, int by,
                            const pl_day_settings *settings, pl_error *err) {
    pl_day_cards *c = calloc(1, sizeof *c);
    pl_status status = PL_OK;
    *out = NULL;
    if (c) {
        c->sizes = sizes;
        c->jobs = jobs;
        c->policy = policy;
        c->by = by;
        c->settings = settings;
        c->intervals = policy == DAY_ESTIMATOR && sizes->intervals[by];
        c->spread_count = cluster->count < MOST_SPREADS ? cluster->count : MOST_SPREADS;
        c->list = calloc(cluster->count, sizeof *c->list);
        c->order = calloc(cluster->count, sizeof *c->order);
        c->memo = calloc(MEMO, sizeof *c->memo);
        c->spreads = calloc(c->spread_count, sizeof(card_spread *));
    }
    if (!c || !c->list || !c->order || !c->memo || !c->spreads)
        status = pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    if (status == PL_OK) status = fill(c, cluster, err);
    if (status == PL_OK)
        *out = c;
    else
        pl_day_cards_close(&c);
    return status;
}

void pl_day_cards_close(pl_day_cards **given) {
    if (!given || !*given) return;
    pl_day_cards *c = *given;
    for (size_t i = 0; c->list && i < c->count; i++) free(c->list[i].seats);
    for (int k = 0; k < c->class_count; k++) {
        for (size_t i = 0; i < c->sizes->count; i++) free(c->classes[k].points[i]);
        free(c->classes[k].points);
    }
    for (size_t i = 0; c->spreads && i < c->spread_count; i++) free(c->spreads[i]);
    free(c->spreads);
    free(c->memo);
    free(c->order);
    free(c->list);
    free(c);
    *given = NULL;
}
