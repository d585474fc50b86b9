"""The archive for the GLUE server: names, header, rows and labels as its format description asks."""

from __future__ import annotations

from zipfile import ZipFile

import pandas as pd
import pytest

from workbench.data.glue import GLUE
from workbench.errors import DataError
from workbench.evaluate.submission import check_submission, missing_files, submission_files


def archive(path, files):
    with ZipFile(path, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name, text)
    return path


def predictions(name: str) -> pd.DataFrame:
    rows = GLUE[name].test_rows
    prediction = [7.5, -1.0, *[2.5] * (rows - 2)] if name == "stsb" else [1, 0, *[0] * (rows - 2)]
    return pd.DataFrame({"task": f"glue/{name}", "prediction": prediction})


def test_labels_are_written_by_their_official_names(tmp_path):
    """RTE's first label is entailment (its official order); WNLI's labels are digits; similarities end at 0 and 5."""
    frames = [predictions(name) for name in ("rte", "wnli", "stsb")]
    files = submission_files(pd.concat(frames))
    assert set(files) == {"RTE.tsv", "WNLI.tsv", "STS-B.tsv"}
    assert files["RTE.tsv"].splitlines()[:3] == ["index\tprediction", "0\tnot_entailment", "1\tentailment"]
    assert files["WNLI.tsv"].splitlines()[1:3] == ["0\t1", "1\t0"]
    assert files["STS-B.tsv"].splitlines()[1:4] == ["0\t5.000", "1\t0.000", "2\t2.500"]
    check_submission(archive(tmp_path / "a.zip", files))
    assert missing_files(files) == [
        "CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "QQP.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "AX.tsv",
    ]  # fmt: skip


WNLI = ["index\tprediction", *[f"{i}\t0" for i in range(146)]]
BROKEN = {
    "name": ({"wnli.tsv": "x"}, "is not a file of GLUE"),
    "header": ({"WNLI.tsv": "\n".join(["id\tlabel", *WNLI[1:]])}, "line 1 is"),
    "rows": ({"WNLI.tsv": "\n".join(WNLI[:-1])}, "has 145 predictions; the test set has 146"),
    "order": ({"WNLI.tsv": "\n".join([WNLI[0], "1\t0", *WNLI[2:]])}, "line 2: index is '1', expected 0"),
    "label": ({"WNLI.tsv": "\n".join([*WNLI[:-1], "145\t2"])}, "line 147: '2' is no label; allowed: 0, 1"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_the_server_would_refuse_is_found(case, tmp_path):
    files, message = BROKEN[case]
    with pytest.raises(DataError, match=message):
        check_submission(archive(tmp_path / "a.zip", files))


def test_a_file_that_is_no_archive(tmp_path):
    (tmp_path / "a.zip").write_text("no zip")
    with pytest.raises(DataError, match="zip archive"):
        check_submission(tmp_path / "a.zip")
