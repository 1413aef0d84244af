import torch
from support import assert_raises, close, make, make_ids, seeded

from tutorial_lib.layers import Encoder, LayerConfig
from tutorial_lib.masks import padding_mask
from tutorial_lib.recording import record_attention
from tutorial_lib.transformer import Transformer, TransformerConfig


def test_the_recorded_weights_are_those_of_the_same_pass_with_its_mask():
    encoder = seeded(Encoder, LayerConfig(8, 2, 16), 2).double()
    x, mask = make(2, 5, 8), padding_mask(lengths=[5, 3])
    with record_attention(encoder) as weights:
        recorded_output = encoder(x, mask)
    assert list(weights) == ["layers.0.attention", "layers.1.attention"]
    middle = encoder.layers[0](x, mask)
    for name, layer, inputs in (("layers.0", 0, x), ("layers.1", 1, middle)):
        (recorded,) = weights[f"{name}.attention"]
        expected = encoder.layers[layer].attention(inputs, mask=mask, need_weights=True)[1]
        close(recorded, expected)
        assert (recorded[1, :, :, 3:] == 0).all()
    close(recorded_output, encoder(x, mask))


def test_each_call_is_recorded_and_nothing_remains_afterwards():
    config = TransformerConfig(20, 20, LayerConfig(8, 2, 16), 1, 1)
    model = seeded(Transformer, config).eval()
    source, target = make_ids(1, 4), make_ids(1, 3)
    with record_attention(model) as weights:
        state = model.start(source)
        for token in target.split(1, dim=1):
            model.step(token, state)
    cross = weights["decoder.layers.0.cross_attention"]
    assert [w.shape for w in cross] == [(1, 2, 1, 4)] * 3
    assert [w.size(-1) for w in weights["decoder.layers.0.self_attention"]] == [1, 2, 3]
    assert not any(w.requires_grad for w in cross)
    model(source, target)
    assert len(cross) == 3


def test_hooks_are_removed_when_the_model_fails():
    encoder = seeded(Encoder, LayerConfig(8, 2, 16), 1)
    try:
        with record_attention(encoder):
            raise RuntimeError
    except RuntimeError:
        pass
    assert not encoder.layers[0].attention._forward_hooks


def test_a_model_without_attention_is_named():
    def record():
        with record_attention(torch.nn.Linear(2, 2)):
            pass

    assert_raises(record, ("Linear", "MultiHeadAttention"))
