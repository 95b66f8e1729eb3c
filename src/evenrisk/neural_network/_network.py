"""A network as lists of NumPy arrays: where it starts, what it scores, and how it goes to torch and back.

Conventions
-----------
coefs[i] (fan_in, fan_out) and intercepts[i] (fan_out,) of layer i, scikit-learn's layout; the last fan_out is
1. θ is W₀, b₀, W₁, b₁, … in a row. h₀ = x, h_{i+1} = activation(h_i·W_i + b_i), and at last g = h·W + b.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from evenrisk._validation import check_choice, check_number, install_hint
from evenrisk._xp import is_sparse, sigmoid

# Rows scored at a time, padded to this number: BLAS adds up in another order at the edges of its tiles, and
# equal rows must tie. All usual heights of a tile divide 96.
TILE = 96

ACTIVATIONS = ("relu", "tanh", "logistic", "identity")


class Layers(NamedTuple):
    """The weights of a network."""

    coefs: list[np.ndarray]
    intercepts: list[np.ndarray]

    @classmethod
    def initial(cls, sizes: tuple[int, ...], rng: np.random.RandomState) -> Layers:
        """Draw W uniformly within ±√(6/(fan_in + fan_out)) (Glorot's), b = 0: the same for any rows."""
        shapes = list(pairwise(sizes))
        bounds = [np.sqrt(6 / (a + b)) for a, b in shapes]
        coefs = [rng.uniform(-bound, bound, shape) for bound, shape in zip(bounds, shapes, strict=True)]
        return cls(coefs, [np.zeros(b) for _, b in shapes])

    @classmethod
    def unflat(cls, theta: np.ndarray, sizes: tuple[int, ...]) -> Layers:
        """Cut θ into layers."""
        coefs, intercepts, at = [], [], 0
        for a, b in pairwise(sizes):
            coefs.append(theta[at : at + a * b].reshape(a, b))
            intercepts.append(theta[at + a * b : at + a * b + b])
            at += a * b + b
        return cls(coefs, intercepts)

    def flat(self) -> np.ndarray:
        """θ in float64."""
        parts = [part.ravel() for layer in zip(self.coefs, self.intercepts, strict=True) for part in layer]
        return np.concatenate(parts).astype(np.float64)

    def weight_mask(self) -> np.ndarray:
        """1 where θ is an entry of some W, 0 where of some b."""
        return Layers(
            [np.ones_like(W) for W in self.coefs], [np.zeros_like(b) for b in self.intercepts]
        ).flat()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Columns of X, hidden units of each layer, 1."""
        return (self.coefs[0].shape[0], *(len(b) for b in self.intercepts))


def layer_sizes(n_features: int, hidden_layer_sizes: Any) -> tuple[int, ...]:
    """Give n_features, the hidden units of each layer, 1; one number is one layer."""
    hidden = [hidden_layer_sizes] if np.ndim(hidden_layer_sizes) == 0 else list(hidden_layer_sizes)
    units = [int(check_number("hidden_layer_sizes", size, low=1, whole=True)) for size in hidden]
    return (n_features, *units, 1)


def check_activation(activation: Any) -> str:
    """Let the name of an activation pass."""
    return check_choice("activation", activation, ACTIVATIONS)


def raw_scores(X: Any, layers: Layers, activation: str) -> np.ndarray:
    """g (n,) in float64. A row's score does not depend on the rows beside it, not by one bit."""
    n = X.shape[0]
    g = np.empty(n)
    coefs = [W.astype(np.float64, copy=False) for W in layers.coefs]
    for start in range(0, n, TILE):
        h = X[start : start + TILE]
        h = h.toarray() if is_sparse(h) else h
        rows = h.shape[0]
        if rows < TILE:
            h = np.concatenate([h, np.zeros((TILE - rows, h.shape[1]), dtype=h.dtype)])
        h = np.ascontiguousarray(h, dtype=np.float64)
        for W, b in zip(coefs[:-1], layers.intercepts[:-1], strict=True):
            h = _activate(h @ W + b, activation)
        # one column is a matrix–vector product, which has no tiles
        g[start : start + rows] = np.einsum("ij,j->i", h, coefs[-1][:, 0])[:rows] + layers.intercepts[-1][0]
    return g


def _activate(h: np.ndarray, activation: str) -> np.ndarray:
    if activation == "relu":
        return np.maximum(h, 0)
    if activation == "tanh":
        return np.tanh(h)
    return sigmoid(h) if activation == "logistic" else h


def import_torch() -> Any:
    """Give torch, or say which extra has it."""
    try:
        import torch
    except ImportError as error:
        hint = install_hint("torch", "torch")
        raise ImportError(f"to fit a FairMLPClassifier needs torch: {hint}") from error
    return torch


def find_device(name: Any) -> Any:
    """Give the torch device of this name; "auto" is CUDA where there is one."""
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
    """W₀, b₀, W₁, b₁, … as torch tensors that want gradients."""
    torch = import_torch()
    parts = [part for layer in zip(layers.coefs, layers.intercepts, strict=True) for part in layer]
    return [torch.tensor(part, dtype=dtype, device=device, requires_grad=True) for part in parts]


def from_tensors(tensors: list[Any]) -> Layers:
    """The way back; the arrays are copies."""
    arrays = [tensor.detach().cpu().numpy().copy() for tensor in tensors]
    return Layers(arrays[::2], arrays[1::2])


def torch_scores(X: Any, tensors: list[Any], activation: str) -> Any:
    """g (n,) under autograd."""
    torch = import_torch()
    act = {"relu": torch.relu, "tanh": torch.tanh, "logistic": torch.sigmoid}.get(activation)
    h = X
    for i in range(0, len(tensors) - 2, 2):
        h = torch.addmm(tensors[i + 1], h, tensors[i])
        h = h if act is None else act(h)
    return torch.addmm(tensors[-1], h, tensors[-2])[:, 0]


def to_sequential(layers: Layers, activation: str) -> Any:
    """An nn.Sequential with the same raw scores, (n, d) → (n, 1)."""
    torch = import_torch()
    nn = torch.nn
    make = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid, "identity": nn.Identity}[activation]
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
