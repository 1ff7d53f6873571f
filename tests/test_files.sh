#!/bin/sh
# The files that the command writes: whole or not at all. A limit on the size of files stands for a full
# disk: a write beyond it fails in the same way.
. "$ROOT/tests/case.sh"

few_bytes() ( # COMMAND...: with files of at most 1 KiB or so
    trap '' XFSZ
    ulimit -f 1
    exec "$@" >/dev/null 2>/dev/null
)

nothing_stray() { is "$(find . -name '.plimsoll*' -o -name '*.tmp*')" ''; }

# An old file stays as it was, to the byte, and nothing else is left.
kept_when_full() { # FILE COMMAND...
    file=$1
    shift
    echo 'what was there before' >"$file"
    sum=$(cksum <"$file")
    code=0
    few_bytes "$@" || code=$?
    is "$(cksum <"$file")" "$sum"
    nothing_stray
    is "$code" 4
}

a_full_disk_costs_no_file() {
    model=$ROOT/examples/mlp.yaml
    kept_when_full graph.json "$PLIMSOLL" convert "$model" -o graph.json
    kept_when_full t.svg "$PLIMSOLL" estimate "$model" --timeline t.svg
    kept_when_full t.csv "$PLIMSOLL" estimate "$model" --timeline t.csv
    kept_when_full times.svg "$PLIMSOLL" explain "$model" --times times.svg
    kept_when_full heat.svg "$PLIMSOLL" estimate "$model" --batch 1,2,4 --heatmap heat.svg
}

a_full_disk_costs_no_file_of_the_laboratory() {
    "$PLIMSOLL" train --help >/dev/null 2>&1 || skip "a_full_disk_costs_no_file_of_the_laboratory: built without it"
    jobs=$(find "$ROOT/tests/data/accuracy" -name 'jobs*.jsonl*' | head -n 1)
    for file in s.csv s.svg b.svg; do
        case $file in s.csv) option=--csv ;; s.svg) option=--scatter ;; *) option=--bars ;; esac
        kept_when_full "$file" "$PLIMSOLL" evaluate "$jobs" --estimator extra-trees "$option" "$file"
    done
    kept_when_full r.md "$PLIMSOLL" evaluate "$jobs" --estimator extra-trees --report r.md
    kept_when_full m.plm "$PLIMSOLL" train extra-trees --jobs "$jobs" --out m.plm
}

# A new file that cannot be written is not begun.
nothing_half_written() {
    code=0
    few_bytes "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o new.json || code=$?
    is "$code" 4
    [ ! -e new.json ]
    nothing_stray
}

# A file with several names keeps them; one in a folder that takes no other file is written all the same.
other_names_and_closed_folders() {
    "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" >right.json
    echo old >one.json
    ln one.json two.json
    gives 0 "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o one.json
    cmp right.json two.json
    is "$(stat -c %h one.json)" 2
    [ "$(id -u)" -eq 0 ] || { mkdir closed && echo old >closed/graph.json && chmod 555 closed; }
    if [ -d closed ]; then
        gives 0 "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o closed/graph.json
        chmod 755 closed
        cmp right.json closed/graph.json
    fi
    # No command waits for a pipe that nobody writes to.
    mkfifo nobody
    gives 3 "$PLIMSOLL" collocate nobody right.json
}

permissions_and_links_stay() {
    "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" >right.json
    mkdir -p deep
    echo old >deep/graph.json
    chmod 640 deep/graph.json
    ln -s deep/graph.json link.json
    ln -s link.json again.json
    gives 0 "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o again.json
    [ -L again.json ]
    [ -L link.json ]
    [ ! -L deep/graph.json ]
    cmp right.json deep/graph.json
    is "$(stat -c %a deep/graph.json)" 640
    ln -s deep/new.json dangling.json # the file that it names is made
    gives 0 "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o dangling.json
    [ -L dangling.json ]
    cmp right.json deep/new.json
    (umask 027 && "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o masked.json)
    is "$(stat -c %a masked.json)" 640
    ln -s round.json round.json
    gives 4 "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o round.json
    nothing_stray
}

what_is_no_plain_file_is_written_to() {
    "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" >right.json
    "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o /dev/stdout | cmp - right.json
    "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o /dev/stdout >redirected
    cmp redirected right.json
    mkfifo pipe
    cat pipe >through &
    gives 0 "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o pipe
    wait
    cmp through right.json
    gives 0 "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o /dev/null
    gives 4 "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o .
    gives 4 "$PLIMSOLL" convert "$ROOT/examples/mlp.yaml" -o none/x.json
    says err 'none/x.json: could not be written'
    gives 2 "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml" --timeline t.png
    says err 'ends neither in .svg nor in .csv'
}

try a_full_disk_costs_no_file
try a_full_disk_costs_no_file_of_the_laboratory
try nothing_half_written
try other_names_and_closed_folders
try permissions_and_links_stay
try what_is_no_plain_file_is_written_to
done_testing
