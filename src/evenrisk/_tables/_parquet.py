"""Read columns of a Parquet file, text as its dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

from evenrisk._tables._messages import TableError, Wanted, positions

TEXT = ("binary", "large_binary", "string_view", "binary_view")  # old writers do not mark text as such


def read_parquet(stream: BinaryIO, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """Give the wanted columns by name."""
    import pyarrow as pa

    try:
        return _read(stream, wanted)
    # what damaged files have been seen to raise: a wrong length is asked of the memory, a name is not UTF-8
    except (pa.ArrowException, OSError, MemoryError, OverflowError, UnicodeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise TableError(f"must be a whole Parquet file, got one that cannot be read ({reason})") from error


def _read(stream: BinaryIO, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """Read the columns and hold them against their types, down to each letter of their text."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = parquet.read_schema(stream)
    header = schema.names
    names = {name: header[i] for name, i in positions(header, wanted).items()}
    text = [name for name in names.values() if pa.types.is_string(schema.field(name).type)]
    stream.seek(0)
    with parquet.ParquetFile(stream, read_dictionary=text) as file:
        table = file.read(columns=sorted(set(names.values())))
    columns = {}
    for name, written in names.items():
        column = table.column(written)
        column.validate(full=True)
        columns[name] = column.cast(pa.string()) if str(column.type) in TEXT else column
    return columns
