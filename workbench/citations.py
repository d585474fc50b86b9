"""Which paper to cite for a method, task, metric or set: one table of names, one bibliography (``references.bib``)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from workbench.errors import UnknownName

__all__ = ["BIBLIOGRAPHY", "CITED", "Paper", "cited_as", "papers", "papers_of_run"]

BIBLIOGRAPHY = Path(__file__).parent / "references.bib"

# kind -> name, or a pattern of names -> keys of the bibliography; of all patterns that fit, in their order
CITED: dict[str, dict[str, str]] = {
    "saliency method": {
        "saliency": "simonyan2014 li2016visualizing",
        "input_x_gradient": "denil2014 shrikumar2017",
        "integrated_gradients": "sundararajan2017",
        "layer_integrated_gradients": "sundararajan2017",
        "layer_conductance": "dhamdhere2019",
        "smoothgrad*": "smilkov2017",
        "smoothgrad_integrated_gradients": "sundararajan2017",
        "deeplift": "shrikumar2017",
        "gradient_shap": "lundberg2017 erion2021",
        "kernel_shap": "lundberg2017",
        "lime": "ribeiro2016",
        "occlusion": "zeiler2014 li2016erasure",
        "attention": "bahdanau2015 jain2019",
        "attention_rollout": "abnar2020",
        "attention_gradient": "serrano2019 barkan2021",
        "value_zeroing": "mohebbi2023",
    },
    "faithfulness measure": {
        "comprehensiveness": "deyoung2020",
        "sufficiency": "deyoung2020",
        "plausibility_*": "deyoung2020",
        "loo_correlation": "jain2019",
        "infidelity": "yeh2019",
        "sensitivity": "yeh2019",
        "randomised": "adebayo2018",
    },
    "probe": {
        "linear": "alain2017 hewitt2019control",
        "scalar_mix": "peters2018 tenney2019pipeline",
        "edge": "tenney2019context",
        "structural": "hewitt2019structural",
        "mdl": "voita2020",
    },
    "probing task": {
        **dict.fromkeys(
            ("length", "word_content", "tree_depth", "top_constituents", "bigram_shift", "sentence_tense"),
            "conneau2018",
        ),
        **dict.fromkeys(
            ("subject_number", "object_number", "odd_man_out", "coordination_inversion"), "conneau2018"
        ),
        **dict.fromkeys(("edge", "arc", "constituent"), "tenney2019context"),
        "wic": "pilehvar2019",
    },
    "training on preferences": {
        "reward": "bradley1952 ouyang2022",
        "dpo": "rafailov2023",
        "kto": "ethayarajh2024",
        "rloo": "ahmadian2024 ziegler2019 ouyang2022 schulman2017 schulman2020",
        "grpo": "shao2024 schulman2017 schulman2020",
        "gold reward": "gao2023",
        "sigmoid_norm": "lambert2024",
        "ipo": "azar2024",
        "hinge": "zhao2023slic",
        "robust": "chowdhury2024",
        "exo_pair": "ji2024exo",
        "nca_pair": "chen2024nca",
        "bco_pair": "jung2024",
        "sppo_hard": "wu2024sppo",
        "aot*": "melnyk2024",
        "apo_*": "doosterlinck2024",
        "margin": "touvron2023llama2",
        "centring": "eisenstein2023",
        "ensemble": "coste2024",
    },
    "metric": {
        "matthews": "matthews1975",
        "bleu": "papineni2002 post2018",
        "chrf": "popovic2015",
        "rouge*": "lin2004",
        "word_f1": "rajpurkar2016",
        "entity_*": "tjong2003",
    },
    "task": {
        "lambada_*": "paperno2016",
        "lambada_openai": "radford2019",
        "glue/*": "wang2019glue",
        "glue/cola": "warstadt2019",
        "glue/sst2": "socher2013",
        "glue/mrpc": "dolan2005",
        "glue/stsb": "cer2017",
        "glue/mnli*": "williams2018",
        "glue/qnli": "rajpurkar2016",
        "glue/wnli": "levesque2012",
        "superglue/*": "wang2019superglue",
        "superglue/boolq": "clark2019boolq",
        "superglue/cb": "marneffe2019",
        "superglue/copa": "roemmele2011",
        "superglue/multirc": "khashabi2018",
        "superglue/record": "zhang2018",
        "superglue/wic": "pilehvar2019",
        "superglue/wsc": "levesque2012",
        "superglue/axg": "rudinger2018",
        "arc_*": "clark2018",
        "openbookqa": "mihaylov2018",
        "piqa": "bisk2020",
        "winogrande": "sakaguchi2020 trinh2018",
        "hellaswag": "zellers2019",
        "swag": "zellers2018",
        "truthfulqa_*": "lin2022",
        "mmlu": "hendrycks2021",
        "bbh/*": "suzgun2022",
        "bbh_cot/*": "suzgun2022 wei2022",
        "multi30k/*": "elliott2016",
        "xsum": "narayan2018",
        "cnn_dailymail": "hermann2015",
        "hh_rlhf": "bai2022",
        "realtoxicityprompts": "gehman2020",
        "squad": "rajpurkar2016",
        "squadv2": "rajpurkar2018",
        "cbt_*": "hill2016",
        "snli": "bowman2015",
        "ner/uner_ewt": "mayhew2024",
        "ner/wnut17": "derczynski2017",
        "ner/conll2003": "tjong2003",
        "wikitext*": "merity2017",
    },
    "challenge set": {
        "blimp": "warstadt2020",
        "agreement": "linzen2016 marvin2018",
        "gulordava": "gulordava2018 goldberg2019",
        "crows_pairs": "nangia2020",
        "lm_diagnostics": "ettinger2020",
        "lama": "petroni2019",
        "wsc": "levesque2012 trinh2018 sakaguchi2020",
        "syntaxgym": "gauthier2020 hu2020",
        "hans": "mccoy2019",
        "contrast_sets": "gardner2020",
        "checklist": "ribeiro2020",
    },
    "suite": {"*": "ribeiro2020", "rewrites:*": "ribeiro2018"},
    "analysis": {
        "logit lens": "nostalgebraist2020",
        "tuned lens": "belrose2023lens",
        "activation patching": "vig2020 meng2022",
        "attribution patching": "nanda2023 syed2023",
        "path patching": "wang2022",
        "ablation": "wang2022",
        "direct logit attribution": "elhage2021 wang2022",
        "head statistics": "clark2019bert",
        "dependency heads": "clark2019bert",
        "induction heads": "olsson2022",
        "head clusters": "clark2019bert",
        "head importance": "michel2019",
        "alignment error rate": "och2003",
        "attention sinks": "clark2019bert xiao2024",
        "attention rollout": "abnar2020",
        "effective attention": "brunner2020",
        "norm-based attention": "kobayashi2020",
        "neurons": "geva2021 geva2022",
        "contrastive explanation": "yin2022",
        "hotflip": "ebrahimi2018",
        "input_reduction": "feng2018",
        "rewrites": "ribeiro2018",
        "context": "khandelwal2018",
        "pseudo-log-likelihood": "salazar2020 kauf2023",
        "replaced-token detection": "clark2020",
        "surprisal at word boundaries": "pimentel2024 oh2024",
        "nucleus sampling": "holtzman2020",
        "contrastive search": "su2022",
        "best of n": "stiennon2020 beirami2024",
        "distinct n-grams": "li2016diversity welleck2020",
        "calibration": "guo2017",
        "control task": "hewitt2019control",
        "concept erasure": "belrose2023leace ravfogel2020",
        "amnesic probing": "elazar2021",
        "CKA": "kornblith2019",
        "strengths of models": "bradley1952 davidson1970",
        "length-controlled win rate": "dubois2024",
        "AI feedback": "zheng2023 bai2022constitutional cohen1960",
    },
}
# verb of a run -> the analyses that all of its runs are
_OF_VERBS = {
    "attend": ("head statistics", "dependency heads", "induction heads"),
    "context": ("context",),
    "judge": ("AI feedback",),
    "probe": ("control task",),
    **dict.fromkeys(("compare", "vote"), ("strengths of models", "length-controlled win rate")),
}
# verb -> field of the recipe -> the analysis that it adds
_OF_FIELDS = {"attend": {"importance": "head importance", "clusters": "head clusters"}}
_NAMED = ("tasks", "task", "set", "suite", "probe", "method", "methods")  # fields of recipes that hold names


@dataclass(frozen=True)
class Paper:
    """An entry of the bibliography: ``key`` and ``bibtex`` for a reader's own, and what to show."""

    key: str
    authors: tuple[str, ...]  # surnames; "others" is the last where there are more
    year: str
    title: str
    venue: str
    url: str
    bibtex: str

    @property
    def short(self) -> str:
        """``Jain & Wallace 2019``."""
        more = self.authors[-1] == "others"
        return f"{self.authors[0]} et al. {self.year}" if more else f"{' & '.join(self.authors)} {self.year}"

    def __str__(self) -> str:
        return f"{self.short}, {self.title}, {self.venue}"


