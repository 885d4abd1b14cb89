"""Operations that no check models make the verdict unknown, anywhere in the program."""

from __future__ import annotations

import pytest

from tawa.ir import Builder, Module, parse_module
from tawa.ir.attributes import attribute_of
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Unknown, Verdict
from tests.support.verdicts import passes
from tests.verify.barriers.test_check import barrier, made, ops
from tests.verify.barriers.test_foreign import DOT, DOT_WAIT, LANDED, kernel


def unknown(verdict: Verdict) -> str:
    assert isinstance(verdict, Unknown), verdict
    return verdict.reason


def with_assembly(text: str, pure: str) -> Module:
    properties = f'<{{asm_string = "{text}", constraints = "=r,r", packed_element = 1 : i32, pure = {pure}}}>'
    line = f'%made = "tt.elementwise_inline_asm"(%n) {properties} : (i32) -> i32'
    return kernel(*LANDED, line, DOT, DOT_WAIT)


@pytest.mark.parametrize("text", ["bar.sync 8, 256;", "fence.proxy.async;"])
def test_a_barrier_in_assembly_that_is_declared_pure_is_unknown(text: str) -> None:
    reason = unknown(check_barriers(with_assembly(text, "true")))
    assert text in reason and "declared pure" in reason and "Cure:" in reason


def test_a_named_barrier_in_a_module_of_unknown_size_is_unknown() -> None:
    assert "ttg.num-warps" in unknown(check_barriers(with_assembly("bar.sync 8, 256;", "false")))


@pytest.mark.parametrize("pure", ["true", "false"])
@pytest.mark.parametrize("instruction", ["ld.shared.b32 $0, [$1];", "mbarrier.arrive.shared.b64 _, [$1];"])
def test_an_instruction_outside_the_table_is_unknown_and_named(instruction: str, pure: str) -> None:
    reason = unknown(check_barriers(with_assembly(f"bar.sync 8, 256; {instruction}", pure)))
    assert f"{instruction.split()[0]} is not known" in reason and "Cure:" in reason


@pytest.mark.parametrize("pure", ["true", "false"])
def test_a_program_with_assembly_on_registers_is_proved(pure: str) -> None:
    verdict = check_barriers(with_assembly("mov.b32 $0, $1;", pure))
    assert passes(verdict), verdict


@pytest.mark.parametrize(
    ("symbol", "path", "proved"),
    [("__nv_exp2f", "", True), ("nvshmem_barrier_all", "", False), ("__nv_exp2f", "/mine/wait.bc", False)],
)
def test_only_external_functions_of_libdevice_are_harmless(symbol: str, path: str, proved: bool) -> None:
    properties = f'<{{libname = "", libpath = "{path}", pure = true, symbol = "{symbol}"}}>'
    line = f'%made = "tt.extern_elementwise"(%n) {properties} : (i32) -> i32'
    verdict = check_barriers(kernel(*LANDED, line, DOT, DOT_WAIT))
    assert passes(verdict) if proved else isinstance(verdict, Unknown)


def test_assembly_at_the_aref_level_is_unknown_too() -> None:
    module = parse_module(made("tile")[0])
    builder = Builder.before(ops(module, "aref.consumed")[0])
    number = builder.constant(1)
    properties = {"asm_string": '"bar.sync 8, 256;"', "constraints": '"=r,r"', "pure": "true"}
    builder.create("tt.elementwise_inline_asm", (number,), ("i32",), properties=properties)
    assert "bar.sync" in unknown(check_credits(module))


@pytest.mark.parametrize("spelling", ['"ttg.num-ctas"', "ttg.num-ctas"])
def test_a_module_of_two_ctas_is_unknown(spelling: str) -> None:
    for module, check in ((barrier("tile"), check_barriers), (parse_module(made("tile")[0]), check_credits)):
        module.op.attributes = {k: v for k, v in module.op.attributes.items() if "num-ctas" not in k}
        assert passes(check(module))
        module.op.attributes[spelling] = "2 : i32"
        assert "clusters of more than one CTA" in unknown(check(module))


@pytest.mark.parametrize("value", ["0x2 : i32", "true", '"x"', ""])
def test_a_module_whose_number_of_ctas_cannot_be_read_is_unknown(value: str) -> None:
    module = barrier("tile")
    module.op.attributes['"ttg.num-ctas"'] = value
    assert "ttg.num-ctas" in unknown(check_barriers(module))


def test_a_quoted_attribute_name_is_the_same_name() -> None:
    for text in ('"ttg.num-warps" = 4 : i32', "ttg.maxnreg = 4 : i32", '"ttg.maxnreg" = 4 : i32'):
        module = parse_module(f'"builtin.module"() ({{\n}}) {{{text}}} : () -> ()\n')
        assert attribute_of(module.op.attributes, text.split(" ")[0].strip('"')) == "4 : i32"
    assert attribute_of({}, "ttg.num-warps") is None


def test_an_unknown_operation_in_a_branch_never_taken_is_unknown() -> None:
    line = (
        '%never = "arith.constant"() <{value = false}> : () -> i1\n"scf.if"(%never) ({\n'
        '"llvm.call_intrinsic"() <{intrin = "llvm.nvvm.barrier0"}> : () -> ()\n"scf.yield"() : () -> ()\n}, {\n}) '
        ": (i1) -> ()"
    )
    assert "llvm.call_intrinsic" in unknown(check_barriers(kernel(*LANDED, line, DOT, DOT_WAIT)))
