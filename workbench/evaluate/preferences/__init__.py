"""Models compared by preference: whose reply to a prompt is better, by a reward, a judge model, or people."""

from __future__ import annotations

from workbench.evaluate.preferences.analysis import PreferenceComparison, WinRate, analyse_votes
from workbench.evaluate.preferences.votes import Vote, read_votes

__all__ = ["PreferenceComparison", "Vote", "WinRate", "analyse_votes", "read_votes"]
