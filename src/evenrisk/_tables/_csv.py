"""Read columns of a CSV as text.

pyarrow parses, and refuses a row of too few or too many fields. Told here is what it leaves out: where in the
file a fault is, and that a quote is never closed, which would swallow the rest of the file without a word.
For that the file is followed by one row of our own, which must come out again as the last.

It parses in one thread. When a file is damaged, the threads of version 15 may be left waiting for each other,
or for Python when that has ended, which aborts the process.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO

from evenrisk._tables._messages import TableError, Wanted, positions, quoted

BLOCK = 4 << 20  # bytes parsed at a time; no row may be longer
LAST = "\x04last\x04"  # the fields of the row that follows the file
NOT_UTF8 = "must be UTF-8 text"
UNCLOSED = "must close every quoted field, got a quote that is opened in data row {:,} and never closed"


@dataclass(frozen=True)
class _Layout:
    """How the rows of a file are written."""

    header: list[str]
    delimiter: str
    blank: int  # lines before the header


class _Followed(io.RawIOBase):
    """A stream with some bytes after its end."""

    def __init__(self, stream: BinaryIO, tail: bytes) -> None:
        self._stream, self._tail = stream, tail

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))  # less than is asked for at the end only
        more = self._tail[: len(buffer) - len(data)]
        self._tail = self._tail[len(more) :]
        count = len(data) + len(more)
        buffer[:count] = data + more
        return count


def read_csv(stream: BinaryIO, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """Give the wanted columns by name: text, or its dictionary where it names groups or labels."""
    import pyarrow as pa

    layout = _layout(stream)
    at = positions(layout.header, wanted)
    numbers = {column.name for column in wanted if column.is_number}
    coded = pa.dictionary(pa.int32(), pa.string())
    types = {str(at[name]): pa.string() if name in numbers else coded for name in at}
    try:
        table = _parse(stream, layout, types)
    except pa.ArrowInvalid as error:
        raise TableError(_fault(stream, layout, types, str(error))) from error
    if table.num_rows == 0 or table.column(0)[-1].as_py() != LAST:
        raise TableError(UNCLOSED.format(table.num_rows))
    table = table.slice(0, table.num_rows - 1)
    return {name: table.column(str(i)) for name, i in at.items()}


def _layout(stream: BinaryIO) -> _Layout:
    """Read the header, which begins at the first line that is not blank."""
    if stream.read(2) in (b"\xff\xfe", b"\xfe\xff"):
        raise TableError(f"{NOT_UTF8}, got UTF-16: save it as UTF-8")
    stream.seek(0)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        lines = enumerate(text)
        blank, first = next(((i, line) for i, line in lines if line.strip("\r\n")), (0, ""))
        delimiter = _delimiter(first)
        header = next(csv.reader(chain([first], text), delimiter=delimiter))
    except csv.Error as error:
        raise TableError(f"must have column names in its first line, got none ({error})") from error
    finally:
        text.detach()
    if not first:
        raise TableError("must have a header and at least 1 row of data, got blank lines only")
    if any("\0" in name for name in header):
        raise TableError(f"{NOT_UTF8}, got zero bytes in its header, as UTF-16 has them: save it as UTF-8")
    if re.search("[\udc80-\udcff]", "".join(header)):  # bytes that surrogateescape let pass
        raise TableError(_not_utf8(stream))
    return _Layout(header, delimiter, blank)


def _delimiter(line: str) -> str:
    """The separator of a header: a comma, or else a semicolon or a tab."""
    bare = re.sub(r'"[^"]*"', "", line)
    return max(",;\t", key=lambda sign: (sign in bare, sign == ",", bare.count(sign)))


def _parse(stream: BinaryIO, layout: _Layout, types: dict[str, Any], on_bad_row: Any = None) -> Any:
    """Parse the file and the row that follows it; columns are named by number, since names may repeat."""
    from pyarrow import csv as arrow_csv

    stream.seek(0)
    width = len(layout.header)
    tail = "\n" + layout.delimiter.join([LAST] * width) + "\n"
    read = arrow_csv.ReadOptions(
        use_threads=False,
        block_size=BLOCK,
        skip_rows=layout.blank,
        column_names=[str(i) for i in range(width)],
        skip_rows_after_names=1,
    )
    parse = arrow_csv.ParseOptions(
        delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=on_bad_row
    )
    convert = arrow_csv.ConvertOptions(
        include_columns=list(types), column_types=types, null_values=[""], strings_can_be_null=True
    )
    with _Followed(stream, tail.encode()) as followed:
        return arrow_csv.read_csv(followed, read, parse, convert)


def _fault(stream: BinaryIO, layout: _Layout, types: dict[str, Any], error: str) -> str:
    """Say what pyarrow stumbled over, and where: the file is read again, in order."""
    import pyarrow as pa

    if found := _not_utf8(stream):  # first, because pyarrow cannot hand over a bad row that is not UTF-8
        return found
    bad: list[Any] = []

    def note(row: Any) -> str:
        bad.append(row)
        return "error"

    try:
        _parse(stream, layout, types, on_bad_row=note)
    except pa.ArrowInvalid as again:
        error = str(again)
    if bad:
        row = bad[0].number - layout.blank - 1
        if bad[0].text.rstrip("\r\n").endswith(LAST):
            return UNCLOSED.format(row)
        fields = f"must have {len(layout.header)} fields, one per column of the header"
        return f"data row {row:,} {fields}, got {bad[0].actual_columns}: {quoted(bad[0].text)}"
    if "straddl" in error:
        row = f"data row {_longest(stream, layout):,}"
        return f"must have rows of at most {BLOCK >> 20} MB, got {row}, whose quotes may never be closed"
    return f"must be a CSV that can be read, got: {error}"


def _longest(stream: BinaryIO, layout: _Layout) -> int:
    """Number the first row with a field that is longer than the csv module allows, or else the last."""
    stream.seek(0)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
    rows = 0
    try:
        for fields in csv.reader(text, delimiter=layout.delimiter):
            rows += bool(fields)
    except csv.Error:
        pass  # the header counts for the row it stopped in
    finally:
        text.detach()
    return rows


def _not_utf8(stream: BinaryIO) -> str:
    """Say which line is not UTF-8; nothing if all are."""
    stream.seek(0)
    for number, line in enumerate(stream, start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} in line {number:,}"
            return f"{NOT_UTF8}, got {byte}: it may be Latin-1 or Windows-1252; save it as UTF-8"
    return ""
