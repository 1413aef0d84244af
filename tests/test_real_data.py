import json

import pytest

from tutorial_lib import train_cli


@pytest.fixture
def real_data(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import real_data

    return real_data


def test_every_job_is_a_command_that_train_understands(real_data, tmp_path):
    for job in real_data.JOBS:
        first, *words = real_data.arguments_of(job, 2, tmp_path)
        parsed = train_cli.parser().parse_args(words)
        settings, config = train_cli.chosen(parsed)
        assert first == "train" and parsed.cpu and settings.seed == config.seed == 2
        assert settings.data == job


def test_finished_runs_are_collected_with_what_they_depend_on(real_data, tmp_path):
    for job, seed in (("nsmc-small", 1), ("tatoeba", 0)):
        (tmp_path / f"{job}-{seed}").mkdir()
        content = {name: f"{name} of {job}" for name in real_data.KEPT} | {"seed": seed, "history": [1]}
        (tmp_path / f"{job}-{seed}" / "results.json").write_text(json.dumps(content))
    (tmp_path / "nsmc-2").mkdir()  # not finished
    rows = real_data.collect(tmp_path)
    assert [(row["job"], row["seed"]) for row in rows] == [("tatoeba", 0), ("nsmc-small", 1)]
    assert all(set(row) == {"job", *real_data.KEPT} for row in rows)


def test_the_stored_results_have_three_seeds_and_name_their_files(real_data):
    stored = json.loads(real_data.RESULTS.read_text(encoding="utf-8"))
    for job in {row["job"] for row in stored}:
        rows = [row for row in stored if row["job"] == job]
        assert [row["seed"] for row in rows] == [0, 1, 2]
        assert all(row["data"]["origin"] and row["data"]["rows"]["test"] >= 300 for row in rows)
        assert {row["versions"]["torch"] for row in rows} != {"not installed"}
