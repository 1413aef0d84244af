"""How fast greedy decoding is: our loop beside Hugging Face's `generate`, with the same weights.

    python benchmarks/generation.py        # prints the table, writes benchmarks/results/generation.json

The method is that of measuring.py; ratios are theirs / ours: above 1 ours is
faster. `products` is the time of the linear maps alone, prompt included, which
no implementation can do without: theirs / products is the ratio that a loop
without any other work would reach.

Memory is the peak of one call beyond what the process held before it, each
in a forked process of its own (Linux).
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import transformers
from measuring import FOLDER, in_turns, ratio, store
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from tutorial_lib.generation import greedy
from tutorial_lib.pretrained import gpt2_from_hugging_face, llama_from_hugging_face
from tutorial_lib.weights import load_model

RESULTS = FOLDER / "generation.json"
PROMPT, NEW, BATCHES, ROUNDS = 64, 32, (1, 8), 9


def gpt2() -> tuple[nn.Module, nn.Module]:
    """GPT-2 in its smallest size: 12 layers of width 768."""
    theirs = GPT2LMHeadModel(GPT2Config()).eval()
    return gpt2_from_hugging_face(theirs), theirs


def smollm2() -> tuple[nn.Module, nn.Module]:
    """SmolLM2-135M with its published weights: 30 layers of width 576, 9 query and 3 key/value heads."""
    # Copied out of the file that it is mapped to, whose pages would count as new memory when they are first read.
    theirs = copy.deepcopy(load_model("SmolLM2-135M-Instruct")).eval()
    return llama_from_hugging_face(theirs), theirs


MODELS = {"GPT-2's size": gpt2, "SmolLM2-135M": smollm2}


def candidates(ours: nn.Module, theirs: nn.Module, prompt: Tensor, new: int) -> dict[str, Callable]:
    """What is measured; the first two return the new ids (B, new)."""
    linear = [module for module in ours.modules() if isinstance(module, nn.Linear)]
    inner = [module for module in linear if module is not ours.output]

    def generate() -> Tensor:
        settings = {"max_new_tokens": new, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        ids = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **settings)
        return ids[:, prompt.size(1) :]

    @torch.no_grad()
    def products() -> None:
        for module in inner:  # the prompt, whose output layer serves the last token alone
            module(torch.zeros(*prompt.shape, module.in_features))
        for _ in range(new - 1):
            for module in linear:
                module(torch.zeros(len(prompt), 1, module.in_features))
        ours.output(torch.zeros(len(prompt), 1, ours.output.in_features))

    return {
        "ours": lambda: greedy(ours, prompt, max_new_tokens=new),
        "theirs": generate,
        "products": products,
    }


def peak_memory(call: Callable) -> float | None:
    """Return the MiB that one call needs at its peak, or None where the system does not tell."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        ctypes.CDLL(None).malloc_trim(0)  # what was freed would be taken again, unseen
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = _status("VmRSS")
        call()
        sender.send((_status("VmHWM") - before) / 1024)

    process = context.Process(target=run)
    process.start()
    used = receiver.recv()
    process.join()
    return round(used, 1)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))  # kB


def row(name: str, batch: int, new: int, runs: dict[str, Callable], rounds: int) -> dict:
    """Measure one model at one batch size."""
    same = (runs["ours"]() == runs["theirs"]()).float().mean().item()
    memory = {one: peak_memory(runs[one]) for one in ("ours", "theirs")}
    times = in_turns(runs, rounds)
    seconds = {one: statistics.median(all_times) for one, all_times in times.items()}
    median, quartiles = ratio(times["theirs"], times["ours"])
    return {
        "model": name,
        "batch": batch,
        "same_tokens": round(same, 4),
        "tokens_per_second": {
            one: round(batch * new / seconds[one], 1) for one in ("ours", "theirs", "products")
        },
        "peak_mib": memory,
        "ratio": median,
        "quartiles": quartiles,
        "highest_ratio": ratio(times["theirs"], times["products"])[0],
        "rounds": rounds,
    }


def table(rows: list[dict]) -> str:
    head = (
        f"{'model':17}{'B':>3}{'ours t/s':>10}{'theirs t/s':>12}{'products':>10}{'ours MiB':>10}"
        f"{'theirs MiB':>12}{'ratio':>7}  {'quartiles':10}{'highest':>9}{'same':>7}"
    )
    lines = [head, "-" * len(head)]
    for r in rows:
        speed, memory = r["tokens_per_second"], r["peak_mib"]
        spread = f"{r['quartiles'][0]:.2f}-{r['quartiles'][1]:.2f}"
        lines.append(
            f"{r['model']:17}{r['batch']:3}{speed['ours']:10.1f}{speed['theirs']:12.1f}{speed['products']:10.1f}"
            f"{memory['ours'] or 0:10.1f}{memory['theirs'] or 0:12.1f}{r['ratio']:7.2f}  {spread:10}"
            f"{r['highest_ratio']:9.2f}{r['same_tokens']:7.1%}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="how often each candidate runs, at least 2"
    )
    parser.add_argument("--prompt", type=int, default=PROMPT, help="tokens of each prompt")
    parser.add_argument("--new", type=int, default=NEW, help="tokens to generate")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows, began = [], time.process_time()
    for name, build in MODELS.items():
        torch.manual_seed(0)
        ours, theirs = build()
        for batch in BATCHES:
            generator = torch.Generator().manual_seed(0)
            prompt = torch.randint(ours.config.vocabulary, (batch, arguments.prompt), generator=generator)
            runs = candidates(ours, theirs, prompt, arguments.new)
            rows.append(row(name, batch, arguments.new, runs, arguments.rounds))
    print(table(rows))
    setting = {
        "prompt": arguments.prompt,
        "new": arguments.new,
        "dtype": "float32",
        "decoding": "greedy",
    }
    store(arguments.out, rows, setting, (torch, transformers), began)


if __name__ == "__main__":
    main()
