#!/bin/sh
# The command as a whole: exit codes, what goes where, JSON, files it writes, terminals and locales.
. "$ROOT/tests/case.sh"
model=$ROOT/examples/resnet18.pt2

# ---- exit codes and complaints ----

no_verb_is_wrong_usage() { gives 2 "$PLIMSOLL"; silent out; says err 'a verb is needed'; }
wrong_usage() {
    gives 2 "$PLIMSOLL" estimate "$model" --bacth 3
    silent out
    says err '^plimsoll: unknown option --bacth; did you mean --batch?'
    gives 2 "$PLIMSOLL" estimate "$model" --gpu h20
    says err 'did you mean h200?'
    says err 'a100-40gb'
    gives 2 "$PLIMSOLL" estimate "$model" --optimizer adan
    says err 'sgd-momentum'
    gives 2 "$PLIMSOLL" estmate "$model"
    says err 'did you mean plimsoll estimate?'
}
missing_file_is_3() {
    gives 3 "$PLIMSOLL" estimate nowhere.pt2
    silent out
    says err '^plimsoll: nowhere.pt2: '
    gives 3 "$PLIMSOLL" evaluate nowhere.jsonl --graphs .
    says err 'nowhere.jsonl'
    gives 3 "$PLIMSOLL" estimate . # a folder
}
broken_files_are_3_with_a_place() {
    head -c 1000 "$model" >cut.pt2
    gives 3 "$PLIMSOLL" estimate cut.pt2
    silent out
    says err '^plimsoll: cut.pt2: '
    printf '{"graph_module": {"graph": [1, 2' >cut.json
    gives 3 "$PLIMSOLL" estimate cut.json
    says err '^plimsoll: cut.json: at byte [0-9]*: '
    : >empty.pt2
    gives 3 "$PLIMSOLL" estimate empty.pt2
    printf 'not a model\n' >text.pt2
    gives 3 "$PLIMSOLL" estimate text.pt2
}
check_is_a_gate() {
    gives 0 "$PLIMSOLL" check "$model" --gpu h200
    is "$(wc -l <out)" 1
    says out 'fits NVIDIA H200'
    gives 10 "$PLIMSOLL" check "$model" --gpu t4 --batch 4000
    is "$(wc -l <out)" 1
    says out 'does not fit'
    gives 10 "$PLIMSOLL" check "$model" --gpu t4 --batch 4000 --json
    is "$(value fits <out)" false
}
version_is_printed() { gives 0 "$PLIMSOLL" --version; says out '^plimsoll [0-9]'; }

# ---- JSON ----

estimate_json_adds_up() {
    gives 0 "$PLIMSOLL" estimate "$model" --json
    silent err
    is "$(value schema <out)" 1
    is "$(value gpu.name <out)" h200
    is "$(value compute.step_ms <out)" null
    is "$(value utilization.smact <out)" null
    is "$(value model.parameters <out)" 11689512
    sum=0
    for kind in weights gradients optimizer activations inputs workspace temporary fragmentation context; do
        sum=$((sum + $(value memory.breakdown.$kind <out)))
    done
    is "$sum" "$(value memory.peak_bytes <out)"
    [ "$(value memory.low_bytes <out)" -le "$(value memory.peak_bytes <out)" ]
    [ "$(value memory.peak_bytes <out)" -le "$(value memory.high_bytes <out)" ]
    is "$(($(value memory.reserved_bytes <out) + $(value memory.overhead_bytes <out)))" "$(value memory.peak_bytes <out)"
    # ResNet-18's weights are 44.6 MiB in fp32; blocks are rounded up.
    [ "$(value memory.breakdown.weights <out)" -ge 46758048 ]
    [ "$(value memory.breakdown.weights <out)" -le 60000000 ]
}
every_verb_has_json() {
    for verb in estimate explain check fit; do
        gives 0 "$PLIMSOLL" $verb "$model" --json
        is "$(wc -l <out)" 1
        is "$(value schema <out)" 1
    done
    gives 0 "$PLIMSOLL" gpus --json
    is "$(value gpus.0.name <out)" h200
}
more_batch_takes_more() {
    gives 0 "$PLIMSOLL" estimate "$model" --json --batch 8
    small=$(value memory.peak_bytes <out)
    gives 0 "$PLIMSOLL" estimate "$model" --json --batch 64
    [ "$small" -lt "$(value memory.peak_bytes <out)" ]
    is "$(value model.batch <out)" 64
}

