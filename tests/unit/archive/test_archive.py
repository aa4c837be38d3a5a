"""What a customer's archive becomes: the same plain files in a tar of ours, or a refusal that says why."""

import io
import struct
import tarfile
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.archive.refusal import ArchiveRefused, ArchiveTooLarge
from sessions_app.services import bounds
from tests.unit.archive.kit import GZIP, MTIME, TAR, ZIP, gz, held, read, tar_of, zip_of

FILES = (("a.txt", "hello"), ("src/", ""), ("src/main.py", "print(1)"), ("deep/er/empty", b""), ("grün", b"\0\xff" * 700))
HELD = {"a.txt": b"hello", "src": None, "src/main.py": b"print(1)", "deep": None, "deep/er": None, "deep/er/empty": b""}
HELD["grün"] = b"\0\xff" * 700
LONG = "/".join(["directory-of-some-length"] * 9) + "/" + "n" * 200


def kind(type_: bytes, link: str = "") -> Callable[[tarfile.TarInfo], None]:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname, info.size = type_, link, 0

    return change


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_of_any_form_keeps_its_plain_files(form: int) -> None:
    assert held(tar_of(*FILES, kind=form)) == HELD
    assert held(gz(tar_of(*FILES, kind=form)), GZIP) == HELD


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_keeps_its_plain_files(packing: int) -> None:
    assert held(zip_of(*FILES, packing=packing), ZIP) == HELD


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_long_name_is_kept_whole(form: int) -> None:
    assert held(tar_of((LONG, "x"), kind=form))[LONG] == b"x"


def test_nothing_of_the_clients_headers_but_the_program_bit_is_kept() -> None:
    def change(info: tarfile.TarInfo) -> None:
        info.mode, info.uid, info.gname, info.mtime, info.pax_headers = 0o6711, 1000, "client", 5, {"comment": "client"}

    data = read(tar_of(("run", "x"), kind=tarfile.PAX_FORMAT, change=change))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        (one,) = tar.getmembers()
    assert (one.mode, one.uid, one.gid, one.uname, one.gname, one.mtime) == (0o755, 0, 0, "root", "root", MTIME)
    assert b"client" not in data


def test_the_root_itself_and_a_directory_named_twice_are_no_fault() -> None:
    assert held(tar_of(("./", ""), ("./a/", ""), ("a/", ""), ("./a/f", "x"))) == {"a": None, "a/f": b"x"}


NAMES = {
    "absolute": "/etc/passwd",
    "above": "../x",
    "above inside": "a/../../x",
    "backslash": "a\\..\\x",
    "control": "a\x1b[2J",
    "newline": "a\nb",
    "home": "./~/x",
    "bidi": "a\u202egnp.exe",
    "too deep": "d/" * 33 + "f",
    "long segment": "n" * 256,
    "too long": ("n" * 200 + "/") * 5 + "f" * 30,
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_name_that_is_no_plain_relative_path_is_refused(name: str) -> None:
    for data, media in ((tar_of((name, "x")), TAR), (zip_of((name, "x")), ZIP)):
        with pytest.raises(ArchiveRefused, match="Nothing was kept"):
            read(data, media)


@pytest.mark.parametrize(
    "entries",
    [
        (("a", "1"), ("a", "2")),
        (("a", "1"), ("./a", "2")),
        (("a", "1"), ("A", "2")),
        (("dir/x", "1"), ("DIR/y", "2")),
        (("straße", "1"), ("STRASSE", "2")),
        (("e\u0301", "1"), ("\xe9", "2")),
        (("a", "1"), ("a/b", "2")),
        (("a/b", "1"), ("a", "2")),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_names_that_would_be_one_somewhere_are_refused(entries: tuple[tuple[str, str], ...]) -> None:
    for data, media in ((tar_of(*entries), TAR), (zip_of(*entries), ZIP)):
        with pytest.raises(ArchiveRefused):
            read(data, media)


@pytest.mark.parametrize(
    "type_",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE, b"M", b"V", b"?"],
)
def test_what_is_no_plain_file_or_directory_is_refused_in_a_tar(type_: bytes) -> None:
    with pytest.raises(ArchiveRefused):
        read(tar_of(("link", ""), change=kind(type_, "/etc/passwd")))


@pytest.mark.parametrize("mode", [0o120777, 0o010644, 0o020644, 0o060644, 0o140644])
def test_what_is_no_plain_file_or_directory_is_refused_in_a_zip(mode: int) -> None:
    with pytest.raises(ArchiveRefused, match="link"):
        read(zip_of(("link", "/etc/passwd"), mode=mode), ZIP)


def _pax(**headers: str) -> bytes:
    def change(info: tarfile.TarInfo) -> None:
        info.pax_headers = headers

    return tar_of(("f", "data"), kind=tarfile.PAX_FORMAT, change=change)


def _global_path() -> bytes:
    out = io.BytesIO()
    tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"path": "x"}).close()
    return out.getvalue()


