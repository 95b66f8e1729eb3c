"""The loss: laws over distances × parities × {2, 3 groups}, in NumPy and in torch, and their witnesses."""

import copy
import pickle
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from evenrisk import GapDistance, GaussianDistance, HistogramDistance, Parity
from evenrisk.distances import evaluate
from evenrisk.parity import PARITIES
from gloo_processes import LOSSES, MEMORY, N_BATCHES, part, penalties, shared_batch
from optional import need
from worlds import world

torch = need("torch")

from evenrisk.nn import ParityBatchSampler, ParityLoss  # noqa: E402
from evenrisk.nn._memory import CellMemory  # noqa: E402

DISTANCES = {
    "gap": GapDistance(),
    "gap-window": GapDistance(window=(0.2, 0.6)),
    "gap-coarse": GapDistance(n_thresholds=30),
    "gap-rank": GapDistance(scale="rank"),
    "gap-power": GapDistance(power=8),
    "histogram": HistogramDistance(),
    "gaussian": GaussianDistance(),
}
each = pytest.mark.parametrize("name", DISTANCES)
cases = pytest.mark.parametrize(("parity", "n_groups"), list(product(PARITIES, (2, 3))))


@pytest.fixture(params=["host", "device"])
def place(request, monkeypatch):
    """Compute in NumPy, as on a CPU, or in torch, as on a GPU."""
    monkeypatch.setattr("evenrisk.nn._loss.stays_in_torch", lambda scores: request.param == "device")
    return request.param


def rows(w, index=slice(None)):
    """Scores that want a gradient, groups, labels and weights of a world, in float64."""
    g = torch.tensor(w.g[index], requires_grad=True)
    return g, torch.tensor(w.group[index]), torch.tensor(w.y[index]), torch.tensor(w.weight[index])


def value_and_gradient(loss, w, index=slice(None)):
    g, group, y, weight = rows(w, index)
    value = loss(g, group, y, weight)
    value.backward()
    return value.item(), g.grad.numpy()


def close(found, expected, tolerance=1e-10):
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@each
@cases
def test_equals_the_core(name, parity, n_groups, place):
    w = world(parity, n_groups)
    loss = ParityLoss(DISTANCES[name], parity, n_groups, unbiased=False)
    value, gradient = value_and_gradient(loss, w)
    expected, expected_gradient = evaluate(DISTANCES[name], w.g, w.cells())
    assert value == pytest.approx(expected, rel=1e-11)
    close(gradient, expected_gradient)


# ------------------------------------------------------------------------------- pairs of different rows


def features(g, distance):
    """Φ of each row, so that ⟨Φ, Φ⟩ = Σ_t Δ·U(t)²: the integrated B-spline at every threshold."""
    low, high = distance.window
    step = (high - low) / distance.n_thresholds
    t = low + step * (torch.arange(distance.n_thresholds, dtype=torch.float64) + 0.5)
    x = (t - torch.sigmoid(g)[:, None]) / step  # 0 where the threshold is the score itself
    ramp = 0.5 + (torch.clamp(1 + x, 0, 1) ** 2 - torch.clamp(1 - x, 0, 1) ** 2) / 2
    return step**0.5 * ramp


def of_different_rows(phi, weight):
    """⟨Φ, Φ⟩ over all pairs of rows, a row's pair with itself replaced by what the other pairs say of it.

    That is ‖m‖² less the share of pairs of a row with itself times the variance, half the mean square of the
    difference of two rows; with equal weights, the mean over pairs of different rows.
    """
    products = weight[:, None] * weight
    itself = products.diagonal().sum()
    variance = (products * torch.cdist(phi, phi) ** 2).sum() / (products.sum() - itself) / 2
    m = mean(phi, weight)
    return m @ m - itself / products.sum() * variance


def mean(phi, weight):
    return (weight[:, None] * phi).sum(0) / weight.sum()


def witness(g, group, y, weight, n_groups, parity, distance):
    """The unbiased form by all pairs of different rows of each cell."""
    strata = {"demographic_parity": [y >= 0], "equalized_odds": [y == 0, y == 1]}
    strata |= {"equal_opportunity": [y == 1], "predictive_equality": [y == 0]}
    total = 0.0
    pairs = [(a, b) for b in range(n_groups) for a in range(b)]
    for stratum, (a, b) in product(strata[parity], pairs):
        A, B = stratum & (group == a), stratum & (group == b)
        phi, psi = features(g[A], distance), features(g[B], distance)
        d = of_different_rows(phi, weight[A]) + of_different_rows(psi, weight[B])
        total = total + (d - 2 * mean(phi, weight[A]) @ mean(psi, weight[B])) / len(pairs)
    return total


@pytest.mark.parametrize("name", ["gap", "gap-window", "gap-coarse"])
@cases
def test_unbiased_form_is_over_pairs_of_different_rows(name, parity, n_groups, place):
    w = world(parity, n_groups, n=70)
    value, gradient = value_and_gradient(ParityLoss(DISTANCES[name], parity, n_groups), w)
    g, group, y, weight = rows(w)
    expected = witness(g, group, y, weight, n_groups, parity, DISTANCES[name])
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-10, abs=1e-13)
    close(gradient, g.grad.numpy(), 1e-9)
    biased = ParityLoss(DISTANCES[name], parity, n_groups, unbiased=False)
    assert value_and_gradient(biased, w)[0] > 1.05 * value


