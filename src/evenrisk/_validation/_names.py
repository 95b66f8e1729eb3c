"""Names are data: how a name that came with the rows is shown in text, whatever characters it holds."""

from __future__ import annotations

import re
import unicodedata

# Control characters move a terminal's cursor and end lines; direction controls reorder the text around them;
# a lone surrogate cannot be written at all.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
_ISOLATE, _END = "\u2068", "\u2069"  # what stands between them has a direction of its own


def visible(name: str) -> str:
    r"""Write a name so that all of it can be seen: controls as escapes, such as \\x1b, an empty one as ''."""
    if not name:
        return "''"
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), name)


def shown(name: str) -> str:
    """Write a name for a sentence or a table: visible, and unable to reorder the text around it.

    A name with letters that run from right to left stands between isolates, so that numbers beside it
    stay where they are. All other names are returned as they are.
    """
    text = visible(name)
    if any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in text):
        return f"{_ISOLATE}{text}{_END}"
    return text
