"""Ways to run a query that must not change its answer: settings, ways to store the tables, preparation, rules left out."""

import re
from dataclasses import dataclass
from typing import Callable

from schema import renamed


@dataclass(frozen=True)
class Variant:
    """`set` and `reset` are statements around a batch of queries; `change` makes the statements of one case others."""

    name: str
    set: tuple = ()
    reset: tuple = ()
    stored: str | None = None
    change: Callable | None = None


def setting(name, value, stored=None):
    return Variant(f"{name} = {value}", (f"SET {name} = '{value}'",), (f"RESET {name}",), stored)


# Numbers behind a comparison become parameters.
NUMBER = re.compile(r"(?<![<>=])(=|<>|<=|>=|<|>) (\d+)(?![\w.)/*+^#%-])")


def prepared(statements):
    """Returns the case with its query prepared; None if it has no number to leave out."""
    if len(statements) != 1 or not statements[0].startswith("SELECT"):
        return None
    values = []

    def parameter(found):
        values.append(found[2])
        return f"{found[1]} ${len(values)}"

    text = NUMBER.sub(parameter, statements[0])
    if not values:
        return None
    execute = f"EXECUTE oracle ({', '.join(values)})"
    return [f"PREPARE oracle AS {text}", execute, execute, "DEALLOCATE oracle"]


def repeated(statements):
    """Returns the query three times: the third one comes from the plan cache."""
    return statements * 3 if len(statements) == 1 else None


VARIANTS = [
    Variant("sorted tables", stored="s"),
    Variant("indexed tables", stored="i"),
    Variant("keyed tables", stored="k"),
    Variant("tables partly in the log", stored="m"),
    setting("halocline.index", "force", "i"),
    setting("halocline.index", "off", "i"),
    setting("halocline.star_join", "off"),
    setting("halocline.fused_aggregate", "off"),
    setting("halocline.join_order", "off"),
    setting("halocline.dynamic_filters", "off"),
    setting("halocline.late_materialization", "off"),
    setting("halocline.first_rows", "off"),
    setting("halocline.spilling_join", "off"),
    setting("halocline.spilling_join", "force"),
    setting("halocline.array_join", "off"),
    setting("halocline.array_join", "force"),
    setting("halocline.plan_cache", "off"),
    setting("halocline.verify", "always"),
    setting("halocline.memory", "32MiB"),
    setting("datafusion.execution.target_partitions", "1"),
    setting("datafusion.execution.target_partitions", "5"),
    setting("datafusion.execution.batch_size", "2"),
    setting("datafusion.optimizer.prefer_hash_join", "false"),
    setting("datafusion.optimizer.repartition_joins", "false"),
    Variant("prepared with parameters", change=prepared),
    Variant("from the plan cache", change=repeated),
]

RULES = "halocline.disabled_rules"


def rule_variants(halocline):
    """Returns a variant for each rule of the optimizer that the program lets a session leave out."""
    outcome = halocline.run_all([[f"SET {RULES} = '?'"]])[0]
    found = re.search(r"can be left out: ([\w, ()]+)", outcome.error)
    if not found:
        return []
    return [setting(RULES, name.strip()) for name in found[1].split(",")]


def statements_of(case, variant, letter):
    """Returns the statements of a case in a variant; None if it has none there."""
    statements = [renamed(s, letter if variant.stored is None else variant.stored) for s in case.statements()]
    return variant.change(statements) if variant.change else statements
