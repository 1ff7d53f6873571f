#!/bin/sh
# The command as a whole: exit codes, what goes where, JSON, files it writes, terminals and locales.
. "$ROOT/tests/case.sh"
model=$ROOT/examples/resnet18.pt2
fixture=$ROOT/tests/data/accuracy/jobs.jsonl.xz # measured jobs, with the counts of their layers

# ---- exit codes and complaints ----

no_verb_is_wrong_usage() { gives 2 "$PLIMSOLL"; silent out; says err 'a verb is needed'; }
wrong_usage() {
    gives 2 "$PLIMSOLL" estimate "$model" --bacth 3
    silent out
    says err '^plimsoll: unknown option --bacth; did you mean --batch?'
    gives 2 "$PLIMSOLL" estimate "$model" --gpu h20x
    says err 'no card "h20x" in the catalogue; the nearest names are h20'
    says err '(--gpus FILE)'
    gives 2 "$PLIMSOLL" estimate "$model" --gpu A100 # could be two cards
    says err 'could be a100-40gb, a100-64gb or a100-80gb'
    gives 2 "$PLIMSOLL" estimate "$model" --optimizer adan
    says err 'sgd-momentum'
    gives 2 "$PLIMSOLL" estimate "$model" --accumulate 4097
    says err '--accumulate: 4097 is not between 1 and 4096'
    gives 2 "$PLIMSOLL" evaluate jobs.jsonl --graphs . --threads 257
    says err 'from 1 to 256'
    gives 2 "$PLIMSOLL" estimate "$model" --parallel ddp:16385
    says err '--parallel: 16385 is not between 1 and 16384'
    gives 2 "$PLIMSOLL" estmate "$model"
    says err 'did you mean plimsoll estimate?'
}
# The model is not to blame.
wrong_settings_are_named() {
    gives 2 "$PLIMSOLL" estimate "$model" --alloc-conf no_such:1
    says err "^plimsoll: --alloc-conf: unknown setting 'no_such'\$"
    gives 2 "$PLIMSOLL" estimate "$model" --seq 4
    says err '^plimsoll: --seq: the graph '
}
values_in_any_case() {
    gives 0 "$PLIMSOLL" estimate "$model" --precision AMP-BF16 --optimizer SGD --gpu T4 --json
    mv out upper
    gives 0 "$PLIMSOLL" estimate "$model" --precision amp-bf16 --optimizer sgd --gpu t4 --json
    is "$(value memory <upper)" "$(value memory <out)"
    is "$(value gpu.name <upper)" t4
}
help_is_a_verb_too() {
    gives 0 "$PLIMSOLL" help
    mv out word
    gives 0 "$PLIMSOLL" --help
    diff word out
    gives 0 "$PLIMSOLL" help fit
    mv out word
    gives 0 "$PLIMSOLL" fit --help
    diff word out
    gives 2 "$PLIMSOLL" help fti
    says err 'did you mean plimsoll fit?'
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
    is "$(value verdict <out)" 'does not fit'
}
# Between them: the interval holds what the card has. A greater risk lets it fit, a smaller one does not.
check_says_when_it_may_not_fit() {
    gives 11 "$PLIMSOLL" check "$model" --gpu t4 --batch 480
    says out 'may not fit NVIDIA T4: up to [0-9.]* of [0-9.]* GiB usable ([0-9.]* GiB less the driver.s share), '
    says out 'run out of memory, 2.5 % are accepted$'
    gives 11 "$PLIMSOLL" check "$model" --gpu t4 --batch 480 --json
    is "$(value verdict <out)" 'may not fit'
    is "$(value fits <out)" false
    is "$(value risk <out)" 0.025
    is "$(value upper_bytes <out)" "$(value high_bytes <out)"
    high=$(value upper_bytes <out)
    is "$(value headroom_bytes <out)" "$(($(value usable_bytes <out) - high))"
    for more in 0.5 1 2.5 5 10 20 50; do
        gives "$([ "${more%.*}" -lt 20 ] && echo 11 || echo 0)" "$PLIMSOLL" check "$model" --gpu t4 --batch 480 --risk "$more" --json
        [ "$(value upper_bytes <out)" -le "${last:-$((high * 2))}" ]
        last=$(value upper_bytes <out)
    done
    gives 0 "$PLIMSOLL" check "$model" --gpu t4 --batch 480 --risk '20 %'
    says out 'fits NVIDIA T4: .* to spare; at a risk of 20 %$'
    for wrong in 0.4 51 x 5%% -5 ''; do
        gives 2 "$PLIMSOLL" check "$model" --risk "$wrong"
        says err '^plimsoll: --risk: '
    done
}
# Where loading is the peak, the one line says so, and what the steps take; what was assumed is named with its option.
check_tells_of_loading() {
    set -- "$ROOT/examples/llama-7b.json" --train lora-r16 --parallel fsdp2:8 --seq 256 --gpu a100-80gb
    gives 0 "$PLIMSOLL" check "$@" --load full
    says out '^llama-7b: [0-9.]* GiB while loading (the steps by themselves take [0-9.]* [MG]iB), fits '
    says err 'batch 1 is assumed, since no batch was given'
    gives 0 "$PLIMSOLL" check "$@" --load full --json
    [ "$(value steps_peak_bytes <out)" -lt "$(value peak_bytes <out)" ]
    gives 0 "$PLIMSOLL" check "$@"
    says out '^llama-7b: [0-9.]* GiB, fits '
    gives 0 "$PLIMSOLL" estimate "$@"
    says out 'batch 1 is assumed, since no batch was given (--batch)$'
}
# A table of several batches: a mark per word, the upper end where it decides; the picture likewise. Without UTF-8 in ASCII.
tables_show_three_words() {
    gives 0 "$PLIMSOLL" estimate "$model" --gpu t4 --batch 256,480,1024 --heatmap h.svg
    is "$(sed -n 2p out)" 'fp32, as exported, adamw, on NVIDIA T4'
    says out '^ *256 .*[0-9] GiB$'
    says out '^ *480  *~ [0-9.]* GiB (to [0-9.]* GiB)$'
    says out 'may not fit (its upper end in brackets)'
    says out ': NVIDIA T4, [0-9.]* GiB usable$'
    says h.svg '>~ [0-9.]* GiB<'
    says h.svg '>to [0-9.]* GiB<'
    says h.svg '>~ may not fit<'
    says h.svg 'does not fit<'
    says h.svg '>fits: 0 to 100 % of 14.78 GiB<'
    gives 0 env LC_ALL=C "$PLIMSOLL" estimate "$model" --gpu t4 --batch 256,480,1024 --risk 50 --heatmap h.svg
    says h.svg 'usable, at a risk of 50 %<'
    says out '^ *256  *+ [0-9.]* GiB$'
    says out '^ *480  *+ [0-9.]* GiB$'
    says out '^ *1024  *x [0-9.]* GiB$'
    says out 'usable, at a risk of 50 %$'
    gives 0 "$PLIMSOLL" estimate "$model" --gpu t4 --batch 256,480,1024 --json
    is "$(value sweep.0.verdict <out)/$(value sweep.1.verdict <out)/$(value sweep.2.verdict <out)" 'fits/may not fit/does not fit'
    is "$(value sweep.1.upper_bytes <out)" "$(value sweep.1.high_bytes <out)"
    # Where more takes less: which kind shrank, and why.
    gives 0 "$PLIMSOLL" estimate "$ROOT/examples/llama-7b.json" --precision bf16 --checkpoint --batch 4 --seq 1024,2048
    says out '^more tokens take less memory at sequence 2048 than at 1024 (batch 4), by [0-9.]* [MG]iB: fragmentation shrinks by '
    gives 0 "$PLIMSOLL" estimate "$ROOT/examples/llama-7b.json" --precision bf16 --checkpoint --batch 4 --seq 2048,4096
    if grep 'take less' out; then false; fi
}
# What the job is, in words: the type of the weights and who says so, what trains.
the_job_in_words() {
    gives 0 "$PLIMSOLL" estimate "$ROOT/examples/llama-7b.json" --batch 1 --seq 128
    says out '^batch 1, sequence 128, bf16, as the config says, adamw, on '
    grep -v '"dtype"' "$ROOT/examples/llama-7b.json" >untyped.json
    gives 0 "$PLIMSOLL" estimate untyped.json --batch 1 --seq 128
    says out '^batch 1, sequence 128, fp32, since the config names no type, adamw, on '
    gives 0 "$PLIMSOLL" estimate "$ROOT/examples/llama-7b.json" --batch 1 --seq 128 --train lora-r16
    says out '^batch 1, sequence 128, bf16, as the config says, adamw, lora-r16 ([0-9.]* M of [0-9.]* B trained), on '
    gives 0 "$PLIMSOLL" estimate "$ROOT/examples/llama-7b.json" --batch 1 --seq 128 --precision fp32
    says out '^batch 1, sequence 128, fp32, adamw, on '
    gives 0 "$PLIMSOLL" estimate "$model"
    says out '^batch [0-9]*, fp32, as exported, adamw, on '
    says out 'SMACT multiprocessors with work, SMOCC '
    gives 0 "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml"
    says out "fp32, PyTorch's default, "
}
version_is_printed() { gives 0 "$PLIMSOLL" --version; says out '^plimsoll [0-9]'; }

