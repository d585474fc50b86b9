"""Log-likelihood scoring: the one batched engine behind every evaluation that asks a model how likely text is."""

from __future__ import annotations

from workbench.scoring._forward import Projected, project_only
from workbench.scoring._requests import (
    Boundary,
    FirstToken,
    Request,
    RollingScore,
    Score,
    Sequence,
    encode_texts,
    leading_bos,
    prefix_ids,
    resolve_first_token,
)
from workbench.scoring.cloze import Blank, ClozeScore, score_cloze
from workbench.scoring.detection import Detection, DetectionEngine, Detections, detect_replaced
from workbench.scoring.engine import Engine, score, score_rolling
from workbench.scoring.generation import Generated, GenerationRequest, continuation, generate_texts
from workbench.scoring.masked import MaskedEngine, Masking, pseudo_log_likelihood
from workbench.scoring.permutation import PermutationEngine
from workbench.scoring.prefix_tree import PrefixGroup
from workbench.scoring.rewards import (
    CheckedReward,
    ModelReward,
    PatternReward,
    PythonReward,
    Reward,
    find_reward,
)
from workbench.scoring.seq2seq import Seq2SeqEngine
from workbench.scoring.streams import Lanes, collect, lanes, token_budget
from workbench.scoring.surprisal import Surprisal, Surprisals, WordBoundary, surprisal

__all__ = [
    "Blank",
    "Boundary",
    "CheckedReward",
    "ClozeScore",
    "Detection",
    "DetectionEngine",
    "Detections",
    "Engine",
    "FirstToken",
    "Generated",
    "GenerationRequest",
    "Lanes",
    "MaskedEngine",
    "Masking",
    "ModelReward",
    "PatternReward",
    "PermutationEngine",
    "PrefixGroup",
    "Projected",
    "PythonReward",
    "Request",
    "Reward",
    "RollingScore",
    "Score",
    "Seq2SeqEngine",
    "Sequence",
    "Surprisal",
    "Surprisals",
    "WordBoundary",
    "collect",
    "continuation",
    "detect_replaced",
    "encode_texts",
    "find_reward",
    "generate_texts",
    "lanes",
    "leading_bos",
    "prefix_ids",
    "project_only",
    "pseudo_log_likelihood",
    "resolve_first_token",
    "score",
    "score_cloze",
    "score_rolling",
    "surprisal",
    "token_budget",
]
