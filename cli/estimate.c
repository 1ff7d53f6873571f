/* estimate: the verb, and what other verbs print of an estimate too. The JSON is the library's
 * (pl_report_json); the timeline is written before anything is printed, so that a path that cannot
 * be written fails without half an answer. */
#include <inttypes.h>
#include <stdio.h>

#include "core/counts.h"
#include "core/number.h"
#include "progress.h"
#include "text.h"
#include "timeline.h"
#include "verbs.h"

int open_model(pl_model **model, const request *r) {
    pl_error err = PL_SIZED(pl_error);
    pl_model_settings settings = r->settings;
    settings.first = &r->job;
    progress_start("reading", 0);
    pl_status status = pl_model_open(model, r->file, &settings, &err);
    progress_stop();
    return status == PL_OK ? 0 : complain_of(&err, r->file);
}

int simulate(pl_report **report, const pl_model *model, const request *r, const pl_job *job) {
    pl_error err = PL_SIZED(pl_error);
    progress_start("simulating", 0);
    pl_status status = pl_estimate(report, model, job, &err);
    progress_stop();
    return status == PL_OK ? 0 : complain_of(&err, r->file);
}

bool has_breakdown(const pl_report *report) {
    for (int kind = 0; kind < PL_KINDS; kind++)
        if (pl_report_bytes(report, (pl_kind)kind) < 0) return false;
    return true;
}

const char *simulating_names(void) {
    static char list[256];
    const pl_estimator_info *info;
    size_t used = 0;
    list[0] = '\0';
    for (size_t i = 0; used < sizeof list && (info = pl_estimator_at(i)); i++)
        if (info->kind == PL_SIMULATION)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     info->name);
    return list;
}

/* ---- what is simulated ---- */

static void print_parallel(const pl_job *job) {
    if (job->parallel == PL_DDP) printf(", one rank of %d (ddp)", job->world);
    if (job->parallel == PL_FSDP2)
        printf(", one rank of %d (fsdp2, stage %d%s%s)", job->world, job->stage,
               job->parallel_mixed ? ", mixed precision" : "",
               job->load == PL_LOAD_FULL ? ", loaded whole" : "");
}

void print_model(const pl_model *model, const pl_report *report, const pl_job *job) {
    const pl_model_info *info = pl_model_describe(model);
    fputs(text_style(BOLD), stdout);
    text_clean(stdout, info->name);
    printf("%s: %s parameters", text_style(PLAIN), text_count(info->parameters).text);
    if (info->operators >= 0) printf(", %" PRId64 " operators", info->operators);
    if (info->torch_version && info->torch_version[0]) {
        fputs(info->recorded ? ", traced under PyTorch " : ", exported by PyTorch ", stdout);
        text_clean(stdout, info->torch_version);
    }
    putchar('\n');
    if (report->batch >= 0) printf("batch %" PRId64 ", ", report->batch);
    if (report->seq >= 0) printf("sequence %" PRId64 ", ", report->seq);
    if (info->recorded) {
        fputs("as recorded: ", stdout);
        text_clean(stdout, info->recorded);
    } else {
        fputs(job->precision != PL_PRECISION_AS_EXPORTED ? pl_precision_name((size_t)job->precision)
              : info->as_exported                        ? info->as_exported
                                                         : "precision as exported",
              stdout);
        printf(", %s", job->optimizer);
    }
    if (job->train) {
        fputs(", ", stdout);
        text_clean(stdout, job->train);
    }
    if (report->trainable != info->parameters && report->trainable >= 0)
        printf("%s%s of %s trained%s", job->train ? " (" : ", ", text_count(report->trainable).text,
               text_count(info->parameters).text, job->train ? ")" : "");
    if (job->accumulate > 1) printf(", %d backward passes per step", job->accumulate);
    if (job->checkpoint) fputs(", checkpointing", stdout);
    if (job->channels_last) fputs(", channels last", stdout);
    if (job->cudnn_benchmark) fputs(", cudnn benchmark", stdout);
    if (job->alloc_conf) {
        fputs(", ", stdout);
        text_clean(stdout, job->alloc_conf);
    }
    print_parallel(job);
    printf(", on %s\n", report->gpu->title);
}

void job_line(char *out, size_t size, const pl_model_info *info, const pl_report *report,
              const pl_job *job) {
    size_t used = 0;
    char number[32], passes[32] = "", ranks[64] = "";
    if (job->accumulate > 1) snprintf(passes, sizeof passes, "%d passes per step", job->accumulate);
    if (job->parallel != PL_ALONE)
        snprintf(ranks, sizeof ranks, "one rank of %d (%s)", job->world,
                 pl_parallel_name((size_t)job->parallel));
    const char *parts[] = {info->recorded ? info->recorded
                           : job->precision != PL_PRECISION_AS_EXPORTED
                               ? pl_precision_name((size_t)job->precision)
                           : info->as_exported ? info->as_exported
                                               : "precision as exported",
                           info->recorded ? "" : job->optimizer,
                           job->train ? job->train : "",
                           passes,
                           job->checkpoint ? "checkpointing" : "",
                           job->channels_last ? "channels last" : "",
                           job->alloc_conf ? job->alloc_conf : "",
                           ranks};
    out[0] = '\0';
    const int64_t sizes[] = {report->batch, report->seq};
    for (size_t i = 0; i < 2 && used < size; i++) {
        if (sizes[i] < 0) continue;
        snprintf(number, sizeof number, "%s %" PRId64 ", ", i ? "sequence" : "batch", sizes[i]);
        used += (size_t)snprintf(out + used, size - used, "%s", number);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts && used < size; i++)
        if (parts[i] && parts[i][0])
            used += (size_t)snprintf(out + used, size - used, "%s, ", parts[i]);
    if (used < size)
        snprintf(out + used, size - used, "on %s, %s usable", report->gpu->title,
                 text_bytes(report->usable_bytes).text);
}

