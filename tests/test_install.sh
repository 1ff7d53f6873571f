#!/bin/sh
# What `meson install` puts where, and a program that is built against it alone.
. "$ROOT/tests/case.sh"

install_tree() {
    [ -d tree ] || DESTDIR=$work/tree meson install -C "$BUILD" --no-rebuild --quiet >/dev/null
    prefix=$(find "$work/tree" -name plimsoll.h | sed 's:/include/plimsoll/plimsoll.h$::')
}

everything_is_installed() {
    install_tree
    for path in bin/plimsoll include/plimsoll/plimsoll.h share/man/man1/plimsoll.1 \
        share/bash-completion/completions/plimsoll share/zsh/site-functions/_plimsoll \
        share/fish/vendor_completions.d/plimsoll.fish; do
        [ -f "$prefix/$path" ] || { echo "no $path"; false; }
    done
    lab=''
    if [ -f "$BUILD/libplimsoll-lab.so" ]; then
        lab="libplimsoll-lab.so libplimsoll-lab.a plimsoll-lab.pc lab.h"
    fi
    slurm=''
    if [ -f "$BUILD/plimsoll_spank.so" ]; then
        slurm="job_submit_plimsoll.so cli_filter_plimsoll.so plimsoll_spank.so"
    fi
    # shellcheck disable=SC2086 # names
    for name in libplimsoll.so libplimsoll.a plimsoll.pc libplimsoll-live.so libplimsoll-live.a plimsoll-live.pc live.h $lab $slurm; do
        [ -n "$(find "$prefix" -name "$name")" ] || { echo "no $name"; false; }
    done
}

a_program_builds_against_it() {
    case $BUILD in *asan*) skip "a_program_builds_against_it: on the ordinary build alone" ;; esac
    install_tree
    cat >program.c <<'END'
#include <plimsoll/plimsoll.h>
#include <stdio.h>
int main(int argc, char **argv) {
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_error err = PL_SIZED(pl_error);
    pl_job job;
    pl_job_default(&job);
    job.gpu = "a100-40gb";
    if (argc == 2 && pl_model_open(&model, argv[1], NULL, &err) == PL_OK &&
        pl_estimate(&report, model, &job, &err) == PL_OK)
        printf("%lld\n", (long long)report->peak_bytes);
    else
        printf("%s\n", err.message);
    pl_report_close(&report);
    pl_model_close(&model);
    return 0;
}
END
    libdir=$(dirname "$(find "$prefix" -name libplimsoll.so)")
    PKG_CONFIG_PATH=$libdir/pkgconfig
    export PKG_CONFIG_PATH
    flags=$(pkg-config --define-variable=prefix="$prefix" --cflags --libs plimsoll)
    # shellcheck disable=SC2086
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror program.c $flags -o shared-program
    # shellcheck disable=SC2046
    cc -std=c11 program.c -I"$prefix/include" "$libdir/libplimsoll.a" \
        $(pkg-config --define-variable=prefix="$prefix" --static --libs-only-l plimsoll | sed 's/-lplimsoll//') -o static-program
    LD_LIBRARY_PATH=$libdir ./shared-program "$ROOT/examples/resnet18.pt2" >shared-out
    ./static-program "$ROOT/examples/resnet18.pt2" >static-out
    "$PLIMSOLL" estimate "$ROOT/examples/resnet18.pt2" --gpu a100-40gb --json >out
    is "$(cat shared-out)" "$(value memory.peak_bytes <out)"
    is "$(cat static-out)" "$(cat shared-out)"
}

# The example of docs/c-api.md: the program as it stands there, by the compile line that stands there, and what it prints.
the_example_of_the_page_runs() {
    case $BUILD in *asan*) skip "the_example_of_the_page_runs: on the ordinary build alone" ;; esac
    install_tree
    page=$ROOT/docs/c-api.md
    awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$page" >peak.c
    awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on && /^cc /' "$page" >compile
    awk '/^```text$/ { on = 1; next } /^```/ { on = 0 } on' "$page" >wanted
    is "$(wc -l <compile)" 1
    libdir=$(dirname "$(find "$prefix" -name libplimsoll.so)")
    PKG_CONFIG_PATH=$libdir/pkgconfig
    export PKG_CONFIG_PATH
    # The tree lies elsewhere than its .pc files say.
    sed "s|pkg-config|& --define-variable=prefix=$prefix|; s|-Wall|& -Wextra -Wpedantic -Wconversion -Werror|" compile >here
    sh -e ./here
    (cd "$ROOT" && LD_LIBRARY_PATH=$libdir "$work/peak" examples/resnet18.pt2 a100-40gb) >got
    [ "$(wc -l <got)" -gt 10 ]
    diff wanted got
    gives 3 env LD_LIBRARY_PATH="$libdir" ./peak "$ROOT/README.md" a100-40gb
    says err '^input: .*README.md'
    gives 2 env LD_LIBRARY_PATH="$libdir" ./peak "$ROOT/examples/resnet18.pt2" no-such-card
    says err '^usage: gpu: '
}

