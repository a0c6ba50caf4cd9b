//! The methods that a medium passes on to what it wraps: `forward_medium!`.
//!
//! A medium over another one, or over a region, changes a few methods and passes on the others. Each of these
//! calls is a static one and inlined, as if it were written by hand.

/// Implements the listed methods of [`MediumAccess`](crate::MediumAccess) or
/// [`MediumBackend`](crate::MediumBackend) by the methods of a field that have the same names:
/// `forward_medium!(medium: len, load, load_u64);`. The field is a medium, or something with such methods.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_medium {
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_medium!(@$method $field);)+
    };

    // Methods of `MediumAccess`.
    (@len $field:ident) => {
        $crate::forward_medium!(@fn $field.len() -> u64);
    };
    (@load $field:ident) => {
        $crate::forward_medium!(@fn $field.load(offset: u64, into: &mut [u8]) -> ());
    };
    (@load_u64 $field:ident) => {
        $crate::forward_medium!(@fn $field.load_u64(offset: u64) -> u64);
    };
    (@slice $field:ident) => {
        #[allow(unsafe_code, reason = "hands the caller's promise on")]
        #[inline]
        unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
            // SAFETY: the caller upholds the contract of what is below.
            unsafe { self.$field.slice(offset, len) }
        }
    };
    (@prefetch $field:ident) => {
        $crate::forward_medium!(@fn $field.prefetch(offset: u64) -> ());
    };
    (@prefetch_lines $field:ident) => {
        $crate::forward_medium!(@fn $field.prefetch_lines(offset: u64, lines: u64) -> ());
    };
    (@store $field:ident) => {
        $crate::forward_medium!(@fn $field.store(offset: u64, bytes: &[u8]) -> ());
    };
    (@store_u64 $field:ident) => {
        $crate::forward_medium!(@fn $field.store_u64(offset: u64, value: u64) -> ());
    };
    (@flush $field:ident) => {
        $crate::forward_medium!(@fn $field.flush(offset: u64, len: u64) -> ());
    };
    (@fence $field:ident) => {
        $crate::forward_medium!(@fn $field.fence() -> Result<(), $crate::MediaError>);
    };

    // Methods of `MediumBackend`.
    (@kind $field:ident) => {
        $crate::forward_medium!(@fn $field.kind() -> $crate::MediumKind);
    };
    (@grow $field:ident) => {
        $crate::forward_medium!(@fn $field.grow(new_len: u64) -> Result<(), $crate::MediaError>);
    };
    (@reserve $field:ident) => {
        $crate::forward_medium!(@fn $field.reserve(offset: u64, len: u64) -> Result<(), $crate::MediaError>);
    };
    (@discard $field:ident) => {
        $crate::forward_medium!(@fn $field.discard(offset: u64, len: u64) -> Result<(), $crate::MediaError>);
    };
    (@truncate $field:ident) => {
        $crate::forward_medium!(@fn $field.truncate(len: u64) -> Result<u64, $crate::MediaError>);
    };
    (@can_gather $field:ident) => {
        $crate::forward_medium!(@fn $field.can_gather() -> bool);
    };
    (@gather $field:ident) => {
        $crate::forward_medium!(@fn $field.gather(offset: u64, len: u64) -> bool);
    };
    (@allocated $field:ident) => {
        $crate::forward_medium!(@fn $field.allocated() -> Result<u64, $crate::MediaError>);
    };
    (@refresh $field:ident) => {
        $crate::forward_medium!(@fn $field.refresh() -> Result<u64, $crate::MediaError>);
    };
    (@sync $field:ident) => {
        $crate::forward_medium!(@fn $field.sync() -> Result<(), $crate::MediaError>);
    };
    (@fence_is_durable $field:ident) => {
        $crate::forward_medium!(@fn $field.fence_is_durable() -> bool);
    };
    (@observer $field:ident) => {
        $crate::forward_medium!(
            @fn $field.observer() -> Option<(std::sync::Arc<dyn $crate::AccessObserver>, u64)>
        );
    };
    (@as_file $field:ident) => {
        $crate::forward_medium!(@fn $field.as_file() -> Option<&$crate::FileMedium>);
    };

    (@fn $field:ident.$method:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
        #[inline]
        fn $method(&self $(, $argument: $type)*) -> $result {
            self.$field.$method($($argument),*)
        }
    };
}
