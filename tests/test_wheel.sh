#!/bin/sh
# The wheel that `ninja wheel` makes (tools/wheel.sh): what its name promises, the same bytes twice, and in a fresh virtual
# environment the command and the package as a user has them. The sdist beside it holds all that it is built of; `pip install
# ./python` builds, or says what is missing. Everything lies in a temporary folder, HOME too; nothing else may change.
# On one build only: it builds its own.
. "$ROOT/tests/case.sh"
python=${PLIMSOLL_TEST_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "SKIP wheel: no $python"; exit 0; }
case $BUILD in *asan* | *tsan*) echo "SKIP wheel: on the ordinary build alone"; exit 0 ;; esac
unset PLIMSOLL_LIBRARY PLIMSOLL_BUILD PYTHONPATH
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1 SOURCE_DATE_EPOCH=1700000000
export PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR PYTHONDONTWRITEBYTECODE SOURCE_DATE_EPOCH

make_wheel() {
    if [ ! -f dist/.made ]; then
        sh "$ROOT/tools/wheel.sh" "$BUILD" dist >made 2>&1 || {
            grep -q 'could not install' made && skip "wheel: no hatchling, and offline"
            cat made
            false
        }
        : >dist/.made
    fi
    wheel=$(ls dist/*.whl)
}
fresh() { # fresh NAME: a virtual environment outside of the repository
    [ -d "$1" ] || "$python" -m venv "$1" >venv.log 2>&1 || skip "wheel: no venv in $python"
}
offline() { grep -qiE 'connection|network|resolve|timed out|No matching distribution|Could not find a version' "$1"; }

the_same_bytes_twice() {
    make_wheel
    sh "$ROOT/tools/wheel.sh" "$BUILD" again >/dev/null
    cmp "$wheel" "again/$(basename "$wheel")"
    cmp dist/*.tar.gz again/*.tar.gz
}

# manylinux_2_N: no symbol newer than glibc 2.N's, one that is as new, and no library but those that the policy lists.
the_name_is_true() {
    make_wheel
    mkdir unpacked
    "$python" -m zipfile -e "$wheel" unpacked
    ls unpacked/plimsoll/libplimsoll.so.1 unpacked/plimsoll-*.data/scripts/plimsoll unpacked/plimsoll-*.dist-info/extra_metadata/LICENSE
    [ ! -f "$BUILD/libplimsoll-lab.so" ] || ls unpacked/plimsoll/libplimsoll-lab.so.1
    for file in unpacked/plimsoll/*.so.* unpacked/plimsoll-*.data/scripts/*; do
        objdump -T "$file" | grep -o 'GLIBC_2\.[0-9]*' | sed 's/.*\.//' >>minors
        objdump -p "$file" | sed -n 's/.*NEEDED *//p' >>needed
    done
    newest=$(sort -n minors | tail -n 1)
    is "$(basename "$wheel")" "plimsoll-$("$PLIMSOLL" --version | sed 's/.* //')-py3-none-manylinux_2_${newest}_$(uname -m).whl"
    says unpacked/plimsoll-*.dist-info/WHEEL "^Tag: py3-none-manylinux_2_${newest}_$(uname -m)\$"
    grep -v -E '^(libplimsoll|libc|libm|libz|libdl|libpthread|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$' needed >others || true
    silent others
}

# As a user installs it: no index, no compiler, no folder of the repository.
it_works_where_there_is_nothing_else() {
    make_wheel
    mkdir -p home tmp
    HOME=$work/home TMPDIR=$work/tmp
    export HOME TMPDIR
    fresh venv
    : >stamp
    sleep 1
    venv/bin/python -m pip install --quiet --no-index --no-deps "$wheel"
    # Each file of the record is there with its hash, and all of them are inside of the environment.
    venv/bin/python - <<'END'
import base64, hashlib, importlib.metadata, pathlib, sys
files = importlib.metadata.files("plimsoll")
assert len(files) > 20, files
for file in files:
    path = pathlib.Path(file.locate()).resolve()
    assert str(path).startswith(str(pathlib.Path(sys.prefix).resolve())), path
    if file.hash:
        made = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        assert made == file.hash.value, path
assert any(path.name == "plimsoll" and path.parent.name == "bin" for path in files), files
END
    cp "$ROOT/examples/mlp.yaml" mlp.yaml
    (
        PATH=$work/venv/bin:/usr/bin:/bin
        cd /
        plimsoll --version >"$work/version"
        plimsoll estimate "$work/mlp.yaml" --json >"$work/from-command"
        python -c 'import plimsoll, sys
print(plimsoll.library_path())
print(len(plimsoll.estimators()))
print(plimsoll.estimate(sys.argv[1]).peak_bytes)' "$work/mlp.yaml" >"$work/package"
    )
    is "$(cat version)" "$("$PLIMSOLL" --version)"
    "$PLIMSOLL" estimate mlp.yaml --json >wanted
    is "$(value memory.peak_bytes <from-command)" "$(value memory.peak_bytes <wanted)"
    says package "^$work/venv/lib.*/plimsoll/libplimsoll.so.1\$"
    is "$(sed -n 2p package)" "$("$PLIMSOLL" estimators --json | grep -o '"name":' | wc -l)"
    is "$(sed -n 3p package)" "$(value memory.peak_bytes <wanted)"
    gives 4 venv/bin/python -m plimsoll "$ROOT/examples/train.py"
    says err 'PyTorch'
    # Nothing was left behind: in HOME, in the folder for temporary files, beside the sources.
    find home tmp "$ROOT/python" "$ROOT/examples" -type f -newer stamp >touched
    silent touched
}

pip_installs_the_folder() {
    fresh built
    find "$ROOT/python" | sort >before
    built/bin/python -m pip install --quiet "$ROOT/python" >pip.log 2>&1 || {
        offline pip.log && skip "pip_installs_the_folder: offline"
        cat pip.log
        false
    }
    find "$ROOT/python" | sort >after
    diff before after
    is "$(built/bin/plimsoll --version)" "$("$PLIMSOLL" --version)"
    built/bin/python -c 'import plimsoll; print(plimsoll.library_path())' >path
    says path "^$work/built/lib.*/plimsoll/libplimsoll.so.1\$"
    ls built/lib/python3*/site-packages/plimsoll/py.typed
}

# The sdist builds by itself: what it lacks of the sources would be an error here.
the_sdist_builds() {
    make_wheel
    fresh built
    built/bin/python -m pip install --quiet --force-reinstall dist/*.tar.gz >sdist.log 2>&1 || {
        offline sdist.log && skip "the_sdist_builds: offline"
        cat sdist.log
        false
    }
    built/bin/plimsoll estimate "$ROOT/examples/mlp.yaml" --json >sdist.json
    "$PLIMSOLL" estimate "$ROOT/examples/mlp.yaml" --json >wanted
    is "$(value memory.peak_bytes <sdist.json)" "$(value memory.peak_bytes <wanted)"
}

# What is missing is named, and how to get it.
says_why() { # says_why PATTERN COMMAND...
    pattern=$1
    shift
    if "$@" >why.log 2>&1; then cat why.log; false; fi
    offline why.log && skip "what_is_missing_is_named: offline"
    says why.log "could not be built: .*$pattern"
}
what_is_missing_is_named() {
    fresh none
    says_why 'CC names /nowhere/cc, .*apt-get install gcc' env CC=/nowhere/cc none/bin/python -m pip install "$ROOT/python"
    cp -r "$ROOT/python" elsewhere
    says_why 'C sources are not beside' none/bin/python -m pip install ./elsewhere
    printf '#!/bin/sh\nfor word in "$@"; do case $word in *.c) grep -q zlib "$word" && { echo "zlib.h: No such file" >&2; exit 1; } ;; esac; done\nexec cc "$@"\n' >without-zlib
    chmod +x without-zlib
    says_why "zlib's headers: apt-get install zlib1g-dev" env PKG_CONFIG=false CC="$work/without-zlib" none/bin/python -m pip install "$ROOT/python"
    [ ! -e none/bin/plimsoll ]
}

try the_same_bytes_twice
try the_name_is_true
try it_works_where_there_is_nothing_else
try pip_installs_the_folder
try the_sdist_builds
try what_is_missing_is_named
done_testing
