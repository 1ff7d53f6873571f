#!/bin/sh
# What the shared library exports is what the public header declares and plimsoll.map lists.
. "$ROOT/tests/case.sh"

declared() { # functions of the header: pl_name( outside comments, no typedefs
    sed -e 's:/\*.*\*/::' -e '/\/\*/,/\*\//d' "$ROOT/include/plimsoll/plimsoll.h" |
        grep -o '\bpl_[a-z_0-9]*(' | tr -d '(' | sort -u
}
listed() { grep -o '^ *pl_[a-z_0-9]*;' "$ROOT/plimsoll.map" | tr -d ' ;' | sort -u; }

map_lists_the_header() {
    declared >declared
    listed >listed
    [ "$(wc -l <declared)" -gt 15 ]
    diff declared listed
}

library_exports_the_map() {
    command -v nm >/dev/null || skip "library_exports_the_map: no nm"
    nm -D --defined-only "$BUILD/libplimsoll.so" | awk '$2 == "T" || $2 == "D" || $2 == "R" { sub(/@.*/, "", $3); print $3 }' |
        sort -u >exported
    listed >listed
    diff listed exported
}

# Every name another program could meet in the static library starts with pl_.
static_library_keeps_to_its_prefix() {
    command -v nm >/dev/null || skip "static_library_keeps_to_its_prefix: no nm"
    nm --defined-only "$BUILD/libplimsoll.a" 2>/dev/null | awk '$2 ~ /^[TDRBVW]$/ && $3 !~ /^(pl_|__|_ZN|DW\.|\.)/ { print $3 }' |
        grep -v -E 'asan|ubsan|odr' >wrong || true
    silent wrong
}

try map_lists_the_header
try library_exports_the_map
try static_library_keeps_to_its_prefix
done_testing
