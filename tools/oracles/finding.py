"""A difference: confirmed, made small, and written as a script."""

import re

import minimise
from compare import normal_rows, same_rows
from halocline import Halocline
from outcome import Outcome
from peers import DuckDb, Invalidated
from schema import renamed


def wrong(case, wanted, outcome):
    """Returns the class of a difference: '' if there is none."""
    if case.exact:
        said = case.exact(outcome)
        return f"rule: {said}" if said else ""
    if outcome.fatal:
        return "died"
    if outcome.rows is None:
        return "error: " + re.sub(r"'[^']*'|\d+|[a-z]\d+\w*", "", outcome.error)[:32]
    rows = normal_rows(outcome.rows, wanted.kinds)
    return "" if same_rows(wanted.rows, rows, case.ordered) else "rows"


class Finder:
    """Repeats a difference on small tables, in processes of its own."""

    def __init__(self, program):
        self.program = program
        self.duck, self.reverse = DuckDb(), DuckDb()

    def tables(self, case, schema):
        text = " ".join(case.statements())
        return {t.name: t.rows for t in schema.tables if re.search(rf"\b{t.name}\b", text)}

    def made(self, schema, rows, letter="", reverse=False):
        statements = []
        for t in schema.tables:
            if t.name in rows:
                statements += t.stored(letter, rows[t.name][::-1] if reverse else rows[t.name])
        return statements

    def is_ambiguous(self, case, schema):
        """Returns true if the answer of DuckDB depends on the order of the rows."""
        texts = case.duck_statements()
        if texts is None:
            return False
        answers = []
        for reverse in (False, True):
            self.duck.prepare(self.made(schema, self.tables(case, schema), reverse=reverse))
            answers.append(self.duck.run(texts))
        a, b = answers
        return a.rows is None or b.rows is None or not same_rows(a.rows, b.rows, case.ordered)

    def script(self, case, schema, variant, letter, wanted, got, seconds):
        """Returns a script that shows the difference, as small as time permits."""
        rows, text = self.tables(case, schema), case.sql
        kind = wrong(case, wanted, got)
        letter = variant.stored if variant.stored is not None else letter
        halocline = Halocline(self.program, timeout=20)
        try:
            run = lambda query, rows: self.repeated(halocline, case, schema, rows, variant, letter, query)
            if case.duck is not None and not case.exact and seconds:
                stays = lambda query, rows: self.differs(halocline, case, schema, rows, variant, letter, query, kind)
                if not stays(text, rows) and letter:
                    letter = ""
                if stays(text, rows):
                    if not case.duck and not case.ordered:
                        text = minimise.shorter(text, lambda query: stays(query, rows), seconds)
                    rows = {n: r for n, r in rows.items() if re.search(rf"\b{n}\b", " ".join(case.change) + text)}
                    rows = minimise.fewer_rows(rows, lambda fewer: stays(text, fewer), seconds)
                    self.duck.prepare(self.made(schema, rows))
                    wanted = self.duck.run(case.statements(text if not case.duck else case.duck)) or wanted
                    got = run(text, rows)
                else:
                    kind += " (not seen again on the same tables alone)"
        finally:
            halocline.close()
        lines = [f"-- {case.construct}, case {case.number}: {kind}"]
        if variant.name != "default":
            lines.append(f"-- in the variant: {variant.name}")
        statements = [*self.made(schema, rows, letter), *variant.set, *(renamed(s, letter) for s in case.statements(text))]
        lines += [f"{s};" for s in statements]
        if not case.exact:
            lines += ["-- right:", *("--   " + line for line in str(wanted).splitlines())]
        lines += ["-- got:", *("--   " + line for line in str(got).splitlines())]
        return "\n".join(lines) + "\n"

    def repeated(self, halocline, case, schema, rows, variant, letter, query):
        names = [name + letter for name in rows]
        groups = [[f"DROP TABLE IF EXISTS {name}"] for name in names] + [[s] for s in self.made(schema, rows, letter)]
        signature = (tuple((n, len(r)) for n, r in rows.items()), letter)
        if signature != getattr(halocline, "has", None):
            halocline.run_all(groups)
            halocline.has = signature
        statements = [renamed(s, letter) for s in case.statements(query)]
        if variant.change:
            statements = variant.change(statements)
            if statements is None:
                return Outcome(error="the variant does not apply")
        outcomes = halocline.run_all([*([s] for s in variant.set), statements, *([s] for s in variant.reset)])
        return outcomes[len(variant.set)]

    def differs(self, halocline, case, schema, rows, variant, letter, query, kind):
        if not query.startswith(("SELECT", "WITH", "(")):
            return False
        try:
            answers = []
            texts = case.statements(case.duck or query)
            for peer, reverse in ((self.duck, False), (self.reverse, True)):
                signature = tuple((n, len(r)) for n, r in rows.items())
                if getattr(peer, "has", None) != (id(schema), signature):
                    peer.prepare(self.made(schema, rows, reverse=reverse))
                    peer.has = (id(schema), signature)
                answer = peer.run(texts)
                if answer is None or answer.rows is None:
                    return False
                answers.append(answer)
            a, b = answers
            if not same_rows(a.rows, b.rows, case.ordered):
                return False
        except Invalidated:
            self.duck.has = self.reverse.has = None
            return False
        return wrong(case, a, self.repeated(halocline, case, schema, rows, variant, letter, query)) == kind