WHOLE_TAR, WHOLE_ZIP = tar_of(*FILES), zip_of(*FILES)
BROKEN = {
    "empty": (b"", TAR),
    "not a tar": (b"x" * 10240, TAR),
    "cut in a file": (WHOLE_TAR[:700], TAR),
    "cut between entries": (tar_of(("a", "1"))[:1024], TAR),
    "something after the end": (WHOLE_TAR + b"more", TAR),
    "a second archive behind it": (tar_of(("a", "1")) + tar_of(("b", "2")), TAR),
    "a bit of a header": (bytes([WHOLE_TAR[0] ^ 1]) + WHOLE_TAR[1:], TAR),
    "a name of all entries": (_global_path(), TAR),
    "a sparse file by its header": (_pax(**{"GNU.sparse.major": "1"}), TAR),
    "not gzip": (WHOLE_TAR, GZIP),
    "a cut gzip": (gz(WHOLE_TAR)[:-9], GZIP),
    "a gzip with another sum": (gz(WHOLE_TAR)[:-5] + b"\0" * 5, GZIP),
    "something after the gzip": (gz(WHOLE_TAR) + b"more", GZIP),
    "many empty gzips": (gz(b"") * 1001, GZIP),
    "not a zip": (WHOLE_TAR, ZIP),
    "a cut zip": (WHOLE_ZIP[:-30], ZIP),
    "a zip with another sum": (WHOLE_ZIP.replace(b"PK\x01\x02", b"PK\x01\x03", 1), ZIP),
    "a zip whose count lies": (WHOLE_ZIP[:-12] + struct.pack("<H", 3) + WHOLE_ZIP[-10:], ZIP),
    "something after the zip": (WHOLE_ZIP + b"more", ZIP),
}


@pytest.mark.parametrize(("data", "media"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_damaged_cut_or_ambiguous_is_refused(data: bytes, media: str) -> None:
    with pytest.raises(ArchiveRefused):
        read(data, media)


def test_an_encrypted_entry_and_another_packing_are_refused() -> None:
    encrypted = bytearray(zip_of(("a", "x")))
    encrypted[encrypted.rfind(b"PK\x01\x02") + 8] |= 1
    for data in (bytes(encrypted), zip_of(("a", "x" * 100), packing=zipfile.ZIP_BZIP2)):
        with pytest.raises(ArchiveRefused, match="encrypted"):
            read(data, ZIP)


def test_a_zip_entry_that_is_longer_than_its_directory_says_is_refused_after_the_promised_bytes() -> None:
    data = bytearray(zip_of(("a", "x" * 1_000_000)))
    at = data.rfind(b"PK\x01\x02") + 24
    data[at : at + 4] = struct.pack("<L", 10)
    with pytest.raises(ArchiveRefused, match="not what its directory says"):
        read(bytes(data), ZIP)


def test_bombs_and_crowds_are_refused_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WORKSPACE_UNPACKED_BYTES", 1_000_000)
    monkeypatch.setattr(bounds, "WORKSPACE_FILES", 20)
    monkeypatch.setattr(bounds, "WORKSPACE_ENTRIES", 30)
    large, many, deep = [("a", b"\0" * 1_000_001)], [(f"f{n}", "") for n in range(21)], [(f"d{n}/e{n}/f", "") for n in range(16)]
    for entries in (large, many, deep):
        for data, media in ((tar_of(*entries), TAR), (gz(tar_of(*entries)), GZIP), (zip_of(*entries), ZIP)):
            with pytest.raises(ArchiveTooLarge) as refused:
                read(data, media)
            assert refused.value.status == 413


def test_a_header_that_promises_more_than_there_can_be_is_refused_at_once() -> None:
    def huge(info: tarfile.TarInfo) -> None:
        info.size = 1 << 62

    header = tarfile.TarInfo("f")
    huge(header)
    with pytest.raises(ArchiveTooLarge):
        read(header.tobuf(tarfile.GNU_FORMAT))
    header.type = tarfile.GNUTYPE_LONGNAME
    with pytest.raises(ArchiveRefused, match="header"):
        read(header.tobuf(tarfile.GNU_FORMAT))


# -- anything at all

SEGMENT = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["..", ".", "", "~", "\\", "a", "A", "ß", "ss"])
PATHS = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(st.lists(st.tuples(PATHS, st.binary(max_size=3)), max_size=5), st.sampled_from([TAR, GZIP, ZIP]))
def test_whatever_the_names_are_what_is_kept_stays_below_its_root_and_collides_with_nothing(entries, media) -> None:
    entries = [(name, b"" if name.endswith("/") else content) for name, content in entries if "\0" not in name and name.strip("/")]
    data = zip_of(*entries) if media == ZIP else tar_of(*entries)
    try:
        found = held(gz(data) if media == GZIP else data, media)
    except ArchiveRefused:
        return
    for path in found:
        assert path.isprintable()
        assert not path.startswith(("/", "~"))
        assert not {"..", "."} & set(path.split("/"))
    assert len({path.casefold() for path in found}) == len(found)
    wanted = {"/".join(part for part in name.split("/") if part not in ("", ".")): content for name, content in entries if name[-1] != "/"}
    assert {path: content for path, content in found.items() if content is not None} == wanted


@given(st.binary(max_size=2000), st.sampled_from([TAR, GZIP, ZIP]))
def test_any_bytes_are_read_or_refused(data, media) -> None:
    try:
        read(data, media)
    except ArchiveRefused:
        pass


@given(st.data())
def test_a_damaged_archive_is_read_or_refused(data) -> None:
    whole, media = data.draw(st.sampled_from([(WHOLE_TAR, TAR), (gz(WHOLE_TAR), GZIP), (WHOLE_ZIP, ZIP), (_pax(path="other"), TAR)]))
    harmed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        harmed[data.draw(st.integers(0, len(harmed) - 1))] = data.draw(st.integers(0, 255))
    try:
        read(bytes(harmed[: data.draw(st.integers(0, len(harmed)))]), media)
    except ArchiveRefused:
        pass
