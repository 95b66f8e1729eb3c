"""Other ways to a fair score, each with the same interface (`rivals._protocol.Rival`).

Every rival is trained to the end of its own objective on the same rows, with the same ridge where it is a
linear model; its settings run from none or little fairness to as much as it can give.
"""

from rivals._protocol import Rival, Score
from rivals.exponentiated_gradient import EXPONENTIATED_GRADIENT
from rivals.fairret_norm import FAIRRET
from rivals.grid_search import GRID_SEARCH
from rivals.linear_post import LINEAR_POST, LINEAR_POST_TREES
from rivals.mmd import MMD
from rivals.networks import FAIRRET_MLP, MMD_MLP
from rivals.plain import PLAIN
from rivals.threshold_optimizer import THRESHOLD_OPTIMIZER
from rivals.transport import TRANSPORT
from rivals.trees import FAIRGBM, PLAIN_TREES
from rivals.zafar import ZAFAR_DP, ZAFAR_EO

LINEAR = (PLAIN, ZAFAR_DP, ZAFAR_EO, EXPONENTIATED_GRADIENT, GRID_SEARCH, FAIRRET, MMD, LINEAR_POST)
OTHERS = (FAIRRET_MLP, MMD_MLP, PLAIN_TREES, FAIRGBM, LINEAR_POST_TREES)
UNAWARE = LINEAR + OTHERS
AWARE = (THRESHOLD_OPTIMIZER, TRANSPORT)

__all__ = ["AWARE", "LINEAR", "UNAWARE", "Rival", "Score"]
