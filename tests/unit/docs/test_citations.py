"""The papers to cite: every name of the table is registered, every registered name has a paper or needs none."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from click.testing import CliRunner

from docs.write_citations import HEADINGS, PAGE, lines, names_of
from workbench.citations import CITED, bibliography, papers, papers_of_run
from workbench.cli import cli

# standard quantities, and what is this package's own
WITHOUT = {
    "saliency method": {"random"},
    "faithfulness measure": {"seed_agreement", "method_agreement"},
    "probe": {"ridge", "mlp", "knn"},
    "probing task": {"deprel", "head_distance", "ner", "number", "person", "pos", "table", "tense", "xpos"},
    "metric": {
        *(
            "accuracy",
            "accuracy_bytes",
            "accuracy_norm",
            "exact_match",
            "f1",
            "macro_f1",
            "pearson",
            "spearman",
        ),
        *("bits_per_byte", "byte_perplexity", "token_perplexity", "word_perplexity"),
    },
    "task": {"preferences", "invented_language"},
    "challenge set": {"pairs_builtin"},
}


@pytest.mark.parametrize("kind", HEADINGS)
def test_names_and_papers_fit(kind: str) -> None:
    names = names_of(kind)
    assert {name for name in names if not papers(kind, name)} == WITHOUT.get(kind, set())
    assert [p for p in CITED[kind] if not any(fnmatchcase(name, p) for name in names)] == []


def test_every_paper_is_cited_and_every_field_is_there() -> None:
    cited = {key for table in CITED.values() for keys in table.values() for key in keys.split()}
    assert cited == set(bibliography())
    for paper in bibliography().values():
        assert "" not in (*paper.authors, paper.title, paper.venue)
        assert paper.year in paper.key
        assert paper.bibtex.count("{") == paper.bibtex.count("}")
    assert str(bibliography()["jain2019"]) == "Jain & Wallace 2019, Attention Is Not Explanation, NAACL"


def test_the_page_is_what_the_registries_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == "\n".join(lines()), "python -m docs.write_citations"


def test_verbs_and_runs_say_what_to_cite() -> None:
    def said(*arguments: str) -> str:
        return CliRunner().invoke(cli, arguments).output

    assert "cite: Warstadt et al. 2020, BLiMP: The Benchmark" in said("sets", "blimp")
    assert "cite: Ribeiro et al. 2020, Beyond Accuracy" in said("sets", "sentiment")
    output = said("tasks", "glue/cola")
    assert [line.split(",")[0] for line in output.splitlines() if line.startswith("cite")] == [
        "cite: Wang et al. 2019",
        "cite: Warstadt et al. 2019",
        "cite: Matthews 1975",
    ]
    found = papers_of_run("attribute", {"methods": ["occlusion", "lime"]})
    assert [p.key for p in found] == ["zeiler2014", "li2016erasure", "ribeiro2016"]
    found = papers_of_run("evaluate", {"tasks": ["multi30k/de-en"]}, ["bleu"])
    assert [p.key for p in found] == ["elliott2016", "papineni2002", "post2018"]
    for asked in (True, False):
        keys = [p.key for p in papers_of_run("attend", {"importance": asked, "clusters": None})]
        assert ("michel2019" in keys) is asked
    assert papers_of_run("evaluate", {"tasks": 5, "suite": 2.5, "set": {"a": 1}}) == ()  # changed by hand
