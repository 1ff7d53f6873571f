#!/bin/sh
# C sources are as clang-format 14 (Debian 12's) writes them with the .clang-format that lies in the root.
# On one build only: it looks at the sources.
. "$ROOT/tests/case.sh"

# The files of those named on stdin that it would write otherwise.
unformatted() {
    xargs clang-format --style=file:"$ROOT/.clang-format" --dry-run 2>&1 |
        sed -n 's/^\([^:]*\):.* code should be clang-formatted.*/\1/p' | sort -u
}

usable() { # NAME OF THE CASE
    case $(clang-format --version 2>/dev/null) in
    *'version 14.'*) ;;
    *) skip "$1: no clang-format 14; others write a few lines otherwise" ;;
    esac
}

sources_are_formatted() {
    usable sources_are_formatted
    (cd "$ROOT" && find "$PWD" -mindepth 1 -type d '(' -name 'build*' -o -name '.*' ')' -prune -o \
        -name '*.[ch]' -print) >sources
    says sources 'include/plimsoll/plimsoll.h'
    says sources 'tests/check.h'
    unformatted <sources >wrong
    silent wrong
}

# It takes `a<b && * c> d` for a template: then the operands are to be swapped.
no_comparison_is_taken_for_a_template() {
    (cd "$ROOT" && grep -rnE '[a-z_]<[a-z_]+ (&&|\|\|) [*] ' --include='*.[ch]' src cli tests include) >wrong || :
    silent wrong
}

# The check itself must be able to fail.
a_stray_blank_is_seen() {
    usable a_stray_blank_is_seen
    echo 'int  x;' >x.c
    is "$(echo x.c | unformatted)" x.c
}

try sources_are_formatted
try no_comparison_is_taken_for_a_template
try a_stray_blank_is_seen
done_testing
