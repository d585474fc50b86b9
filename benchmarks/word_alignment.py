"""What the attention of the bundled translators aligns, by part of speech, beside the known alignment.

python benchmarks/word_alignment.py [--pairs 300]

For each model and layer, the heads and their mean: alignment error rate. Then, of the best one, the share of target
words whose strongest link is a known one, for each part of speech of the source word, for the object particle, and by
pieces. Attention is that of the steps that predict a word. Sentences do not occur in training.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks._frame import machine, parser
from workbench.analysis.alignment_error import alignment_error, attention_links, word_attention
from workbench.data.grammar import Sentence, sentences
from workbench.data.grammar.invented import CONSTRUCTIONS, InventedPair, invented_pairs, translate

MODELS = ("grammar-bahdanau", "grammar-transformer")


def sources(pairs: Sequence[InventedPair]) -> list[Sentence]:
    """The sentences behind ``pairs``, with their annotation."""
    drawn = sentences(3 * len(pairs) + 20, 0, constructions=CONSTRUCTIONS)
    of_words = {tuple(word.form.lower() for word in one.words): one for one in drawn}
    return [of_words[pair.source] for pair in pairs]


def by_class(
    model: Any, pairs: Sequence[InventedPair], layer: int, head: int | None
) -> dict[str, tuple[int, int]]:
    """Right links and all links of each class of target words."""
    from workbench import trace
    from workbench.text import align_words

    right: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for pair, sentence in zip(pairs, sources(pairs), strict=True):
        assert translate(sentence) == pair
        target = align_words(pair.target, model.tokenizer, add_special_tokens=False)
        source = align_words(pair.source, model.tokenizer)
        (text,) = trace(model, [source], {"attention"}, targets=[target])
        weights = word_attention(text, "predicts")[layer]
        source_of = {to: word for word, to in pair.links.sure}
        for link in attention_links(weights.mean(0) if head is None else weights[head]):
            word = source_of.get(link[1])
            kind = "object particle" if word is None else sentence.words[word].upos
            first, last = target.token_spans[link[1]]
            for name in (kind, "one piece" if last - first == 1 else "several pieces", "all"):
                every[name] += 1
                right[name] += link in pair.links.possible
    return {name: (right[name], every[name]) for name in sorted(every)}


def main() -> None:
    """Print both tables."""
    options = parser(__doc__ or "")
    options.add_argument("--pairs", type=int, default=300)
    given = options.parse_args()
    from workbench import load

    pairs, classes = invented_pairs(given.pairs), {}
    for name in MODELS:
        model = load(name, dtype="float32", device="cpu")
        scores = alignment_error(model, [pair.linked() for pair in pairs])
        print(f"\n{name}\n{scores.to_frame().round(3).to_string(index=False)}")
        classes[name] = by_class(model, pairs, scores.best.layer, scores.best.head)
    print(f"\n| target word | n | {' | '.join(MODELS)} |\n|---|--:|--:|--:|")
    for kind in classes[MODELS[0]]:
        shares = " | ".join(f"{classes[m][kind][0] / classes[m][kind][1]:.3f}" for m in MODELS)
        print(f"| {kind} | {classes[MODELS[0]][kind][1]} | {shares} |")
    print(f"\nmachine: {machine()}")


if __name__ == "__main__":
    main()
