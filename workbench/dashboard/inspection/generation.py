"""Generation: what a model writes, token by token, what else was likely, and what it attended to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from workbench.analysis.decoding import Decoding, Strategy, best_of_kl
from workbench.analysis.generation import Generation, generate_all, reply_text, texts_frame
from workbench.citations import papers
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code, opened, stoppable
from workbench.dashboard.show import cite, show_table, show_view, theme
from workbench.errors import ConfigError
from workbench.figures.text import step_view
from workbench.models import LoadedModel
from workbench.scoring import ModelReward, PatternReward, Reward
from workbench.text import printable

__all__ = ["generation_tab"]

_MOST = 60
_CITED = {
    Strategy.SAMPLING: ("nucleus sampling",),
    Strategy.CONTRASTIVE: ("contrastive search",),
    Strategy.BEST_OF: ("best of n",),
}


@dataclass(frozen=True)
class _Asked:
    """What the fields say; ``reward`` is a name of a model and its label, or a text to look for in a reply."""

    count: int
    decoding: Decoding
    reward: tuple[str, str] | None = None

    @property
    def code(self) -> str:
        """The arguments in a notebook."""
        usual = Decoding()
        own = {n: getattr(self.decoding, n) for n in Decoding.__dataclass_fields__}
        given = ", ".join(f"{n}={value!r}" for n, value in own.items() if value != getattr(usual, n))
        reward = "" if self.reward is None else f", reward={_spec(*self.reward)!r}"
        return f"{self.count}, decoding=Decoding({given}){reward}"


def generation_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """How many tokens, the strategy and its own settings; what is returned draws one model."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        count = st.slider("Tokens to write", 1, _MOST, 12, key="count", bind="query-params", width=320)
        strategy = Strategy(
            st.selectbox(
                "Strategy", [str(s) for s in Strategy], key="strategy", bind="query-params", width=220
            )
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        asked = _Asked(count, *_settings(strategy))
    return lambda model: _show(model, texts, asked)


def _settings(strategy: Strategy) -> tuple[Decoding, tuple[str, str] | None]:
    if strategy is Strategy.BEAMS:
        return Decoding(beams=_whole("Beams", "beams", 2, 8, 4)), None
    if strategy is Strategy.CONTRASTIVE:
        penalty = _share("Penalty", "penalty", 0.6, least=0.05)
        return Decoding(penalty=penalty, top_k=_whole("Candidates", "candidates", 2, 20, 5)), None
    if strategy is Strategy.SAMPLING:
        return Decoding(samples=_whole("Samples", "samples", 1, 8, 3), **_distribution()), None
    if strategy is Strategy.BEST_OF:
        drawn = _whole("Samples", "best_of", 2, 32, 8)
        return Decoding(best_of=drawn, **_distribution()), _reward()
    return Decoding(), None


def _distribution() -> dict[str, Any]:
    return {
        "temperature": _share("Temperature", "temperature", 1.0, least=0.05, most=2.0),
        "top_p": _share("Top-p", "top_p", 1.0, least=0.05),
        "top_k": _whole("Top-k (0: all)", "top_k", 0, 100, 0),
        "seed": _whole("Seed", "seed", 0, 9999, 0),
    }


def _whole(label: str, key: str, least: int, most: int, usual: int) -> int:
    return int(st.number_input(label, least, most, usual, key=key, bind="query-params", width=130))


def _share(label: str, key: str, usual: float, *, least: float, most: float = 1.0) -> float:
    return float(st.slider(label, least, most, usual, 0.05, key=key, bind="query-params", width=180))


def _reward() -> tuple[str, str]:
    """A page takes no function and no expression of its reader's: those run on the machine that serves it."""
    kinds = ["a text in the reply", "a model"]
    kind = st.selectbox("Reward", kinds, key="reward", bind="query-params", width=190)
    label = "Model, and #label of a classifier" if kind == "a model" else "Text that is rewarded"
    usual = "sentiment-encoder#positive" if kind == "a model" else "good"
    return str(kind), st.text_input(
        label, usual, key=f"reward_{kind.split()[-1]}", bind="query-params", max_chars=200
    )


def _spec(kind: str, what: str) -> str:
    return f"model:{what}" if kind == "a model" else f"pattern:(?i){re.escape(what)}"


def _found_reward(kind: str, what: str) -> Reward:
    if not what.strip():
        raise ConfigError("no reward is given; name a model, or a text to look for in replies")
    if kind != "a model":
        return PatternReward(f"(?i){re.escape(what)}")
    name, _, label = what.partition("#")
    return ModelReward(opened(name), label or None)


@st.cache_resource(max_entries=6, ttl=600, show_spinner="Writing …", hash_funcs={LoadedModel: identity})
def _generated(
    model: LoadedModel, text: str, count: int, decoding: Decoding, reward: tuple[str, str] | None
) -> list[Generation]:
    judge = None if reward is None else _found_reward(*reward)
    with stoppable(model):
        return generate_all(model, text, count, decoding=decoding, reward=judge)


def _show(model: LoadedModel, texts: Texts, asked: _Asked) -> None:
    found = _generated(model, texts.text, asked.count, asked.decoding, asked.reward)
    code = (
        "import workbench\nfrom workbench.analysis.generation import Decoding, generate_all, texts_frame\n"
        "from workbench.figures.text import step_view\n\n"
        f"{load_code(model)}texts = generate_all(model, {texts.text!r}, {asked.code})\n"
    )
    if not any(one.steps for one in found):
        st.info("The model wrote nothing: its first token ends the text.")
        return
    number = _texts(model, texts, found, asked.decoding, code)
    _steps(model, found[number], f"{code}found = texts[{number}]\n")


def _texts(
    model: LoadedModel, texts: Texts, found: Sequence[Generation], decoding: Decoding, code: str
) -> int:
    """The texts as they were written, their numbers, and which of them is looked at."""
    for one in found:
        apart = one.attention_of == "cross" or model.prompt.chat
        st.text(f"{texts.text} ⟶ {one.generated}" if apart else texts.text + reply_text(model, one))
    if decoding.best_of:
        bound = best_of_kl(decoding.best_of)
        st.caption(
            f"Best first. The best of {decoding.best_of} samples is at most log n - (n - 1) / n = {bound:.3f} nats "
            "(KL) from the distribution that they are drawn from."
        )
    cite(paper for name in _CITED.get(decoding.strategy, ()) for paper in papers("analysis", name))
    numbers = texts_frame(found).drop(columns="generated").round(3)
    numbers.insert(0, "text", range(1, len(found) + 1))
    show_table(numbers, f"texts {model.name}", "Generated texts", f"{code}texts_frame(texts)\n")
    if len(found) == 1:
        return 0
    asked = st.selectbox(
        "Text to look into", range(1, len(found) + 1), key=f"text of {model.name}", width=160
    )
    return int(asked) - 1


def _steps(model: LoadedModel, found: Generation, code: str) -> None:
    step = _step(model, found)
    layers, heads = found.steps[step].attention.shape[:2]
    with st.container(horizontal=True):
        layer = st.selectbox("Layer", ["mean", *range(layers)], key=f"step layer {model.name}", width=120)
        head = st.selectbox("Head", ["mean", *range(heads)], key=f"step head {model.name}", width=120)
    chosen = {"layer": None if layer == "mean" else int(layer), "head": None if head == "mean" else int(head)}
    shown = f"layer={chosen['layer']}, head={chosen['head']}"
    view = step_view(found, step, **chosen, display_mode=theme())
    show_view(view, f"step {model.name}", f"{code}step_view(found, {step}, {shown})\n")
    table = pd.DataFrame(found.steps[step].candidates, columns=["token", "probability"])
    show_table(
        table,
        f"step candidates {model.name}",
        "What else was likely",
        f"{code}found.steps[{step}].candidates\n",
        column_config={
            "probability": st.column_config.ProgressColumn(format="%.3f", min_value=0.0, max_value=1.0)
        },
    )


def _step(model: LoadedModel, found: Generation) -> int:
    """The generated token that is looked at."""
    names = [f"{number + 1} {printable(token)}" for number, token in enumerate(found.tokens)]
    if len(names) == 1:
        return 0
    chosen = st.select_slider("Step", names, key=f"step {model.name}")
    return names.index(chosen)
