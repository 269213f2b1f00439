#!/usr/bin/env python3
"""CPU peers of the host kernels: scipy.sparse and PyTorch in CSR, NumPy and PyTorch dense.

    pip install numpy scipy torch
    python3 benches/peers/cpu.py --threads 2 --json peers.json

Three products with a sparse W of shape [m, k]:

    spmm             Y = X W^T
    spmm_transposed  X = Y W
    sddmm            d = (Y^T X) at the non-zeros of W; the dense methods compute all of Y^T X

By default the sparse methods get what suits them best: dense operands are feature-major
([k, batch], contiguous) in and out, and the transposed product runs on a CSR copy of W^T that was
made before. `--layout batch` gives them the operands of a layer, [batch, k] in and [batch, m] out,
and times the conversions that this takes; snack-burn's own times always include them, and it has no
second copy of the values. scipy has no sampled product.

Every timed call returns a new array; the last of them is compared with a float64 product, and the
relative error in the Frobenius norm is written beside the time. The methods take turns in rounds of
several calls, since thread pools of different libraries that spin at the same time slow each other
down; reported is the median call of a method's best round.
"""

import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time

METHODS = ("scipy_csr", "torch_csr", "torch_dense", "numpy_dense")
OPS = ("spmm", "spmm_transposed", "sddmm")
TOLERANCE = 1e-5


def shape(text):
    sides = [int(side) for side in text.split("x")]
    if len(sides) > 2:
        raise ValueError
    return sides[0], sides[-1]


def parse_args():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    comma = lambda kind: lambda text: [kind(item) for item in text.split(",")]
    parser.add_argument("--sizes", type=comma(shape), default=[(4096, 4096)], help="M or MxK,..., default 4096")
    parser.add_argument("--sparsity", "--sparsities", type=comma(float), default=[0.9, 0.95, 0.99])
    parser.add_argument("--batch", "--batches", type=comma(int), default=[1, 4, 16, 64])
    parser.add_argument("--ops", type=comma(str), default=list(OPS), help=", ".join(OPS))
    parser.add_argument("--methods", type=comma(str), default=list(METHODS), help=", ".join(METHODS))
    parser.add_argument("--layout", choices=("feature", "batch"), default="feature")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5, help="turns of each method")
    parser.add_argument("--calls", type=int, default=20, help="timed calls of each turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", "--out", default="-", help="file, or - for standard output")
    args = parser.parse_args()
    for name, found, known in (("op", args.ops, OPS), ("method", args.methods, METHODS)):
        for item in found:
            if item not in known:
                parser.error(f"unknown {name} `{item}`, expected one of: {', '.join(known)}")
    return args


ARGS = parse_args()
# Thread pools read these when the libraries load.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(ARGS.threads)

import warnings  # noqa: E402

import numpy as np  # noqa: E402
import scipy.sparse  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(ARGS.threads)
warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")


class Problem:
    """A random W with exactly round((1 - sparsity) m k) non-zeros at uniform places."""

    def __init__(self, shape, sparsity, rng):
        self.shape, self.sparsity = shape, sparsity
        m, k = shape
        nnz = round((1.0 - sparsity) * m * k)
        flat = np.sort(rng.choice(m * k, nnz, replace=False))
        self.rows, self.cols = flat // k, flat % k
        values = rng.standard_normal(nnz, dtype=np.float32)
        self.csr = scipy.sparse.csr_matrix((values, (self.rows, self.cols)), shape=shape)
        self.csr_t = self.csr.T.tocsr()
        self.dense = self.csr.toarray()
        self.double = self.csr.astype(np.float64)
        self.torch_csr, self.torch_csr_t = as_torch(self.csr), as_torch(self.csr_t)
        self.torch_dense = torch.from_numpy(self.dense)


def as_torch(csr):
    offsets, cols = torch.from_numpy(csr.indptr.copy()), torch.from_numpy(csr.indices.copy())
    return torch.sparse_csr_tensor(offsets, cols, torch.from_numpy(csr.data.copy()), csr.shape)


