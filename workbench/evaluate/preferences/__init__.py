"""Models compared by preference: whose reply to a prompt is better, by a reward, a judge model, or people."""

from __future__ import annotations

from workbench.evaluate.preferences.analysis import PreferenceComparison, WinRate, analyse_votes
from workbench.evaluate.preferences.choosers import JudgeChooser, RewardChooser
from workbench.evaluate.preferences.compare import compare_preferences, preferences_of
from workbench.evaluate.preferences.replies import PromptData, ReplySettings, read_prompts
from workbench.evaluate.preferences.votes import Vote, read_votes
from workbench.evaluate.preferences.voting import VOTE, Ballot, BallotItem, Choice, has_replies

__all__ = [
    "VOTE",
    "Ballot",
    "BallotItem",
    "Choice",
    "JudgeChooser",
    "PreferenceComparison",
    "PromptData",
    "ReplySettings",
    "RewardChooser",
    "Vote",
    "WinRate",
    "analyse_votes",
    "compare_preferences",
    "has_replies",
    "preferences_of",
    "read_prompts",
    "read_votes",
]