# ---- JSON ----

estimate_json_adds_up() {
    gives 0 "$PLIMSOLL" estimate "$model" --json
    silent err
    is "$(value schema <out)" 1
    is "$(value gpu.name <out)" h200
    # What a step takes: as counted by hand, forward and twice that backward; shares of 100; ordered.
    is "$(value compute.flops_per_step <out)" 340749189120
    for figure in smact smocc drama tensor; do
        awk -v a="$(value utilization.low."$figure" <out)" -v b="$(value utilization."$figure" <out)" \
            -v c="$(value utilization.high."$figure" <out)" 'BEGIN { exit !(0 <= a && a <= b && b <= c && c <= 100) }'
    done
    awk -v a="$(value compute.step_ms_low <out)" -v b="$(value compute.step_ms <out)" \
        -v c="$(value compute.step_ms_high <out)" 'BEGIN { exit !(0 < a && a <= b && b <= c) }'
    case $(value compute.bound <out) in host | device) ;; *) false ;; esac
    case $(value utilization.levels.smact <out) in low | medium | high) ;; *) false ;; esac
    is "$(value utilization.levels.tensor <out)" null
    is "$(value utilization.family <out)" cnn
    gives 0 "$PLIMSOLL" estimate "$model" --json --estimator horus # knows none of it, and says so
    is "$(value compute.step_ms <out)" null
    is "$(value compute.bound <out)" null
    is "$(value utilization.smact <out)" null
    is "$(value utilization.high.drama <out)" null
    gives 0 "$PLIMSOLL" estimate "$model" --json
    is "$(value model.parameters <out)" 11689512
    sum=0
    for kind in weights gradients optimizer activations inputs workspace temporary fragmentation context; do
        sum=$((sum + $(value memory.breakdown."$kind" <out)))
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
        gives 0 "$PLIMSOLL" "$verb" "$model" --json
        is "$(wc -l <out)" 1
        is "$(value schema <out)" 1
    done
    gives 0 "$PLIMSOLL" gpus --json
    is "$(value gpus.0.name <out)" h200
    gives 0 "$PLIMSOLL" estimators --json
    is "$(value schema <out)" 1
    gives 0 "$PLIMSOLL" estimators horus --json
    is "$(value name <out)" horus
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
# Phases, modules and operators each add up to the same time; the picture and the numbers are of it.
explain_tells_where_time_goes() {
    gives 0 "$PLIMSOLL" explain "$model" --time --times t.svg
    for word in '^step ' "where a step's time goes" '^  backward ' '^by module' 'layer1' '^by operator' 'conv2d'; do
        says out "$word"
    done
    if grep -q 'nan\|alive at the peak' out; then cat out; false; fi
    says t.svg ">resnet18: where a step's time goes<"
    is "$(tail -n 1 t.svg)" '</svg>'
    if grep -q -i 'nan\|="inf' t.svg; then false; fi
    gives 0 "$PLIMSOLL" explain "$model" --time --times t.csv --json
    is "$(value schema <out)" 1
    is "$(value estimate.model.name <out)" resnet18
    total=$(awk -F, 'NR > 1 { sum += $6 } END { printf "%.6f", sum }' t.csv)
    phases=0
    for i in 0 1 2 3 4; do phases=$(awk -v a="$phases" -v b="$(value phases."$i".device_ms <out)" 'BEGIN { print a + b }'); done
    awk -v a="$total" -v b="$phases" 'BEGIN { exit !(a > 0 && a - b < a / 1000 && b - a < a / 1000) }'
    awk -v a="$(value modules.0.share <out)" 'BEGIN { exit !(0 < a && a <= 1) }'
    gives 2 "$PLIMSOLL" explain "$model" --time --estimator horus
    silent out
    says err '^plimsoll: --time: estimator horus does not say .*sim'
    gives 2 "$PLIMSOLL" explain "$model" --time --times t.png
    says err 'neither in .svg nor in .csv'
    gives 4 "$PLIMSOLL" explain "$model" --times no/such/folder/t.svg
}
# What learnt compute says it beside what the operators come to; several cards are warned of.
compute_beside_what_is_counted() {
    gives 0 "$PLIMSOLL" estimate "$model" --estimator transformer-bigru
    says out '^compute, as learnt: .* per step.*; by the operators: 341 GFLOP per step'
    gives 0 "$PLIMSOLL" estimate "$model" --parallel ddp:8 --json
    is "$(value utilization.coverage <out)" null
    says out 'communication is not counted'
    gives 0 "$PLIMSOLL" estimate "$model" --copy-gbps 0.2
    says out "bound by the batch's copy"
    gives 0 "$PLIMSOLL" estimate "$model" --copy-gbps 0.2 --json
    is "$(value compute.bound <out)" copy
}
# A slower host makes its part of a step longer, and nothing else.
hosts_differ() {
    gives 0 "$PLIMSOLL" estimate "$model" --json
    host=$(value compute.host_ms <out) flops=$(value compute.flops_per_step <out)
    gives 0 "$PLIMSOLL" estimate "$model" --json --host-speed 0.5
    is "$(value compute.flops_per_step <out)" "$flops"
    awk -v a="$host" -v b="$(value compute.host_ms <out)" 'BEGIN { exit !(b > 1.5 * a) }'
}
collocate_tells_of_two() {
    gives 0 "$PLIMSOLL" estimate "$model" --json
    mv out a.json
    gives 0 "$PLIMSOLL" estimate "$model" --batch 64 --precision amp-bf16 --json
    mv out b.json
    gives 0 "$PLIMSOLL" collocate a.json b.json --json
    is "$(value schema <out)" 1
    is "$(value gpu <out)" h200
    is "$(value sharing <out)" slices
    is "$(value fits <out)" true
    is "$(value jobs.1.peak_bytes <out)" "$(value memory.peak_bytes <b.json)"
    # What is needed is at least both highs, of what the card has.
    [ "$(value needed_bytes <out)" -ge $(($(value memory.high_bytes <a.json) + $(value memory.high_bytes <b.json))) ]
    for i in 0 1; do
        awk -v a="$(value jobs."$i".slowdown_low <out)" -v b="$(value jobs."$i".slowdown <out)" \
            -v c="$(value jobs."$i".slowdown_high <out)" 'BEGIN { exit !(0 < a && a <= b && b <= c && b >= 0.9) }'
    done
    gives 0 "$PLIMSOLL" collocate a.json b.json --sharing mps
    for word in '^two jobs on NVIDIA H200' 'under MPS' '^fits: ' '^work per second: ' 'of its speed alone'; do
        says out "$word"
    done
    # Models are estimated first: the same answer.
    gives 0 "$PLIMSOLL" collocate "$model" a.json --json
    mv out first
    gives 0 "$PLIMSOLL" collocate a.json "$model" --json
    is "$(value jobs.1.slowdown <out)" "$(value jobs.0.slowdown <first)"
    # Too large together; the card is the models' that were asked for.
    gives 10 "$PLIMSOLL" collocate "$model" "$model" --batch 300 --gpu t4
    says out '^does not fit: '
    gives 11 "$PLIMSOLL" collocate "$model" "$model" --batch 200 --gpu t4 --json
    is "$(value fits <out)" false
    is "$(value verdict <out)" 'may not fit'
    is "$(value calibrated <out)" false
    gives 11 "$PLIMSOLL" collocate "$model" "$model" --batch 200 --gpu t4
    says out '^may not fit: '
    gives 2 "$PLIMSOLL" collocate a.json b.json --gpu t4
    says err 'again for t4 (--gpu)'
    gives 2 "$PLIMSOLL" collocate a.json b.json --batch 8
    says err 'estimates already'
    silent out
}
collocate_names_the_place() {
    gives 0 "$PLIMSOLL" estimate "$model" --json
    mv out a.json
    gives 3 "$PLIMSOLL" collocate a.json nowhere.json
    says err 'nowhere.json'
    head -c 300 a.json >cut.json
    gives 3 "$PLIMSOLL" collocate cut.json a.json
    silent out
    says err '^plimsoll: cut.json: at byte [0-9]*: '
    printf 'not a model\n' >text
    gives 3 "$PLIMSOLL" collocate a.json text
    gives 0 "$PLIMSOLL" estimate "$model" --json --estimator horus
    mv out timeless.json
    gives 3 "$PLIMSOLL" collocate a.json timeless.json
    says err 'timeless.json\|resnet18'
}
# On a card too small, the figures are those of one large enough.
explain_has_figures_out_of_memory() {
    gives 0 "$PLIMSOLL" explain "$model" --gpu t4 --batch 1000
    says out '^  --batch 2000  *[0-9.]* GiB  *+[0-9.]* GiB  *[0-9.]* GiB  no$'
    gives 0 "$PLIMSOLL" explain "$model" --gpu t4 --batch 1000 --json
    peak=$(value estimate.memory.peak_bytes <out)
    is "$(value estimate.out_of_memory <out)" true
    is "$(($(value changes.0.peak_bytes <out) - peak))" "$(value changes.0.change_bytes <out)"
}
fit_finds_the_largest_batch() {
    gives 0 "$PLIMSOLL" fit "$model" --gpu t4 --json
    batch=$(value largest.batch <out)
    [ "$batch" -gt 8 ]
    gives 0 "$PLIMSOLL" check "$model" --gpu t4 --batch "$batch"
    gives 11 "$PLIMSOLL" check "$model" --gpu t4 --batch $((batch + 1))
    gives 0 "$PLIMSOLL" fit "$model" --gpu t4
    says out "largest batch $batch"
    gives 0 "$PLIMSOLL" fit "$ROOT/tests/data/graphs/mixed.pt2" # exported for 2 to 512
    says out '^batch 512 fits .* the largest that the model takes$'
}
explain_finds_what_makes_it_fit() {
    gives 0 "$PLIMSOLL" explain "$model" --gpu t4 --batch 1000 --json
    [ "$(value estimate.verdict <out)" != fits ]
    with=$(value remedies.0.with <out)
    upper=$(value remedies.0.upper_bytes <out)
    # shellcheck disable=SC2086 # options
    gives 0 "$PLIMSOLL" check "$model" --gpu t4 --batch 1000 $with --json
    is "$(value upper_bytes <out)" "$upper"
    gives 0 "$PLIMSOLL" explain "$model" --gpu t4 --batch 1000
    says out "^  $with "
    gives 0 "$PLIMSOLL" explain "$model" --batch 1
    ! grep -q 'what makes it fit' out
}
fit_finds_what_a_question_mark_asks_for() {
    config=$ROOT/tests/data/configs/llama.json
    gives 0 "$PLIMSOLL" fit "$config" --gpu t4 --batch 64 --seq '?' --json
    seq=$(value largest.seq <out)
    gives 0 "$PLIMSOLL" check "$config" --gpu t4 --batch 64 --seq "$seq"
    code=0
    "$PLIMSOLL" check "$config" --gpu t4 --batch 64 --seq $((seq + 1)) >out || code=$?
    [ "$code" = 10 ] || [ "$code" = 11 ]
    gives 0 "$PLIMSOLL" fit "$ROOT/examples/llama-7b.json" --gpu a100-40gb --batch 1 --seq 128 --parallel 'fsdp2:?' --json
    world=$(value fewest.world <out)
    [ "$world" -gt 1 ]
    gives 0 "$PLIMSOLL" check "$ROOT/examples/llama-7b.json" --gpu a100-40gb --batch 1 --seq 128 --parallel "fsdp2:$world"
    gives 0 "$PLIMSOLL" fit "$model" --gpu '?'
    says out '^smallest card '
    gives 2 "$PLIMSOLL" fit "$model" --gpu '?' --batch '?'
    gives 2 "$PLIMSOLL" fit "$model" --parallel 'ddp:?'
    gives 2 "$PLIMSOLL" estimate "$model" --batch '?'
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
timeline_keeps_names() {
    cp "$model" 'größe<&>.pt2'
    gives 0 "$PLIMSOLL" estimate 'größe<&>.pt2' --timeline t.svg
    says t.svg '<title>größe&lt;&amp;&gt;: '
    says t.svg '>peak [0-9.]* GiB; most is allocated in '
    cp "$model" "$(printf 'a\377\001b.pt2')"
    gives 0 "$PLIMSOLL" estimate "$(printf 'a\377\001b.pt2')" --timeline t.svg
    says t.svg "<title>a$(printf '\357\277\275\357\277\275')b: "
}
# However long the model's name and the job's line are, and however narrow the picture is.
no_title_is_cut() {
    long=$(printf 'name-%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36)
    cp "$model" "$long.pt2"
    gives 0 "$PLIMSOLL" estimate "$long.pt2" --timeline t.svg
    says t.svg ">$long: GPU memory over the first training steps<"
    gives 0 "$PLIMSOLL" explain "$long.pt2" --time --times t.svg
    says t.svg ">$long: where a step's time goes<"
    set -- --accumulate 4 --checkpoint --gpu "NVIDIA RTX PRO 6000 Blackwell" --alloc-conf garbage_collection_threshold:0.8
    gives 0 "$PLIMSOLL" estimate "$model" --batch 2,4 --heatmap t.svg "$@"
    says t.svg '</title>[a-z0-9, ]*adamw, 4 passes per step, checkpointing, garbage_collection_threshold:0.8, on NVIDIA RTX PRO 6000 Blackwell, '
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
        # shellcheck disable=SC2086 # its words
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
# Times and counters: relative errors of the one, points and classes of the other; what a row lacks is counted.
evaluate_has_targets() {
    mkdir -p some more
    cp "$model" more/a.pt2
    gives 0 "$PLIMSOLL" estimate "$model" --precision fp32 --optimizer sgd --loss ce --json --estimator sim \
        --host-speed 1 --copy-gbps 20
    step=$(value compute.step_ms <out) smact=$(value utilization.smact <out) flops=$(value compute.flops_per_step <out)
    job='"family":"cnn","source":"torchvision","loss":"ce","precision":"fp32","optimizer":"sgd","batch":32'
    {
        echo "{\"job\":{\"id\":\"a\",$job},\"result\":{\"step_ms\":$step,\"smact\":$smact,\"smocc\":0,\"flops_per_step\":$flops}}"
        # The same graph with another batch, at twice the measured speed, by another job's name.
        echo "{\"job\":{\"id\":\"a@b64\",\"of\":\"a\",$job,\"host_speed\":2},\"result\":{\"step_ms\":$step,\"drama\":null}}" |
            sed 's/"batch":32/"batch":64/'
        echo "{\"job\":{\"id\":\"c\",$job},\"error\":\"timed out\"}"
    } >use.jsonl
    gives 0 "$PLIMSOLL" evaluate use.jsonl --graphs some --graphs more --estimator sim --target step_ms --json
    is "$(value unmeasured <out)" 1
    is "$(value compute.jobs <out)" 2
    awk -v a="$(value trials.0.error <out)" 'BEGIN { exit !(-0.001 < a && a < 0.001) }'
    awk -v a="$(value trials.1.predicted <out)" -v b="$step" 'BEGIN { exit !(a != b) }' # for its own batch
    gives 0 "$PLIMSOLL" evaluate use.jsonl --graphs more --estimator sim --target step_ms,smact,smocc,flops --json
    is "$(value targets.1.target <out)" smact
    is "$(value targets.1.unmeasured <out)" 2
    is "$(value targets.1.utilization.accuracy <out)" 1
    is "$(value targets.2.unit <out)" points
    is "$(value targets.3.compute.within_1 <out)" 1
    gives 2 "$PLIMSOLL" evaluate use.jsonl --graphs more --estimator sim,horus --target smact
    says err '^plimsoll: horus: horus estimates memory alone'
    says out '^  sim .*'
}
evaluate_pictures_of_targets() {
    mkdir -p more
    cp "$model" more/a.pt2
    printf '{"job":{"id":"a","family":"cnn"},"result":{"step_ms":9,"smact":50,"drama":0}}\n' >use.jsonl
    for target in step_ms smact drama; do
        gives 0 "$PLIMSOLL" evaluate use.jsonl --graphs more --estimator sim --target "$target" --scatter s.svg \
            --bars b.svg --report r.md --csv t.csv
        for name in s b r-bars r-scatter; do
            is "$(tail -n 1 "$name".svg)" '</svg>'
            if grep -q -i 'nan\|="inf' "$name".svg; then cat "$name".svg; false; fi
        done
        says t.csv ',predicted_low,predicted_high,'
    done
    says s.svg '10 points off'
    says r.md "paper 3's classes"
    says out "^in paper 3's classes"
    gives 2 "$PLIMSOLL" evaluate use.jsonl --graphs more --target smact,drama --csv t.csv
    says err '^plimsoll: --csv is of one target'
    printf '{"job":{"id":"a","of":"../b"},"result":{"step_ms":9}}\n' >leads-out.jsonl
    gives 3 "$PLIMSOLL" evaluate leads-out.jsonl --graphs more
    printf '{"job":{"id":"a"},"result":{"smact":101}}\n' >wrong.jsonl
    gives 3 "$PLIMSOLL" evaluate wrong.jsonl --graphs more
    says err '^plimsoll: wrong.jsonl: at byte 36: expected a share from 0 to 100'
    printf '{"job":{"id":"a","host_speed":0},"result":{"smact":1}}\n' >wrong.jsonl
    gives 3 "$PLIMSOLL" evaluate wrong.jsonl --graphs more
    says err 'host_speed of the job: 0 is not a number from 0.1 to 10'
}
evaluate_names_the_place() {
    printf '{"job":{"id":"a"},"result":{"peak_allocated":1,"peak_reserved":2,"overhead":3}}\n{"job":' >cut.jsonl
    gives 3 "$PLIMSOLL" evaluate cut.jsonl --graphs .
    says err '^plimsoll: cut.jsonl: at byte [0-9]*: expected '
    printf '{"job":{"id":"../a"},"result":{}}\n' >out-of-folder.jsonl
    gives 3 "$PLIMSOLL" evaluate out-of-folder.jsonl --graphs .
    gives 2 "$PLIMSOLL" evaluate cut.jsonl --estimator sim
    says err '--graphs'
    gives 3 "$PLIMSOLL" evaluate "$fixture" cut.jsonl --estimator horus # the second of two
    says err '^plimsoll: cut.jsonl: at byte '
    printf 'Depth,Total Parameters\n3,100\n' >bare.csv
    gives 3 "$PLIMSOLL" evaluate bare.csv --estimator horus
    silent out
    says err '^plimsoll: bare.csv: .*expected'
}
evaluate_says_what_is_amiss() {
    printf '{"job":{"id":"a"},"result":{"peak_allocated":1,"peak_reserved":2,"overhead":3}}\n' >one.jsonl
    mkdir bare
    gives 3 "$PLIMSOLL" evaluate one.jsonl --graphs nowhere
    silent out
    says err '^plimsoll: nowhere: no such folder$'
    gives 3 "$PLIMSOLL" evaluate one.jsonl --graphs bare
    says err 'none of its 1 jobs has a graph in bare; .* ID.pt2, ID.json'
    gives 2 "$PLIMSOLL" evaluate one.jsonl --graphs bare --scatter x.png
    says err 'does not end in .svg'
    [ ! -e x.png ]
}

# ---- several estimators, training ----

# Every one of these is reported before anything is read.
evaluate_wrong_usage() {
    gives 2 "$PLIMSOLL" evaluate nowhere.jsonl --estimator horus,rundom-forest
    silent out
    says err 'no estimator called rundom-forest; did you mean random-forest?'
    gives 2 "$PLIMSOLL" evaluate nowhere.jsonl --estimator horus --split model
    says err '^plimsoll: --split: horus does not learn.* decision-tree'
    gives 2 "$PLIMSOLL" evaluate nowhere.jsonl --estimator decision-tree --folds 3
    says err '^plimsoll: --folds .* without --split'
    gives 2 "$PLIMSOLL" evaluate nowhere.jsonl --estimator decision-tree --set depth=3
    says err '^plimsoll: --set .* without --split'
    gives 2 "$PLIMSOLL" evaluate nowhere.jsonl --estimator horus --bars x.png
    gives 2 "$PLIMSOLL" evaluate nowhere.jsonl --estimator horus --report x.txt
    says err 'does not end in .md'
    gives 3 "$PLIMSOLL" evaluate nowhere.jsonl --estimator horus --model nowhere.plm
    says err '^plimsoll: nowhere.plm: '
}
estimators_are_listed() {
    gives 0 "$PLIMSOLL" estimators
    for name in sim horus decision-tree; do says out "^$name "; done
    default=$(sed -n 's/^without --estimator: //p' out)
    gives 0 "$PLIMSOLL" estimate "$model" --json
    is "$(value estimator <out)" "$default"
    gives 0 "$PLIMSOLL" estimators horus
    says out '^horus: '
    says out '^  source '
    says out '^  leaves out '
    gives 2 "$PLIMSOLL" estimators hours
    says err 'did you mean horus?'
}
# Two formulas and a tree that is trained three times, on the fixture's counts.
evaluate_compares() {
    gives 0 "$PLIMSOLL" evaluate "$fixture" --estimator horus,decision-tree,zero --split row --folds 3 --seed 7 --json \
        --csv all.csv --bars bars.svg --scatter scatter.svg --report report.md
    silent err
    jobs=$(value jobs <out)
    is "$(value seed <out)" 7
    is "$(($(wc -l <all.csv) - 1))" $((3 * jobs))
    worse=0
    for i in 0 1 2; do # sorted by median
        median=$(value estimators."$i".peak.median <out)
        awk -v a="$worse" -v b="$median" 'BEGIN { exit !(a <= b) }'
        worse=$median
        is "$(value estimators."$i".peak.jobs <out)" "$jobs"
        case $(value estimators."$i".estimator <out) in
        decision-tree)
            is "$(value estimators."$i".folds <out)" 3
            is "$(value estimators."$i".split <out)" row
            is "$(value estimators."$i".seen <out)" false
            [ "$(value estimators."$i".train_s <out)" != null ] ;;
        *) is "$(value estimators."$i".train_s <out)" null
            is "$(value estimators."$i".folds <out)" 0 ;;
        esac
    done
    # Each job in one fold, each fold with a third of them.
    for fold in 0 1 2; do
        count=$(grep '^"decision-tree"' all.csv | sed 's/"[^"]*"/x/g' | cut -d, -f10 | grep -c "^$fold\$")
        [ "$count" -ge $((jobs / 3)) ]
        [ "$count" -le $((jobs / 3 + 1)) ]
    done
    for word in '^# ' 'plimsoll evaluate ' 'seed 7' '3 folds' '| horus |' 'report-bars.svg' 'report-scatter.svg' \
        'unseen\|real models'; do
        says report.md "$word"
    done
    for name in bars scatter report-bars report-scatter; do
        says "$name".svg '^<svg xmlns'
        is "$(tail -n 1 "$name".svg)" '</svg>'
        if grep -q -i 'nan\|="inf' "$name".svg; then false; fi
    done
    says scatter.svg '>decision-tree<'
    says bars.svg '>horus<'
    mv all.csv first.csv
    gives 0 "$PLIMSOLL" evaluate "$fixture" --estimator decision-tree,horus,zero --split row --folds 3 --seed 7 --csv all.csv
    for word in '^all jobs' '^real models' 'MAPE' '^  decision-tree '; do says out "$word"; done
    # The same seed, the same figures (the last column is a time).
    sed 's/,[^,]*$//' first.csv | sort >a
    sed 's/,[^,]*$//' all.csv | sort >b
    diff a b
}
evaluate_tells_what_is_left_out() {
    gives 0 "$PLIMSOLL" evaluate "$fixture" --estimator all --json # without --graphs
    is "$(value estimators.0.without_graph <out)" "$(value jobs <out)"
    left=$(value left_out <out)
    case $left in *'"sim"'*--graphs*) ;; *) echo "$left"; false ;; esac
    # By name, it is a failure too, and the others are shown all the same.
    gives 2 "$PLIMSOLL" evaluate "$fixture" --estimator horus,sim
    says err '^plimsoll: sim: .*--graphs'
    says out '^  horus '
    says out '^sim is left out: '
}
train_writes_what_estimate_reads() {
    # A name with a space and a quote comes back whole from the file's command.
    gives 0 "$PLIMSOLL" train decision-tree --jobs "$fixture" --out "it's one.plm" --seed 3 --json
    says err 'no layer is known: give --graphs'
    is "$(value estimator <out)" decision-tree
    is "$(value seed <out)" 3
    [ "$(value rows <out)" -gt 100 ]
    case $(value command <out) in
    "plimsoll train decision-tree --jobs "*" --out 'it'"*"''s one.plm' --seed 3 --json") ;;
    *) value command <out; false ;;
    esac
    mv "it's one.plm" m.plm
    gives 0 "$PLIMSOLL" train decision-tree --jobs "$fixture" --out "it's one.plm" --seed 3 --json
    cmp m.plm "it's one.plm" # byte for byte
    gives 0 "$PLIMSOLL" estimate "$model" --model m.plm
    says out '^peak [0-9.]* [GM]iB, .*as estimator decision-tree has it'
    if grep -q '?\|-1\|nan' out; then
        echo "unknown figures are printed"
        cat out
        false
    fi
    gives 0 "$PLIMSOLL" estimate "$model" --model m.plm --json
    is "$(value estimator <out)" decision-tree
    is "$(value memory.breakdown.weights <out)" null
    is "$(value memory.allocated_bytes <out)" null
    gives 0 "$PLIMSOLL" check "$model" --model m.plm
    is "$(wc -l <out)" 1
    gives 0 "$PLIMSOLL" fit "$model" --model m.plm --gpu t4
    # One that knows neither interval nor parts: no figure stands for what it does not say.
    for verb in estimate check fit; do
        gives 0 "$PLIMSOLL" "$verb" "$model" --estimator horus
        says out 'no interval'
        if grep -q '?' out; then
            cat out
            false
        fi
    done
    gives 2 "$PLIMSOLL" explain "$model" --model m.plm
    silent out
    says err 'estimator decision-tree does not say what is alive.*sim'
    gives 2 "$PLIMSOLL" estimate "$model" --model m.plm --timeline t.svg
    says err '^plimsoll: --timeline: estimator decision-tree has no timeline.*sim'
    gives 2 "$PLIMSOLL" estimate "$model" --model m.plm --estimator sim
    says err 'holds what decision-tree has learnt, not sim'
    gives 2 "$PLIMSOLL" evaluate "$fixture" --model m.plm --estimator horus
    gives 2 "$PLIMSOLL" evaluate "$fixture" --model m.plm --split row
    gives 0 "$PLIMSOLL" evaluate "$fixture" --model m.plm
    says out 'prove nothing'
    head -c 100 m.plm >cut.plm
    gives 3 "$PLIMSOLL" estimate "$model" --model cut.plm
    silent out
    says err '^plimsoll: cut.plm: '
}
train_draws_a_curve() {
    gives 0 "$PLIMSOLL" train lightgbm --jobs "$fixture" --out b.plm --set trees=20 --curve c.svg
    says out '^lightgbm, learnt from [0-9]* jobs, seed 1, is in b.plm$'
    says c.svg '>best: epoch '
    gives 4 "$PLIMSOLL" train lightgbm --jobs "$fixture" --out no/such/folder/b.plm --set trees=2
    silent out
}
train_wrong_usage() {
    gives 2 "$PLIMSOLL" train horus --jobs "$fixture" --out x.plm
    says err '^plimsoll: train: horus does not learn; these do: .*decision-tree'
    gives 2 "$PLIMSOLL" train decision-tre --jobs "$fixture" --out x.plm
    says err 'did you mean decision-tree?'
    gives 2 "$PLIMSOLL" train decision-tree --out x.plm
    says err '--jobs'
    gives 2 "$PLIMSOLL" train decision-tree --jobs "$fixture"
    says err '--out'
    gives 2 "$PLIMSOLL" train decision-tree --jobs "$fixture" --out x.plm --set leafs=3
    says err 'leafs'
    gives 2 "$PLIMSOLL" train decision-tree --jobs "$fixture" --out x.plm --curve c.png
    gives 3 "$PLIMSOLL" train decision-tree --jobs nowhere.jsonl --out x.plm
    says err 'nowhere.jsonl'
    [ ! -e x.plm ]
}

