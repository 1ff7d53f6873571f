#!/bin/sh
# Models in every form that the command reads: told apart by content, converted to the graph's own JSON
# and read back, sized anew, swept over batches and sequence lengths.
. "$ROOT/tests/case.sh"
config=$ROOT/examples/llama-7b.json
archive=$ROOT/examples/resnet18.pt2

# ---- told apart by content ----

names_say_nothing() {
    cp "$config" model.pt2
    gives 0 "$PLIMSOLL" estimate model.pt2 --batch 1 --seq 128 --json
    is "$(value model.parameters <out)" 6738415616
    cp "$archive" config.json
    gives 0 "$PLIMSOLL" estimate config.json --json
    is "$(value model.parameters <out)" 11689512
    cp "$ROOT/tests/data/summary/torchinfo-lm.txt" model.onnx
    gives 0 "$PLIMSOLL" estimate model.onnx --batch 8 --estimator random-forest --json
}
what_it_could_be_is_reported() {
    echo '{"some": "object"}' >a.json
    gives 3 "$PLIMSOLL" estimate a.json
    says err 'a Hugging Face config.json'
    says err 'this object has none of their keys'
    echo 'just a note' >b.txt
    gives 3 "$PLIMSOLL" estimate b.txt
    says err 'this is none of them'
    printf '{"model_type": "llama", ' >c.json
    gives 3 "$PLIMSOLL" estimate c.json
    says err '^plimsoll: c.json: at byte '
}
counts_are_not_operators() {
    text=$(find "$ROOT/tests/data/summary" -name '*.txt' | sort | head -n 1)
    gives 2 "$PLIMSOLL" estimate "$text" --batch 8
    says err 'only counts of layers are known'
    gives 2 "$PLIMSOLL" convert "$text"
    says err 'has no graph to write'
}

# Casts and noise that follow a tensor's type were exported with float32's: a job in half precision makes them
# again as the export in that precision has them (Gemma's type_as, OLMo 2's rotary casts; PyTorch 2.11).
float32_exports_in_half() {
    for name in gemma olmo2; do
        gives 0 "$PLIMSOLL" estimate "$ROOT/tests/data/halves/$name-16.pt2" --estimator sim --json
        half=$(value memory <out)
        gives 0 "$PLIMSOLL" estimate "$ROOT/tests/data/halves/$name-32.pt2" --precision bf16 --estimator sim --json
        is "$(value memory <out)" "$half"
    done
}

# ---- sizes ----

any_batch_and_sequence() {
    gives 0 "$PLIMSOLL" estimate "$config" --batch 3 --seq 100 --json
    is "$(value model.batch <out) $(value model.seq <out)" '3 100'
    gives 0 "$PLIMSOLL" estimate "$config" --json
    says out 'batch 1 and sequence 1024 are assumed, since none was given'
    gives 2 "$PLIMSOLL" estimate "$archive" --seq 7
    gives 2 "$PLIMSOLL" estimate "$config" --batch 0
}
tasks_and_attention() {
    gives 0 "$PLIMSOLL" estimate "$config" --batch 1 --seq 512 --json
    sdpa=$(value memory.allocated_bytes <out)
    gives 0 "$PLIMSOLL" estimate "$config" --batch 1 --seq 512 --attention eager --optimizer none --json
    gives 0 "$PLIMSOLL" estimate "$config" --batch 4 --seq 2048 --attention eager --json
    eager=$(value memory.allocated_bytes <out)
    gives 0 "$PLIMSOLL" estimate "$config" --batch 4 --seq 2048 --json
    [ "$(value memory.allocated_bytes <out)" -lt "$eager" ] # scores are kept
    gives 0 "$PLIMSOLL" estimate "$config" --batch 1 --seq 512 --task classify --json
    [ "$(value memory.allocated_bytes <out)" -lt "$sdpa" ] # no logits of every word
    gives 2 "$PLIMSOLL" estimate "$config" --task dancing
    says err 'causal'
}
the_largest_batch_of_a_config() {
    gives 0 "$PLIMSOLL" fit "$config" --seq 2048 --gpu h200 --json
    batch=$(value largest.batch <out)
    gives 0 "$PLIMSOLL" check "$config" --seq 2048 --batch "$batch" --gpu h200
    gives 10 "$PLIMSOLL" check "$config" --seq 2048 --batch $((batch + 1)) --gpu h200
}

# ---- sweeps ----

