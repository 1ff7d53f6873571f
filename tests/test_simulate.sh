#!/bin/sh
# simulate: what is asked wrongly, files that are wrong, the same again by the same seed, JSON and the picture.
. "$ROOT/tests/case.sh"

day="--trace $ROOT/examples/day-trace.csv --cluster $ROOT/examples/day-cluster.json --sizes $work/few.jsonl"
head -n 6 "$ROOT/examples/day-sizes.jsonl" >"$work/few.jsonl" # fewer pairs to follow
# shellcheck disable=SC2086
simulate() { "$PLIMSOLL" simulate $day "$@"; }
unpacks() { "$PLIMSOLL" --help | grep -q '^  evaluate '; } # a build with the laboratory

json_is_sound() {
    gives 0 simulate --json
    silent err
    is "$(value schema <out)" 1
    is "$(value format <out)" plimsoll
    is "$(value cards <out)" 12
    is "$(value policies.0.policy <out)" exclusive
    is "$(value policies.5.policy <out)" oracle
    is "$(value policies.5.crashes <out)" 0
    is "$(value policies.2.policy <out)" hybrid
    is "$(value policies.2.intervals <out)" true
    is "$(value policies.2.finished <out)" 400
    value policies.2.points.0.memory_used <out >point
}

the_same_seed_gives_the_same() {
    for seed in 7 7 8; do simulate --seed "$seed" --json | sed 's/"elapsed_us":[0-9]*//g; s/"seed":[0-9]*//' >>days; done
    is "$(sort days | uniq -c | sed 's/^ *//; s/ .*//' | sort | tr '\n' ' ')" '1 2 '
}

policies_and_options_are_checked() {
    gives 2 "$PLIMSOLL" simulate
    says err '--trace FILE is needed'
    gives 2 simulate --policy oracle,,hybrid
    says err 'names with commas'
    gives 2 simulate --policy nobody
    says err '^plimsoll: --policy: nobody is none of'
    gives 2 simulate --risk 90
    says err '^plimsoll: --risk: '
    gives 2 simulate --max-slowdown 0.5
    says err '^plimsoll: --max-slowdown: '
    gives 2 simulate --guess whole=2
    says err '^plimsoll: --guess: '
    gives 2 simulate --guess wide=2
    says err 'wide=2 is none of'
    gives 2 simulate --chart day.png
    says err 'does not end in .svg'
    gives 2 simulate too many
}

broken_files_are_3_with_a_place() {
    printf 'submit_s,duration_s,gpus\n0,10,1\n5,-1,1\n' >broken.csv
    gives 3 simulate --trace broken.csv
    says err 'broken.csv: at byte 34: no trace: expected a duration from 0 on'
    printf '{"name":"a","measured_bytes":"x"}\n' >broken.jsonl
    gives 3 simulate --sizes broken.jsonl
    says err 'broken.jsonl: at byte 29: '
    gives 3 simulate --cluster broken.jsonl
    gives 3 simulate --trace nowhere.csv
}

packed_files_are_read() {
    unpacks || skip 'packed_files_are_read: this build has no laboratory'
    command -v xz >/dev/null || skip 'packed_files_are_read: no xz here'
    xz -c "$ROOT/examples/day-trace.csv" >day.csv.xz
    xz -c few.jsonl >day.jsonl.xz
    simulate --policy oracle >plain
    gives 0 simulate --policy oracle --trace day.csv.xz --sizes day.jsonl.xz
    sed 's/day.csv.xz/day-trace.csv/' out | diff plain -
    head -c 100 day.csv.xz >cut.csv.xz
    gives 3 simulate --trace cut.csv.xz
}

a_picture_is_written() {
    gives 0 simulate --max-slowdown 1.5 --chart day.svg
    says day.svg '</svg>'
    for policy in exclusive requested hybrid horus gpumemnet-mlp oracle; do says day.svg ">$policy<"; done
    if command -v xmllint >/dev/null; then xmllint --noout day.svg; fi
    gives 4 simulate --policy oracle --chart nowhere/day.svg
}

# Estimates are sizes; a model that the trace names is taken; what was not measured is said to be drawn.
estimates_are_sizes() {
    for batch in 64 512; do
        "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml" --batch "$batch" --json
        if unpacks; then "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml" --batch "$batch" --estimator horus --json; fi
    done >sizes.jsonl
    printf 'submit_s,duration_s,gpus,model,batch\n0,100,1,mlp,512\n1,100,1,mlp,60\n' >trace.csv
    gives 0 simulate --sizes sizes.jsonl --trace trace.csv --policy hybrid --json
    is "$(value kinds <out)" 2
    is "$(value policies.0.drawn <out)" 2
    is "$(value policies.0.crashes <out)" 0
    gives 0 simulate --sizes sizes.jsonl --trace trace.csv --policy hybrid
    says out 'drawn from an estimate.s interval (not measured) of 2'
}

sizes_are_written() {
    unpacks || skip 'sizes_are_written: this build has no laboratory'
    mkdir g
    tar -C g -xf "$ROOT/tests/data/accuracy/graphs.tar.xz"
    gives 0 "$PLIMSOLL" evaluate "$ROOT/tests/data/accuracy/jobs.jsonl.xz" --graphs g --estimator hybrid,horus --sizes sizes.jsonl
    is "$(wc -l <sizes.jsonl)" 280
    sed -n 1p sizes.jsonl >line
    is "$(value name <line)" cnn-0001
    is "$(value batch <line)" 8
    is "$(value measured_bytes <line)" 1497366528
    value estimates.horus.peak_bytes <line >bytes
    gives 0 simulate --sizes sizes.jsonl --policy hybrid,horus
    gives 2 "$PLIMSOLL" evaluate "$ROOT/tests/data/accuracy/jobs.jsonl.xz" --estimator horus --target flops --sizes s
    says err 'sizes is of memory'
}

for case in json_is_sound the_same_seed_gives_the_same policies_and_options_are_checked broken_files_are_3_with_a_place \
    packed_files_are_read a_picture_is_written estimates_are_sizes sizes_are_written; do
    try "$case"
done
done_testing