# ---- ./run ----

# A tree that another user has built, or that cannot be written: what is there is used.
run_uses_what_is_built() {
    mkdir -p tree/build tree/tools tree/src
    cp "$ROOT/run" tree
    cp "$ROOT/tools/prepare.sh" tree/tools
    printf '#!/bin/sh\necho "ran $*"\n' >tree/build/plimsoll
    chmod 755 tree tree/run tree/build/plimsoll "$work"
    chmod 555 tree/build
    if [ "$(id -u)" -ne 0 ]; then
        gives 0 tree/run gpus
    else
        nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
        $nobody test -x tree/run || skip "run_uses_what_is_built: root, and cannot be another user here"
        # shellcheck disable=SC2086 # a command and its words
        gives 0 $nobody tree/run gpus
    fi
    chmod 755 tree/build
    is "$(cat out)" 'ran gpus'
    silent err
}

# ---- pipes, terminals, locales ----

broken_pipe_is_quiet() {
    "$PLIMSOLL" gpus --json 2>err | head -c 1 >/dev/null
    silent err
}
full_disk_is_reported() {
    [ -w /dev/full ] || skip "full_disk_is_reported: no /dev/full"
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
    script -qec true /dev/null >out 2>&1 </dev/null || skip "colour_on_a_terminal_only: no pseudo-terminals"
    TERM=xterm script -qec "'$PLIMSOLL' estimate '$model'" /dev/null >out </dev/null
    says out "$escape"
    TERM=xterm NO_COLOR=1 script -qec "'$PLIMSOLL' estimate '$model'" /dev/null >out </dev/null
    if grep -q "$escape" out; then
        echo "colour with NO_COLOR"
        false
    fi
}

