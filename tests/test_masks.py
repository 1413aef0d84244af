import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import pytest
import torch
from torch import nn

from tutorial_lib.attention import scaled_dot_product_attention
from tutorial_lib.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    to_keras_attention_mask,
    to_keras_padding_mask,
    to_torch_attn_mask,
    to_torch_key_padding_mask,
)


def test_padding_mask_from_lengths_allows_the_first_tokens_only():
    mask = padding_mask(lengths=[3, 0, 2], size=4)
    assert mask.shape == (3, 1, 1, 4) and mask.dtype == torch.bool
    assert mask[:, 0, 0].tolist() == [[True, True, True, False], [False] * 4, [True, True, False, False]]


def test_padding_mask_without_size_is_as_wide_as_the_longest():
    assert padding_mask(lengths=torch.tensor([2, 5])).shape == (2, 1, 1, 5)


def test_padding_mask_from_ids_finds_padding_anywhere():
    ids = torch.tensor([[0, 7, 0], [5, 9, 9]])
    assert padding_mask(ids=ids)[:, 0, 0].tolist() == [[False, True, False], [True, True, True]]
    assert padding_mask(ids=ids, pad_id=9)[:, 0, 0].tolist() == [[True, True, True], [True, False, False]]


def test_ids_and_lengths_agree():
    ids = torch.tensor([[4, 4, 0, 0], [4, 4, 4, 4], [4, 0, 0, 0]])
    assert torch.equal(padding_mask(ids=ids), padding_mask(lengths=(ids != 0).sum(-1), size=4))
    assert torch.equal(padding_mask(ids=ids.tolist()), padding_mask(ids=ids))
    assert torch.equal(padding_mask(ids=ids.numpy(), pad_id=ids[0, 2]), padding_mask(ids=ids))


@pytest.mark.parametrize("T", [0, 1, 2, 7])
def test_causal_mask_allows_itself_and_the_past(T):
    mask = causal_mask(T)
    assert mask.shape == (T, T) and mask.dtype == torch.bool
    for t in range(T):
        for s in range(T):
            assert mask[t, s] == (s <= t)


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 6), (3, 7), (5, 5)])
def test_decoding_sees_the_last_rows_of_the_training_mask(T, S):
    assert torch.equal(causal_mask(T, S), causal_mask(S)[S - T :])


def test_combined_mask_allows_what_all_allow():
    pad, causal = padding_mask(lengths=[2, 3]), causal_mask(3)
    mask = combine_masks(pad, None, causal)
    assert mask.shape == (2, 1, 3, 3)
    for b, length in enumerate([2, 3]):
        for t in range(3):
            for s in range(3):
                assert mask[b, 0, t, s] == (s <= t and s < length)
    assert combine_masks(None, None) is None and combine_masks() is None
    assert combine_masks(None, causal) is causal
    assert combine_masks(causal, pad, mask, causal).shape == (2, 1, 3, 3)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_mask_of_three_dimensions_is_not_lined_up_with_the_heads(swapped):
    masks = [padding_mask(lengths=[2, 3]), torch.ones(2, 3, 3, dtype=torch.bool)]
    with pytest.raises(ValueError, match=r"\(T, S\) or have as many dimensions as each other: got \(2, "):
        combine_masks(*masks[:: -1 if swapped else 1])
    with_causal = combine_masks(masks[1], causal_mask(3), masks[1])
    assert with_causal.shape == (2, 3, 3)


