#!/bin/sh
# plimsoll watch against a fake libnvidia-ml.so.1 (tests/fake_nvml.c): what it writes, a command's processes, signals and
# exit code, peaks, a daemon that is there, dead, slow or of another opinion. No card is needed, and none is used.
. "$ROOT/tests/case.sh"
fake_of() { # AGE: a folder with a libnvidia-ml.so.1 of that age (fake_nvml.c)
    mkdir -p "$work/fake$1"
    ln -sf "$BUILD/tests/libfake-nvml-$1.so" "$work/fake$1/libnvidia-ml.so.1"
    echo "$work/fake$1"
}
LD_LIBRARY_PATH=$(fake_of 0)
FAKE_NVML=$work/nvml
export LD_LIBRARY_PATH FAKE_NVML
unset SLURM_JOB_ID SLURM_CLUSTER_NAME NO_COLOR PLIMSOLL_TOKEN || true

# What the fake answers from now on; replaced whole, since it may be read at any time.
answers() {
    cat >"$FAKE_NVML.new"
    mv "$FAKE_NVML.new" "$FAKE_NVML"
}
one_card() {
    answers <<END
driver 580.65.06
card 0 NVIDIA_H200 143771 1000
energy 0 1000000
power 0 300000 700000
gpm 0 60 30 20 10
rates 0 90 10
END
}
watch() { "$PLIMSOLL" watch "$@"; }
# Waits until a command succeeds, ten seconds at most.
until_true() {
    n=0
    while ! "$@"; do
        n=$((n + 1))
        [ "$n" -lt 100 ] || { echo "never: $*"; return 1; }
        sleep 0.1
    done
}
# A job: job.sh, sourced by commands below. `memory PID MIB [PID MIB]...` is what its processes have from now on; `kept LINE`
# is behind that.
cat >"$work/job.sh" <<'END'
kept=
memory() {
    {
        printf 'card 0 NVIDIA_H200 143771 1000\nenergy 0 %s\npower 0 300000 700000\ngpm 0 60 30 20 10\nrates 0 90 10\n' "${joules:-1000}000"
        while [ $# -gt 1 ]; do
            echo "process 0 $1 $2"
            shift 2
        done
        echo "$kept"
    } >"$FAKE_NVML.$$"
    mv "$FAKE_NVML.$$" "$FAKE_NVML"
}
END

# ---- what is written ----

lines_of_json() {
    one_card
    echo "process 0 $$ 2900" >>"$FAKE_NVML"
    gives 0 watch --json --interval 150ms --duration 450ms
    silent err
    [ "$(wc -l <out)" -ge 1 ] && [ "$(wc -l <out)" -le 3 ] # a busy machine misses some
    tail -n 1 out >last
    is "$(value schema <last)" 1
    is "$(value cards.0.name <last)" 'NVIDIA H200'
    is "$(value cards.0.memory_total_bytes <last)" 150754820096
    is "$(value cards.0.memory_used_bytes <last)" 1048576000
    is "$(value cards.0.smact <last)" 60
    is "$(value cards.0.temperature_c <last)" null
    is "$(value cards.0.processes.0.pid <last)" $$
    is "$(value cards.0.processes.0.memory_bytes <last)" 3040870400
    is "$(value cards.0.processes.0.smact <last)" 60
    is "$(value cards.0.processes.0.sm_util <last)" null
    is "$(value cards.0.processes.0.user <last)" "$(id -un)"
    is "$(value cards.0.processes.0.job <last)" null
}

what_an_old_driver_lacks_is_null() {
    one_card
    LD_LIBRARY_PATH=$(fake_of 3)
    gives 0 watch --json --interval 150ms --duration 300ms
    tail -n 1 out >last
    for key in smact smocc drama tensor energy_j memory_reserved_bytes; do is "$(value "cards.0.$key" <last)" null; done
    is "$(value cards.0.gpu_util <last)" 90
    gives 0 watch --prometheus - --duration 100ms
    if grep -e sm_activity -e energy -e temperature out; then false; fi
    says out '^plimsoll_gpu_utilization_ratio{.*} 0.9$'
}

plain_lines() {
    one_card
    { echo 'process 0 999999999 100'; echo 'card 1 Old 1000 5'; echo 'fault nvmlDeviceGetComputeRunningProcesses 4 1'; } >>"$FAKE_NVML"
    gives 0 watch --interval 150ms --duration 300ms
    is "$(grep -c '^TIME  ' out)" 1
    says out '1000.0 MiB    60%    30%    20%    90%   300 W  NVIDIA H200$'
    says out ' 0        999999999  -             100.0 MiB    60% .*  -$'
    says out '5.0 MiB      -      -      -      -       -  Old$'
    if grep "$(printf '\033')" out; then false; fi
}

# A process that goes on as another program is shown as that.
commands_after_exec() {
    one_card
    sh -c 'while [ ! -e go ]; do sleep 0.05; done; exec sleep 31' &
    process=$!
    echo "process 0 $process 100" >>"$FAKE_NVML"
    "$PLIMSOLL" watch --json --interval 50ms >out &
    watcher=$!
    until_true grep -q '"command":"sh -c while' out
    : >go
    until_true grep -q '"command":"sleep 31"' out
    kill "$watcher" "$process"
}

a_lost_card_is_told() {
    one_card
    echo 'fault nvmlDeviceGetMemoryInfo 15 0' >>"$FAKE_NVML"
    gives 0 watch --json --duration 100ms
    is "$(value cards.0.state <out)" lost
    is "$(value cards.0.memory_used_bytes <out)" null
    is "$(value cards.0.processes <out)" null
    gives 0 watch --prometheus - --duration 100ms
    says out '^plimsoll_gpu_up{.*} 0$'
    if grep memory_used out; then false; fi
}

prometheus_text() {
    one_card
    echo "process 0 $$ 100" >>"$FAKE_NVML"
    sed -i 's/NVIDIA_H200/Odd\\"name/' "$FAKE_NVML"
    gives 0 watch --prometheus metrics --interval 100ms --duration 300ms
    silent out
    silent err
    is "$(find . -name '*metrics*' -o -name '.plimsoll*' | wc -l)" 1 # none is left beside it
    says metrics '^plimsoll_gpu_memory_used_bytes{gpu="0",uuid="GPU-0",name="Odd\\\\\\"name"} 1048576000$'
    says metrics '^plimsoll_gpu_sm_activity_ratio{.*} 0.6$'
    says metrics '^# TYPE plimsoll_gpu_energy_joules_total counter$'
    says metrics "^plimsoll_process_memory_bytes{gpu=\"0\",pid=\"$$\",uuid=\"GPU-0\",user=\".*\",job=\"\"} 104857600\$"
    # Each metric has its head once, before its samples; a line is a name, labels and a number.
    awk '/^# TYPE/ { if (typed[$3]++) exit 1; next } /^#/ { next }
        { name = $1; sub(/\{.*/, "", name); if (!typed[name]) exit 2 }
        !/^[a-z_]+(\{.*\})? [-+0-9.e]+$/ { exit 3 }' metrics
    command -v promtool >/dev/null || return 0
    cp metrics given
    promtool check metrics <given
}

a_file_that_cannot_be_written_is_told_once() {
    one_card
    gives 0 watch --prometheus no-such-folder/metrics --interval 50ms --duration 400ms
    is "$(wc -l <err)" 1
    says err 'no-such-folder/metrics: No such file'
}

a_full_disk_ends_it() {
    one_card
    [ -c /dev/full ] || skip 'a_full_disk_ends_it: no /dev/full'
    code=0
    timeout 20 "$PLIMSOLL" watch --json --interval 50ms >/dev/full 2>err || code=$?
    is "$code" 4
    says err 'standard output: No space'
}

instances_of_mig() {
    answers <<END
card 0 NVIDIA_H100 81559 5000
mig 0 1 0 40320 2000
miggpm 0 1 10 11 12 13
process 0 $$ 1900 compute 1 0
END
    gives 0 watch --json --interval 150ms --duration 300ms
    tail -n 1 out >last
    is "$(value cards.0.divided <last)" true
    is "$(value cards.1.gpu_instance <last)" 1
    is "$(value cards.1.smact <last)" 10
    is "$(value cards.1.processes.0.pid <last)" $$
    gives 0 watch --duration 150ms
    says out ' 0:1:0 .*1.86 GiB'
}

# terminal KEYS COMMAND...: on one of 80 columns and 24 rows, of 60 and 10 once figures are there; then the keys. What it
# writes is in ./shown.
cat >"$work/terminal.py" <<'END'
import fcntl, os, pty, select, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.execvp("env", ["env", *sys.argv[2:]])
def size(rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
size(24, 80)
keys = sys.argv[1].encode().decode("unicode_escape").encode()
steps = [(b"60%", lambda: size(10, 60)), (b" more", lambda: os.write(fd, keys))] # once the first is there, the second
text = b""
while True:
    if steps and (steps[0][0] in text or b"TIME" in text):
        steps.pop(0)[1]()
    if select.select([fd], [], [], 0.1)[0]:
        try:
            got = os.read(fd, 65536)
        except OSError:
            got = b""
        if not got:
            break
        text += got
open("shown", "wb").write(text)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
terminal() { timeout 60 python3 terminal.py "$@"; }
a_table_on_a_terminal() {
    command -v python3 >/dev/null || skip 'a_table_on_a_terminal: no python3'
    one_card
    for i in 1 2 3 4 5 6 7 8 9; do echo "process 0 $$$i 2900"; done >>"$FAKE_NVML"
    terminal '\003' TERM=xterm "$PLIMSOLL" watch --interval 100ms
    esc=$(printf '\033')
    says shown "^$esc\[?1049h$esc\[?25l"
    says shown "$esc\[?25h$esc\[?1049l"
    says shown "$esc\[1mplimsoll watch"
    says shown ' 0  H200  0.98 of 140.4 GiB    60%    30%    20%   90%    300'
    says shown '2.83 GiB      -     -  '
    says shown 'and [0-9]* more' # in 10 rows
    # No line is wider than the terminal was, and no screen higher: 24 of 80, then 10 of 60.
    sed "s/${esc}\\[J/\\n/g; s/\\r//g; s/${esc}\\[[?0-9]*[a-zA-Z]//g" shown >text
    awk 'length > 80 { print; exit 1 }' text
    NO_COLOR=1 terminal '\003' TERM=xterm "$PLIMSOLL" watch --interval 100ms
    if grep "$esc\[[0-9]*m" shown; then false; fi
    terminal '\003' TERM=dumb "$PLIMSOLL" watch --interval 100ms || [ $? -lt 128 ]
    if grep "$esc" shown; then false; fi
    says shown '^TIME  '
}

# Ctrl-C and its like end the watching in order, with the terminal as it was.
signals_end_it() {
    one_card
    for signal in INT TERM HUP; do
        rm -f out
        env --default-signal "$PLIMSOLL" watch --json --interval 50ms >out 2>err & # a shell has & ignore INT
        until_true test -s out
        kill -"$signal" $!
        code=0
        wait $! || code=$?
        is "$code" 0
        silent err
    done
}

what_nohup_ignores_stays_ignored() {
    one_card
    env --ignore-signal=HUP "$PLIMSOLL" watch --interval 30ms -- sh -c ': >ready; while [ ! -e stop ]; do sleep 0.05; done; exit 5' &
    until_true test -f ready
    kill -HUP $!
    sleep 0.2
    : >stop
    code=0
    wait $! || code=$?
    is "$code" 5
}

# ---- without a driver ----

without_a_driver() {
    LD_LIBRARY_PATH=
    gives 4 watch --duration 1s
    says err 'libnvidia-ml.so.1: no NVIDIA driver here: cannot open'
    gives 5 watch -- sh -c 'echo said; exit 5'
    is "$(cat out)" said
    says err 'no NVIDIA driver'
    says err 'peak       not known: there was no card'
    gives 0 watch --json -- true
    tail -n 1 err >last
    is "$(value peak_bytes <last)" null
    is "$(value smact <last)" null
}

# ---- a command ----

exit_codes_are_the_commands() {
    one_card
    for code in 0 1 7 42 255; do gives "$code" watch -- sh -c "exit $code"; done
    gives 137 watch -- sh -c 'kill -KILL $$'
    says err 'was ended by signal 9'
    gives 134 watch -- sh -c 'ulimit -c 0; kill -ABRT $$'
    gives 127 watch -- ./no-such-program
    says err 'no-such-program: No such file'
    : >plain
    gives 126 watch -- ./plain
    gives 2 watch --
    gives 2 watch true
    says err 'true: a command stands behind --: plimsoll watch -- true'
    gives 3 watch -- sh -c 'exit 3' --json -- x # all of it is the command's
}

its_input_and_output_are_its_own() {
    one_card
    head -c 300000 /dev/urandom >in
    "$PLIMSOLL" watch -- cat <in >out 2>err
    cmp in out
    "$PLIMSOLL" watch --json --out lines --interval 20ms -- sh -c 'cat; sleep 0.5; ls -l /proc/self/fd >&2' <in >out 2>err
    cmp in out
    is "$(head -n 1 lines | value schema)" 1
    # Nothing of the driver's, of files or of pipes is inherited.
    ls -l /proc/self/fd >alone
    is "$(grep -c ' -> ' err)" "$(grep -c ' -> ' alone)"
}

signals_reach_the_command() {
    one_card
    for signal in USR1 USR2 TERM HUP; do
        rm -f ready
        "$PLIMSOLL" watch -- sh -c "trap 'echo got $signal; exit 9' $signal; : >ready; while :; do sleep 0.05; done" >out 2>err &
        until_true test -f ready
        kill -"$signal" $!
        code=0
        wait $! || code=$?
        is "$code" 9
        is "$(cat out)" "got $signal"
    done
}

# A stopped command is one that has not ended.
a_stopped_command_goes_on() {
    one_card
    "$PLIMSOLL" watch -- sh -c 'echo $$ >pid; kill -STOP $$; exit 4' >out 2>err &
    until_true test -s pid
    until_true grep -q '^State:.T' "/proc/$(cat pid)/status"
    sleep 0.5
    kill -CONT "$(cat pid)"
    code=0
    wait $! || code=$?
    is "$code" 4
}

the_peak_by_samples() {
    one_card
    cat >train.sh <<'END'
. ./job.sh
joules=1000; memory $$ 1000; sleep 0.3
joules=1200; memory $$ 12000; sleep 0.4
joules=1300; memory $$ 3000; sleep 0.3
END
    gives 0 watch --interval 50ms --predicted 12GiB -- sh train.sh
    says err 'peak       11.72 GiB on card 0, the most of [0-9]* samples every 50.0 ms: shorter peaks are missed'
    says err 'predicted  12.00 GiB, 2.4 % too high'
    says err 'SMACT      60.0 % in the mean, SMOCC 30.0 %, DRAMA 20.0 %'
    says err 'energy     300 J of the cards it was on$'
    one_card
    gives 0 watch --interval 50ms --json -- sh train.sh
    is "$(value peak_bytes <err)" 12582912000
    is "$(value peak_by <err)" samples
    is "$(value predicted_bytes <err)" null
    is "$(value error <err)" null
    is "$(value smact <err)" 60
    is "$(value energy_j <err)" 300
    is "$(value energy_by <err)" counter
    is "$(value processes <err)" 1
}

the_peak_by_accounting() {
    one_card
    cat >train.sh <<'END'
. ./job.sh
memory $$ 1000; sleep 0.3
kept="account 0 $$ 20000 300"; memory
END
    gives 0 watch --interval 50ms --json -- sh train.sh
    is "$(value peak_bytes <err)" 20971520000
    is "$(value peak_by <err)" accounting
    is "$(value cards.0.sampled_bytes <err)" 1048576000
    is "$(value cards.0.accounted_bytes <err)" 20971520000
    one_card # one so short that no sample has it
    gives 0 watch --interval 10s --json -- sh -c '. ./job.sh; kept="account 0 $$ 777 3"; memory'
    is "$(value peak_bytes <err)" 814743552
    is "$(value peak_by <err)" accounting
    is "$(value samples <err)" 0
    one_card # two at a time: their sum is sampled, and accounting has each alone
    gives 0 watch --interval 50ms --json -- sh -c '. ./job.sh; sleep 5 & a=$!; memory $$ 1000 $a 2000; sleep 0.3
        kill $a; kept="account 0 $$ 1100 1
account 0 $a 2100 1"; memory'
    is "$(value peak_bytes <err)" 3145728000
    is "$(value peak_by <err)" samples
}

# Children, those of a shell that has ended, and those that made a session of their own; not a process of somebody else's.
a_tree_of_processes() {
    one_card
    sleep 60 &
    other=$!
    cat >tree.sh <<'END'
. ./job.sh
sleep 20 & child=$!
sh -c 'setsid sleep 20 & echo $! >orphan'
(setsid sh -c 'sh -c "echo \$\$ >deep; exec sleep 20" &') 
while [ ! -s deep ]; do sleep 0.02; done
memory $$ 100 $child 200 "$(cat orphan)" 400 "$(cat deep)" 800 "$1" 1600
sleep 0.5
kill $child "$(cat orphan)" "$(cat deep)"
END
    gives 0 watch --interval 50ms --json --out lines -- sh tree.sh "$other"
    kill "$other"
    is "$(value peak_bytes <err)" $((1500 * 1048576))
    is "$(value processes <err)" 4
    is "$(value smact <err)" null # another computes there too
    grep -o "\"pid\":$other,[^}]*\"job\":[a-z\"]*" lines | sort -u >theirs
    says theirs '"job":null$'
}

# Processes may be gone when they are looked at, and so may their files in /proc.
processes_vanish() {
    one_card
    cat >short.sh <<'END'
. ./job.sh
for i in 1 2 3 4 5 6 7 8; do
    sleep 0.01 & a=$!
    memory $$ 100 $a 50 $((a + 100000)) 7
    wait $a
    sleep 0.03
done
exit 6
END
    gives 6 watch --interval 10ms --json -- sh short.sh
    [ "$(value peak_bytes <err)" -le $((150 * 1048576)) ]
    [ "$(value peak_bytes <err)" -ge $((100 * 1048576)) ]
}

a_card_is_lost_under_a_command() {
    one_card
    gives 8 watch --interval 30ms --json -- sh -c '. ./job.sh; memory $$ 5000; sleep 0.3
        kept="fault nvmlDeviceGetMemoryInfo 15"; memory $$ 5000; sleep 0.3; exit 8'
    is "$(value peak_bytes <err)" 5242880000
    is "$(value smact <err)" 60
}

a_driver_that_does_not_say() {
    one_card
    gives 0 watch --interval 30ms -- sh -c '. ./job.sh; memory $$ -1; sleep 0.3'
    says err 'peak       not known: the driver does not say'
}

# In a container the driver may have the host's process ids, which mean nothing there.
ids_of_another_namespace() {
    unshare -p -f --mount-proc true 2>/dev/null || skip 'ids_of_another_namespace: no namespaces here'
    one_card
    echo 'process 0 3999001 9000' >>"$FAKE_NVML" # there before: another's
    code=0
    unshare -p -f --mount-proc "$PLIMSOLL" watch --interval 30ms --json -- sh -c \
        '. ./job.sh; sleep 0.2; memory 3999001 9000 3999002 5000; sleep 0.4' 2>err || code=$?
    is "$code" 0
    is "$(value peak_bytes <err)" 5242880000
    is "$(value by_elimination <err)" true
    # and where the driver translates them, they are the command's own
    unshare -p -f --mount-proc "$PLIMSOLL" watch --interval 30ms --json -- sh -c \
        '. ./job.sh; sleep 0.2; memory $$ 4000; sleep 0.4' 2>err
    is "$(value peak_bytes <err)" 4194304000
    is "$(value by_elimination <err)" false
    # on the machine itself such a process is another's
    one_card
    gives 0 watch --interval 30ms --json -- sh -c '. ./job.sh; sleep 0.2; memory 3999002 5000; sleep 0.3'
    is "$(value peak_bytes <err)" null
}

predictions() {
    one_card
    "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml" --batch 64 --json >estimate.json
    peak=$(value memory.peak_bytes <estimate.json)
    cp "$ROOT/examples/mlp.yaml" 'my model.yaml'
    for args in estimate.json "'my model.yaml' --batch 64" 'my\ model.yaml --batch=64 --gpu h200'; do
        gives 0 watch --json --predict "$args" -- true
        is "$(value predicted_bytes <err)" "$peak"
    done
    sed -i 's/NVIDIA_H200/Unheard-of/' "$FAKE_NVML"
    gives 0 watch --json --predict "'my model.yaml' --batch 64" -- true
    says err 'Unheard-of is not in the catalogue'
    tail -n 1 err >last
    is "$(value predicted_bytes <last)" null
    one_card
    gives 2 watch --predict "no 'end" -- touch ran
    gives 2 watch --predict "'my model.yaml' --no-such" -- touch ran
    [ ! -e ran ]
    gives 0 watch --predict no-such-model -- touch ran
    [ -e ran ]
    says err 'no-such-model'
    gives 2 watch --predict x --predicted 5GiB -- true
    gives 2 watch --predicted 5GiB
    gives 2 watch --predicted five -- true
}

# The script is asked by the interpreter that it is to run under, with its own flags.
a_python_script_is_asked() {
    one_card
    "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml" --json >estimate.json
    cat >python3-fake <<'END'
#!/bin/sh
echo "$*" >>asked
case $* in *broken.py*) exit 3 ;; *-m\ plimsoll*) cat estimate.json ;; *) echo trained ;; esac
END
    chmod +x python3-fake
    gives 0 watch --json --predict-script -- ./python3-fake -u -X dev train.py --epochs 3
    is "$(value predicted_bytes <err)" "$(value memory.peak_bytes <estimate.json)"
    is "$(cat out)" trained
    is "$(cat asked)" '-u -X dev -m plimsoll --json --gpu h200 train.py --epochs 3
-u -X dev train.py --epochs 3'
    for words in './python3-fake broken.py' 'sh -c :' './python3-fake -c pass'; do
        # shellcheck disable=SC2086
        "$PLIMSOLL" watch --json --predict-script -- $words >out 2>err || true
        says err 'no prediction'
        tail -n 1 err >last
        is "$(value predicted_bytes <last)" null
    done
}

