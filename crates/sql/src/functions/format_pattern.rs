//! The patterns of `format` and `printf`: texts and fields.

use std::iter::Peekable;
use std::str::Chars;

use super::format_fields::{FieldAlignment, FieldStyle, MAX_WIDTH};

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PatternPart {
    Text(String),
    /// A field for the value of this number, from 0.
    Field {
        number: usize,
        style: FieldStyle,
    },
}

type Letters<'a> = Peekable<Chars<'a>>;

/// The parts of a pattern that have been read.
#[derive(Default)]
struct PatternParts {
    parts: Vec<PatternPart>,
    text: String,
    /// Number of the next value that a field without a number takes.
    next: usize,
    is_numbered: bool,
}

impl PatternParts {
    /// Adds a field.
    ///
    /// # Errors
    /// Some fields have a number and others have not.
    fn field(&mut self, number: Option<usize>, style: FieldStyle) -> Result<(), String> {
        if (number.is_some() && self.next > 0) || (number.is_none() && self.is_numbered) {
            return Err("either all fields have a number or none has".to_owned());
        }
        self.end_text();
        let number = match number {
            Some(number) => {
                self.is_numbered = true;
                number
            }
            None => {
                self.next += 1;
                self.next - 1
            }
        };
        self.parts.push(PatternPart::Field { number, style });
        Ok(())
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(PatternPart::Text(std::mem::take(&mut self.text)));
        }
    }

    fn finish(mut self) -> Vec<PatternPart> {
        self.end_text();
        self.parts
    }
}

/// Reads a number; `None` if there is no digit.
///
/// # Errors
/// It is larger than a field may be.
fn number(letters: &mut Letters<'_>) -> Result<Option<usize>, String> {
    let mut number = None;
    while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
        letters.next();
        let value = number.unwrap_or(0) * 10 + digit as usize;
        if value > MAX_WIDTH {
            return Err(format!("a number in a field is larger than {MAX_WIDTH}"));
        }
        number = Some(value);
    }
    Ok(number)
}

/// Reads a pattern of `format`.
///
/// # Errors
/// The text says what is wrong.
pub(super) fn braces(pattern: &str) -> Result<Vec<PatternPart>, String> {
    let (mut parts, mut letters) = (PatternParts::default(), pattern.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '{' | '}' if letters.next_if_eq(&letter).is_some() => parts.text.push(letter),
            '}' => return Err("a } belongs to no field; write }} for the character".to_owned()),
            '{' => {
                let at = number(&mut letters)?;
                let style = if letters.next_if_eq(&':').is_some() {
                    brace_style(&mut letters)?
                } else {
                    FieldStyle::default()
                };
                match letters.next() {
                    Some('}') => parts.field(at, style)?,
                    Some(other) => return Err(format!("'{other}' in a field is unknown")),
                    None => return Err("a field has no end; write {{ for the character".to_owned()),
                }
            }
            other => parts.text.push(other),
        }
    }
    Ok(parts.finish())
}

fn alignment(letter: char) -> Option<FieldAlignment> {
    Some(match letter {
        '<' => FieldAlignment::Left,
        '>' => FieldAlignment::Right,
        '^' => FieldAlignment::Middle,
        '=' => FieldAlignment::AfterSign,
        _ => return None,
    })
}

/// Reads `[[fill]align][sign][#][0][width][,][.precision][kind]`.
fn brace_style(letters: &mut Letters<'_>) -> Result<FieldStyle, String> {
    let mut style = FieldStyle::default();
    let mut ahead = letters.clone();
    let (first, second) = (ahead.next(), ahead.next());
    if let (Some(fill), Some(side)) = (first, second.and_then(alignment)) {
        (style.fill, style.alignment) = (fill, Some(side));
        letters.nth(1);
    } else if let Some(side) = first.and_then(alignment) {
        style.alignment = Some(side);
        letters.next();
    }
    match letters.next_if(|letter| matches!(letter, '+' | '-' | ' ')) {
        None | Some('-') => {}
        plus => style.plus = plus,
    }
    style.alternate = letters.next_if_eq(&'#').is_some();
    if letters.next_if_eq(&'0').is_some() && style.alignment.is_none() {
        (style.fill, style.alignment) = ('0', Some(FieldAlignment::AfterSign));
    }
    style.width = number(letters)?.unwrap_or(0);
    style.separator = letters.next_if(|letter| matches!(letter, ',' | '_' | '\''));
    if letters.next_if_eq(&'.').is_some() {
        let precision = number(letters)?;
        style.precision = Some(precision.ok_or("a point in a field is followed by no number")?);
    }
    style.kind = letters.next_if(|letter| "sdxXobcfFeEgG".contains(*letter));
    Ok(style)
}

