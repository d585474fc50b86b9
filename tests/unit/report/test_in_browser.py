from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.unit.report.test_report import DOCTOR, HOSTILE, _rows, _run, _Tags
from workbench.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")
def test_a_browser_builds_no_element_from_hostile_text(tmp_path):
    rows = [{**row, "text": HOSTILE + str(row["text"]), "predicted": HOSTILE} for row in _rows(6)]
    page = write_report(_run(tmp_path, rows, doctor=DOCTOR, recipe={HOSTILE: HOSTILE}))
    assert CHROMIUM is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command = [CHROMIUM, *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    built = _Tags(done.stdout)
    assert built.tags.count("table") == 4  # results, doctor, worst, best
    assert built.tags.count("tr") == (1 + 1) + (1 + 2) + (1 + 3) + (1 + 3)
    assert not {"script", "img"} & set(built.tags)
    assert "alert(1)" in built.text
