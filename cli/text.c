/* text: see text.h. Widths count code points, which is right for what is printed here (no wide or
 * combining characters are made by us; those in a model's names may shift a column).
 *
 * Colour follows no-color.org: any non-empty NO_COLOR turns it off. */
#include "text.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/number.h"

static bool utf8, colour;

void text_start(void) {
    /* LC_CTYPE alone: numbers keep their point. */
    setlocale(LC_CTYPE, "");
    const char *codeset = nl_langinfo(CODESET);
    utf8 = codeset && strcmp(codeset, "UTF-8") == 0;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    colour =
        isatty(STDOUT_FILENO) && !(no_color && no_color[0]) && term && strcmp(term, "dumb") != 0;
}

bool text_utf8(void) {
    return utf8;
}

bool text_colour(void) {
    return colour;
}

const char *text_style(style wanted) {
    static const char *const codes[STYLES] = {
        [PLAIN] = "\033[0m", [BOLD] = "\033[1m",   [DIM] = "\033[2m",
        [RED] = "\033[31m",  [GREEN] = "\033[32m", [YELLOW] = "\033[33m",
    };
    return colour ? codes[wanted] : "";
}

/* ---- sizes ---- */

static void format_bytes(char *out, size_t size, const char *sign, double bytes) {
    static const struct {
        double unit;
        const char *style, *name;
    } units[] = {
        {1024.0 * 1024 * 1024, ".2f", "GiB"},
        {1024.0 * 1024, ".1f", "MiB"},
        {1024.0, ".1f", "KiB"},
        {1.0, ".0f", "B"},
    };
    size_t i = 0;
    while (i < 3 && bytes < units[i].unit) i++;
    /* 100 GiB and more need no second decimal. */
    const char *style = i == 0 && bytes >= 99.995 * units[0].unit ? ".1f" : units[i].style;
    snprintf(out, size, "%s%s %s", sign, PL_REAL(style, bytes / units[i].unit), units[i].name);
}

small_text text_bytes(int64_t bytes) {
    small_text t = {"?"};
    if (bytes >= 0) format_bytes(t.text, sizeof t.text, "", (double)bytes);
    return t;
}

small_text text_bytes_apart(int64_t bytes, int64_t step) {
    enum { MIB = 1 << 20 };
    small_text t;
    if (bytes < MIB || step >= bytes / 100) return text_bytes(bytes);
    if (step > MIB / 10)
        snprintf(t.text, sizeof t.text, "%s MiB", PL_REAL(".1f", (double)bytes / MIB));
    else
        snprintf(t.text, sizeof t.text, "%" PRId64 " B", bytes);
    return t;
}

/* Unit and decimals are format_bytes's, of the whole. */
small_text text_of(int64_t part, int64_t whole) {
    static const struct {
        int64_t unit;
        const char *name;
        int decimals;
    } units[] = {{1 << 30, "GiB", 2}, {1 << 20, "MiB", 1}, {1 << 10, "KiB", 1}, {1, "B", 0}};
    small_text t = {"?"};
    if (part < 0 || whole < 0) return t;
    size_t i = 0;
    while (i < 3 && whole < units[i].unit) i++;
    if (part < units[i].unit) {
        snprintf(t.text, sizeof t.text, "%.20s of %.20s", text_bytes(part).text,
                 text_bytes(whole).text);
        return t;
    }
    double unit = (double)units[i].unit, most = i == 0 ? 99.995 * unit : INFINITY;
    int few = (double)part >= most && (double)whole >= most ? 1 : units[i].decimals;
    for (int decimals = few; decimals <= 4; decimals++) {
        bool first = decimals == units[i].decimals; /* 139.5 beside 2.31 */
        small_text a = text_fixed((double)part / unit,
                                  first && (double)part >= most ? 1 : decimals),
                   b = text_fixed((double)whole / unit,
                                  first && (double)whole >= most ? 1 : decimals);
        if (part != whole && strcmp(a.text, b.text) == 0) continue;
        snprintf(t.text, sizeof t.text, "%.16s of %.16s %s", a.text, b.text, units[i].name);
        return t;
    }
    snprintf(t.text, sizeof t.text, "%" PRId64 " of %" PRId64 " B", part, whole);
    return t;
}

