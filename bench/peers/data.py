"""Tables of the experiments: Parquet files that all systems are loaded from, and a pool of the same rows."""

import subprocess
import sys

TPCH = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]


def tpch(halocline, directory, scale_factor):
    """Returns the files of TPC-H's tables by name, and the pool."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {table: directory / f"{table}.parquet" for table in TPCH}
    if not all(file.exists() for file in files.values()):
        subprocess.run([halocline, "generate", "tpch", "--sf", f"{scale_factor}", "--dir", directory], check=True)
    return {table: str(file.resolve()) for table, file in files.items()}, imported(halocline, directory, files)


def imported(halocline, directory, files):
    """Returns the pool with the tables of the files. It gets its name once it is complete."""
    pool, unfinished = directory / "tables.pool", directory / "unfinished.pool"
    if not pool.exists():
        unfinished.unlink(missing_ok=True)
        for table, file in files.items():
            print(f"importing {table}", file=sys.stderr)
            subprocess.run([halocline, "import", unfinished, table, file], check=True, stdout=subprocess.DEVNULL)
        unfinished.rename(pool)
    return pool


# Indexes of lineorder, which begin with each of the columns that conditions restrict to few values.
INDEXES = {
    "small": "(lo_discount, lo_quantity, lo_tax, lo_orderdate)",
    "by_day": "(lo_orderdate, lo_quantity, lo_discount) WITH (order = 'given')",
    "by_supplier": "(lo_suppkey, lo_discount, lo_quantity) WITH (order = 'given')",
    "by_customer": "(lo_custkey, lo_discount, lo_quantity) WITH (order = 'given')",
    "by_part": "(lo_partkey, lo_discount, lo_quantity) WITH (order = 'given')",
}


def lineorder(halocline, directory, scale_factor):
    """Returns the file of the fact table of the Star Schema Benchmark, and a pool of it with indexes."""
    directory.mkdir(parents=True, exist_ok=True)
    file, pool, unfinished = (directory / name for name in ("lineorder.parquet", "lineorder.pool", "unfinished.pool"))
    if not file.exists():
        subprocess.run([halocline, "generate", "ssb", "--sf", f"{scale_factor}", "--dir", directory], check=True)
    if not pool.exists():
        unfinished.unlink(missing_ok=True)
        print("importing lineorder", file=sys.stderr)
        subprocess.run([halocline, "import", unfinished, "lineorder", file], check=True, stdout=subprocess.DEVNULL)
        for name, columns in INDEXES.items():
            statement = f"CREATE INDEX {name} ON lineorder USING elf {columns}"
            subprocess.run([halocline, "sql", unfinished, statement], check=True, stdout=subprocess.DEVNULL)
        unfinished.rename(pool)
    return {"lineorder": str(file.resolve())}, pool


def group_by(halocline, directory, rows, groups=100, seed=42):
    """Returns the file of the table of the group-by questions, and the pool.

    The description of the db-benchmark says: three columns of strings and three of integers, of which the first two of each
    kind have `groups` values and the third has `rows / groups`; integers to 5 and to 15; numbers to 100 with six digits.
    """
    import numpy
    import pyarrow
    import pyarrow.parquet

    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "x.parquet"
    if not file.exists():
        random = numpy.random.default_rng(seed)

        def texts(count, width):
            names = pyarrow.array([f"id{number:0{width}}" for number in range(1, count + 1)])
            return names.take(pyarrow.array(random.integers(0, count, rows)))

        def integers(count):
            return pyarrow.array(random.integers(1, count + 1, rows, dtype=numpy.int32))

        many = max(rows // groups, 1)
        table = pyarrow.table(
            {
                "id1": texts(groups, 3),
                "id2": texts(groups, 3),
                "id3": texts(many, 10),
                "id4": integers(groups),
                "id5": integers(groups),
                "id6": integers(many),
                "v1": integers(5),
                "v2": integers(15),
                "v3": pyarrow.array(numpy.round(random.random(rows) * 100, 6)),
            }
        )
        pyarrow.parquet.write_table(table, file, compression="zstd")
    return {"x": str(file.resolve())}, imported(halocline, directory, {"x": file})
