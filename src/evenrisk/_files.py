"""Write files so that nothing already written is lost: to a temporary file first, which then takes the name.

A temporary file lies in the folder of the file that it replaces. Its name cannot be guessed and it is never
opened through a link, so nobody can plant one before us, and any number of threads may write to one path. The
new file has the mode of the old one. Nothing is flushed to the disk itself: after a power cut it may have the
old file or the new one.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EACCES, EISDIR
from pathlib import Path
from typing import BinaryIO

STANDARD = (1, 2)  # descriptors of standard output and standard error
PREFIX = ".evenrisk-"  # of temporary names


class PartlyWritten(OSError):
    """Of several outputs, `written` were written before another failed, and could not be taken back."""

    written: tuple[Path, ...] = ()


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write to; it takes the place of `path` when the block ends well.

    A link stays and what it points to is replaced. What is no file, such as a pipe or a terminal, cannot be
    replaced; it is sent everything at the end.
    """
    with _together([path]) as (file,):
        yield file


def write_text(path: Path, text: str) -> None:
    """Replace a file's text, whole or not at all."""
    write_texts({path: text})


def write_texts(texts: Mapping[Path, str]) -> None:
    """Replace the text of several files, all of them or none.

    Raises
    ------
    PartlyWritten
        If some were replaced, another could not be, and the old ones could not be put back.
    """
    with _together(texts) as files:
        for file, text in zip(files, texts.values(), strict=True):
            file.write(text.encode())


def check_writable(path: Path) -> None:
    """Raise the OSError that writing to `path` would end in, as far as it can be known before."""
    _output(path).discard()


def is_standard_output(path: Path) -> bool:
    """Return whether `path` is what standard output goes to, as ``/dev/stdout`` is."""
    try:
        return _standard(path.stat()) == STANDARD[0]
    except OSError:
        return False


def remove_left_over(folder: Path) -> None:
    """Remove what killed processes were writing in a folder."""
    for path in folder.glob(f"{PREFIX}*"):
        try:
            os.kill(int(path.name.split("-")[1]), 0)
        except ProcessLookupError:
            with suppress(OSError):
                path.unlink()
        except (PermissionError, ValueError, OverflowError):
            continue  # somebody else's


@contextmanager
def _together(paths: Iterable[Path]) -> Iterator[list[BinaryIO]]:
    """Open all files to write to; all take their places when the block ends well, or none."""
    outputs: list[_Replacement | _Stream] = []
    try:
        outputs.extend(map(_output, paths))  # those before one that fails are kept
        yield [output.file for output in outputs]
        # what cannot be taken back goes first: if it fails, no file has changed yet
        outputs.sort(key=lambda output: isinstance(output, _Replacement))
        for output in outputs:
            output.finish(keep=output is not outputs[-1])
        _put_all(outputs)
    finally:
        for output in outputs:
            output.discard()


def _put_all(outputs: list[_Replacement | _Stream]) -> None:
    """Put all outputs in place, or take back those that were."""
    done: list[_Replacement | _Stream] = []
    try:
        for output in outputs:
            output.put()
            done.append(output)
    except BaseException as error:
        stay = tuple(output.path for output in reversed(done) if not output.undo())
        if stay and isinstance(error, OSError):
            partly = PartlyWritten(error.errno, error.strerror, str(outputs[len(done)].path))
            partly.written = stay
            raise partly from error
        raise


def _output(path: Path) -> _Replacement | _Stream:
    """Begin to write to a path: beside it if it can be replaced, else to memory."""
    try:
        info = path.stat()
    except FileNotFoundError:
        return _Replacement(path, None)
    if stat.S_ISDIR(info.st_mode):
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    standard = _standard(info)
    if standard is None and stat.S_ISREG(info.st_mode):
        return _Replacement(path, info)
    return _Stream(path, standard)


def _standard(info: os.stat_result) -> int | None:
    """Return the standard stream that goes to this file; it would lose its position if that were replaced."""
    for descriptor in STANDARD:
        with suppress(OSError):  # closed
            if os.path.samestat(info, os.fstat(descriptor)):
                return descriptor
    return None


class _Replacement:
    """A file to come, under a temporary name."""

    def __init__(self, path: Path, old: os.stat_result | None) -> None:
        self.path = path
        self.target = Path(os.path.realpath(path))
        self.old = old
        self.backup: Path | None = None
        self.temporary, self.file = self._beside()

    def finish(self, *, keep: bool) -> None:
        """Write the file to its end; where it may have to be taken back, copy the old one."""
        self.file.close()
        self._resemble(self.temporary)
        if keep and self.old is not None:
            self.backup, file = self._beside()
            with file:
                file.write(self.target.read_bytes())
            self._resemble(self.backup)

    def put(self) -> None:
        self.temporary.replace(self.target)

    def undo(self) -> bool:
        """Take the file back; return whether that worked."""
        with suppress(OSError):
            if self.backup is not None:
                self.backup.replace(self.target)
                return True
            if self.old is None:
                self.target.unlink()
                return True
        return False

    def discard(self) -> None:
        """Close and remove what is not in place."""
        for step in (self.file.close, self.temporary.unlink, *([self.backup.unlink] if self.backup else [])):
            with suppress(OSError):
                step()

    def _beside(self) -> tuple[Path, BinaryIO]:
        """Open a new file in the target's folder; nobody else may read it if that is so for the old one."""
        temporary = self.target.with_name(f"{PREFIX}{os.getpid()}-{secrets.token_hex(8)}")
        mode = 0o666 if self.old is None else 0o600  # the umask takes its part
        try:
            return temporary, open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _resemble(self, path: Path) -> None:
        """Set the mode and the group of the old file; a group that we may not set has no rights."""
        if self.old is None:
            return
        mode = stat.S_IMODE(self.old.st_mode) & 0o777
        if hasattr(os, "chown") and path.stat().st_gid != self.old.st_gid:
            try:
                os.chown(path, -1, self.old.st_gid)
            except OSError:
                mode &= ~stat.S_IRWXG
        path.chmod(mode)


class _Stream:
    """What cannot be replaced: a pipe, a terminal, a device, or where a standard stream goes."""

    def __init__(self, path: Path, standard: int | None) -> None:
        if standard is None and not os.access(path, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES), str(path))
        self.path = path
        self.standard = standard
        self.file = io.BytesIO()

    def finish(self, *, keep: bool) -> None:
        """Nothing is sent until all is there."""

    def put(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        # opened by its name, a file that a standard stream goes to would be written from its beginning again
        standard = self.standard
        descriptor = os.open(self.path, os.O_WRONLY) if standard is None else os.dup(standard)
        with open(descriptor, "wb") as file:
            file.write(self.file.getvalue())

    def undo(self) -> bool:
        return False

    def discard(self) -> None:
        self.file.close()
