"""Each verb that prints numbers says which model they are from and in which precision, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model_folders import save_bert, save_llama
from workbench.cli import main

TEXT = "the keys to the cabinet"
VERBS = {
    "attend": ("attend", "MODEL", TEXT, "--out", "OUT/head.html"),
    "attend corpus": ("attend", "MODEL", "--corpus", "OUT/corpus.txt", "--no-doctor", "--out", "OUT/runs"),
    "attribute": ("attribute", "MODEL", TEXT, "--method", "saliency"),
    "lens": ("lens", "MODEL", TEXT),
    "lens attribution": ("lens", "MODEL", TEXT, "--view", "attribution", "--target", " are"),
    "neuron": ("lens", "MODEL", "--neuron", "0.1"),
    "patch": (
        *("patch", "MODEL", "--clean", TEXT, "--corrupted", "the key to the cabinet"),
        *("--target", " are", "--contrast", " is"),
    ),
    "context": (
        *("context", "MODEL", "--text-file", "OUT/corpus.txt", "--limit", "4", "--distances", "2"),
        *("--no-doctor", "--out", "OUT/runs"),
    ),
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_name_and_dtype_are_shown(
    verb: str, as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # a decoder's induction scores need longer texts than the tiny one reads
    save = save_bert if verb == "attend corpus" else save_llama
    model = str(save(tmp_path / "tiny"))
    (tmp_path / "corpus.txt").write_text(f"{TEXT} are on the table and the cat sat on the mat .\n" * 8)
    asked = [part.replace("OUT", str(tmp_path)).replace("MODEL", model) for part in VERBS[verb]]
    with pytest.raises(SystemExit) as stopped:
        main([*asked, "--dtype", "float64", *(["--json"] if as_json else [])])
    printed = capsys.readouterr()
    assert stopped.value.code == 0, printed.err
    if as_json:
        said = json.loads(printed.out)["model"]
        assert (said["name"], said["dtype"]) == (model, "float64")
    else:
        assert "parameters, float64)" in printed.out.splitlines()[0]
