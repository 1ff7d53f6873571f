# shellcheck shell=sh disable=SC2154 # S is cluster.sh's
# Sourced in the cluster before slurmctld starts: the plugins, their settings, the daemon.
cp "$S"/files/*.so "$S/plugins/"
cat >"$S/plimsoll.conf" <<E
daemon = $S/run/plimsoll.sock
card = h200 shards=140
deadline-ms = ${DEADLINE:-200}
rest-ms = 300
sample-ms = 50
nvml = $S/plugins/libfake-nvml.so
E
# Three views of one cluster: slurm.conf with all plugins, spank.conf without cli_filter, plain.conf of a submit host that has none.
echo "JobSubmitPlugins=plimsoll" >>"$S/slurm.conf"
cp "$S/slurm.conf" "$S/spank.conf"
grep -v '^PlugStackConfig' "$S/slurm.conf" >"$S/plain.conf"
echo "PlugStackConfig=$S/no-plugstack.conf" >>"$S/plain.conf"
: >"$S/no-plugstack.conf"
echo "CliFilterPlugins=plimsoll" >>"$S/slurm.conf"
echo "required $S/plugins/plimsoll_spank.so" >"$S/plugstack.conf"
mkdir -p "$S/data"
# shellcheck source=/dev/null
. "$S/files/daemon.sh"
start_daemon
