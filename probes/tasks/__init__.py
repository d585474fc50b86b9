"""Probing tasks: which label each word, span, pair of words or sentence has.

``TASKS`` is a registry; register a :class:`ProbeTask` of your own to use it by name.
"""

from __future__ import annotations

from probes.tasks._sources import BUILTIN, Treebank, read_treebank
from probes.tasks._task import TASKS, ProbeTask, load_task
from probes.tasks.pairs import read_edges, read_wic
from probes.tasks.sentences import SENTENCE_TASKS
from probes.tasks.tables import read_iob2, read_table
from probes.tasks.trees import TREE_TASKS
from probes.tasks.words import WORD_TASKS

__all__ = [
    "BUILTIN",
    "SENTENCE_TASKS",
    "TASKS",
    "TREE_TASKS",
    "WORD_TASKS",
    "ProbeTask",
    "Treebank",
    "load_task",
    "read_edges",
    "read_iob2",
    "read_table",
    "read_treebank",
    "read_wic",
]
