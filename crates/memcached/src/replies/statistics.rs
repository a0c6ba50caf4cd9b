//! `stats` with its variants.

use std::net::SocketAddr;

use super::{Next, VERSION, line};
use crate::error::Result;
use crate::server::{BACKLOG, Shared};
use crate::settings::ServerSettings;
use crate::stats::Histogram;

pub(super) fn write(shared: &Shared, arguments: &[&[u8]], reply: &mut Vec<u8>) -> Result<Next> {
    match arguments {
        [] => general(shared, reply),
        [b"reset"] => {
            shared.items.counters.reset();
            line(reply, "RESET");
            return Ok(Next::Continue);
        }
        [b"settings"] => settings(shared, reply),
        [b"items"] => items(shared, reply)?,
        [b"slabs"] => slabs(shared, reply),
        [b"sizes"] => line(reply, "STAT sizes_status disabled"),
        [b"conns"] => stat(reply, "curr_connections", shared.connections.get()),
        [b"latency"] => latency(shared, reply),
        [b"detail", ..] => {
            line(reply, "CLIENT_ERROR stats detail not allowed");
            return Ok(Next::Continue);
        }
        [b"cachedump", ..] => {
            line(reply, "CLIENT_ERROR stats cachedump not allowed");
            return Ok(Next::Continue);
        }
        _ => {
            line(reply, "ERROR");
            return Ok(Next::Continue);
        }
    }
    line(reply, "END");
    Ok(Next::Continue)
}

fn stat(reply: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) {
    line(reply, &format!("STAT {name} {value}"));
}

/// The unit of times in `/proc`, which Linux keeps at a hundredth of a second on all architectures
/// (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// Appends the processor time of the process, where the system tells, in seconds and microseconds.
fn processor_time(reply: &mut Vec<u8>) {
    let Ok(line) = std::fs::read_to_string("/proc/self/stat") else {
        return;
    };
    // The name of the program, in parentheses, may have spaces. The two times are 11 words after it.
    let words = line
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_ascii_whitespace().skip(11));
    for (name, ticks) in ["rusage_user", "rusage_system"]
        .into_iter()
        .zip(words.into_iter().flatten())
    {
        if let Ok(ticks) = ticks.parse::<u64>() {
            let micros = ticks % TICKS_PER_SECOND * 1_000_000 / TICKS_PER_SECOND;
            stat(
                reply,
                name,
                format_args!("{}.{micros:06}", ticks / TICKS_PER_SECOND),
            );
        }
    }
}

fn general(shared: &Shared, reply: &mut Vec<u8>) {
    let items = &shared.items;
    let stats = items.storage.stats();
    stat(reply, "pid", std::process::id());
    stat(reply, "uptime", shared.started.elapsed().as_secs());
    stat(reply, "time", items.now() / 1000);
    stat(reply, "version", VERSION);
    stat(reply, "pointer_size", usize::BITS);
    processor_time(reply);
    stat(reply, "max_connections", shared.settings.max_connections);
    stat(reply, "curr_connections", shared.connections.get());
    stat(reply, "total_connections", shared.total_connections.get());
    stat(reply, "threads", shared.settings.threads);
    for (name, value) in items.counters.named() {
        stat(reply, name, value);
    }
    stat(reply, "read_buf_bytes", shared.receiving.bytes());
    tiers(shared, reply);
    let (count, bytes) = items.amounts();
    stat(reply, "curr_items", count);
    stat(reply, "accepting_conns", 1);
    stat(reply, "bytes", bytes);
    stat(reply, "limit_maxbytes", shared.settings.memory_limit.unwrap_or(0));
    stat(reply, "slow_tier_pool_bytes", stats.pool_bytes);
    stat(reply, "slow_tier_live_bytes", stats.live_bytes);
    stat(reply, "slow_tier_log_bytes", stats.log_bytes);
    stat(reply, "slow_tier_appended_bytes", stats.appended_bytes);
    stat(reply, "slow_tier_fences", stats.log_fences);
    if let Some(bytes) = dram_bytes() {
        stat(reply, "dram_bytes", bytes);
    }
    stat(reply, "checkpoints", stats.checkpoints);
}

/// Appends the hits by the tier that has answered, and the copies in DRAM.
fn tiers(shared: &Shared, reply: &mut Vec<u8>) {
    let items = &shared.items;
    let dram = items.counters.hot_hits.get();
    stat(reply, "get_hits_dram", dram);
    stat(
        reply,
        "get_hits_slow_tier",
        items.counters.get_hits.get().saturating_sub(dram),
    );
    let hot = items.hot.as_ref().map(|hot| hot.stats());
    stat(reply, "hot_items", hot.map_or(0, |hot| hot.items));
    stat(reply, "hot_bytes", hot.map_or(0, |hot| hot.bytes));
    stat(
        reply,
        "hot_items_used",
        u8::from(hot.is_some_and(|hot| hot.is_on)),
    );
}

