# shellcheck shell=sh disable=SC2154 # S is cluster.sh's
# Sourced in the cluster: starts the daemon at its socket.
start_daemon() {
    rm -f "$S/run/plimsoll.sock"
    "$S/files/plimsoll-serve" --listen none --socket "$S/run/plimsoll.sock" --data "$S/data" --log off >>"$S/log/daemon" 2>&1 &
    echo $! >"$S/run/daemon.pid"
    left=200
    until [ -S "$S/run/plimsoll.sock" ]; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 0.05
    done
}