usage() {
    one_card
    gives 2 watch --interval 1ms
    gives 2 watch --duration 3s -- true
    gives 2 watch --prometheus - -- true
    gives 2 watch --post ftp://x
    gives 2 watch --post https://x
    gives 2 watch --post http://
    gives 2 watch --post unix:
    gives 2 watch --post unix:/x -- true
    says err 'no Slurm job: name it by --job'
    gives 2 watch --job x
    gives 4 watch --out no-such-folder/x --duration 1s
}

# ---- a daemon ----

daemon() { # one of our own on the socket ./sock; its id is $daemon
    [ -x "$BUILD/plimsoll-serve" ] || skip "$case_name: the daemon was not built"
    "$BUILD/plimsoll-serve" --listen none --socket "$work/sock" --data "$work/data" --log off 2>serve.err &
    daemon=$!
    until_true test -S "$work/sock"
}
jobs_json() { # what the daemon knows
    python3 - "$work/sock" <<'END'
import http.client, socket, sys
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("GET", "/v1/jobs")
print(connection.getresponse().read().decode())
END
}

a_daemon_is_told() {
    command -v python3 >/dev/null || skip 'a_daemon_is_told: no python3'
    case_name=a_daemon_is_told
    daemon
    one_card
    cat >train.sh <<'END'
. ./job.sh
memory $$ 1000; sleep 0.3; memory $$ 2000; sleep 0.3; exit 3
END
    gives 3 watch --interval 50ms --post "unix:$work/sock" --job mine --predicted 2GiB -- sh train.sh
    if grep -q 'tried again' err; then cat err; false; fi
    jobs_json >jobs.json
    is "$(value jobs.0.job <jobs.json)" mine
    is "$(value jobs.0.state <jobs.json)" ended
    is "$(value jobs.0.gpu <jobs.json)" h200
    is "$(value jobs.0.peak_bytes <jobs.json)" 2097152000
    is "$(value jobs.0.predicted_bytes <jobs.json)" 2147483648
    is "$(value jobs.0.exit_code <jobs.json)" 3
    # A Slurm job is Slurm's to end.
    one_card
    (export SLURM_JOB_ID=77 SLURM_CLUSTER_NAME=lab; gives 3 watch --interval 50ms --post "unix:$work/sock" -- sh train.sh)
    jobs_json >jobs.json
    is "$(value jobs.0.job <jobs.json)" slurm:lab:77
    is "$(value jobs.0.state <jobs.json)" seen
    is "$(value jobs.0.peak_bytes <jobs.json)" 2097152000
    # Without a command: every job of the machine, by its own environment; processes of none are not told of.
    SLURM_JOB_ID=78 SLURM_CLUSTER_NAME=lab sleep 30 &
    task=$!
    sleep 30 &
    none=$!
    one_card
    { echo "process 0 $task 300"; echo "process 0 $none 400"; } >>"$FAKE_NVML"
    gives 0 watch --interval 50ms --duration 300ms --post "unix:$work/sock"
    silent out
    kill "$task" "$none"
    jobs_json >jobs.json
    is "$(value jobs.0.job <jobs.json)" slurm:lab:78
    is "$(value jobs.0.peak_bytes <jobs.json)" 314572800
    is "$(grep -o '"job":' jobs.json | wc -l)" 3
    kill "$daemon"
    wait "$daemon"
}

