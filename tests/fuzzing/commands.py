"""Seeded commands: verbs and options come from the command line's own tree, values are plausible or hostile."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import click

from tests.fuzzing.values import (
    BASE,
    HOSTILE_NUMBERS,
    HOSTILE_TEXTS,
    MODEL_NAMES,
    OUTPUTS,
    RUNS,
    SUFFIXES,
    TABLES,
    TEXTS,
    WORDS,
    YAML,
)
from tests.fuzzing.world import STEERING, World
from workbench.cli import COMMANDS, cli
from workbench.cli._shared import Whole

__all__ = ["Generator", "commands"]


@dataclass
class Generator:
    """Draws commands; the same seed and world give the same ones."""

    world: World
    chance: random.Random
    made: int = 0

    def command(self) -> list[str]:
        """One command: a verb's plausible beginning or nothing, and a few options in any state."""
        self.made += 1
        verb = self.chance.choice(sorted(COMMANDS))
        tree = cli.get_command(click.Context(cli), verb)
        assert tree is not None
        words = [verb]
        if self.chance.random() < 0.85:
            words += [self._placed(word) for word in BASE[verb].split()]
        options = [p for p in tree.params if isinstance(p, click.Option)]
        for option in self.chance.sample(options, min(len(options), self.chance.choice((0, 1, 1, 2, 3)))):
            words += self._option(option)
        if self.chance.random() < 0.08:
            words.insert(self.chance.randrange(1, len(words) + 1), self.chance.choice(HOSTILE_TEXTS))
        if self.chance.random() < 0.02:
            words[0] = self.chance.choice(HOSTILE_TEXTS)
        return words

    def _placed(self, word: str) -> str:
        """A value for a placeholder of :data:`BASE`; one in eight is hostile."""
        if not word.isupper():
            return word
        if self.chance.random() < 0.12:
            return (
                self._hostile_path() if word not in ("TEXT", "CLEAN", "CORRUPTED") else self._hostile_text()
            )
        root = self.world.root
        places: dict[str, Callable[[], str]] = {
            "MODEL": self._model,
            "TEXT": lambda: self.chance.choice(WORDS["text"]),
            "FIGURE": lambda: self._output("figure"),
            "RUN": lambda: self.chance.choice(self.world.runs),
            "RUNMODEL": lambda: "m",
            "RUNS": lambda: str(root / "runs"),
            "SUITE": lambda: str(root / "suite.yaml"),
            "GRID": lambda: str(root / "grid.yaml"),
            "TRAIN": lambda: str(root / "train.yaml"),
            "TREES": lambda: self.world.texts[1],
            "TABLE": lambda: self.chance.choice(self.world.tables),
            "FOLDER": lambda: str(root / "out"),
            "NEW": lambda: str(root / "new" / str(self.made)),
            "CLEAN": lambda: WORDS["clean"][0],
            "CORRUPTED": lambda: WORDS["corrupted"][0],
        }
        return places[word]()

    def _option(self, option: click.Option) -> list[str]:
        name = option.opts[0]
        if option.is_flag:
            return [name]
        hostile = self.chance.random() < 0.45
        value = self._hostile(option) if hostile else self._plausible(option)
        return [f"{name}={value}"] if self.chance.random() < 0.3 else [name, value]

    def _plausible(self, option: click.Option) -> str:
        name, kind = str(option.name), option.type
        if isinstance(kind, click.Choice):
            return str(self.chance.choice(list(kind.choices)))
        if isinstance(kind, Whole):
            return str(self.chance.choice([n for n in (0, 1, 2, 3, 8, 50) if kind.low <= n <= kind.high]))
        if kind.name == "float":
            return self.chance.choice(("0.1", "0.5", "1", "0.001", "0"))
        pools: list[Callable[[], str]] = []
        if WORDS.get(name):
            pools.append(lambda: self.chance.choice(WORDS[name]))
        if name in MODEL_NAMES:
            pools.append(self._model)
        if name in TABLES:
            pools.append(lambda: self.chance.choice(self.world.tables))
        if name in TEXTS:
            pools.append(lambda: self.chance.choice(self.world.texts))
        if name in YAML:
            pools.append(lambda: str(self.world.root / YAML[name]))
        if name in RUNS:
            pools.append(lambda: self.chance.choice(self.world.runs))
        if name in OUTPUTS:
            pools.append(lambda: self._output(name))
        return self.chance.choice(pools)() if pools else str(self.world.root)

    def _hostile(self, option: click.Option) -> str:
        if isinstance(option.type, Whole) or option.type.name == "float":
            return self.chance.choice(HOSTILE_NUMBERS)
        return self._hostile_path() if self.chance.random() < 0.5 else self._hostile_text()

    def _hostile_text(self) -> str:
        return self.chance.choice(HOSTILE_TEXTS)

    def _hostile_path(self) -> str:
        pool = self.chance.choice((self.world.broken, self.world.broken_models, HOSTILE_TEXTS))
        return self.chance.choice(pool)

    def _model(self) -> str:
        return self.chance.choice(self.world.models)

    def _output(self, name: str) -> str:
        root = self.world.root
        if name == "lens_folder":
            return str(root / "lens")
        where = self.chance.choice(
            (root / "figures", root, root / "texts.txt", root / f"d{STEERING}", "/dev/null/x", "/proc")
        )
        return f"{where}/f{self.chance.choice(SUFFIXES)}"


def commands(world: World, seed: int, count: int) -> Iterator[list[str]]:
    """``count`` commands."""
    generator = Generator(world, random.Random(seed))
    for _ in range(count):
        yield generator.command()
