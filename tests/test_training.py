"""An update is the same however it is computed, and a run the same however often it is stopped."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import time

import processes
import pytest
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.state import PartialState
from support import close, make, make_ids, seeded

from tutorial_lib import checkpoints, run_state
from tutorial_lib.checkpoints import load_weights
from tutorial_lib.layers import LayerConfig
from tutorial_lib.run_state import Run
from tutorial_lib.settings import TrainConfig
from tutorial_lib.tasks import TranslationTask, mean_loss
from tutorial_lib.training import accumulate_gradients, cross_entropy_sum, shares, train
from tutorial_lib.transformer import Transformer, TransformerConfig

CONFIG = TrainConfig(
    updates=12, batch_size=6, accumulation=2, warmup=3, peak=1e-2, label_smoothing=0.1, weight_decay=0.01,
    evaluate_every=3, save_every=4, keep=2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    processes.forget_accelerate()


def make_task(rows=23):
    lengths = random.Random(0)
    sides = [
        [
            make_ids(lengths.randint(1, 7), low=4, high=20, seed=100 * side + row).tolist()
            for row in range(rows)
        ]
        for side in (0, 1)
    ]
    return TranslationTask(*sides)


def make_model(dropout=0.1):
    layer = LayerConfig(8, 2, 16, norm="pre", dropout=dropout, attention_dropout=dropout)
    return seeded(Transformer, TransformerConfig(20, 20, layer, encoder_layers=1, decoder_layers=1))


def go(folder, config=CONFIG, dropout=0.1, task=None, dtype=torch.float32, **more) -> tuple[Transformer, Run]:
    """Train the small model; more goes to `train`."""
    model, task = make_model(dropout).to(dtype), task or make_task()
    return model, train(
        model, task, config, folder, evaluate=lambda m: {"loss": mean_loss(task, m)}, cpu=True, **more
    )


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(one, other):
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nobody stopped: its weights, its history, its best weights."""
    processes.forget_accelerate()
    folder = tmp_path_factory.mktemp("whole")
    model, run = go(folder)
    return weights(model), run, load_weights(folder / run_state.BEST)


def test_it_learns_and_tells_how(whole):
    _, run, _ = whole
    assert [entry["update"] for entry in run.history] == [3, 6, 9, 12]
    losses = [entry["loss"] for entry in run.history]
    assert losses[-1] < losses[0] < math.log(20) + 0.1
    assert run.best == min(run.history, key=lambda entry: entry["loss"])
    assert run.updates == 12 and run.seconds > 0 and run.problems == [] and run.losses == []
    assert run.history[0]["rate"] == pytest.approx(1e-2) and run.history[-1]["rate"] == 0.0


def test_the_first_loss_of_training_is_that_of_guessing(whole):
    _, run, _ = whole
    assert abs(run.history[0]["train_loss"] - math.log(20)) < 0.3


def test_the_best_weights_are_kept(whole, tmp_path):
    _, run, best = whole
    task, model = make_task(), make_model().eval()
    model.load_state_dict(best)
    assert mean_loss(task, model) == pytest.approx(run.best["loss"], abs=1e-6)


KILLS = {
    "in the middle of the first update": ("loss", 1),
    "between two pieces of update 6": ("loss", 12),
    "in the middle of the last update": ("loss", 26),
    "before the first checkpoint is written": ("write", 1),
    "half through the weights of the second": ("half", 4),
    "before the second is renamed": ("rename", 2),
    "after the second is renamed": ("renamed", 2),
    "while the best weights are replaced": ("replace", 2),
    "before the last is renamed": ("rename", 3),
}


