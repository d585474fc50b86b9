"""Attacks: the smallest change of a text that turns a classifier's prediction, or leaves it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

import streamlit as st

from workbench.analysis.attacks import ATTACKS, AttackResult
from workbench.citations import papers
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code, stoppable
from workbench.dashboard.show import cite, plain, show_view, theme
from workbench.figures import highlighted_texts
from workbench.models import LoadedModel
from workbench.terminal import counted

__all__ = ["attacks_tab"]

_ABOUT = {
    "hotflip": "exchanges words along the gradient until the class changes",
    "input_reduction": "takes words away as long as the class stays",
    "rewrites": "tries phrases that mean the same until the class changes",
}


def attacks_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """Which attack; what is returned draws one model."""
    attack = st.segmented_control(
        "Attack", list(ATTACKS), default="hotflip", required=True, key="attack", bind="query-params"
    )
    st.caption(f"{attack} {_ABOUT[attack or 'hotflip']}. For models that give a text one of several labels.")
    return lambda model: _show(model, texts.text, attack or "hotflip")


@st.cache_resource(
    max_entries=16, ttl=600, show_spinner="Changing the text …", hash_funcs={LoadedModel: identity}
)
def _attacked(model: LoadedModel, text: str, attack: str) -> AttackResult:
    with stoppable(model), model.lock:
        return ATTACKS[attack](model, text)


def _show(model: LoadedModel, text: str, attack: str) -> None:
    found = _attacked(model, text, attack)
    code = f"import workbench\nfrom workbench.analysis.attacks import {attack}\n\n{load_code(model)}"
    code += f"{attack}(model, {text!r})\n"
    done = "taken away" if attack == "input_reduction" else "exchanged"
    outcome = "succeeded" if found.success else "failed"
    st.markdown(plain(f"The attack {outcome}: {counted(found.words_changed, 'word')} {done}."))
    before, after = found.original.split(), found.changed.split()
    kept = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    view = highlighted_texts(
        [before, after],
        [
            _marks(len(before), [(a, size) for a, _, size in kept], -1.0),
            _marks(len(after), [(b, size) for _, b, size in kept], 1.0),
        ],
        names=[str(model.config.id2label[number]) for number in (found.before, found.after)],
        prettify_tokens=False,
        limit=1.0,
        note="Orange: taken away or exchanged. Blue: new.",
        title=f"{attack}: the text, and what became of it",
        display_mode=theme(),
    )
    show_view(view, f"{attack} {model.name}", code)
    cite(papers("analysis", attack))


def _marks(words: int, kept: Sequence[tuple[int, int]], mark: float) -> list[float]:
    """``mark`` for each word that is not in a run that both texts have, given by first place and length."""
    same = {start + n for start, size in kept for n in range(size)}
    return [0.0 if place in same else mark for place in range(words)]
