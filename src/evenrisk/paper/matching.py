"""How c and η are chosen: by accuracy on the validation parts, never on a test part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import IsotonicRegression

NEAR = 0.01 + 1e-9  # distance in validation accuracy up to which a split counts as matched
FEW = 5  # a row is marked when more than one split in FEW is off


@dataclass(frozen=True)
class Choice:
    """Which η of a row's grid each split takes."""

    index: np.ndarray  # (splits,)
    distance: np.ndarray  # (splits,) |validation accuracy − target|, of the smoothed path

    @property
    def matched(self) -> bool:
        """Whether most splits got near their targets; where paths jump, or end early, they do not."""
        return FEW * self.n_far <= len(self.distance)

    @property
    def n_far(self) -> int:
        """In how many splits the nearest point of the path is not near."""
        return int((self.distance > NEAR).sum())


def choose_bound(accuracy: np.ndarray, target: float) -> int:
    """Give the bound whose mean validation accuracy (splits, bounds) is nearest the paper's; one for all."""
    return int(np.abs(accuracy.mean(axis=0) - target).argmin())


def match(accuracy: np.ndarray, targets: np.ndarray) -> Choice:
    """Give for each split the η whose validation accuracy (splits, etas) is nearest its target (splits,).

    A validation part has some 900 rows, so one accuracy is known to ± .016 and the nearest of ten to forty
    would often be an accident. Accuracy falls with η but for noise: the falling curve nearest the path is
    matched, and of equally near η the smallest taken.
    """
    falling = IsotonicRegression(increasing=False)
    order = np.arange(accuracy.shape[1])
    smooth = np.array([falling.fit_transform(order, path) for path in accuracy])
    distance = np.abs(smooth - targets[:, None])
    index = (distance <= distance.min(axis=1, keepdims=True) + 1e-12).argmax(axis=1)
    return Choice(index, distance[np.arange(len(index)), index])
