//! Making the array of [`Shortcuts`].
//!
//! The array of a bucketed tree has many places and is never of form direct, so its lines are made one after the other: places
//! are set in ascending order. So are those of an array that was decided to be quartered.

use crate::geometry::RecordGeometry;
use crate::packed::shortcuts::{
    ABOVE, BUCKET_PLACES, LINE, NEAR, NEAR_ABOVE, NEAR_NOWHERE, NOWHERE, PLACES, QUARTERED, ROWS,
    ShortcutForm, Shortcuts,
};
use crate::packed::subranges::SubrangeScheme;

/// One in so many lines of form near or quartered may have a list that is too far away.
pub(crate) const REGULAR: usize = 8;

/// What a place says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PlaceContent {
    /// No row starts so.
    #[default]
    Nothing,
    /// The rows are in a leaf list further up.
    Above,
    /// The list at this offset, and what its place says of its quarters.
    List(u64, u16),
}

impl PlaceContent {
    /// The same in an array of lists that starts at `base`.
    pub(crate) fn moved(self, base: u64) -> Self {
        match self {
            Self::List(at, counts) => Self::List(base + at, counts),
            other => other,
        }
    }
}

/// Number of the place of a tuple of whose codes the first ones are given, all of them valid.
pub(crate) fn place(geometry: &RecordGeometry, codes: impl IntoIterator<Item = u64>) -> usize {
    // Dimensions without a code may have all of 64 bits, whose number is none of 64 bits.
    let sizes = geometry.max_codes.iter();
    let digits = codes.into_iter().zip(sizes);
    digits.fold(0, |place, (code, &max)| {
        place * (max as usize + 1) + code as usize
    })
}

/// An array being made.
#[derive(Debug)]
pub(crate) struct ShortcutBuilder {
    /// Dimensions of the array.
    pub(crate) dims: usize,
    /// If it is to be quartered.
    pub(crate) quarters: Option<SubrangeScheme>,
    places: Vec<PlaceContent>,
    /// Of a bucketed tree or a quartered array, instead of the places.
    lines: Option<LineBuilder>,
}

/// LineBuilder of form near or quartered, of which the last one is being made.
#[derive(Debug)]
struct LineBuilder {
    quartered: bool,
    bytes: Vec<u8>,
    line: Vec<PlaceContent>,
    /// The first place of that line.
    first: usize,
    /// ShortcutBuilder of the array.
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
        // One that is past may only come of damage, which its finder reports.
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
    /// Bytes of DRAM for the places of so many rows at most, and for their bytes.
    pub(crate) fn memory(rows: usize) -> usize {
        let all =
            (rows / ROWS as usize).min(PLACES as usize) * (size_of::<PlaceContent>() + size_of::<u64>());
        let lines = (rows / ROWS as usize)
            .min(BUCKET_PLACES as usize)
            .div_ceil(QUARTERED)
            * LINE;
        all.max(lines)
    }

    /// Of form quartered with `quarters`.
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

    /// ShortcutBuilder are set in ascending order.
    pub(crate) fn set(&mut self, place: usize, content: PlaceContent) {
        match &mut self.lines {
            Some(lines) => lines.set(place, content),
            None => self.places[place] = content,
        }
    }

    /// Shape and bytes of the array behind lists that end at `nodes_end`, with the zeros before it. Unless it is quartered, of
    /// form near if nearly all lines can be.
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

    /// The bytes of an array of this shape, with the zeros before it, and how many lines have a list that is too far away.
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

/// Appends a line of form near; `false` if one of its lists is too far from the first: searches for it start at the root.
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

/// Appends a line of form quartered; searches for a list that is too far from the first one start at the root.
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

/// The lowest offset of a list.
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
