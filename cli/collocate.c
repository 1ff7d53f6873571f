/* collocate: two jobs on one card: whether they fit together, how much slower each gets, and what
 * is won. The jobs are given as what estimate --json wrote, or estimated here. The
 * library decides (pl_collocate); here it is asked and its answer printed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/counts.h"
#include "core/json_writer.h"
#include "core/file.h"
#include "core/number.h"
#include "text.h"
#include "verbs.h"

bool looks_like_estimate(const char *path) {
    char text[256] = "";
    pl_file file;
    if (pl_file_begin(&file, path, NULL) != PL_OK) return false;
    size_t size = file.size < sizeof text ? file.size : sizeof text - 1;
    bool read = file.plain && pl_file_piece(&file, 0, text, size, NULL) == PL_OK;
    pl_file_close(&file);
    if (!read) return false;
    const char *at = text + strspn(text, " \t\r\n");
    if (*at != '{') return false;
    at += 1 + strspn(at + 1, " \t\r\n");
    return strncmp(at, "\"schema\"", 8) == 0 || strncmp(at, "\"compute\"", 9) == 0;
}

/* A model estimated for the card; complains on failure. */
static int estimate_one(pl_demand *out, const request *r, const char *path, const char *gpu) {
    request one = *r;
    one.file = path;
    one.job.gpu = gpu;
    pl_model *model = NULL;
    pl_report *report = NULL;
    int code = open_model(&model, &one);
    if (code == 0) code = simulate(&report, model, &one, &one.job);
    if (code == 0) pl_demand_of(out, report, model);
    pl_report_close(&report);
    pl_model_close(&model);
    return code;
}

/* Whether options say how a model is to be estimated. */
static bool says_how(const pl_job *job, const pl_job *standard) {
    return job->batch != standard->batch || job->seq != standard->seq ||
           job->precision != standard->precision || job->checkpoint || job->channels_last ||
           job->cudnn_benchmark || job->train || job->alloc_conf ||
           job->accumulate != standard->accumulate || job->parallel != standard->parallel ||
           job->host_speed != standard->host_speed || job->copy_gbps != standard->copy_gbps ||
           job->risk != standard->risk || strcmp(job->optimizer, standard->optimizer) != 0;
}

/* Both demands, and the card: the one asked for, that of an estimate, or the default. */
static int read_both(pl_demand jobs[2], pl_gpu **gpu, const request *r) {
    bool known[2] = {false, false};
    const char *name = r->job.gpu;
    for (int i = 0; i < 2; i++) {
        pl_error err = PL_SIZED(pl_error);
        const char *path = r->files.names[i];
        size_t size = (size_t)file_size(path), most = r->limits.memory_bytes;
        bool large =
            most && size > most; /* an estimate is read whole; of a model, what is needed */
        if (large && looks_like_estimate(path))
            return complain(PL_LIMIT, "%s has %zu bytes, --max-memory allows %zu", path, size,
                            most);
        pl_status status = large ? PL_INPUT : pl_demand_open(&jobs[i], path, &err);
        known[i] = status == PL_OK;
        if (known[i] && !name) name = jobs[i].gpu;
        if (!known[i] && (status != PL_INPUT || looks_like_estimate(path)))
            return complain_of(&err, path);
    }
    pl_job standard;
    pl_job_default(&standard);
    if (known[0] && known[1] && says_how(&r->job, &standard))
        return complain(PL_USAGE,
                        "both are estimates already: how a job is trained, and what risk is "
                        "accepted, is said when it is estimated");
    if (!name) name = standard.gpu;
    pl_error unknown = PL_SIZED(pl_error);
    if (pl_gpu_open(gpu, name, r->job.catalogue, &unknown) != PL_OK) {
        unknown.code = PL_INPUT; /* an estimate says it */
        return complain_of(&unknown, r->file);
    }
    for (int i = 0; i < 2; i++) {
        int code = known[i] ? 0 : estimate_one(&jobs[i], r, r->files.names[i], (*gpu)->name);
        if (code) return code;
    }
    return 0;
}

/* ---- text ---- */

typedef struct slowdown {
    char text[96];
} slowdown;

static slowdown slowdown_text(const pl_figure *f) {
    slowdown t = {"?"};
    if (isfinite(f->value) && isfinite(f->low) && isfinite(f->high))
        snprintf(t.text, sizeof t.text, "%s times (%s to %s)", PL_REAL(".2f", f->value),
                 PL_REAL(".2f", f->low), PL_REAL(".2f", f->high));
    else if (isfinite(f->value))
        snprintf(t.text, sizeof t.text, "%s times", PL_REAL(".2f", f->value));
    return t;
}

static void print_jobs(const pl_demand jobs[2], const pl_pair *pair) {
    table *t = table_new("lrrrrl");
    table_row(t, (const char *[]){"JOB", "PEAK", "UP TO", "STEP ALONE", "TOGETHER", "SLOWER"});
    for (int i = 0; i < 2; i++) {
        const pl_demand *d = &jobs[i];
        small_text peak = text_bytes(d->peak_bytes), high = text_bytes(d->high_bytes),
                   alone = text_ms(d->step_ms),
                   together = text_ms(d->step_ms * pair->slowdown[i].value);
        slowdown slower = slowdown_text(&pair->slowdown[i]);
        table_row(t, (const char *[]){d->name, peak.text, high.text, alone.text, together.text,
                                      slower.text});
    }
    table_print(t, stdout, 2);
}

