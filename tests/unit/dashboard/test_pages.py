"""What the pages say and show, without a browser."""

from __future__ import annotations

import json
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import MambaConfig, MambaForCausalLM

from tests.unit.tiny import WORDS, word_tokenizer
from workbench.analysis.attacks import input_reduction
from workbench.analysis.neurons import promoted_tokens, top_activations
from workbench.dashboard.resources import sample_texts, traced
from workbench.estimate import Estimate
from workbench.figures.view_options import ViewKind, ViewOptions, trace_for
from workbench.models import load
from workbench.runs import RunFolder, RunRecord

HOSTILE = "<script>alert(1)</script> [x](javascript:alert(2)) ![i](http://evil.example/i.png) **b**"


def frames(page: Any) -> list[str]:
    """The documents inside the page's frames."""
    return [json.loads(element.proto.json)["page"] for element in page.get("bidi_component")]


def view_data(document: str) -> Any:
    """What the view's script reads."""
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', document, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def shown_tokens(page: Any) -> list[str]:
    return list(view_data(frames(page)[0])["maps"][0]["queries"]["tokens"])


def text_of(page: Any) -> str:
    kinds = (page.markdown, page.caption, page.info, page.warning, page.error, page.subheader, page.title)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def store_run(root: Path, label: str = "tiny", model: str = "tiny") -> RunFolder:
    record = RunRecord.new(
        "evaluate", recipe={"tasks": ["t"]}, model={"name": model}, data={}, seeds={}, label=label
    )
    folder = RunFolder.create(root, record)
    folder.append([{"id": "0", "text": HOSTILE}])
    return folder


def finish(folder: RunFolder) -> str:
    accuracy = Estimate(value=0.75, standard_error=0.1, low=0.5, high=0.9, n=4)
    folder.finish({"t": {"accuracy": accuracy}}, {})
    return folder.path.name


def test_models_shows_the_card_of_the_first_model(open_page: Any) -> None:
    page = open_page("models")
    assert not page.exception
    assert page.selectbox(key="model").value == "bert"
    facts = page.get("html")[0].proto.body
    pairs = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", facts))
    # 32 wide: embeddings of words, positions and two segments, their norm, two layers, and the pooler
    layer = 4 * (32 * 32 + 32) + (32 * 64 + 64) + (64 * 32 + 32) + 2 * 64
    parameters = (4 + len(WORDS) + 64 + 2) * 32 + 64 + 2 * layer + 32 * 32 + 32
    assert pairs == {
        "Kind": "encoder",
        "Architecture": "bert",
        "Parameters": f"{parameters:,}",
        "Layers": "2",
        "Heads": "4",
        "Width": "32",
        "Vocabulary": str(4 + len(WORDS)),
        "Longest input": "64 tokens",
    }
    assert page.dataframe[1].value["parameters"].sum() == parameters  # the first table is of tokens


def test_the_doctor_runs_when_asked(open_page: Any) -> None:
    page = open_page("models")
    assert "Verdict" not in text_of(page)
    next(b for b in page.button if b.label == "Run the checks").click().run()
    assert next(b for b in page.button if b.label == "Run the checks").disabled  # a job of its own does it
    deadline = time.monotonic() + 240
    while "Verdict" not in text_of(page) and not page.success and not page.warning:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        page.run()
    assert not page.exception
    checks = page.dataframe[2].value
    assert {"right_padding", "attention_rows"} <= set(checks["name"])
    assert "fail" not in set(checks["status"])


