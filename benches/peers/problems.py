"""The problems of a run, and one of them on the device."""
import functools
import json
import math

import torch

KEYS = ("op", "m", "k", "sparsity", "nnz", "batch", "dtype")
OPS = ("spmm", "spmm_transposed", "sddmm", "forward", "step")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def add_arguments(parser):
    parser.add_argument("--problems", help="list written by the products bench: --list --json FILE; the axes below filter it")
    parser.add_argument("--ops", type=lambda text: text.split(","), help="default: all")
    parser.add_argument("--sizes", type=lambda text: [size(part) for part in text.split(",")], help="M or MxK, default 1000")
    parser.add_argument("--sparsity", type=lambda text: [float(part) for part in text.split(",")], help="default 0.9,0.95,0.99")
    parser.add_argument("--batch", type=lambda text: [int(part) for part in text.split(",")], help="default 1,4,16")
    parser.add_argument("--dtype", type=lambda text: text.split(","), help="default f32")


def size(text):
    parts = [int(part) for part in text.split("x")]
    return (parts[0], parts[-1])


def listed(arguments):
    """The problems that were asked for, those of one matrix next to each other."""
    if arguments.problems:
        with open(arguments.problems) as file:
            problems = [{key: row[key] for key in KEYS} for row in json.load(file)]
    else:
        problems = [
            dict(zip(KEYS, (op, m, k, sparsity, int((1 - sparsity) * m * k + 0.5), batch, dtype)))
            for m, k in arguments.sizes or [(1000, 1000)]
            for sparsity in arguments.sparsity or [0.9, 0.95, 0.99]
            for batch in arguments.batch or [1, 4, 16]
            for dtype in arguments.dtype or ["f32"]
            for op in arguments.ops or OPS
        ]
    asked = lambda values, value: not values or value in values
    problems = [
        p
        for p in problems
        if asked(arguments.ops, p["op"])
        and asked(arguments.sizes, (p["m"], p["k"]))
        and asked(arguments.sparsity, p["sparsity"])
        and asked(arguments.batch, p["batch"])
        and asked(arguments.dtype, p["dtype"])
    ]
    return sorted(problems, key=lambda p: (p["m"], p["k"], p["nnz"], p["batch"], p["dtype"], OPS.index(p["op"])))


class Weight:
    """A dense weight `[m, k]` without zeros, and uniformly random places of it, row by row."""

    def __init__(self, m, k, nnz, dtype):
        self.m, self.k, self.nnz = m, k, nnz
        torch.manual_seed(m * 7 + k * 3)
        self.dense = (torch.randn(m, k, device="cuda") / math.sqrt(max(nnz / m, 1.0))).to(dtype)
        torch.manual_seed(nnz)
        self.flat = torch.randperm(m * k, device="cuda")[:nnz].sort().values
        row, col = self.flat // k, self.flat % k
        self.values = self.dense.view(-1)[self.flat]
        self.offsets, self.cols = self.offsets_of(row, m), col.int()
        order = (col * m + row).argsort()
        self.column_offsets, self.rows_by_column = self.offsets_of(col, k), row[order].int()
        self.values_by_column = self.values[order]

    @staticmethod
    def offsets_of(lines, count):
        counts = torch.bincount(lines, minlength=count)
        return torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()

    @functools.cached_property
    def mask(self):
        mask = torch.zeros_like(self.dense)
        mask.view(-1)[self.flat] = 1
        return mask


class Case:
    """A problem with its operands; `x` is [batch, k], `y` is [batch, m]."""

    def __init__(self, problem, weight):
        self.problem, self.weight, self.op = problem, weight, problem["op"]
        self.batch, self.dtype = problem["batch"], DTYPES[problem["dtype"]]
        torch.manual_seed(self.batch)
        random = lambda *shape: torch.randn(*shape, device="cuda").to(self.dtype)
        self.x, self.y, self.bias = random(self.batch, weight.k), random(self.batch, weight.m), random(weight.m)

    @functools.cached_property
    def dense_reference(self):
        return self.reference(self.weight.dense.double())

    @functools.cached_property
    def sparse_reference(self):
        """Of the products under the mask; for weight gradients the elements at the non-zeros."""
        return self.reference(self.weight.dense.double() * self.weight.mask)

    def reference(self, weight):
        x, y = self.x.double(), self.y.double()
        if self.op == "spmm":
            return x @ weight.t()
        if self.op == "forward":
            return x @ weight.t() + self.bias.double()
        if self.op == "spmm_transposed":
            return y @ weight
        if self.op == "step":
            y = (x @ weight.t() + self.bias.double() - y) * (2 / self.batch)
        # A weight gradient is compared at the non-zeros, whatever the method.
        return self.at_slots(y.t() @ x)

    def at_slots(self, matrix):
        return matrix.reshape(-1)[self.weight.flat]
