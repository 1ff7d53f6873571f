#!/bin/sh
# Reals are read and written in one place, src/core/number.c, since printf and strtod follow the
# locale. Then what the command writes in a locale with a comma.
. "$ROOT/tests/case.sh"

# Prints where the sources under the folders given read or write reals by themselves: a function of the
# C library that reads them, or a conversion of printf's in a string (%% set aside).
by_themselves() { # FOLDER...
    find "$@" -name '*.[ch]' ! -path '*/core/number.[ch]' | while read -r file; do
        grep -n -w -E 'strtod|strtof|strtold|atof|v?f?s?scanf|localeconv' "$file" | sed "s|^|$file:|"
        sed -e 's/%%//g' "$file" |
            grep -n -o -E '"([^"\\]|\\.)*"' |
            grep -E '%[-+#0]*([0-9]+|\*)?(\.([0-9]+|\*))?[lL]?[fFgGeEaA]' | sed "s|^|$file:|"
    done
}

reals_go_through_one_place() {
    folders="$ROOT/src $ROOT/cli"
    [ ! -d "$ROOT/lab" ] || folders="$folders $ROOT/lab"
    # shellcheck disable=SC2086
    by_themselves $folders >wrong
    silent wrong
}

# The check itself must be able to fail.
reals_elsewhere_are_seen() {
    mkdir -p tree
    echo 'x = strtod(text, &end);' >tree/a.c
    echo 'printf("%d of %6.2f %%", n, x);' >tree/b.c
    echo 'f("%s \"%*.*g\"", x);' >tree/c.h
    echo 'f("100 %% free, %d, %s", hidden % g);' >tree/right.c
    by_themselves tree >wrong
    is "$(sed 's/:.*//' wrong | sort | tr '\n' ' ')" 'tree/a.c tree/b.c tree/c.h '
}

with_a_comma() { LOCPATH=$work LC_ALL=comma "$@"; }

# What is written must be the same as in the C locale; the time it took is not.
same_in_both() { # NAME COMMAND...
    name=$1
    shift
    LC_ALL=C "$@" >"$name.c"
    with_a_comma "$@" >"$name.comma"
    sed -i 's/"elapsed_us":[0-9]*//' "$name.c" "$name.comma"
    cmp "$name.c" "$name.comma"
}

the_command_with_a_comma() {
    sh "$ROOT/tests/comma_locale.sh" "$work"
    cp "$ROOT/examples/mlp.yaml" .
    same_in_both json "$PLIMSOLL" estimate mlp.yaml --json
    same_in_both text "$PLIMSOLL" estimate mlp.yaml
    same_in_both conf "$PLIMSOLL" estimate mlp.yaml --json --alloc-conf garbage_collection_threshold:0.8
    same_in_both graph "$PLIMSOLL" convert mlp.yaml
    for picture in svg csv; do
        LC_ALL=C "$PLIMSOLL" estimate mlp.yaml --timeline "c.$picture" >/dev/null
        with_a_comma "$PLIMSOLL" estimate mlp.yaml --timeline "comma.$picture" >/dev/null
        cmp "c.$picture" "comma.$picture"
    done
}

try reals_go_through_one_place
try reals_elsewhere_are_seen
try the_command_with_a_comma
done_testing
