"""Named modifications of a transformer, each with its paper: the rows of ``workbench sweep --modifications``.

After Narang et al. 2021, "Do Transformer Modifications Transfer Across Implementations and Applications?", who train
one base model and change one thing at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import ConfigError, did_you_mean

__all__ = ["MODIFICATIONS", "Modification", "choose_modifications"]


@dataclass(frozen=True)
class Modification:
    """What changes in the base's configuration, as ``field=value``, and the paper that proposed it."""

    settings: tuple[str, ...]
    source: str


def _form(kind: str, source: str, *settings: str) -> Modification:
    """Another form of self-attention; position biases, windows and caps have no place in it."""
    return Modification((f"form.kind={kind}", *(f"form.{setting}" for setting in settings)), source)


MODIFICATIONS = {
    "base": Modification((), "the configuration as it is given"),
    "post-norm": Modification(("norm.placement=post", "norm.final=false"), "Vaswani et al. 2017"),
    "pre-norm": Modification(("norm.placement=pre", "norm.final=true"), "Xiong et al. 2020"),
    "sandwich-norm": Modification(("norm.placement=sandwich",), "Ding et al. 2021"),
    "rms-norm": Modification(("norm.kind=rms_norm",), "Zhang and Sennrich 2019"),
    "rezero": Modification(("norm.residual_scale=rezero", "norm.kind=none"), "Bachlechner et al. 2020"),
    "fixup": Modification(("norm.residual_scale=fixup", "norm.kind=none"), "Zhang et al. 2019"),
    "relu": Modification(("activation=relu",), "Vaswani et al. 2017"),
    "gelu": Modification(("activation=gelu",), "Hendrycks and Gimpel 2016"),
    "swish": Modification(("activation=silu",), "Ramachandran et al. 2017"),
    "geglu": Modification(("activation=geglu",), "Shazeer 2020"),
    "swiglu": Modification(("activation=swiglu",), "Shazeer 2020"),
    "mixture-of-experts": Modification(
        ("feed_forward.experts=4", "feed_forward.experts_per_token=2"), "Shazeer et al. 2017"
    ),
    "switch": Modification(
        (
            "feed_forward.experts=4",
            "feed_forward.experts_per_token=1",
            "feed_forward.capacity_factor=1.25",
        ),
        "Fedus et al. 2022",
    ),
    "universal": Modification(
        ("depth.groups=1", "depth.step_encoding=true", "depth.halting=0.99"), "Dehghani et al. 2019"
    ),
    "funnel": Modification(("depth.pool_every=1",), "Dai et al. 2020"),
    "multi-query": Modification(("attention.key_value_heads=1",), "Shazeer 2019"),
    "shared-layers": Modification(("depth.groups=1",), "Lan et al. 2020"),
    "learned-positions": Modification(("positions=learned",), "Devlin et al. 2019"),
    "sinusoidal-positions": Modification(("positions=sinusoidal",), "Vaswani et al. 2017"),
    "relative-positions": Modification(("positions=relative",), "Raffel et al. 2020"),
    "alibi": Modification(("positions=alibi",), "Press et al. 2022"),
    "rope": Modification(("positions=rotary",), "Su et al. 2021"),
    "no-positions": Modification(("positions=none",), "Haviv et al. 2022"),
    "longformer": _form("longformer", "Beltagy et al. 2020"),
    "bigbird": _form("bigbird", "Zaheer et al. 2020"),
    "linformer": _form("linformer", "Wang et al. 2020"),
    "performer": _form("performer", "Choromanski et al. 2021"),
    "nystromformer": _form("nystromformer", "Xiong et al. 2021"),
    "reformer": _form("reformer", "Kitaev et al. 2020"),
    "lightweight-convolution": _form("lightweight_conv", "Wu et al. 2019"),
    "dynamic-convolution": _form("dynamic_conv", "Wu et al. 2019"),
    "synthesizer-dense": _form("synthesizer_dense", "Tay et al. 2021"),
    "synthesizer-factorised": _form("synthesizer_factorised", "Tay et al. 2021"),
    "synthesizer-random": _form("synthesizer_random", "Tay et al. 2021"),
    "synthesizer-fixed": _form("synthesizer_fixed", "Tay et al. 2021"),
}


def choose_modifications(text: str) -> dict[str, Modification]:
    """``all``, or names separated by commas; raises :class:`~workbench.errors.ConfigError` with near ones."""
    if text.strip() == "all":
        return dict(MODIFICATIONS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in MODIFICATIONS:
            raise ConfigError(f"unknown modification {name!r}; {did_you_mean(name, list(MODIFICATIONS))}")
    if not names:
        raise ConfigError(
            f"no modification named in {text!r}; allowed: all, or some of {', '.join(MODIFICATIONS)}"
        )
    return {name: MODIFICATIONS[name] for name in names}
