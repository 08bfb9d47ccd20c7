"""The import graph, drawn from the source: arrows point down only, and nothing heavy is imported early."""

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "verifierd"

LAYERS = (
    ("verifierd", "types", "errors"),
    (
        "stages",
        "commandline",
        "config",
        "metrics",
        "policy",
        "calibration",
        "fusion",
        "bundled",
        "paths",
        "processes",
        "times",
        "sanitize",
        "redact",
        "log",
        "logfile",
        "notify",
        "salvage",
        "service",
        "store",
        "labels",
        "views",
    ),
    ("contracts",),
    ("sources", "adapters", "predictors", "scoring", "sinks"),
    ("pipeline", "http", "labelfile"),
    ("composition",),
    ("daemon", "replay"),
    ("cli",),
    ("__main__",),
)
"""Bottom to top. In the second layer neighbours may import each other; elsewhere siblings never do."""

SOCIABLE = 1
LAYER = {unit: number for number, units in enumerate(LAYERS) for unit in units}

HEAVY = {
    "bashkit": ("verifierd.predictors.shell", "verifierd.replay.virtual"),
    "mlx": ("verifierd.predictors",),
    "mlx_lm": ("verifierd.predictors",),
    "plotly": ("verifierd.replay",),
    "rich": ("verifierd.cli",),
    "uvicorn": ("verifierd.http",),
}
"""What takes long to import, and where a module may import it at its top; elsewhere only within a function."""


def _name(path: Path) -> str:
    parts = ("verifierd", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def _unit(module: str) -> str:
    """The top-level module or package that a module belongs to."""
    return module.split(".")[1] if "." in module else module


def _targets(node: ast.AST) -> list[str]:
    """The modules that one import statement names; of `from package import x` the module `x`, if it is one."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return [name if (name := f"{module}.{alias.name}") in TREES else module for alias in names]
        case _:
            return []


def _walk(node: ast.AST, *, deep: bool) -> Iterator[ast.AST]:
    """The nodes of a module; without those inside functions, which run later, unless `deep`."""
    for child in ast.iter_child_nodes(node):
        yield child
        if deep or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _walk(child, deep=deep)


def _imports(module: str, *, deep: bool) -> set[str]:
    return {target for node in _walk(TREES[module], deep=deep) for target in _targets(node)} - {module}


def _ours(targets: set[str]) -> set[str]:
    return {target for target in targets if target == "verifierd" or target.startswith("verifierd.")}


def _drawing() -> str:
    """The graph of the units, top layer first."""
    arrows: dict[str, set[str]] = {}
    for module in TREES:
        found = {_unit(target) for target in _ours(_imports(module, deep=True))}
        arrows.setdefault(_unit(module), set()).update(found - {_unit(module), "verifierd"})
    rows = []
    for number, units in reversed(list(enumerate(LAYERS))):
        rows += [f"L{number} {unit:12} -> {', '.join(sorted(arrows[unit]))}" for unit in units if unit in arrows]
    return "\n".join(rows)


def test_every_module_has_a_layer() -> None:
    """A new module at the top of the package is given its place before anything may import it."""
    unknown = {_unit(module) for module in TREES} - LAYER.keys()

    assert not unknown, f"give {sorted(unknown)} a place in LAYERS"


def test_no_relative_imports() -> None:
    """Imports are written in full, so that this page sees them."""
    relative = [
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]

    assert not relative


def test_arrows_point_down() -> None:
    """No module imports from its own layer or one above, also not within a function."""
    wrong = []
    for module in TREES:
        source = _unit(module)
        for target in _ours(_imports(module, deep=True)):
            above, below = LAYER.get(source, -1), LAYER.get(_unit(target), -1)
            if source == _unit(target) or above > below or above == below == SOCIABLE:
                continue
            wrong.append(f"{module} imports {target}")

    assert not wrong, "\n".join(["", *wrong, "", _drawing()])


def test_the_leaves_import_nothing_of_the_package() -> None:
    """`types` and `errors` stand alone."""
    assert not _ours(_imports("verifierd.types", deep=True) | _imports("verifierd.errors", deep=True))


def test_no_cycles() -> None:
    """Modules can be put in an order in which each finds ready what it imports."""
    graph = {module: _ours(_imports(module, deep=False)) - {"verifierd"} for module in TREES}

    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"{' <- '.join(error.args[1])}\n\n{_drawing()}")


def test_pipeline_knows_no_implementation() -> None:
    """The pipeline sees protocols only, so that daemon and replay run the same code."""
    if "verifierd.pipeline" not in TREES:
        pytest.skip("there is no pipeline yet")

    implementations = {"sources", "adapters", "predictors", "scoring", "sinks"}

    assert not implementations & {_unit(target) for target in _ours(_imports("verifierd.pipeline", deep=True))}


def _run_as_script(node: ast.AST) -> bool:
    """Is it `if __name__ == "__main__":`?"""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def _ends_or_prints(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="print" | "exit" | "quit")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="sys"), attr="exit")):
            return True
        case ast.Raise(exc=ast.Name(id="SystemExit") | ast.Call(func=ast.Name(id="SystemExit"))):
            return True
        case _:
            return False


def test_only_the_command_line_prints_and_exits() -> None:
    """Other layers return, raise or log; what runs only as `python -m` is a command line, too."""
    wrong = [
        f"{module}:{node.lineno}"
        for module, tree in TREES.items()
        if _unit(module) != "cli" and not module.endswith("__main__")
        for statement in tree.body
        if not _run_as_script(statement)
        for node in ast.walk(statement)
        if isinstance(node, ast.expr | ast.stmt) and _ends_or_prints(node)
    ]

    assert not wrong


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    """At the top of a module only in the place that is built on it."""
    wrong = []
    for module in TREES:
        for target in _imports(module, deep=False):
            homes = HEAVY.get(target.split(".")[0])
            if homes is not None and not any(f"{module}.".startswith(f"{home}.") for home in homes):
                wrong.append(f"{module} imports {target}")

    assert not wrong


@pytest.mark.skipif("verifierd.cli" not in TREES, reason="there is no command line yet")
def test_the_command_line_starts_light() -> None:
    """`verifierd --help` loads no engine, no server and no table maker."""
    known = [name for name in HEAVY if importlib.util.find_spec(name) is not None]
    code = f"import sys, verifierd.cli; print(*sorted(set(sys.modules) & set({known!r})))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)

    assert done.stdout.split() == []
