# shellcheck shell=sh disable=SC2154 # S is cluster.sh's
# Sourced in the cluster before slurmctld starts: the plugins, their settings, the daemon.
if [ -d "$S/files/slurm" ]; then # sources, for the headers that are there: run.sh
    for plugin in job_submit_plimsoll:job_submit cli_filter_plimsoll:cli_filter plimsoll_spank:spank; do
        parts=
        for part in decide http json judge nvml report request settings submit text tres; do parts="$parts $S/files/slurm/$part.c"; done
        # shellcheck disable=SC2086 # names
        gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -fvisibility=hidden -fPIC -shared \
            -o "$S/plugins/${plugin%:*}.so" "$S/files/slurm/${plugin#*:}.c" $parts -pthread -ldl
    done
fi
for plugin in "$S"/files/*.so; do [ ! -e "$plugin" ] || cp "$plugin" "$S/plugins/"; done
cat >"$S/plimsoll.conf" <<E
daemon = $S/run/plimsoll.sock
card = h200 shards=140
deadline-ms = ${DEADLINE:-200}
rest-ms = 300
sample-ms = 50
report-ms = 10000
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
