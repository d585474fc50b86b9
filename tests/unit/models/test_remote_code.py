"""Python in a model's folder never runs, whatever file names it and whatever is typed on standard input."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.helpers import REPOSITORY
from tests.model_folders import save_adapter, save_bert, save_llama
from workbench.cli import main
from workbench.errors import ModelError
from workbench.models import load
from workbench.pretrained import from_pretrained
from workbench.training.finetuning.heads import load_with_head
from workbench.training.finetuning.tasks import AnswerKind, FineTask

_CODE = """
from pathlib import Path
Path({marker!r}).write_text("ran")
from transformers import BertConfig as HostileConfig, BertModel as HostileModel
from transformers import PreTrainedTokenizerFast as HostileTokenizer, ProcessorMixin as HostileProcessor
def generate(model, *arguments, **options):
    return None
"""
_AUTO_MAP = {
    "AutoConfig": "hostile.HostileConfig",
    "AutoModel": "hostile.HostileModel",
    "AutoModelForCausalLM": "hostile.HostileModel",
    "AutoModelForMaskedLM": "hostile.HostileModel",
    "AutoTokenizer": ["hostile.HostileTokenizer", "hostile.HostileTokenizer"],
    "AutoProcessor": "hostile.HostileProcessor",
}


def _change(path: Path, **values: Any) -> None:
    old = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**old, **values}))


def _unknown_model(folder: Path) -> None:
    _change(folder / "config.json", model_type="hostile", auto_map=_AUTO_MAP)


def _known_model(folder: Path) -> None:
    _change(folder / "config.json", auto_map=_AUTO_MAP)


def _tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    _change(folder / "tokenizer_config.json", tokenizer_class="HostileTokenizer", auto_map=_AUTO_MAP)


def _hub_attention(folder: Path) -> None:
    _change(folder / "config.json", attn_implementation="someone/attention-kernel")


@pytest.fixture
def answers_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``yes y |`` before the command does."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """A BERT folder with Python beside it, and the file that this Python would write."""
    marker = tmp_path / "marker"
    folder = save_bert(tmp_path / "hostile")
    (folder / "hostile.py").write_text(_CODE.format(marker=str(marker)))
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text(_CODE.format(marker=str(marker)))
    return folder, marker


@pytest.mark.usefixtures("answers_yes")
@pytest.mark.parametrize("changes", [[_tokenizer], [_unknown_model, _tokenizer]])
def test_tokenize_is_one_line_and_runs_nothing(
    hostile: tuple[Path, Path], changes: list[Callable[[Path], None]], capfd: pytest.CaptureFixture[str]
) -> None:
    folder, marker = hostile
    for change in changes:
        change(folder)
    with pytest.raises(SystemExit) as stopped:
        main(["tokenize", "hello", "--model", str(folder)])
    said = capfd.readouterr()
    assert stopped.value.code == 2
    assert not marker.exists()
    assert said.out == ""  # no prompt
    assert said.err.count("\n") == 1
    assert "never run here" in said.err


@pytest.mark.usefixtures("answers_yes")
@pytest.mark.parametrize("change", [_unknown_model, _tokenizer, _hub_attention])
def test_loading_refuses(
    hostile: tuple[Path, Path], change: Callable[[Path], None], capfd: pytest.CaptureFixture[str]
) -> None:
    folder, marker = hostile
    change(folder)
    task = FineTask("toy", AnswerKind.CLASS, "text", "label", labels=("a", "b"))
    for open_it in (lambda: load(str(folder), device="cpu"), lambda: load_with_head(str(folder), task)):
        with pytest.raises(ModelError, match="code"):
            open_it()
    assert not marker.exists()
    assert capfd.readouterr().out == ""


@pytest.mark.usefixtures("answers_yes")
def test_a_class_that_transformers_has_is_used_instead(hostile: tuple[Path, Path]) -> None:
    folder, marker = hostile
    _known_model(folder)
    assert type(load(str(folder), device="cpu").model) is transformers.BertModel
    assert not marker.exists()


@pytest.mark.usefixtures("answers_yes")
def test_the_base_of_an_adapter_refuses_too(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    folder, marker = hostile
    save_adapter(
        transformers.AutoModel.from_pretrained(folder), tmp_path / "adapter", target_modules=["query"]
    )
    _unknown_model(folder)
    with pytest.raises(ModelError, match="never run here"):
        load(str(tmp_path / "adapter"), device="cpu")
    assert not marker.exists()


@pytest.mark.usefixtures("answers_yes")
def test_generation_and_processors_run_nothing(
    hostile: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, marker = hostile
    causal = save_llama(tmp_path / "llama")
    (folder / "custom_generate").rename(causal / "custom_generate")
    model = load(str(causal), device="cpu")
    ids = model.tokenizer("the cat", return_tensors="pt").input_ids
    assert model.model.generate(ids, max_new_tokens=2, do_sample=False).shape == (1, 4)
    from_pretrained(transformers.GenerationConfig, causal)
    _change(folder / "processor_config.json", processor_class="HostileProcessor", auto_map=_AUTO_MAP)
    with pytest.raises(ModelError, match="never run here"):
        from_pretrained(transformers.AutoProcessor, folder)
    assert not marker.exists()
    assert capfd.readouterr().out == ""


def test_there_is_no_other_door() -> None:
    """All that opens a model goes through :func:`workbench.pretrained.from_pretrained`; PEFT's has no such option."""
    found = {
        f"{file.relative_to(REPOSITORY)}:{ast.unparse(call.func)}"
        for package in ("workbench", "probes", "challenge_sets")
        for file in (REPOSITORY / package).rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "from_pretrained"
    }
    assert found == {
        "workbench/pretrained.py:auto.from_pretrained",
        "workbench/models/_adapters.py:PeftModel.from_pretrained",
    }
