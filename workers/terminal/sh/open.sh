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
stty -F $tty sane columns "$1" rows "$2" || exit 20
cat >$here/tmux.conf <<'END'
set -g status off
set -g history-limit 5000
set -s escape-time 20
END
setsid -c /usr/lib/keepstate/sh -c "$4" keepstate $here <>$tty >&0 2>&1 &
echo $! >$here/terminal.pid
