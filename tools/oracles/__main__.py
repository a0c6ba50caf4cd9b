"""Compares Halocline with DuckDB, SQLite and itself on random queries: `cargo xtask oracles --help`."""

import argparse
import os
import random
import signal
import subprocess
import sys
import venv
from pathlib import Path

VENV = Path.home() / ".cache" / "halocline-oracles"


def options():
    parser = argparse.ArgumentParser(prog="cargo xtask oracles", description="Compares the answers of Halocline with those of DuckDB and SQLite, and with its own in other settings.")
    parser.add_argument("--program", default="target/debug/halocline", help="the program [default: target/debug/halocline]")
    parser.add_argument("--seed", type=int, help="of the tables and queries [default: a fresh one, which is printed]")
    parser.add_argument("--cases", type=int, default=0, help="end after this many cases")
    parser.add_argument("--minutes", type=float, default=0, help="end after this time [default: 2, unless --cases is given]")
    parser.add_argument("--construct", action="append", default=[], metavar="NAME", help="only constructs whose name has NAME in it; more than once: any of them")
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="no construct whose name has NAME in it")
    parser.add_argument("--case", type=int, help="only the case of this number, to see a difference again")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with case N")
    parser.add_argument("--variants", type=int, default=6, help="variants in which the cases of a round run again [default: 6]")
    parser.add_argument("--show", type=int, default=2, help="differences of a kind that are minimised and printed [default: 2]")
    parser.add_argument("--minimise", type=float, default=20, help="seconds to make one difference small [default: 20]")
    parser.add_argument("--timeout", type=float, default=60, help="seconds after which a query counts as failed [default: 60]")
    parser.add_argument("--findings", type=Path, help="directory to write a script for each difference to")
    parser.add_argument("--json", type=Path, help="write the numbers of the report to this file")
    parser.add_argument("--faults", action="store_true", help="run each construct until its first difference, for the table in the documents")
    parser.add_argument("--list", action="store_true", help="list the constructs")
    parser.add_argument("--optional", action="store_true", help="do nothing, and say so, where DuckDB cannot be installed")
    return parser.parse_args()


def with_duckdb(optional):
    """Starts this program again in an environment that has DuckDB, unless this one has."""
    try:
        import duckdb  # noqa: F401

        return
    except ImportError:
        pass
    python = VENV / "bin" / "python"
    try:
        if Path(sys.prefix).resolve() == VENV.resolve():
            raise OSError("it was installed there before")
        if not python.exists():
            venv.create(VENV, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "duckdb"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = f"DuckDB cannot be installed in {VENV} ({error}), so answers are not compared with it"
        if optional:
            print(said)
            sys.exit(0)
        sys.exit(said)
    os.execv(python, [str(python), *sys.argv])


def main():
    given = options()
    with_duckdb(given.optional)
    from constructs import CONSTRUCTS

    names = [n for n in CONSTRUCTS if not given.construct or any(part in n for part in given.construct)]
    names = [n for n in names if not any(part in n for part in given.without)]
    if given.list:
        print("\n".join(names))
        return
    if not names:
        sys.exit("there is no such construct; --list shows them")
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(1 << 32)
    if given.case is not None:
        given.first, given.cases = given.case, 1
    if not given.cases and not given.minutes:
        given.minutes = 2
    if given.findings:
        given.findings.mkdir(parents=True, exist_ok=True)
    print(f"seed {given.seed}", flush=True)
    from oracle import Oracle

    if given.faults:
        from faults import search

        search(given, names)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    oracle = Oracle(given, names)
    try:
        oracle.run()
    finally:
        oracle.halocline.close()
        print(oracle.report.table())
        if given.json:
            oracle.report.write(given.json, given.seed)
    found = oracle.report.total("differences")
    print(f"{oracle.report.total('executions'):,} executions, {found} differences, seed {given.seed}")
    if found:
        sys.exit(1)


if __name__ == "__main__":
    main()
