#!/bin/sh
# The library speaks to whoever calls it, from C, Python or a server: its messages name fields ("gpu"), never
# options of the command or its verbs. The command adds those (cli/text.c).
. "$ROOT/tests/case.sh"

# Prints the strings of the sources under the folders given that hold an option or a call of the command.
words_of_the_command() { # FOLDER...
    find "$@" -name '*.[ch]' | while read -r file; do
        grep -n -o -E '"([^"\\]|\\.)*"' "$file" | grep -E '(^[0-9]*:"|[ (`])--[a-z]|[`(]plimsoll ' | sed "s|^|$file:|"
    done
}

the_library_knows_no_options() {
    words_of_the_command "$ROOT/src" "$ROOT/lab" >wrong
    silent wrong
}

# The check itself must be able to fail.
words_of_the_command_are_seen() {
    mkdir -p tree
    echo 'fail("--gpu", 1);' >tree/a.c
    echo 'fail("none; `plimsoll gpus` lists them");' >tree/b.c
    echo 'fail("say --batch");' >tree/c.h
    echo 'rule("ab:ttt--tttn"); /* --gpu */' >tree/right.c
    words_of_the_command tree >wrong
    is "$(sed 's/:.*//' wrong | sort | tr '\n' ' ')" 'tree/a.c tree/b.c tree/c.h '
}

# What the command says of the same.
the_command_names_its_options() {
    gives 2 "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml" --seq 7
    says err 'plimsoll: --seq: '
    gives 2 "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml" --alloc-conf nonsense:1
    says err 'plimsoll: --alloc-conf: '
}

try the_library_knows_no_options
try words_of_the_command_are_seen
try the_command_names_its_options
done_testing
