/* day: a cluster's day, held against figures worked out by hand; what must hold of any day (hours add up, nothing above a
 * card under the oracle, the same again by the same seed); its decisions against pl_place's; traces and sizes that are wrong. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/budget.h"
#include "decide/day.h"

#define GIB ((int64_t)1 << 30)

static bool near(double got, double want) {
    bool is = fabs(got - want) <= 1e-9 * fmax(1, fabs(want));
    if (!is) printf("    is %.12g, should be %.12g\n", got, want);
    return is;
}

static pl_cluster *cluster_of(const char *text) {
    pl_cluster *cluster = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_cluster_open_memory(&cluster, text, strlen(text), "c.json", NULL, &err), PL_OK);
    if (!cluster) printf("    %s\n", err.message);
    return cluster;
}

/* So many cards, on each so many GiB for jobs. */
static pl_cluster *cards_of(int count, int64_t gib) {
    char text[256];
    int64_t reserve = pl_gpu_usable(pl_gpu_find("h200")) - gib * GIB;
    snprintf(text, sizeof text,
             "{\"cards\":[{\"name\":\"c\",\"gpu\":\"h200\",\"count\":%d,\"reserve_bytes\":%lld}]}",
             count, (long long)reserve);
    return cluster_of(text);
}

static pl_arrivals *trace_of(const char *text) {
    pl_arrivals *trace = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_arrivals_open_memory(&trace, text, strlen(text), "t.csv", &err), PL_OK);
    if (!trace) printf("    %s\n", err.message);
    return trace;
}

static pl_sizes *sizes_of(const char *text) {
    pl_sizes *sizes = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_sizes_open_memory(&sizes, text, strlen(text), "s.jsonl", &err), PL_OK);
    if (!sizes) printf("    %s\n", err.message);
    return sizes;
}

/* ---- by hand ---- */

/* A takes 4 GiB and is said to; B takes 7 and is said to take 5. Nothing is known of their times, so that two on a card
 * take twice as long each. One card of 10 GiB; jobs are at their peaks 10 s after their start. */
static const char two_kinds[] =
    "{\"name\":\"A\",\"measured_bytes\":4294967296,\"estimates\":{\"e\":{\"peak_bytes\":4294967296}}}\n"
    "{\"name\":\"B\",\"measured_bytes\":7516192768,\"estimates\":{\"e\":{\"peak_bytes\":5368709120}}}\n";
static const char three_jobs[] =
    "submit_s,duration_s,gpus,model\n0,100,1,A\n10,100,1,B\n20,50,1,A\n";

static pl_day *day_of(pl_cluster *cluster, pl_arrivals *trace, pl_sizes *sizes, const char *policy,
                      const pl_day_settings *settings) {
    pl_day *day = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_day_open(&day, cluster, trace, sizes, policy, settings, &err), PL_OK);
    if (!day) printf("    %s\n", err.message);
    return day;
}

/* 0: A1 alone. 10: A1 is at its peak with 90 s left; B comes, 4 + 5 <= 10, both go half as fast. 20: B wants 7 beside 4 and
 * dies, 10 s lost; it is tried again at once and put there again; A2 comes, and is said not to fit beside both. 30: B
 * dies again, 10 s lost, and is to run alone; A1 has 80 s left. A2, the first to wait, goes beside A1. 130: A2 is over, A1 has
 * 30 left. 160: A1 is over, B gets the card. 260: the end. */
