/* collocate: two jobs on one card. What must hold of any pair (order, extremes, memory, unknown
 * figures), files that are no estimates, and how near the predictions come to pairs that were
 * measured. argv: the table of those (tests/data/pairs.txt). */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "core/error.h"
#include "decide/collocate.h"
#include "fuzz.h"

static const char *table_path;
static const pl_gpu *h200;

static pl_demand demand(const char *name, double step, double device, double host,
                        double launches) {
    pl_demand d = {.size = sizeof d,
                   .peak_bytes = 4LL << 30,
                   .high_bytes = 5LL << 30,
                   .step_ms = step,
                   .device_ms = device,
                   .host_ms = host,
                   .launches = launches,
                   .calibrated = true};
    snprintf(d.name, sizeof d.name, "%s", name);
    snprintf(d.gpu, sizeof d.gpu, "h200");
    double busy = 100 * device / step;
    d.smact = 0.75 * busy;
    d.smocc = 0.3 * busy;
    d.drama = 0.25 * busy;
    d.tensor = 0.2 * busy;
    return d;
}

/* Small and bound by the host; filling the card; in between. */
static pl_demand small(void) {
    pl_demand d = demand("small", 8, 0.4, 8, 200);
    d.smact = d.smocc = d.drama = d.tensor = 0.5;
    return d;
}
static pl_demand large(void) {
    return demand("large", 100, 98, 20, 900);
}
static pl_demand middle(void) {
    return demand("middle", 30, 15, 29, 900);
}

