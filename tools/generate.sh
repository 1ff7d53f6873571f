#!/bin/sh
# Writes the manual page and the shell completions again, from the command's option table.
# Run it after a change to cli/options.c, to the optimizers or to the GPU catalogue.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
plimsoll=${1:-"$root/run"}
while read -r form path; do
    "$plimsoll" __generate "$form" >"$root/$path.new"
    mv "$root/$path.new" "$root/$path"
done <<END
man docs/man/plimsoll.1
bash completions/plimsoll.bash
zsh completions/_plimsoll
fish completions/plimsoll.fish
END
