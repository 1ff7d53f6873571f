#!/bin/sh
# The table of who may include whom (docs/architecture.md): a folder includes its own headers, those of
# the folders in its row, and what is outside the project.
. "$ROOT/tests/case.sh"

# folder: may include
table='
src/core:      core public
src/graph:     graph core public
src/import:    import graph core public
src/tape:      tape graph core public
src/device:    device core tape/tape.h tape/work.h tape/workspace_request.h public
src/learn:     learn core public
src/nvml:      nvml core public
src/estimate:  estimate learn device tape import graph core public
src/decide:    decide estimate core public
cli:           cli public
serve:         serve public
plugins:       plugins public
include/plimsoll:
'

# Prints every include of a folder that its row does not allow.
wrong_includes() { # FOLDER ALLOWED...
    folder=$1
    shift
    allowed=" $* "
    [ -d "$ROOT/$folder" ] || return 0
    find "$ROOT/$folder" -name '*.[ch]' -o -name '*.cpp' | while read -r file; do
        sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\([<"][^>"]*[>"]\).*/\1/p' "$file" |
            while read -r include; do
                name=$(echo "$include" | tr -d '<>"')
                case $include in
                '<plimsoll/'*)
                    case $allowed in *" public "*) ;; *) echo "$file: $include" ;; esac ;;
                '<'*) ;; # libc and the packages
                *)
                    top=${name%%/*}
                    case $name in */*) ;; *) top=$(basename "$folder") ;; esac # a neighbour
                    case $allowed in
                    *" $top "* | *" $name "*) ;;
                    *) echo "$file: $include" ;;
                    esac ;;
                esac
            done
    done
}

includes_go_one_way() {
    echo "$table" | while IFS=: read -r folder allowed; do
        [ -z "$folder" ] || wrong_includes "$folder" $allowed
    done >wrong
    silent wrong
}

# The check itself must be able to fail.
a_wrong_include_is_seen() {
    mkdir -p tree/src/tape
    echo '#include "import/json.h"' >tree/src/tape/x.c
    ROOT=$work/tree
    wrong_includes src/tape tape graph core public >wrong
    says wrong 'src/tape/x.c: "import/json.h"'
}

every_source_folder_has_a_row() {
    for folder in "$ROOT"/src/*/; do
        echo "$table" | grep -q "^src/$(basename "$folder"):" || { echo "no row for $folder"; false; }
    done
}

# A file that no list names would be neither built nor tested.
every_source_is_listed() {
    (cd "$ROOT" && ls src/*/*.c cli/*.c tests/*.c) | while read -r file; do
        case $file in
        tests/*) grep -q "'$(basename "$file" .c)\\(\\.c\\)\\?'" "$ROOT/tests/meson.build" || echo "$file" ;;
        *) grep -q "'\\(cli/\\)\\?$(basename "$file")'" "$ROOT/meson.build" || echo "$file" ;;
        esac
    done >missing
    silent missing
}

nothing_is_left_of_the_bring_up() {
    if grep -n 'BRING-UP' "$ROOT/meson.build" "$ROOT/tests/meson.build"; then false; fi
}

try includes_go_one_way
try a_wrong_include_is_seen
try every_source_folder_has_a_row
try every_source_is_listed
try nothing_is_left_of_the_bring_up
done_testing
