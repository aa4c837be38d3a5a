"""What an S3 server, or something between it and us, can do wrong. Each is a fault to plan in a `FaultProxy`."""

import socket
import struct
from collections.abc import Callable
from dataclasses import replace

from tests.support.s3_proxy import Answer, Exchange, Fault

_RESET = struct.pack("ii", 1, 0)  # linger on, no time: the connection is reset, not ended


def refuses(status: int, code: str = "") -> Fault:
    """An S3 error; with no code, a page of a load balancer."""
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as planned</Message></Error>" if code else "<html>upset</html>"
    return lambda exchange: exchange.give(Answer(status, {"Content-Type": "application/xml"}, text.encode()))


def hangs(exchange: Exchange) -> None:
    """No answer as long as anybody waits for one."""
    exchange.proxy.closing.wait(60)
    exchange.drop()


def stalls(exchange: Exchange) -> None:
    """Half of the body comes, and then nothing, as long as anybody waits for it."""
    answer = exchange.forward()
    exchange.give(answer, len(answer.body) // 2)
    exchange.proxy.closing.wait(60)


def answers_after(seconds: float) -> Fault:
    def fault(exchange: Exchange) -> None:
        exchange.proxy.closing.wait(seconds)
        exchange.give(exchange.forward())

    return fault


def resets(exchange: Exchange) -> None:
    exchange.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    exchange.handler.connection.close()
    exchange.drop()


def loses_the_answer(exchange: Exchange) -> None:
    """The request takes effect, and nobody hears of it."""
    exchange.forward()
    exchange.drop()


def sends_twice(exchange: Exchange) -> None:
    """As a load balancer that tries again by itself."""
    exchange.forward()
    exchange.give(exchange.forward())


def cuts_the_body(exchange: Exchange) -> None:
    answer = exchange.forward()
    exchange.give(answer, len(answer.body) // 2)


def drips(exchange: Exchange) -> None:
    """The body comes byte after byte, each in time, for longer than anybody should wait."""
    answer = exchange.forward()
    exchange.give(answer, 0)
    for at in range(len(answer.body)):
        if exchange.proxy.closing.wait(0.02):
            return
        exchange.handler.wfile.write(answer.body[at : at + 1])
        exchange.handler.wfile.flush()


def damages_the_upload(exchange: Exchange) -> None:
    """A bit flips on the way to the server."""
    body = bytearray(exchange.request.body)
    body[len(body) // 2] ^= 1
    exchange.request = replace(exchange.request, body=bytes(body))
    exchange.give(exchange.forward())


def ignores_the_condition(exchange: Exchange) -> None:
    exchange.give(exchange.forward(exchange.without("if-none-match")))


def refuses_conditions(exchange: Exchange) -> None:
    """As servers that do not know them: 501."""
    if exchange.request.conditional:
        refuses(501, "NotImplemented")(exchange)
    else:
        exchange.give(exchange.forward())


def ignores_the_range(exchange: Exchange) -> None:
    exchange.give(exchange.forward(exchange.without("range")))


def ignores_the_body(exchange: Exchange) -> None:
    """Says that it has stored, or deleted, and has not."""
    exchange.give(Answer(204 if exchange.request.method == "DELETE" else 200, {"ETag": '"0"'}, b""))


def stores(change: Callable[[bytes], bytes]) -> Fault:
    """What is stored is not what was sent."""

    def fault(exchange: Exchange) -> None:
        exchange.give(exchange.forward(replace(exchange.request, body=change(exchange.request.body))))

    return fault


def stores_trailers(body: bytes) -> bytes:
    """As servers that take a chunked upload with a checksum for the object itself."""
    return b"%x;chunk-signature=0\r\n" % len(body) + body + b"\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"


def answers_changed(change: Callable[[Answer], Answer]) -> Fault:
    return lambda exchange: exchange.give(change(exchange.forward()))


def in_pages_of(count: int) -> Fault:
    """A listing in small pages."""

    def fault(exchange: Exchange) -> None:
        exchange.give(exchange.forward(replace(exchange.request, path=f"{exchange.request.path}&max-keys={count}")))

    return fault
