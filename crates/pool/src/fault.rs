//! Fault injection for the pool.

halocline_faults::faults! {
    /// Rules of the pool that a test can break.
    pub(crate) enum PoolFault {
        /// A publish overwrites the newer superblock.
        OverwriteNewest,
        /// Space is used again though a reader may see it.
        IgnoreReaders,
        /// Space is used again though the synced superblock names it.
        IgnoreSynced,
        /// The limbo list leaves out what the generation frees.
        ForgetLimbo,
        /// The limbo list says of all space that it is young.
        ForgetAge,
        /// The limbo list of a generation that a repair has published again is trusted.
        TrustOldList,
        /// The records with which a log begins are not flushed before it is published.
        PublishFirstRecordsEarly,
        /// The file is shortened before its superblocks say so.
        ShortenFirst,
        /// Space that was never published is used again though it is still read in this process.
        ForgetUnpublished,
        /// A reader does not look again, after its pin, whether the generation is still the newest.
        SkipSecondLook,
        /// A writer trusts that the superblocks it finds are durable.
        TrustSuperblocks,
        /// A sync writes its superblock before the data is durable.
        SyncSuperblockFirst,
        /// A writer whose publishes can tear starts from a generation of one whose could not, without a
        /// synced superblock for it.
        SkipSyncedBase,
        /// After power loss the newest superblock is trusted.
        TrustNewestAfterReboot,
        /// A publish names a log that holds records of the generation before.
        KeepFullLog,
        /// A publish does not draw new starts for its logs.
        KeepLogStart,
        /// The checksum of a record does not depend on the record before it.
        UnchainedRecords,
        /// Records of different handles are told apart by their payload only.
        SaltNothing,
        /// An append leaves what it finds of a lost record where it is going to store another.
        LeaveLostRecord,
        /// An append trusts that the records before it, which another handle may have stored, are durable.
        TrustLogTail,
        /// The count of a log is stored before its records are durable.
        CountBeforeFence,
        /// A sync stores the durable count of a log before the log is durable.
        CountBeforeSync,
        /// A count is taken for true though the power loss since may have taken the records.
        TrustSeenCount,
        /// A log is used again under another start though readers of its former one are left.
        RestartPinnedLog,
        /// A count of a log that says that records are missing is overlooked.
        IgnoreCount,
        /// A vacuum takes space that a reader may need.
        VacuumLimbo,
        /// A vacuum does not sync before it takes what the synced generation may name.
        VacuumUnsynced,
        /// A writer trusts that free space has blocks.
        TrustBlocks,
        /// A slab is published before its head is durable.
        UnflushedSlabHead,
        /// Power loss that may have torn the nodes of a slab is not noticed.
        TrustSlabAfterReboot,
        /// Nodes are stored to before the head durably says that power loss would harm them.
        MarkSlabLate,
        /// The head says that nodes are durable before they are.
        UnmarkSlabFirst,
        /// Nodes are stored to while the head says that their checksums hold.
        KeepSlabClosed,
        /// The head says that checksums of nodes hold before they are durable.
        SealUnfenced,
        /// A slab that is open is removed.
        RemoveOpenSlab,
        /// A slab uses a chunk that no generation names.
        UnpublishedChunk,
        /// A slab gives back chunks with nodes in use.
        GiveBackInUse,
        /// The space of a chunk is free before a generation without it is published.
        GiveBackUnpublished,
        /// Nodes after the durable frontier of a slab are handed out.
        FrontierNotStored,
        /// A slab grows while nodes are in doubt, and does not record it.
        GrowthNotRecorded,
        /// The reserve is completed with space that older generations name.
        ReserveFromLimbo,
        /// A generation lists the reserve as it was before its own directory took a part of it.
        ReserveListedEarly,
        /// Any transaction allocates from the reserve.
        SpendReserve,
        /// A vacuum removes the blocks of the reserve.
        VacuumReserve,
        /// A sync overlooks that its generation has been appended to since the last one.
        SkipLogSync,
    }
}
