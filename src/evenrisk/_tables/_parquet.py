"""Read columns of a Parquet file, text as its dictionary."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, BinaryIO

from evenrisk._tables._messages import TableError, Wanted, positions

TEXT = ("binary", "large_binary", "string_view", "binary_view")  # old writers do not mark text as such


def read_parquet(stream: BinaryIO, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """Give the wanted columns by name."""
    import pyarrow as pa

    try:
        return _read(stream, wanted)
    except (pa.ArrowException, OSError, UnicodeError) as error:  # UnicodeError: the name of a column
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise TableError(f"must be a whole Parquet file, got one that cannot be read ({reason})") from error


def _read(stream: BinaryIO, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """Read the columns and hold them against their types, down to each letter of their text."""
    import pyarrow as pa
    from pyarrow import parquet

    with _native(stream) as source:
        schema = parquet.read_schema(source)
        names = {name: schema.names[i] for name, i in positions(schema.names, wanted).items()}
        text = [name for name in names.values() if pa.types.is_string(schema.field(name).type)]
        table = parquet.ParquetFile(source, read_dictionary=text).read(columns=sorted(set(names.values())))
    columns = {}
    for name, written in names.items():
        column = table.column(written)
        column.validate(full=True)
        columns[name] = column.cast(pa.string()) if str(column.type) in TEXT else column
    return columns


def _native(stream: BinaryIO) -> Any:
    """A file, or memory, of pyarrow's own: its threads may outlive the reading, and abort us at Python's."""
    import pyarrow as pa

    if not isinstance(stream, io.BytesIO):
        return pa.OSFile(stream.name)
    copy = pa.BufferOutputStream()
    copy.write(stream.getbuffer())
    return pa.BufferReader(copy.getvalue())
