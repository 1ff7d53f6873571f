/* check: one line and an exit code, for scripts: 0 fits, 11 may not fit, 10 does not fit. */
#include <stdio.h>

#include "core/json_writer.h"
#include "text.h"
#include "verbs.h"

static void print_line(const pl_model *model, const pl_report *report) {
    text_clean(stdout, pl_model_describe(model)->name);
    printf(": %s", text_bytes(report->peak_bytes).text);
    if (report->steps_peak_bytes >= 0 && report->steps_peak_bytes < report->peak_bytes)
        printf(" while loading (the steps by themselves take %s)",
               text_bytes(report->steps_peak_bytes).text);
    fputs(", ", stdout);
    print_verdict(report);
}

int verb_check(const request *r) {
    pl_model *model = NULL;
    pl_report *report = NULL;
    int code = open_model(&model, r);
    if (code == 0) code = simulate(&report, model, r, &r->job);
    if (code == 0 && r->json) {
        pl_json_writer j = {.file = stdout};
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_int(&j, "schema", 1);
        pl_json_put_string(&j, "model", pl_model_describe(model)->name);
        pl_json_put_string(&j, "gpu", report->gpu->name);
        pl_json_put_bool(&j, "fits", report->fits);
        json_verdict(&j, report);
        pl_json_put_count(&j, "peak_bytes", report->peak_bytes);
        pl_json_put_count(&j, "steps_peak_bytes", report->steps_peak_bytes);
        pl_json_put_count(&j, "low_bytes", report->low_bytes);
        pl_json_put_count(&j, "high_bytes", report->high_bytes);
        pl_json_put_count(&j, "upper_bytes", report->upper_bytes);
        pl_json_put_count(&j, "capacity_bytes", report->gpu->capacity_bytes);
        pl_json_put_int(&j, "headroom_bytes", headroom(report));
        pl_json_put_bool(&j, "out_of_memory", report->out_of_memory);
        pl_json_put_close(&j, '}');
        putchar('\n');
    } else if (code == 0) {
        print_line(model, report);
        for (size_t i = 0; i < report->warning_count; i++) {
            fputs("plimsoll: warning: ", stderr);
            text_clean(stderr, report->warnings[i]);
            putc('\n', stderr);
        }
    }
    if (code == 0) code = verdict_code(report->verdict);
    pl_report_close(&report);
    pl_model_close(&model);
    return code;
}