def test_a_mask_of_keys_alone_is_sent_to_the_other_converter():
    for heads in (None, 1, 2):
        with pytest.raises(ValueError, match=r"\(2, 1, 1, 3\): use to_torch_key_padding_mask"):
            to_torch_attn_mask(padding_mask(lengths=[2, 3]), heads)
    one_query_per_head = torch.ones(2, 4, 1, 3, dtype=torch.bool)
    assert to_torch_attn_mask(one_query_per_head, 4).shape == (8, 1, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: padding_mask(), "neither"),
        (lambda: padding_mask(lengths=[1], ids=torch.ones(1, 1, dtype=torch.long)), "both"),
        (lambda: padding_mask(ids=torch.ones(2, 3, dtype=torch.long), size=3), "size"),
        (lambda: padding_mask(ids=torch.ones(2, 3)), r"float32 of \(2, 3\)"),
        (lambda: padding_mask(ids=torch.ones(2, 3, dtype=torch.bool)), "torch.bool"),
        (lambda: padding_mask(ids=torch.ones(3, dtype=torch.long)), r"\(B, S\).*\(3,\)"),
        (lambda: padding_mask(ids=torch.ones(2, 3, dtype=torch.complex64)), "complex64"),
        (lambda: padding_mask(ids=[1, 0]), r"ids .*\(B, S\), got torch.int64 of \(2,\)"),
        (lambda: padding_mask(ids=[[1, 0], [1]]), r"ids .*\(B, S\), got list \(expected"),
        (lambda: padding_mask(ids=[["a", "b"]]), r"ids .*\(B, S\), got list"),
        (lambda: padding_mask(ids=[[1, 0]], size=3), "got ids and size 3"),
        (lambda: padding_mask(ids=[[1, 0]], pad_id=None), "pad_id must be an integer, got None"),
        (lambda: padding_mask(ids=[[1, 0]], pad_id=0.5), "pad_id must be an integer, got 0.5"),
        (lambda: padding_mask(lengths=[2, 1], size=2.5), "size must be an integer, got 2.5"),
        (lambda: padding_mask(lengths=[True, False]), r"lengths must be integers .*torch.bool of \(2,\)"),
        (lambda: padding_mask(lengths=5), r"\(B,\), got torch.int64 of \(\)"),
        (lambda: padding_mask(lengths=torch.ones(0, dtype=torch.long)), r"at least one .*\(0,\)"),
        (lambda: padding_mask(lengths=[5, 3], size=4), "0 and size 4, got 3 to 5"),
        (lambda: padding_mask(lengths=[-1, 3]), "got -1 to 3"),
        (lambda: padding_mask(lengths=[1.5, 3.0]), "float32"),
        (lambda: padding_mask(lengths=[]), r"\(0,\)"),
        (lambda: causal_mask(3, 2), "T=3, S=2"),
        (lambda: causal_mask(-1), "T=-1"),
        (lambda: combine_masks(torch.zeros(2, 2)), "float32"),
        (lambda: combine_masks([[True]]), "list"),
        (lambda: combine_masks(torch.ones(3, dtype=torch.bool)), r"\(3,\)"),
        (lambda: combine_masks(causal_mask(2), causal_mask(3)), r"\(2, 2\) and \(3, 3\)"),
        (lambda: combine_masks(causal_mask(2), causal_mask(2, device="meta")), "cpu and meta"),
        (lambda: to_torch_key_padding_mask(causal_mask(3)), r"\(3, 3\)"),
        (lambda: to_torch_attn_mask(torch.ones(2, 1, 3, 3, dtype=torch.bool)), "num_heads=None"),
        (lambda: to_torch_attn_mask(torch.ones(2, 3, 3, 3, dtype=torch.bool), 2), "num_heads=2"),
        (lambda: to_torch_attn_mask(torch.ones(2, 3, 3, dtype=torch.bool), 2), r"\(2, 3, 3\)"),
        (lambda: to_keras_attention_mask(torch.ones(2, 4, 3, 3, dtype=torch.bool)), r"\(2, 4, 3, 3\)"),
        (lambda: to_keras_attention_mask(torch.ones(2, 3, 3)), "float32"),
        (lambda: to_keras_padding_mask(causal_mask(3)), r"\(3, 3\)"),
    ],
)
def test_bad_input_names_what_was_expected_and_received(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def torch_layer(width, heads):
    """`nn.MultiheadAttention` whose projections change nothing."""
    layer = nn.MultiheadAttention(width, heads, bias=False, batch_first=True).double()
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(width).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(width))
    return layer


def ours(x, mask, heads):
    split = x.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, T, D) -> (B, H, T, Dh)
    return scaled_dot_product_attention(split, split, split, mask)[0].transpose(1, 2).flatten(2)


def test_converted_masks_mean_the_same_to_nn_multihead_attention():
    x = torch.randn(2, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pad, causal = padding_mask(lengths=[3, 5]), causal_mask(5)
    layer = torch_layer(6, 2)
    both = combine_masks(pad, causal)
    expected = ours(x, both, 2)
    separately = layer(
        x, x, x, key_padding_mask=to_torch_key_padding_mask(pad), attn_mask=to_torch_attn_mask(causal)
    )[0]
    torch.testing.assert_close(separately, expected)
    torch.testing.assert_close(layer(x, x, x, attn_mask=to_torch_attn_mask(both, 2))[0], expected)


def test_masks_of_each_head_go_to_the_right_head_of_nn_multihead_attention():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 4, 6, dtype=torch.float64, generator=generator)
    mask = torch.rand(3, 2, 4, 4, generator=generator) < 0.5
    mask |= torch.eye(4, dtype=torch.bool)
    converted = torch_layer(6, 2)(x, x, x, attn_mask=to_torch_attn_mask(mask, 2))[0]
    torch.testing.assert_close(converted, ours(x, mask, 2))


def test_converted_masks_mean_the_same_to_keras():
    import keras

    x = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))
    pad, causal = padding_mask(lengths=[3, 5]), causal_mask(5)
    layer = keras.layers.MultiHeadAttention(2, 3, use_bias=False)
    layer(x, x)
    eye = torch.eye(6)
    layer.set_weights([*(eye.reshape(6, 2, 3).numpy() for _ in range(3)), eye.reshape(2, 3, 6).numpy()])
    both = combine_masks(pad, causal)
    tolerance = {"rtol": 1e-5, "atol": 1e-6}
    for mask in (causal, both):
        result = layer(x, x, attention_mask=to_keras_attention_mask(mask))
        torch.testing.assert_close(result, ours(x, mask, 2), **tolerance)
    result = layer(x, x, key_mask=to_keras_padding_mask(pad), use_causal_mask=True)
    torch.testing.assert_close(result, ours(x, both, 2), **tolerance)
