# Begins every script of this folder: $1 is the workspace's root, $2 a relative path. What lies outside of the root is refused by where
# the kernel says that an opened directory or file lies, not by the text of its path: no link and no rename in between leads out.
umask 077
root=$(cd -P -- "$1" && pwd -P) || exit 19
path=$2
shift 2

within() {
    case $1/ in
    "$root"/*) ;;
    *) exit 11 ;;
    esac
}

enter() { # make a directory the working directory, which stays the same one whatever happens to its name
    if ! cd -P -- "$root/$1" 2>/dev/null; then
        [ ! -e "$root/$1" ] || exit 12
        exit 10
    fi
    here=$(pwd -P)
    within "$here"
}

open_file() { # a regular file as descriptor 3; $real is where it lies, relative to the root
    [ -e "$root/$path" ] || exit 10
    [ ! -d "$root/$path" ] || exit 13
    [ -f "$root/$path" ] || exit 14
    exec 3<"$root/$path"
    [ -f "/proc/$$/fd/3" ] || exit 14
    real=$(readlink "/proc/$$/fd/3")
    within "$real"
    real=${real#"$root"/}
}

facts() { # inode, size, time of change of content, of anything, mode in hex
    stat -L -c '%i %s %Y %Z %f' -- "$1"
}
