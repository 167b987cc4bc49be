"""The server answers this page and nobody else, and what it has acknowledged is on the disk."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from starlette.testclient import TestClient

from kvicreg.explore import guard, open_images, session
from kvicreg.explore.server import application

TOKEN = "a-token-of-this-test"
MARKUP = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def shown(album):
    """A session with every part computed but UMAP."""
    photos = album / "photos"
    os.link(photos / "green" / "001.png", photos / "green" / "copy.png")
    (album / "table.csv").write_text(
        f"image,price,maker\nphotos/green/001.png,3.5,{MARKUP}\nphotos/green/002.png,4,me\n"
    )
    images = open_images("pixels", photos, cache=album / "cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "start_umap", lambda images: None)
        made = session.Session(images, album / "labels.csv", table=album / "table.csv")
        for part in session.PARTS[:-1]:
            getattr(made, f"_make_{part}")()
    return made


@pytest.fixture
def client(shown):
    with TestClient(application(shown, TOKEN, 8000), base_url=f"http://127.0.0.1:8000/{TOKEN}") as client:
        yield client
        shown.set_label(list(shown.labels.labels), None)


def get(client, path, **more):
    response = client.get(path, **more)
    assert response.status_code == 200, response.text
    return response.json()


# -- who is let in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/state", "/wrong/state", f"/{TOKEN[:-1]}/state", f"/{TOKEN}x/", f"//{TOKEN}/", ""]
)
def test_nothing_is_said_without_the_token(client, path):
    response = client.get(f"http://127.0.0.1:8000{path}")
    assert response.status_code == 403
    assert "green" not in response.text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "10.0.0.1:8000", ""]
)
def test_another_host_is_refused(client, host):
    assert client.get("/state", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1:8000", "http://127.0.0.1:9", "null", ""])
def test_another_origin_is_refused(client, shown, origin):
    response = client.post("/label", json={"images": [1], "label": "x"}, headers={"origin": origin})
    assert response.status_code == 403
    assert shown.labels.labels == {}


def test_this_page_is_let_in_by_both_names_of_this_machine(client):
    assert client.get("/state", headers={"origin": "http://127.0.0.1:8000"}).status_code == 200
    assert client.get("/state", headers={"host": "localhost:8000"}).status_code == 200


@pytest.mark.parametrize(
    "path", [f"/{TOKEN}/", f"/{TOKEN}/state", f"/{TOKEN}/nothing", f"/{TOKEN}/item/999", "/refused"]
)
def test_every_answer_has_the_policy(client, path):
    headers = client.get(f"http://127.0.0.1:8000{path}").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def raw_get(shown, path):
    """The status and body for a path as it is, which a client would tidy up."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "scheme": "http",
        "headers": [(b"host", b"127.0.0.1:8000")], "http_version": "1.1", "server": None, "root_path": "",
    }  # fmt: skip
    asyncio.run(application(shown, TOKEN, 8000)(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.mark.parametrize(
    "path",
    [
        "assets/../server.py", "assets/%2e%2e/server.py", "assets/..%2fserver.py", "assets//etc/passwd",
        "../../etc/passwd", "assets/__init__.py", "assets/", "picture/../../etc/passwd", "picture/0/48/../../../x",
        "picture/-1/48",
        "picture/9999/48", "picture/0/7", "picture/0.png/48", "item/41", "item/-1", "gallery/99", "column/nothing",
        "column/..", "photos/green/001.png",
    ],
)  # fmt: skip
def test_no_path_leads_out(shown, path):
    status, body = raw_get(shown, f"/{TOKEN}/{path}")
    assert status in (400, 404)
    assert b"import " not in body
    assert b"root:" not in body


def test_pictures_are_made_anew_and_never_the_files_themselves(client):
    response = client.get("/picture/0/96")
    assert response.headers["content-type"] == "image/webp"
    assert response.content[8:12] == b"WEBP"


# -- what is too much -------------------------------------------------------------------------------------------------


def test_a_huge_upload_is_refused_whether_it_says_so_or_not(client, monkeypatch):
    monkeypatch.setattr(guard, "LARGEST_BODY", 100_000)
    assert client.post("/search-image", content=b"x" * 100_001).status_code == 413
    assert client.post("/search-image", content=iter([b"x" * 60_000] * 3)).status_code == 413
    assert client.get("/state").status_code == 200


def test_an_image_that_claims_to_be_enormous_is_refused(client):
    header = b"\x89PNG\r\n\x1a\n" + bytes.fromhex("0000000d49484452000f4240000f4240080200000000000000")
    for content in (header, b"", b"GIF89a", b"<svg onload=alert(1)>"):
        response = client.post("/search-image", content=content)
        assert response.status_code == 400
        assert "image: it can't be read" in response.text


@pytest.mark.parametrize(
    "body",
    [
        "[]", "{", "{}", '{"images": [41], "label": "a"}', '{"images": ["0"], "label": "a"}',
        '{"images": [true], "label": "a"}',
        '{"images": 3, "label": "a"}', '{"images": [1], "label": 3}', '{"images": [1], "label": ""}', '{"images": [1]}',
    ],
)  # fmt: skip
def test_wrong_labels_are_refused_in_a_sentence(client, shown, body):
    assert client.post("/label", content=body).status_code == 400
    assert shown.labels.labels == {}


# -- what it answers --------------------------------------------------------------------------------------------------


def test_neighbours_by_the_encoder_stand_beside_those_by_pixels(client, shown):
    names = shown.images.names
    item = get(client, f"/item/{names.index('green/001.png')}")
    assert item["neighbours"][0]["name"] == item["pixels"][0]["name"] == "green/copy.png"
    assert len(item["neighbours"]) == len(item["kernel"]) == 12
    assert item["values"] == {**item["values"], "folder": "green", "price": "3.5", "maker": MARKUP}
    assert get(client, f"/item/{names.index('green/copy.png')}")["problems"][0].startswith("copy: of image")


def test_search_by_examples_and_by_a_dropped_file(client, shown):
    one = shown.images.names.index("green/003.png")
    found_names = [match["name"] for match in client.post("/search", json={"positive": [one]}).json()]
    assert all(name.startswith("green") for name in found_names[:5])
    assert "green/003.png" not in found_names
    dropped = client.post("/search-image", content=shown.images.data.paths[one].read_bytes()).json()
    assert dropped[0]["name"] == "green/003.png"
    assert client.post("/search", json={"positive": []}).status_code == 400


def test_a_higher_threshold_leaves_fewer_duplicates(client):
    counts = [get(client, f"/duplicates?threshold={threshold}")["images"] for threshold in (0.4, 0.6, 0.95)]
    assert counts[0] >= counts[1] >= counts[2] == 2
    assert [item["name"] for item in get(client, "/duplicates?threshold=0.95")["groups"][0]] == [
        "green/001.png",
        "green/copy.png",
    ]


def test_every_column_has_a_value_for_every_image(client, shown):
    client.post("/label", json={"images": [1], "label": "a"})
    client.post("/label", json={"images": [30], "label": "b"})
    columns = {column["title"]: column for column in get(client, "/state")["columns"]}
    expected = {"class", "folder", "cluster", "outlier score", "file problem", "label", "prediction", "confidence"}
    assert expected | {"price", "maker", "kernel component 1"} <= {*columns}
    assert columns["price"]["names"] is None
    assert columns["maker"]["names"] == [MARKUP, "me"]
    for column in columns.values():
        assert len(client.get(f"/column/{column['key']}").content) == 4 * len(shown.images)
    assert len(client.get("/points").content) == 8 * len(shown.images)


def test_outliers_problems_and_galleries_name_images(client):
    assert len(get(client, "/outliers")) == 41
    assert [(p["name"], p["kind"]) for p in get(client, "/problems")] == [("green/copy.png", "copy")]
    gallery = get(client, "/gallery/0")
    assert {item["name"].split("/")[0] for item in gallery["high"]} != {
        item["name"].split("/")[0] for item in gallery["low"]
    }


def test_lists_and_labels_can_be_taken_along(client, shown):
    client.post("/label", json={"images": [0], "label": MARKUP})
    text = client.get("/export").text
    assert list(csv.reader(text.splitlines()))[1] == ["photos/green/000.png", MARKUP]
    response = client.post("/list", json={"images": [1, 2]})
    assert response.text == "image\nphotos/green/001.png\nphotos/green/002.png\n"
    assert response.headers["content-disposition"] == 'attachment; filename="list.csv"'


def test_names_can_be_filtered(client, shown):
    rows = get(client, "/names", params={"text": "RED <B>/01"})
    assert [shown.images.names[row] for row in rows] == [f"red <b>/{n:03}.png" for n in range(10, 20)]


def test_two_tabs_see_and_keep_each_others_labels(client, shown):
    with TestClient(client.app, base_url=str(client.base_url)) as other:
        for number in range(6):
            (client, other)[number % 2].post("/label", json={"images": [number], "label": f"tab {number % 2}"})
        assert get(client, "/state") == get(other, "/state")
    with open(shown.labels.path, newline="") as file:
        assert len(list(csv.DictReader(file))) == 6


def test_questions_come_with_the_probes_guess(client, shown):
    assert get(client, "/questions")["asked"][0]["guess"] is None
    names = shown.images.names
    for index in (names.index("green/000.png"), names.index("red <b>/000.png")):
        client.post("/label", json={"images": [index], "label": names[index].split("/")[0]})
    asked = get(client, "/questions")["asked"]
    assert all(item["guess"] in ("green", "red <b>") for item in asked)
    assert {names.index("green/000.png"), names.index("red <b>/000.png")}.isdisjoint(item["index"] for item in asked)


def test_a_killed_server_loses_no_label_that_it_has_acknowledged(photos, tmp_path):
    command = ["-m", "kvicreg", "explore", "photos", "--encoder", "pixels", "--cache", "cache", "--no-browser"]
    process = subprocess.Popen(
        [sys.executable, *command, "--workers", "0"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    try:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        for number in range(25):
            body = json.dumps({"images": [number], "label": f"label {number}"}).encode()
            urllib.request.urlopen(urllib.request.Request(f"{address}label", body), timeout=60).read()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with open(tmp_path / "photos-labels.csv", newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == [f"label {number}" for number in range(25)]
    images = open_images("pixels", photos, cache=tmp_path / "cache")
    assert len(session.LabelFile(images, tmp_path / "photos-labels.csv").labels) == 25
