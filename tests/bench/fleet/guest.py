"""The program in each machine, and the model that tells from outside what it must hold.

Its whole state follows from a nonce and the tokens that it was given, one for each step: a chain of them and some filling in the memory of
its own process, and a heap of files in memory, of which each step writes one block anew. A child of a fork is given other tokens than its
parent, so that the lineage is part of the state. Nothing changes but by a step, so that what a save holds is known exactly.
"""

import hashlib
from dataclasses import dataclass
from functools import cache

BLOCKS, BLOCK_BYTES = 16, 1 << 16
FILLING_BYTES = 1 << 18
#: How long a step may take in the guest, in tenths of a second: under load an emulated processor is slow.
PATIENCE = 300
EXEC_SECONDS = PATIENCE // 10 + 15

#: Waits for the next line in a pipe: tag, number of the step, token. A number that is not the next one changes nothing and is answered all
#: the same, so that a line which comes twice, or late, does no harm. It wakes now and then to count: the count tells that it lives on.
PROGRAM = f"""
mkdir /run/one 2>/dev/null || exit
nonce=NONCE; step=0; n=0; chain=; filling=$(yes "$nonce" | head -c {FILLING_BYTES})
mkdir /run/heap; mkfifo /run/asked; exec 3<>/run/asked
while :; do
  n=$((n+1))
  read -t 3 tag number token <&3 || continue
  if [ "$number" = $((step+1)) ]; then
    step=$number; chain="$chain$token,"
    yes "$nonce $token" | head -c {BLOCK_BYTES} > /run/heap/$((step % {BLOCKS}))
  fi
  sums="$(echo "$chain$filling" | md5sum) $(cat /run/heap/* 2>/dev/null | md5sum)"
  echo "$tag $nonce $step $n $sums" > /run/said.new; mv /run/said.new /run/said
done
"""


@dataclass(frozen=True)
class State:
    """What the program holds after these steps."""

    nonce: str
    tokens: tuple[str, ...] = ()

    def after(self, token: str) -> "State":
        return State(self.nonce, (*self.tokens, token))

    @property
    def step(self) -> int:
        return len(self.tokens)

    @property
    def sums(self) -> tuple[str, str]:
        return _sums(self)


@dataclass(frozen=True)
class Said:
    """What the program said of itself."""

    nonce: str
    step: int
    count: int
    sums: tuple[str, str]

    def is_of(self, state: State) -> bool:
        return (self.nonce, self.step, self.sums) == (state.nonce, state.step, state.sums)


def start(nonce: str) -> str:
    """The command that starts it. Once in a machine's life: a second start does nothing."""
    return f"({PROGRAM.replace('NONCE', nonce)}) >/dev/null 2>&1 </dev/null & until [ -p /run/asked ]; do sleep 0.1; done"


def ask(tag: str, number: int = 0, token: str = "-") -> str:
    """The command that asks for a step, or (0) only for what it holds, and prints its answer. Exit code 9: it did not answer."""
    return (
        f'echo "{tag} {number} {token}" > /run/asked; t=0; i=0; '
        f'until [ "$t" = {tag} ]; do i=$((i+1)); [ $i -lt {PATIENCE} ] || exit 9; '
        'read -r t rest < /run/said && [ "$t" = ' + tag + " ] || sleep 0.1; done 2>/dev/null; echo $rest"
    )


def parsed(text: str) -> Said | None:
    """None for what the program does not say: never a reason to believe anything."""
    words = text.split()
    if len(words) != 7 or not words[1].isdecimal() or not words[2].isdecimal():
        return None
    return Said(words[0], int(words[1]), int(words[2]), (words[3], words[5]))


@cache
def _sums(state: State) -> tuple[str, str]:
    """Computed without the guest."""
    chain = "".join(f"{token}," for token in state.tokens) + _filling(state.nonce)
    written: dict[str, str] = {}
    for number, token in enumerate(state.tokens, 1):
        written[str(number % BLOCKS)] = token
    heap = hashlib.md5(usedforsecurity=False)
    for block in sorted(written):  # as the guest's shell sorts names
        heap.update(_repeated(f"{state.nonce} {written[block]}\n", BLOCK_BYTES).encode())
    return hashlib.md5(f"{chain}\n".encode(), usedforsecurity=False).hexdigest(), heap.hexdigest()


def _filling(nonce: str) -> str:
    """A command's output loses its last line's end in a shell."""
    return _repeated(f"{nonce}\n", FILLING_BYTES).rstrip("\n")


def _repeated(line: str, size: int) -> str:
    return (line * (size // len(line) + 1))[:size]
