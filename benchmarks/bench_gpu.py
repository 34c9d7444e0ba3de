"""On one CUDA device: passes beside the time the device needs to read the data once (or to do the
operations, where that is longer).
"""

from __future__ import annotations

import time
import warnings
from functools import partial

import numpy as np

from .timing import Line

TITLE = "One CUDA device: passes beside the limits of the device"


def run() -> list[Line]:
    try:
        import torch

        if not torch.cuda.is_available():
            raise ImportError
    except ImportError:
        print("bench_gpu: no CUDA device here, nothing was measured")
        return []
    return [*pairwise_passes(), *statistics_passes(), *coassociation_passes()]


def machine() -> str:
    import torch

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"


def planted(n: int, k: int):
    """Similarities of ``k`` blocks with noise, symmetric, float32, and the blocks."""
    import torch

    torch.manual_seed(0)
    labels = torch.randint(k, (n,), device="cuda")
    W = torch.empty(n, n, device="cuda")
    step = 5000
    for start in range(0, n, step):
        rows = slice(start, start + step)
        W[rows, start:] = 0.2 * torch.rand(step, n - start, device="cuda")
        W[start:, rows] = W[rows, start:].T
        W[rows, rows] = (W[rows, rows] + W[rows, rows].T) / 2
    for start in range(0, n, step):
        W[start : start + step] += 0.6 * (labels[start : start + step, None] == labels)
    return W, labels