/// Returns the bytes of memory of the process that no file has, where the system tells.
fn dram_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn settings(shared: &Shared, reply: &mut Vec<u8>) {
    let settings = &shared.settings;
    let yes = |is_set: bool| if is_set { "yes" } else { "no" };
    stat(reply, "maxbytes", settings.memory_limit.unwrap_or(0));
    stat(reply, "maxconns", settings.max_connections);
    stat(reply, "tcp_backlog", BACKLOG);
    stat(reply, "maxconns_fast", "yes");
    stat(reply, "read_buf_mem_limit", settings.receive_memory);
    stat(reply, "tcpport", settings.tcp_port());
    stat(reply, "udpport", 0);
    stat(reply, "inter", inter(settings));
    stat(reply, "domain_socket", settings.socket_text());
    stat(reply, "umask", format_args!("{:o}", settings.socket_mode));
    stat(reply, "item_size_max", settings.max_item);
    stat(reply, "num_threads", settings.threads);
    stat(reply, "evictions", if settings.evicts { "on" } else { "off" });
    stat(reply, "cas_enabled", "yes");
    stat(reply, "client_flags_size", size_of::<u32>());
    stat(reply, "detail_enabled", "no");
    stat(reply, "dump_enabled", "no");
    stat(reply, "auth_enabled_ascii", yes(settings.auth_file.is_some()));
    stat(reply, "flush_enabled", yes(settings.allows_flush));
    stat(reply, "shutdown_command", yes(settings.allows_shutdown));
    stat(reply, "idle_timeout", settings.idle_timeout.as_secs());
    stat(reply, "ssl_enabled", yes(settings.tls.is_some()));
    stat(reply, "binding_protocol", "ascii");
    stat(reply, "eviction_policy", settings.eviction.name());
    stat(reply, "durability", settings.durability);
    stat(reply, "hot_items_maxbytes", settings.hot_items);
    stat(reply, "storage", shared.items.storage.name());
}

/// Returns the addresses that are listened on.
fn inter(settings: &ServerSettings) -> String {
    match settings.socket {
        Some(_) => "NULL".to_owned(),
        None => {
            let addresses: Vec<_> = settings.listen.iter().map(SocketAddr::to_string).collect();
            addresses.join(",")
        }
    }
}

fn items(shared: &Shared, reply: &mut Vec<u8>) -> Result<()> {
    let (count, bytes) = shared.items.amounts();
    if count > 0 {
        stat(reply, "items:1:number", count);
        stat(reply, "items:1:mem_requested", bytes);
        stat(reply, "items:1:evicted", shared.items.counters.evictions.get());
        stat(
            reply,
            "items:1:outofmemory",
            shared.items.counters.store_no_memory.get(),
        );
    }
    Ok(())
}

/// Appends the reply to `stats slabs`. All items are in one class, as records have the sizes that they need.
fn slabs(shared: &Shared, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    let (count, bytes) = shared.items.amounts();
    if count > 0 {
        stat(reply, "1:used_chunks", count);
        stat(reply, "1:mem_requested", bytes);
        for (name, counter) in [
            ("get_hits", &counters.get_hits),
            ("cmd_set", &counters.cmd_set),
            ("delete_hits", &counters.delete_hits),
            ("incr_hits", &counters.incr_hits),
            ("decr_hits", &counters.decr_hits),
            ("cas_hits", &counters.cas_hits),
            ("cas_badval", &counters.cas_badval),
            ("touch_hits", &counters.touch_hits),
        ] {
            stat(reply, &format!("1:{name}"), counter.get());
        }
    }
    stat(reply, "active_slabs", u64::from(count > 0));
    stat(reply, "total_malloced", shared.items.storage.stats().pool_bytes);
}

/// Appends the latencies of commands in the server: percentiles, and numbers in powers of two of
/// microseconds.
fn latency(shared: &Shared, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    let mut histogram = |name: &str, histogram: &Histogram| {
        for percent in [50.0, 99.0, 99.9] {
            if let Some(micros) = histogram.percentile(percent) {
                stat(
                    reply,
                    &format!("{name}_p{percent}_us"),
                    format_args!("{micros:.2}"),
                );
            }
        }
        for (bound, count) in histogram.powers().filter(|(_, count)| *count > 0) {
            stat(reply, &format!("{name}_below_{bound}us"), count);
        }
    };
    histogram("read", &counters.reads);
    histogram("write", &counters.writes);
}
