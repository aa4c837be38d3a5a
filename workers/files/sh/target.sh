# Begins the scripts that write: the path's directory is entered, $1 is the name in it, $2 the temporary file, $3 "new" to overwrite
# nothing. A link is not written through, and not replaced either.
enter "$path"
name=./$1
temporary=./$2
only_new=$3
shift 3
require_target() {
    [ ! -L "$name" ] || exit 15
    [ ! -d "$name" ] || exit 13
    [ ! -e "$name" ] || [ -f "$name" ] || exit 14
    [ ! -e "$name" ] || [ "$only_new" != new ] || exit 16
}
require_temporary() {
    [ -f "$temporary" ] && [ ! -L "$temporary" ] || exit 17
}
