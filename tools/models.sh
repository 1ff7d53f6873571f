#!/bin/sh
# tools/models.sh GROUND-TRUTH [NAME...]: trains what models/ holds (or the named ones), each by the command that its
# file gives. GROUND-TRUTH: the folder of memory.jsonl.xz, utilization.jsonl.xz and graphs.tar.xz. Weights are in the
# library: build again after. From the environment:
#   PLIMSOLL      the command, default build/plimsoll
#   MODELS        the folder to write to, default models/
#   JOBS_GRAPHS   a folder with the graphs of data/h200/jobs.jsonl.xz, as tools/measure/jobs.py --export makes them (needs
#                 PyTorch 2.11, torchvision and transformers). hybrid's interval was learnt with them: without, its parts
#                 low and high stay as they are in models/hybrid.plm; all others are made again.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
truth=$(CDPATH='' cd -- "$1" && pwd)
shift
plimsoll=${PLIMSOLL:-$root/build/plimsoll}
plimsoll=$(CDPATH='' cd -- "$(dirname -- "$plimsoll")" && pwd)/$(basename -- "$plimsoll")
models=$(CDPATH='' cd -- "${MODELS:-$root/models}" && pwd)
names=${*:-"decision-tree random-forest extra-trees adaboost xgboost catboost lightgbm bigru-transformer-light
    transformer-only bigru-only transformer-bigru gpumemnet-mlp gpumemnet-regression gpumemnet-transformer hybrid"}

# The commands name files beside each other, wherever they lie on this machine.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$truth"/*.jsonl.xz "$work/"
ln -s "$root/data" "$work/data"
mkdir "$work/models"
cd "$work"

# first_parts FILE COUNT: the bytes of its first parts, each 24 and as many as it says at byte 16 (docs/formats.md).
first_parts() {
    bytes=0
    for _ in $(seq "$2"); do bytes=$((bytes + 24 + $(od -An -tu8 -j$((bytes + 16)) -N8 "$1"))); done
    echo "$bytes"
}

# Memory and workspaces; then step time and counters, from other jobs: further parts of the same file, which is one
# behind another.
train_hybrid() {
    mkdir graphs more
    tar -xJf "$truth/graphs.tar.xz" --strip-components 1 -C graphs
    tar -xJf data/h200/utilization-graphs.tar.xz --strip-components 1 -C more
    [ -z "${JOBS_GRAPHS-}" ] || cp "$JOBS_GRAPHS"/* graphs/
    "$plimsoll" train hybrid "$@" --jobs data/h200/convs.jsonl.xz --jobs data/h200/convs2.jsonl.xz --graphs graphs \
        --seed 1 --out models/hybrid.plm
    if [ -z "${JOBS_GRAPHS-}" ]; then
        kept=$root/models/hybrid.plm
        head -c "$(first_parts "$kept" 2)" "$kept" >interval.plm
        tail -c +$(($(first_parts models/hybrid.plm 2) + 1)) models/hybrid.plm >workspaces.plm
        cat interval.plm workspaces.plm >models/hybrid.plm
        echo "models.sh: hybrid's low and high are those of models/hybrid.plm: JOBS_GRAPHS is not given" >&2
    fi
    "$plimsoll" train hybrid --target step_ms --jobs utilization.jsonl.xz --jobs data/h200/utilization.jsonl.xz \
        --described --graphs more --graphs graphs --seed 1 --out hybrid-usage.plm
    cat hybrid-usage.plm >>models/hybrid.plm
}

for name in $names; do
    set -- --jobs memory.jsonl.xz --jobs data/h200/jobs.jsonl.xz
    case $name in
    gpumemnet-mlp | gpumemnet-transformer) set -- "$@" --bin 1000 ;;
    transformer-bigru) set -- "$@" --jobs utilization.jsonl.xz ;;
    esac
    case $name in
    hybrid) train_hybrid "$@" ;;
    *) "$plimsoll" train "$name" "$@" --seed 1 --out "models/$name.plm" ;;
    esac
    cp "models/$name.plm" "$models/$name.plm"
done
