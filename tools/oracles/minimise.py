"""Makes a difference small: parts of the query and rows are dropped while the difference stays."""

import re
import time

TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|[A-Za-z_][\w.]*|\d+(?:\.\d+)?(?:e\d+)?|<>|<=|>=|\|\||//|!~|.", re.DOTALL)


def tokens(text):
    return [t for t in TOKEN.findall(text) if not t.isspace()]


def joined(parts):
    text = " ".join(parts)
    text = re.sub(r"(\w) \(", r"\1(", text)
    text = re.sub(r"\b(IN|NOT|AND|OR|ON|WHERE|EXISTS|FROM|JOIN|SELECT|AS|THEN|WHEN|ELSE|ANY|ALL|BY|LATERAL|OVER|USING)\(", r"\1 (", text)
    return text.replace("( ", "(").replace(" )", ")").replace(" ,", ",")


def groups(parts):
    """Returns the places of parentheses that belong together, the widest first."""
    open_, found = [], []
    for at, part in enumerate(parts):
        if part == "(":
            open_.append(at)
        elif part == ")" and open_:
            found.append((open_.pop(), at))
    return sorted(found, key=lambda pair: pair[0] - pair[1])


def candidates(parts):
    """Yields shorter texts."""
    size = len(parts) // 2
    while size >= 1:
        for at in range(0, len(parts) - size + 1, max(1, size // 2)):
            yield parts[:at] + parts[at + size :]
        size //= 2
    for start, end in groups(parts):
        yield parts[:start] + parts[start + 1 : end] + parts[end + 1 :]
        yield parts[:start] + parts[end + 1 :]
        if end - start > 2:
            yield parts[:start] + ["NULL"] + parts[end + 1 :]
            yield parts[:start] + ["1"] + parts[end + 1 :]


def shorter(text, differs, seconds=20):
    """Returns a shorter text for which `differs` is true."""
    deadline = time.monotonic() + seconds
    parts, progress = tokens(text), True
    tried = set()
    while progress:
        progress = False
        for candidate in candidates(parts):
            if time.monotonic() > deadline:
                return joined(parts)
            short = joined(candidate)
            if short in tried or sum(map(len, candidate)) >= sum(map(len, parts)):
                continue
            tried.add(short)
            if differs(short):
                parts, progress = candidate, True
                break
    return joined(parts)


def fewer_rows(tables, differs, seconds=20):
    """Drops rows of tables, which is a dictionary of names and rows, while `differs` is true."""
    deadline = time.monotonic() + seconds
    for name in list(tables):
        size = max(1, len(tables[name]))
        while size >= 1:
            at = 0
            while at < len(tables[name]):
                fewer = {**tables, name: tables[name][:at] + tables[name][at + size :]}
                if time.monotonic() > deadline:
                    return tables
                if differs(fewer):
                    tables = fewer
                else:
                    at += size
            size //= 2
    return tables
