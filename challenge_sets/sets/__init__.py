"""The challenge sets, one module for each kind of question; :mod:`challenge_sets.diagnostics` lists them by name."""
