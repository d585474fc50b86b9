"""How many cases a second a template expands to; there is no peer, the goal is a rate.

python benchmarks/templates.py [--json FILE]
"""

from __future__ import annotations

import statistics
import time

from _frame import Result, machine, parser, report

from challenge_sets.templates import Template

GOAL = 50_000


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    template = Template("{first_name} from {city} is {a:adjective} {profession}")
    template.expand(1000, seed=0)
    rates = []
    for seed in range(options.repeats):
        started = time.perf_counter()
        cases = template.expand(100_000, seed=seed)
        rates.append(len(cases) / (time.perf_counter() - started))
    rate = statistics.median(rates)
    report(
        [Result("template expansion", rate, None, "cases/s", None, f">= {GOAL:,}", rate >= GOAL)],
        machine(),
        options.json,
    )


if __name__ == "__main__":
    main()
