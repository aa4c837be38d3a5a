"""Files of a real machine over the API: what is listed, read, written and downloaded, and what is refused."""

import base64
import hashlib
import os
import threading

import httpx
import pytest

from sessions_app.models import Session, SessionEvent
from sessions_app.services import bounds
from tests.integration.inside.conftest import SESSION, Inside

pytestmark = pytest.mark.vm
MIB = 1 << 20


@pytest.fixture(autouse=True)
def workspace(inside: Inside) -> None:
    """A clean one for each test."""
    inside.sh("rm -rf /root/* /root/.[!.]*; rm -rf /tmp/outside; mkdir /tmp/outside; echo hidden >/tmp/outside/file")


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def listed(web: httpx.Client, files: str, path: str = "") -> dict:
    answer = web.get(files, params={"path": path} if path else {})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def read(web: httpx.Client, files: str, path: str, **query) -> httpx.Response:
    return web.get(f"{files}/content", params={"path": path, **query})


def write(web: httpx.Client, files: str, path: str, data: bytes, headers: dict[str, str] | None = None, **query) -> httpx.Response:
    return web.put(f"{files}/content", params={"path": path, **query}, content=data, headers=headers or {})


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- listing


def test_a_directory_is_listed_with_type_size_mode_and_time(web, files, inside):
    inside.sh("cd /root; printf abc >b; mkdir a; ln -s b c; mkfifo d; chmod 640 b; touch -d @1700000000 b")
    found = listed(web, files)
    assert (found["session_id"], found["root"], found["path"], found["is_dir"]) == (SESSION, "/root", ".", True)
    assert (found["total"], found["truncated"]) == (4, False)
    assert [(entry["name"], entry["type"]) for entry in found["entries"]] == [("a", "dir"), ("b", "file"), ("c", "link"), ("d", "other")]
    assert found["entries"][1] == {"name": "b", "type": "file", "size": 3, "mode": "0640", "mtime": 1700000000, "redacted": False}


def test_the_path_of_a_file_lists_that_file_alone(web, files, inside):
    inside.sh("mkdir /root/d; printf abcd >/root/d/f")
    found = listed(web, files, "d/f")
    assert (found["is_dir"], found["total"], [(entry["name"], entry["size"]) for entry in found["entries"]]) == (False, 1, [("f", 4)])


def test_a_list_that_is_cut_says_how_many_there_are(web, files, inside):
    inside.sh("mkdir /root/many; cd /root/many; for n in $(seq 10000 11010); do : >$n; done")
    found = listed(web, files, "many")
    assert (len(found["entries"]), found["total"], found["truncated"]) == (bounds.FILE_ENTRIES, 1011, True)
    assert found["entries"][0]["name"] == "10000"


def test_a_name_that_could_steer_a_terminal_is_escaped_and_those_beside_it_are_as_they_are(web, files, inside):
    inside.sh("cd /root; : >\"$(printf 'x\\033[2J')\"; : >\"$(printf 'new\\nline')\"; : >\"$(printf 'bad\\377')\"; : >'good name'; : >grün")
    names = [entry["name"] for entry in listed(web, files)["entries"]]
    assert names == ["bad\\xff", "good name", "grün", "new\\nline", "x\\x1b[2J"]


def test_names_that_usually_hold_credentials_are_marked_and_never_read(web, files, inside):
    inside.sh("cd /root; mkdir .ssh; echo s >.ssh/id_rsa; echo s >.env; echo p >key.pub; ln -s .env harmless")
    marked = {entry["name"]: entry["redacted"] for entry in listed(web, files)["entries"]}
    assert marked == {".env": True, ".ssh": False, "harmless": False, "key.pub": False}
    assert listed(web, files, ".ssh")["entries"][0]["redacted"] is True
    for path in (".env", ".ssh/id_rsa", "harmless"):
        assert code(read(web, files, path)) == (403, "ks_path_redacted")
        assert code(web.get(f"{files}/download", params={"path": path})) == (403, "ks_path_redacted")
    assert read(web, files, "key.pub").status_code == 200