def calls(op, problem, x, y):
    """The method name, a call without arguments, and what makes its result comparable."""
    p = problem
    if ARGS.layout == "feature":
        x_t, y_t = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
        numpy_out = torch_out = lambda result: result
        back = lambda result: np.asarray(result).T
    else:
        x_t, y_t = x.T, y.T
        numpy_out = lambda result: np.ascontiguousarray(result.T)
        torch_out = lambda result: result.T.contiguous()
        back = np.asarray
    tx, ty, tx_t, ty_t = (torch.from_numpy(a) for a in (x, y, x_t, y_t))
    if op == "spmm":
        return {
            "scipy_csr": (lambda: numpy_out(p.csr @ x_t), back),
            "torch_csr": (lambda: torch_out(torch.sparse.mm(p.torch_csr, tx_t)), back),
            "torch_dense": (lambda: tx @ p.torch_dense.T, np.asarray),
            "numpy_dense": (lambda: x @ p.dense.T, np.asarray),
        }
    if op == "spmm_transposed":
        return {
            "scipy_csr": (lambda: numpy_out(p.csr_t @ y_t), back),
            "torch_csr": (lambda: torch_out(torch.sparse.mm(p.torch_csr_t, ty_t)), back),
            "torch_dense": (lambda: ty @ p.torch_dense, np.asarray),
            "numpy_dense": (lambda: y @ p.dense, np.asarray),
        }
    sample = lambda dense: dense[p.rows, p.cols]
    sampled = lambda: torch.sparse.sampled_addmm(p.torch_csr, ty_t, tx, beta=0.0)
    return {
        "torch_csr": (sampled, lambda r: r.values().numpy()),
        "torch_dense": (lambda: ty.T @ tx, lambda r: sample(r.numpy())),
        "numpy_dense": (lambda: y.T @ x, sample),
    }


def reference(op, problem, x, y):
    x, y = x.astype(np.float64), y.astype(np.float64)
    if op == "spmm":
        return (problem.double @ x.T).T
    if op == "spmm_transposed":
        return (problem.double.T @ y.T).T
    return (y.T @ x)[problem.rows, problem.cols]


def measure(jobs):
    """Microseconds of the median call in the best round of each job, and its last result."""
    best, results = dict.fromkeys(jobs, math.inf), {}
    for _ in range(ARGS.rounds):
        for name, call in jobs.items():
            # The last spinning threads of the method before go to sleep.
            time.sleep(0.01)
            for _ in range(3):
                call()
            times = []
            for _ in range(ARGS.calls):
                start = time.perf_counter()
                results[name] = call()
                times.append(time.perf_counter() - start)
            best[name] = min(best[name], statistics.median(times) * 1e6)
    return best, results


def run(op, problem, batch, rng):
    (m, k), records = problem.shape, []
    x = rng.standard_normal((batch, k), dtype=np.float32)
    y = rng.standard_normal((batch, m), dtype=np.float32)
    available = calls(op, problem, x, y)
    jobs = {name: available[name][0] for name in ARGS.methods if name in available}
    for name in list(jobs):
        try:
            jobs[name]()
        except (RuntimeError, NotImplementedError) as error:
            print(f"{name} cannot run {op}: {str(error).splitlines()[0]}", file=sys.stderr)
            del jobs[name]
    expected = reference(op, problem, x, y)
    times, results = measure(jobs)
    for name, wall_us in times.items():
        found = available[name][1](results[name])
        error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        if not error < TOLERANCE:
            sys.exit(f"{name} computes {op} wrongly: relative error {error:.1e}")
        records.append({
            "op": op, "m": m, "k": k, "sparsity": problem.sparsity, "nnz": problem.csr.nnz,
            "batch": batch, "dtype": "f32", "method": name, "wall_us": round(wall_us, 2),
            "device_us": None, "err": float(f"{error:.2e}"), "floor_us": None,
            "device": f"cpu, {ARGS.threads} threads", "date": str(datetime.date.today()),
        })
        print(f"{op:16} {m}x{k} {problem.sparsity:<5} b={batch:<5} {name:12} {wall_us:10.1f} us", file=sys.stderr)
    return records


def main():
    rng = np.random.default_rng(ARGS.seed)
    records = []
    for shape in ARGS.sizes:
        for sparsity in ARGS.sparsity:
            problem = Problem(shape, sparsity, rng)
            for batch in ARGS.batch:
                for op in ARGS.ops:
                    records += run(op, problem, batch, rng)
    text = json.dumps(records, indent=1) + "\n"
    if ARGS.json == "-":
        sys.stdout.write(text)
    else:
        with open(ARGS.json, "w", encoding="utf-8") as file:
            file.write(text)


main()
