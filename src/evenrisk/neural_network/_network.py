"""A network as lists of NumPy arrays: its first weights, its scores, its form in torch, what it minimises.

Conventions
-----------
coefs[i] (fan_in, fan_out) and intercepts[i] (fan_out,) of layer i, scikit-learn's layout; the last fan_out is
1. θ is W₀, b₀, W₁, b₁, … in a row. h₀ = x, h_{i+1} = activation(h_i·W_i + b_i), and at last g = h·W + b.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from evenrisk._validation import check_number, install_hint
from evenrisk._xp import is_sparse, sigmoid
from evenrisk.objective import Penalty, ScoreObjective

# Rows scored at a time, padded to this number: BLAS adds up in another order at the edges of its tiles, and
# equal rows must tie. All usual heights of a tile divide 96.
TILE = 96


class Activation(NamedTuple):
    """What hidden units do to their input, in NumPy and as the name of a module in torch.nn."""

    function: Callable[[np.ndarray], np.ndarray]
    module: str


ACTIVATIONS = {
    "relu": Activation(lambda h: np.maximum(h, 0), "ReLU"),
    "tanh": Activation(np.tanh, "Tanh"),
    "logistic": Activation(sigmoid, "Sigmoid"),
    "identity": Activation(lambda h: h, "Identity"),
}


class Layers(NamedTuple):
    """The weights of a network."""

    coefs: list[np.ndarray]
    intercepts: list[np.ndarray]

    @classmethod
    def initial(cls, sizes: tuple[int, ...], rng: np.random.RandomState) -> Layers:
        """Return random first weights: W uniform within ±√(6/(fan_in + fan_out)) (Glorot's), b = 0."""
        shapes = list(pairwise(sizes))
        bounds = [np.sqrt(6 / (a + b)) for a, b in shapes]
        coefs = [rng.uniform(-bound, bound, shape) for bound, shape in zip(bounds, shapes, strict=True)]
        return cls(coefs, [np.zeros(b) for _, b in shapes])

    @classmethod
    def from_flat(cls, theta: np.ndarray, sizes: tuple[int, ...]) -> Layers:
        """Return the layers that θ holds, as views of it."""
        coefs, intercepts, at = [], [], 0
        for a, b in pairwise(sizes):
            coefs.append(theta[at : at + a * b].reshape(a, b))
            intercepts.append(theta[at + a * b : at + a * b + b])
            at += a * b + b
        return cls(coefs, intercepts)

    def flat(self) -> np.ndarray:
        """Return θ in float64."""
        parts = [part.ravel() for layer in zip(self.coefs, self.intercepts, strict=True) for part in layer]
        return np.concatenate(parts).astype(np.float64)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The columns of X, the hidden units of each layer, 1."""
        return (self.coefs[0].shape[0], *(len(b) for b in self.intercepts))


def layer_sizes(n_features: int, hidden_layer_sizes: Any) -> tuple[int, ...]:
    """Return n_features, the hidden units of each layer, 1; one number is one layer."""
    hidden = [hidden_layer_sizes] if np.ndim(hidden_layer_sizes) == 0 else list(hidden_layer_sizes)
    units = [int(check_number("hidden_layer_sizes", size, low=1, whole=True)) for size in hidden]
    return (n_features, *units, 1)


def raw_scores(X: Any, layers: Layers, activation: str) -> np.ndarray:
    """Return g (n,) in float64. A row's score does not depend on the rows beside it, not by one bit."""
    n = X.shape[0]
    g = np.empty(n)
    coefs = [W.astype(np.float64, copy=False) for W in layers.coefs]
    activate = ACTIVATIONS[activation].function
    for start in range(0, n, TILE):
        h = X[start : start + TILE]
        h = h.toarray() if is_sparse(h) else h
        rows = h.shape[0]
        if rows < TILE:
            h = np.concatenate([h, np.zeros((TILE - rows, h.shape[1]), dtype=h.dtype)])
        h = np.ascontiguousarray(h, dtype=np.float64)
        for W, b in zip(coefs[:-1], layers.intercepts[:-1], strict=True):
            h = activate(h @ W + b)
        # one column is a matrix–vector product, which has no tiles
        g[start : start + rows] = np.einsum("ij,j->i", h, coefs[-1][:, 0])[:rows] + layers.intercepts[-1][0]
    return g


def import_torch() -> Any:
    """Return torch, or say which extra has it."""
    try:
        import torch
    except ImportError as error:
        hint = install_hint("torch", "torch")
        raise ImportError(f"to fit a FairMLPClassifier needs torch: {hint}") from error
    return torch


def find_device(name: Any) -> Any:
    """Return the torch device of this name; "auto" is CUDA where there is one."""
    torch = import_torch()
    n_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if isinstance(name, str) and name == "auto":
        return torch.device("cuda" if n_cuda else "cpu")
    available = ["cpu"] + (["cuda", *(f"cuda:{i}" for i in range(n_cuda))] if n_cuda else [])
    if str(name) not in available:
        here = ", ".join(map(repr, available))
        reason = "" if n_cuda else " (torch sees no CUDA device)"
        raise ValueError(f"`device` must be 'auto' or one of {here} on this machine{reason}, got {name!r}")
    return torch.device(str(name))


def to_tensors(layers: Layers, dtype: Any, device: Any) -> list[Any]:
    """Return W₀, b₀, W₁, b₁, … as torch tensors with gradients."""
    torch = import_torch()
    parts = [part for layer in zip(layers.coefs, layers.intercepts, strict=True) for part in layer]
    return [torch.tensor(part, dtype=dtype, device=device, requires_grad=True) for part in parts]


def from_tensors(tensors: list[Any]) -> Layers:
    """Return the layers of such tensors; the arrays are copies."""
    arrays = [tensor.detach().cpu().numpy().copy() for tensor in tensors]
    return Layers(arrays[::2], arrays[1::2])


def torch_scores(X: Any, tensors: list[Any], activation: str) -> Any:
    """Return g (n,) as a function of the tensors that autograd can differentiate."""
    torch = import_torch()
    activate = getattr(torch.nn, ACTIVATIONS[activation].module)()
    h = X
    for i in range(0, len(tensors) - 2, 2):
        h = activate(torch.addmm(tensors[i + 1], h, tensors[i]))
    return torch.addmm(tensors[-1], h, tensors[-2])[:, 0]


def to_sequential(layers: Layers, activation: str) -> Any:
    """Return an nn.Sequential with the same raw scores, (n, d) → (n, 1)."""
    torch = import_torch()
    nn = torch.nn
    make = getattr(nn, ACTIVATIONS[activation].module)
    modules: list[Any] = []
    for W, b in zip(layers.coefs, layers.intercepts, strict=True):
        dtype = getattr(torch, str(W.dtype))
        # a layer that is made the usual way draws its weights from torch's global generator
        linear = nn.utils.skip_init(nn.Linear, *W.shape, dtype=dtype)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(W.T.copy()))
            linear.bias.copy_(torch.from_numpy(b.copy()))
        modules += [linear, make()]
    return nn.Sequential(*modules[:-1])


