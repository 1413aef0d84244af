import re

import pytest
import torch
from support import assert_raises, error_table, make, make_ids, seeded
from torch import nn

import keras  # isort: skip  (support chooses its backend)

from tutorial_lib import check_messages
from tutorial_lib.attention import masked_softmax
from tutorial_lib.check_subject import Subject
from tutorial_lib.checks import (
    CheckError,
    check_cache,
    check_causal,
    check_gradients,
    check_padding_invariance,
    check_permutation_equivariance,
    check_rows_sum_to_one,
)
from tutorial_lib.classifier import build_text_classifier
from tutorial_lib.decoder_only import DecoderOnly, DecoderOnlyConfig
from tutorial_lib.encoder_only import EncoderOnly, EncoderOnlyConfig
from tutorial_lib.keras_layers import TransformerDecoder
from tutorial_lib.layers import EncoderLayer, LayerConfig
from tutorial_lib.masks import causal_mask, padding_mask
from tutorial_lib.multihead import MultiHeadAttention
from tutorial_lib.recurrent import RecurrentConfig, RecurrentTranslator
from tutorial_lib.transformer import Transformer, TransformerConfig

IDS, X = make_ids(2, 6), make(2, 6, 8, dtype=torch.float32)


class Attention(nn.Module):
    """Self-attention as people write it, with a fault that can be chosen."""

    def __init__(self, fault="", dropout=0.0):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, dropout, batch_first=True)
        self.norm = nn.BatchNorm1d(8)
        self.fault = fault

    def forward(self, x, real=None):
        T = x.size(1)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)  # torch: True = NOT allowed
        if self.fault == "not in evaluation" and not self.training:
            future = None
        if self.fault == "not in training" and self.training:
            future = None
        if self.fault == "shifted":
            future = future.triu(2)
        if self.fault == "inverted":
            future = ~torch.ones(T, T, dtype=torch.bool).triu(0)
        if self.fault == "none":
            future = None
        if self.fault == "bidirectional":
            return self.inner(x, x, x, key_padding_mask=~real)[0]
        output = self.inner(x, x, x, attn_mask=future)[0]
        if self.fault == "batch statistics":
            output = self.norm(output.transpose(1, 2)).transpose(1, 2)
        return (output, "weights")


def caught(check, *args, **kwargs):
    with pytest.raises(CheckError) as error:
        check(*args, **kwargs)
    return str(error.value)


def build_llama():
    return seeded(DecoderOnly, DecoderOnlyConfig.llama(20, 16, 4, 2, 24, 2))


# Causality


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_a_causal_model_passes_in_both_modes_also_with_dropout(dropout):
    report = check_causal(seeded(Attention, dropout=dropout), X)
    assert report.modes == ("train", "eval") and report.largest <= report.tolerance
    assert str(report).startswith("check_causal: passed (training mode, evaluation mode)")


@pytest.mark.parametrize(
    "fault, mode, cause",
    [
        ("not in evaluation", "evaluation mode", "only while training"),
        ("not in training", "training mode", "only in evaluation"),
        ("batch statistics", "training mode", "batch normalisation"),
        ("shifted", "training mode", "shifted by one"),
        ("inverted", "training mode", "inverted"),
        ("none", "training mode", "no causal mask"),
    ],
)
def test_a_leak_is_found_and_its_cause_named(fault, mode, cause):
    message = caught(check_causal, seeded(Attention, fault), X)
    assert mode in message and cause in message
    token, position = map(int, re.search(r"token (\d+) changes output (\d+)", message).groups())
    assert position < token


def test_a_small_constant_in_the_mask_leaks():
    def attention(x):
        scores = -3e4 * (x @ x.transpose(1, 2)).tanh()
        scores = scores.masked_fill(~causal_mask(x.size(1)), -1e4)
        return torch.softmax(scores, -1) @ x

    assert "-1e4" in caught(check_causal, attention, X)


def test_a_keras_decoder_passes_and_one_without_its_mask_does_not():
    keras.utils.set_random_seed(0)
    memory, decoder = make(2, 5, 8, dtype=torch.float32), TransformerDecoder(8, 2, 16, dropout=0.3)

    def call(layer, x):
        return layer(x, memory) * len({layer.name})

    decoder(X, memory)
    assert check_causal(decoder, X, call=call).largest == 0
    random = [Subject(decoder, call, (mode,)) for mode in ("train", "eval")]
    assert not random[0]("train", X).equal(random[0]("train", X, seed=1))  # dropout was really on
    assert random[1]("eval", X).equal(random[1]("eval", X, seed=1))
    attention = keras.layers.MultiHeadAttention(2, 4, dropout=0.3)
    assert "no causal mask" in caught(check_causal, attention, X, call=lambda m, x: m(x, x))


