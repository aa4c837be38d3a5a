# LIMIT: a directory's entries in byte order, or the one row of a file. A row ends in // and a newline, which no name can contain.
swap() { # so that a name is a line, whatever it contains; and back
    tr '\0\n' '\n\0'
}
if [ -d "$root/$path" ]; then
    enter "$path"
    echo "directory $(find . -mindepth 1 -maxdepth 1 -print0 | tr -dc '\0' | wc -c)"
    find . -mindepth 1 -maxdepth 1 -print0 | LC_ALL=C sort -z | swap | head -n "$1" | swap |
        xargs -0 -r stat -c '%f %s %Y %n//' -- 2>/dev/null
else
    open_file
    echo "file 1"
    stat -L -c "%f %s %Y ./" "/proc/$$/fd/3" | tr -d '\n'
    printf '%s//\n' "${real##*/}"
fi
exit 0
