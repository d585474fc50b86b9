"""``workbench doctor MODEL``: the numeric checks as a table; exit code 1 if one fails."""

from __future__ import annotations

import sys

import click

from workbench.choices import DEFAULT_DTYPE
from workbench.terminal import say, say_json, shows_progress

__all__ = ["command"]


@click.command("doctor")
@click.argument("model")
@click.option(
    "--dtype",
    default=DEFAULT_DTYPE,
    show_default=True,
    help="float32, bfloat16, float16, or auto: bfloat16 where it is fast.",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, …")
@click.option("--implementation", type=click.Choice(["hf", "builtin"]), default="hf", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str, dtype: str, device: str, implementation: str, as_json: bool) -> None:
    """Check the numerics of MODEL: a known name, a folder, a .gguf file or a hub id.

    Exit code: 0 if every check passes, warns or does not apply, 1 if one fails, 2 if MODEL cannot be loaded.
    """
    from workbench.cli._tables import doctor_table
    from workbench.evaluate.doctor import examine
    from workbench.models import load

    loaded = load(model, dtype=dtype, device=device, implementation=implementation)
    report = examine(loaded, progress=shows_progress())
    identity = {
        "model": loaded.name,
        "kind": str(loaded.kind),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "device": str(loaded.device),
        "implementation": loaded.implementation,
    }
    if as_json:
        say_json({**identity, **report.to_dict()})
    else:
        say(", ".join(f"{name} {value}" for name, value in identity.items()))
        say(doctor_table(report.to_dict()["checks"]))
        say(f"verdict: {report.verdict}")
    sys.exit(1 if report.verdict == "fail" else 0)
