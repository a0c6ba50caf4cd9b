"""Rounds: tables, cases of all constructs over them, their answers in all systems and variants."""

import random
import re
import time

import partition
from case import Case
from compare import normal_rows, same_rows
from constructs import CONSTRUCTS
from differences import known, refusal
from finding import Finder, wrong
from generator import Generator
from halocline import Halocline
from outcome import Outcome
from peers import DuckDb, Invalidated, Sqlite
from report import Report
from schema import STORED, Schema, renamed
import variants
from variants import Variant, rule_variants, statements_of

# Cases of each construct in a round: so many cases have the same tables.
PER_ROUND = 8
DEFAULT = Variant("default")
# Rounds between two measurements of shapes that must not be slow.
SLOW_ROUNDS = 25


def own_answer(outcome):
    """Returns an answer of Halocline as one that others are compared with."""
    kinds = ["text"] * (len(outcome.rows[0]) if outcome.rows else 1)
    return Outcome(normal_rows(outcome.rows, kinds), kinds)


def reads_what_it_changes(case):
    """Returns true for a change with a subquery over the changed table: SQLite lets it see rows that are changed already."""
    for statement in case.change:
        table = re.match(r"(?:UPDATE|DELETE FROM|INSERT INTO) (\w+)", statement)
        if table and re.search(rf"(?<!DELETE )\b(?:FROM|JOIN) {table[1]}\b", statement):
            return True
    return False