static pl_pair together(const pl_demand *a, const pl_demand *b, pl_sharing sharing) {
    pl_pair pair = PL_SIZED(pl_pair);
    pl_error err = {0};
    if (pl_collocate(&pair, a, b, h200, sharing, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    return pair;
}

static bool ordered(const pl_figure *f) {
    return f->low <= f->value && f->value <= f->high && isfinite(f->high);
}

static void names_are_read_as_written(void) {
    pl_sharing got = PL_SLICES;
    CHECK_STR(pl_sharing_name(PL_SLICES), "slices");
    CHECK_STR(pl_sharing_name(PL_MPS), "mps");
    CHECK(!pl_sharing_name(PL_SHARINGS));
    CHECK(pl_sharing_parse("mps", &got) && got == PL_MPS);
    CHECK(!pl_sharing_parse("MPS!", &got) && got == PL_MPS);
}

static void two_small_jobs_hardly_feel_each_other(void) {
    pl_demand a = small(), b = small();
    for (int s = 0; s < PL_SHARINGS; s++) {
        pl_pair p = together(&a, &b, (pl_sharing)s);
        for (int i = 0; i < 2; i++) CHECK(p.slowdown[i].value < 1.3);
        CHECK(p.worth_it && p.fits);
        CHECK(p.gain.value > 1.5 && p.gain.value <= 2);
    }
}

/* Of three and four nothing was measured: what must hold of any. */
static void more_than_two_share_one_card(void) {
    enum { MOST = 10 };
    pl_demand jobs[MOST];
    pl_figure got[MOST], turned[MOST];
    for (int s = 0; s < PL_SHARINGS; s++) {
        pl_sharing sharing = (pl_sharing)s;
        for (int i = 0; i < MOST; i++) jobs[i] = large();
        CHECK_INT(pl_collocate_all(got, jobs, 1, h200, sharing, NULL), PL_OK);
        CHECK(got[0].value == 1 && got[0].high == 1);
        pl_pair pair = together(&jobs[0], &jobs[1], sharing);
        CHECK_INT(pl_collocate_all(got, jobs, 2, h200, sharing, NULL), PL_OK);
        CHECK(fabs(got[0].value - pair.slowdown[0].value) < 1e-12 &&
              fabs(got[1].high - pair.slowdown[1].high) < 1e-12);
        double before = pair.slowdown[0].value;
        for (size_t count = 3; count <= MOST; count++) { /* each makes it slower for all */
            CHECK_INT(pl_collocate_all(got, jobs, count, h200, sharing, NULL), PL_OK);
            for (size_t i = 0; i < count; i++)
                CHECK(ordered(&got[i]) && got[i].value > before * 1.01 &&
                      fabs(got[i].value / got[0].value - 1) < 0.03);
            if (sharing == PL_SLICES && count <= 4) /* they take turns */
                CHECK(got[0].value > 0.9 * (double)count && got[0].value < 1.35 * (double)count);
            before = got[0].value;
        }
        /* Who stands first does not matter much. */
        jobs[0] = small(), jobs[1] = middle(), jobs[2] = large();
        CHECK_INT(pl_collocate_all(got, jobs, 3, h200, sharing, NULL), PL_OK);
        jobs[0] = middle(), jobs[1] = large(), jobs[2] = small();
        CHECK_INT(pl_collocate_all(turned, jobs, 3, h200, sharing, NULL), PL_OK);
        for (int i = 0; i < 3; i++)
            CHECK(fabs(got[(i + 1) % 3].value / turned[i].value - 1) < 0.05);
        /* Three that leave the card idle most of the time hardly meet. */
        for (int i = 0; i < 3; i++) jobs[i] = small();
        CHECK_INT(pl_collocate_all(got, jobs, 3, h200, sharing, NULL), PL_OK);
        for (int i = 0; i < 3; i++) CHECK(got[i].value < 1.5);
    }
    /* In time slices the card does one thing at a time: no more is done than it has time for. */
    for (int i = 0; i < 4; i++) jobs[i] = middle(); /* half of the time each */
    CHECK_INT(pl_collocate_all(got, jobs, 4, h200, PL_SLICES, NULL), PL_OK);
    double busy = 0;
    for (int i = 0; i < 4; i++) busy += 0.5 / got[i].value;
    CHECK(busy < 1.05);
    jobs[2].step_ms = NAN;
    CHECK_INT(pl_collocate_all(got, jobs, 4, h200, PL_SLICES, NULL), PL_INPUT);
}

static void two_jobs_that_fill_the_card_take_turns(void) {
    pl_demand a = large(), b = large();
    pl_pair p = together(&a, &b, PL_SLICES);
    for (int i = 0; i < 2; i++) {
        CHECK(p.slowdown[i].value > 1.7 && p.slowdown[i].value < 2.4);
        CHECK(ordered(&p.slowdown[i]));
    }
    CHECK(!p.worth_it);
    CHECK(strstr(p.advice, "after the other"));
    /* MPS cannot make a card larger. */
    pl_pair q = together(&a, &b, PL_MPS);
    for (int i = 0; i < 2; i++) CHECK(q.slowdown[i].value > 1.4);
}

static void equal_jobs_are_slowed_alike(void) {
    pl_demand jobs[] = {small(), middle(), large()};
    for (int s = 0; s < PL_SHARINGS; s++)
        for (int j = 0; j < 3; j++) {
            pl_pair p = together(&jobs[j], &jobs[j], (pl_sharing)s);
            CHECK(fabs(p.slowdown[0].value / p.slowdown[1].value - 1) < 1e-9);
        }
}

static void swapped_jobs_give_swapped_answers(void) {
    pl_demand jobs[] = {small(), middle(), large()};
    for (int s = 0; s < PL_SHARINGS; s++)
        for (int j = 0; j < 3; j++) {
            const pl_demand *a = &jobs[j], *b = &jobs[(j + 1) % 3];
            pl_pair p = together(a, b, (pl_sharing)s), q = together(b, a, (pl_sharing)s);
            for (int i = 0; i < 2; i++) {
                CHECK(fabs(p.slowdown[i].value / q.slowdown[!i].value - 1) < 1e-9);
                CHECK(fabs(p.slowdown[i].low / q.slowdown[!i].low - 1) < 1e-9);
                CHECK(fabs(p.slowdown[i].high / q.slowdown[!i].high - 1) < 1e-9);
            }
            CHECK(fabs(p.gain.value / q.gain.value - 1) < 1e-9);
            CHECK_INT(p.worth_it, q.worth_it);
        }
}

static void figures_hang_together(void) {
    const double shares[] = {0.01, 0.2, 0.5, 0.8, 1};
    const double steps[] = {0.5, 20, 3000};
    for (int s = 0; s < PL_SHARINGS; s++)
        for (int i = 0; i < 5 * 3; i++)
            for (int j = 0; j < 5 * 3; j++) {
                double t = steps[i / 5], u = steps[j / 5];
                pl_demand a = demand("a", t, t * shares[i % 5], t * 0.9, 50 * t),
                          b = demand("b", u, u * shares[j % 5], u * 0.4, 3 * u);
                pl_pair p = together(&a, &b, (pl_sharing)s);
                for (int k = 0; k < 2; k++) {
                    CHECK(ordered(&p.slowdown[k]));
                    CHECK(p.slowdown[k].low >= 1 && p.slowdown[k].high < 50);
                }
                CHECK(ordered(&p.gain));
                double gain = 1 / p.slowdown[0].value + 1 / p.slowdown[1].value;
                CHECK(fabs(p.gain.value - gain) < 1e-9);
                CHECK(p.gain.high <= 2 && p.gain.low > 0);
                CHECK(p.coverage > 0.5 && p.coverage < 1);
                CHECK(p.advice && p.advice[0]);
                CHECK(!p.worth_it || (p.fits && p.gain.low > 1));
                if (check_failures_in_case) return;
            }
}

/* Each piece of advice is given to some pair, and only where it is meant. */
static void advice_follows_the_figures(void) {
    static const char *const advice[] = {
        "hardly slow each other", "both get slower", "the first may wait",   "the second may wait",
        "try it before",          "each only waits", "Under MPS they would", "nothing is gained"};
    enum { KINDS = sizeof advice / sizeof *advice };
    int given[KINDS] = {0};
    const double steps[] = {2, 8, 40, 200}, shares[] = {0.05, 0.3, 0.6, 0.8, 0.97};
    for (int s = 0; s < PL_SHARINGS; s++)
        for (int i = 0; i < 4 * 5; i++)
            for (int j = 0; j < 4 * 5; j++) {
                double t = steps[i / 5], u = steps[j / 5], p = shares[i % 5], q = shares[j % 5];
                pl_demand a = demand("a", t, t * p, t * (1.1 - p), t * (i % 3 ? 30 : 2)),
                          b = demand("b", u, u * q, u * (1.1 - q), u * 2);
                pl_pair pair = together(&a, &b, (pl_sharing)s);
                double first = pair.slowdown[0].value, second = pair.slowdown[1].value;
                for (int k = 0; k < KINDS; k++) {
                    if (!strstr(pair.advice, advice[k])) continue;
                    given[k]++;
                    CHECK_INT(pair.worth_it, k < 4);
                    if (k == 0) CHECK(first < 1.1 && second < 1.1);
                    if (k == 2) CHECK(first > 1.3 && first > second);
                    if (k == 3) CHECK(second > 1.3 && second > first);
                    if (k == 4) CHECK(pair.gain.value > 1.05 && pair.gain.low <= 1);
                    if (k > 4) CHECK(pair.gain.value <= 1.05);
                    if (k == 5 || k == 6) CHECK_INT(pair.sharing, PL_SLICES);
                }
            }
    for (int k = 0; k < KINDS; k++)
        if (!given[k]) check_say(__FILE__, __LINE__, advice[k]);
}

static void absurd_times_stay_finite(void) {
    const double steps[] = {1e-6, 1, 3e10}, shares[] = {0, 1e-9, 1, 1e6};
    for (int s = 0; s < PL_SHARINGS; s++)
        for (int i = 0; i < 3 * 4; i++)
            for (int j = 0; j < 3 * 4; j++) {
                double t = steps[i / 4], u = steps[j / 4];
                pl_demand a = demand("a", t, t * shares[i % 4], t * shares[j % 4], 1e12),
                          b = demand("b", u, u * shares[j % 4], 0, 0);
                pl_pair p = together(&a, &b, (pl_sharing)s);
                for (int k = 0; k < 2; k++)
                    CHECK(ordered(&p.slowdown[k]) && p.slowdown[k].low >= 1);
                CHECK(ordered(&p.gain) && p.gain.low > 0);
            }
}

static void a_busier_neighbour_slows_more(void) {
    for (int s = 0; s < PL_SHARINGS; s++) {
        pl_demand self = middle(), idle = demand("idle", 30, 1, 30, 300),
                  busy = demand("busy", 30, 29.5, 5, 300);
        CHECK(together(&self, &busy, (pl_sharing)s).slowdown[0].value >
              together(&self, &idle, (pl_sharing)s).slowdown[0].value + 0.1);
    }
}

static void memory_of_both_must_fit(void) {
    pl_demand a = small(), b = small();
    pl_pair p = together(&a, &b, PL_SLICES);
    CHECK_INT(p.needed_bytes, a.high_bytes + b.high_bytes);
    CHECK_INT(p.usable_bytes, pl_gpu_usable(h200));
    a.high_bytes = p.usable_bytes - b.high_bytes;
    CHECK(together(&a, &b, PL_SLICES).fits);
    a.high_bytes++;
    p = together(&a, &b, PL_SLICES);
    CHECK(!p.fits && !p.worth_it);
    CHECK(strstr(p.advice, "not fit"));
    a.high_bytes = INT64_MAX; /* must not turn negative */
    b.high_bytes = INT64_MAX;
    p = together(&a, &b, PL_SLICES);
    CHECK(!p.fits && p.needed_bytes > 0);
    /* Without an interval the peak stands for it. */
    a.high_bytes = b.high_bytes = PL_UNKNOWN;
    p = together(&a, &b, PL_SLICES);
    CHECK_INT(p.needed_bytes, a.peak_bytes + b.peak_bytes);
    a.peak_bytes = PL_UNKNOWN;
    pl_error err = {0};
    CHECK_INT(pl_collocate(&p, &a, &b, h200, PL_SLICES, &err), PL_INPUT);
    CHECK(strstr(err.message, "no peak"));
}

static void unknown_times_are_refused(void) {
    pl_pair pair = PL_SIZED(pl_pair);
    pl_error err = PL_SIZED(pl_error);
    pl_demand good = middle();
    for (int i = 0; i < 6; i++) {
        pl_demand bad = middle();
        double *of[] = {&bad.step_ms, &bad.device_ms, &bad.host_ms};
        *of[i % 3] = i < 3 ? NAN : INFINITY;
        CHECK_INT(pl_collocate(&pair, &good, &bad, h200, PL_SLICES, &err), PL_INPUT);
        CHECK_STR(err.where, "middle");
        CHECK_INT(pl_collocate(&pair, &bad, &good, h200, PL_MPS, &err), PL_INPUT);
    }
    pl_demand bad = middle();
    bad.step_ms = 0;
    CHECK_INT(pl_collocate(&pair, &good, &bad, h200, PL_SLICES, NULL), PL_INPUT);
    /* Counters and launches may be missing. */
    bad = middle();
    bad.launches = NAN;
    bad.smact = bad.smocc = bad.drama = bad.tensor = NAN;
    for (int s = 0; s < PL_SHARINGS; s++) {
        pl_pair p = together(&good, &bad, (pl_sharing)s);
        CHECK(ordered(&p.slowdown[0]) && ordered(&p.slowdown[1]));
    }
}

static void jobs_are_of_the_card(void) {
    pl_pair pair = PL_SIZED(pl_pair);
    pl_error err = PL_SIZED(pl_error);
    pl_demand a = middle(), b = middle();
    snprintf(b.gpu, sizeof b.gpu, "a100-40gb");
    CHECK_INT(pl_collocate(&pair, &a, &b, h200, PL_SLICES, &err), PL_USAGE);
    CHECK(strstr(err.message, "a100-40gb"));
    CHECK_INT(pl_collocate(&pair, &a, &a, h200, PL_SHARINGS, &err), PL_USAGE);
}

static void cards_not_measured_have_more_doubt(void) {
    const pl_gpu *card = pl_gpu_find("a100-40gb");
    pl_demand a = middle(), b = large();
    pl_pair known = together(&a, &b, PL_SLICES), guess = PL_SIZED(pl_pair);
    snprintf(a.gpu, sizeof a.gpu, "a100-40gb");
    snprintf(b.gpu, sizeof b.gpu, "a100-40gb");
    a.calibrated = b.calibrated = false;
    CHECK_INT(pl_collocate(&guess, &a, &b, card, PL_SLICES, NULL), PL_OK);
    CHECK(known.calibrated && !guess.calibrated);
    for (int i = 0; i < 2; i++) {
        CHECK(fabs(guess.slowdown[i].value - known.slowdown[i].value) < 1e-9);
        double width = known.slowdown[i].high / known.slowdown[i].low;
        CHECK(guess.slowdown[i].high / guess.slowdown[i].low > 1.05 * width);
    }
}

/* ---- files ---- */

static char path[] = "/tmp/plimsoll-collocate-XXXXXX";

static pl_status open_text(pl_demand *out, const char *text, size_t size, pl_error *err) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, size, file) != size || fclose(file) != 0)
        check_say(__FILE__, __LINE__, "cannot write");
    return pl_demand_open(out, path, err);
}

