#!/bin/sh
# The manual, the completions and the README say what the program does.
. "$ROOT/tests/case.sh"

fresh() { # FORM PATH
    "$PLIMSOLL" __generate "$1" >fresh
    diff fresh "$ROOT/$2" || { echo "run tools/generate.sh"; false; }
}
manual_is_fresh() { fresh man docs/man/plimsoll.1; }
bash_completion_is_fresh() { fresh bash completions/plimsoll.bash; }
zsh_completion_is_fresh() { fresh zsh completions/_plimsoll; }
fish_completion_is_fresh() { fresh fish completions/plimsoll.fish; }

# serve's and history's options are the daemon's, which docs/serve.md has.
verbs() { "$PLIMSOLL" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | grep -v -e '^serve$' -e '^history$'; }

the_daemons_settings_are_described() {
    [ -x "$BUILD/plimsoll-serve" ] || skip "the_daemons_settings_are_described: the daemon was not built"
    gives 0 "$PLIMSOLL" serve --help
    sed -n 's/^  --\([a-z-]*\) .*/\1/p' out | grep -v '^check$' >names
    [ "$(wc -l <names)" -ge 15 ]
    while read -r name; do
        grep -q "^| \`$name\` |" "$ROOT/docs/serve.md" || { echo "docs/serve.md has no row of $name"; false; }
    done <names
}

the_settings_of_slurms_plugins_are_described() {
    sed -n 's/^    {"\([a-z-]*\)",.*/\1/p' "$ROOT/plugins/slurm/settings.c" >names
    [ "$(wc -l <names)" -ge 15 ]
    while read -r name; do
        grep -q "^| \`$name\` |" "$ROOT/docs/slurm.md" || { echo "docs/slurm.md has no row of $name"; false; }
    done <names
}

# An option that --help names is one that parses, and the manual and the completions name it.
help_names_what_parses() {
    [ "$(verbs | wc -l)" -ge 6 ]
    for verb in $(verbs); do
        gives 0 "$PLIMSOLL" "$verb" --help
        silent err
        says out "^usage: plimsoll $verb"
        sed -n 's/^  \(-.,\|   \) \(--[a-z-]*\).*/\2/p' out >names
        [ "$(wc -l <names)" -ge 3 ]
        while read -r name; do
            gives 2 "$PLIMSOLL" "$verb" "$name=" "--no-such-option"
            if grep -q "unknown option $name" err; then
                echo "$verb $name does not parse"
                false
            fi
            grep -q -F -e "$(echo "$name" | sed 's/-/\\-/g')" "$ROOT/docs/man/plimsoll.1"
            grep -q -F -e "$name" "$ROOT/completions/plimsoll.bash"
        done <names
    done
}

bash_completion_works() {
    command -v bash >/dev/null || skip "bash_completion_works: no bash"
    cat >drive <<'END'
source "$1"
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _plimsoll
    echo "${COMPREPLY[*]}"
}
complete_words plimsoll es
complete_words plimsoll estimate --bat
complete_words plimsoll estimate --precision amp-b
complete_words plimsoll gpus --j
complete_words plimsoll evaluate --estimator al
complete_words plimsoll estimate --estimator al
complete_words plimsoll train decision
complete_words plimsoll train x -S fam
END
    gives 0 bash drive "$ROOT/completions/plimsoll.bash"
    printf 'estimate estimators\n--batch\namp-bf16\n--json\nall\n\ndecision-tree\nfamily\n' >wanted
    diff wanted out
}

manual_is_well_formed() {
    if ! command -v man >/dev/null || ! command -v groff >/dev/null; then
        skip "manual_is_well_formed: no man and groff here"
    fi
    gives 0 man --warnings -l "$ROOT/docs/man/plimsoll.1"
    silent err
}

# Blocks of the README fenced as ```console: each "$ ./run ..." line is run in the root, and what follows
# it, to the next $ or the end, is what it must print. Times are masked. A block's "$ ./test" is not run.
mask() { sed -E 's/"elapsed_us":[0-9]+/"elapsed_us":N/; s/, [0-9.]+ s$/, N s/'; }
readme_examples_hold() {
    awk -v dir="$work" '
        /^```console/ { inside = 1; next }
        /^```/ { inside = 0; next }
        inside && /^\$ / { n++; file = sprintf("%s/want.%02d", dir, n)
            print substr($0, 3) > sprintf("%s/cmd.%02d", dir, n); printf "" > file; next }
        inside { print > file }' "$ROOT/README.md"
    ran=0
    for cmd in "$work"/cmd.*; do
        line=$(cat "$cmd")
        case $line in
        "./run "*) ;;
        *) continue ;;
        esac
        wanted=$work/want.${cmd##*.}
        (cd "$ROOT" && eval "\"$PLIMSOLL\" ${line#./run }" 2>&1) | mask >got || true
        mask <"$wanted" | diff - got || { echo "README: $line"; false; }
        ran=$((ran + 1))
    done
    [ "$ran" -gt 0 ]
    echo "# $ran commands of the README print what it says"
}

# Links of the pages lead to files that are there.
links_hold() {
    (cd "$ROOT" && find ./*.md docs models python/*.md tools data tests/data -name '*.md') >pages
    [ "$(wc -l <pages)" -gt 10 ]
    count=0
    while read -r page; do
        grep -o '](\([^)#: ]*\)[)#]' "$ROOT/$page" | sed 's/^](//; s/[)#]$//' >links || true
        while read -r link; do
            [ -e "$ROOT/$(dirname "$page")/$link" ] || { echo "$page: $link"; false; }
            count=$((count + 1))
        done <links
    done <pages
    [ "$count" -gt 20 ]
}

# README, CHANGELOG, the public header and the Python package name the version that the program has.
versions_agree() {
    version=$("$PLIMSOLL" --version | sed 's/^plimsoll //')
    grep -q "version: '$version'" "$ROOT/meson.build"
    grep -q "^## $version" "$ROOT/CHANGELOG.md"
    grep -q "version $version" "$ROOT/README.md"
    grep -q "PL_VERSION  *\"$version\"" "$ROOT/include/plimsoll/plimsoll.h"
    grep -q "^version = \"$version\"" "$ROOT/python/pyproject.toml"
    grep -q "^__version__ = \"$version\"" "$ROOT/python/plimsoll/__init__.py"
}

try manual_is_fresh
try bash_completion_is_fresh
try zsh_completion_is_fresh
try fish_completion_is_fresh
try help_names_what_parses
try the_daemons_settings_are_described
try the_settings_of_slurms_plugins_are_described
try bash_completion_works
try manual_is_well_formed
try readme_examples_hold
try links_hold
try versions_agree
done_testing
