"""When compiled kernels are used: from disk always, compiled anew only for very many objects."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import sfumato
from sfumato.core import arrays

pytest.importorskip("numba")

FIT = """
import numpy as np
import sfumato
from numba.core import event

class Count(event.Listener):
    n = 0
    def on_start(self, event):
        Count.n += 1
    def on_end(self, event):
        pass

event.register("numba:compile", Count())
{first}
X = np.random.default_rng(0).normal(size=(60, 2))
X[30:] += 9.0
for name in ("FuzzyCMeans", "GaussianMixture", "PairwiseProbabilisticClustering",
             "EvidenceAccumulation", "SpectralClustering"):
    U = getattr(sfumato, name)(2, random_state=0).fit(X).memberships_
    assert np.array_equal(U.argmax(axis=1)[:30] == U.argmax(axis=1)[0], np.full(30, True)), name
print(Count.n)
"""


def compilations(folder, first: str = "") -> int:
    """How many functions a new process compiles in small fits, with compiled forms in a folder."""
    code = FIT.format(first=first)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])


def test_the_first_small_fits_compile_nothing(tmp_path):
    assert compilations(tmp_path) == 0
    assert not list(tmp_path.rglob("*.nbi"))


@pytest.mark.slow
def test_kernels_are_compiled_once_for_all_later_processes(tmp_path):
    assert compilations(tmp_path, "sfumato.compile_kernels()") > 50
    assert compilations(tmp_path) == 0
    kept = {path.name.split(".")[0] for path in tmp_path.rglob("*.nbi")}
    root = os.path.dirname(sfumato.__file__)
    twins = {
        name[:-3]
        for _, _, files in os.walk(root)
        for name in files
        if name.startswith("compiled") and name.endswith(".py")
    }
    assert twins <= kept


@pytest.fixture
def fresh(monkeypatch):
    """The module as it is at the start of a process."""
    monkeypatch.setattr(arrays, "_state", {"compile": False, "whole": False})
    monkeypatch.setattr(arrays, "_asked", set())
    kept = arrays._kept
    kept.cache_clear()
    yield arrays
    kept.cache_clear()


def test_very_many_objects_are_worth_a_compilation(fresh, monkeypatch):
    monkeypatch.setattr(fresh, "_kept", lambda *names: False)
    names = ("sfumato.numerics", "compiled_simplex")
    fresh.compile_for(fresh.MANY_OBJECTS - 1)
    assert fresh.compiled_module(*names) is None
    fresh.compile_for(fresh.MANY_OBJECTS)
    assert fresh.compiled_module(*names) is fresh.optional_module(*names)
    fresh.compile_for(1)  # what is compiled stays in use
    assert fresh.compiled_module(*names) is not None


def test_a_large_fit_asks_for_compiled_kernels(fresh, monkeypatch):
    monkeypatch.setattr(fresh, "MANY_OBJECTS", 50)
    X = np.random.default_rng(0).normal(size=(50, 2))
    sfumato.FuzzyCMeans(2, random_state=0).fit(X[:49])
    assert not fresh._state["compile"]
    sfumato.FuzzyCMeans(2, random_state=0).fit(X)
    assert fresh._state["compile"]


def test_forms_older_than_their_source_do_not_count(fresh, tmp_path, monkeypatch):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    source = package / "compiled_one.py"
    source.write_text("__all__ = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    index = package / "__pycache__" / f"compiled_one.f-1.{version}.nbi"
    index.parent.mkdir(exist_ok=True)
    assert not fresh._kept("pack", "compiled_one")
    index.write_text("")
    fresh._kept.cache_clear()
    assert fresh._kept("pack", "compiled_one")
    earlier = source.stat().st_mtime - 10
    os.utime(index, (earlier, earlier))
    fresh._kept.cache_clear()
    assert not fresh._kept("pack", "compiled_one")
    assert not fresh._kept("pack", "compiled_none")
    with fresh.compiling():
        assert fresh.compiled_module("pack", "compiled_one") is not None
    fresh._kept.cache_clear()
    assert fresh._kept("pack", "compiled_one")  # compiled again, or found as good as new
    with pytest.raises(KeyboardInterrupt), fresh.compiling(whole=True):
        raise KeyboardInterrupt
    fresh._kept.cache_clear()
    assert not fresh._kept("pack", "compiled_one")  # what a stopped compilation left is not enough
    with fresh.compiling(whole=True):
        pass
    fresh._kept.cache_clear()
    assert fresh._kept("pack", "compiled_one")


KILLED = """
import os, pathlib, signal, sys
from sfumato.core.arrays import _kept, compiled_module, compiling

print(_kept("pack", "compiled_one"))
with compiling(whole=True):
    compiled_module("pack", "compiled_one")
    pathlib.Path(sys.argv[1]).write_text("")  # the first kernel is there
    os.kill(os.getpid(), int(sys.argv[2]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_compilation_that_was_killed_is_not_whole(tmp_path, number):
    """Forms of some kernels are on disk then: a small fit would wait for the others."""
    package = tmp_path / "pack"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "compiled_one.py").write_text("__all__ = []\n")
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    index = package / "__pycache__" / f"compiled_one.f-1.{version}.nbi"
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    environment.pop("NUMBA_CACHE_DIR", None)
    said = []
    for sent in (number, 0, number, number):  # 0 asks only whether the process is there
        words = [sys.executable, "-c", KILLED, str(index), str(int(sent))]
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        said.append(done.stdout.strip())
    assert said == ["False", "False", "True", "False"]


NOWHERE = """
from numba.core import caching

caching.CacheImpl._locator_classes = []  # as where nothing can be written
import numpy as np
import sfumato

X = np.random.default_rng(0).normal(size=(12, 2))
sfumato.FuzzyCMeans(2, random_state=0).fit(X)
sfumato.CompletelyPositiveFactorization(2, max_iter=2, random_state=0).fit(X)
model = sfumato.DirichletProcessMixture(inference="gibbs", burn_in=1, n_draws=4, random_state=0)
print(len(model.fit(X).labels_))
try:
    sfumato.compile_kernels()
except PermissionError as error:
    print(error.strerror)
"""


def test_without_a_folder_for_compiled_forms_numpy_is_used(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", NOWHERE], env=environment, capture_output=True, text=True
    )
    number, said = done.stdout.splitlines()
    assert (number, "set NUMBA_CACHE_DIR" in said) == ("12", True), done.stderr


def test_ctrl_c_while_a_compiled_function_works_is_ctrl_c():
    """Numba makes a SystemError of it where the function returns arrays."""
    lloyd = arrays.optional_module("sfumato.numerics", "compiled_kmeans").lloyd
    Z = np.random.default_rng(0).normal(size=(50_000, 4))
    lloyd(Z[:50], np.ones(50), Z[:10].copy(), 2, -1.0)
    stop = threading.Timer(0.05, _thread.interrupt_main)
    stop.start()
    with pytest.raises(KeyboardInterrupt):
        lloyd(Z, np.ones(len(Z)), Z[:10].copy(), 600, -1.0)
