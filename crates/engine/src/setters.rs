//! Methods that set one field of an option type, so that callers need no struct literal and fields can be
//! added.

/// Implements `with_field(self, value) -> Self` for each field.
macro_rules! setters {
    ($options:ty { $($method:ident: $field:ident: $value:ty,)* }) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $method(mut self, $field: $value) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

pub(crate) use setters;
