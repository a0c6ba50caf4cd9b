"""One comparison: its options, its systems from start to end, and its report."""

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from engines import KINDS, in_environment, version
from process import System
from report import DIFFERS, measure, show, write


def size(text):
    """Bytes of a size as 512M or 2G, or None for `none`."""
    if text == "none":
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGT]?)(?:i?B)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size as 512M or 2G")
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2] or " "))


def sizes(text):
    return [size(part) for part in text.split(",")]


def add_options(parser, systems):
    """Adds the options that all comparisons have."""
    parser.add_argument("--halocline", default="halocline", help="the program")
    parser.add_argument("--systems", default=systems, help=f"of {','.join(KINDS)} [default: {systems}]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5, help="rounds that count; with 0 the first round does [default: 5]")
    parser.add_argument(
        "--memory-limit",
        dest="limits",
        type=sizes,
        default=[None],
        metavar="LIST",
        help="memory limits of the systems, as none,2G,512M, one comparison for each; systems without one are left out",
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of halocline, as join_order=off")
    parser.add_argument("--apart", action="store_true", help="start a system when the one before has answered all queries")
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a query counts as failed [default: 600]")
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache" / "halocline-peers")
    parser.add_argument("--work", type=Path, help="where the peers keep their data [default: a temporary directory]")
    parser.add_argument("--json", type=Path, help="append one object per value, as `halocline bench --json`")
    parser.set_defaults(answers="sums", first=False)


def compare(experiment, options, tables, queries, largest, beside={}):
    """Asks all systems all queries and reports. `tables` has the Parquet file of each table, `largest` is the name of one,
    and `options.pool` has them all."""
    names = options.systems.split(",")
    unknown = set(names) - set(KINDS)
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    in_environment(options.venv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[: options.threads])
    work = (options.work or Path(tempfile.mkdtemp(prefix="halocline-peers-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    expected, loads, differ = {}, {}, False
    try:
        for limit in options.limits:
            options.memory = limit
            able = [name for name in names if limit is None or KINDS[name].limited]
            if options.limits != [None]:
                print(f"\nmemory limit {limit / (1 << 20):.0f} MiB" if limit else "\nno memory limit")
            if len(able) < len(names):
                print(f"without a memory limit of their own: {', '.join(sorted(set(names) - set(able)))}")
            outcomes, used = asked(options, able, tables, queries, work, expected, loads)
            show(outcomes, able, loads, used, beside, options.first)
            sys.stdout.flush()
            if options.json:
                write(options.json, experiment, outcomes, able, options, row_count(tables[largest]))
            differ |= any(outcome.failure.startswith(DIFFERS) for of in outcomes.values() for outcome in of.values())
    finally:
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)
    if differ:
        sys.exit("answers differ")


def asked(options, names, tables, queries, work, expected, loads):
    """Outcomes by query and system, and the sizes of the systems' files. `loads` gets the times of loading."""
    outcomes, used = {query: {} for query, _ in queries}, {}
    for group in [[name] for name in names] if options.apart else [names]:
        opened = {}
        try:
            for name in group:
                opened[name] = System(name, options, tables, work)
                loads.setdefault(name, opened[name].load)
                used[name] = opened[name].size
                print(f"{name} {version(name) or ''} is ready", file=sys.stderr)
            for query, of in measure(queries, opened, options.runs, expected).items():
                outcomes[query].update(of)
        finally:
            for system in opened.values():
                system.close()
    return outcomes, used


def row_count(file):
    import pyarrow.parquet

    return pyarrow.parquet.read_metadata(file).num_rows