def people(rng, sizes):
    """Fresh people of two groups that differ: features and groups."""
    group = np.repeat([0, 1], sizes)
    X = rng.standard_normal((len(group), 3)) * [1, 0.5, 2] + np.outer(group, [0.8, 0.2, 0])
    return torch.tensor(X), torch.tensor(group)


THETA = (0.9, -0.6, 0.3)


def in_theta(loss, X, group, weight=None):
    """Value and gradient of the penalty of scores Xθ in θ, (4,)."""
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True)
    value = loss(X @ theta, group, sample_weight=weight)
    value.backward()
    return np.r_[value.item(), theta.grad.numpy()]


def t_statistics(found, expected, block=1):
    """How many standard errors the mean of `found` is from `expected`; its rows are averaged in blocks."""
    found = found[: len(found) // block * block].reshape(-1, block, found.shape[1]).mean(axis=1)
    return (found.mean(axis=0) - expected) / (found.std(axis=0, ddof=1) / len(found) ** 0.5)


@pytest.mark.parametrize("unbiased", [True, False])
def test_batches_average_to_all_rows(unbiased):
    """1500 batches of 12 + 5 rows of 500: within 4.5 standard errors, where the biased form is not."""
    rng = np.random.default_rng(0)
    X, group = people(rng, (400, 100))
    loss = ParityLoss(unbiased=unbiased)
    members = [np.arange(400), np.arange(400, 500)]
    found = []
    for _ in range(1500):
        index = np.concatenate(
            [rng.choice(m, size, replace=False) for m, size in zip(members, (12, 5), strict=True)]
        )
        found.append(in_theta(loss, X[index], group[index]))
    t = np.abs(t_statistics(np.array(found), in_theta(loss, X, group)))
    if unbiased:
        assert t.max() < 4.5
    else:
        assert t[0] > 20
        assert t[1:].max() > 7


@pytest.mark.parametrize("informative", ["rare", "high"])
def test_weights_that_depend_on_the_scores_do_not_turn_the_gradient(informative):
    """As survey weights do: a ratio of sums is biased by a tenth in batches of 20, and not by all of it."""
    rng = np.random.default_rng(3)
    X, group = people(rng, (1000, 1000))
    risk = torch.sigmoid(X @ torch.tensor(THETA, dtype=torch.float64))
    weight = {"rare": 1 / (0.1 + risk), "high": torch.exp(3 * risk)}[informative]
    loss = ParityLoss()
    full = in_theta(loss, X, group, weight)
    found = []
    for _ in range(1500):
        index = np.concatenate(
            [rng.choice(1000, 20, replace=False), rng.choice(1000, 20, replace=False) + 1000]
        )
        found.append(in_theta(loss, X[index], group[index], weight[index]))
    assert np.mean(found, axis=0) == pytest.approx(full, abs=0.2 * np.abs(full).max())


def test_a_cell_of_which_one_row_has_all_the_weight_is_one_row(place):
    """Its variance is not known, and in single precision would be noise."""
    g = torch.tensor([0.3, -0.2, 0.9, 0.1], requires_grad=True)
    group, weight = torch.tensor([0, 0, 1, 1]), torch.tensor([1e5, 1, 1, 1])
    value = ParityLoss()(g, group, sample_weight=weight)
    value.backward()
    assert value.item() == 0
    assert not g.grad.any()


# ------------------------------------------------------------------------------------------ two processes


@pytest.fixture(scope="session")
def two(tmp_path_factory):
    """What each of two gloo processes finds."""
    folder = tmp_path_factory.mktemp("gloo")
    script = Path(__file__).with_name("gloo_processes.py")
    started = [subprocess.Popen([sys.executable, str(script), str(rank), str(folder)]) for rank in (0, 1)]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.fixture(scope="session")
def one():
    """What one process finds on the whole batches."""
    return penalties(0, 1)


@pytest.mark.parametrize("number", range(N_BATCHES))
@pytest.mark.parametrize("memory", [0, MEMORY])
@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_equal_one(name, memory, number, one, two):
    value, gradient = one[name, memory, number]
    both = [found[name, memory, number] for found in two]
    for other, _ in both:
        assert other.item() == pytest.approx(value.item(), rel=1e-11)
    # the sum of two losses was differentiated
    assert torch.cat([g for _, g in both]).numpy() == pytest.approx(2 * gradient.numpy(), rel=1e-9, abs=1e-12)
    assert gradient.abs().max() > 1e-6


def test_two_processes_are_cut_as_they_should_be():
    codes = [[set(part(number, rank, 2)[1].tolist()) for rank in (0, 1)] for number in range(N_BATCHES)]
    assert codes[2][0] != codes[2][1]
    assert codes[3][1] == set()
    assert [shared_batch(number)[2] for number in range(N_BATCHES)] != [45] * N_BATCHES


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_remember_the_same(name, one, two):
    for found in two:
        assert torch.equal(found[name, "recent"], one[name, "recent"])
    assert (one[name, "recent"][1] > 0).all()


def test_distributed_data_parallel_has_the_gradient_of_the_whole_batch(one, two):
    for found in two:
        assert found["network"].numpy() == pytest.approx(one["network"].numpy(), rel=1e-9)


# -------------------------------------------------------------------------------------------- empty cells


@each
@pytest.mark.parametrize("memory", [0, 8])
@pytest.mark.parametrize("present", [(), (0,), (0, 4), (0, 1), (0, 1, 4), (1, 2, 3, 4), (0, 1, 2, 3, 4)])
def test_cells_that_are_missing_contribute_nothing(name, memory, present, place):
    """Cells are label·3 + group; what is compared is what can be, with the weights of the whole."""
    w = world("equalized_odds", 3)
    code = w.y * 3 + w.group
    index = np.isin(code, present)
    loss = ParityLoss(DISTANCES[name], "equalized_odds", 3, unbiased=False, memory=memory)
    value, gradient = value_and_gradient(loss, w, index)
    expected = 0.0
    for pair in [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)]:
        if set(pair) <= set(present):
            two = np.isin(code, pair)
            cells = w.cells(two)
            cells = cells._replace(pairs=np.array([pair]), pair_weight=np.array([1 / 3]))
            with np.errstate(invalid="ignore"):  # the core divides the sums of empty cells by 0
                expected += evaluate(DISTANCES[name], w.g[two], cells)[0]
    assert value == pytest.approx(expected, rel=1e-6, abs=1e-15)
    assert np.isfinite(gradient).all()
    assert gradient.any() == (expected > 0)


