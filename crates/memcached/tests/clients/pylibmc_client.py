"""Exercises a memcached server with pylibmc, which is libmemcached: python3 pylibmc_client.py HOST PORT"""

import sys
import time

import pylibmc

ALL_BYTES = bytes(range(256)) * 40


def equal(found, expected):
    assert found == expected, f"found {found!r:.200}, expected {expected!r:.200}"


def fails(error, operation, *arguments):
    try:
        found = operation(*arguments)
    except error:
        return
    raise AssertionError(f"{operation.__name__} returned {found!r:.200} instead of an error")


def storage(client):
    equal(client.set("k", b"one"), True)
    equal(client.get("k"), b"one")
    equal(client.add("k", b"two"), False)
    equal(client.replace("k", b"three"), True)
    equal(client.replace("missing", b"x"), False)
    equal(client.append("k", b"!"), True)
    equal(client.prepend("k", b"?"), True)
    equal(client.get("k"), b"?three!")
    equal(client.delete("k"), True)
    equal(client.delete("k"), False)
    equal(client.get("k"), None)


def values(client):
    objects = {
        "empty": b"",
        "binary": ALL_BYTES,
        "text": "Grüße\r\nEND\r\n",
        "number": 2**40,
        "truth": True,
        "object": {"list": [1, 2.5, None]},
        "large": ALL_BYTES * 90,
    }
    for key, value in objects.items():
        equal(client.set(key, value), True)
        equal(client.get(key), value)
    equal(client.get_multi([*objects, "missing"]), objects)
    fails(pylibmc.Error, client.set, "larger", ALL_BYTES * 110)
    # Compressed by the client.
    equal(client.set("compressed", b"x" * 2_000_000, min_compress_len=1000), True)
    equal(client.get("compressed"), b"x" * 2_000_000)


def many(client):
    pairs = {f"{at}": b"v" * at for at in range(500)}
    equal(client.set_multi(pairs, key_prefix="many"), [])
    equal(client.get_multi(list(pairs), key_prefix="many"), pairs)
    equal(client.delete_multi(list(pairs), key_prefix="many"), True)
    equal(client.get_multi(list(pairs), key_prefix="many"), {})


def compare_and_set(client):
    client.set("cas", b"1")
    value, cas = client.gets("cas")
    equal(value, b"1")
    equal(client.cas("cas", b"2", cas), True)
    equal(client.cas("cas", b"3", cas), False)
    equal(client.get("cas"), b"2")


def counters(client):
    client.delete("n")
    fails(pylibmc.NotFound, client.incr, "n")
    client.set("n", 10)
    equal(client.incr("n", 5), 15)
    equal(client.decr("n", 7), 8)
    equal(client.get("n"), 8)
    client.set_multi({"a": 1, "b": 2})
    client.incr_multi(["a", "b"], delta=3)
    equal(client.get_multi(["a", "b"]), {"a": 4, "b": 5})


def expiry(client):
    client.set("soon", b"x", time=1)
    client.set("touched", b"x", time=1)
    client.set("later", b"x", time=100)
    equal(client.touch("touched", 100), True)
    equal(client.touch("missing", 100), False)
    time.sleep(2.1)
    equal(client.get_multi(["soon", "touched", "later"]), {"touched": b"x", "later": b"x"})


def flush(client):
    client.set("k", b"x")
    equal(client.flush_all(), True)
    equal(client.get("k"), None)


def connect(**behaviors):
    server = f"{sys.argv[1]}:{sys.argv[2]}"
    return pylibmc.Client([server], binary=False, behaviors={"cas": True, **behaviors})


def main():
    for behaviors in [{}, {"tcp_nodelay": True, "no_block": True}]:
        client = connect(**behaviors)
        for part in [storage, values, many, compare_and_set, counters, expiry, flush]:
            part(client)
        [(_, stats)] = client.get_stats()
        assert int(stats["cmd_get"]) > 0, stats
        client.disconnect_all()
    # With `noreply`, the server answers no change.
    quiet = connect(_noreply=True)
    quiet.set("quiet", b"1")
    quiet.append("quiet", b"2")
    quiet.set("gone", b"1")
    quiet.delete("gone")
    equal(quiet.get("quiet"), b"12")
    equal(quiet.get("gone"), None)


main()
