"""What may differ, and why. Whatever else differs is a fault."""

import re

# Errors of DuckDB that mean that it does not have the form, by a part of the message.
PEER_LIMITS = [
    ("Not implemented Error", "DuckDB does not have it"),
    ("Binder Error", "DuckDB does not bind it"),
    ("not supported", "DuckDB does not support it"),
]

# Refusals of Halocline that its documents list: an expression for the message, and the reason.
REFUSALS = []

# Differences that the documents list: an expression for the query, and the reason.
KNOWN = []


def refusal(case, outcome):
    """Returns the reason why Halocline may refuse a case with this error, or None."""
    if outcome.fatal:
        return None
    for pattern in case.refusals:
        if re.search(pattern, outcome.error):
            return f"{pattern}: documented for this construct"
    for pattern, reason in REFUSALS:
        if re.search(pattern, outcome.error):
            return reason
    return None


def known(case, text):
    for pattern, reason in KNOWN:
        if re.search(pattern, text):
            return reason
    return None
