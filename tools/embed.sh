#!/bin/sh
# embed.sh SYMBOL FILE: assembly with FILE's bytes between SYMBOL and SYMBOL_end, read-only. The checksum is there so that
# the text changes with the bytes, and the object is made again.
set -eu
cat <<END
/* $(cksum <"$2") */
.section .rodata
.balign 16
.globl $1
.hidden $1
$1:
.incbin "$2"
.globl $1_end
.hidden $1_end
$1_end:
.byte 0
.section .note.GNU-stack,"",%progbits
END
