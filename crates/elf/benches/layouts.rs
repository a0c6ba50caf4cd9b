//! Both layouts on a uniform table of ten columns: build, exact match, range and partial match, one query at
//! a time on one thread.
//!
//! `cargo bench -p halocline-elf --bench layouts`. `HALOCLINE_BENCH_ROWS` sets the number of rows
//! (1,000,000).

use std::sync::{Arc, LazyLock};

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use halocline_elf::{BuildOptions, CodePredicate, Elf, Layout, Matches, Rows, build};
use halocline_media::huge::HugeVec;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const DIMS: usize = 10;
const CODES: u64 = 100;

fn main() {
    divan::main();
}

/// Column-major codes.
struct UniformTable {
    rows: usize,
    columns: Vec<Vec<u8>>,
}

impl Rows for UniformTable {
    fn rows(&self) -> usize {
        self.rows
    }

    fn dims(&self) -> usize {
        DIMS
    }

    fn max_code(&self, _dim: usize) -> u64 {
        CODES - 1
    }

    fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
        for (out, &code) in out.iter_mut().zip(&self.columns[dim][start..]) {
            *out = u64::from(code);
        }
    }
}

/// An index in DRAM.
type Index = Elf<Arc<HugeVec<u8>>>;

/// The table, its two indexes, and the points that queries ask for, which are rows of the table.
struct Data {
    table: UniformTable,
    published: Index,
    packed: Index,
    index_bytes: [usize; 2],
    points: Vec<u64>,
}

static DATA: LazyLock<Data> = LazyLock::new(|| {
    // `cargo test` runs every benchmark once, without this argument.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let rows = std::env::var("HALOCLINE_BENCH_ROWS").map_or_else(
        |_| if measured { 1_000_000 } else { 10_000 },
        |rows| rows.parse().expect("a number of rows"),
    );
    let mut rng = StdRng::seed_from_u64(7);
    let columns = (0..DIMS)
        .map(|_| (0..rows).map(|_| rng.random_range(0..CODES) as u8).collect())
        .collect();
    let table = UniformTable { rows, columns };
    let points: Vec<u64> = zipf(rows, 0.5, 100_000, &mut rng)
        .into_iter()
        .flat_map(|row| table.columns.iter().map(move |column| u64::from(column[row])))
        .collect();
    let indexes = [Layout::Published, Layout::Packed].map(|layout| {
        let bytes = build_index(&table, layout, 1);
        (bytes.len(), Elf::open(Arc::new(bytes)).expect("a sound index"))
    });
    let index_bytes = [indexes[0].0, indexes[1].0];
    let [(_, published), (_, packed)] = indexes;
    for point in points.chunks_exact(DIMS).take(100) {
        let found = [&published, &packed].map(|elf| {
            let mut tids = select(elf, &range(point));
            tids.sort_unstable();
            tids
        });
        assert_eq!(found[0], found[1], "the layouts give different answers");
    }
    Data {
        table,
        published,
        packed,
        index_bytes,
        points,
    }
});

impl Data {
    fn index(&self, layout: Layout) -> &Index {
        match layout {
            Layout::Published => &self.published,
            Layout::Packed => &self.packed,
        }
    }

    /// Returns a query for each of the first points.
    fn queries(&self, count: usize, query: impl Fn(&[u64]) -> Vec<CodePredicate>) -> Vec<Vec<CodePredicate>> {
        self.points.chunks_exact(DIMS).take(count).map(query).collect()
    }
}

fn build_index(table: &UniformTable, layout: Layout, threads: usize) -> HugeVec<u8> {
    let options = BuildOptions {
        layout,
        threads,
        ..BuildOptions::default()
    };
    let mut bytes = HugeVec::new();
    build(table, &options, None, &mut bytes).expect("a build");
    bytes
}

/// Returns Zipfian row numbers (Gray et al., 1994), spread over the table.
fn zipf(rows: usize, theta: f64, count: usize, rng: &mut StdRng) -> Vec<usize> {
    let n = rows as f64;
    let zeta: f64 = (1..=rows).map(|i| (i as f64).powf(-theta)).sum();
    let zeta2 = 1.0 + 0.5_f64.powf(theta);
    let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta2 / zeta);
    let draw = |u: f64| match u * zeta {
        uz if uz < 1.0 => 0,
        uz if uz < zeta2 => 1,
        _ => (n * (eta * u - eta + 1.0).powf(1.0 / (1.0 - theta))) as usize,
    };
    (0..count)
        .map(|_| draw(rng.random()).min(rows - 1).wrapping_mul(2_654_435_761) % rows)
        .collect()
}

