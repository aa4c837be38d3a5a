"""Saving and restoring whole checkpoints over S3, in good times and in bad."""

import numpy as np
import pytest

from checkpoints_app.store import MissingObjectError, NoSpaceError, UnavailableError
from tests.store_kit import content, restore, save
from tests.support import s3_faults as faults
from tests.support.s3_proxy import Fault, FaultProxy

MEMORY = content(9000)
NEXT = MEMORY.copy()
WRITTEN = np.arange(100, 700)
NEXT[WRITTEN] = content(len(WRITTEN), 3)


def test_a_checkpoint_and_its_successor_restore_to_the_byte(direct):
    first = save(direct, None, MEMORY)
    second = save(direct, first.manifest, NEXT, WRITTEN)
    assert np.array_equal(restore(direct, second.manifest.manifest_id), NEXT)
    assert np.array_equal(restore(direct, first.manifest.manifest_id), MEMORY)
    assert second.stored_bytes == sum(listed.object_bytes for listed in direct.list("")) - first.stored_bytes


def meet(proxy: FaultProxy, method: str, *several: Fault) -> None:
    """Packs meet each of the faults once, and so does the manifest."""
    for fault in several:
        for part in ("/packs/", "/manifests/"):
            proxy.plan(fault, method, part=part, times=1)


def test_a_save_and_a_restore_come_through_troubles_that_pass(behind, direct, proxy):
    meet(proxy, "PUT", faults.refuses(503, "SlowDown"), faults.loses_the_answer, faults.damages_the_upload)
    saved = save(behind, None, MEMORY)
    meet(proxy, "GET", faults.cuts_the_body, faults.refuses(500, "InternalError"), faults.ignores_the_range)
    assert np.array_equal(restore(behind, saved.manifest.manifest_id), MEMORY)
    assert len(list(direct.list(""))) == len(saved.new_packs) + 1


@pytest.mark.parametrize(
    ("fault", "error"), [(faults.refuses(507, "XMinioStorageFull"), NoSpaceError), (faults.refuses(503, "SlowDown"), UnavailableError)]
)
def test_a_save_that_cannot_go_on_leaves_nothing(behind, direct, proxy, fault, error):
    proxy.plan(lambda exchange: exchange.give(exchange.forward()), "PUT", times=1)
    proxy.plan(fault, "PUT")
    with pytest.raises(error):
        save(behind, None, MEMORY)
    assert list(direct.list("")) == []


def test_a_restore_of_which_a_pack_is_gone_names_it(direct):
    saved = save(direct, None, MEMORY)
    pack = next(listed.key for listed in direct.list("") if "/packs/" in listed.key)
    direct.delete(pack)
    with pytest.raises(MissingObjectError, match=pack):
        restore(direct, saved.manifest.manifest_id)


def test_a_stranger_with_the_bucket_sees_sizes_and_no_content(direct):
    text = b"the customer's own words. " * 200
    memory = np.zeros((64, 4096), np.uint8)
    memory[3] = np.frombuffer(text[:4096], np.uint8)
    save(direct, None, memory)
    for listed in direct.list(""):
        answer = direct.bucket.client.get_object(**direct.bucket.where(listed.key))
        assert text[:16] not in answer["Body"].read()
        assert set(answer["Metadata"]) == {"ks-put"}
        assert len(answer["Metadata"]["ks-put"]) == 32
