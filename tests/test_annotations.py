"""Every public function, method and dataclass field of the package says its types."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "keras_transformer"
# Without the types of their parts these say too little.
GENERIC = {
    "Callable", "Iterable", "Iterator", "Mapping", "Sequence",
    "dict", "frozenset", "list", "set", "tuple",
}  # fmt: skip


def public_functions(body):
    """Yield the functions in a module or class that users may call, with those of its classes."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not node.name.startswith("_") or node.name.startswith("__"):
                yield node
        elif (isinstance(node, ast.ClassDef) and not node.name.startswith("_")) or isinstance(
            node, (ast.If, ast.Try, ast.With)
        ):
            yield from public_functions(node.body)


def public_fields(tree):
    """Yield the annotated names of a module's public classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            fields = (field for field in node.body if isinstance(field, ast.AnnAssign))
            yield from (field for field in fields if not ast.unparse(field.target).startswith("_"))


def arguments(function):
    """The arguments of a function except `self` and `cls`."""
    given = function.args
    found = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    found += [one for one in (given.vararg, given.kwarg) if one is not None]
    return [one for one in found if one.arg not in ("self", "cls")]


def says_too_little(annotation):
    """Whether an annotation has a generic type without the types of its parts."""
    subscripted = {
        id(node.value) for node in ast.walk(annotation) if isinstance(node, ast.Subscript)
    }
    return any(
        isinstance(node, ast.Name) and node.id in GENERIC and id(node) not in subscripted
        for node in ast.walk(annotation)
    )


def missing(source):
    """What lacks an annotation in a module, as a list of sentences with line numbers."""
    tree, found = ast.parse(source), []
    for function in public_functions(tree.body):
        annotations = {one.arg: one.annotation for one in arguments(function)}
        if function.name != "__init__":
            annotations["return"] = function.returns
        for name, annotation in annotations.items():
            if annotation is None:
                found.append(f"{function.lineno}: {function.name}: {name}")
            elif says_too_little(annotation):
                found.append(f"{function.lineno}: {function.name}: {ast.unparse(annotation)}")
    for field in public_fields(tree):
        if says_too_little(field.annotation):
            found.append(f"{field.lineno}: {ast.unparse(field)}")
    return found


def test_every_public_name_is_annotated():
    found = {
        str(path.relative_to(PACKAGE)): missing(path.read_text("utf-8"))
        for path in PACKAGE.rglob("*.py")
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a: int, *b: int, c: str = '', **d: object) -> None: ...", []),
        ("def f(a, *b: int, **c) -> None: ...", ["1: f: a", "1: f: c"]),
        ("def f(): ...", ["1: f: return"]),
        ("def _f(a): ...", []),
        ("class A:\n    def f(self, a) -> int: ...", ["2: f: a"]),
        ("class A:\n    def __init__(self, a): ...", ["2: __init__: a"]),
        ("class A:\n    def __init__(self): ...", []),
        ("class _A:\n    def f(self, a): ...", []),
        ("def f(a: list) -> tuple[int, ...]: ...", ["1: f: list"]),
        ("def f(a: int | list[dict]) -> None: ...", ["1: f: int | list[dict]"]),
        ("class A:\n    a: list\n    b: list[int]", ["2: a: list"]),
    ],
)
def test_what_is_missing_is_found(source, expected):
    assert missing(source) == expected
