#!/bin/sh
# run_tests.sh BUILD...: runs the test programs and the test scripts on each build folder and counts
# their cases (the protocol: tests/check.h). The last line is `N passed, N failed`.
set -u
tests=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$tests")
scratch=$(mktemp -d) || exit 4
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

passed=0 failed=0 skipped=0
ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
LC_ALL=C.UTF-8
export ASAN_OPTIONS UBSAN_OPTIONS LC_ALL

# run_one HOW NAME COMMAND...: runs it, counts its cases, shows what did not pass. HOW: `show` shows all it
# printed, `count` only lines that start with "# " (figures to be seen) and what was skipped.
run_one() {
    how=$1 name=$2
    shift 2
    "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    code=$?
    ok=$(grep -c '^ok[ :]' "$scratch/out")
    bad=$(grep -c '^not ok ' "$scratch/out")
    skip=$(grep -c '^SKIP ' "$scratch/out")
    if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1
    elif [ "$ok$bad$skip" = 000 ]; then
        ok=1
    fi
    printf '%-28s %4d passed' "$name" "$ok"
    [ "$bad" -gt 0 ] && printf ', %d failed (exit %d)' "$bad" "$code"
    [ "$skip" -gt 0 ] && printf ', %d skipped' "$skip"
    echo
    if [ "$bad" -gt 0 ]; then
        sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 80
    elif [ "$how" = show ]; then
        sed 's/^/    /' "$scratch/out"
    else
        grep '^SKIP ' "$scratch/out" | sed 's/^/    /'
        grep '^# ' "$scratch/out" | sed 's/^# /    /'
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
}

for build in "$@"; do
    build=$(CDPATH='' cd -- "$build" && pwd) || exit 4
    echo "== $(basename "$build")"
    PLIMSOLL=$build/plimsoll BUILD=$build ROOT=$root
    export PLIMSOLL BUILD ROOT
    cd "$root" || exit 4 # test programs find tests/... from here
    while read -r how program arguments; do
        # shellcheck disable=SC2086
        [ -z "$program" ] || run_one "$how" "$program" "$build/tests/$program" $arguments
    done <"$build/tests/programs"
    for script in "$tests"/test_*.sh; do
        [ -f "$script" ] || continue
        run_one count "$(basename "$script")" sh "$script"
    done
done
[ "$skipped" -gt 0 ] && echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
