"""Named modifications: each can be made to a decoder or an encoder, and the sweep makes them one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.training.test_pretraining import place as _place
from tests.unit.training.test_pretraining import recipe
from workbench.errors import ConfigError
from workbench.models.configuration import TransformerConfig
from workbench.models.presets import preset
from workbench.models.size import num_parameters
from workbench.nn.forms import FORMS
from workbench.training.building import change_fields
from workbench.training.modifications import MODIFICATIONS, choose_modifications
from workbench.training.sweep import parse_variations, sweep

place = _place  # the fixture


def _modified(base: str, name: str) -> Any:
    settings = preset(base).settings()
    settings["form"] |= {"rank": 16, "landmarks": 16}
    return TransformerConfig.from_settings(change_fields(settings, MODIFICATIONS[name].settings))


@pytest.mark.parametrize("name", MODIFICATIONS)
def test_it_can_be_made_to_an_encoder(name: str) -> None:
    assert num_parameters(_modified("bert-tiny", name)) > 0


@pytest.mark.parametrize("name", [name for name in MODIFICATIONS if name != "funnel"])
def test_a_decoder_refuses_only_what_needs_all_tokens_at_once(name: str) -> None:
    kinds = [s.removeprefix("form.kind=") for s in MODIFICATIONS[name].settings if s.startswith("form.kind=")]
    if all(FORMS[kind].can_be_causal for kind in kinds):
        assert num_parameters(_modified("gpt2", name)) > 0
    else:
        with pytest.raises(ConfigError, match="in a decoder full"):
            _modified("gpt2", name)


def test_a_decoder_cannot_pool() -> None:
    with pytest.raises(
        ConfigError, match=r"depth.pool_every = 1 is not allowed; allowed: none, but for an encoder"
    ):
        _modified("gpt2", "funnel")


def test_every_form_of_attention_is_a_modification() -> None:
    kinds = {
        setting for m in MODIFICATIONS.values() for setting in m.settings if setting.startswith("form.kind=")
    }
    assert kinds == {f"form.kind={kind}" for kind in FORMS}


def test_the_sweep_makes_them_one_at_a_time(place: Path) -> None:
    rows = sweep(
        recipe(place),
        parse_variations(["heads=2"]),
        place / "sweep",
        modifications=choose_modifications("base,swiglu,linformer"),
        device="cpu",
    )
    assert [row.variant for row in rows] == ["base, heads=2", "swiglu, heads=2", "linformer, heads=2"]
    assert "form.kind = 'linformer' is not allowed; allowed: in a decoder full" in rows[2].problem
    assert rows[1].parameters > rows[0].parameters > 0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "message"),
    [("rezro", "unknown modification 'rezro'; did you mean 'rezero'"), (" ", "no modification named in ' '")],
)
def test_an_unknown_name_is_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_modifications(text)
