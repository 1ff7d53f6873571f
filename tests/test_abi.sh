#!/bin/sh
# The binary interface: size of every public struct, offset and size of every member, value of every enumerator,
# as tests/data/abi.txt has them (x86-64). A program that was built with an older header must go on working:
# members are added at the end of structs with a size member, enumerators at the end. Where a change is meant,
# and the library's version says so: sh tests/test_abi.sh --write, which writes the file anew.
# On one build only: it looks at the header.
if [ "${1-}" = --write ]; then
    ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) BUILD=none PLIMSOLL=none
fi
. "$ROOT/tests/case.sh"

layout() { # HEADER...
    awk -f "$ROOT/tests/abi.awk" "$@" >abi.c
    cc -std=c11 -Wall -Werror -I"$ROOT/include" abi.c -o abi
    ./abi
}
public_layout() { layout "$ROOT"/include/plimsoll/plimsoll.h "$ROOT"/include/plimsoll/service.h "$ROOT"/include/plimsoll/lab.h "$ROOT"/include/plimsoll/live.h; }

interface_is_the_kept_one() {
    [ "$(uname -m)" = x86_64 ] || skip 'interface_is_the_kept_one: kept for x86-64'
    public_layout >now
    [ "$(wc -l <now)" -gt 200 ]
    says now '^pl_job.batch at '
    says now '^PL_USAGE = 2$'
    says now '^pl_report.peak_bytes at '
    diff "$ROOT/tests/data/abi.txt" now
}

# A struct that the caller makes begins with its size; the others here are handed out by pointer and read where they
# lie, but for pl_figure, three numbers for good. Enums size no array.
structs_can_grow() {
    handed_out='pl_alive pl_day_outcome pl_day_point pl_estimator_info pl_evaluation pl_figure pl_gpu pl_live_card pl_live_process pl_model_info pl_moment pl_place_option pl_remedies pl_remedy pl_report pl_seen pl_symbol
        pl_time pl_train_point pl_trial pl_weights_info'
    public_layout >now
    sed -n 's/^\(pl_[a-z_]*\)\.size at 0, .*/\1/p' now | sort >sized
    sed -n 's/^\(pl_[a-z_]*\)\..*/\1/p' now | sort -u >structs
    [ "$(wc -l <sized)" -ge 10 ]
    comm -23 structs sized | tr '\n' ' ' >unsized
    # shellcheck disable=SC2086
    is "$(cat unsized)" "$(printf '%s ' $handed_out)"
    if grep -n '\[PL_' "$ROOT"/include/plimsoll/*.h; then false; fi
}

# The check itself must be able to fail.
a_moved_member_is_seen() {
    for order in 'int a; /* x */ const char *b, *c[2]; void (*d)(int x, int y);' 'const char *b, *c[2]; int a; void (*d)(int x, int y);'; do
        echo "typedef struct pl_x { $order } pl_x; typedef enum pl_y { PL_A, PL_B = 7, } pl_y;" >x.h
        layout "$PWD/x.h" >"said.${#order}.$(echo "$order" | cut -c 1)"
    done
    is "$(cat said.*i | tr '\n' ' ')" 'pl_x 40 bytes pl_x.a at 0, 4 bytes pl_x.b at 8, 8 bytes pl_x.c at 16, 16 bytes pl_x.d at 32, 8 bytes pl_y 4 bytes PL_A = 0 PL_B = 7 '
    if cmp -s said.*i said.*c; then false; fi
}

if [ "${1-}" = --write ]; then
    cd "$work" && public_layout >"$ROOT/tests/data/abi.txt"
    exit
fi
try interface_is_the_kept_one
try structs_can_grow
try a_moved_member_is_seen
done_testing
