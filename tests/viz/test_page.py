"""Pages of compiled functions in a browser: they link, step, fold, and fit any width."""

import shutil

import pytest

import jtorch
import jtorch.nn as nn
import jtorch.nn.functional as F
from jtorch import viz
from tests.compile.workloads import training

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: no pages are opened"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: no pages are opened"),
]


class _Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, w = x.shape
        parts = self.qkv(self.norm1(x)).split(w, dim=2)
        q, k, v = (p.reshape(n, t, self.heads, w // self.heads).transpose(1, 2) for p in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(mixed.reshape(n, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class _LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def _mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), jtorch.randn(5, 6)


def _lenet():
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(256, 84), nn.Tanh(), nn.Linear(84, 3),
    )  # fmt: skip
    return model, jtorch.randn(2, 1, 28, 28)


def _lstm():
    return _LSTM(), jtorch.randn(2, 5, 4)


def _gpt():
    blocks = nn.Sequential(*(_Block(16, 2) for _ in range(12)))
    model = nn.Sequential(nn.Embedding(20, 16), blocks, nn.LayerNorm(16), nn.Flatten(), nn.Linear(64, 3))
    return model, jtorch.randint(0, 20, (2, 4))


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=[_mlp, _lenet, _lstm, _gpt], ids=lambda make: make.__name__[1:])
def file(request, tmp_path_factory):
    jtorch.manual_seed(0)
    model, x = request.param()
    optimizer = jtorch.optim.Adam(model.parameters())

    step = jtorch.compile(training(model, optimizer, lambda x: model(x).square().mean()))
    step(x)
    step(x)
    step.profile()
    return viz.save(step, tmp_path_factory.mktemp("pages") / "page.html")


def opened(browser, file, width, scheme="light"):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.faults = []
    page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else page.faults.append(r.url))
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-ready]", timeout=30_000)
    return page


def lit(page, panel):
    return page.evaluate(f"document.querySelectorAll('#{panel} .lit').length")


def test_it_is_small_and_opens_without_a_fault_in_both_themes_and_widths(browser, file):
    assert file.stat().st_size < 2_000_000
    papers = set()
    for width in (380, 1400):
        for scheme in ("light", "dark"):
            page = opened(browser, file, width, scheme)
            assert page.faults == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            page.close()
    assert len(papers) == 2


def test_hovering_and_focus_light_up_kin_in_all_panels(browser, file):
    page = opened(browser, file, 1400)
    row = page.query_selector("#source li[data-id]")
    row.hover()
    before = {panel: lit(page, panel) for panel in ("source", "tape", "graph", "kernels", "time")}
    assert all(before.values()), before
    page.query_selector("#kernels li >> nth=-1").focus()
    after = {panel: lit(page, panel) for panel in before}
    assert after["kernels"] >= 1 and after["graph"] >= 1 and after != before
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.closest('section').id") == "kernels"
    assert page.faults == []
    page.close()


def test_stepping_through_rewrites_changes_the_graph_and_back(browser, file):
    page = opened(browser, file, 1400)
    page.evaluate("for (const d of document.querySelectorAll('#graph details')) d.open = true")
    count = (
        "[...document.querySelectorAll('#graph .body .type')].map(e => e.parentNode.textContent).join('|')"
    )
    page.click("button[aria-label='as recorded']")
    recorded = page.evaluate(count)
    n = int(page.get_attribute("#graph input", "max"))
    assert n > 0 and page.is_disabled("button[aria-label='one rewrite back']")
    page.click("button[aria-label='one rewrite on']")
    assert f"1 of {n}" in page.inner_text("#graph .rule")
    page.click("button[aria-label='one rewrite back']")
    assert page.evaluate(count) == recorded
    page.click("button[aria-label='after all rewrites']")
    assert page.evaluate(count) != recorded and f"{n} of {n}" in page.inner_text("#graph .rule")
    assert page.faults == []
    page.close()


def test_modules_fold(browser, file):
    page = opened(browser, file, 1400)
    fold = page.query_selector("#tape details")
    before = fold.evaluate("e => e.open")
    page.click("#tape summary >> nth=0")
    assert fold.evaluate("e => e.open") is not before
    if before:
        page.click("#tape summary >> nth=0")
    assert fold.query_selector("ul li, ul details") is not None
    page.close()


def test_what_a_program_says_is_text(browser, tmp_path):
    f = jtorch.compile(lambda x: x * 2)
    f.name = "<img src=x onerror=document.title='broken'>"
    f(jtorch.ones(2))
    page = opened(browser, viz.save(f, tmp_path / "page.html"), 380)
    assert page.inner_text("h1") == f.name and page.faults == []
    assert page.evaluate("document.images.length") == 0
    page.close()
