"""The report: everything it says is true, nothing in it runs, and a real browser shows it."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from sfumato import GaussianMixture, plot, report
from sfumato.report._page import Facts, trust

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>document.title='owned'</script>",
    "{{ 7 * 7 }}",
    "[/]",
    "=cmd()",
    "$\\frac{$",
    "../../x",
    "n" * 300,
    "🙂",
    "\u202egnp.exe",
    "\ud800",
]
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
browser = pytest.mark.skipif(
    CHROMIUM is None,
    reason=(
        "no Chromium on this machine: install it (Debian: apt install chromium) to look at the "
        "report"
    ),
)


def soft(n=40, k=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.4), size=n)


@pytest.fixture(scope="module")
def hostile_page():
    U = soft(len(HOSTILE))
    facts = report.Facts(
        coordinates=np.arange(2.0 * len(U)).reshape(-1, 2),
        similarity=U @ U.T,
        history=[3.0, 2.0, 1.5],
        selection={"n_clusters": [2, 3], "scores": [0.1, 0.2], "name": HOSTILE[6]},
        class_title=HOSTILE[6],
        converged=False,
        warnings=HOSTILE,
        metrics={HOSTILE[1]: 0.5},
        made={HOSTILE[1]: HOSTILE[0]},
    )
    return report.render(
        U,
        title=HOSTILE[0],
        names=HOSTILE,
        cluster_names=HOSTILE[:3],
        classes=HOSTILE,
        facts=facts,
    )


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found, self.attributes = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.attributes += attrs


def test_no_name_becomes_markup(hostile_page):
    tags = Tags(hostile_page)
    assert tags.found.count("script") == 2
    held = json.loads(re.search(r'id="data">(.*?)</script>', hostile_page, re.S).group(1))
    assert held["names"][0] == HOSTILE[0]
    assert tags.found.count("img") == tags.found.count("picture") == 9
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name == "style"]
    assert "{{ 7 * 7 }}" in hostile_page
    assert "\u202e" not in hostile_page


def test_nothing_is_loaded(hostile_page):
    tags = Tags(hostile_page)
    addresses = [value for name, value in tags.attributes if name in ("src", "srcset", "href")]
    assert addresses
    assert all(value.startswith("data:image/svg+xml;base64,") for value in addresses)
    assert "default-src 'none'" in hostile_page


def test_the_answer_is_right():
    U = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.0, 1.0]])
    page = report.render(U, names=["ada", "bea", "cy", "dee"])
    assert "4 objects in 2 clusters" in page
    row = re.search(r"<bdi>cluster 0</bdi>.*?</tr>", page, re.S).group()
    assert re.findall(r'number">([^<]+)<', row) == ["2", "2.1", "0.85"]
    doubtful = page[page.index('id="doubtful"') : page.index('id="objects-title"')]
    order = [doubtful.index(name) for name in ("cy", "bea", "ada")]
    assert order == sorted(order)
    assert "dee" not in doubtful


def test_the_same_input_gives_the_same_bytes():
    U = soft()
    facts = report.Facts(history=[2.0, 1.0])
    assert report.render(U, facts=facts) == report.render(U, facts=facts)


@pytest.mark.parametrize(
    "U, said",
    [
        (np.full((50, 4), 0.25), "Memberships are uncertain"),
        (np.eye(2)[np.arange(50) % 2], "Almost every membership is 0 or 1"),
        (np.eye(3)[np.arange(50) % 2], "are the label of no object"),
        (np.eye(2)[(np.arange(500) == 7).astype(int)], "very small"),
        (np.ones((5, 1)), "One cluster: as asked for"),
    ],
)
def test_trust_names_what_is_wrong(U, said):
    assert said in report.render(U)


def test_trust_says_whether_the_search_ended():
    U = soft()
    assert "converged" not in report.render(U, facts=report.Facts(converged=True))
    assert "before it converged" in report.render(U, facts=report.Facts(converged=False))


def test_one_verdict_comes_first():
    facts = report.Facts(verdict={"kind": "good", "text": "<Clear>"})
    page = report.render([[0.9, 0.1], [0.2, 0.8]], facts=facts)
    assert page.index("&lt;Clear&gt;") < page.index("What the answer rests on")
    assert "Untested: whether the 2 clusters" in report.render([[0.9, 0.1], [0.2, 0.8]])


def test_the_numbers_that_a_model_compared_are_drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + 9 * (np.arange(60) % 2)[:, None]
    model = GaussianMixture([1, 2, 3], covariance_type="tied", random_state=0).fit(X)
    assert "Number of clusters" in report.render(model, X)
    assert "Number of clusters" not in report.render(GaussianMixture(2, random_state=0).fit(X), X)


def test_tables_of_every_level_are_sums_of_the_finest():
    rng = np.random.default_rng(0)
    group = np.arange(120) % 4
    X = np.array([[0, 0], [4, 0], [30, 0], [30, 9]])[group] + rng.normal(size=(120, 2))
    model = GaussianMixture(4, covariance_type="full", random_state=0).fit(X)
    page = report.render(model, X)
    held = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
    finest = np.array(held["memberships"]) / 1000
    for level in held["levels"]:
        k = len(level["clusters"])
        part = page[page.index(f'<div data-level="{k}"') :]
        sizes = re.findall(r'number">[^<]+</td><td class="number">([\d.,]+)', part)[:k]
        sums = np.eye(k)[level["parents"]]
        np.testing.assert_allclose((finest @ sums).sum(0), np.array(sizes, float), atol=0.2)
        np.testing.assert_allclose(model.at(k), finest @ sums, atol=2e-3)
        assert f"120 objects in {k} clusters" in page
    assert [len(level["clusters"]) for level in held["levels"]] == [2, 3, 4]
    assert [level["own"] for level in held["levels"]] == [False, False, True]
    assert held["levels"][0]["clusters"][0].count("+") >= 1


def test_many_objects_make_a_small_page():
    n = 100_000
    U = soft(n, 3)
    shown, coordinates, axes = report.plane(np.random.default_rng(0).normal(size=(n, 5)))
    facts = report.Facts(coordinates=coordinates, shown=shown, axes=axes)
    page = report.render(U, names=range(n), facts=facts)
    assert len(coordinates) == 3000
    assert "3,000 of 100,000 objects" in page
    assert len(page) < 5_000_000


def test_the_plane_is_that_of_largest_variance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1)) @ rng.normal(size=(1, 6)) + 1e-3 * rng.normal(size=(200, 6))
    shown, coordinates, _ = report.plane(X)
    assert np.array_equal(shown, np.arange(200))
    assert coordinates[:, 0].var() > 1000 * coordinates[:, 1].var()
    np.testing.assert_array_equal(report.plane(X[:, :2])[1], X[:, :2])
    assert np.isfinite(report.plane(np.array([[np.nan, 1, 2], [np.nan, 3, np.nan]]))[1]).all()
    assert report.plane(np.ones((4, 1)))[1].shape == (4, 2)


def test_write_is_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="one name for each"):
        report.write(path, soft(), names=["a"])
    assert path.read_text() == "old"
    report.write(path, soft())
    assert path.read_text(encoding="utf-8").endswith("</html>")
    assert list(tmp_path.iterdir()) == [path]


def chromium(tmp_path, *arguments):
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    return subprocess.run(
        [*command, *arguments], capture_output=True, timeout=120, check=True, encoding="utf-8"
    ).stdout


@browser
def test_a_browser_runs_nothing(hostile_page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(hostile_page, encoding="utf-8", errors="backslashreplace")
    page = chromium(tmp_path, "--dump-dom", f"file://{path}")
    assert Tags(page).found.count("script") == 2
    assert "<title>&lt;/script&gt;" in page
    assert '<html lang="en" class="scripted">' in page


@browser
def test_a_browser_shows_it_on_a_phone_without_sideways_scrolling(hostile_page, tmp_path):
    path = tmp_path / "phone.html"
    page = html.escape(hostile_page.encode("utf-8", "backslashreplace").decode())
    measure = """
    onload = () => {
      const page = document.querySelector("iframe").contentDocument, images = [...page.images];
      const drawn = images.filter(image => image.naturalWidth);
      const found = [page.documentElement.scrollWidth, images.length, drawn.length];
      document.querySelector("p").textContent = found.join(" ");
    }"""
    frame = f'<iframe style="border:0;width:390px;height:900px" srcdoc="{page}"></iframe>'
    path.write_text(f"{frame}<p></p><script>{measure}</script>", encoding="utf-8")
    width, images, drawn = map(
        int,
        re.search(
            r"<p>(\d+) (\d+) (\d+)</p>", chromium(tmp_path, "--dump-dom", f"file://{path}")
        ).groups(),
    )
    assert width <= 390
    assert images == drawn > 5


@browser
@pytest.mark.parametrize("scheme, bright", [("1", True), ("0", False)])
def test_a_browser_follows_light_and_dark(scheme, bright, tmp_path):
    from matplotlib.image import imread

    facts = report.Facts(history=[2.0, 1.0], similarity=plot.block_means(np.eye(40)))
    path = report.write(tmp_path / "report.html", soft(), facts=facts)
    picture = tmp_path / "picture.png"
    chromium(
        tmp_path,
        "--window-size=900,1600",
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--screenshot={picture}",
        f"file://{path}",
    )
    pixels = imread(picture)[..., :3]
    assert (np.median(pixels) > 0.9) == bright
    assert pixels.std() > 0.02


def test_what_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"GaussianMixture is not fitted: call fit\(X\) first"):
        report.write(tmp_path / "x.html", GaussianMixture(3))
    with pytest.raises(FileNotFoundError, match=r"no folder .*missing to write x\.html to"):
        report.write(tmp_path / "missing" / "x.html", [[0.9, 0.1]])


def test_options_of_the_command_line_are_not_broken():
    facts = Facts(warnings=["<b> name it in --class-column"])
    page = report.render([[0.9, 0.1], [0.2, 0.8]], facts=facts)
    assert '&lt;b&gt; name it in <span class="option">--class-column</span>' in page


def test_classes_are_compared_with_as_many_clusters():
    U, facts = np.repeat(np.eye(2), 10, axis=0), Facts(metrics={"matched accuracy": 0.9})
    assert trust(U, facts, ["a", "b"] * 10)["accuracy"] == 0.9
    assert trust(U, facts, ["a", "b", "c", "d"] * 5)["accuracy"] is None
