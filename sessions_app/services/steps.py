"""Registries of steps: what must happen across apps without this one knowing who stands on it.

An app registers its step in its `AppConfig.ready`. A *slot* has exactly one provider, a *chain* any number, run in order of
registration. A slot that nobody filled is a fault of the installation and says so by name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from sessions_app.models import Account, Operation, Session
from sessions_app.services.guest_files import GuestFiles
from sessions_app.services.placement import Placement

F = TypeVar("F", bound=Callable[..., Any])
#: Called with the name of each step of a long work: where a test may end it.
Step = Callable[[str], None]


def no_step(_name: str) -> None:
    """Nothing watches."""


@dataclass(frozen=True)
class ImageChoice:
    """A guest image as a session sees it: values, no rows."""

    name: str
    digest: str
    architecture: str
    default_memory_bytes: int


class ResolveImage(Protocol):
    def __call__(self, account: Account, name: str | None) -> ImageChoice:
        """The image that an account may start by that name (None: the default). Raises Invalid, naming what there is."""


class PlaceBoot(Protocol):
    def __call__(self, *, architecture: str, image_digest: str, memory_bytes: int) -> Placement:
        """The host that boots it, with its room; or what it waits for, where every host that could is full or draining.

        Prerequisite: inside the transaction that accepts the operation, which is the reservation. Raises FleetUnavailable, if it can never
        run as the fleet is now: nothing was reserved.
        """


class PlaceResume(Protocol):
    def __call__(
        self,
        *,
        session: Session,
        checkpoint_id: str,
        with_machine: bool = True,
        host_id: str = "",
        avoid: str = "",
        patient: bool = False,
    ) -> Placement:
        """A host whose pin is the checkpoint's, with room for its machine; or what it waits for, as `PlaceBoot`.

        Not `with_machine`: what is done there needs no room. `host_id`: that host and no other. `avoid`: that host
        only where no other has room. `patient`: it waits also where each of these hosts is silent.

        Prerequisite: inside the transaction that accepts the operation, which is the reservation.

        Raises StackIncompatible, NotRestorable or FleetUnavailable: nothing was reserved.
        """


@dataclass(frozen=True)
class HostFit:
    """Whether a host could resume what was saved under a pin now, and if not, why."""

    host: str
    state: str  # a word of workers/host/state.py; alive is one that takes work
    same_pin: bool
    same_architecture: bool  # it has proved some pin of that architecture
    differences: Mapping[str, Mapping[str, str | None]]  # by field, {"checkpoint", "host"}: of the host's nearest pin of that architecture

    @property
    def takes_it(self) -> bool:
        return self.same_pin and self.state == "alive"


@dataclass(frozen=True)
class PinHolder:
    """A host that holds a pin, or held it until `since`. `since`: when it came to its state; None where that is not known."""

    host: str
    state: str  # a word of workers/host/state.py, or proves_another
    since: datetime | None


@dataclass(frozen=True)
class Held:
    """What a session's saves have in the store. Not `exact`: content of theirs may count at another session, or at an erased checkpoint."""

    stored_bytes: int
    exact: bool


@dataclass(frozen=True)
class CapabilityRow:
    """One row of the capability document, of the app that can tell.

    `routes` are names of the URL configuration. `refusal` is a request that asks for what is not there (method, path with {session}), and
    the code that refuses it.
    """

    id: str
    availability: str  # available, degraded, unavailable
    summary: str
    note: str = ""
    routes: tuple[str, ...] = ()
    refusal: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class SavedPoint:
    """A checkpoint that can be restored, as forks, restores and the history see it: values, no rows."""

    id: str
    content_digest: str
    source_epoch: int
    event_watermark: int  # the last event that lies before it
    watermarks: Mapping[str, int]  # of other apps, by name (steps.watermarks); empty where none were drawn
    begun_at: datetime  # it holds all that had ended by then
    published_at: datetime
    reason: str
    logical_bytes: int | None


class FindSavedPoint(Protocol):
    def __call__(self, session: Session, checkpoint_id: str) -> SavedPoint:
        """Raises NotFound, Conflict (another session's: ks_checkpoint_mismatch) or NotRestorable."""


