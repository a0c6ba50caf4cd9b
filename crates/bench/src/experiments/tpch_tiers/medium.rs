//! The media on which the tables lie, and a session on each.

use halocline_emulator::{ClockMode, EmulatedSpec};
use halocline_engine::{Database, DatabaseOptions};

use super::data::TpchPool;
use crate::experiments::sql::SqlSession;
use crate::medium::{device_config, device_text};
use crate::{BenchError, Config, Reporter, Settings, SlowTierMedium, config};

/// The slow tier unless told otherwise.
const SLOW_TIER: &str = "emulated:cxl:delay";

/// This host's own DRAM.
pub(super) const HOST_DRAM: &str = "host DRAM";
/// DRAM that is emulated as the slow tier is.
pub(super) const EMULATED_DRAM: &str = "emulated DRAM";

/// The profile of `EMULATED_DRAM`.
const DRAM_PROFILE: &str = "dram";

/// A copy of the pool on a medium, and a session on it.
pub(super) struct TpchMedium {
    /// The system that results name.
    pub(super) name: String,
    pub(super) session: SqlSession,
    /// Bytes of the tables.
    pub(super) tables: u64,
    /// Bytes of these that are in DRAM, emulated or not, rather than on the slow tier.
    pub(super) in_dram: u64,
    database: Database,
    rows: u64,
}

/// Returns the specifications of the media, `None` for this host's DRAM: that, emulated DRAM, the slow tier.
///
/// # Errors
/// `--medium` names none that is slower than DRAM; the host cannot be measured.
pub(super) fn specs(settings: &Settings) -> Result<[Option<EmulatedSpec>; 3], BenchError> {
    let default: SlowTierMedium = SLOW_TIER
        .parse()
        .map_err(|error| BenchError::Setup(format!("{SLOW_TIER}: {error}")))?;
    let slow = settings.emulated_or(default, "pools in DRAM are measured anyway")?;
    if slow.profile.name == DRAM_PROFILE {
        return Err(BenchError::Setup(format!(
            "the profile `{DRAM_PROFILE}` is measured anyway; --medium names the slow tier beside it, as {SLOW_TIER}"
        )));
    }
    Ok([None, Some(slow.dram_beside()), Some(slow)])
}

impl TpchMedium {
    /// Copies the pool to a medium.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn open(
        pool: &TpchPool,
        spec: Option<EmulatedSpec>,
        settings: &Settings,
        report: &mut Reporter<'_>,
    ) -> Result<Self, BenchError> {
        let (name, is_slow) = match &spec {
            None => (HOST_DRAM.to_owned(), false),
            Some(spec) if spec.profile.name == DRAM_PROFILE => (EMULATED_DRAM.to_owned(), false),
            Some(spec) => (format!("emulated {}", spec.profile.name), true),
        };
        let options = DatabaseOptions::default()
            .with_read_only(true)
            .with_threads(Some(settings.threads()))
            .with_medium(spec);
        let database = Database::copy_in_memory(&pool.path, &options)?;
        if let Some(device) = database.device() {
            report.line(&device_text(device))?;
        }
        let session = SqlSession::new(&database, settings.threads(), &[])?;
        let tables = database.info()?.tables.iter().map(|table| table.bytes).sum();
        Ok(Self {
            name,
            session,
            tables,
            in_dram: if is_slow { 0 } else { tables },
            database,
            rows: pool.rows,
        })
    }

    /// Returns the bytes of DRAM that the open database holds for the tables now: headers, dictionaries,
    /// copies of indexes.
    pub(super) fn held(&self) -> Result<u64, BenchError> {
        let info = self.database.info()?;
        Ok(info.dram_bytes + info.placed_bytes)
    }

    pub(super) fn is_emulated(&self) -> bool {
        self.database.device().is_some()
    }

    /// Returns true if times on both can be compared: those of a virtual clock are without work of the CPU.
    pub(super) fn is_comparable(&self, other: &TpchMedium) -> bool {
        let is_virtual = |medium: &TpchMedium| {
            let device = medium.database.device();
            device.is_some_and(|device| device.spec().clock == ClockMode::Virtual)
        };
        is_virtual(self) == is_virtual(other)
    }

    /// Returns all that is needed to measure on this medium again.
    pub(super) fn config(&self) -> Config {
        let text = match self.database.device() {
            None => "DRAM of this host".to_owned(),
            Some(device) => device.to_string(),
        };
        let mut config = config! {"on": self.name.clone(), "medium": text, "rows": self.rows};
        if let Some(device) = self.database.device() {
            config.extend(device_config(device));
        }
        config
    }
}
