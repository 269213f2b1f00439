//! Which routines a device has, asked of the device.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::tensor::Device;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use super::{Backend, Case, floats, panic_text, tensor2};

/// Every routine of the products, and whether it must, may or cannot exist on a back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Present,
    /// Made of instructions that some devices lack.
    Optional,
    Absent,
}

/// The routines of `spmm` that run on this device.
///
/// # Panics
///
/// If a routine that the back end must have is missing, if one that it cannot have runs, or if a
/// refusal does not name its routine.
pub fn spmm(backend: &Backend) -> Vec<Routines> {
    let all = spmm_routines(backend, Expected::Absent);
    present(backend, all.into_iter(), |a, x, _| floats(&a.spmm(x)))
}

/// As [`spmm`], for the transposed product.
pub fn spmm_transposed(backend: &Backend) -> Vec<Routines> {
    let all = spmm_routines(backend, cooperating_cubes(backend));
    present(backend, all.into_iter(), |a, _, y| {
        floats(&a.spmm_transposed(y))
    })
}

fn spmm_routines(backend: &Backend, scatter: Expected) -> Vec<(Routines, &'static str, Expected)> {
    let all = SpmmRoutine::ALL.iter().map(|&spmm| {
        let expected = match spmm {
            SpmmRoutine::Auto | SpmmRoutine::Estimated | SpmmRoutine::Composed => Expected::Present,
            SpmmRoutine::HostRows => host_only(backend),
            SpmmRoutine::RowUnit => cube_only(backend),
            SpmmRoutine::Panel
            | SpmmRoutine::RowBlock
            | SpmmRoutine::RowTile
            | SpmmRoutine::RowVector => cooperating_cubes(backend),
            SpmmRoutine::RowScatter => scatter,
            SpmmRoutine::CooAtomic | SpmmRoutine::RowPlane | SpmmRoutine::RowStaged => {
                instruction(backend)
            }
        };
        (
            Routines {
                spmm,
                ..Default::default()
            },
            spmm.name(),
            expected,
        )
    });
    all.collect()
}

/// As [`spmm`], for the sampled product.
pub fn sddmm(backend: &Backend) -> Vec<Routines> {
    let all = SddmmRoutine::ALL.iter().map(|&sddmm| {
        let expected = match sddmm {
            SddmmRoutine::Auto | SddmmRoutine::Estimated | SddmmRoutine::Composed => {
                Expected::Present
            }
            SddmmRoutine::HostRows => host_only(backend),
            SddmmRoutine::OuterProduct => cube_only(backend),
            SddmmRoutine::Panel
            | SddmmRoutine::RowBlock
            | SddmmRoutine::RowTile
            | SddmmRoutine::RowVector => cooperating_cubes(backend),
        };
        (
            Routines {
                sddmm,
                ..Default::default()
            },
            sddmm.name(),
            expected,
        )
    });
    present(backend, all, |a, x, y| floats(a.sddmm(y, x).values()))
}

fn host_only(backend: &Backend) -> Expected {
    match backend.is_cube() {
        true => Expected::Absent,
        false => Expected::Present,
    }
}

fn cube_only(backend: &Backend) -> Expected {
    match backend.is_cube() {
        true => Expected::Present,
        false => Expected::Absent,
    }
}

/// The CPU runtime runs as many units of a cube together as there are cores.
fn cooperating_cubes(backend: &Backend) -> Expected {
    match backend.name {
        "cpu" => Expected::Optional,
        _ => cube_only(backend),
    }
}

/// CUDA has both atomic additions and planes; elsewhere the device decides.
fn instruction(backend: &Backend) -> Expected {
    match backend.name {
        "flex" => Expected::Absent,
        "cuda" => Expected::Present,
        _ => Expected::Optional,
    }
}

type Operand = burn::tensor::Tensor<2>;

fn present(
    backend: &Backend,
    all: impl Iterator<Item = (Routines, &'static str, Expected)>,
    run: impl Fn(SparseTensor, Operand, Operand) -> Vec<f64>,
) -> Vec<Routines> {
    let mut found = Vec::new();
    for (routines, name, expected) in all {
        let device = &backend.device;
        let runs = refusal(device, routines, name, &run).is_none();
        let text = format!("routine `{name}` on {}", backend.name);
        match expected {
            Expected::Present => assert!(runs, "{text} must exist"),
            Expected::Absent => assert!(!runs, "{text} must be refused"),
            Expected::Optional if !runs => eprintln!("{text}: not available"),
            Expected::Optional => {}
        }
        if runs {
            found.push(routines);
        }
    }
    found
}

/// The text by which a device refuses a routine. Any other panic goes on.
fn refusal(
    device: &Device,
    routines: Routines,
    name: &str,
    run: impl Fn(SparseTensor, Operand, Operand) -> Vec<f64>,
) -> Option<String> {
    let case = Case::random([3, 4], 6, &mut ChaCha8Rng::seed_from_u64(1));
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let x = tensor2(&[1.0; 8], [2, 4], device);
        let y = tensor2(&[1.0; 6], [2, 3], device);
        run(case.sparse(device).with_routines(routines), x, y)
    }));
    let payload = attempt.err()?;
    let text = panic_text(payload);
    let known = text.contains("does not exist on this back end")
        || text.contains("which this device does not have")
        || text.contains("computes only the transposed product");
    if !(known && text.contains(&format!("routine `{name}`"))) {
        resume_unwind(Box::new(text));
    }
    Some(text)
}
