"""Suites from YAML: templates, perturbations and expectations by name, every mistake with its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from challenge_sets._records import TestCase
from challenge_sets.perturbations import PERTURBATIONS, perturbation
from challenge_sets.suites.expectations import (
    Change,
    EqualLabel,
    Expectation,
    Invariant,
    Monotonic,
    NotLabel,
    TestKind,
)
from challenge_sets.suites.tests import Suite, SuitePrompt, Test
from challenge_sets.suites.yaml_entries import Entry, read_yaml
from challenge_sets.templates import Case, Template
from workbench.data.grammar import lexicon_names
from workbench.errors import WorkbenchError, did_you_mean

__all__ = ["load_suite_file"]

_DEFAULT_CASES = 50
_OPTIONAL = (
    "description",
    "template",
    "templates",
    "variants",
    "vary",
    "perturb",
    "label",
    "not_label",
    "direction",
    "tolerance",
    "count",
    "lexicons",
    "budget",
)


def load_suite_file(path: Path) -> Suite:
    """The suite in a YAML file; raises :class:`~workbench.errors.ConfigError` with line and allowed keys."""
    top = read_yaml(path)
    keys = top.mapping(("suite", "labels", "tests"), ("description", "prompt", "lexicons", "seed"))
    labels = {name: entry.texts() for name, entry in keys["labels"].items()}
    shared = _lexicons(keys.get("lexicons"))
    seed = int(keys["seed"].number(0, 2**31)) if "seed" in keys else 0
    tests = tuple(_Builder(entry, labels, shared, seed).test() for entry in keys["tests"].list())
    with _at(top):
        return Suite(
            name=keys["suite"].text(),
            labels=labels,
            tests=tests,
            prompt=_prompt(keys.get("prompt"), labels),
            description=_text(keys, "description"),
        )


class _at:
    """Puts file and line in front of the errors of what is called inside."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, WorkbenchError) and self.entry.file not in str(error):
            raise self.entry.fail(str(error)) from error


def _text(keys: Mapping[str, Entry], name: str) -> str:
    return keys[name].text() if name in keys else ""


def _lexicons(entry: Entry | None) -> dict[str, Any]:
    return {name: value.plain() for name, value in entry.items()} if entry is not None else {}


def _prompt(entry: Entry | None, labels: Mapping[str, Any]) -> SuitePrompt | None:
    if entry is None:
        return None
    keys = entry.mapping(("text", "answers"))
    answers = {label: answer.text() for label, answer in keys["answers"].items()}
    for label in {*labels} ^ {*answers}:
        raise keys["answers"].fail(f"answers and labels differ in {label!r}; labels: {', '.join(labels)}")
    return SuitePrompt(keys["text"].text(), answers)


class _Pattern(NamedTuple):
    """A template and its variants, each of ``arity`` texts, and the seed of its draws.

    Templates draw apart: with the same words in each, a test's templates would not be independent of one another.
    """

    texts: tuple[str, ...]
    arity: int
    entry: Entry
    seed: int