static const char whole[] =
    "{\"schema\":1,\"model\":{\"name\":\"n\\u00e9t\",\"x\":[1,{}]},\"gpu\":{\"name\":\"h200\","
    "\"capacity_bytes\":1,\"calibrated\":true},\"estimator\":\"hybrid\",\"memory\":{\"peak_bytes\":"
    "100,\"high_bytes\":120,\"overhead_bytes\":7,\"breakdown\":{\"weights\":1}},\"compute\":"
    "{\"step_ms\":2.5,\"device_ms\":2,\"host_ms\":1,\"launches\":40},\"utilization\":{\"smact\":"
    "50,\"smocc\":20,\"drama\":30,\"tensor\":null,\"low\":{\"smact\":1}}}";

static void a_written_estimate_is_read(void) {
    pl_demand d = PL_SIZED(pl_demand);
    pl_error err = {0};
    CHECK_INT(open_text(&d, whole, sizeof whole - 1, &err), PL_OK);
    CHECK_STR(d.name, "n\xc3\xa9t");
    CHECK_STR(d.gpu, "h200");
    CHECK_INT(d.peak_bytes, 100);
    CHECK_INT(d.high_bytes, 120);
    CHECK(d.step_ms == 2.5 && d.device_ms == 2 && d.host_ms == 1 && d.launches == 40);
    CHECK(d.smact == 50 && d.drama == 30 && isnan(d.tensor));
    CHECK(d.calibrated);
}

