//! Implementation of [`OrderedIndex`](crate::OrderedIndex) for the public trees. Each forwards to its
//! only field, a [`HybridTree`](crate::hybrid::HybridTree) or a
//! [`PersistentTree`](crate::persistent::PersistentTree), which have the same methods.

/// Implements [`OrderedIndex`](crate::OrderedIndex) for a tree.
macro_rules! is_index {
    ([$($generics:tt)*] $tree:ty) => {
        impl<$($generics)*> $crate::OrderedIndex for $tree {
            #[inline]
            fn get(&self, key: u64) -> Result<Option<u64>, $crate::TreeError> {
                self.0.get(key)
            }

            fn get_batch(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), $crate::TreeError> {
                self.0.batch(keys, values)
            }

            #[inline]
            fn insert(&self, key: u64, value: u64) -> Result<bool, $crate::TreeError> {
                Ok(self.0.put(key, value, false)?.is_none())
            }

            #[inline]
            fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, $crate::TreeError> {
                self.0.put(key, value, true)
            }

            fn update(&self, key: u64, value: u64) -> Result<Option<u64>, $crate::TreeError> {
                self.0.replace(key, value)
            }

            fn remove(&self, key: u64) -> Result<Option<u64>, $crate::TreeError> {
                self.0.remove(key)
            }

            fn scan(
                &self,
                from: u64,
                count: usize,
                into: &mut Vec<(u64, u64)>,
            ) -> Result<(), $crate::TreeError> {
                $crate::scan::run(&self.0, $crate::scan::ScanDirection::Ascending, from, count, into)
            }

            fn scan_back(
                &self,
                from: u64,
                count: usize,
                into: &mut Vec<(u64, u64)>,
            ) -> Result<(), $crate::TreeError> {
                $crate::scan::run(&self.0, $crate::scan::ScanDirection::Descending, from, count, into)
            }

            fn bulk_load(
                &mut self,
                entries: &mut dyn Iterator<Item = (u64, u64)>,
                fill: f64,
            ) -> Result<u64, $crate::TreeError> {
                self.0.load(entries, fill)
            }

            fn len(&self) -> u64 {
                self.0.entries()
            }

            fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            fn check(&self) -> Result<$crate::TreeCheckReport, $crate::TreeError> {
                self.0.check_all()
            }

            fn stats(&self) -> $crate::TreeStats {
                self.0.stats()
            }
        }
    };
}

pub(crate) use is_index;
