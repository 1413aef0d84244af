"""What holds for every module of the library, whatever it computes."""

import ast
import graphlib
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "tutorial_lib"
FILES = sorted(PACKAGE.glob("*.py"))
EACH = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
# Nothing else may be needed to import a module of the library.
OUTSIDE = {"torch", "numpy", "keras", "matplotlib", "pandas", "tokenizers", "sentencepiece"}
# Imported where they are used, so that whoever does not download or train needs none of them.
LATE = {"pooch", "accelerate", "tqdm", "safetensors", "sacrebleu"}


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def names_of(node):
    """Names of the modules that one statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return set()


def imports(path):
    """Names of all modules that a file imports, wherever in the file."""
    return {name for node in ast.walk(tree(path)) for name in names_of(node)}


@EACH
def test_a_module_has_at_most_300_lines_and_says_what_it_holds(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 300
    first = ast.get_docstring(tree(path)).splitlines()[0]
    assert len(first) > 20 and first.endswith((".", ")", ":", "`.")), first


def test_imports_flow_one_way():
    names = {path.stem for path in FILES}
    graph = {
        path.stem: {n.split(".")[1] for n in imports(path) if n.startswith("tutorial_lib.")} & names
        for path in FILES
    }
    assert list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError


@EACH
def test_a_module_needs_nothing_but_its_dependencies(path):
    roots = {name.split(".")[0] for name in imports(path)} - {"tutorial_lib"} - set(sys.stdlib_module_names)
    assert roots <= OUTSIDE | LATE, f"{path.name} imports {roots - OUTSIDE - LATE}"
    at_once = {name.split(".")[0] for node in tree(path).body for name in names_of(node)}
    assert not at_once & LATE, f"{path.name} imports {at_once & LATE} at once"


def public_definitions(path):
    for node in tree(path).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                        yield inner


# Their class says what they do; Keras and PyTorch say what they are for.
INHERITED = {"forward", "build", "call", "get_config", "compute_mask", "compute_output_shape"}
INHERITED |= {"score_bias", "value_bias", "rotate"}


@EACH
def test_everything_public_is_described(path):
    missing = [
        node.name
        for node in public_definitions(path)
        if not ast.get_docstring(node) and node.name not in INHERITED
    ]
    assert missing == []


@EACH
def test_nothing_prints_and_nothing_seeds(path):
    calls = [ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    assert "print" not in calls
    if path.stem not in ("check_subject", "seeding"):  # they fork the random state first
        assert not {"torch.manual_seed", "np.random.seed", "random.seed"} & set(calls)
