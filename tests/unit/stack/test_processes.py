import socket

import pytest

from keepstate_site.stack import processes


def test_a_taken_port_that_was_asked_for_is_an_error_and_any_port_is_loopback() -> None:
    with processes.listen(0) as taken:
        host, port = taken.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(OSError, match="in use"):
            processes.listen(port)


def test_without_a_port_asked_for_another_is_found_where_the_usual_one_is_taken() -> None:
    with socket.socket() as usual:
        usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            usual.bind(("127.0.0.1", 8080))
            usual.listen()
        except OSError:
            pass  # someone else has it: as good for this test
        with processes.listen(None) as found:
            assert found.getsockname()[1] not in (0, 8080)