/// Returns a range of 2 % of the codes of every column.
fn range(point: &[u64]) -> Vec<CodePredicate> {
    let range_from = |&lo| CodePredicate::Range {
        lo,
        hi: lo + CODES / 50,
    };
    point.iter().map(range_from).collect()
}

/// Returns a range of 2 % of the codes of some columns.
fn partial(point: &[u64], dims: &[usize]) -> Vec<CodePredicate> {
    let mut predicates = vec![CodePredicate::Any; DIMS];
    for &dim in dims {
        predicates[dim] = CodePredicate::Range {
            lo: point[dim],
            hi: point[dim] + CODES / 50,
        };
    }
    predicates
}

fn select(elf: &Index, predicates: &[CodePredicate]) -> Vec<u32> {
    let mut tids = vec![];
    let selection = elf.select(predicates).expect("ten dimensions");
    selection.tids_into(&mut tids).expect("a sound index");
    tids
}

/// Measures queries that return row numbers.
fn measure_selections(bencher: Bencher<'_, '_>, layout: Layout, queries: &[Vec<CodePredicate>]) {
    let elf = DATA.index(layout);
    let mut tids = vec![];
    bencher.counter(ItemsCount::new(queries.len())).bench_local(|| {
        for predicates in queries {
            tids.clear();
            let selection = elf.select(predicates).expect("ten dimensions");
            selection.tids_into(&mut tids).expect("a sound index");
            black_box(&tids);
        }
    });
}

/// The items are rows, the bytes those of the index.
#[divan::bench(
    name = "build",
    args = [(Layout::Published, 1), (Layout::Packed, 1), (Layout::Packed, 2)],
    sample_count = 3,
    sample_size = 1
)]
fn build_layout(bencher: Bencher<'_, '_>, (layout, threads): (Layout, usize)) {
    let data = &*DATA;
    bencher
        .counter(ItemsCount::new(data.table.rows))
        .counter(BytesCount::new(
            data.index_bytes[usize::from(layout == Layout::Packed)],
        ))
        .bench_local(|| build_index(&data.table, layout, threads));
}

#[divan::bench(args = [Layout::Published, Layout::Packed], sample_count = 10)]
fn exact(bencher: Bencher<'_, '_>, layout: Layout) {
    let (points, elf) = (&DATA.points, DATA.index(layout));
    bencher
        .counter(ItemsCount::new(points.len() / DIMS))
        .bench_local(|| {
            for point in points.chunks_exact(DIMS) {
                black_box(elf.exact(point).expect("ten dimensions").first());
            }
        });
}

#[divan::bench(args = [Layout::Published, Layout::Packed], sample_count = 10)]
fn exact_batch(bencher: Bencher<'_, '_>, layout: Layout) {
    let (points, elf) = (&DATA.points, DATA.index(layout));
    let mut matches = Matches::new();
    bencher
        .counter(ItemsCount::new(points.len() / DIMS))
        .bench_local(|| {
            for batch in points.chunks(DIMS * 1000) {
                elf.exact_batch(batch, &mut matches).expect("ten dimensions");
                black_box(matches.tids());
            }
        });
}

#[divan::bench(args = [Layout::Published, Layout::Packed], sample_count = 10)]
fn range_of_2_percent(bencher: Bencher<'_, '_>, layout: Layout) {
    measure_selections(bencher, layout, &DATA.queries(10_000, range));
}

#[divan::bench(args = [Layout::Published, Layout::Packed], sample_count = 10)]
fn count_of_2_percent(bencher: Bencher<'_, '_>, layout: Layout) {
    let (queries, elf) = (DATA.queries(10_000, range), DATA.index(layout));
    bencher.counter(ItemsCount::new(queries.len())).bench_local(|| {
        for predicates in &queries {
            let selection = elf.select(predicates).expect("ten dimensions");
            black_box(selection.count().expect("a sound index"));
        }
    });
}

#[divan::bench(args = [Layout::Published, Layout::Packed], sample_count = 10)]
fn partial_of_5_columns(bencher: Bencher<'_, '_>, layout: Layout) {
    let queries = DATA.queries(500, |point| partial(point, &[0, 2, 4, 6, 8]));
    measure_selections(bencher, layout, &queries);
}

#[divan::bench(args = [Layout::Published, Layout::Packed], sample_count = 10)]
fn partial_of_2_columns(bencher: Bencher<'_, '_>, layout: Layout) {
    let queries = DATA.queries(500, |point| partial(point, &[1, 2]));
    measure_selections(bencher, layout, &queries);
}
