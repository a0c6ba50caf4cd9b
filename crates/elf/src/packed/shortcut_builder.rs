//! Construction of the array of [`Shortcuts`].
//!
//! The array of a bucketed tree has many slots and never has form direct, so its slots are set in ascending
//! order and its lines are encoded one after the other. The same holds for an array that will have form
//! quartered.

use crate::geometry::RecordGeometry;
use crate::packed::shortcuts::{
    ABOVE, LINE, MAX_BUCKET_PLACES, MAX_PLACES, MIN_ROWS_PER_PLACE, NEAR, NEAR_ABOVE, NEAR_NOWHERE, NOWHERE,
    QUARTERED, ShortcutForm, Shortcuts,
};
use crate::packed::subranges::SubrangeScheme;

/// Divisor: at most this part of the lines of form near or quartered may have a list that is too far away.
pub(crate) const REGULAR: usize = 8;

/// The content of a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PlaceContent {
    /// No row has these codes.
    #[default]
    Nothing,
    /// The rows are in a leaf list on a level above.
    Above,
    /// The offset of the list and the row counts of its subranges.
    List(u64, u16),
}

impl PlaceContent {
    /// Returns the content with offsets relative to `base`.
    pub(crate) fn moved(self, base: u64) -> Self {
        match self {
            Self::List(at, counts) => Self::List(base + at, counts),
            other => other,
        }
    }
}

/// Returns the slot index of a tuple whose first codes are given, all of them valid.
pub(crate) fn place(geometry: &RecordGeometry, codes: impl IntoIterator<Item = u64>) -> usize {
    // Only dimensions with a code count: the number of codes of a 64-bit dimension would overflow.
    let sizes = geometry.max_codes.iter();
    let digits = codes.into_iter().zip(sizes);
    digits.fold(0, |place, (code, &max)| {
        place * (max as usize + 1) + code as usize
    })
}

/// An array under construction.
#[derive(Debug)]
pub(crate) struct ShortcutBuilder {
    /// Dimensions of the array.
    pub(crate) dims: usize,
    /// The subranges, if it is to be quartered.
    pub(crate) quarters: Option<SubrangeScheme>,
    places: Vec<PlaceContent>,
    /// The encoded lines of a bucketed tree or quartered array, instead of `places`.
    lines: Option<LineBuilder>,
}

/// Lines of form near or quartered, of which the last one is being made.
#[derive(Debug)]
struct LineBuilder {
    quartered: bool,
    bytes: Vec<u8>,
    line: Vec<PlaceContent>,
    /// The first place of that line.
    first: usize,
    /// Number of places of the array.
    places: usize,
}

impl LineBuilder {
    fn new(quartered: bool, places: usize) -> Self {
        let width = if quartered { QUARTERED } else { NEAR };
        Self {
            quartered,
            bytes: Vec::with_capacity(places.div_ceil(width) * LINE),
            line: vec![PlaceContent::Nothing; width],
            first: 0,
            places,
        }
    }

    fn set(&mut self, place: usize, content: PlaceContent) {
        while place >= self.first + self.line.len() && self.first < self.places {
            self.next();
        }
        // A slot that was passed already can only come from damage, which the caller reports.
        if let Some(at) = place.checked_sub(self.first)
            && let Some(there) = self.line.get_mut(at)
        {
            *there = content;
        }
    }

    fn next(&mut self) {
        let width = self.line.len();
        let left = (self.places - self.first).min(width);
        if self.quartered {
            quartered_line(&self.line[..left], &mut self.bytes);
        } else {
            line(&self.line[..left], &mut self.bytes);
        }
        self.line.fill(PlaceContent::Nothing);
        self.first += width;
    }

    fn finish(&mut self) -> Vec<u8> {
        while self.first < self.places {
            self.next();
        }
        std::mem::take(&mut self.bytes)
    }
}

impl ShortcutBuilder {
    /// Returns the maximum bytes of DRAM for the slots of `rows` rows and their encoding.
    pub(crate) fn memory(rows: usize) -> usize {
        let all = (rows / MIN_ROWS_PER_PLACE as usize).min(MAX_PLACES as usize)
            * (size_of::<PlaceContent>() + size_of::<u64>());
        let lines = (rows / MIN_ROWS_PER_PLACE as usize)
            .min(MAX_BUCKET_PLACES as usize)
            .div_ceil(QUARTERED)
            * LINE;
        all.max(lines)
    }

    /// Creates the array; it gets form quartered if `quarters` are given.
    pub(crate) fn new(geometry: &RecordGeometry, dims: usize, quarters: Option<SubrangeScheme>) -> Self {
        let sizes = geometry.max_codes[..dims].iter().map(|&max| max as usize + 1);
        let places = if dims == 0 { 0 } else { sizes.product() };
        let in_order = quarters.is_some() || dims > 0 && geometry.is_of_buckets(dims - 1);
        Self {
            dims,
            quarters,
            places: vec![PlaceContent::Nothing; if in_order { 0 } else { places }],
            lines: in_order.then(|| LineBuilder::new(quarters.is_some(), places)),
        }
    }

