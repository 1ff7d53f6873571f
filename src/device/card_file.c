/* card_file: cards of one's own, read at run time: rows in the form of gpus.tsv, whose head explains
 * the columns, with the checks that tools/gpus.awk makes of the library's.
 *
 * What is read was written by others: the file is at most 1 MiB and the rows 1,024, text has no
 * control characters, and numbers are within what a card could have. calibrated is read and not
 * believed: intervals are only known of cards that were measured for the library. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/number.h"
#include "device/catalogue.h"

enum { COLUMNS = 16, MOST_ROWS = 1024, MOST_BYTES = 1 << 20, MOST_ALIASES = 512 };

struct pl_catalogue {
    pl_card_row *rows;
    size_t count;
    char *text;                  /* the file, cut into the rows' strings */
    char (*cards)[PL_CARD_NAME]; /* [count]: of instances of MIG, the name of the card */
};

/* Columns, as gpus.tsv names them. */
enum {
    NAME,
    TITLE,
    ALIASES,
    MEMORY,
    CC,
    SMS,
    THREADS,
    L2,
    BANDWIDTH,
    FP32,
    TF32,
    FP16,
    BF16,
    CONTEXT,
    CALIBRATED,
    SOURCE
};
static const char *const columns[COLUMNS] = {
    "name",      "title", "aliases", "memory", "cc",   "sms",     "threads",    "l2",
    "bandwidth", "fp32",  "tf32",    "fp16",   "bf16", "context", "calibrated", "source"};

/* Where a file is read, for messages. */
typedef struct place {
    const char *file;
    size_t line; /* from 1 */
    pl_error *err;
} place;

static pl_status refuse(const place *at, int column, const char *expected, const char *found) {
    char where[256];
    snprintf(where, sizeof where, "%.220s:%zu", at->file, at->line);
    return pl_fail(at->err, PL_INPUT, where, -1, "%s should be %s, found \"%.60s\"",
                   columns[column], expected, found);
}

static bool only(const char *text, const char *more) {
    for (; *text; text++)
        if (!(*text >= 'a' && *text <= 'z') && !(*text >= '0' && *text <= '9') &&
            !strchr(more, *text))
            return false;
    return true;
}

static pl_status check_texts(char *const f[COLUMNS], const place *at) {
    static const int size[COLUMNS] = {
        [NAME] = PL_CARD_NAME, [TITLE] = PL_CARD_TITLE, [SOURCE] = PL_CARD_SOURCE};
    for (int c = 0; c < COLUMNS; c++) {
        char expected[64];
        snprintf(expected, sizeof expected, "text of 1 to %d bytes", size[c] - 1);
        if (size[c] && (!*f[c] || strlen(f[c]) >= (size_t)size[c]))
            return refuse(at, c, expected, f[c]);
        for (const char *t = f[c]; *t; t++)
            if ((unsigned char)*t < 0x20 || *t == 0x7f)
                return refuse(at, c, "text without control characters", f[c]);
    }
    if (!only(f[NAME], ".-") || strchr(".-", f[NAME][0]))
        return refuse(at, NAME, "lower case letters, digits, hyphens and points", f[NAME]);
    if (strcmp(f[ALIASES], "-") != 0 &&
        (!only(f[ALIASES], ",") || !*f[ALIASES] || strlen(f[ALIASES]) > MOST_ALIASES))
        return refuse(at, ALIASES, "\"-\", or lower case letters and digits with commas",
                      f[ALIASES]);
    if (strcmp(f[CALIBRATED], "yes") != 0 && strcmp(f[CALIBRATED], "no") != 0)
        return refuse(at, CALIBRATED, "yes or no", f[CALIBRATED]);
    return PL_OK;
}

