"""Opening tokenizers from disk, and what is said when that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.text.tokenizers_for_tests import trained
from workbench.errors import ModelError
from workbench.text import TokenizerKind, load_tokenizer, save_tokenizer


def test_a_bare_tokenizer_json_knows_its_special_tokens(tmp_path: Path) -> None:
    for role in ("encoder", "decoder", "seq2seq"):
        tokenizer = trained(TokenizerKind.BPE, role)
        path = tmp_path / f"{role}.json"
        tokenizer.backend_tokenizer.save(str(path))
        assert load_tokenizer(path).special_tokens_map == tokenizer.special_tokens_map


def test_saving_again_replaces_the_files_and_leaves_nothing_else(tmp_path: Path) -> None:
    save_tokenizer(trained(TokenizerKind.BPE), tmp_path)
    save_tokenizer(trained(TokenizerKind.WORDPIECE), tmp_path)
    assert len(load_tokenizer(tmp_path)) == len(trained(TokenizerKind.WORDPIECE))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file or folder"):
        load_tokenizer(tmp_path / "absent")
    with pytest.raises(ModelError, match=r"expected one of tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{}")
    with pytest.raises(ModelError, match=r"broken\.json is not a tokenizer\.json"):
        load_tokenizer(path)
    (tmp_path / "tokenizer.json").write_text("{")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot open the tokenizer in"):
        load_tokenizer(tmp_path)
    (tmp_path / "words.txt").write_text("a\nb\n")
    with pytest.raises(ModelError, match="give a folder"):
        load_tokenizer(tmp_path / "words.txt")


def test_code_in_the_folder_is_never_run(tmp_path: Path) -> None:
    folder = save_tokenizer(trained(TokenizerKind.BPE), tmp_path / "tok")
    (folder / "evil.py").write_text("raise SystemExit('this code ran')")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config |= {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": "Evil"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="never run here"):
        load_tokenizer(folder)