class Oracle:
    def __init__(self, options, constructs):
        self.options, self.constructs = options, constructs
        self.halocline = Halocline(options.program, ["--threads", "2"], timeout=options.timeout)
        self.duck, self.lite = DuckDb(), Sqlite()
        self.report, self.finder = Report(), Finder(options.program)
        self.shown = {}
        self.findings = []
        # A search ends with the first finding for which `stop` is true.
        self.stop, self.found, self.quiet = None, False, False
        self.variants = self.usable(variants.VARIANTS + rule_variants(self.halocline))
        self.start = time.monotonic()

    def usable(self, candidates):
        """Returns the variants whose settings the program has."""
        kept = []
        for variant in candidates:
            outcomes = self.halocline.run_all([[s] for s in variant.set + variant.reset])
            if all(o.rows is not None for o in outcomes):
                kept.append(variant)
        return kept

    def is_late(self):
        minutes = self.options.minutes
        return self.found or bool(minutes and time.monotonic() - self.start > minutes * 60)

    def is_over(self):
        options = self.options
        return self.is_late() or bool(options.cases) and self.report.total("cases") >= options.cases

    def run(self):
        number = self.options.first // PER_ROUND
        while not self.is_over():
            self.round(number)
            number += 1
            if self.options.case is not None:
                return

    def round(self, number):
        seed = self.options.seed
        draw = random.Random(f"{seed}:round:{number}")
        schema = Schema(draw)
        self.duck.prepare(schema.plain())
        self.lite.prepare(schema.plain(lite=True))
        self.made = set()
        cases = self.cases(schema, number)
        try:
            self.expected(cases, schema)
            # A case that is repeated alone has its tables in the same form.
            letters = [random.Random(f"{seed}:{case.construct}:{case.number}:stored").choice(list(STORED)) for case in cases]
            self.in_variant(cases, schema, DEFAULT, letters)
            self.partitions(cases, schema, letters)
            several = self.options.variants if self.options.case is None else len(self.variants)
            for variant in draw.sample(self.variants, min(several, len(self.variants))):
                if self.is_late():
                    break
                self.in_variant(cases, schema, variant, letters)
        finally:
            if self.made:
                self.halocline.run_all([[f"DROP TABLE IF EXISTS {', '.join(sorted(self.made))}"]])

    def cases(self, schema, number):
        cases = []
        for name in self.constructs:
            if name.startswith("slow: ") and number % SLOW_ROUNDS and len(self.constructs) > 10:
                continue
            for at in range(number * PER_ROUND, (number + 1) * PER_ROUND):
                if self.options.case is not None and at != self.options.case:
                    continue
                case = self.case(name, at, schema)
                if case:
                    cases.append(case)
                if name.startswith("slow: "):
                    break
        return cases

    def case(self, name, at, schema):
        # Tables that lack what a construct needs make it fail; it tries again.
        for attempt in range(20):
            g = Generator(random.Random(f"{self.options.seed}:{name}:{at}:{attempt}"), schema)
            try:
                case = CONSTRUCTS[name](g)
            except (IndexError, ValueError, AttributeError):
                continue
            case.construct, case.number = name, at
            self.report.add(name, "cases")
            self.report.query(name, " ".join(case.statements()))
            return case
        self.report.add(name, "not made")
        return None

    def expected(self, cases, schema):
        """Asks the peers."""
        for case in cases:
            case.wanted, case.other, case.settled = None, None, False
            texts = case.duck_statements()
            if texts:
                try:
                    case.wanted = self.duck.run(texts)
                except Invalidated:
                    case.wanted = Outcome(error="DuckDB: internal error")
                    self.duck.prepare(schema.plain())
                if case.wanted.rows is None:
                    self.report.add(case.construct, "peers refuse")
                    case.said, case.wanted = case.wanted.error, None
                elif case.wanted.rows:
                    self.report.add(case.construct, "with rows")
            if texts and case.wanted is None and case.lite and not reads_what_it_changes(case):
                alone = self.lite.run(case.lite_statements(), ["loose"] * 99)
                if alone and alone.rows is not None:
                    case.wanted, case.by_lite = alone, True
                    self.report.add(case.construct, "with rows", bool(alone.rows))
            elif case.wanted and case.lite:
                other = self.lite.run(case.lite_statements(), case.wanted.kinds)
                if other.rows is not None and not same_rows(other.rows, case.wanted.rows, case.ordered):
                    case.other = other
                    self.report.add(case.construct, "peers differ")

    def make(self, groups, schema):
        """Makes the tables that the statements name and that are not there yet."""
        names = set(re.findall(r"\bt[0-9][a-z]?\b", " ".join(s for group in groups for s in group))) - self.made
        for t in schema.tables:
            for letter in STORED:
                if t.name + letter not in names:
                    continue
                self.made.add(t.name + letter)
                for statement, outcome in zip(t.stored(letter), self.halocline.run_all([[s] for s in t.stored(letter)])):
                    if outcome.rows is None:
                        raise SystemExit(f"a table cannot be made: {outcome.error}: {statement[:200]}")

    def in_variant(self, cases, schema, variant, letters):
        """Runs all cases in a variant and compares their answers."""
        groups, asked = [], []
        for case, letter in zip(cases, letters):
            if hasattr(case, "grows"):
                if variant is DEFAULT:
                    self.growth(case, schema)
                continue
            statements = None if case.settled and variant is not DEFAULT else statements_of(case, variant, letter)
            if statements:
                groups.append(statements)
                asked.append((case, letter))
        self.make(groups, schema)
        self.halocline.run_all([[s] for s in variant.set])
        self.halocline.settings = list(variant.set)
        for (case, letter), outcome in zip(asked, self.halocline.run_all(groups)):
            self.report.add(case.construct, "executions")
            self.judge(case, schema, variant, letter, outcome)
        self.halocline.settings = []
        self.halocline.run_all([[s] for s in variant.reset])

    def judge(self, case, schema, variant, letter, outcome):
        if variant.change and outcome.rows is None and not outcome.fatal:
            # A statement that cannot be prepared, as the type of a parameter is not known.
            self.report.reason(f"not prepared: {outcome.error[:60]}")
            return
        if case.exact:
            said = case.exact(outcome)
            if not said and outcome.rows:
                self.report.add(case.construct, "with rows", variant is DEFAULT)
            if said:
                self.difference(case, schema, variant, letter, outcome, said)
            return
        if case.wanted is None:
            # Without a peer, the first answer is what the others are compared with.
            if outcome.rows is None:
                if outcome.fatal:
                    self.difference(case, schema, variant, letter, outcome, "died")
                case.settled = True
            else:
                case.wanted = own_answer(outcome)
                case.own = True
            return
        kind = wrong(case, case.wanted, outcome)
        if not kind:
            return
        if case.other and not wrong(case, case.other, outcome):
            self.report.add(case.construct, "as SQLite")
            case.wanted, case.other = case.other, None
            return
        why = outcome.rows is None and refusal(case, outcome)
        if why:
            self.report.add(case.construct, "refused")
            self.report.reason(f"refused: {why}")
            case.settled = True
            return
        why = known(case, case.sql)
        if why:
            self.report.reason(f"differs: {why}")
            case.settled = True
            return
        self.difference(case, schema, variant, letter, outcome, kind)

    def difference(self, case, schema, variant, letter, outcome, kind):
        case.settled = True
        if not case.exact and not hasattr(case, "own") and not hasattr(case, "by_lite") and not hasattr(case, "grows") and self.finder.is_ambiguous(case, schema):
            self.report.add(case.construct, "ambiguous")
            return
        self.report.add(case.construct, "differences")
        self.report.first.setdefault(case.construct, (case.number, kind))
        signature = (case.construct, kind[:40])
        seen = self.shown.get(signature, 0)
        self.shown[signature] = seen + 1
        if seen >= self.options.show:
            return
        seconds = 0 if hasattr(case, "own") or hasattr(case, "by_lite") or hasattr(case, "grows") else self.options.minimise
        script = self.finder.script(case, schema, variant, letter, case.wanted, outcome, seconds)
        head = f"-- seed {self.options.seed}: cargo xtask oracles --seed {self.options.seed} --construct '{case.construct}' --case {case.number}\n"
        self.findings.append((case.number, head + script))
        self.found = self.found or bool(self.stop and self.stop(head + script))
        if self.quiet:
            return
        print(f"\n{head}{script}", flush=True)
        if self.options.findings:
            slug = "".join(c if c.isalnum() else "-" for c in case.construct).strip("-")
            path = self.options.findings / f"{slug}-{self.options.seed}-{case.number}.sql"
            path.write_text(head + script)

    def partitions(self, cases, schema, letters):
        """Partitions the rows by the conditions of the cases."""
        asked = [(case, letter) for case, letter in zip(cases, letters) if case.condition and not case.settled and case.wanted]
        groups = [[renamed(query, letter)] for case, letter in asked for query in partition.queries(case)]
        self.make(groups, schema)
        outcomes = self.halocline.run_all(groups)
        for at, (case, letter) in enumerate(asked):
            own = outcomes[at * 6 : at * 6 + 6]
            self.report.add(case.construct, "executions", 6)
            said = partition.judge(own)
            if said:
                case.own = True
                self.difference(case, schema, DEFAULT, letter, Outcome(error=said), f"partition: {said}")

    def growth(self, case, schema):
        """Measures the time for numbers of rows: four times the rows take less than nine times the time."""
        small, large = 5000, 20000

        def seconds(n):
            start = time.monotonic()
            outcome = self.halocline.run_all([[case.sql.format(n=n)]])[0]
            return time.monotonic() - start, outcome

        self.report.add(case.construct, "executions", 2)
        case.settled = True
        took, outcome = seconds(small)
        again, outcome = seconds(large) if outcome.rows is not None else (took, outcome)
        if outcome.rows is None:
            self.difference(case, schema, DEFAULT, "", outcome, outcome.error)
        elif again > 1 and again > 9 * took:
            said = f"{took:.2f} s for {small} rows, {again:.2f} s for {large}"
            self.difference(case, schema, DEFAULT, "", Outcome(error=said), said)
