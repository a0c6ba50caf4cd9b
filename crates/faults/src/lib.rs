//! Fault injection for tests.
//!
//! A crash or concurrency test proves little unless it fails when the rule it checks is broken.
//! [`faults!`] declares the rules of a module that a test of the same crate can break. Code asks
//! `injected(fault)` where it obeys such a rule. Outside `cfg(test)` of the declaring crate the answer is the
//! constant `false`, so that the check compiles to nothing.

use std::cell::Cell;
use std::thread::LocalKey;

/// Declares an enum of faults and, beside it, the functions that inject them.
///
/// `injected(fault)` returns true while a test has injected the fault in the current thread. Under
/// `cfg(test)`, `with(fault, run)` runs a closure with the fault injected in the current thread.
///
/// ```
/// mod fault {
///     halocline_faults::faults! {
///         /// Rules of the counter that a test can break.
///         pub(crate) enum CounterFault {
///             /// An increment is lost.
///             SkipIncrement,
///         }
///     }
/// }
/// use fault::{CounterFault, injected};
///
/// let mut count = 0;
/// if !injected(CounterFault::SkipIncrement) {
///     count += 1;
/// }
/// assert_eq!(count, 1);
/// ```
#[macro_export]
macro_rules! faults {
    (
        $(#[$enum_doc:meta])*
        $visibility:vis enum $enum_name:ident {
            $($(#[$doc:meta])* $name:ident,)+
        }
    ) => {
        $(#[$enum_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $enum_name {
            $($(#[$doc])* $name,)+
        }

        /// Returns true while a test has injected this fault.
        #[cfg(not(test))]
        #[inline(always)]
        $visibility fn injected(_fault: $enum_name) -> bool {
            false
        }

        #[cfg(test)]
        ::std::thread_local! {
            static INJECTED: ::std::cell::Cell<Option<$enum_name>> = const { ::std::cell::Cell::new(None) };
        }

        /// Returns true while a test has injected this fault in the current thread.
        #[cfg(test)]
        $visibility fn injected(fault: $enum_name) -> bool {
            INJECTED.get() == Some(fault)
        }

        /// Runs `run` with a fault injected in the current thread.
        #[cfg(test)]
        $visibility fn with<T>(fault: $enum_name, run: impl FnOnce() -> T) -> T {
            $crate::run_with(&INJECTED, fault, run)
        }
    };
}

/// Runs `run` while `injected` holds the fault, and then restores what it held before, also on a panic.
#[doc(hidden)]
pub fn run_with<F: Copy, T>(
    injected: &'static LocalKey<Cell<Option<F>>>,
    fault: F,
    run: impl FnOnce() -> T,
) -> T {
    let _restore = Restore {
        injected,
        before: injected.replace(Some(fault)),
    };
    run()
}

/// A guard that restores the fault injected before.
struct Restore<F: Copy + 'static> {
    injected: &'static LocalKey<Cell<Option<F>>>,
    before: Option<F>,
}

impl<F: Copy> Drop for Restore<F> {
    fn drop(&mut self) {
        self.injected.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    faults! {
        /// Faults of no rule in particular.
        enum SampleFault {
            /// The first fault.
            First,
            /// The second fault.
            Second,
        }
    }

    fn state() -> [bool; 2] {
        [SampleFault::First, SampleFault::Second].map(injected)
    }

    #[test]
    fn a_fault_is_injected_while_the_closure_runs() {
        assert_eq!(state(), [false, false]);
        assert_eq!(with(SampleFault::First, state), [true, false]);
        assert_eq!(state(), [false, false]);
    }

    #[test]
    fn the_outer_fault_is_restored() {
        with(SampleFault::First, || {
            assert_eq!(with(SampleFault::Second, state), [false, true]);
            assert_eq!(state(), [true, false]);
        });
    }

    #[test]
    fn a_panic_removes_the_fault() {
        assert!(catch_unwind(|| with(SampleFault::Second, || panic!("expected"))).is_err());
        assert_eq!(state(), [false, false]);
    }

    #[test]
    fn other_threads_have_no_fault() {
        let elsewhere = with(SampleFault::First, || std::thread::spawn(state).join());
        assert_eq!(elsewhere.unwrap(), [false, false]);
    }
}
