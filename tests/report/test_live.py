"""The live report in a real browser: hover, click, slider, keyboard, search, phone, dark, print."""

import base64

import numpy as np
import pandas as pd
import pytest
from webdriver import CHROMIUM, DRIVER, Browser

from sfumato import report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER),
        reason="no Chromium with its driver: apt install chromium chromium-driver",
    ),
]
SHOWN = "return document.getElementById('count').textContent"
TIP = (
    "const t = document.querySelector('.tip'); return t.style.display === 'block' ? t.innerText : "
    "''"
)
RIGHT, ESCAPE = "\ue014", "\ue00c"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    group = np.arange(90) % 3
    frame = pd.DataFrame(
        {
            "size": 10 * group + rng.normal(size=90),
            "<i>weight": 9.0 * (group == 1) + rng.normal(size=90),
            "kind": np.array(["a", "b", "</script>"])[group],
        }
    )
    U = np.full((90, 3), 0.05)
    U[np.arange(90), group] = 0.9
    U[:9] = [0.4, 0.35, 0.25]
    path = tmp_path_factory.mktemp("page") / "report.html"
    names, classes = [f"object {i}" for i in range(90)], np.array(["x", "y", "zinc"])[group]
    return report.write(path, U, frame, names=names, classes=classes)


@pytest.fixture(scope="module")
def browser(page, tmp_path_factory):
    window = Browser(tmp_path_factory.mktemp("browser"))
    window.open(page)
    yield window
    window.close()


def test_it_lives(browser):
    assert browser.run("return document.documentElement.className") == "scripted"
    assert browser.run("return document.querySelectorAll('canvas.live').length") == 5
    assert browser.run(SHOWN) == "90 of 90 objects shown"
    inked = (
        "const c = document.querySelector('canvas'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; let n = 0;"
        "for (let i = 3; i < d.length; i += 4) n += d[i] > 100; return n"
    )
    assert browser.run(inked) > 500


def test_hovering_names_the_object(browser):
    browser.pointer("figure[data-live=bands] canvas", x=-200)
    said = browser.run(TIP)
    assert said.startswith("object ")
    assert "cluster 0 0." in said
    assert "<i>weight: " in said
    browser.pointer("h1")
    assert browser.run(TIP) == ""


def test_a_click_highlights_a_cluster_everywhere(browser):
    before = browser.run("return document.querySelector('[data-live=map] canvas').toDataURL()")
    browser.pointer("[data-level='3'] button[data-cluster='1']", press=True)
    assert browser.run(SHOWN) == "27 of 90 objects shown"
    chosen = "return document.querySelectorAll(\"[data-level='3'] article.chosen\").length"
    assert browser.run(chosen) == 1
    after = browser.run("return document.querySelector('[data-live=map] canvas').toDataURL()")
    assert before != after
    browser.pointer("[data-level='3'] button[data-cluster='1']", press=True)
    assert browser.run(SHOWN) == "90 of 90 objects shown"


def test_the_slider_keeps_the_uncertain(browser):
    move = (
        "const s = document.getElementById('certainty'); s.value = arguments[0]; "
        "s.dispatchEvent(new Event('input'))"
    )
    browser.run(move, 0.5)
    assert browser.run(SHOWN) == "9 of 90 objects shown"
    assert browser.run("return document.querySelectorAll('#objects tbody tr').length") == 9
    browser.run(move, 1)


def test_search_and_sort(browser):
    seek = (
        "const s = document.getElementById('search'); s.value = arguments[0]; s.dispatchEvent(new "
        "Event('input'))"
    )
    browser.run(seek, "OBJECT 8")
    assert browser.run(SHOWN) == "11 of 90 objects shown"
    browser.run(seek, "zinc")  # a known class
    assert browser.run(SHOWN) == "30 of 90 objects shown"
    browser.run(seek, "")
    first = "return document.querySelector('#objects tbody td').textContent"
    browser.run("document.querySelector('#objects th button').click()")
    assert browser.run(first) == "object 0"
    browser.run("document.querySelector('#objects th button').click()")
    assert browser.run(first) == "object 89"
    browser.run("document.querySelector('table.sorts th button').click()")


