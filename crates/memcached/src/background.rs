//! Work beside the connections: freeing what was flushed or has expired, syncing for group durability, and
//! telling the eviction policy of the items that were there before.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::server::Shared;
use crate::settings::{Durability, GROUP};

/// Time between two looks for flushed items that a former server has left, whose flush is due, or that have
/// expired.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the work that the settings need.
pub(crate) fn start(runtime: &Runtime, shared: &Arc<Shared>) {
    runtime.spawn(reclaim(Arc::clone(shared)));
    if shared.settings.durability == Durability::Group {
        runtime.spawn(sync(Arc::clone(shared)));
    }
    if shared.items.evictor.is_some() {
        let shared = Arc::clone(shared);
        runtime.spawn_blocking(move || {
            let stops = shared.stop.subscribe();
            if let Err(error) = shared.items.admit_present(&|| *stops.borrow()) {
                tracing::warn!(%error, "the eviction policy does not know all items");
            }
        });
    }
}

async fn reclaim(shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    loop {
        let of_step = Arc::clone(&shared);
        let step = tokio::task::spawn_blocking(move || of_step.items.reclaim());
        match step.await {
            Ok(Ok(true)) => {
                if *stop.borrow() {
                    return;
                }
                continue;
            }
            Ok(Ok(false)) | Err(_) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the space of items could not be freed, which is tried again")
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            () = shared.flushed.notified() => {}
            _ = stop.wait_for(|stops| *stops) => return,
        }
    }
}

async fn sync(shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    loop {
        tokio::select! {
            () = tokio::time::sleep(GROUP) => {}
            _ = stop.wait_for(|stops| *stops) => return,
        }
        let of_sync = Arc::clone(&shared);
        let synced = tokio::task::spawn_blocking(move || of_sync.items.sync());
        if let Ok(Err(error)) = synced.await {
            tracing::error!(%error, "what was acknowledged is not durable against power loss");
        }
    }
}