static void a_day_by_hand(void) {
    pl_cluster *cluster = cards_of(1, 10);
    pl_arrivals *trace = trace_of(three_jobs);
    pl_sizes *sizes = sizes_of(two_kinds);
    pl_day_settings s;
    pl_day_settings_default(&s);
    s.peak_s = 10;
    pl_day *day = day_of(cluster, trace, sizes, "e", &s);
    if (!day) return;
    const pl_day_outcome *o = pl_day_describe(day);
    CHECK(!o->intervals);
    CHECK_INT(o->jobs, 3);
    CHECK_INT(o->finished, 3);
    CHECK_INT(o->impossible, 0);
    CHECK_INT(o->drawn, 0);
    CHECK_INT(o->placements, 5);
    CHECK_INT(o->shared, 3);
    CHECK_INT(o->crashes, 2);
    CHECK_INT(o->crashed_jobs, 1);
    CHECK_INT(o->alone, 1);
    CHECK_INT(o->unknown_pairs, 3);
    CHECK(near(o->work_hours, 250 / 3600.0));
    CHECK(near(o->lost_hours, 20 / 3600.0));
    CHECK(near(o->slowed_hours, 110 / 3600.0));
    CHECK(near(o->held_hours, 380 / 3600.0));
    CHECK(near(o->card_hours, 260 / 3600.0));
    CHECK(near(o->makespan_s, 260));
    CHECK(near(o->wait_mean_s, 140 / 3.0));
    CHECK(near(o->wait_p50_s, 10));
    CHECK(near(o->wait_p95_s, 130));
    CHECK(near(o->turnaround_mean_s, (160 + 250 + 110) / 3.0));
    CHECK(near(o->turnaround_p50_s, 160));
    CHECK(near(o->turnaround_p95_s, 250));
    CHECK(near(o->slowdown_mean, (1.6 + 1 + 2) / 3));
    CHECK(near(o->slowdown_p95, 2));
    CHECK(near(o->cards_used, 1));
    /* A1 from 10 to 160, A2 from 40 to 130, B from 170 to 260 */
    CHECK(near(o->memory_used, (4 * 150 + 4 * 90 + 7 * 90) / (260.0 * 10)));
    CHECK_INT(o->most_held_bytes, 8 * GIB);
    CHECK_INT(o->most_over_bytes, 0);
    double waiting = 0, until = 0;
    const pl_day_point *p;
    for (size_t i = 0; (p = pl_day_at(day, i)); i++) {
        CHECK(near(p->from_s, until));
        until = p->to_s;
        waiting += p->waiting * (p->to_s - p->from_s);
    }
    CHECK(near(until, 260));
    CHECK(near(waiting, 140));
    pl_day_close(&day);
    CHECK(!day);

    /* The oracle leaves B waiting; A2 overtakes it, beside A1 from 20 to 120; A1 ends at 150, B at 250. */
    day = day_of(cluster, trace, sizes, "oracle", &s);
    o = pl_day_describe(day);
    CHECK_INT(o->crashes, 0);
    CHECK_INT(o->placements, 3);
    CHECK(near(o->makespan_s, 250));
    CHECK(near(o->wait_mean_s, 140 / 3.0));
    CHECK(near(o->held_hours, (150 + 100 + 100) / 3600.0));
    pl_day_close(&day);

    /* One after the other. */
    day = day_of(cluster, trace, sizes, "exclusive", &s);
    o = pl_day_describe(day);
    CHECK_INT(o->shared, 0);
    CHECK(near(o->makespan_s, 250));
    CHECK(near(o->wait_mean_s, (0 + 90 + 180) / 3.0));
    CHECK(near(o->slowdown_mean, 1));
    pl_day_close(&day);

    /* Nobody overtakes who has no patience: A2 waits behind B, which gets the card at 100. */
    s.patience_s = 0;
    day = day_of(cluster, trace, sizes, "oracle", &s);
    o = pl_day_describe(day);
    CHECK(near(o->makespan_s, 250));
    CHECK(near(o->wait_mean_s, (0 + 90 + 180) / 3.0));
    pl_day_close(&day);

    /* Two may not share where nobody is to get slower. */
    pl_day_settings_default(&s);
    s.most_slowdown = 1.5;
    day = day_of(cluster, trace, sizes, "oracle", &s);
    CHECK_INT(pl_day_describe(day)->shared, 0);
    pl_day_close(&day);
    pl_sizes_close(&sizes);
    pl_arrivals_close(&trace);
    pl_cluster_close(&cluster);
}

