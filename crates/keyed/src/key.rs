//! Keys of rows: the key columns, encoded such that the bytes order as the rows do.
//!
//! The encodings of the columns follow each other; none is a prefix of another one of its column.
//! - Integers, and types that are stored as such, are big-endian, with the sign bit inverted if they have
//!   one.
//! - Booleans are one byte.
//! - Floats are big-endian; of negative ones all bits are inverted, of others the sign. Both zeros are one
//!   value, and so are all NaNs, which come last.
//! - In text and bytes, 0 becomes 0, 255; they end with 0, 0.
//!
//! The encoding belongs to the format of the pool.

use crate::kind::ColumnKind;

/// Appends the encoding of a value, given as little-endian bytes if its width is fixed.
pub(crate) fn encode(kind: ColumnKind, value: &[u8], into: &mut Vec<u8>) {
    match kind {
        ColumnKind::Bool => into.extend_from_slice(value),
        ColumnKind::Unsigned(_) => into.extend(value.iter().rev()),
        ColumnKind::Signed(_) => {
            let at = into.len();
            into.extend(value.iter().rev());
            into[at] ^= 0x80;
        }
        ColumnKind::Float(_) => {
            let at = into.len();
            into.extend(canonical(value).iter().rev());
            match into[at] & 0x80 {
                0 => into[at] ^= 0x80,
                _ => into[at..].iter_mut().for_each(|byte| *byte = !*byte),
            }
        }
        ColumnKind::Text | ColumnKind::Bytes => {
            for &byte in value {
                into.push(byte);
                if byte == 0 {
                    into.push(0xFF);
                }
            }
            into.extend([0, 0]);
        }
    }
}

/// Takes the first value off `key` and appends it to `value`, as little-endian bytes if its width is fixed.
/// `None` if there is none.
pub(crate) fn decode(kind: ColumnKind, key: &mut &[u8], value: &mut Vec<u8>) -> Option<()> {
    let Some(width) = kind.width() else {
        return unescape(key, value);
    };
    let (encoded, rest) = key.split_at_checked(width)?;
    *key = rest;
    let at = value.len();
    value.extend(encoded.iter().rev());
    match (kind, encoded.first()?) {
        (ColumnKind::Bool, 0 | 1) | (ColumnKind::Unsigned(_), _) => {}
        (ColumnKind::Signed(_), _) => value[at + width - 1] ^= 0x80,
        (ColumnKind::Float(_), first) if first & 0x80 != 0 => value[at + width - 1] ^= 0x80,
        (ColumnKind::Float(_), _) => value[at..].iter_mut().for_each(|byte| *byte = !*byte),
        _ => return None,
    }
    Some(())
}

/// Takes a text up to its end mark.
fn unescape(key: &mut &[u8], value: &mut Vec<u8>) -> Option<()> {
    loop {
        let (&byte, rest) = key.split_first()?;
        *key = rest;
        if byte == 0 {
            let (mark, rest) = key.split_first()?;
            *key = rest;
            match mark {
                0 => return Some(()),
                0xFF => {}
                _ => return None,
            }
        }
        value.push(byte);
    }
}

/// Returns the one float that stands for all that are equal to it, little-endian.
fn canonical(value: &[u8]) -> Vec<u8> {
    // Exponent bits of the two highest bytes; the rest of the second one belongs to the fraction.
    let exponent = match value.len() {
        2 => 0x7C00_u16,
        4 => 0x7F80,
        _ => 0x7FF0,
    };
    let [.., second, first] = value else {
        return value.to_vec();
    };
    let high = u16::from_be_bytes([*first, *second]);
    let mut out = value.to_vec();
    let (fraction, last) = (&value[..value.len() - 2], value.len() - 1);
    let low_bits = fraction.iter().any(|byte| *byte != 0);
    if high & 0x7FFF == 0 && !low_bits {
        out[last] = 0;
    } else if high & exponent == exponent && (high & 0x7FFF != exponent || low_bits) {
        out.fill(0);
        let nan = (exponent | (exponent & !(exponent << 1)) >> 1).to_be_bytes();
        (out[last], out[last - 1]) = (nan[0], nan[1]);
    }
    out
}

