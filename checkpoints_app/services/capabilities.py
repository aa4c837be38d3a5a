"""The words of this app's kinds of state, for the capability document."""

from collections.abc import Mapping

from checkpoints_app.states import VOCABULARIES


def vocabularies() -> Mapping[str, list[str]]:
    return VOCABULARIES