static void a_report_and_its_json_ask_the_same(void) {
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_job job;
    pl_job_default(&job);
    pl_demand d = PL_SIZED(pl_demand), e = PL_SIZED(pl_demand);
    pl_error err = {0};
    if (pl_model_open(&model, "tests/data/graphs/gpt2-tiny.pt2", NULL, &err) != PL_OK ||
        pl_estimate(&report, model, &job, &err) != PL_OK) {
        check_say(__FILE__, __LINE__, err.message);
        pl_model_close(&model);
        return;
    }
    pl_demand_of(&d, report, model);
    const char *json = pl_report_json(report, model);
    CHECK_INT(open_text(&e, json, strlen(json), &err), PL_OK);
    CHECK_STR(d.name, e.name);
    CHECK_STR(d.gpu, e.gpu);
    CHECK_INT(d.peak_bytes, e.peak_bytes);
    CHECK_INT(d.high_bytes, e.high_bytes);
    CHECK_INT(d.calibrated, e.calibrated);
    double of_report[] = {d.step_ms, d.device_ms, d.host_ms, d.launches, d.smact},
           of_json[] = {e.step_ms, e.device_ms, e.host_ms, e.launches, e.smact};
    for (int i = 0; i < 5; i++)
        CHECK(of_report[i] > 0 && fabs(of_json[i] / of_report[i] - 1) < 1e-5);
    pl_pair pair = together(&d, &e, PL_SLICES);
    CHECK(ordered(&pair.slowdown[0]));
    pl_report_close(&report);
    pl_model_close(&model);
}

