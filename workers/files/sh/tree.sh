# FIRST LIMIT: how many entries lie below a directory, and LIMIT of them from the FIRST one (counted from 1), in the order of their
# names' bytes; rows as in a list. Other file systems are not entered.
enter "$path"
below() {
    find . -xdev -mindepth 1 ! -name '.keepstate-put-*' -print0
}
swap() { # so that a name is a line, whatever it contains; and back
    tr '\0\n' '\n\0'
}
echo "tree $(below | tr -dc '\0' | wc -c)"
below | LC_ALL=C sort -z | swap | tail -n "+$1" | head -n "$2" | swap | xargs -0 -r stat -c '%f %s %Y %n//' -- 2>/dev/null
exit 0