/* A number above 0 up to `most`; "-" where it may be unknown: NAN. */
static pl_status read_number(double *out, char *const f[COLUMNS], int column, double most,
                             bool may_miss, bool whole, const place *at) {
    char expected[96];
    *out = NAN;
    if (may_miss && strcmp(f[column], "-") == 0) return PL_OK;
    bool plain = f[column][0] >= '0' && f[column][0] <= '9';
    if (plain && pl_number_read(f[column], strlen(f[column]), out) && *out > 0 && *out <= most &&
        (!whole || *out == floor(*out)))
        return PL_OK;
    snprintf(expected, sizeof expected, "a %snumber above 0 and up to %s%s", whole ? "whole " : "",
             PL_REAL(".0f", most), may_miss ? ", or \"-\"" : "");
    return refuse(at, column, expected, f[column]);
}

static pl_status read_context(pl_gpu *g, const char *text, const place *at) {
    double bytes;
    if (pl_card_context(text, (int64_t)g->sms * g->threads, &g->context_bytes)) return PL_OK;
    if (text[0] < '0' || text[0] > '9' || !pl_number_read(text, strlen(text), &bytes) ||
        bytes != floor(bytes) || bytes > (double)g->capacity_bytes)
        return refuse(at, CONTEXT, "bytes (no more than the memory), hopper or general", text);
    g->context_bytes = (int64_t)bytes;
    return PL_OK;
}

static pl_status read_row(pl_card_row *out, char *const f[COLUMNS], const place *at) {
    pl_gpu *g = &out->gpu;
    double memory, sms, threads;
    pl_status status = check_texts(f, at);
    *out = (pl_card_row){.aliases = f[ALIASES],
                         .gpu = {.name = f[NAME], .title = f[TITLE], .source = f[SOURCE]}};
    struct {
        double *to;
        int column;
        double most;
        bool may_miss, whole;
    } numbers[] = {{&memory, MEMORY, 1 << 24, false, true}, /* MiB: 16 TiB */
                   {&sms, SMS, 4096, false, true},
                   {&threads, THREADS, 4096, false, true},
                   {&g->l2_mib, L2, 65536, true, false},
                   {&g->bandwidth_gbps, BANDWIDTH, 1e6, false, false},
                   {&g->fp32_tflops, FP32, 1e6, false, false},
                   {&g->tf32_tflops, TF32, 1e6, true, false},
                   {&g->fp16_tflops, FP16, 1e6, true, false},
                   {&g->bf16_tflops, BF16, 1e6, true, false}};
    for (size_t i = 0; status == PL_OK && i < sizeof numbers / sizeof *numbers; i++)
        status = read_number(numbers[i].to, f, numbers[i].column, numbers[i].most,
                             numbers[i].may_miss, numbers[i].whole, at);
    if (status != PL_OK) return status;
    g->capacity_bytes = (int64_t)memory << 20;
    g->sms = (int)sms;
    g->threads = (int)threads;
    const char *dot = strchr(f[CC], '.');
    size_t digits = strspn(f[CC], "0123456789");
    if (!dot || dot != f[CC] + digits || digits < 1 || digits > 2 || dot[1] < '0' || dot[1] > '9' ||
        dot[2])
        return refuse(at, CC, "a compute capability such as 8.0", f[CC]);
    g->cc_major = atoi(f[CC]);
    g->cc_minor = dot[1] - '0';
    return read_context(g, f[CONTEXT], at);
}

/* Cuts a line at its tabs. */
static int cut(char *line, char *f[COLUMNS]) {
    int count = 0;
    for (char *next = line; next; count++) {
        char *field = next;
        next = strchr(field, '\t');
        if (next) *next++ = 0;
        if (count < COLUMNS) f[count] = field;
    }
    return count;
}

