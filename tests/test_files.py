"""Nothing already written is lost."""

import os
import secrets
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evenrisk import _files
from evenrisk._files import (
    PartlyWritten,
    check_writable,
    is_standard_output,
    remove_left_over,
    replacing,
    write_text,
    write_texts,
)
from full_disk import full_disk


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.csv"
    write_text(path, "old")

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), replacing(path) as file:
        fail(file)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_good_write_replaces_it(tmp_path):
    path = tmp_path / "table.csv"
    write_text(path, "old")
    write_text(path, "new ±")
    assert path.read_text(encoding="utf-8") == "new ±"
    assert list(tmp_path.iterdir()) == [path]


def test_several_files_are_written_together_or_not_at_all(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    write_text(first, "old")
    with full_disk(100), pytest.raises(OSError, match="File too large"):
        write_texts({first: "one", second: "two" * 100})
    assert first.read_text() == "old"
    assert list(tmp_path.iterdir()) == [first]
    write_texts({first: "one", second: "two"})
    assert (first.read_text(), second.read_text()) == ("one", "two")


def refuse_names(monkeypatch, *names):
    """Let no file take one of these names."""
    whole = Path.replace

    def replace(self, target):
        if Path(target).name in names:
            raise PermissionError(1, "Operation not permitted", str(self), None, str(target))
        return whole(self, target)

    monkeypatch.setattr(Path, "replace", replace)


@pytest.mark.parametrize("before", ["old", None])
def test_what_was_put_in_place_is_taken_back_when_a_later_name_is_refused(tmp_path, monkeypatch, before):
    first, second = tmp_path / "a", tmp_path / "b"
    if before is not None:
        first.write_text(before)
        first.chmod(0o640)
    refuse_names(monkeypatch, "b")
    with pytest.raises(PermissionError):
        write_texts({first: "one", second: "two"})
    if before is None:
        assert list(tmp_path.iterdir()) == []
    else:
        assert (first.read_text(), mode(first)) == ("old", 0o640)
        assert list(tmp_path.iterdir()) == [first]


def test_what_cannot_be_taken_back_is_named(tmp_path, monkeypatch):
    first, second = tmp_path / "a", tmp_path / "b"
    refuse_names(monkeypatch, "b")
    monkeypatch.setattr(_files._Replacement, "undo", lambda self: False)
    with pytest.raises(PartlyWritten, match="Operation not permitted") as caught:
        write_texts({first: "one", second: "two"})
    assert caught.value.written == (first,)
    assert caught.value.filename == str(second)
    assert list(tmp_path.iterdir()) == [first]


def test_nothing_is_sent_through_a_pipe_before_all_is_written(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with full_disk(100), pytest.raises(OSError, match="File too large"):
            write_texts({pipe: "one", tmp_path / "b": "two" * 100})
        assert os.read(reader, 100) == b""
    finally:
        os.close(reader)
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_device_leaves_the_other_files_alone(tmp_path):
    first = tmp_path / "a"
    first.write_text("old")
    before = first.stat().st_ino
    with pytest.raises(OSError, match="No space left on device"):
        write_texts({first: "one", Path("/dev/full"): "two"})
    assert (first.read_text(), first.stat().st_ino) == ("old", before)  # not for a moment


def test_a_link_that_was_planted_is_not_followed(tmp_path, monkeypatch):
    path, victim = tmp_path / "table.csv", tmp_path / "victim"
    victim.write_text("kept")
    names = [f".table.{os.getpid()}.csv", f"{_files.PREFIX}{os.getpid()}-0"]
    for name in names:
        (tmp_path / name).symlink_to(victim)
    write_text(path, "new")
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0")  # and if the name is known
    with pytest.raises(FileExistsError):
        write_text(path, "newer")
    assert (path.read_text(), victim.read_text()) == ("new", "kept")
    assert not path.is_symlink()


def test_threads_may_write_to_one_path(tmp_path):
    path = tmp_path / "table.csv"
    texts = [str(i) * 5000 for i in range(8)]

    def write(text):
        for _ in range(20):
            write_text(path, text)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, texts))
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="modes are of POSIX")
def test_a_file_that_ran_as_somebody_else_does_so_no_more(tmp_path):
    path = tmp_path / "f"
    path.write_text("x")
    path.chmod(0o4755)
    write_text(path, "y")
    assert path.stat().st_mode & 0o7777 == 0o755


def test_a_file_keeps_its_mode_and_a_new_one_has_the_usual(tmp_path):
    path, new = tmp_path / "private", tmp_path / "new"
    path.write_text("old")
    before = os.umask(0o027)
    try:
        for kept in (0o600, 0o666, 0o444):
            path.chmod(kept)
            with replacing(path) as file:
                assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600  # not for a moment more
            assert mode(path) == kept
        write_texts({path: "a", new: "b"})
    finally:
        os.umask(before)
    assert (mode(path), mode(new)) == (0o444, 0o640)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give any group")
def test_a_file_keeps_its_group_or_the_group_has_no_rights(tmp_path, monkeypatch):
    path = tmp_path / "shared"
    path.write_text("old")
    os.chown(path, -1, 4321)
    path.chmod(0o664)
    write_text(path, "new")
    assert (path.stat().st_gid, mode(path)) == (4321, 0o664)

    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    write_text(path, "newer")
    assert (path.stat().st_gid, mode(path)) == (os.getegid(), 0o604)


def test_a_link_stays_a_link(tmp_path):
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_text("old")
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_what_is_no_file_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_writable(pipe)
        write_text(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_a_pipe_may_be_given_by_its_number():
    """As a shell does it: ``>(cat)`` is /dev/fd/63."""
    reader, writer = os.pipe()
    try:
        path = Path(f"/dev/fd/{writer}")
        check_writable(path)
        write_text(path, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
        os.close(writer)


def test_where_standard_output_goes_it_is_written_on(tmp_path, monkeypatch):
    path = tmp_path / "out"
    with path.open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(_files, "STANDARD", (out.fileno(), 2))
        print("before")
        assert is_standard_output(path)
        assert not is_standard_output(tmp_path / "other")
        write_text(path, "in between\n")
        print("after")
    assert path.read_text() == "before\nin between\nafter\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x" * 300, "File name too long"),
        ("missing/a", "No such file or directory"),
        ("file/a", "Not a directory"),
        ("folder", "Is a directory"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_what_cannot_be_written_is_known_before(tmp_path, name, words):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    there = sorted(tmp_path.iterdir())
    for attempt in (check_writable, lambda path: write_text(path, "x")):
        with pytest.raises(OSError, match=words) as caught:
            attempt(tmp_path / name)
        assert caught.value.filename == str(tmp_path / name)
    check_writable(tmp_path / "fine")
    check_writable(tmp_path / "file")
    check_writable(tmp_path / ("y" * 255))  # a temporary name is not longer than what it stands for
    assert sorted(tmp_path.iterdir()) == there


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    gone, alive = tmp_path / f"{_files.PREFIX}{2**22 + 1}-0", tmp_path / f"{_files.PREFIX}{os.getpid()}-0"
    other = tmp_path / f"{_files.PREFIX}notes"
    for path in (gone, alive, other):
        path.touch()
    remove_left_over(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([alive, other])
