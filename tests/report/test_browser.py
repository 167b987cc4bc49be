"""The page in a real browser: it loads in silence, and what should move moves."""

import time

import pytest

from kvicreg.report.page import write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(three_runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return write_report(three_runs[:1], folder / "one.html"), write_report(three_runs, folder / "three.html")


@pytest.fixture
def one(load_page, pages, wait_for):
    browser = load_page(pages[0].as_uri())
    wait_for(lambda: browser.execute_script("return document.querySelectorAll('.plot svg').length > 5"))
    return browser


def pointer(browser, index: int, kind: str) -> None:
    """Move or click the mouse at the place of an image on the first map, computed from the data in the page."""
    place = browser.execute_script(
        """const data = JSON.parse(document.getElementById('data').textContent);
        const canvas = document.querySelector('#maps canvas');
        canvas.scrollIntoView({block: 'center', behavior: 'instant'});
        const box = canvas.getBoundingClientRect(), p = data.runs[0].map.points, i = arguments[0];
        const at = (v) => 14 + (v / 1000) * (box.width - 28);
        return [box.left + at(p[2 * i]), box.top + at(p[2 * i + 1])];""",
        index,
    )
    events = {"move": ["mouseMoved"], "click": ["mousePressed", "mouseReleased"]}[kind]
    for event in events:
        command = {"type": event, "x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        browser.execute_cdp_cmd(
            "Input.dispatchMouseEvent", command if kind == "click" else command | {"button": "none"}
        )


def test_both_pages_load_without_a_console_message_or_a_network_request(load_page, pages):
    for page in pages:
        browser = load_page(page.as_uri())
        time.sleep(0.5)
        assert browser.get_log("browser") == []
        sent = [
            entry["message"] for entry in browser.get_log("performance") if 'requestWillBeSent"' in entry["message"]
        ]
        assert all('"url":"file://' in message or '"url":"data:' in message for message in sent)
        assert (
            browser.execute_script(
                "return performance.getEntriesByType('resource').filter((e) => !e.name.startsWith('data:')).length"
            )
            == 0
        )


def test_the_slider_moves_the_spectrum(one):
    def line() -> str:
        return one.execute_script("return [...document.querySelectorAll('#spectrum-chart polyline')].at(-1).outerHTML")

    before, epoch = line(), one.find_element("id", "spectrum-epoch").text
    one.execute_script(
        """const s = document.getElementById('spectrum-slider');
        s.value = 0; s.dispatchEvent(new Event('input', {bubbles: true}));"""
    )
    assert line() != before
    assert one.find_element("id", "spectrum-epoch").text == "epoch 0" != epoch
    one.find_element("id", "spectrum-slider").send_keys("\ue014")  # the right arrow key
    assert one.find_element("id", "spectrum-epoch").text == "epoch 1"


def test_hovering_shows_the_image_and_clicking_its_neighbours(one, wait_for):
    assert not one.find_elements("css selector", ".neighbours .chosen")
    pointer(one, 5, "move")
    tip = wait_for(lambda: one.find_elements("css selector", ".tip.picture:not([hidden]) .thumb"))[0]
    assert "data:image/webp" in tip.value_of_css_property("background-image")
    pointer(one, 5, "click")
    titles = [e.text for e in wait_for(lambda: one.find_elements("css selector", ".neighbours h4"))]
    assert titles[0].startswith("Nearest by the encoder")
    assert titles[1].startswith("Nearest by raw pixels")
    assert len(one.find_elements("css selector", ".neighbours li .thumb")) == 12


def test_the_map_can_be_read_by_keyboard(one, wait_for):
    canvas = one.find_element("css selector", "#maps canvas")
    one.execute_script("arguments[0].focus()", canvas)
    canvas.send_keys("\ue014")
    wait_for(lambda: one.find_elements("css selector", ".tip.picture:not([hidden])"))
    canvas.send_keys("\ue007")
    wait_for(lambda: one.find_elements("css selector", ".neighbours .chosen"))


def test_charts_are_named_and_have_their_numbers_in_a_table(one, wait_for):
    charts = one.find_elements("css selector", ".plot svg[role=img]")
    assert all(len(chart.get_attribute("aria-label")) > 20 for chart in charts)
    one.execute_script("document.querySelector('#training-charts details').open = true")
    rows = wait_for(lambda: one.find_elements("css selector", "#training-charts table tr"))
    assert len(rows) == 5, "a heading and four epochs"


def test_the_theme_switches_and_no_width_scrolls_sideways(one):
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = one.execute_script(colour)
    one.find_element("id", "theme").click()
    assert one.execute_script(colour) != before
    for width in (360, 800, 1400):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        one.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        assert one.execute_script("return document.documentElement.scrollWidth") <= width
    one.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_three_runs_have_three_maps_linked_by_image(load_page, pages, wait_for):
    browser = load_page(pages[1].as_uri())
    wait_for(lambda: len(browser.find_elements("css selector", "#maps canvas")) == 3)
    captions = [e.text for e in browser.find_elements("css selector", "#maps figcaption")]
    assert captions == ["rbf", "laplacian", "<b>vic&reg"], "names are text, never markup"
    pointer(browser, 3, "click")
    wait_for(lambda: len(browser.find_elements("css selector", ".neighbours h4")) == 4)


def test_every_text_colour_has_enough_contrast_in_both_themes(one):
    ratio = """
      const lum = (c) => { const v = c.match(/[0-9.]+/g).slice(0, 3).map((x) => x / 255).map((x) => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
      const probe = document.createElement('span'); document.body.append(probe);
      const shown = (name) => { probe.style.color = `var(${name})`; return lum(getComputedStyle(probe).color); };
      document.documentElement.dataset.theme = arguments[0];
      const found = ['--ink', '--soft', '--accent', '--good', '--bad'].map((name) => { const a = shown(name), b = shown('--card'); return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); });
      probe.remove(); return Math.min(...found);"""  # noqa: E501
    for theme in ("light", "dark"):
        assert one.execute_script(ratio, theme) >= 4.5
