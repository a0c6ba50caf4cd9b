//! Pools on their media, and sessions on them.

use std::path::Path;
use std::sync::Arc;

use halocline_emulator::Device;
use halocline_engine::{Database, DatabaseOptions};
use tempfile::TempDir;

use super::data::Data;
use super::variant::{PoolSpec, Variant};
use crate::experiments::media;
use crate::experiments::sql::SqlSession;
use crate::medium::{device_config, device_text};
use crate::{Backing, BenchError, Config, Reporter, Settings, SlowTierMedium};

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
    pub(super) session: SqlSession,
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
                report.line(&device_text(device))?;
            }
            self.0.push(place);
        }
        let place = self.0.iter().find(|place| is_it(place)).expect("it is open now");
        let star = if variant.star { "on" } else { "off" };
        let set = format!("SET halocline.star_join = {star}");
        Ok(SsbSession {
            config: config_of(variant, place),
            variant: variant.clone(),
            session: SqlSession::new(&place.database, variant.threads, &[set])?,
        })
    }
}

impl SsbSession {
    /// Returns the configuration, without the query.
    pub(super) fn config(&self) -> Config {
        self.config.clone()
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
            let medium = SlowTierMedium::default();
            options.medium = Some(settings.emulated_or(medium, "pools lie in DRAM with --on dram")?);
            Database::copy_in_memory(path, &options)?
        }
        Backing::Dax => {
            let directory = media::temporary_directory(variant.backing, settings)?;
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
