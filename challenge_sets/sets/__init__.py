"""The challenge sets, one module for each kind of question; :mod:`challenge_sets.tasks` lists them by name."""
