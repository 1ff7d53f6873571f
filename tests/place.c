/* place: the chance that several jobs together take more than a card has, held against drawing them at random; where
 * each policy puts a job, and why not elsewhere; clusters that are wrong. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "decide/cluster.h"
#include "estimate/verdict.h"

#define GIB ((int64_t)1 << 30)

static pl_demand job_of(const char *name, const char *gpu, double low, double peak, double high) {
    pl_demand d = PL_SIZED(pl_demand);
    snprintf(d.name, sizeof d.name, "%s", name);
    snprintf(d.gpu, sizeof d.gpu, "%s", gpu);
    d.low_bytes = (int64_t)(low * (double)GIB);
    d.peak_bytes = (int64_t)(peak * (double)GIB);
    d.high_bytes = d.upper_bytes = (int64_t)(high * (double)GIB);
    d.step_ms = 100;
    d.device_ms = 60;
    d.host_ms = 50;
    d.launches = 1000;
    d.smact = 50;
    d.smocc = 20;
    d.drama = 20;
    d.tensor = NAN;
    d.calibrated = true;
    return d;
}

/* ---- the risk ---- */

static double uniform(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static void sums_are_those_of_draws(void) {
    static const double rows[][3] = {{9, 10, 11}, {18, 20, 26}, {4.9, 5, 5.2}, {30, 31, 33}};
    enum { JOBS = sizeof rows / sizeof *rows, DRAWS = 200000 };
    pl_spread s;
    pl_spread_start(&s, 80.0 * (double)GIB);
    for (int i = 0; i < JOBS; i++)
        pl_spread_add(&s, rows[i][0] * (double)GIB, rows[i][1] * (double)GIB,
                      rows[i][2] * (double)GIB, 1);
    uint64_t state = 7;
    static double sums[DRAWS];
    for (int n = 0; n < DRAWS; n++)
        for (int i = 0; i < JOBS; i++)
            sums[n] += pl_interval_quantile(rows[i][0], rows[i][1], rows[i][2], uniform(&state));
    for (double limit = 64; limit <= 76; limit += 1) {
        int above = 0, sure = 0; /* sure: above by more than the grid's bins may add */
        double width = 4 * s.width / (double)GIB;
        for (int n = 0; n < DRAWS; n++) {
            above += sums[n] > limit - width;
            sure += sums[n] > limit;
        }
        double got = pl_spread_above(&s, limit * (double)GIB);
        CHECK(got >= 0.93 * (double)sure / DRAWS - 0.002);
        CHECK(got <= 1.07 * (double)above / DRAWS + 0.004);
        if (check_failures_in_case)
            printf("    above %g GiB: %g, drawn %g to %g\n", limit, got, (double)sure / DRAWS,
                   (double)above / DRAWS);
    }
}

static void alike_is_worse_than_apart(void) {
    pl_demand same[4], apart[4];
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "j%d", i);
        same[i] = job_of("j", "h200", 9, 10, 12);
        apart[i] = job_of(name, "h200", 9, 10, 12);
    }
    pl_spread s, a;
    pl_spread_start(&s, 48.0 * (double)GIB);
    pl_spread_start(&a, 48.0 * (double)GIB);
    pl_spread_jobs(&s, same, 4);
    pl_spread_jobs(&a, apart, 4);
    double limit = 47.5 * (double)GIB;
    CHECK(pl_spread_above(&s, limit) > 3 * pl_spread_above(&a, limit));
    CHECK(pl_spread_above(&a, 30.0 * (double)GIB) > 0.999);
    CHECK(pl_spread_above(&s, 90.0 * (double)GIB) < 1e-9);
    pl_spread seen; /* what was seen is known */
    pl_spread_start(&seen, 48.0 * (double)GIB);
    pl_spread_add(&seen, 10.0 * (double)GIB, 10.0 * (double)GIB, 10.0 * (double)GIB, 1);
    CHECK(pl_spread_above(&seen, 10.1 * (double)GIB) == 0);
    CHECK(fabs(pl_spread_above(&seen, 9.9 * (double)GIB) - 1) < 1e-9);
}