@dataclass(frozen=True)
class LaterWork:
    """Something of a session that is later than a checkpoint, so that a restore of that checkpoint leaves it."""

    kind: str  # checkpoint, command, machine, history
    id: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class BoundKey:
    """A provider's key that a session's model calls go out with. Not `usable`: it is disabled, so nothing goes out with it."""

    provider: str
    key_id: str
    label: str  # its alias, or its last characters
    usable: bool


@dataclass(frozen=True)
class Steer:
    """A text for one session's next model call, sealed under its account's key."""

    sealed: bytes
    sha256: str


class Forked(Protocol):
    def __call__(self, parent: Session, child: Session, *, point: SavedPoint | None, steer: Steer | None) -> None:
        """What else of its parent a child gets, with the parent's checkpoint that it begins with. In the commit that makes it."""


@dataclass(frozen=True)
class ModelUse:
    """Model calls of one session or account. `tokens` and `microusd` are sums of what is known; the counts say what they are without."""

    tokens: int = 0
    microusd: int = 0
    billed_calls: int = 0
    unknown_calls: int = 0  # billed, perhaps; how much is not known
    unpriced_calls: int = 0
    replayed_calls: int | None = None  # served from the record, not billed; None: not counted here
    replayed_tokens: int | None = None


@dataclass(frozen=True)
class ModelLine:
    """Model calls of a session to one model by one key. A sum of which a part is not known is None."""

    provider: str
    model: str
    key_id: str
    billed: bool
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    tokens: int | None
    microusd: int | None
    price_version: str
    observed_at: datetime


@dataclass(frozen=True)
class ModelBook:
    """What a session's use of models is told with: its lines, its limit in money, the version of the prices."""

    use: ModelUse
    lines: list[ModelLine]
    limit_microusd: int | None
    price_version: str


class Slot(Generic[F]):
    def __init__(self, name: str) -> None:
        self.name = name
        self._provider: F | None = None

    def fill(self, provider: F) -> None:
        if self._provider not in (None, provider):
            raise RuntimeError(f"step {self.name} has two providers")
        self._provider = provider

    @property
    def call(self) -> F:
        if self._provider is None:
            raise RuntimeError(f"no installed app provides the step {self.name}")
        return self._provider


class Chain(Generic[F]):
    def __init__(self, name: str) -> None:
        self.name = name
        self._steps: list[F] = []

    def add(self, step: F) -> None:
        if step not in self._steps:
            self._steps.append(step)

    def __iter__(self) -> Iterator[F]:
        return iter(self._steps)


