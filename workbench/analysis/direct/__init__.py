"""Direct logit attribution: what each head and feed-forward part adds to a logit along the residual stream."""

from __future__ import annotations

from workbench.analysis.direct._attribution import DirectAttribution, direct_logit_attribution

__all__ = ["DirectAttribution", "direct_logit_attribution"]
