//! Builds and queries, timed in turn; every answer is compared between the layouts.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use halocline_elf::{BuildOptions, Elf, Layout, Matches, Tid, build_vec};
use halocline_emulator::{Counts, Device, EmulatedBytes, EmulatedSpec, Watch};
use halocline_media::Bytes;
use halocline_media::huge::HugeVec;

use super::DIMS;
use super::data::Dataset;
use crate::timing::Run;
use crate::{BenchError, Samples, interleaved};

/// Query types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Exact matches, one at a time.
    Exact,
    /// Exact matches, many at a time.
    ExactBatch,
    /// Bounds on every dimension.
    Range,
    /// Bounds on dimensions 0, 2, 4, 6, 8.
    PartialEverySecond,
    /// Bounds on dimensions 1, 2.
    PartialOneAndTwo,
}

impl Question {
    pub(super) const ALL: [Self; 5] = [
        Self::Exact,
        Self::ExactBatch,
        Self::Range,
        Self::PartialEverySecond,
        Self::PartialOneAndTwo,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::ExactBatch => "exact_batch",
            Self::Range => "range 2 %",
            Self::PartialEverySecond => "partial 0,2,4,6,8",
            Self::PartialOneAndTwo => "partial 1,2",
        }
    }
}

/// The bytes of an index.
type Bulk = Arc<HugeVec<u8>>;

/// Both indexes in DRAM, in huge pages where the system gives them.
pub(super) struct Built {
    pub(super) packed: Bulk,
    pub(super) published: Bulk,
    pub(super) packed_seconds: Samples,
    pub(super) published_seconds: Samples,
}

/// Builds both layouts several times, in turn.
pub(super) fn build(data: &Dataset, threads: usize, repetitions: usize) -> Result<Built, BenchError> {
    let mut packed = Vec::new();
    let mut published = Vec::new();
    let mut samples = interleaved(
        repetitions,
        &mut [
            Box::new(|| build_one(data, Layout::Packed, threads, &mut packed)),
            Box::new(|| build_one(data, Layout::Published, 1, &mut published)),
        ],
    )?;
    let (published_seconds, packed_seconds) = (
        samples.pop().unwrap_or_default(),
        samples.pop().unwrap_or_default(),
    );
    Ok(Built {
        packed: Arc::new(HugeVec::copy_of(&packed)?),
        published: Arc::new(HugeVec::copy_of(&published)?),
        packed_seconds,
        published_seconds,
    })
}

/// Builds once; returns the seconds.
fn build_one(data: &Dataset, layout: Layout, threads: usize, out: &mut Vec<u8>) -> Result<f64, BenchError> {
    *out = Vec::new(); // what the last repetition built is not part of this one
    let options = BuildOptions {
        layout,
        threads,
        memory: 8 << 30,
        ..BuildOptions::default()
    };
    let start = Instant::now();
    *out = build_vec(data, &options)?;
    Ok(start.elapsed().as_secs_f64())
}

/// An index that is asked, and the emulated device it lies on, if it does.
pub(super) struct Opened<B> {
    elf: Elf<B>,
    device: Option<Arc<Device>>,
}

impl Built {
    /// Both, `packed` first, where they are.
    pub(super) fn in_dram(&self) -> Result<[Opened<Bulk>; 2], BenchError> {
        let open = |bytes: &Bulk| {
            Ok::<_, BenchError>(Opened {
                elf: Elf::open(Arc::clone(bytes))?,
                device: None,
            })
        };
        Ok([open(&self.packed)?, open(&self.published)?])
    }

    /// The same as if each lay on a device of its own.
    pub(super) fn on(&self, medium: &EmulatedSpec) -> Result<[Opened<EmulatedBytes<Bulk>>; 2], BenchError> {
        let open = |bytes: &Bulk| {
            let device = Device::new(medium)?;
            Ok::<_, BenchError>(Opened {
                elf: Elf::open(EmulatedBytes::new(Arc::clone(bytes), Arc::clone(&device)))?,
                device: Some(device),
            })
        };
        Ok([open(&self.packed)?, open(&self.published)?])
    }
}

/// Throughput and device counters of one layout for one query type.
#[derive(Debug, Clone, Default)]
pub(super) struct Answered {
    /// Queries per second.
    pub(super) rates: Samples,
    /// Counters of the device in the last repetition.
    pub(super) counts: Counts,
}

/// Asks both layouts, in turn; `packed` first.
///
/// # Errors
/// The layouts answer differently.
pub(super) fn answer<B: Bytes>(
    question: Question,
    data: &Dataset,
    indexes: &[Opened<B>; 2],
    repetitions: usize,
) -> Result<[Answered; 2], BenchError> {
    let (mut sums, mut counts) = ([None, None], [Counts::default(); 2]);
    let [packed_sum, published_sum] = &mut sums;
    let [packed_counts, published_counts] = &mut counts;
    let [packed, published] = indexes;
    let mut runs: [Run<'_>; 2] = [
        Box::new(|| ask(question, data, packed, packed_sum, packed_counts)),
        Box::new(|| ask(question, data, published, published_sum, published_counts)),
    ];
    let mut samples = interleaved(repetitions, &mut runs)?.into_iter();
    drop(runs);
    if sums[0] != sums[1] {
        return Err(BenchError::Disagreement {
            what: question.name().to_owned(),
            left_system: "packed".to_owned(),
            left: format!("{:?}", sums[0]),
            right_system: "published".to_owned(),
            right: format!("{:?}", sums[1]),
        });
    }
    Ok(counts.map(|counts| Answered {
        rates: samples.next().unwrap_or_default(),
        counts,
    }))
}

/// The number of TIDs in all answers, and a sum over them that depends on which query found which TID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Checksum {
    tids: u64,
    sum: u64,
}

impl Checksum {
    #[inline]
    fn add(&mut self, query: usize, tids: &[Tid]) {
        self.tids += tids.len() as u64;
        for &tid in tids {
            self.sum = self
                .sum
                .wrapping_add((query as u64 + 1).wrapping_mul(u64::from(tid) + 1));
        }
    }
}

/// Asks all queries once; returns queries per second.
fn ask<B: Bytes>(
    question: Question,
    data: &Dataset,
    Opened { elf, device }: &Opened<B>,
    checksum: &mut Option<Checksum>,
    counts: &mut Counts,
) -> Result<f64, BenchError> {
    let mut sum = Checksum::default();
    let mut tids: Vec<Tid> = Vec::new();
    let mut matches = Matches::new();
    let watch = Watch::start(device.as_ref());
    match question {
        Question::Exact => {
            for (query, point) in data.points.chunks_exact(DIMS).enumerate() {
                for tid in elf.exact(point)? {
                    sum.add(query, &[tid]);
                }
            }
        }
        Question::ExactBatch => {
            const BATCH: usize = 4096;
            for (batch, points) in data.points.chunks(BATCH * DIMS).enumerate() {
                elf.exact_batch(points, &mut matches)?;
                for query in 0..matches.len() {
                    sum.add(batch * BATCH + query, matches.get(query));
                }
            }
        }
        Question::Range | Question::PartialEverySecond | Question::PartialOneAndTwo => {
            for (query, window) in data.windows(question).iter().enumerate() {
                tids.clear();
                elf.select(window)?.tids_into(&mut tids)?;
                sum.add(query, &tids);
            }
        }
    }
    let lap = watch.lap();
    *checksum = Some(black_box(sum));
    *counts = lap.counts;
    Ok(data.count(question) as f64 / lap.time.as_secs_f64())
}
