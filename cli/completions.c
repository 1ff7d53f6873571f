/* completions: see completions.h. Written for bash 4 (without the bash-completion package's
 * functions), zsh's _arguments, and fish 3. Verbs first, then a verb's options, values where the
 * table lists them, files and folders otherwise. Left out: completing KIND:N of --parallel. */
#include "completions.h"

#include <stdio.h>
#include <string.h>

#include "options.h"

static const char made_from[] = "Made from cli/options.c by tools/generate.sh; do not edit.";

static void put_names(const char *(*names)(size_t)) {
    const char *name;
    for (size_t i = 0; (name = names(i)); i++) printf("%s%s", i ? " " : "", name);
}

static void put_values(const option_row *row) {
    put_names(row->names);
}

static bool is_file(const option_row *row) {
    return row->type == OPTION_FILE || row->type == OPTION_FILES;
}

/* Whether another verb has another option of the row's name or letter. */
static bool shared(const option_row *row) {
    for (size_t i = 0; i < option_count; i++) {
        const option_row *other = &option_table[i];
        if (other == row) continue;
        if (strcmp(other->name, row->name) == 0 || (row->letter && other->letter == row->letter))
            return true;
    }
    return false;
}

/* ---- bash ---- */

static void put_bash_options(verb v) {
    const char *between = "";
    for (size_t i = 0; i < option_count; i++) {
        if (!(option_table[i].verbs >> v & 1)) continue;
        printf("%s--%s", between, option_table[i].name);
        between = " ";
    }
}

/* Of "VERB:WORD-BEFORE". */
static void put_bash_patterns(const option_row *row) {
    const char *between = "";
    bool each = shared(row);
    for (int v = 0; v < VERBS; v++) {
        if (each && !(row->verbs >> v & 1)) continue;
        const char *name = each ? verb_table[v].name : "*";
        printf("%s%s:--%s", between, name, row->name);
        if (row->letter) printf("|%s:-%c", name, row->letter);
        between = "|";
        if (!each) break;
    }
}

void completions_bash(void) {
    printf("# bash completion for plimsoll. %s\n_plimsoll() {\n", made_from);
    fputs("    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options\n"
          "    COMPREPLY=()\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"",
          stdout);
    for (int v = 0; v < VERBS; v++) printf("%s ", verb_table[v].name);
    put_bash_options(VERB_NONE);
    fputs("\" -- \"$word\")\n        return\n    fi\n    case ${COMP_WORDS[1]}:$before in\n",
          stdout);
    for (size_t i = 0; i < option_count; i++) {
        const option_row *row = &option_table[i];
        if (!row->argument) continue;
        fputs("    ", stdout);
        put_bash_patterns(row);
        fputs(")\n        ", stdout);
        if (row->names) {
            fputs("mapfile -t COMPREPLY < <(compgen -W \"", stdout);
            put_values(row);
            fputs("\" -- \"$word\")\n        ", stdout);
        } else if (is_file(row) || row->type == OPTION_FOLDERS) {
            printf("mapfile -t COMPREPLY < <(compgen -%c -- \"$word\")\n        ",
                   is_file(row) ? 'f' : 'd');
        }
        fputs("return ;;\n", stdout);
    }
    fputs("    esac\n    case ${COMP_WORDS[1]} in\n", stdout);
    for (int v = 0; v < VERBS; v++) {
        printf("    %s) options=\"", verb_table[v].name);
        put_bash_options((verb)v);
        fputs("\" ;;\n", stdout);
    }
    fputs("    *) return ;;\n    esac\n    case ${COMP_WORDS[1]}:$word in\n"
          "    *:-*) mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\") ;;\n",
          stdout);
    for (int v = 0; v < VERBS; v++) {
        if (!verb_table[v].names) continue;
        printf("    %s:*) mapfile -t COMPREPLY < <(compgen -W \"", verb_table[v].name);
        put_names(verb_table[v].names);
        fputs("\" -- \"$word\") ;;\n", stdout);
    }
    fputs("    *) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n    esac\n}\n"
          "complete -o filenames -F _plimsoll plimsoll\n",
          stdout);
}

/* ---- zsh ---- */