static pl_status read_line(pl_catalogue *c, char *line, const place *at) {
    char *f[COLUMNS], where[256];
    snprintf(where, sizeof where, "%.220s:%zu", at->file, at->line);
    int count = cut(line, f);
    if (count != COLUMNS)
        return pl_fail(at->err, PL_INPUT, where, -1,
                       "expected %d columns with a tab between them (name, title, aliases, memory, "
                       "..., as the library's own table), found %d",
                       COLUMNS, count);
    if (c->count == MOST_ROWS)
        return pl_fail(at->err, PL_INPUT, where, -1, "more than %d rows", MOST_ROWS);
    pl_status status = read_row(&c->rows[c->count], f, at);
    if (status != PL_OK) return status;
    size_t card = pl_card_profile(f[NAME]);
    if (card) {
        memcpy(c->cards[c->count], f[NAME], card);
        c->rows[c->count].gpu.part_of = c->cards[c->count];
    }
    c->count++;
    /* As names are looked up: "t4" and "t-4" are the same, and so is an alias of a row before it. */
    if (pl_card_find(f[NAME], c) != &c->rows[c->count - 1].gpu)
        return refuse(at, NAME, "one that is no other row's name or alias", f[NAME]);
    return PL_OK;
}

static pl_status read_lines(pl_catalogue *c, size_t size, const char *name, pl_error *err) {
    place at = {.file = name, .err = err};
    char *line = c->text, *end = c->text + size;
    if (size >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) line += 3; /* a byte order mark */
    for (char *next; line < end; line = next) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        next = stop + 1;
        at.line++;
        if (stop > line && stop[-1] == '\r') stop[-1] = 0;
        *stop = 0; /* text has a byte more than the file */
        if (strlen(line) != (size_t)(stop - line) && !(stop > line && !stop[-1]))
            return pl_fail(err, PL_INPUT, name, line - c->text,
                           "expected a table of cards as text; this is none");
        if (!*line || *line == '#') continue;
        pl_status status = read_line(c, line, &at);
        if (status != PL_OK) return status;
    }
    if (c->count == 0)
        return pl_fail(err, PL_INPUT, name, -1, "expected rows of cards; there are none");
    return PL_OK;
}

static pl_status too_large(const char *name, pl_error *err) {
    return pl_fail(err, PL_INPUT, name, -1, "a table of cards has at most %d bytes", MOST_BYTES);
}

pl_status pl_catalogue_open_memory(pl_catalogue **out, const void *bytes, size_t size,
                                   const char *name, pl_error *err) {
    *out = NULL;
    if (!name) name = "";
    if (size > MOST_BYTES) return too_large(name, err);
    size_t lines = 1;
    for (size_t i = 0; i < size; i++) lines += ((const char *)bytes)[i] == '\n';
    if (lines > MOST_ROWS) lines = MOST_ROWS;
    pl_catalogue *c = calloc(1, sizeof *c);
    if (c) c->text = malloc(size + 1);
    if (c) c->rows = calloc(lines, sizeof *c->rows);
    if (c) c->cards = calloc(lines, sizeof *c->cards);
    pl_status status = c && c->text && c->rows && c->cards
                           ? PL_OK
                           : pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    if (status == PL_OK) {
        if (size) memcpy(c->text, bytes, size);
        c->text[size] = 0;
        status = read_lines(c, size, name, err);
    }
    if (status == PL_OK)
        *out = c;
    else
        pl_catalogue_close(&c);
    return status;
}

pl_status pl_catalogue_open(pl_catalogue **out, const char *path, pl_error *err) {
    *out = NULL;
    pl_file file;
    if (!path) return pl_fail(err, PL_USAGE, "path", -1, "expected the name of a file");
    pl_status status = pl_file_open(&file, path, MOST_BYTES + 1, err);
    if (status == PL_LIMIT) return too_large(path, err);
    if (status != PL_OK) return status;
    status = pl_catalogue_open_memory(out, file.bytes, file.size, path, err);
    pl_file_close(&file);
    return status;
}

const pl_card_row *pl_catalogue_rows(const pl_catalogue *own, size_t *count) {
    *count = own->count;
    return own->rows;
}

const pl_gpu *pl_catalogue_at(const pl_catalogue *catalogue, size_t index) {
    return catalogue && index < catalogue->count ? &catalogue->rows[index].gpu : NULL;
}

void pl_catalogue_close(pl_catalogue **catalogue) {
    if (!catalogue || !*catalogue) return;
    free((*catalogue)->rows);
    free((*catalogue)->cards);
    free((*catalogue)->text);
    free(*catalogue);
    *catalogue = NULL;
}
