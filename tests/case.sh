# Sourced by the test scripts. A case is a function of its own, run by `try NAME`: in a subshell with
# `set -e`, so that the first command that fails fails the case. Lines: see check.h.
: "${PLIMSOLL:?}" "${BUILD:?}" "${ROOT:?}"
work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT
cases_failed=0

try() {
    # Not `if (...)`: there set -e would be off inside.
    (set -e; cd "$work"; "$1") >"$work/.said" 2>&1
    code=$?
    if [ "$code" -eq 0 ]; then
        echo "ok $1"
        grep '^# ' "$work/.said"
    elif grep -q '^SKIP ' "$work/.said"; then
        grep '^SKIP ' "$work/.said"
    else
        sed 's/^/  /' "$work/.said" | tail -n 40
        echo "not ok $1"
        cases_failed=1
    fi
}
skip() { echo "SKIP $1"; exit 1; }

# gives CODE COMMAND...: runs it, stdout to ./out, stderr to ./err; fails when its exit code is another.
gives() {
    wanted=$1
    shift
    code=0
    "$@" >out 2>err || code=$?
    [ "$code" -eq "$wanted" ] || { echo "exit code $code, not $wanted: $*"; cat err; false; }
}
says() { grep -q -e "$2" "$1" || { echo "$1 does not say '$2':"; cat "$1"; false; }; } # says FILE PATTERN
silent() { [ ! -s "$1" ] || { echo "$1 is not empty:"; cat "$1"; false; }; }
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; false; }; }
# value PATH <FILE: a value of a JSON text, which has to be valid as a whole.
value() { "$BUILD/tests/jsonvalue" "$1"; }
done_testing() { exit "$cases_failed"; }
