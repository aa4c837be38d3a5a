# SIZE SHA256 MODE: the temporary file, if it is what was sent, gets its name, whole and on the disk, or nothing has happened.
# An empty MODE keeps the mode and the owner of a file that is replaced.
require_target
require_temporary
[ "$(stat -c %s "$temporary")" = "$1" ] && [ "$(sha256sum "$temporary" | head -c 64)" = "$2" ] || exit 17
mode=$3
if [ -e "$name" ]; then
    chown "$(stat -c %u:%g "$name")" "$temporary"
    mode=${mode:-$(stat -c %a "$name")}
fi
chmod "${mode:-644}" "$temporary" || exit 18
sync "$temporary" || exit 18
if [ "$only_new" = new ]; then
    ln -- "$temporary" "$name" 2>/dev/null || exit 16
    rm -f -- "$temporary"
else
    mv -f -T -- "$temporary" "$name" || exit 18
fi
sync .
facts "$name"