/* A job of two cards holds both, as fast as the slower one lets it; one of four never runs. */
static void a_job_on_several_cards(void) {
    pl_cluster *cluster = cards_of(2, 10);
    pl_arrivals *trace =
        trace_of("submit_s,duration_s,gpus,model\n0,100,2,A\n0,30,1,A\n5,10,4,A\n");
    pl_sizes *sizes = sizes_of(two_kinds);
    pl_day_settings s;
    pl_day_settings_default(&s);
    s.peak_s = 0;
    pl_day *day = day_of(cluster, trace, sizes, "oracle", &s);
    const pl_day_outcome *o = pl_day_describe(day);
    CHECK_INT(o->impossible, 1);
    CHECK_INT(o->finished, 2);
    /* Together until 60, when the small one is over; then 70 s are left. */
    CHECK(near(o->makespan_s, 130));
    CHECK(near(o->held_hours, (2 * 130 + 60) / 3600.0));
    CHECK(near(o->card_hours, 2 * 130 / 3600.0));
    CHECK(near(o->slowed_hours, (2 * 30 + 30) / 3600.0));
    pl_day_close(&day);
    pl_sizes_close(&sizes);
    pl_arrivals_close(&trace);
    pl_cluster_close(&cluster);
}

/* ---- any day ---- */

static uint64_t state = 1;

static double unit(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

/* Kinds whose estimates err as their intervals say, mostly, with times; some of them without. */
static pl_sizes *random_sizes(int kinds, double largest) {
    static char text[1 << 16];
    char *at = text;
    for (int i = 0; i < kinds; i++) {
        double truth = (0.5 + unit() * largest) * (double)GIB, peak = truth * (0.85 + 0.3 * unit());
        double step = 5 + 200 * unit(), device = step * unit(), host = step * unit();
        at += sprintf(at,
                      "{\"name\":\"k%d\",\"gpu\":\"h200\",\"calibrated\":true,\"batch\":%d,"
                      "\"measured_bytes\":%.0f,\"estimates\":{\"e\":{\"peak_bytes\":%.0f,"
                      "\"low_bytes\":%.0f,\"high_bytes\":%.0f},\"p\":{\"peak_bytes\":%.0f}}",
                      i, 1 + i % 3, truth, peak, peak * 0.8, peak * 1.2, peak);
        if (i % 4)
            at += sprintf(at,
                          ",\"step_ms\":%.3f,\"device_ms\":%.3f,\"host_ms\":%.3f,\"launches\":300,"
                          "\"smact\":%.1f,\"drama\":10",
                          step, device, host, 60 * device / step);
        at += sprintf(at, "}\n");
    }
    return sizes_of(text);
}

static pl_arrivals *random_trace(int jobs) {
    static char text[1 << 18];
    char *at = text + sprintf(text, "submit_s,duration_s,gpus\n");
    double now = 0;
    for (int i = 0; i < jobs; i++) {
        now += 60 * unit();
        at += sprintf(at, "%.3f,%.3f,%d\n", now, 2000 * unit() * unit(), unit() < 0.8 ? 1 : 2);
    }
    return trace_of(text);
}

static void hours_add_up_and_cards_hold(void) {
    static const char *const policies[] = {"exclusive", "requested", "e", "p", "oracle"};
    for (int seed = 1; seed <= 6; seed++) {
        state = (uint64_t)seed;
        pl_cluster *cluster = cards_of(1 + seed, 20);
        pl_sizes *sizes = random_sizes(40, 12);
        pl_arrivals *trace = random_trace(1500);
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            pl_day_settings s;
            pl_day_settings_default(&s);
            s.seed = (uint64_t)seed;
            if (seed % 2) s.most_slowdown = 2.5;
            pl_day *day = day_of(cluster, trace, sizes, policies[i], &s), *again;
            const pl_day_outcome *o = pl_day_describe(day);
            CHECK_INT(o->jobs, 1500);
            CHECK_INT(o->finished + o->impossible, o->jobs);
            CHECK_INT(o->placements, o->finished + o->crashes);
            CHECK(near(o->held_hours, o->work_hours + o->lost_hours + o->slowed_hours));
            CHECK(o->slowed_hours > -1e-6 && o->lost_hours >= 0);
            CHECK(o->card_hours <= o->held_hours * (1 + 1e-9));
            CHECK(o->card_hours >= o->held_hours / 40);
            CHECK(o->cards_used <= 1 + 1e-9 && o->memory_used <= 1 && o->sm_used <= 1);
            CHECK(o->wait_p50_s <= o->wait_p95_s && o->turnaround_p95_s <= o->makespan_s);
            CHECK_INT(o->most_over_bytes, 0);
            CHECK(o->most_held_bytes <= 20 * GIB);
            CHECK(o->crashes <= 2 * o->crashed_jobs);
            if (strcmp(policies[i], "oracle") == 0 || strcmp(policies[i], "exclusive") == 0)
                CHECK_INT(o->crashes, 0);
            if (strcmp(policies[i], "exclusive") == 0)
                CHECK(o->shared == 0 && near(o->card_hours, o->held_hours) &&
                      fabs(o->slowed_hours) < 1e-6);
            again = day_of(cluster, trace, sizes, policies[i], &s);
            pl_day_outcome one = *o, other = *pl_day_describe(again);
            one.elapsed_us = other.elapsed_us = 0;
            other.policy = one.policy;
            CHECK(memcmp(&one, &other, sizeof one) == 0);
            pl_day_close(&again);
            pl_day_close(&day);
        }
        pl_arrivals_close(&trace);
        pl_sizes_close(&sizes);
        pl_cluster_close(&cluster);
    }
}

