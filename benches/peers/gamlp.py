#!/usr/bin/env python3
"""R_GAMLP_RLU with a feature head of 5000 in PyTorch and cuSPARSE: the twin of the bench head_steps of GAMLP.

    python3 benches/peers/gamlp.py --json peers-gamlp.json

The head alone and the whole network on a single node, operation by operation and as a CUDA graph, and training
steps; time, energy by NVML, memory by the allocator and NVML. Rows are written as they come. `--device cpu` is
for trying the script.
"""
import argparse
import gc
import json
import statistics
import time

import torch
from torch.nn import functional as F

import nvml
from gamlp_model import Cusparse, Csr, Gamlp, Masked

WARMUP = 100


class Bench:
    def __init__(self, arguments):
        self.arguments, self.device, self.rows = arguments, arguments.device, []
        self.cuda = self.device == "cuda"
        self.meter = nvml.meter() if self.cuda else None
        self.name = torch.cuda.get_device_name() if self.cuda else "cpu"
        torch.zeros(1, device=self.device) + 1
        self.empty = self.meter and self.meter.used_bytes()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def fresh(self):
        """Forgets what was measured before."""
        gc.collect()
        torch.manual_seed(0)
        if self.cuda:
            torch._C._cuda_clearCublasWorkspaces()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.allocated = torch.cuda.memory_allocated()

    def memory(self):
        """MB of 10^6 bytes since `fresh`: peak allocated, held by the allocator, used on the whole GPU."""
        if not self.cuda:
            return {}
        used = self.meter and (self.meter.used_bytes() - self.empty) / 1e6
        peak = torch.cuda.max_memory_allocated() - self.allocated
        return {"peak_mb": peak / 1e6, "reserved_mb": torch.cuda.memory_reserved() / 1e6, "nvml_mb": used}

    def add(self, row):
        shape = {"width": self.arguments.width, "hidden": self.arguments.hidden}
        row = {**row, **shape, "device": self.name, "torch": torch.__version__}
        self.rows.append(row)
        print(json.dumps(row), flush=True)
        if self.arguments.json:
            with open(self.arguments.json, "w") as file:
                json.dump(self.rows, file, indent=1)

    def timed(self, run):
        """Wall time of calls that are waited for, and energy."""

        def once():
            run()
            self.wait()

        samples = self.arguments.samples
        for _ in range(min(WARMUP, samples)):
            once()
        times = []
        for _ in range(samples):
            begin = time.perf_counter()
            once()
            times.append((time.perf_counter() - begin) * 1e6)
        times.sort()
        mj = self.meter and self.meter.mj_per_run(once)
        at = lambda share: times[round(share * (samples - 1))]
        return {"mean_us": statistics.mean(times), "median_us": at(0.5), "p95_us": at(0.95), "mj": mj}

    def served(self, run):
        """A function of one row: eager, as a graph, and the device time of it."""
        found = {"eager": self.timed(run), "memory_eager": self.memory(), "captured": None, "device_us": None}
        if self.cuda:
            try:
                from timing import capture, graph_us

                found["captured"] = self.timed(capture(run, 1).replay)
                found["memory"] = self.memory()
                found["device_us"] = graph_us(run, found["captured"]["median_us"], 7)
            except Exception as error:  # what cannot be captured is a result too
                torch.cuda.synchronize()
                found["note"] = str(error).splitlines()[0][:160]
        return found

    def wide(self, method, sparsity):
        width = self.arguments.width
        if method == "dense":
            return torch.nn.Linear(width, width).to(self.device)
        kind = {"masked": Masked, "csr": Csr}.get(method, Cusparse)
        layer = kind(width, sparsity).to(self.device)
        if kind is Cusparse:
            layer.prepare(self.library, method.split("_")[1], self.algorithms)
        return layer

    def network(self, method, sparsity):
        wide = self.wide(method, sparsity)
        return Gamlp(wide, self.arguments.width, hidden=self.arguments.hidden).to(self.device)

    def attempt(self, measure, *case):
        """A row of why there is none must not end the others."""
        try:
            measure(*case)
        except Exception as error:
            self.add({"case": case, "fail": (str(error).splitlines() or [repr(error)])[0][:160]})

    @torch.inference_mode()
    def serve(self, part, method, sparsity):
        self.fresh()
        make, width = (self.wide, self.arguments.width) if part == "head" else (self.network, 6 * 100 + 47)
        model = make(method, sparsity).eval()
        # The layer of cuSPARSE reads its operand where it always is; it need not be copied there.
        x = model.x.fill_(1) if isinstance(model, Cusparse) else torch.ones(1, width, device=self.device)
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        self.add({"part": part, "method": method, "sparsity": sparsity, **self.served(lambda: model(x))})

    def train(self, method, sparsity, precision):
        self.fresh()
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        batch, model = self.arguments.batch, self.network(method, sparsity).train()
        options = {"fused": True} if self.cuda else {}
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **options)
        rows = torch.rand(batch, 6 * 100 + 47, device=self.device) - 0.5
        classes = torch.arange(batch, device=self.device) % 47

        def step():
            loss = F.cross_entropy(model(rows), classes)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            self.wait()

        for _ in range(5):
            step()
        times = []
        for _ in range(self.arguments.steps):
            begin = time.perf_counter()
            step()
            times.append((time.perf_counter() - begin) * 1e3)
        memory = self.memory()
        mj = self.meter and self.meter.mj_per_run(step)
        row = {"part": "training", "method": method, "sparsity": sparsity, "precision": precision, "batch": batch}
        parameters = sum(parameter.numel() for parameter in model.parameters())
        self.add({**row, "step_ms": statistics.median(times), "mj_per_step": mj, "memory": memory, "parameters": parameters})
        torch.backends.cuda.matmul.allow_tf32 = False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="writes the rows to this file")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--parts", default="head,training,network", help="default: %(default)s")
    parser.add_argument("--sparsity", default="0.9,0.95,0.99", help="of single nodes; steps have the first")
    parser.add_argument("--width", type=int, default=5000, help="of the head")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4096, help="nodes of a step")
    parser.add_argument("--samples", type=int, default=2000, help="single nodes that are timed")
    parser.add_argument("--steps", type=int, default=20, help="steps that are timed")
    arguments = parser.parse_args()
    bench, sparsities = Bench(arguments), [float(text) for text in arguments.sparsity.split(",")]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    spread = lambda *methods: [(method, sparsity) for sparsity in sparsities for method in methods]
    single = {"head": spread("masked", "csr"), "network": [("masked", sparsities[0])] + spread("csr")}
    if bench.cuda:
        from cusparse import Cusparse as Library
        from methods import SPMV_ALGORITHMS

        bench.library, bench.algorithms = Library(), SPMV_ALGORITHMS
        single["head"] += spread("cusparse_csr1", "cusparse_coo1")
        single["network"] = [("masked", sparsities[0])] + spread("cusparse_csr1")

    for part in arguments.parts.split(","):
        if part != "training":
            for method, sparsity in [("dense", None)] + single[part]:
                bench.attempt(bench.serve, part, method, sparsity)
            continue
        for precision in ("fp32", "tf32"):
            bench.attempt(bench.train, "dense", None, precision)
            bench.attempt(bench.train, "masked", sparsities[0], precision)


if __name__ == "__main__":
    main()
