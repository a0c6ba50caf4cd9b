"""Statements in control groups that have less memory than the statements could use: `cargo xtask budget`.

    cargo xtask budget DIR --program target/release/halocline --limits 128M,256M,400M,1G

Each statement runs in a process of its own, with default settings, once without a limit and once for each limit; where the
Python package duckdb is installed, also with DuckDB under the same limits. Pools, spill files and DuckDB's files are in DIR,
which must not be in memory: tmpfs is charged to the group. A statement fails if it is killed, has another answer than
without a limit, is refused although it should not be, takes more than 90 % of the limit as anonymous memory, or takes more
than ten times as long as without a limit and than DuckDB under the same limit. The exit code is 1 if one fails. Needs root,
for control groups.
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import answers
import cgroup
import questions

sys.path.append(str(questions.ROOT / "bench" / "peers"))

import data  # noqa: E402
import join_data  # noqa: E402

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Times of a statement without a limit after which it has failed.
TIMES = 10
# Seconds that each statement may take in any case.
LEAST = 20
# The same where times do not count.
UNTIMED = 600
# Largest share of a limit that anonymous memory may take.
MOST_MEMORY = 0.9
SSB = ["date", "supplier", "customer", "part", "lineorder"]


def size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the data is, or is made")
    parser.add_argument("--program", default="target/release/halocline", help="the program")
    parser.add_argument("--scale", type=float, default=3, help="scale factor of TPC-H and SSB [default: 3]")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the tables of group-by and joins [default: 10000000]")
    parser.add_argument("--limits", default="128M,256M,400M,1G", help="of the groups [default: 128M,256M,400M,1G]")
    parser.add_argument("--sets", default="tpch,ssb,group-by,joins,operators,wide,products,writes", help="which statements")
    parser.add_argument("--only", help="names of statements, separated by commas")
    parser.add_argument("--sessions", type=int, default=1, help="of one process, which answer each query at once [default: 1]")
    parser.add_argument("--sessions-program", default="target/release/examples/sessions", help="the program for more than one session")
    parser.add_argument("--no-duckdb", action="store_true", help="do not run DuckDB")
    parser.add_argument("--untimed", action="store_true", help="do not call a statement slow before ten minutes")
    parser.add_argument("--optional", action="store_true", help="do nothing, and say so, where there are no control groups")
    parser.add_argument("--json", type=Path, help="file to append a line of each run to")
    return parser.parse_args()


def reads(sql):
    return sql.lstrip().upper().startswith(("SELECT", "WITH"))


def filled(statement, names):
    """Returns a statement, or the words of a command, with {name} replaced by the path of that name."""
    if isinstance(statement, list):
        return [filled(word, names) for word in statement]
    for name, path in names.items():
        statement = statement.replace("{" + name + "}", str(path))
    return statement


class Runs:
    """Runs statements with both programs, and keeps what came out."""

    def __init__(self, options):
        self.options = options
        self.work = options.directory / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.duckdb = not options.no_duckdb and importlib.util.find_spec("duckdb") is not None
        self.rows = []

    def at_least(self, seconds):
        return max(UNTIMED if self.options.untimed else LEAST, seconds)

    def command(self, system, pool, sql, answers_to):
        if system == "duckdb":
            file = pool.with_suffix(".duckdb")
            return [sys.executable, str(Path(__file__).with_name("duck.py")), str(file), str(self.work), sql]
        if isinstance(sql, list):
            return [self.options.program, *sql]
        if len(answers_to) > 1:
            return [self.options.sessions_program, str(pool), sql, *map(str, answers_to)]
        options = ["--read-only"] if reads(sql) else []
        return [self.options.program, "sql", str(pool), *options, "--output", "csv", sql]

    def run(self, system, pool, sql, limit, seconds, sessions=1):
        """Returns how the process ended, and the answer of each session. `sql` is a statement, or a command, which answers nothing."""
        group = cgroup.ControlGroup(limit) if limit else None
        outputs = [self.work / f"{system}.{number}.csv" for number in range(sessions)]
        said = outputs[0] if sessions == 1 else self.work / f"{system}.out"
        try:
            command = self.command(system, pool, sql, outputs)
            ended = cgroup.run(command, group, seconds, said, {"TMPDIR": str(self.work)})
        finally:
            if group:
                group.close()
        has_answer = ended.code == 0 and isinstance(sql, str)
        return ended, [answers.read(output) for output in outputs] if has_answer else []

    def ask(self, kind, name, pool, sql, limits):
        sessions = self.options.sessions
        free, expected = self.run("halocline", pool, sql, None, 3600, sessions)
        if free.code != 0:
            self.add(kind, name, None, "failed without a limit", free, free)
            return
        for limit in limits:
            duck = None
            if self.duckdb and pool.with_suffix(".duckdb").exists():
                duck, _ = self.run("duckdb", pool, sql, limit, max(LEAST, TIMES * free.seconds))
            allowed = free.seconds * TIMES
            if duck and duck.code == 0:
                allowed = max(allowed, duck.seconds)
            ended, found = self.run("halocline", pool, sql, limit, self.at_least(allowed), sessions)
            outcome = "right"
            if ended.code is None:
                outcome = "slow"
            elif ended.was_killed:
                outcome = "killed"
            elif ended.code != 0:
                outcome = "refused"
            elif not all(answers.are_same(answer, expected[0]) for answer in found):
                outcome = "wrong"
            self.add(kind, name, limit, outcome, ended, free, duck)

    def write(self, tables, pool, limits):
        """Runs the statements and commands that write, on a copy of the pool for each limit."""
        expected = {}
        copy = self.work / "writes.pool"
        names = {"work": self.work, "pool": copy, "lineitem": tables["lineitem"]}
        for limit in [None, *limits]:
            shutil.copyfile(pool, copy)
            for name, sql in questions.WRITES:
                if self.options.only and name not in self.options.only.split(","):
                    continue
                seconds = self.at_least(TIMES * expected[name][0].seconds) if limit else 3600
                ended, found = self.run("halocline", copy, filled(sql, names), limit, seconds)
                if not limit:
                    expected[name] = (ended, found)
                    continue
                free, answer = expected[name]
                is_same = len(found) == len(answer) and all(answers.are_same(*pair) for pair in zip(found, answer))
                outcome = "right" if is_same else "wrong"
                if ended.code is None:
                    outcome = "slow"
                elif ended.was_killed:
                    outcome = "killed"
                elif ended.code != 0:
                    outcome = "refused" if free.code == 0 else "failed without a limit"
                self.add("writes", name, limit, outcome, ended, free)
            copy.unlink()

    def add(self, kind, name, limit, outcome, ended, free, duck=None):
        row = {
            "set": kind,
            "statement": name,
            "limit": limit,
            "outcome": outcome,
            "seconds": round(ended.seconds, 3),
            "seconds_without": round(free.seconds, 3),
            "share": round(ended.peak / limit, 3) if limit else None,
            "error": ended.errors if outcome not in ("right", "wrong") else "",
        }
        if duck:
            row["duckdb"] = "right" if duck.code == 0 else "killed" if duck.was_killed else "slow" if duck.code is None else "refused"
            row["duckdb_seconds"] = round(duck.seconds, 3)
        self.rows.append(row)
        print(json.dumps(row), file=sys.stderr)
        if self.options.json:
            with open(self.options.json, "a") as file:
                file.write(json.dumps(row) + "\n")


def table(rows, limits):
    """Prints what came out, by set and limit."""
    print("| statements | limit | number | right | refused | slow | killed | wrong | most memory | slowest | DuckDB: right | killed or refused |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for kind in dict.fromkeys(row["set"] for row in rows):
        for limit in limits:
            of = [row for row in rows if row["set"] == kind and row["limit"] == limit]
            if not of:
                continue
            count = {name: sum(row["outcome"] == name for row in of) for name in ("right", "refused", "slow", "killed", "wrong")}
            share = max(row["share"] for row in of)
            slowest = max(row["seconds"] / max(row["seconds_without"], 0.001) for row in of if row["outcome"] == "right") if count["right"] else 0
            ducks = [row["duckdb"] for row in of if "duckdb" in row]
            right = sum(duck == "right" for duck in ducks)
            cells = [kind, f"{limit >> 20} MiB", len(of), *count.values(), f"{share:.0%}", f"{slowest:.1f}x"]
            cells += [right, len(ducks) - right] if ducks else ["", ""]
            print("| " + " | ".join(str(cell) for cell in cells) + " |")


def pools(options, wanted):
    """Returns the pool of each set, which is made where it is missing, with DuckDB's file beside it."""
    program, found = options.program, {}
    if {"tpch", "operators", "writes"} & wanted:
        tables, pool = data.tpch(program, options.directory / f"tpch{options.scale:g}", options.scale)
        found |= {"tpch": (tables, pool), "operators": (tables, pool), "writes": (tables, pool)}
    if "ssb" in wanted:
        directory = options.directory / f"ssb{options.scale:g}"
        directory.mkdir(parents=True, exist_ok=True)
        files = {table: directory / f"{table}.parquet" for table in SSB}
        if not all(file.exists() for file in files.values()):
            subprocess.run([program, "generate", "ssb", "--sf", f"{options.scale}", "--dir", directory], check=True)
        found["ssb"] = ({table: str(file) for table, file in files.items()}, data.imported(program, directory, files))
    if "group-by" in wanted:
        found["group-by"] = data.group_by(program, options.directory / "group-by", options.rows)
    if "joins" in wanted:
        found["joins"] = join_data.questions(program, options.directory / "joins", options.rows)
    if {"wide", "products"} & wanted:
        tables, pool = wide(program, options.directory / f"wide{options.scale:g}", options.scale)
        found |= {"wide": (tables, pool), "products": (tables, pool)}
    return found


