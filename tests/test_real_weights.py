"""Real pretrained models in our classes give Hugging Face's numbers; the packages of weights.txt carry them."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from needed import require_weights
from support import close

from tutorial_lib.encoder_only import mean_pooling
from tutorial_lib.pretrained import bert_from_hugging_face, gpt2_from_hugging_face, llama_from_hugging_face
from tutorial_lib.weights import load_model, load_tokenizer, locate, packaged_copy

MINILM, SMOLLM = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"
TEXTS = [
    "A man is playing the guitar on a stage.",
    "Somebody performs a song on his guitar in front of an audience.",
    "Share prices fell sharply after the central bank raised interest rates for the third time this year.",
]
PROMPTS = ["The capital of Korea is", "Once upon a time, in a small village by the sea, there lived"]
TIE = 1e-4  # where the two best logits are closer than this, rounding may decide which one wins


@pytest.fixture(scope="module")
def minilm():
    """Hugging Face's model, ours, and the tokenizer."""
    theirs = load_model(require_weights(MINILM))
    return theirs, bert_from_hugging_face(theirs), load_tokenizer(MINILM)


@pytest.fixture(scope="module")
def smollm():
    """Hugging Face's model, ours, and the tokenizer."""
    theirs = load_model(require_weights(SMOLLM))
    return theirs, llama_from_hugging_face(theirs), load_tokenizer(SMOLLM)


@torch.no_grad()
def layer_by_layer(model, ids):
    """What a model of ours computes: the output of the embedding and of each layer, and of the whole model."""
    outputs = []
    parts = [model.embedding, *model.blocks.layers]
    handles = [part.register_forward_hook(lambda *call: outputs.append(call[2])) for part in parts]
    try:
        final = model(ids)
    finally:
        for handle in handles:
            handle.remove()
    return outputs, final


# ---- all-MiniLM-L6-v2, a BERT ----


@torch.no_grad()
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_minilm_has_the_same_hidden_states_layer_by_layer_with_padding(minilm, dtype, tolerance):
    theirs, ours = (copy.deepcopy(model).to(dtype) for model in minilm[:2])
    batch = minilm[2](TEXTS, padding=True, return_tensors="pt")
    real = batch["attention_mask"].bool()
    assert not real.all() and real.any(0).all()
    expected = theirs(**batch, output_hidden_states=True)
    states, final = layer_by_layer(ours, batch["input_ids"])
    assert len(states) == len(expected.hidden_states) == 7
    for state, reference in zip(states, expected.hidden_states, strict=True):
        close(state[real], reference[real], tolerance)
    close(final[real], expected.last_hidden_state[real], tolerance)
    close(theirs.pooler(final), expected.pooler_output, tolerance)


@torch.no_grad()
def test_minilm_reads_a_text_alone_as_it_does_in_a_batch_and_two_texts_as_segments(minilm):
    theirs, ours, tokenizer = minilm
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    together = mean_pooling(ours(batch["input_ids"]), batch["attention_mask"].bool())
    for text, vector in zip(TEXTS, together, strict=True):
        alone = tokenizer(text, return_tensors="pt")
        states = ours(alone["input_ids"])
        close(states, theirs(**alone).last_hidden_state, 1e-5)
        close(states[0].mean(0), vector, 1e-5)
    pair = tokenizer(TEXTS[0], TEXTS[1], return_tensors="pt")
    assert pair["token_type_ids"].any()
    expected = theirs(**pair).last_hidden_state
    close(ours(pair["input_ids"], pair["token_type_ids"]), expected, 1e-5)
    assert (ours(pair["input_ids"]) - expected).abs().max() > 1e-2


@torch.no_grad()
def test_minilm_reads_as_far_as_it_has_positions(minilm):
    theirs, ours, tokenizer = minilm
    ids = tokenizer(" ".join(TEXTS * 20), truncation=True, max_length=512, return_tensors="pt")["input_ids"]
    assert ids.size(1) == 512
    close(ours(ids), theirs(ids).last_hidden_state, 1e-5)
    with pytest.raises(ValueError, match="at most 512 tokens"):
        ours(torch.cat([ids, ids[:, -1:]], dim=1))


