//! Options of memcached that tune what is not there, such as slab classes. They are accepted, so that a
//! command line of memcached can be used unchanged, and have no effect.

use clap::{ArgAction, Args};

/// Options without an effect.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct IgnoredArgs {
    /// User to run as. Start the server as that user.
    #[arg(short = 'u', long, hide = true)]
    user: Option<String>,
    /// Growth of the sizes of slab classes.
    #[arg(short = 'f', long = "slab-growth-factor", hide = true)]
    growth: Option<String>,
    /// Least size of an item.
    #[arg(short = 'n', long = "slab-min-size", hide = true)]
    least: Option<String>,
    /// Large pages.
    #[arg(short = 'L', long = "enable-largepages", hide = true)]
    large_pages: bool,
    /// Requests of a connection before it is the turn of another one.
    #[arg(short = 'R', long = "max-reqs-per-event", hide = true)]
    requests: Option<String>,
    /// Connections that the system keeps waiting.
    #[arg(short = 'b', long = "listen-backlog", hide = true)]
    backlog: Option<String>,
    /// Items without cas values.
    #[arg(short = 'C', long = "disable-cas", hide = true)]
    no_cas: bool,
    /// Memory that is not paged out.
    #[arg(short = 'k', long = "lock-memory", hide = true)]
    locked: bool,
    /// Core dumps without a limit.
    #[arg(short = 'r', long = "enable-coredumps", hide = true)]
    core_dumps: bool,
    /// Say more. Set HALOCLINE_LOG=debug.
    #[arg(short = 'v', action = ArgAction::Count, hide = true)]
    verbose: u8,
}

impl IgnoredArgs {
    /// Warns of the options that are there. `-v` changes nothing that a client could notice.
    pub(super) fn warn(&self) {
        if self.user.is_some() {
            tracing::warn!("the option -u is ignored: start the server as that user");
        }
        for (name, is_there) in [
            ("-f", self.growth.is_some()),
            ("-n", self.least.is_some()),
            ("-L", self.large_pages),
            ("-R", self.requests.is_some()),
            ("-b", self.backlog.is_some()),
            ("-C", self.no_cas),
            ("-k", self.locked),
            ("-r", self.core_dumps),
        ] {
            if is_there {
                tracing::warn!("the option {name} is ignored");
            }
        }
    }
}
