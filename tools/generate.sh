#!/bin/sh
# generate.sh [PLIMSOLL]: writes again what is made by the program itself: the manual page and the shell
# completions from its option table, the output of the README's examples, the golden answers of the tests.
# Run it after a change to options, optimizers, GPUs or answers, and read the difference before committing.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
plimsoll=${1:-"$root/run"}
export LC_ALL=C.UTF-8
cd "$root"

while read -r form path; do
    "$plimsoll" __generate "$form" >"$path.new"
    mv "$path.new" "$path"
done <<END
man docs/man/plimsoll.1
bash completions/plimsoll.bash
zsh completions/_plimsoll
fish completions/plimsoll.fish
END

# Behind each "$ ./run ..." of a console block, what it prints now.
inside=
while IFS= read -r line; do
    case $line in
    '```console') inside=1 ;;
    '```') inside= ;;
    '$ ./run '*)
        if [ -n "$inside" ]; then
            printf '%s\n' "$line"
            eval "\"$plimsoll\" ${line#\$ ./run }" 2>&1 </dev/null || true
            continue
        fi ;;
    *) [ -z "$inside" ] || continue ;; # what it printed before
    esac
    printf '%s\n' "$line"
done <README.md >README.md.new
mv README.md.new README.md

for file in tests/golden/*.txt; do
    line=$(sed -n 1p "$file")
    code=0
    eval "\"$plimsoll\" ${line#\$ plimsoll }" >"$file.new" 2>&1 </dev/null || code=$?
    { printf '%s\n' "$line"; sed -E 's/"elapsed_us":[0-9]+/"elapsed_us":N/' "$file.new"; echo "exit $code"; } >"$file"
    rm "$file.new"
done
