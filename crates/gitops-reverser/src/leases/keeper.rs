//! Does what a claim says, and tells those who write under it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio_util::sync::CancellationToken;

use super::LeaseSettings;
use super::boot_time::BootTime;
use super::claim::{Claim, Move};
use super::document::{Entry, LeaseError, LeaseSlot, document_of};
use super::hold::{Hold, Standing, Wish};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::LeaseFailed;

/// Keeps one lease.
pub(super) struct Keeper {
    slot: LeaseSlot,
    claim: Claim,
    settings: LeaseSettings,
    hold: Arc<Hold>,
    telemetry: Telemetry,
    /// When another was last seen to have the lease, or to want it.
    contended: Option<BootTime>,
    /// How often in a row it could not be looked at.
    failures: u32,
}

/// So long after that a lease is looked at often: who shares a branch takes turns quickly.
const CONTENDED: Duration = Duration::from_mins(1);

impl Keeper {
    pub(super) fn new(
        slot: LeaseSlot,
        claim: Claim,
        settings: LeaseSettings,
        hold: Arc<Hold>,
        telemetry: Telemetry,
    ) -> Self {
        Self {
            slot,
            claim,
            settings,
            hold,
            telemetry,
            contended: None,
            failures: 0,
        }
    }

    /// Until it is told to end; then it lets go of what it holds.
    pub(super) async fn run(mut self, end: CancellationToken) {
        loop {
            let wait = self.look().await;
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.hold.news.notified() => {}
                () = end.cancelled() => break,
            }
        }
        if self.claim.held_until(BootTime::now()).is_some() {
            self.release().await;
        }
    }

    /// Looks once, and acts; tells how long to wait for the next look.
    async fn look(&mut self) -> Duration {
        let mut result = self.step().await;
        // Somebody was faster: what is true now is a question away.
        if matches!(result, Err(LeaseError::Conflict)) {
            result = self.step().await;
        }
        let now = BootTime::now();
        let held = self.claim.held_until(now);
        let standing = match (&result, held, self.claim.other_holder()) {
            (_, Some(_), _) => Standing::Held,
            (Err(error), None, _) if !matches!(error, LeaseError::Conflict) => {
                Standing::Unavailable(format!("the Lease {}: {error}", self.slot.place()))
            }
            (_, None, Some(other)) => Standing::HeldBy(other.to_owned()),
            (_, None, None) => Standing::Free,
        };
        self.hold.set(held, standing);
        if let Err(error) = &result {
            self.telemetry.emit(LeaseFailed {
                worker: self.slot.name(),
                reason: &error.to_string(),
            });
        }
        if self.claim.is_contended() {
            self.contended = Some(now);
        }
        let alone = self
            .contended
            .is_none_or(|then| now.since(then) > CONTENDED);
        self.failures = match &result {
            Ok(()) | Err(LeaseError::Conflict) => 0,
            Err(_) => self.failures.saturating_add(1),
        };
        match (result, held) {
            (Ok(()), Some(_)) if alone => self.settings.renew,
            (Ok(()), None) if self.hold.wish() != Wish::Write => self.settings.renew,
            _ => self.settings.look_after(self.failures),
        }
    }

    async fn step(&mut self) -> Result<(), LeaseError> {
        let lease = self.slot.read().await?;
        let document = lease.as_ref().map(document_of);
        let (wish, writing) = (self.hold.wish(), self.hold.is_writing());
        let begun = BootTime::now();
        let mut next = self
            .claim
            .decide(document, wish == Wish::Write, writing, begun);
        if wish == Wish::Nothing && !writing {
            next = match next {
                Move::Take => Move::Yield,
                Move::Create => Move::Wait,
                next => next,
            };
        }
        match (next, lease) {
            (Move::Create, _) => {
                let (identity, length) = (self.claim.identity(), self.settings.length);
                let lease = self.slot.create(identity, length).await?;
                self.claim.taken(document_of(&lease), begun);
            }
            (Move::Take, Some(lease)) => {
                let entry = Entry::Holder(self.claim.identity(), self.settings.length);
                let lease = self.slot.write(lease, &entry).await?;
                self.claim.taken(document_of(&lease), begun);
            }
            (Move::Ask, Some(lease)) => {
                let entry = Entry::Asker(self.claim.identity());
                self.slot.write(lease, &entry).await?;
            }
            (Move::Yield, Some(lease)) => self.let_go(lease).await?,
            (Move::Wait, _) | (_, None) => {}
        }
        Ok(())
    }

    /// Nobody writes any more when the first word of it leaves.
    async fn let_go(&mut self, lease: Lease) -> Result<(), LeaseError> {
        if self.hold.take_away() {
            self.claim.let_go();
            self.slot.write(lease, &Entry::Nobody).await?;
        }
        Ok(())
    }

    async fn release(&mut self) {
        self.hold.set(None, Standing::Free);
        self.claim.let_go();
        // Somebody who asks for a turn at this very moment is worth a second try.
        for _ in 0..2 {
            let Ok(Some(lease)) = self.slot.read().await else {
                return;
            };
            if document_of(&lease).holder.as_deref() != Some(self.claim.identity()) {
                return;
            }
            match self.slot.write(lease, &Entry::Nobody).await {
                Err(LeaseError::Conflict) => {}
                _ => return,
            }
        }
    }
}
