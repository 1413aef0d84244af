"""Stopped at any moment, a folder holds whole checkpoints, and nothing else that is read."""

from __future__ import annotations

import json
import os
import signal

import processes
import pytest
import torch
from support import make

from tutorial_lib import checkpoints
from tutorial_lib.checkpoints import (
    Checkpoint,
    load_checkpoint,
    load_weights,
    optimizer_state,
    optimizer_tensors,
    save_checkpoint,
    save_weights,
    write_atomically,
    write_json,
)


def state(update: int) -> Checkpoint:
    tensors = {"weight": make(4, 3, seed=update), "bias": make(3, seed=update).float()}
    return Checkpoint(
        update, tensors, {"random": torch.arange(5, dtype=torch.uint8)}, {"loss": update / 7, "a": "가"}
    )


def same(one: Checkpoint, other: Checkpoint) -> bool:
    return (
        (one.update, one.facts) == (other.update, other.facts)
        and all(torch.equal(one.model[k], other.model[k]) for k in one.model | other.model)
        and all(torch.equal(one.state[k], other.state[k]) for k in one.state | other.state)
    )


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_saved_comes_back_bit_for_bit(tmp_path):
    save_checkpoint(tmp_path, state(3))
    found, problems = load_checkpoint(tmp_path)
    assert same(found, state(3)) and problems == []
    assert {k: v.dtype for k, v in found.model.items()} == {"weight": torch.float64, "bias": torch.float32}


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path):
    assert load_checkpoint(tmp_path) == (None, [])
    assert load_checkpoint(tmp_path / "missing") == (None, [])


def test_the_newest_stay_and_the_newest_is_read(tmp_path):
    for update in (2, 9, 10, 100):
        save_checkpoint(tmp_path, state(update), keep=2)
    assert names(tmp_path) == ["update-00000010", "update-00000100"]
    assert load_checkpoint(tmp_path)[0].update == 100
    with pytest.raises(ValueError, match="keep must be at least 1, got 0"):
        save_checkpoint(tmp_path, state(1), keep=0)


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors", "facts.json"])
@pytest.mark.parametrize("damage", ["cut off", "changed", "missing", "empty"])
def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path, name, damage):
    save_checkpoint(tmp_path, state(1))
    path = save_checkpoint(tmp_path, state(2)) / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"cut off": data[:-5], "changed": b"\x00" + data[1:], "empty": b""}[damage])
    found, problems = load_checkpoint(tmp_path)
    assert same(found, state(1))
    assert len(problems) == 1 and "update-00000002" in problems[0]
    save_checkpoint(tmp_path, state(2))
    assert same(load_checkpoint(tmp_path)[0], state(2)), "the damaged one was not replaced"


def test_one_wrong_bit_in_the_weights_is_noticed(tmp_path):
    path = save_checkpoint(tmp_path, state(1)) / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data))
    assert load_checkpoint(tmp_path)[0] is None


@pytest.mark.parametrize("content", ["[]", "3", "null", '{"content": {}}', '{"content": [], "sha256": []}'])
def test_facts_of_another_kind_are_passed_over(tmp_path, content):
    save_checkpoint(tmp_path, state(1))
    (save_checkpoint(tmp_path, state(2)) / "facts.json").write_text(content)
    found, problems = load_checkpoint(tmp_path)
    assert same(found, state(1)) and len(problems) == 1 and "update-00000002" in problems[0]


@pytest.mark.parametrize("change", [{"update": 7}, {"facts": {"loss": 0}}, {"sha256": {}}])
def test_changed_facts_are_noticed(tmp_path, change):
    path = save_checkpoint(tmp_path, state(1)) / "facts.json"
    own = json.loads(path.read_text(encoding="utf-8"))
    own["content"].update(change)
    path.write_text(json.dumps(own))
    found, problems = load_checkpoint(tmp_path)
    assert found is None and "facts.json: its checksum is not the one" in problems[0]


@pytest.mark.parametrize("keep", [1, 2])
def test_after_damage_the_new_ones_stay_and_the_damaged_go(tmp_path, keep):
    for update in (2, 4, 6):
        save_checkpoint(tmp_path, state(update), keep=3)
    for update in (4, 6):
        (tmp_path / f"update-0000000{update}" / "model.safetensors").write_bytes(b"")
    assert load_checkpoint(tmp_path)[0].update == 2
    save_checkpoint(tmp_path, state(3), keep=keep)
    assert names(tmp_path) == ["update-00000002", "update-00000003"][-keep:]
    assert load_checkpoint(tmp_path)[0].update == 3


