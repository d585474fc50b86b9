"""Instruction tuning on conversations: what is scored, what is cut, and rows that hold several, kept apart."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch.nn import functional as F
from transformers import AutoTokenizer

import workbench
from tests.model_folders import save_bart
from tests.unit.models.tiny import decoder
from tests.unit.text.tokenizers_for_tests import trained
from tests.unit.tiny import tiny_causal, tiny_gpt2, word_tokenizer
from workbench.data.chats import read_messages
from workbench.errors import ConfigError, DataError
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.parts import PositionConfig
from workbench.text import TokenizerKind
from workbench.text.chats import conversation_ids
from workbench.training.finetuning import AnswerKind, FineSettings, FineTask, finetune, load_task, pack
from workbench.training.finetuning._losses import HeadLoss
from workbench.training.finetuning.conversations import check_packs
from workbench.training.finetuning.encoding import Features, collate, encode
from workbench.training.objectives import IGNORED

CHAT = FineTask("chat", AnswerKind.RESPONSE, "messages", "messages")
TURNS = [
    {"role": "system", "content": "the table"},
    {"role": "user", "content": "the cats"},
    {"role": "assistant", "content": "sat on"},
    {"role": "user", "content": "and dogs"},
    {"role": "assistant", "content": "ran"},
]
TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def bytes_with(template: str) -> Any:
    tokenizer = deepcopy(trained(TokenizerKind.BYTES, "decoder"))
    tokenizer.chat_template = template
    return tokenizer


def chatted(*replies: str, system: bool = False) -> dict[str, Any]:
    turns = [
        t
        for reply in replies
        for t in ({"role": "user", "content": "the cats"}, {"role": "assistant", "content": reply})
    ]
    return {"messages": [*(TURNS[:1] if system else []), *turns]}


def test_every_reply_and_its_end_are_scored_and_nothing_else() -> None:
    tokenizer = bytes_with(TEMPLATE)
    (row,) = encode([{"messages": TURNS}], CHAT, tokenizer, 500)
    text = tokenizer.apply_chat_template(TURNS, tokenize=False)
    assert tokenizer.decode(row["input_ids"]) == text.removesuffix("\n")
    runs, scored = [], []
    for token, label in zip(row["input_ids"], row["labels"], strict=True):
        if label == IGNORED and scored:
            runs.append(tokenizer.decode(scored))
            scored = []
        if label != IGNORED:
            assert label == token
            scored.append(label)
    assert [*runs, tokenizer.decode(scored)] == ["sat on</s>", "ran</s>"]


def test_the_plain_format_of_a_model_without_a_template() -> None:
    tokenizer = word_tokenizer()
    (row,) = encode([{"messages": TURNS}], CHAT, tokenizer, 50)
    assert tokenizer.decode(row["input_ids"]) == "<s> the table the cats sat on </s> and dogs ran </s>"
    assert tokenizer.decode([i for i in row["labels"] if i != IGNORED]) == "sat on </s> ran </s>"


@pytest.mark.parametrize(
    "template",
    [
        # earlier turns are written otherwise once others follow
        "{% for m in messages %}{{ m.role }}{{ m.content if loop.last else '' }}</s>{% endfor %}",
        # the generation prompt is not how a reply begins
        "{% for m in messages %}{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}x{% endif %}",
    ],
)
def test_a_template_without_borders_is_refused(template: str) -> None:
    with pytest.raises(DataError, match=r"chat, row 1: the chat template cannot be split at message"):
        encode([{"messages": TURNS}], CHAT, bytes_with(template), 50)


def test_a_template_that_takes_no_system_message_says_so() -> None:
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + TEMPLATE
    with pytest.raises(DataError, match="refuses a system message: no system"):
        encode([{"messages": TURNS}], CHAT, bytes_with(template), 50)


@pytest.mark.parametrize(
    ("length", "kept", "cut"),
    [
        (12, "<s> the table the cats sat on </s> and dogs ran </s>", 0),
        (9, "<s> the table the cats sat on </s> and", 3),  # the last turns go first
        (5, "the cats sat on </s>", 7),  # then the beginning of the first prompt
        (2, "sat on", 10),  # of a reply that is too long alone, the end
    ],
)
def test_what_is_cut(length: int, kept: str, cut: int) -> None:
    tokenizer = word_tokenizer()
    (row,) = encode([{"messages": TURNS}], CHAT, tokenizer, length)
    assert (tokenizer.decode(row["input_ids"]), row["cut"]) == (kept, cut)
    assert any(label != IGNORED for label in row["labels"])


def test_forms_of_conversations(tmp_path: Path) -> None:
    """OpenAI's, ShareGPT's, in a cell of a CSV, Alpaca's and a prompt with its response: the same rows."""
    pairs = [("user", "human", "the cats"), ("assistant", "gpt", "ran")]
    messages = [{"role": role, "content": text} for role, _, text in pairs]
    shared = [{"from": name, "value": text} for _, name, text in pairs]
    forms = {
        "a.jsonl": {"messages": messages},
        "b.jsonl": {"conversations": shared},
        "c.csv": {"messages": json.dumps(messages)},
        "d.jsonl": {"instruction": "the cats", "input": "", "output": "ran"},
        "e.csv": {"prompt": "the cats", "response": "ran"},
        "f.parquet": {"messages": messages},
    }
    tokenizer, found = word_tokenizer(), []
    for name, row in forms.items():
        frame, path = pd.DataFrame([row] * 5), tmp_path / name
        {
            ".csv": lambda f, p: f.to_csv(p, index=False),
            ".jsonl": lambda f, p: f.to_json(p, orient="records", lines=True),
            ".parquet": lambda f, p: f.to_parquet(p),
        }[path.suffix](frame, path)
        rows = load_task(path, kind="response")
        found.append(encode(rows.train, rows.task, tokenizer, 20)[0])
    assert all(one == found[0] for one in found[1:])
    assert tokenizer.decode(found[0]["input_ids"]) == "<s> the cats ran </s>"
    below = load_task([{"instruction": "the", "input": "cats", "output": "ran"}] * 5, kind="response")
    assert encode(below.train, below.task, tokenizer, 20)[0]["input_ids"] == found[0]["input_ids"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no json", "is no list of messages"),
        ([1], "each needs the texts 'role' and 'content'"),
        ([{"who": "user"}], "each needs the texts 'role' and 'content'"),
        ([{"role": "tool", "content": "a"}], "is of 'tool'; allowed: system, user, human"),
        ([{"role": "user", "content": " "}], "its content is ' '"),
        ([{"role": "user", "content": "a"}], "has no reply of the assistant"),
        ([{"role": "assistant", "content": "a"}], "message 1: a reply without a user's message"),
        ([TURNS[1], TURNS[2], TURNS[0], TURNS[3], TURNS[4]], "a system message stands first, or nowhere"),
    ],
)
def test_what_is_no_conversation_is_said_with_its_row(value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_messages(value, "row 3")


def test_what_nobody_answers_is_left_out() -> None:
    parts = [{"type": "text", "text": "sat "}, {"type": "text", "text": "on"}]
    turns = [TURNS[1], {"role": "assistant", "content": parts}, TURNS[3]]
    assert read_messages(turns, "row 1") == (("user", "the cats"), ("assistant", "sat on"))


def built_in() -> torch.nn.Module:
    torch.manual_seed(0)
    positions = PositionConfig(kind="rotary", max_length=64)
    config = decoder(vocab_size=len(word_tokenizer()), positions=positions, initializer_range=0.3)
    return TransformerDecoderForCausalLM(config)


MODELS = {"built-in": built_in, "Llama": lambda: tiny_causal().model, "GPT-2": lambda: tiny_gpt2().model}


def losses(model: Any, features: list[Features]) -> dict[tuple[int, ...], list[float]]:
    """The loss of each scored token, by the ids of its conversation."""
    batch = collate(features, 0)
    labels = batch.pop("labels")
    _, output = HeadLoss()(model, {**batch, "labels": labels})
    each = F.cross_entropy(output.logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")
    found: dict[tuple[int, ...], list[float]] = {}
    for row, feature in enumerate(features):
        places = feature.get("position_ids", range(len(feature["input_ids"])))
        starts = [i for i, place in enumerate(places) if place == 0]
        for start, end in zip(starts, [*starts[1:], len(places)], strict=True):
            scored = [i for i in range(start + 1, end) if feature["labels"][i] != IGNORED]
            found[tuple(feature["input_ids"][start:end])] = [float(each[row, i - 1]) for i in scored]
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_and_single_rows_have_the_same_losses(name: str, attention: str) -> None:
    model = MODELS[name]().eval()
    model.set_attn_implementation(attention)
    check_packs(model)
    rows = [
        chatted("sat on the mat"),
        chatted("ran", "sat"),
        chatted("is", system=True),
        chatted("are", "ran", "sat"),
    ]
    features = encode(rows, CHAT, word_tokenizer(), 32)
    packed = pack(features, 32)
    assert len(packed) < len(rows)
    with torch.no_grad():
        alone, together = losses(model, features), losses(model, packed)
        means = [float(HeadLoss()(model, collate(part, 0))[0]) for part in (features, packed)]
    assert alone.keys() == together.keys()
    for ids, values in alone.items():
        assert together[ids] == pytest.approx(values, abs=1e-5)
    assert means[0] == pytest.approx(means[1], abs=1e-5)


def test_packing_gives_the_same_gradients() -> None:
    features = encode([chatted("sat on"), chatted("ran"), chatted("is", "are")], CHAT, word_tokenizer(), 64)
    found = []
    for rows in (features, pack(features, 64)):
        model = built_in()
        HeadLoss()(model, collate(rows, 0))[0].backward()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-4)


def test_rows_are_filled_and_hold_every_conversation_once() -> None:
    sizes = [9, 1, 5, 4, 6, 3, 2, 10]
    features = [{"input_ids": [n] * n, "attention_mask": [1] * n, "labels": [n] * n} for n in sizes]
    rows = pack(features, 10)
    assert len(rows) == sum(sizes) / 10
    assert sorted(token for row in rows for token in row["input_ids"]) == sorted(
        n for n in sizes for _ in range(n)
    )
    assert all(
        row["labels"][i] == IGNORED for row in rows for i, p in enumerate(row["position_ids"]) if p == 0
    )


def test_models_that_cannot_keep_texts_apart_are_refused(tmp_path: Path) -> None:
    class Blind(torch.nn.Module):
        """Reads all of a row, whatever the positions."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.config = tiny_causal().model, tiny_causal().config
            self.device = torch.device("cpu")

        def forward(self, input_ids: Any, position_ids: Any = None, **rest: Any) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=torch.ones_like(input_ids), **rest)

    with pytest.raises(
        ConfigError, match="packing does not go with Blind: texts in one row are not kept apart"
    ):
        check_packs(Blind())
    path = tmp_path / "chats.jsonl"
    path.write_text((json.dumps(chatted("ran")) + "\n") * 6)
    bart = str(save_bart(tmp_path / "bart"))
    for model, method, message in (
        (bart, "full", "packing goes with --kind response and decoders"),
        ("novels-decoder", "prompt", "packing does not go with method prompt"),
    ):
        with pytest.raises(ConfigError, match=message):
            finetune(model, path, tmp_path / "out", kind="response", packing=True, method=method)
    several = tmp_path / "several.jsonl"
    several.write_text((json.dumps(chatted("ran", "sat")) + "\n") * 6)
    with pytest.raises(DataError, match="an encoder-decoder writes one"):
        finetune(bart, several, tmp_path / "out", kind="response")


def test_a_model_learns_replies_and_keeps_the_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = []
    for reply in ("sat on", "ran", "is", "are") * 5:
        messages = chatted(reply, "sat on the table " * 9)["messages"]
        rows.append({"messages": messages})
    settings = FineSettings(epochs=3, batch_size=2, length=24, packing=True, lr=1e-3, precision="float32")
    run = finetune(
        "novels-decoder", load_task(rows, kind="response"), tmp_path / "out", settings, device="cpu"
    )
    found = run.results["rows"]
    assert found["loss_change"].high < 0
    assert found["loss"].value - found["loss_before"].value == pytest.approx(found["loss_change"].value)
    assert run.notes["truncated"] == {"training": 18, "validation": 2}
    assert "18 of 18 training rows are longer than 24 tokens and were cut" in capsys.readouterr().err
    tokenizer, turns = (
        AutoTokenizer.from_pretrained(tmp_path / "out"),
        [("user", "the cats"), ("assistant", "ran")],
    )
    assert conversation_ids(tokenizer, turns) == conversation_ids(
        workbench.load("novels-decoder").tokenizer, turns
    )
    chat = workbench.load(str(tmp_path / "out"), device="cpu").reads(chat=True)
    assert chat.tokenizer.decode(chat.read("the cats").ids) == "<s>the cats\n"
