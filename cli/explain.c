/* explain: what is alive at the peak by kind, by module and by tensor, and what other settings
 * would change; with --time, where a step's time goes (times.c). Modules are summed by path; the
 * blocks of a stack (layers.0, layers.1, ...) count as one, layers.*, where they have modules
 * inside. The tree is opened at its largest branches until it has MOST_ROWS rows. Every row of what
 * would change is a simulation of its own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "modules.h"
#include "progress.h"
#include "remedies.h"
#include "text.h"
#include "timeline.h"
#include "verbs.h"

enum { TENSOR_ROWS = 15, MOST_ROWS = 24 };

/* ---- what would change ---- */

typedef struct change {
    char name[64];
    pl_job job;
    pl_status status;
    int64_t peak, high;
    pl_verdict verdict;
    char message[512];
} change;

enum { MOST_CHANGES = 16 };

static bool has_symbol(const pl_model *model, const char *role) {
    const pl_symbol *symbol;
    for (size_t i = 0; (symbol = pl_model_symbol(model, i)); i++)
        if (strcmp(symbol->role, role) == 0) return true;
    return false;
}

/* The optimizer's fused form, NULL where it is fused already or has none. */
static const char *fused_form(const char *optimizer) {
    const char *name;
    size_t length = strlen(optimizer);
    for (size_t i = 0; (name = pl_optimizer_name(i)); i++)
        if (strncmp(name, optimizer, length) == 0 && strcmp(name + length, "-fused") == 0)
            return name;
    return NULL;
}

