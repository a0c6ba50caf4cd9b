//! The words that TPC-H draws strings from, and strings of them.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, StringArray};

use crate::SplitMix64;

pub(super) const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

/// Nations and their regions.
pub(super) const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];

pub(super) const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"];

pub(super) const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];

pub(super) const SHIP_MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "TRUCK", "MAIL", "FOB", "SHIP"];

/// Syllables of a type, which has one word of each list.
pub(super) const TYPES: [&[&str]; 3] = [
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
];

/// Syllables of a container, which has one word of each list.
pub(super) const CONTAINERS: [&[&str]; 2] = [
    &["SM", "LG", "MED", "JUMBO", "WRAP"],
    &["CASE", "BOX", "BAG", "JAR", "PACK", "PKG", "CAN", "DRUM"],
];

#[rustfmt::skip]
pub(super) const COLORS: [&str; 92] = [
    "almond", "antique", "aquamarine", "azure", "beige", "bisque", "black", "blanched", "blue", "blush", "brown",
    "burlywood", "burnished", "chartreuse", "chiffon", "chocolate", "coral", "cornflower", "cornsilk", "cream",
    "cyan", "dark", "deep", "dim", "dodger", "drab", "firebrick", "floral", "forest", "frosted", "gainsboro",
    "ghost", "goldenrod", "green", "grey", "honeydew", "hot", "indian", "ivory", "khaki", "lace", "lavender",
    "lawn", "lemon", "light", "lime", "linen", "magenta", "maroon", "medium", "metallic", "midnight", "mint",
    "misty", "moccasin", "navajo", "navy", "olive", "orange", "orchid", "pale", "papaya", "peach", "peru", "pink",
    "plum", "powder", "puff", "purple", "red", "rose", "rosy", "royal", "saddle", "salmon", "sandy", "seashell",
    "sienna", "sky", "slate", "smoke", "snow", "spring", "steel", "tan", "thistle", "tomato", "turquoise",
    "violet", "wheat", "white", "yellow",
];

/// Characters of addresses.
const LETTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, ";

/// Draws an element of `list`.
pub(super) fn pick<'a>(rng: &mut SplitMix64, list: &[&'a str]) -> &'a str {
    list[rng.below(list.len() as u64) as usize]
}

/// Appends one word of each list, separated by spaces.
pub(super) fn pick_each(rng: &mut SplitMix64, lists: &[&[&str]], out: &mut String) {
    for (i, list) in lists.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { " " });
        out.push_str(pick(rng, list));
    }
}

/// Appends ten to 25 letters, digits, commas and spaces.
pub(super) fn address(rng: &mut SplitMix64, out: &mut String) {
    let len = 10 + rng.below(16);
    (0..len).for_each(|_| out.push(char::from(LETTERS[rng.below(64) as usize])));
}

/// Appends a city of a nation: its name, cut or padded to nine characters, and a digit.
pub(super) fn city(rng: &mut SplitMix64, nation: usize, out: &mut String) {
    let name = NATIONS[nation].0;
    let name = &name[..name.len().min(9)];
    write!(out, "{name:9}{}", rng.below(10)).expect("strings take everything");
}

/// Appends a telephone number, which begins with the nation's code.
pub(super) fn phone(rng: &mut SplitMix64, nation: usize, out: &mut String) {
    let mut digits = |from: u64, below: u64| from + rng.below(below - from);
    let (area, exchange, number) = (digits(100, 1000), digits(100, 1000), digits(1000, 10_000));
    write!(out, "{}-{area}-{exchange}-{number}", nation + 10).expect("strings take everything");
}

/// A builder of a string column.
#[derive(Debug, Default)]
pub(super) struct TextBuilder {
    builder: StringBuilder,
    text: String,
}

impl TextBuilder {
    /// Appends the string that `write` produces.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut String)) {
        self.text.clear();
        write(&mut self.text);
        self.builder.append_value(&self.text);
    }

    pub(super) fn finish(mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

/// Makes a column of given strings.
pub(super) fn names(values: Vec<&'static str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}