# Where the environment does not say it, the cgroup does: here a file that is laid over it.
a_slurm_job_by_its_cgroup() {
    one_card
    cat >inside.sh <<'END'
sleep 60 &
process=$!
echo '0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0' >cgroup
mount --bind cgroup /proc/$process/cgroup || exit 77
echo "process 0 $process 100" >>"$FAKE_NVML"
SLURM_CLUSTER_NAME=lab "$PLIMSOLL" watch --json --duration 100ms >out
kill $process
END
    code=0
    PLIMSOLL=$PLIMSOLL unshare -m sh inside.sh 2>err || code=$?
    case $code in 1 | 77) skip 'a_slurm_job_by_its_cgroup: no mounts here' ;; esac
    is "$(value cards.0.processes.0.job <out)" slurm:lab:4711
    { echo "process 0 $$ 7"; } >>"$FAKE_NVML"
    gives 0 watch --json --duration 100ms
    if grep -q '"job":"' out; then false; fi
}

a_daemon_that_dies_is_told_of_once() {
    command -v python3 >/dev/null || skip 'a_daemon_that_dies_is_told_of_once: no python3'
    case_name=a_daemon_that_dies_is_told_of_once
    one_card
    gives 3 watch --interval 30ms --post "unix:$work/nobody" --job x -- sh -c '. ./job.sh; memory $$ 1000; sleep 0.3; exit 3'
    is "$(grep -c 'nobody: .*tried again' err)" 1
    gives 3 watch --interval 30ms --post http://127.0.0.1:9 --job x -- sh -c 'exit 3'
    is "$(grep -c 'tried again' err)" 1
    daemon
    one_card
    "$PLIMSOLL" watch --interval 30ms --post "unix:$work/sock" --job y -- sh -c \
        '. ./job.sh; memory $$ 1000; : >ready; while [ ! -e go ]; do sleep 0.05; done; memory $$ 3000; sleep 0.3; exit 4' 2>err &
    watcher=$!
    until_true test -e ready
    kill -KILL "$daemon"
    wait "$daemon" || true
    : >go
    code=0
    wait "$watcher" || code=$?
    is "$code" 4
    is "$(grep -c 'tried again' err)" 1
    says err 'peak       2.93 GiB'
}