/* ---- the peak ---- */

/* Where the most is allocated; what is reserved, and so the peak, can be higher later on. */
static void print_where(const pl_report *report) {
    if (report->peak_phase < 0) return;
    if (report->peak_phase == PL_PHASE_LOAD)
        fputs("  most is allocated before the first step, load", stdout);
    else
        printf("  most is allocated in step %d, %s", report->peak_step + 1,
               pl_phase_name(report->peak_phase));
    if (report->peak_operator && report->peak_operator[0]) {
        fputs(", ", stdout);
        text_clean(stdout, report->peak_operator);
    }
    if (report->peak_module && report->peak_module[0]) {
        fputs(" of ", stdout);
        text_clean(stdout, report->peak_module);
    }
    putchar('\n');
}

static void print_breakdown(const pl_report *report) {
    enum { BAR = 32 };
    putchar('\n');
    int64_t largest = 1;
    for (int kind = 0; kind < PL_KINDS; kind++)
        if (pl_report_bytes(report, (pl_kind)kind) > largest)
            largest = pl_report_bytes(report, (pl_kind)kind);
    for (int kind = 0; kind < PL_KINDS; kind++) {
        int64_t bytes = pl_report_bytes(report, (pl_kind)kind);
        if (bytes == 0) continue;
        double share = report->peak_bytes > 0 ? (double)bytes / (double)report->peak_bytes : 0;
        printf("  %-13s %10s %7s  ", pl_kind_name((pl_kind)kind), text_bytes(bytes).text,
               text_percent(share).text);
        fputs(text_style(kind == PL_FRAGMENTATION || kind == PL_CONTEXT ? DIM : GREEN), stdout);
        text_bar(stdout, (double)bytes / (double)largest, BAR);
        printf("%s\n", text_style(PLAIN));
    }
}

/* What is known of them; the rest is not said. */
static void print_parts(const pl_report *report) {
    const struct {
        const char *name;
        int64_t bytes;
    } parts[] = {
        {"allocated", report->allocated_bytes},
        {"reserved", report->reserved_bytes},
        {"outside the allocator", report->overhead_bytes},
    };
    const char *between = "\n";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].bytes < 0) continue;
        printf("%s%s %s", between, parts[i].name, text_bytes(parts[i].bytes).text);
        between = ", ";
    }
    putchar('\n');
}

void print_peak(const pl_report *report) {
    printf("\n%speak %s%s, ", text_style(BOLD), text_bytes(report->peak_bytes).text,
           text_style(PLAIN));
    if (report->low_bytes >= 0 && report->high_bytes >= 0)
        printf("between %s and %s (%s %% of jobs)", text_bytes(report->low_bytes).text,
               text_bytes(report->high_bytes).text, PL_REAL(".0f", 100 * report->coverage));
    else
        fputs("no interval", stdout);
    if (!has_breakdown(report)) printf(", as estimator %s has it", report->estimator);
    putchar('\n');
    print_where(report);
    if (report->steps_peak_bytes >= 0 && report->steps_peak_bytes < report->peak_bytes)
        printf("  loading is the peak: the steps by themselves take %s\n",
               text_bytes(report->steps_peak_bytes).text);
    if (has_breakdown(report)) print_breakdown(report);
    print_parts(report);
}

void print_warnings(const pl_report *report) {
    for (size_t i = 0; i < report->warning_count; i++) {
        printf("%swarning:%s ", text_style(YELLOW), text_style(PLAIN));
        text_clean(stdout, report->warnings[i]);
        printf("%s\n", hint_of(report->warnings[i]));
    }
}

int verb_estimate(const request *r) {
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_job job = r->job;
    job.want_timeline = r->timeline != NULL;
    bool several = r->batches.count > 1 || r->seqs.count > 1;
    int code = 0;
    if (several && r->timeline)
        code = complain(PL_USAGE, "--timeline is of one batch and sequence length, not of several");
    if (code == 0 && !several && r->heatmap)
        code = complain(PL_USAGE, "--heatmap needs several batches or sequence lengths: --batch "
                                  "1,2,4 --seq 512..8192");
    if (code == 0) code = open_model(&model, r);
    if (code == 0 && several) {
        code = sweep(r, model);
        pl_model_close(&model);
        return code;
    }
    if (code == 0) code = simulate(&report, model, r, &job);
    if (code == 0 && r->timeline)
        code = timeline_write(r->timeline, report, pl_model_describe(model), &job);
    if (code == 0 && r->json) {
        const char *text = pl_report_json(report, model);
        if (text)
            puts(text);
        else
            code = complain(PL_MISSING, "out of memory");
    } else if (code == 0) {
        print_model(model, report, &job);
        print_peak(report);
        print_verdict(report);
        print_use(report, &job, model);
        print_warnings(report);
    }
    pl_report_close(&report);
    pl_model_close(&model);
    return code;
}
