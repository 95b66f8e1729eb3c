"""What all figures share: colours by method, and files with the same bytes on every run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from evenrisk._files import replacing, write_text

# no date, fixed ids in the SVG
_DETERMINISTIC = {"svg.hashsalt": "evenrisk", "svg.fonttype": "path", "axes.titlesize": "medium"}
# Okabe and Ito's palette: the classifier gives the colour, the approximation the dash
COLORS = {
    "Baseline": "#000000",
    "Zafar": "#D55E00",
    "LR": "#0072B2",
    "LSVM": "#009E73",
    "KSVM": "#CC79A7",
    "MLP": "#E69F00",
    "LightGBM": "#56B4E9",
}
DASHES: dict[str, Any] = {"HA": "-", "GA": (0, (5, 2)), "gap": (0, (1.2, 1.2))}
TITLES = {"demographic_parity": "Demographic parity", "equalized_odds": "Equalized odds"}


def style(method: str) -> dict[str, Any]:
    """Give the colour and the dash of a method."""
    family, _, kind = method.partition("-")
    return {"color": COLORS[family], "linestyle": DASHES.get(kind, "-"), "linewidth": 1.7}


@contextmanager
def figure(size: tuple[float, float]) -> Iterator[Any]:
    """Make a figure under fixed settings."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_DETERMINISTIC):
        yield Figure(figsize=size, layout="constrained")


def save(drawn: Any, folder: Path, name: str) -> None:
    """Write PNG and SVG."""
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        with replacing(folder / f"{name}.{kind}") as file:
            drawn.savefig(file, format=kind, dpi=150, metadata=metadata)


def save_csv(folder: Path, name: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write the arrays behind a figure, with full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(folder / f"{name}.csv", out.getvalue())


def mean_sd(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd over splits, the first axis; one split has no spread."""
    return values.mean(axis=0), values.std(axis=0, ddof=1 if len(values) > 1 else 0)