/* ---- policies ---- */

static const char cards[] =
    "{\"cards\":[{\"name\":\"small\",\"gpu\":\"a100-40gb\"},"
    "{\"name\":\"busy\",\"gpu\":\"h200\",\"jobs\":[{\"name\":\"x\",\"seen_bytes\":64424509440}]},"
    "{\"name\":\"full\",\"gpu\":\"h200\",\"jobs\":[{\"name\":\"y\",\"seen_bytes\":146028888064}]},"
    "{\"name\":\"free\",\"gpu\":\"h200\",\"count\":2,\"reserve_bytes\":1073741824}]}";

static pl_cluster *cluster_of(const char *text) {
    pl_cluster *cluster = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_cluster_open_memory(&cluster, text, strlen(text), "c.json", NULL, &err), PL_OK);
    if (!cluster) printf("    %s\n", err.message);
    return cluster;
}

/* The names of the cards that are possible, the best first, by blanks; of the others the last one's reason. */
static void place(char *out, size_t room, const pl_cluster *cluster, const pl_demand *job,
                  pl_place_settings *settings, char *reason, size_t reason_room) {
    pl_placement *p = NULL;
    const pl_place_option *o;
    out[0] = '\0';
    CHECK_INT(pl_place(&p, cluster, job, 1, settings, NULL), PL_OK);
    size_t count = 0;
    for (; p && (o = pl_placement_at(p, count)); count++) {
        if (o->possible)
            snprintf(out + strlen(out), room - strlen(out), "%s%s", *out ? " " : "",
                     pl_cluster_name(cluster, o->card));
        else if (reason)
            snprintf(reason, reason_room, "%s", o->reason);
        CHECK(o->reason && *o->reason);
    }
    CHECK_INT((int64_t)count, (int64_t)pl_cluster_count(cluster));
    pl_placement_close(&p);
    pl_placement_close(&p);
}