small_text text_change(int64_t bytes) {
    small_text t;
    format_bytes(t.text, sizeof t.text,
                 bytes < 0   ? "-"
                 : bytes > 0 ? "+"
                             : "",
                 fabs((double)bytes));
    return t;
}

small_text text_count(int64_t count) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e4, " k"}};
    small_text t = {"?"};
    if (count < 0) return t;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if ((double)count >= units[i].unit) {
            double unit = i == 3 ? 1e3 : units[i].unit;
            snprintf(t.text, sizeof t.text, "%s%s", PL_REAL(".1f", (double)count / unit),
                     units[i].name);
            return t;
        }
    snprintf(t.text, sizeof t.text, "%" PRId64, count);
    return t;
}

small_text text_percent(double share) {
    small_text t = {"-"};
    if (isfinite(share)) snprintf(t.text, sizeof t.text, "%s %%", PL_REAL(".1f", 100 * share));
    return t;
}

small_text text_whole(int64_t number) {
    small_text t;
    snprintf(t.text, sizeof t.text, "%" PRId64, number);
    return t;
}

/* Three digits: 1.23, 12.3, 123. */
static small_text three_digits(double number, const char *unit) {
    small_text t;
    const char *style = number < 9.995 ? ".2f" : number < 99.95 ? ".1f" : ".0f";
    snprintf(t.text, sizeof t.text, "%s %.19s", PL_REAL(style, number), unit);
    return t;
}

small_text text_ms(double ms) {
    if (!isfinite(ms)) return (small_text){"?"};
    if (ms >= 1000) return three_digits(ms / 1000, "s");
    return ms >= 1 || ms <= 0 ? three_digits(ms, "ms") : three_digits(1000 * ms, "us");
}

small_text text_scaled(double number, const char *unit) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    char whole[24];
    size_t at = 0;
    if (!isfinite(number)) return (small_text){"?"};
    while (number >= 999.5 && at + 1 < sizeof prefixes / sizeof *prefixes) {
        number /= 1000;
        at++;
    }
    snprintf(whole, sizeof whole, "%s%.18s", prefixes[at], unit);
    return three_digits(number, whole);
}

small_text text_figure(double number) {
    small_text t = {"-"};
    if (isfinite(number)) snprintf(t.text, sizeof t.text, "%s", PL_REAL(".4g", number));
    return t;
}

small_text text_fixed(double number, int decimals) {
    static const char *const styles[] = {".0f", ".1f", ".2f", ".3f", ".4f"};
    small_text t = {"-"};
    if (isfinite(number)) snprintf(t.text, sizeof t.text, "%s", PL_REAL(styles[decimals], number));
    return t;
}

/* ---- strings and bars ---- */

void text_clean(FILE *out, const char *string) {
    for (const unsigned char *at = (const unsigned char *)string; *at; at++) {
        if (*at < 0x20 || *at == 0x7f || (*at >= 0x80 && !utf8))
            putc('?', out);
        else if (*at == 0xc2 && at[1] >= 0x80 &&
                 at[1] < 0xa0) { /* U+0080 to U+009F: controls too */
            putc('?', out);
            at++;
        } else
            putc(*at, out);
    }
}

void text_markdown(FILE *out, const char *string) {
    for (; *string; string++) {
        if (strchr("\\`*_{}[]<>|#&", *string)) putc('\\', out);
        putc((unsigned char)*string < 0x20 || *string == 0x7f ? ' ' : *string, out);
    }
}

int text_sequence(const char *text, uint32_t *code) {
    /* Least code point of each length: shorter forms are the only right ones. */
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    int length = *at < 0x80             ? 1
                 : (*at & 0xe0) == 0xc0 ? 2
                 : (*at & 0xf0) == 0xe0 ? 3
                 : (*at & 0xf8) == 0xf0 ? 4
                                        : 0;
    if (length == 0) return 0;
    *code = length == 1 ? *at : *at & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (at[i] & 0x3fu);
    }
    bool surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[length] || *code > 0x10ffff || surrogate ? 0 : length;
}

