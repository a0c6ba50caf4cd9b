"""Tables of the join experiments. Rows depend on sizes and seed only, and are written piece by piece: keys are held in DRAM
at 4 bytes each, texts and numbers are not."""

import data

PIECE = 1 << 20


def written(file, rows, columns):
    """Writes a Parquet file of `rows` rows. `columns` returns the columns of the rows from a first to before a last one."""
    import pyarrow
    import pyarrow.parquet

    unfinished, writer = file.with_suffix(".unfinished"), None
    for first in range(0, rows, PIECE):
        table = pyarrow.table(columns(first, min(first + PIECE, rows)))
        writer = writer or pyarrow.parquet.ParquetWriter(unfinished, table.schema, compression="zstd", compression_level=1)
        writer.write_table(table)
    writer.close()
    unfinished.rename(file)


def questions(halocline, directory, rows, seed=108):
    """Returns the files of the tables x, small, medium and big of the db-benchmark's join questions, and the pool.

    The benchmark's generator defines them: x and big have `rows` rows, medium a thousandth and small a millionth of that.
    There are 1.1 times as many keys of each kind (id1, id2, id3) as small, medium and big have rows. Nine in eleven are in x
    and in the other tables, one in x only, one in the others only. A table has each of its keys at least once. id4 to
    id6 are id1 to id3 as texts.
    """
    import numpy
    import pyarrow
    import pyarrow.compute

    if rows < 1_000_000 or rows % 1_000_000:
        raise SystemExit(f"the join questions need a multiple of 1000000 rows, not {rows}")
    directory.mkdir(parents=True, exist_ok=True)
    sizes = {"small": rows // 1_000_000, "medium": rows // 1_000, "big": rows}
    files = {table: directory / f"{table}.parquet" for table in ["x", *sizes]}
    if not all(file.exists() for file in files.values()):
        random = numpy.random.default_rng(seed)
        left, right = {}, {}
        for kind, size in zip(("id1", "id2", "id3"), sizes.values()):
            tenth = size // 10
            keys = random.permutation(numpy.arange(1, size + tenth + 1, dtype=numpy.int32))
            left[kind], right[kind] = keys[:size], numpy.concatenate((keys[: size - tenth], keys[size:]))

        def repeated(keys, count):
            """All keys, and random ones of them beyond their number, in random order."""
            drawn = numpy.concatenate((keys, keys[random.integers(0, len(keys), count - len(keys), dtype=numpy.int32)]))
            random.shuffle(drawn)
            return drawn

        def texts(numbers):
            return pyarrow.compute.binary_join_element_wise(pyarrow.scalar("id"), numbers.cast(pyarrow.string()), "")

        def write(table, kinds, value, count):
            ids = {kind: repeated(keys, count) for kind, keys in kinds.items()}

            def columns(first, last):
                numbers = {kind: pyarrow.array(values[first:last]) for kind, values in ids.items()}
                names = {f"id{int(kind[2]) + 3}": texts(values) for kind, values in numbers.items()}
                return numbers | names | {value: numpy.round(random.random(last - first) * 100, 6)}

            written(files[table], count, columns)

        write("x", left, "v1", rows)
        for at, (table, size) in enumerate(sizes.items()):
            write(table, dict(list(right.items())[: at + 1]), "v2", size)
    return paths(files), data.imported(halocline, directory, files)


def pair(halocline, directory, rows, seed=1):
    """Returns the files of the tables build and probe, of `rows` and twice as many rows, and the pool.

    Both have a key k and a number v of 8 bytes. Keys of build are distinct and spread over all 64 bits, each row of probe
    has a random one of them. Numbers have 49 bits, so that 8 bytes hold their sum.
    """
    import numpy

    directory.mkdir(parents=True, exist_ok=True)
    files = {table: directory / f"{table}.parquet" for table in ("build", "probe")}
    random = numpy.random.default_rng(seed)

    def spread(numbers):
        """The finalizer of SplitMix64, which maps different numbers to different ones."""
        mixed = numbers.astype(numpy.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> numpy.uint64(shift))) * numpy.uint64(factor)
        return (mixed ^ (mixed >> numpy.uint64(31))).view(numpy.int64)

    def columns(numbers):
        return {"k": spread(numbers), "v": random.integers(-(1 << 48), 1 << 48, len(numbers))}

    if not all(file.exists() for file in files.values()):
        order = random.permutation(numpy.arange(rows, dtype=numpy.int32))
        written(files["build"], rows, lambda first, last: columns(order[first:last]))
        written(files["probe"], 2 * rows, lambda first, last: columns(random.integers(0, rows, last - first)))
    return paths(files), data.imported(halocline, directory, files)


def paths(files):
    return {table: str(file.resolve()) for table, file in files.items()}
