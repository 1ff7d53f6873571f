#!/bin/sh
# The table of who may include whom is the one on docs/architecture.md: a folder includes its own headers,
# what stands in code in the last column of its row, and what is outside the project.
# On one build only: it looks at the sources.
. "$ROOT/tests/case.sh"

# What stands in code in the last column of a folder's row.
allowed_of() { # PAGE FOLDER
    grep "^| \`$2/\?\` |" "$1" | sed 's/.*| *\([^|]*\)|$/\1/' | grep -o '`[^`]*`' | tr -d '`' | sed 's:/$::' | tr '\n' ' '
}

# Prints every include of a folder that its row does not allow.
wrong_includes() { # FOLDER ALLOWED...
    folder=$1
    shift
    own=${folder#src/}
    find "$ROOT/$folder" -name '*.[ch]' -o -name '*.cpp' | while read -r file; do
        sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\([<"][^>"]*[>"]\).*/\1/p' "$file" |
            while read -r include; do
                name=$(echo "$include" | tr -d '<>"')
                wrong=yes
                case $include in
                '<plimsoll/'*) name=include/$name ;;
                '<'*) continue ;; # libc and the packages
                *..*) ;;
                '"'"$own"/*) continue ;;
                '"'*/*) ;;
                *) [ -f "$ROOT/src/$name" ] || continue ;; # a neighbour, or made by meson
                esac
                for one in "$@"; do
                    case $name in "$one" | "$one"/*) wrong=no ;; esac
                done
                [ "$wrong" = no ] || echo "$file: $include"
            done
    done
}

page=$ROOT/docs/architecture.md

includes_are_those_of_the_page() {
    folders=$(sed -n 's/^| `\([^`]*\)` |.*/\1/p' "$page")
    [ "$(echo "$folders" | wc -l)" -gt 10 ]
    for folder in $folders; do
        folder=${folder%/}
        [ -d "$ROOT/$folder" ] || { echo "the page has a row of $folder, which is not there"; false; }
        # shellcheck disable=SC2046
        wrong_includes "$folder" $(allowed_of "$page" "$folder")
    done >wrong
    silent wrong
}

# The check itself must be able to fail.
a_wrong_include_is_seen() {
    mkdir -p tree/src/tape tree/lab/learn tree/src/learn
    echo '#include "import/json.h"' >tree/src/tape/x.c
    echo '#include "graph/graph.h"' >>tree/src/tape/x.c
    touch tree/src/lend.h
    printf '#include "lend.h"\n#include "learn/tree.h"\n#include "lab/learn/y.h"\n' >tree/lab/learn/x.c
    echo '#include "lend.h"' >tree/src/learn/x.c
    ROOT=$work/tree
    wrong_includes src/tape graph core include >wrong
    says wrong 'src/tape/x.c: "import/json.h"'
    is "$(wc -l <wrong)" 1
    wrong_includes lab/learn lend.h include >wrong
    says wrong 'lab/learn/x.c: "learn/tree.h"'
    is "$(wc -l <wrong)" 1
    wrong_includes src/learn core >wrong
    says wrong 'src/learn/x.c: "lend.h"'
}

# Wherever C stands that is built into a library or a program of ours.
every_folder_has_a_row() {
    (cd "$ROOT" && find . -name '*.[ch]' ! -path './tests/*' ! -path './bench/*' ! -path './tools/*' ! -path './examples/*' \
        ! -path './build*' ! -path './.*/*' ! -path './subprojects/*') | sed 's:^\./::; s:/[^/]*$::' | sort -u | while read -r folder; do
        case $folder in # a folder's own folders (import/families) are of its row
        src/*/*) folder=${folder%/*} ;;
        src) continue ;; # lend.h
        esac
        grep -q "^| \`$folder/\?\` |" "$page" || echo "no row for $folder"
    done >missing
    silent missing
}

# A file that no list names would be neither built nor tested.
every_source_is_listed() {
    (cd "$ROOT" && find src lab cli serve plugins tests -name '*.c' ! -path 'tests/*/*') | while read -r file; do
        case $file in
        tests/*) grep -q "'$(basename "$file" .c)\\(\\.c\\)\\?'" "$ROOT/tests/meson.build" || echo "$file" ;;
        *) grep -q "'\\(\\(cli\\|serve\\|plugins/slurm\\)/\\)\\?$(basename "$file")'" "$ROOT/meson.build" || echo "$file" ;;
        esac
    done >missing
    silent missing
}

nothing_is_left_of_the_bring_up() {
    if grep -n 'BRING-UP' "$ROOT/meson.build" "$ROOT/tests/meson.build"; then false; fi
}

try includes_are_those_of_the_page
try a_wrong_include_is_seen
try every_folder_has_a_row
try every_source_is_listed
try nothing_is_left_of_the_bring_up
done_testing
