"""One comparison: its options, its systems from start to end, and its report."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from engines import KINDS, in_environment, version
from report import measure, show, write


def add_options(parser, systems):
    """Adds the options that all comparisons have."""
    parser.add_argument("--halocline", default="halocline", help="the program")
    parser.add_argument("--systems", default=systems, help=f"of {','.join(KINDS)} [default: {systems}]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache" / "halocline-peers")
    parser.add_argument("--work", type=Path, help="where the peers keep their data [default: a temporary directory]")
    parser.add_argument("--json", type=Path, help="append one object per value, as `halocline bench --json`")


def compare(experiment, options, tables, queries, largest, beside={}):
    """Asks all systems all queries and reports. `tables` has the Parquet file of each table, `largest` is the name of one,
    and `options.pool` has them all."""
    names = options.systems.split(",")
    unknown = set(names) - set(KINDS)
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    in_environment(options.venv)
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[: options.threads])
    work = options.work or Path(tempfile.mkdtemp(prefix="halocline-peers-"))
    work.mkdir(parents=True, exist_ok=True)
    opened = {}
    try:
        for name in names:
            opened[name] = KINDS[name](options, tables, work)
            print(f"{name} {version(name) or ''} is ready", file=sys.stderr)
        times = measure(queries, opened, options.runs)
        loads = {name: system.load for name, system in opened.items()}
        sizes = {name: system.size for name, system in opened.items()}
        show(times, names, loads, sizes, beside)
        if options.json:
            _, count = opened[names[0]].run(f"SELECT count(*) FROM {largest}")
            write(options.json, experiment, times, names, options, int(count[0][0]))
    finally:
        for system in opened.values():
            system.close()
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)
