//! Durations as people write them: `500ms`, `5s`, `2min`, `1h`.

use std::time::Duration;

/// Parses a number with a unit: `ms`, `s`, `min` or `h`. Zero needs no unit.
///
/// # Errors
/// It is no number, lacks a known unit, or is too large, as the text explains.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("'{text}' is not a duration; write a number with ms, s, min or h, such as 500ms or 5s");
    let trimmed = text.trim();
    let digits = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" if number == 0 => 1,
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(millis)
        .map(Duration::from_millis)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("0", 0),
            ("500ms", 500),
            (" 5 S ", 5000),
            ("2min", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "5 days",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(
                parse_duration(text).unwrap_err().contains(&format!("'{text}'")),
                "{text}"
            );
        }
    }
}