def test_any_pair_is_compared_and_the_map_coloured_by_any_column(browser):
    first = "return document.querySelector(\"[data-level='3'] .pairs tbody tr\").innerText"
    before = browser.run(first)
    pick = "const s = document.querySelector(arguments[0]); s.value = arguments[1]; "
    pick += "s.dispatchEvent(new Event('change', {bubbles: true}))"
    browser.run(pick, "[data-level='3'] .other", "2")
    assert browser.run(first) != before
    barred = "return document.querySelector(\"[data-level='3'] .one option[value='2']\").disabled"
    assert browser.run(barred)  # a cluster is not compared with itself
    assert browser.run(first).split()[0] in ("size", "kind", "<i>weight")
    drawn = "return document.querySelector('canvas').toDataURL()"
    still = browser.run(drawn)
    options = browser.run("return [...document.getElementById('colour').options].map(o => o.text)")
    assert set(options) == {"cluster", "class", "size", "<i>weight", "kind"}
    caption = "return document.querySelector('.blended').textContent"
    for place, title in enumerate(options[1:]):
        browser.run(pick, "#colour", str(place))
        assert browser.run(drawn) != still
        numeric = title in ("size", "<i>weight")
        how = "blue is low, orange is high" if numeric else "one for each value"
        assert browser.run(caption).startswith(f"The colour shows {title}: {how}; ")
    browser.run(pick, "#colour", "cluster")
    assert browser.run(drawn) == still
    assert browser.run(caption).startswith("The colour blends")


def test_the_level_regroups_pictures_and_tables(browser):
    turn = "const s = document.getElementById('level'); s.value = arguments[0]; "
    turn += "s.dispatchEvent(new Event('input'))"
    drawn = "return [...document.querySelectorAll('canvas')].map((part) => part.toDataURL())"
    seen = "return [...document.querySelectorAll('[data-level]')].every((part) => "
    seen += "part.hidden === (part.dataset.level !== arguments[0]))"
    names = "return [...document.querySelectorAll('#objects tbody tr')].map((row) => "
    names += "row.cells[1].textContent)"
    before = browser.run(drawn)
    assert browser.run(seen, "3")
    browser.run(turn, 0)
    assert browser.run(seen, "2")
    assert any("+" in name for name in browser.run(names))
    assert browser.run("return document.querySelector('[data-live=simplex]').hidden")
    after = browser.run(drawn)
    assert sum(one != other for one, other in zip(before, after, strict=True)) >= 4
    browser.pointer("[data-level='2'] button[data-cluster='1']", press=True)
    assert "of 90 objects shown" in browser.run(SHOWN)
    browser.run(turn, 1)
    assert browser.run(seen, "3")
    assert browser.run(drawn) == before
    assert browser.run(SHOWN) == "90 of 90 objects shown"


def test_the_keyboard_walks_from_object_to_object(browser):
    browser.run("document.querySelector('[data-live=map] canvas').focus()")
    browser.keys(RIGHT)
    first = browser.run(TIP)
    browser.keys(RIGHT)
    assert first.startswith("object ")
    assert browser.run(TIP) not in ("", first)
    browser.keys(ESCAPE)
    assert browser.run(TIP) == ""


def test_it_prints(browser):
    assert base64.b64decode(browser.printed())[:4] == b"%PDF"


def test_a_phone_in_the_dark(page, tmp_path):
    window = Browser(tmp_path, width=390, height=800, dark=True)
    try:
        window.open(page)
        assert window.run("return document.documentElement.className") == "scripted"
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert window.run(wide) <= 0
        paper = "return getComputedStyle(document.body).backgroundColor"
        assert window.run(paper) == "rgb(18, 22, 28)"
    finally:
        window.close()
