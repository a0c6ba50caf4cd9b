#!/usr/bin/env python3
"""The Star Schema Benchmark in DuckDB, Hyper and ClickHouse beside halocline: same rows, same queries, same moments.

    halocline bench ssb --sf 1 --dir DIR            # makes DIR/sf1/*.parquet and DIR/sf1/chosen.pool
    python3 bench/peers/ssb.py DIR/sf1 --halocline target/release/halocline

Packages come from PyPI into a virtual environment (--venv), once. All systems are loaded from the Parquet files, get the
same CPUs (--threads) by affinity, and are asked each query in turn: one round to warm up and to compare the answers, then
--runs rounds of which the median counts. Results are fetched; planning is included.
"""

import argparse
import csv
import datetime
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

PACKAGES = ["duckdb", "tableauhyperapi", "chdb"]
TABLES = ["date", "supplier", "customer", "part", "lineorder"]
SYSTEMS = ["halocline", "duckdb", "duckdb-file", "hyper", "clickhouse"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="directory with the Parquet files and the pool")
    parser.add_argument("--pool", type=Path, help="the pool [default: chosen.pool in the directory]")
    parser.add_argument("--halocline", default="halocline", help="the program")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help=f"of {','.join(SYSTEMS)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache" / "halocline-peers")
    parser.add_argument("--work", type=Path, help="where the peers keep their data [default: a temporary directory]")
    parser.add_argument("--queries", type=Path, help="file of sql.rs with the queries")
    parser.add_argument("--json", type=Path, help="append one object per value, as `halocline bench --json`")
    parser.add_argument("--beside", type=Path, help="the file of `halocline bench ssb --json`: show its medians, too")
    return parser.parse_args()


def in_environment(directory):
    """Starts this script again with the interpreter of the virtual environment, which is made if it is not there."""
    python = directory / "bin" / "python"
    if Path(sys.prefix).resolve() == directory.resolve():
        return
    if not python.exists():
        print(f"making {directory}", file=sys.stderr)
        venv.create(directory, with_pip=True)
    missing = [name for name in PACKAGES if not list(directory.glob(f"lib/python*/site-packages/{name}"))]
    if missing:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *missing], check=True)
    os.execv(python, [str(python), *sys.argv])


def queries(path):
    """Names and texts of the queries, from the generator's source: there is one list of them."""
    path = path or Path(__file__).resolve().parents[2] / "crates" / "workloads" / "src" / "ssb" / "sql.rs"
    found = re.findall(r'name: "(\d\.\d)",\s*sql: r#"(.*?)"#', path.read_text(), re.DOTALL)
    if len(found) != 13:
        sys.exit(f"{path} has {len(found)} queries instead of 13")
    return found


def parquet(data, table):
    path = data / f"{table}.parquet"
    if not path.exists():
        sys.exit(f"there is no {path}; make it with: halocline bench ssb --dir DIR")
    return str(path.resolve())


def quoted(table):
    return '"date"' if table == "date" else table


