"""What training changed inside a model: ``workbench.changes``."""

from __future__ import annotations

from probes.training_changes.changes import changes, expanded
from probes.training_changes.settings import ChangesPart, ChangesSettings

__all__ = ["ChangesPart", "ChangesSettings", "changes", "expanded"]