def test_a_model_that_is_not_there_is_told_and_the_page_lives_on(
    open_page: Any, bart: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page("models")
    page.text_input(key="another").input("./no such model")
    page.button[-1].click().run()
    assert not page.exception
    assert "no model at" in page.error[0].value
    monkeypatch.setenv("WORKBENCH_DASHBOARD_FOLDERS", str(Path(bart).parent))
    page.text_input(key="another").input(bart)
    page.button[-1].click().run()
    assert page.selectbox(key="model").value == "bart"


def test_a_model_folder_outside_the_allowed_ones_is_refused(open_page: Any) -> None:
    page = open_page("models")
    page.text_input(key="another").input("/etc")
    page.button[-1].click().run()
    assert not page.exception
    assert "lies outside the folders that this dashboard reads" in page.error[0].value


def test_a_link_opens_no_model_by_itself(open_page: Any) -> None:
    page = open_page("models", model="/etc/secret <b>")
    assert page.selectbox(key="model").value == "bert"
    assert "The link names a model that is not open here" in page.info[0].value
    assert "\\<b\\>" in page.info[0].value
    page.sidebar.button[0].click().run()
    assert not page.exception
    assert "lies outside the folders" in page.error[0].value  # and now it was asked for


@pytest.mark.parametrize("name", ["a" * 300, "/" + "a" * 300, "runs/../../outside@step-4", "x\0y"])
def test_a_link_to_a_model_that_cannot_be_is_refused_and_the_session_goes_on(
    open_page: Any, name: str
) -> None:
    page = open_page("models", model=name)
    next(button for button in page.button if button.label == "Open it").click().run()
    assert not page.exception
    assert len(page.error) == 1
    page.run()  # the next run of the page is as ever
    assert not page.exception
    assert not page.error
    assert page.selectbox(key="model").value == "bert"


def test_a_function_is_refused_where_it_is_typed_and_where_a_link_names_it(open_page: Any) -> None:
    refused = "names a function, which pages do not import"
    page = open_page("models", model="os:getcwd")
    next(button for button in page.button if button.label == "Open it").click().run()
    assert refused in page.error[0].value
    page = open_page("models")
    page.text_input(key="another").input("os:getcwd")
    page.button[-1].click().run()
    assert not page.exception
    assert refused in page.error[0].value


def test_no_job_is_started_with_a_function(open_page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_DASHBOARD_MODELS", "os:getcwd")
    monkeypatch.setattr("workbench.dashboard.jobs.subprocess.Popen", lambda *_, **__: pytest.fail("started"))
    page = open_page("evaluation", evaluation="run")
    next(button for button in page.button if button.label == "Run").click().run()
    assert not page.exception
    assert "names a function, which pages do not import" in page.session_state["job problem"]


def test_inspect_reproduces_what_the_address_says(open_page: Any) -> None:
    address = {
        "text": "the cat sat",
        "pair": "a dogs ran",
        "layer": "1",
        "head": "2",
        "words": "true",
        "sinks": "true",
    }
    page = open_page("inspect", **address)
    assert not page.exception
    assert shown_tokens(page) == ["<s>", "the", "cat", "sat", "</s>", "a", "dogs", "ran", "</s>"]
    data = view_data(frames(page)[0])
    assert data["maps"][0]["split"] == 5
    assert data["state"] == {"map": 0, "layer": 1, "heads": [2], "words": True, "sinks": True}


def test_texts_are_messages_where_the_address_says_so(
    open_page: Any, llama: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(llama, tmp_path / "chatting")
    template = "{% for m in messages %}{{ m.content }} {% endfor %}</s>"
    (tmp_path / "chatting" / "chat_template.jinja").write_text(template)
    monkeypatch.setenv("WORKBENCH_DASHBOARD_MODELS", str(tmp_path / "chatting"))
    address = {"text": "the cat sat", "chat": "true", "system": "a dogs"}
    page = open_page("inspect", **address)
    assert not page.exception
    assert shown_tokens(page) == ["a", "dogs", "the", "cat", "sat", "</s>"]
    assert ".reads(chat=True, system='a dogs')" in page.code[0].value
    page.toggle(key="chat").set_value(False).run()
    assert shown_tokens(page) == ["the", "cat", "sat"]


def test_heads_are_measured_weighed_and_grouped(open_page: Any) -> None:
    page = open_page("inspect", model="llama", tab="heads", text="the cat sat", statistic="entropy")
    assert not page.exception
    assert page.selectbox(key="statistic").value == "entropy"
    assert view_data(frames(page)[0])["matrix"]["axes"] == ["layer", "head"]
    page = open_page("inspect", model="llama", tab="heads", heads="importance")
    assert "size of the loss" in view_data(frames(page)[0])["note"]
    assert "Are Sixteen Heads Really Better than One" in text_of(page)
    page = open_page("inspect", model="llama", tab="heads", heads="clusters", clusters="3")
    drawn = view_data(frames(page)[0])["matrix"]
    assert drawn["rows"] == drawn["columns"]
    assert {name[-2] for name in drawn["rows"]} == {"1", "2", "3"}
    page = open_page("inspect", model="bert", tab="heads", heads="importance")
    assert "head importance needs a causal or seq2seq or classifier model" in page.error[0].value


def test_a_neuron_s_activations_and_what_it_promotes(open_page: Any, llama: str) -> None:
    page = open_page("inspect", model="llama", tab="neurons", text="the cat sat", neuronlayer="1", neuron="5")
    assert not page.exception
    active, promoted = (element.value for element in page.dataframe)
    model = load(llama)
    (found,) = top_activations(model, ["the cat sat", *sample_texts()], 1, [5])
    assert active["activation"].tolist() == pytest.approx([firing.activation for firing in found])
    assert promoted["raised"].tolist() == [token for token, _ in promoted_tokens(model, 1, 5).raised]
    page = open_page("inspect", model="llama", tab="neurons", text="the cat sat", neuron="99999")
    assert "neuron 99999 is out of range" in page.error[0].value.replace("\\", "")


def test_the_neurons_of_an_encoder_decoder_are_its_encoder_s_alone(open_page: Any, bart: str) -> None:
    """What :func:`promoted_tokens` reads is the decoder's neuron: another one."""
    page = open_page("inspect", model="bart", tab="neurons", text="the cat sat", neuronlayer="1", neuron="5")
    assert not page.exception
    (active,) = (element.value for element in page.dataframe)
    (found,) = top_activations(load(bart), ["the cat sat", *sample_texts()], 1, [5])
    assert active["activation"].tolist() == pytest.approx([firing.activation for firing in found])


@pytest.mark.parametrize("tab", ["attention", "neurons"])
def test_a_model_without_attention_is_told_in_one_line(
    open_page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tab: str
) -> None:
    folder = tmp_path / "mamba"
    tokenizer = word_tokenizer()
    tokenizer.save_pretrained(folder)
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=16, state_size=4, num_hidden_layers=2)
    MambaForCausalLM(config).save_pretrained(folder)
    monkeypatch.setenv("WORKBENCH_DASHBOARD_MODELS", str(folder))
    page = open_page("inspect", model="mamba", tab=tab, text="the cat sat")
    assert not page.exception
    (error,) = page.error
    assert "attention" in error.value
    assert "\n" not in error.value


def test_a_text_is_attacked(open_page: Any) -> None:
    text = "A wonderful film , and I liked it ."
    page = open_page("inspect", model="sentiment-encoder", tab="attacks", attack="input_reduction", text=text)
    assert not page.exception
    found = input_reduction(load("sentiment-encoder"), text)
    original, changed = re.findall(r'<p class="marked">(.*?)</p>', frames(page)[0])
    assert original.count("--strength:1.000") == found.words_changed > 0
    assert changed.count("--strength:0.000") == len(found.changed.split())
    assert "positive" in original
    assert f"{found.words_changed} words taken away" in text_of(page).replace("\\", "")
    page = open_page("inspect", model="llama", tab="attacks", text=text)
    assert "an attack needs a classifier model" in page.error[0].value


@pytest.mark.parametrize("view", ["head", "model", "neuron"])
def test_each_view_of_an_encoder(open_page: Any, view: str) -> None:
    page = open_page("inspect", text="the cat sat", view=view)
    assert not page.exception
    assert shown_tokens(page) == ["<s>", "the", "cat", "sat", "</s>"]


@pytest.mark.parametrize("view", ["head", "model", "neuron", "alignment"])
def test_each_view_of_an_encoder_decoder(open_page: Any, view: str) -> None:
    page = open_page("inspect", model="bart", text="the cat sat", target="a cat", view=view)
    assert not page.exception
    if view == "alignment":
        record = view_data(frames(page)[0])["maps"][0]
        assert record["keys"]["tokens"] == ["<s>", "the", "cat", "sat", "</s>"]
        assert record["queries"]["tokens"] == ["a", "cat"]  # each step's token is the one that it predicts
        page = open_page("inspect", model="bart", text="the cat sat", target="a cat", view=view, step="reads")
        assert len(view_data(frames(page)[0])["maps"][0]["queries"]["tokens"]) == 3


def test_a_value_out_of_range_in_a_link_does_no_harm(open_page: Any) -> None:
    page = open_page("inspect", text="the cat", layer="99", head="x", view="alignment")
    assert not page.exception
    assert page.selectbox(key="layer").value == 0


def test_empty_and_overlong_texts(open_page: Any) -> None:
    page = open_page("inspect", text="cat " * 100)
    assert "38 tokens truncated to fit into the model" in page.warning[0].value  # 100 + 2 - 64
    page.text_area(key="text").input(" ").run()
    assert not page.exception
    assert "is empty" in page.error[0].value
    page.text_area(key="text").input("the cat " * 12_500).run()
    assert not page.exception
    assert page.warning[0].value.startswith("100,000 characters are more than this field takes")
    assert len(page.text_area(key="text").value) == 6000
    page.text_area(key="text").input("the cat").run()
    assert not page.error
    assert not page.warning


def test_hostile_text_reaches_the_frame_escaped(open_page: Any) -> None:
    page = open_page("inspect", text=HOSTILE)
    assert not page.exception
    assert frames(page)
    assert all("<script>alert" not in document for document in frames(page))


def test_texts_read_at_once_never_mix(bert: str) -> None:
    """Eight threads ask one model for a text each, again and again: everyone gets the attention of their own."""
    model = load(bert, dtype="float32")
    texts = [f"the {word} sat" for word in ("cat", "cats", "dogs", "key", "keys", "mat", "table", "cabinet")]
    alone = [trace_for(model, text, ViewOptions())[0].attention for text in texts]

    def session(text: str) -> list[Any]:
        traced.clear()
        return [traced(model, text, None, ViewKind.HEAD)[0] for _ in range(3)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(session, texts))
    for text, expected, got in zip(texts, alone, found, strict=True):
        assert [one.alignment.text for one in got] == [text] * 3
        assert all(np.array_equal(one.attention, expected) for one in got)


def test_runs_are_listed_newest_first_and_opened(open_page: Any, runs: Path) -> None:
    done = finish(store_run(runs))
    (runs / "broken").mkdir()
    page = open_page("runs", run=done)
    assert not page.exception
    listed = page.dataframe[0].value
    assert list(listed["state"]) == ["unreadable", "complete"]  # "broken" sorts after digits
    results = page.dataframe[1].value
    assert results.loc[0, ["task", "metric", "value", "n"]].tolist() == ["t", "accuracy", 0.75, 4]
    page.toggle(key="report").set_value(True).run()
    assert not page.exception
    assert "<script>alert" not in frames(page)[0]
    assert "0.7500" in frames(page)[0]


def test_an_unfinished_run_is_shown_as_such(open_page: Any, runs: Path) -> None:
    page = open_page("runs", run=store_run(runs).path.name)
    assert not page.exception
    assert "not finished" in page.warning[0].value


@pytest.mark.parametrize("name", ["../outside", "/etc", "..", "linked", "<img src=x onerror=alert(1)>"])
def test_paths_outside_the_runs_folder_are_refused(
    open_page: Any, runs: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    stored = store_run(outside)
    finish(stored)
    (runs / "linked").symlink_to(stored.path)
    finish(store_run(runs))
    page = open_page("runs", run=name)
    assert not page.exception
    assert "There is no run" in page.error[0].value
    assert page.selectbox(key="run").value is None
    assert len(page.dataframe[0].value) == 1  # the link is not listed


def test_no_runs_say_how_to_make_one(open_page: Any) -> None:
    assert "workbench evaluate" in open_page("runs").info[0].value


def test_changes_compares_the_first_model_with_the_second(open_page: Any) -> None:
    page = open_page("changes", model="llama", texts=f"the cat sat on the mat\nthe dogs ran {HOSTILE}")
    assert "the one after training" in text_of(page)
    page.selectbox(key="second").set_value("bert").run()
    assert not page.exception
    said = text_of(page).replace("\\", "")
    assert "States: CKA of each layer" in said
    assert "KL by token: left out" in said
    assert "<script>alert" not in "".join(frames(page))
    page.text_input(key="changes direction").set_value("/etc/passwd").run()
    assert "lies outside the folders" in text_of(page).replace("\\", "")