@cache
def bibliography() -> Mapping[str, Paper]:
    """The papers by key."""
    lines = BIBLIOGRAPHY.read_text(encoding="utf-8").splitlines()
    return {paper.key: paper for paper in map(_paper, (line for line in lines if line.startswith("@")))}


def _paper(line: str) -> Paper:
    key = line[line.index("{") + 1 : line.index(",")]
    fields = dict(re.findall(r"(\w+) = \{+(.*?)\}+(?=, |$)", line))
    authors = tuple(name.split(",")[0] for name in fields["author"].split(" and "))
    venue = next(fields[name] for name in ("journal", "booktitle", "howpublished") if name in fields)
    eprint = f"https://arxiv.org/abs/{fields['eprint']}" if "eprint" in fields else ""
    return Paper(key, authors, fields["year"], fields["title"], venue, fields.get("url", eprint), line)


def papers(kind: str, *names: str) -> tuple[Paper, ...]:
    """The papers of what is called ``names``, each once; none for what no paper is needed for.

    Raises :class:`~workbench.errors.UnknownName` for a kind that :data:`CITED` does not have.

    Example:
        ```python
        from workbench.citations import papers

        for paper in papers("saliency method", "integrated_gradients"):
            print(paper, paper.bibtex, sep="\\n")
        ```
    """
    if kind not in CITED:
        raise UnknownName("kind", kind, list(CITED))
    keys = [
        key
        for name in names
        for pattern, cited in CITED[kind].items()
        if fnmatchcase(name, pattern)
        for key in cited.split()
    ]
    return tuple(bibliography()[key] for key in dict.fromkeys(keys))