@each
def test_training_goes_on_through_all_kinds_of_batches(name, place):
    w = world("equalized_odds", 3)
    network = torch.nn.Linear(4, 1).double()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    for memory, size in product((0, 8), (0, 1, 2, 3, 7, 60)):
        loss = ParityLoss(DISTANCES[name], "equalized_odds", 3, memory=memory)
        for start in range(4):
            index = slice(start, start + size)
            optimizer.zero_grad()
            g = network(torch.tensor(w.X[index]))
            value = loss(g, torch.tensor(w.group[index]), torch.tensor(w.y[index])) + 0 * network.bias.sum()
            value.backward()
            optimizer.step()
            assert torch.isfinite(value)
    assert all(torch.isfinite(weight).all() for weight in network.parameters())


def test_one_row_is_no_pair_and_has_no_variance(place):
    g = torch.tensor([0.3, 0.9, -0.5], requires_grad=True)
    group = torch.tensor([0, 0, 1])
    for distance in ("gap", "gaussian"):
        assert ParityLoss(distance)(g, group).item() == 0
    assert ParityLoss(unbiased=False)(g, group).item() > 0


# ------------------------------------------------------------------------------------------------- memory


def with_memory(parts, distance, unbiased):
    """The last batch beside all that came before, by hand, two groups: value, and the scores' gradient."""
    *before, (g, group, weight) = parts
    known = [torch.cat([part[i].detach() for part in [(g, group, weight), *before]]) for i in range(3)]
    value, slope, means = 0.0, 0.0, []
    for a in (0, 1):
        K, B = known[1] == a, group == a
        phi, own, w = features(known[0][K], distance), features(g[B], distance), known[2][K]
        means.append((mean(phi, w), mean(own, weight[B])))
        square = phi @ phi.T
        value = value + (of_different_rows(phi, w) if unbiased else w @ square @ w / w.sum() ** 2)
        # the batch's rows come first among the known: row i of one is row i of the other
        products = weight[B][:, None] * w
        slope = slope + 2 * (products * (own @ phi.T)).sum() / products.sum()
        if unbiased:
            itself = products.diagonal().sum()
            apart = ((own[:, None] - phi) ** 2).sum(-1)
            slope = slope - itself / (products.sum() - itself) * (products * apart).sum() / products.sum()
    (a, own_a), (b, own_b) = means
    value = value - 2 * a @ b
    slope = slope - 2 * own_a @ b - 2 * a @ own_b
    slope.backward()
    return value.item(), g.grad.numpy()


@pytest.mark.parametrize("unbiased", [True, False])
def test_memory_by_hand(unbiased, place):
    """Value over all known rows, and the slope of the batch's own mean."""
    distance = GapDistance(n_thresholds=50)
    loss = ParityLoss(distance, unbiased=unbiased, memory=100).double()
    w = world("demographic_parity", 2, n=45)
    parts = []
    for index in (slice(0, 20), slice(20, 33), slice(33, 45)):
        found = value_and_gradient(loss, w, index)
        g, group, _, weight = rows(w, index)
        parts.append((g, group, weight))
        value, gradient = with_memory(parts, distance, unbiased)
        assert found[0] == pytest.approx(value, rel=1e-10)
        close(found[1], gradient, 1e-9)


def test_memory_fills_up_to_its_size_with_the_newest(place):
    """Unit weights; 3 rows of group 0, 1 of group 1, five at most: what is looked at is counted by hand."""
    loss = ParityLoss(unbiased=False, memory=5).double()
    batches = [
        ([0.0, 0.1, 0.2, 0.3], [0, 0, 1, 0]),
        ([1.0, 1.1, 1.2], [0, 0, 1]),
        ([2.0, 2.1, 2.2], [0, 0, 1]),
    ]
    for scores, group in batches:
        value = loss(torch.tensor(scores, dtype=torch.float64), torch.tensor(group))
    known = torch.tensor([2.0, 2.1, 1.1, 1.0, 0.3, 2.2, 1.2, 0.2], dtype=torch.float64)
    expected = ParityLoss(unbiased=False)(known, torch.tensor([0] * 5 + [1] * 3))
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    assert loss.memory.recent[0].tolist() == [[2.1, 2.0, 1.1, 1.0, 0.3], [2.2, 1.2, 0.2, 0, 0]]
    assert loss.memory.recent[1].tolist() == [[1] * 5, [1, 1, 1, 0, 0]]