static void every_cut_is_refused(void) {
    pl_demand d = PL_SIZED(pl_demand);
    pl_error err = PL_SIZED(pl_error);
    for (size_t size = 0; size < sizeof whole - 1; size++) {
        err = (pl_error){.position = -2};
        if (open_text(&d, whole, size, &err) != PL_INPUT || strcmp(err.where, path) != 0 ||
            err.position < -1 || err.position > (int64_t)size) {
            printf("    cut after %zu bytes: %s\n", size, err.message);
            check_say(__FILE__, __LINE__, "not refused");
            return;
        }
        CHECK_INT(d.peak_bytes, PL_UNKNOWN);
    }
}

/* whole with one part put in place of another. */
static void changed(const char *from, const char *to, const char *says) {
    char text[2048];
    const char *at = strstr(whole, from);
    if (!at) {
        check_say(__FILE__, __LINE__, from);
        return;
    }
    int size =
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    pl_demand d = PL_SIZED(pl_demand);
    pl_error err = {0};
    pl_status status = open_text(&d, text, (size_t)size, &err);
    if (status == PL_INPUT && strstr(err.message, says) && strcmp(err.where, path) == 0) return;
    printf("    %s: status %d, \"%s\"\n", to, (int)status, err.message);
    check_say(__FILE__, __LINE__, "not refused as it should be");
}

