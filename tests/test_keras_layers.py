import warnings

import pytest
import torch
from support import assert_raises, error_table, make_ids, seeded, set_off
from support import close as exactly_close
from support import make as make_double

import keras  # isort: skip  (support chooses its backend)
import numpy as np

from tutorial_lib.classifier import build_text_classifier
from tutorial_lib.interop_keras import to_keras_decoder, to_keras_encoder
from tutorial_lib.keras_layers import (
    MaskedAveragePooling,
    PositionEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)
from tutorial_lib.layers import DecoderLayer, EncoderLayer, LayerConfig
from tutorial_lib.masks import causal_mask, combine_masks, padding_mask
from tutorial_lib.positions import sinusoidal_encoding

B, T, S, D, H = 2, 5, 7, 12, 3
# Keras' torch backend computes matrix products of float64 in float32; so everything here is float32.
ROUNDING = 3e-6


def make(*shape, seed=0):
    return make_double(*shape, dtype=torch.float32, seed=seed)


def close(a, b, tolerance=ROUNDING):
    return exactly_close(a, b, tolerance)


NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def encoder_pair(norm):
    ours = set_off(seeded(EncoderLayer, LayerConfig(D, H, 20, norm=norm)))
    return ours, to_keras_encoder(ours)


def decoder_pair(norm):
    ours = set_off(seeded(DecoderLayer, LayerConfig(D, H, 20, norm=norm)))
    return ours, to_keras_decoder(ours)


@NORMS
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("lengths", [[5, 3], [5, 0]])
def test_the_encoder_equals_the_torch_layer(norm, training, lengths):
    ours, theirs = encoder_pair(norm)
    mask = padding_mask(lengths=lengths, size=T)
    x, y = make(B, T, D).requires_grad_(), make(B, T, D).requires_grad_()
    expected, output = ours(x, mask), theirs(y, mask=mask[:, 0, 0], training=training)
    close(output, expected)
    expected.square().sum().backward()
    output.square().sum().backward()
    close(y.grad, x.grad, 3e-5)


@NORMS
def test_the_decoder_equals_the_torch_layer(norm):
    ours, theirs = decoder_pair(norm)
    x, memory = make(B, T, D), make(B, S, D, seed=1)
    own, other = padding_mask(lengths=[5, 3]), padding_mask(lengths=[7, 0], size=S)
    expected = ours(x, memory, combine_masks(causal_mask(T), own), other)
    for training in (True, False):
        output = theirs(x, memory, inputs_mask=own[:, 0, 0], memory_mask=other[:, 0, 0], training=training)
        close(output, expected)


@NORMS
@pytest.mark.parametrize("training", [True, False])
def test_the_decoder_never_sees_the_future(norm, training):
    decoder = decoder_pair(norm)[1]
    x, memory = make(B, T, D), make(B, S, D, seed=1)
    later = x.clone()
    later[:, 3:] = 9.0
    base, changed = (decoder(v, memory, training=training) for v in (x, later))
    close(changed[:, :3], base[:, :3])
    assert (changed[:, 3:] - base[:, 3:]).abs().max() > 1e-3


def test_masks_stay_alive_and_each_sequence_keeps_its_own():
    tokens = keras.layers.Embedding(20, D, mask_zero=True)
    position = PositionEmbedding(9)
    encoder, decoder = encoder_pair("post")[1], decoder_pair("post")[1]
    source, target = make_ids(B, S), make_ids(B, T, seed=1)
    source[1, 4:], target[0, 3:] = 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # "... will therefore destroy the mask"
        memory = encoder(position(tokens(source)))
        output = decoder(position(tokens(target)), memory)
    assert memory._keras_mask.equal(source != 0)
    assert output._keras_mask.equal(target != 0)
    short = decoder(position(tokens(target[1:])), encoder(position(tokens(source[1:, :4]))))
    close(output[1], short[0])


@pytest.mark.parametrize("kind", ["learned", "sinusoidal"])
@pytest.mark.parametrize("width", [1, 3, 7, 512])
def test_positions_are_added_in_every_width(kind, width):
    layer = PositionEmbedding(T, kind)
    x = make(B, T, width)
    added = layer(x) - x
    expected = sinusoidal_encoding(torch.arange(T), width) if kind == "sinusoidal" else layer.table.value
    close(added, expected.expand(B, T, width))
    close(layer(x[:, :2]), layer(x)[:, :2])


def test_the_memory_keeps_its_mask_for_the_second_decoder_layer():
    tokens = keras.layers.Embedding(20, D, mask_zero=True)
    source, x = make_ids(B, S), make(B, T, D)
    source[1, 4:] = 0
    first, second = decoder_pair("post")[1], decoder_pair("pre")[1]
    memory = tokens(source)
    output = second(first(x, memory), memory)
    assert memory._keras_mask.equal(source != 0)
    close(output[1], second(first(x[1:], tokens(source[1:, :4])), tokens(source[1:, :4]))[0])


