"""Database systems that are asked the same queries: how each is started, loaded from Parquet files, and timed."""

import csv
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

PACKAGES = ["duckdb", "tableauhyperapi", "chdb", "polars", "numpy", "pyarrow"]


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


def quoted(table):
    return '"date"' if table == "date" else table


class Halocline:
    """One process of the program: statements go in by a pipe, times come out of stderr, answers go to a file."""

    def __init__(self, options, tables, work):
        pool = options.pool
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
    def __init__(self, options, tables, work, path=":memory:"):
        import duckdb

        self.connection = duckdb.connect(path, config={"threads": options.threads})
        start = time.perf_counter()
        for table, file in tables.items():
            self.connection.execute(f"CREATE TABLE {quoted(table)} AS SELECT * FROM read_parquet('{file}')")
        self.connection.execute("CHECKPOINT")
        self.load = time.perf_counter() - start
        self.size = None if path == ":memory:" else Path(path).stat().st_size

    def ask(self, sql):
        return self.connection.execute(sql).fetchall()

    def close(self):
        self.connection.close()


class DuckDbFile(DuckDb):
    def __init__(self, options, tables, work):
        super().__init__(options, tables, work, str(work / "data.duckdb"))


class Hyper(Timed):
    def __init__(self, options, tables, work):
        from tableauhyperapi import Connection, CreateMode, HyperProcess, Telemetry

        parameters = {"log_dir": str(work)}
        self.process = HyperProcess(telemetry=Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters=parameters)
        path = work / "data.hyper"
        self.connection = Connection(self.process.endpoint, path, CreateMode.CREATE_AND_REPLACE)
        start = time.perf_counter()
        for table, file in tables.items():
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
    def __init__(self, options, tables, work):
        from chdb import session

        self.session = session.Session(str(work / "clickhouse"))
        self.session.query(f"SET max_threads = {options.threads}")
        start = time.perf_counter()
        for table, file in tables.items():
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


class Polars(Timed):
    def __init__(self, options, tables, work):
        os.environ["POLARS_MAX_THREADS"] = str(options.threads)
        import polars

        start = time.perf_counter()
        self.context = polars.SQLContext({table: polars.read_parquet(file) for table, file in tables.items()})
        self.load = time.perf_counter() - start
        self.size = None

    def ask(self, sql):
        return self.context.execute(sql, eager=True).rows()

    def close(self):
        pass


KINDS = {
    "halocline": Halocline,
    "duckdb": DuckDb,
    "duckdb-file": DuckDbFile,
    "hyper": Hyper,
    "clickhouse": ClickHouse,
    "polars": Polars,
}


def version(name):
    from importlib.metadata import version as of

    package = {"duckdb": "duckdb", "duckdb-file": "duckdb", "hyper": "tableauhyperapi", "clickhouse": "chdb", "polars": "polars"}.get(name)
    return of(package) if package else None
