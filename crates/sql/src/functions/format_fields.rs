//! Values as `format` and `printf` write them: a field has a width, an alignment, a sign, groups of digits
//! and a number of digits after the point. Decimals are written from their digits, so that none is altered.

/// A value to write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FieldValue {
    Integer(i128),
    /// A number of units of `10^-scale`.
    Decimal(i128, u32),
    Float(f64),
    Text(String),
}

/// The side of a value that is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldAlignment {
    Left,
    Right,
    Middle,
    /// Numbers are filled between the sign and the digits.
    AfterSign,
}

/// What a pattern says about a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldStyle {
    pub(super) fill: char,
    /// `None` for texts on the left and numbers on the right.
    pub(super) alignment: Option<FieldAlignment>,
    /// What stands before numbers that are not negative.
    pub(super) plus: Option<char>,
    /// Writes `0x` and the like before digits of another base.
    pub(super) alternate: bool,
    pub(super) width: usize,
    /// What separates groups of three digits.
    pub(super) separator: Option<char>,
    pub(super) precision: Option<usize>,
    /// The letter of the kind, as `d` or `f`; `None` for whatever fits the value.
    pub(super) kind: Option<char>,
}

impl Default for FieldStyle {
    fn default() -> Self {
        Self {
            fill: ' ',
            alignment: None,
            plus: None,
            alternate: false,
            width: 0,
            separator: None,
            precision: None,
            kind: None,
        }
    }
}

/// Longest field, and most digits after the point.
pub(super) const MAX_WIDTH: usize = 1_000;

/// A number without its sign.
struct Digits {
    is_negative: bool,
    /// `0x` and the like.
    prefix: &'static str,
    text: String,
}

impl FieldStyle {
    /// Writes a value.
    ///
    /// # Errors
    /// The value is of another kind; the text says which one.
    pub(super) fn write(&self, value: &FieldValue) -> Result<String, String> {
        let digits = match (self.kind, value) {
            (Some('s') | None, FieldValue::Text(text)) => return Ok(self.padded_text(text)),
            (Some('s'), value) => return Ok(self.padded_text(&plain(value))),
            (Some('d') | None, FieldValue::Integer(number)) => integer(*number, 10, "", false),
            (Some('x'), FieldValue::Integer(number)) => integer(*number, 16, "0x", false),
            (Some('X'), FieldValue::Integer(number)) => integer(*number, 16, "0X", true),
            (Some('o'), FieldValue::Integer(number)) => integer(*number, 8, "0", false),
            (Some('b'), FieldValue::Integer(number)) => integer(*number, 2, "0b", false),
            (Some('c'), FieldValue::Integer(number)) => {
                let letter = u32::try_from(*number).ok().and_then(char::from_u32);
                let letter = letter.ok_or_else(|| format!("{number} is the number of no character"))?;
                return Ok(self.padded_text(&letter.to_string()));
            }
            (Some('c'), FieldValue::Text(text)) => return Ok(self.padded_text(text)),
            (Some('f' | 'F'), FieldValue::Integer(number)) => fixed(*number, 0, self.precision.unwrap_or(6)),
            (Some('f' | 'F'), FieldValue::Decimal(number, scale)) => {
                fixed(*number, *scale, self.precision.unwrap_or(6))
            }
            (None, FieldValue::Decimal(number, scale)) => {
                let precision = self.precision.unwrap_or(*scale as usize);
                fixed(*number, *scale, precision)
            }
            (kind, number) => {
                let value = match number {
                    FieldValue::Float(value) => *value,
                    FieldValue::Decimal(number, scale) => {
                        format!("{number}e-{scale}").parse().unwrap_or(f64::NAN)
                    }
                    FieldValue::Integer(number) => *number as f64,
                    FieldValue::Text(text) => {
                        return Err(format!(
                            "'{text}' is a text, and '{}' writes numbers; cast it, or write a field for texts",
                            kind.unwrap_or('d')
                        ));
                    }
                };
                match kind {
                    Some('d' | 'x' | 'X' | 'o' | 'b' | 'c') => {
                        return Err(format!(
                            "{} is no integer, which '{}' writes; cast it to bigint, or write 'f'",
                            plain(number),
                            kind.unwrap_or('d')
                        ));
                    }
                    kind => float(value, kind, self.precision),
                }
            }
        };
        Ok(self.padded_number(&digits))
    }

