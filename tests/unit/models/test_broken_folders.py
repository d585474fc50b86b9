"""Model folders that are damaged or disagree with themselves: refused in one line, never loaded in part."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.model_folders import framed_tokenizer, save_bart, save_bert, save_llama
from workbench.cli import main
from workbench.errors import ModelError
from workbench.models import Kind, load
from workbench.text import load_tokenizer


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    makers = {"bert": save_bert, "llama": save_llama, "bart": save_bart}
    return {name: make(root / name) for name, make in makers.items()}


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Any:
    """A copy of one of the folders, to be broken."""
    return lambda name: Path(shutil.copytree(folders[name], tmp_path / name))


def _refused(folder: Path, message: str = "") -> None:
    with pytest.raises(ModelError, match=message) as caught:
        load(str(folder), device="cpu")
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", ["bert", "llama"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[:-100], lambda b: b"", lambda b: b"x" * 500, lambda b: b[:40]]
)
def test_broken_weights(copy: Any, name: str, damage: Any) -> None:
    folder = copy(name)
    file = folder / "model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    _refused(folder, "SafetensorError")


@pytest.mark.parametrize("text", [b"[]", b"3", b"null", b"{", b"\xff", b""])
def test_a_configuration_that_is_no_object(copy: Any, text: bytes) -> None:
    folder = copy("bert")
    (folder / "config.json").write_bytes(text)
    _refused(folder, r"config\.json is not a JSON object")


WRONG = [
    ("bert", "num_hidden_layers", 0, "num_hidden_layers is 0; allowed: 1 or more"),
    ("bert", "num_hidden_layers", -1, "num_hidden_layers is -1"),
    ("bert", "num_hidden_layers", 1, r"fewer layers than the weights hold: encoder\.layer\.1"),
    ("bert", "num_hidden_layers", "2", "num_hidden_layers"),
    ("bert", "num_attention_heads", 3, "not a multiple of the number of attention heads"),
    ("bert", "num_attention_heads", 0, "num_attention_heads is 0"),
    ("bert", "vocab_size", 5, "the weights have other shapes than config.json says"),
    ("bert", "hidden_act", "nope", "nope"),
    ("bert", "id2label", 3, "cannot load"),
    ("bert", "architectures", 3, "architectures is 3; allowed: a list"),
    ("bert", "architectures", [7], "architectures is"),
    ("bert", "model_type", "nope", "nope"),
    ("llama", "num_hidden_layers", 1, r"fewer layers than the weights hold: model\.layers\.1"),
    ("llama", "num_attention_heads", 3, "cannot load"),
    ("llama", "num_attention_heads", 0, "cannot load"),
    ("llama", "pad_token_id", "x", "pad_token_id"),
    ("bart", "encoder_layers", 0, "encoder_layers is 0"),
    ("bart", "decoder_layers", 1, r"fewer layers than the weights hold: model\.decoder\.layers\.1"),
    ("bart", "decoder_attention_heads", -4, "decoder_attention_heads is -4"),
    ("bart", "d_model", 0, "cannot load|d_model is 0"),
    ("bart", "encoder_layers", None, "cannot load"),
]


@pytest.mark.parametrize(("name", "field", "value", "message"), WRONG)
def test_a_configuration_that_cannot_be_that_of_the_weights(
    copy: Any, name: str, field: str, value: Any, message: str
) -> None:
    folder = copy(name)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    _refused(folder, message)


@pytest.mark.parametrize(
    "tokenizer", ["BertTokenizer", "GPT2Tokenizer", "T5Tokenizer", "LlamaTokenizer", None]
)
def test_a_tokenizer_without_its_vocabulary(copy: Any, tokenizer: str | None) -> None:
    """transformers opens one of special tokens alone, to which every word is unknown."""
    folder = copy("bert")
    (folder / "tokenizer.json").unlink()
    if tokenizer:
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer}))
        with pytest.raises(ModelError, match="has no vocabulary"):
            load_tokenizer(folder)
    else:
        (folder / "tokenizer_config.json").unlink()
    _refused(folder, r"has no vocabulary: .* add the missing file: .*(vocab|merges|spiece|tokenizer)\.")


def test_a_tokenizer_whose_vocabulary_is_code_is_fine(copy: Any) -> None:
    """ByT5's 256 bytes come from no file."""
    folder = copy("bert")
    transformers.ByT5Tokenizer().save_pretrained(folder)
    (folder / "tokenizer.json").unlink()
    assert len(load_tokenizer(folder)("ab").input_ids) == 3  # two bytes and </s>


@pytest.mark.parametrize("bare_file", [False, True])
def test_the_advice_for_a_pickled_checkpoint_keeps_head_and_tokenizer(
    tmp_path: Path, bare_file: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed command is run as it stands; the classifier loaded from what it wrote has the old weights."""
    old = tmp_path / "it's old"
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=30, num_labels=3, **sizes)
    model = transformers.BertForSequenceClassification(config)
    model.save_pretrained(old)
    framed_tokenizer().save_pretrained(old)
    (old / "model.safetensors").unlink()
    torch.save(model.state_dict(), old / "pytorch_model.bin")

    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["tokenize", "the cat", "--model", str(old / "pytorch_model.bin" if bare_file else old)])
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    command = shlex.split(said.partition("where you trust it: ")[2])
    assert command[:2] == ["python", "-c"]
    exec(command[2], {"__name__": "__main__"})
    new = load(f"{old}-safetensors", dtype="float32", device="cpu")
    assert new.kind is Kind.CLASSIFIER
    assert new.tokenizer.get_vocab() == framed_tokenizer().get_vocab()
    for name, weight in model.state_dict().items():
        assert torch.equal(new.model.state_dict()[name], weight), name


def test_the_advice_for_a_pickled_adapter(folders: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from safetensors.torch import load_file

    from tests.model_folders import save_adapter

    base = transformers.AutoModelForCausalLM.from_pretrained(folders["llama"])
    save_adapter(base, tmp_path, task_type="CAUSAL_LM", target_modules=["q_proj"])
    file = tmp_path / "adapter_model.safetensors"
    weights = load_file(file)
    torch.save(weights, tmp_path / "adapter_model.bin")
    file.unlink()
    with pytest.raises(ModelError) as caught:
        load(str(tmp_path), device="cpu")
    command = shlex.split(str(caught.value).partition("where you trust it: ")[2])
    exec(command[2], {"__name__": "__main__"})
    again = load_file(file)
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[k], weights[k]) for k in weights)


def test_a_name_in_the_configuration_does_not_become_part_of_the_advice(copy: Any) -> None:
    folder = copy("bert")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "architectures": ["M'; touch /tmp/x; '"]}))
    with pytest.raises(ModelError) as caught:
        load(str(folder), device="cpu")
    assert not re.search("touch|python -c", str(caught.value))
