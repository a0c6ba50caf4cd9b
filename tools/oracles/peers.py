"""The systems that answers are compared with, inside this process."""

import sqlite3

from compare import kind_of, normal_rows
from outcome import Outcome


class DuckDb:
    def __init__(self):
        import duckdb

        self.errors = duckdb.Error
        self.duckdb = duckdb
        self.fatal = getattr(duckdb, "InternalException", ())
        self.connect()

    def connect(self):
        self.connection = self.duckdb.connect(config={"threads": 1})
        # Needs an extension that is not part of every build: without it, there are no instants.
        self.connection.execute("SET TimeZone = 'UTC'")

    def prepare(self, statements):
        self.connect()
        for statement in statements:
            self.connection.execute(statement)

    def run(self, statements):
        """Runs statements of which one returns rows, in a transaction if there are several."""
        try:
            outcome = None
            for statement in statements:
                cursor = self.connection.execute(statement)
                if statement.lstrip("( ").upper().startswith(("SELECT", "WITH", "VALUES", "FROM")):
                    rows = cursor.fetchall()
                    kinds = [kind_of(str(column[1])) for column in cursor.description]
                    outcome = Outcome(normal_rows(rows, kinds), kinds)
            return outcome
        except (self.errors, RuntimeError, ValueError, OverflowError) as error:
            try:
                self.connection.execute("ROLLBACK")
            except self.errors:
                pass  # There is no transaction.
            if "database has been invalidated" in str(error):
                raise Invalidated from None
            return Outcome(error=str(error).strip())


class Invalidated(Exception):
    """DuckDB has ended itself after an internal error; its tables have to be made again."""


class Sqlite:
    def __init__(self):
        self.connection = None

    def prepare(self, statements):
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.execute("PRAGMA case_sensitive_like = ON")
        for statement in statements:
            self.connection.execute(statement)

    def run(self, statements, kinds):
        """Returns rows of values of these kinds."""
        try:
            outcome = None
            for statement in statements:
                cursor = self.connection.execute(statement)
                if cursor.description:
                    outcome = Outcome(normal_rows(cursor.fetchall(), kinds), kinds)
            return outcome
        except sqlite3.Error as error:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            return Outcome(error=str(error))