/// Reads a pattern of `printf`.
///
/// # Errors
/// The text says what is wrong.
pub(super) fn percents(pattern: &str) -> Result<Vec<PatternPart>, String> {
    let (mut parts, mut letters) = (PatternParts::default(), pattern.chars().peekable());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            parts.text.push(letter);
        } else if letters.next_if_eq(&'%').is_some() {
            parts.text.push('%');
        } else {
            let style = percent_style(&mut letters)?;
            parts.field(None, style)?;
        }
    }
    Ok(parts.finish())
}

/// Reads `[flags][width][.precision][length]kind`.
fn percent_style(letters: &mut Letters<'_>) -> Result<FieldStyle, String> {
    let mut style = FieldStyle {
        alignment: Some(FieldAlignment::Right),
        ..FieldStyle::default()
    };
    let mut has_zeros = false;
    while let Some(flag) = letters.next_if(|letter| "-+ #0',".contains(*letter)) {
        match flag {
            '-' => style.alignment = Some(FieldAlignment::Left),
            '+' => style.plus = Some('+'),
            ' ' => style.plus = style.plus.or(Some(' ')),
            '#' => style.alternate = true,
            '0' => has_zeros = true,
            separator => style.separator = Some(separator),
        }
    }
    style.width = number(letters)?.unwrap_or(0);
    if letters.next_if_eq(&'.').is_some() {
        style.precision = Some(number(letters)?.unwrap_or(0));
    }
    while letters.next_if(|letter| "hlLqjzt".contains(*letter)).is_some() {}
    style.kind = match letters.next() {
        Some('i' | 'u') => Some('d'),
        Some(kind) if "sdxXocfFeEgG".contains(kind) => Some(kind),
        Some(other) => return Err(format!("'%{other}' is unknown; write %% for the character")),
        None => return Err("a % at the end belongs to no field; write %% for the character".to_owned()),
    };
    if has_zeros && style.alignment == Some(FieldAlignment::Right) {
        (style.fill, style.alignment) = ('0', Some(FieldAlignment::AfterSign));
    }
    if style.kind == Some('s') && style.alignment == Some(FieldAlignment::AfterSign) {
        (style.fill, style.alignment) = (' ', Some(FieldAlignment::Right));
    }
    Ok(style)
}

#[cfg(test)]
mod tests {
    use super::super::format_fields::FieldValue;
    use super::*;

    /// Writes one value by a pattern.
    fn written(parts: Result<Vec<PatternPart>, String>, value: &FieldValue) -> Result<String, String> {
        let parts = parts?.into_iter().map(|part| match part {
            PatternPart::Text(text) => Ok(text),
            PatternPart::Field { style, .. } => style.write(value),
        });
        parts.collect()
    }

    #[test]
    fn fields_in_braces_are_read() {
        let (whole, real) = (FieldValue::Integer(1_234_567), FieldValue::Decimal(314_159, 5));
        for (pattern, value, text) in [
            ("{}", &whole, "1234567"),
            ("{{{}}}", &whole, "{1234567}"),
            ("{0}+{0}", &whole, "1234567+1234567"),
            ("{:,}", &whole, "1,234,567"),
            (
                "{:>10}|{:<10}|{:*^11}",
                &whole,
                "   1234567|1234567   |**1234567**",
            ),
            ("{:+d} {:010d} {:#x}", &whole, "+1234567 0001234567 0x12d687"),
            ("{}", &real, "3.14159"),
            ("{:.2f}", &real, "3.14"),
            ("{:8.3f}", &real, "   3.142"),
        ] {
            assert_eq!(written(braces(pattern), value).as_deref(), Ok(text), "{pattern}");
        }
        for pattern in [
            "{",
            "}",
            "{:",
            "{:d",
            "{:q}",
            "{x}",
            "{} {0}",
            "{0} {}",
            "{:.f}",
            "{:9999999999999999999}",
        ] {
            assert!(braces(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn fields_of_c_are_read() {
        let (whole, real) = (FieldValue::Integer(-42), FieldValue::Float(2.5));
        for (pattern, value, text) in [
            ("%d%%", &whole, "-42%"),
            ("%5d|%-5d|%05i|%ld", &whole, "  -42|-42  |-0042|-42"),
            ("%s %05s", &whole, "-42   -42"),
            ("%.1f %8.2f %e", &real, "2.5     2.50 2.500000e+00"),
            ("%+.0f", &real, "+2"),
        ] {
            assert_eq!(
                written(percents(pattern), value).as_deref(),
                Ok(text),
                "{pattern}"
            );
        }
        for pattern in ["%", "%q", "%5", "100%?"] {
            assert!(percents(pattern).is_err(), "{pattern}");
        }
    }
}
