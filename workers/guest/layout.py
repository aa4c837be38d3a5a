"""Where our scripts lie in a guest: the same in every image, but for the relay, which needs a Python."""

SCRIPTS = "usr/lib/keepstate"
BUSYBOX = f"{SCRIPTS}/busybox"
SHELL = f"{SCRIPTS}/sh"  # a link to it
#: The argument after it is the directory that holds the relay's. No site, no environment, no byte code that would be written.
RELAY_COMMAND = ("-I", "-S", "-B", "-c", "import sys; sys.path.insert(0, sys.argv[1]); from relay.service import main; main(sys.argv[2:])")
PLACES = {
    "init": (f"{SCRIPTS}/init",),
    "exec": (f"{SCRIPTS}/exec",),
    "reseed": (f"{SCRIPTS}/reseed",),
    "seed": (f"{SCRIPTS}/seed",),  # no script: see seed_program.py
    "clock": ("usr/sbin/hwclock",),  # nor this: see hwclock_program.py
    "hwclock": (f"{SCRIPTS}/hwclock",),
    "shutdown": ("usr/sbin/shutdown", "usr/sbin/poweroff", "usr/sbin/halt", "usr/sbin/reboot"),
}


def guest_paths(files: dict[str, bytes]) -> dict[str, bytes]:
    """{path in the guest: content} of the scripts and programs; all are executable. The initramfs' own script is not among them."""
    return {path: files[name] for name, paths in PLACES.items() for path in paths}


#: For login shells; /usr/lib/keepstate/exec and the terminal read it themselves.
LOGIN = b"[ ! -r /run/keepstate/environment ] || . /run/keepstate/environment\n"


def python_paths(files: dict[str, bytes]) -> dict[str, bytes]:
    """What only an image with a Python has: the relay."""
    return {f"{SCRIPTS}/{name}": content for name, content in files.items() if name.startswith("relay/")}
