#!/usr/bin/env python3
"""Trains GPT-2 small from scratch in PyTorch, dense or Dense+Mask, as `gpt2_dst` does.

    python3 gpt2_train.py --train TOKENS --valid TOKENS --other TOKENS --json peers-gpt2-train.json

The three files are token caches that `gpt2_dst --token-cache` and `gpt2_eval --token-cache` write. Optimizer,
learning rates, clipping and what the held-out text is judged by are those of `gpt2_dst`; initial values and the
order of the windows are PyTorch's own. One row a case: mean loss of the last ten
steps, perplexity of the held-out text, of the other one in blocks
and in windows that overlap by half, and the time of a step.
"""

import argparse
import json
import math
import time

import numpy
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import gpt2

HEADER = 72
MOST_WINDOWS = 1024


def tokens(path):
    """The tokens of a cache: the format is in `examples/gpt2/src/text/cache.rs`."""
    with open(path, "rb") as file:
        header = file.read(HEADER)
    if header[:8] != b"GPT2TOKN" or header[8] != 1 or header[12] != 1:
        raise SystemExit(f"{path}: no token cache of version 1 and GPT-2's tokenizer")
    kind = {2: "<u2", 4: "<u4"}[header[13]]
    return torch.from_numpy(numpy.fromfile(path, kind, offset=HEADER).astype(numpy.int64)).to(gpt2.DEVICE)


def held_out(length, context):
    """Offsets of the windows that judge a run, as `held_out_offsets` of `gpt2_dst`."""
    whole = (length - 1) // context
    most = min(whole, MOST_WINDOWS)
    multiple = -(-(1 << (most.bit_length() - 1)) // 8)
    count = most - most % multiple
    return [i * whole // count * context for i in range(count)]


@torch.no_grad()
def nats(model, text, windows, batch=32):
    """Mean loss of `(start, end, first scored token)`."""
    total, count = 0.0, 0
    for at in range(0, len(windows), batch):
        part = windows[at : at + batch]
        width = max(end - start for start, end, _ in part)
        ids = torch.zeros(len(part), width, dtype=torch.long, device=text.device)
        labels = torch.full_like(ids, -100)
        for row, (start, end, scored) in enumerate(part):
            ids[row, : end - start] = text[start:end]
            labels[row, scored - start : end - start] = text[scored:end]
        logits = model(ids[:, :-1]).logits
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")
        total += losses.item()
        count += (labels[:, 1:] != -100).sum().item()
    return total / count


def overlapping(length, context, stride):
    windows, reached = [], 0
    for start in range(0, length, stride):
        end = min(start + context, length)
        scored = max(reached, start + 1)
        if scored < end:
            windows.append((start, end, scored))
        reached = end
        if end == length:
            break
    return windows


def rate(step, args):
    """As `gpt2_dst`, steps counted from 1: up in a line to the end of the warm-up, then down to zero."""
    rise = step / max(args.warmup, 1)
    fall = (args.steps + 1 - step) / max(args.steps + 1 - args.warmup, 1)
    return args.learning_rate * min(rise, fall, 1.0)


def run(mode, sparsity, seed, args, texts):
    train, valid, other = texts
    gpt2.fresh()
    torch.manual_seed(seed)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32
    config = GPT2Config(n_positions=args.context, attn_implementation="sdpa", **gpt2.NO_DROPOUT)
    model = GPT2LMHeadModel(config).to(gpt2.DEVICE).train()
    if mode == "masked":
        gpt2.masked(model, sparsity)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optim = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, args.beta_2), eps=1e-8, fused=True)
    width, batch = args.context, args.batch
    count = len(train) // width - 1
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    last = []
    torch.cuda.synchronize()
    begin, before = time.perf_counter(), gpt2.energy_mj()
    for step in range(args.steps):
        starts = [int(order[(step * batch + i) % count]) * width for i in range(batch)]
        ids = torch.stack([train[start : start + width + 1] for start in starts])
        logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for group in optim.param_groups:
            group["lr"] = rate(step + 1, args)
        optim.step()
        optim.zero_grad(set_to_none=True)
        if step >= args.steps - 10:
            last.append(loss.detach())
    torch.cuda.synchronize()
    seconds, after = time.perf_counter() - begin, gpt2.energy_mj()
    memory = gpt2.memory()
    model.eval()
    windows = [(at, at + width + 1, at + 1) for at in held_out(len(valid), width)]
    blocks = [(at, at + width, at + 1) for at in range(0, len(other) - width + 1, width)]
    overlaps = overlapping(len(other), width, width // 2)
    return {
        "mode": mode,
        "sparsity": sparsity,
        "seed": seed,
        "training_loss": round(torch.stack(last).mean().item(), 4),
        "held_out_perplexity": round(math.exp(nats(model, valid, windows)), 2),
        "other_in_blocks": round(math.exp(nats(model, other, blocks)), 1),
        "other_overlapping": round(math.exp(nats(model, other, overlaps)), 1),
        "step_ms": round(1e3 * seconds / args.steps, 2),
        "mj_per_step": None if before is None else round((after - before) / args.steps),
        **memory,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", required=True, help="token cache of the text to learn")
    parser.add_argument("--valid", required=True, help="token cache of the held-out text")
    parser.add_argument("--other", required=True, help="token cache of another text to judge by")
    parser.add_argument("--json", help="writes the rows to this file")
    parser.add_argument("--cases", default="dense,0.5,0.75,0.9,0.95,0.99", help="dense, or the sparsity of Dense+Mask; default: %(default)s")
    parser.add_argument("--seeds", default="42")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--beta-2", type=float, default=0.95)
    parser.add_argument("--tf32", action="store_true", help="lets products round their operands")
    args = parser.parse_args()
    texts = [tokens(path) for path in (args.train, args.valid, args.other)]
    device, rows = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", []
    for seed in map(int, args.seeds.split(",")):
        for case in args.cases.split(","):
            mode, sparsity = ("dense", None) if case == "dense" else ("masked", float(case))
            rows.append({**run(mode, sparsity, seed, args, texts), "device": device})
            print(json.dumps(rows[-1]), flush=True)
            if args.json:
                with open(args.json, "w") as file:
                    json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