# ---- verbs ----

explain_says_what_would_change() {
    gives 0 "$PLIMSOLL" explain "$model"
    for word in 'by module' 'largest tensors' '--precision amp-bf16' '--optimizer sgd' '--batch 16' '--batch 64' 'layer1'; do
        says out "$word"
    done
}
fit_finds_the_largest_batch() {
    gives 0 "$PLIMSOLL" fit "$model" --gpu t4 --json
    batch=$(value largest.batch <out)
    [ "$batch" -gt 8 ]
    gives 0 "$PLIMSOLL" check "$model" --gpu t4 --batch "$batch"
    gives 10 "$PLIMSOLL" check "$model" --gpu t4 --batch $((batch + 1))
    gives 0 "$PLIMSOLL" fit "$model" --gpu t4
    says out "largest batch $batch"
}
gpus_are_listed() {
    gives 0 "$PLIMSOLL" gpus
    for name in h200 a100-40gb t4; do says out "^$name "; done
}
timeline_is_written() {
    gives 0 "$PLIMSOLL" estimate "$model" --timeline t.csv
    says t.csv '^event,step,phase,allocated,reserved,weights,'
    # Every line's kinds add up to allocated, which never exceeds reserved; the highest are the report's.
    awk -F, 'NR > 1 { if ($6+$7+$8+$9+$10+$11+$12 != $4 || $4 > $5) { print; exit 1 } }' t.csv
    gives 0 "$PLIMSOLL" estimate "$model" --json --timeline t.svg
    is "$(awk -F, 'NR > 1 && $5 > m { m = $5 } END { printf "%.0f", m }' t.csv)" "$(value memory.reserved_bytes <out)"
    is "$(awk -F, 'NR > 1 && $4 > m { m = $4 } END { printf "%.0f", m }' t.csv)" "$(value memory.allocated_bytes <out)"
    says t.svg '^<svg xmlns'
    says t.svg 'step 3'
    is "$(tail -n 1 t.svg)" '</svg>'
    [ "$(wc -c <t.svg)" -lt 600000 ]
}
timeline_paths_that_cannot_be_written() {
    gives 4 "$PLIMSOLL" estimate "$model" --timeline no/such/folder/t.svg
    silent out
    says err 'no/such/folder/t.svg'
    gives 2 "$PLIMSOLL" estimate "$model" --timeline t.png
    says err 'neither in .svg nor in .csv'
}

# ---- evaluate ----