def wide(program, directory, scale):
    """Returns the file of the table of wide texts by its name, and the pool."""
    directory.mkdir(parents=True, exist_ok=True)
    file, unfinished, scratch = (directory / name for name in ("wide.parquet", "unfinished.parquet", "scratch.pool"))
    if not file.exists():
        last = int(questions.WIDE_ROWS * max(scale, 1)) - 1
        rows = questions.WIDE_TABLE.replace("{last}", str(last))
        unfinished.unlink(missing_ok=True)
        subprocess.run([program, "sql", scratch, "--create", f"COPY ({rows}) TO '{unfinished}'"], check=True, stdout=subprocess.DEVNULL)
        scratch.unlink(missing_ok=True)
        unfinished.rename(file)
    return {"wide": str(file)}, data.imported(program, directory, {"wide": file})


def load_duckdb(tables, pool):
    file = pool.with_suffix(".duckdb")
    if file.exists():
        return
    import duckdb

    unfinished = pool.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    connection = duckdb.connect(str(unfinished))
    for name, path in tables.items():
        name = '"date"' if name == "date" else name
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{path}')")
    connection.close()
    unfinished.rename(file)


def has_failed(row):
    """Returns true if a statement did not do what it has to."""
    may_be_refused = (row["set"], row["statement"]) in questions.MAY_BE_REFUSED
    accepted = ("right", "refused") if may_be_refused else ("right",)
    return row["outcome"] not in accepted or row["share"] > MOST_MEMORY


