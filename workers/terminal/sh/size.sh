# COLUMNS ROWS: the terminal's size; the program in front is told by the kernel.
stty -F /dev/hvc0 columns "$1" rows "$2"
