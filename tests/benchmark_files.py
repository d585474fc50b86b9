"""Small files in the official format of every benchmark, for tests that need no download."""
# ruff: noqa: E501  (a record stands on one line, as it does in the file)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["write_benchmark"]


def _lines(*records: dict[str, Any]) -> str:
    return "\n".join(json.dumps(record) for record in records) + "\n"


def _tsv(*rows: tuple[str, ...]) -> str:
    return "\n".join("\t".join(row) for row in rows) + "\n"


_MNLI_COLUMNS = (
    "index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse",
    "sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1", "gold_label",
)  # fmt: skip


def _mnli(*golds: str) -> str:
    rows = [
        (str(i), f"p{i}", f"{i}e", "fiction", *"abcd", f"cat {i} sat", f"mat {i}", gold, gold)
        for i, gold in enumerate(golds)
    ]
    return _tsv(_MNLI_COLUMNS, *rows)


def _pairs(first: str, second: str, *golds: str) -> str:
    rows = [(str(i), f'the "cat {i}', f"a dog {i}", gold) for i, gold in enumerate(golds)]
    return _tsv(("index", first, second, "label"), *rows)


_STSB = (
    "index",
    "genre",
    "filename",
    "year",
    "old_index",
    "source1",
    "source2",
    "sentence1",
    "sentence2",
    "score",
)
_ARC = [
    {
        "id": f"Q{i}",
        "question": {
            "stem": f"What is {i} + 1?",
            "choices": [{"text": str(i + 1), "label": "A"}, {"text": "nine hundred", "label": "B"}],
        },
        "answerKey": key,
    }
    for i, key in enumerate("AB")
]
_COLA = 'gj04\t1\t\tThe "cat" sat.\ngj04\t0\t*\tCat the sat.'  # no header, no final newline
_SWAG_COLUMNS = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
_CBT_TEXT = "".join(f"{i} The cat sat on mat {i} .\n" for i in range(1, 21))
_CBT = f"{_CBT_TEXT}21 Then the XXXXX ran .\tdog\t\tdog|cat|mat|key|table|cabinet|dogs|cats|keys|a\n\n"
_BBH = {"canary": "none", "examples": [{"input": f"not True and {i}", "target": "False"} for i in range(6)]}
_WIKI = " \n = First = \n \n The cat @-@ sat . \n \n = = Part = = \n \n Dogs ran . \n \n = Second = \n \n A mat . \n"
_IOB2 = (
    "# newdoc id = one\n# text = Ann ran\n1\tAnn\tB-PER\t-\t-\n2\tran\tO\t-\t-\n\n"
    "# newdoc id = two\n# text = In New York\n1\tIn\tO\t-\t-\n2\tNew\tB-LOC\t-\t-\n3\tYork\tI-LOC\t-\t-\n\n"
)
_CONLL = "-DOCSTART- -X- O O\n\nEU NNP B-NP I-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP I-PER\n"
_SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Cats",
            "paragraphs": [
                {
                    "context": "The cat sat on the red mat.",
                    "qas": [
                        {
                            "id": f"q{i}",
                            "question": "Where did it sit?",
                            "answers": [
                                {"text": "the red mat", "answer_start": 15},
                                {"text": "mat", "answer_start": 23},
                            ],
                        }
                        for i in range(2)
                    ],
                }
            ],
        }
    ],
}
_SQUAD_V2 = json.loads(json.dumps(_SQUAD))
for _question in _SQUAD_V2["data"][0]["paragraphs"][0]["qas"]:
    _question["is_impossible"] = False
_SQUAD_V2["data"][0]["paragraphs"][0]["qas"] += [
    {"id": f"q{i}", "question": "Where did the dog sit?", "answers": [], "is_impossible": True}
    for i in (2, 3, 4)
]
_TRUTH = [
    {
        "question": f"Do cats fly {i} times?",
        "mc1_targets": {"No.": 1, "Yes.": 0, "Often.": 0},
        "mc2_targets": {"No.": 1, "Never.": 1, "Yes.": 0},
    }
    for i in range(2)
]
_ENTAILED = [
    {"premise": "the cat sat", "hypothesis": "a cat sat", "label": "entailment", "idx": 0},
    {"premise": "the cat sat", "hypothesis": "a dog ran", "label": "not_entailment", "idx": 1},
]

