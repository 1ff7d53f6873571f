/* verdict: whether a job fits, in words, colours and marks, with the arithmetic: what is held against
 * the card (the interval's upper end at the accepted risk; where it does not fit, its lower end)
 * and what a process can have of it. */
#include <math.h>
#include <stdio.h>

#include "core/counts.h"
#include "core/number.h"
#include "text.h"
#include "verbs.h"

style verdict_style(pl_verdict verdict) {
    static const style styles[PL_VERDICTS] = {GREEN, YELLOW, RED};
    return styles[verdict];
}

const char *verdict_answer(pl_verdict verdict) {
    static const char *const answers[PL_VERDICTS] = {"yes", "maybe", "no"};
    return answers[verdict];
}

const char *verdict_mark(pl_verdict verdict) {
    static const char *const marks[PL_VERDICTS] = {"\u2713", "~", "\u2717"},
                             *const plain[PL_VERDICTS] = {"+", "~", "x"};
    return (text_utf8() ? marks : plain)[verdict];
}

int verdict_code(pl_verdict verdict) {
    static const int codes[PL_VERDICTS] = {0, EXIT_MAY_NOT_FIT, EXIT_NO_FIT};
    return codes[verdict];
}

int64_t headroom(const pl_report *report) {
    return report->usable_bytes -
           (report->upper_bytes >= 0 ? report->upper_bytes : report->peak_bytes);
}

small_text text_risk(double risk) {
    small_text t = {"?"};
    if (isfinite(risk)) snprintf(t.text, sizeof t.text, "%s %%", PL_REAL(".2g", 100 * risk));
    return t;
}

void json_verdict(pl_json_writer *j, const pl_report *report) {
    pl_json_put_string(j, "verdict", pl_verdict_name(report->verdict));
    pl_json_put_real(j, "risk", report->risk);
    pl_json_put_real(j, "oom_probability", pl_report_chance(report, report->usable_bytes));
    pl_json_put_count(j, "usable_bytes", report->usable_bytes);
}

/* Where the usable bytes come from. */
static void print_usable(const pl_report *report) {
    small_text whole = text_bytes(report->gpu->capacity_bytes);
    printf(" usable (%s less %s)", whole.text,
           report->usable_bytes < pl_gpu_usable(report->gpu)
               ? "what per_process_memory_fraction keeps back"
               : "the driver's share");
}

void print_verdict(const pl_report *report) {
    pl_job standard;
    pl_job_default(&standard);
    int64_t usable = report->usable_bytes, left = headroom(report);
    bool interval = report->upper_bytes >= 0, no = report->verdict == PL_DOES_NOT_FIT;
    int64_t end = !interval ? report->peak_bytes : no ? report->low_bytes : report->upper_bytes;
    printf("%s%s%s %s: ", text_style(verdict_style(report->verdict)),
           pl_verdict_name(report->verdict), text_style(PLAIN), report->gpu->title);
    fputs(!interval ? "a peak of " : no ? "at least " : "up to ", stdout);
    fputs(text_of(end, usable).text, stdout);
    print_usable(report);
    if (report->verdict == PL_FITS)
        printf(", %s to spare", text_bytes(left).text);
    else if (end > usable)
        printf(", %s too much", text_bytes(end - usable).text);
    if (!interval) fputs("; by the peak alone, there is no interval", stdout);
    if (report->out_of_memory && end <= usable)
        fputs("; the allocator runs out of memory all the same", stdout);
    double chance = pl_report_chance(report, usable);
    if (report->verdict == PL_MAY_NOT_FIT && isfinite(chance))
        printf("; about %s of such jobs run out of memory, %s are accepted", text_risk(chance).text,
               text_risk(report->risk).text);
    else if (interval && report->risk != standard.risk)
        printf("; at a risk of %s", text_risk(report->risk).text);
    putchar('\n');
}
