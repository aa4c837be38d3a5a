"""The ASGI application on a port of loopback, in a thread of the test's process: with the test's database, and its static files."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler

from tests.support.waiting import until

START_SECONDS = 30


@contextmanager
def serving() -> Iterator[str]:
    """Its address; it is ended, with its thread, at the end of the block. Static files come from the source: nothing is collected."""
    from keepstate_site import asgi

    application: Any = asgi.application
    handler: Any = ASGIStaticFilesHandler(application)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        options: dict[str, Any] = {"lifespan": "off", "log_config": None, "ws": "none", "timeout_graceful_shutdown": 5}
        server = uvicorn.Server(uvicorn.Config(handler, **options))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), name="browser-test-server")
        thread.start()
        try:
            until(lambda: server.started, START_SECONDS, "the server has started")
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(START_SECONDS)
            assert not thread.is_alive()
