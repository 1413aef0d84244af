"""What runs a chapter's code outside its page: other seeds, stored results."""

import json
import re

import pytest
from conftest import ROOT

from tutorial_lib import data

CHAPTER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A chapter

```{code-cell} ipython3
seed = 0  # of everything below
other_seed = 0
```

```{code-cell} ipython3
:tags: [definition]
def drawn(seed):
    return 10 * seed
```

```{code-cell} ipython3
:tags: [nbval-ignore-output]
print(f"drew {drawn(seed)}")
assert drawn(seed) < 25
```
"""


@pytest.fixture
def chapters(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import chapters

    (tmp_path / "chapters/en").mkdir(parents=True)
    (tmp_path / "chapters/en/42_a_chapter.md").write_text(CHAPTER, encoding="utf-8")
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    monkeypatch.setattr(chapters, "STORED", tmp_path / "results")
    return chapters


def test_only_the_chapters_own_seed_is_replaced(chapters):
    replaced = [chapters.with_seed(cell.source, 7) for cell in chapters.cells("42")]
    assert replaced[0] == "seed = 7\nother_seed = 0"
    assert replaced[1:] == [cell.source for cell in chapters.cells("42")[1:]]


def test_a_claim_that_fails_with_another_seed_is_named(chapters, capsys):
    import seeds

    assert seeds.run("42", 1) == 0
    assert "drew 10" in capsys.readouterr().out
    assert seeds.run("42", 3) == 1
    assert "cell 3 FAILED" in capsys.readouterr().out


def test_the_cells_that_define_an_experiment_run_alone(chapters):
    assert chapters.definitions("42").drawn(4) == 40
    with pytest.raises(ValueError, match="no chapter '43'"):
        chapters.definitions("43")


def test_what_is_stored_says_how_it_was_made(chapters):
    pytest.importorskip("torch")
    path = chapters.store(
        "toy", "python benchmarks/chapter_42.py", [0, 1, 2], 61.4, {"accuracy": [0.5, 0.6, 0.7]}
    )
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["seconds"] == 61 and content["machine"] and content["versions"]["torch"]
    assert content["results"] == {"accuracy": [0.5, 0.6, 0.7]}


STORED = sorted((ROOT / "src/tutorial_lib/assets/results").glob("*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_every_stored_result_names_command_seeds_and_machine(path):
    content = data.stored_results(path.stem)
    script = re.match(r"python (benchmarks/chapter_\d\d\.py)( |$)", content["command"])
    assert script and (ROOT / script[1]).exists()
    assert len(content["seeds"]) >= 3 and content["seconds"] > 0 and content["machine"]
    assert content["results"]


def test_an_experiment_that_was_not_stored_is_named():
    with pytest.raises(ValueError, match=r"name must be one of .*, got 'nothing'"):
        data.stored_results("nothing")
