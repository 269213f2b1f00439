//! The command line.

use std::path::PathBuf;

use clap::Parser;
use snack_burn::prelude::*;

use super::device::DeviceName;
use super::presets::{ALL_OPS, Preset, SPARSITIES, sorted};
use super::problems::{Grid, Op, Precision, Problem, Size};

/// Times the sparse products, layers and training steps of snack-burn on one device.
#[derive(Debug, Parser)]
#[command(name = "products")]
pub struct Args {
    /// Back end; all but flex need the feature of that name.
    #[arg(long, value_enum, default_value = "flex")]
    pub device: DeviceName,
    /// Named list of problems; the axes below replace those of a table, and filter those of targets.
    #[arg(long, value_enum)]
    pub preset: Option<Preset>,
    /// Operations [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    pub ops: Vec<Op>,
    /// Shapes of the weight, M or MxK [default: 1000].
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Sparsities [default: 0.9,0.95,0.99].
    #[arg(long, value_delimiter = ',')]
    pub sparsity: Vec<f64>,
    /// Batches [default: 1,4,16].
    #[arg(long, value_delimiter = ',')]
    pub batch: Vec<usize>,
    /// Data types of values and operands [default: f32].
    #[arg(long, value_enum, value_delimiter = ',')]
    pub dtype: Vec<Precision>,
    /// Routine, repeatable; `all` for every one; for `step` and `forward` also `<spmm>+<sddmm>`.
    #[arg(long, default_value = "auto")]
    pub routine: Vec<String>,
    /// Measures Burn's dense product and the dense product under a mask too.
    #[arg(long)]
    pub baselines: bool,
    /// Writes the rows, or with --list the problems, to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Fewer repetitions, for a look.
    #[arg(long)]
    pub quick: bool,
    /// Leaves out the problems that are not begun after so many seconds.
    #[arg(long, value_parser = positive)]
    pub budget_s: Option<f64>,
    /// Prints the problems and ends.
    #[arg(long)]
    pub list: bool,
    /// Memory bandwidth of the floor in GB/s [default: a measured copy on cuda, else no floor].
    #[arg(long, value_parser = positive)]
    pub bandwidth: Option<f64>,
    /// Bandwidth in GB/s for problems that fit the cache [default: as --bandwidth].
    #[arg(long, value_parser = positive)]
    pub cache_bandwidth: Option<f64>,
    /// Bytes that fit the cache, in MB.
    #[arg(long, default_value_t = 50.0, value_parser = positive)]
    pub cache_mb: f64,
    /// Multiply-add rate of the floor in TFLOP/s, two operations each [default: bytes only].
    #[arg(long, value_parser = positive)]
    pub tflops: Option<f64>,
    /// Seed of patterns and operands.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Given by cargo to every bench.
    #[arg(long, hide = true)]
    pub bench: bool,
}

impl Args {
    /// The problems of the preset or of the axes.
    ///
    /// # Errors
    ///
    /// Returns the text of the error of an impossible shape or sparsity, of a problem too large to
    /// hold, of a routine that does not exist, and of a selection that leaves nothing to measure.
    pub fn problems(&self) -> Result<Vec<Problem>, String> {
        let grids = match self.preset {
            Some(preset) => preset.grids(),
            None => vec![Grid {
                ops: ALL_OPS.to_vec(),
                sizes: vec![Size([1000, 1000])],
                sparsities: SPARSITIES.to_vec(),
                batches: vec![1, 4, 16],
                dtypes: vec![Precision::F32],
            }],
        };
        let filters = matches!(self.preset, Some(Preset::Targets | Preset::TargetsCpu));
        let mut problems = Vec::new();
        for mut grid in grids {
            if !filters {
                grid.ops = or_default(&self.ops, &grid.ops);
                grid.sizes = or_default(&self.sizes, &grid.sizes);
                grid.sparsities = or_default(&self.sparsity, &grid.sparsities);
                grid.batches = or_default(&self.batch, &grid.batches);
                grid.dtypes = or_default(&self.dtype, &grid.dtypes);
            }
            problems.extend(grid.problems()?);
        }
        problems.retain(|p| {
            is_asked(&self.ops, &p.op)
                && is_asked(&self.sizes, &Size([p.m, p.k]))
                && is_asked(&self.sparsity, &p.sparsity)
                && is_asked(&self.batch, &p.batch)
                && is_asked(&self.dtype, &p.dtype)
        });
        if problems.is_empty() {
            return Err(
                "no problems: the preset has none of those that were asked for".to_string(),
            );
        }
        let mut measured = self.baselines;
        for problem in &problems {
            self.check_size(problem)?;
            measured |= !self.routines(problem.op)?.is_empty();
        }
        if !measured {
            return Err("nothing to measure: no operation has any of the routines".to_string());
        }
        Ok(sorted(problems))
    }