static void policies(void) {
    pl_demand job = job_of("j", "h200", 29, 30, 32);
    pl_cluster *cluster = cluster_of(cards);
    static const struct {
        pl_policy policy;
        const char *where;
    } rows[] = {{PL_EXCLUSIVE, "free/0 free/1"},
                {PL_PACK, "busy free/0 free/1"},
                {PL_SPREAD, "free/0 free/1 busy"},
                {PL_INTERFERENCE, "free/0 free/1 busy"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_place_settings settings;
        char where[256], reason[256] = "";
        pl_place_settings_default(&settings);
        settings.policy = rows[i].policy;
        place(where, sizeof where, cluster, &job, &settings, reason, sizeof reason);
        CHECK_STR(where, rows[i].where);
        CHECK(strstr(reason, "not estimated") || strstr(reason, "GiB more") ||
              strstr(reason, "runs on it"));
    }
    pl_cluster_close(&cluster);
}

static void what_is_added_counts(void) {
    pl_demand job = job_of("j", "h200", 55, 56, 58);
    pl_cluster *cluster =
        cluster_of("{\"cards\":[{\"name\":\"a\",\"gpu\":\"h200\",\"sharing\":\"mps\"}]}");
    pl_place_settings settings;
    char where[64], reason[256] = "";
    pl_place_settings_default(&settings);
    for (int i = 0; i < 2; i++) {
        place(where, sizeof where, cluster, &job, &settings, NULL, 0);
        CHECK_STR(where, "a");
        CHECK_INT(pl_cluster_add(cluster, 0, &job, NULL), PL_OK);
    }
    place(where, sizeof where, cluster, &job, &settings, reason, sizeof reason);
    CHECK_STR(where, "");
    CHECK(strstr(reason, "GiB more than the"));
    CHECK_INT(pl_cluster_remove(cluster, 0, "k", NULL), PL_USAGE);
    CHECK_INT(pl_cluster_remove(cluster, 0, "j", NULL), PL_OK);
    CHECK_INT(pl_cluster_remove(cluster, 0, "j", NULL), PL_OK);
    place(where, sizeof where, cluster, &job, &settings, NULL, 0);
    CHECK_STR(where, "a");
    /* bounds of one's own */
    CHECK_INT(pl_cluster_add(cluster, 0, &job, NULL), PL_OK);
    pl_demand other = job_of("o", "h200", 40, 42, 44);
    settings.most_jobs = 1;
    place(where, sizeof where, cluster, &other, &settings, reason, sizeof reason);
    CHECK(!*where && strstr(reason, "no more than 1"));
    settings.most_jobs = 0;
    settings.most_slowdown = 1.01;
    place(where, sizeof where, cluster, &other, &settings, reason, sizeof reason);
    CHECK(!*where && strstr(reason, "times as long, more than 1.01"));
    settings.most_slowdown = INFINITY;
    settings.risk = 1e-6;
    other = job_of("o", "h200", 60, 70, 90);
    place(where, sizeof where, cluster, &other, &settings, reason, sizeof reason);
    CHECK(!*where && strstr(reason, "chance of an out-of-memory"));
    settings.risk = 2;
    pl_placement *p = NULL;
    CHECK_INT(pl_place(&p, cluster, &job, 1, &settings, NULL), PL_USAGE);
    pl_cluster_close(&cluster);
}

static void the_right_estimate_is_taken(void) {
    pl_demand jobs[2] = {job_of("j", "h200", 29, 30, 31), job_of("j", "a100-40gb", 27, 28, 30)};
    pl_cluster *cluster = cluster_of(cards);
    pl_placement *p = NULL;
    const pl_place_option *o;
    CHECK_INT(pl_place(&p, cluster, jobs, 2, NULL, NULL), PL_OK);
    for (size_t i = 0; p && (o = pl_placement_at(p, i)); i++)
        if (strcmp(pl_cluster_name(cluster, o->card), "small") == 0) {
            CHECK(o->possible && o->expected_bytes == 28 * GIB);
            CHECK(!o->calibrated);
        } else if (o->jobs == 0) {
            CHECK_INT(o->expected_bytes, 30 * GIB);
            CHECK(o->slowdown.value == 1 && o->gain == 1);
        }
    pl_placement_close(&p);
    pl_cluster_close(&cluster);
}

/* ---- clusters that are wrong ---- */

static void wrong_clusters(void) {
    static const struct {
        const char *text, *word;
    } rows[] = {
        {"", "expected"},
        {"{}", "missing or empty"},
        {"{\"cards\":[]}", "missing or empty"},
        {"{\"cards\":[{}]}", "kind"},
        {"{\"cards\":[{\"gpu\":\"nothing\"}]}", "nothing"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"gpu\":7}]}", "expected"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"cuont\":7}]}", "count"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"count\":0}]}", "a count from 1"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"count\":1048577}]}", "a smaller number"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"count\":-1}]}", "whole number"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"count\":1048576},{\"gpu\":\"h200\",\"count\":9}]}",
         "million"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"reserve_bytes\":999999999999}]}", "less to keep free"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"sharing\":\"both\"}]}", "slices or mps"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"jobs\":[{}]}]}", "seen_bytes"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"jobs\":[{\"schema\":1}]}]}", "missing"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"jobs\":[{\"seen_bytes\":-1}]}]}", "whole number"},
        {"{\"cards\":[{\"gpu\":\"h200\",\"count\":2,\"jobs\":[{\"seen_bytes\":1}]}]}",
         "one by one"},
        {"{\"cards\":[{\"gpu\":\"h200\"}]} x", "expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_cluster *cluster = NULL;
        pl_error err = PL_SIZED(pl_error);
        CHECK_INT(pl_cluster_open_memory(&cluster, rows[i].text, strlen(rows[i].text), "c.json",
                                         NULL, &err),
                  PL_INPUT);
        CHECK(strstr(err.message, rows[i].word));
        if (check_failures_in_case) printf("    %s: %s\n", rows[i].text, err.message);
        pl_cluster_close(&cluster);
    }
}

int main(void) {
    RUN(sums_are_those_of_draws);
    RUN(alike_is_worse_than_apart);
    RUN(policies);
    RUN(what_is_added_counts);
    RUN(the_right_estimate_is_taken);
    RUN(wrong_clusters);
    return check_done();
}
