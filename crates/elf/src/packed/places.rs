//! Making the array of [`Shortcuts`].

use crate::geometry::Geometry;
use crate::packed::node::SMALL_LEAF;
use crate::packed::shortcuts::{BASE, COUNTS, Form, IRREGULAR, Shortcuts};

/// One in so many blocks of counts may be irregular.
const REGULAR: usize = 8;

/// What a place says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// No row starts so.
    #[default]
    Nothing,
    /// The rows are in a leaf list further up.
    Above,
    /// The list at this offset; with its rows if it is a leaf list.
    List(u64, Option<usize>),
}

impl Content {
    /// The same in an array of lists that starts at `base`.
    pub(crate) fn moved(self, base: u64) -> Self {
        match self {
            Self::List(at, rows) => Self::List(base + at, rows),
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

    /// Shape and bytes of the array behind lists that end at `nodes_end`, with the zeros before it. Counted if nearly all
    /// lists are short leaf lists.
    pub(crate) fn finish(&self, geometry: &Geometry, nodes_end: u64) -> (Shortcuts, Vec<u8>) {
        let shape = |form| Shortcuts::new(geometry, self.dims, form, nodes_end).unwrap_or_default();
        let counted = shape(Form::Counted);
        if counted.dims() == 0 {
            return (counted, vec![]);
        }
        let mut bytes = vec![0; counted.at - nodes_end as usize];
        let mut irregular = 0;
        let mut blocks = 0;
        for row in self.places.chunks(counted.last_size()) {
            for places in row.chunks(COUNTS) {
                let regular = block(&counted, places, &mut bytes);
                irregular += usize::from(!regular);
                blocks += 1;
            }
        }
        if irregular * REGULAR <= blocks {
            return (counted, bytes);
        }
        let direct = shape(Form::Direct);
        bytes.truncate(direct.at - nodes_end as usize);
        for content in &self.places {
            let word = match *content {
                Content::Nothing => crate::packed::shortcuts::NOWHERE,
                Content::Above => crate::packed::shortcuts::ABOVE,
                Content::List(at, _) => at,
            };
            bytes.extend_from_slice(&word.to_le_bytes()[..direct.unit]);
        }
        (direct, bytes)
    }
}

/// Appends a block of counts; `false` if it has a place that counts cannot tell of, and is irregular.
fn block(shape: &Shortcuts, places: &[Content], bytes: &mut Vec<u8>) -> bool {
    let row_len = (shape.level.value_len + shape.level.record_len) as u64;
    let mut counts = [0_u8; COUNTS];
    let mut base = None;
    let mut end = 0;
    let mut regular = true;
    for (count, content) in counts.iter_mut().zip(places) {
        match *content {
            Content::Nothing => {}
            Content::List(at, Some(rows)) if rows <= SMALL_LEAF && (base.is_none() || at == end) => {
                base = base.or(Some(at));
                end = at + shape.list_len + rows as u64 * row_len;
                *count = rows as u8;
            }
            Content::List(..) | Content::Above => regular = false,
        }
    }
    if !regular {
        counts = [0; COUNTS];
        base = Some(IRREGULAR);
    }
    bytes.extend_from_slice(&base.unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(&counts[..shape.unit - BASE]);
    regular
}
