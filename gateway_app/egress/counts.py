"""What machines have connected to since it was last written down: bounded, whatever a guest does."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gateway_app.egress.names import Target
from gateway_app.states import EgressOutcome

#: Of a session, until they are written down; what is beyond is counted under no host.
MOST_LINES = 32


@dataclass
class Line:
    """`host` is empty, and `port` 0, where none was named or too many were."""

    session: str
    host: str
    port: int
    outcome: EgressOutcome
    connections: int = 0
    sent: int = 0
    received: int = 0


_Key = tuple[str, str, int, EgressOutcome]


class Counts:
    def __init__(self) -> None:
        self._lines: dict[_Key, Line] = {}
        self._of_session: Counter[str] = Counter()

    def add(
        self, session: str, wanted: Target | None, outcome: EgressOutcome, *, connections: int = 0, sent: int = 0, received: int = 0
    ) -> None:
        line = self._line(session, wanted.host if wanted else "", wanted.port if wanted else 0, outcome)
        line.connections += connections
        line.sent += sent
        line.received += received

    def take(self) -> list[Line]:
        """All of it; then there is nothing."""
        lines, self._lines, self._of_session = list(self._lines.values()), {}, Counter()
        return lines

    def give_back(self, lines: Iterable[Line]) -> None:
        """They could not be written down."""
        for line in lines:
            wanted = Target(line.host, line.port) if line.host else None
            self.add(line.session, wanted, line.outcome, connections=line.connections, sent=line.sent, received=line.received)

    def _line(self, session: str, host: str, port: int, outcome: EgressOutcome) -> Line:
        key = (session, host, port, outcome)
        if key not in self._lines:
            if host and self._of_session[session] >= MOST_LINES:
                return self._line(session, "", 0, outcome)
            self._of_session[session] += bool(host)
            self._lines[key] = Line(session, host, port, outcome)
        return self._lines[key]
