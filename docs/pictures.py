"""Draws the pictures of the model pages, membership functions and levels from their examples.

``python docs/pictures.py`` writes ``docs/_static/models/*.png``.
"""

import re
import warnings
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
EXAMPLE = re.compile(r"^## An example\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def draw(page: Path) -> None:
    """Run the example of a page and keep its figure."""
    found = EXAMPLE.search(page.read_text(encoding="utf-8"))
    if found is None:
        return
    exec(compile(found[1], str(page), "exec"), {})
    target = HERE / "_static" / "models" / f"{page.stem}.png"
    target.parent.mkdir(exist_ok=True)
    plt.gcf().savefig(target, dpi=100, metadata={"Software": None})
    plt.close("all")


if __name__ == "__main__":
    plt.switch_backend("Agg")
    warnings.simplefilter("ignore")
    others = [HERE / "membership-functions.md", HERE / "levels.md"]
    for page in [*sorted((HERE / "models").glob("*.md")), *others]:
        draw(page)
