"""Comparison of answers, and times as a table and as JSON Lines."""

import datetime
import json
import math
import os
import re
import statistics
import sys
from pathlib import Path

from engines import version

# Sums of floating-point numbers depend on the order of their additions, and averages of decimals on the type that a
# system gives them: one cuts the sixth digit off where another rounds it.
TOLERANCE = 2e-6


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


def measure(queries, systems, runs):
    """Milliseconds by query and system; all systems in turn in each round. The first round warms up, and its answers are
    compared."""
    times = {}
    for query, sql in queries:
        answers = {name: normal(system.run(sql)[1]) for name, system in systems.items()}
        first = next(iter(answers))
        for name, rows in answers.items():
            if not same(rows, answers[first]):
                sys.exit(f"query {query}: {name} has {rows[:3]} …, {first} has {answers[first][:3]} …")
        samples = {name: [] for name in systems}
        for _ in range(runs):
            for name, system in systems.items():
                samples[name].append(system.run(sql)[0])
        times[query] = samples
        shown = "  ".join(f"{name} {statistics.median(values):.2f}" for name, values in samples.items())
        print(f"{query}: {shown}", file=sys.stderr)
    return times


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def show(times, names, loads, sizes, beside):
    """Prints medians, and the ratios to those of halocline. `beside` has medians of other runs by name."""
    medians = {name: [statistics.median(times[query][name]) for query in times] for name in names}
    medians.update(beside)
    columns = list(medians)
    width = max(len(name) for name in columns) + 2
    first = max(16, max(map(len, times)) + 2)
    row = lambda title, cells: print(f"{title:<{first}}" + "".join(f"{cell:>{width}}" for cell in cells))
    row("ms", columns)
    for at, query in enumerate(times):
        row(query, [f"{medians[name][at]:.1f}" for name in columns])
    row("geomean", [f"{geomean(medians[name]):.1f}" for name in columns])
    row("load, s", [f"{loads[name]:.1f}" if loads.get(name) else "" for name in columns])
    row("size, MB", [f"{sizes[name] / 1e6:.0f}" if sizes.get(name) else "" for name in columns])
    if "halocline" not in names:
        return
    ours = medians["halocline"]
    others = [name for name in names if name != "halocline"]
    print("\ntime over that of halocline")
    row("", others)
    for at, query in enumerate(times):
        row(query, [f"{medians[name][at] / ours[at]:.2f}x" for name in others])
    row("geomean", [f"{geomean(medians[name]) / geomean(ours):.2f}x" for name in others])
    row("least", [f"{min(a / b for a, b in zip(medians[name], ours)):.2f}x" for name in others])


def cpu():
    """The CPU's name, or `unknown`."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def write(path, experiment, times, names, options, rows):
    """Appends the medians as JSON Lines, as values of `halocline bench`. `rows` is that of the largest table."""
    common = {"cpu": cpu(), "cpus": len(os.sched_getaffinity(0)), "rows": rows, "threads": options.threads}
    common["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    common["command"] = " ".join(sys.argv)
    common["repetitions"] = options.runs
    if found := re.fullmatch(r"sf([0-9.]+)", options.data.resolve().name):
        common["scale_factor"] = float(found[1])
    with open(path, "a") as out:
        for name in names:
            medians = {query: statistics.median(samples[name]) for query, samples in times.items()}
            values = [("time", query, median) for query, median in medians.items()]
            values.append(("geomean", "geomean", geomean(medians.values())))
            for metric, query, value in values:
                config = {**common, "variant": name, "package": version(name), "query": query}
                line = {"experiment": experiment, "system": name, "config": config}
                line |= {"metric": metric, "value": value, "unit": "ms"}
                out.write(json.dumps(line) + "\n")
