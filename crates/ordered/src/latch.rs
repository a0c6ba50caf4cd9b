//! The first failure of the medium, after which nothing is written any more.

use std::sync::OnceLock;

use halocline_media::MediaError;

use crate::TreeError;

/// Remembers the first error; cheap to ask while there is none.
#[derive(Debug, Default)]
pub(crate) struct Latch(OnceLock<String>);

impl Latch {
    /// # Errors
    /// [`TreeError::Poisoned`] after a failure.
    #[inline]
    pub(crate) fn check(&self, name: &str) -> Result<(), TreeError> {
        match self.0.get() {
            None => Ok(()),
            Some(first) => Err(TreeError::Poisoned {
                name: name.to_owned(),
                first: first.clone(),
            }),
        }
    }

    /// Keeps an error and hands the result on.
    #[inline]
    pub(crate) fn keep(&self, result: Result<(), MediaError>) -> Result<(), TreeError> {
        match result {
            Ok(()) => Ok(()),
            Err(error) => {
                self.0.get_or_init(|| error.to_string());
                Err(error.into())
            }
        }
    }
}