# -- paths


def test_a_path_that_is_not_relative_text_is_refused_before_the_machine_is_asked(web, files):
    for path in ("/etc/passwd", "a/../../etc/passwd", "a\0b"):
        assert code(read(web, files, path)) == (400, "ks_path_refused")
        assert code(write(web, files, path, b"x")) == (400, "ks_path_refused")
        assert code(web.get(files, params={"path": path})) == (400, "ks_path_refused")


def test_a_link_that_leads_out_of_the_workspace_is_refused(web, files, inside):
    inside.sh("cd /root; ln -s /tmp/outside/file file-out; ln -s /tmp/outside directory-out; ln -s directory-out chain; ln -s /root self")
    for path in ("file-out", "directory-out/file", "chain/file", "self/directory-out/file"):
        assert code(read(web, files, path)) == (400, "ks_path_refused")
    for refused in (
        web.get(f"{files}/download", params={"path": "chain/file"}),
        write(web, files, "chain/file", b"mine"),
        write(web, files, "file-out", b"mine"),
        web.get(files, params={"path": "chain"}),
    ):
        assert code(refused) == (400, "ks_path_refused")
    assert inside.sh("cat /tmp/outside/file; ls /tmp/outside") == "hidden\nfile"


def test_a_link_that_stays_inside_is_followed_for_reading(web, files, inside):
    inside.sh("cd /root; mkdir d; echo inside >d/f; ln -s d/f link; ln -s d dlink")
    for path in ("link", "dlink/f"):
        assert base64.b64decode(read(web, files, path).json()["data"]["content_b64"]) == b"inside\n"


def test_a_fifo_a_device_and_a_directory_are_no_files(web, files, inside):
    inside.sh("cd /root; mkfifo pipe; mknod null c 1 3; mkdir d")
    for path in ("pipe", "null", "d"):
        assert code(read(web, files, path)) == (400, "ks_path_refused")
        assert code(write(web, files, path, b"x")) == (400, "ks_path_refused")


def test_what_is_not_there_is_absent(web, files):
    assert code(read(web, files, "nothing")) == (404, "ks_path_absent")
    assert code(web.get(files, params={"path": "nothing"})) == (404, "ks_path_absent")
    assert code(write(web, files, "nothing/file", b"x")) == (404, "ks_path_absent")


# -- reading


def test_every_byte_of_a_read_is_what_the_machine_has(web, files, inside):
    inside.sh("head -c 1500000 /dev/urandom >/root/random")
    found = read(web, files, "random").json()["data"]
    data = base64.b64decode(found["content_b64"])
    assert (found["size"], found["returned"], found["truncated"], len(data)) == (1500000, MIB, True, MIB)
    assert found["sha256_returned"] == digest(data)
    rest = base64.b64decode(read(web, files, "random", offset=MIB).json()["data"]["content_b64"])
    assert digest(data + rest) == inside.sh("sha256sum /root/random").split()[0]


def test_a_read_takes_a_part_and_beyond_the_end_there_is_nothing(web, files, inside):
    inside.sh("printf 0123456789 >/root/f")
    part = read(web, files, "f", offset=2, max_bytes=3).json()["data"]
    assert (base64.b64decode(part["content_b64"]), part["truncated"]) == (b"234", True)
    beyond = read(web, files, "f", offset=50).json()["data"]
    assert (beyond["returned"], beyond["size"], beyond["content_b64"], beyond["truncated"]) == (0, 10, "", False)


def test_more_than_a_read_may_take_is_refused(web, files):
    assert code(read(web, files, "f", max_bytes=MIB + 1)) == (400, "ks_invalid")


# -- download


