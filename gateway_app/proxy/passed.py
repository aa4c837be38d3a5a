"""What goes to a provider unrecorded: token counts, lists of models. It makes no tokens, so there is nothing to pay twice."""

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from gateway_app.proxy import headers, refusals
from gateway_app.proxy.admission import Admission, Overtaken

_MOST_BYTES = 16 * 1024 * 1024
_SECONDS = aiohttp.ClientTimeout(total=60)


async def pass_on(
    client: aiohttp.ClientSession, admission: Admission, method: str, url: str, sent: dict[str, str], body: bytes
) -> web.Response:
    """Raises Refusal where the provider is not reached, or the machine may not reach it any more."""
    try:
        async with client.request(
            method,
            URL(url, encoded=True),
            headers=sent,
            data=body or None,
            timeout=_SECONDS,
            allow_redirects=False,
            trace_request_ctx=admission,
        ) as answered:
            data = await answered.content.read(_MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise refusals.not_reached("its answer is too large")
            return web.Response(status=answered.status, body=data, headers=CIMultiDict(headers.back(answered.headers.items())))
    except Overtaken:
        raise refusals.not_running() from None
    except (aiohttp.ClientError, TimeoutError) as error:
        raise refusals.not_reached(type(error).__name__) from None
