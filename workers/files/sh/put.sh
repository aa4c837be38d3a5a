# OFFSET SIZE: write the input into the temporary file at that offset. Repeating it does the same again.
require_temporary
dd of="$temporary" bs=65536 conv=notrunc iflag=fullblock oflag=seek_bytes seek="$1" 2>/dev/null || exit 18
[ "$(stat -c %s "$temporary")" -eq $(($1 + $2)) ] || exit 18
