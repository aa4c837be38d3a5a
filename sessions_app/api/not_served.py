"""What answers under /api where no route does."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.envelope import Shape
from sessions_app.api.view import ApiView
from sessions_app.errors import NotServed


class NotServedView(ApiView):
    """Any method: 404 of another type than a record that is not there, and no token is asked for."""

    authentication_classes = ()
    permission_classes = ()
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotServed("This service has no such route. Nothing was done.", next_action="See the routes at /api/docs.")

    def get(self, request: Request, rest: str) -> Response:
        raise AssertionError("unreachable: initial refuses")


class NotServedV2View(NotServedView):
    shape = Shape.V2
