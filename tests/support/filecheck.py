"""FileCheck in a test: ``check(text, '''CHECK: …''')``; the directives are those of LLVM's FileCheck."""

from __future__ import annotations

import io
import re

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

from tawa.ir import Module, print_module


def check(text: str, directives: str) -> None:
    """Fails with FileCheck's message (on stderr) and the text if `text` does not match `directives`."""
    options = Options(match_filename="directives")
    parser = Parser(options, io.StringIO(directives), *pattern_for_opts(options))
    assert Matcher(options, FInput("output", text), parser).run() == 0, f"FileCheck failed on\n{text}"


def brief(module: Module) -> str:
    """The module without aliases, locations and function types: an operation is name, operands and properties."""
    lines = print_module(module, locations=False).splitlines()
    return "\n".join(re.sub(r" : \(.*", "", line).strip() for line in lines if not line.startswith("#")) + "\n"
