"""Nothing already written is lost."""

import os
import stat

import pytest

from evenrisk._files import replacing, write_text, write_texts


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.csv"
    write_text(path, "old")

    def fail(temporary):
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), replacing(path) as temporary:
        fail(temporary)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_good_write_replaces_it(tmp_path):
    path = tmp_path / "table.csv"
    write_text(path, "old")
    write_text(path, "new ±")
    assert path.read_text(encoding="utf-8") == "new ±"
    assert list(tmp_path.iterdir()) == [path]


def test_several_files_are_written_together_or_not_at_all(tmp_path, monkeypatch):
    first, second = tmp_path / "a", tmp_path / "b"
    write_text(first, "old")
    whole = type(first).write_text

    def full(self, text, encoding=None):
        whole(self, text[:1], encoding=encoding)
        if text == "two":
            raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(type(first), "write_text", full)
        with pytest.raises(OSError, match="disk full"):
            write_texts({first: "one", second: "two"})
    assert first.read_text() == "old"
    assert list(tmp_path.iterdir()) == [first]
    write_texts({first: "one", second: "two"})
    assert (first.read_text(), second.read_text()) == ("one", "two")


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
        write_text(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]
