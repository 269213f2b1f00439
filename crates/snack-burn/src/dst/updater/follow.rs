//! One plan for all ranks.

use crate::dist::{Communicator, DistError, Reader, Writer};
use crate::dst::{Plan, Source};
use crate::pattern::Pattern;

const OPERATION: &str = "adopt plans";

/// The plans of rank 0 for layers whose patterns are `before` on every rank.
///
/// All ranks plan from the same numbers by the same rule, but devices that chose other kernels round
/// scores otherwise, which can decide between two coordinates of nearly the same score.
pub(super) fn adopt_plans(
    ranks: &dyn Communicator,
    before: &[&Pattern],
    plans: Vec<Plan>,
) -> Result<Vec<Plan>, DistError> {
    if ranks.ranks() == 1 {
        return Ok(plans);
    }
    let bytes = match ranks.rank() {
        0 => {
            let mut writer = Writer::default();
            plans.iter().for_each(|plan| write(plan, &mut writer));
            writer.into_bytes()
        }
        _ => Vec::new(),
    };
    let mut messages = ranks.all_gather(OPERATION, bytes)?;
    if ranks.rank() == 0 {
        return Ok(plans);
    }
    let bytes = messages.swap_remove(0);
    let mut reader = Reader::new(&bytes);
    let damaged = |reason: String| DistError::DamagedMessage {
        rank: 0,
        operation: OPERATION,
        reason,
    };
    let adopted: Result<Vec<_>, _> = before
        .iter()
        .map(|pattern| read(pattern, &mut reader).map_err(damaged))
        .collect();
    match reader.is_at_end() {
        true => adopted,
        false => Err(damaged(format!("it has more than {} plans", before.len()))),
    }
}

fn write(plan: &Plan, writer: &mut Writer) {
    let mut stays = vec![false; plan.remap.old_len];
    for source in &plan.remap.source {
        if let Source::Old(slot) = source {
            stays[*slot as usize] = true;
        }
    }
    let leaves = (0u32..).zip(&stays).filter(|(_, stays)| !**stays);
    let leaves: Vec<_> = leaves.map(|(slot, _)| slot.to_le_bytes()).collect();
    let enters = plan.fresh_flats();
    writer.list(leaves.into_iter());
    writer.list(enters.iter().map(|flat| flat.to_le_bytes()));
    writer.number(plan.returned as u64);
    writer.list(plan.values.iter().map(|value| value.to_le_bytes()));
    writer.number(u64::from(plan.gradients.is_some()));
    let gradients = plan.gradients.as_deref().unwrap_or_default();
    writer.list(gradients.iter().map(|gradient| gradient.to_le_bytes()));
}

fn read(pattern: &Pattern, reader: &mut Reader<'_>) -> Result<Plan, String> {
    let cut = || "it ends too early".to_string();
    let leaves = reader.list().ok_or_else(cut)?.iter().copied();
    let leaves: Vec<u32> = leaves.map(u32::from_le_bytes).collect();
    let enters = reader.list().ok_or_else(cut)?.iter().copied();
    let enters: Vec<u64> = enters.map(u64::from_le_bytes).collect();
    let returned = reader.number().ok_or_else(cut)?;
    let values = reader.list().ok_or_else(cut)?.iter().copied();
    let values: Vec<f32> = values.map(f32::from_le_bytes).collect();
    let measured = reader.number().ok_or_else(cut)? == 1;
    let gradients = reader.list().ok_or_else(cut)?.iter().copied();
    let gradients: Vec<f32> = gradients.map(f32::from_le_bytes).collect();
    let plan = Plan::new(pattern, &leaves, &enters).map_err(|error| error.to_string())?;
    if values.len() != plan.grown || measured && gradients.len() != plan.grown {
        return Err(format!(
            "it has {} values for {} new connections",
            values.len(),
            plan.grown
        ));
    }
    Ok(Plan {
        returned: returned as usize,
        values,
        gradients: measured.then_some(gradients),
        ..plan
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::Threads;
    use std::thread;

    fn pattern() -> Pattern {
        Pattern::from_sorted_flats([3, 4], [0, 2, 5, 6, 11]).unwrap()
    }

    /// A plan with connections that leave, enter and return.
    fn plan(values: Vec<f32>) -> Plan {
        let plan = Plan::new(&pattern(), &[1, 3, 4], &[3, 6, 8]).unwrap();
        Plan {
            gradients: Some(vec![-1.0, f32::MIN_POSITIVE]),
            values,
            ..plan
        }
    }

    #[test]
    fn all_ranks_follow_the_first() {
        let before = pattern();
        let found: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = Threads::group(2)
                .into_iter()
                .map(|rank| {
                    let before = &before;
                    scope.spawn(move || {
                        let own = match rank.rank() {
                            0 => plan(vec![0.5, -0.0]),
                            _ => Plan::new(before, &[0, 1], &[1]).unwrap(),
                        };
                        adopt_plans(&rank, &[before], vec![own]).unwrap()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(found[0], [plan(vec![0.5, -0.0])]);
        assert_eq!(found[1], found[0]);
        assert_eq!(found[1][0].returned, 1);
    }

    #[test]
    fn a_plan_for_another_pattern_is_refused() {
        let mut writer = Writer::default();
        write(&plan(vec![0.5, 1.0]), &mut writer);
        let bytes = writer.into_bytes();
        let other = Pattern::from_sorted_flats([2, 4], [0, 2, 5, 6, 7]).unwrap();
        let error = read(&other, &mut Reader::new(&bytes)).unwrap_err();
        assert!(error.contains("flat index 8"), "{error}");
        let error = read(&pattern(), &mut Reader::new(&bytes[..40])).unwrap_err();
        assert_eq!(error, "it ends too early");
    }
}