def test_another_call_reaches_an_encoder_decoder():
    config = TransformerConfig(20, 20, LayerConfig(8, 2, 16, dropout=0.2), 1, 1)
    model = seeded(Transformer, config)
    source = make_ids(2, 4, seed=3)
    check_causal(model, IDS, call=lambda m, ids: m(source, ids))
    recurrent = seeded(RecurrentTranslator, RecurrentConfig(20, 20, 6, 8, dropout=0.2))
    check_causal(recurrent, IDS, call=lambda m, ids: m(source, ids))


def test_a_model_that_ignores_its_input_does_not_pass():
    assert "does not change" in caught(check_causal, lambda ids: torch.zeros(2, 6, 3), IDS)


def test_not_a_number_does_not_pass():
    def broken(x):
        output = x.cumsum(1)
        return output.masked_fill(x[:, -1:] != X[:, -1:], float("nan"))

    caught(check_causal, broken, X)


# Padding


def test_models_that_ignore_padding_pass_on_both_sides():
    model = seeded(EncoderOnly, EncoderOnlyConfig(20, LayerConfig(8, 2, 16), 1))
    for side in ("right", "left"):
        assert check_padding_invariance(model, IDS, side=side).modes == ("train", "eval")
    keras.utils.set_random_seed(0)
    assert check_padding_invariance(build_text_classifier(20), IDS).modes == ("train", "eval")
    attention = seeded(Attention, "bidirectional")
    check_padding_invariance(attention, X, call=lambda m, x, real: m(x, real))


def test_a_mode_with_dropout_is_left_out_and_the_report_says_so():
    model = seeded(EncoderOnly, EncoderOnlyConfig(20, LayerConfig(8, 2, 16, dropout=0.2), 1))
    assert check_padding_invariance(model, IDS).modes == ("eval",)
    keras.utils.set_random_seed(0)
    assert check_padding_invariance(build_text_classifier(20, dropout=0.2), IDS).modes == ("eval",)
    assert_raises(lambda: check_padding_invariance(model, IDS, modes=("train",)), ("random numbers", "train"))


def test_a_missing_padding_mask_is_found():
    layer = seeded(EncoderLayer, LayerConfig(8, 2, 16))
    message = caught(check_padding_invariance, layer, X, call=lambda m, x, real: m(x))
    assert "3 padding tokens" in message and "padding keys" in message and "output" in message


def test_an_average_that_counts_padding_is_found():
    message = caught(check_padding_invariance, lambda ids: ids.double().mean(1, keepdim=True), IDS)
    assert "the whole text" in message and "supports_masking" in message


def test_positions_counted_from_the_padding_are_found():
    embedding = seeded(nn.Embedding, 20, 8)

    def model(ids):
        return embedding(ids) + torch.arange(ids.size(1))[:, None]

    check_padding_invariance(model, IDS)
    assert "positions are counted" in caught(check_padding_invariance, model, IDS, side="left")


# Order


def test_attention_without_positions_is_equivariant_and_with_them_not():
    attention = seeded(MultiHeadAttention, 8, 2)
    assert check_permutation_equivariance(attention, X).modes == ("train", "eval")
    for positions in ("sinusoidal", "alibi"):
        model = seeded(EncoderOnly, EncoderOnlyConfig(20, LayerConfig(8, 2, 16), 1, positions))
        assert "order matters" in caught(check_permutation_equivariance, model, IDS)
    assert "recurrent" in caught(check_permutation_equivariance, seeded(nn.GRU, 8, 8, batch_first=True), X)


def test_the_tolerance_can_be_chosen():
    gru = seeded(nn.GRU, 8, 8, batch_first=True)
    assert check_permutation_equivariance(gru, X, tolerance=1e3).tolerance == 1e3
    caught(check_permutation_equivariance, gru, X, tolerance=1e-3)


# Rows


def test_weights_over_the_allowed_keys_pass():
    mask = padding_mask(lengths=[5, 0], size=5)
    weights = masked_softmax(make(2, 3, 4, 5), mask)
    assert check_rows_sum_to_one(weights, mask).largest < 1e-12
    check_rows_sum_to_one(torch.softmax(make(4, 5), -1))


