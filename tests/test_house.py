"""The rules of the house that no linter knows: CONTRIBUTING.md in words, here as checks."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["mypy"]["packages"]
# Distributions that may not be installed, such as those of a rare extra, and are not called as they are imported.
NAMED_OTHERWISE = {
    "cv2": "opencv-python-headless",
    "cyclonedx": "cyclonedx-python-lib",
    "helm_python": "helm-python-sdk",
    "packageurl": "packageurl-python",
}
MAX_LINES = 400
MAX_FUNCTION_LINES = 40

# Where everything may be caught, and what happens to it there.
CATCH_ALLS = {
    "edge_runtime/generation/engine.py": "supervises the engine's thread: the runtime is failed, and says so",
    "edge_runtime/residency/engine.py": "supervises the watch on the version: what is served stays, the state says why",
    "edge_runtime/residency/resident.py": "supervises loading: another version goes on, and the state says why",
    "gateway/targets/poller.py": "supervises polling: a target whose polls fail is marked down",
    "gateway/admin/app.py": "the top handler of the admin listener: the caller gets `internal_error`",
    "gateway/api/inference.py": "the top handler: the caller gets `internal_error`",
    "gateway/kept/flusher.py": "supervises deferred requests: one that crashes is failed, the others have their turn",
    "gateway/cli/doctor/checkup.py": "one look that breaks must hide none of the others; it is told as a finding",
    "gateway/policies/watch.py": "supervises the watch on the policy's file: the policy in force stays, and it goes on",
    "routing_policies/signals/scanner.py": "supervises detectors: what one raises makes its part uninspected",
    "runtime_server/lifecycle.py": "supervises loading: the runtime is failed, and says so",
    "runtime_server/request_boundary.py": "the top handler: the caller gets `internal_error`",
}

CONTAINERS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
STATEFUL = re.compile(
    r"^(list|dict|set|bytearray|deque|defaultdict|OrderedDict|Counter|count|cache|lru_cache|ContextVar|Random"
    r"|Lock|RLock|Condition|Event|Semaphore|BoundedSemaphore|Queue|Session|ClientSession|Client|AsyncClient)$"
)
CHANGING = frozenset("add append clear discard extend insert pop popitem remove setdefault update".split())
# What can open a connection, by module and by method.
CLIENTS = re.compile(
    r"(aiohttp|ftplib|grpc|h11|http\.client|httpcore|openai|requests|smtplib|socket|urllib\.request|urllib3|websockets|"
    r"xmlrpc)\b"
)
CONNECTING = re.compile(
    r"^(create_connection|create_datagram_endpoint|open_connection|open_unix_connection|sock_connect)$"
)
# Of httpx, what stands for values and failures, and opens nothing.
HTTPX_VALUES = re.compile(r"^(Request|Response|URL|ByteStream|\w+Error|\w+Timeout)$")


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"), str(path))


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so nothing says which files are the project's")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def name_of(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def normalized(requirement: str) -> str:
    """A requirement's distribution, as indexes normalize names."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def direct_dependencies() -> set[str]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    return {normalized(each) for each in sum(extras, PROJECT["project"]["dependencies"])}


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_no_module_holds_state() -> None:
    found = [f"{path}:{fault}" for path, tree in sources(*PACKAGES) for fault in _state_in(tree)]

    assert not found, "inject it instead:\n" + "\n".join(found)


def _state_in(tree: ast.Module) -> Iterator[str]:
    """What of a module can change while it runs: constants, in capitals, are fine where nothing changes them."""
    constants: set[str] = set()
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(ast.Name(id=name), value=value):
                pass
            case _:
                continue
        if isinstance(value, CONTAINERS):
            constants.add(name)
            if not name.isupper() and name != "__all__":
                yield f"{statement.lineno}: {name} is a container and not a constant"
        elif isinstance(value, ast.Call) and STATEFUL.match(name_of(value.func)):
            yield f"{statement.lineno}: {name} changes as it is used"
    for node in ast.walk(tree):
        change = _change(node, constants)
        if change is not None:
            yield change


