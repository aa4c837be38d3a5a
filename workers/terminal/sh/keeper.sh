# Runs as long as the shell on the terminal does, which is its own. $1: the directory with the nonce.
trap : INT QUIT TSTP HUP
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
HOME=/root USER=root LOGNAME=root TERM=xterm-256color LANG=C.UTF-8
export PATH HOME USER LOGNAME TERM LANG
cd /root || cd /
if [ -r /run/keepstate/environment ]; then . /run/keepstate/environment; fi
if [ -x /bin/bash ]; then SHELL=/bin/bash; else SHELL=/bin/sh; fi
export SHELL
if command -v tmux >/dev/null; then
    tmux -u -L keepstate -f "$1/tmux.conf" new-session -A -s main
else
    "$SHELL" -l
fi
read -r nonce <"$1/terminal.nonce"
printf '\033_keepstate-end:%s\033\\' "$nonce"
stty sane # waits until all is printed
