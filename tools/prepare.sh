# shellcheck shell=sh disable=SC2034,SC2154 # names that the one who sources it uses and sets
# Sourced by ./run and ./test: the Debian packages the build needs, and the build itself.
# Expects $root, the folder of the sources. Talks on stderr only.

packages="gcc libc6-dev meson ninja-build pkgconf zlib1g-dev liblzma-dev libopenblas0 libxgboost-dev libmicrohttpd-dev libsqlite3-dev"
# What the tests need besides.
test_packages="xz-utils clang clang-format shellcheck python3 python3-venv curl iproute2
    libslurm-dev slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"

# Installs what is missing when root; else says what to install and ends with 4.
prepare_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        for tool in cc meson ninja pkg-config; do
            command -v "$tool" >/dev/null 2>&1 && continue
            echo "plimsoll: $tool is missing; this is not Debian: install what its packages $packages hold" >&2
            exit 4
        done
        return 0
    fi
    installed=$(dpkg-query -W -f '${Package}=${db:Status-Status}\n' "$@" 2>/dev/null || true)
    missing=
    for package in "$@"; do
        case "
$installed
" in
        *"
$package=installed
"*) ;;
        *) missing="$missing $package" ;;
        esac
    done
    [ -z "$missing" ] && return 0
    missing=${missing# }
    if [ "$(id -u)" -ne 0 ]; then
        echo "plimsoll: packages are missing; as root: apt-get update && apt-get install -y --no-install-recommends $missing" >&2
        exit 4
    fi
    echo "plimsoll: installing $missing" >&2
    log=$(mktemp)
    # shellcheck disable=SC2086
    if ! { DEBIAN_FRONTEND=noninteractive apt-get update -q &&
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        rm -f "$log"
        echo "plimsoll: apt-get could not install $missing" >&2
        exit 4
    fi
    rm -f "$log"
}

# prepared FOLDER: whether it holds a plimsoll that runs, and is not ours to build in (another user's, a
# file system mounted to be read). Says so where the sources are newer.
prepared() {
    folder=$root/$1
    [ ! -w "$folder" ] && "$folder/plimsoll" --version >/dev/null 2>&1 || return 1
    newer=$(find "$root/meson.build" "$root/include" "$root/src" "$root/cli" -type f \
        -newer "$folder/plimsoll" 2>/dev/null | head -n 1)
    [ -z "$newer" ] || echo "plimsoll: ${folder#"$root"/} cannot be written, and is older than the sources" >&2
    return 0
}

# prepare_build FOLDER [meson options]: configured once, then built; quiet unless it fails. $targets: what
# is built of it; empty: all.
targets=
prepare_build() {
    folder=$root/$1
    shift
    if [ -d "$folder" ] && [ ! -w "$folder" ]; then
        echo "plimsoll: $folder cannot be written; build as its owner, or in a copy of the sources" >&2
        exit 4
    fi
    log=$(mktemp)
    if [ ! -f "$folder/build.ninja" ]; then
        echo "plimsoll: configuring ${folder#"$root"/}" >&2
        if ! meson setup "$folder" "$root" "$@" >"$log" 2>&1 </dev/null; then
            cat "$log" >&2
            rm -f "$log"
            echo "plimsoll: meson could not configure $folder" >&2
            exit 4
        fi
    fi
    [ -f "$folder/.built" ] || echo "plimsoll: building ${folder#"$root"/}" >&2
    # shellcheck disable=SC2086 # targets are words
    if ! ninja -C "$folder" $targets >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        rm -f "$log"
        echo "plimsoll: the build in $folder failed" >&2
        exit 4
    fi
    [ -f "$folder/.built" ] || : >"$folder/.built"
    rm -f "$log"
}

# prepare_python: a Python with PyTorch and the linters for the tests, in PLIMSOLL_TEST_PYTHON. It is a virtual environment
# in the user's cache, in a folder named by python/tests/requirements.txt and the version of Python, and is made once.
# Where it cannot be made (offline), the variable stays empty, and what needs it is skipped, or fails with CI=true.
prepare_python() {
    [ -z "${PLIMSOLL_TEST_PYTHON:-}" ] || return 0
    pins=$root/python/tests/requirements.txt
    version=$(python3 -c 'import sys, venv, ensurepip; print(sys.version)' 2>/dev/null) || {
        echo "plimsoll: no python3 with venv: the tests with PyTorch are skipped" >&2
        return 0
    }
    cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/plimsoll
    folder=$cache/python-$({ echo "$version" && cat "$pins"; } | sha256sum | cut -c 1-16)
    if [ ! -f "$folder/.ready" ]; then
        mkdir -p "$cache"
        log=$(mktemp)
        echo "plimsoll: installing python/tests/requirements.txt into $folder, once" >&2
        # Of two at once, the second waits and finds it made.
        if ! (
            flock 9
            [ -f "$folder/.ready" ] && exit 0
            rm -rf "$folder"
            python3 -m venv "$folder" && "$folder/bin/python" -m pip install --disable-pip-version-check --no-cache-dir \
                --no-input --quiet --retries 1 -r "$pins" && : >"$folder/.ready"
        ) >"$log" 2>&1 9>"$folder.lock" </dev/null; then
            tail -n 5 "$log" >&2
            rm -rf "$log" "$folder"
            echo "plimsoll: pip could not install it: the tests with PyTorch are skipped" >&2
            return 0
        fi
        rm -f "$log"
    fi
    PLIMSOLL_TEST_PYTHON=$folder/bin/python
    export PLIMSOLL_TEST_PYTHON
}
