"""Five tables as people keep them, with the groups that made them and what a careful user would
cluster.
"""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_wine


class Messy(NamedTuple):
    """A file, its hidden groups, the same as clean numbers, and columns that are not to be
    clustered.
    """

    text: str
    groups: np.ndarray
    clean: np.ndarray
    aside: set[str]


def _hot(codes):
    return np.eye(codes.max() + 1)[codes]


def customers(seed=0):
    """Customers: currency, percentages, yes and no, regions, dates, names and an id."""
    rng = np.random.default_rng(seed)
    n = 240
    g = rng.integers(3, size=n)
    income = np.exp(rng.normal(np.array([10.2, 11.0, 11.8])[g], 0.15))
    discount = np.clip(rng.normal(np.array([20, 5, 12])[g], 2.5), 0, None)
    member = rng.random(n) < np.array([0.2, 0.5, 0.9])[g]
    region = np.array(
        [rng.choice(3, p=p) for p in np.array([[8, 1, 1], [1, 8, 1], [2, 2, 6]])[g] / 10]
    )
    lines = ["customer_id,name,joined,income,discount,member,region,comment"]
    for i in range(n):
        comment = f'"called twice, {rng.integers(10**6)}"' if i % 3 else ""
        lines.append(
            f"{70000 + 13 * i},Customer "
            f"{i},{rng.integers(2015, 2024)}-{rng.integers(1, 13):02d}-11,"
            f'"${income[i]:,.2f}",{discount[i]:.1f} %,{"yes" if member[i] else "no"},'
            f"{['North', 'South', 'none'][region[i]]},{comment}"
        )
    clean = np.column_stack([np.log(income), discount, member, _hot(region)])
    return Messy("\n".join(lines), g, clean, {"customer_id", "name", "joined", "comment"})


def laboratory(seed=1):
    """Blood counts with decimal commas, semicolons, gaps and a column that never changes."""
    rng = np.random.default_rng(seed)
    n = 210
    g = rng.integers(3, size=n)
    X = (
        rng.normal(size=(n, 4)) * [0.5, 12, 900, 0.02]
        + np.array([[5.0, 140, 7000, 0.9], [3.5, 90, 9500, 1.0], [6.5, 150, 12500, 0.8]])[g]
    )
    text = np.char.replace(np.char.mod("%.3f", X), ".", ",").astype(object)
    gaps = rng.random((n, 4)) < 0.04
    text[gaps] = rng.choice(["", "n/a", "-", "?"], gaps.sum())
    lines = ["Patient-Nr;Erythrozyten;Haemoglobin;Leukozyten;Quotient;Labor"]
    lines += [f"{3 * i + 1000};{';'.join(row)};Mitte" for i, row in enumerate(text)]
    filled = np.where(gaps, np.nan, X)
    filled = np.where(gaps, np.nanmedian(filled, axis=0), X)
    return Messy("\n".join(lines), g, filled, {"Patient-Nr", "Labor"})


def wine():
    """The wine data as pandas writes them: an index without a title, thirteen units."""
    data = load_wine()
    lines = [",".join(["", *data.feature_names])]
    lines += [f"{i},{','.join(f'{v:g}' for v in row)}" for i, row in enumerate(data.data)]
    return Messy("\n".join(lines), data.target, data.data, set())


def sensors(seed=2):
    """A log: time stamps, a counter, thousands with apostrophes, errors of a spreadsheet."""
    rng = np.random.default_rng(seed)
    n = 300
    g = np.repeat([0, 1, 2], 100)
    pressure = rng.normal(np.array([101_000, 99_000, 104_000])[g], 500)
    heat = rng.normal(np.array([20, 60, 35])[g], 4)
    speed = np.abs(rng.normal(np.array([100, 1500, 900])[g], 90))
    lines = ["n\ttime\tpressure\ttemperature\trevolutions\tstatus"]
    for i in range(n):
        force = f"{pressure[i]:,.0f} Pa".replace(",", "'")
        shown = "#N/A" if i % 41 == 7 else f"{heat[i]:.2f}"
        stamp = f"2024-03-{1 + i // 100:02d} {i % 24:02d}:{i % 60:02d}:00"
        lines.append(f"{i + 1}\t{stamp}\t{force}\t{shown}\t{speed[i]:,.1f}\tok")
    return Messy(
        "\n".join(lines),
        g,
        np.column_stack([pressure, heat, speed]),
        {"n", "time", "status"},
    )


def survey(seed=3):
    """Answers in words and on scales, first column of repeated values, many left blank."""
    rng = np.random.default_rng(seed)
    n = 320
    g = rng.integers(2, size=n)
    place = np.array([rng.choice(3, p=p) for p in np.array([[6, 3, 1], [1, 3, 6]])[g] / 10])
    answers = np.clip(np.rint(rng.normal(np.array([2.0, 4.0])[g][:, None], 0.9, (n, 5))), 1, 5)
    age = rng.normal(np.array([30, 52])[g], 8)
    gaps = rng.random((n, 5)) < 0.05
    words = np.where(gaps, "", np.char.mod("%d", answers))
    lines = ["place|q1|q2|q3|q4|q5|age|row"]
    for i in range(n):
        town = ["city", "suburb", "village"][place[i]]
        lines.append(f"{town}|{'|'.join(words[i])}|{age[i]:.0f}|{i + 1}")
    filled = np.where(gaps, np.median(answers, axis=0), answers)
    return Messy("\n".join(lines), g, np.column_stack([_hot(place), filled, age]), {"row"})


TABLES = {f.__name__: f for f in (customers, laboratory, wine, sensors, survey)}
