//! Uniform tables of integers, the synthetic data of the Elf papers.

use std::thread;

use crate::SplitMix64;

/// Parameters of a uniform table. Equal parameters give equal tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniformSpec {
    /// Returns the number of rows.
    pub rows: usize,
    /// Number of dimensions (columns).
    pub dims: usize,
    /// Values of each dimension are drawn from `0..cardinality`.
    pub cardinality: u32,
    /// Seed of the values.
    pub seed: u64,
}

/// A table whose values are independent and uniform, held column by column in DRAM (4 bytes a value).
///
/// ```
/// use halocline_workloads::{UniformSpec, UniformTable};
/// let table = UniformTable::generate(&UniformSpec { rows: 1000, dims: 3, cardinality: 100, seed: 1 });
/// assert_eq!((table.rows(), table.dims()), (1000, 3));
/// assert!(table.column(2).iter().all(|&value| value < 100));
/// ```
#[derive(Debug, Clone)]
pub struct UniformTable {
    spec: UniformSpec,
    columns: Vec<Vec<u32>>,
}

impl UniformTable {
    /// Generates the table, columns in parallel. The result does not depend on the number of threads.
    ///
    /// # Panics
    /// Panics if `spec.cardinality` is 0.
    #[must_use]
    pub fn generate(spec: &UniformSpec) -> Self {
        assert!(
            spec.cardinality > 0,
            "a uniform table needs at least one value per dimension"
        );
        let mut columns: Vec<Vec<u32>> = vec![Vec::new(); spec.dims];
        let threads = thread::available_parallelism()
            .map_or(1, usize::from)
            .min(spec.dims.max(1));
        let per_thread = spec.dims.div_ceil(threads).max(1);
        thread::scope(|scope| {
            for (block, chunk) in columns.chunks_mut(per_thread).enumerate() {
                scope.spawn(move || {
                    for (i, column) in chunk.iter_mut().enumerate() {
                        *column = Self::values(spec, block * per_thread + i).collect();
                    }
                });
            }
        });
        Self {
            spec: spec.clone(),
            columns,
        }
    }

    /// Generates the values of one dimension in row order without storing a table.
    ///
    /// # Panics
    /// Panics if `spec.cardinality` is 0.
    pub fn values(spec: &UniformSpec, dim: usize) -> impl Iterator<Item = u32> + use<> {
        let mut rng = SplitMix64::stream(spec.seed, dim as u64);
        let cardinality = u64::from(spec.cardinality);
        (0..spec.rows).map(move |_| rng.below(cardinality) as u32)
    }

    /// Returns the parameters of the table.
    #[must_use]
    pub fn spec(&self) -> &UniformSpec {
        &self.spec
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.spec.rows
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn dims(&self) -> usize {
        self.spec.dims
    }

    /// Returns the largest possible value of a dimension, `cardinality - 1`.
    #[must_use]
    pub fn max_value(&self) -> u64 {
        u64::from(self.spec.cardinality - 1)
    }

    /// Returns all values of one dimension in row order.
    ///
    /// # Panics
    /// Panics if there is no such dimension.
    #[must_use]
    pub fn column(&self, dim: usize) -> &[u32] {
        &self.columns[dim]
    }

    /// Appends the values of `row`, one per dimension, to `out`.
    ///
    /// # Panics
    /// Panics if there is no such row.
    pub fn push_row(&self, row: usize, out: &mut Vec<u64>) {
        out.extend(self.columns.iter().map(|column| u64::from(column[row])));
    }

    /// Returns the values of `row`.
    ///
    /// # Panics
    /// Panics if there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> Vec<u64> {
        let mut values = Vec::with_capacity(self.dims());
        self.push_row(row, &mut values);
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: UniformSpec = UniformSpec {
        rows: 20_000,
        dims: 5,
        cardinality: 10,
        seed: 42,
    };

    #[test]
    fn equal_specs_give_equal_tables_and_seeds_matter() {
        let a = UniformTable::generate(&SPEC);
        let b = UniformTable::generate(&SPEC);
        let c = UniformTable::generate(&UniformSpec { seed: 43, ..SPEC });
        assert_eq!(a.columns, b.columns);
        assert_ne!(a.columns, c.columns);
        assert_ne!(a.column(0), a.column(1), "columns are independent");
    }

    #[test]
    fn a_column_does_not_depend_on_the_others() {
        let wide = UniformTable::generate(&SPEC);
        let narrow = UniformTable::generate(&UniformSpec { dims: 1, ..SPEC });
        assert_eq!(wide.column(0), narrow.column(0));
    }

    #[test]
    fn values_are_uniform() {
        let table = UniformTable::generate(&SPEC);
        for dim in 0..5 {
            let mut counts = [0usize; 10];
            for &value in table.column(dim) {
                counts[value as usize] += 1;
            }
            // 2000 expected, standard deviation 42: five of them on either side.
            assert!(
                counts.iter().all(|n| (1790..=2210).contains(n)),
                "dim {dim}: {counts:?}"
            );
        }
    }

    #[test]
    fn rows_are_read_across_columns() {
        let table = UniformTable::generate(&SPEC);
        let row = table.row(17);
        assert_eq!(row.len(), 5);
        assert!((0..5).all(|dim| row[dim] == u64::from(table.column(dim)[17])));
    }

    #[test]
    fn empty_tables_are_fine() {
        let none = UniformTable::generate(&UniformSpec { rows: 0, ..SPEC });
        assert!(none.column(4).is_empty());
        assert_eq!(
            UniformTable::generate(&UniformSpec { dims: 0, ..SPEC }).row(3),
            Vec::<u64>::new()
        );
    }
}