/// Returns the least key that is greater than all keys with a prefix; `None` if there is no such key.
pub(crate) fn after_prefix(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while prefix.last() == Some(&0xFF) {
        prefix.pop();
    }
    *prefix.last_mut()? += 1;
    Some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn encoded(kind: ColumnKind, value: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        encode(kind, value, &mut key);
        let (mut rest, mut back) = (key.as_slice(), Vec::new());
        decode(kind, &mut rest, &mut back).expect("decodes");
        assert!(rest.is_empty());
        if !matches!(kind, ColumnKind::Float(_)) {
            assert_eq!(back, value);
        }
        key
    }

    /// Orders floats as keys do: all NaNs are equal and last, and so are the zeros.
    fn order(a: f64, b: f64) -> Ordering {
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }

    proptest! {
        #[test]
        fn keys_order_as_values(a: i64, b: i64, x: i128, y: i128, s: Vec<u8>, t: Vec<u8>) {
            let key = |v: i64| encoded(ColumnKind::Signed(8), &v.to_le_bytes());
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
            let key = |v: i64| encoded(ColumnKind::Unsigned(8), &v.to_le_bytes());
            prop_assert_eq!(key(a).cmp(&key(b)), (a as u64).cmp(&(b as u64)));
            let key = |v: i128| encoded(ColumnKind::Signed(16), &v.to_le_bytes());
            prop_assert_eq!(key(x).cmp(&key(y)), x.cmp(&y));
            let key = |v: &[u8]| encoded(ColumnKind::Bytes, v);
            prop_assert_eq!(key(&s).cmp(&key(&t)), s.cmp(&t));
        }

        #[test]
        fn short_texts_with_zeros_order_as_bytes(
            s in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..4),
            t in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..4),
        ) {
            let key = |v: &[u8]| encoded(ColumnKind::Text, v);
            prop_assert_eq!(key(&s).cmp(&key(&t)), s.cmp(&t));
            prop_assert!(s == t || !key(&s).starts_with(&key(&t)));
        }

        #[test]
        fn floats_order_as_values(a in proptest::num::f64::ANY, b in proptest::num::f64::ANY) {
            let key = |v: f64| encoded(ColumnKind::Float(8), &v.to_le_bytes());
            prop_assert_eq!(key(a).cmp(&key(b)), order(a, b));
            let (a, b) = (a as f32, b as f32);
            let key = |v: f32| encoded(ColumnKind::Float(4), &v.to_le_bytes());
            prop_assert_eq!(key(a).cmp(&key(b)), order(a.into(), b.into()));
        }
    }

    #[test]
    fn equal_floats_have_one_key() {
        let key = |v: f64| encoded(ColumnKind::Float(8), &v.to_le_bytes());
        let special = [
            f64::NEG_INFINITY,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            1.0,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(special.map(key).is_sorted());
        assert_eq!(key(-0.0), key(0.0));
        assert_eq!(key(-f64::NAN), key(f64::NAN));
        assert_eq!(key(f64::from_bits(0x7FF0_0000_0000_0001)), key(f64::NAN));
        let (mut rest, mut back) = (&key(f64::NAN)[..], Vec::new());
        decode(ColumnKind::Float(8), &mut rest, &mut back).unwrap();
        assert!(f64::from_le_bytes(back.try_into().unwrap()).is_nan());
    }

    #[test]
    fn cut_keys_are_refused() {
        let mut key = Vec::new();
        encode(ColumnKind::Text, b"a\0b", &mut key);
        for len in 0..key.len() {
            assert_eq!(decode(ColumnKind::Text, &mut &key[..len], &mut Vec::new()), None);
        }
        assert_eq!(
            decode(ColumnKind::Signed(4), &mut &[1, 2, 3][..], &mut Vec::new()),
            None
        );
        assert_eq!(decode(ColumnKind::Bool, &mut &[2][..], &mut Vec::new()), None);
    }

    #[test]
    fn prefixes_have_an_end() {
        assert_eq!(after_prefix(vec![1, 0xFF]), Some(vec![2]));
        assert_eq!(after_prefix(vec![0xFF]), None);
        assert_eq!(after_prefix(vec![]), None);
    }
}
