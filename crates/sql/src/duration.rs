//! Durations as people write them: `500ms`, `5s`, `2min`, `1h`.

use std::time::Duration;

/// Parses one or several numbers, each with a unit: `500ms`, `2min`, `1h 30m`. Zero needs no unit.
///
/// # Errors
/// The text is no duration, as the error explains.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    // Upper case is tried last, because `M` stands for months.
    humantime::parse_duration(trimmed)
        .or_else(|_| humantime::parse_duration(&trimmed.to_ascii_lowercase()))
        .map_err(|_| {
            format!("'{text}' is not a duration; write a number with a unit, such as 500ms, 5s, 2min or 1h")
        })
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
            ("2 min", 120_000),
            ("30m", 1_800_000),
            ("1.5s", 1500),
            ("1h", 3_600_000),
            ("1h 30m", 5_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "5 lines",
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