static change *add_change(change *list, size_t *count, const pl_job *job, const char *name) {
    change *c = &list[(*count)++];
    c->job = *job;
    c->job.want_timeline = c->job.want_alive = c->job.want_times = false;
    c->job.snapshot = NULL;
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

static size_t list_changes(change *list, const pl_model *model, const pl_job *job,
                           const pl_report *report) {
    static const pl_precision precisions[] = {PL_AMP_BF16, PL_BF16};
    size_t count = 0;
    char name[64];
    if (!job->checkpoint) add_change(list, &count, job, "--checkpoint")->job.checkpoint = true;
    const char *fused = fused_form(job->optimizer);
    const char *optimizers[] = {fused, strcmp(job->optimizer, "sgd") != 0 ? "sgd" : NULL};
    for (size_t i = 0; i < 2; i++) {
        if (!optimizers[i]) continue;
        snprintf(name, sizeof name, "--optimizer %s", optimizers[i]);
        add_change(list, &count, job, name)->job.optimizer = optimizers[i];
    }
    for (size_t i = 0; i < 2; i++) {
        if (job->precision == precisions[i]) continue;
        snprintf(name, sizeof name, "--precision %s", pl_precision_name((size_t)precisions[i]));
        add_change(list, &count, job, name)->job.precision = precisions[i];
    }
    if (has_symbol(model, "batch") && report->batch > 0) {
        int64_t batches[] = {report->batch / 2, report->batch * 2};
        for (size_t i = 0; i < 2; i++) {
            if (batches[i] < 1) continue;
            snprintf(name, sizeof name, "--batch %" PRId64, batches[i]);
            add_change(list, &count, job, name)->job.batch = batches[i];
        }
    }
    return count;
}

static void simulate_changes(change *list, size_t count, const pl_model *model) {
    progress_start("simulating what would change", count);
    for (size_t i = 0; i < count; i++) {
        pl_report *report = NULL;
        pl_error err = PL_SIZED(pl_error);
        list[i].status = pl_estimate(&report, model, &list[i].job, &err);
        if (list[i].status == PL_OK) {
            list[i].peak = report->peak_bytes;
            list[i].high = report->upper_bytes;
            list[i].verdict = report->verdict;
        } else {
            snprintf(list[i].message, sizeof list[i].message, "%s", err.message);
        }
        pl_report_close(&report);
        progress_at(i + 1);
    }
    progress_stop();
}

/* ---- text ---- */

static module_tree gather_alive(const pl_report *report) {
    module_tree tree;
    module_item *items = need(report->alive_count, sizeof *items);
    for (size_t i = 0; i < report->alive_count; i++) {
        const pl_alive *a = pl_report_alive(report, i);
        items[i] = (module_item){.module = a->module, .size = a->bytes};
        if (a->kind < PL_FRAGMENTATION) items[i].parts[a->kind] = a->bytes;
    }
    modules_gather(&tree, items, report->alive_count, MOST_ROWS);
    free(items);
    return tree;
}

static void print_modules(const module_tree *tree, int64_t total) {
    printf("\n%salive at the peak, by module%s\n\n", text_style(BOLD), text_style(PLAIN));
    table *t = table_new("rrrrrl");
    table_row(t, (const char *[]){"BYTES", "SHARE", "WEIGHTS*", "ACTIVATIONS", "OTHER", "MODULE"});
    for (size_t i = 0; i < tree->row_count; i++) {
        const module_row *row = &tree->rows[i];
        int64_t state =
            row->parts[PL_WEIGHTS] + row->parts[PL_GRADIENTS] + row->parts[PL_OPTIMIZER];
        int64_t other = row->size - state - row->parts[PL_ACTIVATIONS];
        char name[320];
        snprintf(name, sizeof name, "%*s%s", 2 * row->depth, "", row->name);
        if (row->modules > 1) {
            size_t used = strlen(name);
            snprintf(name + used, sizeof name - used, "  (%zu of them)", row->modules);
        }
        small_text bytes = text_bytes(row->size), states = text_bytes(state),
                   activations = text_bytes(row->parts[PL_ACTIVATIONS]), others = text_bytes(other),
                   share = text_percent(total > 0 ? (double)row->size / (double)total : 0);
        table_row(t, (const char *[]){bytes.text, share.text, state ? states.text : "-",
                                      row->parts[PL_ACTIVATIONS] ? activations.text : "-",
                                      other ? others.text : "-", name});
    }
    table_print(t, stdout, 2);
    printf("\n  * weights with their gradients and optimizer state\n");
}

static void print_tensors(const pl_report *report) {
    printf("\n%slargest tensors alive at the peak%s\n\n", text_style(BOLD), text_style(PLAIN));
    table *t = table_new("rlllll");
    table_row(t, (const char *[]){"BYTES", "KIND", "BORN", "OPERATOR", "TENSOR", "MODULE"});
    for (size_t i = 0; i < report->alive_count && i < TENSOR_ROWS; i++) {
        const pl_alive *a = pl_report_alive(report, i);
        small_text bytes = text_bytes(a->bytes);
        table_row(t, (const char *[]){bytes.text, pl_kind_name(a->kind), pl_phase_name(a->born),
                                      a->operator_name, a->tensor, a->module});
    }
    table_print(t, stdout, 2);
}

static void print_changes(const change *list, size_t count, const pl_report *report) {
    printf("\n%swhat would change it%s\n\n", text_style(BOLD), text_style(PLAIN));
    table *t = table_new("lrrrl");
    table_row(t, (const char *[]){"WITH", "PEAK", "CHANGE", "UP TO", "FITS"});
    for (size_t i = 0; i < count; i++) {
        const change *c = &list[i];
        if (c->status != PL_OK) {
            table_row(t, (const char *[]){c->name, "-", "-", "-", c->message});
            continue;
        }
        small_text peak = text_bytes(c->peak), high = text_bytes(c->high),
                   difference = text_change(c->peak - report->peak_bytes);
        table_row(t, (const char *[]){c->name, peak.text, difference.text,
                                      c->high >= 0 ? high.text : "-", verdict_answer(c->verdict)});
        table_style(t, 4, verdict_style(c->verdict));
    }
    table_print(t, stdout, 2);
}

/* ---- JSON ---- */

static void json_changes(pl_json_writer *j, const change *list, size_t count,
                         const pl_report *report) {
    pl_json_put_open(j, "changes", '[');
    for (size_t i = 0; i < count; i++) {
        const change *c = &list[i];
        bool known = c->status == PL_OK;
        pl_json_put_open(j, NULL, '{');
        pl_json_put_string(j, "with", c->name);
        pl_json_put_count(j, "peak_bytes", known ? c->peak : PL_UNKNOWN);
        pl_json_put_count(j, "high_bytes", known ? c->high : PL_UNKNOWN);
        if (known)
            pl_json_put_int(j, "change_bytes", c->peak - report->peak_bytes);
        else
            pl_json_put_string(j, "change_bytes", NULL);
        if (c->status == PL_OK)
            pl_json_put_bool(j, "fits", c->verdict == PL_FITS);
        else
            pl_json_put_string(j, "fits", NULL);
        pl_json_put_string(j, "verdict", known ? pl_verdict_name(c->verdict) : NULL);
        pl_json_put_string(j, "error", c->status == PL_OK ? NULL : c->message);
        pl_json_put_close(j, '}');
    }
    pl_json_put_close(j, ']');
}

static int print_json(const pl_model *model, pl_report *report, const module_tree *tree,
                      const change *list, size_t count, const pl_remedies *remedies) {
    const char *estimate = pl_report_json(report, model);
    if (!estimate) return complain(PL_MISSING, "out of memory");
    pl_json_writer j = {.file = stdout};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_raw(&j, "estimate", estimate);
    pl_json_put_open(&j, "modules", '[');
    for (size_t i = 0; i < tree->row_count; i++) {
        const module_row *row = &tree->rows[i];
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_string(&j, "path", row->path);
        pl_json_put_int(&j, "depth", row->depth);
        pl_json_put_int(&j, "modules", (int64_t)row->modules);
        pl_json_put_int(&j, "bytes", row->size);
        for (int kind = 0; kind < PL_FRAGMENTATION; kind++)
            pl_json_put_int(&j, pl_kind_name((pl_kind)kind), row->parts[kind]);
        pl_json_put_close(&j, '}');
    }
    pl_json_put_close(&j, ']');
    pl_json_put_open(&j, "tensors", '[');
    for (size_t i = 0; i < report->alive_count; i++) {
        const pl_alive *a = pl_report_alive(report, i);
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_int(&j, "bytes", a->bytes);
        pl_json_put_string(&j, "kind", pl_kind_name(a->kind));
        pl_json_put_string(&j, "born", pl_phase_name(a->born));
        pl_json_put_string(&j, "operator", a->operator_name);
        pl_json_put_string(&j, "tensor", a->tensor);
        pl_json_put_string(&j, "module", a->module);
        pl_json_put_close(&j, '}');
    }
    pl_json_put_close(&j, ']');
    json_changes(&j, list, count, report);
    remedies_json(&j, remedies);
    pl_json_put_close(&j, '}');
    putchar('\n');
    return 0;
}

int verb_explain(const request *r) {
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_job job = r->job;
    job.want_timeline = r->timeline != NULL;
    job.want_alive = !r->time;
    job.want_times = r->time || r->times;
    int code = open_model(&model, r);
    if (code == 0) code = simulate(&report, model, r, &job);
    if (code == 0 && !r->time && report->alive_count == 0 && !has_breakdown(report))
        code = complain(
            PL_USAGE, "explain: estimator %s does not say what is alive at the peak; these do: %s",
            report->estimator, simulating_names());
    if (code == 0 && r->timeline)
        code = timeline_write(r->timeline, report, pl_model_describe(model), &job);
    if (code == 0 && r->times) code = times_write(r->times, report, pl_model_describe(model), &job);
    if (code == 0 && r->time) {
        code = times_print(r, model, report, &job);
    } else if (code == 0) {
        change *list = need(MOST_CHANGES, sizeof *list);
        size_t count = list_changes(list, model, &job, report);
        simulate_changes(list, count, model);
        module_tree tree = gather_alive(report);
        pl_remedies *remedies = NULL;
        if (!report->fits) code = remedies_find(&remedies, model, &job, r->file);
        if (code == 0 && r->json) {
            code = print_json(model, report, &tree, list, count, remedies);
        } else if (code == 0) {
            print_model(model, report, &job);
            print_peak(report);
            print_verdict(report);
            print_modules(&tree, tree.total);
            print_tensors(report);
            if (remedies) remedies_print(remedies, report);
            print_changes(list, count, report);
            print_warnings(report);
        }
        pl_remedies_close(&remedies);
        modules_free(&tree);
        free(list);
    }
    pl_report_close(&report);
    pl_model_close(&model);
    return code;
}