def test_a_copy_that_somebody_made_is_let_be(tmp_path):
    (tmp_path / "update-00000009 old").mkdir()
    save_checkpoint(tmp_path, state(1), keep=1)
    assert names(tmp_path) == ["update-00000001", "update-00000009 old"]
    assert load_checkpoint(tmp_path)[1] == []


SYNC, RENAME = (os, "fsync"), (os, "rename")
WRITE = (checkpoints, "_write_through")


@pytest.mark.parametrize(
    "where, call", [(WRITE, n) for n in (1, 2, 3)] + [(SYNC, n) for n in (1, 4, 5)] + [(RENAME, 1)]
)
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_step_of_writing_the_folder_holds_the_old_or_the_new_one(
    tmp_path, monkeypatch, where, call, after
):
    save_checkpoint(tmp_path, state(1), keep=1)
    module, name = where
    monkeypatch.setattr(module, name, processes.dying_at(call, getattr(module, name), after=after))
    assert processes.run(lambda: save_checkpoint(tmp_path, state(2), keep=1)) == -signal.SIGKILL
    monkeypatch.undo()
    found, problems = load_checkpoint(tmp_path)
    done = (where == RENAME and after) or (where == SYNC and call == 5)
    assert same(found, state(2 if done else 1)) and problems == []
    save_checkpoint(tmp_path, state(3), keep=1)
    assert names(tmp_path) == ["update-00000003"], "what the killed process left was not removed"


def test_killed_in_the_middle_of_a_file_the_half_is_never_read(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, state(1))

    def half(path, data):
        path.write_bytes(data[: len(data) // 2])
        processes.die()

    monkeypatch.setattr(checkpoints, "_write_through", half)
    assert processes.run(lambda: save_checkpoint(tmp_path, state(2))) == -signal.SIGKILL
    assert same(load_checkpoint(tmp_path)[0], state(1))


def test_everything_is_forced_to_the_disk_before_the_rename_and_the_name_after_it(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: order.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    rename = os.rename
    monkeypatch.setattr(os, "rename", lambda *paths: (order.append("rename"), rename(*paths)))
    save_checkpoint(tmp_path, state(1))
    before, after = order[: order.index("rename")], order[order.index("rename") + 1 :]
    aside = str(tmp_path / ".aside-update-00000001")
    files = ["model.safetensors", "state.safetensors", "facts.json"]
    assert before == [*(f"{aside}/{name}" for name in files), aside]
    assert after == [str(tmp_path)]


def test_a_file_is_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    write_json(path, {"text": "가"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"text": "가"} and "가" in path.read_text(
        encoding="utf-8"
    )
    monkeypatch.setattr(os, "replace", lambda *_: processes.die())
    assert processes.run(lambda: write_atomically(path, b"new")) == -signal.SIGKILL
    assert json.loads(path.read_text(encoding="utf-8")) == {"text": "가"}
    monkeypatch.undo()
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new" and len(synced) == 2 and names(tmp_path) == ["results.json"]


def test_tied_and_transposed_weights_come_back(tmp_path):
    tied = make(3, 2)
    save_weights(tmp_path / "w", {"a": tied, "b": tied, "c": tied.T})
    found = load_weights(tmp_path / "w")
    assert torch.equal(found["a"], tied) and torch.equal(found["b"], tied) and torch.equal(found["c"], tied.T)


def test_weights_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "w").write_bytes(b"\x80\x04K\x01.")  # a pickle
    for name in ("w", "missing"):
        with pytest.raises(ValueError, match=f"{name}: cannot be read"):
            load_weights(tmp_path / name)


def test_an_optimizer_goes_on_exactly_where_it_was():
    def steps(optimizer, weight, numbers):
        for seed in numbers:
            weight.grad = make(4, 3, seed=seed)
            optimizer.step()

    whole = make(4, 3).requires_grad_()
    steps(torch.optim.AdamW([whole], lr=0.1), whole, range(6))
    first = make(4, 3).requires_grad_()
    optimizer = torch.optim.AdamW([first], lr=0.1)
    steps(optimizer, first, range(3))
    tensors = optimizer_tensors(optimizer.state_dict())
    assert set(tensors) == {"optimizer.0.step", "optimizer.0.exp_avg", "optimizer.0.exp_avg_sq"}
    second = first.detach().clone().requires_grad_()
    resumed = torch.optim.AdamW([second], lr=0.1)
    resumed.load_state_dict(optimizer_state({**tensors, "random.0.cpu": torch.ones(1)}, resumed.state_dict()))
    steps(resumed, second, range(3, 6))
    assert torch.equal(second, whole)
