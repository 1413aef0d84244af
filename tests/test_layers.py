import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make, seeded, set_off
from torch import nn

from tutorial_lib.cache import KeyValueCache
from tutorial_lib.interop import to_torch_decoder_layer, to_torch_encoder_layer
from tutorial_lib.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, LayerConfig, Residual
from tutorial_lib.masks import causal_mask, padding_mask, to_torch_attn_mask, to_torch_key_padding_mask
from tutorial_lib.normalization import RMSNorm

B, T, S, D = 2, 5, 7, 12
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def config(**changes):
    return LayerConfig(**{"width": D, "heads": 3, "hidden": 20, **changes})


def build(kind, *args, **changes):
    return set_off(seeded(kind, config(**changes), *args).double())


@NORMS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("training", [True, False])
def test_the_encoder_layer_equals_torch(norm, activation, training):
    ours = build(EncoderLayer, norm=norm, feed_forward=activation).train(training)
    reference = to_torch_encoder_layer(ours)
    x, mask = make(B, T, D), padding_mask(lengths=[5, 3])
    expected = reference(x, src_key_padding_mask=to_torch_key_padding_mask(mask))
    real = mask[:, 0, 0]
    close(ours(x, mask)[real], expected[real])


@NORMS
def test_the_decoder_layer_equals_torch(norm):
    ours = build(DecoderLayer, norm=norm)
    reference = to_torch_decoder_layer(ours)
    x, memory = make(B, T, D), make(B, S, D, seed=1)
    memory_mask = padding_mask(lengths=[7, 4])
    expected = reference(
        x,
        memory,
        tgt_mask=to_torch_attn_mask(causal_mask(T)),
        memory_key_padding_mask=to_torch_key_padding_mask(memory_mask),
    )
    close(ours(x, memory, causal_mask(T), memory_mask), expected)


@given(
    norm=st.sampled_from(["post", "pre"]),
    norm_kind=st.sampled_from(["layer", "rms"]),
    feed_forward=st.sampled_from(["relu", "gelu", "gelu_tanh", "silu", "swiglu"]),
    heads=st.sampled_from([(1, 1), (3, 1), (4, 2), (6, 6)]),
    bias=st.booleans(),
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3),
)
def test_any_layer_ignores_padding_and_stays_finite(norm, norm_kind, feed_forward, heads, bias, lengths):
    layer = build(
        EncoderLayer,
        norm=norm,
        norm_kind=norm_kind,
        feed_forward=feed_forward,
        heads=heads[0],
        kv_heads=heads[1],
        bias=bias,
    )
    x = make(len(lengths), 4, D).requires_grad_()
    mask = padding_mask(lengths=lengths, size=4)
    output = layer(x, mask)
    assert output.isfinite().all()
    for row, length in enumerate(lengths):
        if length:
            close(output[row, :length], layer(x[row : row + 1, :length])[0])
    (gradient,) = torch.autograd.grad(output[mask[:, 0, 0]].square().sum(), x)
    assert gradient.isfinite().all()
    assert (gradient[~mask[:, 0, 0]] == 0).all()  # padding receives nothing from real tokens


def test_post_norm_normalises_the_sum_and_pre_norm_leaves_it_alone():
    x = make(B, T, D)
    post, pre = seeded(Residual, config(norm="post")).double(), seeded(Residual, config(norm="pre")).double()
    close(post(x, lambda h: 2 * h), post.norm(3 * x))
    close(pre(x, lambda h: 2 * h), x + 2 * pre.norm(x))
    close(pre(x, torch.zeros_like), x)


@NORMS
def test_only_pre_norm_stacks_end_with_a_norm_unless_told_otherwise(norm):
    for stack in (Encoder, Decoder):
        ends = isinstance(seeded(stack, config(norm=norm), 2).final_norm, nn.LayerNorm)
        assert ends == (norm == "pre")
        assert isinstance(stack(config(norm=norm), 1, final_norm=True).final_norm, nn.LayerNorm)
        assert isinstance(stack(config(norm=norm), 1, final_norm=False).final_norm, nn.Identity)
    assert isinstance(Encoder(config(norm="pre", norm_kind="rms"), 1).final_norm, RMSNorm)


@NORMS
def test_the_stack_applies_its_layers_in_order_with_parameters_of_their_own(norm):
    stack = build(Encoder, 3, norm=norm)
    x, mask = make(B, T, D), padding_mask(lengths=[5, 3])
    expected = x
    for layer in stack.layers:
        expected = layer(expected, mask)
    close(stack(x, mask), stack.final_norm(expected))
    one, end = (sum(p.numel() for p in m.parameters()) for m in (stack.layers[0], stack.final_norm))
    assert sum(p.numel() for p in stack.parameters()) == 3 * one + end


