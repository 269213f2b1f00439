#!/usr/bin/env python3
"""Joins the rows of the products bench and of its peers into one Markdown table for each operation.

    python3 benches/peers/join.py ours.json peers.json --targets benches/targets.json > results.md

Times are in microseconds, on the device where it has a clock, else on the wall. The figure in brackets is the time
over ours. Where two files have the same row the later file counts.
"""
import argparse
import json

KEYS = ("op", "m", "k", "sparsity", "batch", "dtype")
OPS = ("spmm", "spmm_transposed", "sddmm", "forward", "step")
# Burn's f32 product may run in reduced precision; peers were checked where they were measured.
TOLERANCE = {"f32": 1e-4, "bf16": 2e-2, "f16": 2e-2}
COLUMNS = (
    ("dense fp32", ("torch_dense_fp32", "numpy_dense")),
    ("dense tf32", ("torch_dense_tf32",)),
    ("dense bf16", ("torch_dense_bf16",)),
    ("Dense+Mask fp32", ("torch_masked_fp32",)),
    ("Dense+Mask tf32", ("torch_masked_tf32",)),
    ("Dense+Mask bf16", ("torch_masked_bf16",)),
    ("Burn dense", ("burn_dense",)),
    ("Burn Dense+Mask", ("burn_masked",)),
)


def time_of(row):
    return row["device_us"] if row.get("device_us") is not None else row.get("wall_us")


def is_ours(row):
    return row["method"].startswith("snack:")


def is_sparse_peer(row):
    return not is_ours(row) and "dense" not in row["method"] and "masked" not in row["method"]


def is_wrong(row):
    error = row.get("err")
    return is_ours(row) and error is not None and error > TOLERANCE[row["dtype"]]


def load(paths):
    """The rows by problem and method, those without a time included."""
    table = {}
    for path in paths:
        with open(path) as file:
            for row in json.load(file):
                key = tuple(row[name] for name in KEYS)
                table.setdefault(key, {})[row["method"]] = row
    return table


class Problem:
    """The timed methods of one problem."""

    def __init__(self, methods):
        self.rows = [row for row in methods.values() if time_of(row) is not None and "fail" not in row and not is_wrong(row)]

    def best(self, wanted):
        return min(filter(wanted, self.rows), key=time_of, default=None)

    def named(self, *names):
        return self.best(lambda row: row["method"] in names)

    @property
    def ours(self):
        return self.best(is_ours)

    @property
    def auto(self):
        return self.named("snack:auto")


def number(us):
    return "%.2f" % us if us < 10 else "%.1f" % us if us < 1000 else "%.0f" % us


def cell(us, ours, name=""):
    if us is None:
        return ""
    ratio = " (%.2fx)" % (us / ours) if ours else ""
    return " ".join(part for part in (number(us) + ratio, name) if part)


def limit(target, problem, table, key):
    """The least of the limits that have something to compare with, and what it is made of."""
    limits = []
    for part in target["limits"]:
        if "us" in part:
            limits.append((part["us"], ""))
            continue
        us = None
        if part["of"] == "peer":
            peer = problem.best(is_sparse_peer)
            known = [time_of(peer)] if peer else []
            us = min(known + [target["quoted_peer_us"]] if "quoted_peer_us" in target else known, default=None)
        elif part["of"].startswith("snack:"):
            other = (part["of"].removeprefix("snack:"),) + key[1:]
            row = Problem(table.get(other, {})).ours
            us = time_of(row) if row else None
        else:
            row = problem.named(part["of"])
            us = time_of(row) if row else None
        if us is not None:
            limits.append((part["times"] * us, "%g x %s" % (part["times"], part["of"])))
    return min(limits, default=(None, ""))


def verdict(target, problem, table, key):
    """(target, result): judged by the automatic choice, since that is what users get."""
    at_most, made_of = limit(target, problem, table, key)
    if at_most is None:
        return "nothing to compare with", ""
    text = " ".join(part for part in (number(at_most), made_of and "(%s)" % made_of) if part)
    auto, best = problem.auto, problem.ours
    if best is None:
        return text, "not measured"
    if auto and time_of(auto) <= at_most:
        return text, "pass"
    over = "miss, %.2fx" % (time_of(auto or best) / at_most)
    if time_of(best) <= at_most:
        return text, "%s; pass by %s" % (over, best["method"].removeprefix("snack:"))
    return text, over


def target_of(key, problem, targets):
    devices = " ".join(row["device"] for row in problem.rows if is_ours(row)).lower()
    for target in targets:
        if all(target[name] == value for name, value in zip(KEYS, key)) and target["device"] in devices:
            return target
    return None


def lines(op, table, targets):
    """The table of one operation; columns that nothing fills are left out."""
    heads = ["shape", "sparsity", "batch", "type", "ours auto", "ours best", "% of floor", "best sparse peer"]
    heads += [name for name, _ in COLUMNS] + (["target", "result"] if targets else [])
    body = []
    for key in sorted(key for key in table if key[0] == op):
        problem = Problem(table[key])
        _, m, k, sparsity, batch, dtype = key
        auto, best, peer = problem.auto, problem.ours, problem.best(is_sparse_peer)
        ours = time_of(best) if best else None
        line = ["%d x %d" % (m, k), "%g" % sparsity, str(batch), dtype]
        line.append(number(time_of(auto)) if auto else "")
        line.append("**%s** %s" % (number(ours), best["method"].removeprefix("snack:")) if best else "")
        line.append("%.0f %%" % (100 * best["floor_us"] / ours) if best and best.get("floor_us") else "")
        line.append(cell(time_of(peer), ours, peer["method"]) if peer else "")
        for _, names in COLUMNS:
            row = problem.named(*names)
            line.append(cell(time_of(row), ours) if row else "")
        if targets:
            target = target_of(key, problem, targets)
            line += verdict(target, problem, table, key) if target else ("", "")
        body.append(line)
    used = [i for i in range(len(heads)) if any(line[i] for line in body)]
    for line in [heads, ["---"] * len(heads)] + body:
        yield "| " + " | ".join(line[i] for i in used) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+", help="JSON rows of the products bench and of peers")
    parser.add_argument("--targets", help="benches/targets.json")
    arguments = parser.parse_args()
    table, targets = load(arguments.files), []
    if arguments.targets:
        with open(arguments.targets) as file:
            targets = json.load(file)
    rows = [row for methods in table.values() for row in methods.values()]
    runs = sorted({"%s, %s" % (row["device"], row["date"]) for row in rows})
    print("Microseconds a call; in brackets the time over ours. Measured on: %s.\n" % "; ".join(runs))
    for op in OPS:
        if any(key[0] == op for key in table):
            print("## %s\n" % op)
            print("\n".join(lines(op, table, targets)), end="\n\n")
    left_out = [row for row in rows if "fail" in row or is_wrong(row)]
    if left_out:
        print("## Not counted\n")
    for row in left_out:
        why = row.get("fail") or "error %.1e" % row["err"]
        print("- %s %s: %s" % (" ".join(str(row[name]) for name in KEYS), row["method"], why))


if __name__ == "__main__":
    main()
