"""The ASGI application that uvicorn serves: Django, and beside it the WebSockets, which Django does not speak."""

import os

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "keepstate_site.settings")

django = get_asgi_application()

from keepstate_site.body_bound import bounded  # noqa: E402  what they import needs the apps to be ready
from keepstate_site.console.websocket import websocket  # noqa: E402
from keepstate_site.events.stream import event_streams  # noqa: E402


async def _http(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    await event_streams(django, scope, receive, send)  # type: ignore[arg-type]  # Django's handler is typed more narrowly


async def application(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    if scope["type"] == "websocket":
        await websocket(scope, receive, send)
    elif scope["type"] == "http":
        await bounded(_http, scope, receive, send)
    else:
        await django(scope, receive, send)  # type: ignore[arg-type]
