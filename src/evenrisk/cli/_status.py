"""The program and how it ends. Status 1 is the verdict of the gate; no error and no accident ends with it."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from evenrisk import __version__

BAD_INPUT = 2  # also: an output that could not be written
FAULT = 3  # of this program
INTERRUPTED = 130  # what a shell makes of a process that SIGINT has ended
CLOSED_PIPE = 141  # of SIGPIPE


class BadInput(click.ClickException):
    """Something that was given or asked for cannot be used."""

    exit_code = BAD_INPUT


class Killed(click.ClickException):
    """A process of ours was ended from outside."""

    exit_code = FAULT


class SilentExit(click.ClickException):
    """The program was ended from outside, which needs no message."""

    def __init__(self) -> None:
        super().__init__("ended from outside")

    def show(self, file: Any = None) -> None:
        """Say nothing."""


class ClosedPipe(SilentExit):
    """The reader of our output has closed the pipe."""

    exit_code = CLOSED_PIPE


class Interrupted(SilentExit):
    """Ctrl-C."""

    exit_code = INTERRUPTED


def named(path: Any) -> str:
    """Return the name of a file or folder, escaped for a terminal."""
    from evenrisk._validation import visible  # NumPy, which --help does without

    return visible(os.fspath(path))


class Program(click.Group):
    """A group of commands, each of which returns its exit status; None is 0.

    click would end with 1 on an interruption, on a closed pipe and on every exception that it does not know.
    """

    def main(self, args: Any = None, prog_name: Any = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command and exit with its status."""
        if not extra.pop("standalone_mode", True):
            return super().main(args, prog_name, standalone_mode=False, **extra)
        try:
            status = super().main(args, prog_name, standalone_mode=False, **extra)
            for stream in _streams():
                stream.flush()  # here a failure can still be printed
        except BaseException as error:
            status = _report_error(error)
        sys.exit(status or 0)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the options; help is printed here."""
        with _endings():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with _endings():
            return super().invoke(ctx)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="evenrisk")
def main() -> None:
    """Risk scores that are fair at every threshold."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without some letter gets a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@contextmanager
def _endings() -> Iterator[None]:
    """Raise what click does not know where it would exit with 1."""
    try:
        yield
    except BrokenPipeError as error:
        raise ClosedPipe from error
    except KeyboardInterrupt as error:  # of which click before 8.2 keeps no trace
        raise Interrupted from error


def _report_error(error: BaseException) -> int:
    """Print an error, as far as that is possible, and return its exit status."""
    status, show = _meaning(error)
    with suppress(Exception):  # there is nowhere to print it
        show()
    _drop_unwritten()
    return status


def _meaning(error: BaseException) -> tuple[int, Callable[[], None]]:
    """Return the exit status of an error, and how to print it."""
    cause = (error.__cause__ or error) if isinstance(error, click.Abort) else error
    if isinstance(cause, KeyboardInterrupt):
        cause = Interrupted()
    if isinstance(cause, BrokenPipeError):
        cause = ClosedPipe()
    if isinstance(cause, click.ClickException):
        return max(cause.exit_code, BAD_INPUT), cause.show  # click's own default is 1
    if isinstance(cause, OSError) and cause.filename is None:  # streams that are open have no name
        return BAD_INPUT, lambda: click.echo(f"Error: could not print: {cause.strerror or cause}", err=True)
    if isinstance(cause, SystemExit) and not cause.code:
        return 0, lambda: None  # after shell completion
    return FAULT, lambda: traceback.print_exception(cause)


def _streams() -> list[Any]:
    return [stream for stream in (sys.stdout, sys.stderr) if stream is not None]


def _drop_unwritten() -> None:
    """Drop what the standard streams hold and cannot write.

    The interpreter flushes them once more at its end, and would exit with a status of its own.
    """
    for stream in _streams():
        try:
            stream.flush()
        except (OSError, ValueError):  # ValueError: somebody has closed it
            with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
