"""What every backend must do, on a real S3 server, and on one that takes no conditions."""

import pytest

from checkpoints_app.store import ObjectExistsError
from tests.store_suite import A, BackendSuite
from tests.support.s3_faults import ignores_the_condition


class TestS3Backend(BackendSuite):
    @pytest.fixture
    def backend(self, direct):
        return direct


class TestS3WithoutConditions(BackendSuite):
    """If-None-Match is ignored by the server, and the backend knows it."""

    @pytest.fixture
    def backend(self, proxy, open_at):
        proxy.plan(ignores_the_condition, "PUT")
        return open_at(proxy.endpoint, conditional=False)

    def test_of_two_writers_of_one_key_one_wins(self, backend):
        """Not promised without conditions to writers of the same moment (`put` says so); promised to one that comes later."""
        backend.put_if_absent(A, [b"first"])
        with pytest.raises(ObjectExistsError):
            backend.put_if_absent(A, [b"second"])
        assert backend.read(A, 0, 99) == b"first"
