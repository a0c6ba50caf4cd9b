"""One case: a query, or a change and a query, and what its answer is compared with."""

from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Case:
    """`sql` is asked of all systems; `duck` and `lite` are other texts for the peers, or None where one is not asked.

    `exact` judges an outcome by a rule in place of DuckDB: it returns a sentence on what is wrong, or None.
    `condition` is (select list, FROM clause, condition), which is partitioned. `ordered`: the order of the rows is total.
    `refusals` are expressions for messages with which Halocline may refuse the case, as its documents say.
    """

    sql: str
    duck: str | None = ""
    lite: str | None = None
    change: list = field(default_factory=list)
    ordered: bool = False
    condition: tuple | None = None
    exact: Callable | None = None
    refusals: tuple = ()
    construct: str = ""
    number: int = 0

    def statements(self, text=None):
        """Returns the statements to run; a change is undone."""
        query = self.sql if text is None else text
        return ["BEGIN", *self.change, query, "ROLLBACK"] if self.change else [query]

    def duck_statements(self):
        return None if self.duck is None else self.statements(self.duck or self.sql)

    def lite_statements(self):
        return None if self.lite is None else self.statements(self.lite)
