#!/bin/sh
# The plugins of Slurm on a real cluster: slurmctld, two slurmd of two fake GPUs each, Debian's packages, in namespaces of their own
# (tests/slurm/cluster.sh). tests/slurm/run.sh runs the same on newer versions.
# On one build only: a plugin with a sanitizer cannot be loaded into a program that has none.
. "$ROOT/tests/case.sh"
why=
[ -f "$BUILD/job_submit_plimsoll.so" ] || why='the plugins were not built: they need the headers of Slurm'
[ -n "$why" ] || [ -x "$BUILD/plimsoll-serve" ] || why='the daemon was not built'
for tool in slurmctld slurmd srun munged unshare ip curl; do
    [ -n "$why" ] || command -v "$tool" >/dev/null || why="no $tool here"
done
[ -n "$why" ] || unshare --mount --pid --net --uts --ipc --fork mount -t proc proc /proc 2>/dev/null ||
    why='namespaces cannot be had here (it needs root)'
if [ -n "$why" ]; then
    if [ "${CI:-}" = true ]; then
        echo "not ok slurm: $why, and CI=true wants it"
        exit 1
    fi
    echo "SKIP slurm: $why"
    exit 0
fi
here=$ROOT/tests/slurm
BEFORE=$here/before.sh TIME=${TIME:-300} \
    FILES="$BUILD/job_submit_plimsoll.so $BUILD/cli_filter_plimsoll.so $BUILD/plimsoll_spank.so $BUILD/tests/libfake-nvml.so $BUILD/tests/slurm-liar
        $BUILD/plimsoll-serve $ROOT/examples/llama-7b.json $ROOT/tests/case.sh $here/cases.sh $here/daemon.sh" \
    sh "$here/cluster.sh" / sh -c '. "$S/files/cases.sh"' || cases_failed=1
done_testing
