"""How quickly the dashboard answers, in Chromium: ``python benchmarks/dashboard.py [--model NAME] [--seconds 60]``.

First page usable after the server is up; a change of head, layer and toggle inside a view and through the page's own
choices; an attention view of 12 x 12 heads over 128 tokens; eight sessions at once on one model.
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

SETTLED = """() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'
  && !document.querySelector('[data-testid=stSkeleton], [data-testid=stSpinner]') && document.querySelector('h1')"""
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dogs", "ran", "to", "the", "table"]
REPEATS = 9
PATIENCE = 120_000


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        wide = _twelve_by_twelve(Path(folder) / "twelve-by-twelve")
        port = _free_port()
        models = [arguments.model, str(wide)] if arguments.model else [str(wide)]
        command = [sys.executable, "-m", "workbench", "dashboard", f"--port={port}", f"--runs={folder}/runs"]
        command += [f"--model={name}" for name in models]
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        try:
            base = f"http://localhost:{port}"
            up = _wait_for(f"{base}/_stcore/health")
            rows = _measure(base, wide.name, arguments.seconds)
        finally:
            process.terminate()
            process.wait(30)
    print(
        f"server up after {up:.1f} s; {platform.processor() or platform.machine()}, {os.cpu_count()} cores\n"
    )
    print("| | median (range) | goal | met |\n|---|---|---|---|")
    for name, values, goal, unit in rows:
        middle = statistics.median(values)
        spread = (
            f"{middle:.2f} ({min(values):.2f} to {max(values):.2f}) {unit}"
            if len(values) > 1
            else f"{middle:g} {unit}"
        )
        print(f"| {name} | {spread} | {goal:g} {unit} | {'yes' if middle <= goal else '**no**'} |")


Row = tuple[str, list[float], float, str]


def _measure(base: str, wide: str, seconds: float) -> list[Row]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        # the server has answered for the first time a moment ago
        started = time.perf_counter()
        page = _visit(browser, base)
        _inside(page).locator(".tokens.from .text").first.wait_for()
        rows: list[Row] = [
            ("first page usable after the server is up", [time.perf_counter() - started], 5, "s")
        ]
        again = [_timed(lambda: _fresh(browser, base)) for _ in range(3)]
        rows.append(("the same page in a new session", again, 5, "s"))
        rows += _changes(page)
        page.context.close()
        rows += _page_choices(browser, base)
        rows += _large(browser, base, wide)
        rows.append(_sessions(browser, base, seconds))
        browser.close()
    return rows


def _changes(page: Any) -> list[Row]:
    """Clicks answered by the view's script, timed in the page up to the next frame drawn."""
    frame = next(f for f in page.frames if f.query_selector(".tokens.from .text"))
    clicked = """async selector => {
      const all = [...document.querySelectorAll(selector)], times = [];
      for (let n = 0; n < 9; n++) {
        const start = performance.now();
        all[n % all.length].click();
        await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
        times.push((performance.now() - start) / 1000);
      }
      return times; }"""
    rows: list[Row] = []
    for name, selector in (
        ("head", ".head"),
        ("layer", ".toolbar button:not(.head):not(.toggle)"),
        ("toggle", ".toggle"),
    ):
        rows.append((f"change of {name} in the view", frame.evaluate(clicked, selector), 0.3, "s"))
    return rows


_FROM_CLICK_TO_DRAWN = """
if (window === top) {
  let clicked = 0;
  window.waited = [];
  addEventListener("click", () => { clicked = performance.now(); }, true);
  addEventListener("message", event => {
    if (event.data === "drawn" && clicked) { waited.push((performance.now() - clicked) / 1000); clicked = 0; }
  });
} else {
  addEventListener("load", () => requestAnimationFrame(() => setTimeout(() => top.postMessage("drawn", "*"))));
}"""