/* Each job's speed beside the other, of what it has alone: what is lost is left empty. */
static void print_speeds(const pl_demand jobs[2], const pl_pair *pair) {
    enum { BAR = 40, NAME = 24 };
    putchar('\n');
    for (int i = 0; i < 2; i++) {
        double speed = 1 / pair->slowdown[i].value;
        if (!isfinite(speed)) continue;
        char name[sizeof jobs[i].name];
        snprintf(name, sizeof name, "%.*s", NAME, jobs[i].name);
        fputs("  ", stdout);
        text_clean(stdout, name);
        printf("%*s %6s of its speed alone  %s",
               NAME - (int)strlen(name) > 0 ? NAME - (int)strlen(name) : 0, "",
               text_percent(speed).text, text_style(GREEN));
        text_bar(stdout, speed < 1 ? speed : 1, BAR);
        printf("%s\n", text_style(PLAIN));
    }
}

static void print_pair(const pl_demand jobs[2], const pl_pair *pair, const pl_gpu *gpu) {
    static const char *const hows[PL_SHARINGS] = {"in time slices", "under MPS"};
    printf("two jobs on %s%s%s, %s\n\n", text_style(BOLD), gpu->title, text_style(PLAIN),
           hows[pair->sharing]);
    print_jobs(jobs, pair);
    print_speeds(jobs, pair);
    printf("\n%s%s%s: both take up to %s of the %s that processes can have, contexts counted "
           "twice\n",
           text_style(verdict_style(pair->verdict)), pl_verdict_name(pair->verdict),
           text_style(PLAIN), text_bytes(pair->needed_bytes).text,
           text_bytes(pair->usable_bytes).text);
    if (isfinite(pair->gain.value)) {
        printf("work per second: %s times that of one after the other",
               PL_REAL(".2f", pair->gain.value));
        if (isfinite(pair->gain.low) && isfinite(pair->gain.high))
            printf(", between %s and %s", PL_REAL(".2f", pair->gain.low),
                   PL_REAL(".2f", pair->gain.high));
        if (isfinite(pair->gain.low) && isfinite(pair->coverage))
            printf(" (%s %% of pairs)", PL_REAL(".0f", 100 * pair->coverage));
        putchar('\n');
    }
    printf("%s%s%s\n", text_style(pair->worth_it ? GREEN : YELLOW), pair->advice,
           text_style(PLAIN));
    if (!pair->calibrated)
        printf(
            "%swarning:%s this card was not measured: times are by its rates, and how jobs share "
            "it is assumed to be as on an H200\n",
            text_style(YELLOW), text_style(PLAIN));
}

/* ---- JSON ---- */

static void print_json(const pl_demand jobs[2], const pl_pair *pair, const pl_gpu *gpu) {
    pl_json_writer j = {.file = stdout};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_string(&j, "gpu", gpu->name);
    pl_json_put_string(&j, "sharing", pl_sharing_name(pair->sharing));
    pl_json_put_bool(&j, "fits", pair->fits);
    pl_json_put_string(&j, "verdict", pl_verdict_name(pair->verdict));
    pl_json_put_count(&j, "needed_bytes", pair->needed_bytes);
    pl_json_put_count(&j, "usable_bytes", pair->usable_bytes);
    pl_json_put_open(&j, "jobs", '[');
    for (int i = 0; i < 2; i++) {
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_string(&j, "name", jobs[i].name);
        pl_json_put_real(&j, "slowdown", pair->slowdown[i].value);
        pl_json_put_real(&j, "slowdown_low", pair->slowdown[i].low);
        pl_json_put_real(&j, "slowdown_high", pair->slowdown[i].high);
        pl_json_put_real(&j, "step_ms", jobs[i].step_ms);
        pl_json_put_count(&j, "peak_bytes", jobs[i].peak_bytes);
        pl_json_put_count(&j, "high_bytes", jobs[i].high_bytes);
        pl_json_put_close(&j, '}');
    }
    pl_json_put_close(&j, ']');
    pl_json_put_real(&j, "coverage", pair->coverage);
    pl_json_put_real(&j, "gain", pair->gain.value);
    pl_json_put_real(&j, "gain_low", pair->gain.low);
    pl_json_put_real(&j, "gain_high", pair->gain.high);
    pl_json_put_bool(&j, "worth_it", pair->worth_it);
    pl_json_put_string(&j, "advice", pair->advice);
    pl_json_put_bool(&j, "calibrated", pair->calibrated);
    pl_json_put_close(&j, '}');
    putchar('\n');
}

static int answer(const pl_demand jobs[2], const pl_gpu *gpu, const request *r) {
    pl_pair pair = PL_SIZED(pl_pair);
    pl_error err = PL_SIZED(pl_error);
    if (pl_collocate(&pair, &jobs[0], &jobs[1], gpu, r->sharing, &err) != PL_OK)
        return complain_of(&err, NULL);
    if (r->json)
        print_json(jobs, &pair, gpu);
    else
        print_pair(jobs, &pair, gpu);
    return verdict_code(pair.verdict);
}

int verb_collocate(const request *r) {
    pl_demand jobs[2] = {PL_SIZED(pl_demand), PL_SIZED(pl_demand)};
    pl_gpu *gpu = NULL;
    int code = read_both(jobs, &gpu, r);
    if (code == 0) code = answer(jobs, gpu, r);
    pl_gpu_close(&gpu);
    return code;
}
