"""What was run: numbers for each construct, as a table and as JSON."""

import json
from collections import Counter, defaultdict


class Report:
    def __init__(self):
        self.counts = defaultdict(Counter)
        self.texts = defaultdict(set)
        self.reasons = Counter()
        self.first = {}

    def add(self, construct, what, number=1):
        self.counts[construct][what] += number

    def query(self, construct, text):
        self.texts[construct].add(hash(text))

    def reason(self, why):
        self.reasons[why] += 1

    def total(self, what):
        return sum(counts[what] for counts in self.counts.values())

    def table(self):
        heads = ["cases", "distinct", "executions", "with rows", "refused", "peers refuse", "ambiguous", "differences"]
        lines = [f"{'construct':46}" + "".join(f"{head:>13}" for head in heads)]
        for construct, counts in self.counts.items():
            values = [len(self.texts[construct]) if head == "distinct" else counts[head] for head in heads]
            lines.append(f"{construct:46}" + "".join(f"{value:13,}" for value in values))
        totals = [sum(map(len, self.texts.values())) if head == "distinct" else self.total(head) for head in heads]
        lines.append(f"{'all':46}" + "".join(f"{value:13,}" for value in totals))
        lines += [f"{number:9,}  {why}" for why, number in self.reasons.most_common()]
        return "\n".join(lines)

    def write(self, path, seed):
        constructs = {name: {**counts, "distinct": len(self.texts[name])} for name, counts in self.counts.items()}
        path.write_text(json.dumps({"seed": seed, "constructs": constructs, "reasons": self.reasons}, indent=1))