def test_a_download_is_the_file_with_its_digest_and_length(web, files, inside):
    inside.sh("head -c 1700000 /dev/urandom >/root/random")
    answer = web.get(f"{files}/download", params={"path": "random"})
    expected = inside.sh("sha256sum /root/random").split()[0]
    assert (answer.status_code, int(answer.headers["Content-Length"]), len(answer.content)) == (200, 1700000, 1700000)
    assert answer.headers["X-KS-Sha256"] == digest(answer.content) == expected
    assert answer.headers["ETag"] == f'"sha256:{expected}"'


def test_a_range_is_answered_alone_if_the_file_is_still_the_one_that_was_meant(web, files, inside):
    inside.sh("printf 0123456789 >/root/f")

    def ranged(value: str, **headers: str) -> httpx.Response:
        return web.get(f"{files}/download", params={"path": "f"}, headers={"Range": value, **headers})

    part = ranged("bytes=2-4")
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    assert ranged("bytes=-3").content == b"789"
    assert ranged("bytes=8-", **{"If-Range": part.headers["ETag"]}).content == b"89"
    assert ranged("bytes=8-", **{"If-Range": '"sha256:other"'}).content == b"0123456789"
    assert code(ranged("bytes=10-")) == (416, "ks_range_not_satisfiable")


def test_an_empty_file_is_downloaded_as_nothing(web, files, inside):
    inside.sh(": >/root/empty")
    answer = web.get(f"{files}/download", params={"path": "empty"})
    assert (answer.status_code, answer.content, answer.headers["X-KS-Sha256"]) == (200, b"", digest(b""))


def test_a_file_that_changes_while_it_is_downloaded_ends_the_answer_short(web, files, inside):
    inside.sh("head -c 2500000 /dev/zero >/root/f")
    received: list[int] = []

    def download() -> None:
        with web.stream("GET", f"{files}/download", params={"path": "f"}) as answer:
            for piece in answer.iter_raw():
                if not received:
                    inside.sh("head -c 2500001 /dev/zero >/root/f")
                received.append(len(piece))

    with pytest.raises(httpx.RemoteProtocolError):
        download()
    assert 0 < sum(received) < 2500000


# -- writing


def test_every_byte_that_is_written_arrives_and_the_history_tells_it(web, files, inside, session):
    data = os.urandom(1300000)
    answer = write(web, files, "new", data, {"X-KS-Sha256": digest(data)}, mode="750")
    assert answer.status_code == 200, answer.text
    row = answer.json()["data"]
    assert (row["path"], row["size"], row["sha256"], row["mode"]) == ("new", 1300000, digest(data), "0750")
    assert inside.sh("sha256sum /root/new; stat -c %a /root/new; ls -A /root").split() == [digest(data), "/root/new", "750", "new"]
    told = SessionEvent.objects.get(session=session, type="file.written").payload
    assert (told["path"], told["size"], told["sha256"]) == ("new", 1300000, digest(data))


def test_a_file_that_is_replaced_keeps_its_mode(web, files, inside):
    inside.sh("echo old >/root/run; chmod 755 /root/run")
    assert write(web, files, "run", b"new").json()["data"]["mode"] == "0755"
    assert inside.sh("cat /root/run") == "new"


def test_an_empty_file_can_be_written(web, files, inside):
    assert write(web, files, "empty", b"").json()["data"]["size"] == 0
    assert inside.sh("stat -c %s /root/empty") == "0"


def test_a_file_that_must_not_be_there_is_not_replaced(web, files, inside):
    new = {"If-None-Match": "*"}
    assert write(web, files, "f", b"first", new).status_code == 200
    assert code(write(web, files, "f", b"second", new)) == (412, "ks_path_exists")
    assert inside.sh("cat /root/f; echo; ls -A /root") == "first\nf"