def test_memory_fills_up_to_the_nearest_whole_number_of_rows(place):
    """Five at most: beside 2.4 that are there 2.6 are wanted, which is nearer to 3; half a row is none."""
    memory = CellMemory(7, 5).double()
    memory.recent[1] = 1
    present = np.array([0, 2, 2.4, 2.5, 2.6, 5, 7])
    like, none = np.zeros(1), np.zeros(1)
    if place == "device":
        like, none, present = (torch.from_numpy(each) for each in (like, none, present))
    _, code, weight = memory.rows_to_fill(like, present, none)
    found = np.bincount(np.asarray(code), weights=np.asarray(weight))
    assert found.tolist() == [5, 3, 3, 2, 2, 0, 0]


def test_memory_counts_rows_of_unequal_weight_as_fewer(place):
    """Of weights 1, 1 and 8 there are 100/66 rows, so 3 more are wanted of 5; of 3 and 3 there are 2."""
    for weights, n_more in (([1.0, 1.0, 8.0], 3), ([3.0, 3.0], 3), ([0.1, 0.1, 0.1, 0.1], 1)):
        loss = ParityLoss(unbiased=False, memory=5).double()
        old, group = torch.arange(10, dtype=torch.float64) / 7, torch.tensor([0, 1] * 5)
        loss(old, group)
        g = torch.linspace(-1, 0.5, len(weights) + 5, dtype=torch.float64)
        of_new = torch.tensor([0] * len(weights) + [1] * 5)
        weight = torch.tensor(weights + [1.0] * 5, dtype=torch.float64)
        value = loss(g, of_new, sample_weight=weight)
        newest = torch.tensor([8, 6, 4])[:n_more]
        known = [(g, old[newest]), (of_new, group[newest]), (weight, torch.ones(n_more, dtype=torch.float64))]
        scores, groups, each = map(torch.cat, known)
        expected = ParityLoss(unbiased=False)(scores, groups, sample_weight=each)
        assert value.item() == pytest.approx(expected.item(), rel=1e-12)


def test_memory_forgets_rows_that_are_in_no_cell_or_weigh_nothing(place):
    loss = ParityLoss(parity="equal_opportunity", memory=3)
    g, y, weight = (
        torch.tensor([1.0, 2.0, 3.0, 4.0]),
        torch.tensor([1, 0, 1, 1]),
        torch.tensor([1.0, 1, 0, 2]),
    )
    loss(g, torch.tensor([0, 0, 0, 1]), y, weight)
    scores, weight = loss.memory.recent
    assert scores.tolist() == [[1, 0, 0], [4, 0, 0]]
    assert (weight * 2.0**loss.memory.exponent).tolist() == [[1, 0, 0], [2, 0, 0]]


@each
def test_a_batch_that_is_large_enough_needs_no_memory(name, place):
    w = world("equalized_odds", 2)
    loss = ParityLoss(DISTANCES[name], "equalized_odds", 2, memory=4).double()
    for _ in range(2):
        found = value_and_gradient(loss, w)
    expected = value_and_gradient(ParityLoss(DISTANCES[name], "equalized_odds", 2), w)
    assert found[0] == expected[0]
    close(found[1], expected[1], 1e-12)


def test_evaluation_neither_uses_nor_writes_memory(place):
    w = world("demographic_parity", 2)
    loss = ParityLoss(memory=50)
    value_and_gradient(loss, w, slice(0, 60))
    before = loss.memory.recent.clone()
    found = value_and_gradient(loss.eval(), w, slice(60, 75))
    assert found[0] == value_and_gradient(ParityLoss(), w, slice(60, 75))[0]
    with torch.no_grad():  # as in a loop that only puts its network into evaluation
        assert loss.train()(*rows(w, slice(60, 75))).item() == found[0]
    assert torch.equal(loss.memory.recent, before)
    assert before.any()
    assert value_and_gradient(loss.train(), w, slice(60, 75))[0] != found[0]


def test_a_process_outside_the_group_is_alone(monkeypatch):
    """torch says that a group has -1 members where the process is none of them."""
    g, group = torch.tensor([0.1, 0.4, -0.3, 0.8]), torch.tensor([0, 1, 0, 1])
    alone = ParityLoss()(g, group)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda handle: -1)
    loss = ParityLoss()
    loss.process_group = object()
    assert loss(g, group) == alone


def test_a_copy_shares_the_process_group():
    """Its handle cannot be copied, and averages of models are made by copying."""
    handle = threading.Lock()
    loss = ParityLoss(memory=3, process_group=handle)
    other = copy.deepcopy(loss)
    assert other.process_group is handle
    assert other.memory is not loss.memory


def test_memory_travels_with_the_state():
    w = world("demographic_parity", 3)
    loss, other = ParityLoss(n_groups=3, memory=7), ParityLoss(n_groups=3, memory=7)
    value_and_gradient(loss, w, slice(0, 30))
    assert list(loss.state_dict()) == ["memory.recent", "memory.exponent"]
    other.load_state_dict(loss.state_dict())
    assert value_and_gradient(other, w, slice(30, 40))[0] == value_and_gradient(loss, w, slice(30, 40))[0]
    assert not ParityLoss().state_dict()