@NORMS
def test_every_decoder_layer_looks_at_the_memory_with_its_own_mask(norm):
    decoder = build(Decoder, 2, norm=norm)
    x, memory = make(B, T, D), make(B, S, D, seed=1).requires_grad_()
    memory_mask = padding_mask(lengths=[7, 4])
    output = decoder(x, memory, causal_mask(T), memory_mask)
    (gradient,) = torch.autograd.grad(output.square().sum(), memory)
    assert (gradient[1, 4:] == 0).all() and (gradient[1, :4] != 0).all()
    close(output[1:], decoder(x[1:], memory[1:, :4], causal_mask(T)))


@pytest.mark.parametrize("training", [True, False])
def test_the_decoder_shows_the_future_only_if_the_mask_does(training):
    decoder = build(Decoder, 2).train(training)
    x, memory = make(B, T, D), make(B, S, D, seed=1)
    later = x.clone()
    later[:, 3:] = 9.0
    assert torch.equal(
        decoder(x, memory, causal_mask(T))[:, :3], decoder(later, memory, causal_mask(T))[:, :3]
    )
    assert not torch.equal(decoder(x, memory, None)[:, :3], decoder(later, memory, None)[:, :3])


@NORMS
def test_a_cached_decoder_gives_the_same_numbers_in_any_chunking(norm):
    decoder = build(Decoder, 2, norm=norm, kv_heads=1)
    x, memory = make(B, T, D), make(B, S, D, seed=1)
    whole = decoder(x, memory, causal_mask(T))
    for chunks in ([1] * 5, [2, 3], [4, 1], [5]):
        caches = [(KeyValueCache(), KeyValueCache()) for _ in range(2)]
        outputs = []
        for part in x.split(chunks, dim=1):
            seen = caches[0][0].length
            mask = causal_mask(part.size(1), seen + part.size(1))
            outputs.append(decoder(part, memory, mask, caches=caches))
        close(torch.cat(outputs, 1), whole)


@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_dropout_acts_only_in_training(kind):
    layer = build(kind, dropout=0.5, attention_dropout=0.5)
    args = (make(B, T, D),) if kind is EncoderLayer else (make(B, T, D), make(B, S, D), causal_mask(T))
    assert not torch.equal(layer(*args), layer(*args))
    layer.eval()
    assert torch.equal(layer(*args), layer(*args))


@pytest.mark.parametrize("part", ["dropout", "attention_dropout"])
def test_each_kind_of_dropout_is_used(part):
    layer, x = build(EncoderLayer, **{part: 0.5}), make(B, T, D)
    assert not torch.equal(layer(x), layer(x))


def test_dropout_of_a_sublayer_happens_before_the_sum():
    residual = seeded(Residual, config(dropout=0.999999999, norm="pre")).double()
    close(residual(make(B, T, D), lambda h: h), make(B, T, D))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@NORMS
def test_half_precision_is_finite(dtype, norm):
    layer = seeded(EncoderLayer, config(norm=norm)).to(dtype)
    output = layer(make(B, T, D, dtype=dtype) * 100, padding_mask(lengths=[5, 0], size=T))
    assert output.dtype == dtype and output.isfinite().all()


X, MEMORY = make(B, T, D), make(B, S, D)
LAYER, DECODER = build(EncoderLayer), build(DecoderLayer)


@error_table(
    [
        ("norm", lambda: config(norm="Post"), ("'post', 'pre'", "'Post'")),
        ("kind of norm", lambda: config(norm_kind="batch"), ("'layer', 'rms'", "'batch'")),
        ("feed forward", lambda: config(feed_forward="elu"), ("'swiglu'", "'elu'")),
        ("eps", lambda: config(norm_eps=0.0), ("norm_eps", "0.0")),
        ("width", lambda: config(width=0), ("width", "0")),
        ("dropout", lambda: config(dropout=-0.1), ("[0, 1)", "-0.1")),
        ("attention dropout", lambda: config(attention_dropout=1), ("attention_dropout", "1")),
        ("heads", lambda: EncoderLayer(config(heads=5)), ("divisible", "12 and 5")),
        ("no layers", lambda: Encoder(config(), 0), ("layers", "0")),
        ("wrong rank", lambda: LAYER(X[0]), ("(B, T, 12)", "(5, 12)")),
        ("swapped axes", lambda: DECODER(X.mT, MEMORY, None), ("(B, T, 12)", "(2, 12, 5)")),
        ("mixed dtypes", lambda: LAYER(X.float()), ("float64", "float32")),
        ("float mask", lambda: LAYER(X, torch.ones(T, T)), ("boolean", "float32")),
        ("padding mask (B, S)", lambda: LAYER(X, torch.ones(B, T).bool()), ("(2, 5)", "(2, 3, 5, 5)")),
        (
            "masks exchanged",
            lambda: DECODER(X, MEMORY, padding_mask(lengths=[7, 4]), causal_mask(T)),
            ("(2, 1, 1, 7)", "(2, 3, 5, 5)"),
        ),
        ("memory: batch", lambda: DECODER(X, MEMORY[:1], None), ("same batch size", "2 and 1")),
        ("too few caches", lambda: Encoder(config(), 2).double()(X, caches=[None]), ("1 for 2 layers",)),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