@torch.no_grad()
def test_minilm_finds_a_paraphrase_nearer_than_another_topic(minilm):
    theirs, ours, tokenizer = minilm
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    real = batch["attention_mask"]
    guitar, song, prices = F.normalize(mean_pooling(ours(batch["input_ids"]), real.bool()))
    states = theirs(**batch).last_hidden_state  # pooled as the model's own description says
    reference = F.normalize((states * real[..., None]).sum(1) / real.sum(1, keepdim=True))
    close(torch.stack([guitar, song, prices]), reference, 1e-6)
    assert guitar @ song > 0.5 and (guitar @ prices).abs() < 0.15 and (song @ prices).abs() < 0.15


# ---- SmolLM2-135M-Instruct, of the Llama kind ----


def test_the_converted_folder_has_the_numbers_of_the_packaged_file(smollm):
    import gguf

    reader = gguf.GGUFReader(packaged_copy(SMOLLM))
    tensors, state = {tensor.name: tensor for tensor in reader.tensors}, smollm[0].state_dict()
    packed = tensors["blk.29.ffn_down.weight"]
    assert packed.tensor_type == gguf.GGMLQuantizationType.Q4_1
    blocks = np.asarray(packed.data).reshape(-1, 20)  # 32 weights: a step, a smallest value, 16 bytes
    step, low = (blocks[:, i : i + 2].copy().view(np.float16).astype(np.float32) for i in (0, 2))
    nibbles = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
    expected = torch.from_numpy(step * nibbles + low).view(576, 1536)
    assert torch.equal(state["model.layers.29.mlp.down_proj.weight"], expected)
    norm = torch.from_numpy(np.array(tensors["blk.0.attn_norm.weight"].data))
    assert torch.equal(state["model.layers.0.input_layernorm.weight"], norm)


def test_smollm_is_of_the_kind_that_its_file_says(smollm):
    ours = smollm[1].config
    layer = ours.layer
    assert (ours.layers, layer.width, layer.heads, layer.kv_heads, layer.hidden) == (30, 576, 9, 3, 1536)
    assert (ours.rotary_base, layer.norm_eps, ours.tie_weights) == (100000.0, pytest.approx(1e-5), True)
    assert (ours.vocabulary, ours.max_length) == (49152, 8192)
    assert sum(p.numel() for p in smollm[1].parameters()) == 134_515_008


@torch.no_grad()
@pytest.mark.parametrize("prompt", PROMPTS)
def test_smollm_has_the_same_hidden_states_and_logits(smollm, prompt):
    theirs, ours, tokenizer = smollm
    ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
    expected = theirs(ids, output_hidden_states=True)
    states, logits = layer_by_layer(ours, ids)
    *between, last = expected.hidden_states  # the last one is already normalised
    for state, reference in zip(states, between, strict=False):
        close(state, reference, 1e-4 * reference.abs().max().item())
    close(ours.blocks.final_norm(states[-1]), last, 1e-4)
    assert len(states) == len(between) + 1 == 31
    close(logits, expected.logits, 1e-4)


def greedy(model, ids, steps):
    """The next ids, one after the other from the cache, and the logits that chose them."""
    state, new, logits = model.start(), ids, []
    for _ in range(steps):
        logits.append(model.step(new, state)[:, -1])
        new = logits[-1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], dim=1)
    return ids[0, -steps:].tolist(), torch.cat(logits)


def same_choice(logits, reference):
    """How many rows have the same best id from the first row on; a tie of the reference counts as the end."""
    best = reference.topk(2).values
    differs = (logits.argmax(-1) != reference.argmax(-1)).nonzero()
    if not len(differs):
        return len(reference)
    first = differs[0].item()
    gap = (best[first, 0] - best[first, 1]).item()
    assert gap < TIE, f"another id at step {first}, where the two best logits differ by {gap:.1e}"
    return first


