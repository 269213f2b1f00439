#!/usr/bin/env python3
"""Joins the rows of the products bench and of its peers into one Markdown table for each operation.

    python3 benches/peers/join.py ours.json peers.json --targets benches/targets.json > results.md

Times are in microseconds, on the device where it has a clock, else on the wall. The figure in brackets is the time
over ours. Where two files have the same row the later file counts. A row without a time or that was not checked does
not count.
"""
import argparse
import json
import math
import sys

PROBLEM = {"op": str, "m": int, "k": int, "sparsity": (int, float), "batch": int, "dtype": str}
KEYS = tuple(PROBLEM)
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


def why_not(row):
    """Why a row does not count; None if it does."""
    if row.get("fail") is not None:
        return " ".join(str(row["fail"]).split()) or "failed"
    us, error = time_of(row), row.get("err")
    if us is None or not 0 < us < math.inf:
        return "no time" if us is None else "a time of %g us" % us
    if error is None or not math.isfinite(error):
        return "not checked"
    if is_ours(row) and error > TOLERANCE[row["dtype"]]:
        return "error %.1e" % error
    return None


def refuse(path, why):
    sys.exit("join.py: %s: %s" % (path, why))


def objects(path, fields):
    """The list of objects in a file; each has the fields, of these types."""
    try:
        with open(path) as file:
            found = json.load(file)
    except OSError as error:
        refuse(path, error.strerror)
    except ValueError as error:
        refuse(path, "not JSON: %s" % error)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        refuse(path, "not a list of objects")
    for place, item in enumerate(found, 1):
        for name, kind in fields.items():
            if name not in item:
                refuse(path, "entry %d has no `%s`" % (place, name))
            if not isinstance(item[name], kind):
                refuse(path, "entry %d: `%s` is %s" % (place, name, json.dumps(item[name])))
        if item["op"] not in OPS:
            refuse(path, "entry %d: unknown op `%s`" % (place, item["op"]))
        if item["dtype"] not in TOLERANCE:
            refuse(path, "entry %d: unknown dtype `%s`" % (place, item["dtype"]))
    return found


def load(path):
    rows = objects(path, dict(PROBLEM, method=str, device=str, date=str))
    for place, row in enumerate(rows, 1):
        for name in ("device_us", "wall_us", "err", "floor_us"):
            if not isinstance(row.get(name), (int, float, type(None))):
                refuse(path, "entry %d: `%s` is no number" % (place, name))
    return rows


def by_problem(rows):
    """The rows by problem and method, those that do not count included."""
    table = {}
    for row in rows:
        key = tuple(row[name] for name in KEYS)
        table.setdefault(key, {})[row["method"]] = row
    return table


def warn_of_devices(rows):
    """Peers name a device otherwise than the bench, so of these two only the kinds are compared."""
    ours, peers = set(), set()
    for row in rows:
        (ours if row["method"].startswith(("snack:", "burn_")) else peers).add(row["device"])
    kinds = {device.split(" ")[0].rstrip(",") in ("flex", "cpu") for device in ours | peers}
    if len(ours) > 1 or len(peers) > 1 or len(kinds) > 1:
        print("join.py: rows of different devices: %s" % "; ".join(sorted(ours | peers)), file=sys.stderr)


class Problem:
    """The timed methods of one problem."""

    def __init__(self, methods):
        self.rows = [row for row in methods.values() if why_not(row) is None]

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
    rows = [row for path in arguments.files for row in load(path)]
    if not rows:
        refuse(" ".join(arguments.files), "no rows")
    targets = objects(arguments.targets, dict(PROBLEM, device=str, limits=list)) if arguments.targets else []
    warn_of_devices(rows)
    table = by_problem(rows)
    rows = [row for methods in table.values() for row in methods.values()]
    runs = sorted({"%s, %s" % (row["device"], row["date"]) for row in rows})
    print("Microseconds a call; in brackets the time over ours. Measured on: %s.\n" % "; ".join(runs))
    for op in OPS:
        if any(key[0] == op for key in table):
            print("## %s\n" % op)
            print("\n".join(lines(op, table, targets)), end="\n\n")
    left_out = [row for row in rows if why_not(row) is not None]
    if left_out:
        print("## Not counted\n")
    for row in left_out:
        print("- %s %s: %s" % (" ".join(str(row[name]) for name in KEYS), row["method"], why_not(row)))


if __name__ == "__main__":
    main()