class _Builder:
    """Makes one test from its entry."""

    def __init__(
        self, entry: Entry, labels: Mapping[str, Any], lexicons: Mapping[str, Any], seed: int
    ) -> None:
        self.entry, self.labels, self.seed = entry, labels, seed
        self.keys = entry.mapping(("name", "capability", "kind"), _OPTIONAL)
        self.lexicons = {**lexicons, **_lexicons(self.keys.get("lexicons"))}
        self.name = self.keys["name"].text()
        self.kind = TestKind(self.keys["kind"].text(*TestKind))

    def test(self) -> Test:
        """The test; raises :class:`~workbench.errors.ConfigError` with the line of a mistake."""
        columns = [self._cases(pattern, number) for number, pattern in enumerate(self._patterns())]
        # In turn from each template, so that the first cases are of all of them.
        cases = [case for row in zip_longest(*columns) for case in row if case is not None]
        if not cases:
            raise self.entry.fail(
                f"test {self.name!r} has no case: its perturbation applies to none of its texts"
            )
        with _at(self.entry):
            return Test(
                name=self.name,
                capability=self.keys["capability"].text(),
                kind=self.kind,
                cases=tuple(cases),
                expectation=self._expectation(),
                description=_text(self.keys, "description"),
                budget=self.keys["budget"].number(0, 1) if "budget" in self.keys else None,
            )

    def _patterns(self) -> list[_Pattern]:
        if ("template" in self.keys) == ("templates" in self.keys):
            raise self.entry.fail(
                "one of 'template' (a text, or a list for several texts) and 'templates' is needed"
            )
        entries = [self.keys["template"]] if "template" in self.keys else self.keys["templates"].list()
        variants = self.keys["variants"].list() if "variants" in self.keys else []
        patterns = []
        for number, entry in enumerate(entries):
            texts = entry.texts()
            for variant in variants:
                if len(variant.texts()) != len(texts):
                    raise variant.fail(
                        f"a variant needs {len(texts)} texts as its template, has {len(variant.texts())}"
                    )
            every = (texts, *(variant.texts() for variant in variants))
            patterns.append(
                _Pattern(tuple(t for part in every for t in part), len(texts), entry, self.seed + number)
            )
        return patterns

    def _cases(self, pattern: _Pattern, number: int) -> list[TestCase]:
        with _at(pattern.entry):
            made = self._varied(pattern) if "vary" in self.keys else self._expanded(pattern, {})
            cases = [(case, _split(case.texts, pattern.arity)) for case in made]
        label = "label" if "label" in self.keys else "not_label"
        found = []
        for index, (case, examples) in enumerate(cases):
            if "perturb" in self.keys:
                examples += self._perturbed(examples[0])
                if len(examples) == 1:
                    continue
            labels = (str(case.label),) * len(examples) if label in self.keys else (None,) * len(examples)
            self._check_label(labels[0])
            name = f"{self.name}/{number}" if "templates" in self.keys else self.name
            found.append(TestCase(f"{name}#{index}", pattern.texts[0], tuple(examples), labels, case.slots))
        return found

    def _expanded(self, pattern: _Pattern, fixed: Mapping[str, Any], count: int | None = None) -> list[Case]:
        probe = {name: values for name, values in {**self.lexicons, **fixed}.items() if _uses(pattern, name)}
        template = Template(pattern.texts, **probe)
        parts = len(self.keys["templates"].list()) if "templates" in self.keys else 1
        asked = "count" in self.keys
        wanted = int(self.keys["count"].number(1, 1e6)) if asked else _DEFAULT_CASES
        wanted = max(1, wanted // parts) if count is None else count
        label = next((self.keys[k].text() for k in ("label", "not_label") if k in self.keys), None)
        return template.expand(
            wanted if asked else min(wanted, template.size),
            seed=pattern.seed,
            remove_duplicates=count is None,
            allow_fewer=not asked,
            label=label,
        )

    def _varied(self, pattern: _Pattern) -> list[Case]:
        """Cases whose texts differ in the entry of one slot: all its entries, the rest as in the first."""
        slot = self.keys["vary"].text()
        if slot not in self.lexicons and slot not in lexicon_names():
            raise self.keys["vary"].fail(
                f"slot {slot!r} has no lexicon; {did_you_mean(slot, list(self.lexicons))}"
            )
        from workbench.data.grammar import lexicon

        values = self.lexicons.get(slot) or lexicon(slot)
        columns = [self._expanded(pattern, {slot: [value]}) for value in values]
        return [
            Case(
                group[0].id,
                tuple(text for case in group for text in case.texts),
                group[0].label,
                group[0].template,
                group[0].names,
                group[0].values,
                group[0].metadata,
            )
            for group in zip(*columns, strict=True)
        ]

    def _perturbed(self, example: tuple[str, ...]) -> list[tuple[str, ...]]:
        """What the perturbations make of an example: all its texts alike, or else the last text alone."""
        found: list[tuple[str, ...]] = []
        for entry in self.keys["perturb"].list():
            if entry.text() not in PERTURBATIONS:
                raise entry.fail(
                    f"unknown perturbation {entry.text()!r}; {did_you_mean(entry.text(), list(PERTURBATIONS))}"
                )
            change = perturbation(entry.text())
            if change.consistent and len(example) > 1:
                found += change.together(example, count=1, seed=self.seed)
            else:
                found += [(*example[:-1], text) for text in change(example[-1], count=1, seed=self.seed)]
        return found

    def _check_label(self, label: str | None) -> None:
        if label is not None and label not in self.labels:
            key = "label" if "label" in self.keys else "not_label"
            raise self.keys[key].fail(f"{label!r} is no label of the suite; labels: {', '.join(self.labels)}")

    def _expectation(self) -> Expectation:
        tolerance = self.keys["tolerance"].number(0, 1) if "tolerance" in self.keys else None
        if self.kind is TestKind.DIR:
            if "direction" not in self.keys:
                raise self.entry.fail("a DIR test needs 'direction': up or down")
            direction = Change(self.keys["direction"].text(*Change))
            return Monotonic(self._label_text(), direction, tolerance or 0.0)
        if self.kind is TestKind.INV:
            return Invariant(1.0 if tolerance is None else tolerance)
        if "label" not in self.keys and "not_label" not in self.keys:
            raise self.entry.fail("an MFT test needs 'label' or 'not_label'")
        return EqualLabel() if "label" in self.keys else NotLabel()

    def _label_text(self) -> str | None:
        return self.keys["label"].text() if "label" in self.keys else None


def _uses(pattern: _Pattern, name: str) -> bool:
    """Whether a template has the slot ``name``, or numbered draws of it."""
    import re

    slot = re.compile(rf"\{{(?:\w+:)?{re.escape(name)}\d*(?:\.\w+|\[\d+\])?\}}")
    return any(slot.search(text) for text in pattern.texts)


def _split(texts: Sequence[str], arity: int) -> list[tuple[str, ...]]:
    """The texts in groups of ``arity``: the original example, then its variants."""
    return [tuple(texts[i : i + arity]) for i in range(0, len(texts), arity)]