# A card with another size of memory, and cards of one's own.
cards_of_ones_own() {
    printf '# ours\nours\tOur card\tnode-x\t1000\t8.6\t28\t1536\t-\t360\t12.7\t12.7\t25.4\t25.4\tgeneral\tno\tmeasured\n' |
        sed 's/node-x/nodex/' >cards.tsv
    gives 10 "$PLIMSOLL" check "$model" --gpus cards.tsv --gpu NODE-X
    says out 'Our card'
    gives 0 "$PLIMSOLL" gpus --gpus cards.tsv
    says out '^ours .*Our card'
    says out '^h200 '
    gives 0 "$PLIMSOLL" fit "$model" --gpus cards.tsv --gpu h200
    says out '^  ours '
    if grep -q '1g\.5gb' out; then
        echo "fit lists instances of MIG"
        false
    fi
    gives 2 "$PLIMSOLL" check "$model" --gpu ours
    sed 's/8\.6/8/' cards.tsv >wrong.tsv
    gives 3 "$PLIMSOLL" check "$model" --gpus wrong.tsv
    says err '^plimsoll: wrong.tsv:2: cc should be a compute capability such as 8.0, found "8"'
    gives 3 "$PLIMSOLL" check "$model" --gpus "$model"
    gives 10 "$PLIMSOLL" check "$model" --gpu a100-80gb,memory=1GiB
    says out 'NVIDIA A100 80GB (SXM or PCIe) with 1 GiB of memory, as given'
    gives 0 "$PLIMSOLL" estimate "$model" --gpu a100-80gb,memory=40GiB --json
    says out '"gpu":{"name":"a100-80gb,memory=40GiB","title":"[^"]*as given","capacity_bytes":42949672960'
    cp out one.json
    gives 0 "$PLIMSOLL" collocate one.json one.json # on the card that the estimate names
    says out '40 GiB of memory, as given'
    gives 2 "$PLIMSOLL" check "$model" --gpu a100-80gb,memory=40GB
    says err 'say GiB'
}

