#!/bin/sh
# cluster.sh ROOT COMMAND...: a Slurm cluster of two nodes of two fake H200s each inside ROOT, then COMMAND in it. ROOT is / where Slurm's
# packages are installed, or a folder made by root.sh. Processes, mounts, network and host name are namespaces of their own:
# nothing is seen outside, and all ends with COMMAND. Needs root. What COMMAND finds in the environment: S, the cluster's folder.
#
#   FILES       files and folders that are copied into $S/files before it starts
#   BEFORE      a shell script sourced in the cluster before slurmctld starts (it may append to $S/slurm.conf)
#   ACCOUNTING  1: MariaDB and slurmdbd too
#   TIME        seconds after which all is ended; 120
set -eu
root=${1:?root}
shift
state=$(mktemp -d "${root%/}/tmp/plimsoll-slurm.XXXXXX")
child=
exec 3<&0 # what runs behind & would have /dev/null
trap '[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true; wait 2>/dev/null || true; [ -n "${KEEP:-}" ] || rm -rf "$state"' EXIT
trap 'exit 143' INT TERM
chmod 755 "$state"
mkdir "$state/files"
for file in ${FILES:-}; do cp -R "$file" "$state/files/"; done
[ -z "${BEFORE:-}" ] || cp "$BEFORE" "$state/before.sh"
cp "$(dirname "$0")/inside.sh" "$state/inside.sh"
inside=/tmp/$(basename "$state")
# shellcheck disable=SC2016 # for the inner shell
timeout --foreground -k 1 "${TIME:-120}" unshare --mount --pid --net --uts --ipc --fork --kill-child sh -c '
    [ "$0" = / ] || mount --rbind /sys "$0/sys"
    exec chroot "$0" sh "$@"' "$root" "$inside/inside.sh" "$inside" "$@" <&3 3<&- &
child=$!
status=0
wait "$child" || status=$?
child=
exit "$status"