def _page_choices(browser: Any, base: str) -> list[Row]:
    """The page's own toggle and layer, which run its script and draw the view anew, timed in the page itself."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(_FROM_CLICK_TO_DRAWN)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(base)
    _settle(page)
    _inside(page).locator(".tokens.from .text").first.wait_for()

    def toggle(number: int) -> None:
        page.get_by_text("Hide sinks", exact=True).first.click()

    def layer(number: int) -> None:
        page.get_by_role("combobox", name="Layer", exact=True).click()
        page.get_by_role("option", name=str(1 + number % 2), exact=True).click()

    rows: list[Row] = []
    for name, act in (("toggle", toggle), ("layer", layer)):
        for number in range(REPEATS):
            act(number)
            page.wait_for_function(f"waited.length > {number}")
            _settle(page)
        rows.append((f"{name} of the page, which draws the view anew", page.evaluate("waited"), 0.3, "s"))
        page.evaluate("waited.length = 0")
    context.close()
    return rows


def _large(browser: Any, base: str, wide: str) -> list[Row]:
    """128 tokens of a model of 12 layers with 12 heads, from the address to the drawn view."""
    text = " ".join(WORDS[i % len(WORDS)] for i in range(126))
    times = []
    for number in range(3):
        page = _visit(browser, base, model=wide, text="the cat")  # the model is loaded, the page open
        _inside(page).locator(".tokens.from .text").first.wait_for()
        changed = (
            f"{text} {WORDS[number]}"[: -len(WORDS[number]) - 1]
            if number == 0
            else f"{WORDS[number]} {text[4:]}"
        )
        page.get_by_label("Text", exact=True).fill(changed)
        started = time.perf_counter()
        page.get_by_label("Text", exact=True).press("Control+Enter")
        _inside(page).locator(".tokens.from .text").nth(100).wait_for()
        times.append(time.perf_counter() - started)
        page.context.close()
    return [("128 tokens of 12 x 12 heads, typed to drawn", times, 2, "s")]


def _sessions(browser: Any, base: str, seconds: float) -> Row:
    """Eight sessions ask one model for texts of their own, all before any is read; how many results were not theirs."""
    pages = [_visit(browser, base) for _ in range(8)]
    wrong, texts, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        words = [f"s{number}r{texts}" for number in range(8)]
        for page, word in zip(pages, words, strict=True):
            page.get_by_label("Text", exact=True).fill(f"the {word} sat")
            page.get_by_label("Text", exact=True).press("Control+Enter")
        for page, word in zip(pages, words, strict=True):
            wrong += not _shows(page, word)
            wrong += page.get_by_test_id("stException").count() + page.get_by_role("alert").count()
        texts += 8
    for page in pages:
        page.context.close()
    return (
        f"errors and mixed results, eight sessions for {seconds:g} s ({texts} texts)",
        [float(wrong)],
        0,
        "",
    )


def _shows(page: Any, word: str) -> bool:
    """Whether the view comes to show ``word``, whose pieces are joined, within twenty seconds."""
    from playwright.sync_api import Error

    for _ in range(200):
        try:
            pieces = _inside(page).locator(".tokens.from .text").all_inner_texts()
        except Error:  # the frame was exchanged for the next one
            pieces = []
        if word in "".join(pieces).replace("##", "").replace(" ", ""):
            return True
        page.wait_for_timeout(100)
    return False


def _visit(browser: Any, base: str, **address: str) -> Any:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{base}/?{urlencode(address)}" if address else base)
    _settle(page)
    return page


def _fresh(browser: Any, base: str) -> None:
    page = _visit(browser, base)
    _inside(page).locator(".tokens.from .text").first.wait_for()
    page.context.close()


def _settle(page: Any) -> None:
    page.wait_for_timeout(100)
    page.wait_for_function(SETTLED)


def _inside(page: Any) -> Any:
    return page.frame_locator("iframe").first


def _timed(act: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _twelve_by_twelve(folder: Path) -> Path:
    """A BERT of base shape (12 layers, 12 heads, width 768) with random weights and a vocabulary of a few words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    names = ["<pad>", "<s>", "</s>", "<unk>", *dict.fromkeys(WORDS)]
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    BertModel(BertConfig(vocab_size=len(names), max_position_embeddings=256)).save_pretrained(folder)
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _wait_for(address: str) -> float:
    started = time.perf_counter()
    for _ in range(3000):
        try:
            with urlopen(address, timeout=5):
                return time.perf_counter() - started
        except (URLError, OSError):
            time.sleep(0.05)
    raise SystemExit("the server does not answer")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="Model of the first page (default: the first one that is installed).")
    parser.add_argument("--seconds", type=float, default=60, help="How long eight sessions go on.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
