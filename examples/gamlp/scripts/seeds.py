#!/usr/bin/env python3
"""Trains gamlp_dst with several seeds and prints mean and deviation of its accuracy.

    cargo build --release -p gamlp --example gamlp_dst
    examples/gamlp/scripts/seeds.py --seeds 10 target/release/examples/gamlp_dst \\
        --case dense="--mode dense" --case sparse="--sparsity 0.9" -- --data cora --epochs 100

Options after `--` go to every run, those of a case to its runs alone. `--json FILE` keeps what every run reached. Accuracies are those of the epoch of the last
stage that was the best on the validation nodes; the deviation is that of a sample. Needs nothing but Python.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def best_epoch(log):
    """The line of the last stage with the highest validation accuracy, the first one if there are several."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    stage = lines[-1]["stage"]
    measured = [line for line in lines if line["stage"] == stage and "valid_accuracy" in line]
    return max(measured, key=lambda line: line["valid_accuracy"])


def run(program, options, seed, folder):
    """One run; returns the line of its best epoch."""
    out = Path(folder) / "run"
    command = [program, *options, "--seed", str(seed), "--out", str(out), "--overwrite", "--quiet"]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        sys.exit(f"{shlex.join(command)}\nended with code {finished.returncode}: {finished.stderr.strip()}")
    return best_epoch(out / "log.jsonl")


def row(seed, line):
    """What a run reached at its best epoch; an accuracy that was not measured is left out."""
    kept = ("epoch", "valid_accuracy", "test_accuracy", "density")
    return {"seed": seed} | {key: line[key] for key in kept if key in line}


def spread(values):
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4f} +- {deviation:.4f}"


def main():
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    common = arguments[split + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="path of gamlp_dst")
    parser.add_argument("--case", action="append", metavar='NAME="OPTIONS"', help="may be repeated")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0, 1, ... [default: 10]")
    parser.add_argument("--json", metavar="FILE", type=Path, help="file for the results of every run")
    args = parser.parse_args(arguments[:split])
    if args.seeds < 1:
        parser.error("--seeds must be at least 1")
    cases = [case.split("=", 1) for case in args.case or ["default="]]
    if any(len(case) != 2 for case in cases):
        parser.error('a --case is NAME="OPTIONS"')

    found = []
    print(f"{'case':<16} {'seeds':>5}  {'validation':<17}  {'test':<17}  density")
    with tempfile.TemporaryDirectory() as folder:
        for name, options in cases:
            lines = [run(args.program, common + shlex.split(options), seed, folder) for seed in range(args.seeds)]
            valid = spread([line["valid_accuracy"] for line in lines])
            # Absent where --eval-parts leaves it out.
            measured = [line["test_accuracy"] for line in lines if "test_accuracy" in line]
            test = spread(measured) if measured else "-"
            print(f"{name:<16} {args.seeds:>5}  {valid:<17}  {test:<17}  {lines[-1]['density']:.4f}", flush=True)
            rows = [row(seed, line) for seed, line in enumerate(lines)]
            found.append({"case": name, "options": options, "runs": rows})
    if args.json:
        args.json.write_text(json.dumps({"options": shlex.join(common), "cases": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