    /// Sets the content of a place. Places are set in ascending order.
    pub(crate) fn set(&mut self, place: usize, content: PlaceContent) {
        match &mut self.lines {
            Some(lines) => lines.set(place, content),
            None => self.places[place] = content,
        }
    }

    /// Returns the shape of the array after lists that end at `nodes_end`, and its bytes with the zeros
    /// before it. Unless the array is quartered, it gets form near if nearly all lines allow it.
    pub(crate) fn finish(&mut self, geometry: &RecordGeometry, nodes_end: u64) -> (Shortcuts, Vec<u8>) {
        let dims = self.dims;
        let shape = |form| Shortcuts::new(geometry, dims, form, nodes_end).unwrap_or_default();
        if self.quarters.is_some() {
            let quartered = shape(ShortcutForm::Quartered);
            let (bytes, _) = self.bytes(&quartered, nodes_end);
            return (quartered, bytes);
        }
        let near = shape(ShortcutForm::Near);
        let (bytes, far) = self.bytes(&near, nodes_end);
        if geometry.buckets.is_some() || far * REGULAR <= self.places.len().div_ceil(NEAR) {
            return (near, bytes);
        }
        let direct = shape(ShortcutForm::Direct);
        let (bytes, _) = self.bytes(&direct, nodes_end);
        (direct, bytes)
    }

    /// Returns the bytes of an array of this shape with the zeros before it, and the number of lines with a
    /// list that is too far away.
    pub(crate) fn bytes(&mut self, shape: &Shortcuts, nodes_end: u64) -> (Vec<u8>, usize) {
        let mut bytes = vec![0; shape.at.saturating_sub(nodes_end as usize)];
        if let Some(lines) = &mut self.lines {
            let mut all = lines.finish();
            all.splice(0..0, bytes);
            return (all, 0);
        }
        if shape.form == ShortcutForm::Near {
            let far = self
                .places
                .chunks(NEAR)
                .filter(|places| !line(places, &mut bytes));
            let far = far.count();
            return (bytes, far);
        }
        for content in &self.places {
            let word = match *content {
                PlaceContent::Nothing => NOWHERE,
                PlaceContent::Above => ABOVE,
                PlaceContent::List(at, _) => at,
            };
            bytes.extend_from_slice(&word.to_le_bytes()[..shape.unit]);
        }
        (bytes, 0)
    }
}

/// Appends a line of form near. Returns false if one of its lists is too far from the first; searches for it
/// start at the root.
fn line(places: &[PlaceContent], bytes: &mut Vec<u8>) -> bool {
    let end = bytes.len() + LINE;
    let base = lowest(places);
    bytes.extend_from_slice(&base.to_le_bytes());
    let mut far = false;
    for content in places {
        let near = match *content {
            PlaceContent::Nothing => NEAR_NOWHERE,
            PlaceContent::Above => NEAR_ABOVE,
            PlaceContent::List(at, _) => distance(at, base),
        };
        far |= near == NEAR_ABOVE && *content != PlaceContent::Above;
        bytes.extend_from_slice(&near.to_le_bytes());
    }
    bytes.resize(end, 0);
    !far
}

/// Appends a line of form quartered; searches for a list that is too far from the first one start at the
/// root.
fn quartered_line(places: &[PlaceContent], bytes: &mut Vec<u8>) {
    let end = bytes.len() + LINE;
    let base = lowest(places) / LINE as u64;
    bytes.extend_from_slice(&(base as u32).to_le_bytes());
    for content in places {
        let (near, counts) = match *content {
            PlaceContent::Nothing => (NEAR_NOWHERE, 0),
            PlaceContent::Above => (NEAR_ABOVE, 0),
            PlaceContent::List(at, counts) => match distance(at, base * LINE as u64) {
                NEAR_ABOVE => (NEAR_ABOVE, 0),
                near => (near, counts),
            },
        };
        bytes.extend_from_slice(&near.to_le_bytes());
        bytes.extend_from_slice(&counts.to_le_bytes());
    }
    bytes.resize(end, 0);
}

/// Returns the lowest offset of a list.
fn lowest(places: &[PlaceContent]) -> u64 {
    let lists = places.iter().filter_map(|content| match *content {
        PlaceContent::List(at, _) => Some(at),
        _ => None,
    });
    lists.min().unwrap_or_default()
}

fn distance(at: u64, base: u64) -> u16 {
    u16::try_from(at - base).unwrap_or(NEAR_ABOVE).min(NEAR_ABOVE)
}