def test_bytes_that_are_not_those_that_were_announced_change_nothing(web, files, inside):
    inside.sh("echo old >/root/f")
    assert code(write(web, files, "f", b"new", {"X-KS-Sha256": digest(b"other")})) == (409, "ks_digest_mismatch")
    assert inside.sh("cat /root/f; ls -A /root") == "old\nf"


def test_a_link_is_neither_written_through_nor_replaced(web, files, inside):
    inside.sh("cd /root; echo old >f; ln -s f link")
    assert code(write(web, files, "link", b"new")) == (400, "ks_path_refused")
    assert inside.sh("cat /root/f; readlink /root/link") == "old\nf"


def test_more_than_a_file_may_have_is_refused_before_it_is_stored_anywhere(web, files, inside):
    def endless():
        for _ in range(bounds.UPLOAD_BYTES // MIB + 2):
            yield bytes(MIB)

    for body in (bytes(bounds.UPLOAD_BYTES + (1 << 20)), endless()):
        refused = web.put(f"{files}/content", params={"path": "big"}, content=body)
        assert code(refused) == (413, "ks_too_large")
    assert inside.sh("ls -A /root") == ""


def test_a_directory_without_room_refuses_and_leaves_nothing(web, files, inside):
    inside.sh("mkdir /root/small; mount -t tmpfs -o size=1m none /root/small")
    try:
        assert write(web, files, "small/f", os.urandom(2 * MIB)).status_code == 504
        assert inside.sh("ls -A /root/small") == ""
    finally:
        inside.sh("umount /root/small")


def test_what_a_broken_transfer_left_is_removed_by_one_an_hour_later(web, files, inside):
    left = ".keepstate-put-" + "0" * 32
    inside.sh(f"cd /root; : >{left}; : >{left}.not; touch -d @1700000000 {left}")
    assert write(web, files, "f", b"x").status_code == 200
    assert inside.sh("ls -A /root").split() == [f"{left}.not", "f"]


# -- beside other work


def test_several_transfers_at_once_and_a_save_among_them_all_succeed(web, files, inside, tmp_path):
    inside.sh("head -c 1200000 /dev/urandom >/root/f")
    (tmp_path / "staging").mkdir()
    data, outcomes = os.urandom(1100000), {}

    def transfer(number: int) -> None:
        if number % 2:
            outcomes[number] = write(web, files, f"new{number}", data).status_code
        else:
            outcomes[number] = len(web.get(f"{files}/download", params={"path": "f"}).content)

    threads = [threading.Thread(target=transfer, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    capture = inside.machine.capture(tmp_path / "staging")
    for thread in threads:
        thread.join()
    assert len(capture.page_numbers) > 0
    assert outcomes == {0: 1200000, 1: 200, 2: 1200000, 3: 200}
    assert set(inside.sh("sha256sum /root/new1 /root/new3").split()[::2]) == {digest(data)}


def test_a_session_that_does_not_run_is_a_typed_conflict_and_is_not_woken(web, files, session):
    Session.objects.filter(id=session.id).update(runtime_state="parked")
    for refused in (
        web.get(files),
        read(web, files, "f"),
        write(web, files, "f", b"x"),
        web.get(f"{files}/download", params={"path": "f"}),
    ):
        assert code(refused) == (409, "ks_session_not_running")


def test_a_machine_on_another_host_is_not_reached_from_here_and_says_so(web, files, session):
    Session.objects.filter(id=session.id).update(host_id="h-elsewhere")
    assert code(web.get(files)) == (503, "ks_fleet_unavailable")


def test_another_accounts_files_are_not_there(web, files, address_of_site, owner):
    from tests.support.fleet import tenant

    answer = httpx.get(f"http://{address_of_site}{files}", headers={"Authorization": f"Bearer {tenant('other').plain}"})
    assert code(answer) == (404, "ks_not_found")


def test_modes_beyond_permissions_are_refused(web, files):
    for mode in ("4755", "9", "rwx"):
        assert code(write(web, files, "f", b"x", mode=mode)) == (400, "ks_invalid")