evaluate_sums_up() {
    mkdir graphs
    cp "$model" graphs/a.pt2
    gives 0 "$PLIMSOLL" estimate "$model" --precision fp32 --optimizer sgd --loss ce --json
    peak=$(value memory.peak_bytes <out)
    allocated=$(value memory.allocated_bytes <out)
    over=$(value memory.overhead_bytes <out)
    job='"family":"cnn","source":"torchvision","loss":"ce","precision":"fp32","optimizer":"sgd","checkpoint":false'
    # One exact, one measured at twice the prediction, one without a graph.
    for line in "a $((peak - over)) $allocated" "b $((2 * peak - over)) $((2 * allocated))" "c 1000 500"; do
        set -- $line
        echo "{\"job\":{\"id\":\"$1\",$job},\"result\":{\"peak_allocated\":$3,\"peak_reserved\":$2,\"overhead\":$over,\"layers\":[]}}"
    done >jobs.jsonl
    cp graphs/a.pt2 graphs/b.pt2
    gives 0 "$PLIMSOLL" evaluate jobs.jsonl --graphs graphs --json --csv jobs.csv --scatter jobs.svg
    is "$(value jobs <out)" 3
    is "$(value without_graph <out)" 1
    is "$(value peak.jobs <out)" 2
    is "$(value peak.median <out)" 0.25
    is "$(value peak.too_low <out)" 0.5
    is "$(value peak.exact <out)" 0.5
    is "$(value allocated.mean <out)" 0.25
    is "$(value worst.0 <out)" b
    is "$(wc -l <jobs.csv)" 4
    says jobs.svg '10 % off'
    gives 0 "$PLIMSOLL" evaluate jobs.jsonl --graphs graphs --threads 1
    says out 'by precision'
    # Packed, the answer is the same.
    command -v xz >/dev/null || return 0
    xz -k jobs.jsonl
    "$PLIMSOLL" evaluate jobs.jsonl.xz --graphs graphs --json >packed
    is "$(value peak.median <packed)" 0.25
    head -c 100 jobs.jsonl.xz >cut.jsonl.xz
    gives 3 "$PLIMSOLL" evaluate cut.jsonl.xz --graphs graphs
}
evaluate_names_the_place() {
    printf '{"job":{"id":"a"},"result":{"peak_allocated":1,"peak_reserved":2,"overhead":3}}\n{"job":' >cut.jsonl
    gives 3 "$PLIMSOLL" evaluate cut.jsonl --graphs .
    says err '^plimsoll: cut.jsonl: at byte [0-9]*: expected '
    printf '{"job":{"id":"../a"},"result":{}}\n' >out-of-folder.jsonl
    gives 3 "$PLIMSOLL" evaluate out-of-folder.jsonl --graphs .
    gives 2 "$PLIMSOLL" evaluate cut.jsonl
    says err -- '--graphs'
}

# ---- pipes, terminals, locales ----

broken_pipe_is_quiet() {
    "$PLIMSOLL" gpus --json 2>err | head -c 1 >/dev/null
    silent err
}
full_disk_is_told() {
    [ -w /dev/full ] || skip "full_disk_is_told: no /dev/full"
    code=0
    "$PLIMSOLL" gpus >/dev/full 2>err || code=$?
    is "$code" 4
    says err 'standard output'
}
other_locales_get_ascii() {
    LC_ALL=C "$PLIMSOLL" estimate "$model" >out
    if LC_ALL=C grep -q '[^ -~]' out; then
        echo "not ASCII"
        false
    fi
    says out '####'
    LC_ALL=C.UTF-8 "$PLIMSOLL" estimate "$model" >out
    says out '█'
}
colour_on_a_terminal_only() {
    "$PLIMSOLL" estimate "$model" >out
    escape=$(printf '\033')
    if grep -q "$escape" out; then
        echo "colour without a terminal"
        false
    fi
    command -v script >/dev/null || skip "colour_on_a_terminal_only: no script(1)"
    TERM=xterm script -qec "'$PLIMSOLL' estimate '$model'" /dev/null >out </dev/null
    says out "$escape"
    TERM=xterm NO_COLOR=1 script -qec "'$PLIMSOLL' estimate '$model'" /dev/null >out </dev/null
    if grep -q "$escape" out; then
        echo "colour with NO_COLOR"
        false
    fi
}

for name in no_verb_is_wrong_usage wrong_usage missing_file_is_3 broken_files_are_3_with_a_place \
    check_is_a_gate version_is_printed estimate_json_adds_up every_verb_has_json more_batch_takes_more \
    explain_says_what_would_change fit_finds_the_largest_batch gpus_are_listed timeline_is_written \
    timeline_paths_that_cannot_be_written evaluate_sums_up evaluate_names_the_place broken_pipe_is_quiet \
    full_disk_is_told other_locales_get_ascii colour_on_a_terminal_only; do
    try $name
done
done_testing
