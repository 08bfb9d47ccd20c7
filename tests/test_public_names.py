"""Public names are true, and say what they are."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "verifierd"


def _modules() -> Iterator[tuple[str, Path]]:
    """Public modules: no part of their name begins with an underscore."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("verifierd", *path.relative_to(PACKAGE).with_suffix("").parts)
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts), path


MODULES = dict(_modules())


def _undocumented(body: list[ast.stmt], names: set[str] | None, prefix: str = "") -> Iterator[str]:
    """Functions and classes without a docstring; of classes the public methods, too."""
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        public = node.name in names if names is not None else not node.name.startswith("_")
        if not public or any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list):
            continue
        if ast.get_docstring(node) is None:
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(node.body, None, f"{prefix}{node.name}.")


@pytest.mark.parametrize("name", MODULES)
def test_names_are_true(name: str) -> None:
    """`__all__` is a tuple without repetitions, and each name in it exists."""
    module = importlib.import_module(name)
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    if not any(isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) for node in tree.body):
        return  # it defines nothing that one could import

    assert isinstance(module.__all__, tuple)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []


@pytest.mark.parametrize("name", MODULES)
def test_public_names_say_what_they_are(name: str) -> None:
    """Every public module, and each class, function and method that it offers, has a docstring."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    offered = set(getattr(importlib.import_module(name), "__all__", ()))

    assert ast.get_docstring(tree), "the module has no docstring"
    assert list(_undocumented(tree.body, offered)) == []
