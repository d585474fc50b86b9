"""Three hundred generated commands, and the next steps that commands print.

``python -m tests.fuzzing.run 10000`` runs more; docs/numerics.md has the counts.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter

import pytest

from tests.fuzzing.commands import commands
from tests.fuzzing.run import quiet_world, run_command
from workbench.cli import COMMANDS

pytestmark = pytest.mark.filterwarnings("default")  # as a user has it: what others warn of is no error
COUNT, SEED = 300, 18


@pytest.mark.timeout(1200)  # two minutes on an idle core
def test_generated_commands_end_in_a_result_or_in_one_line(tmp_path):
    """No traceback, no character that a terminal obeys, codes 0, 1 and 2 only, one line for a mistake."""
    faults, codes, verbs = [], Counter(), set()
    with quiet_world(tmp_path) as world:
        for words in commands(world, SEED, COUNT):
            outcome = run_command(words)
            faults += [f"{words!r}: {fault}" for fault in outcome.faults]
            codes[outcome.code] += 1
            verbs.add(words[0])
    assert faults == []
    assert set(COMMANDS) <= verbs
    assert min(codes[0], codes[2]) > COUNT // 10  # both kinds are really there


TRAINED = ("clm", "mlm", "span-corruption", "replaced-tokens")
STEPS = {  # what is run, and how many next steps it prints
    "evaluate": "evaluate {llama} --task lambada_sample --limit 2 --no-doctor",
    "check": "check {llama} --suite {root}/suite.yaml --no-doctor",
    "probe": "probe {bert} --task pos --data {root}/trees.conllu --no-doctor --no-random-weights --seeds 1 --layers 0",
    "attend": "attend {bert} --corpus {root}/texts.txt --limit 4 --no-doctor",
    "grid": "grid {root}/grid.yaml",
    **{
        name: "train --preset {preset} --corpus {root}/long.txt --tokenizer byte-bpe --vocab-size 400 --length 32 "
        f"--steps 1 --batch-size 2 --set depth.layers=1 --set hidden_size=32 --report-to none --objective {name}"
        for name in TRAINED
    },
}
PRESETS = {
    "clm": "llama-tiny",
    "mlm": "bert-tiny",
    "span-corruption": "t5-small",
    "replaced-tokens": "electra-small",
}


@pytest.mark.parametrize("case", STEPS)
def test_the_next_step_that_is_printed_works(case, tmp_path):
    """The line is run as it stands, also where the folder's name has a space."""
    with quiet_world(tmp_path) as world:
        (tmp_path / "long.txt").write_text("The cat sat on the mat, and a dog ran home. " * 400)
        values = {
            "llama": world.models[0],
            "bert": world.models[1],
            "root": tmp_path,
            "preset": PRESETS.get(case),
        }
        first = run_command(
            [*STEPS[case].format(**values).split(), "--out", str(tmp_path / "my runs" / case)]
        )
        assert (first.code, first.faults) == (0, ()), first.errors
        steps = re.findall(r"^next: workbench (.*)$", first.output, flags=re.MULTILINE)
        assert len(steps) == 1
        words = shlex.split(steps[0])
        quicker = ["--limit", "60", "--seeds", "1", "--layers", "0"] if words[0] == "probe" else []
        second = run_command([*words, *quicker], 500)
        assert (second.code, second.faults) == (0, ()), second.errors


def test_a_failed_cell_of_a_grid_stands_below_the_table(tmp_path):
    with quiet_world(tmp_path) as world:
        text = f"models: [{world.models[0]}, {world.models[1]}]\ntasks: [lambada_sample]\nlimit: 2\n"
        (tmp_path / "two.yaml").write_text(text)
        outcome = run_command(["grid", str(tmp_path / "two.yaml")])
    assert outcome.code == 1
    table, below = outcome.output.split("\n\n", 1)[0], outcome.output
    header, failed = (
        table.splitlines()[0],
        table.splitlines()[-2 if "failed:" in table.splitlines()[-1] else -1],
    )
    assert header.split()[:5] == ["model", "dtype", "device", "task", "metric"]
    assert re.search(r"lambada_sample +- +- +- +-$", failed)  # no message in a metric's column
    assert re.search(
        rf"^failed: {re.escape(world.models[1])} on lambada_sample: .*causal", below, re.MULTILINE
    )
