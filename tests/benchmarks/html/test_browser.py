"""The page in a browser: it sorts, fits a telephone, and follows light and dark."""

import shutil

import pytest

from benchmarks.cli import main
from tests.benchmarks.html.runs import write

pytest.importorskip("matplotlib", reason="matplotlib is not installed: no charts are drawn")
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: no pages are opened"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: no pages are opened"),
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write(folder / "before.json")
    write(folder / "after.json", seed=1, factor=1.3)
    output = folder / "page.html"
    main(["report", str(folder / "before.json"), str(folder / "after.json"), "-o", str(output)])
    return output


def opened(browser, file, width=1200, scheme="light"):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    faults, asked = [], []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    return page, faults, asked


def test_a_click_on_a_heading_sorts(browser, file):
    page, faults, asked = opened(browser, file)
    table = page.locator("table").first

    def column(number):
        return table.locator(f"tbody tr td:nth-child({number})").all_inner_texts()

    assert column(1) == ["lenet", "call", "toy"]
    heading = table.get_by_role("button", name="jtorch eager")
    heading.click()
    assert column(1) == ["toy", "call", "lenet"]
    assert table.locator("th").nth(2).get_attribute("aria-sort") == "ascending"
    heading.press("Enter")
    assert column(1) == ["lenet", "call", "toy"]
    table.get_by_role("button", name="jtorch compiled").click()
    assert column(4)[-1] == "ERROR"  # what has no number comes last
    assert faults == [] and asked == [file.as_uri()]
    page.close()


@pytest.mark.parametrize("width", [380, 800])
def test_it_fits(width, browser, file):
    page, faults, _ = opened(browser, file, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    chart = page.locator("svg").first.bounding_box()
    assert 0 < chart["width"] <= width and chart["height"] > 120
    letters = page.locator("svg text").first.bounding_box()
    assert letters["height"] >= 9  # pixels: it can be read
    assert faults == []
    page.close()


def test_light_and_dark(browser, file):
    def colours(scheme):
        page, _, _ = opened(browser, file, scheme=scheme)
        script = """() => [getComputedStyle(document.body).backgroundColor,
                           getComputedStyle(document.querySelector("svg text")).fill]"""
        found = page.evaluate(script)
        page.close()
        return found

    def brightness(colour):
        return sum(int(part) for part in colour.strip("rgb()").split(",")[:3])

    (light, on_light), (dark, on_dark) = colours("light"), colours("dark")
    assert brightness(light) > 600 > 200 > brightness(dark)
    assert brightness(on_light) < 200 and brightness(on_dark) > 500


def test_what_a_step_compiles_to_opens(browser, file):
    page, faults, asked = opened(browser, file)
    frame = page.locator("iframe")
    assert not frame.is_visible()
    page.get_by_text("Lines, tape, graph, kernels and memory").click()
    inside = page.frame_locator("iframe")
    inside.locator("main").get_by_text("tanh").first.wait_for(timeout=20_000)
    assert inside.locator("h1").inner_text() == "step"
    assert faults == [] and asked[0] == file.as_uri()
    page.close()
