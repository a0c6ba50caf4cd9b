"""Database systems that are asked the same queries: how each is started, loaded from Parquet files, and timed."""

import csv
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

PACKAGES = ["duckdb", "tableauhyperapi", "chdb", "polars", "datafusion", "numpy", "pyarrow"]

# Of a table `ans` with the answer of a join, as the db-benchmark checks it.
CHECK = "SELECT count(*), sum(v1), sum(v2) FROM ans"



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


class Failed(Exception):
    """A query that a system did not answer, with its error message."""


class Halocline:
    """One process of the program: statements go in by a pipe, times come out of stderr, answers go to a file."""

    limited = True

    def __init__(self, options, tables, work):
        pool = options.pool
        if options.answers == "table":
            pool = Path(shutil.copy(pool, work / "answers.pool"))
        self.out = open(work / "halocline.csv", "w+", newline="")
        command = [options.halocline, "sql", str(pool), "--timing", "--output", "csv"]
        command += ["--threads", str(options.threads)]
        if options.answers == "sums":
            command.append("--read-only")
        if options.memory:
            command += ["--memory", str(options.memory)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=self.out.fileno(),
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(work)},
        )
        self.load = None
        self.size = pool.stat().st_blocks * 512
        for setting in options.set:
            self.run(f"SET halocline.{setting}")

    def run(self, sql):
        start = os.fstat(self.out.fileno()).st_size
        said = ""
        try:
            self.process.stdin.write(sql + ";\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # The reason is in stderr.
        while True:
            line = self.process.stderr.readline()
            if line.startswith("time_ms "):
                break
            if not line:
                raise Failed(said or f"halocline ended at: {sql}")
            said += line
            print(line, end="", file=sys.stderr)
        with open(self.out.name, newline="") as text:
            text.seek(start)
            rows = list(csv.reader(text))[1:]
        return float(line.split()[1]), rows

    def keep(self, sql):
        milliseconds, _ = self.run(f"CREATE TABLE ans AS {sql}")
        _, rows = self.run(CHECK)
        self.run("DROP TABLE ans")
        return milliseconds, rows

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Timed:
    """A system that runs in this process or is asked by it: the clock is ours."""

    limited = False

    def run(self, sql):
        start = time.perf_counter()
        rows = self.ask(sql)
        return (time.perf_counter() - start) * 1e3, rows

    def keep(self, sql):
        """Makes a temporary table of the rows, and returns the time of that and the sums over the table."""
        start = time.perf_counter()
        self.do(f"CREATE TEMP TABLE ans AS {sql}")
        milliseconds = (time.perf_counter() - start) * 1e3
        rows = self.ask(CHECK)
        self.do("DROP TABLE ans")
        return milliseconds, rows

    def do(self, sql):
        self.ask(sql)


class DuckDb(Timed):
    limited = True

    def __init__(self, options, tables, work, path=None):
        import duckdb

        config = {"threads": options.threads, "temp_directory": str(work / "duckdb.tmp")}
        self.load = None
        if not path or not path.exists():
            loading = path.with_name("unfinished.duckdb") if path else ":memory:"
            if path:
                loading.unlink(missing_ok=True)
            self.connection = duckdb.connect(loading, config=config)
            start = time.perf_counter()
            for table, file in tables.items():
                self.connection.execute(f"CREATE TABLE {quoted(table)} AS SELECT * FROM read_parquet('{file}')")
            self.connection.execute("CHECKPOINT")
            self.load = time.perf_counter() - start
            if path:
                self.connection.close()
                loading.rename(path)
        if path:
            self.connection = duckdb.connect(path, config=config)
        self.size = path.stat().st_size if path else None
        if options.memory:
            self.connection.execute(f"SET memory_limit = '{options.memory / 1024} KiB'")

    def ask(self, sql):
        return self.connection.execute(sql).fetchall()

    def close(self):
        self.connection.close()


class DuckDbFile(DuckDb):
    def __init__(self, options, tables, work):
        super().__init__(options, tables, work, work / "data.duckdb")


class Hyper(Timed):
    limited = True

    def __init__(self, options, tables, work):
        from tableauhyperapi import Connection, CreateMode, HyperProcess, Telemetry

        parameters = {"log_dir": str(work)}
        if options.memory:
            parameters["memory_limit"] = f"{options.memory >> 20}m"
        self.process = HyperProcess(telemetry=Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters=parameters)
        path, loading = work / "data.hyper", work / "unfinished.hyper"
        self.load = None
        if not path.exists():
            with Connection(self.process.endpoint, loading, CreateMode.CREATE_AND_REPLACE) as connection:
                start = time.perf_counter()
                for table, file in tables.items():
                    connection.execute_command(
                        f"CREATE TABLE {quoted(table)} AS (SELECT * FROM external('{file}', FORMAT => 'parquet'))"
                    )
                self.load = time.perf_counter() - start
            loading.rename(path)
        self.connection = Connection(self.process.endpoint, path)
        self.size = path.stat().st_size

    def ask(self, sql):
        return self.connection.execute_list_query(sql)

    def do(self, sql):
        self.connection.execute_command(sql)

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

    def keep(self, sql):
        start = time.perf_counter()
        self.context.register("ans", self.context.execute(sql, eager=True))
        milliseconds = (time.perf_counter() - start) * 1e3
        rows = self.ask(CHECK)
        self.context.unregister("ans")
        return milliseconds, rows

    def close(self):
        pass


class DataFusion(Timed):
    """It has no storage of its own, and reads the Parquet files in each query. Its hash join cannot spill: under a memory
    limit it sorts and merges."""

    limited = True

    def __init__(self, options, tables, work):
        from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

        runtime = RuntimeEnvBuilder().with_disk_manager_specified(str(work))
        config = SessionConfig().with_target_partitions(options.threads)
        if options.memory:
            runtime = runtime.with_fair_spill_pool(options.memory)
            config = config.set("datafusion.optimizer.prefer_hash_join", "false")
        self.context = SessionContext(config, runtime)
        self.load = self.size = None
        for table, file in tables.items():
            self.context.register_parquet(table, file)

    def ask(self, sql):
        batches = self.context.sql(sql).collect()
        return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns))]

    def keep(self, sql):
        raise Failed("DataFusion has no tables that could lie anywhere but in DRAM")

    def close(self):
        pass


KINDS = {
    "halocline": Halocline,
    "duckdb": DuckDb,
    "duckdb-file": DuckDbFile,
    "hyper": Hyper,
    "clickhouse": ClickHouse,
    "polars": Polars,
    "datafusion": DataFusion,
}

PACKAGE_OF = {"duckdb-file": "duckdb", "hyper": "tableauhyperapi", "clickhouse": "chdb"}


def version(name):
    from importlib.metadata import version as of

    return None if name == "halocline" else of(PACKAGE_OF.get(name, name))
