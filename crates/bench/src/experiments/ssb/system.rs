//! Pools on their media, and sessions on them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use halocline_emulator::{ClockMode, Device, EmulatedSpec, Watch};
use halocline_engine::{Database, DatabaseOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::data::Data;
use super::variant::{PoolSpec, Variant};
use crate::medium::device_config;
use crate::{Backing, BenchError, Config, Reporter, Settings};

/// Files here are in DRAM.
const IN_DRAM: &str = "/dev/shm";

/// A pool that is open on a medium.
struct OpenPool {
    stored: PoolSpec,
    backing: Backing,
    database: Database,
    /// In words.
    medium: String,
    /// Where its file is, if that is a copy.
    copy: Option<TempDir>,
}

/// All pools that are open, each once for all variants.
#[derive(Default)]
pub(super) struct OpenPools(Vec<OpenPool>);

/// A variant, ready to be asked.
pub(super) struct SsbSession {
    pub(super) variant: Variant,
    session: Database,
    runtime: Runtime,
    config: Config,
}

impl OpenPools {
    /// Opens the pool of a variant, unless it is open, and a session on it.
    pub(super) fn system(
        &mut self,
        variant: &Variant,
        data: &Data,
        settings: &Settings,
        report: &mut Reporter<'_>,
    ) -> Result<SsbSession, BenchError> {
        let is_it = |place: &OpenPool| place.stored == variant.stored && place.backing == variant.backing;
        if !self.0.iter().any(is_it) {
            let place = open(variant, &data.pool(&variant.stored), settings)?;
            let known = self.0.iter().any(|other| other.backing == place.backing);
            if let Some(device) = place.database.device().filter(|_| !known) {
                let times = match device.spec().clock {
                    ClockMode::Virtual => "times are those of its own clock, without work of the CPU",
                    ClockMode::Delay => {
                        "reads wait for it; what the emulation computes itself is not in the times"
                    }
                };
                report.line(&format!("medium: {device}; {times}"))?;
            }
            self.0.push(place);
        }
        let place = self.0.iter().find(|place| is_it(place)).expect("it is open now");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(variant.threads)
            .enable_all()
            .build()?;
        let session = place.database.session();
        let star = if variant.star { "on" } else { "off" };
        runtime.block_on(async {
            session.sql(&format!("SET halocline.star_join = {star}")).await?;
            let partitions = variant.threads;
            let set = format!("SET datafusion.execution.target_partitions = {partitions}");
            session.sql(&set).await
        })?;
        Ok(SsbSession {
            config: config_of(variant, place),
            variant: variant.clone(),
            session,
            runtime,
        })
    }
}

impl SsbSession {
    /// Returns the configuration, without the query.
    pub(super) fn config(&self) -> Config {
        self.config.clone()
    }

    /// Milliseconds from the text to the last row, and the rows.
    pub(super) fn ask(&self, sql: &str) -> Result<(f64, Vec<RecordBatch>), BenchError> {
        let watch = Watch::start(self.session.device());
        let batches = self
            .runtime
            .block_on(async { self.session.sql(sql).await?.collect().await })?;
        Ok((watch.elapsed().as_secs_f64() * 1e3, batches))
    }
}

fn open(variant: &Variant, path: &Path, settings: &Settings) -> Result<OpenPool, BenchError> {
    let mut options = DatabaseOptions::default()
        .with_read_only(true)
        .with_threads(Some(settings.threads()));
    let mut copy = None;
    let database = match variant.backing {
        Backing::PageCache => Database::open(path, &options)?,
        Backing::Dram => Database::copy_in_memory(path, &options)?,
        Backing::Emulated => {
            options.medium = Some(spec(settings)?);
            Database::copy_in_memory(path, &options)?
        }
        Backing::Dax => {
            let mut place = settings.clone();
            place.directory = Some(PathBuf::from(IN_DRAM)).filter(|directory| directory.is_dir());
            let directory = place.temporary_directory()?;
            let file = directory.path().join("ssb.pool");
            std::fs::copy(path, &file)?;
            copy = Some(directory);
            options.assume_dax = true;
            Database::open(&file, &options)?
        }
    };
    Ok(OpenPool {
        stored: variant.stored.clone(),
        backing: variant.backing,
        medium: database.info()?.pool.medium,
        database,
        copy,
    })
}

/// The emulated medium: Optane with real delays unless told otherwise.
fn spec(settings: &Settings) -> Result<EmulatedSpec, BenchError> {
    let mut asked = settings.clone();
    asked.tiers.medium = Some(settings.tiers.medium.clone().unwrap_or_default());
    asked.emulated()?.ok_or_else(|| {
        BenchError::Setup(
            "pools lie in DRAM with --on dram; --medium can be emulated:PROFILE[:virtual|:delay]".to_owned(),
        )
    })
}

fn config_of(variant: &Variant, place: &OpenPool) -> Config {
    let mut config = variant.stored.config();
    let on = place
        .copy
        .as_ref()
        .map(|_| format!("{}, a copy in DRAM", place.medium));
    config.insert(
        "medium".to_owned(),
        on.unwrap_or_else(|| place.medium.clone()).into(),
    );
    config.insert("on".to_owned(), variant.backing.name().into());
    config.insert("star_join".to_owned(), variant.star.into());
    config.insert("threads".to_owned(), variant.threads.into());
    let device: Option<&Arc<Device>> = place.database.device();
    config.extend(device.map(|device| device_config(device)).unwrap_or_default());
    config
}
