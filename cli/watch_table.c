/* watch_table: a sample for a terminal: the cards, then the processes, the largest first, cut to the rows and columns
 * that there are. At 80 columns all stands that the cards have; wider, the tensor cores, the temperature and whole
 * commands. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/number.h"
#include "watch.h"

enum { WIDE = 100, FULL = 95 }; /* columns; percent of memory */

static style state_style(const pl_live_card *card) {
    if (card->state != PL_LIVE_OK) return RED;
    bool full = card->memory_total_bytes > 0 &&
                card->memory_used_bytes > card->memory_total_bytes / 100 * FULL;
    return full ? YELLOW : PLAIN;
}

/* Without the maker's name, which all have. */
static void short_name(char *out, size_t room, const char *name, size_t most) {
    if (strncmp(name, "NVIDIA ", 7) == 0) name += 7;
    snprintf(out, room, "%.*s", (int)most, name);
}

/* Without the folder of the program. */
static const char *short_command(const char *command) {
    const char *from = command;
    for (const char *at = command; *at && *at != ' '; at++)
        if (*at == '/' && at[1] && at[1] != ' ') from = at + 1;
    return *command ? from : "-";
}

static small_text number(double value) {
    small_text t = {"-"};
    if (isfinite(value)) snprintf(t.text, sizeof t.text, "%s", PL_REAL(".0f", value));
    return t;
}

/* "78.20 of 139.5 GiB": one unit, so that the column keeps its width. */
static small_text memory_of(const pl_live_card *card) {
    double unit = 1 << 30, used = (double)card->memory_used_bytes / unit,
           total = (double)card->memory_total_bytes / unit;
    small_text t = {"-"}, part = text_fixed(used, used < 99.995 ? 2 : 1);
    if (card->state != PL_LIVE_OK)
        snprintf(t.text, sizeof t.text, "%s", pl_live_state_name(card->state));
    else if (used >= 0 && total >= 0)
        snprintf(t.text, sizeof t.text, "%.16s of %.16s GiB", part.text,
                 text_fixed(total, total < 99.995 ? 2 : 1).text);
    else if (used >= 0)
        snprintf(t.text, sizeof t.text, "%.16s GiB", part.text);
    return t;
}

static void put_cards(FILE *out, const watch_sample *s, bool wide) {
    table *t = table_new(wide ? "rlrrrrrrrrr" : "rlrrrrrr");
    table_row(t, wide ? (const char *[]){"GPU", "CARD", "MEMORY", "SMACT", "SMOCC", "DRAMA",
                                         "TENSOR", "UTIL", "WATTS", "LIMIT", "TEMP"}
                      : (const char *[]){"GPU", "CARD", "MEMORY", "SMACT", "SMOCC", "DRAMA", "UTIL",
                                         "WATTS"});
    const pl_live_card *card;
    for (size_t c = 0; (card = pl_live_card_at(s->live, c)); c++) {
        char name[WATCH_UUID];
        short_name(name, sizeof name, card->name, wide ? 34 : 18);
        small_text id = watch_card_name(card), memory = memory_of(card);
        small_text smact = watch_percent(card->smact), smocc = watch_percent(card->smocc),
                   drama = watch_percent(card->drama), tensor = watch_percent(card->tensor),
                   util = watch_percent(card->gpu_util), power = number(card->power_w),
                   limit = number(card->power_limit_w), heat = number(card->temperature_c);
        table_row(t, wide ? (const char *[]){id.text, name, memory.text, smact.text, smocc.text,
                                             drama.text, tensor.text, util.text, power.text,
                                             limit.text, heat.text}
                          : (const char *[]){id.text, name, memory.text, smact.text, smocc.text,
                                             drama.text, util.text, power.text});
        table_style(t, 2, state_style(card));
    }
    table_print(t, out, 0);
    for (size_t c = 0; (card = pl_live_card_at(s->live, c)); c++)
        if (card->state != PL_LIVE_OK)
            fprintf(out, "GPU %s: %s\n", watch_card_name(card).text, card->reason);
        else if (card->processes < 0 && !card->divided)
            fprintf(out, "GPU %s: its processes are not to be seen here\n",
                    watch_card_name(card).text);
}

