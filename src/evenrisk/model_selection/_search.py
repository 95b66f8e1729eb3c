"""One search of a `BudgetSearchCV`: what was tried, what came of it, what is said if it failed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

from evenrisk._validation import BudgetWarning, tell
from evenrisk.model_selection._bisection import best_eta, smallest_eta
from evenrisk.model_selection._folds import Data, HeldOut, Tunable
from evenrisk.model_selection._rows import Rows

if TYPE_CHECKING:
    from evenrisk.metrics import ThresholdProfile
    from evenrisk.model_selection.budget import BudgetSearchCV

N_RESAMPLES = 400  # for the bound: its own error is then a twentieth of its width
N_PERMUTATIONS = 200  # for the noise floor that a warning names
FEW_PERMUTATIONS = 50  # to know whether a budget is below it, after every search


class Search:
    """One search: what was tried, and what came of it."""

    def __init__(self, settings: BudgetSearchCV, tunable: Tunable, data: Data) -> None:
        self.settings = settings
        rng = check_random_state(settings.random_state)
        self.rows = Rows.of(data, tunable, settings.parity)
        splits = self.rows.splits(settings.cv, rng)
        self.seed = int(rng.randint(2**31 - 1))
        self.held_out = HeldOut(tunable, self.rows.data, splits, settings.n_jobs)
        self.profiles: dict[float, ThresholdProfile] = {}
        self.path: dict[float, dict[str, float]] = {}

    def result(self) -> tuple[float, bool]:
        """Give the η found and whether it meets the budget; say so if not."""
        budget, (low, high) = self.settings.max_gap, self.settings.eta_range
        eta = smallest_eta(self._criterion, budget, low, high)
        if eta is not None:
            self._say_if_within_chance(eta)
            return eta, True
        if self.settings.confidence is not None:
            eta = smallest_eta(self._measured, budget, low, high)
        if eta is not None:
            self._say_unverified(eta)
            return eta, False
        # every fit from scratch now, as in a grid search: a strong penalty on few rows has many minima
        self.held_out.begin_afresh()
        self.path.clear()
        eta = best_eta(self._measured, low, high)
        if self._criterion(eta) <= budget:
            self._say_if_within_chance(eta)
            return eta, True
        self._say_unmet(eta)
        return eta, False

    def _measured(self, eta: float) -> float:
        """The held-out max gap at this η."""
        if eta not in self.path:
            scores = self.held_out.scores(eta)
            self.profiles[eta] = self.rows.profile(scores.place)
            measured = {"max_gap": self.profiles[eta].max_gap, "bound": np.nan}
            self.path[eta] = measured | self.rows.quality(scores)
            if self.settings.verbose:
                print(f"eta {eta:<12.6g} held-out max gap {measured['max_gap']:.4f}", file=sys.stderr)
        return self.path[eta]["max_gap"]

    def _bound(self, eta: float) -> float:
        """An upper bound for the true max gap at this η; the resamples are the same for all η."""
        if not np.isfinite(self.path.get(eta, {}).get("bound", np.nan)):
            self._measured(eta)
            level = float(self.settings.confidence or 0)
            band = self.profiles[eta].band(level, "bootstrap", self._resamples, self.seed)
            self.path[eta]["bound"] = band.max_gap.high
        return self.path[eta]["bound"]

    def _criterion(self, eta: float) -> float:
        """What is held against the budget; no bound is drawn where the measured gap is above it already."""
        measured = self._measured(eta)
        if self.settings.confidence is None or measured > self.settings.max_gap:
            return measured
        return self._bound(eta)

    @property
    def _resamples(self) -> int:
        confidence = self.settings.confidence
        return N_RESAMPLES if confidence is None else max(N_RESAMPLES, int(np.ceil(4 / (1 - confidence))))

    def _say_unverified(self, eta: float) -> None:
        """Warn that this many rows cannot tell."""
        budget, level = self.settings.max_gap, float(self.settings.confidence or 0)
        bounds = {each: row["bound"] for each, row in self.path.items() if np.isfinite(row["bound"])}
        best = min(bounds, key=lambda each: bounds[each])
        certificate = self.profiles[best].certify(budget, level, "bootstrap", self._resamples, self.seed)
        needed = certificate.rows_needed
        enough = "" if needed is None else f"; about {needed:,} rows in every cell would be enough for that"
        tell(
            f"a max gap of {budget:g} cannot be verified with {len(self.rows.code):,} rows. The held-out max "
            f"gap is {self.path[eta]['max_gap']:.3f} at eta={eta:.4g}, but no eta brings its upper bound at "
            f"confidence {level:g} below {bounds[best]:.3f} (eta={best:.4g}){enough}",
            BudgetWarning,
        )

    def _say_if_within_chance(self, eta: float) -> None:
        """Warn if the budget, as measured, is below what this many rows show of a score without any gap.

        A score that is nearly constant shows less by chance: the plain model's is taken.
        """
        floor = self._floor(0.0, FEW_PERMUTATIONS) if self.settings.confidence is None else 0.0
        if self.settings.max_gap < floor:
            tell(
                f"a held-out max gap of {self.path[eta]['max_gap']:.3f} meets the budget of "
                f"{self.settings.max_gap:g} as measured, but {len(self.rows.code):,} rows cannot tell: a "
                f"score that has nothing to do with the groups shows {floor:.3f} by chance. Give more rows, "
                "or `confidence` for a bound of the true gap",
                BudgetWarning,
            )

    def _floor(self, eta: float, n_permutations: int) -> float:
        """The mean max gap that chance alone would show."""
        return self.profiles[eta].noise_floor(n_permutations, self.seed).mean

    def _say_unmet(self, eta: float) -> None:
        """Warn that the budget is out of reach, and what chance alone would show."""
        floor = self._floor(eta, N_PERMUTATIONS)
        tell(
            f"no eta up to {self.settings.eta_range[1]:g} brings the held-out max gap to "
            f"{self.settings.max_gap:g}: it comes down to {self.path[eta]['max_gap']:.3f} (eta={eta:.4g}). "
            f"On these {len(self.rows.code):,} rows a score that has nothing to do with the groups shows "
            f"{floor:.3f} by chance",
            BudgetWarning,
        )
