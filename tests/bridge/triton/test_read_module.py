"""Programs from files: any form, the same module; places, names, and what is said about text that is none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.ir_compat import respelt
from tawa.bridge.triton.read_module import (
    is_generic,
    kernel_of,
    read_final,
    read_levels,
    read_ttgir,
    read_unspecialised,
)
from tawa.bridge.triton.signature import Signature
from tawa.bridge.triton.versions import nested_descriptors
from tawa.dialects.parameters import parameter_name
from tawa.errors import InternalError, ParseError, TawaError
from tawa.ir import Module, parse_module, print_module, source_of
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.barriers import check_barriers
from tests.bridge import kernels
from tests.support.damage import damaged_text
from tests.support.pipeline import specialise

pytestmark = pytest.mark.contract

OPTIONS = PlanOptions(enable_warp_specialization=True, aref_depth=2, mma_depth=1)
DATA = Path(__file__).parents[2] / "verify" / "data"


@pytest.fixture
def compiled(gemm_signature: Signature) -> Any:
    return compile_kernel(kernels.gemm_descriptors, gemm_signature, Request(OPTIONS))


def without_locations(text: str) -> str:
    """Custom form as somebody would paste it."""
    while (shorter := re.sub(r" loc\([^()]*(\([^()]*\))?\)", "", text)) != text:
        text = shorter
    return "\n".join(line for line in text.splitlines() if not line.startswith("#loc"))


def without_names(text: str) -> str:
    """The text with its values numbered in the order of their first place.

    Triton's custom form does not keep the names of the values that a loop carries.
    """
    numbers: dict[str, str] = {}
    return re.sub(r"%[\w.]+", lambda found: numbers.setdefault(found[0], f"%{len(numbers)}"), text)


def names(module: Module) -> list[str]:
    return [op.name for op in module.walk()]


def test_custom_and_generic_form_are_the_same_program(compiled: Any, tmp_path: Path) -> None:
    custom, generic = tmp_path / "kernel.ttgir", tmp_path / "kernel.mlir"
    custom.write_text(compiled.asm["ttgir"])
    generic.write_text(print_module(read_final(compiled)))
    assert not is_generic(custom.read_text()) and is_generic(generic.read_text())
    texts = [print_module(read_ttgir(path), locations=False) for path in (custom, generic)]
    assert texts[0] == texts[1]


def test_what_is_read_from_memory_has_no_places_in_files_that_are_gone(compiled: Any) -> None:
    for module in (read_final(compiled), read_unspecialised(compiled, num_warps=4, num_stages=3)):
        files = {place.file for op in module.walk() if (place := source_of(module, op))}
        assert files == {kernels.__file__}


@pytest.mark.parametrize("level", ["aref", "barrier"])
def test_tawas_own_levels_are_read_although_triton_cannot_read_them(compiled: Any, tmp_path: Path, level: str) -> None:
    path = tmp_path / f"kernel.{level}"
    path.write_text(compiled.asm[level])
    assert names(read_ttgir(path)) == names(parse_module(compiled.asm[level]))


def test_generic_text_is_read_without_triton() -> None:
    program = (
        "import sys; from pathlib import Path; from tawa.bridge.triton.read_module import read_ttgir; "
        f"read_ttgir(Path({str(DATA / 'gluon_gemm.triton3_9.mlir')!r})); print('triton' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_text_without_locations_has_its_own_lines(compiled: Any, tmp_path: Path) -> None:
    generic, custom = tmp_path / "kernel.mlir", tmp_path / "kernel.ttgir"
    generic.write_text(print_module(read_final(compiled), locations=False))
    custom.write_text(without_locations(compiled.asm["ttgir"]))
    for path, spelling in ((generic, '"ttng.wait_barrier"'), (custom, "ttng.wait_barrier")):
        module = read_ttgir(path)
        waits = [op for op in module.walk() if op.name == "ttng.wait_barrier"]
        assert waits
        for op in waits:
            place = source_of(module, op)
            assert place is not None and place.file == str(path)
            assert path.read_text().splitlines()[place.line - 1][place.column :].startswith(spelling)


def test_locations_in_the_text_are_kept(compiled: Any, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ttgir"
    path.write_text(compiled.asm["ttgir"])
    module = read_ttgir(path)
    dot = next(op for op in module.walk() if op.name == "ttng.warp_group_dot")
    place = source_of(module, dot)
    assert place is not None and place.file == kernels.__file__


def test_parameters_have_the_names_of_the_text_and_descriptors_own_what_follows_them(
    compiled: Any, tmp_path: Path
) -> None:
    path = tmp_path / "kernel.ttgir"
    path.write_text(without_locations(compiled.asm["ttgir"]))
    hints = [arg.hint for arg in kernel_of(read_ttgir(path)).body.args]
    assert list(dict.fromkeys(hints)) == ["a_desc", "b_desc", "c_desc", "K"]
    assert hints.count("a_desc") == 5


def test_nameless_parameters_are_numbered() -> None:
    hints = [arg.hint for arg in kernel_of(read_ttgir(DATA / "gluon_gemm.triton3_6.mlir")).body.args]
    assert list(dict.fromkeys(hints)) == ["arg0", "arg5", "arg10", "arg15", "arg16", "arg17"]


def test_the_unspecialised_program_is_what_the_pipeline_starts_from(compiled: Any) -> None:
    module = read_unspecialised(compiled, num_warps=4, num_stages=3)
    assert "ttg.warp_specialize" not in names(module) and "tt.dot" in " ".join(names(module)).replace(
        "ttng.warp_group_dot", "tt.dot"
    )
    outcome = specialise(print_module(module), OPTIONS, Target(4, 3))
    assert outcome.aref is not None
    assert without_names(outcome.aref) == without_names(compiled.asm["aref"])


def test_the_levels_share_the_names_of_the_parameters(compiled: Any) -> None:
    aref, barrier = read_levels(compiled)
    found = [[parameter_name(it, arg) for arg in kernel_of(it).body.args] for it in (aref, barrier)]
    assert found[0] == found[1]
    assert list(dict.fromkeys(name.partition(".")[0] for name in found[0])) == ["a_desc", "b_desc", "c_desc", "K"]


def refusal(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(ParseError) as caught:
        read_ttgir(path)
    assert "Cure: " in str(caught.value)
    return str(caught.value)


def test_a_program_without_layouts_is_told_from_one_that_cannot_be_read(compiled: Any, tmp_path: Path) -> None:
    path = tmp_path / "kernel.mlir"
    assert "kernel.mlir has no ttg.num-warps: it is TTIR" in refusal(path, compiled.asm["ttir"])
    assert "kernel.mlir has no ttg.num-warps: it is TTIR" in refusal(
        path, re.sub(r'"ttg.num-warps" = \d+ : i32, ', "", compiled.asm["barrier"])
    )


def test_tritons_own_words_come_with_the_line(compiled: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernel.ttgir"
    text = compiled.asm["ttgir"].replace("ttng.arrive_barrier", "ttng.arrive_barier", 1)
    line = next(number for number, it in enumerate(text.splitlines(), 1) if "arrive_barier" in it)
    message = refusal(path, text)
    assert "custom op 'ttng.arrive_barier' is unknown" in message and f"at {path}:{line}\n" in message
    assert capfd.readouterr().err == ""


def test_bad_generic_text_is_shown_at_its_line(compiled: Any, tmp_path: Path) -> None:
    path = tmp_path / "kernel.mlir"
    lines = compiled.asm["barrier"].splitlines()
    at = next(number for number, line in enumerate(lines) if "ttng.arrive_barrier" in line)
    lines[at] = lines[at].replace("(%", "(%nobody", 1)
    assert f"at {path}:{at + 1}\n" in refusal(path, "\n".join(lines))
    assert "the text ends inside a region" in refusal(path, "\n".join(lines[:at]))


@pytest.mark.parametrize("attribute", ["{i1 = 1}", "{dim = 0}", "{dim = 0, i1 = 1}"])
def test_text_at_which_triton_ends_the_process_is_refused(attribute: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ttgir"
    path.write_text(f"#layout = #ttg.slice<{attribute}>\nmodule {{}}\n")
    with pytest.raises(ParseError, match=r"cannot read kernel\.ttgir: it ends the process \(SIG"):
        read_ttgir(path)


def test_files_that_hold_no_program_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "kernel.mlir"
    assert "holds no program" in refusal(path, "// not specialised: no tl.dot\n\n")
    path.write_bytes(b"\x7fELF\xd0\xd0")
    with pytest.raises(ParseError, match="is not text"):
        read_ttgir(path)


@pytest.mark.parametrize("properties", ["", ' <{pendings = "x"}>'])
def test_a_wait_without_its_count_is_refused_with_its_line(tmp_path: Path, properties: str) -> None:
    file = tmp_path / "wait.ttgir"
    file.write_text(
        '"builtin.module"() ({\n'
        '  "tt.func"() <{function_type = () -> (), sym_name = "kernel", sym_visibility = "public"}> ({\n'
        f'    "ttng.async_tma_store_wait"(){properties} : () -> ()\n'
        '    "tt.return"() : () -> ()\n'
        "  }) : () -> ()\n"
        '}) {"ttg.num-warps" = 4 : i32} : () -> ()\n'
    )
    with pytest.raises(ParseError, match=r"async_tma_store_wait has no attribute pendings(.|\n)*wait.ttgir:3"):
        read_ttgir(file)


def test_a_damaged_program_is_an_error_with_its_cure(compiled: Any, tmp_path: Path) -> None:
    """Also one that can be read as text: the checks do not meet a program that is not well formed."""
    refused = 0
    for seed in range(120):
        path = tmp_path / f"{seed}.ttgir"
        path.write_bytes(damaged_text(compiled.asm["barrier"], seed))
        try:
            check_barriers(read_ttgir(path), effort="fast")
        except TawaError as error:
            assert not isinstance(error, InternalError), seed
            assert "cure" in str(error).lower(), seed
            refused += 1
    assert refused > 60


def in_another_spelling(text: str) -> str:
    """The text with the types of descriptors as the other versions of Triton print them."""
    return respelt(text, nested=not nested_descriptors())[0]


def test_text_of_another_triton_is_read_at_its_own_lines(compiled: Any, tmp_path: Path) -> None:
    own, other = tmp_path / "own.ttgir", tmp_path / "other.ttgir"
    own.write_text(without_locations(compiled.asm["ttgir"]))
    other.write_text(in_another_spelling(own.read_text()))
    assert other.read_text() != own.read_text()
    module = read_ttgir(other)
    assert print_module(module, locations=False) == print_module(read_ttgir(own), locations=False)
    wait = next(op for op in module.walk() if op.name == "ttng.wait_barrier")
    place = source_of(module, wait)
    assert place is not None and place.file == str(other)
    assert other.read_text().splitlines()[place.line - 1][place.column :].startswith("ttng.wait_barrier")


def test_text_of_another_triton_that_cannot_be_read_names_its_spelling(compiled: Any, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ttgir"
    text = in_another_spelling(compiled.asm["ttgir"]).replace("ttng.arrive_barrier", "ttng.arrive_barier", 1)
    line = next(number for number, it in enumerate(text.splitlines(), 1) if "arrive_barier" in it)
    message = refusal(path, text)
    assert "custom op 'ttng.arrive_barier' is unknown" in message and f"at {path}:{line}\n" in message
    printer = "Triton 3.8 or later" if nested_descriptors() else "Triton 3.6 or 3.7"
    assert f"Cure: {printer} printed this text (!tt.tensordesc<" in message and "install that version" in message
