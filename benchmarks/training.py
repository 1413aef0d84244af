"""How long a training step takes: our models beside PyTorch's and Hugging Face's, from the same weights.

    python benchmarks/training.py          # prints the table, writes benchmarks/results/training.json

A step is forward pass, cross-entropy, backward pass and AdamW, with dropout,
on a full batch whose masks are passed all the same, as in real training. The
method is that of measuring.py; ratios are ours / theirs: below 1 ours is
faster. `products` is the time of the linear maps of our model alone, forward
and backward.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
import transformers
from measuring import FOLDER, in_turns, ratio, store
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

from tutorial_lib.interop import to_torch_transformer
from tutorial_lib.layers import LayerConfig
from tutorial_lib.pretrained import gpt2_from_hugging_face, marian_from_hugging_face
from tutorial_lib.transformer import Transformer, TransformerConfig

RESULTS = FOLDER / "training.json"
ROUNDS = 9
# The base model of 2017 and GPT-2's smallest size, with fewer ids: what differs is not the output layer.
WIDTH, HEADS, HIDDEN, LAYERS, VOCABULARY, DROPOUT = 512, 8, 2048, 6, 8000, 0.1
SENTENCES, LENGTH = 8, 32
GPT2_WIDTH, GPT2_HEADS, GPT2_LAYERS = 768, 12, 12
TEXTS, TEXT_LENGTH = 2, 128
PAD = 0


class TorchTranslator(nn.Module):
    """`nn.Transformer` between copies of our embeddings and our output layer."""

    def __init__(self, ours: Transformer):
        super().__init__()
        self.source_embedding = copy.deepcopy(ours.source_embedding)
        self.target_embedding = copy.deepcopy(ours.target_embedding)
        self.stacks = to_torch_transformer(ours.encoder, ours.decoder)
        self.output = copy.deepcopy(ours.output)
        if ours.config.tie_weights:
            self.target_embedding.tokens.weight = self.source_embedding.tokens.weight
            self.output.weight = self.source_embedding.tokens.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == PAD
        future = torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1)
        x = self.stacks(
            self.source_embedding(source),
            self.target_embedding(target),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.output(x)


def beside_torch() -> dict[str, Callable]:
    layer = LayerConfig(WIDTH, HEADS, HIDDEN, dropout=DROPOUT, attention_dropout=DROPOUT)
    ours = Transformer(TransformerConfig(VOCABULARY, VOCABULARY, layer, LAYERS, LAYERS, PAD, final_norm=True))
    theirs = TorchTranslator(ours)
    source, target = ids(SENTENCES, LENGTH), ids(SENTENCES, LENGTH + 1)
    return candidates(
        ours,
        theirs,
        lambda model: model(source, target[:, :-1]),
        lambda model: model(source, target[:, :-1]),
        target[:, 1:],
    )


def beside_marian() -> dict[str, Callable]:
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        dropout=DROPOUT,
        attention_dropout=DROPOUT,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        decoder_start_token_id=PAD,
    )
    theirs = MarianMTModel(config)
    ours = marian_from_hugging_face(theirs)
    source, target = ids(SENTENCES, LENGTH), ids(SENTENCES, LENGTH + 1)
    real = torch.ones_like(source)

    def run_theirs(model: nn.Module) -> Tensor:
        given = {"decoder_input_ids": target[:, :-1], "use_cache": False}
        return model(input_ids=source, attention_mask=real, **given).logits

    return candidates(ours, theirs, lambda model: model(source, target[:, :-1]), run_theirs, target[:, 1:])


def beside_gpt2() -> dict[str, Callable]:
    theirs = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=GPT2_WIDTH,
            n_head=GPT2_HEADS,
            n_layer=GPT2_LAYERS,
            bos_token_id=1,
            eos_token_id=1,
        )
    )
    ours = gpt2_from_hugging_face(theirs)
    text = ids(TEXTS, TEXT_LENGTH + 1)
    real = torch.ones_like(text[:, 1:])

    def run_theirs(model: nn.Module) -> Tensor:
        return model(input_ids=text[:, :-1], attention_mask=real, use_cache=False).logits

    return candidates(ours, theirs, lambda model: model(text[:, :-1]), run_theirs, text[:, 1:])


SUBJECTS = {
    "nn.Transformer": beside_torch,
    "Hugging Face Marian": beside_marian,
    "Hugging Face GPT-2": beside_gpt2,
}


def ids(batch: int, length: int) -> Tensor:
    """Random ids without padding."""
    return torch.randint(PAD + 1, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(0))


def candidates(
    ours: nn.Module, theirs: nn.Module, run_ours: Callable, run_theirs: Callable, labels: Tensor
) -> dict[str, Callable]:
    """What is measured; the first two return the loss before their step."""
    linear = [(m.in_features, m.out_features) for m in ours.modules() if isinstance(m, nn.Linear)]
    flat = [(torch.randn(labels.numel(), a), torch.randn(a, b)) for a, b in linear]

    @torch.no_grad()
    def products() -> None:
        for x, weight in flat:
            result = x @ weight
            result @ weight.T  # the gradient of x
            x.T @ result  # the gradient of the weight

    return {"ours": stepper(ours, run_ours, labels), "theirs": stepper(theirs, run_theirs, labels),
            "products": products}  # fmt: skip


def stepper(model: nn.Module, run: Callable, labels: Tensor) -> Callable[[], float]:
    """One training step of a model."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(run(model).flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def row(name: str, runs: dict[str, Callable], rounds: int) -> dict:
    times = in_turns(runs, rounds)
    milliseconds = {one: round(1e3 * statistics.median(all_times), 1) for one, all_times in times.items()}
    median, quartiles = ratio(times["ours"], times["theirs"])
    return {"against": name, "ms": milliseconds, "ratio": median, "quartiles": quartiles, "rounds": rounds}


def table(rows: list[dict]) -> str:
    head = f"{'against':21}{'ours ms':>9}{'theirs ms':>11}{'products':>10}{'ratio':>7}  quartiles"
    lines = [head, "-" * len(head)]
    for r in rows:
        ms, (low, high) = r["ms"], r["quartiles"]
        lines.append(
            f"{r['against']:21}{ms['ours']:9.1f}{ms['theirs']:11.1f}{ms['products']:10.1f}"
            f"{r['ratio']:7.2f}  {low:.2f}-{high:.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each candidate runs, >= 2")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows, began = [], time.process_time()
    for name, build in SUBJECTS.items():
        torch.manual_seed(0)
        rows.append(row(name, build(), arguments.rounds))
    print(table(rows))
    setting = {
        "translators": f"width {WIDTH}, {LAYERS}+{LAYERS} layers, {SENTENCES} x {LENGTH} ids on either side",
        "language models": f"width {GPT2_WIDTH}, {GPT2_LAYERS} layers, {TEXTS} x {TEXT_LENGTH} ids",
        "vocabulary": VOCABULARY,
        "dropout": DROPOUT,
        "optimizer": "AdamW",
        "dtype": "float32",
    }
    store(arguments.out, rows, setting, (torch, transformers), began)


if __name__ == "__main__":
    main()
