#!/bin/sh
# Shell scripts: shellcheck finds nothing in any of them.
# On one build only: it looks at the sources.
. "$ROOT/tests/case.sh"

# Every file that git would keep whose first line names a shell, and those sourced by others.
shell_scripts() {
    (cd "$ROOT" && find . -mindepth 1 -type d '(' -name 'build*' -o -name '.?*' -not -name .ci ')' -prune -o \
        -type f -print) | sed 's|^\./||' |
        while read -r file; do
            case $file in
            *.sh) echo "$file" ;;
            */*.* | *.?*.* | */*/*) ;;
            *) head -n 1 "$ROOT/$file" 2>/dev/null | grep -aq '^#!.*sh$' && echo "$file" ;;
            esac
        done
}

shellcheck_is_content() {
    command -v shellcheck >/dev/null || skip 'shellcheck_is_content: no shellcheck'
    shell_scripts >scripts
    says scripts '^test$'
    says scripts '^tools/prepare.sh$'
    (cd "$ROOT" && xargs shellcheck) <scripts
}

# The check itself must be able to fail.
an_unquoted_name_is_seen() {
    command -v shellcheck >/dev/null || skip 'an_unquoted_name_is_seen: no shellcheck'
    echo 'rm $1' >bad.sh
    gives 1 shellcheck -s sh bad.sh
}

try shellcheck_is_content
try an_unquoted_name_is_seen
done_testing
