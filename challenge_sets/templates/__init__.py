"""Templates: texts with slots, expanded over lexicons to cases that keep what they were made from."""

from challenge_sets.templates.template import Case, Template, TemplateError

__all__ = ["Case", "Template", "TemplateError"]
