"""The page to look into a model, in a real browser: every view, phone and laptop, light and dark, and what it asks."""

import asyncio
import json
import shutil
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing, contextmanager

import numpy as np
import pytest

import csrr

pytest.importorskip("msgspec")
uvicorn = pytest.importorskip("uvicorn")

from csrr.serve.app import make_app  # noqa: E402
from csrr.serve.guard import add_key  # noqa: E402
from csrr.serve.page.made import find_nearest, lay_out  # noqa: E402
from csrr.serve.page.views import Views  # noqa: E402
from csrr.serve.served import ServedModel  # noqa: E402

HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "A title without a blank or an end, " + "long" * 60,
    "كتاب بالعربية",
    "{{7*7}} ${7*7} javascript:window.hacked=1",
]
PHONE, LAPTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
VIEWS = {
    "start": "#/",
    "person": "#/person/3",
    "unknown person": "#/person/nobody%2F%3F",
    "item": "#/item/0",
    "build": "#/build?item=0&item=1&item=7",
    "map": "#/map?item=5",
    "model": "#/model",
}


def make_model(folder):
    """A calibrated model with an item table, of which some titles are hostile."""
    log = csrr.synthetic(300, 80, rank=4, events_per_user=15).log
    log = csrr.read(log.to_arrow().append_column("time", [1_600_000_000 + 1000 * np.arange(len(log))]))
    train, heldout = csrr.split(log, ratio=0.8)
    model = csrr.CSRR(miss_cost=10, false_alarm_cost=1, max_rank=8, threads=1).fit(train)
    items = train.items.ids.tolist()
    titles = HOSTILE + [f"Title {item}" for item in items[len(HOSTILE) :]]
    kinds = ["<b>bold</b>", "Lamps", "Chairs|Lamps"] * len(items)
    model.set_items({"item": items, "title": titles, "kind": kinds[: len(items)], "price": np.arange(len(items)) / 3})
    model.calibrate(heldout)
    model.save(folder / "model.csrr")
    return model


