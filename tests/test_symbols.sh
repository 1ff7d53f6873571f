#!/bin/sh
# What each shared library exports is what its public header declares and its map lists, and, of libplimsoll, what it
# lends to the laboratory and to nobody else. docs/c-api.md names the same. What libplimsoll needs is the C library and zlib;
# libplimsoll-live, the C library, and nothing of the driver's.
. "$ROOT/tests/case.sh"

with_lab() { [ -f "$BUILD/libplimsoll-lab.so" ]; }
headers_of() { # MAP
    for header in $(case $1 in plimsoll) echo plimsoll service ;; *) echo "$1" ;; esac); do echo "$ROOT/include/plimsoll/$header.h"; done
}
library_of() { case $1 in plimsoll) echo libplimsoll ;; *) echo "libplimsoll-$1" ;; esac; }

declared() { # MAP: functions of its headers: pl_name( outside comments, no typedefs, none that is defined there
    # shellcheck disable=SC2046
    sed -e 's:/\*.*\*/::' -e '/\/\*/,/\*\//d' -e '/^static inline/,/^}/d' $(headers_of "$1") |
        grep -o '\bpl_[a-z_0-9]*(' | tr -d '(' | sort -u
}
# MAP NODE: the names that a node of the map lists
listed() {
    awk -v node="$2" '$2 == "{" { on = $1 ~ node } on' "$ROOT/$1.map" | grep -o '^ *pl_[a-z_0-9]*;' | tr -d ' ;' | sort -u
}
exported() { # MAP
    nm -D --defined-only "$BUILD/$(library_of "$1").so" |
        awk '$2 == "T" || $2 == "D" || $2 == "R" || $2 == "B" { sub(/@.*/, "", $3); print $3 }' | sort -u
}

maps_list_the_headers() {
    for map in plimsoll lab live; do
        declared "$map" >in_header
        listed "$map" '_1$' >in_map
        [ "$(wc -l <in_header)" -ge 10 ]
        diff in_header in_map
    done
}

# docs/c-api.md names every function of the headers, the inline ones too, in the tables of its last section; and no function,
# type or macro that is not in a header or a map.
the_page_names_every_function() {
    page=$ROOT/docs/c-api.md
    for map in plimsoll lab live; do
        declared "$map"
        # shellcheck disable=SC2046
        sed -n 's/^static inline [a-z ]*\(pl_[a-z_0-9]*\)(.*/\1/p' $(headers_of "$map")
    done | sort -u >in_headers
    [ "$(wc -l <in_headers)" -gt 60 ]
    sed -n '/^## Every function/,$p' "$page" | grep -o '`pl_[a-z_0-9]*`' | tr -d '`' | sort >in_tables
    diff in_headers in_tables
    grep -o -w -E '(pl|PL|PLIMSOLL)_[A-Za-z_0-9]+' "$page" | sort -u >on_page
    while read -r name; do
        grep -q -w "$name" "$ROOT"/include/plimsoll/*.h "$ROOT"/*.map || echo "$name"
    done <on_page >wrong
    silent wrong
}

libraries_export_the_maps() {
    command -v nm >/dev/null || skip "libraries_export_the_maps: no nm"
    { listed plimsoll '_1$'; listed plimsoll '_PRIVATE$'; } | sort -u >in_map
    exported plimsoll >in_library
    diff in_map in_library
    listed live '_1$' >in_map
    exported live >in_library
    diff in_map in_library
    with_lab || return 0
    listed lab '_1$' >in_map
    exported lab >in_library
    diff in_map in_library
}

# Lent is what the laboratory uses: neither more nor less.
what_is_lent_is_used() {
    command -v nm >/dev/null || skip "what_is_lent_is_used: no nm"
    with_lab || skip "what_is_lent_is_used: a build without the laboratory"
    listed plimsoll '_PRIVATE$' >lent
    listed plimsoll '_1$' >public
    nm -D --undefined-only "$BUILD/libplimsoll-lab.so" | awk '$2 ~ /^pl_/ { sub(/@.*/, "", $2); print $2 }' | sort -u |
        comm -23 - public >used
    [ "$(wc -l <used)" -gt 10 ]
    diff lent used
}

# DT_NEEDED alone: what else a program brings along is its own.
libplimsoll_needs_libc_libm_and_zlib() {
    command -v readelf >/dev/null || skip "libplimsoll_needs_libc_libm_and_zlib: no readelf"
    case $BUILD in *asan* | *tsan*) skip "libplimsoll_needs_libc_libm_and_zlib: on the ordinary build alone" ;; esac
    readelf -d "$BUILD/libplimsoll.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >needed
    grep -q '^libz\.' needed
    grep -v -E '^(libc|libm|libz|ld-linux[-a-z0-9_]*)\.so' needed >wrong || true
    silent wrong
    nm -D --undefined-only "$BUILD/libplimsoll.so" | grep -w -E 'dlopen|dlsym' >wrong || true
    silent wrong
    readelf -d "$BUILD/libplimsoll-live.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -v -E '^(libc|libm|libz|ld-linux[-a-z0-9_]*)\.so' >wrong || true
    silent wrong
}

# Every name another program could meet in a static library starts with pl_.
static_libraries_keep_to_their_prefix() {
    command -v nm >/dev/null || skip "static_libraries_keep_to_their_prefix: no nm"
    for library in "$BUILD"/libplimsoll*.a; do
        nm --defined-only "$library" 2>/dev/null | awk '$2 ~ /^[TDRBVW]$/ && $3 !~ /^(pl_|__|_ZN|DW\.|\.)/ { print $3 }' |
            grep -v -E 'asan|ubsan|odr' >wrong || true
        silent wrong
    done
}

try maps_list_the_headers
try the_page_names_every_function
try libraries_export_the_maps
try what_is_lent_is_used
try libplimsoll_needs_libc_libm_and_zlib
try static_libraries_keep_to_their_prefix
done_testing