def _change(node: ast.AST, constants: set[str]) -> str | None:
    match node:
        case ast.Global(names=names):
            return f"{node.lineno}: global {', '.join(names)}"
        case ast.FunctionDef(decorator_list=decorators) | ast.AsyncFunctionDef(decorator_list=decorators):
            made_by = [name_of(each.func if isinstance(each, ast.Call) else each) for each in decorators]
            return f"{node.lineno}: {node.name} keeps its results" if any(map(STATEFUL.match, made_by)) else None
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()) if name in constants:
            return f"{node.lineno}: {name} is changed"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if name in constants:
            return f"{node.lineno}: {name} is changed" if method in CHANGING else None
    return None


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    lengths = {
        path: len((ROOT / path).read_text(encoding="utf-8").splitlines())
        for path, _ in sources(*PACKAGES, "tests", "bench", "deploy")
    }

    assert not {path: length for path, length in lengths.items() if length > MAX_LINES}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{path}: {node.name}"
        for path, tree in sources(*PACKAGES)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _code_lines(node) >= MAX_FUNCTION_LINES
    }

    assert not long


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring, from its `def` to its end."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    assert docstring.end_lineno is not None
    return lines - (docstring.end_lineno - docstring.lineno + 1)


def test_every_check_that_is_switched_off_says_why_in_the_same_line() -> None:
    switch = re.compile(r"# (?:noqa|type: ignore)\b(?P<rest>.*)")
    reasoned = re.compile(r"(?:: [A-Z0-9, ]+|\[[a-z, -]+\])  # \S.*")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked_files()
        if path.suffix == ".py" and path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (match := switch.search(line)) and not reasoned.fullmatch(match["rest"])
    ]

    assert not found


def test_everything_is_caught_only_where_that_has_a_reason() -> None:
    found = {path for path, tree in sources(*PACKAGES) for handler in _handlers(tree) if _catches_all(handler)}

    assert found == set(CATCH_ALLS)


def _handlers(tree: ast.Module) -> list[ast.ExceptHandler]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]


def _catches_all(handler: ast.ExceptHandler) -> bool:
    """Whether it swallows whatever comes; one that raises it again at its end only looks."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(each is None or name_of(each) in {"Exception", "BaseException"} for each in caught)


def test_only_the_door_opens_connections_from_the_gateway() -> None:
    found = [
        f"{path}:{node.lineno}: httpx.{node.attr}"
        for path, tree in sources("gateway")
        # The commands are clients of the gateway's own address.
        if not path.startswith(("gateway/egress/", "gateway/cli/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and name_of(node.value) == "httpx" and not HTTPX_VALUES.match(node.attr)
    ]

    assert not found


def test_the_gateway_has_no_other_client_beside_the_door() -> None:
    """What the import contracts do not name: clients of the standard library, and those that a dependency brings."""
    found = [
        f"{path}: {what}"
        for path, tree in sources("gateway")
        if not path.startswith(("gateway/egress/", "gateway/cli/"))
        for what in (
            *(module for module in _imports(tree) if CLIENTS.match(module)),
            *(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and CONNECTING.match(node.attr)),
        )
    ]

    assert not found


def test_every_direct_dependency_is_pinned_and_has_its_reason() -> None:
    table = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = {normalized(name) for name in re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)}

    assert direct_dependencies() <= pins().keys()
    assert rows == direct_dependencies()


@pytest.mark.parametrize(
    ("folders", "extras"),
    [
        (PACKAGES, ("build", "cloud", "pictures", "presidio", "prove")),
        (["tests"], ("build", "cloud", "dev")),
        (["deploy"], ("deploy", "dev")),
    ],
)
def test_what_is_imported_is_declared(folders: list[str], extras: tuple[str, ...]) -> None:
    optional = PROJECT["project"]["optional-dependencies"]
    declared = {
        normalized(each) for each in sum((optional[extra] for extra in extras), PROJECT["project"]["dependencies"])
    }
    ours = {*PACKAGES, "bench", "deploy", "tests", *sys.stdlib_module_names}
    distributions = importlib.metadata.packages_distributions()
    imported = {module.partition(".")[0] for _, tree in sources(*folders) for module in _imports(tree)} - ours

    assert not {
        module
        for module in imported
        if declared.isdisjoint(
            normalized(each) for each in distributions.get(module, [NAMED_OTHERWISE.get(module, module)])
        )
    }


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def test_the_build_is_pinned_to_what_the_constraints_say() -> None:
    assert PROJECT["build-system"]["requires"] == [f"setuptools=={pins()['setuptools']}"]


def test_no_file_names_a_place_of_the_machine_it_was_written_on() -> None:
    # Put together here, so that this file does not name them.
    hosts = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("download", "pytorch", "org"))]
    places = re.compile("|".join([*map(re.escape, hosts), r"(?<![\w.])/(?:root|work|Users)/\w"]))
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in tracked_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if (match := places.search(line))
    ]

    assert not found
