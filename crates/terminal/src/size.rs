//! Sizes in bytes, as people write and read them.

/// Reads a size that there is something to do with: `512M`, `2G`.
///
/// # Errors
/// The text is no size, or zero.
pub fn parse(text: &str) -> Result<u64, String> {
    match halocline_engine::parse_size(text)? {
        0 => Err("a size of zero bytes leaves nothing to work with".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Reads bytes per second: a size, with or without `/s`.
///
/// # Errors
/// As [`parse`].
pub fn parse_rate(text: &str) -> Result<u64, String> {
    parse(text.strip_suffix("/s").unwrap_or(text)).map_err(|error| format!("{error}, or 100M/s"))
}

/// Formats a size in bytes as `1.5 GiB`, `12.0 MiB` or `812 B`.
#[must_use]
pub fn display(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a number with thousands separators: `6_001_215` becomes `6,001,215`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with its noun, as in `1 row` or `2,000 rows`.
#[must_use]
pub fn counted(number: u64, thing: &str) -> String {
    format!(
        "{} {thing}{}",
        grouped(number),
        if number == 1 { "" } else { "s" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse("64M"), Ok(64 << 20));
        for wrong in ["", "12x", "0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_read() {
        assert_eq!(parse_rate("100M/s"), Ok(100 << 20));
        assert_eq!(parse_rate("4096"), Ok(4096));
        assert!(parse_rate("fast").unwrap_err().contains("100M/s"));
        assert!(parse_rate("5/h").is_err());
    }

    #[test]
    fn sizes_and_numbers_are_shown() {
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(2000, "row"), "2,000 rows");
        assert_eq!(display(812), "812 B");
        assert_eq!(display(1536), "1.5 KiB");
        assert_eq!(display(3 << 30), "3.0 GiB");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(6_001_215), "6,001,215");
    }
}
