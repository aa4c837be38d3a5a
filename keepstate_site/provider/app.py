"""The fake provider: an HTTP server that speaks four providers' APIs, keeps a bill, and breaks as its script says. It is no model.

POST /v1/messages, /v1/messages/count_tokens; GET /v1/models; POST /v1/chat/completions, /v1/responses
POST /v1beta/models/{model}:generateContent and :streamGenerateContent?alt=sse
GET /fake/bill; POST /fake/script {"acts": [...], "default": {...}}; POST /fake/release; POST /fake/reset
"""

import asyncio
import hashlib
import json
import socket
import struct
from typing import Any

from aiohttp import web

from keepstate_site.provider import answers
from keepstate_site.provider.answers import Wanted
from keepstate_site.provider.bill import Bill, Line
from keepstate_site.provider.script import Act, Cut, Script
from keepstate_site.provider.state import Kept

#: A request's body may be so large; a stream that hangs is let go after so long.
BODY_BYTES = 80 * 1024 * 1024
HANG_SECONDS = 3600
_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key")


class Provider:
    def __init__(self) -> None:
        self.bill, self.script, self.kept = Bill(), Script(), Kept()
        self._release = asyncio.Event()

    def application(self) -> web.Application:
        app = web.Application(client_max_size=BODY_BYTES)
        app.add_routes(
            [
                web.post("/v1/messages", self._of("anthropic")),
                web.post("/v1/messages/count_tokens", self._count),
                web.get("/v1/models", self._models),
                web.post("/v1/chat/completions", self._of("chat")),
                web.post("/v1/responses", self._of("responses")),
                web.post("/v1beta/models/{model}:{verb}", self._of("gemini")),
                web.get("/fake/bill", self._told),
                web.post("/fake/script", self._scripted),
                web.post("/fake/release", self._released),
                web.post("/fake/reset", self._reset),
            ]
        )
        return app

    async def _told(self, _: web.Request) -> web.Response:
        return web.json_response(self.bill.told())

    async def _scripted(self, request: web.Request) -> web.Response:
        try:
            self.follow(await request.json())
        except (ValueError, TypeError) as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response({})

    def follow(self, told: Any) -> None:
        """`acts` for the next calls, one each, `default` for all after them. Raises ValueError or TypeError; then nothing was changed."""
        if not isinstance(told, dict) or set(told) - {"acts", "default"}:
            raise ValueError("a script is an object with acts, default, or both")
        acts, default = [Act.of(act) for act in told.get("acts", [])], told.get("default")
        if default is not None:
            self.script.default = Act.of(default)
        self.script.add(acts)

    def release(self) -> None:
        """All that are held now go on."""
        held, self._release = self._release, asyncio.Event()
        held.set()

    def forget(self) -> None:
        """An empty bill, and nothing to do wrong."""
        self.bill.lines.clear()
        self.script.clear()
        self.kept.clear()

    async def _released(self, _: web.Request) -> web.Response:
        self.release()
        return web.json_response({})

    async def _reset(self, _: web.Request) -> web.Response:
        self.forget()
        return web.json_response({})

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "fake-model", "type": "model", "display_name": "Fake"}], "has_more": False})

    async def _count(self, request: web.Request) -> web.Response:
        return web.json_response({"input_tokens": max(1, len(await request.text()) // 4)})

    def _of(self, api: str) -> Any:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await self._answer(api, request)

        return answer

    async def _answer(self, api: str, request: web.Request) -> web.StreamResponse:
        raw, act = await request.read(), self.script.take()
        try:
            body = json.loads(raw)
        except ValueError:
            return web.json_response(answers.error_body(api, 400), status=400)
        stream = request.match_info.get("verb") == "streamGenerateContent" if api == "gemini" else body.get("stream") is True
        model = request.match_info.get("model") or str(body.get("model", "fake-model"))
        asked_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        words = json.dumps({name: value for name, value in body.items() if name not in ("stream", "stream_options")}, sort_keys=True)
        wanted = Wanted(api, model, words, act.words, len(self.bill.lines) + 1, asked_usage, act.say)
        line = self.bill.add(
            api=api,
            path=request.path_qs,
            model=model,
            stream=stream,
            body_sha256=hashlib.sha256(raw).hexdigest(),
            key_last4=_credential(request)[-4:],
            input_tokens=wanted.input_tokens,
            output_tokens=wanted.output_tokens,
        )
        await asyncio.sleep(act.wait_seconds)
        if act.status != 200:
            line.outcome = "refused"
            headers = {"Retry-After": act.retry_after} if act.retry_after else {}
            return web.json_response(answers.error_body(api, act.status), status=act.status, headers=headers)
        if (refused := self.kept.refusal(api, body)) is not None:
            line.outcome = "refused"
            return web.json_response(refused[1], status=refused[0])
        self.kept.answered |= {f"msg_fake_{line.number}", f"resp_fake_{line.number}"}
        if act.cut is not None and act.events == 0:
            return await self._break(request, line, act)
        if act.hold and not stream:
            await self._release.wait()
        return await self._stream(request, wanted, line, act) if stream else self._whole(wanted, line)

    def _whole(self, wanted: Wanted, line: Line) -> web.Response:
        line.outcome = "complete"
        return web.json_response(answers.APIS[wanted.api][0](wanted), headers={"request-id": f"req_fake_{line.number}"})

    async def _stream(self, request: web.Request, wanted: Wanted, line: Line, act: Act) -> web.StreamResponse:
        events = answers.APIS[wanted.api][1](wanted)
        line.events = len(events)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "request-id": f"req_fake_{line.number}"})
        await response.prepare(request)
        for number, event in enumerate(events):
            if act.cut is not None and number == act.events:
                if act.cut == Cut.ERROR:
                    await response.write(answers.error_event(wanted.api))
                if act.cut in (Cut.ERROR, Cut.END):
                    line.outcome = act.cut
                    await response.write_eof()
                    return response
                return await self._break(request, line, act)
            if act.hold and number == act.events:
                await self._release.wait()
            if act.pace_seconds:
                await asyncio.sleep(act.pace_seconds)
            try:
                await response.write(event)
            except ConnectionError:
                line.outcome = "caller left"
                raise
            line.delivered += 1
        line.outcome = "complete"
        await response.write_eof()
        return response

    async def _break(self, request: web.Request, line: Line, act: Act) -> web.StreamResponse:
        line.outcome = str(act.cut)
        if act.cut == Cut.HANG:
            await asyncio.sleep(HANG_SECONDS)
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        if act.cut == Cut.RESET:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.close()
        raise ConnectionResetError


def _credential(request: web.Request) -> str:
    shown = next((request.headers[name] for name in _CREDENTIALS if name in request.headers), "")
    return shown.removeprefix("Bearer ")
