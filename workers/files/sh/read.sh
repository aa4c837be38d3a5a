# OFFSET COUNT [sha256]: the file's facts, where it lies, the SHA-256 of the whole file or -, and then its bytes. With the fourth
# argument the whole file is hashed first.
open_file
facts "/proc/$$/fd/3"
hash=-
[ "$3" != sha256 ] || hash=$(sha256sum "/proc/$$/fd/3" | head -c 64)
echo "$hash"
printf '%s//\n' "$real"
[ "$2" -eq 0 ] || exec dd bs=65536 skip="$1" count="$2" iflag=skip_bytes,count_bytes,fullblock <&3 2>/dev/null
