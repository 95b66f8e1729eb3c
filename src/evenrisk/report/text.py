"""The summary as text: Markdown to paste, plain tables for a terminal."""

from __future__ import annotations

import re
from typing import Any

from evenrisk.report import numerals, words
from evenrisk.report.inputs import RATES

SUMMARY_HEADER = ("score", "rule", "max gap", "at", "by chance", "p", "mean gap", "rank gap")
GROUP_HEADER = ("group", "{chosen}", "rate", "TPR", "FPR", "PPV", "accuracy", "AUC")


def to_markdown(summary: dict[str, Any]) -> str:
    """Write the verdict, the tables and the notes."""
    summary = words.shown_names(summary)
    lines = [f"# {_escaped(summary['title'])}", ""]
    lines += [f"{_escaped(sentence)}\n" for sentence in summary["verdict"]]
    lines += [f"> {_escaped(sentence)}\n" for sentence in summary["warnings"]]
    lines += [_table_md(SUMMARY_HEADER, summary_rows(summary)), ""]
    for score in summary["scores"]:
        title = f"{score['name']}: cut-off {score['at_threshold']['at']}"
        lines += [f"## {_escaped(title)}", "", _table_md(*group_table(score, summary)), ""]
        if len(summary["scores"]) > 1:
            lines += [f"{_escaped(paragraph)}\n" for paragraph in score["verdict"]]
    lines += [f"**{_escaped(note['title'])}.** {_escaped(note['text'])}\n" for note in summary["notes"]]
    lines.append(f"Made by {summary['made_by']}.")
    return "\n".join(lines) + "\n"


def to_terminal(summary: dict[str, Any]) -> str:
    """Write compact tables, aligned by spaces alone."""
    summary = words.shown_names(summary)
    weighted = ", weighted" if summary["settings"]["weighted"] else ""
    parts = [summary["title"], f"{summary['rows']:,} rows{weighted}; " + _counts(summary), ""]
    parts += [aligned(SUMMARY_HEADER, summary_rows(summary)), ""]
    for score in summary["scores"]:
        parts += [
            f"{score['name']} at cut-off {score['at_threshold']['at']}",
            aligned(*group_table(score, summary)),
            "",
        ]
    return "\n".join(parts)


def _counts(summary: dict[str, Any]) -> str:
    shown = [f"{cell['group']} {cell['rows']:,}" for cell in summary["cells"][:8]]
    more = len(summary["cells"]) - len(shown)
    return f"{summary['group_name']}: " + ", ".join(shown) + (f" and {more} more groups" if more > 0 else "")


def summary_rows(summary: dict[str, Any]) -> list[list[str]]:
    """Return one row per score column and rule, every value with its interval."""
    rows = []
    for score in summary["scores"]:
        for parity in score["parities"]:
            floor = parity["noise_floor"]
            rows.append(
                [
                    score["name"],
                    parity["words"],
                    numerals.decimal_interval(parity["max_gap"]),
                    parity["worst"]["at"],
                    f"{floor['mean']:.3f}–{floor['p95']:.3f}",
                    f"{parity['p_value']:.2g}",
                    numerals.bracketed(numerals.score_interval(parity["mean_gap"])),
                    numerals.decimal_interval(parity["rank_gap"]),
                ]
            )
    return rows


def group_table(score: dict[str, Any], summary: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return each group at the cut-off in use: counts, rates, and its AUC."""
    labelled = summary["label"] is not None
    chosen = words.chosen(summary["settings"]["favourable"])
    header = [name.format(chosen=chosen) for name in GROUP_HEADER]
    rows = []
    for i, group in enumerate(score["at_threshold"]["groups"]):
        rates = [numerals.decimal(group[name]) for name in RATES]
        area = numerals.decimal_interval(score["auc"]["groups"][i]) if score["auc"] else numerals.UNKNOWN
        name = group["group"] + words.mark(group["group"], score)
        rows.append([name, f"{group['selected']:,} of {group['rows']:,}", *rates, area])
    return (header, rows) if labelled else (header[:3], [row[:3] for row in rows])


def aligned(header: Any, rows: list[list[str]]) -> str:
    """Return a table of text: the first columns to the left, numbers to the right."""
    table = [list(header), *rows]
    widths = [max(_width(row[i]) for row in table) for i in range(len(header))]
    left = [not any(ch.isdigit() for ch in row[0][:1]) for row in zip(*rows, strict=True)] if rows else []
    lines = []
    for row in table:
        cells = [
            cell + (width - _width(cell)) * " " if is_left else (width - _width(cell)) * " " + cell
            for cell, width, is_left in zip(row, widths, left, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """Return how many letters take space: isolates around a name take none."""
    return len(text) - text.count("\u2068") - text.count("\u2069")


def _table_md(header: Any, rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Return text of which nothing becomes Markdown or HTML: names are user data.

    A backslash before punctuation is shown as the punctuation alone. Lists are escaped where a line may
    begin, addresses where they would become links.
    """
    text = re.sub(r"[\\`*_{}\[\]<>#|~&!$^]", r"\\\g<0>", " ".join(text.split()))
    text = re.sub(r"^([-+=:])|^([0-9]+)([.)])", r"\2\\\1\3", text)
    return re.sub(r"(?<=:)//|(?<=\bwww)\.", r"\\\g<0>", text, flags=re.IGNORECASE)
