#!/bin/sh
# root.sh SUITE DIR: a Debian root at DIR with Slurm of that suite, for cluster.sh: bookworm has 22.05, trixie 24.11, forky 26.05. Needs root
# and debootstrap; takes minutes. What is there already stays.
set -eu
suite=${1:?suite} dir=${2:?directory}
mirror=${MIRROR:-$(sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\(http[^ ]*\) .*/\2/p; s/^URIs: *\([^ ]*\).*/\1/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)}
if [ ! -e "$dir/etc/debian_version" ]; then
    script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # an older debootstrap does not know the suite
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$dir" "$mirror" "$script"
fi
printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d" # nothing is started by installing it
chmod +x "$dir/usr/sbin/policy-rc.d"
echo force-unsafe-io >"$dir/etc/dpkg/dpkg.cfg.d/unsafe-io"
echo 'Acquire::Check-Valid-Until "false";' >"$dir/etc/apt/apt.conf.d/99valid" # the mirror may be a frozen one
cp /etc/resolv.conf "$dir/etc/resolv.conf"
# Mounts live in a namespace of their own and vanish with it.
# shellcheck disable=SC2016 # for the inner shell
unshare --mount sh -euc '
    mount -t proc proc "$0/proc"
    mount --bind /dev "$0/dev"
    export DEBIAN_FRONTEND=noninteractive
    chroot "$0" apt-get update -q
    chroot "$0" apt-get install -qy --no-install-recommends slurmctld slurmd slurm-client slurmdbd munge \
        slurm-wlm-basic-plugins slurm-wlm-mysql-plugin libslurm-dev gcc libc6-dev zlib1g-dev libmicrohttpd-dev \
        libsqlite3-dev mariadb-server curl iproute2 procps
    chroot "$0" apt-get clean' "$dir"
chroot "$dir" dpkg-query -W -f '${Package} ${Version}\n' slurmctld munge mariadb-server
