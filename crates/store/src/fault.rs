//! Fault injection for the stores.

halocline_faults::faults! {
    /// Rules of the stores that a test can break.
    pub(crate) enum StoreFault {
        /// The segments of a loaded store are not durable before the checkpoint that names them.
        LoadUnfenced,
        /// An older snapshot sees a store that has taken the place of another one.
        SeeReplacements,
        /// A commit is acknowledged before its frames are durable.
        AcknowledgeEarly,
        /// The trees show a commit before its frames are durable.
        ApplyEarly,
        /// Frames that wait for a later fence are not flushed before it.
        ForgetDeferred,
        /// The frames of a batch do not say that they belong together.
        TornBatch,
        /// Frames that an earlier use of a segment left are taken for those of the log.
        TrustOldFrames,
        /// The checksum of a frame is not verified.
        TrustFrames,
        /// A batch without its end stays in the log when stores are opened.
        KeepUnfinished,
        /// Frames of a process that was killed count as durable.
        TrustUnfenced,
        /// Entries of a leaf are not durable before its bitmap.
        BitmapFirst,
        /// A bitmap gives a slot to a new entry though the old bitmap still uses it.
        ReuseSlot,
        /// Pages are not durable before the checkpoint that names them.
        CheckpointFirst,
        /// The copies of a checkpoint are not durable one after the other.
        StoreCopiesTogether,
        /// A checkpoint starts the log before what its trees lack.
        SkipTail,
        /// Values that were changed in place are not written back before a checkpoint.
        ForgetDirty,
        /// A segment is used again before a checkpoint no longer needs it.
        FreeEarly,
        /// An expired key is taken out of its leaf before the checkpoint that does not count it.
        PurgeInPlace,
        /// A version is dropped though a snapshot sees it.
        IgnoreSnapshots,
        /// A moved record is not durable before its pointer changes.
        MoveUnfenced,
        /// The pointer to a record that was superseded since it was copied leads to the copy.
        MoveSuperseded,
        /// A copy of a record or of a chunk differs from it by a bit.
        ChangeCopied,
        /// A moved record takes the place of a newer one when the log is replayed.
        ReplayMoved,
        /// A checkpoint does not record the pages that it has allocated.
        ForgetAllocated,
        /// A later part of a catalog lacks the segments that have changed since the part before.
        ForgetChanged,
        /// A later part of a catalog is stored over the end of what the newest checkpoint names.
        OverwriteCatalog,
        /// Each checkpoint writes a whole catalog.
        RenewCatalog,
        /// A checkpoint does not carry the ranges on whose keys are not deleted yet.
        ForgetDeletedRanges,
        /// A new value of a key whose range is deleted does not say that the key was deleted before.
        OverwriteDeleted,
        /// A deletion is forgotten though the log before it is replayed.
        PurgeEarly,
        /// The writer does not look for readers in other processes.
        IgnoreReaders,
        /// Space that readers may read is used again without a change of the epoch.
        ReleaseSilently,
        /// Space is used again whenever a reader looks.
        MoveOn,
        /// A transaction commits without comparing what it has read.
        SkipValidation,
        /// A transaction does not compare what was committed while it was validated.
        ForgetRecent,
        /// A transaction does not look for keys that came into a range that it has scanned.
        SkipRanges,
        /// Expired records are returned.
        IgnoreExpiry,
        /// The chunks of a value are not kept when their segment is emptied.
        DropChunks,
        /// The unused ends of segments count as gain when these are emptied.
        IgnoreTails,
        /// An expired key is removed though a snapshot still sees it if the clock goes back.
        PurgeSeen,
        /// Segments are given back before a checkpoint no longer needs them.
        GiveBackEarly,
        /// The space of a dropped store is used again before a checkpoint no longer names the store.
        FreeDropped,
        /// The copy of an expired record counts as expired though a snapshot needs it.
        ExpireCopies,
        /// A transaction of the pool is committed without the batch of the stores.
        Undecided,
        /// The batch is whole in the log before the transaction of the pool is committed.
        EndEarly,
        /// Batches with values leave no segments for deletions and checkpoints.
        KeepNothing,
        /// A batch is decided before the commits before it are durable.
        DecideUnfenced,
        /// Opening does not look for a batch that was decided.
        ForgetDecided,
        /// Leaves are written as by programs of format 1: their checksum does not cover their place.
        UnplacedLeaves,
        /// A leaf of format 1 gets the checksum with its place where it is.
        PlaceInPlace,
        /// The stores keep format 1 although they have leaves of format 2.
        KeepVersion,
        /// The deletion of a hidden key is appended before the key is settled.
        DeleteUnsettled,
        /// Keys that are set in a deleted range are not noted.
        ForgetNewer,
        /// A range that a checkpoint has carried on counts as one without newer keys.
        TrustCarried,
        /// Scans read what deleted ranges hide.
        ReadHidden,
        /// The deletion that ranges owe a key has the commit of the newest of them.
        OweNewest,
        /// Keys of a leaf are not compared with its bounds.
        IgnoreBounds,
        /// The record of an entry is not compared with the entry and the store.
        TrustEntries,
        /// Frames of a batch that failed stay where they are.
        KeepTakenBack,
        /// Offsets are followed without a look at what is there.
        TrustOffsets,
        /// The process ends after the decision of a batch, before the end of the batch is in the log.
        DieDecided,
        /// The process ends when the batch is in the log, before a fence has made it durable.
        DieLogged,
        /// The process ends when the batch is durable, before anyone here sees it.
        DieFenced,
    }
}

/// Ends the process at once if a test has injected this fault.
#[inline(always)]
pub(crate) fn die_if(fault: StoreFault) {
    if injected(fault) {
        std::process::abort();
    }
}
