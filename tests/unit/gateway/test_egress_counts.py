"""What machines connect to is counted in bounded room, and nothing of it is lost while the database is away."""

from gateway_app.egress.counts import MOST_LINES, Counts
from gateway_app.egress.names import Target
from gateway_app.states import EgressOutcome

HOST = Target("example.com", 443)


def test_a_guest_that_names_a_thousand_hosts_has_lines_for_some_and_a_count_of_all() -> None:
    counts = Counts()
    for number in range(1000):
        counts.add("s", Target(f"h{number}.example.com", 443), EgressOutcome.DENIED, connections=1)
    counts.add("other", HOST, EgressOutcome.CONNECTED, connections=1)
    lines = counts.take()
    assert len(lines) == MOST_LINES + 2
    assert sum(line.connections for line in lines if line.session == "s") == 1000
    assert next(line for line in lines if line.session == "other").host == "example.com"


def test_what_could_not_be_written_is_counted_with_what_came_since() -> None:
    counts = Counts()
    counts.add("s", HOST, EgressOutcome.CONNECTED, connections=1, sent=5)
    taken = counts.take()
    counts.add("s", HOST, EgressOutcome.CONNECTED, received=7)
    counts.add("s", None, EgressOutcome.ADDRESS, connections=1)
    counts.give_back(taken)
    line, address = sorted(counts.take(), key=lambda one: one.outcome, reverse=True)
    assert (line.connections, line.sent, line.received, address.host, address.connections) == (1, 5, 7, "", 1)
    assert counts.take() == []