headers_are_cplusplus_too() {
    command -v c++ >/dev/null || skip "headers_are_cplusplus_too: no C++ compiler"
    install_tree
    for header in "$prefix"/include/plimsoll/*.h; do
        printf '#include <plimsoll/%s>\npl_error err = PL_SIZED(pl_error);\npl_job job;\nvoid set() { pl_job_default(&job); }\n' \
            "$(basename "$header")" >header.cc
        c++ -std=c++20 -Wall -Werror -I"$prefix/include" -fsyntax-only header.cc
    done
}

# The laboratory's header, library and pkg-config file: an estimator of its own after pl_lab_register, and none before.
a_program_builds_against_the_laboratory() {
    case $BUILD in *asan*) skip "a_program_builds_against_the_laboratory: on the ordinary build alone" ;; esac
    [ -f "$BUILD/libplimsoll-lab.so" ] || skip "a_program_builds_against_the_laboratory: a build without it"
    install_tree
    cat >lab.c <<'END'
#include <plimsoll/lab.h>
#include <stdio.h>
int main(int argc, char **argv) {
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_error err = PL_SIZED(pl_error);
    pl_job job;
    pl_job_default(&job);
    job.estimator = "random-forest";
    if (argc != 2 || pl_model_open(&model, argv[1], NULL, &err) != PL_OK) return 1;
    if (pl_estimate(&report, model, &job, &err) != PL_USAGE) return 2;
    pl_lab_register();
    if (pl_estimate(&report, model, &job, &err) != PL_OK) return 3;
    printf("%lld\n", (long long)report->peak_bytes);
    pl_report_close(&report);
    pl_model_close(&model);
    return 0;
}
END
    libdir=$(dirname "$(find "$prefix" -name libplimsoll-lab.so)")
    PKG_CONFIG_PATH=$libdir/pkgconfig
    export PKG_CONFIG_PATH
    flags=$(pkg-config --define-variable=prefix="$prefix" --cflags --libs plimsoll-lab)
    # shellcheck disable=SC2086
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror lab.c $flags -o shared-lab
    # shellcheck disable=SC2046
    cc -std=c11 lab.c -I"$prefix/include" "$libdir/libplimsoll-lab.a" "$libdir/libplimsoll.a" \
        $(pkg-config --define-variable=prefix="$prefix" --static --libs-only-l plimsoll-lab | sed 's/-lplimsoll[-a-z]*//g') -o static-lab
    LD_LIBRARY_PATH=$libdir ./shared-lab "$ROOT/examples/resnet18.pt2" >shared-out
    ./static-lab "$ROOT/examples/resnet18.pt2" >static-out
    "$PLIMSOLL" estimate "$ROOT/examples/resnet18.pt2" --estimator random-forest --json >out
    is "$(cat shared-out)" "$(value memory.peak_bytes <out)"
    is "$(cat static-out)" "$(cat shared-out)"
}

# The cards of this machine, by the fake driver of the tests: the header, the library and its pkg-config file.
a_program_builds_against_the_live_cards() {
    case $BUILD in *asan*) skip "a_program_builds_against_the_live_cards: on the ordinary build alone" ;; esac
    install_tree
    cat >live.c <<'END'
#include <plimsoll/live.h>
#include <stdio.h>
int main(int argc, char **argv) {
    pl_live *live = NULL;
    pl_error err = PL_SIZED(pl_error);
    pl_live_settings settings;
    pl_live_settings_default(&settings);
    if (argc > 1) settings.library = argv[1];
    if (pl_live_open(&live, &settings, &err) != PL_OK) {
        printf("%s: %s\n", err.where, err.message);
        return (int)err.code;
    }
    printf("%s\n", pl_live_card_at(live, 0)->name);
    pl_live_close(&live);
    return 0;
}
END
    libdir=$(dirname "$(find "$prefix" -name libplimsoll-live.so)")
    PKG_CONFIG_PATH=$libdir/pkgconfig
    export PKG_CONFIG_PATH
    flags=$(pkg-config --define-variable=prefix="$prefix" --cflags --libs plimsoll-live)
    # shellcheck disable=SC2086
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror live.c $flags -o shared-live
    cc -std=c11 live.c -I"$prefix/include" "$libdir/libplimsoll-live.a" "$libdir/libplimsoll.a" -lz -lm -o static-live
    echo 'card 0 NVIDIA_H200 143771 1000' >nvml
    for program in shared-live static-live; do
        is "$(FAKE_NVML=nvml LD_LIBRARY_PATH=$libdir "./$program" "$BUILD/tests/libfake-nvml-0.so")" 'NVIDIA H200'
        gives 4 env LD_LIBRARY_PATH="$libdir" "./$program" /no/such/library
        says out '^/no/such/library: no NVIDIA driver here: '
    done
}

try everything_is_installed
try a_program_builds_against_it
try the_example_of_the_page_runs
try headers_are_cplusplus_too
try a_program_builds_against_the_laboratory
try a_program_builds_against_the_live_cards
done_testing
