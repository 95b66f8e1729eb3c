"""Open a file or standard input, and tell by its first bytes what it is."""

from __future__ import annotations

import gzip
import io
import os
import sys
from typing import BinaryIO

from evenrisk._tables._messages import TableError

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


def open_source(path: str) -> BinaryIO:
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


def unwrap(file: BinaryIO, path: str) -> tuple[BinaryIO, bool]:
    """Look through gzip; say whether it is Parquet. A gzipped file is unpacked as it is read."""
    head = _head(file)
    if head.startswith(GZIP):
        file = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
        head = _head(file)
        if head.startswith(PARQUET):
            file = io.BytesIO(file.read())  # Parquet is read to and fro, and gzip only onwards
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
    """The first bytes of a file, which is then at its beginning again."""
    head = file.read(16)
    file.seek(0)
    return head