bool text_ends(const char *text, const char *ending) {
    size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

int text_bar(FILE *out, double share, int cells) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    if (!(share > 0)) share = 0;
    if (share > 1) share = 1;
    int used;
    if (utf8) {
        int units = (int)lround(share * cells * 8);
        if (units == 0 && share > 0) units = 1;
        for (used = 0; used < units / 8; used++) fputs("█", out);
        if (units % 8) {
            fputs(eighths[units % 8], out);
            used++;
        }
    } else {
        int units = (int)lround(share * cells);
        for (used = 0; used < units; used++) putc('#', out);
    }
    return used;
}

/* ---- complaints ---- */

static void complain_clean(const char *text) {
    fputs("plimsoll: ", stderr);
    text_clean(stderr, text);
    putc('\n', stderr);
}

int complain(int code, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fflush(stdout);
    complain_clean(text);
    return code;
}

/* What the library calls a setting, and the option that gives it. */
static const struct {
    const char *field, *option;
} settings[] = {
    {"accumulate", "--accumulate"},
    {"alloc_conf", "--alloc-conf"},
    {"attention", "--attention"},
    {"backfill", "--backfill"},
    {"batch", "--batch"},
    {"bin_bytes", "--bin"},
    {"channels_last", "--channels-last"},
    {"cluster", "--cluster"},
    {"checkpoint", "--checkpoint"},
    {"copy_gbps", "--copy-gbps"},
    {"crashes", "--crashes"},
    {"cudnn_benchmark", "--cudnn-benchmark"},
    {"estimator", "--estimator"},
    {"gpu", "--gpu"},
    {"guess_low", "--guess"},
    {"guess_spare", "--guess"},
    {"guess_whole", "--guess"},
    {"hold_out", "--hold-out"},
    {"host_speed", "--host-speed"},
    {"load", "--load"},
    {"loss", "--loss"},
    {"most_jobs", "--max-jobs"},
    {"most_slowdown", "--max-slowdown"},
    {"optimizer", "--optimizer"},
    {"options", "--set"},
    {"parallel", "--parallel"},
    {"patience_s", "--patience"},
    {"peak_s", "--peak-after"},
    {"policy", "--policy"},
    {"precision", "--precision"},
    {"risk", "--risk"},
    {"seq", "--seq"},
    {"sharing", "--sharing"},
    {"sizes", "--sizes"},
    {"snapshot", "--snapshot"},
    {"split", "--split"},
    {"stage", "--parallel"},
    {"target", "--target"},
    {"task", "--task"},
    {"train", "--train"},
    {"weights", "--model"},
    {"world", "--parallel"},
};

const char *text_option(const char *field) {
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strcmp(field, settings[i].field) == 0) return settings[i].option;
    return NULL;
}

/* The option of a setting that was given wrongly; NULL: the error is about something else. */
static const char *option_of(const pl_error *err) {
    return err->code == PL_USAGE ? text_option(err->where) : NULL;
}

