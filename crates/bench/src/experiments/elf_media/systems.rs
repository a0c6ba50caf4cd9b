//! The placements that are measured.

use std::sync::Arc;

use halocline_cache::{Placement, StaticLists};
use halocline_media::HugeVec;

use super::{BUDGET, IndexSystem, Tier};
use crate::experiments::tiers;
use crate::{BenchError, Reporter, Settings};

/// Opens the index with each requested placement, or with the default ones if none is requested. The
/// baselines are always included and come first.
pub(super) fn all(
    settings: &Settings,
    tier: &Tier,
    bytes: &Arc<HugeVec<u8>>,
    report: &mut Reporter<'_>,
) -> Result<Vec<IndexSystem>, BenchError> {
    let mut systems = tier.baselines(bytes)?;
    let size = systems[0].index.size();
    let asked = &settings.tiers.budgets;
    let budgets = if asked.is_empty() { &[BUDGET][..] } else { asked };
    let asked = &settings.tiers.placements;
    let default = [
        Placement::Hybrid,
        Placement::DualAccess,
        Placement::Static(StaticLists::Probable),
    ];
    let wanted = if asked.is_empty() { &default[..] } else { asked };
    for placement in tiers::possible(wanted, tier, bytes, report)? {
        match placement {
            Placement::Hybrid | Placement::DualAccess => systems.push(tier.place(bytes, placement, None)?),
            _ => {
                for budget in budgets {
                    let mut system = tier.place(bytes, placement, Some(budget.bytes_for(size)))?;
                    if budgets.len() > 1 {
                        system.name =
                            format!("{} {}", system.name, tiers::bytes(budget.bytes_for(size) as f64));
                    }
                    systems.push(system);
                }
            }
        }
    }
    if asked.is_empty() {
        systems.extend(levels(tier, bytes, budgets[0].bytes_for(size))?);
    }
    Ok(systems)
}

/// Opens the index with as many levels in DRAM as fit into the budget, or returns `None` if none fits.
fn levels(tier: &Tier, bytes: &Arc<HugeVec<u8>>, budget: u64) -> Result<Option<IndexSystem>, BenchError> {
    let mut best = None;
    for levels in 1..=16 {
        let system = tier.place(
            bytes,
            Placement::Static(StaticLists::Levels(levels)),
            Some(budget),
        )?;
        if system.placed().fallback.is_some() {
            break;
        }
        let grown = best
            .as_ref()
            .is_none_or(|best: &IndexSystem| best.placed().dram_bytes < system.placed().dram_bytes);
        if !grown {
            break;
        }
        best = Some(system);
    }
    Ok(best)
}
