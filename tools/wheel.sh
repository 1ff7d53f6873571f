#!/bin/sh
# wheel.sh BUILD [FOLDER]: the libraries and the command of the build folder BUILD as a wheel, and the sources as an sdist, in
# FOLDER (default: BUILD/dist). `ninja -C build wheel` runs it. The same sources and build give the same bytes.
# PLIMSOLL_TEST_PYTHON names the Python (default: python3); where that has no hatchling, pip brings it into a temporary folder.
set -eu
build=$(CDPATH='' cd -- "$1" && pwd)
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "${2:-$build/dist}"
folder=$(CDPATH='' cd -- "${2:-$build/dist}" && pwd)
python=${PLIMSOLL_TEST_PYTHON:-python3}
work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT
if ! "$python" -c 'import hatchling' 2>/dev/null; then
    { "$python" -m venv "$work/venv" && "$work/venv/bin/python" -m pip install --disable-pip-version-check --quiet 'hatchling>=1.22'; } ||
        { echo "plimsoll: a wheel is made by hatchling, which pip could not install: pip install hatchling" >&2; exit 4; }
    python=$work/venv/bin/python
fi
cd "$root/python"
PLIMSOLL_BUILD=$build PYTHONDONTWRITEBYTECODE=1 "$python" -m hatchling build -d "$work/dist" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 4; }
rm -f "$folder"/plimsoll-*.whl "$folder"/plimsoll-*.tar.gz
for file in "$work/dist"/*; do
    mv "$file" "$folder"
    echo "$folder/$(basename "$file")"
done
