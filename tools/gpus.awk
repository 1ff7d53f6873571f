# Makes the C rows of src/device/catalogue.c from src/device/gpus.tsv, whose head explains the
# columns. Any awk will do:  awk -f tools/gpus.awk src/device/gpus.tsv > gpu_rows.h
# A line that is not as it should be ends it with a message and exit status 1.

function fail(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what > "/dev/stderr"
    failed = 1
    exit 1
}

function number(column, text) {
    if (text !~ /^[0-9]+(\.[0-9]+)?$/ || text + 0 <= 0)
        fail(column " should be a number above 0, found '" text "'")
    return text
}

function rate(column, text) {
    return text == "-" ? "NAN" : number(column, text)
}

function text_of(column, text) {
    if (text == "" || text ~ /["\\]/) fail(column " should be text without quotes or backslashes")
    return "\"" text "\""
}

# Bytes of the context: as given, or by one of the two rules, in whole MiB.
function context(text, threads,    each) {
    each["hopper"] = 2.2197
    each["general"] = 1.889
    if (text in each) return sprintf("INT64_C(%d) * 1048576", 24 + each[text] * threads / 1024 + 0.5)
    if (text !~ /^[0-9]+$/) fail("context should be bytes, 'hopper' or 'general', found '" text "'")
    return "INT64_C(" text ")"
}

BEGIN {
    FS = "\t"
    print "/* Made from gpus.tsv by tools/gpus.awk. */"
}

/^#/ || /^$/ { next }

{
    if (NF != 16) fail("16 columns are needed, found " NF)
    if ($1 !~ /^[a-z0-9][a-z0-9.-]*$/)
        fail("a name has lower case letters, digits, hyphens and points, found '" $1 "'")
    if ($1 in seen) fail("'" $1 "' stands here twice")
    seen[$1] = 1
    if ($3 !~ /^(-|[a-z0-9]+(,[a-z0-9]+)*)$/) fail("aliases are letters and digits between commas")
    part = "NULL" # of MIG: the card's name
    if (match($1, /-[1-7]g\.[0-9]+gb$/)) part = text_of("name", substr($1, 1, RSTART - 1))
    if ($5 !~ /^[0-9]+\.[0-9]$/) fail("cc should be as 8.0, found '" $5 "'")
    if ($15 != "yes" && $15 != "no") fail("calibrated should be yes or no, found '" $15 "'")
    split($5, cc, ".")
    printf "{.aliases = %s,\n .gpu = {%s, %s,\n", text_of("aliases", $3), text_of("name", $1), \
        text_of("title", $2)
    printf "  INT64_C(%s) * 1048576, %d, %d, %s, %s, %s,\n", number("memory", $4), cc[1], cc[2], \
        number("sms", $6), number("threads", $7), number("bandwidth", $9)
    printf "  %s, %s, %s, %s,\n", number("fp32", $10), rate("tf32", $11), rate("fp16", $12), \
        rate("bf16", $13)
    printf "  %s, %s,\n  %s,\n  %s, %s}},\n", context($14, $6 * number("threads", $7)), \
        $15 == "yes" ? "true" : "false", text_of("source", $16), rate("l2", $8), part
    rows++
}

END {
    if (failed) exit 1
    if (!rows) fail("no rows")
}