/* Within '...' of an _arguments specification: colons and brackets are its own. */
static void put_zsh_text(const char *text) {
    for (; *text; text++) {
        if (strchr("[]:\\", *text)) putchar('\\');
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
}

static void put_zsh_option(const option_row *row) {
    fputs("            ", stdout);
    bool again = row->type == OPTION_FILES || row->type == OPTION_FOLDERS;
    if (row->letter && again)
        printf("'*'{-%c+,--%s=}'", row->letter, row->name);
    else if (row->letter)
        printf("'(-%c --%s)'{-%c%s,--%s%s}'", row->letter, row->name, row->letter,
               row->argument ? "+" : "", row->name, row->argument ? "=" : "");
    else
        printf("'--%s%s", row->name, row->argument ? "=" : "");
    putchar('[');
    put_zsh_text(row->help);
    putchar(']');
    if (row->argument) {
        putchar(':');
        put_zsh_text(row->argument);
        putchar(':');
        if (row->names) {
            putchar('(');
            put_values(row);
            putchar(')');
        } else if (is_file(row)) {
            fputs("_files", stdout);
        } else if (row->type == OPTION_FOLDERS) {
            fputs("_files -/", stdout);
        }
    }
    fputs("' \\\n", stdout);
}

void completions_zsh(void) {
    printf("#compdef plimsoll\n# %s\n_plimsoll() {\n    local -a verbs\n    verbs=(\n", made_from);
    for (int v = 0; v < VERBS; v++) {
        printf("        '%s:", verb_table[v].name);
        put_zsh_text(verb_table[v].summary);
        fputs("'\n", stdout);
    }
    fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe verb verbs\n        return\n  "
          "  fi\n"
          "    local verb=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $verb in\n",
          stdout);
    for (int v = 0; v < VERBS; v++) {
        printf("    %s)\n        _arguments -s \\\n", verb_table[v].name);
        for (size_t i = 0; i < option_count; i++)
            if (option_table[i].verbs >> v & 1) put_zsh_option(&option_table[i]);
        if (verb_table[v].names) {
            printf("            '1:%s:(", verb_table[v].operand);
            put_names(verb_table[v].names);
            fputs(")'\n", stdout);
        } else if (verb_table[v].operand)
            printf("            '%c:%s:_files'\n", verb_table[v].most > 1 ? '*' : '1',
                   verb_table[v].operand);
        else
            fputs("            && return\n", stdout);
        fputs("        ;;\n", stdout);
    }
    fputs("    esac\n}\n_plimsoll \"$@\"\n", stdout);
}

/* ---- fish ---- */

static void put_fish_text(const char *text) {
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

void completions_fish(void) {
    printf("# fish completion for plimsoll. %s\ncomplete -c plimsoll -f\n", made_from);
    for (int v = 0; v < VERBS; v++) {
        printf("complete -c plimsoll -n __fish_use_subcommand -a %s -d ", verb_table[v].name);
        put_fish_text(verb_table[v].summary);
        putchar('\n');
        if (verb_table[v].names) {
            printf("complete -c plimsoll -n '__fish_seen_subcommand_from %s' -a '",
                   verb_table[v].name);
            put_names(verb_table[v].names);
            fputs("'\n", stdout);
        } else if (verb_table[v].operand)
            printf("complete -c plimsoll -n '__fish_seen_subcommand_from %s' -F\n",
                   verb_table[v].name);
    }
    for (size_t i = 0; i < option_count; i++) {
        const option_row *row = &option_table[i];
        fputs("complete -c plimsoll", stdout);
        if (!(row->verbs >> VERB_NONE & 1)) {
            fputs(" -n '__fish_seen_subcommand_from", stdout);
            for (int v = 0; v < VERBS; v++)
                if (row->verbs >> v & 1) printf(" %s", verb_table[v].name);
            putchar('\'');
        }
        printf(" -l %s", row->name);
        if (row->letter) printf(" -s %c", row->letter);
        if (row->argument)
            fputs(is_file(row) || row->type == OPTION_FOLDERS ? " -r -F" : " -x", stdout);
        if (row->names) {
            fputs(" -a '", stdout);
            put_values(row);
            putchar('\'');
        }
        fputs(" -d ", stdout);
        put_fish_text(row->help);
        putchar('\n');
    }
}
