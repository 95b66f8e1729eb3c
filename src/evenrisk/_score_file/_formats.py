"""Read columns of a file: CSV, gzipped CSV or Parquet, recognised by its first bytes.

A CSV is read as text. pyarrow parses it, and refuses a row of too few or too many fields. Our part is what
pyarrow leaves out: where in the file a fault is, and that a quote is never closed, which would silently
consume the rest of the file. For that the file is followed by one row of our own, which must come out again
as the last. pandas cannot replace this: asked for some of the columns, it fills short rows, drops
surplus fields and does not look at the encoding of other columns, all silently.

It parses in one thread. When a file is damaged, the threads of version 15 may be left waiting for each other,
or for Python when that has ended, which aborts the process.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO

from evenrisk._score_file._columns import ColumnSpec, TableError, positions, quoted

PARQUET = b"PAR1"
GZIP = b"\x1f\x8b"
FOREIGN = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"PARE": "an encrypted Parquet file",
    b"ARROW1": "an Arrow (Feather) file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"%PDF": "a PDF file",
    b"SQLite format 3": "an SQLite database",
}
REQUIRED = "must be CSV, gzipped CSV or Parquet"
BLOCK = 4 << 20  # bytes parsed at a time; no row may be longer
LAST = "\x04last\x04"  # every field of the row added after the file
NOT_UTF8 = "must be UTF-8 text"
UNCLOSED = "must close every quoted field, got a quote that is opened in data row {:,} and never closed"
TEXT = ("binary", "large_binary", "string_view", "binary_view")  # old writers do not mark text as such


def read_columns(path: str, specs: Sequence[ColumnSpec]) -> dict[str, Any]:
    """Return the columns by name, as pyarrow holds them; "-" is standard input."""
    try:
        with _open(path) as source:
            stream, is_parquet = _unpack(source, path)
            columns = (_read_parquet if is_parquet else _read_csv)(stream, specs)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"must be a whole gzip file, got one that cannot be unpacked ({error})") from error
    except OSError as error:
        raise TableError(f"must be a file that can be read, got: {error.strerror or error}") from error
    if not len(columns[specs[0].name]):
        raise TableError("must have at least 1 row of data, got 0")
    return columns


def _open(path: str) -> BinaryIO:
    """Open for reading in any order; what comes through a pipe is held in memory."""
    if path == "-":
        if sys.stdin is None:
            raise TableError("must have a table in it, got nothing: it is closed")
        return io.BytesIO(sys.stdin.buffer.read())
    if os.path.isdir(path):
        raise TableError(f"{REQUIRED}, got a folder")
    try:
        file = open(path, "rb")  # noqa: SIM115 - the caller closes it
    except FileNotFoundError as error:
        raise TableError(f"{REQUIRED}, got nothing: there is no such file") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise TableError(f"must be a file that can be read, got: {reason}") from error
    if file.seekable():
        return file
    with file:
        return io.BytesIO(file.read())


def _unpack(file: BinaryIO, path: str) -> tuple[BinaryIO, bool]:
    """Return the stream, unpacked as it is read if it is gzipped, and whether it is Parquet."""
    head = _head(file)
    if head.startswith(GZIP):
        file = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
        head = _head(file)
        if head.startswith(PARQUET):
            file = io.BytesIO(file.read())  # Parquet needs seeking, and gzip reads forward only
    if not head:
        raise TableError("must have a header and at least 1 row of data, got an empty file")
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise TableError(f"{REQUIRED}, got {what}")
    is_parquet = head.startswith(PARQUET)
    if not is_parquet and path.lower().endswith((".parquet", ".pq")):
        raise TableError(f"must be Parquet, by its name, got a file that begins with {head[:4]!r}")
    return file, is_parquet


def _head(file: BinaryIO) -> bytes:
    """Return the first bytes of a file and go back to its beginning."""
    head = file.read(16)
    file.seek(0)
    return head


@dataclass(frozen=True)
class _Layout:
    """How the rows of a file are written."""

    header: list[str]
    delimiter: str
    blank: int  # lines before the header


class _WithTail(io.RawIOBase):
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


def _read_csv(stream: BinaryIO, specs: Sequence[ColumnSpec]) -> dict[str, Any]:
    """Return the columns by name: text, or its dictionary where it names groups or labels."""
    import pyarrow as pa

    layout = _layout(stream)
    at = positions(layout.header, specs)
    numbers = {column.name for column in specs if column.is_number}
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
    """Return the separator of a header: a comma, or else a semicolon or a tab."""
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
    with _WithTail(stream, tail.encode()) as whole:
        return arrow_csv.read_csv(whole, read, parse, convert)


def _fault(stream: BinaryIO, layout: _Layout, types: dict[str, Any], error: str) -> str:
    """Return the message of what pyarrow refused, and where it is: the file is read again, in order."""
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
    """Return the number of the first row with a field too long for the csv module, or else of the last."""
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
    """Return the message of which line is not UTF-8; empty if all are."""
    stream.seek(0)
    for number, line in enumerate(stream, start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} in line {number:,}"
            return f"{NOT_UTF8}, got {byte}: it may be Latin-1 or Windows-1252; save it as UTF-8"
    return ""


def _read_parquet(stream: BinaryIO, specs: Sequence[ColumnSpec]) -> dict[str, Any]:
    """Return the columns by name, text as its dictionary, valid in full down to the UTF-8 of their text."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {}
    try:
        with _native(stream) as source:
            schema = parquet.read_schema(source)
            names = {name: schema.names[i] for name, i in positions(schema.names, specs).items()}
            text = [name for name in names.values() if pa.types.is_string(schema.field(name).type)]
            file = parquet.ParquetFile(source, read_dictionary=text)
            table = file.read(columns=sorted(set(names.values())))
        for name, written in names.items():
            column = table.column(written)
            column.validate(full=True)
            columns[name] = column.cast(pa.string()) if str(column.type) in TEXT else column
    except (pa.ArrowException, OSError, UnicodeError) as error:  # UnicodeError: the name of a column
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise TableError(f"must be a whole Parquet file, got one that cannot be read ({reason})") from error
    return columns


def _native(stream: BinaryIO) -> Any:
    """Return a source of pyarrow's own: its threads may outlive the reading and Python, and abort us."""
    import pyarrow as pa

    if not isinstance(stream, io.BytesIO):
        return pa.OSFile(stream.name)
    copy = pa.BufferOutputStream()
    copy.write(stream.getbuffer())
    return pa.BufferReader(copy.getvalue())
