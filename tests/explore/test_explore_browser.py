"""The page in a real browser: everything on it works, in silence, and no request leaves this machine."""

from __future__ import annotations

import json
import threading
from queue import Queue

import numpy as np
import pytest
from photographs import draw

from kvicreg.explore import open_images, session
from kvicreg.explore.server import serve

pytestmark = pytest.mark.browser
MARKUP = "<img src=x onerror=document.title='taken'>"


@pytest.fixture(scope="module")
def served(album):
    """A session, and the address at which it is served; its UMAP is what an earlier visit has left."""
    draw(1, 4).save(album / "photos" / "green" / f"{MARKUP}.jpg", quality=70)
    images = open_images("pixels", album / "photos", cache=album / "cache")
    angles = np.linspace(0, 2 * np.pi, len(images), endpoint=False)
    np.save(images.folder / "umap.npy", np.stack((np.cos(angles), np.sin(angles)), 1).astype(np.float32) * 0.8)
    made, addresses = session.Session(images, album / "labels.csv"), Queue()
    threading.Thread(target=serve, args=(made,), kwargs={"ready": addresses.put}, daemon=True).start()
    yield made, addresses.get(timeout=60)
    made.close()


@pytest.fixture
def page(load_page, served, wait_for):
    """The page, loaded anew; at its end nothing has been complained of and no request has left this machine."""
    _, address = served
    browser = load_page(address)
    wait_for(lambda: browser.execute_script("return kvicreg.state.parts.umap === 'ready'"))
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert f"{address}state" in sent
    assert [url for url in sent if not url.startswith((address, "blob:", "data:", "chrome://"))] == []


def mouse(browser, kind, x, y, **more):
    command = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, **more}
    browser.execute_cdp_cmd("Input.dispatchMouseEvent", command)


def place(browser, index):
    """Where an image is in the window."""
    return browser.execute_script(
        """const box = document.getElementById('overlay').getBoundingClientRect();
        const [x, y] = kvicreg.map.screen(arguments[0]);
        return [box.left + x, box.top + y];""",
        index,
    )


def click(browser, index):
    x, y = place(browser, index)
    mouse(browser, "mousePressed", x, y)
    mouse(browser, "mouseReleased", x, y)


def press(browser, key):
    browser.switch_to.active_element.send_keys(key)


def names(browser, css):
    return browser.execute_script(f"return [...document.querySelectorAll('{css} .grid button')].map((b) => b.title)")


def test_the_map_is_drawn_in_colour_and_points_at_images(page, wait_for):
    drawn = """const { points, size, camera } = kvicreg.map, { gl } = points, [x, y] = kvicreg.map.screen(0);
      const d = points.canvas.height / size[1], pixel = new Uint8Array(4);
      points.draw(camera, ...size, d, false);
      gl.readPixels(x * d, gl.drawingBufferHeight - y * d, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
      return [...pixel];"""
    colour = page.execute_script(drawn)
    assert colour[3] > 100
    assert max(colour[:3]) - min(colour[:3]) > 30
    x, y = place(page, 5)
    mouse(page, "mouseMoved", x, y, button="none")
    wait_for(lambda: page.find_element("id", "tip").is_displayed())
    assert page.find_element("id", "tip").text == "image 5"


def test_a_click_shows_the_image_between_its_neighbours(page, served, wait_for):
    original = served[0].images.names.index("green/004.png")
    click(page, original)
    wait_for(lambda: names(page, "#chosen"))
    assert page.find_element("css selector", "#chosen strong").text == "green/004.png"
    shown = names(page, "#chosen")
    assert len(shown) == 24
    assert shown[0] == shown[12] == f"green/{MARKUP}.jpg", "names are text, never markup"
    assert "taken" not in page.title


def test_zooming_in_shows_pictures_on_the_map(page, wait_for):
    x, y = place(page, 0)
    for _ in range(3):
        mouse(page, "mouseWheel", x, y, deltaX=0, deltaY=-300)
    wait_for(lambda: page.execute_script("return kvicreg.map.camera.zoom > 2 && kvicreg.map.pictured > 0"))
    press(page, "0")
    assert page.execute_script("return kvicreg.map.camera.zoom") == 1


def test_a_slow_machine_draws_fewer_points_while_the_map_moves_and_all_when_it_rests(page, wait_for):
    budgets = page.execute_script(
        """const { points } = kvicreg.map; points.count = points.budget = 100000;
        const budgets = [3000, 900, 500, 10].map((took) => { points.adapt(took); return points.budget; });
        points.count = points.budget = kvicreg.map.count;
        kvicreg.map.pan(1, 1);
        return budgets;"""
    )
    assert budgets[0] == 40000
    assert budgets[1] < 20000
    assert budgets[2] < budgets[1]
    assert budgets[3] > budgets[2]
    wait_for(
        lambda: page.execute_script("return !kvicreg.map.moving && kvicreg.map.points.drawn === kvicreg.map.count")
    )


def test_examples_and_a_dropped_image_search(page, served, wait_for, tmp_path):
    click(page, served[0].images.names.index("green/002.png"))
    wait_for(lambda: names(page, "#chosen"))
    press(page, "p")
    wait_for(lambda: len(names(page, "#matches")) == 24)
    assert names(page, "#matches")[0].startswith("green")
    draw(0, 7).save(tmp_path / "dropped.png")
    page.find_element("id", "file").send_keys(str(tmp_path / "dropped.png"))
    wait_for(lambda: names(page, "#matches")[:1] == ["red <b>/007.png"])
    page.execute_script(
        """const data = new DataTransfer(), bytes = new Uint8Array(await (await fetch('picture/3/96')).arrayBuffer());
        data.items.add(new File([bytes], 'again.webp'));
        document.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));"""
    )
    wait_for(lambda: "again.webp" in page.find_element("id", "matches").text and names(page, "#matches"))
    assert names(page, "#matches")[0] == served[0].images.names[3]


