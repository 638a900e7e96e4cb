#!/usr/bin/env python3
"""GPT-2 in plain PyTorch, to compare with `lockstep run`: the model, its weights and its tokens.

Weights come from a file that `lockstep run --export` wrote; tokens are those of the synthetic data
set (runtime/train/dataset.c), in order, computed here again. As a program it trains on one device, block
after block: it reads one line of JSON a block on standard input,

    {"variant": "autocast", "warmup": 5, "steps": 20}

and answers with one line: {"loss": [of every step], "seconds": from the end of the warm-up to the
end of the last step}, or {"error": text}.
Its first line says what it computes with, or what is missing. Every block starts from the weights of
the file, which may be written meanwhile, and sample 0. Tokens lie on the device before the
clock starts, and no loss is read before it stops. A variant is a way of the table below, with
any of these behind it: "+ddp" (DistributedDataParallel of one rank), "+compile" (torch.compile),
"+pad" (the vocabulary padded to a multiple of 64, as stored logits are in ours, since cuBLAS is slow
for odd sizes; a bias takes the words that are none out of the softmax, so that the loss is the same
without a copy of the logits) and "+cudnn" (attention by cuDNN alone).
"""
import argparse
import contextlib
import json
import math
import sys
import time

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
except Exception as e:
    if __name__ != "__main__":
        raise
    sys.exit(print(json.dumps({"missing": f"no PyTorch: {e}"})))

from sides import torch_side

# Way of computing: type of the parameters, of autocast.
WAYS = {
    "float32": (torch.float32, None),  # products in tf32 on a GPU, as ours
    "autocast": (torch.float32, torch.bfloat16),
    "bfloat16": (torch.bfloat16, None),  # no float32 masters: less work than ours
}
BETAS, EPSILON = (0.9, 0.95), 1e-8  # of lockstep run
EXTRAS = {"ddp", "compile", "pad", "cudnn"}
FUSED_ATTENTION = hasattr(F, "scaled_dot_product_attention")
MASK64 = (1 << 64) - 1


