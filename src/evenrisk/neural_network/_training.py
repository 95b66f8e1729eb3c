"""Training in mini-batches: Adam, the penalty eased in, early stopping on the whole objective."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenrisk.neural_network._batches import Batch, Rows
from evenrisk.neural_network._network import Layers, from_tensors, import_torch, to_tensors, torch_scores

RAMP = 0.3  # of the epochs: η grows from 0 to its value meanwhile, for all distances are blind at a constant
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
SLOWEST = 0.02  # of learning_rate_init: where it has fallen to in the last epoch


@dataclass(frozen=True)
class Settings:
    """What the user may say about training."""

    activation: str
    alpha: float
    learning_rate: float
    n_epochs: int
    tol: float
    patience: int
    verbose: int

    def shorter(self, share: float) -> Settings:
        """The same with a share of the epochs."""
        return replace(self, n_epochs=max(round(share * self.n_epochs), 1))


@dataclass
class Watch:
    """The best value so far and the weights that had it."""

    tol: float
    best: float = np.inf
    kept: Layers | None = None
    idle: int = 0

    def see(self, value: float, layers: Callable[[], Layers] | None) -> None:
        """Count the epochs since the value last fell by more than tol; keep the weights of the lowest."""
        self.idle = 0 if value < self.best - self.tol else self.idle + 1
        if value < self.best:
            self.best, self.kept = value, None if layers is None else layers()


@dataclass
class Trained:
    """Where the training at one η ended; `best` is None where nothing was held out."""

    layers: Layers
    curve: list[float] = field(default_factory=list)
    best: float | None = None


class Adam:
    """Kingma & Ba's steps: −rate·m/(√v + ε), m and v running means of the gradient and its square.

    torch.optim has it too; its first step imports torch's compiler, which takes seconds.
    """

    def __init__(self, tensors: list[Any]) -> None:
        torch = import_torch()
        self.n_steps = 0
        self.first, self.second = ([torch.zeros_like(each) for each in tensors] for _ in range(2))

    def step(self, tensors: list[Any], gradients: Any, rate: float) -> None:
        """Move the tensors."""
        self.n_steps += 1
        scale = 1 - BETA_2**self.n_steps
        rate = rate * scale**0.5 / (1 - BETA_1**self.n_steps)
        with import_torch().no_grad():
            for x, slope, m, v in zip(tensors, gradients, self.first, self.second, strict=True):
                m.lerp_(slope, 1 - BETA_1)
                v.mul_(BETA_2).addcmul_(slope, slope, value=1 - BETA_2)
                x.addcdiv_(m, v.sqrt().add_(EPSILON * scale**0.5), value=-rate)


class Trainer:
    """A network on a device, and its optimiser."""

    def __init__(self, layers: Layers, parity_loss: Any, settings: Settings, device: Any, dtype: Any) -> None:
        self.settings, self.parity_loss = settings, parity_loss
        self.tensors = to_tensors(layers, dtype, device)
        self.adam = Adam(self.tensors)
        self.eta = 0.0  # where the ramp leads

    def train(
        self, rows: Rows, eta: float, *, ramp: bool, held_out: Callable[[Layers, float], float] | None
    ) -> Trained:
        """Go over the rows until the epochs are over, or nothing gets better any more."""
        s, self.eta, rows.by_cells = self.settings, eta, eta > 0
        curve: list[float] = []
        watch = Watch(s.tol)
        n_ramp = int(RAMP * s.n_epochs) if ramp and eta > 0 else 0
        for epoch in range(s.n_epochs):
            slower = 1 - (1 - SLOWEST) * epoch / max(s.n_epochs - 1, 1)
            curve.append(
                self.epoch(rows, eta * min(1.0, (epoch + 1) / (n_ramp + 1)), s.learning_rate * slower)
            )
            value = curve[-1] if held_out is None else held_out(self.layers(), eta)
            self._tell(epoch + 1, curve[-1], None if held_out is None else value)
            if epoch >= n_ramp:  # before, another objective was looked at
                watch.see(value, None if held_out is None else self.layers)
            if watch.idle >= s.patience:
                break
        if held_out is None or watch.kept is None:
            return Trained(self.layers(), curve)
        return Trained(watch.kept, curve, watch.best)

    def epoch(self, rows: Rows, eta: float, rate: float) -> float:
        """Go over the rows once; the mean of the batches' objectives, each as its step found it."""
        torch = import_torch()
        total, n = 0.0, 0
        for batch in rows:
            loss = self._loss(batch, eta)
            self.adam.step(self.tensors, torch.autograd.grad(loss, self.tensors), rate)
            total, n = total + loss.detach(), n + 1
        mean = float(total) / n
        if not np.isfinite(mean):
            raise self._diverged(eta)
        return mean

    def check_finite(self, X: Any, eta: float) -> None:
        """Refuse weights that the last step has blown up, as seen by some rows."""
        g = torch_scores(X, self.tensors, self.settings.activation)
        if not bool(g.isfinite().all()):
            raise self._diverged(eta)

    def layers(self) -> Layers:
        """The weights as they are now."""
        return from_tensors(self.tensors)

    def state(self) -> tuple[int, list[np.ndarray], list[np.ndarray]]:
        """What Adam remembers, in NumPy."""
        first, second = (
            [x.cpu().numpy().copy() for x in part] for part in (self.adam.first, self.adam.second)
        )
        return self.adam.n_steps, first, second

    def resume(self, state: tuple[int, list[np.ndarray], list[np.ndarray]]) -> None:
        """Take up what another Adam remembered."""
        self.adam.n_steps = state[0]
        for mine, theirs in zip((self.adam.first, self.adam.second), state[1:], strict=True):
            for tensor, array in zip(mine, theirs, strict=True):
                tensor.copy_(import_torch().from_numpy(array))

    def _loss(self, batch: Batch, eta: float) -> Any:
        """Mean log loss + alpha/2·Σ‖W‖² + η·E_f of a batch."""
        functional = import_torch().nn.functional
        g = torch_scores(batch.X, self.tensors, self.settings.activation)
        log_loss = functional.binary_cross_entropy_with_logits(g, batch.y, weight=batch.loss_weight)
        ridge = sum((W * W).sum() for W in self.tensors[::2]) if self.settings.alpha else 0.0
        loss = log_loss + self.settings.alpha / 2 * ridge
        if eta == 0 or self.parity_loss is None:
            return loss
        try:
            return loss + eta * self.parity_loss(g, batch.group, batch.y, batch.weight)
        except ValueError as error:
            if bool(g.isfinite().all()):
                raise
            raise self._diverged(eta) from error

    def _diverged(self, eta: float) -> ValueError:
        or_eta = f" or eta (now {max(eta, self.eta):g})" if eta else ""
        return ValueError(
            "the network must give finite scores, and training has diverged. Lower learning_rate_init (now "
            f"{self.settings.learning_rate:g}){or_eta}, or standardise the features"
        )

    def _tell(self, epoch: int, value: float, held_out: float | None) -> None:
        if self.settings.verbose:
            beside = "" if held_out is None else f"  held out {held_out:.6f}"
            print(f"epoch {epoch:4d}  objective {value:.6f}{beside}", file=sys.stderr)
