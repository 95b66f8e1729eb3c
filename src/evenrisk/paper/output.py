"""Everything a run leaves behind: tables, page, figures, and the scores they can be recomputed from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenrisk._files import replacing, write_text
from evenrisk.paper.figures import parity_curves, risk_distributions, tradeoff
from evenrisk.paper.page import to_html
from evenrisk.paper.protocol import PARITIES
from evenrisk.paper.summary import Experiment
from evenrisk.paper.tables import to_csv, to_json, to_markdown


def write_results(experiment: Experiment, summary: dict[str, Any], folder: Path) -> None:
    """Write all files of a finished experiment."""
    write_text(folder / "tables.md", to_markdown(summary))
    write_text(folder / "tables.csv", to_csv(summary))
    write_text(folder / "results.json", to_json(summary))
    _write_scores(experiment, folder / "scores")
    for draw in (parity_curves, tradeoff, risk_distributions):
        draw(experiment, folder)
    write_text(folder / "index.html", to_html(summary))


def _write_scores(experiment: Experiment, folder: Path) -> None:
    """Write each split's test labels, groups, and the scores of every row of both tables."""
    folder.mkdir(exist_ok=True)
    chosen = {
        (parity, method): [s for _, s in experiment.scores(parity, method)]
        for parity in PARITIES
        for method in experiment.methods(parity)
    }
    for i, split in enumerate(experiment.splits):
        arrays = {"rows": split["rows"], "y": split["y"], "group": split["group"]}
        arrays |= {f"{parity}/{method}": scores[i] for (parity, method), scores in chosen.items()}
        with replacing(folder / f"split_{i:03d}.npz") as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    for stale in folder.glob("split_*.npz"):
        if int(stale.stem[6:]) >= len(experiment.splits):
            stale.unlink()  # of an earlier run with more splits: it does not belong to these tables
