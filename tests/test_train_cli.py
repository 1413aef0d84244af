"""The command as a person types it: settings from three places, a run that resumes, results that can be traced."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys

import processes
import pytest

import tutorial_lib
from tutorial_lib import checkpoints, cli, recipes, run, train_cli
from tutorial_lib.checkpoints import load_weights
from tutorial_lib.recipes import RECIPES
from tutorial_lib.settings import Settings, TrainConfig
from tutorial_lib.tasks import TranslationTask

SMALL = "--vocabulary 150 --width 8 --heads 2 --hidden 16 --layers 1 --updates 6 --warmup 2 --batch-size 8".split()
SMALL += "--evaluate-every 3 --save-every 2 --limit 40 --valid 20 --test 10 --cpu --quiet".split()


@pytest.fixture(autouse=True)
def fresh():
    processes.forget_accelerate()


def train(*arguments):
    return cli.main(["train", *map(str, arguments)])


def settings(*arguments):
    return train_cli.chosen(train_cli.parser().parse_args([*map(str, arguments)]))


@pytest.mark.parametrize(
    "job, measure", [("translation", "bleu"), ("classifier", "bag_of_words_accuracy"), ("lm", "perplexity")]
)
def test_each_job_trains_measures_and_writes_down_how(tmp_path, capsys, job, measure):
    more = ["--vocabulary", 1000, "--limit", 0] if job == "lm" else []
    assert train(job, "--folder", tmp_path, *SMALL, *more) == 0
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results["job"] == job and results["seed"] == 0
    assert results["command"].startswith(f"tutorial-lib train {job} --folder {tmp_path} --vocabulary 150")
    assert results["test"][measure] >= 0 and results["seconds"] > 0
    assert [entry["update"] for entry in results["history"]] == [3, 6]
    assert results["best"]["loss"] == min(entry["loss"] for entry in results["history"])
    assert results["settings"]["width"] == 8 and results["training"]["updates"] == 6
    assert results["machine"]["processor"] and results["machine"]["processes"] == 1
    assert (
        results["versions"]["torch"] and results["versions"]["accelerate"] and results["versions"]["python"]
    )
    assert (
        results["data"]["licence"]
        and results["data"]["rows"]["test"] == 10
        and results["data"]["parameters"] > 100
    )
    shown = capsys.readouterr().out
    assert f"test {measure.replace('_', ' ')}: {results['test'][measure]:.3f}" in shown
    assert f"{results['data']['parameters']} parameters, 6 updates" in shown and "s, 1 process;" in shown
    assert {"best.safetensors", "pieces.model", "checkpoints", "results.json"} == {
        p.name for p in tmp_path.iterdir()
    }
    prepared = RECIPES[job](Settings(**results["settings"]))
    model, pieces = run.load_run(tmp_path)
    assert prepared.report(model) == results["test"] and not model.training
    assert pieces.serialized_model_proto() == prepared.pieces.serialized_model_proto()


def test_a_run_that_cannot_be_loaded_says_why(tmp_path):
    folder, other = tmp_path / "run", tmp_path / "other"
    for place, width in ((folder, 8), (other, 12)):
        assert train("classifier", "--folder", place, *SMALL, "--width", width) == 0
    best, results, pieces = (folder / name for name in ("best.safetensors", "results.json", "pieces.model"))
    good = {path: path.read_bytes() for path in (best, results, pieces)}
    facts = json.loads(good[results])
    spoilt = [
        (best, good[best][:500], "best.safetensors: cannot be read"),
        (best, (other / best.name).read_bytes(), r"must have the shape \(8,\), got \(12,\)"),
        (pieces, b"nothing", "the run cannot be loaded"),
        (results, good[results][:100], "the run cannot be loaded"),
        (results, b"[]", "the run cannot be loaded"),
        (results, json.dumps({**facts, "job": "chess"}).encode(), "job must be one of .*, got 'chess'"),
        (results, json.dumps({**facts, "settings": {"depth": 2}}).encode(), "depth"),
    ]
    for path, content, says in spoilt:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=says):
            run.load_run(folder)
        path.write_bytes(good[path])
    assert run.load_run(folder)[0].output.out_features == 2
    results.unlink()
    with pytest.raises(ValueError, match=r"expected a finished run, got no results\.json"):
        run.load_run(folder)


def test_the_test_is_measured_with_the_best_weights(tmp_path, monkeypatch):
    measured = []

    def recipe(chosen):
        ready = recipes.translation(chosen)
        losses = iter([1.0, 2.0])
        object.__setattr__(ready, "evaluate", lambda model: {"loss": next(losses)})
        object.__setattr__(
            ready,
            "report",
            lambda model: (
                measured.append((model.training, {k: v.clone() for k, v in model.state_dict().items()}))
                or {"bleu": 1.0}
            ),
        )
        return ready

    monkeypatch.setitem(RECIPES, "translation", recipe)
    assert train("translation", "--folder", tmp_path, *SMALL) == 0
    (training, weights), best = measured[0], load_weights(tmp_path / "best.safetensors")
    last = load_weights(tmp_path / "checkpoints" / "update-00000006" / "model.safetensors")
    assert not training
    assert all((weights[name] == best[name]).all() for name in best)
    assert not all((weights[name] == last[name]).all() for name in last)


def test_killed_and_called_again_it_ends_as_if_nothing_had_been(tmp_path):
    assert train("translation", "--folder", tmp_path / "whole", *SMALL) == 0

    def killed():
        TranslationTask.loss = processes.dying_at(6, TranslationTask.loss)
        train("translation", "--folder", tmp_path / "broken", *SMALL)

    assert processes.run(killed) == -signal.SIGKILL
    assert not (tmp_path / "broken" / "results.json").exists()
    assert train("translation", "--folder", tmp_path / "broken", *SMALL) == 0
    whole, broken = (
        json.loads((tmp_path / name / "results.json").read_text(encoding="utf-8"))
        for name in ("whole", "broken")
    )
    for key in ("history", "best", "test", "data"):
        assert whole[key] == broken[key]
    assert (tmp_path / "whole" / "best.safetensors").read_bytes() == (
        tmp_path / "broken" / "best.safetensors"
    ).read_bytes()


def test_two_processes_give_one_result(tmp_path):
    """Started as the help says; `torchrun` is the module torch.distributed.run."""
    (shown,) = (line.split() for line in train_cli.EXAMPLES.splitlines() if "torchrun" in line)
    assert shown[-2:] == ["--folder", "runs/two"]
    words = ["translation" if word == "{job}" else word for word in shown[1:-1]]
    command = [sys.executable, "-m", "torch.distributed.run", *words, str(tmp_path / "two"), *SMALL]
    command += ["--dropout", "0"]
    source = os.path.dirname(os.path.dirname(cli.__file__))
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("written:") == 1 and "s, 2 processes;" in done.stdout
    assert train("translation", "--folder", tmp_path / "one", *SMALL, "--dropout", "0") == 0
    one, two = (
        json.loads((tmp_path / n / "results.json").read_text(encoding="utf-8")) for n in ("one", "two")
    )
    assert two["machine"]["processes"] == 2
    for entry, expected in zip(two["history"], one["history"], strict=True):
        assert entry == pytest.approx(expected, abs=1e-4)


def test_defaults_file_and_flags_come_one_over_the_other(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'data = "tatoeba"\nwidth = 128\nlabel-smoothing = 0.2\nvalid = 50\ncolumns = [2, 1]\nclip = 2\n'
    )
    chosen, training = settings("translation", "--folder", "x", "--config", file, "--width", 32, "--seed", 5)
    assert (chosen.data, chosen.width, chosen.valid, chosen.columns) == ("tatoeba", 32, 50, (2, 1))
    assert (chosen.seed, training.seed, training.label_smoothing, training.clip) == (5, 5, 0.2, 2)
    assert training.schedule == "vaswani" and chosen.heads == 4


def test_shares_and_numbers_of_rows():
    chosen, _ = settings(
        "classifier", "--folder", "x", "--valid", "7", "--test", "0.25", "--labels", "neg", "pos"
    )
    assert (chosen.valid, chosen.test, chosen.labels) == (7, 0.25, ("neg", "pos"))


@pytest.mark.parametrize(
    "text, says",
    [
        ("wide = 3", "'wide' is no setting of lm; there are data, "),
        ("columns = [0, 1]", "'columns' is no setting of lm"),
        ('width = "3"', "width must be like 64, got '3'"),
        ("valid = nan", "valid must be a number of rows, or a share"),
        ("peak = inf", "peak must be positive and finite, got inf"),
        ("width = true", "width must be like 64, got True"),
        ('norm = "none"', "norm must be one of post, pre, got 'none'"),
        ("width = ", "mine.toml: cannot be read"),
        ("updates = 0", "updates must be an integer of at least 1, got 0"),
    ],
)
def test_a_wrong_configuration_file_is_named(tmp_path, capsys, text, says):
    (tmp_path / "mine.toml").write_text(text)
    assert train("lm", "--folder", tmp_path / "run", "--config", tmp_path / "mine.toml") == 2
    error = capsys.readouterr().err
    assert says in error and "Traceback" not in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "text, says",
    [
        ("labels = [0, 1]", "labels must be like ['0', '1'], got [0, 1]"),
        ('columns = ["a", "b"]', "columns must be like [0, 1], got ['a', 'b']"),
        ("columns = [0.0, 1.5]", "columns must be like [0, 1], got [0.0, 1.5]"),
        ("columns = [true, false]", "columns must be like [0, 1], got [True, False]"),
        ("columns = [1]", "columns must be two numbers from 0, got (1,)"),
        ("columns = 1", "columns must be like [0, 1], got 1"),
    ],
)
def test_a_wrong_list_in_a_configuration_file_is_named(tmp_path, text, says):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ValueError) as caught:
        settings("classifier", "--folder", "x", "--config", tmp_path / "mine.toml")
    assert says in str(caught.value)


def test_a_missing_configuration_file_and_missing_data_are_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TUTORIAL_LIB_DATA", str(tmp_path))
    assert train("lm", "--folder", tmp_path / "run", "--config", tmp_path / "no.toml") == 2
    assert "no.toml: cannot be read" in capsys.readouterr().err
    assert train("translation", "--folder", tmp_path / "run", "--data", "tatoeba") == 2
    assert "put kor-eng.zip" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_another_run_in_the_same_folder_is_refused(tmp_path, capsys):
    assert train("translation", "--folder", tmp_path, *SMALL) == 0
    assert train("translation", "--folder", tmp_path, *SMALL, "--peak", 0.01) == 2
    assert "peak 0.003 (now 0.01)" in capsys.readouterr().err


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "change, says",
    [
        (["--vocabulary", 160], "vocabulary 150 (now 160)"),
        (["--seed", 1], "other training data, other validation or test data, seed 0 (now 1)"),
        (["--heads", 4], "heads 2 (now 4)"),
        (["--dropout", 0.5], "dropout 0.1 (now 0.5)"),
        (["--width", 16], "width 8 (now 16)"),
        (["--layers", 2], "layers 1 (now 2)"),
        (["--norm", "post"], "norm 'pre' (now 'post')"),
        (["--test", 11], "other validation or test data, test 10 (now 11)"),
    ],
)
def test_a_refused_run_changes_nothing(tmp_path, capsys, finished, change, says):
    shutil.copytree(finished, tmp_path / "run")
    before = contents(tmp_path / "run")
    assert train("translation", "--folder", tmp_path / "run", *SMALL, *change) == 2
    error = capsys.readouterr().err
    assert "holds another run" in error and says in error and error.count("\n") == 1
    assert contents(tmp_path / "run") == before


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    processes.forget_accelerate()
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert train("translation", "--folder", folder, *SMALL) == 0
    return folder


def test_how_long_a_translation_may_be_is_no_other_run(tmp_path, finished):
    shutil.copytree(finished, tmp_path / "run")
    assert train("translation", "--folder", tmp_path / "run", *SMALL, "--max-length", 3) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    assert results["settings"]["max_length"] == 3


@pytest.mark.parametrize("place", ["file", "file/below", "run"])
def test_a_folder_that_cannot_be_one_is_named_at_once(tmp_path, capsys, monkeypatch, place):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").write_text("mine")
    monkeypatch.setattr(TranslationTask, "loss", None)  # would fail
    assert train("translation", "--folder", tmp_path / place, *SMALL) == 2
    error = capsys.readouterr().err
    assert str(tmp_path / place) in error and error.endswith(
        "cannot be used (a file is where a folder must be)\n"
    )


def test_a_full_disk_is_a_sentence(tmp_path, capsys, monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints, "_write_through", full)
    assert train("translation", "--folder", tmp_path, *SMALL) == 2
    assert capsys.readouterr().err == f"{tmp_path}: cannot be used (No space left on device)\n"


def test_a_perplexity_beyond_all_numbers_ends_a_run_no_earlier(tmp_path, monkeypatch):
    monkeypatch.setattr(recipes, "mean_loss", lambda task, model: 1e4)
    small = [*SMALL, "--vocabulary", "1000", "--limit", "0"]
    assert train("lm", "--folder", tmp_path, *small) == 0
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results["test"]["perplexity"] == math.inf


@pytest.mark.parametrize("change", [["--max-length", 0], ["--valid", "nan"], ["--peak", "inf"]])
def test_impossible_numbers_are_refused_before_any_work(tmp_path, capsys, change):
    assert train("translation", "--folder", tmp_path / "run", *SMALL, *change) == 2
    assert change[0].strip("-").replace("-", "_") in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_usual_warm_up_is_no_longer_than_the_run(tmp_path):
    assert settings("lm", "--folder", "x", "--updates", 1)[1].warmup == 1
    assert settings("lm", "--folder", "x", "--updates", 40)[1].warmup == 30
    for more in (["--warmup", 2], ["--config", tmp_path / "mine.toml"]):
        (tmp_path / "mine.toml").write_text("warmup = 2")
        with pytest.raises(ValueError, match="warmup must be an integer from 0 to 1"):
            settings("lm", "--folder", "x", "--updates", 1, *more)


def test_what_a_terminal_cannot_show_does_not_end_a_run(monkeypatch):
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", plain)
    monkeypatch.setattr(train_cli, "perform", lambda *_, **__: ["가"])
    assert train("lm", "--folder", "x") == 0
    plain.flush()
    assert plain.buffer.getvalue() == b"\\uac00\n"


def test_interrupted_while_torch_is_imported_it_says_so(capsys, monkeypatch):
    class Stop:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "tutorial_lib.train_cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "tutorial_lib.train_cli")
    monkeypatch.delattr(tutorial_lib, "train_cli")
    monkeypatch.setattr(sys, "meta_path", [Stop, *sys.meta_path])
    assert train("lm", "--folder", "x") == 130
    assert capsys.readouterr().err.startswith("stopped; ")


def test_an_interrupted_run_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_cli, "perform", stop)
    assert train("lm", "--folder", tmp_path) == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_a_missing_package_is_named(tmp_path, capsys, monkeypatch):
    find = train_cli.importlib.util.find_spec
    monkeypatch.setattr(
        train_cli.importlib.util, "find_spec", lambda n: None if n == "tensorboard" else find(n)
    )
    assert train("lm", "--folder", tmp_path, "--tensorboard") == 2
    assert "tensorboard missing: pip install -e '.[train]'" in capsys.readouterr().err


@pytest.mark.parametrize("job", RECIPES)
def test_help_has_examples_and_every_setting_with_its_default(capsys, job):
    with pytest.raises(SystemExit) as stopped:
        train(job, "--help")
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert f"tutorial-lib train {job} --folder runs/first" in shown and "torchrun --standalone" in shown
    for name, default in train_cli.options(job).items():
        assert f"--{name.replace('_', '-')}" in shown
        assert name in train_cli.HELP and default is not None
    assert ("--columns" in shown) == (job != "lm") and ("--block" in shown) == (job == "lm")


def test_every_setting_has_a_flag():
    both = {f.name for cls in (Settings, TrainConfig) for f in train_cli.fields(cls)}
    assert both - set(train_cli.HELP) == {"betas", "eps"}
    assert set(train_cli.HELP) <= both


def test_the_command_has_two_areas(capsys, monkeypatch):
    assert cli.main(["--help"]) == 0
    assert "tutorial-lib teach" in (shown := capsys.readouterr().out) and "tutorial-lib train" in shown
    assert cli.main([]) == 2 and "tutorial-lib train" in capsys.readouterr().err
    from tutorial_lib.teaching import cli as teaching

    monkeypatch.setattr(teaching, "main", lambda argv: argv)
    assert cli.main(["teach", "list"]) == ["teach", "list"]
    monkeypatch.setattr(sys, "argv", ["tutorial-lib", "teach"])
    assert cli.main() == ["teach"]


def test_a_machine_and_its_versions_are_described_wherever(monkeypatch):
    import torch

    monkeypatch.setattr(run, "Path", lambda _: type("No", (), {"exists": lambda self: False})())
    assert run.processor()
    monkeypatch.setattr(run, "PACKAGES", ("no-such-package",))
    assert run.versions()["no-such-package"] == "not installed"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    assert run.machine(2, torch.device("cuda"))["device"] == "a card"


def test_two_seeds_are_one_too_many(tmp_path):
    chosen, _ = settings("lm", "--folder", tmp_path)
    with pytest.raises(ValueError, match="the same seed, got 0 and 1"):
        run.perform("lm", RECIPES["lm"], chosen, TrainConfig(seed=1), tmp_path, command="")
