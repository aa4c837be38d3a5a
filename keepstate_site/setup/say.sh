# shellcheck shell=sh
# Messages of the launcher. Sourced; expects PROJECT.

say() { printf 'keepstate | %s\n' "$*"; }

# fail WHAT NEXT: what happened, and what to do. Ends the launcher.
fail() {
    printf 'keepstate: %s\n' "$1" >&2
    [ -z "${2:-}" ] || printf '           %s\n' "$2" >&2
    exit 1
}

# logged PATTERN COMMAND...: run with its whole output in the set-up log, showing the lines that match PATTERN as progress.
# Returns the command's own code.
logged() {
    pattern=$1
    shift
    code_file=$LOGS/setup.code
    {
        code=0
        "$@" 2>&1 || code=$?
        echo "$code" >"$code_file"
    } </dev/null | tee -a "$LOGS/setup.log" | { grep --line-buffered -E "$pattern" || true; } | cut -c 1-100 | sed -u 's/^/keepstate |   /'
    return "$(cat "$code_file")"
}