def test_more_memory_less_noise_and_no_bias():
    """Fresh people in every batch, 3 of 60 of them rare; blocks of 40 batches hardly depend on each other."""
    population = in_theta(ParityLoss(), *people(np.random.default_rng(1), (200_000, 200_000)))
    noise = {}
    for memory in (0, 30, 300):
        rng, loss = np.random.default_rng(2), ParityLoss(memory=memory)
        found = np.array([in_theta(loss, *people(rng, (57, 3))) for _ in range(1300)])[100:]
        noise[memory] = found.std(axis=0)
        assert np.abs(t_statistics(found, population, block=40)).max() < 4.5
    assert (noise[30] < 0.75 * noise[0]).all()
    assert (noise[300] < 0.95 * noise[30]).all()


# ------------------------------------------------------------------------------ precision and compilation


@each
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_in_and_single_out(name, dtype, place):
    """Only the rounding of the scores is lost: beside the same rounded scores in float64."""
    w = world("equalized_odds", 3)
    g, group, y, weight = rows(w)
    g = g.detach().to(dtype).requires_grad_()
    loss = ParityLoss(DISTANCES[name], "equalized_odds", 3)
    value = loss(g, group, y.to(dtype), weight.to(dtype))
    value.backward()
    exact = g.detach().double().requires_grad_()
    expected = loss(exact, group, y, weight)
    expected.backward()
    assert value.dtype == torch.float32
    assert g.grad.dtype == dtype
    assert value.item() == pytest.approx(expected.item(), rel=2e-4)
    tolerance = {torch.bfloat16: 5e-3, torch.float16: 2e-3, torch.float32: 1e-3}[dtype]
    close(g.grad.double().numpy(), exact.grad.numpy(), tolerance)


