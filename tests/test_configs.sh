#!/bin/sh
# Models from config.json against those from exported graphs: a row of tests/data/configs/reference.tsv is a config,
# a task, batch, seq, precision, optimizer, checkpoint (0 or 1), and the peaks of allocated and reserved
# bytes that the graph exported by PyTorch of that very model gives, or that an H200 was measured with (bart, whisper,
# mt5, t5, xlm-roberta, camembert: PyTorch 2.11, transformers 5.17, 2026-11-15), or that the class itself gives under
# fake tensors (modernbert.json and all below it: PyTorch 2.11, transformers 5.22.2, 2026-11-18); "-": not compared. Within 1 %; reserved
# bytes within that or one of the allocator's smallest segments, 2 MiB, since these models are small.
# Pictures beside text (llava, vipllava, paligemma, gemma3, qwen2_vl): the class traced under fake tensors, PyTorch
# 2.11, transformers 5.22.
. "$ROOT/tests/case.sh"
table=$ROOT/tests/data/configs/reference.tsv
tab=$(printf '\t')

near() { # GOT WANT LEAST: what may differ at the least
    awk -v got="$1" -v want="$2" -v may="$3" 'BEGIN {
        if (may < want / 100) may = want / 100
        exit !(got >= want - may && got <= want + may)
    }'
}

compare() { # MEMBER WANT LEAST
    got=$(value "memory.$1" <out)
    [ "$2" = - ] || near "$got" "$2" "$3" || { echo "$1 is $got, should be $2"; false; }
}

row() { # the fields of a row
    more="--batch $3 --task $2 --precision $5 --optimizer $6"
    [ "$4" = - ] || more="$more --seq $4"
    [ "$7" = 0 ] || more="$more --checkpoint"
    [ "$2" = base ] && more="$more --loss mse"
    # shellcheck disable=SC2086
    gives 0 "$PLIMSOLL" estimate "$ROOT/tests/data/configs/$1" $more --estimator sim --json
    is "$(value model.unknown_operators <out)" "[]"
    for figure in "allocated_bytes $8 0" "reserved_bytes $9 2097152"; do
        # shellcheck disable=SC2086
        compare $figure || { echo "$*"; false; }
    done
}

config() {
    grep "^$name$tab" "$table" >rows
    [ -s rows ]
    while IFS="$tab" read -r a b c d e f g h i; do
        row "$a" "$b" "$c" "$d" "$e" "$f" "$g" "$h" "$i" </dev/null
    done <rows
    echo "# $(wc -l <rows) jobs"
}

# A config without a row is not tested by anything.
each_has_rows() {
    for file in "$ROOT"/tests/data/configs/*.json; do
        grep -q "^$(basename "$file")$tab" "$table" || { echo "no row of $file"; false; }
    done
}

# shellcheck disable=SC2013 # names without blanks
for name in $(grep -v '^#' "$table" | cut -f1 | sort -u); do
    case=config_$(basename "$name" .json | tr -c 'a-zA-Z0-9\n' _)
    eval "$case() { config; }"
    try "$case"
done
try each_has_rows
done_testing