static void what_is_no_estimate_is_refused(void) {
    changed("\"schema\":1", "\"schema\":2", "schema 2");
    changed("\"schema\":1", "\"schema\":\"1\"", "expected");
    changed("\"schema\":1,", "", "\"schema\" is missing");
    changed("\"step_ms\":2.5,", "", "compute.step_ms");
    changed("\"peak_bytes\":100,", "", "memory.peak_bytes");
    changed("\"gpu\":{\"name\":\"h200\",", "\"gpu\":{", "gpu.name");
    changed("\"calibrated\":true", "\"calibrated\":1", "expected");
    changed("\"name\":\"h200\"", "\"name\":null", "expected");
    changed("\"step_ms\":2.5", "\"step_ms\":\"2.5\"", "expected");
    changed("\"step_ms\":2.5", "\"step_ms\":-1", "expected");
    changed("\"step_ms\":2.5", "\"step_ms\":1e300", "expected");
    changed("\"step_ms\":2.5", "\"step_ms\":NaN", "expected");
    changed("\"step_ms\":2.5", "\"step_ms\":[2.5]", "expected");
    changed("\"smact\":50", "\"smact\":500", "expected");
    changed("\"high_bytes\":120", "\"high_bytes\":120.5", "expected");
    changed("\"high_bytes\":120", "\"high_bytes\":99999999999999999999", "expected");
    changed("\"high_bytes\":120", "\"high_bytes\":-5", "expected");
    changed("\"memory\":{", "\"memory\":[{", "expected");
    changed("{\"schema\"", "[{\"schema\"", "expected");
    changed("null", "nul", "expected");
    changed("[1,{}]",
            "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
            "[[[[[[[[[[[[[[[[[[",
            "expected");
}

