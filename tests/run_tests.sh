#!/bin/sh
# run_tests.sh PART...: runs tests on build folders, as many at once as there are processors, and counts
# their cases (the protocol: tests/check.h). A part:
#     BUILD             the test programs and the test scripts
#     BUILD:programs    the test programs alone
#     BUILD:NAME        one test program, test_NAME
# A line is shown for each when it ends, with its seconds. The last line is `N passed, N failed`.
set -u
tests=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
ROOT=$(dirname -- "$tests")
ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
TSAN_OPTIONS=exitcode=66:suppressions=$tests/tsan.supp
LC_ALL=C.UTF-8
export ROOT ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS LC_ALL

# run_one SCRATCH NUMBER: runs line NUMBER of SCRATCH/list, shows what did not pass and keeps the counts
# in SCRATCH/NUMBER.counts. A line: HOW BUILD NAME COMMAND...; HOW: `show` shows all it printed, `count`
# only lines that start with "# " (figures to be seen) and what was skipped.
run_one() {
    scratch=$1 number=$2
    # shellcheck disable=SC2046 # a line's words
    set -- $(sed -n "${number}p" "$scratch/list")
    how=$1 BUILD=$2 name=$3 PLIMSOLL=$2/plimsoll
    shift 3
    export BUILD PLIMSOLL
    cd "$ROOT" || exit 4 # test programs find tests/... from here
    out=$scratch/$number.out err=$scratch/$number.err
    begin=$(date +%s)
    "$@" >"$out" 2>"$err" </dev/null
    code=$?
    took=$(($(date +%s) - begin))
    ok=$(grep -c '^ok[ :]' "$out")
    bad=$(grep -c '^not ok ' "$out")
    skip=$(grep -c '^SKIP ' "$out")
    if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1
    elif [ "$ok$bad$skip" = 000 ]; then
        ok=1
    fi
    echo "$ok $bad $skip" >"$scratch/$number.counts"
    { # in one piece, though others write too
        printf '%-12s %-24s %4d passed, %3d s' "$(basename "$BUILD")" "$name" "$ok" "$took"
        [ "$bad" -gt 0 ] && printf ', %d failed (exit %d)' "$bad" "$code"
        [ "$skip" -gt 0 ] && printf ', %d skipped' "$skip"
        echo
        if [ "$bad" -gt 0 ]; then
            sed 's/^/    /' "$out" "$err" | tail -n 80
        elif [ "$how" = show ]; then
            sed 's/^/    /' "$out"
        else
            grep '^SKIP ' "$out" | sed 's/^/    /'
            grep '^# ' "$out" | sed 's/^# /    /'
        fi
    } >"$scratch/$number.shown"
    cat "$scratch/$number.shown"
}

if [ "${1-}" = --one ]; then
    run_one "$2" "$3"
    exit 0
fi

scratch=$(mktemp -d) || exit 4
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
for part in "$@"; do
    which=${part#*:}
    [ "$which" = "$part" ] && which=all
    build=$(CDPATH='' cd -- "${part%%:*}" && pwd) || exit 4
    if [ "$which" = all ]; then # first, since the longest are among them
        for script in "$tests"/test_*.sh; do
            grep -q '^# On one build only' "$script" && [ "$part" != "$1" ] && continue
            echo "count $build $(basename "$script") sh $script"
        done
    fi
    while read -r how program arguments; do
        [ -n "$program" ] || continue
        case $which in
        all | programs | "${program#test_}") echo "$how $build $program $build/tests/$program $arguments" ;;
        esac
    done <"$build/tests/programs"
done >"$scratch/list"
count=$(wc -l <"$scratch/list")
seq 1 "$count" | xargs -P "$(nproc)" -n 1 sh "$0" --one "$scratch"

# One that left no counts was killed, and failed.
cat "$scratch"/*.counts | awk -v started="$count" '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        failed += started - NR
        if (skipped) print skipped " skipped"
        print passed + 0 " passed, " failed + 0 " failed"
        exit failed > 0
    }'
