#!/bin/sh
# slurm.sh [BUILD]: what the plugin of slurmctld costs, measured on a cluster of its own with a second slurmctld without it beside (tests/slurm/cluster.sh: root,
# Slurm's packages, python3). COUNT: submissions to each; 500.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -o "$work/slurm_submit" "$root/bench/slurm_submit.c" -lslurm
cat >"$work/bench.sh" <<'END'
set -eu
# The second: the same nodes by name, which are never asked for anything.
sed -e '/^JobSubmitPlugins/d' -e 's/^ClusterName=.*/ClusterName=quay/' -e "s|^StateSaveLocation=.*|StateSaveLocation=$S/state2|" \
    -e "s|slurmctld[.]pid|slurmctld2.pid|; s|slurmctld[.]log|slurmctld2.log|" "$S/plain.conf" >"$S/without.conf"
echo 'SlurmctldPort=6827' >>"$S/without.conf"
mkdir "$S/state2"
slurmctld -c -f "$S/without.conf"
left=100
until SLURM_CONF=$S/without.conf timeout 5 scontrol ping | grep -q UP; do
    left=$((left - 1))
    [ $left -gt 0 ] || { tail -n 5 "$S/log/slurmctld2.log"; exit 4; }
    sleep 0.1
done
digest=$(curl -s --unix-socket "$S/run/plimsoll.sock" --data-binary "@$S/files/llama-7b.json" http://x/v1/models | grep -o 'sha256:[0-9a-f]*')
python3 "$S/files/slurm.py" "$digest"
END
DEADLINE=20 BEFORE=$root/tests/slurm/before.sh TIME=${TIME:-600} \
    FILES="$build/job_submit_plimsoll.so $build/cli_filter_plimsoll.so $build/plimsoll_spank.so $build/plimsoll-serve
        $root/examples/llama-7b.json $root/tests/slurm/daemon.sh $root/bench/slurm.py $work/slurm_submit $work/bench.sh" \
    sh "$root/tests/slurm/cluster.sh" / sh -c 'sh "$S/files/bench.sh"'