/* For qsort: of processes of this sample, the most memory first. */
static const watch_sample *sorted;
static int by_memory(const void *x, const void *y) {
    size_t a = *(const size_t *)x, b = *(const size_t *)y;
    int64_t of_a = pl_live_process_at(sorted->live, a)->memory_bytes,
            of_b = pl_live_process_at(sorted->live, b)->memory_bytes;
    return of_a != of_b ? (of_a < of_b ? 1 : -1) : a < b ? -1 : a > b;
}

static void put_processes(FILE *out, const watch_sample *s, size_t most) {
    size_t *order = need(s->processes, sizeof *order);
    for (size_t i = 0; i < s->processes; i++) order[i] = i;
    sorted = s;
    qsort(order, s->processes, sizeof *order, by_memory);
    table *t = table_new("rrlrrrl");
    table_row(t, (const char *[]){"GPU", "PID", "USER", "MEMORY", "SMACT", "UTIL", "COMMAND"});
    for (size_t i = 0; i < s->processes && i < most; i++) {
        const pl_live_process *p = pl_live_process_at(s->live, order[i]);
        const pl_live_card *card = pl_live_card_at(s->live, p->card);
        const who *w = s->who[order[i]];
        char user[13];
        snprintf(user, sizeof user, "%.12s", w->user[0] ? w->user : "-");
        small_text id = watch_card_name(card), pid = text_whole(p->pid),
                   memory = watch_bytes(p->memory_bytes),
                   smact = watch_percent(p->alone ? card->smact : NAN),
                   util = watch_percent(p->sm_util);
        table_row(t, (const char *[]){id.text, pid.text, user, memory.text, smact.text, util.text,
                                      short_command(w->command)});
    }
    table_print(t, out, 0);
    if (s->processes > most) fprintf(out, "and %zu more\n", s->processes - most);
    free(order);
}

/* One line, cut to its columns; escape sequences take none. Clears what stood behind it. */
static const char *put_line(FILE *out, const char *line, int columns) {
    int used = 0;
    while (*line && *line != '\n') {
        uint32_t code;
        int length = text_sequence(line, &code);
        if (*line == '\033') {
            length = (int)strcspn(line, "m") + 1;
        } else if (used++ >= columns) {
            line += length > 0 ? length : 1;
            continue;
        }
        if (length <= 0) length = 1;
        fwrite(line, 1, (size_t)length, out);
        line += length;
    }
    fputs("\033[K", out);
    return *line ? line + 1 : line;
}

void watch_table(FILE *out, const watch_sample *s, int64_t interval_ms, int rows, int columns,
                 bool in_place) {
    char *text = NULL, clock[16] = "";
    size_t size = 0;
    FILE *page = open_memstream(&text, &size);
    if (!page) return;
    time_t seconds = (time_t)(s->time_ms / 1000);
    struct tm now;
    if (localtime_r(&seconds, &now)) strftime(clock, sizeof clock, "%H:%M:%S", &now);
    const char *driver = pl_live_driver(s->live);
    fprintf(page, "%splimsoll watch%s  %s  every %s%s%s\n\n", text_style(BOLD), text_style(PLAIN),
            clock, text_ms((double)interval_ms).text, driver[0] ? "  driver " : "", driver);
    put_cards(page, s, columns >= WIDE);
    size_t used = 0;
    fflush(page);
    for (const char *at = text; (at = strchr(at, '\n')); at++) used++;
    putc('\n', page);
    /* Besides: an empty line and the heads, and where not all fit, a line that says so. */
    size_t room = (size_t)rows > used + 3 ? (size_t)rows - used - 2 : 2;
    if (s->processes)
        put_processes(page, s, s->processes > room ? room - 1 : room);
    else
        fputs("no process on them\n", page);
    fclose(page);
    const char *at = text;
    if (in_place) fputs("\033[H", out);
    for (int row = 0; row < rows && *at; row++) {
        if (row) putc('\n', out);
        at = put_line(out, at, columns);
    }
    fputs(in_place ? "\033[J" : "\n", out);
    free(text);
}
