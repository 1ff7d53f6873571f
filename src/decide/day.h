/* day: what the parts of a simulated day share: the jobs (day_jobs.c), the cards as a policy sees them (day_cards.c),
 * what is summed up (day_figures.c), and the events (day.c). Bytes and seconds are doubles; cards and jobs numbers. */
#ifndef PL_DECIDE_DAY_H
#define PL_DECIDE_DAY_H

#include "core/budget.h"
#include "core/error.h"
#include "decide/cluster.h"
#include "decide/sizes.h"
#include "decide/arrivals.h"

/* ---- jobs ---- */

typedef struct pl_day_job {
    double truth;         /* bytes that it takes */
    double guess;         /* that its user asks for */
    double submit, work;  /* seconds; work: alone on its cards */
    double since, left;   /* while it runs: work that was left at that time */
    double start, waited; /* of the last run; in the queue, all times */
    double slowdown;      /* now, of the slowest of its cards */
    int32_t *cards;       /* gpus of them; while it runs */
    int32_t one;          /* cards of a job of one */
    int32_t kind, gpus;
    int32_t before, behind; /* in the queue; -1: none */
    uint32_t version;       /* of its events: older ones are void */
    uint32_t tried;         /* the last round of frees after which all cards were tried */
    int32_t crashes;
    bool asks_whole; /* its user does */
    bool runs, alone, at_peak, done;
} pl_day_job;

/* A job for each of the trace's, which are the same whatever the policy: kind and truth by the seed, what its user
 * asks for. usable: of the largest card. A job that cannot run is done already. */
pl_status pl_day_jobs_make(pl_day_job **out, pl_day_outcome *outcome, const pl_arrivals *trace,
                           const pl_sizes *sizes, const pl_day_settings *settings, double usable,
                           const pl_cluster *cluster, pl_error *err);

/* ---- cards ---- */

typedef struct pl_day_seat {
    int32_t job;
    double slowdown; /* on this card */
} pl_day_seat;

typedef struct pl_day_card {
    double usable;
    double left; /* usable less what the policy believes of those on it */
    double most; /* of those on it, no more than that, as the policy has it */
    double held; /* by those at their peaks */
    double sm;   /* share of its multiprocessors' time */
    pl_day_seat *seats;
    int32_t count, room;
    int32_t class; /* cards of the same usable */
    uint64_t mix;  /* of the kinds on it, in any order */
    uint32_t version;
    pl_sharing sharing;
    bool whole; /* whose job shares with none */
} pl_day_card;

typedef enum pl_day_policy {
    DAY_EXCLUSIVE,
    DAY_REQUESTED,
    DAY_ORACLE,
    DAY_ESTIMATOR
} pl_day_policy;

typedef struct pl_day_cards pl_day_cards;

/* by: of DAY_ESTIMATOR, of the sizes'. Kept by pointer: settings, sizes, jobs. */
pl_status pl_day_cards_open(pl_day_cards **out, const pl_cluster *cluster, pl_sizes *sizes,
                            pl_day_job *jobs, pl_day_policy policy, int by,
                            const pl_day_settings *settings, pl_error *err);
void pl_day_cards_close(pl_day_cards **cards);
size_t pl_day_cards_count(const pl_day_cards *cards);
const pl_day_card *pl_day_cards_at(const pl_day_cards *cards, int32_t card);
/* Whether the policy has it fit as many empty cards as it needs; else it must run alone. */
bool pl_day_cards_fit(pl_day_cards *cards, int32_t job);
/* Where the job may go: job->gpus cards into `chosen`, the best first. only: cards to choose from, count of them;
 * NULL: all. False: nowhere. */
bool pl_day_cards_choose(pl_day_cards *cards, int32_t job, const int32_t *only, size_t count,
                         int32_t *chosen);
/* The job comes to a card, or goes; slowdowns of those on it are new. False: out of memory. */
bool pl_day_cards_put(pl_day_cards *cards, int32_t card, int32_t job);
void pl_day_cards_take(pl_day_cards *cards, int32_t card, int32_t job);
/* Of the job on that card. */
double pl_day_cards_slowdown(const pl_day_cards *cards, int32_t card, int32_t job);
/* It takes its peak on that card from now on, or no longer. */
void pl_day_cards_hold(pl_day_cards *cards, int32_t card, double bytes);
/* The share of the card's multiprocessors that those on it keep busy, anew; returns the change. */
double pl_day_cards_busy(pl_day_cards *cards, int32_t card);
int64_t pl_day_cards_unknown(const pl_day_cards *cards); /* pairs without times that were met */

/* ---- figures ---- */

enum { DAY_POINTS = 96 };

/* Sums over time, in stretches whose number doubles and is halved. */
typedef struct pl_day_sums {
    double width; /* seconds of a stretch */
    size_t count;
    double now;
    double cards, bytes, sm, waiting; /* at present */
    double sum[2 * DAY_POINTS][4];
} pl_day_sums;

void pl_day_sums_start(pl_day_sums *sums, double width);
void pl_day_sums_go(pl_day_sums *sums, double now); /* time passes */
/* What is summed up of the jobs when all are done, and of the sums over time. */
pl_status pl_day_figures(pl_day_outcome *o, pl_day_point points[DAY_POINTS], size_t *point_count,
                         const pl_day_sums *sums, const pl_day_job *jobs, size_t count,
                         size_t cards, double usable, pl_error *err);

#endif
