"""The inference that every `ThresholdProfile` offers; `inference` and `discrimination` do the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from evenrisk._validation import check_choice, check_fraction, check_number
from evenrisk.metrics import inference
from evenrisk.metrics._results import (
    Band,
    Certificate,
    Discrimination,
    Intervals,
    NoiseFloor,
    PermutationTest,
)
from evenrisk.metrics.discrimination import discrimination

if TYPE_CHECKING:
    from evenrisk.metrics.profile import ThresholdProfile


class Inferred:
    """Bands, tests, certificates and intervals of a profile."""

    def noise_floor(self, n_permutations: int = 1000, random_state: Any = None) -> NoiseFloor:
        """Say how large `max_gap` would be by chance, were the attribute unrelated to the score.

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
        others', depend on its scores. Above 100,000 rows in a stratum the permutations are replaced by their
        normal limit.

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
        return inference.permutation_test(cast("ThresholdProfile", self), n_permutations, random_state)

    def band(
        self,
        level: float = 0.95,
        method: str = "bootstrap",
        n_resamples: int = 1000,
        random_state: Any = None,
    ) -> Band:
        """Give bands for the signed gap of every stratum and pair of groups, valid at all thresholds at once.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all true curves lie in their bands.
        method : {"bootstrap", "dkw"}, default="bootstrap"
            "bootstrap" resamples within cells and holds approximately; "dkw" is the inequality of Dvoretzky,
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
        return inference.band(cast("ThresholdProfile", self), level, method, n_resamples, random_state)

    def certify(
        self,
        max_gap: float,
        level: float = 0.95,
        method: str = "auto",
        n_resamples: int = 1000,
        random_state: Any = 0,
    ) -> Certificate:
        """Say whether the true max gap is at most a limit, as far as this sample can tell.

        Parameters
        ----------
        max_gap : float
            The limit, above 0 and at most 1.
        level : float, default=0.95
            Probability of being right.
        method : {"auto", "bootstrap", "dkw"}, default="auto"
            The band that decides; "auto" is "dkw", which assumes nothing, and "bootstrap" for weighted rows.
        n_resamples : int, default=1000
            How many resamples.
        random_state : int, RandomState, Generator or None, default=0
            The only source of chance, where the band has one.

        Returns
        -------
        Certificate
            "certified", "violated" or "not decidable", and how many rows would decide it.
        """
        profile = cast("ThresholdProfile", self)
        check_fraction("max_gap", max_gap, one=True)
        check_choice("method", method, ("auto", *inference.METHODS))
        if method == "auto":
            method = "bootstrap" if profile._rows.weighted else "dkw"
        return inference.certify(profile, max_gap, self.band(level, method, n_resamples, random_state))

    def intervals(
        self,
        threshold: float | None = None,
        level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Any = None,
    ) -> Intervals:
        """Give intervals for the max gap, the mean gap, the rank gap and the gap at one threshold.

        That of the max gap is read off the bootstrap band; those of the means are as wide as the mean
        deviation of the resampled curves, so they too hold whatever the true curve is; the gap at a threshold
        has Newcombe's interval for a difference of two rates.

        Parameters
        ----------
        threshold : float, default=None
            Where to give the gap; read in the precision of the scores.
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
        rng = inference.generator(random_state)
        measured = self.band(level, "bootstrap", n_resamples, rng)
        profile = cast("ThresholdProfile", self)
        return inference.intervals(profile, measured, threshold, n_resamples, rng)

    def discrimination(
        self, level: float = 0.95, n_resamples: int = 1000, random_state: Any = None
    ) -> Discrimination:
        """Give each group's AUC and the area between their ROC curves, with intervals.

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
        rows = cast("ThresholdProfile", self)._rows
        if not rows.parity.needs_label:  # else it was told when the profile was made
            rows.tell_guess()
        return discrimination(rows, level, inference.check_resamples(n_resamples, level), random_state)
