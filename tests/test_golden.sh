#!/bin/sh
# Answers that must not change unseen: each tests/golden/NAME.txt is a command line behind "$ plimsoll", run
# in the root, all it prints, and its exit code. After a change that is meant: tools/generate.sh.
. "$ROOT/tests/case.sh"

mask() { sed -E 's/"elapsed_us":[0-9]+/"elapsed_us":N/'; }

golden() {
    file=$ROOT/tests/golden/$name.txt
    words=$(sed -n '1s/^\$ plimsoll //p' "$file")
    [ -n "$words" ]
    code=0
    (cd "$ROOT" && eval "\"$PLIMSOLL\" $words") >printed 2>&1 || code=$?
    { sed -n 1p "$file"; mask <printed; echo "exit $code"; } >got
    diff "$file" got
}

for file in "$ROOT"/tests/golden/*.txt; do
    name=$(basename "$file" .txt)
    eval "golden_$(echo "$name" | tr -c 'a-z0-9\n' _)() { golden; }"
    try "golden_$(echo "$name" | tr -c 'a-z0-9\n' _)"
done
done_testing