/* At a risk, not much more often than that; where more is risked, more crashes and fuller cards. */
static void risk_is_kept(void) {
    state = 99;
    pl_cluster *cluster = cards_of(8, 20);
    pl_arrivals *trace = random_trace(4000);
    pl_sizes *sizes = random_sizes(60, 12);
    double shares[2];
    for (int i = 0; i < 2; i++) {
        pl_day_settings s;
        pl_day_settings_default(&s);
        s.risk = i ? 0.3 : 0.01;
        pl_day *day = day_of(cluster, trace, sizes, "e", &s);
        const pl_day_outcome *o = pl_day_describe(day);
        shares[i] = (double)o->crashes / (double)o->placements;
        CHECK(o->intervals);
        pl_day_close(&day);
    }
    CHECK(shares[0] <= 0.01);
    CHECK(shares[1] > shares[0]);
    pl_sizes_close(&sizes);
    pl_arrivals_close(&trace);
    pl_cluster_close(&cluster);
}

/* ---- decisions ---- */

/* Jobs come and go; each time the card that is chosen is the one that pl_place has first. */
static void decisions_are_those_of_place(void) {
    enum { JOBS = 300 };
    state = 5;
    pl_cluster *cluster = cards_of(6, 40);
    pl_sizes *sizes = random_sizes(12, 12);
    static pl_day_job jobs[JOBS];
    pl_day_settings s;
    pl_place_settings place;
    pl_day_cards *cards = NULL;
    pl_day_settings_default(&s);
    pl_place_settings_default(&place);
    CHECK_INT(pl_day_cards_open(&cards, cluster, sizes, jobs, DAY_ESTIMATOR, 0, &s, NULL), PL_OK);
    int placed = 0, refused = 0;
    for (int i = 0; i < JOBS; i++) {
        pl_day_job *j = &jobs[i];
        *j = (pl_day_job){.kind = (int32_t)(unit() * 12), .gpus = 1, .slowdown = 1};
        pl_demand d = sizes->kinds[j->kind].demand;
        const pl_span *said = &sizes->kinds[j->kind].said[0];
        d.low_bytes = (int64_t)said->low;
        d.peak_bytes = (int64_t)said->peak;
        d.high_bytes = d.upper_bytes = (int64_t)said->high;
        pl_placement *p = NULL;
        CHECK_INT(pl_place(&p, cluster, &d, 1, &place, NULL), PL_OK);
        const pl_place_option *best = pl_placement_at(p, 0);
        int32_t chosen = -1;
        bool found = pl_day_cards_choose(cards, i, NULL, 0, &chosen);
        CHECK(found == best->possible);
        if (found && best->possible) {
            CHECK_INT(chosen, best->card);
            pl_cluster_add(cluster, best->card, &d, NULL);
            CHECK(pl_day_cards_put(cards, chosen, i));
            j->one = chosen;
            j->cards = &j->one;
            j->runs = true;
            placed++;
        }
        refused += !found;
        pl_placement_close(&p);
        if (unit() < 0.6) continue;
        int gone = (int)(unit() * i); /* one of those that run, if this does */
        if (!jobs[gone].runs) continue;
        pl_day_cards_take(cards, jobs[gone].one, gone);
        CHECK_INT(pl_cluster_remove(cluster, (size_t)jobs[gone].one,
                                    sizes->kinds[jobs[gone].kind].demand.name, NULL),
                  PL_OK);
        jobs[gone].runs = false;
    }
    CHECK(placed > 50 && refused > 20);
    pl_day_cards_close(&cards);
    pl_sizes_close(&sizes);
    pl_cluster_close(&cluster);
}