    fn padded_text(&self, text: &str) -> String {
        let text: String = match self.precision {
            Some(most) => text.chars().take(most).collect(),
            None => text.to_owned(),
        };
        let alignment = match self.alignment {
            None | Some(FieldAlignment::AfterSign) => FieldAlignment::Left,
            Some(alignment) => alignment,
        };
        self.padded("", &text, alignment)
    }

    fn padded_number(&self, digits: &Digits) -> String {
        let mut sign = String::new();
        if digits.is_negative {
            sign.push('-');
        } else if let Some(plus) = self.plus {
            sign.push(plus);
        }
        if self.alternate {
            sign.push_str(digits.prefix);
        }
        let text = match self.separator {
            Some(separator) => grouped(&digits.text, separator),
            None => digits.text.clone(),
        };
        self.padded(&sign, &text, self.alignment.unwrap_or(FieldAlignment::Right))
    }

    fn padded(&self, sign: &str, text: &str, alignment: FieldAlignment) -> String {
        let missing = self
            .width
            .saturating_sub(sign.chars().count() + text.chars().count());
        let fill = |count: usize| self.fill.to_string().repeat(count);
        match alignment {
            FieldAlignment::Left => format!("{sign}{text}{}", fill(missing)),
            FieldAlignment::Right => format!("{}{sign}{text}", fill(missing)),
            FieldAlignment::AfterSign => format!("{sign}{}{text}", fill(missing)),
            FieldAlignment::Middle => {
                let left = missing / 2;
                format!("{}{sign}{text}{}", fill(left), fill(missing - left))
            }
        }
    }
}

/// Returns a value without any style.
fn plain(value: &FieldValue) -> String {
    match value {
        FieldValue::Integer(number) => number.to_string(),
        FieldValue::Decimal(number, scale) => {
            let digits = fixed(*number, *scale, *scale as usize);
            let sign = if digits.is_negative { "-" } else { "" };
            format!("{sign}{}", digits.text)
        }
        FieldValue::Float(value) => shortest(*value),
        FieldValue::Text(text) => text.clone(),
    }
}

/// Returns the shortest digits that stand for a float, with a point.
fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    // Debug formatting has a point or an exponent always.
    format!("{value:?}")
}

fn integer(number: i128, base: u32, prefix: &'static str, is_upper: bool) -> Digits {
    let magnitude = number.unsigned_abs();
    let text = match (base, is_upper) {
        (16, true) => format!("{magnitude:X}"),
        (16, false) => format!("{magnitude:x}"),
        (8, _) => format!("{magnitude:o}"),
        (2, _) => format!("{magnitude:b}"),
        _ => magnitude.to_string(),
    };
    Digits {
        is_negative: number < 0,
        prefix,
        text,
    }
}

/// Returns a decimal with digits after the point; those left out round it, ties away from zero.
fn fixed(number: i128, scale: u32, precision: usize) -> Digits {
    let mut magnitude = number.unsigned_abs();
    let scale = scale as usize;
    let digits = precision.min(scale);
    if let Some(left_out) = u32::try_from(scale - digits).ok().filter(|count| *count > 0) {
        // A decimal has at most 38 digits after the point.
        let unit = 10_u128.checked_pow(left_out).unwrap_or(u128::MAX);
        let rest = magnitude % unit;
        magnitude = magnitude / unit + u128::from(rest >= unit - rest);
    }
    let mut text = format!("{magnitude:0width$}", width = digits + 1);
    if precision > 0 {
        text.insert(text.len() - digits, '.');
        text.push_str(&"0".repeat(precision - digits));
    }
    Digits {
        is_negative: number < 0 && magnitude > 0,
        prefix: "",
        text,
    }
}

/// Returns a float in the style of a kind: `f`, `e`, `g` or the shortest one.
fn float(value: f64, kind: Option<char>, precision: Option<usize>) -> Digits {
    let magnitude = value.abs();
    let is_upper = kind.is_some_and(|kind| kind.is_ascii_uppercase());
    let text = if !magnitude.is_finite() {
        shortest(magnitude)
    } else {
        match kind {
            Some('f' | 'F') => format!("{magnitude:.*}", precision.unwrap_or(6)),
            Some('e' | 'E') => exponential(magnitude, precision.unwrap_or(6)),
            Some('g' | 'G') => general(magnitude, precision.unwrap_or(6)),
            _ => match precision {
                Some(precision) => general(magnitude, precision),
                None => shortest(magnitude),
            },
        }
    };
    Digits {
        is_negative: value.is_sign_negative() && !value.is_nan(),
        prefix: "",
        text: if is_upper { text.to_uppercase() } else { text },
    }
}