# What is given in place of a model file, and models that come another way.
other_inputs() {
    mkdir -p saved
    cp "$ROOT/tests/data/configs/llama.json" saved/config.json
    gives 0 "$PLIMSOLL" check saved --batch 1 --seq 64
    gives 0 "$PLIMSOLL" check - <"$model"
    says out '^stdin: '
    sed '' saved/config.json | "$PLIMSOLL" check - --batch 1 --seq 64 >out 2>err || false
    says out 'fits'
    gives 5 "$PLIMSOLL" check - --max-memory 64KiB <"$model"
    gives 3 "$PLIMSOLL" check - </dev/null
    gives 2 "$PLIMSOLL" collocate - "$model"
    printf 'import torch\n' >train.py
    gives 3 "$PLIMSOLL" check train.py
    says err 'a Python script.*python -m plimsoll'
    gives 3 "$PLIMSOLL" check meta-llama/Llama-2-7b
    says err 'hf download meta-llama/Llama-2-7b config.json'
    printf 'version https://git-lfs.github.com/spec/v1\n' >model.pt2
    gives 3 "$PLIMSOLL" check model.pt2
    says err 'git lfs pull'
    gives 0 "$PLIMSOLL" check "$model" --precision torch.bfloat16 --optimizer adamw_torch_fused
    gives 2 "$PLIMSOLL" check "$model" --optimizer paged_adamw_8bit
    says err '^plimsoll: --optimizer: no optimizer "paged_adamw_8bit": .*; the nearest is adamw'
    gives 2 "$PLIMSOLL" check "$model" --precision float64
    says err 'the nearest is fp32'
}

