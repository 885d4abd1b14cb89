"""What can be said of a block without running it: kernels compile, names exist, options and files are known."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.docs.pages import ROOT, Block
from tests.docs.running import Workplace

OTHERS = ("torchrun", "less", "grep", "git")  # programs that are not ours; nothing is asked of how they are called
NOT_INSTALLED = ("torch",)  # modules that need not be there; what is ours behind them is looked up in its source


def faults(block: Block, place: Workplace) -> list[str]:
    """What is wrong with a `compile` or `gpu` block; empty if nothing is found."""
    if "file" in block.keys:
        place.write(block)
    if block.language == "python":
        found = list(_python_faults(block.code, place.folder))
        if not found and "kernel" in block.keys:
            found = list(_kernel_faults(block, place.write(block)))
    elif block.language == "sh":
        found = list(_shell_faults(block.code, place))
    else:
        found = [f"`{block.language}` is not a language that can be checked; tag it `shown`, with the reason"]
    return [f"{block.where}: {it}" for it in found]


# --- Python ---


def _python_faults(code: str, folder: Path) -> Iterator[str]:
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        yield f"line {error.lineno}: {error.msg}"
        return
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or "ruff"
    options = "--isolated --no-cache --quiet --select F821 --output-format concise -"
    command = [ruff, "check", *options.split()]
    done = subprocess.run(command, input=code, capture_output=True, text=True)
    yield from (done.stdout + done.stderr).splitlines()
    yield from _missing_names(tree, folder)


def _missing_names(tree: ast.Module, folder: Path) -> Iterator[str]:
    """Imported modules and names that do not exist; attributes of `tawa` that it has not.

    folder: where the files of the page's earlier blocks are.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"no module {it.name}" for it in node.names if not _exists(it.name))
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            files = [root.joinpath(*parts).with_suffix(".py") for root in (folder, folder / "src")]
            file = next((it for it in files if it.is_file() and not _exists(node.module)), files[0])
            if file.is_file():
                yield from (f"no {it.name} in {file.name}" for it in node.names if not _binds(file, it.name))
                continue
            yield from (
                f"no {it.name} in {node.module}"
                for it in node.names
                if not _has(node.module, it.name) and not _exists(f"{node.module}.{it.name}")
            )
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "tawa" and not _has("tawa", node.attr):
            yield f"no {node.attr} in tawa"


def _exists(module: str) -> bool:
    if module.partition(".")[0] in NOT_INSTALLED:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def _has(module: str, name: str) -> bool:
    if module.partition(".")[0] in NOT_INSTALLED:
        return True
    try:
        return hasattr(importlib.import_module(module), name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in NOT_INSTALLED:
            return False
    spec = importlib.util.find_spec(module)
    return bool(spec and spec.origin and _binds(Path(spec.origin), name))


def _binds(file: Path, name: str) -> bool:
    """Whether a module defines or imports a name, by its text."""
    body = ast.parse(file.read_text()).body
    guarded = [it for node in body if isinstance(node, ast.If) for it in node.body]  # imports for type checkers
    return any(name in _bound(node) for node in (*body, *guarded))


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [it.asname or it.name for it in node.names]
    if isinstance(node, ast.Assign):
        return [it.id for it in node.targets if isinstance(it, ast.Name)]
    return [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []


def _kernel_faults(block: Block, file: Path) -> Iterator[str]:
    """Compiles the kernel of a block, and says where it does not become what the tag says."""
    import tawa
    from tawa.bridge.triton.signature import parse_constants
    from tawa.declines import of_reason
    from tests.support.back_end import without_ptx

    keys, name = block.keys, block.keys["kernel"]
    wanted = keys.get("verdict", "specialised")
    try:
        kernel = getattr(_imported(file), name)
        options = {"num_warps": int(keys.get("warps", "4")), **parse_constants(keys.get("options", ""))}
        options |= _launched(block.text, name)
        if wanted == "legal":
            options["only_if_faster"] = False
        constants = parse_constants(keys.get("const", ""))
        constants |= {it: options.pop(it) for it in kernel.arg_names if it in options}
        warps = options.pop("num_warps")
        with without_ptx():
            found: Any = tawa.explain(kernel, keys.get("sig", ""), constants, num_warps=warps, **options)
    except Exception as error:
        yield f"{name}: {type(error).__name__}: {error}"
        return
    if found.applied != (wanted != "declined"):
        yield f"{name}: {'specialised' if found.applied else 'not specialised'}, not {wanted}: {found.reason}"
    if "reason" in keys and found.applied:
        yield f"{name}: specialised, so it is not declined because of {keys['reason']}"
    elif "reason" in keys and getattr(of_reason(found.reason), "id", "") != keys["reason"]:
        yield f"{name}: declined, but not because of {keys['reason']}: {found.reason}"
    fills = ",".join(dict.fromkeys(ring.fill for ring in found.rings))
    if keys.get("fill", fills) != fills:
        yield f"{name}: its rings are filled by {fills}, not {keys['fill']}"


def _launched(text: str, kernel: str) -> dict[str, Any]:
    """The constants and options of the first launch of the kernel that a block shows."""
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Subscript)
            and ast.unparse(node.func.value) == kernel
        ):
            return {it.arg: ast.literal_eval(it.value) for it in node.keywords if it.arg}
    return {}


