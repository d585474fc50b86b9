"""Fine-tuning: every kind of task by every method, on tasks that can be learned, beside plain PEFT and scikit-learn.

python benchmarks/finetuning.py [--only KIND] [--json FILE]

Each task is decided by one word of a made sentence. Kinds but response train novels-encoder, whose folder has no
pooler, so that it is drawn at random; response trains novels-decoder, and by prompt and prefix, which can only choose
among what a model does already, a small Llama that was trained to answer in two ways, each after its own instruction:
vectors in the instruction's place are known to exist. The first number of a cell is the task's metric on sentences
that were not trained on (of responses, the probability of a token), the second that of plain PEFT with the same
settings, of a logistic regression on the same frozen states, or of a plain loop over all weights. ``-`` stands for
what is refused, in one line and before training.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from workbench.data.tables import Row
from workbench.errors import ConfigError
from workbench.training.finetuning import AnswerKind, FineSettings, FineTask, Method, TaskRows, finetune
from workbench.training.finetuning.encoding import collate, encode
from workbench.training.finetuning.heads import Headed, ask, load_with_head
from workbench.training.finetuning.metrics import compute_metrics
from workbench.training.finetuning.predict import predict

__all__ = ["Cell", "plain", "table", "task_rows", "train"]

LEAST = 0.95  # what every method must reach
TRAIN, HELD = 160, 48  # rows
LENGTH, BATCH = 24, 16
EPOCHS = {
    Method.FULL: 5,
    Method.LORA: 12,
    Method.ADAPTER: 20,
    Method.HEAD: 40,
    Method.PROMPT: 40,
    Method.PREFIX: 40,
}
RATES = {
    Method.FULL: 1e-3,
    Method.LORA: 3e-3,
    Method.ADAPTER: 3e-3,
    Method.HEAD: 1e-2,
    Method.PROMPT: 2e-2,
    Method.PREFIX: 2e-2,
}

PEOPLE, THINGS = ("man", "woman", "girl", "boy", "doctor"), ("door", "table", "window", "house", "garden")
_OPENINGS = ("at last", "in the evening", "that day", "once more", "before long", "after all")
_VERBS = ("saw", "knew", "left", "loved", "remembered", "forgot")
_WORD, _KIND = "tell the word :", "tell the kind :"  # instructions
_QUALITIES = ("old", "little", "poor", "great", "young", "dear")


@dataclass(frozen=True)
class Cell:
    """One kind by one method: our score, that of the plain computation beside it, or why it is refused."""

    kind: str
    method: str
    score: float | None = None
    beside: float | None = None
    refused: str = ""


def _draws(seed: int, count: int) -> Iterator[dict[str, str]]:
    rng = np.random.default_rng(seed)
    for number in range(count):
        words = THINGS if number % 2 else PEOPLE
        yield {
            "opening": str(rng.choice(_OPENINGS)),
            "verb": str(rng.choice(_VERBS)),
            "quality": str(rng.choice(_QUALITIES)),
            "word": str(rng.choice(words)),
            "other": str(rng.choice(PEOPLE if number % 2 else THINGS)),
            "label": "thing" if number % 2 else "person",
        }


def _class(d: dict[str, str]) -> Row:
    return {"text": f"{d['opening']} she {d['verb']} the {d['quality']} {d['word']} .", "label": d["label"]}


def _number(d: dict[str, str]) -> Row:
    place = (*PEOPLE, *THINGS).index(d["word"])
    return {**_class(d), "label": place / 5}


def _tokens(d: dict[str, str]) -> Row:
    words = _class(d)["text"].split()
    names = {**dict.fromkeys(PEOPLE, "B-PERSON"), **dict.fromkeys(THINGS, "B-THING")}
    return {"tokens": words, "labels": [names.get(word, "O") for word in words]}


def _span(d: dict[str, str]) -> Row:
    return {"question": f"what {d['verb']} she ?", "context": _class(d)["text"], "answer": d["word"]}


def _choice(d: dict[str, str]) -> Row:
    """Which of two sentences is about a person?"""
    texts = [f"the {d['quality']} {word} ." for word in (d["word"], d["other"])]
    gold = 0 if d["label"] == "person" else 1
    return {"query": f"{d['opening']} she {d['verb']}", "choices": texts, "gold": gold}


def _response(d: dict[str, str]) -> Row:
    return {"prompt": _class(d)["text"], "response": "somebody" if d["label"] == "person" else "something"}


_ROWS: dict[AnswerKind, Callable[[dict[str, str]], Row]] = {
    AnswerKind.CLASS: _class,
    AnswerKind.NUMBER: _number,
    AnswerKind.TOKENS: _tokens,
    AnswerKind.SPAN: _span,
    AnswerKind.CHOICE: _choice,
    AnswerKind.RESPONSE: _response,
}
_TASKS = {
    AnswerKind.CLASS: FineTask("made", AnswerKind.CLASS, "text", "label", labels=("person", "thing")),
    AnswerKind.NUMBER: FineTask("made", AnswerKind.NUMBER, "text", "label", metric="pearson"),
    AnswerKind.TOKENS: FineTask(
        "made", AnswerKind.TOKENS, "tokens", "labels", labels=("O", "B-PERSON", "B-THING"), metric="span_f1"
    ),
    AnswerKind.SPAN: FineTask("made", AnswerKind.SPAN, "question", "answer", "context", metric="f1"),
    AnswerKind.CHOICE: FineTask("made", AnswerKind.CHOICE, "query", "gold", "choices"),
    AnswerKind.RESPONSE: FineTask("made", AnswerKind.RESPONSE, "prompt", "response", metric="loss"),
}


def task_rows(kind: AnswerKind) -> TaskRows:
    """The made task of a kind: rows to train on, and others to judge."""
    train, held = ([_ROWS[kind](d) for d in _draws(seed, count)] for seed, count in ((0, TRAIN), (1, HELD)))
    return TaskRows(_TASKS[kind], train, held)


def settings(method: Method) -> FineSettings:
    """The same for every kind."""
    return FineSettings(
        method=method,
        epochs=EPOCHS[method],
        lr=RATES[method],
        batch_size=BATCH,
        length=LENGTH,
        virtual_tokens=4,
        weight_decay=0.0,
        precision="float32",
    )


def base_model(kind: AnswerKind, method: Method) -> str:
    """What is trained."""
    if kind is not AnswerKind.RESPONSE:
        return "novels-encoder"
    return two_answers() if method in (Method.PROMPT, Method.PREFIX) else "novels-decoder"


@cache
def two_answers() -> str:
    """A Llama of two layers: the answer is the word that the prompt is about, or, if told to, its kind."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from workbench.models import load_tokenizer

    folder, tokenizer = Path(tempfile.mkdtemp()) / "llama", load_tokenizer("novels-decoder")
    torch.manual_seed(0)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        **ids,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    rows = task_rows(AnswerKind.RESPONSE)
    words = [
        {"prompt": f"{_WORD} {row['prompt']}", "response": row["prompt"].split()[-2]} for row in rows.train
    ]
    kinds, held = (
        [{**r, "prompt": f"{_KIND} {r['prompt']}"} for r in part] for part in (rows.train, rows.validation)
    )
    first = FineSettings(epochs=30, lr=3e-3, batch_size=BATCH, length=LENGTH, precision="float32")
    taught = replace(rows, train=[*words, *kinds], validation=held)
    run = finetune(str(folder), taught, folder.with_name("trained"), first, device="cpu")
    known = score(AnswerKind.RESPONSE, run.results["made"])
    print(f"two_answers, instructed: {known:.3f}", file=sys.stderr)
    return str(folder.with_name("trained"))


