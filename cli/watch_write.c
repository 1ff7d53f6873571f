/* watch_write: a sample as JSON, as Prometheus's text exposition and as plain lines. What is not known is null, left
 * out, or "-": never 0. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/number.h"
#include "watch.h"

/* The numbers of a card, for every form. Bytes as they are, percent, watts, joules, degrees. */
static const struct {
    const char *json;
    size_t at;
    bool whole; /* int64_t, else double */
    const char *metric, *help;
    double scale; /* of the metric: Prometheus has shares */
} numbers[] = {
#define WHOLE(m) #m, offsetof(pl_live_card, m), true
#define REAL(m)  #m, offsetof(pl_live_card, m), false
    {WHOLE(memory_total_bytes), "memory_total_bytes", "Memory of the card.", 1},
    {WHOLE(memory_used_bytes), "memory_used_bytes", "Memory in use.", 1},
    {WHOLE(memory_reserved_bytes), "memory_reserved_bytes", "Memory that the driver keeps.", 1},
    {REAL(smact), "sm_activity_ratio", "Multiprocessors with work (GPM).", 0.01},
    {REAL(smocc), "sm_occupancy_ratio", "Warps on multiprocessors, of those they hold (GPM).",
     0.01},
    {REAL(drama), "memory_activity_ratio", "Memory interface in use (GPM).", 0.01},
    {REAL(tensor), "tensor_activity_ratio", "Tensor cores in use (GPM).", 0.01},
    {REAL(gpu_util), "utilization_ratio", "Time in which any kernel ran.", 0.01},
    {REAL(memory_util), "memory_utilization_ratio", "Time in which memory was read or written.",
     0.01},
    {REAL(power_w), "power_watts", "Power drawn.", 1},
    {REAL(power_limit_w), "power_limit_watts", "Power that it may draw.", 1},
    {REAL(energy_j), "energy_joules_total", "Energy since the driver was loaded.", 1},
    {REAL(temperature_c), "temperature_celsius", "Temperature.", 1},
    {WHOLE(processes), "processes", "Processes on it.", 1},
#undef WHOLE
#undef REAL
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static int64_t whole_at(const pl_live_card *card, size_t i) {
    int64_t value;
    memcpy(&value, (const char *)card + numbers[i].at, sizeof value);
    return value;
}

static double real_at(const pl_live_card *card, size_t i) {
    double value;
    memcpy(&value, (const char *)card + numbers[i].at, sizeof value);
    return value;
}

small_text watch_card_name(const pl_live_card *card) {
    small_text t;
    if (card->gpu_instance < 0)
        snprintf(t.text, sizeof t.text, "%d", card->index);
    else if (card->compute_instance < 0)
        snprintf(t.text, sizeof t.text, "%d:%d", card->index, card->gpu_instance);
    else
        snprintf(t.text, sizeof t.text, "%d:%d:%d", card->index, card->gpu_instance,
                 card->compute_instance);
    return t;
}

/* ---- JSON ---- */

static const char *or_null(const char *text) {
    return text[0] ? text : NULL;
}

static void put_process(pl_json_writer *j, const watch_sample *s, size_t i) {
    const pl_live_process *p = pl_live_process_at(s->live, i);
    const pl_live_card *card = pl_live_card_at(s->live, p->card);
    const who *w = s->who[i];
    pl_json_put_open(j, NULL, '{');
    pl_json_put_int(j, "pid", p->pid);
    pl_json_put_string(j, "user", or_null(w->user));
    pl_json_put_string(j, "command", or_null(w->command));
    pl_json_put_string(j, "job", s->job[i]);
    pl_json_put_string(j, "use", pl_live_use_name(p->use));
    pl_json_put_bool(j, "mps", p->mps);
    pl_json_put_count(j, "memory_bytes", p->memory_bytes);
    pl_json_put_real(j, "sm_util", p->sm_util);
    pl_json_put_real(j, "memory_util", p->memory_util);
    pl_json_put_real(j, "smact", p->alone ? card->smact : NAN);
    pl_json_put_real(j, "smocc", p->alone ? card->smocc : NAN);
    pl_json_put_real(j, "drama", p->alone ? card->drama : NAN);
    pl_json_put_real(j, "tensor", p->alone ? card->tensor : NAN);
    pl_json_put_close(j, '}');
}

void watch_json(pl_json_writer *j, const watch_sample *s) {
    const pl_live_card *card;
    pl_json_put_open(j, NULL, '{');
    pl_json_put_int(j, "schema", 1);
    pl_json_put_int(j, "time_ms", s->time_ms);
    pl_json_put_real(j, "seconds", s->seconds > 0 ? s->seconds : NAN);
    pl_json_put_string(j, "driver", or_null(pl_live_driver(s->live)));
    pl_json_put_open(j, "cards", '[');
    for (size_t c = 0; (card = pl_live_card_at(s->live, c)); c++) {
        pl_json_put_open(j, NULL, '{');
        pl_json_put_int(j, "index", card->index);
        pl_json_put_count(j, "gpu_instance", card->gpu_instance);
        pl_json_put_count(j, "compute_instance", card->compute_instance);
        pl_json_put_bool(j, "divided", card->divided);
        pl_json_put_string(j, "name", or_null(card->name));
        pl_json_put_string(j, "uuid", or_null(card->uuid));
        pl_json_put_string(j, "pci", or_null(card->pci));
        pl_json_put_string(j, "state", pl_live_state_name(card->state));
        pl_json_put_string(j, "reason", or_null(card->reason));
        for (size_t i = 0; i + 1 < NUMBERS; i++) /* processes are a list here */
            if (numbers[i].whole)
                pl_json_put_count(j, numbers[i].json, whole_at(card, i));
            else
                pl_json_put_real(j, numbers[i].json, real_at(card, i));
        if (card->accounting < 0)
            pl_json_put_raw(j, "accounting", "null");
        else
            pl_json_put_bool(j, "accounting", card->accounting > 0);
        if (card->processes < 0) {
            pl_json_put_raw(j, "processes", "null");
        } else {
            pl_json_put_open(j, "processes", '[');
            for (size_t i = 0; i < s->processes; i++)
                if (pl_live_process_at(s->live, i)->card == c) put_process(j, s, i);
            pl_json_put_close(j, ']');
        }
        pl_json_put_close(j, '}');
    }
    pl_json_put_close(j, ']');
    pl_json_put_close(j, '}');
}

/* ---- Prometheus ---- */

/* A label's value: backslash, quote and line feed are escaped; what is no UTF-8 is not to be there. */
static void put_label(FILE *out, const char *name, const char *value) {
    uint32_t code;
    fprintf(out, "%s=\"", name);
    while (*value) {
        int length = text_sequence(value, &code);
        if (length == 0 || (length == 1 && ((unsigned char)*value < ' ' || *value == 0x7f))) {
            putc('?', out);
            value++;
            continue;
        }
        if (*value == '\\' || *value == '"') putc('\\', out);
        fwrite(value, 1, (size_t)length, out);
        value += length;
    }
    putc('"', out);
}

static void put_card_labels(FILE *out, const pl_live_card *card) {
    put_label(out, "gpu", watch_card_name(card).text);
    putc(',', out);
    put_label(out, "uuid", card->uuid);
    putc(',', out);
    put_label(out, "name", card->name);
}

static void put_head(FILE *out, const char *name, const char *kind, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void put_card_metrics(FILE *out, const watch_sample *s) {
    const pl_live_card *card;
    put_head(out, "plimsoll_gpu_up", "gauge", "1 while the card answers.");
    for (size_t c = 0; (card = pl_live_card_at(s->live, c)); c++) {
        fputs("plimsoll_gpu_up{", out);
        put_card_labels(out, card);
        fprintf(out, "} %d\n", card->state == PL_LIVE_OK);
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        char name[64];
        bool headed = false, total = strstr(numbers[i].metric, "_total") &&
                                     strcmp(numbers[i].metric, "memory_total_bytes") != 0;
        snprintf(name, sizeof name, "plimsoll_gpu_%s", numbers[i].metric);
        for (size_t c = 0; (card = pl_live_card_at(s->live, c)); c++) {
            int64_t whole = numbers[i].whole ? whole_at(card, i) : 0;
            double real = numbers[i].whole ? 0 : real_at(card, i);
            if (whole < 0 || !isfinite(real)) continue;
            if (!headed) put_head(out, name, total ? "counter" : "gauge", numbers[i].help);
            headed = true;
            fprintf(out, "%s{", name);
            put_card_labels(out, card);
            if (numbers[i].whole)
                fprintf(out, "} %" PRId64 "\n", whole);
            else
                fprintf(out, "} %s\n", PL_REAL(".9g", real * numbers[i].scale));
        }
    }
}

typedef enum process_metric { MEMORY, SM, MEMORY_TIME, PROCESS_METRICS } process_metric;

static void put_process_metrics(FILE *out, const watch_sample *s) {
    static const struct {
        const char *name, *help;
    } rows[PROCESS_METRICS] = {
        [MEMORY] = {"plimsoll_process_memory_bytes", "Memory of a process on a card."},
        [SM] = {"plimsoll_process_utilization_ratio", "Time in which kernels of the process ran."},
        [MEMORY_TIME] = {"plimsoll_process_memory_utilization_ratio",
                         "Time in which the process read or wrote memory."},
    };
    for (process_metric m = 0; m < PROCESS_METRICS; m++) {
        bool headed = false;
        for (size_t i = 0; i < s->processes; i++) {
            const pl_live_process *p = pl_live_process_at(s->live, i);
            const pl_live_card *card = pl_live_card_at(s->live, p->card);
            double value = m == SM ? p->sm_util : p->memory_util;
            if (m == MEMORY ? p->memory_bytes < 0 : !isfinite(value)) continue;
            if (!headed) put_head(out, rows[m].name, "gauge", rows[m].help);
            headed = true;
            fprintf(out, "%s{gpu=\"%s\",pid=\"%" PRId64 "\",", rows[m].name,
                    watch_card_name(card).text, p->pid);
            put_label(out, "uuid", card->uuid);
            putc(',', out);
            put_label(out, "user", s->who[i]->user);
            putc(',', out);
            put_label(out, "job", s->job[i] ? s->job[i] : "");
            if (m == MEMORY)
                fprintf(out, "} %" PRId64 "\n", p->memory_bytes);
            else
                fprintf(out, "} %s\n", PL_REAL(".9g", value / 100));
        }
    }
}

void watch_prometheus(FILE *out, const watch_sample *s) {
    put_card_metrics(out, s);
    put_process_metrics(out, s);
    put_head(out, "plimsoll_watch_time_seconds", "gauge", "When this was read.");
    fprintf(out, "plimsoll_watch_time_seconds %s\n", PL_REAL(".3f", (double)s->time_ms / 1000));
}

/* ---- plain lines ---- */

small_text watch_percent(double percent) {
    small_text t = {"-"};
    if (isfinite(percent)) snprintf(t.text, sizeof t.text, "%s%%", PL_REAL(".0f", percent));
    return t;
}

small_text watch_bytes(int64_t bytes) {
    return bytes < 0 ? (small_text){"-"} : text_bytes(bytes);
}

static small_text watts(double power) {
    small_text t = {"-"};
    if (isfinite(power)) snprintf(t.text, sizeof t.text, "%s W", PL_REAL(".0f", power));
    return t;
}

static const char line_form[] = "%-8s  %-7s  %8s  %-10s  %11s  %5s  %5s  %5s  %5s  %6s  ";

/* A line for the card, and one for each process on it. A process has the card's counters where it is alone there. */
void watch_lines(FILE *out, const watch_sample *s, bool head) {
    char clock[16] = "-";
    time_t seconds = (time_t)(s->time_ms / 1000);
    struct tm now;
    if (localtime_r(&seconds, &now)) strftime(clock, sizeof clock, "%H:%M:%S", &now);
    if (head) {
        fprintf(out, line_form, "TIME", "GPU", "PID", "USER", "MEMORY", "SMACT", "SMOCC", "DRAMA",
                "UTIL", "POWER");
        fputs("WHAT\n", out);
    }
    const pl_live_card *card;
    for (size_t c = 0; (card = pl_live_card_at(s->live, c)); c++) {
        small_text name = watch_card_name(card);
        fprintf(out, line_form, clock, name.text, "-", "-",
                watch_bytes(card->memory_used_bytes).text, watch_percent(card->smact).text,
                watch_percent(card->smocc).text, watch_percent(card->drama).text,
                watch_percent(card->gpu_util).text, watts(card->power_w).text);
        text_clean(out, card->name);
        if (card->state != PL_LIVE_OK)
            fprintf(out, ", %s: %s", pl_live_state_name(card->state), card->reason);
        putc('\n', out);
        for (size_t i = 0; i < s->processes; i++) {
            const pl_live_process *p = pl_live_process_at(s->live, i);
            if (p->card != c) continue;
            char pid[24], user[11];
            snprintf(pid, sizeof pid, "%" PRId64, p->pid);
            snprintf(user, sizeof user, "%.10s", s->who[i]->user[0] ? s->who[i]->user : "-");
            double alone = p->alone ? 1 : NAN;
            fprintf(out, line_form, clock, name.text, pid, user, watch_bytes(p->memory_bytes).text,
                    watch_percent(alone * card->smact).text,
                    watch_percent(alone * card->smocc).text,
                    watch_percent(alone * card->drama).text, watch_percent(p->sm_util).text, "-");
            text_clean(out, s->who[i]->command[0] ? s->who[i]->command : "-");
            putc('\n', out);
        }
    }
}
