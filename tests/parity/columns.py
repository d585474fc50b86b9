"""One comparison of the workbench with plain forward passes for each column of the table of families.

The plain side uses transformers alone: one text, no padding, no batch, no hook, no cache. A column is the largest
difference as a share of the largest entry of what is compared, ``None`` where it does not apply.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers

from tests.parity import defaults
from tests.plain_scores import plain_scores
from workbench.models import Kind, LoadedModel
from workbench.models.batching import encode_row
from workbench.scoring import Engine, MaskedEngine, Request, Seq2SeqEngine
from workbench.scoring.streams import head_scores
from workbench.trace import trace
from workbench.trace.decoder import decoder_prefix

__all__ = ["COLUMNS"]

TEXTS = defaults.TEXTS
_TARGETS = (*TEXTS[1:], TEXTS[0])
Numbers = Sequence[float] | npt.NDArray[Any]


def _apart(found: Sequence[Numbers], plain: Sequence[Numbers]) -> float:
    """The largest difference of any pair of arrays, as a share of the largest plain entry."""
    pairs = [(np.asarray(f, float), np.asarray(p, float)) for f, p in zip(found, plain, strict=True)]
    assert all(f.shape == p.shape and p.size for f, p in pairs)
    scale = max(float(np.abs(p).max()) for _, p in pairs)
    return max(float(np.abs(f - p).max()) for f, p in pairs) / scale


def score(model: LoadedModel) -> float | None:
    """Continuations by themselves and behind shared beginnings; targets of an encoder-decoder."""
    if model.kind is Kind.SEQ2SEQ:
        requests = [Request(*pair) for pair in zip(TEXTS, _TARGETS, strict=True)]
        answers = [Seq2SeqEngine(model).score(requests)]
    elif model.kind is Kind.CAUSAL:
        engine = Engine(model)
        requests = [Request(context, f" {text}") for context in TEXTS[:2] for text in TEXTS]
        answers = [engine.score(requests), engine.score_shared(engine.encode(requests))]
    else:
        return None
    plain = [plain_scores(model, request.continuation.strip(), request.context) for request in requests]
    return max(_apart([s.token_log_probabilities for s in scores], plain) for scores in answers)


def pseudo_log_likelihood(model: LoadedModel) -> float | None:
    """Each token hidden in turn; a word is one token here, so that both ways of hiding are the same."""
    if model.kind is not Kind.MASKED:
        return None
    plain = [plain_scores(model, text) for text in TEXTS]
    return max(
        _apart([s.token_log_probabilities for s in MaskedEngine(model, masking).score(TEXTS)], plain)
        for masking in ("original", "within_word_l2r")
    )


def attention(model: LoadedModel) -> float | None:
    """All maps of all stacks, recorded in one batch, against the model's own, returned for one text."""
    behind = list(_TARGETS) if model.kind is Kind.SEQ2SEQ else None
    eager = _eager(model.model)
    found, plain = [], []
    for text in trace(model, list(TEXTS), {"attention"}, targets=behind):
        ours = {name: value for name, value in text.arrays().items() if name.endswith("attention")}
        theirs = _returned_attention(eager, text, set(ours))
        assert ours
        for name, value in ours.items():
            found.append(value)
            plain.append(theirs[name])
    return _apart(found, plain)


def _eager(network: Any) -> Any:
    """The same model with eager attention; Falcon, made with another, forgets its mask where weights are wanted."""
    if network.config._attn_implementation == "eager":
        return network
    if network._can_set_attn_implementation():
        copied = copy.deepcopy(network)
        copied.set_attn_implementation("eager")
        return copied
    copied = type(network)._from_config(copy.deepcopy(network.config), attn_implementation="eager")
    copied.load_state_dict(network.state_dict())
    return copied.eval()


def _returned_attention(eager: Any, text: Any, wanted: set[str]) -> dict[str, npt.NDArray[Any]]:
    """Weights (layer, head, query, key) of the wanted stacks that a model returns for one text alone."""
    read, source = text.alignment.ids, text.source
    inputs = _row(read if source is None else source.ids)
    if source is not None:
        inputs["decoder_input_ids"] = torch.tensor([read])
    # FSMT leaves its causal mask out where it fills a cache.
    no_cache = {"use_cache": False} if "use_cache" in inspect.signature(eager.forward).parameters else {}
    with torch.no_grad():
        output = eager(**inputs, **no_cache, output_attentions=True)
    names = {"encoder_attention": "encoder_attentions", "decoder_attention": "decoder_attentions"}
    names["cross_attention"] = "cross_attentions"
    if source is None:
        names = {"encoder_attention": "attentions", "decoder_attention": "attentions"}
    window = getattr(eager.config, "attention_window", None)
    found = {}
    for ours in wanted:
        layers = [layer[0] for layer in output[names[ours]]]
        windowed = window is not None and ours == "encoder_attention"
        found[ours] = np.stack([_by_key(layer) if windowed else layer for layer in layers])
    return found


def _by_key(weights: torch.Tensor) -> torch.Tensor:
    """A window's weights (head, query, offset) by key: offset ``window / 2`` is the query itself."""
    heads, queries, offsets = weights.shape
    found = torch.zeros(heads, queries, queries)
    for query in range(queries):
        for offset in range(offsets):
            if 0 <= (key := query + offset - offsets // 2) < queries:
                found[:, query, key] = weights[:, query, offset]
    return found


def classifier_batch(model: LoadedModel) -> float | None:
    """Class scores of texts of different lengths given together, against each text alone."""
    config = model.config
    if type(config) not in transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        return None
    head = defaults.loaded(
        defaults.build(config, "AutoModelForSequenceClassification"), Kind.CLASSIFIER, model.tokenizer
    )
    rows = [encode_row(head, text) for text in TEXTS]
    found = [output["logits"].numpy() for output in head_scores(head, rows)]
    with torch.no_grad():
        plain = [head.model(**_row(row.ids)).logits[0].numpy() for row in rows]
    return _apart(found, plain)


def decoder_prefix_of(model: LoadedModel) -> float | None:
    """Logits of a target's first token behind our prefix, against those that generation of transformers begins with.

    Does not apply to a configuration without a token to begin with: generation of transformers refuses it.
    """
    settings = model.model.generation_config if model.kind is Kind.SEQ2SEQ else None
    if settings is None or (settings.decoder_start_token_id, settings.bos_token_id) == (None, None):
        return None
    prefix, inputs = decoder_prefix(model), _row(model.tokenizer(TEXTS[0]).input_ids)
    with torch.no_grad():
        generated = model.model.generate(
            **inputs, max_new_tokens=len(prefix), do_sample=False, num_beams=1, use_cache=False,
            output_logits=True, return_dict_in_generate=True,
        )  # fmt: skip
        ours = model.model(**inputs, decoder_input_ids=torch.tensor([prefix]), use_cache=False).logits[0, -1]
    assert tuple(generated.sequences[0, : len(prefix)].tolist()) == prefix
    return _apart([ours.numpy()], [generated.logits[-1][0].numpy()])


def _row(ids: Sequence[int]) -> dict[str, torch.Tensor]:
    """One text as a model reads it, without padding."""
    row = torch.tensor([list(ids)])
    return {"input_ids": row, "attention_mask": torch.ones_like(row)}


COLUMNS: dict[str, Callable[[LoadedModel], float | None]] = {
    "score": score,
    "pseudo-log-likelihood": pseudo_log_likelihood,
    "attention": attention,
    "classifier batch": classifier_batch,
    "decoder prefix": decoder_prefix_of,
}
