//! An item as the value of its key in the store: a header, and the data after it.
//!
//! The time of expiry is that of the store's record. The format has a version of its own.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::MemcachedError;

/// Bytes of an item besides key and data that count for its size: header, record and leaf entry.
pub(crate) const OVERHEAD: u64 = 80;

const VERSION: u8 = 1;

/// State bit: the value is out of date, but may be returned.
const STALE: u8 = 1;
/// State bit: a client was told to renew the value.
const TOKEN_SENT: u8 = 2;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    version: u8,
    state: u8,
    reserved: [u8; 2],
    client_flags: U32,
    cas: U64,
}

const HEADER: usize = 16;
const _: () = {
    assert!(size_of::<Header>() == HEADER);
    assert!(std::mem::offset_of!(Header, client_flags) == 4);
    assert!(std::mem::offset_of!(Header, cas) == 8);
};

/// An item that was read, or that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) client_flags: u32,
    pub(crate) cas: u64,
    pub(crate) is_stale: bool,
    pub(crate) token_sent: bool,
    /// Time of expiry in milliseconds since 1970.
    pub(crate) expires: Option<u64>,
    /// The header, unless it has changed, and the data.
    stored: Vec<u8>,
}

impl Item {
    /// Returns an item with this data.
    pub(crate) fn new(client_flags: u32, expires: Option<u64>, data: &[u8]) -> Item {
        Item {
            client_flags,
            cas: 0,
            is_stale: false,
            token_sent: false,
            expires,
            stored: [&[0; HEADER], data].concat(),
        }
    }

    /// Decodes the value of a key.
    ///
    /// # Errors
    /// [`MemcachedError::NoItem`] if it is none, such as one that another program has put into the store.
    pub(crate) fn decode(stored: Vec<u8>, expires: Option<u64>) -> Result<Item, MemcachedError> {
        let (header, _) = Header::read_from_prefix(&stored).map_err(|_| MemcachedError::NoItem)?;
        if header.version != VERSION {
            return Err(MemcachedError::NoItem);
        }
        Ok(Item {
            client_flags: header.client_flags.get(),
            cas: header.cas.get(),
            is_stale: header.state & STALE != 0,
            token_sent: header.state & TOKEN_SENT != 0,
            expires,
            stored,
        })
    }

    /// Returns the value of the key in the store.
    pub(crate) fn encode(&mut self) -> &[u8] {
        let state = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
        let header = Header {
            version: VERSION,
            state: state(STALE, self.is_stale) | state(TOKEN_SENT, self.token_sent),
            reserved: [0; 2],
            client_flags: U32::new(self.client_flags),
            cas: U64::new(self.cas),
        };
        self.stored[..HEADER].copy_from_slice(header.as_bytes());
        &self.stored
    }

    /// Returns the value that [`encode`](Self::encode) has made.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.stored
    }

    /// Returns the bytes of header and data.
    pub(crate) fn bytes(&self) -> usize {
        self.stored.len()
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.stored[HEADER..]
    }

    pub(crate) fn set_data(&mut self, data: &[u8]) {
        self.stored.truncate(HEADER);
        self.stored.extend_from_slice(data);
    }

    pub(crate) fn append(&mut self, data: &[u8]) {
        // The buffer may be kept as a copy of a hot item.
        self.stored.reserve_exact(data.len());
        self.stored.extend_from_slice(data);
    }

    pub(crate) fn prepend(&mut self, data: &[u8]) {
        self.stored.reserve_exact(data.len());
        self.stored.splice(HEADER..HEADER, data.iter().copied());
    }
}

/// Returns the size of an item, which `-I` and `-m` limit.
pub(crate) fn size(key: usize, data: u64) -> u64 {
    key as u64 + data + OVERHEAD
}

/// Returns the bytes that count for an item with a key and a value, with its header, of these lengths.
pub(crate) fn footprint(key: usize, value: usize) -> u64 {
    size(key, value.saturating_sub(HEADER) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the header with its table in `docs/format/stores.md`.
    #[test]
    fn the_header_is_as_documented() {
        use crate::documented;
        use std::mem::offset_of;
        let fields = [
            (offset_of!(Header, version), 1, "version"),
            (offset_of!(Header, state), 1, "state"),
            (offset_of!(Header, reserved), 2, "reserved"),
            (offset_of!(Header, client_flags), 4, "client_flags"),
            (offset_of!(Header, cas), 8, "cas"),
        ];
        documented::assert_fields(&format!("### Header ({HEADER} bytes)"), &fields);
    }

    #[test]
    fn an_item_is_decoded_as_it_was_encoded() {
        let mut item = Item::new(7, Some(99), b"data");
        (item.cas, item.is_stale) = (u64::MAX, true);
        item.append(b"-");
        item.prepend(b"+");
        let stored = item.encode().to_vec();
        let found = Item::decode(stored, Some(99)).unwrap();
        assert_eq!(found.data(), b"+data-");
        assert_eq!((found.client_flags, found.cas), (7, u64::MAX));
        assert!(found.is_stale && !found.token_sent);
    }

    #[test]
    fn other_values_are_no_items() {
        for stored in [vec![], vec![1; HEADER - 1], vec![2; HEADER]] {
            assert!(matches!(Item::decode(stored, None), Err(MemcachedError::NoItem)));
        }
    }
}
