"""Answers one statement with DuckDB: `duck.py FILE WORK SQL`. A process of its own, so that its memory is counted alone."""

import csv
import sys

import duckdb


def main():
    file, work, sql = sys.argv[1:]
    writes = not sql.lstrip().upper().startswith(("SELECT", "WITH"))
    connection = duckdb.connect(file, read_only=not writes, config={"temp_directory": f"{work}/duckdb.tmp"})
    answer = connection.execute(sql)
    out = csv.writer(sys.stdout)
    out.writerow(column[0] for column in answer.description or [])
    while rows := answer.fetchmany(1000):
        out.writerows(rows)


main()