# task -> file -> content
_FILES: dict[str, dict[str, str]] = {
    "glue/cola": {"CoLA/dev.tsv": _COLA, "CoLA/train.tsv": _COLA},
    "glue/sst2": {"SST-2/dev.tsv": _tsv(("sentence", "label"), ("a good film ", "1"), ("a bad film ", "0"))},
    "glue/mrpc": {
        "MRPC/dev.tsv": "\ufeff"
        + _tsv(
            ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
            ("1", "10", "11", 'He said " cats .', "Cats , he said ."),
            ("0", "12", "13", "He said cats .", "Dogs ran ."),
        )
    },
    "glue/qqp": {
        "QQP/dev.tsv": _tsv(
            ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
            ("7", "1", "2", "Who sat?", "Who was it that sat?", "1"),
            ("8", "3", "4", "Who sat?", "Who ran?", "0"),
        )
    },
    "glue/stsb": {
        "STS-B/dev.tsv": _tsv(
            _STSB,
            ("0", "g", "f", "2012", "0", "n", "n", "a cat sat", "the cat sat", "5.000"),
            ("1", "g", "f", "2012", "1", "n", "n", "a cat sat", "dogs ran", "0"),
            ("2", "g", "f", "2012", "2", "n", "n", "a cat sat", "a cat ran", "2.0"),
        )
    },
    "glue/mnli": {"MNLI/dev_matched.tsv": _mnli("entailment", "neutral", "contradiction")},
    "glue/mnli_mismatched": {"MNLI/dev_mismatched.tsv": _mnli("neutral", "contradiction", "entailment")},
    "glue/qnli": {"QNLI/dev.tsv": _pairs("question", "sentence", "entailment", "not_entailment")},
    "glue/rte": {"RTE/dev.tsv": _pairs("sentence1", "sentence2", "entailment", "not_entailment")},
    "glue/wnli": {"WNLI/dev.tsv": _pairs("sentence1", "sentence2", "0", "1")},
    "glue/ax": {
        "diagnostic/diagnostic-full.tsv": _tsv(
            ("Lexical Semantics", "Domain", "Premise", "Hypothesis", "Label"),
            ("Negation", "News", "The cat sat.", "The cat did not sit.", "contradiction"),
            ("", "News", "The cat sat.", "A cat sat.", "entailment"),
        )
    },
    "superglue/boolq": {
        "BoolQ/val.jsonl": _lines(
            {"question": "did the cat sit", "passage": "The cat sat.", "idx": 0, "label": True},
            {"question": "did the dog sit", "passage": "The cat sat.", "idx": 1, "label": False},
            {"question": "did dogs run", "passage": "Dogs ran.", "idx": 2, "label": True},
        )
    },
    "superglue/cb": {
        "CB/val.jsonl": _lines(
            {"premise": "She thinks cats sit.", "hypothesis": "cats sit", "label": "neutral", "idx": 0},
            {"premise": "She knows cats sit.", "hypothesis": "cats sit", "label": "entailment", "idx": 1},
            {"premise": "No cat sits.", "hypothesis": "cats sit", "label": "contradiction", "idx": 2},
        )
    },
    "superglue/copa": {
        "COPA/val.jsonl": _lines(
            {"premise": "The cat sat.", "choice1": "It was tired.", "choice2": "It ran.", "question": "cause", "label": 0, "idx": 0},
            {"premise": "It rained.", "choice1": "I sat.", "choice2": "I got wet.", "question": "effect", "label": 1, "idx": 1},
        )
    },
    "superglue/multirc": {
        "MultiRC/val.jsonl": _lines(
            {
                "idx": 0,
                "passage": {
                    "text": "The cat sat on the mat.",
                    "questions": [
                        {"question": "Who sat?", "idx": k, "answers": [
                            {"text": "The cat", "idx": 2 * k, "label": 1},
                            {"text": "The dog", "idx": 2 * k + 1, "label": 0},
                        ]}
                        for k in range(2)
                    ],
                },
            },
            {
                "idx": 1,
                "passage": {
                    "text": "Dogs ran.",
                    "questions": [{"question": "Who ran?", "idx": 2, "answers": [{"text": "Dogs", "idx": 4, "label": 1}]}],
                },
            },
        )
    },
    "superglue/record": {
        "ReCoRD/val.jsonl": _lines(
            {
                "idx": 0,
                "passage": {
                    "text": "Ann met Bob.\n@highlight\nAnn spoke",
                    "entities": [{"start": 0, "end": 2}, {"start": 8, "end": 10}],
                },
                "qas": [
                    {"query": "@placeholder was met.", "idx": 0, "answers": [{"start": 8, "end": 10, "text": "Bob"}]},
                    {"query": "It was @placeholder who spoke.", "idx": 1, "answers": [{"start": 0, "end": 2, "text": "Ann"}]},
                ],
            }
        )
    },
    "superglue/rte": {"RTE/val.jsonl": _lines(*_ENTAILED)},
    "superglue/wic": {
        f"WiC/{split}.jsonl": _lines(
            {"word": "key", "sentence1": "a key sat", "sentence2": "the key sat", "start1": 2, "end1": 5, "start2": 4, "end2": 7, "label": True, "idx": 0},
            {"word": "key", "sentence1": "a key sat", "sentence2": "keys ran", "start1": 2, "end1": 5, "start2": 0, "end2": 4, "label": False, "idx": 1},
        )
        for split in ("val", "train")
    },
    "superglue/wsc": {
        "WSC/val.jsonl": _lines(
            {"text": "Mark told Pete lies because he was angry .", "target": {"span1_index": 0, "span1_text": "Mark", "span2_index": 5, "span2_text": "he"}, "label": True, "idx": 0},
            {"text": "Mark told Pete lies because he was angry .", "target": {"span1_index": 2, "span1_text": "Pete", "span2_index": 5, "span2_text": "he"}, "label": False, "idx": 1},
            {"text": "Ann ran .", "target": {"span1_index": 0, "span1_text": "Ann", "span2_index": 1, "span2_text": "ran"}, "label": False, "idx": 2},
        )
    },
    "superglue/axb": {
        "AX-b.jsonl": _lines(
            {"idx": "0", "label": "not_entailment", "sentence1": "The cat sat.", "sentence2": "No cat sat.", "logic": "Negation"},
            {"idx": "1", "label": "entailment", "sentence1": "The cat sat.", "sentence2": "A cat sat."},
        )
    },
    "superglue/axg": {
        "AX-g.jsonl": _lines(
            *({"hypothesis": "The key sat.", "premise": f"Ann gave {p} key.", "idx": i, "pair_id": i, "label": "not_entailment" if i < 2 else "entailment"} for i, p in enumerate(("his", "her", "his", "her")))
        )
    },
    "arc_easy": {"ARC-Easy-Test.jsonl": _lines(*_ARC)},
    "arc_challenge": {"ARC-Challenge-Test.jsonl": _lines(*_ARC)},
    "openbookqa": {"test.jsonl": _lines(*_ARC)},
    "piqa": {
        "valid.jsonl": _lines(*({"goal": f"sit {i}", "sol1": "use a mat", "sol2": "use a key or two"} for i in range(2))),
        "valid-labels.lst": "0\n1\n",
    },
    "winogrande": {
        "dev.jsonl": _lines(
            {"qID": "A-1", "sentence": "Ann not Bob ran, so _ was tired.", "option1": "Ann", "option2": "Bob", "answer": "1"},
            {"qID": "A-2", "sentence": "Ann not Bob ran, so _ was rested.", "option1": "Ann", "option2": "Bob", "answer": "2"},
            {"qID": "B-1", "sentence": "The _ sat.", "option1": "cat", "option2": "key", "answer": "1"},
        )
    },
    "hellaswag": {
        "hellaswag_val.jsonl": _lines(
            *({"ind": i, "activity_label": "Cats", "ctx_a": "A cat sat.", "ctx_b": "it", "ctx": "A cat sat. it", "endings": ["ran [step] off.", "was a key.", "ate a mat.", "was."], "label": i} for i in range(2))
        )
    },
    "swag": {
        "val.csv": _SWAG_COLUMNS
        + '\n0,v1,1,"The cat, it",The cat sat,it,gold,sat.,ran.,ate.,was.,2\n1,v2,1,Dogs,Dogs ran,Dogs,gold,sat.,ran.,ate.,were.,0\n'
    },
    "truthfulqa_mc1": {"mc_task.json": json.dumps(_TRUTH)},
    "truthfulqa_mc2": {"mc_task.json": json.dumps(_TRUTH)},
    "mmlu": {
        "dev/anatomy_dev.csv": 'What sat?,cat,dog,key,mat,A\r\n"Who, ran?",cat,dog,key,mat,B',
        "test/anatomy_test.csv": "What is soft?,cat,key,table,cabinet,A\nWhat is flat?,cat,key,mat,dog,C\n",
        "dev/law_dev.csv": "Is it law?,yes,no,so,or,A\n",
        "test/law_test.csv": "Is it not law?,yes,no,so,or,B\n",
    },
    "squad": {"dev-v1.1.json": json.dumps(_SQUAD)},
    "squadv2": {"dev-v2.0.json": json.dumps(_SQUAD_V2)},
    "cbt_cn": {"cbtest_CN_test_2500ex.txt": _CBT * 2},
    "cbt_ne": {"cbtest_NE_test_2500ex.txt": _CBT * 2},
    "snli": {
        "snli_1.0_dev.jsonl": _lines(
            {"sentence1": "A cat sat.", "sentence2": "A cat.", "gold_label": "entailment"},
            {"sentence1": "A cat sat.", "sentence2": "A dog.", "gold_label": "-"},
            {"sentence1": "Dogs ran.", "sentence2": "Dogs sat.", "gold_label": "contradiction"},
        )
    },
    "ner/uner_ewt": {"uner_en_ewt-ud-test.iob2": _IOB2},
    "ner/wnut17": {"emerging.test.annotated": "#cats\tO\nAnn\tB-person\n\t\nNew\tB-location\nYork\tI-location\n"},
    "ner/conll2003": {"eng.testb": _CONLL},
    "wikitext2": {"wiki.test.raw": _WIKI},
    "wikitext": {"wiki.test.raw": _WIKI},
    "xsum": {"test.jsonl": _lines(*({"document": f"Cat {i} sat on a mat.", "summary": f"Cat {i} sat.", "id": str(i)} for i in range(2)))},
    "cnn_dailymail": {"test.csv": "id,article,highlights\n1,A cat sat on a mat.,A cat sat.\n2,Dogs ran.,Dogs ran .\n"},
    "hh_rlhf": {
        "test.jsonl": _lines(
            {"chosen": "\n\nHuman: sit?\n\nAssistant: Yes.", "rejected": "\n\nHuman: sit?\n\nAssistant: No, never."},
            {"chosen": "\n\nHuman: run?\n\nAssistant: No.", "rejected": "\n\nHuman: run?\n\nAssistant: Yes."},
        )
    },
    "preferences": {"preferences.jsonl": _lines(*({"prompt": f"Sit {i}?", "chosen": " yes", "rejected": " no no"} for i in range(2)))},
    "realtoxicityprompts": {
        "prompts.jsonl": _lines(*({"filename": "f", "challenging": False, "prompt": {"text": f"The cat {i}", "toxicity": 0.1}, "continuation": {"text": " sat"}} for i in range(2)))
    },
    "invented_language": {
        "test.jsonl": _lines(
            {"source": "she ran .", "target": "tos vugita .", "alignment": "0-0 1-1 2-2"},
            {"source": "he ran .", "target": "lun vugita .", "alignment": "0-0 1-1 2-2"},
        )
    },
}  # fmt: skip


def write_benchmark(task: str, folder: Path) -> Path:
    """Write the files of ``task`` into ``folder``, which is what ``--data-dir`` should then name."""
    for name, content in _files(task).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8"))
    return folder


def _files(task: str) -> dict[str, str]:
    group, _, rest = task.partition("/")
    if group in ("bbh", "bbh_cot"):
        return {f"{rest}.json": json.dumps(_BBH)}
    if group == "multi30k":
        return {
            f"test_2016_flickr.{language}": f"the cat of {language} sat on a mat .\ntwo dogs of {language} ran off now .\n"
            for language in rest.split("-")
        }
    return _FILES[task]
