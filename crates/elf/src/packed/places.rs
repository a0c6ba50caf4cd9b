//! Making the array of [`Shortcuts`].

use crate::geometry::Geometry;
use crate::packed::shortcuts::{
    ABOVE, Form, LINE, NEAR, NEAR_ABOVE, NEAR_NOWHERE, NOWHERE, PLACES, ROWS, Shortcuts,
};

/// One in so many lines of form near may have a list that is too far away.
const REGULAR: usize = 8;

/// What a place says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// No row starts so.
    #[default]
    Nothing,
    /// The rows are in a leaf list further up.
    Above,
    /// The list at this offset.
    List(u64),
}

impl Content {
    /// The same in an array of lists that starts at `base`.
    pub(crate) fn moved(self, base: u64) -> Self {
        match self {
            Self::List(at) => Self::List(base + at),
            other => other,
        }
    }
}

/// Number of the place of a tuple of whose codes the first ones are given, all of them valid.
pub(crate) fn place(geometry: &Geometry, codes: impl IntoIterator<Item = u64>) -> usize {
    let sizes = geometry.max_codes.iter().map(|&max| max as usize + 1);
    sizes
        .zip(codes)
        .fold(0, |place, (size, code)| place * size + code as usize)
}

/// An array being made.
#[derive(Debug)]
pub(crate) struct Places {
    /// Dimensions of the array.
    pub(crate) dims: usize,
    places: Vec<Content>,
}

impl Places {
    /// Bytes of DRAM for the places of so many rows at most, and for their bytes.
    pub(crate) fn memory(rows: usize) -> usize {
        (rows / ROWS as usize).min(PLACES as usize) * (size_of::<Content>() + size_of::<u64>())
    }

    pub(crate) fn new(geometry: &Geometry, dims: usize) -> Self {
        let sizes = geometry.max_codes[..dims].iter().map(|&max| max as usize + 1);
        let places = if dims == 0 { 0 } else { sizes.product() };
        Self {
            dims,
            places: vec![Content::Nothing; places],
        }
    }

    pub(crate) fn set(&mut self, place: usize, content: Content) {
        self.places[place] = content;
    }

    /// Shape and bytes of the array behind lists that end at `nodes_end`, with the zeros before it. Of form near if nearly all
    /// lines can be.
    pub(crate) fn finish(&self, geometry: &Geometry, nodes_end: u64) -> (Shortcuts, Vec<u8>) {
        let shape = |form| Shortcuts::new(geometry, self.dims, form, nodes_end).unwrap_or_default();
        let near = shape(Form::Near);
        let (bytes, far) = self.bytes(&near, nodes_end);
        if far * REGULAR <= self.places.len().div_ceil(NEAR) {
            return (near, bytes);
        }
        let direct = shape(Form::Direct);
        let (bytes, _) = self.bytes(&direct, nodes_end);
        (direct, bytes)
    }

    /// The bytes of an array of this shape, with the zeros before it, and how many lines have a list that is too far away.
    pub(crate) fn bytes(&self, shape: &Shortcuts, nodes_end: u64) -> (Vec<u8>, usize) {
        let mut bytes = vec![0; shape.at.saturating_sub(nodes_end as usize)];
        if shape.form == Form::Near {
            let far = self
                .places
                .chunks(NEAR)
                .filter(|places| !line(places, &mut bytes));
            let far = far.count();
            return (bytes, far);
        }
        for content in &self.places {
            let word = match *content {
                Content::Nothing => NOWHERE,
                Content::Above => ABOVE,
                Content::List(at) => at,
            };
            bytes.extend_from_slice(&word.to_le_bytes()[..shape.unit]);
        }
        (bytes, 0)
    }
}

/// Appends a line of form near; `false` if one of its lists is too far from the first: searches for it start at the root.
fn line(places: &[Content], bytes: &mut Vec<u8>) -> bool {
    let end = bytes.len() + LINE;
    let lists = places.iter().filter_map(|content| match *content {
        Content::List(at) => Some(at),
        _ => None,
    });
    let base = lists.min().unwrap_or_default();
    bytes.extend_from_slice(&base.to_le_bytes());
    let mut far = false;
    for content in places {
        let near = match *content {
            Content::Nothing => NEAR_NOWHERE,
            Content::Above => NEAR_ABOVE,
            Content::List(at) => u16::try_from(at - base).unwrap_or(NEAR_ABOVE).min(NEAR_ABOVE),
        };
        far |= near == NEAR_ABOVE && *content != Content::Above;
        bytes.extend_from_slice(&near.to_le_bytes());
    }
    bytes.resize(end, 0);
    !far
}
