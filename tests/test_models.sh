#!/bin/sh
# The library's own weights are what tools/models.sh makes: one that takes a second is made again, and its bytes are
# compared. The data of the ground truth are not a part of the repository: without them there is nothing to train on.
. "$ROOT/tests/case.sh"
truth=$ROOT/../shared/ground-truth

decision_tree_is_made_again() {
    [ -f "$truth/memory.jsonl.xz" ] || skip "decision_tree_is_made_again: no ../shared/ground-truth"
    mkdir models
    gives 0 env PLIMSOLL="$PLIMSOLL" MODELS="$PWD/models" sh "$ROOT/tools/models.sh" "$truth" decision-tree
    cmp models/decision-tree.plm "$ROOT/models/decision-tree.plm"
}

# The command that each file carries is the one that the script runs.
commands_are_the_scripts() {
    for file in "$ROOT"/models/*.plm; do
        name=$(basename "$file" .plm)
        strings -n 8 "$file" | grep '^plimsoll train ' | sort -u >commands
        grep -q "^plimsoll train $name .*--seed 1 --out models/$name.plm\$" commands ||
            { echo "$name:"; cat commands; false; }
    done
}

# XGBoost ends the process where it has no memory: it is not called then.
no_memory_for_xgboost_is_said() {
    (ulimit -v 24000 && "$PLIMSOLL" --version) >out 2>&1 ||
        skip "no_memory_for_xgboost_is_said: this build does not start in 24 MB"
    for kib in 24000 26000 30000 34000; do
        code=0
        (ulimit -v "$kib" && "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml" --estimator xgboost) >out 2>err || code=$?
        is "$code" 4
        says err "out of memory"
    done
}

try decision_tree_is_made_again
try no_memory_for_xgboost_is_said
try commands_are_the_scripts
done_testing