@each
def test_autocast(name, place):
    w = world("equalized_odds", 3)
    network = torch.nn.Linear(4, 1)
    loss = ParityLoss(DISTANCES[name], "equalized_odds", 3, memory=20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        g = network(torch.tensor(w.X, dtype=torch.float32))
        value = loss(g, torch.tensor(w.group), torch.tensor(w.y))
    value.backward()
    assert g.dtype == torch.bfloat16
    assert value.dtype == torch.float32
    expected = ParityLoss(DISTANCES[name], "equalized_odds", 3)(
        g.detach().double(), torch.tensor(w.group), torch.tensor(w.y)
    )
    assert value.item() == pytest.approx(expected.item(), rel=2e-4)
    assert torch.isfinite(network.weight.grad).all()


@pytest.mark.parametrize("storage", ["float", "half", "bfloat16", "double"])
@pytest.mark.parametrize("memory", [0, 30])
@pytest.mark.parametrize(
    ("name", "unbiased"), [("gap", True), ("gap", False), ("histogram", None), ("gaussian", None)]
)
def test_the_scale_of_the_weights_says_nothing(name, unbiased, memory, storage, place):
    """Squares of the weights would be infinite in single precision, or 0; a power of 2 takes no digits."""
    w = world("demographic_parity", 3)
    dtype = torch.float64 if storage == "double" else torch.float32
    found = {}
    for power in (0, 3, 100, 124, -100, -135, *((900, -1000) if storage == "double" else ())):
        loss = getattr(ParityLoss(DISTANCES[name], n_groups=3, unbiased=unbiased, memory=memory), storage)()
        for index in (slice(0, 30), slice(30, 37), slice(37, 60)):
            g = torch.tensor(w.g[index], dtype=dtype, requires_grad=True)
            weight = torch.tensor(w.weight[index] * 2.0**power, dtype=dtype)
            value = loss(g, torch.tensor(w.group[index]), sample_weight=weight)
            value.backward()
        found[power] = np.append(g.grad.numpy(), value.item())
    assert np.isfinite(found[0]).all()
    assert found[0].all()
    for each in found.values():
        np.testing.assert_array_equal(each, found[0])


def test_weights_are_of_any_size_whatever_the_scores_are(place):
    """Double weights beside single scores; and a memory whose rows weigh much more than those that come."""
    w = world("demographic_parity", 2)
    g, group, _, weight = rows(w)
    g = g.detach().float()
    expected = ParityLoss()(g, group, sample_weight=weight).item()
    for scale in (1e300, 1e-300):
        assert ParityLoss()(g, group, sample_weight=scale * weight).item() == pytest.approx(
            expected, rel=1e-5
        )
    loss = ParityLoss(memory=20).half()
    for scale in (1e25, 1.0, 1.0, 1e-20):
        assert torch.isfinite(loss(g, group, sample_weight=scale * weight))
    # 20 rows of either group are newer than the heavy ones, and all there is to compare with
    few = slice(0, 6)
    light = ParityLoss(memory=20).half()
    light(g, group, sample_weight=1e-20 * weight)
    value, other = (each(g[few], group[few], sample_weight=1e-20 * weight[few]) for each in (loss, light))
    assert value.item() == pytest.approx(other.item(), rel=1e-6)


@pytest.mark.filterwarnings("ignore")  # what torch itself has to say while it compiles
@pytest.mark.parametrize(
    ("name", "memory", "backend"),
    [
        ("gap", 12, "inductor"),
        ("gap-rank", 12, "aot_eager"),
        ("histogram", 12, "aot_eager"),
        ("gaussian", 0, "aot_eager"),
    ],
)
def test_a_compiled_step_equals_the_plain_one(name, memory, backend):
    torch._dynamo.reset()
    plain, compiled = (ParityLoss(DISTANCES[name], "equalized_odds", 3, memory=memory) for _ in range(2))
    network = torch.nn.Linear(4, 1).double()

    def step(loss, X, group, y):
        g = network(X)[:, 0]
        return torch.nn.functional.binary_cross_entropy_with_logits(g, y) + loss(g, group, y)

    quick = torch.compile(lambda X, group, y: step(compiled, X, group, y), fullgraph=True, backend=backend)
    for seed in range(3):
        w = world("equalized_odds", 3, n=60, seed=seed)
        data = torch.tensor(w.X), torch.tensor(w.group), torch.tensor(w.y, dtype=torch.float64)
        found = []
        for function in (lambda *data: step(plain, *data), quick):
            network.zero_grad()
            value = function(*data)
            value.backward()
            found.append(np.r_[value.item(), network.weight.grad[0].numpy()])
        close(found[1], found[0], 1e-9)
    if memory:
        close(compiled.memory.recent.numpy(), plain.memory.recent.numpy(), 1e-6)
    wrong = data[1].clone()
    wrong[-1] = 3
    value = quick(data[0], wrong, data[2])
    assert torch.isnan(value)
    network.zero_grad()
    value.backward()
    assert torch.isnan(network.weight.grad).any(), "what skips steps that are not finite looks at gradients"
    if memory:
        scores, weight = compiled.memory.recent
        assert not scores[weight > 0].eq(0).any()  # which is what stands for the wrong row's score


# -------------------------------------------------------------------------------------- what comes and goes


def batch(**changes):
    """Arguments of the loss, some of them changed."""
    good = {
        "scores": torch.tensor([0.1, -0.4, 1.0, 0.7]),
        "groups": torch.tensor([0, 1, 2, 1]),
        "y": torch.tensor([0, 1, 1, 0]),
    }
    return good | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": torch.tensor([0, 1, 3, 1])}, "`groups` must be codes from 0 to 2, got 0 to 3"),
        ({"groups": torch.tensor([0, 1, -1, 1])}, "`groups` must be codes from 0 to 2, got -1 to 1"),
        ({"groups": torch.tensor([0.0, 1, 2, 1])}, "`groups` must be whole numbers, got torch.float32"),
        ({"groups": ["a", "b", "c", "b"]}, r"`groups` must be whole numbers, .* got str.*return_inverse"),
        (
            {"groups": np.array(["a", "b", "c", "b"])},
            "`groups` must be whole numbers, codes from 0 on, got str",
        ),
        ({"groups": None}, "`groups` must be whole numbers, codes from 0 on, got NoneType"),
        ({"sample_weight": ["1", "2", "3", "4"]}, "`sample_weight` must be numbers, got str"),
        ({"groups": torch.tensor([0, 1, 2])}, r"`groups` must have one entry per score, 4, got shape \(3,\)"),
        ({"scores": torch.tensor([0.1, torch.nan, 1, torch.inf])}, "must be finite, got 2 of 4 .* diverged"),
        ({"scores": torch.ones(4, 2)}, r"`scores` must have shape \(n,\) or \(n, 1\), .* got \(4, 2\)"),
        ({"scores": torch.ones(4, 1, 1)}, r"`scores` must have shape \(n,\) or \(n, 1\)"),
        ({"scores": torch.tensor([1, 2, 3, 4])}, "floating-point numbers, got torch.int64"),
        ({"scores": [0.1, 0.2, 0.3, 0.4]}, "floating-point numbers, got list"),
        ({"y": None}, "`y` must be given under a parity rule that looks at the label, got None"),
        ({"y": torch.tensor([0, 1, 2, 0])}, "`y` must be 0 or 1, got 2"),
        ({"y": torch.tensor([0, 1, 0.5, 0])}, "`y` must be 0 or 1, got 0.5"),
        ({"y": torch.tensor([0, 1])}, r"`y` must have one entry per score, 4, got shape \(2,\)"),
        (
            {"sample_weight": torch.tensor([1.0, 1, -2, 1])},
            "`sample_weight` must be finite and 0 or more, got -2",
        ),
        (
            {"groups": np.ma.MaskedArray([0, 1, 2, 1], mask=[0, 1, 0, 1])},
            r"`groups` must not have masked entries, got 2 \(row 1, 3\)",
        ),
        ({"sample_weight": torch.tensor([1.0, torch.nan, 1, 1])}, "finite and 0 or more, got nan"),
        (
            {"sample_weight": torch.ones(5)},
            r"`sample_weight` must have one entry per score, 4, got shape \(5,\)",
        ),
    ],
)
def test_wrong_batches(changes, message, place):
    loss = ParityLoss(parity="equalized_odds", n_groups=3, memory=4)
    with pytest.raises(ValueError, match=message):
        loss(**batch(**changes))
    assert not loss.memory.recent.any()
    assert torch.isfinite(loss(**batch()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_groups": 1}, "`n_groups` must be a whole number of at least 2, got 1"),
        ({"n_groups": 2.5}, "`n_groups` must be a whole number of at least 2, got 2.5"),
        ({"memory": -1}, "`memory` must be a whole number of at least 0, got -1"),
        ({"distance": "wasserstein"}, "`distance` must be one of 'gap'"),
        ({"parity": "fairness"}, "`parity` must be one of 'demographic_parity'"),
        ({"unbiased": "yes"}, "`unbiased` must be True or False, got 'yes'"),
        (
            {"unbiased": True, "distance": "gaussian"},
            "`unbiased` must be False or None .* got True with Gauss",
        ),
        ({"unbiased": True, "distance": GapDistance(scale="rank")}, "`unbiased` must be False or None"),
        (
            {"parity": Parity("odd", ("a",), lambda y: y)},
            r"strata from -1 to 0, got 'odd' with cells \[0, 1, 2, 3\]",
        ),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        ParityLoss(**settings)


def test_every_shape_and_kind_of_column_is_the_same(place):
    w = world("equalized_odds", 2)
    g, group, y, weight = rows(w)
    loss = ParityLoss(parity="equalized_odds")
    expected = value_and_gradient(loss, w)
    column = g.detach()[:, None].requires_grad_()
    value = loss(column, group.to(torch.uint8)[:, None], y.bool(), weight[:, None])
    value.backward()
    assert value.item() == expected[0]
    assert (column.grad[:, 0].numpy() == expected[1]).all()
    assert loss(g, group.bool(), y.double(), weight).item() == expected[0]


def test_label_is_not_looked_at_where_the_rule_does_not(place):
    w = world("demographic_parity", 2)
    g, group, y, _ = rows(w)
    assert ParityLoss()(g, group, y + 7).item() == ParityLoss()(g, group).item() != 0


def test_no_gradient_where_none_is_wanted(place):
    w = world("demographic_parity", 2)
    g, group, _, _ = rows(w)
    with torch.no_grad():
        assert not ParityLoss()(g, group).requires_grad
    assert not ParityLoss()(g.detach(), group).requires_grad
    assert ParityLoss()(g, group).requires_grad


def test_a_second_derivative_is_refused():
    g, group, _, _ = rows(world("demographic_parity", 2))
    with pytest.raises(RuntimeError, match="can be differentiated once, got a backward pass of create_graph"):
        torch.autograd.grad(ParityLoss()(g, group), g, create_graph=True)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))])
