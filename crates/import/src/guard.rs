//! Keeps a panic of a decoder of foreign files from ending the process.
//!
//! The decoders of Arrow and Parquet panic on some malformed files. What they would allocate is bounded
//! beforehand ([`super::ipc_bounds`], [`super::parquet_pages`]), as a failed allocation cannot be caught.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Runs a decoder; a panic is an error with its message, and is not printed.
///
/// State that the decoder has changed before a panic must not be used any more.
///
/// # Errors
/// The decoder panicked.
pub fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                before(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(outer);
    result.map_err(|panic| format!("it is malformed ({})", message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(guarded(|| 1), Ok(1));
        let error = guarded(|| -> u8 { panic!("no {}", 7) }).unwrap_err();
        assert_eq!(error, "it is malformed (no 7)");
    }
}