@pytest.mark.parametrize(
    "weights, mask, says",
    [
        (torch.softmax(make(4, 5), 0), None, ("row 0", "over the queries")),
        (torch.softmax(make(2, 4, 5), -1) * causal_mask(4, 5), causal_mask(4, 5), ("after the softmax",)),
        (make(4, 5).abs(), None, ("scores rather than weights",)),
        (-torch.softmax(make(4, 5), -1), None, ("negative weight",)),
        (torch.softmax(make(4, 5), -1), causal_mask(4, 5), ("forbids", "finite constant")),
        (torch.full((1, 4), 0.25), torch.zeros(1, 4).bool(), ("may attend to nothing", "uniform")),
        (torch.full((1, 4), float("nan")), None, ("not finite", "nothing but -inf")),
    ],
)
def test_rows_that_are_no_distribution_are_found(weights, mask, says):
    message = caught(check_rows_sum_to_one, weights, mask)
    assert all(part in message for part in says), message


# Cache


def test_models_with_a_right_cache_pass():
    assert check_cache(build_llama(), IDS).modes == ("eval",)
    model = seeded(Transformer, TransformerConfig(20, 20, LayerConfig(8, 2, 16), 1, 1))
    source = make_ids(2, 4, seed=3)
    check_cache(model, IDS, full=lambda m, ids: m(source, ids), start=lambda m: m.start(source))


class Cached(nn.Module):
    """A decoder with a cache of its own, and a fault that can be chosen."""

    def __init__(self, fault):
        super().__init__()
        self.embedding, self.fault = nn.Embedding(20, 8), fault

    def start(self):
        return [torch.zeros(2, 0, 8)]

    def forward(self, ids):
        return self.step(ids, self.start())[0]

    def step(self, ids, cache):
        seen, new = cache[0].size(1), ids.size(1)
        first = 0 if self.fault == "positions" else seen
        x = self.embedding(ids) + torch.arange(first, first + new)[:, None] / 3
        cache[0] = torch.cat([cache[0], x], 1)
        mask = causal_mask(new, seen + new)
        if self.fault == "mask":
            mask = torch.ones(new, seen + new, dtype=torch.bool)
            mask[:, :new] = causal_mask(new)
        scores = x @ cache[0].transpose(1, 2)
        return masked_softmax(scores, mask) @ cache[0], "more"


def test_faults_of_a_cache_are_told_apart():
    check_cache(seeded(Cached, ""), IDS)
    assert "start at 0 again" in caught(check_cache, seeded(Cached, "positions"), IDS)
    assert "last of the S positions" in caught(check_cache, seeded(Cached, "mask"), IDS)


# Gradients