sweeps_are_tables() {
    gives 0 "$PLIMSOLL" estimate "$config" --batch 1,2,4 --seq 512..2048 --gpu a100-80gb --heatmap h.svg
    says out 'seq 512 *seq 1024 *seq 2048'
    says out 'does not fit'
    is "$(grep -c 'GiB' out)" 5 # three rows, what the marks mean, where more takes less
    says h.svg '^<svg'
    says h.svg 'sequence length'
    is "$(grep -o 'GiB</text>' h.svg | wc -l)" 10 # nine cells and the legend
    gives 0 "$PLIMSOLL" estimate "$config" --batch 1..4 --seq 512,1024 --json
    is "$(value sweep.5.batch <out) $(value sweep.5.seq <out)" '4 1024'
    swept=$(value sweep.5.peak_bytes <out)
    gives 0 "$PLIMSOLL" estimate "$config" --batch 4 --seq 1024 --json
    is "$(value memory.peak_bytes <out)" "$swept"
    gives 0 "$PLIMSOLL" estimate "$config" --batch 8..24:8 --seq 128 --json
    is "$(value sweep.2.batch <out)" 24
}
sweeps_that_make_no_sense() {
    gives 2 "$PLIMSOLL" estimate "$config" --batch 4..1
    says err 'is empty'
    gives 2 "$PLIMSOLL" estimate "$config" --batch 1,,2
    gives 2 "$PLIMSOLL" estimate "$config" --batch 1..x
    gives 2 "$PLIMSOLL" estimate "$config" --batch 1..1000:1
    says err 'more than 64'
    gives 2 "$PLIMSOLL" estimate "$config" --heatmap h.svg
    says err 'needs several'
    gives 2 "$PLIMSOLL" estimate "$config" --batch 1,2 --heatmap h.png
    gives 2 "$PLIMSOLL" estimate "$config" --batch 1,2 --timeline t.svg
    gives 2 "$PLIMSOLL" check "$config" --batch 1,2
    gives 2 "$PLIMSOLL" estimate "$archive" --batch 1,2 --seq 7
}

# ---- the graph's own JSON ----

converted_graphs_say_the_same() {
    for file in "$config" "$archive" "$ROOT/examples/gpt2.pt2" "$ROOT"/examples/*.yaml; do
        [ -f "$file" ] || continue
        gives 0 "$PLIMSOLL" estimate "$file" --estimator sim --json
        before="$(value memory <out) $(value model.parameters <out)"
        gives 0 "$PLIMSOLL" convert "$file" --out graph.json
        gives 0 "$PLIMSOLL" estimate graph.json --estimator sim --json
        is "$(value memory <out) $(value model.parameters <out)" "$before"
    done
}
# What was guessed is reported of the graph too, and its interval is as wide.
converted_graphs_keep_doubts() {
    sed 's/"llama"/"newcomer"/; s/LlamaForCausalLM/NewcomerForCausalLM/' "$config" >new.json
    gives 0 "$PLIMSOLL" estimate new.json --batch 1 --seq 512 --estimator sim --json
    before="$(value memory <out) $(value warnings <out)"
    says out 'newcomer'
    gives 0 "$PLIMSOLL" convert new.json --batch 1 --seq 512 --out graph.json
    gives 0 "$PLIMSOLL" estimate graph.json --estimator sim --json
    is "$(value memory <out) $(value warnings <out)" "$before"
}
hostile_onnx_is_reported() {
    refused=0
    for file in "$ROOT"/tests/data/hostile/*.onnx; do
        code=0
        "$PLIMSOLL" estimate "$file" --batch 4 >out 2>err || code=$?
        [ "$code" -eq 0 ] || { is "$code" 3; says err "$(basename "$file")"; refused=$((refused + 1)); }
    done
    [ "$refused" -ge 5 ]
}
too_large_for_any_card() {
    sed 's/"vocab_size": 32000/"vocab_size": 1000000000/' "$config" >large.json
    gives 3 "$PLIMSOLL" estimate large.json --batch 100000 --seq 100000
    says err 'large'
}
converted_graphs_keep_symbols() {
    gives 0 "$PLIMSOLL" convert "$ROOT/examples/gpt2.pt2"
    mv out graph.json
    gives 0 "$PLIMSOLL" estimate graph.json --batch 3 --estimator sim --json
    after=$(value memory <out)
    gives 0 "$PLIMSOLL" estimate "$ROOT/examples/gpt2.pt2" --batch 3 --estimator sim --json
    is "$after" "$(value memory <out)"
}
converting_shows_the_sizes_asked_for() {
    gives 0 "$PLIMSOLL" convert "$config" --batch 2 --seq 64
    is "$(value plimsoll_graph <out)" 1
    says out '"aten.scaled_dot_product_attention.default"'
    says out '"sizes": \[2, 64, 4096\]'
    says out '"path": "model.layers.31.mlp.down_proj.weight"'
    gives 4 "$PLIMSOLL" convert "$config" --out no/such/folder/g.json
}

for case in names_say_nothing what_it_could_be_is_reported counts_are_not_operators float32_exports_in_half \
    any_batch_and_sequence \
    tasks_and_attention the_largest_batch_of_a_config sweeps_are_tables sweeps_that_make_no_sense \
    converted_graphs_say_the_same converted_graphs_keep_doubts \
    hostile_onnx_is_reported too_large_for_any_card converted_graphs_keep_symbols converting_shows_the_sizes_asked_for; do
    try "$case"
done
done_testing
