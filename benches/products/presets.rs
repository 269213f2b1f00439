//! Named lists of problems.

use clap::ValueEnum;

use super::problems::{Grid, Op, Precision, Problem, Size};

/// A list of problems with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// SNACK, table 2: squares of 500 to 10000, sparsity 0.95, batch 1.
    Table2,
    /// SNACK, table 11: six squares of 500 to 10000, sparsity 0.95, batch 1.
    Table11,
    /// SNACK, table 12: the squares of table 11 at batch 4.
    Table12,
    /// The linear layers of GPT-2 small, decoding and training.
    Gpt2,
    /// Every row for which `benches/targets.json` has a target on a GPU.
    Targets,
    /// Every row for which it has one on the CPU.
    TargetsCpu,
}

pub const ALL_OPS: [Op; 5] = [
    Op::Spmm,
    Op::SpmmTransposed,
    Op::Sddmm,
    Op::Forward,
    Op::Step,
];
pub const SPARSITIES: [f64; 3] = [0.9, 0.95, 0.99];

impl Preset {
    /// The grids of the preset. Their union has no problem twice.
    pub fn grids(self) -> Vec<Grid> {
        let squares = |sizes: &[usize]| sizes.iter().map(|&n| Size([n, n])).collect();
        let table = |sizes: &[usize], batch| {
            vec![Grid {
                ops: vec![Op::Spmm],
                sizes: squares(sizes),
                sparsities: vec![0.95],
                batches: vec![batch],
                dtypes: vec![Precision::F32],
            }]
        };
        const SIX: [usize; 6] = [500, 1000, 5000, 7500, 8500, 10000];
        match self {
            Self::Table2 => table(&[500, 1000, 5000, 10000], 1),
            Self::Table11 => table(&SIX, 1),
            Self::Table12 => table(&SIX, 4),
            Self::Gpt2 => vec![Grid {
                ops: ALL_OPS.to_vec(),
                sizes: [[768, 768], [768, 3072], [3072, 768], [2304, 768]]
                    .map(Size)
                    .to_vec(),
                sparsities: SPARSITIES.to_vec(),
                batches: vec![1, 128, 1024, 8192],
                dtypes: vec![Precision::F32],
            }],
            Self::Targets => targets(),
            Self::TargetsCpu => vec![Grid {
                ops: vec![Op::Forward, Op::Step],
                sizes: squares(&[4096]),
                sparsities: vec![0.9, 0.99],
                batches: vec![1, 4, 16, 64],
                dtypes: vec![Precision::F32],
            }],
        }
    }
}

fn targets() -> Vec<Grid> {
    use Precision::{Bf16, F32};
    let grid =
        |ops: &[Op], size, sparsities: &[f64], batches: &[usize], dtypes: &[Precision]| Grid {
            ops: ops.to_vec(),
            sizes: vec![Size([size, size])],
            sparsities: sparsities.to_vec(),
            batches: batches.to_vec(),
            dtypes: dtypes.to_vec(),
        };
    let products = [Op::Spmm, Op::SpmmTransposed];
    let n = 10000;
    vec![
        grid(&products, n, &[0.9], &[1, 1024, 4096], &[F32]),
        grid(
            &products,
            n,
            &[0.95],
            &[1, 4, 8, 16, 32, 1024, 4096],
            &[F32],
        ),
        grid(&products, n, &[0.99], &[1, 64, 256, 4096], &[F32]),
        grid(&products, n, &[0.9, 0.95], &[1024, 4096], &[Bf16]),
        grid(&[Op::Sddmm], n, &[0.95], &[1, 4, 16, 64, 4096], &[F32]),
        grid(&[Op::Sddmm], n, &[0.95], &[4096], &[Bf16]),
        grid(&[Op::Step], n, &SPARSITIES, &[1, 4], &[F32]),
        grid(&[Op::Spmm], 5000, &[0.95], &[1], &[F32]),
    ]
}

/// Problems of one matrix next to each other, so that it is drawn once.
pub fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    let key = |p: &Problem| (p.m, p.k, p.nnz, p.batch, p.dtype as u8, p.op as u8);
    problems.sort_by_key(key);
    problems.dedup_by_key(|problem| key(problem));
    problems
}
