/* times: where a step's time goes, for explain --time: by phase, by module and by operator, as
 * text, as JSON, and as a file of numbers or a picture (icicle.c).
 *
 * Modules are summed by path as those of the memory are (modules.c). What they are ordered by and
 * shares are of is the side that bounds the step: the kernels' time on the card, or the time the
 * host takes to launch them. The two overlap, so that a step is shorter than their sum. */
#include "times.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/counts.h"
#include "core/json_writer.h"
#include "core/number.h"
#include "modules.h"
#include "output.h"
#include "svg.h"
#include "text.h"
#include "verbs.h"

enum { MODULE_ROWS = 24, OPERATOR_ROWS = 15, BAR = 24 };

bool times_by_host(const pl_report *report) {
    return report->host_ms > 1.25 * report->device_ms;
}

double time_of(const pl_report *report, const pl_time *t) {
    return times_by_host(report) ? t->host_ms : t->device_ms;
}

/* As an integer that `count` of can be added up. */
static int64_t whole(double value, size_t count) {
    double most = (double)(INT64_MAX / 2) / (double)(count + 1);
    return value > 0 ? (int64_t)fmin(value, most) : 0;
}

module_tree times_tree(const pl_report *report, size_t rows) {
    module_tree tree;
    size_t count = report->time_count;
    module_item *items = need(count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        const pl_time *t = pl_report_time(report, i);
        int64_t size = whole(1e6 * time_of(report, t), count);
        items[i] = (module_item){.module = t->module, .size = size};
        items[i].parts[TIME_DEVICE] = whole(1e6 * t->device_ms, count);
        items[i].parts[TIME_HOST] = whole(1e6 * t->host_ms, count);
        items[i].parts[TIME_FLOPS] = whole(t->flops, count);
        items[i].parts[TIME_BYTES] = whole(t->bytes, count);
        items[i].parts[TIME_LAUNCHES] = whole((double)t->launches, count);
        if (t->phase == PL_PHASE_FORWARD) items[i].parts[TIME_FORWARD] = size;
        if (t->phase == PL_PHASE_BACKWARD) items[i].parts[TIME_BACKWARD] = size;
    }
    modules_gather(&tree, items, count, rows);
    free(items);
    return tree;
}

/* ---- sums ---- */

static void add(pl_time *sum, const pl_time *t) {
    sum->calls += t->calls;
    sum->launches += t->launches;
    sum->device_ms += t->device_ms;
    sum->host_ms += t->host_ms;
    sum->flops += t->flops;
    sum->bytes += t->bytes;
}

static void sum_phases(const pl_report *report, pl_time phases[PL_PHASES], pl_time *total) {
    *total = (pl_time){.operator_name = "", .module = "", .phase = PL_PHASE_UNKNOWN};
    for (int p = 0; p < PL_PHASES; p++) phases[p] = (pl_time){.phase = (pl_phase)p};
    for (size_t i = 0; i < report->time_count; i++) {
        const pl_time *t = pl_report_time(report, i);
        add(total, t);
        if (t->phase >= 0) add(&phases[t->phase], t);
    }
}

static int compare_operators(const void *a, const void *b) {
    const pl_time *left = a, *right = b;
    int order = strcmp(left->operator_name, right->operator_name);
    return order ? order : (left->phase > right->phase) - (left->phase < right->phase);
}

static int by_device(const void *a, const void *b) {
    const pl_time *left = a, *right = b;
    if (left->device_ms != right->device_ms) return left->device_ms < right->device_ms ? 1 : -1;
    return compare_operators(a, b);
}

static int by_host(const void *a, const void *b) {
    const pl_time *left = a, *right = b;
    if (left->host_ms != right->host_ms) return left->host_ms < right->host_ms ? 1 : -1;
    return compare_operators(a, b);
}

/* Operators of all modules, by name and phase, the longest first; malloc'ed. */
static pl_time *sum_operators(const pl_report *report, size_t *count) {
    pl_time *list = need(report->time_count, sizeof *list);
    size_t kept = 0;
    for (size_t i = 0; i < report->time_count; i++) {
        list[i] = *pl_report_time(report, i);
        if (!list[i].operator_name) list[i].operator_name = "";
    }
    qsort(list, report->time_count, sizeof *list, compare_operators);
    for (size_t i = 0; i < report->time_count; i++) {
        if (kept && compare_operators(&list[kept - 1], &list[i]) == 0)
            add(&list[kept - 1], &list[i]);
        else
            list[kept++] = list[i];
    }
    qsort(list, kept, sizeof *list, times_by_host(report) ? by_host : by_device);
    *count = kept;
    return list;
}

/* ---- text ---- */

static small_text flops_text(double flops) {
    return flops > 0 ? text_scaled(flops, "FLOP") : (small_text){"-"};
}

