"""Write the front page of the deployed documentation: a list of its versions, newest first.

``python .ci/versions.py SITE`` looks at the folders of SITE, one for every version.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Sfumato: versions of the documentation</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<h1>Sfumato</h1>
<ul>
{items}
</ul>
</html>
"""


def order(name: str) -> list[int]:
    """Numbers of a version, so that v0.10.0 comes after v0.9.0; what is no version comes first."""
    return [int(part) for part in re.findall(r"\d+", name)]


def main(site: Path) -> None:
    """The list, and a redirection to the newest release, or to what there is."""
    names = [path.parent.name for path in site.glob("*/index.html")]
    names.sort(key=order, reverse=True)
    items = "\n".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in names)
    (site / "index.html").write_text(PAGE.format(newest=names[0], items=items), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
