"""Native modules: NumPy arrays need them, others do not; Ctrl-C is heard in them; one version."""

from __future__ import annotations

import _thread
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.native import kmeans, labels

ROOT = Path(sfumato.__file__).parent
WITHOUT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("sfumato.native."):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import numpy as np
import array_api_strict as xp
from sfumato.models.fuzzy import kernel as fuzzy
from sfumato.numerics import distances, simplex

rng = np.random.default_rng(0)
H, B, X = np.eye(3), rng.normal(size=(5, 3)), rng.normal(size=(2, 40))
Z = distances.features(X, "spherical")
ready = fuzzy.ready(fuzzy.State(rng.normal(size=(3, 2))), fuzzy.Rule(2.0))
calls = (
    lambda asarray: simplex.quadratic_program(asarray(H), asarray(B)),
    lambda asarray: fuzzy.summarize(asarray(Z), None, ready),
)
for call in calls:
    call(xp.asarray)
    try:
        call(np.asarray)
    except ImportError as error:
        print(error)
"""


def test_only_numpy_arrays_need_native_modules():
    pytest.importorskip("array_api_strict")
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    said = done.stdout.splitlines()
    assert len(said) == 2, done.stderr
    assert all("pip install" in line for line in said)


def interrupted(call) -> None:
    stop = threading.Timer(0.2, _thread.interrupt_main)
    stop.start()
    with pytest.raises(KeyboardInterrupt):
        call()


def test_ctrl_c_is_heard_while_a_native_loop_works():
    """Each of these would take minutes, and write nothing that is half done."""
    rng = np.random.default_rng(0)
    Z, w = rng.normal(size=(50_000, 4)), np.ones(50_000)
    interrupted(lambda: kmeans.lloyd(Z, w, Z[:10], 10**9, -1.0))
    codes = rng.integers(0, 3, (100_000, 200)).astype(np.uint8)
    offsets, U = np.arange(201) * 4, np.ones((100_000, 800))
    interrupted(lambda: labels.scatter(codes, offsets, U, None, np.zeros((800, 800))))


def test_the_build_has_the_version_and_the_modules_of_the_sources():
    build = ROOT.parents[1] / "meson.build"
    if not build.exists():
        pytest.skip("the sources are not here")
    assert re.search(r"version: '(.+)'", build.read_text())[1] == sfumato.__version__
    native = ROOT / "native"
    modules = re.search(r"modules = \[(.*?)\]", (native / "meson.build").read_text(), re.DOTALL)
    listed = re.findall(r"'(\w+)'", modules[1])
    assert sorted(listed) == sorted(path.stem for path in native.glob("*.pyx"))