@pytest.mark.parametrize("where", KILLS)
def test_killed_anywhere_it_resumes_to_the_same_weights(whole, tmp_path, monkeypatch, where):
    kind, call = KILLS[where]

    def killed():
        task = make_task()
        if kind == "loss":
            task.loss = processes.dying_at(call, task.loss, after=True)
        elif kind in ("write", "half"):
            write, count = checkpoints._write_through, 0

            def writing(path, data):
                nonlocal count
                count += path.suffix != ".safetensors" or "best" not in path.name
                if count == call and "best" not in path.name:
                    path.write_bytes(data[: len(data) // 2] if kind == "half" else b"")
                    processes.die()
                write(path, data)

            checkpoints._write_through = writing
        elif kind == "replace":
            os.replace = processes.dying_at(call, os.replace)
        else:
            os.rename = processes.dying_at(call, os.rename, after=kind == "renamed")
        go(tmp_path, task=task)

    assert processes.run(killed) == -signal.SIGKILL
    model, run = go(tmp_path)
    expected, unbroken, best = whole
    assert equal(weights(model), expected)
    assert run.history == unbroken.history and run.best == unbroken.best and run.problems == []
    assert equal(load_weights(tmp_path / run_state.BEST), best)
    assert not list(tmp_path.glob(".aside*")) and not list(tmp_path.glob("checkpoints/.aside*"))


def test_killed_at_random_moments_again_and_again_it_ends_with_the_same_weights(whole, tmp_path):
    chance, kills = random.Random(1), 0
    for _ in range(40):
        child = processes.start(lambda: go(tmp_path))
        deadline = time.monotonic() + chance.uniform(0.02, 0.5)
        while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.005)
        try:
            os.kill(child, signal.SIGKILL)
            kills += processes.wait(child) == -signal.SIGKILL
        except (ProcessLookupError, ChildProcessError):
            break
    model, run = go(tmp_path)
    assert kills >= 1 and run.updates == 12
    assert equal(weights(model), whole[0]) and run.history == whole[1].history


def test_a_finished_run_is_not_trained_further(whole, tmp_path):
    go(tmp_path)
    task = make_task()
    task.loss = None  # would fail
    model, run = make_model(), None
    run = train(model, task, CONFIG, tmp_path, cpu=True)
    assert equal(weights(model), whole[0]) and run.history == whole[1].history


def test_a_damaged_checkpoint_costs_time_and_nothing_else(whole, tmp_path):
    go(tmp_path)
    (tmp_path / "checkpoints" / "update-00000012" / "model.safetensors").write_bytes(b"")
    model, run = go(tmp_path)
    assert equal(weights(model), whole[0])
    assert len(run.problems) == 1 and "update-00000012" in run.problems[0]


@pytest.mark.parametrize(
    "change, says",
    [
        ({"peak": 2e-2}, "peak 0.01 (now 0.02)"),
        ({"seed": 1}, "seed 0 (now 1)"),
        ({"updates": 20, "warmup": 4}, "updates 12 (now 20), warmup 3 (now 4)"),
    ],
)
def test_another_run_does_not_go_on_in_this_folder(tmp_path, change, says):
    go(tmp_path)
    with pytest.raises(ValueError) as caught:
        go(tmp_path, TrainConfig(**{**vars(CONFIG), **change}))
    assert says in str(caught.value) and "choose another folder or remove it" in str(caught.value)


def test_other_data_do_not_go_on_in_this_folder(tmp_path):
    go(tmp_path)
    with pytest.raises(ValueError, match="holds another run: other training data; choose"):
        go(tmp_path, task=make_task(22))


def test_how_often_to_save_may_change(whole, tmp_path):
    go(tmp_path, TrainConfig(**{**vars(CONFIG), "save_every": 5, "keep": 1}))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["update-00000012"]
    assert equal(weights(go(tmp_path)[0]), whole[0])


def test_the_seed_decides_and_the_callers_random_numbers_stay(whole, tmp_path):
    torch.manual_seed(77)
    before = torch.get_rng_state()
    again, _ = go(tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(78)
    assert equal(weights(again), whole[0])
    other, _ = go(tmp_path / "b", TrainConfig(**{**vars(CONFIG), "seed": 1}))
    assert not equal(weights(other), whole[0])


def test_evaluation_does_not_change_what_is_learnt(whole, tmp_path):
    def noisy(model):
        assert not model.training
        torch.rand(7)
        return {"loss": 1.0}

    model = make_model()
    run = train(model, make_task(), CONFIG, tmp_path, evaluate=noisy, cpu=True)
    assert equal(weights(model), whole[0]) and model.training
    assert run.best["update"] == 3, "an equal loss is no better one"


def test_without_evaluation_only_the_loss_of_training_is_kept(whole, tmp_path):
    model = make_model()
    run = train(model, make_task(), CONFIG, tmp_path, cpu=True)
    assert equal(weights(model), whole[0]) and run.best == {}
    assert [set(entry) for entry in run.history] == [{"update", "train_loss", "rate"}] * 4
    assert not (tmp_path / run_state.BEST).exists()


def gradients(accumulation, rows, smoothing=0.1, distributed=False):
    processes.forget_accelerate()
    accelerator = Accelerator(cpu=True)
    model = make_model(0.0).double()
    wrapped = accelerator.prepare(model) if distributed else model
    config = TrainConfig(accumulation=accumulation, label_smoothing=smoothing)
    loss = accumulate_gradients(accelerator, wrapped, make_task(), rows, config)
    return loss.double(), {name: p.grad for name, p in model.named_parameters()}


ROWS = [3, 17, 0, 8, 21, 5, 11]


@pytest.mark.parametrize("pieces", [2, 3, 7, 10])
def test_accumulation_equals_the_larger_batch(pieces):
    loss, expected = gradients(1, ROWS)
    again, found = gradients(pieces, ROWS)
    assert close(again, loss, 1e-6)  # the reported loss is summed in single precision
    for name in expected:
        assert close(found[name], expected[name], 1e-14)


def test_every_target_counts_the_same():
    """Independent: the mean over all targets of the batch, by plain torch."""
    _, found = gradients(3, ROWS, smoothing=0.0)
    model, task = make_model(0.0).double(), make_task()
    logs = []
    for row in ROWS:
        source, target = torch.tensor([task.sources[row]]), task.targets[row]
        scores = model(source, torch.tensor([[2, *target]])).log_softmax(-1)[0]
        logs += [scores[place, wanted] for place, wanted in enumerate([*target, 3])]
    (-sum(logs) / len(logs)).backward()
    for name, parameter in model.named_parameters():
        assert close(found[name], parameter.grad, 1e-14)


def test_two_processes_have_the_gradient_of_one(tmp_path):
    """Adam would hide a factor: it divides by the gradient's size."""
    _, expected = gradients(1, ROWS)

    def work():
        loss, found = gradients(2, ROWS, distributed=True)
        torch.save([loss, found], tmp_path / f"{os.environ['RANK']}.pt")

    assert processes.together(work, 2) == [0, 0]
    for rank in (0, 1):
        loss, found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert close(loss, gradients(1, ROWS)[0], 1e-6)
        for name in expected:
            assert close(found[name], expected[name], 1e-14)


def test_smoothing_reaches_the_gradient():
    smooth, sharp = gradients(1, ROWS)[0], gradients(1, ROWS, smoothing=0.0)[0]
    assert abs(smooth - sharp) > 1e-4


def test_shares_are_even_and_complete():
    assert shares([5, 6, 7, 8, 9], 3) == [[5, 8], [6, 9], [7]]
    assert shares([5], 3) == [[5], [], []]


@pytest.mark.parametrize(
    "accumulation, dtype, tolerance", [(1, torch.float64, 1e-9), (2, torch.float32, 1e-4)]
)
def test_two_processes_learn_what_one_does(tmp_path, accumulation, dtype, tolerance):
    config = TrainConfig(**{**vars(CONFIG), "accumulation": accumulation, "batch_size": 7})
    one, run = go(tmp_path / "one", config, dropout=0.0, dtype=dtype)

    def work():
        model, run = go(tmp_path / "two", config, dropout=0.0, dtype=dtype)
        if os.environ["RANK"] == "1":
            torch.save([weights(model), run.history], tmp_path / "second.pt")

    assert processes.together(work, 2) == [0, 0]
    second, history = torch.load(tmp_path / "second.pt", weights_only=True)
    first = load_weights(tmp_path / "two" / "checkpoints" / "update-00000012" / "model.safetensors")
    assert equal(first, second)
    for name, value in weights(one).items():
        # A key's bias adds the same to all scores of a query, so its gradient is zero but for rounding. Adam
        # divides by its size and moves the bias by whole steps in single precision; the scores do not notice.
        if dtype == torch.float64 or "key_projection.bias" not in name:
            assert close(first[name], value, tolerance)
    for entry, expected in zip(history, run.history, strict=True):
        assert entry == pytest.approx(expected, abs=1e-4)


def test_two_processes_resume_to_the_same_weights_and_drop_out_differently(tmp_path):
    def work(folder, last):
        task = make_task()
        loss, begun = task.loss, tmp_path / f"{folder.name}-{os.environ['RANK']}"

        def telling(*arguments):
            if not begun.exists():
                begun.write_text(str(torch.initial_seed()))
            return loss(*arguments)

        task.loss = processes.dying_at(14, telling) if last == "killed" else telling
        go(folder, task=task)

    assert processes.together(lambda: work(tmp_path / "whole", ""), 2) == [0, 0]
    assert set(processes.together(lambda: work(tmp_path / "broken", "killed"), 2)) != {0}
    assert processes.together(lambda: work(tmp_path / "broken", ""), 2) == [0, 0]
    whole, broken = (tmp_path / name / "checkpoints" / "update-00000012" for name in ("whole", "broken"))
    assert equal(load_weights(whole / "model.safetensors"), load_weights(broken / "model.safetensors"))
    assert len({(tmp_path / f"whole-{rank}").read_text() for rank in (0, 1)}) == 2
    with pytest.raises(ValueError, match=r"processes 2 \(now 1\)"):
        go(tmp_path / "whole")


def test_label_smoothing_is_the_formula():
    logits, targets, e = make(2, 3, 5), make_ids(2, 3, low=0, high=5), 0.1
    wanted = (1 - e) * F.one_hot(targets, 5).double() + e / 5
    expected = -(wanted * logits.log_softmax(-1)).sum()
    assert close(cross_entropy_sum(logits, targets, smoothing=e), expected)


def test_what_is_no_target_counts_nothing_with_smoothing_too():
    logits, targets = make(2, 3, 5), torch.tensor([[1, 2, 0], [4, 0, 0]])
    alone = cross_entropy_sum(logits[:1, :2], targets[:1, :2], smoothing=0.1)
    alone = alone + cross_entropy_sum(logits[1:, :1], targets[1:, :1], smoothing=0.1)
    assert close(cross_entropy_sum(logits, targets, smoothing=0.1, ignore=0), alone)


def first_change(tmp_path, **change):
    """How far one update with plain settings moves the weights."""
    model = make_model(0.0)
    before = weights(model)
    plain = {"updates": 1, "batch_size": 23, "warmup": 0, "schedule": "constant", "peak": 1e-3, "eps": 1.0}
    train(model, make_task(), TrainConfig(**{**plain, **change}), tmp_path, cpu=True)
    after = weights(model)
    return torch.cat([(after[name] - before[name]).flatten() for name in before])


def test_a_long_gradient_is_clipped_and_a_short_one_is_not(tmp_path):
    free, loose, tight = (first_change(tmp_path / str(clip), clip=clip) for clip in (0.0, 1e6, 1e-3))
    assert close(free, loose, 1e-9)
    # eps is 1, far above the gradient, so the first step is nearly proportional to it
    gradient = torch.cat([g.flatten() for g in gradients(1, range(23), smoothing=0.0)[1].values()])
    assert tight.norm() / free.norm() == pytest.approx(1e-3 / gradient.norm().item(), rel=0.35)


def test_weight_decay_and_rate_reach_the_optimizer(tmp_path):
    plain = first_change(tmp_path / "a")
    assert first_change(tmp_path / "b", weight_decay=0.5).norm() > 1.5 * plain.norm()
    assert first_change(tmp_path / "c", schedule="linear").norm() == 0, "the last rate is zero"


def test_half_precision_learns_nearly_the_same(whole, tmp_path):
    config = TrainConfig(**{**vars(CONFIG), "precision": "bf16"})

    def work():
        seen = []
        task = make_task()
        loss = task.loss
        task.loss = lambda *a: (seen.append(torch.is_autocast_enabled("cpu")), loss(*a))[1]
        model, run = go(tmp_path, config, task=task)
        assert next(model.parameters()).dtype == torch.float32
        assert model(torch.tensor([[5]]), torch.tensor([[2]])).dtype == torch.float32
        (tmp_path / "history.json").write_text(json.dumps(run.history))

    assert processes.run(work) == 0
    history = json.loads((tmp_path / "history.json").read_text())
    for entry, exact in zip(history, whole[1].history, strict=True):
        assert entry["loss"] != exact["loss"] and entry["loss"] == pytest.approx(exact["loss"], abs=0.1)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path):
    task = make_task()
    loss = task.loss
    task.loss = lambda *a: loss(*a) * (math.nan if task.calls.append(0) or len(task.calls) > 15 else 1.0)
    task.calls = []
    with pytest.raises(ValueError, match="the loss of update 7 is nan: try a smaller peak"):
        go(tmp_path, task=task)
    assert (tmp_path / "checkpoints" / "update-00000004").exists()


def test_tensorboard_gets_every_update_once_although_the_run_was_stopped(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def killed():
        task = make_task()
        task.loss = processes.dying_at(14, task.loss)
        go(tmp_path, task=task, tensorboard=True)

    assert processes.run(killed) == -signal.SIGKILL
    time.sleep(1.1)  # TensorBoard orders files by the second of their beginning
    _, run = go(tmp_path, tensorboard=True)
    (folder,) = {path.parent for path in tmp_path.rglob("events.out.tfevents*")}
    events = EventAccumulator(str(folder))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == list(range(1, 13))
    assert [event.value for event in events.Scalars("valid/loss")] == pytest.approx(
        [e["loss"] for e in run.history]
    )
    assert events.Scalars("train/rate")[-1].value == 0.0


def test_the_bar_shows_only_where_it_is_wanted(tmp_path, capsys):
    go(tmp_path / "a")
    assert capsys.readouterr().err == ""
    go(tmp_path / "b", progress=True)
    shown = capsys.readouterr().err
    assert "12/12" in shown and "loss=" in shown


def test_an_evaluation_that_is_no_number_stops_the_run(tmp_path):
    """The last update has no loss of training after it that would show what it did to the weights."""
    calls = iter([1.0, 0.9, 0.8, math.inf])
    with pytest.raises(ValueError, match=r"evaluation after update 12 is inf: try a smaller peak"):
        train(make_model(), make_task(), CONFIG, tmp_path, evaluate=lambda _: {"loss": next(calls)}, cpu=True)
    assert load_weights(tmp_path / run_state.BEST)


def test_two_runs_do_not_use_one_folder_at_a_time(whole, tmp_path):
    said = tmp_path / "said"

    def second():
        try:
            go(tmp_path / "run")
        except ValueError as error:
            said.write_text(str(error))

    task = make_task()
    loss = task.loss
    task.loss = lambda *a: (said.exists() or processes.run(second), loss(*a))[1]
    model, _ = go(tmp_path / "run", task=task)
    assert said.read_text() == f"{tmp_path / 'run'}: another run is using it"
    assert equal(weights(model), whole[0])
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"best.safetensors", "checkpoints"}


def test_without_locks_a_run_does_without(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(run_state, "fcntl", None)
    assert equal(weights(go(tmp_path)[0]), whole[0])


def test_what_else_makes_it_another_run_is_asked_too(tmp_path):
    about = {"heads": 2, "held_out": "a" * 64}
    go(tmp_path, about=about)
    with pytest.raises(
        ValueError, match=r"another run: heads 2 \(now 4\), other validation or test data; choose"
    ):
        go(tmp_path, about={"heads": 4, "held_out": "b" * 64})
    with pytest.raises(ValueError, match=r"heads 2 \(now None\)"):
        go(tmp_path)
    assert go(tmp_path, about=about)[1].updates == 12


def test_another_model_is_refused_in_words(tmp_path):
    go(tmp_path)
    layer = LayerConfig(12, 2, 16, norm="pre")
    wider = seeded(Transformer, TransformerConfig(20, 20, layer, encoder_layers=1, decoder_layers=1))
    with pytest.raises(ValueError, match=r"holds a run of another model: .* must have the shape"):
        train(wider, make_task(), CONFIG, tmp_path, cpu=True)


def test_a_run_goes_on_on_the_kind_of_device_it_began_on(tmp_path, monkeypatch):
    go(tmp_path)
    monkeypatch.setattr(Accelerator, "device", property(lambda self: torch.device("meta")))
    with pytest.raises(ValueError, match=r"device 'cpu' \(now 'meta'\)"):
        go(tmp_path)


def test_a_second_precision_in_one_process_is_refused_before_anything_is_written(tmp_path):
    go(tmp_path / "a")
    with pytest.raises(
        ValueError, match=r"precision must be 'no' as in the first run .*, got 'bf16'; start Python"
    ):
        go(tmp_path / "b", TrainConfig(**{**vars(CONFIG), "precision": "bf16"}))
    assert not (tmp_path / "b").exists()


def test_a_card_in_use_cannot_be_left_alone_any_more(tmp_path, monkeypatch):
    go(tmp_path / "a")
    monkeypatch.setitem(PartialState._shared_state, "device", torch.device("meta"))
    with pytest.raises(ValueError, match=r"cpu must be False, .* used meta; start Python again"):
        go(tmp_path / "b")


def test_logits_and_targets_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"got \(2, 3, 5\) and \(3, 2\)"):
        cross_entropy_sum(make(2, 3, 5), make_ids(3, 2, low=0, high=5))
