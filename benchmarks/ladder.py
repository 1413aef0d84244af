"""The equality ladder: from loops to Hugging Face's models, each rung equal to the one before it.

    python benchmarks/ladder.py            # prints the table, writes benchmarks/results/ladder.json

Every rung compares one of our functions or classes with an independent
reference that has the same weights: the outputs, and the gradients of one
random scalar of the output with respect to the inputs (ids have none: there,
with respect to the embedding matrix). A difference is the largest absolute
one, divided by the largest number of the reference where that exceeds 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from tutorial_lib.attention import fused_attention, scaled_dot_product_attention
from tutorial_lib.interop import (
    to_torch_attention,
    to_torch_decoder_layer,
    to_torch_encoder_layer,
    to_torch_transformer,
)
from tutorial_lib.interop_keras import to_keras_attention, to_keras_decoder, to_keras_encoder
from tutorial_lib.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, LayerConfig
from tutorial_lib.masks import causal_mask, combine_masks, padding_mask, to_torch_attn_mask
from tutorial_lib.multihead import MultiHeadAttention, multi_head_attention
from tutorial_lib.pretrained import (
    bert_from_hugging_face,
    gpt2_from_hugging_face,
    llama_from_hugging_face,
    marian_from_hugging_face,
)
from tutorial_lib.weights import load_model, load_tokenizer

RESULTS = Path(__file__).parent / "results" / "ladder.json"
B, H, T, S, D = 2, 4, 5, 7, 24
V = 60
# Where a reference keeps a table in float32 whatever its dtype, float64 cannot be closer than this.
FLOAT32_TABLE = 1e-6
IN_FLOAT32 = "Keras' torch backend computes in float32 only"
# What the pretrained models read; the second text is shorter.
TEXTS = ["Attention lets every word look at every other word.", "The bank of the river was wet."]


@dataclass(frozen=True)
class Rung:
    """One comparison; differences are relative as the first lines of this file say."""

    ours: str
    reference: str
    dtype: str
    value: float
    gradient: float
    limit: float
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.value <= self.limit and self.gradient <= self.limit


class Pair(NamedTuple):
    """Two computations of the same numbers.

    `leaves` are the tensors whose gradients are compared: a list that both
    computations share, or a tuple with ours and theirs.
    """

    ours: str
    reference: str
    compute: Callable[[], Tensor]
    compute_reference: Callable[[], Tensor]
    leaves: list[Tensor] | tuple[Tensor, Tensor]
    note: str = ""
    float64_limit: float = 1e-12
    float32_limit: float = 1e-5


def climb(groups: tuple[Callable[[torch.dtype], Iterator[Pair]], ...]) -> Iterator[Rung]:
    """Measure every rung of these groups, from the bottom to the top."""
    for dtype in (torch.float32, torch.float64):
        for pairs in groups:
            for pair in pairs(dtype):
                limit = pair.float64_limit if dtype == torch.float64 else pair.float32_limit
                value, gradient = difference(pair.compute, pair.compute_reference, pair.leaves)
                name = str(dtype).removeprefix("torch.")
                yield Rung(pair.ours, pair.reference, name, value, gradient, limit, pair.note)


def attention(dtype: torch.dtype) -> Iterator[Pair]:
    """Scaled dot-product attention, causal and with padding; in `empty` one row may see nothing."""
    query, key, value = leaf(B, H, T, 6, dtype), leaf(B, H, S, 6, dtype), leaf(B, H, S, 6, dtype)
    mask = combine_masks(padding_mask(lengths=[7, 4]), causal_mask(T, S))
    empty = mask.clone()
    empty[1, :, 2] = False
    inputs = (query, key, value)

    def ours(mask):
        return scaled_dot_product_attention(*inputs, mask)[0]

    references = {
        "loops": (empty, by_loops),
        "einsum": (mask, by_einsum),
        "fused_attention": (empty, fused_attention),
        "F.scaled_dot_product_attention": (mask, F.scaled_dot_product_attention),
    }
    for name, (its_mask, reference) in references.items():
        yield Pair(
            "scaled_dot_product_attention",
            name,
            partial(ours, its_mask),
            partial(reference, *inputs, its_mask),
            list(inputs),
        )


def multi_head(dtype: torch.dtype) -> Iterator[Pair]:
    """Multi-head attention to a memory of another length, masked differently in each row."""
    x, memory = leaf(B, T, D, dtype), leaf(B, S, D, dtype)
    mask = combine_masks(padding_mask(lengths=[7, 4]), causal_mask(T, S))
    ours = module(MultiHeadAttention, D, H, dtype=dtype)
    bare = module(MultiHeadAttention, D, H, bias=False, dtype=dtype)
    torch_layer, keras_layer = to_torch_attention(ours), to_keras_attention(ours)

    def run(layer):
        return layer(x, memory, mask)[0]

    def by_head():
        return multi_head_attention(x, memory, memory, *bare.head_projections(), mask)[0]

    def run_torch():
        return torch_layer(x, memory, memory, attn_mask=to_torch_attn_mask(mask, H))[0]

    def run_keras():
        return keras_layer(query=x, value=memory, attention_mask=mask[:, 0])

    name, leaves = "MultiHeadAttention", [x, memory]
    yield Pair(name, "a projection per head", partial(run, bare), by_head, leaves)
    yield Pair(name, "nn.MultiheadAttention", partial(run, ours), run_torch, leaves)
    if dtype == torch.float32:
        yield Pair(name, "keras.layers.MultiHeadAttention", partial(run, ours), run_keras, leaves, IN_FLOAT32)


def layers(dtype: torch.dtype) -> Iterator[Pair]:
    """Encoder and decoder layers in both norm placements."""
    x, memory = leaf(B, T, D, dtype), leaf(B, S, D, dtype)
    own, other, causal = padding_mask(lengths=[5, 3]), padding_mask(lengths=[7, 4]), causal_mask(T)
    real, real_memory = own[:, 0, 0], other[:, 0, 0]

    def encode(layer):
        return layer(x, own)[real]

    def encode_torch(layer):
        return layer(x, src_key_padding_mask=~real)[real]

    def encode_keras(layer):
        return layer(x, mask=real)[real]

    def decode(layer):
        return layer(x, memory, causal, other)

    def decode_torch(layer):
        return layer(x, memory, tgt_mask=~causal, memory_key_padding_mask=~real_memory)

    def decode_keras(layer):
        return layer(x, memory, memory_mask=real_memory)

    for norm in ("post", "pre"):
        config = LayerConfig(D, H, 40, norm=norm)
        encoder, decoder = (module(kind, config, dtype=dtype) for kind in (EncoderLayer, DecoderLayer))
        name, mine = f"EncoderLayer, {norm}-norm", partial(encode, encoder)
        theirs = partial(encode_torch, to_torch_encoder_layer(encoder))
        yield Pair(name, "nn.TransformerEncoderLayer", mine, theirs, [x])
        if dtype == torch.float32:
            theirs = partial(encode_keras, to_keras_encoder(encoder))
            yield Pair(name, "our Keras layer", mine, theirs, [x], IN_FLOAT32)
        name, mine = f"DecoderLayer, {norm}-norm", partial(decode, decoder)
        theirs = partial(decode_torch, to_torch_decoder_layer(decoder))
        yield Pair(name, "nn.TransformerDecoderLayer", mine, theirs, [x, memory])
        if dtype == torch.float32:
            theirs = partial(decode_keras, to_keras_decoder(decoder))
            yield Pair(name, "our Keras layer", mine, theirs, [x, memory], IN_FLOAT32)


def stacks(dtype: torch.dtype) -> Iterator[Pair]:
    """An encoder and a decoder of two layers each."""
    x, source = leaf(B, T, D, dtype), leaf(B, S, D, dtype)
    mask, causal = padding_mask(lengths=[7, 4]), causal_mask(T)
    hidden = ~mask[:, 0, 0]

    def ours(encoder, decoder):
        return decoder(x, encoder(source, mask), causal, mask)

    def theirs(model):
        return model(source, x, tgt_mask=~causal, src_key_padding_mask=hidden, memory_key_padding_mask=hidden)

    for norm in ("post", "pre"):
        config = LayerConfig(D, H, 40, norm=norm)
        both = [module(kind, config, 2, final_norm=True, dtype=dtype) for kind in (Encoder, Decoder)]
        yield Pair(
            f"Encoder and Decoder, {norm}-norm",
            "nn.Transformer",
            partial(ours, *both),
            partial(theirs, to_torch_transformer(*both)),
            [x, source],
            "with the final norms that nn.Transformer adds",
        )


def bert(dtype: torch.dtype) -> Iterator[Pair]:
    """A randomly initialised BERT; the second text is padded."""
    theirs = hugging_face(
        "BertModel", dtype, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=20, pad_token_id=0,
    )  # fmt: skip
    ours, ids = bert_from_hugging_face(theirs), make_ids(B, 9)
    ids[1, 6:] = 0
    real = ids != 0
    yield Pair(
        "EncoderOnly",
        "Hugging Face BERT",
        lambda: ours(ids)[real],
        lambda: theirs(ids, attention_mask=real.long()).last_hidden_state[real],
        (ours.embedding.tokens.weight, theirs.embeddings.word_embeddings.weight),
    )


def gpt2(dtype: torch.dtype) -> Iterator[Pair]:
    """A randomly initialised GPT-2."""
    theirs = hugging_face("GPT2LMHeadModel", dtype, n_embd=32, n_layer=2, n_head=4, n_positions=20)
    ours, ids = gpt2_from_hugging_face(theirs), make_ids(B, 9)
    yield Pair(
        "DecoderOnly",
        "Hugging Face GPT-2",
        lambda: ours(ids),
        lambda: theirs(ids).logits,
        (ours.embedding.tokens.weight, theirs.transformer.wte.weight),
    )


def llama(dtype: torch.dtype) -> Iterator[Pair]:
    """A randomly initialised Llama with grouped queries."""
    theirs = hugging_face(
        "LlamaForCausalLM", dtype, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=48, max_position_embeddings=20,
    )  # fmt: skip
    ours, ids = llama_from_hugging_face(theirs), make_ids(B, 9)
    yield Pair(
        "DecoderOnly",
        "Hugging Face Llama",
        lambda: ours(ids),
        lambda: theirs(ids).logits,
        (ours.embedding.tokens.weight, theirs.model.embed_tokens.weight),
        "2 key/value heads for 4 query heads; its angles are always float32",
        FLOAT32_TABLE,
    )


def marian(dtype: torch.dtype) -> Iterator[Pair]:
    """A randomly initialised Marian; the second source is padded."""
    padding = V - 1
    stack = {"layers": 2, "attention_heads": 4, "ffn_dim": 48}
    stacks = {f"{side}_{what}": size for side in ("encoder", "decoder") for what, size in stack.items()}
    theirs = hugging_face(
        "MarianMTModel", dtype, d_model=32, max_position_embeddings=20, scale_embedding=True,
        activation_function="swish", pad_token_id=padding, decoder_start_token_id=padding,
        eos_token_id=0, forced_eos_token_id=0, **stacks,
    )  # fmt: skip
    ours, source, target = marian_from_hugging_face(theirs), make_ids(B, 9), make_ids(B, 6)
    source[1, 6:] = padding
    seen = (source != padding).long()
    yield Pair(
        "Transformer",
        "Hugging Face Marian",
        lambda: ours(source, target),
        lambda: theirs(source, attention_mask=seen, decoder_input_ids=target).logits,
        (ours.source_embedding.tokens.weight, theirs.model.shared.weight),
        "its table of positions is always float32",
        FLOAT32_TABLE,
    )


def minilm(dtype: torch.dtype) -> Iterator[Pair]:
    """A real, trained BERT; the second text is padded."""
    theirs = load_model("all-MiniLM-L6-v2", dtype=dtype)
    batch = load_tokenizer("all-MiniLM-L6-v2")(TEXTS, padding=True, return_tensors="pt")
    ours, ids, real = bert_from_hugging_face(theirs), batch["input_ids"], batch["attention_mask"].bool()
    yield Pair(
        "EncoderOnly",
        "Hugging Face all-MiniLM-L6-v2",
        lambda: ours(ids)[real],
        lambda: theirs(**batch).last_hidden_state[real],
        (ours.embedding.tokens.weight, theirs.embeddings.word_embeddings.weight),
        "trained weights",
    )


def smollm(dtype: torch.dtype) -> Iterator[Pair]:
    """A real, trained model of the Llama kind.

    Its gradients reach a million, and Hugging Face's own ones in float32 and in
    float64 differ by 1e-4 of that (tests/test_real_weights.py, marked slow).
    """
    if dtype == torch.float64:
        return
    theirs = load_model("SmolLM2-135M-Instruct", dtype=dtype)
    ids = load_tokenizer("SmolLM2-135M-Instruct")(TEXTS[0], return_tensors="pt")["input_ids"]
    ours = llama_from_hugging_face(theirs)
    yield Pair(
        "DecoderOnly",
        "Hugging Face SmolLM2-135M-Instruct",
        lambda: ours(ids),
        lambda: theirs(ids).logits,
        (ours.embedding.tokens.weight, theirs.model.embed_tokens.weight),
        "trained weights; float32 only, to save memory; rounding alone moves such a gradient by 1e-04",
        float32_limit=1e-3,
    )


DRAWN = (attention, multi_head, layers, stacks, bert, gpt2, llama, marian)
TRAINED = (minilm, smollm)  # need the packages of weights.txt


def difference(
    compute: Callable[[], Tensor], compute_reference: Callable[[], Tensor], leaves: list | tuple
) -> tuple[float, float]:
    """Compare the outputs, and the gradients of one weighted sum of them."""
    outputs, gradients = [], []
    for side, run in enumerate((compute, compute_reference)):
        output = run()
        weight = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
        inputs = leaves if isinstance(leaves, list) else [leaves[side]]
        gradients.append(torch.autograd.grad((output * weight).sum(), inputs))
        outputs.append(output.detach())
    return relative(*outputs), max(relative(a, b) for a, b in zip(*gradients, strict=True))


def relative(a: Tensor, b: Tensor) -> float:
    if a.shape != b.shape or not (a.isfinite().all() and b.isfinite().all()):
        return math.inf
    return ((a - b).abs().max() / b.abs().max().clamp(min=1)).item()


def by_loops(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """The definition, one number at a time."""
    mask = mask.expand(B, H, T, S)
    rows = []
    for b in range(B):
        for h in range(H):
            for t in range(T):
                allowed = [s for s in range(S) if mask[b, h, t, s]]
                if not allowed:
                    rows.append(0 * value[b, h, 0])
                    continue
                scores = []
                for s in allowed:
                    products = [query[b, h, t, d] * key[b, h, s, d] for d in range(query.size(-1))]
                    scores.append(sum(products) / math.sqrt(query.size(-1)))
                total = sum(score.exp() for score in scores)
                rows.append(
                    sum(sc.exp() / total * value[b, h, s] for sc, s in zip(scores, allowed, strict=True))
                )
    return torch.stack(rows).view(B, H, T, -1)


def by_einsum(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """The textbook's one line, without any defence."""
    scores = torch.einsum("bhtd,bhsd->bhts", query, key) / query.size(-1) ** 0.5
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return torch.einsum("bhts,bhsd->bhtd", weights, value)


