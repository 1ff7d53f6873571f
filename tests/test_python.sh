#!/bin/sh
# The Python package: python/tests/*.py on this build's library; how it is installed is tests/test_wheel.sh's. PLIMSOLL_TEST_PYTHON
# names the Python (./test makes one with PyTorch; default python3); what needs PyTorch is skipped where that has none, and
# fails where CI=true.
. "$ROOT/tests/case.sh"
python=${PLIMSOLL_TEST_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "SKIP python: no $python"; exit 0; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "SKIP python: $python is older than 3.9"; exit 0; }
PYTHONPATH=$ROOT/python PYTHONDONTWRITEBYTECODE=1 PLIMSOLL_LIBRARY=$BUILD
export PYTHONPATH PYTHONDONTWRITEBYTECODE PLIMSOLL_LIBRARY
preload='' sanitized=''
if grep -q __asan_init "$BUILD/libplimsoll.so"; then
    # A sanitized library wants its run-time first in the process; Python's own leaks are not ours.
    sanitized=yes
    preload=$(cc -print-file-name=libasan.so 2>/dev/null)
    [ -f "$preload" ] || { echo "SKIP python: no libasan.so to load first"; exit 0; }
    ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
    export ASAN_OPTIONS
fi

# run_tests NAME...: their lines are counted as they are.
run_tests() {
    (cd "$work" && LD_PRELOAD=$preload exec "$python" "$ROOT/python/tests/run.py" "$@") || cases_failed=1
}

run_tests test_library test_report test_published test_jobs
if [ -n "$sanitized" ]; then
    echo "SKIP python with PyTorch: on the ordinary build alone"
elif "$python" -c 'import torch' 2>/dev/null; then
    run_tests test_torch test_values test_script test_runner test_onward test_saving test_idioms test_ranks
    run_tests test_family test_callbacks
else
    if [ "${CI:-}" = true ]; then
        echo "not ok python with PyTorch: $python has none, and CI=true wants it"
        cases_failed=1
    else
        echo "SKIP python with PyTorch: $python has none, and the packages could not be installed; PLIMSOLL_TEST_PYTHON names another"
    fi
    run_tests test_script.Scripts.test_without_torch test_script.Scripts.test_usage
fi
done_testing
