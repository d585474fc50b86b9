"""What the dashboard of the browser tests offers: tiny models, and runs written without running anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from tests.browser.hostile import HOSTILE, as_name, as_token
from tests.model_folders import framed_tokenizer, save, save_bart, save_bert, save_llama
from workbench.estimate import Estimate
from workbench.runs import RunFolder, RunRecord
from workbench.statistics import wilson

__all__ = ["HOSTILE_MODEL", "save_models", "store_hostile_runs", "store_runs"]

HOSTILE_MODEL = "<img src=x onerror=alert(99)>"


def save_models(folder: Path) -> dict[str, Path]:
    """BERT, BART and Llama with random weights, and a BERT whose vocabulary and name are hostile."""
    return {
        "tiny-bert": save_bert(folder / "tiny-bert"),
        "tiny-bart": save_bart(folder / "tiny-bart"),
        "tiny-llama": save_llama(folder / "tiny-llama"),
        HOSTILE_MODEL: _save_hostile(folder / HOSTILE_MODEL),
    }


def _save_hostile(folder: Path) -> Path:
    torch.manual_seed(0)
    names = ["<pad>", "<s>", "</s>", "<unk>", *map(as_token, HOSTILE)]
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = framed_tokenizer().backend_tokenizer.post_processor
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, cls_token="<s>", sep_token="</s>", **special)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(names), max_position_embeddings=64, **sizes)
    return save(BertModel(config), tokenizer, folder)


def store_runs(root: Path, model: str, other: str) -> None:
    """Two evaluations of the same items and a check of minimal pairs, as the commands would store them."""
    root.mkdir()
    answers = {"first": (model, [True] * 9 + [False]), "second": (other, [False] * 8 + [True] * 2)}
    for label, (name, right) in answers.items():
        _store(
            root,
            "evaluate",
            label,
            {"name": name},
            {"t": {"accuracy": wilson(sum(right), 10)}},
            [
                {"id": str(i), "task": "t", "text": f"the cat number {i} sat", "correct": ok}
                for i, ok in enumerate(right)
            ],
        )
    pairs = [
        {
            "id": str(i),
            "group": "agreement",
            "good": "the cats are on the mat",
            "bad": "the cats is on the mat",
            "margin": -1.0 - i,
            "correct": False,
        }
        for i in range(3)
    ]
    results = {"agreement": {"accuracy": wilson(0, 3)}}
    _store(root, "check", "pairs", {"name": model, "kind": "causal"}, results, pairs)


def store_hostile_runs(root: Path) -> None:
    """A run of each hostile name, whose model, task, metric, label and text are that name as well."""
    accuracy = Estimate(value=0.75, standard_error=0.1, low=0.5, high=0.9, n=4)
    for text in HOSTILE:
        rows = [{"id": "0", "task": text, "text": text, "label": text, "predicted": text, "correct": False}]
        path = _store(root, "evaluate", "x", {"name": text}, {text: {text: accuracy}}, rows)
        path.rename(root / as_name(text))


def _store(
    root: Path,
    verb: str,
    label: str,
    model: dict[str, Any],
    results: dict[str, dict[str, Estimate]],
    rows: list[dict[str, Any]],
) -> Path:
    recipe = {"tasks": list(results), "set": label}
    data = {name: {"sha256": "0" * 64} for name in results}
    record = RunRecord.new(verb, recipe=recipe, model=model, data=data, seeds={}, label=label)
    folder = RunFolder.create(root, record)
    folder.append(rows)
    folder.finish(results, {}, {"policy": json.dumps(label)})
    return folder.path