class Halocline:
    """One process of the program: statements go in by a pipe, times come out of stderr, answers go to a file."""

    def __init__(self, options, data, work):
        pool = options.pool or data / "chosen.pool"
        if not pool.exists():
            sys.exit(f"there is no {pool}; make it with: halocline bench ssb --dir DIR")
        self.out = open(work / "halocline.csv", "w+", newline="")
        command = [options.halocline, "sql", str(pool), "--read-only", "--timing", "--output", "csv"]
        command += ["--threads", str(options.threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self.out.fileno(), stderr=subprocess.PIPE, text=True
        )
        self.load = None
        self.size = pool.stat().st_blocks * 512

    def run(self, sql):
        start = os.fstat(self.out.fileno()).st_size
        self.process.stdin.write(sql + ";\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stderr.readline()
            if line.startswith("time_ms "):
                break
            if not line:
                sys.exit(f"halocline ended at: {sql}")
            print(line, end="", file=sys.stderr)
        with open(self.out.name, newline="") as text:
            text.seek(start)
            rows = list(csv.reader(text))[1:]
        return float(line.split()[1]), rows

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Timed:
    """A system that runs in this process or is asked by it: the clock is ours."""

    def run(self, sql):
        start = time.perf_counter()
        rows = self.ask(sql)
        return (time.perf_counter() - start) * 1e3, rows


class DuckDb(Timed):
    def __init__(self, options, data, work, path=":memory:"):
        import duckdb

        self.connection = duckdb.connect(path, config={"threads": options.threads})
        start = time.perf_counter()
        for table in TABLES:
            file = parquet(data, table)
            self.connection.execute(f"CREATE TABLE {quoted(table)} AS SELECT * FROM read_parquet('{file}')")
        self.connection.execute("CHECKPOINT")
        self.load = time.perf_counter() - start
        self.size = None if path == ":memory:" else Path(path).stat().st_size

    def ask(self, sql):
        return self.connection.execute(sql).fetchall()

    def close(self):
        self.connection.close()


class DuckDbFile(DuckDb):
    def __init__(self, options, data, work):
        super().__init__(options, data, work, str(work / "ssb.duckdb"))


class Hyper(Timed):
    def __init__(self, options, data, work):
        from tableauhyperapi import Connection, CreateMode, HyperProcess, Telemetry

        parameters = {"log_dir": str(work)}
        self.process = HyperProcess(telemetry=Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters=parameters)
        path = work / "ssb.hyper"
        self.connection = Connection(self.process.endpoint, path, CreateMode.CREATE_AND_REPLACE)
        start = time.perf_counter()
        for table in TABLES:
            file = parquet(data, table)
            self.connection.execute_command(
                f"CREATE TABLE {quoted(table)} AS (SELECT * FROM external('{file}', FORMAT => 'parquet'))"
            )
        self.load = time.perf_counter() - start
        self.size = path.stat().st_size

    def ask(self, sql):
        return self.connection.execute_list_query(sql)

    def close(self):
        self.connection.close()
        self.process.close()


class ClickHouse(Timed):
    def __init__(self, options, data, work):
        from chdb import session

        self.session = session.Session(str(work / "clickhouse"))
        self.session.query(f"SET max_threads = {options.threads}")
        start = time.perf_counter()
        for table in TABLES:
            file = parquet(data, table)
            self.session.query(
                f"CREATE TABLE {quoted(table)} ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM file('{file}', Parquet) "
                "SETTINGS schema_inference_make_columns_nullable = 0"
            )
        self.load = time.perf_counter() - start
        size = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()"
        self.size = int(self.session.query(size, "CSV").bytes().decode())

    def ask(self, sql):
        return list(csv.reader(self.session.query(sql, "CSV").bytes().decode().splitlines()))

    def close(self):
        self.session.close()


KINDS = dict(zip(SYSTEMS, [Halocline, DuckDb, DuckDbFile, Hyper, ClickHouse]))


def version(name):
    from importlib.metadata import version as of

    package = {"duckdb": "duckdb", "duckdb-file": "duckdb", "hyper": "tableauhyperapi", "clickhouse": "chdb"}.get(name)
    return of(package) if package else None


def normal(rows):
    """Rows as sorted tuples of text, so that types and order among equals do not matter."""

    def text(value):
        value = str(value)
        try:
            number = float(value)
            return str(int(number)) if number.is_integer() and abs(number) < 2**53 else value
        except ValueError:
            return value

    return sorted(tuple(text(value) for value in row) for row in rows)


def measure(systems, runs):
    """Milliseconds by query and system; all systems in turn in each round."""
    times = {}
    for query, sql in systems["queries"]:
        answers = {}
        for name, system in systems["open"].items():
            _, rows = system.run(sql)
            answers[name] = normal(rows)
        first = next(iter(answers))
        for name, rows in answers.items():
            if rows != answers[first]:
                sys.exit(f"query {query}: {name} has {rows[:3]} …, {first} has {answers[first][:3]} …")
        samples = {name: [] for name in systems["open"]}
        for _ in range(runs):
            for name, system in systems["open"].items():
                samples[name].append(system.run(sql)[0])
        times[query] = samples
        shown = "  ".join(f"{name} {statistics.median(values):.1f}" for name, values in samples.items())
        print(f"{query}: {shown}", file=sys.stderr)
    return times


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def show(times, names, loads, sizes, beside):
    medians = {name: [statistics.median(times[query][name]) for query in times] for name in names}
    medians.update(beside)
    columns = list(medians)
    width = max(len(name) for name in columns) + 2
    row = lambda title, cells: print(f"{title:<16}" + "".join(f"{cell:>{width}}" for cell in cells))
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


def of_bench(path):
    """Medians of the variants in a file of `halocline bench ssb --json`, by what tells them apart."""
    variants = {}
    for line in path.read_text().splitlines():
        value = json.loads(line)
        if value["experiment"] == "ssb" and value["metric"] == "time":
            config = value["config"]
            names = [config["on"], config["encoding"], config["sort"], "" if config["star_join"] else "DataFusion"]
            names += [f"{config['threads']} threads", f"SF {config['scale_factor']}"]
            variants.setdefault(", ".join(name for name in names if name), {})[config["query"]] = value["value"]
    return {name: [times[query] for query in sorted(times)] for name, times in variants.items() if len(times) == 13}


def cpu():
    """The CPU's name, or `unknown`."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def write(path, times, names, options, rows):
    """Appends the medians as JSON Lines, as values of `halocline bench ssb`."""
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
                line = {"experiment": "ssb", "system": name, "config": config, "metric": metric, "value": value, "unit": "ms"}
                out.write(json.dumps(line) + "\n")


def main():
    options = arguments()
    names = options.systems.split(",")
    unknown = set(names) - set(SYSTEMS)
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}")
    in_environment(options.venv)
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[: options.threads])
    work = options.work or Path(tempfile.mkdtemp(prefix="halocline-peers-"))
    work.mkdir(parents=True, exist_ok=True)
    opened = {}
    try:
        for name in names:
            opened[name] = KINDS[name](options, options.data, work)
            print(f"{name} {version(name) or ''} is ready", file=sys.stderr)
        times = measure({"queries": queries(options.queries), "open": opened}, options.runs)
        loads = {name: system.load for name, system in opened.items()}
        sizes = {name: system.size for name, system in opened.items()}
        show(times, names, loads, sizes, of_bench(options.beside) if options.beside else {})
        if options.json:
            _, count = opened[names[0]].run("SELECT count(*) FROM lineorder")
            write(options.json, times, names, options, int(count[0][0]))
    finally:
        for system in opened.values():
            system.close()
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
