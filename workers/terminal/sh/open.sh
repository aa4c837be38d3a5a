# COLUMNS ROWS NONCE KEEPER: see that a shell runs on the machine's terminal, give the terminal its size, and have it drawn again.
# The shell survives its visitors: in tmux where the machine has it, else on the terminal itself. When it ends, or when tmux is left by
# its own key, the nonce is printed, which ends the visit.
tty=/dev/hvc0
here=/run/keepstate
[ -c $tty ] || exit 20
umask 022
mkdir -p $here
printf %s "$3" >$here/terminal.nonce

lives() {
    read -r keeper <$here/terminal.pid && [ "$(readlink "/proc/$keeper/fd/0")" = $tty ]
}

if lives 2>/dev/null; then
    stty -F $tty columns "$1" rows "$2" || exit 20
    ! command -v tmux >/dev/null || tmux -L keepstate refresh-client -t $tty >/dev/null 2>&1
    exit 0
fi
echo 0 >/proc/self/oom_score_adj # the agent's own protection is not for what it starts
cat >$here/tmux.conf <<'END'
set -g status off
set -g history-limit 5000
set -s escape-time 20
END
# Not with &: a shell without job control lets what it starts so ignore Ctrl-C, for good. The size is set by who keeps the terminal open: the
# kernel forgets it with the last one who closes it.
rm -f $here/terminal.pid
start-stop-daemon -S -b -m -p $here/terminal.pid -x /usr/lib/keepstate/sh -- \
    -c 'exec <>"$1" >&0 2>&1 && stty sane columns "$4" rows "$5" && exec setsid -c "$0" -c "$3" keepstate "$2"' \
    /usr/lib/keepstate/sh $tty $here "$4" "$1" "$2" || exit 20
tries=0
until lives 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -le 100 ] || exit 20
    sleep 0.05
done
