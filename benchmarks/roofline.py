"""What the machine itself can do.

Bytes copied and floating-point operations in products, by the second, measured where it runs.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.array.arrays import cpu_count

from .timing import medians


@lru_cache
def copy_bandwidth() -> float:
    """Bytes a second, read and written, of a large copy."""
    source = np.ones(2**26)
    target = np.empty_like(source)
    return 2 * source.nbytes / medians({"copy": lambda: np.copyto(target, source)})["copy"]


@lru_cache
def cache_bandwidth() -> float:
    """Bytes a second, read and written, of copies within the second cache, on every core."""
    source = np.ones(2**15)
    target = np.empty_like(source)

    def copies() -> None:
        for _ in range(500):
            np.copyto(target, source)

    one = 500 * 2 * source.nbytes / medians({"copies": copies})["copies"]
    return cpu_count() * one


@lru_cache
def product_rate(dtype: str = "float64") -> float:
    """Operations a second of a large matrix product."""
    A = np.random.default_rng(0).random((2048, 2048)).astype(dtype)
    return 2 * 2048**3 / medians({"product": lambda: A @ A})["product"]


def limit(n_bytes: float, n_operations: float, dtype: str = "float64") -> float:
    """Seconds that moving so many bytes or doing so many operations takes at least."""
    return max(n_bytes / copy_bandwidth(), n_operations / product_rate(dtype))


def said() -> str:
    """The two rates in words."""
    return (
        f"copies {copy_bandwidth() / 1e9:.1f} GB/s, float64 products {product_rate() / 1e9:.0f} "
        "Gflop/s"
    )


@lru_cache
def device_copy_bandwidth() -> float:
    """As ``copy_bandwidth``, on the CUDA device."""
    import torch

    source = torch.rand(2**30, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / device_median(lambda: target.copy_(source))


@lru_cache
def device_product_rate() -> float:
    """As ``product_rate``, in float32 on the CUDA device."""
    import torch

    A = torch.rand(8192, 8192, device="cuda")
    return 2 * 8192**3 / device_median(lambda: A @ A)


def device_median(function, repeats: int = 11) -> float:
    """Median seconds until the device has finished; three calls go ahead."""
    import statistics
    import time

    import torch

    times = []
    for _ in range(3 + repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:])
