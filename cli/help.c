/* help: --help of the command and of each verb, and the manual page, from the option table.
 *
 * The manual is written in the man(7) macros. Neither form names what the table does not. */
#include "help.h"

#include <string.h>

#include "completions.h"
#include "text.h"

static const struct {
    int code;
    const char *meaning;
} exit_codes[] = {
    {0, "done; check, collocate: the job or jobs fit"},
    {2, "wrong usage"},
    {3, "an input that cannot be read; the message names the file and the place"},
    {4, "something missing on the machine"},
    {5, "more than --max-memory or --max-time allow"},
    {10, "check: the job does not fit; collocate: not both"},
    {11, "check: the job may not fit; collocate: both may not"},
};

enum { EXIT_CODES = sizeof exit_codes / sizeof *exit_codes };

/* Text broken at spaces into lines of `width` columns, each but the first behind `indent` spaces.
 */
static void put_wrapped(FILE *out, const char *text, int indent, int width) {
    int column = 0;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column && column + 1 + word > width) {
            fprintf(out, "\n%*s", indent, "");
            column = 0;
        } else if (column) {
            putc(' ', out);
            column++;
        }
        fwrite(text, 1, (size_t)word, out);
        column += word;
        text += word;
        while (*text == ' ') text++;
    }
    putc('\n', out);
}

/* The help, the values and the default as one line. GPUs and estimators are many: plimsoll gpus and
 * plimsoll estimators have them. */
static void describe(const option_row *row, char *out, size_t size) {
    size_t used = (size_t)snprintf(out, size, "%s", row->help);
    const char *between = " (", *name, *standard = option_standard(row);
    if (row->names && row->names != gpu_name && row->names != pl_estimator_name &&
        row->names != evaluated_name)
        for (size_t i = 0; used < size && (name = row->names(i)); i++) {
            used += (size_t)snprintf(out + used, size - used, "%s%s", between, name);
            between = ", ";
        }
    if (standard && used < size)
        used += (size_t)snprintf(out + used, size - used, "%sdefault: %s",
                                 between[0] == ',' ? "; " : between, standard);
    if (used < size && (between[0] == ',' || standard)) snprintf(out + used, size - used, ")");
}

enum { NAME_COLUMNS = 24, TEXT_COLUMNS = 68 };

void help_print(FILE *out, verb v) {
    if (v < VERBS) {
        const verb_row *row = &verb_table[v];
        fprintf(out, "usage: plimsoll %s%s%s [OPTIONS]%s\n\n", row->name, row->operand ? " " : "",
                verb_operand(v), verb_behind(v));
        put_wrapped(out, row->text, 0, NAME_COLUMNS + TEXT_COLUMNS);
    } else {
        fputs("usage: plimsoll VERB ...\n\n", out);
        put_wrapped(
            out,
            "Predicts what a PyTorch training job will ask of a GPU, from a model in any of "
            "several forms, without Python, PyTorch or a GPU.",
            0, NAME_COLUMNS + TEXT_COLUMNS);
        putc('\n', out);
        for (int i = 0; i < VERBS; i++)
            fprintf(out, "  %-*s%s\n", NAME_COLUMNS - 2, verb_table[i].name, verb_table[i].summary);
    }
    putc('\n', out);
    for (size_t i = 0; i < option_count; i++) {
        const option_row *row = &option_table[i];
        if (!(row->verbs >> v & 1)) continue;
        char name[64], text[1024];
        int width = snprintf(name, sizeof name, row->letter ? "  -%c, " : "      ", row->letter);
        width += snprintf(name + width, sizeof name - (size_t)width, "--%s%s%s", row->name,
                          row->argument ? " " : "", row->argument ? row->argument : "");
        fputs(name, out);
        if (width > NAME_COLUMNS - 2) {
            putc('\n', out);
            width = 0;
        }
        fprintf(out, "%*s", NAME_COLUMNS - width, "");
        describe(row, text, sizeof text);
        put_wrapped(out, text, NAME_COLUMNS, TEXT_COLUMNS);
    }
    if (v == VERB_NONE) {
        fputs("\nplimsoll help VERB, or VERB --help, says more about a verb. Exit codes:\n", out);
        for (int i = 0; i < EXIT_CODES; i++)
            fprintf(out, "  %-*d%s\n", NAME_COLUMNS - 2, exit_codes[i].code, exit_codes[i].meaning);
    }
}

/* ---- the manual page ---- */

/* Roff: a hyphen that is typed is \-, a backslash \e, and no line starts with a dot or a quote. */
static void put_roff(const char *text) {
    if (*text == '.' || *text == '\'') fputs("\\&", stdout);
    for (; *text; text++) {
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            putchar(*text);
    }
}

