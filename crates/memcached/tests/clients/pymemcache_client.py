"""Exercises a memcached server with pymemcache: python3 pymemcache_client.py HOST PORT"""

import sys
import time

from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

ALL_BYTES = bytes(range(256)) * 40


def equal(found, expected):
    assert found == expected, f"found {found!r:.200}, expected {expected!r:.200}"


def fails(error, operation, *arguments, **named):
    try:
        found = operation(*arguments, **named)
    except error:
        return
    raise AssertionError(f"{operation.__name__} returned {found!r:.200} instead of an error")


def storage(client):
    equal(client.set("k", b"one", noreply=False), True)
    equal(client.get("k"), b"one")
    equal(client.add("k", b"two", noreply=False), False)
    equal(client.add("new", b"two", noreply=False), True)
    equal(client.replace("k", b"three", noreply=False), True)
    equal(client.replace("missing", b"x", noreply=False), False)
    equal(client.append("k", b"!", noreply=False), True)
    equal(client.prepend("k", b"?", noreply=False), True)
    equal(client.append("missing", b"!", noreply=False), False)
    equal(client.get("k"), b"?three!")
    equal(client.delete("k", noreply=False), True)
    equal(client.delete("k", noreply=False), False)
    equal(client.get("k"), None)
    equal(client.get("k", "default"), "default")


def values(client):
    for name, value in {
        "empty": b"",
        "lines": b"a\r\nEND\r\nVALUE x 0 1\r\n",
        "binary": ALL_BYTES,
        "large": ALL_BYTES * 90,
    }.items():
        equal(client.set(name, value, noreply=False, flags=7), True)
        equal(client.get(name), value)
    fails(MemcacheServerError, client.set, "larger", b"x" * (1 << 20), noreply=False)
    equal(client.get("larger"), None)
    key = "k" * 250
    equal(client.set(key, b"long key", noreply=False), True)
    equal(client.get(key), b"long key")


def many(client):
    pairs = {f"many{at}": str(at).encode() * at for at in range(300)}
    equal(client.set_many(pairs, noreply=False), [])
    equal(client.get_many([*pairs, "missing"]), pairs)
    with_cas = client.gets_many(list(pairs))
    equal({key: value for key, (value, _) in with_cas.items()}, pairs)
    equal(len({cas for _, cas in with_cas.values()}), len(pairs))
    equal(client.delete_many(list(pairs), noreply=False), True)
    equal(client.get_many(list(pairs)), {})


def compare_and_set(client):
    equal(client.gets("cas"), (None, None))
    client.set("cas", b"1", noreply=False)
    value, cas = client.gets("cas")
    equal(value, b"1")
    equal(client.cas("cas", b"2", cas, noreply=False), True)
    equal(client.cas("cas", b"3", cas, noreply=False), False)
    equal(client.cas("missing", b"3", cas, noreply=False), None)
    equal(client.get("cas"), b"2")


def counters(client):
    equal(client.incr("n", 1), None)
    client.set("n", b"10", noreply=False)
    equal(client.incr("n", 5), 15)
    equal(client.decr("n", 7), 8)
    equal(client.get("n"), b"8 ")
    equal(client.decr("n", 100), 0)
    client.set("n", str(2**64 - 1).encode(), noreply=False)
    equal(client.incr("n", 2), 1)
    client.set("n", b"text", noreply=False)
    fails(MemcacheClientError, client.incr, "n", 1)


def no_reply(client):
    client.set("quiet", b"1", noreply=True)
    client.add("quiet", b"2", noreply=True)
    client.append("quiet", b"0", noreply=True)
    client.incr("quiet", 5, noreply=True)
    client.touch("quiet", 100, noreply=True)
    equal(client.get("quiet"), b"15")
    client.delete("quiet", noreply=True)
    equal(client.get("quiet"), None)


def expiry(client):
    client.set("soon", b"x", expire=1, noreply=False)
    client.set("past", b"x", expire=-1, noreply=False)
    client.set("touched", b"x", expire=1, noreply=False)
    client.set("absolute", b"x", expire=int(time.time()) + 100, noreply=False)
    equal(client.touch("touched", 100, noreply=False), True)
    equal(client.touch("missing", 100, noreply=False), False)
    equal(client.get("past"), None)
    equal(client.get("soon"), b"x")
    time.sleep(2.1)
    equal(client.get_many(["soon", "touched", "absolute"]), {"touched": b"x", "absolute": b"x"})


def flush(client):
    client.set("k", b"x", noreply=False)
    equal(client.flush_all(noreply=False), True)
    equal(client.get("k"), None)
    client.set("k", b"y", noreply=False)
    equal(client.get("k"), b"y")


def server(client):
    assert client.version()
    stats = client.stats()
    assert int(stats[b"cmd_get"]) > 0 and int(stats[b"curr_items"]) > 0, stats
    assert client.stats("settings")[b"cas_enabled"]


def main():
    address = (sys.argv[1], int(sys.argv[2]))
    for client in [Client(address, timeout=30), PooledClient(address, timeout=30, max_pool_size=4)]:
        for part in [storage, values, many, compare_and_set, counters, no_reply, expiry, flush]:
            # A pool of connections has no `gets_many`.
            if part is many and not hasattr(client, "gets_many"):
                continue
            part(client)
        client.close()
    client = Client(address, timeout=30)
    client.set("k", b"y", noreply=False)
    client.get("k")
    server(client)
    client.quit()


main()