def test_the_lasso_selects_what_it_surrounds(page, wait_for):
    page.find_element("id", "lasso").click()
    (x, y), around = place(page, 0), 30
    mouse(page, "mousePressed", x - around, y - around)
    for dx, dy in ((1, -1), (1, 1), (-1, 1)):
        mouse(page, "mouseMoved", x + dx * around, y + dy * around)
    mouse(page, "mouseReleased", x - around, y + around)
    wait_for(lambda: page.find_element("id", "selection").is_displayed())
    inside = page.execute_script(
        """const [x, y] = kvicreg.map.screen(0), near = ([px, py]) => Math.abs(px - x) < 30 && Math.abs(py - y) < 30;
        return [...Array(kvicreg.map.count).keys()].filter((i) => near(kvicreg.map.screen(i)));"""
    )
    assert sorted(page.execute_script("return [...kvicreg.selection]")) == inside
    assert 0 < len(inside) < 20
    press(page, "\ue00c")  # Escape
    assert not page.find_element("id", "selection").is_displayed()


def test_filters_and_colours_follow_the_legend(page, wait_for):
    page.execute_script(
        "const s = document.getElementById('colour'); s.value = 'folder'; s.dispatchEvent(new Event('change'))"
    )
    chip = "[...document.querySelectorAll('#legend button')].find((b) => b.innerText.trim() === 'red <b>')"
    wait_for(lambda: page.execute_script(f"const chip = {chip}; chip?.click(); return Boolean(chip)"))
    wait_for(lambda: page.execute_script("return kvicreg.map.shown.reduce((a, b) => a + b, 0)") == 20)
    field = page.find_element("id", "text")
    field.send_keys("/00\n")
    wait_for(lambda: page.execute_script("return kvicreg.map.shown.reduce((a, b) => a + b, 0)") == 10)


def test_dragging_the_threshold_changes_the_groups(page, wait_for):
    page.find_element("id", "tab-clean").click()
    count = page.find_element("id", "duplicates-count")
    drag = "const t = document.getElementById('threshold'); t.value = arguments[0]; t.dispatchEvent(new Event('input'))"
    page.execute_script(drag, 0.9)
    wait_for(lambda: "2 images in 1 group; mirror images counted" in count.text)
    page.execute_script(drag, 0.995)
    wait_for(lambda: "0 images in 0 groups" in count.text)
    assert names(page, "#outliers")
    assert "no copies" in page.find_element("id", "problems").text


def test_labels_are_given_by_key_and_a_reload_keeps_them(page, served, wait_for):
    made = served[0]
    page.find_element("id", "tab-label").click()
    for name in ("green", "red"):
        page.find_element("id", "class-name").send_keys(f"{name}\n")
        wait_for(lambda name=name: page.find_elements("css selector", f"[data-class={name}]"))
    page.execute_script("document.activeElement.blur()")
    for clicks in range(1, 5):
        wait_for(lambda: page.find_elements("css selector", "#question img"))
        title = page.execute_script("return document.querySelectorAll('#question p')[1].textContent")
        press(page, "1" if title.startswith("green") else "2")
        wait_for(lambda clicks=clicks: len(made.labels.labels) == clicks)
        wait_for(lambda clicks=clicks: f"{clicks} labelled" in page.find_element("id", "label-count").text)
    before = dict(made.labels.labels)
    page.refresh()
    wait_for(lambda: page.execute_script("return document.documentElement.dataset.ready === 'yes'"))
    page.find_element("id", "tab-label").click()
    wait_for(lambda: "4 labelled" in page.find_element("id", "label-count").text)
    words = "return document.querySelector('#question strong')?.textContent ?? ''"
    wait_for(lambda: page.execute_script(words).startswith("Is this "))
    assert made.labels.labels == before
    made.set_label(list(before), None)


def test_the_kernel_shows_values_and_directions(page, wait_for):
    click(page, 3)
    wait_for(lambda: names(page, "#chosen"))
    page.find_element("id", "tab-kernel").click()
    wait_for(lambda: len(page.find_elements("css selector", "#values meter")) == 12)
    first = wait_for(lambda: names(page, "#components"))
    wait_for(lambda: len(page.find_elements("css selector", "#directions button")) > 1)
    page.find_elements("css selector", "#directions button")[1].click()
    wait_for(lambda: names(page, "#components") not in ([], first))


def test_the_map_and_the_tabs_are_used_by_keyboard(page, wait_for):
    page.execute_script("document.getElementById('overlay').focus()")
    press(page, "\ue014")
    wait_for(lambda: page.find_element("id", "tip").is_displayed())
    press(page, "\ue007")
    wait_for(lambda: names(page, "#chosen"))
    press(page, "l")
    assert page.find_element("id", "lasso").get_attribute("aria-pressed") == "true"
    press(page, "l")
    page.execute_script("document.getElementById('tab-look').focus()")
    press(page, "\ue014")
    assert page.find_element("id", "search").is_displayed()
    assert page.switch_to.active_element.get_attribute("id") == "tab-search"


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_no_width_scrolls_sideways_in_either_theme(page, width):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = page.execute_script(colour)
    page.find_element("id", "theme").click()
    assert page.execute_script(colour) != before
    for tab in ("look", "search", "clean", "label", "kernel"):
        page.find_element("id", f"tab-{tab}").click()
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        assert page.find_element("id", tab).is_displayed()
