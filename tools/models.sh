#!/bin/sh
# tools/models.sh GROUND-TRUTH [NAME...]: trains what models/ holds (or the named ones), each by the command that its
# file and models/README.md give. GROUND-TRUTH: the folder of memory.jsonl.xz, utilization.jsonl.xz and
# graphs.tar.xz. PLIMSOLL: the command, default build/plimsoll. Weights are in the library: build again after.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
truth=$(CDPATH='' cd -- "$1" && pwd)
shift
plimsoll=${PLIMSOLL:-$root/build/plimsoll}
names=${*:-"decision-tree random-forest extra-trees adaboost xgboost catboost lightgbm bigru-transformer-light
    transformer-only bigru-only transformer-bigru gpumemnet-mlp gpumemnet-regression gpumemnet-transformer hybrid"}

# The commands name files beside each other, wherever they lie on this machine.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$truth"/*.jsonl.xz "$work/"
ln -s "$root/data" "$root/models" "$work/"
cd "$work"

for name in $names; do
    set -- --jobs memory.jsonl.xz --jobs data/h200/jobs.jsonl.xz
    case $name in
    gpumemnet-mlp | gpumemnet-transformer) set -- "$@" --bin 1000 ;;
    transformer-bigru) set -- "$@" --jobs utilization.jsonl.xz ;;
    hybrid)
        mkdir graphs
        tar -xJf "$truth/graphs.tar.xz" --strip-components 1 -C graphs
        set -- "$@" --jobs data/h200/convs.jsonl.xz --jobs data/h200/convs2.jsonl.xz --graphs graphs
        ;;
    esac
    "$plimsoll" train "$name" "$@" --seed 1 --out "models/$name.plm"
    [ "$name" = hybrid ] || continue
    # Step time and counters, from other jobs: further parts of the same file, which is one behind another.
    mkdir more
    tar -xJf data/h200/utilization-graphs.tar.xz --strip-components 1 -C more
    "$plimsoll" train hybrid --target step_ms --jobs utilization.jsonl.xz --jobs data/h200/utilization.jsonl.xz \
        --described --graphs more --graphs graphs --seed 1 --out hybrid-usage.plm
    cat hybrid-usage.plm >>models/hybrid.plm
done
