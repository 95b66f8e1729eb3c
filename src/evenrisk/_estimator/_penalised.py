"""Models with η·E_f in their objective: the settings they share."""

from __future__ import annotations

from typing import ClassVar

from evenrisk._estimator._base import FairClassifier
from evenrisk._estimator._data import TrainingData
from evenrisk._estimator._path import SOLVERS
from evenrisk._validation import check_choice, check_flag, check_member, check_number
from evenrisk.distances import DISTANCES, Distance
from evenrisk.losses import Loss
from evenrisk.objective import Penalty, ScoreObjective
from evenrisk.parity import PARITIES, Parity


class PenalisedClassifier(FairClassifier):
    """A classifier with `parity`, `distance`, `eta` and a solver."""

    _no_constraint: ClassVar[str] = "eta=0"

    def _check_parameters(self) -> None:
        check_number("eta", self.eta, low=0)
        check_flag("warm_start", self.warm_start)
        check_number("tol", self.tol, low=0, strict=True)
        check_number("max_iter", self.max_iter, low=1, whole=True)
        check_choice("solver", self.solver, SOLVERS)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)

    def _constraint(self) -> str:
        return f"when eta > 0, got None with eta={self.eta}" if self.eta > 0 else ""

    def _score_objective(self, loss: Loss, data: TrainingData) -> ScoreObjective:
        """Mean loss + η·E_f in the scores."""
        penalty = None if data.cells is None else Penalty(self._distance, data.cells)
        return ScoreObjective(loss, data.y, data.weight, penalty, float(self.eta))
