//! Sizes in bytes, as people write them.

/// More than a CPU can address: 4 PiB.
const UNADDRESSABLE_BYTES: u64 = 1 << 52;

/// Reads `4096`, `512K`, `64M`, `2G`, `1T`, with an optional `iB` or `B`; the letters are powers of 1024.
///
/// # Errors
/// It is no size, or larger than any memory; the text explains the syntax.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write 512M or 2G");
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let suffix = suffix.trim().to_ascii_lowercase();
    let shift = match suffix.trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        "e" => 60,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes >= UNADDRESSABLE_BYTES as f64 {
        return Err(format!("`{text}` is more than any machine has; write 512M or 2G"));
    }
    Ok(bytes as u64)
}

/// Writes a size so that it is read back as it is: `64MiB`, `4097`.
pub fn exact(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units
        .into_iter()
        .find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(
        || bytes.to_string(),
        |(shift, unit)| format!("{}{unit}", bytes >> shift),
    )
}

/// Writes about how many there are, for people: `63.9 MiB`.
pub fn rounded(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(shift, unit)| format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
    )
}

/// Reads a number of bytes, or `unlimited`.
///
/// # Errors
/// It is neither.
pub fn read_limit(text: &str) -> Result<Option<u64>, String> {
    match text.trim() {
        unlimited if unlimited.eq_ignore_ascii_case("unlimited") => Ok(None),
        text => match parse_size(text) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(format!("{error}, or unlimited")),
        },
    }
}

/// Writes what [`read_limit`] reads.
pub fn write_limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".into(), exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("1.5k"), Ok(1536));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("2 gb"), Ok(2 << 30));
        assert_eq!(parse_size("0"), Ok(0));
        for large in ["1EiB", "4P", "99999999T"] {
            assert!(parse_size(large).unwrap_err().contains("any machine"), "{large}");
        }
        for wrong in ["", "M", "12x", "1.2.3", "-5", "abc", "1e9"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for bytes in [0, 1, 4097, 1536, 64 << 20, 3 << 30, 5 << 40] {
            assert_eq!(parse_size(&exact(bytes)), Ok(bytes), "{}", exact(bytes));
        }
        assert_eq!(exact(64 << 20), "64MiB");
        assert_eq!(
            (rounded(17), rounded(1536)),
            ("17 bytes".into(), "1.5 KiB".into())
        );
    }
}
