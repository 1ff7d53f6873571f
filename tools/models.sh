#!/bin/sh
# tools/models.sh GROUND-TRUTH [NAME...]: trains what models/ holds (or the named ones), each by the command that its
# file gives. GROUND-TRUTH: the folder of memory.jsonl.xz, utilization.jsonl.xz and graphs.tar.xz. Weights are in the
# library: build again after. From the environment:
#   PLIMSOLL      the command, default build/plimsoll
#   MODELS        the folder to write to, default models/
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

# Memory and workspaces; then step time and counters, from other jobs: further parts of the same file, which is one
# behind another.
train_hybrid() {
    mkdir graphs more
    tar -xJf data/h200/utilization-graphs.tar.xz --strip-components 1 -C more
    cp more/* graphs/
    tar -xJf data/h200/jobs-graphs.tar.xz -C graphs
    tar -xJf "$root/tests/data/accuracy/graphs.tar.xz" -C graphs
    tar -xJf "$truth/graphs.tar.xz" --strip-components 1 -C graphs
    "$plimsoll" train hybrid "$@" --jobs data/h200/convs.jsonl.xz --jobs data/h200/convs2.jsonl.xz \
        --jobs data/h200/convs3.jsonl.xz --described --graphs graphs --seed 1 --out models/hybrid.plm
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