def test_the_average_counts_real_tokens_only():
    x, mask = make(B, T, D), torch.tensor([[1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
    pool = MaskedAveragePooling()
    close(pool(x, mask=mask)[0], x[0, :2].mean(0))
    assert (pool(x, mask=mask)[1] == 0).all()
    close(pool(x), x.mean(1))


@pytest.mark.parametrize("norm, positions, classes", [("post", "sinusoidal", 1), ("pre", "learned", 3)])
def test_the_classifier_ignores_padding_and_survives_saving(tmp_path, norm, positions, classes):
    keras.utils.set_random_seed(0)
    model = build_text_classifier(
        20, norm=norm, positions=positions, max_length=9, classes=classes, layers=2, dropout=0.1
    )
    ids = make_ids(3, 6).numpy().astype("int32")
    ids[1, 4:] = 0
    base = model(ids).detach()
    padded = np.pad(ids, ((0, 0), (0, 3)))
    close(model(padded).detach(), base)
    empty = model(np.zeros((1, 4), dtype="int32")).detach()
    close(empty.sum(-1), torch.tensor([0.5 if classes == 1 else 1.0]), 0.5 if classes == 1 else 1e-6)
    assert empty.isfinite().all()
    path = tmp_path / "model.keras"
    model.save(path)
    close(keras.models.load_model(path)(ids).detach(), base)
    model.save_weights(tmp_path / "w.weights.h5")
    again = build_text_classifier(
        20, norm=norm, positions=positions, max_length=9, classes=classes, layers=2, dropout=0.1
    )
    again.load_weights(tmp_path / "w.weights.h5")
    close(again(ids).detach(), base)


def test_without_positions_the_classifier_sees_a_bag_of_words():
    ids = make_ids(2, 6)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    for positions, same in (("none", True), ("sinusoidal", False)):
        keras.utils.set_random_seed(0)
        model = build_text_classifier(20, positions=positions)
        difference = (model(ids[:, order]) - model(ids)).abs().max().item()
        assert (difference < 1e-6) == same


def test_the_classifier_learns():
    keras.utils.set_random_seed(0)
    model = build_text_classifier(12, width=16, hidden=32)
    model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy")
    ids = make_ids(64, 5, high=12).numpy()
    labels = (ids[:, 0] > 5).astype("float32")[:, None]
    losses = model.fit(ids, labels, epochs=12, batch_size=16, verbose=0).history["loss"]
    assert losses[-1] < 0.75 * losses[0]


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_layers_come_back_from_their_configuration(kind):
    layer = (encoder_pair if kind == "encoder" else decoder_pair)("pre")[1]
    again = type(layer).from_config(layer.get_config())
    names = ("width", "heads", "hidden", "norm", "activation", "dropout", "epsilon")
    assert all(getattr(again, n) == getattr(layer, n) for n in names)
    assert layer.compute_output_shape((None, 5, D), (None, 7, D)) == (None, 5, D)
    position = PositionEmbedding.from_config(PositionEmbedding(5).get_config())
    assert position.max_length == 5 and position.kind == "learned"
    assert MaskedAveragePooling().compute_output_shape((None, 5, D)) == (None, D)


def test_dropout_acts_only_in_training():
    layer, x = TransformerEncoder(D, H, 20, dropout=0.5), make(B, T, D)
    assert not torch.equal(layer(x, training=True), layer(x, training=True))
    assert torch.equal(layer(x, training=False), layer(x, training=False))


def test_half_precision_is_finite():
    layer = TransformerEncoder(D, H, 20, dtype="float16")
    mask = torch.tensor([[True] * 5, [False] * 5])
    output = layer(100 * make(B, T, D).half(), mask=mask)
    assert output.dtype == torch.float16 and output.isfinite().all()


@error_table(
    [
        ("heads", lambda: TransformerEncoder(10, 3, 4), ("divisible", "10 and 3")),
        ("norm", lambda: TransformerDecoder(12, 3, 4, norm="Pre"), ("'post', 'pre'", "'Pre'")),
        ("hidden", lambda: TransformerEncoder(12, 3, 0), ("hidden", "0")),
        ("dropout", lambda: TransformerEncoder(12, 3, 4, dropout=1), ("[0, 1)", "1")),
        ("width", lambda: TransformerEncoder(12, 3, 4)(torch.zeros(2, 5, 8)), ("(B, T, 12)", "(2, 5, 8)")),
        ("rank", lambda: TransformerEncoder(12, 3, 4)(torch.zeros(5, 12)), ("(B, T, 12)", "(5, 12)")),
        (
            "memory",
            lambda: TransformerDecoder(12, 3, 4)(torch.zeros(2, 5, 12), torch.zeros(2, 5, 8)),
            ("memory", "(B, T, 12)", "(2, 5, 8)"),
        ),
        ("positions: kind", lambda: PositionEmbedding(5, "fixed"), ("'sinusoidal'", "'fixed'")),
        ("positions: length", lambda: PositionEmbedding(), ("max_length", "None")),
        ("positions: rank", lambda: PositionEmbedding(5)(torch.zeros(2, 5)), ("(B, T, D)", "(2, 5)")),
        ("too long", lambda: PositionEmbedding(4)(torch.zeros(2, 5, 3)), ("max_length=4", "5 tokens")),
        ("classes", lambda: build_text_classifier(20, classes=0), ("classes", "0")),
        ("classifier: positions", lambda: build_text_classifier(20, positions="x"), ("'none'", "'x'")),
        (
            "classifier: length",
            lambda: build_text_classifier(20, positions="learned"),
            ("max_length", "None"),
        ),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
