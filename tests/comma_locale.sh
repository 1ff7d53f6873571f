#!/bin/sh
# comma_locale.sh FOLDER: makes FOLDER/comma, a locale whose numbers have a comma for a point and
# points between thousands. Used with LOCPATH=FOLDER. Its sources are here, so that no package of
# locales is needed, only the C library's own localedef.
set -eu
folder=$1
command -v localedef >/dev/null || { echo "no localedef on this machine" >&2; exit 4; }
cat >"$folder/comma.source" <<'EOF'
comment_char %
escape_char /
LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
EOF
cat >"$folder/comma.map" <<'EOF'
<code_set_name> ANSI_X3.4-1968
<mb_cur_min> 1
<mb_cur_max> 1
<escape_char> /
<comment_char> %
CHARMAP
<U0000>..<U007F> /x00 NULL
END CHARMAP
EOF
# It warns of every category that is left out, by its exit code too.
localedef -c -i "$folder/comma.source" -f "$folder/comma.map" "$folder/comma" >"$folder/comma.said" 2>&1 || true
[ -s "$folder/comma/LC_NUMERIC" ] || { cat "$folder/comma.said" >&2; exit 4; }
