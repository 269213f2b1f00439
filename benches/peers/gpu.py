#!/usr/bin/env python3
"""Times what else could compute the problems of the products bench, on one CUDA device.

    cargo bench --bench products -- --preset targets --list --json problems.json
    python3 benches/peers/gpu.py --problems problems.json --json peers.json --budget-s 300

Dense products of PyTorch in fp32, tf32 and bf16, with and without a mask; cuSPARSE through its C API;
the sparse front ends of PyTorch and, if it is installed, CuPy. See benches/README.md.
"""
import argparse
import datetime
import json
import sys
import time

import torch

import methods
import problems
from cusparse import Cusparse
from timing import time_us

BEGIN = time.monotonic()


def relative_error(found, reference):
    norm = reference.norm()
    return float((found.double() - reference).norm() / norm) if norm > 0 else float(found.double().norm())


def checked(method, prepare, case):
    """A prepared variant and its error; its outputs held NaN before it ran."""
    prepared = prepare()
    for tensor in prepared.written:
        tensor.fill_(float("nan"))
    prepared.run()
    torch.cuda.synchronize()
    return prepared, relative_error(prepared.result(), getattr(case, method.reference))


def measure(method, case):
    """The fields of a row: the fastest variant that is right, or why there is none."""
    best, notes = None, {}
    several = len(method.variants) > 1
    for name, prepare in method.variants.items():
        try:
            prepared, error = checked(method, prepare, case)
            if not error < method.tolerance:
                notes[name] = "error %.1e" % error
                continue
            times = time_us(prepared.run, method.graphs, repetitions=3 if several else 7)
            notes[name] = round(times[0], 2)
            if best is None or times[0] < best[0][0]:
                best = (times, name, error, prepared)
        except Exception as failure:  # a variant that cannot run is a result too
            notes[name] = (str(failure).splitlines() or [repr(failure)])[0][:160]
    if best is None:
        return {"fail": "; ".join("%s %s" % note for note in notes.items()).strip()}
    (device_us, wall_us, note), name, error, prepared = best
    if several:
        device_us, wall_us, note = time_us(prepared.run, method.graphs)
    row = {"device_us": round(device_us, 3), "wall_us": round(wall_us, 3), "err": error}
    if note:
        row["note"] = note
    if several:
        row.update(alg=name, algs=notes)
    return row


class Rows:
    """The rows so far, written to the file after every problem."""

    def __init__(self, path):
        self.path, self.rows = path, []
        self.common = {"floor_us": None, "device": torch.cuda.get_device_name(), "date": str(datetime.date.today())}
        print("%-15s %6s %6s %6s %6s %5s %-22s %10s %10s %9s" % ("op", "m", "k", "sp.", "batch", "dtype", "method", "device us", "wall us", "err"))

    def add(self, problem, method, measured):
        row = {**problem, "method": method, "device_us": None, "wall_us": None, "err": None, **self.common, **measured}
        self.rows.append(row)
        head = "%-15s %6d %6d %6g %6d %5s %-22s" % (*(row[key] for key in ("op", "m", "k", "sparsity", "batch", "dtype")), method)
        if "fail" in row:
            print(head, row["fail"], flush=True)
        else:
            print(head, "%10.2f %10.2f %9.1e" % (row["device_us"], row["wall_us"], row["err"]), row.get("alg", ""), row.get("note", ""), flush=True)

    def save(self):
        if self.path:
            with open(self.path, "w") as file:
                file.write("[\n" + ",\n".join(json.dumps(row) for row in self.rows) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    problems.add_arguments(parser)
    parser.add_argument("--json", help="file for the rows")
    parser.add_argument("--methods", help="only methods whose name contains one of these, separated by commas")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="stop cleanly after so many seconds")
    arguments = parser.parse_args()
    over = lambda: time.monotonic() - BEGIN > arguments.budget_s
    asked = (arguments.methods or "").split(",")

    torch.set_grad_enabled(False)
    cusparse, cupy = None, None
    try:
        cusparse = Cusparse()
    except (OSError, RuntimeError, AttributeError) as error:
        print("no cuSPARSE:", error, file=sys.stderr)
    try:
        import cupy
    except Exception as error:  # a broken installation raises more than ImportError
        print("no CuPy:", error, file=sys.stderr)
    print("torch", torch.__version__, "CUDA", torch.version.cuda, "cuSPARSE", cusparse and cusparse.version(), "CuPy", getattr(cupy, "__version__", None))

    rows, known, left_out = Rows(arguments.json), {}, []
    weight, key = None, None
    for problem in problems.listed(arguments):
        label = " ".join(str(problem[name]) for name in problems.KEYS)
        if over():
            left_out.append(label)
            continue
        try:
            wanted = (problem["m"], problem["k"], problem["nnz"], problem["dtype"])
            if key != wanted:
                # The old one goes before the new one comes.
                weight, key, case = None, None, None
                torch.cuda.empty_cache()
                weight, key = problems.Weight(*wanted[:3], problems.DTYPES[wanted[3]]), wanted
            case = problems.Case(problem, weight)
            for method in methods.all_methods(case, cusparse, cupy):
                if not any(part in method.name for part in asked):
                    continue
                # A dense product does not depend on the sparsity.
                same = (method.name, *(problem[name] for name in ("op", "m", "k", "batch", "dtype")))
                if method.name.startswith("torch_dense") and same in known:
                    rows.add(problem, method.name, known[same])
                elif over():
                    left_out.append(label + " " + method.name)
                else:
                    known[same] = measure(method, case)
                    rows.add(problem, method.name, known[same])
        except Exception as failure:
            rows.add(problem, "problem", {"fail": (str(failure).splitlines() or [repr(failure)])[0][:160]})
        case = method = None
        rows.save()
    failed = sum("fail" in row for row in rows.rows)
    print("%d rows, %d failed, %.0f s" % (len(rows.rows), failed, time.monotonic() - BEGIN))
    if left_out:
        print("left out for want of time (%d):" % len(left_out), *left_out, sep="\n  ")


if __name__ == "__main__":
    main()