def papers_of_run(verb: str, recipe: Mapping[str, Any], metrics: Collection[str] = ()) -> tuple[Paper, ...]:
    """The papers behind a stored run: of its tasks, set, suite, probe or methods, and of its ``metrics``.

    None for a field of the recipe that holds no names, as in a ``run.json`` changed by hand.
    """
    names = [name for field in _NAMED for name in _listed(recipe.get(field))]
    suites = _listed(recipe.get("suite"))
    kinds = {
        "evaluate": ("task", "challenge set"),
        "check": ("challenge set",),
        "probe": ("probing task", "probe"),
        "attribute": ("saliency method",),
        "align": ("training on preferences",),
    }
    found = [paper for kind in kinds.get(verb, ()) for paper in papers(kind, *names)]
    if verb == "align":
        further = [
            name.replace("_", " ") for name in ("gold_reward", "margin", "centring") if recipe.get(name)
        ]
        further += ["ensemble"] if "ensemble_accuracy" in metrics else []
        found += papers("training on preferences", *_listed(recipe.get("loss")), *further)
    found += papers("suite", *suites)
    added = [analysis for field, analysis in _OF_FIELDS.get(verb, {}).items() if recipe.get(field)]
    found += papers("analysis", *_OF_VERBS.get(verb, ()), *added)
    found += papers("metric", *(name.split("/")[-1] for name in metrics))
    return tuple(dict.fromkeys(found))


def _listed(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(v) for v in value] if isinstance(value, Iterable) else []


def cited_as(found: Iterable[Paper]) -> str:
    """``cite: …; …``, or nothing."""
    said = "; ".join(map(str, found))
    return f"cite: {said}" if said else ""
