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
    "$BUILD/tests/limited" "${seconds:-2.2}" 256 "$PLIMSOLL" "$@" --max-memory 256MiB --max-time 2s >out 2>err || code=$?
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
    seconds=2.2
    case $command in *'--threads 8'*) seconds=17.6 ;; esac # each of them has 2 s on a processor of its own
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

# What threads take counts together, and what was cut off is reported: never figures of a part with exit code 0.
deep_records() { # COUNT LAYERS
    for i in $(seq "$1"); do
        echo '{"job":{"id":"j'"$i"'","batch":2,"config":{"model_type":"gpt2","n_layer":'"$2"',"n_embd":64,"n_head":4,"vocab_size":100}},"result":{"peak_allocated":1,"peak_reserved":2,"overhead":3}}'
    done
}
threads_share_the_memory() {
    deep_records 8 1200 >jobs.jsonl
    gives 0 "$BUILD/tests/limited" 60 256 "$PLIMSOLL" evaluate jobs.jsonl --described --estimator sim --threads 8 --max-memory 256MiB --json
    is "$(value peak.jobs <out)" 8
    is "$(value cut_off <out)" 0
    { deep_records 1 3000; deep_records 2 2; } >jobs.jsonl # more than half: done again, alone
    gives 0 "$BUILD/tests/limited" 60 560 "$PLIMSOLL" evaluate jobs.jsonl --described --estimator sim --threads 2 --max-memory 560MiB --json
    is "$(value peak.jobs <out)" 3
}
what_is_cut_off_is_reported() {
    { deep_records 2 2; deep_records 1 4000; } >jobs.jsonl
    gives 5 "$PLIMSOLL" evaluate jobs.jsonl --described --estimator sim --max-memory 64MiB --json
    is "$(value cut_off <out)" 1
    gives 5 "$PLIMSOLL" evaluate jobs.jsonl --described --estimator sim --max-memory 64MiB
    says out '^3 jobs, 0 without a graph, 1 cut off by --max-memory or --max-time;'
    gives 5 "$PLIMSOLL" evaluate jobs.jsonl --described --estimator sim,random-forest --max-memory 64MiB
    says out '^3 jobs, up to 1 cut off'
    gives 5 "$PLIMSOLL" train random-forest -J jobs.jsonl --described -o t.plm --max-memory 64MiB
    [ ! -e t.plm ]
}
training_ends_in_time() {
    gives 5 "$BUILD/tests/limited" 8 320 "$PLIMSOLL" train gpumemnet-mlp -J "$ROOT/tests/data/accuracy/jobs.jsonl.xz" -o t.plm --set epochs=100000 --max-time 2s
    [ ! -e t.plm ]
}
weights_count_too() {
    gives 5 "$PLIMSOLL" estimate "$ROOT/examples/resnet18.pt2" --model "$ROOT/models/random-forest.plm" --max-memory 64KiB
    says err '^plimsoll: --model: .*--max-memory allows'
    { printf '{"schema":1,'; head -c 100000 /dev/zero | tr '\0' ' '; } >estimate.json
    gives 5 "$PLIMSOLL" collocate estimate.json estimate.json --max-memory 64KiB
    says err '100012 bytes'
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
if [ "$with_lab" -gt 0 ]; then
    try threads_share_the_memory
    try what_is_cut_off_is_reported
    try training_ends_in_time
    try weights_count_too
fi
try graph_packed_tightly
try keys_that_collide
try many_marks
try many_symbols
try many_unknown_operators
try follow_table
try too_much_is_seen
done_testing