    /// Refuses arrays whose elements need more than 31 bits to count.
    fn check_size(&self, problem: &Problem) -> Result<(), String> {
        let Problem { m, k, batch, .. } = *problem;
        let mut arrays = vec![("non-zeros", 1, problem.nnz)];
        arrays.push(("elements in an operand", batch, m.max(k)));
        if self.baselines {
            arrays.push(("elements in the dense weight", m, k));
        }
        for (what, a, b) in arrays {
            if a.checked_mul(b).is_none_or(|size| size > i32::MAX as usize) {
                let sparsity = problem.sparsity;
                return Err(format!(
                    "{m}x{k} at sparsity {sparsity} and batch {batch} has more than {} {what}",
                    i32::MAX
                ));
            }
        }
        Ok(())
    }

    /// The routines to measure on an operation, by name.
    ///
    /// # Errors
    ///
    /// Returns the names that exist if a name is no routine of any operation, and refuses a pair
    /// for an operation of one kind.
    pub fn routines(&self, op: Op) -> Result<Vec<(String, Routines)>, String> {
        let names = self.routine.iter().flat_map(|name| match name.as_str() {
            "all" => all_names(op),
            name => vec![name.to_string()],
        });
        let mut found: Vec<(String, Routines)> = Vec::new();
        for name in names {
            if let Some(routines) = parse(&name, op)?
                && found.iter().all(|(other, _)| *other != name)
            {
                found.push((name, routines));
            }
        }
        Ok(found)
    }
}

/// A rate, size or time that can be divided by.
fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|error| error.to_string())?;
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err("expected a finite number above zero".to_string()),
    }
}

fn or_default<T: Clone>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default } else { given }.to_vec()
}

fn is_asked<T: PartialEq>(given: &[T], value: &T) -> bool {
    given.is_empty() || given.contains(value)
}

fn all_names(op: Op) -> Vec<String> {
    let spmm = SpmmRoutine::ALL.iter().map(|routine| routine.to_string());
    let sddmm = SddmmRoutine::ALL.iter().map(|routine| routine.to_string());
    match op {
        Op::Sddmm => sddmm.collect(),
        Op::Spmm | Op::SpmmTransposed | Op::Forward => spmm.collect(),
        Op::Step => spmm.chain(sddmm).collect(),
    }
}

/// The routines that a name or a pair stands for; `None` if a name is no routine of `op`.
fn parse(name: &str, op: Op) -> Result<Option<Routines>, String> {
    let mut routines = Routines::default();
    if let Some((spmm, sddmm)) = name.split_once('+') {
        routines.spmm = (spmm.parse()).map_err(|error| format!("--routine {name}: {error}"))?;
        routines.sddmm =
            (sddmm.parse()).map_err(|error| format!("--routine {name}: sddmm: {error}"))?;
        return match op {
            Op::Forward | Op::Step => Ok(Some(routines)),
            _ => Err(format!(
                "--routine {name}: a pair is for --ops step,forward only"
            )),
        };
    }
    let (spmm, sddmm) = (name.parse::<SpmmRoutine>(), name.parse::<SddmmRoutine>());
    if let (Err(spmm), Err(sddmm)) = (&spmm, &sddmm) {
        return Err(format!("{spmm}; sddmm: {sddmm}"));
    }
    let applies = match op {
        Op::Sddmm => sddmm.is_ok(),
        Op::Spmm | Op::SpmmTransposed | Op::Forward => spmm.is_ok(),
        Op::Step => true,
    };
    routines.spmm = spmm.unwrap_or_default();
    routines.sddmm = sddmm.unwrap_or_default();
    Ok(applies.then_some(routines))
}
