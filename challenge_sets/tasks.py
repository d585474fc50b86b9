"""Challenge sets as tasks: ``workbench evaluate MODEL --task blimp`` scores as ``check MODEL --set blimp`` does."""

from __future__ import annotations

from challenge_sets.sets.base import QuestionSet
from challenge_sets.sets.cloze import LAMA, LM_DIAGNOSTICS
from challenge_sets.sets.gulordava import GULORDAVA
from challenge_sets.sets.labelled import CHECKLIST, CONTRAST_SETS, HANS
from challenge_sets.sets.minimal_pairs import AGREEMENT, BLIMP, BUILTIN, CROWS_PAIRS
from challenge_sets.sets.syntaxgym import SYNTAXGYM
from challenge_sets.sets.winograd import WSC
from workbench.evaluate import TASKS as REGISTRY
from workbench.evaluate import register_tasks

__all__ = ["TASKS", "set_names"]

# what the package adds to the registry of tasks, by its entry point
TASKS: tuple[QuestionSet, ...] = (
    BLIMP,
    BUILTIN,
    AGREEMENT,
    GULORDAVA,
    CROWS_PAIRS,
    LM_DIAGNOSTICS,
    LAMA,
    WSC,
    SYNTAXGYM,
    HANS,
    CONTRAST_SETS,
    CHECKLIST,
)


def set_names() -> list[str]:
    """Names of the registered tasks that are challenge sets: of this package, of others, and your own."""
    register_tasks()
    return [name for name in REGISTRY if isinstance(REGISTRY.get(name), QuestionSet)]