/* ---- files ---- */

static void traces_are_read(void) {
    pl_arrivals *t = trace_of("timestamp,duration,num_gpus,gpu_time,cluster\n"
                              "2017-10-09 07:01:55,66.0,1,66.0,11cb48\r\n"
                              "2017-10-09 06:13:03,2951.0,4,2951.0,6214e9\n\n");
    CHECK_STR(pl_arrivals_format(t), "philly");
    CHECK_INT(pl_arrivals_count(t), 2);
    CHECK(t->jobs[0].submit_s == 0 && t->jobs[0].duration_s == 2951 && t->jobs[0].gpus == 4);
    CHECK(t->jobs[1].submit_s == 2932);
    pl_arrivals_close(&t);
    t = trace_of("timestamp,duration,num_gpus\n2024-03-01 00:00:00,1,1\n2024-02-28 00:00:00,1,1\n");
    CHECK(t->jobs[1].submit_s == 2 * 86400); /* a leap year */
    pl_arrivals_close(&t);
    t = trace_of("job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval\n"
                 "0,16,5000,4378042,vgg16,16,1453510000,3840000\n"
                 "1,1,7500,1,a2c,64,1500,0\n");
    CHECK_STR(pl_arrivals_format(t), "muri");
    CHECK(t->jobs[0].duration_s == 1453510 && t->jobs[1].submit_s == 2.5);
    CHECK_INT(t->jobs[1].batch, 64);
    CHECK_STR(t->models[t->jobs[1].model], "a2c");
    pl_arrivals_close(&t);
    t = trace_of(
        "\xef\xbb\xbfgpus,submit_s,duration_s,model,batch\n2,1,3,,\n1,0.5,0,x,8\n1,1,9,x,");
    CHECK_STR(pl_arrivals_format(t), "plimsoll");
    CHECK_INT(pl_arrivals_count(t), 3);
    CHECK_INT(t->jobs[0].batch, 8);
    CHECK(t->jobs[1].duration_s == 3 && t->jobs[1].model == -1); /* the file's order */
    CHECK(t->jobs[2].duration_s == 9 && t->jobs[2].batch == 0);
    pl_arrivals_close(&t);
    CHECK(!t);
    pl_arrivals_close(NULL);
}