# One that takes a connection and says nothing, one that speaks something else, one that refuses, one that answers and does
# not hang up.
daemons_of_another_opinion() {
    command -v python3 >/dev/null || skip 'daemons_of_another_opinion: no python3'
    cat >server.py <<'END'
import socket, sys, threading
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(16)
print(listener.getsockname()[1], flush=True)
kept = []
while True:
    peer, _ = listener.accept()
    kept.append(peer)
    if sys.argv[1] == "silent":
        continue
    request = peer.recv(65536)
    open("asked", "ab").write(request)
    if sys.argv[1] == "open":
        peer.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
        continue
    if sys.argv[1] == "garbage":
        peer.sendall(b"\x00\x01SSH-2.0-garbage\r\n" * 3000)
    else:
        body = b'{"status":401,"detail":"a token is needed","code":"denied"}'
        peer.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    peer.close()
END
    for kind in silent garbage refusing open; do
        python3 server.py "$kind" >port &
        server=$!
        until_true test -s port
        one_card
        gives 3 env PLIMSOLL_TOKEN=secret-word "$PLIMSOLL" watch --interval 30ms --post "http://127.0.0.1:$(cat port)/base/" --job x -- \
            sh -c '. ./job.sh; memory $$ 1000; sleep 0.2; exit 3'
        is "$(grep -c 'tried again' err)" "$([ "$kind" = open ] && echo 0 || echo 1)"
        case $kind in
        garbage) says err 'speaks no HTTP' ;;
        refusing) says err 'a token is needed' ;;
        esac
        kill "$server"
        rm port
    done
    says asked '^POST /base/v1/jobs HTTP/1.1'
    says asked '^Authorization: Bearer secret-word'
}

