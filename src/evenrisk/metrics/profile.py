"""The gap at every threshold, exact.

Conventions
-----------
t (m,) the distinct scores, ascending; a person is selected iff score > t. A threshold that is asked for is
read in the precision of the scores: of float32 scores, 0.2 selects those above 0.2 in float32, as
``score > 0.2`` does in NumPy. h strata, k groups; rates (h, k, m). The gap in a stratum is the largest
difference of two rates that are compared: of any two groups, if nothing else was asked for, and else of
unions of groups, which then take the place of groups in everything here. The curve, `at`, `interval` and
`std` use the **mean** over strata, as the paper does; `max_gap` takes the **worst** stratum.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenrisk._validation import (
    ArgumentError,
    Comparison,
    check_choice,
    check_fraction,
    check_number,
    check_thresholds,
    shown,
)
from evenrisk.curves import cell_curves, gaps, union_curves
from evenrisk.metrics.groups import Discrimination, discrimination
from evenrisk.metrics.inference import METHODS, Band, Certificate, Inference, Intervals, check_resamples
from evenrisk.metrics.resampling import (
    BinnedScores,
    NoiseFloor,
    PermutationTest,
    generator,
    permutations,
)
from evenrisk.metrics.rows import ScoredRows, scored_rows
from evenrisk.metrics.unions import BinnedUnions, binned_rows, permuted_unions
from evenrisk.parity import Parity

if TYPE_CHECKING:
    import pandas as pd

PAPER_RANGE = (0.3, 0.7)
PAPER_THRESHOLDS = 41


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdProfile:
    """Selection rates and their gap between groups at every threshold.

    Made by :func:`threshold_profile`.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Every distinct score, ascending. Between two of them nothing changes.
    rates : ndarray of shape (h, k, m)
        Share of each group with a score above the threshold, by stratum and group.
    groups : tuple of str
        Names of the k groups, or unions of groups such as "age over 47", that are compared.
    pairs : ndarray of shape (q, 2)
        Which of them are compared with one another.
    parity : Parity
        The rule; ``parity.strata`` names the h strata.
    """

    thresholds: np.ndarray
    rates: np.ndarray
    groups: tuple[str, ...]
    parity: Parity
    share: np.ndarray = field(repr=False)  # (h, m) pooled weight share of the stratum's rows scoring t
    _rows: ScoredRows = field(repr=False)

    @cached_property
    def gap_by_stratum(self) -> np.ndarray:
        """The gap in each stratum (h, m)."""
        return self._gaps(self.rates)

    def _gaps(self, rates: np.ndarray) -> np.ndarray:
        """Return the gap of rates (h, k, r) → (h, r)."""
        return np.asarray(gaps(rates, None if self._rows.compared is None else self.pairs))

    @property
    def pairs(self) -> np.ndarray:
        """Which of the groups are compared with one another (q, 2)."""
        return self._rows.contrasts.pairs

    @cached_property
    def gap(self) -> np.ndarray:
        """The gap, averaged over strata (m,)."""
        return self.gap_by_stratum.mean(axis=0)

    @property
    def worst_gap(self) -> np.ndarray:
        """The gap in the worst stratum at each threshold (m,); its largest value is `max_gap`."""
        return self.gap_by_stratum.max(axis=0)

    @property
    def max_gap(self) -> float:
        """Largest gap over all thresholds, in the worst stratum.

        Two groups in one stratum: the Kolmogorov–Smirnov statistic. No strictly increasing map of the
        score changes it.
        """
        return float(self.gap_by_stratum.max())

    @property
    def worst_stratum(self) -> str:
        """The stratum of `max_gap`."""
        return self.parity.strata[int(self.gap_by_stratum.max(axis=1).argmax())]

    @property
    def worst_threshold(self) -> float:
        """Smallest threshold at which `max_gap` is reached, in the worst stratum."""
        worst = self.gap_by_stratum[int(self.gap_by_stratum.max(axis=1).argmax())]
        # equal gaps may differ in their last digit: 0.9 − 0.8 and 0.8 − 0.7
        return float(self.thresholds[int((worst >= worst.max() - 1e-12).argmax())])

    @property
    def worst_groups(self) -> tuple[str, str]:
        """Between whom `max_gap` is: the one with the higher rate, and the other."""
        stratum = self.parity.strata.index(self.worst_stratum)
        rates = self.rates[stratum, :, int(np.searchsorted(self.thresholds, self.worst_threshold))]
        first, second = self.pairs.T
        at = int((np.abs(rates[first] - rates[second]) >= self.max_gap - 1e-12).argmax())
        a, b = first[at], second[at]
        return (self.groups[a], self.groups[b]) if rates[a] >= rates[b] else (self.groups[b], self.groups[a])

    @property
    def worst(self) -> str:
        """Where `max_gap` is, and between whom: "threshold 0.31, age up to 47 against age over 47"."""
        stratum = f", among {shown(self.worst_stratum)}" if self.parity.needs_label else ""
        first, second = map(shown, self.worst_groups)
        return f"threshold {self.worst_threshold:.6g}{stratum}, {first} against {second}"

    @cached_property
    def gap_by_pair(self) -> np.ndarray:
        """The largest gap over all thresholds of each of `pairs`, by stratum (h, q)."""
        largest = [np.abs(self.rates[:, a] - self.rates[:, b]).max(axis=1) for a, b in self.pairs]
        return np.stack(largest, axis=1)

    @cached_property
    def rows_by_group(self) -> np.ndarray:
        """Rows of each of `groups`, by stratum (h, k); to expect, where they are probabilities."""
        return self._rows.union_sizes().reshape(len(self.parity.strata), -1)

    @property
    def attribute_of_pair(self) -> tuple[str, ...]:
        """The attribute that each of `pairs` compares (q,), by its name in `by_attribute`."""
        names, compared = list(self.by_attribute), self._rows.compared
        if compared is None:
            return tuple(names * len(self.pairs))
        return tuple(names[place] for place in compared.owner)

    @cached_property
    def gap_by_attribute(self) -> dict[str, np.ndarray]:
        """The gap of each attribute in the worst stratum at every threshold (m,), by its name."""
        of_pair = np.array(self.attribute_of_pair)
        return {
            name: np.asarray(gaps(self.rates, self.pairs[of_pair == name])).max(axis=0)
            for name in self.by_attribute
        }

    @cached_property
    def gap_by_cut(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Cuts of each ordered attribute (q,), and the largest gap at each of them (q,), by its name.

        The gap is that over all thresholds in the worst stratum.
        """
        compared = self._rows.compared
        every = [] if compared is None else [compared.cuts(i) for i in range(len(compared.attributes))]
        of_pair, largest = np.array(self.attribute_of_pair), self.gap_by_pair.max(axis=0)
        return {
            name: (
                np.array(cuts),
                largest[of_pair == name][: len(cuts)],
            )  # a last pair may be of unknown values
            for name, cuts in zip(self.by_attribute, every, strict=False)
            if cuts
        }

    def cut_band(self, band: Band) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the lower and the upper end of `gap_by_cut` (q,) each, by the attribute's name.

        Parameters
        ----------
        band : Band
            Of this profile.

        Returns
        -------
        dict of str to (ndarray, ndarray)
            Both ends; they hold at all cuts at once.
        """
        same = len(band.thresholds) == len(self.thresholds) and len(band.pairs) == len(self.pairs)
        if not same or abs(band.max_gap.value - self.max_gap) > 1e-9:
            raise ArgumentError("band", f"must be of this profile, {self!r}, got {band!r}")
        of_pair = np.array(self.attribute_of_pair)
        ends = [end.max(axis=0) for end in band.gap_by_pair]
        return {
            name: (ends[0][of_pair == name][: len(cuts)], ends[1][of_pair == name][: len(cuts)])
            for name, (cuts, _) in self.gap_by_cut.items()
        }

    @property
    def is_plain(self) -> bool:
        """Whether every group is compared with every other, and nobody is left out."""
        return self._rows.compared is None

    @cached_property
    def by_attribute(self) -> dict[str, ThresholdProfile]:
        """A profile of each attribute by itself, by its column's name; of crossed columns "sex × race"."""
        compared = self._rows.compared
        if compared is None or len(compared.attributes) == 1:
            name = self._rows.title if compared is None else compared.attributes[0].name
            return {name or "group": self}
        return {
            each.name: profile_of(self._rows.of_attribute(place))
            for place, each in enumerate(compared.attributes)
        }

    @property
    def left_out(self) -> dict[str, int]:
        """Groups that are too small to be compared, by name, and their rows."""
        compared = self._rows.compared
        if compared is None:
            return {}
        rows = self._rows.sizes
        small = np.concatenate([~each.compared for each in compared.attributes])
        return {self._rows.groups[j]: round(float(rows[j])) for j in np.flatnonzero(small)}

    @property
    def unknown(self) -> dict[str, int]:
        """Rows of unknown value that are in no comparison, by attribute; those that have any."""
        compared = self._rows.compared
        attributes = () if compared is None else compared.attributes
        return {each.name or "group": each.n_unknown for each in attributes if each.n_unknown}

    @cached_property
    def _binned(self) -> BinnedScores | BinnedUnions:
        """The rows in order, on the bins that inference works with."""
        return binned_rows(self._rows)

    @cached_property
    def selection_rate(self) -> np.ndarray:
        """Share of all rows with a score above each threshold (m,), whatever their group or label."""
        order = np.argsort(self._rows.score, kind="stable")
        below = np.cumsum(self._rows.weight[order])
        last = np.searchsorted(self._rows.score[order], self.thresholds, side="right") - 1
        return 1 - below[last] / below[-1]

    @property
    def mean_gap(self) -> float:
        """∫ gap dt, in units of the score; two groups: the Wasserstein-1 distance.

        It shrinks when scores are merely squeezed together: read it beside `rank_gap`.
        """
        return float(self.gap[:-1] @ np.diff(self.thresholds))

    @property
    def rank_gap(self) -> float:
        """Σ over distinct scores of gap × pooled share of people scoring there, averaged over strata.

        Like `max_gap`, no strictly increasing map of the score changes it.
        """
        return float((self.gap_by_stratum * self.share).sum(axis=1).mean())

    def rates_at(self, t: Any) -> np.ndarray:
        """Return the selection rates at any threshold.

        Parameters
        ----------
        t : float or array-like of shape (r,)
            Thresholds, read in the precision of the scores. Infinite ones select everybody or nobody.

        Returns
        -------
        ndarray of shape (h, k) or (h, k, r)
            Share of each group with a score above t, by stratum and group.
        """
        everybody = np.ones((*self.rates.shape[:2], 1))  # below the smallest score all are selected
        asked = self._rows.cut_offs(check_thresholds("t", t))
        index = np.searchsorted(self.thresholds, asked, side="right")
        return np.concatenate([everybody, self.rates], axis=2)[..., index]

    def at(self, t: Any, *, strata: str = "mean") -> Any:
        """Return the gap at any threshold.

        Parameters
        ----------
        t : float or array-like of shape (r,)
            Thresholds, read in the precision of the scores. Infinite ones select everybody or nobody.
        strata : {"mean", "worst"}, default="mean"
            The paper's mean over strata, or the worst of them.

        Returns
        -------
        float or ndarray of shape (r,)
            The gap.
        """
        check_choice("strata", strata, ("mean", "worst"))
        rates = self.rates_at(t)
        by_stratum = self._gaps(rates if rates.ndim == 3 else rates[..., None]).reshape(
            len(rates), *rates.shape[2:]
        )
        gap = by_stratum.mean(axis=0) if strata == "mean" else by_stratum.max(axis=0)
        return float(gap) if np.ndim(gap) == 0 else gap

    def interval(self, lo: float = PAPER_RANGE[0], hi: float = PAPER_RANGE[1]) -> float:
        """Return max − min of the gap over 41 thresholds in [lo, hi]: the paper's "Int.".

        Not a measure of fairness, since a constant gap of 0.3 scores 0: never read it without `max_gap`.

        Parameters
        ----------
        lo, hi : float
            The range; `lo` is not above `hi`.

        Returns
        -------
        float
            The length of the interval that the gap covers.
        """
        return float(np.ptp(self._paper_curve(lo, hi)))

    def std(self, lo: float = PAPER_RANGE[0], hi: float = PAPER_RANGE[1]) -> float:
        """Return the standard deviation of the gap over 41 thresholds in [lo, hi]: the paper's "STD".

        Not a measure of fairness, since a constant gap of 0.3 scores 0: never read it without `max_gap`.

        Parameters
        ----------
        lo, hi : float
            The range; `lo` is not above `hi`.

        Returns
        -------
        float
            The standard deviation, with divisor 41.
        """
        return float(np.std(self._paper_curve(lo, hi)))

    def _paper_curve(self, lo: float, hi: float) -> np.ndarray:
        """Return the gap at 41 thresholds in [lo, hi]."""
        check_number("lo", lo, low=-np.inf)
        check_number("hi", hi, low=lo)
        lowest, highest = self.thresholds[0], self.thresholds[-1]
        if (lowest < 0 or highest > 1) and self.rates_at(lo).tolist() == self.rates_at(hi).tolist():
            warnings.warn(
                f"no score lies between {lo} and {hi}: the scores run from {lowest:.3g} to {highest:.3g}. "
                "Give `lo` and `hi` in units of the score",
                stacklevel=3,
            )
        return self.at(np.linspace(lo, hi, PAPER_THRESHOLDS))

    def noise_floor(self, n_permutations: int = 1000, random_state: Any = None) -> NoiseFloor:
        """Return how large `max_gap` would be by chance, were the attribute unrelated to the score.

        The attribute is permuted among the rows (within each label, where the rule looks at labels); score
        and weight stay together. The gaps are those of groups as large, and with weights as uneven, as the
        groups that came.

        Parameters
        ----------
        n_permutations : int, default=1000
            How many times.
        random_state : int, RandomState, Generator or None, default=None
            The only source of chance.

        Returns
        -------
        NoiseFloor
            Mean and 95 % point of the max gap.
        """
        return self.test(n_permutations, random_state).noise_floor

    def test(self, n_permutations: int = 1000, random_state: Any = None) -> PermutationTest:
        """Test whether the gap is more than chance, by permuting the attribute.

        Each group's largest distance from the others counts in units of its standard error, so that a small
        group, which moves far by chance, hides no other; with two groups and one stratum that is the max gap.
        Where many arrangements have the same largest distance, the mean square distance decides.

        Exact at any sample size and with ties: a score that has nothing to do with the attribute (within
        each label, where the rule looks at labels) gets a p-value of at most p with probability at most p.
        That includes weights which differ between groups and not within them. Weights that vary within a
        group make the test approximate: in simulations false positives at 5 % were between 3 and 7 %, and
        between 1 and 9 % where nearly everybody has one score, or where one small group's weights, unlike the
        others', depend on its scores. It is approximate too where some people are unknown in one attribute
        and known in another: which values are unknown moves with them, and may have to do with the score.
        Above 100,000 rows in a stratum the permutations are replaced by their normal limit.

        Parameters
        ----------
        n_permutations : int, default=1000
            How many times.
        random_state : int, RandomState, Generator or None, default=None
            The only source of chance.

        Returns
        -------
        PermutationTest
            The p-value and the noise floor.
        """
        permute = permutations if self._rows.compared is None else permuted_unions
        return PermutationTest.of(self.max_gap, permute(self._rows, n_permutations, random_state))

    def band(
        self,
        level: float = 0.95,
        method: str = "bootstrap",
        n_resamples: int = 1000,
        random_state: Any = None,
    ) -> Band:
        """Return bands for the signed gap of all that is compared, valid at all thresholds at once.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all true curves lie in their bands.
        method : {"bootstrap", "dkw"}, default="bootstrap"
            "bootstrap" resamples within cells (where unions are compared or groups are probabilities, whole
            rows of a stratum) and holds approximately; "dkw" is the inequality of Dvoretzky,
            Kiefer, Wolfowitz and Massart, which holds at any sample size, is wider, and refuses weights.
            Above 20 groups a pair's bootstrap band is bounded by its two groups', which is a tenth wider.
        n_resamples : int, default=1000
            How many resamples.
        random_state : int, RandomState, Generator or None, default=None
            The only source of chance.

        Returns
        -------
        Band
            The bands and the interval for the max gap that is read off them.
        """
        return Inference(self, level, n_resamples, random_state).band(method)

    def certify(
        self,
        max_gap: float,
        level: float = 0.95,
        method: str = "auto",
        n_resamples: int = 1000,
        random_state: Any = 0,
    ) -> Certificate:
        """Return whether the true max gap is at most a limit, as far as this sample can tell.

        Parameters
        ----------
        max_gap : float
            The limit, above 0 and at most 1.
        level : float, default=0.95
            Probability of being right.
        method : {"auto", "bootstrap", "dkw"}, default="auto"
            The band that decides; "auto" is "dkw", which assumes nothing, and "bootstrap" for weighted rows
            and for probabilities.
        n_resamples : int, default=1000
            How many resamples.
        random_state : int, RandomState, Generator or None, default=0
            The only source of chance, where the band has one.

        Returns
        -------
        Certificate
            "certified", "violated" or "not decidable", and how many rows would decide it.
        """
        check_fraction("max_gap", max_gap, one=True)
        check_choice("method", method, ("auto", *METHODS))
        if method == "auto":
            method = "bootstrap" if self._rows.weighted or self._binned.soft else "dkw"
        return Inference(self, level, n_resamples, random_state).certificate(max_gap, method)

    def intervals(
        self,
        threshold: float | None = None,
        level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Any = None,
    ) -> Intervals:
        """Return intervals for the max gap, the mean gap, the rank gap and the gap at one threshold.

        That of the max gap is read off the bootstrap band; those of the means are as wide as the mean
        deviation of the resampled curves, so they too hold whatever the true curve is; the gap at a threshold
        has Newcombe's interval for a difference of two rates.

        Parameters
        ----------
        threshold : float, default=None
            Where to measure the gap; read in the precision of the scores.
        level : float, default=0.95
            Probability, of each interval on its own.
        n_resamples : int, default=1000
            How many resamples.
        random_state : int, RandomState, Generator or None, default=None
            The only source of chance.

        Returns
        -------
        Intervals
            Value, low and high of each.
        """
        if threshold is not None:
            check_number("threshold", threshold, low=float("-inf"))
        return Inference(self, level, n_resamples, generator(random_state)).intervals(threshold)

    def discrimination(
        self, level: float = 0.95, n_resamples: int = 1000, random_state: Any = None
    ) -> Discrimination:
        """Return each group's AUC and the area between their ROC curves, with intervals.

        Parameters
        ----------
        level : float, default=0.95
            Probability, of each interval on its own.
        n_resamples : int, default=1000
            How many resamples, for the area between curves.
        random_state : int, RandomState, Generator or None, default=None
            The only source of chance.

        Returns
        -------
        Discrimination
            The AUC overall and by group, and ABROCA of every pair of groups.
        """
        check_fraction("level", level)
        if not self.parity.needs_label:  # else the warning came when the profile was made
            self._rows.warn_of_guess()
        return discrimination(self._rows, level, check_resamples(n_resamples, level), random_state)

    def to_frame(self) -> pd.DataFrame:
        """Return the curve as a table.

        Returns
        -------
        pandas.DataFrame
            One row per threshold: the gap, the gap by stratum, and each group's selection rate.
        """
        import pandas as pd

        columns = {"threshold": self.thresholds, "gap": self.gap}
        for i, stratum in enumerate(self.parity.strata):
            among = f" among {stratum}" if len(self.parity.strata) > 1 else ""
            if among:
                columns[f"gap{among}"] = self.gap_by_stratum[i]
            columns |= {f"rate of {name}{among}": self.rates[i, j] for j, name in enumerate(self.groups)}
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        compared = self._rows.compared
        who = "groups " + ", ".join(map(shown, self.groups))
        if compared is not None and any(each.cuts or each.rest for each in compared.attributes):
            who = "by " + ", ".join(shown(each.name or "group") for each in compared.attributes)
        higher, lower = map(shown, self.worst_groups)
        between = f", {higher} against {lower}" if len(self.pairs) > 1 else ""
        return (
            f"ThresholdProfile({self.parity.name}, {who}: "
            f"max gap {self.max_gap:.3f} at {self.worst_threshold:.3g}{between}, "
            f"rank gap {self.rank_gap:.3f}, mean gap {self.mean_gap:.3f})"
        )