def score(kind: AnswerKind, metrics: dict[str, Any]) -> float:
    """The task's metric; of responses, the probability of a token."""
    value = float(metrics[_TASKS[kind].metric].value)
    return math.exp(-value) if kind is AnswerKind.RESPONSE else value


def train(kind: AnswerKind, method: Method) -> Cell:
    """Our fine-tuning of a kind by a method, or why it is refused."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out"
        try:
            run = finetune(base_model(kind, method), task_rows(kind), out, settings(method), device="cpu")
        except ConfigError as error:
            assert not out.exists(), "a refused run leaves no folder"
            return Cell(kind, method, refused=str(error))
        return Cell(kind, method, score(kind, run.results["made"]))


def plain(kind: AnswerKind, method: Method) -> float | None:
    """The same by PEFT, scikit-learn or a loop over all weights alone; nothing where there is no such thing."""
    torch.manual_seed(0)
    headed = load_with_head(base_model(kind, method), _TASKS[kind])
    if method is Method.HEAD:
        return _regression(headed, kind) if kind is AnswerKind.CLASS else None
    if method is Method.ADAPTER:
        return None  # peft has no adapters that become part of their layers
    if method is not Method.FULL:
        headed = replace(headed, model=_with_peft(headed, kind, method))
    _loop(headed, kind, method)
    rows = task_rows(kind)
    held = _features(headed, kind, rows.validation)
    found = predict(headed.model, headed.tokenizer, held, rows.validation, rows.task, BATCH)
    return score(kind, compute_metrics(kind, found.predicted, found.gold))


def _features(headed: Headed, kind: AnswerKind, rows: Sequence[Row]) -> list[dict[str, Any]]:
    known = {"input_ids", "attention_mask", "labels", "start_positions", "end_positions", "offsets"}
    encoded = encode(list(rows), _TASKS[kind], headed.tokenizer, LENGTH)
    return [{name: value for name, value in row.items() if name in known} for row in encoded]


def _with_peft(headed: Headed, kind: AnswerKind, method: Method) -> Any:
    import peft

    types = {"class": "SEQ_CLS", "number": "SEQ_CLS", "tokens": "TOKEN_CLS", "span": "QUESTION_ANS"}
    shape, common = (
        headed.model.config,
        {"task_type": types.get(kind, "CAUSAL_LM" if kind == "response" else None)},
    )
    config: Any
    new = None if kind is AnswerKind.RESPONSE else ["classifier", "pooler"]
    if method is Method.LORA:
        linear = [n for n, m in headed.model.base_model.named_modules() if isinstance(m, torch.nn.Linear)]
        linear = [name for name in linear if "pooler" not in name]
        config = peft.LoraConfig(
            r=8, lora_alpha=16, lora_dropout=0.05, target_modules=linear, modules_to_save=new, **common
        )
    else:
        made: Any = peft.PromptTuningConfig if method is Method.PROMPT else peft.PrefixTuningConfig
        config = made(
            num_virtual_tokens=4,
            num_layers=shape.num_hidden_layers,
            num_attention_heads=shape.num_attention_heads,
            token_dim=shape.hidden_size,
            modules_to_save=new,
            **common,
        )
    return peft.get_peft_model(headed.model, config)


def _loop(headed: Headed, kind: AnswerKind, method: Method) -> None:
    """AdamW with a linear schedule after a tenth of warm-up, as fine-tuning has it."""
    features, rng = _features(headed, kind, task_rows(kind).train), np.random.default_rng(0)
    model, steps = headed.model.train(), EPOCHS[method] * (TRAIN // BATCH)
    chosen = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], RATES[method], weight_decay=0.0
    )
    for step in range(steps):
        share = min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
        for group in chosen.param_groups:
            group["lr"] = RATES[method] * min(1.0, share)
        rows = rng.choice(TRAIN, BATCH, replace=False)
        ask(model, collate([features[i] for i in rows], 0), one_by_one=headed.one_by_one).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        chosen.step()
        chosen.zero_grad()


def _regression(headed: Headed, kind: AnswerKind) -> float:
    """A logistic regression on the frozen states of the first token, which the head reads."""
    from sklearn.linear_model import LogisticRegression

    rows, found = task_rows(kind), []
    for part in (rows.train, rows.validation):
        batch = collate(_features(headed, kind, part), 0)
        with torch.inference_mode():
            body = headed.model.eval().base_model
            states = body(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state[:, 0]
        found.append((states.numpy(), batch["labels"].numpy()))
    return float(LogisticRegression(max_iter=2000).fit(*found[0]).score(*found[1]))


def table(cells: Sequence[Cell]) -> str:
    """Markdown: a row a kind, a column a method."""
    methods = list(Method)
    lines = [f"| `--kind` | {' | '.join(f'`{m}`' for m in methods)} |", "|---" * (len(methods) + 1) + "|"]
    for kind in dict.fromkeys(cell.kind for cell in cells):
        row = {cell.method: cell for cell in cells if cell.kind == kind}
        lines.append(f"| `{kind}` | {' | '.join(_shown(row[m]) for m in methods)} |")
    return "\n".join(lines)


def _shown(cell: Cell) -> str:
    if cell.score is None:
        return "-"
    return f"{cell.score:.3f}" if cell.beside is None else f"{cell.score:.3f} ({cell.beside:.3f})"


def main() -> None:
    """Print the table and why what is refused is refused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", help="one kind")
    parser.add_argument("--json", type=Path, help="write the cells here too")
    given = parser.parse_args()
    cells = []
    for kind in [AnswerKind(given.only)] if given.only else list(AnswerKind):
        for method in Method:
            cell = train(kind, method)
            cell = cell if cell.refused else replace(cell, beside=plain(kind, method))
            print(kind, method, _shown(cell), cell.refused, file=sys.stderr, flush=True)
            cells.append(cell)
    print(table(cells))
    if given.json:
        given.json.write_text(json.dumps([vars(cell) for cell in cells], indent=1))
    bad = [f"{c.kind} by {c.method}: {c.score:.3f}" for c in cells if c.score is not None and c.score < LEAST]
    if bad:
        raise SystemExit(f"below {LEAST}: {'; '.join(bad)}")


if __name__ == "__main__":
    main()
