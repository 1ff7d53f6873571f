/* text: what is written for people: the terminal's abilities, sizes, bars, tables, complaints. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdio.h>

#include <plimsoll/plimsoll.h>

#if defined(__GNUC__)
#define CLI_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define CLI_PRINTF(f, a)
#endif

enum { EXIT_NO_FIT = 10, EXIT_MAY_NOT_FIT = 11 }; /* the others are pl_status's values */

/* Reads the locale and the environment; called once, first of all. */
void text_start(void);
bool text_utf8(void);
bool text_colour(void); /* of stdout: a terminal, NO_COLOR not set, TERM not dumb */

/* "" where there is no colour. */
typedef enum style { PLAIN, BOLD, DIM, RED, GREEN, YELLOW, STYLES } style;
const char *text_style(style wanted);

typedef struct small_text {
    char text[48];
} small_text;

small_text text_bytes(int64_t bytes); /* "1.53 GiB", "742.0 MiB", "512 B"; "?" below 0 */
/* The same, in MiB or in bytes where `step`, a difference that is to be seen, is below 1 % of it.
 */
small_text text_bytes_apart(int64_t bytes, int64_t step);
/* "78.79 of 78.77 GiB", "742.0 MiB of 139.5 GiB": in as many digits as tell them apart. */
small_text text_of(int64_t part, int64_t whole);
small_text text_change(int64_t bytes); /* with a sign: "-120.0 MiB" */
small_text text_count(int64_t count);  /* "25.6 M"; "?" below 0 */
small_text text_percent(double share); /* 0.123: "12.3 %" */
small_text text_whole(int64_t number);
small_text text_ms(double ms); /* "12.3 ms", "85.0 us", "2.40 s"; "?" where it is not finite */
/* "83.2 GFLOP", "950 FLOP"; "?" likewise */
small_text text_scaled(double number, const char *unit);
small_text text_figure(double number); /* four digits: "1.234e+06"; "-" where it is not finite */
small_text text_fixed(double number, int decimals);

/* A string from a file in a page of Markdown: what would be markup there is escaped. */
void text_markdown(FILE *out, const char *string);

/* Writes a string that came from a file: control characters become '?', and outside UTF-8 locales
 * so does all that is not ASCII. */
void text_clean(FILE *out, const char *string);

/* Bytes of the well-formed UTF-8 sequence at `at`, in text that ends in a 0, and its code point; 0
 * where it is malformed. */
int text_sequence(const char *at, uint32_t *code);

/* Whether text is more than ending and ends in it: a path and ".svg". */
bool text_ends(const char *text, const char *ending);

/* A bar of share (0 to 1) of `cells` columns; returns how many it took. */
int text_bar(FILE *out, double share, int cells);

/* `plimsoll: ...` on stderr; returns code. */
int complain(int code, const char *format, ...) CLI_PRINTF(2, 3);
/* The same for a library's error, with what to do about it. file: what was being read, or NULL. */
int complain_of(const pl_error *err, const char *file);

/* The option that gives what the library calls a setting ("batch"); NULL: there is none. */
const char *text_option(const char *field);

/* What the command adds to a message or a warning of the library, which knows no options; or "". */
const char *hint_of(const char *message);

/* Memory of the command; ends it with 4 when there is none. */
void *need(size_t count, size_t size);
char *need_string(const char *string);

/* A table of strings, columns as wide as their widest cell. */
typedef struct table table;
table *
table_new(const char *columns); /* one letter per column: l left, r right; first row: heads */
void table_row(table *t, const char *const *cells); /* copies them */
/* The style of a cell of the row that was added last. */
void table_style(table *t, size_t column, style of);
/* Prints and frees it. Rows are indented by `indent` columns. */
void table_print(table *t, FILE *out, int indent);
/* The same as a table of Markdown. */
void table_markdown(table *t, FILE *out);

#endif