def main():
    options = arguments()
    options.program = str(Path(options.program).resolve())
    options.directory = options.directory.resolve()
    wanted = set(options.sets.split(","))
    limits = [size(text) for text in options.limits.split(",")]
    try:
        cgroup.ControlGroup(1 << 30).close()
    except cgroup.NoControlGroups as error:
        print(f"budget: {error}", file=sys.stderr)
        return 0 if options.optional else 1
    runs = Runs(options)
    found, all_sets = pools(options, wanted), questions.sets(options.scale)
    for kind, (tables, pool) in found.items():
        if kind not in wanted:
            continue
        if runs.duckdb:
            load_duckdb(tables, pool)
        if kind == "writes":
            runs.write(tables, pool, limits)
            continue
        for name, sql in all_sets[kind]:
            if options.only and name not in options.only.split(","):
                continue
            runs.ask(kind, name, pool, sql.strip(), limits)
    shutil.rmtree(runs.work, ignore_errors=True)
    table(runs.rows, limits)
    failed = [row for row in runs.rows if has_failed(row)]
    for row in failed:
        limit = f"{row['limit'] >> 20} MiB" if row["limit"] else "no limit"
        share = f", {row['share']:.0%} of the memory" if row["share"] else ""
        print(f"budget: {row['set']}, {row['statement']}, {limit}: {row['outcome']}{share}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
