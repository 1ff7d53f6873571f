# shellcheck shell=sh disable=SC2154,SC2034,SC2016 # S is cluster.sh's, case.sh uses some names, jobs expand others
# cases.sh: what is held of the plugins on a real cluster; run inside cluster.sh, with what before.sh made.
ROOT=$S/files BUILD=$S/files PLIMSOLL=-
# shellcheck source=/dev/null
. "$S/files/case.sh"
conf=$S
all=$conf/slurm.conf    # SPANK plugin, cli_filter, job_submit
spank=$conf/spank.conf  # without cli_filter
plain=$conf/plain.conf  # a submit host with neither
M=$S/files/llama-7b.json
small="$M,batch=1,seq=1024,precision=bf16" # 72 shards of 140
hopeless="$M,batch=64,seq=4096,precision=bf16"
# Alone the longest that a command may hang; no test is about time.
sbatch() { timeout 30 sbatch "$@"; }
srun() { timeout 30 srun "$@"; }
salloc() { timeout 30 salloc "$@"; }

wait_until() { # WHAT COMMAND...
    what=$1
    shift
    left=300
    until "$@"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { echo "$what did not come"; false; }
        sleep 0.05
    done
}
gone() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ]; }
over() { wait_until "the end of job $1" gone "$1"; }
runs() { [ "$(squeue -h -j "$1" -o %T 2>/dev/null)" = RUNNING ]; }
job_line() { scontrol show job "$1" | grep -o "$2=[^ ]*" | head -n 1; }
asks_for() { [ "$(job_line "$1" TresPerNode | sed 's/.*gres[:/]//')" = "$2" ] || { scontrol show job "$1"; false; }; }
whole_gpu() { scontrol show job "$1" | grep -q 'TresPer.*gpu[:=]' || { scontrol show job "$1"; false; }; }
http() { curl -s -m 10 --unix-socket "$S/run/plimsoll.sock" "$@"; }
digest() { http --data-binary "@$1" http://x/v1/models | grep -o 'sha256:[0-9a-f]*'; }
stopped() { ! grep -h '^State:' /proc/"$(daemon_pid)"/task/*/status | grep -qv 'T (stopped)'; }
daemon_pid() { cat "$S/run/daemon.pid"; }
# As a submit host would have: computed once, and at hand from then on.
warm() {
    http -d "{\"model\":\"${known%%,*}\",\"batch\":1,\"seq\":1024,\"precision\":\"bf16\",\"gpu\":\"h200\"}" http://x/v1/estimate >/dev/null
    asked_again
}
asked_again() { sleep 0.4; } # rest-ms is 300
longest() { sed -n 's/.*(\([0-9]*\) us)$/\1/p' "$S/log/slurmctld.log" | sort -n | tail -n 1; }
empty() { [ -z "$(squeue -h)" ]; }
clear_jobs() { scancel -p gpu 2>/dev/null || true; wait_until 'an empty queue' empty; }

# ---- what fits ----

a_job_that_fits_runs_on_its_shards() {
    for SLURM_CONF in "$all" "$spank"; do
        export SLURM_CONF
        job=$(sbatch --parsable -o "$work/out.%j" --plimsoll="$small" --gres=gpu:1 \
            --wrap 'echo "gpu $CUDA_VISIBLE_DEVICES shards $SLURM_SHARDS_ON_NODE"; srun sh -c "echo step $CUDA_VISIBLE_DEVICES"' 2>err)
        says err 'plimsoll: fits h200: up to 70.6 GiB of 140 GiB: shard:72 in place of gpu:1'
        asks_for "$job" shard:72
        over "$job"
        says "$work/out.$job" 'gpu [01] shards 72'
        says "$work/out.$job" '^step [01]$'
        scontrol show job "$job" >shown
        says shown 'AdminComment={"plimsoll":{"model":"sha256:[0-9a-f]*","settings":"batch=1,seq=1024,precision=bf16","gpu":"h200","peak_bytes":75078041600,.*"verdict":"fits"'
    done
}

# srun asks for its step's GPUs by itself, salloc leaves them in the environment: both in every way that one GPU is asked for.
every_way_to_ask_for_one_gpu() {
    export SLURM_CONF="$all"
    for way in --gres=gpu:1 --gres=gpu --gres=gpu:h200:1 --gpus=1 --gpus=h200:1 --gpus-per-node=1; do
        gives 0 srun --plimsoll="$small" "$way" sh -c 'echo "shards $SLURM_SHARDS_ON_NODE on $CUDA_VISIBLE_DEVICES"'
        says out 'shards 72 on [01]'
        gives 0 salloc --plimsoll="$small" "$way" srun sh -c 'echo "shards $SLURM_SHARDS_ON_NODE"'
        says out 'shards 72'
        # A host without the plugins: by the comment, in slurmctld.
        job=$(SLURM_CONF=$plain sbatch --parsable -o "$work/out.%j" --comment="plimsoll:$(digest "$M"),batch=1,seq=1024,precision=bf16" \
            "$way" --wrap 'srun sh -c "echo shards \$SLURM_SHARDS_ON_NODE"')
        over "$job"
        says "$work/out.$job" 'shards 72'
    done
}

two_jobs_share_a_gpu() {
    export SLURM_CONF="$all"
    jobs=
    for i in 1 2 3 4 5; do
        # 64 shards: two to a GPU of 140, four to a node.
        jobs="$jobs $(sbatch --parsable -w n1 --mem=1 -o "$work/on.%j" --plimsoll="$M,batch=1,seq=64,train=head" --gres=gpu:1 \
            --wrap 'echo "card $CUDA_VISIBLE_DEVICES"; sleep 60' 2>>err)"
    done
    shards=$(job_line "${jobs##* }" TresPerNode | sed 's/.*shard://')
    echo "# $shards shards each"
    [ "$shards" -gt 1 ] && [ "$shards" -le 70 ]
    # shellcheck disable=SC2086 # numbers
    set -- $jobs
    for job in "$1" "$2" "$3" "$4"; do wait_until "job $job running" runs "$job"; done
    written() { [ "$(cat "$work"/on.* 2>/dev/null | wc -l)" -ge 4 ]; }
    wait_until 'their cards' written
    [ "$(cat "$work"/on.* | sort | uniq -c | awk '$1 >= 2' | wc -l)" -ge 1 ]
    clear_jobs
}

# ---- what does not ----

what_fits_no_gpu_is_refused() {
    for SLURM_CONF in "$all" "$spank"; do
        export SLURM_CONF
        for command in "sbatch --wrap true" "sbatch --array=1-4 --wrap true" "srun true" "salloc true"; do
            verb=${command%% *}
            # shellcheck disable=SC2086 # words
            gives 1 "$verb" --plimsoll="$hopeless" --gres=gpu:1 ${command#"$verb"}
            says err 'plimsoll: does not fit: needs at least 1.59 TiB of 140 GiB on h200'
            says err 'plimsoll: what would fit: batch=2,accumulate=32 .*; checkpoint=true,'
        done
    done
    [ -z "$(squeue -h)" ]
}

parts_of_a_heterogeneous_job_are_judged_each() {
    for SLURM_CONF in "$all" "$spank"; do
        export SLURM_CONF
        gives 1 sbatch --plimsoll="$small" --gres=gpu:1 : --plimsoll="$hopeless" --gres=gpu:1 --wrap true
        says err 'plimsoll: does not fit'
        job=$(sbatch --parsable -H --plimsoll="$small" --gres=gpu:1 : --gres=gpu:1 : --plimsoll="$small" --gres=gpu:2 --wrap true)
        scontrol show job "$job" >shown
        is "$(grep -o 'TresPerNode=.*' shown | sed 's/.*gres[:/]//' | tr '\n' ' ')" 'shard:72 gpu:1 gpu:2 '
        is "$(grep -c 'AdminComment={"plimsoll"' shown)" 2
        scancel "$job"
    done
    printf '#!/bin/sh\n#SBATCH --plimsoll=%s --gres=gpu:1\n#SBATCH hetjob\n#SBATCH --plimsoll=%s --gres=gpu:1\n' "$small" "$hopeless" >het.sh
    gives 1 sbatch het.sh
    says err 'plimsoll: does not fit'
    gives 1 srun --plimsoll="$small" --gres=gpu:1 true : --plimsoll="$hopeless" --gres=gpu:1 true
    says err 'plimsoll: does not fit'
    clear_jobs
}

shards_above_one_gpu_are_refused() {
    for SLURM_CONF in "$all" "$plain"; do
        export SLURM_CONF
        gives 1 sbatch --gres=shard:141 --wrap true
        says err 'plimsoll: 141 shards for a node are more than the 140 of one GPU'
        gives 1 srun --gres=shard:200 true
        says err 'more than the 140 of one GPU'
        gives 1 salloc -N2 --gres=shard:200 true
        says err 'more than the 140 of one GPU'
    done
    job=$(sbatch --parsable -H --gres=shard:10 --wrap true)
    gives 1 scontrol update job="$job" gres=shard:150
    asks_for "$job" shard:10
    gives 0 scontrol update job="$job" gres=shard:20
    clear_jobs
}

# ---- what was asked for stays ----

what_was_asked_for_stays() {
    export SLURM_CONF="$all"
    while read -r options; do
        # shellcheck disable=SC2086 # words
        gives 0 sbatch --parsable -H --plimsoll="$small" $options --wrap true
        whole_gpu "$(cat out)"
        # shellcheck disable=SC2086
        gives 0 env SLURM_CONF="$spank" sbatch --parsable -H --plimsoll="$small" $options --wrap true
        whole_gpu "$(cat out)"
        scontrol show job "$(cat out)" >shown
        says shown 'AdminComment={"plimsoll".*"verdict":"fits"'
    done <<E
--gres=gpu:2
--gres=gpu:h200:2
--gpus=2
--gpus-per-node=2
--gpus-per-task=1 -n1
--gpus-per-task=1 -n2
-N2 --gres=gpu:1
-n4 --gres=gpu:1
--exclusive --gres=gpu:1
--gres=gpu:1 --cpus-per-gpu=2
--gres=gpu:1 --mem-per-gpu=10
E
    gives 0 sbatch --parsable -H --plimsoll="$small" --gres=shard:100 --wrap true
    asks_for "$(cat out)" shard:100
    gives 0 sbatch --parsable -H --plimsoll="$small" --gres=shard:5 --wrap true
    asks_for "$(cat out)" shard:5
    says err 'which is 72 shards; shard:5 stays as it was asked for'
    # Nothing of plimsoll: nothing is touched, and nothing is said.
    gives 0 sbatch --parsable -H --gres=gpu:1 --wrap true
    silent err
    whole_gpu "$(cat out)"
    is "$(job_line "$(cat out)" AdminComment)" ''
    clear_jobs
}

# ---- where a request may stand ----

a_request_may_stand_in_four_places() {
    known=$(digest "$M"),batch=1,seq=1024,precision=bf16
    printf '#!/bin/sh\n# plimsoll: %s\ntrue\n' "$(echo "model=$known" | tr , ' ')" >line.sh
    printf '#!/bin/sh\n#SBATCH --plimsoll=%s\ntrue\n' "$small" >option.sh
    asks_72() { gives 0 "$@"; asks_for "$(cat out)" shard:72; }
    for SLURM_CONF in "$all" "$plain"; do
        export SLURM_CONF
        asks_72 sbatch --parsable -H --gres=gpu:1 --comment="plimsoll:$known" --wrap true
        asks_72 sbatch --parsable -H --gres=gpu:1 line.sh
        asks_72 env PLIMSOLL_JOB="$known" sbatch --parsable -H --gres=gpu:1 --wrap true
    done
    export SLURM_CONF="$all"
    asks_72 sbatch --parsable -H --gres=gpu:1 option.sh
    asks_72 env PLIMSOLL_JOB="$small" sbatch --parsable -H --gres=gpu:1 --wrap true
    asks_72 sbatch --parsable -H --gres=gpu:1 --export=NONE --plimsoll="$small" --wrap true
    mkdir folder && cp "$M" folder/config.json
    asks_72 sbatch --parsable -H --gres=gpu:1 --plimsoll=folder,batch=1,seq=1024,precision=bf16 --wrap true
    clear_jobs
}

what_is_wrong_is_said_where_it_is_submitted() {
    for SLURM_CONF in "$all" "$spank"; do
        export SLURM_CONF
        gives 1 sbatch --plimsoll=/does/not/exist.pt2 --gres=gpu:1 --wrap true
        says err 'plimsoll: /does/not/exist.pt2: No such file'
        gives 1 sbatch --plimsoll="$M,bacth=3" --gres=gpu:1 --wrap true
        says err "plimsoll: no setting is called 'bacth'"
        gives 1 srun --plimsoll="$M,batch=none" --gres=gpu:1 true
        says err 'plimsoll: a whole number'
        gives 1 salloc --plimsoll="$M,optimizer=adamm" --gres=gpu:1 true
        says err 'plimsoll: optimizer: .*adam'
        echo '{"model_type":' >broken.json
        gives 1 sbatch --plimsoll=broken.json --gres=gpu:1 --wrap true
        says err 'plimsoll: broken.json: '
    done
    # slurmctld reads no files of users.
    gives 1 env SLURM_CONF="$plain" sbatch --gres=gpu:1 --comment="plimsoll:$M" --wrap true
    says err 'plimsoll: the controller cannot read the file'
    gives 1 env SLURM_CONF="$plain" sbatch --gres=gpu:1 --comment="plimsoll:$(digest "$M"),batch=0" --wrap true
    says err 'plimsoll: a whole number of at least 1 is wanted'
    [ -z "$(squeue -h)" ]
}

# A job inside a job is another job.
nothing_is_inherited() {
    export SLURM_CONF="$all"
    cat >outer.sh <<E
#!/bin/sh
sbatch --parsable -H --gres=gpu:1 --wrap true >$work/inner 2>$work/inner.err
srun env | grep -c '^SLURM_SPANK_PLIMSOLL=model=sha256' >$work/steps
E
    job=$(sbatch --parsable -o /dev/null --plimsoll="$small" --gres=gpu:1 outer.sh)
    over "$job"
    whole_gpu "$(cat inner)"
    is "$(job_line "$(cat inner)" AdminComment)" ''
    is "$(cat steps)" 1
    clear_jobs
}

# ---- a daemon that is not ----

passes_untouched() { # what is said
    for SLURM_CONF in "$all" "$spank"; do
        export SLURM_CONF
        gives 0 sbatch --parsable -H --plimsoll="$known" --gres=gpu:1 --wrap true
        whole_gpu "$(cat out)"
        says err 'plimsoll: the job was not checked'
        is "$(grep -c 'not checked' err)" 1
        gives 0 sbatch --parsable -H --plimsoll="$small" --gres=gpu:1 --wrap true
        whole_gpu "$(cat out)"
        is "$(grep -c 'not checked' err)" 1
    done
    gives 0 env SLURM_CONF="$plain" sbatch --parsable -H --comment="plimsoll:$known" --gres=gpu:1 --wrap true
    whole_gpu "$(cat out)"
    tail -n 12 "$S/log/slurmctld.log" | grep 'plimsoll.*passes' >said
    says said "passes unchecked: .*$1"
    asked_again
}

# The settings' 20 s on the submit host would make these tests long.
hurry() { sed -i '/^submit-ms/d' "$S/plimsoll.conf"; echo "submit-ms = $1" >>"$S/plimsoll.conf"; }

a_daemon_that_is_gone_refuses_nobody() {
    known=$(digest "$M"),batch=1,seq=1024,precision=bf16
    kill -9 "$(daemon_pid)"
    passes_untouched 'nobody listens'
    # What needs no daemon is still refused.
    gives 1 env SLURM_CONF="$plain" sbatch --gres=shard:141 --wrap true
    for i in 1 2 3 4 5 6; do
        SLURM_CONF=$plain sbatch --parsable -H --comment="plimsoll:$known" --gres=gpu:1 --wrap true >>many 2>&1
    done
    says "$S/log/slurmctld.log" 'the daemon failed 3 times, and is left alone'
    rm -f "$S/run/plimsoll.sock"
    asked_again
    passes_untouched 'socket is not there'
    start_daemon
    warm
    gives 0 env SLURM_CONF="$plain" sbatch --parsable -H --comment="plimsoll:$known" --gres=gpu:1 --wrap true
    asks_for "$(cat out)" shard:72
    clear_jobs
}

a_daemon_that_is_stopped_refuses_nobody() {
    known=$(digest "$M"),batch=1,seq=1024,precision=bf16
    hurry 100
    kill -STOP "$(daemon_pid)"
    wait_until 'all threads stopped' stopped
    passes_untouched 'no answer in time'
    kill -CONT "$(daemon_pid)"
    hurry 20000
    warm
    gives 0 env SLURM_CONF="$plain" sbatch --parsable -H --comment="plimsoll:$known" --gres=gpu:1 --wrap true
    asks_for "$(cat out)" shard:72
    clear_jobs
}

a_daemon_that_lies_changes_nothing() {
    known=$(digest "$M"),batch=1,seq=1024,precision=bf16
    kill -9 "$(daemon_pid)"
    hurry 100
    while read -r way words; do
        "$S/files/slurm-liar" "$S/run/plimsoll.sock" "$way" &
        liar=$!
        wait_until 'the liar' test -S "$S/run/plimsoll.sock"
        sleep 0.05
        passes_untouched "$words"
        kill "$liar"
        rm -f "$S/run/plimsoll.sock"
    done <<E
garbage not HTTP
empty not an estimate
negative not an estimate
absurd not an estimate
contrary not an estimate
slow no answer in time
E
    hurry 20000
    start_daemon
    warm
    gives 0 env SLURM_CONF="$plain" sbatch --parsable -H --comment="plimsoll:$known" --gres=gpu:1 --wrap true
    asks_for "$(cat out)" shard:72
    clear_jobs
}

# plimsoll.conf is read anew when it changes; one that is wrong changes nothing.
settings_are_read_anew() {
    known=$(digest "$M"),batch=1,seq=1024,precision=bf16
    cp "$S/plimsoll.conf" kept
    export SLURM_CONF="$plain"
    echo 'shard = 2GiB' >>"$S/plimsoll.conf"
    gives 0 sbatch --parsable -H --comment="plimsoll:$known" --gres=gpu:1 --wrap true
    asks_for "$(cat out)" shard:36
    echo 'nonsense' >>"$S/plimsoll.conf"
    gives 0 sbatch --parsable -H --comment="plimsoll:$known" --gres=gpu:1 --wrap true
    asks_for "$(cat out)" shard:36
    says "$S/log/slurmctld.log" 'plimsoll.conf:[0-9]*: `name = value` is wanted; what was read before stays'
    cp kept "$S/plimsoll.conf"
    echo 'rewrite = no' >>"$S/plimsoll.conf"
    gives 0 sbatch --parsable -H --comment="plimsoll:$known" --gres=gpu:1 --wrap true
    whole_gpu "$(cat out)"
    cp kept "$S/plimsoll.conf"
    clear_jobs
}

# ---- what a job took ----

# Slurm may call a job ended before its last slurmstepd has.
told_ended() { http "http://x/v1/jobs?job=slurm:harbour:$1" >told && grep -q '"state":"ended"' told; }
hears_the_end() { wait_until "the end of job $1 at the daemon" told_ended "$1"; }

the_daemon_hears_what_a_job_took() {
    export SLURM_CONF="$all"
    cat >train.sh <<E
#!/bin/sh
echo "0 \$\$ 5000000000" >$S/plugins/nvml.txt
echo "0 1 99000000000" >>$S/plugins/nvml.txt
sleep 0.4
echo "0 \$\$ 61000000000" >$S/plugins/nvml.txt
echo "1 \$\$ 7000000000" >>$S/plugins/nvml.txt
sleep 0.4
echo "0 \$\$ 4000000000" >$S/plugins/nvml.txt
sleep 0.2
exit 3
E
    job=$(sbatch --parsable -o /dev/null --plimsoll="$small" --gres=gpu:1 train.sh)
    over "$job"
    hears_the_end "$job"
    says told '"peak_bytes":61000000000,'
    says told '"predicted_bytes":75078041600,"upper_bytes":75812956358,'
    says told '"exit_code":3,"family":"transformer"'
    says told '"gpu":"h200","model":"sha256:'
    rm -f "$S/plugins/nvml.txt"
    # By a comment alone, and where nothing was seen: null, not 0.
    job=$(SLURM_CONF=$plain sbatch --parsable -o "$work/out.%j" --comment="plimsoll:$(digest "$M"),batch=1,seq=1024,precision=bf16" --gres=gpu:1 \
        --wrap 'env | grep PLIMSOLL')
    over "$job"
    says "out.$job" '^SLURM_SPANK_PLIMSOLL=model=sha256:'
    hears_the_end "$job"
    says told '"peak_bytes":null'
    says told '"exit_code":0'
    gives 0 srun --plimsoll="$small" --gpus=1 sh -c 'echo $SLURM_JOB_ID'
    hears_the_end "$(cat out)"
}

# Users other than root open the socket where they may; where they may not, their jobs pass, and slurmctld judges them.
users_are_not_root() {
    known=$(digest "$M"),batch=1,seq=1024,precision=bf16
    export SLURM_CONF="$all"
    user="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp"
    chmod 755 "$S/files" "$S/files/llama-7b.json"
    chmod 777 "$S/run/plimsoll.sock"
    cd /tmp || exit 1
    # shellcheck disable=SC2086 # words
    job=$(timeout 30 $user sbatch --parsable -o /dev/null --plimsoll="$small" --gres=gpu:1 --wrap true)
    asks_for "$job" shard:72
    over "$job"
    (cd "$work" && hears_the_end "$job")
    chmod 700 "$S/run/plimsoll.sock"
    # shellcheck disable=SC2086
    job=$(timeout 30 $user sbatch --parsable -H --plimsoll="$known" --gres=gpu:1 --wrap true 2>"$work/err")
    asks_for "$job" shard:72
    # shellcheck disable=SC2086
    job=$(timeout 30 $user sbatch --parsable -H --plimsoll="$small" --gres=gpu:1 --wrap true 2>"$work/err")
    says "$work/err" 'was not checked: its socket may not be opened'
    whole_gpu "$job"
    chmod 755 "$S/run/plimsoll.sock"
    clear_jobs
}

a_share_may_be_a_limit() {
    export SLURM_CONF="$all"
    limit='echo "limit ${PYTORCH_CUDA_ALLOC_CONF-none}"'
    gives 0 srun --plimsoll="$small" --gpus=1 sh -c "$limit"
    says out 'limit none'
    cp "$S/plimsoll.conf" kept
    echo 'protect = yes' >>"$S/plimsoll.conf"
    gives 0 srun --plimsoll="$small" --gpus=1 sh -c "$limit"
    says out 'limit per_process_memory_fraction:0.5143$'
    gives 0 env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True srun --plimsoll="$small" --gpus=1 sh -c "$limit"
    says out 'limit per_process_memory_fraction:0.5143,expandable_segments:True$'
    gives 0 env PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.2 srun --plimsoll="$small" --gpus=1 sh -c "$limit"
    says out 'limit per_process_memory_fraction:0.2$'
    gives 0 srun --gres=gpu:1 sh -c "$limit"
    says out 'limit none'
    cp kept "$S/plimsoll.conf"
}

accounting_shows_the_prediction() {
    [ "${ACCOUNTING:-0}" = 1 ] || skip 'accounting_shows_the_prediction: in tests/slurm/run.sh'
    export SLURM_CONF="$all"
    job=$(sbatch --parsable -o /dev/null --plimsoll="$small" --gres=gpu:1 --wrap true)
    over "$job"
    shown() { sacct -n -X -P -j "$job" -o state,alloctres,reqtres,admincomment >accounted 2>&1 && grep -q 'COMPLETED.*gres/shard=72' accounted; }
    wait_until 'the job in the accounting' shown || { cat accounted; false; }
    says accounted '{"plimsoll":{"model":"sha256:.*"peak_bytes":75078041600'
}

# shellcheck source=/dev/null
. "$S/files/daemon.sh"
for one in ${CASES:-a_job_that_fits_runs_on_its_shards every_way_to_ask_for_one_gpu two_jobs_share_a_gpu what_fits_no_gpu_is_refused \
    parts_of_a_heterogeneous_job_are_judged_each shards_above_one_gpu_are_refused what_was_asked_for_stays \
    a_request_may_stand_in_four_places what_is_wrong_is_said_where_it_is_submitted nothing_is_inherited \
    a_daemon_that_is_gone_refuses_nobody a_daemon_that_is_stopped_refuses_nobody a_daemon_that_lies_changes_nothing \
    settings_are_read_anew the_daemon_hears_what_a_job_took users_are_not_root a_share_may_be_a_limit accounting_shows_the_prediction}; do
    try "$one"
    # Whatever a case that failed has left.
    kill -CONT "$(daemon_pid)" 2>/dev/null || true
    [ "$(http http://x/healthz | grep -c ok)" = 1 ] || start_daemon
done
echo "# Slurm $(slurmctld -V | sed 's/.* //'): $(grep -c 'plimsoll: uid.*us)' "$S/log/slurmctld.log") submissions through the plugin, the longest $(longest) us in it"
done_testing
