# shellcheck shell=sh
# inside.sh S COMMAND...: the part of cluster.sh that runs in the namespaces.
set -eu
S=$1
shift
exec 3<&0 </dev/null # COMMAND's alone
mount -t proc proc /proc
hostname ctl
ip link set lo up
ip addr add 10.99.0.1/32 dev lo # without an address that is no loopback one getaddrinfo (AI_ADDRCONFIG) fails
echo '127.0.0.1 ctl localhost' >"$S/hosts"
echo 'nameserver 127.0.0.1' >"$S/resolv.conf"
for file in hosts resolv.conf; do
    [ -e /etc/$file ] || : >/etc/$file
    mount --bind "$S/$file" /etc/$file
done
version=$(slurmctld -V | sed 's/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1\2/')
plugins=$(dirname "$(find /usr/lib -name select_cons_tres.so | head -n 1)")
for folder in munge state spool/n1 spool/n2 log plugins db run; do mkdir -p "$S/$folder"; done
for i in 0 1; do mknod "$S/gpu$i" c 1 3; done
say() { echo "cluster: $*" >&2; }

# A wait that ends: wait_for WHAT SECONDS COMMAND...
wait_for() {
    what=$1 left=$(($2 * 20))
    shift 2
    until "$@"; do
        left=$((left - 1))
        if [ "$left" -le 0 ]; then
            say "$what did not come"
            tail -n 8 "$S"/log/* >&2
            exit 4
        fi
        sleep 0.05
    done
}

# slurmd 22.05 wants a hierarchy of cgroups of version 1, whatever the host has; nothing is put into it.
if [ "$version" -lt 2405 ] && mount -t tmpfs tmpfs /sys/fs/cgroup; then
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd || umount /sys/fs/cgroup
fi

dd if=/dev/urandom bs=1024 count=1 of="$S/munge/munge.key" 2>/dev/null
chmod 400 "$S/munge/munge.key"
munged --force --key-file="$S/munge/munge.key" --socket="$S/munge/munge.sock" --pid-file="$S/munge/munged.pid" \
    --log-file="$S/munge/munged.log" --seed-file="$S/munge/seed"

accounting='JobAcctGatherType=jobacct_gather/none'
if [ "${ACCOUNTING:-0}" = 1 ]; then
    mariadb-install-db --no-defaults --user=root --datadir="$S/db" --auth-root-authentication-method=normal \
        --skip-test-db >"$S/log/install-db" 2>&1
    # MariaDB 11.8 must not isolate snapshots: slurmdbd's transactions do not expect it.
    mariadbd --no-defaults --user=root --datadir="$S/db" --socket="$S/run/db.sock" --pid-file="$S/run/db.pid" \
        --bind-address=127.0.0.1 --innodb-buffer-pool-size=64M --loose-innodb-snapshot-isolation=OFF \
        >"$S/log/mariadbd" 2>&1 &
    sql() { mariadb --no-defaults -uroot -S "$S/run/db.sock" -e "$1" >/dev/null 2>&1; }
    wait_for MariaDB 60 sql 'select 1'
    for host in localhost 127.0.0.1; do
        sql "create user slurm@'$host' identified by 'slurm'; grant all on slurm.* to slurm@'$host'"
    done
    sql 'create database slurm'
    cat >"$S/slurmdbd.conf" <<E
AuthType=auth/munge
AuthInfo=socket=$S/munge/munge.sock
DbdHost=ctl
DbdAddr=127.0.0.1
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
LogFile=$S/log/slurmdbd.log
PidFile=$S/run/slurmdbd.pid
E
    chmod 600 "$S/slurmdbd.conf"
    # AccountingStoragePass is munge's socket; without it sacctmgr waits for ever.
    accounting="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePass=$S/munge/munge.sock
AccountingStorageTRES=gres/gpu,gres/shard
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/none"
fi
cat >"$S/slurm.conf" <<E
ClusterName=harbour
SlurmctldHost=ctl(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$S/munge/munge.sock
StateSaveLocation=$S/state
SlurmdSpoolDir=$S/spool/%n
SlurmctldPidFile=$S/run/slurmctld.pid
SlurmdPidFile=$S/run/slurmd.%n.pid
SlurmctldLogFile=$S/log/slurmctld.log
SlurmdLogFile=$S/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
MpiDefault=none
$accounting
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=10
ReturnToService=2
SchedulerParameters=sched_min_interval=0,sched_interval=1,batch_sched_delay=0
GresTypes=gpu,shard
SlurmdParameters=config_overrides
PluginDir=$plugins:$S/plugins
PlugStackConfig=$S/plugstack.conf
NodeName=n[1-2] NodeHostname=ctl NodeAddr=127.0.0.1 Port=[7001-7002] CPUs=8 CoresPerSocket=8 RealMemory=8000 Gres=gpu:h200:2,shard:280
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
E
[ "$version" -lt 2405 ] || echo 'CgroupPlugin=disabled' >"$S/cgroup.conf"
cat >"$S/gres.conf" <<E
AutoDetect=off
NodeName=n[1-2] Name=gpu Type=h200 File=$S/gpu[0-1]
NodeName=n[1-2] Name=shard Count=280
E
: >"$S/plugstack.conf"
export SLURM_CONF="$S/slurm.conf" S version
# shellcheck source=/dev/null
[ ! -e "$S/before.sh" ] || . "$S/before.sh"
if [ "${ACCOUNTING:-0}" = 1 ]; then
    slurmdbd
    wait_for slurmdbd 30 timeout 5 sacctmgr -n show cluster >"$S/log/sacctmgr" 2>&1
    sacctmgr -iQ add cluster harbour >/dev/null 2>&1 || true
fi
failed() { # WHAT LOG
    say "$1 does not start"
    tail -n 8 "$S/log/$2" >&2
    exit 4
}
slurmctld -c || failed slurmctld slurmctld.log
for n in n1 n2; do slurmd -N $n || failed "slurmd $n" "slurmd.$n.log"; done
idle() { [ "$(timeout 5 sinfo -h -N -o %T 2>/dev/null | grep -c idle)" = 2 ]; }
wait_for 'two idle nodes' 30 idle
status=0
"$@" <&3 3<&- || status=$?
if [ -n "${LOGS:-}" ]; then tail -n 40 "$S"/log/slurm*.log >&2; fi
exit "$status"