static small_text moved_text(double bytes) {
    return bytes > 0 && bytes < 9e18 ? text_bytes((int64_t)bytes) : (small_text){"-"};
}

static small_text time_text(double ms) {
    return ms > 0 ? text_ms(ms) : (small_text){"-"};
}

static double share_of(double part, double all) {
    return all > 0 ? part / all : 0;
}

static void heading(const char *text) {
    printf("\n%s%s%s\n\n", text_style(BOLD), text, text_style(PLAIN));
}

static void print_phases(const pl_report *report) {
    pl_time phases[PL_PHASES], total;
    sum_phases(report, phases, &total);
    heading("where a step's time goes");
    printf("  %-9s %9s %9s %7s %12s %10s %8s\n", "PHASE", "CARD", "HOST", "SHARE", "COMPUTE",
           "MOVED", "KERNELS");
    for (int p = 0; p <= PL_PHASES; p++) {
        const pl_time *t = p < PL_PHASES ? &phases[p] : &total;
        if (p < PL_PHASES && t->device_ms <= 0 && t->host_ms <= 0) continue;
        double share = share_of(time_of(report, t), time_of(report, &total));
        printf("  %-9s %9s %9s %7s %12s %10s %8" PRId64 "  ",
               p < PL_PHASES ? pl_phase_name((pl_phase)p) : "all", time_text(t->device_ms).text,
               time_text(t->host_ms).text, text_percent(share).text, flops_text(t->flops).text,
               moved_text(t->bytes).text, t->launches);
        if (p < PL_PHASES) {
            fputs(text_style(GREEN), stdout);
            text_bar(stdout, share, BAR);
            fputs(text_style(PLAIN), stdout);
        }
        putchar('\n');
    }
    printf("\n  shares are of the %s\n", times_by_host(report) ? "host's time" : "card's time");
}

static void print_modules(const module_tree *tree) {
    heading("by module");
    table *t = table_new("rrrrrrl");
    table_row(t,
              (const char *[]){"CARD", "HOST", "SHARE", "COMPUTE", "MOVED", "KERNELS", "MODULE"});
    for (size_t i = 0; i < tree->row_count; i++) {
        const module_row *row = &tree->rows[i];
        char name[320];
        int used = snprintf(name, sizeof name, "%*s%s", 2 * row->depth, "", row->name);
        if (row->modules > 1 && used > 0 && (size_t)used < sizeof name)
            snprintf(name + used, sizeof name - (size_t)used, "  (%zu of them)", row->modules);
        small_text device = time_text((double)row->parts[TIME_DEVICE] / 1e6),
                   host = time_text((double)row->parts[TIME_HOST] / 1e6),
                   share = text_percent(share_of((double)row->size, (double)tree->total)),
                   flops = flops_text((double)row->parts[TIME_FLOPS]),
                   moved = moved_text((double)row->parts[TIME_BYTES]),
                   kernels = text_whole(row->parts[TIME_LAUNCHES]);
        table_row(t, (const char *[]){device.text, host.text, share.text, flops.text, moved.text,
                                      kernels.text, name});
    }
    table_print(t, stdout, 2);
}

static void print_operators(const pl_report *report, const module_tree *tree) {
    size_t count;
    pl_time *list = sum_operators(report, &count);
    heading("by operator");
    table *t = table_new("rrrrrrrll");
    table_row(t, (const char *[]){"CARD", "HOST", "SHARE", "COMPUTE", "MOVED", "KERNELS", "CALLS",
                                  "PHASE", "OPERATOR"});
    for (size_t i = 0; i < count && i < OPERATOR_ROWS; i++) {
        const pl_time *o = &list[i];
        small_text device = time_text(o->device_ms), host = time_text(o->host_ms),
                   share = text_percent(share_of(time_of(report, o), (double)tree->total / 1e6)),
                   flops = flops_text(o->flops), moved = moved_text(o->bytes),
                   kernels = text_whole(o->launches), calls = text_whole(o->calls);
        const char *phase = o->phase >= 0 ? pl_phase_name(o->phase) : "";
        table_row(t, (const char *[]){device.text, host.text, share.text, flops.text, moved.text,
                                      kernels.text, calls.text, phase, o->operator_name});
    }
    table_print(t, stdout, 2);
    if (count > OPERATOR_ROWS) printf("\n  and %zu more; --json has them\n", count - OPERATOR_ROWS);
    free(list);
}

/* ---- JSON ---- */

static void json_sums(pl_json_writer *j, const pl_time *t) {
    pl_json_put_real(j, "device_ms", t->device_ms);
    pl_json_put_real(j, "host_ms", t->host_ms);
    pl_json_put_int(j, "calls", t->calls);
    pl_json_put_int(j, "launches", t->launches);
    pl_json_put_real(j, "flops", t->flops);
    pl_json_put_real(j, "bytes", t->bytes);
}