static void put_paragraph(const char *text) {
    put_roff(text);
    putchar('\n');
}

static void put_manual_option(const option_row *row) {
    char text[1024];
    fputs(".TP\n", stdout);
    if (row->letter) printf("\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", stdout);
    put_roff(row->name);
    fputs("\\fR", stdout);
    if (row->argument) {
        fputs(" \\fI", stdout);
        put_roff(row->argument);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    describe(row, text, sizeof text);
    strncat(text, ".", sizeof text - strlen(text) - 1);
    put_paragraph(text);
}

static void put_manual(void) {
    /* No date: the page changes with the table alone. */
    printf(".\\\" Made from cli/options.c by tools/generate.sh; do not edit.\n"
           ".TH PLIMSOLL 1 \"\" \"plimsoll %s\" \"User Commands\"\n.SH NAME\nplimsoll \\- ",
           PL_VERSION);
    put_paragraph("what a PyTorch training job will ask of a GPU, before it runs");
    fputs(".SH SYNOPSIS\n", stdout);
    for (int i = 0; i < VERBS; i++) {
        if (i) fputs(".br\n", stdout);
        printf("\\fBplimsoll %s\\fR ", verb_table[i].name);
        if (verb_table[i].operand) printf("\\fI%s\\fR ", verb_operand((verb)i));
        fputs("[\\fIOPTIONS\\fR]", stdout);
        put_roff(verb_behind((verb)i));
        putchar('\n');
    }
    fputs(".SH DESCRIPTION\n", stdout);
    put_paragraph(
        "plimsoll reads a model that torch.export.save wrote, simulates what PyTorch would "
        "allocate over three training steps on a CUDA card, and reports the peak. It needs "
        "neither Python nor PyTorch nor a GPU. Results are on standard output, all else on "
        "standard error; colour and progress bars on a terminal only.");
    for (int v = 0; v < VERBS; v++) {
        printf(".SS plimsoll %s", verb_table[v].name);
        if (verb_table[v].operand) printf(" %s", verb_operand((verb)v));
        putchar('\n');
        put_paragraph(verb_table[v].text);
        for (size_t i = 0; i < option_count; i++) {
            const option_row *row = &option_table[i];
            bool everywhere = (row->verbs & ((1u << VERBS) - 1)) == (1u << VERBS) - 1;
            if (row->verbs >> v & 1 && !everywhere) put_manual_option(row);
        }
    }
    fputs(".SS Every verb\n", stdout);
    for (size_t i = 0; i < option_count; i++)
        if ((option_table[i].verbs & ((1u << VERBS) - 1)) == (1u << VERBS) - 1)
            put_manual_option(&option_table[i]);
    fputs(".SH EXIT STATUS\n", stdout);
    for (int i = 0; i < EXIT_CODES; i++) {
        printf(".TP\n\\fB%d\\fR\n", exit_codes[i].code);
        put_paragraph(exit_codes[i].meaning);
    }
    fputs(".SH ENVIRONMENT\n.TP\n\\fBNO_COLOR\\fR\n", stdout);
    put_paragraph("When set and not empty, no colour is used.");
    fputs(".SH EXAMPLES\n.nf\n", stdout);
    put_paragraph("plimsoll estimate resnet50.pt2 --batch 64 --precision amp-bf16 --gpu l4");
    put_paragraph("plimsoll check gpt2.pt2 --checkpoint --gpu a100-40gb || echo too big");
    put_paragraph("plimsoll fit resnet50.pt2 --gpu l4");
    put_paragraph("plimsoll explain gpt2.pt2 --time --times time.svg");
    put_paragraph("plimsoll estimate a.pt2 --json >a.json; plimsoll estimate b.pt2 --json >b.json; "
                  "plimsoll collocate a.json b.json");
    put_paragraph(
        "plimsoll evaluate jobs.jsonl.xz --described --target step_ms,smact --split model");
    put_paragraph("plimsoll train random-forest --jobs jobs.jsonl.xz --out forest.plm");
    put_paragraph("plimsoll evaluate jobs.jsonl.xz --graphs graphs --estimator all --split model");
    fputs(".fi\n", stdout);
}

int help_generate(const char *form) {
    static const struct {
        const char *name;
        void (*put)(void);
    } forms[] = {
        {"man", put_manual},
        {"bash", completions_bash},
        {"zsh", completions_zsh},
        {"fish", completions_fish},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (form && strcmp(form, forms[i].name) == 0) {
            forms[i].put();
            return 0;
        }
    return complain(PL_USAGE, "__generate makes man, bash, zsh or fish");
}
