"""Comparison of answers, and times as a table and as JSON Lines."""

import datetime
import json
import math
import os
import re
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

from engines import Failed, version

# Sums of floating-point numbers depend on the order of their additions, and averages of decimals on the type that a
# system gives them: one cuts the sixth digit off where another rounds it.
TOLERANCE = 2e-6

DIFFERS = "the answer differs:"


def normal(rows):
    """Rows as sorted tuples of numbers and texts, so that types and the order of rows do not matter."""

    def value(of):
        text = str(of)
        try:
            return float(text)
        except ValueError:
            return text.removesuffix(" 00:00:00").removesuffix("T00:00:00") if text != "None" else ""

    def key(row):
        # Numbers that differ in the last digits only must not change places.
        rounded = tuple(f"{value:.4g}" if isinstance(value, float) else value for value in row)
        return rounded, tuple(str(value) for value in row)

    return sorted((tuple(map(value, row)) for row in rows), key=key)


def same(left, right):
    """Whether two results of `normal` are equal, numbers within the tolerance."""

    def equal(a, b):
        if isinstance(a, float) and isinstance(b, float):
            return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        return a == b

    return len(left) == len(right) and all(
        len(a) == len(b) and all(map(equal, a, b)) for a, b in zip(left, right)
    )


@dataclass
class Outcome:
    """Times of a query in a system in milliseconds, and its peaks of memory in bytes."""

    first: float = math.nan
    times: list = field(default_factory=list)
    anonymous: int = 0
    resident: int = 0
    # Why there are no times.
    failure: str = ""

    @property
    def median(self):
        """The median of the rounds that count, or the time of the first one if there are no others."""
        return math.nan if self.failure else statistics.median(self.times or [self.first])


def measure(queries, systems, runs, expected):
    """Outcomes by query and system; all systems in turn in each round. The first round warms up, and its answers are
    compared with those of `expected`, which gets the first ones of each query."""
    outcomes = {}
    for query, sql in queries:
        outcomes[query] = {name: Outcome() for name in systems}
        for turn in range(runs + 1):
            for name, outcome in outcomes[query].items():
                if not outcome.failure:
                    ask(systems[name], query, sql, turn, outcome, expected)
        shown = "  ".join(f"{name} {outcome.median:.2f}" for name, outcome in outcomes[query].items())
        print(f"{query}: {shown}", file=sys.stderr)
        for name, outcome in outcomes[query].items():
            if outcome.failure:
                print(f"{query}: {name}: {outcome.failure}", file=sys.stderr)
    return outcomes


def ask(system, query, sql, turn, outcome, expected):
    try:
        milliseconds, rows, anonymous, resident = system.run(sql)
    except Failed as failure:
        outcome.failure = str(failure)
        return
    outcome.anonymous = max(outcome.anonymous, anonymous)
    outcome.resident = max(outcome.resident, resident)
    if turn:
        outcome.times.append(milliseconds)
        return
    outcome.first = milliseconds
    rows = normal(rows)
    right = expected.setdefault(query, rows)
    if not same(rows, right):
        outcome.failure = f"{DIFFERS} {rows[:3]} …, the first system has {right[:3]} …"


def finite(values):
    return [value for value in values if not math.isnan(value)]


def geomean(values):
    """The geometric mean of the values that there are."""
    values = finite(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def show(outcomes, names, loads, sizes, beside, first):
    """Prints medians, and the ratios to those of halocline. `beside` has medians of other runs by name. `first` asks for the
    times of the first round and the peaks of memory, too."""
    medians = {name: [of[name].median for of in outcomes.values()] for name in names}
    medians.update(beside)
    columns = list(medians)
    width = max([len(name) for name in columns] + [10]) + 2
    titles = max(16, max(map(len, outcomes)) + 2)

    def row(title, cells):
        print(f"{title:<{titles}}" + "".join(f"{cell:>{width}}" for cell in cells))

    def value(number, form):
        return "failed" if math.isnan(number) else form.format(number)

    def table(title, cell, form="{:.1f}"):
        row(title, names)
        for query, of in outcomes.items():
            row(query, [value(math.nan if of[name].failure else cell(of[name]), form) for name in names])
        print()

    if first:
        table("first run, ms", lambda outcome: outcome.first)
    row("ms", columns)
    for at, query in enumerate(outcomes):
        row(query, [value(medians[name][at], "{:.1f}") for name in columns])
    row("geomean", [value(geomean(medians[name]), "{:.1f}") for name in columns])
    row("load, s", [f"{loads[name]:.1f}" if loads.get(name) else "" for name in columns])
    row("size, MB", [f"{sizes[name] / 1e6:.0f}" if sizes.get(name) else "" for name in columns])
    if first:
        print()
        table("anonymous, MiB", lambda outcome: outcome.anonymous / (1 << 20), "{:.0f}")
        table("resident, MiB", lambda outcome: outcome.resident / (1 << 20), "{:.0f}")
    if "halocline" in names and len(names) > 1:
        show_ratios(medians, [name for name in names if name != "halocline"], list(outcomes), row, value)


def show_ratios(medians, others, queries, row, value):
    """Prints the times of the others, and of the best one of them for each query, over those of halocline."""
    ratios = {name: [a / b for a, b in zip(medians[name], medians["halocline"])] for name in others}
    if len(others) > 1:
        finished = ([ratio for ratio in at if not math.isnan(ratio)] for at in zip(*ratios.values()))
        ratios["the best"] = [min(of, default=math.nan) for of in finished]
    print("\ntime over that of halocline")
    row("", ratios)
    for at, query in enumerate(queries):
        row(query, [value(of[at], "{:.2f}x") if not math.isnan(of[at]) else "" for of in ratios.values()])
    row("geomean", [value(geomean(of), "{:.2f}x") for of in ratios.values()])
    row("least", [value(min(finite(of), default=math.nan), "{:.2f}x") for of in ratios.values()])
    row("of queries", [len(finite(of)) for of in ratios.values()])


def cpu():
    """The CPU's name, or `unknown`."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def write(path, experiment, outcomes, names, options, rows):
    """Appends the values as JSON Lines, as values of `halocline bench`. `rows` is that of the largest table."""
    common = {"cpu": cpu(), "cpus": len(os.sched_getaffinity(0)), "rows": rows, "threads": options.threads}
    common["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    common["command"] = " ".join(sys.argv)
    common["repetitions"] = options.runs
    if found := re.fullmatch(r"sf([0-9.]+)", options.data.resolve().name):
        common["scale_factor"] = float(found[1])
    if options.limits != [None]:
        common["memory"] = options.memory or "none"
    if options.set:
        common["settings"] = " ".join(options.set)
    with open(path, "a") as out:

        def append(name, query, metric, value, unit):
            config = {**common, "variant": name, "package": version(name), "query": query}
            line = {"experiment": experiment, "system": name, "config": config}
            line |= {"metric": metric, "value": value, "unit": unit}
            out.write(json.dumps(line) + "\n")

        for name in names:
            finished = {query: of[name] for query, of in outcomes.items() if not of[name].failure}
            for query, outcome in finished.items():
                append(name, query, "time", outcome.median, "ms")
                if options.first:
                    append(name, query, "first", outcome.first, "ms")
                    append(name, query, "anonymous", outcome.anonymous, "B")
                    append(name, query, "resident", outcome.resident, "B")
            if len(finished) == len(outcomes):
                append(name, "geomean", "geomean", geomean([outcome.median for outcome in finished.values()]), "ms")
