#!/usr/bin/env python3
"""The Star Schema Benchmark in DuckDB, Hyper and ClickHouse beside halocline: same rows, same queries, same moments.

    cargo build --release -p halocline-bench        # builds `halocline bench`, beside target/release/halocline
    halocline bench ssb --sf 1 --dir DIR            # makes DIR/sf1/*.parquet and DIR/sf1/chosen.pool
    python3 bench/peers/ssb.py DIR/sf1 --halocline target/release/halocline

Packages come from PyPI into a virtual environment (--venv), once. All systems are loaded from the Parquet files, get the
same CPUs (--threads) by affinity, and are asked each query in turn: one round to warm up and to compare the answers, then
--runs rounds of which the median counts. Results are fetched; planning is included.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import run

TABLES = ["date", "supplier", "customer", "part", "lineorder"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="directory with the Parquet files and the pool")
    parser.add_argument("--pool", type=Path, help="the pool [default: chosen.pool in the directory]")
    parser.add_argument("--queries", type=Path, help="file of sql.rs with the queries")
    parser.add_argument("--beside", type=Path, help="the file of `halocline bench ssb --json`: show its medians, too")
    run.add_options(parser, "halocline,duckdb,duckdb-file,hyper,clickhouse")
    return parser.parse_args()


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


def main():
    options = arguments()
    options.pool = options.pool or options.data / "chosen.pool"
    if not options.pool.exists():
        sys.exit(f"there is no {options.pool}; make it with: halocline bench ssb --dir DIR")
    tables = {table: parquet(options.data, table) for table in TABLES}
    beside = of_bench(options.beside) if options.beside else {}
    run.compare("ssb", options, tables, queries(options.queries), "lineorder", beside)


if __name__ == "__main__":
    main()
