"""Object keys: what is made parses back, and what is not ours is not taken for ours."""

import pytest

from checkpoints_app.store import Kind, object_key
from checkpoints_app.store.names import ObjectName, account_key_key, erased_mark_key, parse_key

ID = "ab" * 32


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (object_key("a-1", Kind.PACK, ID), ObjectName("a-1", "pack", ID, 0)),
        (object_key("a-1", Kind.PACK, ID, 12), ObjectName("a-1", "pack", ID, 12)),
        (object_key("a-1", Kind.MANIFEST, ID), ObjectName("a-1", "manifest", ID, 0)),
        (erased_mark_key("a-1", ID), ObjectName("a-1", "erased", ID, 0)),
        (account_key_key("a-1", 0), ObjectName("a-1", "key", "", 0)),
        (account_key_key("a-1", 3), ObjectName("a-1", "key", "", 3)),
    ],
)
def test_a_key_parses_to_what_it_was_made_of(key, name):
    assert parse_key(key) == name


@pytest.mark.parametrize(
    "key",
    [
        f"accounts/a/packs/{ID}-0",
        f"accounts/a/packs/{ID}-01",
        f"accounts/a/manifests/{ID}-1",
        f"accounts/a/erased/{ID}-1",
        f"accounts/a/pack/{ID}",
        f"accounts/a/erased{ID}",
        f"accounts/a/packs/{ID[:-1]}",
        f"accounts/a/b/packs/{ID}",
        "accounts/a/keys",
        "quarantine/accounts/a/key",
        "accounts/a/key\n",
    ],
)
def test_a_key_that_is_none_of_ours_is_not_parsed(key):
    assert parse_key(key) is None


def test_a_generation_is_not_negative():
    with pytest.raises(ValueError, match="generation"):
        object_key("a", Kind.PACK, ID, -1)
