//! Which routine computed the newest product: what an automatic choice came to.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::SpmmRoutine;

/// Place in [`SpmmRoutine::ALL`] of the newest one, from 1.
static NEWEST: AtomicUsize = AtomicUsize::new(0);

/// The routine of the newest product of this process, transposed or not, on any device: where the choice is
/// [`Auto`](SpmmRoutine::Auto) or [`Estimated`](SpmmRoutine::Estimated), the one that it came to.
/// `None` before the first product.
///
/// For reports: under fusion a product is computed when a result is read, and a replayed graph chooses
/// nothing, so ask after a pass that was run and waited for. Products of empty matrices have no
/// routine.
pub fn newest_product() -> Option<SpmmRoutine> {
    let place = NEWEST.load(Ordering::Relaxed);
    SpmmRoutine::ALL.get(place.checked_sub(1)?).copied()
}

/// Says that a routine computes a product.
pub(crate) fn note_product(routine: SpmmRoutine) {
    let place = SpmmRoutine::ALL.iter().position(|&known| known == routine);
    NEWEST.store(place.map_or(0, |place| place + 1), Ordering::Relaxed);
}
