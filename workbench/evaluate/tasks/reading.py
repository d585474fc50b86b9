"""Reading and knowing: SQuAD, the Children's Book Test, SNLI, entities, WikiText-2."""

from __future__ import annotations

from workbench.data.glue import SNLI, SNLI_LABELS
from workbench.data.ner import NER_SOURCES
from workbench.data.reading import SQUAD, SQUAD_V2, cbt_source
from workbench.data.rows import Question, TextPair
from workbench.data.wikitext import WIKITEXT2, WIKITEXT2_PLAIN
from workbench.evaluate._task import Task
from workbench.evaluate.metrics import ACCURACY
from workbench.evaluate.tasks.task_types import (
    AnsweringTask,
    ClozeTask,
    Perplexity,
    Tagging,
    TextClassification,
    UnanswerableTask,
)

__all__ = ["READING_TASKS"]


def _squad(row: Question) -> str:
    title = f"Title: {row.title}\n\n" if row.title else ""
    return f"{title}Background: {row.context}\n\nQuestion: {row.question}\n\nAnswer:"


def _snli(row: TextPair) -> str:
    return f"{row.text}\nQuestion: {row.pair} True, False or Neither?\nAnswer:"


_CBT = {"CN": "common nouns", "NE": "named entities"}
_NER = {
    "ner/uner_ewt": "people, places, organisations in web text: uner_en_ewt-ud-*.iob2",
    "ner/wnut17": "emerging entities in social media: emerging.test.annotated",
    "ner/conll2003": "news entities in CoNLL format: eng.testb or test.txt",
}

READING_TASKS: tuple[Task, ...] = (
    AnsweringTask(
        name="squad",
        about="answers that stand in a paragraph, SQuAD v1.1 JSON: dev-v1.1.json or xquad.en.json",
        source=SQUAD,
        prompt=_squad,
        max_tokens=32,
        version=2,
    ),
    UnanswerableTask(
        name="squadv2",
        about="the same, where half of the questions have no answer, SQuAD v2 JSON: dev-v2.0.json",
        source=SQUAD_V2,
        prompt=_squad,
        max_tokens=32,
    ),
    *(
        ClozeTask(
            name=f"cbt_{variant.lower()}",
            about=f"{words} left out of children's books: cbtest_{variant}_test_2500ex.txt",
            source=cbt_source(variant),
            passage=lambda row: row.passage + " ",
            default_split="test",
        )
        for variant, words in _CBT.items()
    ),
    TextClassification(
        name="snli",
        about="inference from image captions: snli_1.0_dev.jsonl or dev_first3000.jsonl",
        source=SNLI,
        labels=SNLI_LABELS,
        words=("True", "Neither", "False"),
        prompt=_snli,
        measures=(ACCURACY,),
    ),
    *(
        Tagging(name=name, about=about, source=NER_SOURCES[name], default_split="test")
        for name, about in _NER.items()
    ),
    Perplexity(
        name="wikitext2",
        about="perplexity of articles, raw text with its markers: wiki.test.raw",
        source=WIKITEXT2,
        default_split="test",
    ),
    Perplexity(
        name="wikitext",
        about="the same with markers undone, as lm-eval reads it: wiki.test.raw",
        source=WIKITEXT2_PLAIN,
        default_split="test",
    ),
)