/* What is still read must be such that pl_collocate can be asked. */
static void damaged_estimates_do_no_harm(void) {
    static const char *const tokens[] = {
        "null", "1e999", "-1",  "{", "]", "\"", "\\u0000",
        "NaN",  "101",   "0.0", "0", ",", ":",  "99999999999999999999"};
    int good = 0;
    for (int i = 0; i < 3000; i++) {
        unsigned char text[4096];
        size_t size = sizeof whole - 1;
        memcpy(text, whole, size);
        fuzz_damage(text, &size, sizeof text, tokens, sizeof tokens / sizeof *tokens);
        pl_demand d = PL_SIZED(pl_demand);
        pl_error err = {0};
        pl_status status = open_text(&d, (const char *)text, size, &err);
        CHECK(status == PL_OK || (status == PL_INPUT && err.message[0]));
        if (status != PL_OK) continue;
        good++;
        CHECK(strlen(d.name) < sizeof d.name && strlen(d.gpu) < sizeof d.gpu);
        pl_pair pair = PL_SIZED(pl_pair);
        snprintf(d.gpu, sizeof d.gpu, "h200");
        status = pl_collocate(&pair, &d, &d, h200, i % 2 ? PL_MPS : PL_SLICES, &err);
        CHECK(status == PL_INPUT || (status == PL_OK && ordered(&pair.slowdown[0])));
    }
    CHECK(good > 100 && good < 2900);
}

static void long_names_are_cut_between_characters(void) {
    char text[4096], name[1024];
    for (size_t i = 0; i + 2 < sizeof name; i += 2) memcpy(name + i, "\xc3\xa9", 3);
    const char *at = strstr(whole, "n\\u00e9t");
    int size = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, name, at + 8);
    pl_demand d = PL_SIZED(pl_demand);
    CHECK_INT(open_text(&d, text, (size_t)size, NULL), PL_OK);
    CHECK_INT(strlen(d.name), 126);
}

static void a_large_or_missing_file_is_refused(void) {
    pl_demand d = PL_SIZED(pl_demand);
    pl_error err = {0};
    FILE *file = fopen(path, "wb");
    CHECK(file && fseek(file, 100L << 20, SEEK_SET) == 0 && fputc('x', file) == 'x');
    if (file) fclose(file);
    CHECK_INT(pl_demand_open(&d, path, &err), PL_INPUT);
    CHECK(strstr(err.message, "64 MiB"));
    CHECK_INT(pl_demand_open(&d, "no/such/file.json", &err), PL_INPUT);
    CHECK_STR(err.where, "no/such/file.json");
}

/* ---- measured pairs ---- */

enum { MOST_JOBS = 200, MOST_ERRORS = 4000 };

typedef struct known_job {
    char id[64];
    pl_demand inputs[2]; /* predicted, measured */
} known_job;

static known_job jobs[MOST_JOBS];
static int job_count;

static const known_job *job_named(const char *id) {
    for (int i = 0; i < job_count; i++)
        if (strcmp(jobs[i].id, id) == 0) return &jobs[i];
    return NULL;
}

static bool read_job(const char *line) {
    known_job *j = &jobs[job_count];
    double x[2][6];
    if (job_count == MOST_JOBS ||
        sscanf(line, "job %63s %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf", j->id, &x[0][0],
               &x[0][1], &x[0][2], &x[0][3], &x[0][4], &x[0][5], &x[1][0], &x[1][1], &x[1][2],
               &x[1][3], &x[1][4], &x[1][5]) != 13)
        return false;
    for (int k = 0; k < 2; k++) {
        j->inputs[k] = demand(j->id, x[k][0], x[k][1], x[k][2], x[k][3]);
        j->inputs[k].smact = x[k][4];
        j->inputs[k].drama = x[k][5];
    }
    job_count++;
    return true;
}

