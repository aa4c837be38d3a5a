# SIZE SHA256: the temporary file, if it is what was sent, is unpacked into its directory and removed. Its entries are plain files and
# directories under checked names: the host wrote it.
require_temporary
[ "$(stat -c %s "$temporary")" = "$1" ] && [ "$(sha256sum "$temporary" | head -c 64)" = "$2" ] || exit 17
umask 022
tar -x -z -f "$temporary" || exit 18
rm -f -- "$temporary"
sync