def _imported(file: Path) -> ModuleType:
    """The imports and definitions of a file as a module; what it does beside, launches for instance, is left out."""
    tree = ast.parse(file.read_text())
    tree.body = [node for node in tree.body if _bound(node)]
    tree.body = [node for node in map(_without_missing, tree.body) if node is not None]
    module = ModuleType(f"page_block_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(tree, str(file), "exec"), vars(module))
    return module


def _without_missing(node: ast.stmt) -> ast.stmt | None:
    """An import without modules that need not be installed; an assignment only of a number or a text."""
    if isinstance(node, ast.Import):
        node.names = [it for it in node.names if it.name.partition(".")[0] not in NOT_INSTALLED]
        return node if node.names else None
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in NOT_INSTALLED:
        return None
    if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
        return None
    return node


# --- shell ---


def _shell_faults(code: str, place: Workplace) -> Iterator[str]:
    done = subprocess.run(["bash", "-n", "-c", code], capture_output=True, text=True)
    if done.returncode:
        yield done.stderr.strip()
        return
    for line in code.replace("\\\n", " ").splitlines():
        for words in _commands(line):
            fault = _command_fault(words, place)
            if fault:
                yield f"{' '.join(words)}: {fault}"


def _commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, without assignments in front and without redirections."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    words: list[str] = []
    for word in (*reader, ";"):
        if set(word) <= set("();<>|&"):
            if words:
                yield words
            words = []
        elif words or not re.fullmatch(r"\w+=.*", word):
            words.append(word)


def _command_fault(words: list[str], place: Workplace) -> str:
    program, *rest = words
    if any("…" in word for word in rest):
        return "an ellipsis: the command is not complete"
    match program:
        case "tawa":
            return _tawa_fault(rest)
        case "make":
            targets = re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.M)
            return next((f"no target {it}" for it in rest if "=" not in it and it not in targets), "")
        case "python" if rest[0] == "-m":
            return module_fault(rest[1], rest[2:])
        case "python":
            return script_fault(place.folder / rest[0], rest[1:])
        case "pip":
            return pip_fault(rest)
        case _:
            return "" if program in OTHERS else f"not a program that these checks know: {program}"


def tawa_commands() -> dict[str, Any]:
    """The commands of `tawa` by name, but not those that only say where they have gone."""
    import typer

    from tawa.cli.main import app

    group: Any = typer.main.get_command(app)
    return {name: it for name, it in group.commands.items() if not it.hidden}


def _tawa_fault(words: list[str]) -> str:
    if words[0] not in tawa_commands():
        return f"no command {words[0]}"
    try:
        tawa_commands()[words[0]].make_context(words[0], list(words[1:]))
    except Exception as error:
        return str(getattr(error, "message", error))
    return ""


def script_fault(script: Path, words: list[str]) -> str:
    """What is wrong with running one of our scripts with these arguments; empty if nothing is found."""
    if not script.is_file():
        return f"no file {script.name}"
    text = script.read_text()
    return next((f"{script.name} has no option {it}" for it in words if it[:2] == "--" and f'"{it}"' not in text), "")


def module_fault(name: str, words: list[str]) -> str:
    """What is wrong with ``python -m name words``; options are looked up in modules of this repository only."""
    if not _exists(name):
        return f"no module {name}"
    path = ROOT.joinpath(*name.split("."))
    files = list(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    text = "".join(file.read_text() for file in files if file.is_file())
    return next((f"{name} has no option {it}" for it in words if text and it[:2] == "--" and f'"{it}"' not in text), "")


def pip_fault(words: list[str]) -> str:
    """Nothing of ours is on an index: the project is installed from its folder, with extras that it has."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in words[1:]:
        name, _, wanted = word.rstrip("]").partition("[")
        if name == "tawa":
            return "tawa is on no index: it is installed from its folder, `.`"
        for extra in filter(None, wanted.split(",")):
            if name == "." and extra not in extras:
                return f"no extra {extra}"
    return ""
