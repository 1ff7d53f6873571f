# abi.awk: a C program that prints sizes and offsets of every struct of the public headers and the value of
# every enumerator, made of the headers themselves: awk -f abi.awk HEADER... >abi.c. See tests/test_abi.sh.
# Understands what the headers' style allows: typedef struct NAME { ... } NAME; typedef enum alike; members of
# simple, array and function-pointer type.

# Members of a declaration such as "const char *a, *b[4]" or "int (*cancelled)(void *context)".
function members(text, parts, count, i, name) {
    if (match(text, /\(\*[a-z_0-9]+\)/)) {
        member(substr(text, RSTART + 2, RLENGTH - 3))
        return
    }
    gsub(/\[[^\]]*\]/, "", text)
    count = split(text, parts, ",")
    for (i = 1; i <= count; i++) {
        name = parts[i]
        sub(/[ \t]+$/, "", name)
        sub(/.*[ *]/, "", name)
        member(name)
    }
}
function member(name) {
    print "    printf(\"" struct "." name " at %zu, %zu bytes\\n\", offsetof(" struct ", " name "), sizeof((" struct " *)0)->" name ");"
}

BEGIN {
    print "#include <stddef.h>\n#include <stdio.h>"
    for (i = 1; i < ARGC; i++) print "#include \"" ARGV[i] "\""
    print "int main(void) {"
}
{ text = text $0 "\n" }
END {
    # Comments and preprocessor lines away, blanks to one.
    while ((at = index(text, "/*")) > 0) {
        rest = substr(text, at + 2)
        text = substr(text, 1, at - 1) " " substr(rest, index(rest, "*/") + 2)
    }
    gsub(/\n#[^\n]*/, "\n", text)
    gsub(/[ \t\n]+/, " ", text)
    while (match(text, /typedef (struct|enum) pl_[a-z_0-9]+ \{[^}]*\}/)) {
        found = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        split(found, words, " ")
        struct = words[3]
        body = found
        sub(/^[^{]*\{/, "", body)
        sub(/\}$/, "", body)
        print "    printf(\"" struct " %zu bytes\\n\", sizeof(" struct "));"
        if (words[2] == "struct") {
            count = split(body, declarations, ";")
            for (k = 1; k <= count; k++) if (declarations[k] ~ /[a-z]/) members(declarations[k])
        } else {
            count = split(body, declarations, ",")
            for (k = 1; k <= count; k++) {
                name = declarations[k]
                sub(/=.*/, "", name)
                gsub(/ /, "", name)
                if (name != "") print "    printf(\"" name " = %d\\n\", (int)" name ");"
            }
        }
    }
    print "    return 0;\n}"
}
