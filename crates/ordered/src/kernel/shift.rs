//! Shifting part of an array of an inner node up by one position.
//!
//! Readers may run concurrently; validation rejects what they find. The portable implementation moves one
//! atomic at a time. The other one uses vector instructions in assembly, which the rules for non-atomic
//! accesses do not apply to.
#![allow(unsafe_code, reason = "vector instructions")]

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// An integer that readers may load while it is being replaced.
pub(crate) trait AtomicInt {
    /// Copies the value of another cell.
    fn copy(&self, other: &Self);
}

macro_rules! cells {
    ($($cell:ty),*) => {$(
        impl AtomicInt for $cell {
            #[inline(always)]
            fn copy(&self, other: &Self) {
                self.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    )*};
}

cells!(AtomicU16, AtomicU32, AtomicU64);

/// Moves the cells `from..to` up by one, overwriting the one at `to`. Does nothing if the range is
/// empty. `vectors` is the result of [`has_vectors`](super::has_vectors), or false.
///
/// # Panics
/// Panics if there is no cell at `to`.
#[inline(always)]
pub(crate) fn shift_up<T: AtomicInt>(cells: &[T], from: usize, to: usize, vectors: bool) {
    let Some(count) = to.checked_sub(from) else { return };
    let cells = &cells[from..=to];
    let left = if vectors { imp::shift_up(cells) } else { count };
    // The rest below a full vector, or all cells.
    for at in (0..left).rev() {
        cells[at + 1].copy(&cells[at]);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use std::arch::asm;

    use super::AtomicInt;

    /// Moves cells up from the highest down, as long as they fill whole vectors, and returns the number of
    /// cells left to move. The last cell is only overwritten.
    #[inline(always)]
    pub(super) fn shift_up<T: AtomicInt>(cells: &[T]) -> usize {
        let left: usize;
        // SAFETY: the caller has found AVX2. The code loads the bytes of all cells but the last and stores
        // them one cell further. Both are within `cells`, which are borrowed and may be changed while they
        // are. Only the named registers are clobbered.
        unsafe {
            asm!(
                "2:",
                "sub {left}, 32",
                "jb 3f",
                "vmovdqu ymm0, [{start} + {left}]",
                "vmovdqu [{start} + {left} + {size}], ymm0",
                "jmp 2b",
                "3:",
                "add {left}, 32",
                "vzeroupper",
                start = in(reg) cells.as_ptr(),
                left = inout(reg) size_of_val(cells) - size_of::<T>() => left,
                size = const size_of::<T>(),
                // `vzeroupper` clears the upper halves of all vector registers, in which code compiled for
                // AVX may hold values.
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack)
            );
        }
        left / size_of::<T>()
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    pub(super) fn shift_up<T>(cells: &[T]) -> usize {
        cells.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::has_vectors;
    use super::*;

    fn check<T: AtomicInt, U: Copy + PartialEq + std::fmt::Debug>(
        numbers: &[U],
        from: usize,
        to: usize,
        cell: impl Fn(U) -> T,
        number: impl Fn(T) -> U,
    ) -> Result<(), TestCaseError> {
        let mut wanted = numbers.to_vec();
        if from < to {
            wanted.copy_within(from..to, from + 1);
        }
        for vectors in [false, has_vectors()] {
            let cells: Vec<T> = numbers.iter().map(|number| cell(*number)).collect();
            shift_up(&cells, from, to, vectors);
            let found: Vec<U> = cells.into_iter().map(&number).collect();
            prop_assert_eq!(&found, &wanted, "{} to {}, vectors {}", from, to, vectors);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn cells_move_one_up(numbers in prop::collection::vec(any::<u64>(), 1..70), from: prop::sample::Index, to: prop::sample::Index) {
            let (from, to) = (from.index(numbers.len() + 1), to.index(numbers.len()));
            check(&numbers, from, to, AtomicU64::new, AtomicU64::into_inner)?;
            let half: Vec<u32> = numbers.iter().map(|number| *number as u32).collect();
            check(&half, from, to, AtomicU32::new, AtomicU32::into_inner)?;
            let quarter: Vec<u16> = numbers.iter().map(|number| *number as u16).collect();
            check(&quarter, from, to, AtomicU16::new, AtomicU16::into_inner)?;
        }
    }
}
