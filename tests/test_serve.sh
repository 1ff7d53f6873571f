#!/bin/sh
# The daemon: a real one, asked over TCP and a Unix socket by tests/serve.py and tests/serve_hostile.py (Python's own library alone). PLIMSOLL_KILLS: how
# often it is killed under load (40 here; 500 takes some minutes).
. "$ROOT/tests/case.sh"
daemon=$BUILD/plimsoll-serve
if [ ! -x "$daemon" ]; then
    if [ "${CI:-}" = true ]; then
        echo "not ok serve: the daemon was not built, and CI=true wants it"
        exit 1
    fi
    echo "SKIP serve: the daemon was not built: it needs libmicrohttpd and SQLite"
    exit 0
fi
command -v python3 >/dev/null || { echo "SKIP serve: no python3"; exit 0; }
for script in serve serve_hostile; do
    mkdir -p "$work/$script"
    (cd "$work/$script" && exec python3 -B "$ROOT/tests/$script.py" "$daemon" "$PLIMSOLL" "$ROOT") || cases_failed=1
done
done_testing