resolve_image: Slot[ResolveImage] = Slot("resolve_image")
place_boot: Slot[PlaceBoot] = Slot("place_boot")
place_resume: Slot[PlaceResume] = Slot("place_resume")
#: Ask for a session's move to another host (by its id; '' for any that can take it), and return the save that it begins with. Raises
#: ServiceError: nothing was done.
move_session: Slot[Callable[[Session, str], Operation]] = Slot("move_session")
#: By the digest of a pin: every host, the nearest first.
hosts_for_pin: Slot[Callable[[str], list[HostFit]]] = Slot("hosts_for_pin")
#: By the digest of a pin: the hosts that hold it, then those that held it.
pin_holders: Slot[Callable[[str], list[PinHolder]]] = Slot("pin_holders")
#: The files of a running session's machine. Raises FleetUnavailable at the first use where the machine cannot be reached from here.
guest_files: Slot[Callable[[Session], GuestFiles]] = Slot("guest_files")
#: Whether a host, by its id, can be told something now.
host_answers: Slot[Callable[[str], bool]] = Slot("host_answers")
#: A noun's states for docs/states.md: its name, which state may become which, and a sentence.
state_tables: Chain[Callable[[], tuple[str, Mapping[Any, frozenset[Any]], str]]] = Chain("state_tables")
#: What an app would erase of a session, for the plan of its deletion. A figure that is not known is null.
deletion_facts: Chain[Callable[[Session], dict[str, Any]]] = Chain("deletion_facts")
#: A checkpoint of the session that can be restored, by id.
saved_point: Slot[FindSavedPoint] = Slot("saved_point")
#: What each app knows of a session's work that is later than a checkpoint, oldest first. The session is locked.
later_work: Chain[Callable[[Session, SavedPoint], list[LaterWork]]] = Chain("later_work")
#: Before a session's saved work continues: history and recorded calls agree with the checkpoint, or RecoveryRequired is raised.
reconcile: Chain[Callable[[Session, str], None]] = Chain("reconcile")
#: Right before a machine is stopped for a save: where each app's own order of things is now, by name. Kept with the checkpoint.
watermarks: Chain[Callable[[str], Mapping[str, int]]] = Chain("watermarks")
#: A session's epoch has begun, to go on from that checkpoint of it, and no machine of it runs yet. In the commit that begins it.
epoch_begins: Chain[Callable[[Session, str], None]] = Chain("epoch_begins")
#: A child of a fork was made.
forked: Chain[Forked] = Chain("forked")
#: The provider keys that sessions are bound to, by session id; a session without any may be left out.
bound_keys: Slot[Callable[[Iterable[str]], Mapping[str, list[BoundKey]]]] = Slot("bound_keys")
#: Whether an account, by its id, has an enabled key of a provider.
has_key: Slot[Callable[[str, str], bool]] = Slot("has_key")
model_use: Slot[Callable[[Session], ModelUse]] = Slot("model_use")
model_book: Slot[Callable[[Session], ModelBook]] = Slot("model_book")
account_model_use: Slot[Callable[[Account], ModelUse]] = Slot("account_model_use")
#: What a session, by its id, has used of models since this was last called, for the service record. In the commit that writes it.
tell_model_use: Slot[Callable[[str], ModelUse]] = Slot("tell_model_use")
#: The version of the prices that model calls are counted with.
price_book: Slot[Callable[[], str]] = Slot("price_book")
#: When an app saw a session used last, the present for what goes on; None if it never did.
used_at: Chain[Callable[[Session], datetime | None]] = Chain("used_at")
#: What other apps do in each turn of the policies' beat (seconds apart), and of housekeeping (a minute); returns how much it was.
lifecycle_turns: Chain[Callable[[], int]] = Chain("lifecycle_turns")
chores: Chain[Callable[[], int]] = Chain("chores")
#: A session was deleted: each app erases what it holds of it alone. Must be safe to repeat.
erase: Chain[Callable[[Session], dict[str, Any]]] = Chain("erase")
#: An account is being erased for good, its sessions are deleted: each app erases what else it holds of it. Must be safe to repeat; returns
#: counts for the receipt.
erase_account: Chain[Callable[[Account], dict[str, Any]]] = Chain("erase_account")
#: Sign and keep the receipt of an account's erasure: the account's id, the deletion's id, what was erased. Safe to repeat.
sign_receipt: Slot[Callable[[str, str, dict[str, Any]], None]] = Slot("sign_receipt")
#: The signed receipt of a deletion, as it may be shown and verified, or None.
read_receipt: Slot[Callable[[str], dict[str, Any] | None]] = Slot("read_receipt")
#: What an app holds of an account, as (type, row) for the export; rows are JSON values without secrets, made while they are sent.
export_account: Chain[Callable[[Account], Iterator[tuple[str, dict[str, Any]]]]] = Chain("export_account")


class Sealer(Protocol):
    """What seals and opens values of one account, without asking anybody: for paths on which every millisecond counts."""

    def seal(self, plain: bytes) -> bytes: ...

    def unseal(self, sealed: bytes) -> bytes:
        """Raises IntegrityFailed."""


#: The account's sealer; it gets its key if it has none yet. Whoever keeps one lets it go within a minute, for keys are destroyed.
sealer: Slot[Callable[[str], Sealer]] = Slot("sealer")
#: Sealed under the account's own key, and back: what is destroyed with that key cannot be read again by anybody.
seal: Slot[Callable[[str, bytes], bytes]] = Slot("seal")
unseal: Slot[Callable[[str, bytes], bytes]] = Slot("unseal")
session_stored_bytes: Slot[Callable[[Session], Held]] = Slot("session_stored_bytes")
#: All objects of an account, by its id, added up: not for a request to wait for.
account_stored_bytes: Slot[Callable[[str], int]] = Slot("account_stored_bytes")
#: What an app reads of the whole service now, by the gauge's name. Sampled every few minutes (services/sample.py): it may cost a second.
gauges: Chain[Callable[[], Mapping[str, int]]] = Chain("gauges")
capabilities: Chain[Callable[[], list[CapabilityRow]]] = Chain("capabilities")
#: The words of an app's own kinds of state, for the capability document.
vocabularies: Chain[Callable[[], Mapping[str, list[str]]]] = Chain("vocabularies")
