#!/bin/sh
# ruff and mypy on the Python sources, by the rules of python/pyproject.toml: the package and its tests in full, the
# tools for wrong names alone. They are in the environment that ./test makes; skipped where PLIMSOLL_TEST_PYTHON has
# none, and on the second build, since they do not look at it.
. "$ROOT/tests/case.sh"
python=${PLIMSOLL_TEST_PYTHON:-python3}
wanted() { # wanted MODULE
    grep -q __asan_init "$BUILD/libplimsoll.so" && skip "$1: on the ordinary build alone"
    "$python" -c "import $1" 2>/dev/null && return
    [ "${CI:-}" != true ] || { echo "$python has no $1, and CI=true wants it"; exit 1; }
    skip "$1: $python has none"
}

ruff_finds_nothing() {
    wanted ruff
    cd "$ROOT"
    "$python" -m ruff check --no-cache --config python/pyproject.toml python
    "$python" -m ruff check --no-cache --config python/pyproject.toml --select F,PLE,W tools bench examples
}

mypy_finds_nothing() {
    wanted mypy
    "$python" -m mypy --config-file "$ROOT/python/pyproject.toml" --cache-dir "$work/mypy" "$ROOT/python/plimsoll"
}

try ruff_finds_nothing
try mypy_finds_nothing
done_testing
