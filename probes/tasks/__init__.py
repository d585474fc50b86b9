"""Probing tasks: which label each word, span, pair of words or sentence has.

``TASKS`` is a registry; register a :class:`ProbeTask` of your own to use it by name.
"""

from __future__ import annotations

from probes.tasks._task import BUILTIN, TASKS, ProbeTask, Treebank, load_task, read_treebank
from probes.tasks.pairs import read_edges, read_wic
from probes.tasks.sentences import SENTENCE_TASKS
from probes.tasks.tables import read_iob2, read_table
from probes.tasks.treebank import TREE_TASKS, WORD_TASKS

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
