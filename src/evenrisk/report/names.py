"""Names are data: the dict's names as a page, a text or a terminal shows them."""

from __future__ import annotations

from typing import Any

from evenrisk._validation import shown, visible

__all__ = ["shown", "shown_names", "visible"]

# keys of the dict that hold a name, or a list of them; sentences are written with shown names already
NAMES = {
    "group",
    "groups",
    "group_name",
    "name",
    "negative",
    "positive",
    "pair",
    "higher",
    "lower",
    "left_out",
}


def shown_names(summary: dict[str, Any]) -> dict[str, Any]:
    """Copy the dict with every name as it is shown."""
    shown_summary: dict[str, Any] = _shown(summary, is_name=False)
    return shown_summary


def _shown(part: Any, *, is_name: bool) -> Any:
    if isinstance(part, dict):
        return {key: _shown(value, is_name=key in NAMES) for key, value in part.items()}
    if isinstance(part, list):
        return [_shown(value, is_name=is_name) for value in part]
    return shown(part) if is_name and isinstance(part, str) else part
