"""Real tables that no rule was chosen on, beside the peers of ``benchmarks quality``.

Mean adjusted Rand index over the files of ``--data DIR`` alone; without a folder nothing is run.
"""

from __future__ import annotations

from .bench_quality import compare, given
from .timing import Line

TITLE = "Real tables kept aside: mean adjusted Rand index"


def run() -> list[Line]:
    tables = given()
    return compare({"tables kept aside": tables}) if tables else []