@contextmanager
def serve(file, **options):
    """Give the address of a service on a thread."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        app = make_app(file, **options)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def model(folder):
    return make_model(folder)


@pytest.fixture(scope="module")
def address(model, folder):
    with serve(folder / "model.csrr") as address:
        for kind in ("map", "noise"):
            ask(address, "made", {"kind": kind})
        deadline = time.monotonic() + 120
        while any(ask(address, f"made?kind={kind}")["state"] != "ready" for kind in ("map", "noise")):
            assert time.monotonic() < deadline, [ask(address, f"made?kind={kind}") for kind in ("map", "noise")]
            time.sleep(0.2)
        yield address


def ask(address, path, body=None):
    """Return what the page is answered."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}/v1/page/{path}", data, {"content-type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def find_status(address, path, body=None):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(address, path, body)
    caught.value.read()
    return caught.value.code


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def open_page(browser, address, viewport=LAPTOP, scheme="light"):
    """Give a page on which nothing may go wrong: no error, no request elsewhere, no script of a title."""
    page = browser.new_page(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    told, asked = [], []
    page.on("console", lambda message: told.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: told.append(dialog.message))
    page.goto(f"{address}/ui")
    page.wait_for_selector("main h1")
    yield page
    assert told == []
    assert [url for url in asked if not url.startswith(f"{address}/")] == []
    assert page.evaluate("window.hacked") is None
    page.close()


def show(page, path):
    """Go to a view and wait until it is there."""
    page.evaluate("document.querySelector('main').replaceChildren()")
    page.evaluate("path => { location.hash === path ? location.reload() : (location.hash = path) }", path)
    page.wait_for_selector("main h1")
    until(page, "!document.querySelector('canvas') || document.querySelector('.rows .line')")


def until(page, expression, arg=None):
    """Wait until an expression, or a function of `arg`, is true; the policy forbids Playwright's own way."""
    deadline = time.monotonic() + 20
    while not page.evaluate(expression, arg):
        assert time.monotonic() < deadline, (expression, page.inner_text("main")[:300])
        time.sleep(0.02)


CUT_OFF = """() => {
  const cut = [...document.querySelectorAll('body *')].filter((each) => {
    if (each.closest('.scroll, .unseen, .skip, dialog, svg') || !each.getClientRects().length) return false;
    const { left, right } = each.getBoundingClientRect();
    return right > document.documentElement.clientWidth + 1 || left < -1;
  });
  return [document.documentElement.scrollWidth > innerWidth, cut.map((each) => each.outerHTML.slice(0, 80))];
}"""


@pytest.mark.parametrize(("viewport", "scheme"), [(LAPTOP, "light"), (PHONE, "dark")], ids=["laptop", "phone"])
def test_every_view_is_whole_and_accessible(browser, address, viewport, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with open_page(browser, address, viewport, scheme) as page:
        for name, path in VIEWS.items():
            if name == "unknown person":
                continue
            show(page, path)
            assert page.evaluate(CUT_OFF) == [False, []], name
            found = axe.run(page).response["violations"]
            assert [(each["id"], [node["html"][:90] for node in each["nodes"][:2]]) for each in found] == [], name
            assert page.title().endswith("· csrr")


def test_what_is_not_there_is_said(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/ui{VIEWS['unknown person']}")
    page.wait_for_selector("[role=alert]")
    assert "unknown user" in page.inner_text("[role=alert]") or "ids are integers" in page.inner_text("[role=alert]")
    page.goto(f"{address}/ui#/nowhere")
    until(page, "document.querySelector('[role=alert]')?.innerText.includes('no such view')")
    page.close()


def test_titles_are_texts(browser, address):
    with open_page(browser, address) as page:
        for item, title in enumerate(HOSTILE):
            show(page, f"#/item/{item}")
            assert page.inner_text("h1") == title
        show(page, "#/map")
        show(page, "#/build?item=0&item=1")
        assert page.locator("main script, main img").count() == 0
        assert page.locator(".chip", has_text=HOSTILE[0]).count() > 0


def test_the_policy_forbids_scripts_in_the_page(browser, address):
    with urllib.request.urlopen(f"{address}/ui/") as answer:  # noqa: S310
        policy = answer.headers["content-security-policy"]
        text = answer.read().decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "style=" not in text
    assert "onclick" not in text
    page = browser.new_page()
    page.goto(f"{address}/ui/")
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 1'}))")
    assert page.evaluate("window.hacked") is None
    page.close()


def test_search_by_keyboard(browser, address):
    with open_page(browser, address) as page:
        page.keyboard.press("/")
        page.keyboard.type("title 2")
        page.wait_for_selector("[role=option]:has-text('Title 2')")
        field = page.locator("#search input")
        assert field.get_attribute("aria-expanded") == "true"
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        chosen = page.locator("[aria-selected=true]")
        assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
        title = chosen.locator(".name").inner_text()
        page.keyboard.press("Enter")
        until(page, "title => document.querySelector('h1').innerText === title", arg=title)
        page.keyboard.press("/")
        page.keyboard.type("29")
        page.wait_for_selector("[role=option]:has-text('Person 29')")
        page.keyboard.press("Escape")
        assert page.locator("[role=option]:visible").count() == 0
        page.keyboard.press("Control+A")
        page.keyboard.type("nothing like it")
        page.wait_for_selector("[role=option]:has-text('Nothing has this')")


def test_building_somebody_new(browser, address, model):
    with open_page(browser, address) as page:
        show(page, "#/build")
        page.wait_for_selector(".build .rows li")

        def read_first():
            return page.locator(".build .rows li a").first.inner_text()

        popular = read_first()
        page.fill(".build input", "title 40")
        page.locator("[role=option]", has_text="Title 40").first.click()
        page.wait_for_selector(".build .chip:has-text('Title 40')")
        page.wait_for_selector(".moved")
        (expected,) = model.recommend_for([40], k=1).titles[0].tolist()
        assert read_first() == expected
        assert page.evaluate("location.hash") == "#/build?item=40"
        page.locator("button", has_text="Title 41").or_(page.locator(".chips button").nth(3)).first.click()
        until(page, "location.hash.includes('&item=')")
        for _ in range(2):
            page.locator("button[aria-label^=Take]").first.click()
        until(page, "location.hash === '#/build'")
        until(page, "first => document.querySelector('.build .rows li a')?.innerText === first", arg=popular)


@pytest.mark.parametrize(("name", "raised"), [("AbortError", "AbortError"), ("SyntaxError", "status 200")])
def test_an_answer_broken_off_is_no_answer(browser, address, name, raised):
    """A list asked for again while the first answer arrives: the first must not be shown as an empty one."""
    with open_page(browser, address) as page:
        told = page.evaluate(
            """async (name) => {
                const { get } = await import('/ui/core.js');
                const json = async () => { throw new DOMException('', name); };
                window.fetch = async () => ({ status: 200, ok: true, json });
                return get('/v1/model').then(JSON.stringify, (error) => `${error.name} ${error.message}`);
            }""",
            name,
        )
        assert raised in told


def test_a_person_with_reasons_suspects_and_their_own_taste(browser, address, model):
    with open_page(browser, address) as page:
        show(page, "#/person/3")
        first = model.recommend(3, k=1)
        card = page.locator("section.card", has_text="Recommended, and why")
        assert card.locator(".rows a").first.inner_text() == first.titles[0, 0]
        why = model.explain(3, first.items[0, 0].item())
        assert card.locator("a.chip").first.inner_text() == why.titles[0]
        buttons = page.locator(".tabs button").all_inner_texts()
        told = ask(address, "person?user=3")
        n_own = sum(each.get("kind") == "own taste" for each in told["history"])
        assert buttons[:2] == [f"All ({len(told['history'])})", f"Their own taste ({n_own})"]
        page.locator(".tabs button").nth(2).click()
        n_suspect = int(buttons[2].split("(")[1][:-1])
        assert page.locator("section.card", has_text="What they chose").locator(".tag.bad").count() == n_suspect


def test_the_map(browser, address):
    with open_page(browser, address) as page:
        show(page, "#/map")
        page.wait_for_selector("text=80 items in view")
        drawn = """() => {
            const canvas = document.querySelector('canvas');
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return pixels.filter((value, n) => n % 4 === 3 && value > 0).length;
        }"""
        assert page.evaluate(drawn) > 1000
        page.get_by_label("Zoom in").click(click_count=2)
        page.focus("canvas")
        for key in ("ArrowRight", "ArrowDown", "+"):
            page.keyboard.press(key)
        until(page, "!document.querySelector('[role=status]').innerText.startsWith('80 ')")
        page.get_by_label("Show all").click()
        page.wait_for_selector("text=80 items in view")
        item, x, y, _, _, title = ask(address, "map")["points"][0]
        box = page.locator("canvas").bounding_box()
        place = {
            "x": (x - 0.5) / 1.04 * box["width"] + box["width"] / 2,
            "y": (y - 0.5) / 1.04 * box["height"] + box["height"] / 2,
        }
        page.locator("canvas").hover(position=place)
        assert title in page.inner_text(".tip")
        page.locator("canvas").click(position=place)
        until(page, "title => document.querySelector('h1')?.innerText === title", arg=title)
        assert page.evaluate("location.hash") == f"#/item/{item}"


def test_the_cost_slider_moves_the_threshold(browser, address):
    with open_page(browser, address) as page:
        show(page, "#/model")
        found = []
        for value in ("0", "1", "2"):
            page.locator("#cost").fill(value)
            texts = page.locator(".tiles .big").all_inner_texts()
            found.append(
                (
                    page.locator(".card:has(input[type=range]) strong").all_inner_texts()[:2],
                    float(texts[0]),
                    int(texts[1].split()[0]),
                )
            )
        assert [said[1] for said, *_ in found] == ["50 %", "9.1 %", "0.99 %"]
        assert found[0][1] <= found[1][1] < found[2][1]
        assert found[0][2] <= found[1][2] < found[2][2]
        text = page.inner_text("main")
        for words in (
            "above the optimum of the low-rank part",
            "Convergence",
            "Singular values",
            "taken",
            "Calibration",
        ):
            assert words in text


def test_light_and_dark(browser, address):
    with open_page(browser, address, scheme="dark") as page:
        color = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(color)
        page.click("#theme")
        assert page.evaluate(color) != dark
        page.reload()
        page.wait_for_selector("main h1")
        assert page.evaluate(color) != dark


def test_a_key_is_asked_for(browser, model, folder, tmp_path):
    key = add_key(tmp_path / "keys.json", "reader", ("read",))
    with serve(folder / "model.csrr", state=tmp_path / "state", keys=tmp_path / "keys.json") as address:
        page = browser.new_page()
        page.goto(f"{address}/ui")
        page.fill("#key-text", "wrong")
        page.click("#key button")
        page.wait_for_selector("text=does not take this key")
        page.fill("#key-text", key)
        page.click("#key button")
        page.wait_for_selector("main h1")
        page.goto(f"{address}/ui#/map")
        until(page, "document.querySelector('main [role=status]')?.innerText.length > 0")
        assert find_status(address, "home") == 401
        page.close()


# What the page asks


def test_what_is_asked_wrongly_is_refused(address):
    assert find_status(address, "person?user=999999") == 404
    assert find_status(address, "item?item=%00") == 404
    assert find_status(address, f"search?q={'x' * 300}") == 422
    assert find_status(address, "search?k=100000") == 422
    assert find_status(address, "map?x0=a") == 422
    assert find_status(address, "build", {"history": [1] * 60}) == 422
    assert find_status(address, "made", {"kind": "../../etc"}) == 422
    assert ask(address, "map?x0=nan") | {"points": []} == ask(address, "map?x0=2") | {"points": []}


def test_what_happened_since_counts(model, folder, tmp_path):
    with serve(folder / "model.csrr", state=tmp_path / "state") as address:
        before = ask(address, "person?user=4")
        item = before["recommended"][0]["item"]
        body = json.dumps(
            {"events": [{"user": 4, "item": item}] + [{"user": 4, "item": n} for n in range(75)]}
        ).encode()
        request = urllib.request.Request(f"{address}/v1/events", body, {"content-type": "application/json"})  # noqa: S310
        urllib.request.urlopen(request).close()  # noqa: S310
        after = ask(address, "person?user=4")
        assert (before["since"], after["since"]) == (0, 76)
        assert item not in [each["item"] for each in after["recommended"]]
        assert after["recommended"][0]["because"]


def test_nothing_is_loaded_whole(tmp_path):
    """A catalog of 100,000 items: each answer is as short as that of a small one."""
    n_users, n_items = 5_000, 100_000
    rng = np.random.default_rng(0)
    table = {"user": np.repeat(np.arange(n_users), 40), "item": rng.integers(0, n_items, 40 * n_users)}
    log = csrr.Log.from_table(table | {"title": [f"Title {item}" for item in table["item"].tolist()]})
    file = tmp_path / "large.csrr"
    csrr.PopRank().fit(log).save(file)
    views = Views(ServedModel(csrr.load(file), "large", file))
    views.made.__dict__["map"] = {"places": rng.random((log.n_items, 2), np.float32)}
    from msgspec.json import encode

    from csrr.serve.page.views import Box

    assert len(encode(views.draw_map(Box(k=3000)))) < 300_000
    assert len(views.draw_map(Box(k=10))["points"]) == 10
    assert views.draw_map(Box(x0=0.4, x1=0.41, y0=0.4, y1=0.41))["n"] < 50
    assert len(encode(views.tell_item(log.items.ids[7].item()))) < 10_000
    assert [each.id for each in views.name_users(views.find_users("49", 6))] == [49, *range(490, 495)]
    assert views.name_items(views.find_items("title 777", 3))[0].title.startswith("Title 777")
    exact = log.items.ids[-1].item()
    assert views.name_items(views.find_items(str(exact), 3))[0].id == exact


@pytest.mark.parametrize("kind", ["PopRank", "EASE", "WRMF"])
def test_other_models_have_views_too(tmp_path, kind):
    log = csrr.synthetic(60, 40, events_per_user=10).log
    file = tmp_path / "model.csrr"
    getattr(csrr, kind)().fit(log).save(file)
    views = Views(ServedModel(csrr.load(file), "small", file))
    assert len(views.tell_item(3)["choosers"]) == min(12, int((log.item_rows == 3).sum()))
    assert len(views.try_history([3, 5], 5)["recommended"]) == 5
    assert len(views.tell_history(7)) == len(log.history(7))
    if kind == "EASE":
        falls = views.try_history([3, 5, 9], 5)["recommended"][0].because
        model = views.model
        item = views.try_history([3, 5, 9], 5)["recommended"][0].item
        full, less = (model.fold_in([each]).score()[0, item] for each in ([3, 5, 9], [3, 5, 9][:2]))
        assert any(why.item == 9 and np.isclose(why.amount, full - less, atol=1e-6) for why in falls)


def test_the_map_keeps_groups_together():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(5), 60)
    vectors = rng.normal(size=(5, 20))[group] + 0.4 * rng.normal(size=(300, 20))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    places = lay_out(vectors)
    assert places.min() >= 0
    assert places.max() <= 1
    np.testing.assert_array_equal(places, lay_out(vectors))
    distances = ((places[:, None] - places) ** 2).sum(2) + np.eye(300) * 9
    assert (group[np.argsort(distances, axis=1)[:, :5]] == group[:, None]).mean() > 0.9
    near, _ = find_nearest(vectors, 4)
    np.testing.assert_array_equal(np.sort(near[7]), np.sort(np.argsort(-(vectors[7] @ vectors.T))[1:5]))
    assert lay_out(vectors[:2]).shape == (2, 2)
