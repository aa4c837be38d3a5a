"""Identity: what ids and roots depend on, and what they do not."""

import numpy as np
import pytest
from blake3 import blake3

from checkpoints_app.store.ids import (
    UNIT_BYTES,
    base_unit_id,
    canonical_json,
    check_base,
    checkpoint_digest,
    ids_from_bytes,
    image_root,
    unit_ids,
)
from tests.store_kit import content

KEY = bytes(range(32))


def ids_of(image, key=KEY):
    return unit_ids(key, memoryview(image.tobytes()), range(0, image.size, UNIT_BYTES))


def test_a_unit_id_is_keyed_blake3_of_its_bytes():
    image = content(3)
    assert ids_of(image)[1].tobytes() == blake3(image[1].tobytes(), key=KEY).digest()


def test_two_accounts_share_no_id():
    image = content(8)
    assert not (ids_of(image) == ids_of(image, bytes(32))).all(axis=1).any()


def test_a_root_does_not_depend_on_the_pieces_its_ids_come_in():
    ids = ids_of(content(100))
    pieces = [np.array_split(ids, parts) for parts in (1, 3, 100)]
    assert len({image_root(100 * UNIT_BYTES, piece) for piece in pieces}) == 1


def test_a_root_depends_on_order_content_and_length():
    ids = ids_of(content(4))
    other = ids.copy()
    other[2, 3] ^= np.uint64(1)
    roots = [image_root(4 * UNIT_BYTES, [ids]), image_root(4 * UNIT_BYTES, [ids[::-1]]), image_root(4 * UNIT_BYTES, [other])]
    assert len({*roots, image_root(4 * UNIT_BYTES - 1, [ids])}) == 4


def test_a_root_of_too_few_ids_is_refused():
    with pytest.raises(ValueError, match="3 unit ids"):
        image_root(4 * UNIT_BYTES, [ids_of(content(3))])


def test_the_place_of_a_base_unit_names_its_image():
    assert base_unit_id("image " + "a" * 64) != base_unit_id("image " + "b" * 64)
    assert ids_from_bytes(base_unit_id("image x")).shape == (1, 4)


@pytest.mark.parametrize("base", ["", "image ", "image a b", "disk abc", "image ../x", "image " + "a" * 200, "image a\n"])
def test_another_kind_of_base_is_refused(base):
    with pytest.raises(ValueError, match="image <digest>"):
        check_base(base)


def test_a_checkpoint_digest_depends_on_every_part_and_not_on_their_order():
    roots, marks = {"memory": "m", "disk": "d", "devices": "v"}, {"event": 1, "call": 2}
    digest = checkpoint_digest("pin", roots, marks)
    assert digest == checkpoint_digest("pin", dict(reversed(roots.items())), dict(reversed(marks.items())))
    changed = [
        ("other", roots, marks),
        ("pin", {**roots, "disk": "m"}, marks),
        ("pin", roots, {**marks, "call": 3}),
        ("pin", {"memory": "m"}, marks),
    ]
    assert len({digest, *(checkpoint_digest(*parts) for parts in changed)}) == 5


def test_what_json_cannot_say_has_no_canonical_form():
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"x": float("nan")})