def leaf(*shape_and_dtype) -> Tensor:
    """Normal random numbers that gradients lead back to."""
    *shape, dtype = shape_and_dtype
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def make_ids(*shape: int) -> Tensor:
    return torch.randint(3, V - 1, shape, generator=torch.Generator().manual_seed(sum(shape)))


def module(kind, *args, dtype: torch.dtype, **kwargs) -> nn.Module:
    """A new module in which no bias is 0 and no gain is 1."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return set_off(kind(*args, **kwargs)).to(dtype).eval()


def hugging_face(kind: str, dtype: torch.dtype, **config) -> nn.Module:
    """A new model of the package `transformers`, set off like `module`."""
    transformers.logging.set_verbosity_error()
    model = getattr(transformers, kind)
    special = {"bos_token_id": 1, "eos_token_id": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return set_off(model(model.config_class(vocab_size=V, **{**special, **config}))).to(dtype).eval()


def set_off(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return module


def table(rungs: list[Rung]) -> str:
    head = f"{'ours':32}{'reference':36}{'dtype':9}{'value':>9}{'gradient':>10}{'limit':>9}"
    lines = [head, "-" * len(head)]
    for r in rungs:
        verdict = "" if r.holds else "  FAILS"
        lines.append(
            f"{r.ours:32}{r.reference:36}{r.dtype:9}{r.value:9.1e}{r.gradient:10.1e}{r.limit:9.0e}{verdict}"
            + (f"  ({r.note})" if r.note else "")
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rungs = list(climb(DRAWN + TRAINED))
    print(table(rungs))
    versions = {m.__name__: m.__version__ for m in (torch, keras, transformers)}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "command": "make ladder",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": versions,
        "rungs": [asdict(rung) for rung in rungs],
    }
    arguments.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    failed = [r for r in rungs if not r.holds]
    raise SystemExit(f"{len(failed)} of {len(rungs)} rungs do not hold" if failed else 0)


if __name__ == "__main__":
    main()