const char *hint_of(const char *message) {
    static const struct {
        const char *part, *hint;
    } hints[] = {
        {"a row of one's own", " (--gpus FILE); `plimsoll gpus` lists those there are"},
        {"no estimator ", "; `plimsoll estimators` lists them"},
        {"no weights of ", ": `plimsoll train ESTIMATOR --jobs FILE --out MODEL` makes them, "
                           "--model MODEL gives them"},
#if !PLIMSOLL_LAB
        {"that this version does not have",
         ": this build has no laboratory (-Dlab=enabled), which has more"},
        {"a learner that this version has",
         ": this build has no laboratory (-Dlab=enabled), which has more"},
#endif
        {"a Python script", ": `python -m plimsoll FILE` runs it up to its first steps"},
        {"save its code as a script", ", and give that to `python -m plimsoll`"},
        {"no estimate in JSON", " (`plimsoll estimate ... --json` writes one)"},
        {"choose smaller bins", " (--bin)"},
        {"estimate it again for ", " (--gpu)"},
        {"gradient_checkpointing is not followed", " (--checkpoint)"},
        {"graphs would help", " (--graphs)"},
        {"are assumed, since none was given", " (--batch, --seq)"},
        {"is assumed, since no batch was given", " (--batch)"},
        {"is assumed, since no sequence was given", " (--seq)"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strstr(message, hints[i].part)) return hints[i].hint;
    return "";
}

int complain_of(const pl_error *err, const char *file) {
    char text[2048];
    size_t used = 0;
    const char *setting = option_of(err), *parts[2] = {file, setting ? setting : err->where};
    /* A setting is no file: the file being read is not to blame, and a byte in it says nothing. */
    if (setting || (file && strncmp(err->where, file, strlen(file)) == 0))
        parts[0] = NULL; /* the second says it */
    else if (file && err->code != PL_INPUT && strstr(file, err->where))
        parts[1] = NULL; /* the model's name, which is the file's without its ending */
    for (int i = 0; i < 2; i++)
        if (parts[i] && parts[i][0] && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s: ", parts[i]);
    if (err->position >= 0 && !setting && used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, "at byte %" PRId64 ": ",
                                 err->position);
    if (used < sizeof text)
        snprintf(text + used, sizeof text - used, "%s%s", err->message, hint_of(err->message));
    return complain((int)err->code, "%s", text);
}

/* ---- memory ---- */

void *need(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) exit(complain(PL_MISSING, "out of memory"));
    return memory;
}

char *need_string(const char *string) {
    char *copy = need(strlen(string) + 1, 1);
    strcpy(copy, string);
    return copy;
}

/* ---- tables ---- */

typedef struct table_line {
    struct table_line *next;
    char **cells;
    style *styles;
} table_line;

struct table {
    const char *columns;
    size_t count;
    table_line *first, **last, *newest;
};

table *table_new(const char *columns) {
    table *t = need(1, sizeof *t);
    t->columns = columns;
    t->count = strlen(columns);
    t->last = &t->first;
    return t;
}

void table_row(table *t, const char *const *cells) {
    table_line *line = need(1, sizeof *line);
    line->cells = need(t->count, sizeof *line->cells);
    line->styles = need(t->count, sizeof *line->styles); /* all PLAIN */
    for (size_t i = 0; i < t->count; i++) line->cells[i] = need_string(cells[i] ? cells[i] : "");
    *t->last = line;
    t->last = &line->next;
    t->newest = line;
}

void table_style(table *t, size_t column, style of) {
    if (t->newest && column < t->count) t->newest->styles[column] = of;
}

static int columns_of(const char *text) {
    int width = 0;
    for (; *text; text++) width += !utf8 || ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void line_free(const table *t, table_line *line) {
    for (size_t i = 0; i < t->count; i++) free(line->cells[i]);
    free(line->cells);
    free(line->styles);
    free(line);
}

void table_print(table *t, FILE *out, int indent) {
    int *widths = need(t->count, sizeof *widths);
    for (table_line *line = t->first; line; line = line->next)
        for (size_t i = 0; i < t->count; i++) {
            int width = columns_of(line->cells[i]);
            if (width > widths[i]) widths[i] = width;
        }
    for (table_line *line = t->first, *next; line; line = next) {
        if (line == t->first) fputs(text_style(BOLD), out);
        fprintf(out, "%*s", indent, "");
        for (size_t i = 0; i < t->count; i++) {
            int space = widths[i] - columns_of(line->cells[i]);
            bool right = t->columns[i] == 'r';
            if (right) fprintf(out, "%*s", space, "");
            if (line->styles[i] != PLAIN) fputs(text_style(line->styles[i]), out);
            text_clean(out, line->cells[i]);
            if (line->styles[i] != PLAIN) fputs(text_style(PLAIN), out);
            if (i + 1 == t->count) break;
            if (!right) fprintf(out, "%*s", space, "");
            fputs("  ", out);
        }
        if (line == t->first) fputs(text_style(PLAIN), out);
        putc('\n', out);
        next = line->next;
        line_free(t, line);
    }
    free(widths);
    free(t);
}

void table_markdown(table *t, FILE *out) {
    for (table_line *line = t->first, *next; line; line = next) {
        for (size_t i = 0; i < t->count; i++) {
            fputs(i ? " | " : "| ", out);
            text_markdown(out, line->cells[i]);
        }
        fputs(" |\n", out);
        for (size_t i = 0; line == t->first && i < t->count; i++)
            fputs(t->columns[i] == 'r' ? "|---:" : "|---", out);
        if (line == t->first) fputs("|\n", out);
        next = line->next;
        line_free(t, line);
    }
    free(t);
}
