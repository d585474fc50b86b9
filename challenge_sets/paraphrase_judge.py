"""Whether a rewrite keeps the meaning of a text, as two models see it: one says what else could stand there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from challenge_sets.rewrites import Replacement
from challenge_sets.templates.suggestions import MARK, suggest
from workbench.models import Kind, LoadedModel
from workbench.nn import mean_of_tokens

__all__ = ["Judge", "ParaphraseScore", "embedding_similarity", "nearer_than_fillers"]

ParaphraseScore: TypeAlias = Callable[[Sequence[tuple[str, str]]], list[float]]
"""How alike the two texts of each pair are; higher is more alike."""

Judge: TypeAlias = Callable[[Sequence[Replacement]], list[bool]]
"""Whether each edit keeps the meaning of its text."""

_TEXTS_PER_BATCH = 32
_AROUND = 300  # characters on either side that the masked model reads
_WORD = re.compile("[A-Za-z]{2,}")


def nearer_than_fillers(masked: LoadedModel, score: ParaphraseScore, *, fillers: int = 19) -> Judge:
    """Accept an edit whose text is nearer to the original than with any of the likeliest ``fillers`` in its place.

    The fillers are the words that a masked model finds likeliest there, other than the old and the new one. They fit
    the place, and few mean the same; if the new word were one more of them, it would be the nearest of 20 in one case
    of 20 (a rank test at 5 %). A limit on the score itself would depend on how long the text is. Of long texts the
    masked model reads 300 characters on either side.

    What this does not see: antonyms are near, too (docs/findings.md has how often they are accepted), so edits must
    come from a lexicon; and whether the new word's register and inflection fit. The ratio of the masked model's
    probabilities is left out: it tells how common a word was in what that model read (4 nats for *film* in place of
    *movie*, and 4 against the way back).

    Raises :class:`~workbench.errors.ModelError` for a model that is not masked.

    Example:
        ```python
        import workbench
        from challenge_sets.paraphrase_judge import embedding_similarity, nearer_than_fillers
        from challenge_sets.rewrites import Replacement

        similarity = embedding_similarity(workbench.load("minilm-l6"))
        judge = nearer_than_fillers(workbench.load("novels-encoder"), similarity)
        print(judge([Replacement("the film was long", 4, 8, new) for new in ("movie", "train")]))
        ```
    """
    masked.require(Kind.MASKED, verb="what else could stand in a text")

    def judge(edits: Sequence[Replacement]) -> list[bool]:
        places: dict[tuple[str, int, int], list[Replacement]] = defaultdict(list)
        for edit in edits:
            places[edit.text, edit.start, edit.end].append(edit)
        accepted = {
            edit
            for (text, start, end), found in tqdm(places.items(), unit="place", leave=False, disable=None)
            for edit in _nearer(found, _likeliest(masked, text, start, end), score, fillers)
        }
        return [edit in accepted for edit in edits]

    return judge


def _likeliest(masked: LoadedModel, text: str, start: int, end: int) -> list[str]:
    """Words for ``text[start:end]``, likeliest first, in small letters."""
    context = text[max(start - _AROUND, 0) : start] + MARK + text[end : end + _AROUND]
    found = suggest(masked, [context], count=100, pieces=1)
    return list(dict.fromkeys(one.text.lower() for one in found if _WORD.fullmatch(one.text)))


def _nearer(
    edits: list[Replacement], likeliest: list[str], score: ParaphraseScore, count: int
) -> list[Replacement]:
    """The edits of one place that are nearer to the text than every filler."""
    text, start, end, _ = edits[0]
    ours = {text[start:end].lower(), *(edit.new.lower() for edit in edits)}
    fillers = [word for word in likeliest if word not in ours][:count]
    scores = score([(text, edits[0].with_words(word)) for word in (*fillers, *(e.new for e in edits))])
    nearest = max(scores[: len(fillers)], default=float("-inf"))
    return [edit for edit, value in zip(edits, scores[len(fillers) :], strict=True) if value > nearest]


def embedding_similarity(model: LoadedModel) -> ParaphraseScore:
    """Cosine of the two texts' mean token states under a sentence encoder (``minilm-l6``), -1 to 1.

    Raises :class:`~workbench.errors.ModelError` for a model that is no encoder.
    """
    model.require(Kind.ENCODER, Kind.DETECTOR, verb="a paraphrase score")

    def similarity(pairs: Sequence[tuple[str, str]]) -> list[float]:
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = torch.cat(
            [
                _embedded(model, texts[i : i + _TEXTS_PER_BATCH])
                for i in range(0, len(texts), _TEXTS_PER_BATCH)
            ]
        )
        place = {text: index for index, text in enumerate(texts)}
        first, second = (vectors[[place[pair[k]] for pair in pairs]] for k in (0, 1))
        return torch.cosine_similarity(first, second).tolist()

    return similarity


def _embedded(model: LoadedModel, texts: list[str]) -> Float[Tensor, "text width"]:
    inputs = model.tokenizer(
        texts, padding=True, truncation=True, max_length=model.max_length, return_tensors="pt"
    ).to(model.device)
    with model.lock, torch.inference_mode():
        states = model.model.base_model(**inputs).last_hidden_state.float()  # (text, token, width)
    return mean_of_tokens(states, inputs["attention_mask"])