@torch.no_grad()
def test_smollm_goes_on_with_the_same_200_tokens(smollm):
    theirs, ours, tokenizer = smollm
    ids = tokenizer(PROMPTS[1], return_tensors="pt")["input_ids"]
    reference = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=200, do_sample=False, eos_token_id=None,
        pad_token_id=0, output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    expected = torch.cat(reference.logits)
    tokens, logits = greedy(ours, ids, 200)
    steps = same_choice(logits, expected)
    assert tokens[:steps] == reference.sequences[0, ids.size(1) :][:steps].tolist()
    close(logits[:steps], expected[:steps], 2e-4)
    # Without a cache: one pass over the whole text chooses, at each step, the token that stands there.
    whole = torch.cat([ids, torch.tensor([tokens])], dim=1)
    at_once = ours(whole)[0, ids.size(1) - 1 : -1]
    close(at_once, logits, 2e-4)
    assert same_choice(at_once, logits) == 200


@torch.no_grad()
def test_smollm_knows_the_capital_of_korea_with_a_cache_and_without(smollm):
    _, ours, tokenizer = smollm
    ids = tokenizer(PROMPTS[0], return_tensors="pt")["input_ids"]
    tokens, _ = greedy(ours, ids, 6)
    for token in tokens:
        assert ours(ids)[0, -1].argmax() == token
        ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
    assert tokenizer.decode(tokens).startswith(" Seoul")


@torch.no_grad()
def test_smollm_in_bfloat16_differs_by_its_rounding(smollm):
    theirs, ours, tokenizer = smollm
    ids = tokenizer(PROMPTS[1], return_tensors="pt")["input_ids"]
    exact = ours(ids)
    half = copy.deepcopy(theirs).to(torch.bfloat16)
    mine, reference = (model.double() for model in (llama_from_hugging_face(half)(ids), half(ids).logits))
    scale = exact.abs().max().item()
    close(mine, reference, 0.1 * scale)
    assert (mine - exact).abs().max() < 0.1 * scale


@pytest.mark.slow
def test_smollm_has_the_same_gradients_up_to_rounding_that_moves_hugging_faces_own_as_much(smollm):
    ids = smollm[2](TEXTS[0], return_tensors="pt")["input_ids"]

    def gradient(scores, leaf):
        weight = torch.linspace(-1, 1, scores.numel(), dtype=scores.dtype).view_as(scores)
        return torch.autograd.grad((scores * weight).sum(), [leaf])[0].double()

    found = {}
    for dtype in (torch.float32, torch.float64):
        theirs = load_model(SMOLLM, dtype=dtype)
        ours = llama_from_hugging_face(theirs)
        found["theirs", dtype] = gradient(theirs(ids).logits, theirs.model.embed_tokens.weight)
        found["ours", dtype] = gradient(ours(ids), ours.embedding.tokens.weight)
    exact = found["theirs", torch.float64]
    assert exact.abs().max() > 1e5

    def off(whose, dtype):
        return ((found[whose, dtype] - exact).abs().max() / exact.abs().max()).item()

    assert off("ours", torch.float64) < 1e-4  # Hugging Face's angles are float32
    assert 2e-5 < off("theirs", torch.float32) < 1e-3
    assert off("ours", torch.float32) < 5 * off("theirs", torch.float32)


# ---- GPT-2, which no package carries ----


@torch.no_grad()
def test_gpt2_has_the_same_logits_when_the_hub_answers():
    try:
        theirs, tokenizer = load_model("gpt2"), load_tokenizer("gpt2")
    except OSError as error:
        pytest.skip(f"{error}.")
    ours = gpt2_from_hugging_face(theirs)
    ids = tokenizer(PROMPTS[0], return_tensors="pt")["input_ids"]
    close(ours(ids), theirs(ids).logits, 1e-3)
    tokens, _ = greedy(ours, ids, 50)
    expected = theirs.generate(ids, max_new_tokens=50, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert tokens == expected[0, ids.size(1) :].tolist()


def test_gpt2_is_looked_for_on_the_hub():
    assert locate("gpt2").path == "openai-community/gpt2"