for name in other_inputs cards_of_ones_own no_verb_is_wrong_usage wrong_usage wrong_settings_are_named values_in_any_case help_is_a_verb_too \
    explain_has_figures_out_of_memory timeline_keeps_names no_title_is_cut evaluate_says_what_is_amiss run_uses_what_is_built \
    missing_file_is_3 broken_files_are_3_with_a_place \
    check_is_a_gate check_says_when_it_may_not_fit check_tells_of_loading tables_show_three_words the_job_in_words version_is_printed estimate_json_adds_up every_verb_has_json more_batch_takes_more \
    explain_says_what_would_change explain_tells_where_time_goes compute_beside_what_is_counted hosts_differ collocate_tells_of_two \
    collocate_names_the_place evaluate_has_targets evaluate_pictures_of_targets fit_finds_the_largest_batch explain_finds_what_makes_it_fit fit_finds_what_a_question_mark_asks_for gpus_are_listed timeline_is_written \
    timeline_paths_that_cannot_be_written evaluate_sums_up evaluate_names_the_place evaluate_wrong_usage \
    estimators_are_listed evaluate_compares evaluate_tells_what_is_left_out train_writes_what_estimate_reads \
    train_draws_a_curve train_wrong_usage broken_pipe_is_quiet \
    full_disk_is_reported other_locales_get_ascii colour_on_a_terminal_only; do
    try $name
done
done_testing
