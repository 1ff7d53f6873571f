#!/bin/sh
# What small inputs cost, measured from outside: with limits of 256 MiB and 2 s each is answered or refused
# within them. What is asserted is time of the processor, not of the wall, with a tenth for coming to an end;
# memory without anything on top.
# On one build only: a sanitizer's own memory would count.
. "$ROOT/tests/case.sh"

costly() { "$BUILD/tests/costly" "$@"; }

# within ARGUMENTS...: plimsoll with limits; exit 0, or 2 to 5 or 10 with a reason.
within() {
    code=0
    "$BUILD/tests/limited" 2.2 256 "$PLIMSOLL" "$@" --max-memory 256MiB --max-time 2s >out 2>err || code=$?
    grep '^# ' err | sed "s|^# |# $1, $code: |"
    case $code in
    0 | 10 | 11) ;;
    2 | 3 | 4 | 5)
        if grep -e '--max-[a-z]* *:\|option.*--max-' err; then false; fi # the limits themselves are understood
        grep -q '^plimsoll: ' err || { echo "refused without a reason:"; cat err; false; } ;;
    *) echo "exit code $code: $*"; cat err; false ;;
    esac
}

many_layers_accumulated() {
    costly layers 4096 >config.json
    [ "$(wc -c <config.json)" -lt 700 ]
    within estimate config.json --accumulate 8
    costly layers 1000 >config.json
    within estimate config.json --accumulate 64
}
largest_batch_of_many_layers() {
    costly layers 4096 >config.json
    within fit config.json
}
records_packed_tightly() {
    yes '{"job":{"id":"a"},"result":{"peak_allocated":1,"peak_reserved":1,"overhead":1}}' | head -n 1000000 |
        xz -T 1 >jobs.jsonl.xz
    [ "$(wc -c <jobs.jsonl.xz)" -lt 20000 ]
    within evaluate jobs.jsonl.xz --estimator horus
}
graph_packed_tightly() {
    costly deflated 1600 >model.pt2
    [ "$(wc -c <model.pt2)" -lt 2000000 ]
    within estimate model.pt2
}
keys_that_collide() {
    costly keys 32768 >config.json
    within estimate config.json
}
many_marks() {
    costly marks 50000 >trace.json
    within estimate trace.json
}
many_symbols() {
    costly symbols 60000 >graph.json
    within estimate graph.json
}
many_unknown_operators() {
    costly strange 30000 >model.json
    within estimate model.json
}
# tests/data/hostile/table.tsv: a case per row.
hostile_row() {
    case $file in
    /*) path=$file ;;
    *) path=$hostile/$file ;;
    esac
    # shellcheck disable=SC2046 # words of the table
    within $(echo "$command" | sed "s|FILE|$path|")
    case $must in
    answered) [ "$code" -eq 0 ] ;;
    refused) [ "$code" -eq 3 ] || [ "$code" -eq 5 ] ;;
    either) ;;
    *) false ;;
    esac
    [ "$says" = - ] || says err "$says"
}
follow_table() {
    hostile=$work/hostile
    rows=0
    python3 "$ROOT/tests/data/hostile/make.py" "$hostile"
    while IFS='	' read -r file command must says _; do
        case $file in '#'*) continue ;; esac
        case $command in evaluate*) [ "$with_lab" -gt 0 ] || continue ;; esac
        echo "# row: $file, $command"
        hostile_row
        rows=$((rows + 1))
    done <"$ROOT/tests/data/hostile/table.tsv"
    [ "$rows" -ge 9 ]
}

# The measuring itself must be able to fail.
too_much_is_seen() {
    gives 99 "$BUILD/tests/limited" 60 1 "$PLIMSOLL" --version
    gives 0 "$BUILD/tests/limited" 60 256 "$PLIMSOLL" --version
}

try many_layers_accumulated
try largest_batch_of_many_layers
says_limits() { "$PLIMSOLL" estimate --help | grep -e --max-memory && "$PLIMSOLL" fit --help | grep -e --max-time; }

try says_limits
with_lab=$("$PLIMSOLL" estimators | grep -c horus || :)
[ "$with_lab" -gt 0 ] && try records_packed_tightly
try graph_packed_tightly
try keys_that_collide
try many_marks
try many_symbols
try many_unknown_operators
try follow_table
try too_much_is_seen
done_testing
