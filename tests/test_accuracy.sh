#!/bin/sh
# How near the estimates are to measured peaks: on the fixture in the repository (tests/data/accuracy, made
# by tools/fixture.py), and on the whole ground truth where it lies beside the repository.
. "$ROOT/tests/case.sh"
truth=$ROOT/../shared/ground-truth

# at_most PATH LIMIT: a share in ./out
at_most() {
    got=$(value "$1" <out)
    awk -v got="$got" -v limit="$2" 'BEGIN { exit !(got != "null" && got <= limit) }' ||
        { echo "$1 is $got, more than $2"; missed=1; }
}
group() { # BY NAME FIELD: a member of a group
    i=0
    while name=$(value "$1.$i.name" <out 2>/dev/null); do
        [ "$name" != "$2" ] || { echo "$1.$i.$3"; return 0; }
        i=$((i + 1))
    done
    echo "no $2 in $1"
    false
}

# bars JOBS GRAPHS
bars() {
    gives 0 "$PLIMSOLL" evaluate "$1" --graphs "$2" --json
    missed=0
    at_most peak.median 0.02
    at_most peak.p90 0.08
    at_most peak.too_low 0.04
    at_most peak.above_high 0.02
    at_most peak.width 0.10
    at_most allocated.median 0.01
    at_most "$(group by_source torchvision median)" 0.025
    at_most "$(group by_source transformers median)" 0.025
    mv out numbers.json
    gives 0 "$PLIMSOLL" evaluate "$1" --graphs "$2"
    sed -n '1,/^the worst/p' out | sed 's/^/# /'
    is "$missed" 0
}

accuracy_on_the_fixture() {
    mkdir graphs
    tar -C graphs -xf "$ROOT/tests/data/accuracy/graphs.tar.xz"
    [ "$(xz -dc "$ROOT/tests/data/accuracy/jobs.jsonl.xz" | wc -l)" -ge 80 ]
    bars "$ROOT/tests/data/accuracy/jobs.jsonl.xz" graphs
    is "$(value without_graph <numbers.json)" 0
    is "$(value peak.jobs <numbers.json)" "$(value jobs <numbers.json)"
}
accuracy_on_the_ground_truth() {
    [ -f "$truth/graphs.tar.xz" ] || skip "accuracy_on_the_ground_truth: no ../shared/ground-truth beside the repository"
    case $BUILD in *asan*) skip "accuracy_on_the_ground_truth: on the ordinary build alone, for time" ;; esac
    tar -xf "$truth/graphs.tar.xz"
    bars "$truth/memory.jsonl.xz" graphs
}

# described JOBS LEAST: models built from the jobs' own records; at least so many of them.
described() {
    gives 0 "$PLIMSOLL" evaluate "$1" --described --estimator sim --json
    missed=0
    [ "$(value peak.jobs <out)" -ge "$2" ]
    at_most peak.median 0.005
    at_most peak.p90 0.03
    at_most peak.too_low 0.03
    at_most allocated.median 0.002
    echo "# $(value peak.jobs <out) jobs, median $(value peak.median <out), p90 $(value peak.p90 <out)"
    is "$missed" 0
}
configs_measured_apart() { described "$ROOT/data/h200/jobs.jsonl.xz" 120; }
fine_tuning_measured() { described "$ROOT/data/h200/finetune.jsonl.xz" 27; }
descriptions_of_the_ground_truth() {
    [ -f "$truth/memory.jsonl.xz" ] || skip "descriptions_of_the_ground_truth: no ../shared/ground-truth beside the repository"
    described "$truth/memory.jsonl.xz" 910
}

# Step time, counters and operations of jobs measured on an H200, by the walk alone: nothing is learnt of them but the
# walk's constants.
walk() { # JOBS LEAST
    missed=0
    gives 0 "$PLIMSOLL" evaluate "$1" --described --estimator sim --target step_ms --json
    [ "$(value compute.jobs <out)" -ge "$2" ]
    at_most compute.median 0.10
    at_most compute.p90 0.28
    echo "# step_ms: $(value compute.jobs <out) jobs, median $(value compute.median <out), p90 $(value compute.p90 <out)"
    for bar in smact:5 smocc:3.2 drama:2.5 tensor:1.6; do
        gives 0 "$PLIMSOLL" evaluate "$1" --described --estimator sim --target "${bar%:*}" --json
        at_most utilization.mae "${bar#*:}"
        echo "# ${bar%:*}: mean absolute error $(value utilization.mae <out) points"
    done
    is "$missed" 0
}
walk_of_measured_jobs() { walk "$ROOT/data/h200/utilization.jsonl.xz" 270; }
walk_of_the_ground_truth() {
    [ -f "$truth/utilization.jsonl.xz" ] || skip "walk_of_the_ground_truth: no ../shared/ground-truth beside the repository"
    walk "$truth/utilization.jsonl.xz" 80
}
# FlopCounterMode's count, to one part in a thousand for all but 2 % of the jobs.
operations_of_the_ground_truth() {
    [ -f "$truth/utilization.jsonl.xz" ] || skip "operations_of_the_ground_truth: no ../shared/ground-truth beside the repository"
    gives 0 "$PLIMSOLL" evaluate "$truth/utilization.jsonl.xz" --described --estimator sim --target flops --json
    [ "$(value compute.jobs <out)" -ge 80 ]
    missed=0
    at_most compute.median 0.000001
    at_most compute.p90 0.001
    echo "# $(value compute.jobs <out) jobs, $(value compute.within_1 <out) within 1 %"
    is "$(value compute.within_1 <out)" 1
    is "$missed" 0
}

try accuracy_on_the_fixture
try walk_of_measured_jobs
try walk_of_the_ground_truth
try operations_of_the_ground_truth
try configs_measured_apart
try fine_tuning_measured
try descriptions_of_the_ground_truth
try accuracy_on_the_ground_truth
done_testing
