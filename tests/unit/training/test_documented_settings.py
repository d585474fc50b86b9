"""docs/training.md names every setting of an architecture and of an objective."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from tests.helpers import REPOSITORY
from workbench.models import parts
from workbench.training.settings import ObjectiveChoice

PAGE = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
SECTIONS = {part.splitlines()[0]: part for part in re.split(r"^## ", PAGE, flags=re.M)[1:]}
PARTS = ("Attention", "Depth", "Embedding", "FeedForward", "Form", "Head", "Norm", "Position")


@pytest.mark.parametrize("part", PARTS)
def test_settings_of_an_architecture(part: str) -> None:
    section = SECTIONS["Settings of an architecture"]
    names = [field.name for field in fields(getattr(parts, f"{part}Config"))]
    assert [name for name in names if not re.search(rf"[`.]{name}`", section)] == []


def test_settings_of_an_objective() -> None:
    section = SECTIONS["Settings of an objective"]
    names = [field.name for field in fields(ObjectiveChoice) if field.name != "name"]
    assert [name for name in names if f"`{name}`" not in section] == []


@pytest.mark.parametrize(
    "values", [parts.POSITION_KINDS, parts.PLACEMENTS, parts.SCALES, parts.NORMS, parts.FORMS]
)
def test_values(values: object) -> None:
    section = SECTIONS["Settings of an architecture"]
    assert [value for value in values if f"`{value}`" not in section] == []  # type: ignore[attr-defined]