def test_copies_are_the_same_and_apart(copied):
    w = world("equalized_odds", 3)
    loss = ParityLoss(GapDistance(window=(0.1, 0.9)), "equalized_odds", 3, memory=9)
    value_and_gradient(loss, w, slice(0, 50))
    other = copied(loss)
    found, expected = (value_and_gradient(each, w, slice(50, 80)) for each in (other, loss))
    assert found[0] == expected[0]
    value_and_gradient(loss, w, slice(80, 90))
    assert not torch.equal(loss.memory.recent, other.memory.recent)
    assert repr(other) == repr(loss)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_module_may_change_its_precision(dtype, place):
    """Nothing of it but the memory is a number that could lose digits."""
    w = world("demographic_parity", 3)
    loss = ParityLoss(n_groups=3).to(dtype)
    assert loss.pairs.dtype == loss.cell_of.dtype == torch.int64
    assert value_and_gradient(loss, w)[0] == value_and_gradient(ParityLoss(n_groups=3), w)[0]


def test_says_what_it_is():
    text = repr(ParityLoss("gap", "equalized_odds", 3, memory=5))
    for word in ("GapDistance(n_thresholds=400", "'equalized_odds'", "n_groups=3", "unbiased=True", "size=5"):
        assert word in text


def test_a_rule_and_a_distance_of_ones_own(place):
    """A rule that is written for NumPy and turns labels around; the mean score's squared difference."""
    from evenrisk.distances import Distance, Traits

    class Means(GaussianDistance):
        @property
        def traits(self):
            return Traits()

        def compare(self, a, b):
            difference = a[..., 0] - b[..., 0]
            zero = 0 * a[..., 1]
            slope = type(self).stacked(2 * difference, zero)
            return difference**2, slope, -slope

        @staticmethod
        def stacked(first, second):
            return (
                torch.stack([first, second], -1)
                if isinstance(first, torch.Tensor)
                else np.stack([first, second], -1)
            )

    w = world("equalized_odds", 2, weighted=False)
    rule = Parity("turned", ("positives", "negatives"), lambda y: np.where(y == 1, 0, 1))
    loss = ParityLoss(Means(), rule, 2)
    assert isinstance(loss.distance, Distance)
    assert not loss.unbiased
    value, gradient = value_and_gradient(loss, w)
    differences = [
        w.g[(w.y == label) & (w.group == 0)].mean() - w.g[(w.y == label) & (w.group == 1)].mean()
        for label in (0, 1)
    ]
    assert value == pytest.approx(sum(d**2 for d in differences), rel=1e-10)
    row = np.flatnonzero((w.y == 1) & (w.group == 0))
    assert gradient[row] == pytest.approx(2 * differences[1] / len(row), rel=1e-10)


# ------------------------------------------------------------------------------------------------ sampler

# cells of 300, 60, 12, 3 and 1 rows, in no order
SIZES = (300, 60, 12, 3, 1)


