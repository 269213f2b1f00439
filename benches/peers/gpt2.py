#!/usr/bin/env python3
"""Training steps and decoding of GPT-2 small in PyTorch: dense and Dense+Mask.

    python3 gpt2.py --json peers-gpt2.json

The twin of `cargo bench -p gpt2 --bench training_steps` and of `gpt2_generate`. One row a case: median of a
step, tokens a second, energy a step by NVML; memory: peak allocated, held by the allocator, and what NVML says
that the whole GPU has in use. Rows are written as they come.
"""

import argparse
import json
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import nvml

DEVICE = "cuda"
# As the other side of the comparison.
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


METER = nvml.meter()


def energy_mj():
    """Energy that the GPU has used since its driver started, or None without NVML."""
    return METER and METER.energy_mj()


class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, weight):
        return weight * self.mask


def masked(model, sparsity):
    generator = torch.Generator().manual_seed(0)
    for block in model.transformer.h:
        for layer in (block.mlp.c_fc, block.mlp.c_proj):
            mask = torch.rand(layer.weight.shape, generator=generator) >= sparsity
            parametrization = Masked(mask.float().to(DEVICE))
            torch.nn.utils.parametrize.register_parametrization(layer, "weight", parametrization)


def fresh():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)


def memory():
    """MB of 10^6 bytes."""
    return {
        "peak_mb": round(torch.cuda.max_memory_allocated() / 1e6),
        "reserved_mb": round(torch.cuda.memory_reserved() / 1e6),
        "nvml_mb": METER and round(METER.used_bytes() / 1e6),
    }


def train(mode, sparsity, precision, batch, context, compiled, steps):
    fresh()
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    model = GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", **NO_DROPOUT)).to(DEVICE).train()
    if mode == "masked":
        masked(model, sparsity)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    forward = torch.compile(model) if compiled else model
    tokens = torch.randint(0, 50257, (batch, context), device=DEVICE)

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = forward(tokens, labels=tokens).loss
        loss.backward()
        optim.step()
        optim.zero_grad(set_to_none=True)

    for _ in range(4):
        step()
    torch.cuda.synchronize()
    before, times = energy_mj(), []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    after = energy_mj()
    milliseconds = sorted(times)[len(times) // 2]
    return {
        "mode": mode,
        "sparsity": sparsity,
        "precision": precision,
        "batch": batch,
        "context": context,
        "compiled": compiled,
        "step_ms": round(milliseconds, 3),
        "tokens_per_second": round(batch * context / milliseconds * 1e3),
        **memory(),
        "mj_per_step": None if before is None else round((after - before) / steps),
    }


def decode(mode, sparsity, length, tokens):
    fresh()
    torch.backends.cuda.matmul.allow_tf32 = False
    model = GPT2LMHeadModel(GPT2Config()).to(DEVICE).eval()
    if mode == "masked":
        masked(model, sparsity)
    prompt = torch.randint(0, 50257, (1, length), device=DEVICE)

    def generate(count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        options = dict(max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=50256)
        model.generate(prompt, **options)
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3 / count

    with torch.no_grad():
        generate(32)
        torch.cuda.reset_peak_memory_stats()
        before = energy_mj()
        milliseconds = generate(tokens)
        after = energy_mj()
    return {
        "mode": mode,
        "sparsity": sparsity,
        "prompt": length,
        "decode_tokens": tokens,
        "ms_per_token": round(milliseconds, 3),
        **memory(),
        "mj_per_token": None if before is None else round((after - before) / tokens, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="writes the rows to this file")
    parser.add_argument("--parts", default="large,small,decode", help="8 x 1024, 1 x 128, decoding; default: %(default)s")
    parser.add_argument("--steps", type=int, default=8, help="steps of 8 x 1024 that are timed; of 1 x 128 eight times as many")
    parser.add_argument("--sparsity", default="0.9", help="of Dense+Mask, with commas between")
    parser.add_argument("--prompt", type=int, default=5, help="tokens before those that are decoded")
    parser.add_argument("--tokens", type=int, default=512, help="tokens that are decoded")
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    device = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
    rows, parts = [], args.parts.split(",")

    def add(row):
        rows.append({**row, "device": device})
        print(json.dumps(row), flush=True)
        if args.json:
            with open(args.json, "w") as file:
                json.dump(rows, file, indent=1)

    for mode, sparsity in [("dense", None)] + [("masked", float(text)) for text in args.sparsity.split(",")]:
        for precision in ("fp32", "tf32", "bf16") if "large" in parts else ():
            add(train(mode, sparsity, precision, 8, 1024, False, args.steps))
        for precision in ("fp32", "bf16") if "small" in parts else ():
            add(train(mode, sparsity, precision, 1, 128, False, 8 * args.steps))
        if "decode" in parts:
            add(decode(mode, sparsity, args.prompt, args.tokens))
    if "large" in parts and not args.no_compile:
        add(train("dense", None, "bf16", 8, 1024, True, args.steps))


if __name__ == "__main__":
    main()
