"""Nothing already written is lost."""

import pytest

from evenrisk._files import replacing, write_text


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
