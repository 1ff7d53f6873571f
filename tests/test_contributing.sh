#!/bin/sh
# CONTRIBUTING.md's examples, followed to the letter on a copy of the sources, all of them at once: they apply,
# build without a warning, and their commands show what they should. What the page says is what is done:
#     In `FILE`, below `TEXT`:      the block that follows is put below the one line that holds TEXT; or above it
#     `FILE` is new:                the block is the file
#     a block marked sh             each line is a command that must succeed
# On one build only: it makes its own.
. "$ROOT/tests/case.sh"

# Splits the page into steps: N.how (new, below, above, sh), N.file, N.text, N.block.
read_page() { # PAGE FOLDER
    awk -v folder="$2" '
        function fail(why) { print FILENAME ":" FNR ": " why; failed = 1; exit 1 }
        function step(kind) { name = folder "/" sprintf("%03d", ++count); print kind >(name ".how") }
        inside && /^```$/ { inside = 0; close(name ".block"); next }
        inside { print >(name ".block"); next }
        /^In `[^`]*`, (below|above) `[^`]*`:$/ {
            split($0, part, "`")
            step(part[3] ~ /below/ ? "below" : "above")
            print part[2] >(name ".file")
            print part[4] >(name ".text")
            wanted = 1
            next
        }
        /^`[^`]*` is new:$/ { split($0, part, "`"); step("new"); print part[2] >(name ".file"); wanted = 1; next }
        /^```/ {
            if (wanted) wanted = 0
            else if ($0 == "```sh") step("sh")
            else fail("a block that no line before it explains")
            inside = 1
            next
        }
        wanted { fail("a block should follow") }
        END { if (!failed && inside) fail("a block without an end"); exit failed }' "$1"
}

apply() { # STEP TREE
    read -r how <"$1.how"
    [ "$how" != sh ] || return 0
    read -r file <"$1.file"
    if [ "$how" = new ]; then
        [ ! -e "$2/$file" ] || { echo "$file is there already"; return 1; }
        cp "$1.block" "$2/$file"
        return 0
    fi
    text=$(cat "$1.text")
    found=$(grep -c -F -e "$text" "$2/$file" || :)
    [ "$found" = 1 ] || { echo "$file has $found lines with '$text', not one"; return 1; }
    line=$(grep -n -F -e "$text" "$2/$file" | cut -d : -f 1)
    [ "$how" = below ] || line=$((line - 1))
    sed "${line}r $1.block" "$2/$file" >edited
    cat edited >"$2/$file"
}

# What is built already need not be built again: objects and ninja's notes go with the copy.
copy() { # TREE
    mkdir "$1"
    (cd "$ROOT" && find . -mindepth 1 -maxdepth 1 -not -name 'build*' -not -name '.git' -not -name '.*cache*' \
        -not -name '.venv*' -not -name shared) | while read -r name; do cp -a "$ROOT/$name" "$1/"; done
}
build() { # TREE
    # The same compiler: with another, all would be built anew.
    CC=$(awk '/^rule c_COMPILER$/ { getline; sub(/^ command = /, ""); sub(/ \$ARGS.*/, ""); print }' "$BUILD/build.ninja")
    export CC
    meson setup "$1/build" "$1" -Dtests=false >log 2>&1 || { cat log; return 1; }
    (cd "$BUILD" && find . -mindepth 1 -maxdepth 1 -not -name 'meson-*' -not -name build.ninja -not -name tests \
        -not -name compile_commands.json -not -name .built) | while read -r name; do cp -a "$BUILD/$name" "$1/build/"; done
    ninja -C "$1/build" >log 2>&1 || { tail -n 40 log; return 1; }
    if grep -A 5 'warning:' log; then return 1; fi
    echo "# $(grep -c 'Compiling' log || :) files compiled"
}

examples_work() {
    command -v meson >/dev/null || skip 'examples_work: no meson'
    tree=$work/tree
    mkdir steps
    read_page "$ROOT/CONTRIBUTING.md" steps
    copy "$tree"
    for how in steps/*.how; do apply "${how%.how}" "$tree"; done
    build "$tree"
    plimsoll() { "$tree/build/plimsoll" "$@"; }
    ln -s "$tree/tests" "$tree/examples" .
    for how in steps/*.how; do
        read -r kind <"$how"
        [ "$kind" = sh ] || continue
        echo "commands of ${how%.how}:"
        # shellcheck disable=SC1090 # a block of the page; with set -e, the first command that fails ends it
        . "$work/${how%.how}.block"
    done
}

# Each kind of thing has an example, and without it the commands would fail.
all_kinds_have_an_example() {
    grep '^## ' "$ROOT/CONTRIBUTING.md" >kinds
    for kind in operator card optimizer family estimator verb; do says kinds "$kind"; done
    gives 2 "$PLIMSOLL" optimizers
    gives 2 "$PLIMSOLL" estimate "$ROOT/examples/gpt2.pt2" --gpu example
    gives 2 "$PLIMSOLL" estimate "$ROOT/examples/gpt2.pt2" --optimizer signum
}

try examples_work
try all_kinds_have_an_example
done_testing