def threshold_profile(
    y_true: Any,
    y_score: Any,
    *,
    sensitive_features: Any,
    parity: str | Parity = "demographic_parity",
    comparison: str | Comparison = "crossed",
    sample_weight: Any = None,
    pos_label: Any = None,
) -> ThresholdProfile:
    """Measure the gap between groups at every threshold, for any score.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Two labels of any kind. May be None under demographic parity.
    y_score : array-like of shape (n,)
        Scores: probabilities, percentages, raw scores, any finite numbers. Whole numbers beyond 2⁵³ must
        differ in float64 too.
    sensitive_features : array-like of shape (n,) or (n, m)
        The group of each row, in one column or several.
    parity : str or Parity, default="demographic_parity"
        "demographic_parity", "equalized_odds", "equal_opportunity", "predictive_equality", or a rule.
    comparison : str or Comparison, default="crossed"
        Which groups are compared: "crossed" makes one attribute of several columns and compares every group
        with every other. "each", "each and crossed", "rest", "ordered", "probabilities", or a
        :class:`~evenrisk.Comparison`, which says more.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.
    pos_label : label, default=None
        The positive label, which a high score means; the second in sorted order if None, with a warning
        where labels are words and are looked at. With more than two labels, it against the rest.

    Returns
    -------
    ThresholdProfile
        The curve and its summaries.

    Examples
    --------
    The score that COMPAS itself gave, 1 to 10:

    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import threshold_profile
    >>> data = load_compas()
    >>> threshold_profile(data.y, data.frame["decile_score"], sensitive_features=data.sensitive_features)
    ThresholdProfile(demographic_parity, groups African-American, Caucasian: max gap 0.245 at 4, ...
    """
    rows = scored_rows(y_true, y_score, sensitive_features, parity, sample_weight, pos_label, comparison)
    if rows.parity.needs_label:
        rows.warn_of_guess()
    return profile_of(rows)


def profile_of(rows: ScoredRows) -> ThresholdProfile:
    """Measure rows that are checked."""
    h = len(rows.parity.strata)
    if rows.compared is None:
        curves = cell_curves(rows.score, rows.code, rows.weight, rows.n_cells)
        above = curves.above.reshape(h, len(rows.groups), -1)
        mass = curves.mass.reshape(above.shape).sum(axis=1)
    else:
        everybody = np.where(rows.stratum >= 0, rows.compared.weight_compared(rows.weight), 0.0)
        unions = np.kron(np.eye(h), rows.contrasts.unions)
        curves = union_curves(rows.score, everybody, rows.cells(), rows.n_cells, unions)
        above = curves.above.reshape(h, len(rows.contrasts.unions), -1)
        place = rows.stratum * above.shape[2] + np.searchsorted(curves.thresholds, rows.score)
        here = everybody > 0
        mass = np.bincount(place[here], everybody[here], h * above.shape[2]).reshape(h, -1)
    return ThresholdProfile(
        thresholds=curves.thresholds,
        rates=above,
        groups=rows.contrasts.names,
        parity=rows.parity,
        share=mass / mass.sum(axis=1, keepdims=True),
        _rows=rows,
    )