def pairwise_passes() -> list[Line]:
    import torch
    from sklearn.metrics import adjusted_rand_score

    from sfumato import PairwiseProbabilisticClustering
    from sfumato.models.pairwise import cuda
    from sfumato.models.pairwise import kernel as pairwise
    from sfumato.models.pairwise import kernel as panels
    from sfumato.numerics import simplex

    from .roofline import device_copy_bandwidth, device_median

    lines = []
    for n in (50_000, 100_000):
        for k in (10, 64):
            W, labels = planted(n, k)
            limit = W.nbytes / device_copy_bandwidth()
            problem = pairwise.Problem(cuda.Panels(W), True, None)
            U = torch.from_numpy(
                simplex.draw(np.random.default_rng(0), (n, 1, k)).astype(np.float32)
            ).cuda()
            state, _ = panels.panel_step(problem, pairwise.start(problem, U))
            seconds = device_median(partial(panels.panel_step, problem, state))
            note = f"{seconds / limit:.2f} times the limit"
            lines.append(
                Line(
                    f"pairwise pass, n = {n}, k = {k}, float32",
                    seconds,
                    limit,
                    "reading W once",
                    "s",
                    "<= 1.4 limits",
                    note,
                )
            )
            product = device_median(partial(torch.matmul, W, U[:, 0].contiguous()))
            lines.append(
                Line(
                    f"pairwise pass, n = {n}, k = {k}, float32",
                    seconds,
                    product,
                    "torch: one bare product",
                )
            )
            del problem, state
            lines.append(_of_short_entries(W, U, seconds))
            if k == 10 or n == 100_000:
                fit = partial(
                    PairwiseProbabilisticClustering(
                        k, similarity="precomputed", random_state=0
                    ).fit,
                    W,
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    seconds, model = _second_time(fit)
                score = adjusted_rand_score(labels.cpu().numpy(), model.labels_.cpu().numpy())
                stop = "settled" if model.converged_ else "stopped"
                note = (
                    f"4 starts, {stop} after {model.n_iter_} passes, kernels built before; Rand "
                    f"index (adjusted) {score:.5f}"
                )
                lines.append(
                    Line(
                        f"whole fit, n = {n}, k = {k}",
                        seconds,
                        1.0,
                        "one second",
                        "s",
                        "n = 100000: < 1 s",
                        note,
                    )
                )
            del W
            torch.cuda.empty_cache()
    return lines


def _of_short_entries(W, U, seconds: float) -> Line:
    """A pass over W in bfloat16, beside the one over float32."""
    import torch

    from sfumato.models.pairwise import cuda
    from sfumato.models.pairwise import kernel as pairwise
    from sfumato.models.pairwise import kernel as panels

    from .roofline import device_median

    problem = pairwise.Problem(cuda.Panels(W.to(torch.bfloat16)), True, None)
    state, _ = panels.panel_step(problem, pairwise.start(problem, U))
    ours = device_median(partial(panels.panel_step, problem, state))
    what = f"pairwise pass, n = {U.shape[0]}, k = {U.shape[2]}, bfloat16"
    return Line(what, ours, seconds, "the same in float32")


def _second_time(fit):
    import torch

    fit()
    torch.cuda.synchronize()
    start = time.perf_counter()
    model = fit()
    torch.cuda.synchronize()
    return time.perf_counter() - start, model


def statistics_passes(n: int = 10_000_000, d: int = 32, k: int = 64) -> list[Line]:
    import torch

    from sfumato.components import gaussian
    from sfumato.models.fuzzy import kernel as fuzzy
    from sfumato.numerics import distances

    from .roofline import device_copy_bandwidth, device_median, device_product_rate

    torch.manual_seed(0)
    centers = 2 * torch.randn(k, d, device="cuda")
    X = (
        torch.randn(n, d, device="cuda") + centers[torch.randint(k, (n,), device="cuda")]
    ).T.contiguous()
    means = centers.cpu().numpy().astype(np.float64)
    centered, mixture = (
        fuzzy.State(means),
        gaussian.State(np.full(k, 1 / k), means, np.full((k, d), 1.1), "VVI", 1e-6),
    )

    def fuzzy_pass(fuzzifier, Z):
        ready = fuzzy.ready(centered, fuzzy.Rule(fuzzifier))
        return fuzzy.update(fuzzy.summarize(Z, None, ready), centered)

    lines = []
    for name, kind, summarize in (
        ("fuzzy c-means", "spherical", partial(fuzzy_pass, 2.0)),
        ("fuzzy c-means, fuzzifier 1.5,", "spherical", partial(fuzzy_pass, 1.5)),
        (
            "diagonal mixture",
            "diag",
            lambda Z: gaussian.update(
                gaussian.summarize(Z, None, gaussian.ready(mixture)), mixture
            ),
        ),
    ):
        Z = distances.features(X, kind)
        limit = max(
            X.nbytes / device_copy_bandwidth(), 4 * n * k * Z.shape[0] / device_product_rate()
        )
        seconds = device_median(partial(summarize, Z))
        note = f"{seconds / limit:.2f} times the limit"
        lines.append(
            Line(
                f"{name} pass, n = {n}, d = {d}, k = {k}, float32",
                seconds,
                limit,
                "float32 products",
                "s",
                "<= 2.5 limits",
                note,
            )
        )
        del Z
    return lines


def coassociation_passes(
    n: int = 10_000_000, m: int = 100, k: int = 10, clusters: int = 30
) -> list[Line]:
    import torch

    from sfumato.numerics.label_table import Table
    from sfumato.similarity.coassociation import Coassociation

    from .roofline import device_median

    torch.manual_seed(0)
    codes = torch.randint(0, clusters, (n, m), device="cuda", dtype=torch.uint8)
    offsets = np.arange(0, m * (clusters + 1) + 1, clusters + 1)
    weight = np.ones(m * (clusters + 1))
    weight[offsets[1:] - 1] = 0.0
    C = Coassociation(Table(codes, offsets, weight, np.full(n, float(m))))
    U = torch.rand(n, k, device="cuda")
    seconds = device_median(lambda: C @ U, repeats=3)
    return [
        Line(
            f"implicit co-association product, n = {n}, m = {m}, k = {k}",
            seconds,
            5.0,
            "five seconds",
            "s",
            "< 5 s",
        )
    ]
