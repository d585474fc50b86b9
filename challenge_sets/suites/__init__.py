"""The parts of behavioural tests: records, expectations, readers of suites, predictors; :mod:`challenge_sets.suite`
is their public face. The suites that come with the package lie beside them (``*.yaml``).
"""