static void wrong_traces_are_refused(void) {
    static const struct {
        const char *text, *says;
        int64_t at;
    } rows[] = {
        {"", "a head", 0},
        {"submit_s,duration_s\n0,1\n", "a head", 0},
        {"submit_s,duration_s,gpus\n", "a job", 25},
        {"submit_s,duration_s,gpus\n0,1\n", "as many fields", 25},
        {"submit_s,duration_s,gpus\n-1,1,1\n", "a time from 0 on", 25},
        {"submit_s,duration_s,gpus\n0,-1,1\n", "a duration", 27},
        {"submit_s,duration_s,gpus\n0,nan,1\n", "a duration", 27},
        {"submit_s,duration_s,gpus\ninf,1,1\n", "a time", 25},
        {"submit_s,duration_s,gpus\n0,1e300,1\n", "a duration", 27},
        {"submit_s,duration_s,gpus\n0,1,0\n", "a number of cards", 29},
        {"submit_s,duration_s,gpus\n0,1,1.5\n", "a number of cards", 29},
        {"submit_s,duration_s,gpus\n0,1,9999999999\n", "a number of cards", 29},
        {"submit_s,duration_s,gpus,batch\n0,1,1,x\n", "a batch", 37},
        {"timestamp,duration,num_gpus\n2017-13-09 07:01:55,1,1\n", "a time such as", 28},
        {"timestamp,duration,num_gpus\n5,1,1\n", "a time such as", 28},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_arrivals *t = NULL;
        pl_error err = PL_SIZED(pl_error);
        CHECK_INT(pl_arrivals_open_memory(&t, rows[i].text, strlen(rows[i].text), "t.csv", &err),
                  PL_INPUT);
        CHECK(!t);
        CHECK(strstr(err.message, rows[i].says));
        CHECK_INT(err.position, rows[i].at);
        CHECK_STR(err.where, "t.csv");
        if (check_failures_in_case) printf("    row %zu: %s\n", i, err.message);
        pl_arrivals_close(&t);
    }
}

static void sizes_are_read(void) {
    pl_sizes *s = sizes_of(
        "{\"name\":\"a\",\"batch\":8,\"weight\":2,\"measured_bytes\":null,\"estimates\":{\"hybrid\":"
        "{\"peak_bytes\":10,\"low_bytes\":8,\"high_bytes\":20},\"horus\":{\"peak_bytes\":7}},"
        "\"more\":[1,{}]}\n\n"
        "{\"schema\":1,\"model\":{\"name\":\"b\",\"batch\":4},\"gpu\":{\"name\":\"h200\",\"calibrated\":true},"
        "\"estimator\":\"sim\",\"memory\":{\"peak_bytes\":5,\"high_bytes\":null},\"compute\":{\"step_ms\":1,"
        "\"device_ms\":0.5,\"host_ms\":0.7}}\n"
        "{\"schema\":1,\"model\":{\"name\":\"b\",\"batch\":4},\"gpu\":{\"name\":\"h200\",\"calibrated\":true},"
        "\"estimator\":\"horus\",\"memory\":{\"peak_bytes\":6,\"high_bytes\":null},\"compute\":{\"step_ms\":null,"
        "\"device_ms\":null,\"host_ms\":null}}\n");
    CHECK_INT(pl_sizes_count(s), 2);
    CHECK_STR(pl_sizes_estimator(s, 0), "hybrid");
    CHECK_STR(pl_sizes_estimator(s, 1), "horus");
    CHECK_STR(pl_sizes_estimator(s, 2), "sim");
    CHECK(!pl_sizes_estimator(s, 3));
    CHECK(s->intervals[0] && !s->intervals[1] && !s->intervals[2]);
    const pl_job_kind *b = &s->kinds[1];
    CHECK(b->said[1].peak == 6 && b->said[2].peak == 5 && b->said[0].peak < 0);
    CHECK(b->timed && !s->kinds[0].timed);
    CHECK_INT(b->batch, 4);
    CHECK(s->kinds[0].weight == 2);
    bool known = true;
    CHECK(pl_sizes_slowdown(s, b, b, PL_SLICES, &known) >= 1 && known);
    CHECK(pl_sizes_slowdown(s, b, &s->kinds[0], PL_SLICES, &known) == 2 && !known);
    pl_sizes_close(&s);
    pl_sizes_close(NULL);
}

