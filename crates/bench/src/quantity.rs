//! Numbers and values with units, as tables and figures display them.

const TIME: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
const BYTES: [(f64, &str); 4] = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
const COUNT: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// Formats a value in a unit of which it has a few.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "s" | "s/query" => three_digits(value, &TIME),
        "ms" => three_digits(value / 1e3, &TIME),
        "bytes" => three_digits(value, &BYTES),
        "bytes/s" => format!("{}/s", three_digits(value, &BYTES)),
        "1/s" | "rows/s" => format!("{}/s", short(value)),
        "%" => format!("{value:+.0} %"),
        "percent" => format!("{value:.0} %"),
        "x" | "ratio" => ratio(value),
        _ => short(value),
    }
}

/// Formats the quotient of two values.
pub(crate) fn ratio(value: f64) -> String {
    format!("{value:.2}x")
}

/// Formats a number with about three digits and a suffix for thousands (`k`), millions (`M`) or billions
/// (`G`).
pub(crate) fn short(value: f64) -> String {
    let (scaled, letter) = scaled(value, &COUNT);
    let digits = match scaled.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{letter}")
}

/// Formats a value of a configuration, which is any text: numbers with a fraction get three digits.
pub(crate) fn displayed(value: &str) -> String {
    let fraction = value.parse::<f64>().ok().filter(|_| value.contains(['.', 'e']));
    let Some(number) = fraction.filter(|number| number.is_finite()) else {
        return value.to_owned();
    };
    let rounded = format!("{number:.2e}").parse::<f64>().unwrap_or(number);
    match rounded.abs() {
        small if small > 0.0 && small < 1e-3 => format!("{rounded:e}"),
        _ => rounded.to_string(),
    }
}

fn three_digits(value: f64, units: &[(f64, &str)]) -> String {
    let (scaled, unit) = scaled(value, units);
    let digits = match scaled.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$} {unit}")
}

/// Divides a value by the first of the units, which fall, that it has at least one of, or else by the last.
/// Returns the name of the unit, too.
fn scaled<'a>(value: f64, units: &[(f64, &'a str)]) -> (f64, &'a str) {
    let unit = units.iter().find(|(unit, _)| value.abs() >= *unit);
    let (unit, name) = *unit.unwrap_or(&units[units.len() - 1]);
    (value / unit, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        for (value, unit, text) in [
            (0.0123, "s", "12.3 ms"),
            (8.24e6, "1/s", "8.24M/s"),
            (1.05e8, "bytes", "105 MB"),
            (8.5e9, "bytes/s", "8.50 GB/s"),
            (203.4, "%", "+203 %"),
            (98.6, "percent", "99 %"),
            (250.0, "ms", "250 ms"),
            (0.0, "s", "0.00 ns"),
            (0.0, "", "0"),
            (1.0, "", "1"),
            (0.25, "", "0.25"),
            (12.34, "", "12.3"),
            (1500.0, "", "1.5k"),
            (100_000.0, "", "100k"),
            (23_400_000.0, "", "23.4M"),
            (0.0012, "", "0.0012"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
    }

    #[test]
    fn numbers_of_the_configuration_are_rounded() {
        for (value, text) in [
            ("0.9858988554817649", "0.986"),
            ("7.831747404483925e-6", "7.83e-6"),
            ("4.0", "4"),
            ("0.5", "0.5"),
            ("123456", "123456"),
            ("lb, not moved", "lb, not moved"),
        ] {
            assert_eq!(displayed(value), text);
        }
    }
}
