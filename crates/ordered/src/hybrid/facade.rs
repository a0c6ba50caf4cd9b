//! What the public trees hand on to [`Hybrid`](super::Hybrid), their only field.

/// Implements [`OrderedIndex`](crate::OrderedIndex) for a tree.
macro_rules! is_index {
    ([$($generics:tt)*] $tree:ty) => {
        impl<$($generics)*> $crate::OrderedIndex for $tree {
            #[inline]
            fn get(&self, key: u64) -> Result<Option<u64>, $crate::TreeError> {
                self.0.get(key)
            }

            fn get_batch(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), $crate::TreeError> {
                self.0.get_batch(keys, values)
            }

            #[inline]
            fn insert(&self, key: u64, value: u64) -> Result<bool, $crate::TreeError> {
                self.0.insert(key, value)
            }

            #[inline]
            fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, $crate::TreeError> {
                self.0.upsert(key, value)
            }

            fn update(&self, key: u64, value: u64) -> Result<Option<u64>, $crate::TreeError> {
                self.0.update(key, value)
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
                self.0.scan(from, count, into)
            }

            fn scan_back(
                &self,
                from: u64,
                count: usize,
                into: &mut Vec<(u64, u64)>,
            ) -> Result<(), $crate::TreeError> {
                self.0.scan_back(from, count, into)
            }

            fn bulk_load(
                &mut self,
                entries: &mut dyn Iterator<Item = (u64, u64)>,
                fill: f64,
            ) -> Result<u64, $crate::TreeError> {
                self.0.bulk_load(entries, fill)
            }

            fn len(&self) -> u64 {
                self.0.len()
            }

            fn check(&self) -> Result<$crate::CheckReport, $crate::TreeError> {
                self.0.check()
            }

            fn stats(&self) -> $crate::TreeStats {
                self.0.stats()
            }
        }
    };
}

pub(crate) use is_index;