static void wrong_sizes_are_refused(void) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "empty"},
        {"[]\n", "expected"},
        {"{\"name\":\"a\"}\n", "measured_bytes or estimates"},
        {"{\"name\":\"a\",\"measured_bytes\":0}\n", "measured_bytes or estimates"},
        {"{\"name\":\"a\",\"measured_bytes\":-5}\n", "a whole number"},
        {"{\"name\":\"a\",\"measured_bytes\":1e400}\n", "an integer"},
        {"{\"name\":\"a\",\"measured_bytes\":5,\"step_ms\":NaN}\n", "a number"},
        {"{\"name\":\"a\",\"measured_bytes\":5,\"smact\":1000}\n", "a number"},
        {"{\"name\":\"a\",\"measured_bytes\":5}{}\n", "expected"},
        {"{\"schema\":1,\"name\":\"a\"}\n", "is missing"},
        {"{\"estimates\":{\"\":{}}}\n", "an estimator's name"},
        {"{\"name\":\"a\",\"measured_bytes\":5,\"weight\":-1}\n", "a number"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_sizes *s = NULL;
        pl_error err = PL_SIZED(pl_error);
        CHECK_INT(pl_sizes_open_memory(&s, rows[i].text, strlen(rows[i].text), "s.jsonl", &err),
                  PL_INPUT);
        CHECK(!s && strstr(err.message, rows[i].says));
        if (check_failures_in_case) printf("    row %zu: %s\n", i, err.message);
        pl_sizes_close(&s);
    }
}

static int always(void *context) {
    (void)context;
    return 1;
}

static void wrong_questions_are_refused(void) {
    pl_cluster *cluster = cards_of(1, 10), *busy, *small = cards_of(1, 2);
    pl_arrivals *trace = trace_of(three_jobs), *unnamed = random_trace(3000);
    pl_sizes *sizes = sizes_of(two_kinds);
    pl_day_settings s;
    pl_day *day = NULL;
    pl_error err = PL_SIZED(pl_error);
    busy =
        cluster_of("{\"cards\":[{\"name\":\"x\",\"gpu\":\"h200\",\"jobs\":[{\"seen_bytes\":5}]}]}");
    CHECK_INT(pl_day_open(&day, busy, trace, sizes, "oracle", NULL, &err), PL_USAGE);
    CHECK(strstr(err.message, "on x there are jobs"));
    CHECK_INT(pl_day_open(&day, cluster, trace, sizes, "nobody", NULL, &err), PL_USAGE);
    CHECK(strstr(err.message, "nobody is none of"));
    CHECK_INT(pl_day_open(&day, small, unnamed, sizes, "oracle", NULL, &err), PL_USAGE);
    CHECK(strstr(err.message, "fits a card"));
    pl_day_settings_default(&s);
    s.risk = NAN;
    CHECK_INT(pl_day_open(&day, cluster, trace, sizes, "oracle", &s, &err), PL_USAGE);
    CHECK_STR(err.where, "risk");
    pl_day_settings_default(&s);
    s.guess_whole = s.guess_low = 0.6;
    CHECK_INT(pl_day_open(&day, cluster, trace, sizes, "oracle", &s, &err), PL_USAGE);
    pl_limits limits;
    pl_limits_default(&limits);
    limits.cancelled = always;
    pl_day_settings_default(&s);
    s.limits = &limits;
    CHECK_INT(pl_day_open(&day, cluster, unnamed, sizes, "e", &s, &err), PL_LIMIT);
    CHECK(!day);
    pl_day_close(&day);
    pl_day_close(NULL);
    pl_sizes_close(&sizes);
    pl_arrivals_close(&trace);
    pl_arrivals_close(&unnamed);
    pl_cluster_close(&cluster);
    pl_cluster_close(&busy);
    pl_cluster_close(&small);
}

int main(void) {
    RUN(a_day_by_hand);
    RUN(a_job_on_several_cards);
    RUN(hours_add_up_and_cards_hold);
    RUN(risk_is_kept);
    RUN(decisions_are_those_of_place);
    RUN(traces_are_read);
    RUN(wrong_traces_are_refused);
    RUN(sizes_are_read);
    RUN(wrong_sizes_are_refused);
    RUN(wrong_questions_are_refused);
    return check_done();
}
