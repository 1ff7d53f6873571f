#!/bin/sh
# A build without the laboratory (meson's -Dlab=disabled): what it needs, what it has, and what it says of what it lacks.
. "$ROOT/tests/case.sh"
case $BUILD in *asan* | *tsan*) echo "SKIP without_lab: on the ordinary build alone"; exit 0 ;; esac

build_it() {
    [ -x build/plimsoll ] && return
    { meson setup build "$ROOT" -Dlab=disabled -Dtests=false --buildtype=plain && ninja -C build; } >log 2>&1 || { tail -n 30 log; false; }
}

it_builds_and_needs_no_liblzma() {
    build_it
    if grep -E 'lzma|xgboost|lab/(learn|jobs|estimators|train)/' build/build.ninja; then false; fi
    [ ! -f build/libplimsoll-lab.so ]
    readelf -d build/plimsoll | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -E '^(libc|libm|libz|ld-linux[-a-z0-9_]*)\.so' >wrong || true
    silent wrong
}

its_estimates_are_the_same() {
    build_it
    for estimator in sim hybrid; do
        "$PLIMSOLL" estimate "$ROOT/examples/resnet18.pt2" --estimator "$estimator" --json >with
        build/plimsoll estimate "$ROOT/examples/resnet18.pt2" --estimator "$estimator" --json >without
        sed -i 's/"elapsed_us":[0-9]*//' with without
        [ -s with ]
        cmp with without
    done
}

it_says_what_it_lacks() {
    build_it
    for verb in train evaluate; do
        gives 2 build/plimsoll "$verb" x
        says err 'this build has no laboratory'
        build/plimsoll --help >out
        if grep -q "^ *$verb " out; then echo "help has $verb"; false; fi
    done
    gives 2 build/plimsoll estimate "$ROOT/examples/resnet18.pt2" --estimator random-forest
    says err 'there are hybrid, sim; this build has no laboratory'
    gives 3 build/plimsoll estimate "$ROOT/examples/resnet18.pt2" --model "$ROOT/models/random-forest.plm"
    says err 'random-forest.*this build has no laboratory'
    gives 3 build/plimsoll estimate "$ROOT/examples/resnet18.pt2" --model "$ROOT/models/gpumemnet-mlp.plm"
    says err 'this build has no laboratory'
    build/plimsoll estimate --help >out
    says out 'FILE.*weights of hybrid'
    build/plimsoll estimators --json >out
    is "$(grep -o '"name":' out | wc -l)" 2
}

try it_builds_and_needs_no_liblzma
try its_estimates_are_the_same
try it_says_what_it_lacks
done_testing