def dealt(**settings):
    """Rows' groups, and a sampler of them."""
    group = np.random.default_rng(0).permutation(np.repeat(list("abcde"), SIZES))
    return group, ParityBatchSampler(group, **{"batch_size": 40, **settings})


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("min_rows", [0, 1, 2, 5])
@pytest.mark.parametrize("batch_size", [1, 40, 188, 10_000])
def test_every_cell_is_in_every_batch_and_every_row_in_an_epoch(batch_size, min_rows, shuffle):
    group, sampler = dealt(batch_size=batch_size, min_rows=min_rows, shuffle=shuffle)
    batches = list(sampler)
    assert len(batches) == len(sampler) == -(-376 // batch_size)
    for rows in batches:
        assert len(set(rows)) == len(rows)
        counts = [np.sum(group[rows] == name) for name in "abcde"]
        assert all(count >= min(min_rows, size) for count, size in zip(counts, SIZES, strict=True))
    times = np.bincount(np.concatenate(batches), minlength=376)
    for name, size in zip("abcde", SIZES, strict=True):
        again = times[group == name]
        assert again.min() >= 1
        assert again.max() - again.min() <= 1
        if size >= len(batches) * min_rows:
            assert again.max() == 1
        assert (sampler.loss_weight[group == name] * again).sum() == pytest.approx(size)


def test_batches_are_equally_long_and_hold_each_cells_share():
    group = np.repeat(["a", "b", "c"], [503, 251, 97])
    lengths = [len(rows) for rows in ParityBatchSampler(group, batch_size=90)]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) <= 90
    for rows in ParityBatchSampler(group, batch_size=90):
        assert np.bincount(np.searchsorted(["a", "b", "c"], group[rows])) == pytest.approx(
            [50.3, 25.1, 9.7], abs=1
        )


def test_seed_and_epoch_decide():
    first, second = list(dealt()[1]), dealt()[1]
    assert list(second) == first
    assert list(second) != first  # the next epoch
    second.set_epoch(0)
    assert list(second) == first
    assert list(dealt(seed=1)[1]) != first
    codes = torch.tensor([ord(name) for name in dealt()[0]])
    assert list(ParityBatchSampler(codes, batch_size=40)) == first
    still = dealt(shuffle=False)[1]
    assert list(still) == list(still)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("num_replicas", [2, 3])
def test_processes_share_every_batch(num_replicas, shuffle):
    group, whole = dealt(min_rows=4, shuffle=shuffle)
    parts = [
        list(dealt(min_rows=4, shuffle=shuffle, num_replicas=num_replicas, rank=rank)[1])
        for rank in range(num_replicas)
    ]
    for number, rows in enumerate(whole):
        mine = [part[number] for part in parts]
        assert sorted(np.concatenate(mine)) == sorted(rows)
        assert max(map(len, mine)) - min(map(len, mine)) <= 1
        for name in "abc":
            held = [np.sum(group[rows] == name) for rows in mine]
            assert min(held) >= 1
            assert max(held) - min(held) <= 1


def test_cells_of_labels_and_of_several_columns():
    rng = np.random.default_rng(3)
    columns = {"sex": rng.choice(["f", "m"], 400), "old": rng.random(400) < 0.2}
    y = np.where(rng.random(400) < 0.15, "yes", "no")
    sampler = ParityBatchSampler(columns, y, batch_size=50, parity="equal_opportunity", min_rows=3)
    for rows in sampler:
        for sex, old in product("fm", (False, True)):
            assert (
                np.sum((columns["sex"][rows] == sex) & (columns["old"][rows] == old) & (y[rows] == "yes"))
                >= 3
            )
    assert set(np.concatenate(list(sampler))) == set(range(400))
    as_array = np.column_stack([columns["sex"], columns["old"].astype(str)])
    other = ParityBatchSampler(as_array, y, batch_size=50, parity="equal_opportunity", min_rows=3)
    assert list(other) == list(
        ParityBatchSampler(columns, y, batch_size=50, parity="equal_opportunity", min_rows=3)
    )


def test_in_a_loader_with_workers():
    group, sampler = dealt(min_rows=3)
    data = torch.utils.data.TensorDataset(torch.arange(376), torch.tensor([ord(name) for name in group]))
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler, num_workers=2)
    seen = [rows.tolist() for rows, _ in loader]
    assert len(loader) == len(seen)
    assert seen == list(dealt(min_rows=3)[1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must be a whole number of at least 1, got 0"),
        ({"num_replicas": 50}, "`batch_size` must be a whole number of at least 50, got 40"),
        (
            {"num_replicas": 39},
            "`batch_size` must leave a row of every batch to each of 39 processes, got 40",
        ),
        ({"min_rows": -1}, "`min_rows` must be a whole number of at least 0, got -1"),
        ({"num_replicas": 2, "rank": 2}, "`rank` must be below num_replicas, 2, got 2"),
        ({"shuffle": "yes"}, "`shuffle` must be True or False"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0, got -1"),
        ({"parity": "equalized_odds"}, "`y` must be given for equalized_odds, got None"),
        ({"parity": "equalized_odds", "y": [0, 1]}, "`y` must have one entry per row, 376, got 2"),
        (
            {"parity": "equalized_odds", "y": [1] * 375 + [0]},
            "`groups` must leave rows in every compared cell",
        ),
        ({"parity": "odds"}, "`parity` must be one of"),
    ],
)
def test_wrong_samplers(settings, message):
    with pytest.raises(ValueError, match=message):
        dealt(**settings)
    with pytest.raises(ValueError, match="`groups` must have 2 or more groups, got 1 \\('a'\\)"):
        ParityBatchSampler(["a"] * 5, batch_size=2)