static int by_size(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

typedef struct misses {
    double errors[MOST_ERRORS];
    int count, inside;
} misses;

static void compare(misses *m, const pl_pair *pair, const double measured[2]) {
    for (int i = 0; i < 2 && m->count < MOST_ERRORS; i++) {
        const pl_figure *f = &pair->slowdown[i];
        m->errors[m->count++] = fabs(f->value / measured[i] - 1);
        double truth = fmax(1, measured[i]); /* below 1 is noise of the time alone */
        m->inside += truth >= f->low - 1e-9 && truth <= f->high + 1e-9;
    }
}

/* The table's weights were fitted to these pairs; tools/calibrate/pairs.py says how far off models
 * are that were kept apart (docs/utilization.md). Here it is held that the library is what was
 * fitted. */
static void measured_pairs_are_met(void) {
    static misses all[PL_SHARINGS][2];
    FILE *in = fopen(table_path, "r");
    char line[512], a[64], b[64], mode[16];
    double slow[2];
    if (!in) {
        check_say(__FILE__, __LINE__, table_path);
        return;
    }
    while (fgets(line, sizeof line, in)) {
        pl_sharing sharing;
        if (line[0] == '#') continue;
        if (strncmp(line, "job ", 4) == 0) {
            CHECK(read_job(line));
            continue;
        }
        CHECK_INT(sscanf(line, "%15s %63s %63s %lf %lf", mode, a, b, &slow[0], &slow[1]), 5);
        const known_job *of[2] = {job_named(a), job_named(b)};
        if (!of[0] || !of[1] || !pl_sharing_parse(mode, &sharing)) {
            check_say(__FILE__, __LINE__, line);
            continue;
        }
        for (int k = 0; k < 2; k++) {
            pl_pair pair = together(&of[0]->inputs[k], &of[1]->inputs[k], sharing);
            compare(&all[sharing][k], &pair, slow);
        }
    }
    fclose(in);
    for (int s = 0; s < PL_SHARINGS; s++)
        for (int k = 0; k < 2; k++) {
            misses *m = &all[s][k];
            CHECK(m->count >= 100);
            if (m->count == 0) continue;
            qsort(m->errors, (size_t)m->count, sizeof *m->errors, by_size);
            double median = m->errors[m->count / 2], p90 = m->errors[m->count * 9 / 10],
                   inside = (double)m->inside / m->count;
            printf("  %s, %s inputs: %d slowdowns, median error %.1f %%, p90 %.1f %%, inside the "
                   "interval %.0f %%\n",
                   pl_sharing_name((pl_sharing)s), k ? "measured" : "predicted", m->count,
                   100 * median, 100 * p90, 100 * inside);
            CHECK(median < 0.11 && p90 < 0.30);
            CHECK(inside > 0.82);
        }
}

int main(int argc, char **argv) {
    table_path = argc > 1 ? argv[1] : "tests/data/pairs.txt";
    h200 = pl_gpu_find("h200");
    int made = mkstemp(path);
    if (made < 0 || !h200) return 1;
    close(made);
    RUN(names_are_read_as_written);
    RUN(two_small_jobs_hardly_feel_each_other);
    RUN(two_jobs_that_fill_the_card_take_turns);
    RUN(more_than_two_share_one_card);
    RUN(equal_jobs_are_slowed_alike);
    RUN(swapped_jobs_give_swapped_answers);
    RUN(figures_hang_together);
    RUN(advice_follows_the_figures);
    RUN(absurd_times_stay_finite);
    RUN(a_busier_neighbour_slows_more);
    RUN(memory_of_both_must_fit);
    RUN(unknown_times_are_refused);
    RUN(jobs_are_of_the_card);
    RUN(cards_not_measured_have_more_doubt);
    RUN(a_written_estimate_is_read);
    RUN(a_report_and_its_json_ask_the_same);
    RUN(every_cut_is_refused);
    RUN(what_is_no_estimate_is_refused);
    RUN(damaged_estimates_do_no_harm);
    RUN(long_names_are_cut_between_characters);
    RUN(a_large_or_missing_file_is_refused);
    RUN(measured_pairs_are_met);
    unlink(path);
    return check_done();
}
