"""The challenge sets, one module a question that is asked; :mod:`challenge_sets.diagnostics` lists them by name."""
