import pytest
import torch
from support import assert_raises, close, error_table, make_ids, set_off
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
)

from tutorial_lib.pretrained import (
    bert_from_hugging_face,
    gpt2_from_hugging_face,
    llama_from_hugging_face,
    marian_from_hugging_face,
)

V = 60


def hf(kind, config, **changes):
    """A randomly initialised model with every parameter set off from 0 and 1."""
    torch.manual_seed(0)
    return set_off(kind(config(vocab_size=V, **changes))).eval()


def bert(kind=BertModel, **changes):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    return hf(kind, BertConfig, **sizes, max_position_embeddings=20, **changes)


def gpt2(**changes):
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 20, "bos_token_id": 1, "eos_token_id": 1}
    return hf(GPT2LMHeadModel, GPT2Config, **sizes, **changes)


def llama(**changes):
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 20,
    }
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return hf(LlamaForCausalLM, LlamaConfig, **{**sizes, **heads, **changes})


def marian(**changes):
    sizes = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in
             (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))}  # fmt: skip
    special = {
        "pad_token_id": V - 1,
        "decoder_start_token_id": V - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
    }
    sizes |= {"d_model": 32, "max_position_embeddings": 20, "scale_embedding": True, **special, **changes}
    model = hf(MarianMTModel, MarianConfig, **sizes)
    model.final_logits_bias.normal_(generator=torch.Generator().manual_seed(0))
    return model


IDS = make_ids(2, 9, low=3, high=V - 1)


@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_new"])
def test_bert_gives_the_same_vectors(activation):
    theirs = bert(hidden_act=activation)
    ours = bert_from_hugging_face(theirs)
    ids, segments = IDS.clone(), torch.zeros_like(IDS)
    ids[1, 6:], segments[:, 4:] = 0, 1
    real = ids != 0
    expected = theirs(ids, attention_mask=real.long(), token_type_ids=segments).last_hidden_state
    close(ours(ids, segments)[real], expected[real], 5e-6)
    assert not ours.training


def test_bert_with_a_head_is_read_too():
    theirs = bert(BertForMaskedLM)
    expected = theirs.bert(IDS).last_hidden_state
    close(bert_from_hugging_face(theirs)(IDS), expected, 5e-6)


def test_gpt2_gives_the_same_scores_and_the_same_next_tokens():
    theirs = gpt2()
    ours = gpt2_from_hugging_face(theirs)
    close(ours(IDS), theirs(IDS).logits, 5e-6)
    state, ids = ours.start(), IDS
    for _ in range(5):
        ids = ours.step(ids, state)[:, -1:].argmax(-1)
    generated = theirs.generate(IDS, max_new_tokens=5, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert ids[:, 0].tolist() == generated[:, -1].tolist()


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("tie", [True, False])
def test_llama_gives_the_same_scores(kv_heads, tie):
    theirs = llama(num_key_value_heads=kv_heads, tie_word_embeddings=tie)
    ours = llama_from_hugging_face(theirs)
    close(ours(IDS), theirs(IDS).logits, 5e-6)
    assert (ours.output.weight is ours.embedding.tokens.weight) == tie


def test_llama_with_another_head_width_and_base():
    theirs = llama(head_dim=6, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    ours = llama_from_hugging_face(theirs)
    assert ours.config.rotary_base == 500.0
    close(ours(IDS), theirs(IDS).logits, 5e-6)


@pytest.mark.parametrize("activation, scale", [("swish", True), ("gelu", False)])
def test_marian_gives_the_same_scores(activation, scale):
    theirs = marian(activation_function=activation, scale_embedding=scale)
    ours = marian_from_hugging_face(theirs)
    source, target = IDS.clone(), make_ids(2, 6, low=3, high=V - 1, seed=1)
    source[1, 6:], target[:, 0] = V - 1, V - 1  # the padding id also starts the translation
    expected = theirs(source, attention_mask=(source != V - 1).long(), decoder_input_ids=target).logits
    close(ours(source, target), expected, 2e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_copy_has_the_dtype_of_the_original(dtype):
    theirs = gpt2().to(dtype)
    ours = gpt2_from_hugging_face(theirs)
    close(ours(IDS).double(), theirs(IDS).logits.double(), 1e-12 if dtype == torch.float64 else 0.1)


def test_the_copy_learns_by_itself():
    theirs = gpt2()
    ours = gpt2_from_hugging_face(theirs)
    with torch.no_grad():
        ours.embedding.tokens.weight.zero_()
    assert theirs.transformer.wte.weight.any()


def incomplete():
    model = gpt2()
    del model.transformer.h[1].mlp.c_fc
    return gpt2_from_hugging_face(model)


def misshapen():
    model = gpt2()
    model.transformer.wte.weight = torch.nn.Parameter(torch.zeros(V, 31))
    return gpt2_from_hugging_face(model)


@error_table(
    [
        ("another kind", lambda: gpt2_from_hugging_face(bert()), ("'gpt2'", "'bert'")),
        ("no model", lambda: bert_from_hugging_face("bert-base"), ("'bert'", "'str'")),
        ("activation", lambda: bert_from_hugging_face(bert(hidden_act="tanh")), ("'relu'", "'tanh'")),
        ("missing weight", incomplete, ("h.1.mlp.c_fc.weight", "none of that name")),
        ("shape", misshapen, ("wte.weight", "(60, 32)", "(60, 31)")),
        (
            "bias",
            lambda: llama_from_hugging_face(llama(attention_bias=True)),
            ("attention_bias=False, got True",),
        ),
        (
            "gate",
            lambda: llama_from_hugging_face(llama(hidden_act="gelu")),
            ("hidden_act='silu', got 'gelu'",),
        ),
        ("causal", lambda: bert_from_hugging_face(bert(is_decoder=True)), ("is_decoder=False, got True",)),
        *(
            (
                f"{kind.__name__} {name}",
                lambda f=read, k=kind, n=name, v=value: f(k(**{n: v})),
                f"got {value}",
            )
            for kind, read, name, value in [
                (gpt2, gpt2_from_hugging_face, "tie_word_embeddings", False),
                (gpt2, gpt2_from_hugging_face, "scale_attn_weights", False),
                (gpt2, gpt2_from_hugging_face, "scale_attn_by_inverse_layer_idx", True),
                (gpt2, gpt2_from_hugging_face, "add_cross_attention", True),
                (marian, marian_from_hugging_face, "tie_word_embeddings", False),
            ]
        ),
        (
            "stretched positions",
            lambda: llama_from_hugging_face(
                llama(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4})
            ),
            ("plain rotary", "'linear'"),
        ),
        (
            "two shapes",
            lambda: marian_from_hugging_face(marian(decoder_ffn_dim=40)),
            ("ffn_dim", "48 and 40"),
        ),
    ]
)
def test_wrong_models_are_named(wrong, says):
    assert_raises(wrong, says)
