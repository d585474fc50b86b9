"""Texts in a model's chat template, and special tokens spelled out in them, beside plain transformers and lm-eval."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

import workbench
from challenge_sets import own_set
from probes import extract
from tests.helpers import assert_near
from tests.unit.text.tokenizers_for_tests import trained
from tests.unit.tiny import loaded, tiny_causal
from workbench.analysis.context import ContextItem, ContextSettings, context_run
from workbench.analysis.generation import generate_all
from workbench.analysis.patching import patch_pair
from workbench.data import DataIdentity
from workbench.errors import ConfigError, DataError, ModelError, TaskError
from workbench.models import Kind, LoadedModel, load
from workbench.runs import RunRecord
from workbench.text import TokenizerKind, render
from workbench.trace.encoding import encode_all

# The template writes the BOS, as Llama 3's does, strips the text, and ends in a line break.
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}rule: {% else %}ask: {% endif %}"
    "{{ m.content | trim }}</s>\n{% endfor %}{% if add_generation_prompt %}reply:\n{% endif %}"
)
TEXT, REPLY = "the cat sat on", " the mat"


@cache
def byte_model() -> LoadedModel:
    """A tiny Llama over bytes, whose tokenizer adds a BOS and has the template."""
    tokenizer = deepcopy(trained(TokenizerKind.BYTES, "decoder"))  # which other tests read too
    tokenizer.chat_template = TEMPLATE
    return tiny_causal(256, tokenizer)


def template_ids(model: LoadedModel, text: str, system: str | None = None) -> list[int]:
    """What plain transformers makes of the message."""
    messages = [{"role": "system", "content": system}] if system else []
    messages += [{"role": "user", "content": text}]
    found: Any = model.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    return list(found)


def log_probabilities(model: LoadedModel, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model.model(torch.tensor([ids])).logits[0].log_softmax(-1)


@pytest.mark.parametrize("system", [None, "be brief"])
def test_the_ids_are_those_of_transformers_with_one_bos(system: str | None) -> None:
    model = byte_model().reads(chat=True, system=system)
    read = model.read(TEXT)
    assert list(read.ids) == template_ids(model, TEXT, system)
    assert read.ids[0] == model.tokenizer.bos_token_id != read.ids[1]
    assert list(encode_all(model, [TEXT])[0].alignment.ids) == list(read.ids)


def test_words_are_those_of_the_text_and_the_template_has_none() -> None:
    read = byte_model().reads(chat=True).read(f"  {TEXT} \n")
    assert [read.word(n) for n in range(len(read.words))] == TEXT.split()
    inside = "".join(read.piece(n) for n, word in enumerate(read.word_ids) if word is not None)
    assert inside == TEXT.replace(" ", "")
    assert all(word is None for word in (*read.word_ids[:6], *read.word_ids[-8:]))


@pytest.mark.parametrize("boundary", ["separate", "joint"])
def test_a_continuation_is_scored_behind_the_generation_prompt(boundary: str) -> None:
    model = byte_model()
    found = workbench.score(model, TEXT, REPLY, chat=True, system="be brief", boundary=boundary)
    before = template_ids(model, TEXT, "be brief")
    reply = model.tokenizer(REPLY, add_special_tokens=False).input_ids
    # lm-eval moves white space that ends a context, here the generation prompt's line break, to the continuation
    start = len(before) - (boundary == "joint")
    ids = [*before, *reply]
    expected = log_probabilities(model, ids)
    rows = torch.arange(start - 1, len(ids) - 1)
    assert list(found.token_ids) == ids[start:]
    assert_near(found.log_probability, expected[rows, torch.tensor(ids[start:])].sum())


def test_a_generated_text_goes_on_from_the_generation_prompt() -> None:
    model = byte_model()
    ids = template_ids(model, TEXT)
    whole = model.model.generate(torch.tensor([ids]), max_new_tokens=6, do_sample=False, pad_token_id=0)
    expected = model.tokenizer.decode(whole[0, len(ids) :], skip_special_tokens=True)
    assert workbench.generate(model, TEXT, max_tokens=6, chat=True).text == expected
    (steps,) = generate_all(model.reads(chat=True), TEXT, 6)
    assert [s.token for s in steps.steps] == model.tokenizer.convert_ids_to_tokens(
        whole[0, len(ids) :].tolist()
    )


def test_attribution_lens_patching_and_traces_read_the_message() -> None:
    model = byte_model()
    ids = template_ids(model, TEXT)
    found = workbench.attribute(model, TEXT, "saliency", target="m", chat=True)
    of_text = [n for n, attributed in enumerate(found.attributed) if attributed]
    assert len(found.tokens) == len(ids)
    assert "".join(found.tokens[n] for n in of_text) == TEXT.replace(" ", "")
    assert of_text[0] == len("<ask: "), "BOS is one token"
    target = model.tokenizer("m", add_special_tokens=False).input_ids[0]
    expected = log_probabilities(model, ids)[-1]
    lens = workbench.lens(model, TEXT, target="m", chat=True)
    assert_near(lens.target_log_probability[-1, -1], expected[target])
    pair = patch_pair(model.reads(chat=True), TEXT, TEXT.replace("cat", "cut"), "m", metric="log_probability")
    assert_near(pair.clean_value, expected[target])
    traced = workbench.trace(model, TEXT, {"logits"}, chat=True)[0]
    assert_near(traced.logits, model.model(torch.tensor([ids])).logits[0].detach())


def test_surprisal_is_of_the_text_s_own_tokens() -> None:
    model = byte_model()
    ids = template_ids(model, TEXT)
    found = workbench.surprisal(model, TEXT, chat=True)
    expected = log_probabilities(model, ids)
    start, end = found.alignment.words[0][0], found.alignment.words[-1][1]
    own = [n for n, (a, b) in enumerate(found.alignment.offsets) if a >= start and b <= end and a < b]
    bits = [-float(expected[n - 1, ids[n]]) / 0.6931471805599453 for n in own]
    assert_near(found.total, sum(bits))
    assert list(found.words()["word"]) == TEXT.split()
    assert found.policy == "in chat format"


def test_special_tokens_of_the_text_are_tokens_or_characters() -> None:
    model, end = byte_model(), byte_model().tokenizer.eos_token_id
    written = "a</s>b"
    characters = [b + 3 for b in written.encode()]
    assert list(model.read(written).ids)[1:] == [97 + 3, end, 98 + 3]
    as_text = model.reads(special_tokens="text")
    assert list(as_text.read(written).ids)[1:] == characters
    assert list(model.read(written).ids)[1:] == [97 + 3, end, 98 + 3], "the model itself is as before"
    assert workbench.score(model, "x", written, special_tokens="text").token_ids == tuple(characters)
    chat = model.reads(chat=True, special_tokens="text")
    parsed, read = model.reads(chat=True).read(written), chat.read(written)
    assert parsed.ids.count(end) == 2
    assert read.ids.count(end) == 1, "the template's own is a token"
    assert "".join(read.piece(n) for n, w in enumerate(read.word_ids) if w is not None) == written
    scored = workbench.score(model, written, written, chat=True, special_tokens="text", boundary="joint")
    assert scored.token_ids[-len(characters) :] == tuple(characters)


def test_the_encoder_of_an_encoder_decoder_reads_the_message() -> None:
    tokenizer = deepcopy(trained(TokenizerKind.BYTES, "seq2seq"))  # which other tests read too
    tokenizer.chat_template = TEMPLATE.removeprefix("{{ bos_token }}")
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    model = loaded(T5ForConditionalGeneration(config), Kind.SEQ2SEQ, tokenizer)
    source, reply = template_ids(model, TEXT), tokenizer(REPLY, add_special_tokens=False).input_ids
    found = workbench.score(model, TEXT, REPLY, chat=True)
    with torch.no_grad():
        logits = model.model(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[0, *reply[:-1]]])
        ).logits
    expected = logits[0].log_softmax(-1)[torch.arange(len(reply)), torch.tensor(reply)]
    assert_near(found.token_log_probabilities, expected)


def test_users_mistakes_are_one_line() -> None:
    model, blank = byte_model(), "She was [MASK]."
    for call, error, said in (
        (lambda: tiny_causal().reads(chat=True), ModelError, "tiny has no chat template; leave out --chat"),
        (
            lambda: load("novels-encoder").reads(chat=True),
            ModelError,
            "a chat format needs a causal or seq2seq",
        ),
        (
            lambda: workbench.attribute("novels-encoder", blank, special_tokens="text"),
            TaskError,
            "marks the word as a special token",
        ),
        (lambda: model.reads(system="x"), ConfigError, "system is of a chat format"),
        (lambda: model.reads(chats=True), ConfigError, "unknown option 'chats'"),
        (lambda: model.reads(special_tokens="both"), ConfigError, "allowed: parse, text"),
        (lambda: workbench.score(model, REPLY, chat=True), DataError, "a whole text, without context"),
        (
            lambda: workbench.attribute(model, (TEXT, TEXT), chat=True),
            DataError,
            "a chat message is one text",
        ),
        (
            lambda: workbench.evaluate(model.reads(chat=True), tasks="lambada_sample"),
            ConfigError,
            "was made to read as",
        ),
        (
            lambda: workbench.check(model, "wsc", chat=True),
            TaskError,
            "task wsc takes no --chat",
        ),
        (
            lambda: workbench.check("novels-encoder", "pairs_builtin", chat=True),
            ModelError,
            "a chat format needs a causal or seq2seq",
        ),
    ):
        with pytest.raises(error, match=said):
            call()


def test_a_template_that_refuses_a_system_message_says_so() -> None:
    model = byte_model()
    tokenizer = deepcopy(trained(TokenizerKind.BYTES, "encoder"))  # which other tests read too
    tokenizer.chat_template = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{{ messages[0].content }}"
    )
    with pytest.raises(ModelError, match="refuses a system message: System role not supported"):
        render(tokenizer, TEXT, "x")
    tokenizer.chat_template = "{{ messages[0].content | upper }}"
    with pytest.raises(ModelError, match="changes the text"):
        render(tokenizer, TEXT)
    assert model.reads(chat=True).prompt.chat


def own_task(folder: Path) -> Path:
    """Four questions for both programs."""
    rows = [
        {"query": f"the {noun} sat on", "choices": ["the mat", "a key", "cats"], "gold": gold}
        for noun, gold in (("cat", 0), ("cats", 2), ("dogs", 1), ("key", 0))
    ]
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shared = {
        "dataset_path": "json",
        "test_split": "test",
        "dataset_kwargs": {"data_files": {"test": str(path)}},
        "doc_to_text": "{{query}}",
        "metadata": {"version": 1.0},
    }
    choice = {"task": "chat_choice", "output_type": "multiple_choice", "doc_to_choice": "{{choices}}"}
    pair = {
        "task": "chat_pair",
        "output_type": "multiple_choice",
        "doc_to_text": "",
        "doc_to_choice": "{{['the dogs are', query]}}",
    }
    last = {"task": "chat_last", "output_type": "loglikelihood", "doc_to_target": "{{' ' + choices[gold]}}"}
    for task in ({**choice, "doc_to_target": "gold"}, {**pair, "doc_to_target": 0}, last):
        (folder / f"{task['task']}.yaml").write_text(json.dumps({**shared, **task}))
    passages = [{"text": f"{row['query']} {row['choices'][row['gold']].split()[0]}"} for row in rows]
    (folder / "lambada_test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in passages))
    return path


@pytest.mark.filterwarnings("ignore")  # lm-eval's and datasets' own
def test_scores_in_chat_format_are_those_of_lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lm_eval", reason="pip install lm-eval==0.4.13")
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    model, path = byte_model(), own_task(tmp_path)
    theirs = simple_evaluate(
        HFLM(pretrained=model.model, tokenizer=model.tokenizer, max_length=256, batch_size=1),
        tasks=["chat_choice", "chat_last", "chat_pair"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        apply_chat_template=True,
        system_instruction="be brief",
        log_samples=True,
        bootstrap_iters=0,
        verbosity="ERROR",
    )["samples"]
    asked = {"chat": True, "system": "be brief", "doctor": False, "out": tmp_path / "runs"}
    run = workbench.evaluate(model, tasks=str(path), **asked)
    expected = [[float(r[0][0]) for r in s["resps"]] for s in theirs["chat_choice"]]
    assert_near(run.examples().sort_values("id")["log_probabilities"].tolist(), expected)
    # a single continuation keeps the blank before it, as lm-eval's delimiter stands before choices alone
    requests = [(s["doc"]["query"], f" {s['doc']['choices'][s['doc']['gold']]}") for s in theirs["chat_last"]]
    scores = workbench.score(model, requests, chat=True, system="be brief")
    assert_near(
        [s.log_probability for s in scores], [float(s["resps"][0][0][0]) for s in theirs["chat_last"]]
    )
    lambada = workbench.evaluate(model, tasks="lambada_openai", data_dir=str(tmp_path), **asked)
    direct = workbench.score(model, "the cats sat on", " cats", chat=True, system="be brief")
    assert_near(lambada.examples().sort_values("id")["log_probability"].iloc[1], direct.log_probability)

    for name in ("chat_choice", "chat_last"):
        bridged = workbench.evaluate(model, tasks=f"harness:{name}", data_dir=str(tmp_path), **asked)
        for metric in {"acc", "perplexity"} & set(theirs[name][0]):
            values = bridged.examples().sort_values("id")[metric].astype(float).tolist()
            assert_near(values, [float(s[metric]) for s in theirs[name]])
        assert bridged.record.recipe["system"] == "be brief"
    pairs = own_set([{"good": "the dogs are", "bad": s["doc"]["query"]} for s in theirs["chat_pair"]], "mine")
    checked = workbench.check(model, pairs, **asked).examples().sort_values("id")
    expected = [[float(r[0][0]) for r in s["resps"]] for s in theirs["chat_pair"]]
    assert_near(checked[["good_score", "bad_score"]].to_numpy().tolist(), expected)


def test_probes_read_the_sentence_inside_the_message() -> None:
    model = byte_model()
    chat = model.reads(chat=True, system="be brief")
    read = chat.read_words(["the", "cat", "s"], [True, False, False])
    assert list(read.ids) == template_ids(model, "the cats", "be brief")
    assert [read.word(n) for n in range(3)] == ["the", "cat", "s"]
    features = extract(chat, ["the cat"], layers=[1], pool="last")
    ids = template_ids(model, "the cat", "be brief")
    with torch.no_grad():
        states = model.model(torch.tensor([ids]), output_hidden_states=True).hidden_states[1][0]
    start = chat.read("the cat").token_spans[0][0]
    assert_near(features.layer(1)[:], states[[start + 2, start + 6]])
    report = workbench.probe(model, "pos", limit=40, seeds=1, random_weights=False, layers=[1], chat=True)
    assert report.stated[-1] == "each sentence is a user's message"


def test_context_curves_take_the_context_as_the_message(tmp_path: Path) -> None:
    model = byte_model()
    item = ContextItem("one", "the cat sat on the", " mat")
    settings = ContextSettings(source="x", operations=("keep",), distances=(2,), chat=True)
    identity = DataIdentity("x", "x", "0", 1)
    run = context_run(model, [item], identity, settings, out=tmp_path)
    full, kept = (
        workbench.score(model, text, " mat", chat=True) for text in ("the cat sat on the", "on the")
    )
    rows = run.examples().set_index("context")["log_probability"]
    assert_near(rows["the cat sat on the"], full.log_probability)
    assert_near(rows["on the"], kept.log_probability)
    assert run.record.recipe["chat"]


def test_runs_store_how_texts_were_read_and_old_ones_are_resumed(tmp_path: Path) -> None:
    model = byte_model()
    options = {"doctor": False, "out": tmp_path}
    run = workbench.evaluate(
        model, tasks="lambada_sample", limit=2, chat=True, special_tokens="text", **options
    )
    recipe = run.record.recipe
    assert (recipe["chat"], recipe["system"], recipe["special_tokens"]) == (True, None, "text")
    plain = workbench.evaluate(model, tasks="lambada_sample", limit=2, **options)
    assert (
        run.results["lambada_sample"]["perplexity"].value
        != plain.results["lambada_sample"]["perplexity"].value
    )
    stored = json.loads((plain.path / "run.json").read_text())
    older = {k: v for k, v in stored["recipe"].items() if k not in ("system", "special_tokens")}
    record = RunRecord.from_dict({**stored, "recipe": older})
    assert {k: record.recipe_in_force[k] for k in recipe} == plain.record.recipe
    checked = workbench.check(model, "sentiment", limit=3, chat=True, system="be brief", **options)
    assert checked.record.recipe["system"] == "be brief"
    assert "in chat format, system 'be brief'" in checked.record.recipe["policy"]