# Of 8 cards and 64 processes: told for people, not judged, since machines differ.
what_it_costs() {
    i=0
    while [ "$i" -lt 64 ]; do
        [ "$i" -ge 8 ] || echo "card $i NVIDIA_H200 143771 100
rates $i 5 5
power $i 1 2
gpm $i 1 2 3 4"
        sleep 30 &
        echo "process $((i % 8)) $! 10"
        echo $! >>sleepers
        i=$((i + 1))
    done >list
    answers <list
    cat >cost.sh <<'END'
"$PLIMSOLL" watch --json --interval 20ms --duration 2s >out
times
END
    PLIMSOLL=$PLIMSOLL sh cost.sh >cost.times
    # shellcheck disable=SC2046
    kill $(cat sleepers)
    is "$(grep -o '"pid"' out | wc -l)" $((64 * $(wc -l <out)))
    # user and system time of the children, the last line: 0m1.234s
    awk -v samples="$(wc -l <out)" 'END { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); s += 60 * t[1] + t[2] }
        printf "# %d samples of 8 cards and 64 processes as JSON: %.2f ms of processor time each, the start included\n", samples, 1000 * s / samples }' cost.times
}

for name in lines_of_json what_an_old_driver_lacks_is_null plain_lines commands_after_exec a_lost_card_is_told prometheus_text \
    a_file_that_cannot_be_written_is_told_once a_full_disk_ends_it instances_of_mig a_table_on_a_terminal signals_end_it what_nohup_ignores_stays_ignored \
    without_a_driver exit_codes_are_the_commands its_input_and_output_are_its_own signals_reach_the_command \
    a_stopped_command_goes_on the_peak_by_samples the_peak_by_accounting a_tree_of_processes processes_vanish \
    a_card_is_lost_under_a_command a_driver_that_does_not_say ids_of_another_namespace predictions a_python_script_is_asked usage a_slurm_job_by_its_cgroup a_daemon_is_told \
    a_daemon_that_dies_is_told_of_once daemons_of_another_opinion what_it_costs; do
    try $name
done
done_testing
