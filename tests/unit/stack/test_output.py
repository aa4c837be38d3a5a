from pathlib import Path

from keepstate_site.stack.output import LINE_BYTES, Log


def test_log_files_are_bounded_and_the_newest_lines_are_kept(tmp_path: Path) -> None:
    log = Log("web", tmp_path, echo=False, file_bytes=1000)
    for number in range(500):
        log.write(f"line {number}\n".encode())
    files = list(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 1000 for file in files)
    assert log.path.read_text().endswith("line 499\n")


def test_the_tail_holds_whole_lines_however_they_arrive(tmp_path: Path) -> None:
    log = Log("web", tmp_path, echo=False)
    for piece in (b"one\ntw", b"o\nthree", b""):
        log.write(piece)
    assert list(log.tail) == ["one", "two", "three"]


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    log = Log("web", tmp_path, echo=False)
    for _ in range(10):
        log.write(b"x" * LINE_BYTES)
    assert all(len(line) <= LINE_BYTES for line in log.tail)
    assert len(log._partial) <= LINE_BYTES