class Forgetful(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.used, self.unused = nn.Linear(8, 8), nn.Linear(8, 8)
        self.fault = fault

    def forward(self, x):
        if self.fault == "infinite":
            return self.used(x) + self.unused(0 * x).abs().sub(self.unused.bias.abs()).sqrt()
        if self.fault == "zero":
            return self.used(x) + 0 * self.unused(x)
        if self.fault == "detached":
            return self.unused(self.used(x)).detach()
        return self.used(x)


@pytest.mark.parametrize(
    "fault, says",
    [
        ("missing", ("No gradient reaches unused.weight, unused.bias", "never called")),
        ("zero", ("exactly zero", "unused.weight, unused.bias")),
        ("infinite", ("not finite", "unused.")),
        ("detached", ("No gradient reaches used.weight", "detached")),
    ],
)
def test_parameters_that_cannot_learn_are_named(fault, says):
    message = caught(check_gradients, seeded(Forgetful, fault), X)
    assert all(part in message for part in says), message


def test_models_that_learn_pass_and_parameters_can_be_ignored():
    assert check_gradients(build_llama(), IDS).largest > 0
    check_gradients(seeded(Forgetful, "missing"), X, ignore=("unused",))
    keras.utils.set_random_seed(0)
    check_gradients(build_text_classifier(20), IDS)
    assert check_gradients(build_llama(), IDS, modes=("eval",)).modes == ("eval",)


# Languages, traces, wrong use


def test_every_message_exists_in_both_languages_with_the_same_values():
    for key, (english, korean) in check_messages.MESSAGES.items():
        fields = [sorted(re.findall(r"{(\w+)", text)) for text in (english, korean)]
        assert fields[0] == fields[1], key
        assert re.search("[가-힣]", korean) and not re.search("[가-힣]", english), key
        assert english != korean


def test_messages_speak_korean():
    message = caught(check_causal, seeded(Attention, "not in evaluation"), X, language="ko")
    assert message.startswith("평가 모드에서 출력이 미래를 봅니다") and "흔한 원인" in message
    assert "통과(학습 모드, 평가 모드)" in str(check_causal(seeded(Attention), X, language="ko"))
    message = caught(check_rows_sum_to_one, torch.softmax(make(4, 5), 0), language="ko")
    assert "0번 행" in message and "쿼리 축" in message


def test_a_check_leaves_modes_buffers_and_random_numbers_as_they_were():
    model = seeded(Attention, "batch statistics", 0.3)
    model.inner.eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    caught(check_causal, model, X)
    assert torch.equal(torch.rand(1), expected)
    assert model.training and not model.inner.training
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    layer = keras.layers.Dropout(0.5)
    layer(X, training=True)
    state = layer.seed_generator.state.value.clone()
    check_causal(layer, X, call=lambda m, x: m(x, training=True) + x)
    assert torch.equal(layer.seed_generator.state.value, state)


class Counting(nn.Module):
    """A layer that replaces one buffer at each call and multiplies by another."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("scale", torch.ones(8))

    def forward(self, x):
        self.calls = self.calls + 1
        return self.inner(x) * self.scale + self.calls


def test_a_buffer_may_be_replaced_at_each_call():
    model = seeded(Counting)
    calls = model.calls
    check_causal(model, X)
    assert model.calls is calls and calls == 0


@pytest.mark.parametrize("build", [Counting, lambda: Attention("batch statistics")])
def test_gradients_may_need_the_buffers_that_the_model_has_read(build):
    check_gradients(seeded(build), X)


def test_a_buffer_that_two_layers_share_stays_shared():
    table = torch.zeros(8)

    class Sharing(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Identity(), nn.Identity()
            self.first.register_buffer("table", table)
            self.second.register_buffer("table", table)

        def forward(self, x):
            self.first.table += 1
            return x + self.second.table

    output = Subject(Sharing(), None, ("eval",))("eval", X)
    assert torch.equal(output, X + 1) and (table == 0).all()


def test_a_function_has_no_mode():
    report = check_causal(lambda x: x.cumsum(1), X)
    assert report.modes == ("function",) and "a plain function" in str(report)


def test_hugging_face_outputs_are_understood():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=16, bos_token_id=1, eos_token_id=1
    )
    check_causal(seeded(GPT2LMHeadModel, config), IDS)


MODEL = seeded(Attention)


@error_table(
    [
        ("no model", lambda: check_causal(None, X), ("module, a layer or a function", "NoneType")),
        ("no tensor", lambda: check_causal(MODEL, [1]), ("inputs must be a torch.Tensor", "list")),
        ("rank", lambda: check_causal(MODEL, X[0]), ("(B, T, D)", "(6, 8)")),
        ("one position", lambda: check_causal(MODEL, X[:, :1]), ("two positions", "1")),
        ("one id", lambda: check_causal(lambda i: i, torch.ones(2, 4).long()), ("different ids", "only 1")),
        ("mode", lambda: check_causal(MODEL, X, modes=("test",)), ('"train" and "eval"', "'test'")),
        ("modes: a string", lambda: check_causal(MODEL, X, modes="eval"), ("tuple", "'eval'")),
        ("language", lambda: check_causal(MODEL, X, language="fr"), ("'en', 'ko'", "'fr'")),
        ("pooled", lambda: check_causal(lambda x: x.sum(1), X), ("(2, 6) tokens", "(2, 8)")),
        ("no output", lambda: check_causal(lambda x: None, X), ("return a tensor", "NoneType")),
        ("side", lambda: check_padding_invariance(MODEL, IDS, side="up"), ('"left"', "'up'")),
        ("vectors", lambda: check_padding_invariance(MODEL, X), ("call", "mask")),
        ("extra", lambda: check_padding_invariance(MODEL, IDS, extra=0), ("extra", "0")),
        ("empty", lambda: check_padding_invariance(MODEL, IDS[:, :0]), ("not empty", "(2, 0)")),
        ("weights", lambda: check_rows_sum_to_one(IDS), ("floating point", "int64")),
        ("mask", lambda: check_rows_sum_to_one(X, torch.ones(6, 8)), ("boolean", "float32")),
        ("mask: shape", lambda: check_rows_sum_to_one(X, torch.ones(5, 8).bool()), ("(5, 8)", "(2, 6, 8)")),
        (
            "mask: larger",
            lambda: check_rows_sum_to_one(X[:1], torch.ones(2, 6, 8).bool()),
            ("(2, 6, 8)", "(1,"),
        ),
        ("cache: ids", lambda: check_cache(MODEL, IDS[:, :1]), ("T of at least 2", "(2, 1)")),
        ("no parameters", lambda: check_gradients(nn.ReLU(), X), ("trainable parameters", "ReLU")),
        ("no parameters in a function", lambda: check_gradients(torch.relu, X), ("trainable", "none")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
