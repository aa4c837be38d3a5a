"""Bytes between the relay and its two sides: a program that may leave, and a gateway that may be silent."""

import _socket
import posix
import select
import struct

#: What Python's own `socket`, `threading`, `signal` and `os` import costs an emulated machine a second at each boot.
Socket = _socket.socket
READ_BYTES = 65536
_LEFT = select.POLLRDHUP | select.POLLHUP | select.POLLERR
_RESET = struct.pack("ii", 1, 0)


class ProgramLeft(Exception):
    """Nobody waits for the answer any more."""


class GatewayLost(Exception):
    """The connection to the gateway is of no use any more: it broke, or was silent for `seconds`."""

    def __init__(self, seconds: float = 0.0):
        super().__init__()
        self.seconds = seconds


def reset(sock: Socket) -> None:
    """The other side reads that there was more: the connection ends by RST, never in order."""
    try:
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, _RESET)
    except OSError:
        pass
    sock.close()


def pause(program: Socket, seconds: float) -> None:
    """Raises ProgramLeft, at once when it leaves."""
    poll = select.poll()
    poll.register(program, select.POLLRDHUP)
    if poll.poll(seconds * 1000):
        raise ProgramLeft


class Gateway:
    """One connection to it, for one request. Every wait ends when the program leaves, or after `silence` seconds without a byte."""

    def __init__(self, sock: Socket, program: Socket, silence: float):
        self._sock, self._silence = sock, silence
        self._poll = select.poll()
        self._poll.register(program, select.POLLRDHUP)
        self._program = program.fileno()
        self._ahead = b""
        sock.setblocking(False)

    def send(self, data: memoryview) -> None:
        while data:
            self._wait(select.POLLOUT)
            try:
                data = data[self._sock.send(data[: 1 << 20]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise GatewayLost from error

    def piece(self, most: int = READ_BYTES) -> bytes:
        """Some bytes; none at the end of the connection."""
        if self._ahead:
            taken, self._ahead = self._ahead[:most], self._ahead[most:]
            return taken
        while True:
            self._wait(select.POLLIN)
            try:
                return self._sock.recv(most)
            except BlockingIOError:
                continue
            except OSError as error:
                raise GatewayLost from error

    def exactly(self, count: int) -> bytes:
        taken = bytearray()
        while len(taken) < count:
            more = self.piece(count - len(taken))
            if not more:
                raise GatewayLost
            taken += more
        return bytes(taken)

    def until(self, mark: bytes, most: int) -> bytes:
        """All before the mark; what came behind it is read next."""
        taken = bytearray()
        while mark not in taken:
            more = self.piece()
            if not more or len(taken) > most:
                raise GatewayLost
            taken += more
        before, _, self._ahead = bytes(taken).partition(mark)
        return before

    def close(self) -> None:
        self._sock.close()

    def _wait(self, event: int) -> None:
        """Until the socket is ready. The kernel's clock for it is the guest's own, which stands still while the machine is saved."""
        self._poll.register(self._sock, event)
        ready = self._poll.poll(self._silence * 1000)
        if any(fd == self._program and found & _LEFT for fd, found in ready):
            raise ProgramLeft
        if not ready:
            raise GatewayLost(self._silence)


def dial(address: tuple[str, int], program: Socket, *, seconds: float, silence: float) -> Gateway:
    """Raises GatewayLost where it is not reached.

    A peer that is another machine's kernel since a resume says so at the first probe, a second later; one that is gone, after six.
    """
    sock = Socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
        for option, value in ((_socket.TCP_KEEPIDLE, 1), (_socket.TCP_KEEPINTVL, 1), (_socket.TCP_KEEPCNT, 5), (_socket.TCP_NODELAY, 1)):
            sock.setsockopt(_socket.IPPROTO_TCP, option, value)
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_USER_TIMEOUT, 10_000)
        sock.settimeout(seconds)
        sock.connect(address)
    except OSError as error:
        sock.close()
        raise GatewayLost(seconds if isinstance(error, TimeoutError) else 0.0) from error
    return Gateway(sock, program, silence)


def drawn() -> str:
    """A name for a call. Drawn when its request is there, so that two machines with one memory do not draw it before they part."""
    return posix.urandom(16).hex()
