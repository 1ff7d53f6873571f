#!/bin/sh
# Runs the measuring scripts on a machine with a card.  run.sh BUDGET_SECONDS [parts]
# parts: letters of B (convolutions), C (recurrent layers, attention, products, overhead), A (jobs); BCA by default.
# Results, xz-compressed, go to $OUT (./out without it).
here=$(cd "$(dirname "$0")" && pwd)
budget=${1:-520}
parts=${2:-BCA}
out=${OUT:-$PWD/out}
mkdir -p "$out"
work=$(mktemp -d)
start=$(date +%s)
left() { echo $((budget - $(date +%s) + start)); }
export PYTHONUNBUFFERED=1
case $parts in *B*A*) b=$((budget * 25 / 100)) ;; *B*C*) b=$((budget * 60 / 100)) ;; *) b=$((budget - 10)) ;; esac
case $parts in *B*)
    timeout $((b + 20)) python3 "$here/convs.py" --budget "$b" --out "$work/convs.jsonl"
    mv "$work"/convs.jsonl.xz "$out"/ ;;
esac
case $parts in *C*)
    case $parts in *A*) c=$((budget * 17 / 100)) ;; *) c=$(($(left) - 8)) ;; esac
    timeout $((c + 20)) python3 "$here/rnn_sdpa.py" --budget "$c" --out "$work/rnn-sdpa.jsonl"
    mv "$work"/rnn-sdpa.jsonl.xz "$out"/ ;;
esac
case $parts in *A*)
    a=$(($(left) - 5))
    timeout $((a + 5)) python3 "$here/jobs.py" --budget "$a" --out "$out" ${SKIP_DONE:+--skip-done "$SKIP_DONE"} ;;
esac
rm -rf "$work"
ls -l "$out"