/// Returns `1.500000e+00`, as C writes it.
fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Returns a float with a number of significant digits, in the shorter of both styles, without zeros at the
/// end.
fn general(value: f64, precision: usize) -> String {
    let digits = precision.max(1);
    let scientific = exponential(value, digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let without_zeros = |text: &str| {
        let text = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            text
        };
        text.to_owned()
    };
    let power: i64 = exponent.parse().unwrap_or(0);
    match usize::try_from(digits as i64 - 1 - power) {
        Ok(after_point) if power >= -4 => without_zeros(&format!("{value:.after_point$}")),
        _ => format!("{}e{exponent}", without_zeros(mantissa)),
    }
}

/// Separates groups of three digits before the point.
fn grouped(text: &str, separator: char) -> String {
    let whole = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut grouped = String::new();
    for (at, digit) in text[..whole].chars().enumerate() {
        if at > 0 && (whole - at).is_multiple_of(3) {
            grouped.push(separator);
        }
        grouped.push(digit);
    }
    grouped + &text[whole..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(kind: Option<char>, precision: Option<usize>) -> FieldStyle {
        FieldStyle {
            kind,
            precision,
            ..FieldStyle::default()
        }
    }

    #[test]
    fn decimals_are_rounded_by_their_digits() {
        for (number, scale, precision, text) in [
            (12_345, 2, 2, "123.45"),
            (12_345, 2, 1, "123.5"),
            (-12_345, 2, 0, "-123"),
            (5, 1, 0, "1"),
            (-4, 1, 0, "0"),
            (5, 3, 4, "0.0050"),
            (i128::MAX, 0, 1, "170141183460469231731687303715884105727.0"),
        ] {
            let value = FieldValue::Decimal(number, scale);
            assert_eq!(style(Some('f'), Some(precision)).write(&value).unwrap(), text);
        }
    }

    #[test]
    fn floats_are_written_as_in_c() {
        for (kind, precision, value, text) in [
            (Some('f'), None, 1.5, "1.500000"),
            (Some('f'), Some(1), -0.25, "-0.2"),
            (Some('e'), None, 1.5, "1.500000e+00"),
            (Some('E'), Some(2), 12_345.0, "1.23E+04"),
            (Some('e'), Some(0), 1e-300, "1e-300"),
            (Some('g'), None, 0.0001, "0.0001"),
            (Some('g'), None, 0.00001, "1e-05"),
            (Some('g'), None, 1_234_567.0, "1.23457e+06"),
            (Some('g'), None, 100_000.0, "100000"),
            (Some('g'), Some(3), 2.0, "2"),
            (None, None, 1.0, "1.0"),
            (None, None, 0.1, "0.1"),
            (Some('f'), None, f64::INFINITY, "inf"),
        ] {
            let written = style(kind, precision).write(&FieldValue::Float(value));
            assert_eq!(written.as_deref(), Ok(text), "{kind:?} {precision:?}");
        }
    }

    #[test]
    fn fields_are_filled_and_grouped() {
        let mut style = FieldStyle {
            width: 8,
            ..FieldStyle::default()
        };
        let text = FieldValue::Text("ab".into());
        let number = FieldValue::Integer(-1_234);
        assert_eq!(style.write(&text).unwrap(), "ab      ");
        assert_eq!(style.write(&number).unwrap(), "   -1234");
        style.separator = Some(',');
        assert_eq!(style.write(&number).unwrap(), "  -1,234");
        style.alignment = Some(FieldAlignment::AfterSign);
        style.fill = '0';
        assert_eq!(style.write(&number).unwrap(), "-001,234");
        style.alignment = Some(FieldAlignment::Middle);
        style.fill = '*';
        assert_eq!(style.write(&text).unwrap(), "***ab***");
        assert_eq!(grouped("1234567.891", ','), "1,234,567.891");
        assert_eq!(grouped("123", '_'), "123");
    }

    #[test]
    fn values_of_another_kind_are_refused() {
        assert!(style(Some('d'), None).write(&FieldValue::Float(1.5)).is_err());
        assert!(style(Some('d'), None).write(&FieldValue::Decimal(15, 1)).is_err());
        assert!(
            style(Some('f'), None)
                .write(&FieldValue::Text("x".into()))
                .is_err()
        );
        assert!(style(Some('c'), None).write(&FieldValue::Integer(-1)).is_err());
        assert_eq!(
            style(Some('s'), None).write(&FieldValue::Integer(7)).unwrap(),
            "7"
        );
        assert_eq!(
            style(Some('x'), None).write(&FieldValue::Integer(-255)).unwrap(),
            "-ff"
        );
    }
}