static int print_json(const pl_model *model, pl_report *report, const module_tree *tree) {
    const char *estimate = pl_report_json(report, model);
    if (!estimate) return complain(PL_MISSING, "out of memory");
    pl_time phases[PL_PHASES], total;
    sum_phases(report, phases, &total);
    pl_json_writer j = {.file = stdout};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_raw(&j, "estimate", estimate);
    pl_json_put_open(&j, "phases", '[');
    for (int p = 0; p < PL_PHASES; p++) {
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_string(&j, "phase", pl_phase_name((pl_phase)p));
        json_sums(&j, &phases[p]);
        pl_json_put_close(&j, '}');
    }
    pl_json_put_close(&j, ']');
    pl_json_put_open(&j, "modules", '[');
    for (size_t i = 0; i < tree->row_count; i++) {
        const module_row *row = &tree->rows[i];
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_string(&j, "path", row->path);
        pl_json_put_int(&j, "depth", row->depth);
        pl_json_put_int(&j, "modules", (int64_t)row->modules);
        pl_json_put_real(&j, "device_ms", (double)row->parts[TIME_DEVICE] / 1e6);
        pl_json_put_real(&j, "host_ms", (double)row->parts[TIME_HOST] / 1e6);
        pl_json_put_real(&j, "share", share_of((double)row->size, (double)tree->total));
        pl_json_put_int(&j, "launches", row->parts[TIME_LAUNCHES]);
        pl_json_put_real(&j, "flops", (double)row->parts[TIME_FLOPS]);
        pl_json_put_real(&j, "bytes", (double)row->parts[TIME_BYTES]);
        pl_json_put_close(&j, '}');
    }
    pl_json_put_close(&j, ']');
    size_t count;
    pl_time *list = sum_operators(report, &count);
    pl_json_put_open(&j, "operators", '[');
    for (size_t i = 0; i < count; i++) {
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_string(&j, "operator", list[i].operator_name);
        pl_json_put_string(&j, "phase", list[i].phase >= 0 ? pl_phase_name(list[i].phase) : NULL);
        json_sums(&j, &list[i]);
        pl_json_put_close(&j, '}');
    }
    pl_json_put_close(&j, ']');
    pl_json_put_close(&j, '}');
    putchar('\n');
    free(list);
    return 0;
}

/* ---- files ---- */

static void csv_text(FILE *out, const char *text) {
    putc('"', out);
    for (; text && *text; text++) {
        if (*text == '"') putc('"', out);
        putc((unsigned char)*text < 0x20 ? '?' : *text, out);
    }
    fputs("\",", out);
}

static void write_csv(FILE *out, const pl_report *report) {
    fputs("module,operator,phase,calls,launches,device_ms,host_ms,flops,bytes\n", out);
    for (size_t i = 0; i < report->time_count; i++) {
        const pl_time *t = pl_report_time(report, i);
        csv_text(out, t->module);
        csv_text(out, t->operator_name);
        fprintf(out, "%s,%" PRId64 ",%" PRId64 ",%s,%s,%s,%s\n",
                t->phase >= 0 ? pl_phase_name(t->phase) : "", t->calls, t->launches,
                PL_REAL(".6g", t->device_ms), PL_REAL(".6g", t->host_ms), PL_REAL(".12g", t->flops),
                PL_REAL(".12g", t->bytes));
    }
}

static int no_times(const char *option, const pl_report *report) {
    return complain(PL_USAGE, "%s: estimator %s does not say where a step's time goes%s%s", option,
                    report->estimator, has_breakdown(report) ? " in this model" : "; these do: ",
                    has_breakdown(report) ? "" : simulating_names());
}

int times_write(const char *path, const pl_report *report, const pl_model_info *info,
                const pl_job *job) {
    if (report->time_count == 0) return no_times("--times", report);
    output file;
    int code = 0;
    FILE *out = output_open(&file, path, &code);
    if (!out) return code;
    if (text_ends(path, ".csv"))
        write_csv(out, report);
    else
        icicle_draw(out, report, info, job);
    return output_close(&file);
}

int times_print(const request *r, const pl_model *model, pl_report *report, const pl_job *job) {
    if (report->time_count == 0) return no_times("--time", report);
    module_tree tree = times_tree(report, MODULE_ROWS);
    int code = 0;
    if (r->json) {
        code = print_json(model, report, &tree);
    } else {
        print_model(model, report, job);
        print_use(report, job, model);
        print_phases(report);
        print_modules(&tree);
        print_operators(report, &tree);
        print_warnings(report);
    }
    modules_free(&tree);
    return code;
}
