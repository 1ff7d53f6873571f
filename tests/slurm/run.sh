#!/bin/sh
# run.sh [FOLDER [SUITE...]]: the cases of test_slurm.sh on other versions of Slurm, with slurmdbd and MariaDB: bookworm has 22.05, trixie 24.11, forky 26.05.
# Roots are made in FOLDER (default: /var/tmp/plimsoll-slurm) once, by root.sh; the plugins are built in them against their headers. Needs root,
# debootstrap and a build folder with the daemon (BUILD, default: build). Takes a minute per version, and some more the first time.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$(dirname -- "$here")")
build=${BUILD:-$root/build}
folder=${1:-/var/tmp/plimsoll-slurm}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- bookworm trixie forky
failed=0
for suite in "$@"; do
    mkdir -p "$folder"
    if [ ! -e "$folder/$suite/.ready" ]; then
        sh "$here/root.sh" "$suite" "$folder/$suite" >"$folder/$suite.log" 2>&1 || { tail -n 5 "$folder/$suite.log"; exit 4; }
        : >"$folder/$suite/.ready"
    fi
    echo "== $suite"
    # shellcheck disable=SC2016 # for the inner shell
    ACCOUNTING=${ACCOUNTING:-1} TIME=${TIME:-600} BEFORE=$here/before.sh \
        FILES="$root/plugins/slurm $build/tests/libfake-nvml.so $build/tests/slurm-liar $build/plimsoll-serve
            $root/examples/llama-7b.json $root/tests/case.sh $here/cases.sh $here/daemon.sh" \
        sh "$here/cluster.sh" "$folder/$suite" sh -c '. "$S/files/cases.sh"' || failed=1
done
exit $failed
