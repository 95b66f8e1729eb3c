"""Write files so that nothing already written is lost: to a temporary name first, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; it takes its place when the block ends well.

    A link stays and what it points to is replaced. What is no file, such as a pipe or a terminal, cannot be
    replaced and is written to as it is.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace a file's text, whole or not at all."""
    write_texts({path: text})


def write_texts(texts: Mapping[Path, str]) -> None:
    """Replace the text of several files, all of them or none: names change when everything is written."""
    with ExitStack() as stack:
        temporaries = [stack.enter_context(replacing(path)) for path in texts]
        for temporary, text in zip(temporaries, texts.values(), strict=True):
            temporary.write_text(text, encoding="utf-8")