# ---------------------------------------------------------------- what is minimised


class NetworkProblem:
    """F(θ) = mean log loss + alpha/2·Σ‖W‖² + η·E_f over all rows, in float64.

    `raw_scores` and `value` are NumPy's. `__call__`, which has the gradient too, goes through torch: the
    objective is differentiated in the scores, and autograd takes this gradient to the weights.
    """

    def __init__(
        self,
        scores: ScoreObjective,
        X: Any,
        sizes: tuple[int, ...],
        *,
        activation: str,
        alpha: float,
        device: str = "cpu",
    ) -> None:
        self.scores, self.X, self.sizes = scores, X, sizes
        self.activation, self.alpha = activation, alpha
        self.on_device = RowsOnDevice(X, scores, device)
        shapes = list(pairwise(sizes))
        self.is_weight = Layers([np.ones(each) for each in shapes], [np.zeros(b) for _, b in shapes]).flat()

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return F(θ) and ∂F/∂θ."""
        torch = import_torch()
        X = self.on_device.X
        tensors = to_tensors(Layers.from_flat(theta, self.sizes), torch.float64, X.device)
        g = torch_scores(X, tensors, self.activation)
        if X.is_cpu:  # NumPy, which works on blocks that stay in cache, is faster here
            value, slope = self.scores(g.detach().numpy())
        else:
            value, slope = self.on_device.scores.with_eta(self.scores.eta)(g.detach())
        slope = torch.as_tensor(slope, dtype=torch.float64, device=X.device)
        parts = torch.autograd.grad(g, tensors, slope)
        gradient = np.concatenate([part.cpu().numpy().ravel() for part in parts])
        return value + self._ridge(theta), gradient + self.alpha * self.is_weight * theta

    def value(self, theta: np.ndarray) -> float:
        """Return F(θ)."""
        return self.scores(self.raw_scores(theta))[0] + self._ridge(theta)

    def with_eta(self, eta: float) -> Self:
        """Return the same problem with another η; rows on a device are shared."""
        other = copy(self)
        other.scores = self.scores.with_eta(eta)
        return other

    def raw_scores(self, theta: np.ndarray) -> np.ndarray:
        """Return g (n,)."""
        return raw_scores(self.X, Layers.from_flat(theta, self.sizes), self.activation)

    def attributes(self, theta: np.ndarray, slope: float = 1.0, intercept: float = 0.0) -> dict[str, Any]:
        """Return `coefs_` and `intercepts_` in the dtype of X, for raw scores slope·g(θ) + intercept."""
        dtype = self.X.dtype
        layers = Layers.from_flat(theta.astype(dtype), self.sizes)
        last = (slope * layers.coefs[-1]).astype(dtype)
        b = np.array([slope * float(layers.intercepts[-1][0]) + intercept], dtype=dtype)
        return {
            "coefs_": [*(W.copy() for W in layers.coefs[:-1]), last],
            "intercepts_": [*(c.copy() for c in layers.intercepts[:-1]), b],
        }

    def _ridge(self, theta: np.ndarray) -> float:
        return self.alpha / 2 * float(self.is_weight @ theta**2)


class RowsOnDevice:
    """The rows of a problem as float64 tensors on a device, made when they are first used."""

    def __init__(self, X: Any, scores: ScoreObjective, device: str) -> None:
        self._X, self._scores, self._device = X, scores, device

    @cached_property
    def X(self) -> Any:
        """The features (n, d), dense."""
        return self._moved(self._X.toarray() if is_sparse(self._X) else self._X, "float64")

    @cached_property
    def scores(self) -> ScoreObjective:
        """The objective in the scores, at η = 0."""
        old = self._scores
        penalty = None
        if old.penalty is not None:
            cells = old.penalty.cells.moved(
                index=lambda x: self._moved(x, "int64"), number=lambda x: self._moved(x, "float64")
            )
            penalty = Penalty(old.penalty.distance, cells)
        y, weight = self._moved(old.y, "float64"), self._moved(old.weight, "float64")
        return ScoreObjective(old.loss, y, weight, penalty)

    def _moved(self, x: np.ndarray, dtype: str) -> Any:
        torch = import_torch()
        return torch.tensor(np.asarray(x), dtype=getattr(torch, dtype), device=find_device(self._device))
