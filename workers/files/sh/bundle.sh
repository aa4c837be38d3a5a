# The input names files, one in a line, each beginning with ./ : what each is, the bytes of all, and once more what each is, so that a
# change in between is seen.
enter "$path"
set --
while IFS= read -r name; do
    set -- "$@" "$name"
done
state() {
    stat -c '%i %s %Y %Z %f' -- "$@"
}
state "$@" || exit 10
cat -- "$@" || exit 17
state "$@" || exit 17
