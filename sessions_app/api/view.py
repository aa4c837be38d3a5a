"""What every route of the API has in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from sessions_app.api import errors, protocol
from sessions_app.api.auth import SESSIONS, BearerAuthentication, HasScope, Needs
from sessions_app.api.envelope import Shape, success
from sessions_app.errors import Invalid, NotFound
from sessions_app.models import Account, ApiToken
from sessions_app.services import account as accounts

#: The query parameter that names a file within a machine.
GUEST_PATH = "path"


class AlwaysJson(BaseContentNegotiation):
    """JSON is what there is, whatever a client says that it would like."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """Bearer token with the scope that the route needs, protocol number, JSON, typed errors in the route's shape."""

    shape: ClassVar[Shape] = Shape.PLAIN
    needs: ClassVar[Needs] = SESSIONS
    while_closing: ClassVar[frozenset[str]] = frozenset()  # methods that change something and are served while the account is closing
    authentication_classes: Sequence[type[BaseAuthentication]] = (BearerAuthentication,)
    permission_classes: Sequence[type[BasePermission]] = (HasScope,)
    parser_classes = (JSONParser,)  # for the schema: `body.read` reads bodies
    renderer_classes = (JSONRenderer,)
    content_negotiation_class = AlwaysJson
    metadata_class = None
    throttle_classes: Sequence[type[BaseThrottle]] = ()  # a token's rates are asked where it is looked up

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        protocol.require(request)
        super().initial(request, *args, **kwargs)
        _refuse_nul(request, kwargs)
        self._refuse_while_closing(request)

    def _refuse_while_closing(self, request: Request) -> None:
        """Every change but the few that are named. What starts work is asked again, under a lock (services/account.py)."""
        changes = request.method not in SAFE_METHODS and request.method not in self.while_closing
        if changes and isinstance(request.auth, ApiToken) and request.auth.account.closing_at is not None:
            raise accounts.closing()

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return errors.handle

    @property
    def token(self) -> ApiToken:
        token = self.request.auth
        if not isinstance(token, ApiToken):
            raise TypeError("a route without a token asked for its account")
        return token

    @property
    def account(self) -> Account:
        return self.token.account

    def answer(self, data: Any, status: int = 200) -> Response:
        return Response(success(self.shape, data), status=status)


def _refuse_nul(request: Request, parameters: Mapping[str, Any]) -> None:
    """The database can neither hold nor look for such a text, so no record has one in its name, and no query can mean one.

    A guest's path never comes to the database, and has a refusal of its own.
    """
    if any("\0" in str(value) for value in parameters.values()):
        raise NotFound("There is no such record: no id holds a NUL.")
    asked = [(name, values) for name, values in request.query_params.lists() if name != GUEST_PATH]
    if any("\0" in text for name, values in asked for text in (name, *values)):
        raise Invalid("The query holds a NUL. Nothing was done.")
