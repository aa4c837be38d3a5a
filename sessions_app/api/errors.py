"""Every exception of a view as a typed refusal in the route's shape. Nothing of an unexpected one is shown: it goes to the log."""

import logging
from typing import Any

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.response import Response

from sessions_app.api.envelope import Shape, failure
from sessions_app.errors import Forbidden, Internal, Invalid, NotServed, ServiceError, Unavailable, WrongMethod

log = logging.getLogger(__name__)

_CHALLENGE = 'Bearer realm="keepstate"'


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """The answer to an exception that a view raised; context as the framework gives it."""
    view = context["view"]
    refused = _refusal(error)
    headers = {}
    if refused.status == 401:
        headers["WWW-Authenticate"] = _CHALLENGE
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(view.allowed_methods)
    if refused.retry_after_seconds is not None:
        headers["Retry-After"] = str(refused.retry_after_seconds)
    return Response(failure(getattr(view, "shape", Shape.PLAIN), refused.as_dict()), status=refused.status, headers=headers)


def _refusal(error: Exception) -> ServiceError:
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, MethodNotAllowed):
        return WrongMethod("This route does not take that method. Nothing was done.", next_action="See the routes at /api/docs.")
    if isinstance(error, Http404):
        return NotServed("This service has no such route.", next_action="See the routes at /api/docs.")
    if isinstance(error, PermissionDenied):
        return Forbidden("That is not allowed. Nothing was done.")
    if isinstance(error, SuspiciousOperation):
        return Invalid("The request is malformed. Nothing was done.")
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("the database did not answer a request", exc_info=error)
        return Unavailable(
            "The database does not answer. Whether this request had an effect is not known.",
            next_action="Read the operation by its idempotency key at /api/operations/<key>, then ask again with the same key.",
        )
    log.error("a request failed unexpectedly", exc_info=error)
    return Internal(
        "The request failed inside KeepState. Whether it had an effect is not known.",
        next_action="Read the state, then ask again; if it repeats, tell the operator the X-Request-Id of this answer.",
    )