class Block(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(channels)
        self.attn = nn.ModuleDict(
            {"c_attn": nn.Linear(channels, 3 * channels), "c_proj": nn.Linear(channels, channels)}
        )
        self.ln_2 = nn.LayerNorm(channels)
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(channels, 4 * channels), "c_proj": nn.Linear(4 * channels, channels)}
        )

    def attention(self, q, k, v, mask):
        if mask is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[3]))
        return F.softmax(att.masked_fill(mask, float("-inf")), dim=-1) @ v

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.attn["c_attn"](self.ln_1(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        x = x + self.attn["c_proj"](self.attention(q, k, v, mask).transpose(1, 2).reshape(b, t, c))
        y = self.mlp["c_fc"](self.ln_2(x))
        # GPT-2's tanh form; torch 1.12 and newer have it as one op.
        return x + self.mlp["c_proj"](F.gelu(y, approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, heads, channels, context, vocab, pad=1):
        super().__init__()
        padded = -(-vocab // pad) * pad
        self.wte = nn.Embedding(padded, channels)
        self.wpe = nn.Embedding(context, channels)
        self.h = nn.ModuleList(Block(channels, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(channels)
        # -inf for the words that are none. Neither parameter nor buffer: it is no part of the model.
        self.no_word = torch.zeros(padded).index_fill_(0, torch.arange(vocab, padded), -math.inf) if padded > vocab else None
        # For PyTorch before 2.0, which has no fused attention. No buffer: gloo cannot broadcast bool.
        self.mask = None if FUSED_ATTENTION else torch.triu(torch.ones(context, context, dtype=torch.bool), 1)

    def forward(self, inputs, targets):
        mask = None if self.mask is None else self.mask.to(inputs.device)
        x = self.wte(inputs) + self.wpe(torch.arange(inputs.shape[1], device=inputs.device))
        for block in self.h:
            x = block(x, mask)
        logits = F.linear(self.ln_f(x), self.wte.weight, self.no_word)
        return F.cross_entropy(logits.view(-1, logits.shape[2]), targets.reshape(-1))


def load_weights(model, path):
    """One line of JSON with the names and element counts in order, then float32 little endian."""
    with open(path, "rb") as f:
        header = json.loads(f.readline())
        params = dict(model.named_parameters())
        for entry in header["parameters"]:
            data = torch.frombuffer(bytearray(f.read(4 * entry["elems"])), dtype=torch.float32)
            with torch.no_grad():
                p = params.pop(entry["name"])
                rows = data.numel() // (p.numel() // len(p))  # fewer than p has, where it is padded
                p.zero_()[:rows].copy_(data.view_as(p[:rows]))
    if params:
        raise SystemExit(f"{path} lacks {sorted(params)}")


def adamw(model, learning_rate, weight_decay, **more):
    """Decay for matrices only, as lockstep run has it."""
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=BETAS, eps=EPSILON, **more)


# ---- Tokens: base/rng.c and runtime/train/dataset.c for many samples at a time ----


def stream_number(purpose, index):
    def mix(x):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
        return x ^ (x >> 31)

    h = 0xCBF29CE484222325
    for c in purpose.encode():
        h = ((h ^ c) * 0x100000001B3) & MASK64
    return mix((mix(h) + index * 0x9E3779B97F4A7C15) & MASK64)


def philox(counter, key):
    """Philox4x32-10 on int64 tensors that hold 32-bit words: products wrap around, as wanted."""
    low = 0xFFFFFFFF
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = ((p1 >> 32) & low) ^ c1 ^ k0, p1 & low, ((p0 >> 32) & low) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return c0, c1, c2, c3


class Draws:
    """lk_rng_below of one stream a sample; each has its own position."""

    def __init__(self, seed, streams):
        self.key = (seed & 0xFFFFFFFF, seed >> 32)
        self.low = torch.tensor([s & 0xFFFFFFFF for s in streams])
        self.high = torch.tensor([s >> 32 for s in streams])
        self.next = torch.zeros_like(self.low)

    def below(self, n, where):
        """A draw for every sample; only those where `where` holds count and move on."""
        block = self.next // 2
        w = philox((block & 0xFFFFFFFF, block >> 32, self.low, self.high), self.key)
        odd = self.next % 2 == 1
        low, high = torch.where(odd, w[2], w[0]), torch.where(odd, w[3], w[1])
        if bool((where & (high == 0) & (low < (1 << 64) % n)).any()):
            raise SystemExit("a draw that lk_rng_below rejects: not done here (chance 2^-44)")
        self.next = self.next + where
        return ((high % n) * ((1 << 32) % n) + low) % n


def synthetic_tokens(samples, context, vocab, seed):
    """(samples, context + 1): inputs are the first context columns, targets the last."""
    draws = Draws(seed, [stream_number("tokens", i) for i in range(samples)])
    every = torch.ones(samples, dtype=torch.bool)
    token = draws.below(vocab, every)
    columns = [token]
    for _ in range(context):
        fresh = draws.below(4, every) == 0
        token = torch.where(fresh, draws.below(vocab, fresh), (5 * token + 1) % vocab)
        columns.append(token)
    return torch.stack(columns, dim=1)


# ---- Training ----


def attention_by(variant):
    """A context in which attention runs as the variant says; an error where PyTorch has no cuDNN attention."""
    if "cudnn" not in variant.split("+"):
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(SDPBackend.CUDNN_ATTENTION)


class Trainer:
    def __init__(self, a):
        self.a, self.models, self.device = a, {}, torch.device(a.device)
        self.tokens = torch.zeros(0, a.context + 1, dtype=torch.int64)
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # in all versions; 2.9 and newer refuse a mixture of ways

    def model(self, variant):
        """The bare model and what is called; made once, so that it is compiled once."""
        if variant not in self.models:
            a = self.a
            way, *extras = variant.split("+")
            if not EXTRAS.issuperset(extras):
                raise ValueError(f"{variant}: no such way")
            pad = 64 if "pad" in extras else 1
            bare = GPT(a.layers, a.heads, a.channels, a.context, a.vocab, pad).to(self.device, WAYS[way][0])
            if bare.no_word is not None:
                bare.no_word = bare.no_word.to(self.device, WAYS[way][0])
            call = bare
            if "ddp" in extras:
                if not dist.is_initialized():
                    backend = "nccl" if self.device.type == "cuda" else "gloo"
                    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
                call = nn.parallel.DistributedDataParallel(bare, gradient_as_bucket_view=True)
            if "compile" in extras:
                call = torch.compile(call)
            self.models[variant] = bare, call
        return self.models[variant]

    def sync(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def batches(self, steps):
        """Sample i of a step is sample step * local_batch + i of the data, which starts again at its end."""
        a, n = self.a, steps * self.a.local_batch
        if len(self.tokens) < min(n, a.samples):
            self.tokens = synthetic_tokens(min(n, a.samples), a.context, a.vocab, a.seed)
        an_epoch = a.samples // a.local_batch * a.local_batch
        picks = torch.arange(n) % an_epoch
        return self.tokens[picks].view(steps, a.local_batch, a.context + 1).to(self.device)

    def block(self, variant, warmup, steps):
        bare, call = self.model(variant)
        load_weights(bare, self.a.weights)
        more = {"fused": True} if self.device.type == "cuda" else {}
        optimizer = adamw(bare, self.a.learning_rate, self.a.weight_decay, **more)
        batches, losses, start = self.batches(warmup + steps), [], 0.0
        cast = WAYS[variant.split("+")[0]][1]
        for step in range(warmup + steps):
            if step == warmup:
                self.sync()
                start = time.perf_counter()
            cm = torch.autocast(self.device.type, dtype=cast) if cast else contextlib.nullcontext()
            with attention_by(variant):
                with cm:
                    loss = call(batches[step][:, :-1], batches[step][:, 1:])
                loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
        self.sync()
        seconds = time.perf_counter() - start
        return {"loss": torch.stack(losses).double().tolist(), "seconds": seconds}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("layers", "heads", "channels", "context", "vocab", "local-batch"):
        a.add_argument("--" + name, type=int, required=True)
    a.add_argument("--weights", required=True)
    a.add_argument("--seed", type=int, default=1, help="of the synthetic data")
    a.add_argument("--samples", type=int, default=65536, help="of the synthetic data")
    a.add_argument("--learning-rate", type=float, default=1e-3)
    a.add_argument("--weight-decay", type=float, default=0.1)
    a.add_argument("--device", default="cpu")
    a.add_argument("--threads", type=int, help="of PyTorch on the CPU")
    a = a.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    if a.device != "cpu" and not torch.cuda.is_available():
        missing = f"PyTorch {torch.__version__}, built for CUDA {torch.version.cuda}, sees no GPU"
        sys.exit(print(json.dumps({"missing": missing})))
    trainer = Trainer(a)
    about = {**torch_side(), "fused_attention": FUSED_ATTENTION, "compile": hasattr(torch, "compile")}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = trainer.block(asked["variant"], asked["warmup"], asked["steps"])
        except Exception as e:  # one variant's trouble (no compiler, no memory) is not the others'
            answer = {"error": f"{type(e).__name__}: {e}"[:400]}
        print(json.dumps(answer), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
