//! Times the sparse products, layers and training steps through the public API, checks their
//! results, and compares them with Burn's own dense product and the dense product under a mask.
//!
//! See `benches/README.md`. `cargo bench --bench products -- --help` lists the options.

mod args;
mod check;
#[path = "../common/device.rs"]
mod device;
mod failure;
mod floor;
mod layer;
mod methods;
mod operands;
mod presets;
mod problems;
mod report;
mod timing;

use std::process::ExitCode;
use std::time::Instant;

use burn::tensor::{Device, Tensor};
use clap::Parser;

use args::Args;
use check::Sample;
use device::DeviceName;
use failure::caught;
use floor::{Ceilings, bytes};
use layer::{Output, Weight};
use methods::{Method, Run, call};
use operands::{Operands, Weights};
use problems::{Op, Problem};
use report::{Report, Row, check_writable, today, write_json};
use timing::Timer;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("products: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let problems = args.problems()?;
    if args.list {
        if let Some(file) = &args.json {
            write_json(file, &problems)?;
        }
        problems.iter().for_each(|problem| println!("{problem}"));
        return Ok(());
    }
    let device = args.device.device()?;
    if let Some(file) = &args.json {
        check_writable(file)?;
    }
    let timer = Timer::new(&device, args.device == DeviceName::Cuda, args.quick);
    let (ceilings, text) = Ceilings::new(args, &device, &timer);
    println!("device {device:?}; floor: {text}");

    let mut report = Report::new(args.json.clone());
    failure::silence();
    let (begin, budget) = (Instant::now(), args.budget_s.unwrap_or(f64::INFINITY));
    let mut left_out = Vec::new();
    let mut weights = None;
    for problem in &problems {
        if begin.elapsed().as_secs_f64() > budget {
            left_out.push(problem);
            continue;
        }
        let known = weights.take().filter(|known| Weights::fit(known, problem));
        let weights = match known {
            Some(known) => weights.insert(known),
            None => {
                let draw = || Weights::draw(problem, args.baselines, args.seed, &device);
                weights.insert(caught(draw)?)
            }
        };
        let operands = caught(|| Operands::draw(problem, args.seed, &device));
        let bytes = bytes(problem, args.device);
        for method in methods(args, problem.op)? {
            let mut row = Row {
                problem: problem.clone(),
                method: method.name(),
                device_us: None,
                wall_us: None,
                err: None,
                floor_us: ceilings.floor_us(problem, bytes),
                bytes,
                device: format!("{} {device:?}", args.device.name()),
                date: today(),
                fail: None,
                note: None,
            };
            let measured = operands.clone().and_then(|operands| {
                caught(|| {
                    let weight = Weight::new(&method, weights, problem);
                    measure(
                        problem, &method, weight, &operands, weights, &timer, &mut row,
                    );
                })
            });
            row.fail = measured.err();
            report.push(row)?;
        }
    }
    report.finish()?;
    if !left_out.is_empty() {
        println!("left out for want of time: {}", left_out.len());
        left_out.iter().for_each(|problem| println!("  {problem}"));
    }
    Ok(())
}

fn methods(args: &Args, op: Op) -> Result<Vec<Method>, String> {
    let mut methods: Vec<_> = args
        .routines(op)?
        .into_iter()
        .map(|(name, routines)| Method::Snack(name, routines))
        .collect();
    if args.baselines {
        methods.extend([Method::BurnDense, Method::BurnMasked]);
    }
    Ok(methods)
}

/// Checks the method on sampled elements, then times it.
fn measure(
    problem: &Problem,
    method: &Method,
    weight: Weight,
    operands: &Operands,
    weights: &Weights,
    timer: &Timer,
    row: &mut Row,
) {
    let sample = Sample::draw(problem, weights.sparse.pattern(), 7);
    poison(problem, &operands.x.device());
    let call = call(problem.op, method, weight.clone(), operands);
    let error = |output: &Output| sample.error(problem, &weight, operands, output);
    let checked = call(Run::Check);
    let mut err = checked.last().map_or(f64::INFINITY, error);
    drop(checked);
    let times = timer.time(&call);
    if let Some(replayed) = &times.replayed {
        err = err.max(error(replayed));
    }
    assert!(err.is_finite(), "an element of the output is not a number");
    row.err = Some(err);
    row.device_us = times.device_us;
    row.wall_us = Some(times.wall_us);
    row.note = times.note;
}

/// Leaves NaN in memory of the sizes that the outputs will take, so that one that a kernel does
/// not write cannot pass for one that an earlier method wrote.
fn poison(problem: &Problem, device: &Device) {
    let Problem {
        m, k, nnz, batch, ..
    } = *problem;
    let dtype = problem.dtype.dtype();
    for length in [batch * m, batch * k, nnz] {
        drop(Tensor::<1>::full([length], f32::NAN, (device, dtype)));
    }
    device.sync().expect("the device finishes its work");
}
