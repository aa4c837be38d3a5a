from gateway_app.models.binding import KeyBinding
from gateway_app.models.budget import AccountBudget, SessionBudget
from gateway_app.models.call import Call, CallPiece
from gateway_app.models.egress import EgressLine, EgressPolicy, EgressSum
from gateway_app.models.process import GatewayProcess
from gateway_app.models.provider_key import ProviderKey
from gateway_app.models.steer import Steer
from gateway_app.models.usage import UsageEntry
from gateway_app.models.window import EpochOrigin, WindowEntry

__all__ = [
    "AccountBudget",
    "Call",
    "CallPiece",
    "EgressLine",
    "EgressPolicy",
    "EgressSum",
    "EpochOrigin",
    "GatewayProcess",
    "KeyBinding",
    "ProviderKey",
    "SessionBudget",
    "Steer",
    "UsageEntry",
    "WindowEntry",
]
