"""A workspace on its way into a real machine and out of it again, through the real server."""

import http.client
import io
import tarfile
from collections.abc import Iterator

import httpx
import pytest

from sessions_app.models import Session, Workspace
from sessions_app.services import bounds, workspace
from tests.integration.inside.conftest import SESSION, Inside
from tests.unit.archive.kit import GZIP, TAR, gz, tar_of
from workers.files.unpacking import unpack

pytestmark = pytest.mark.vm
LONG = "directory-of-some-length/" * 6 + "grün.txt"
NOISE = bytes(range(256)) * 5000
FILES = (("src/run", "#!/bin/sh\necho ran"), ("src/link-free/", ""), (LONG, "long"), ("noise", NOISE), ("-T", "dash"))


def test_an_uploaded_archive_is_unpacked_in_the_machine_and_downloaded_as_it_was(
    web: httpx.Client, session: Session, inside: Inside
) -> None:
    inside.sh("rm -rf /root/* /root/.[!.]*")

    def in_pieces() -> Iterator[bytes]:  # of a body whose length nobody announces
        data = gz(tar_of(*FILES, change=lambda info: setattr(info, "mode", 0o700)))
        yield from (data[at : at + 1000] for at in range(0, len(data), 1000))

    answer = web.post("/api/v2/workspaces", content=in_pieces(), headers={"Content-Type": GZIP})
    assert answer.status_code == 201, answer.text
    found = Workspace.objects.get(id=answer.json()["data"]["id"])
    unpack(inside.machine, workspace.parts(found), found.stored_bytes, found.stored_sha256, between=lambda: None)
    assert inside.sh("cd /root; ./src/run; stat -c %U:%a noise; ls -A | wc -l") == "ran\nroot:755\n4"
    inside.sh("cd /root; ln -s /etc src/out; mkfifo pipe; echo s >.env")
    answer = web.get(f"/api/v2/sessions/{SESSION}/workspace", params={"gzip": "1"})
    assert (answer.status_code, answer.headers["X-KS-Left-Out"]) == (200, "links=1, special=1, names=0, secrets=1")
    with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as tar:
        held = {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}  # type: ignore[union-attr]
    assert held == {name: content.encode() if isinstance(content, str) else content for name, content in FILES if name[-1] != "/"}


def test_a_body_that_is_announced_as_too_large_is_refused_before_it_is_sent(address_of_site: str) -> None:
    connection = http.client.HTTPConnection(address_of_site, timeout=30)
    connection.putrequest("POST", "/api/v2/workspaces")
    connection.putheader("Content-Type", TAR)
    connection.putheader("Content-Length", str(bounds.WORKSPACE_BYTES + (1 << 20)))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
