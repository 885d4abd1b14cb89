"""Loops whose dots use each other's results, for the coarse-grained pipeline: one small one, and random ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from hypothesis import strategies as st

from tawa.ir import Module, parse_module
from tawa.sim import Descriptor, simulate
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, BUFFER, OPERAND, op

NARROW = "tensor<64x64xf16, #mma>"
_PAIR = f"{ACC}, {ACC}"


def register_dot(result: str, source: str, b: str, acc: str, *, line: int = 0) -> str:
    """An accumulator narrowed and taken as operand A, from registers."""
    dot = programs.dot(result, f"{result}_operand", b, acc, line=line)
    return "\n".join(
        (
            op("arith.truncf", f"%{source}", ACC, f"%{result}_narrow", NARROW),
            op("ttg.convert_layout", f"%{result}_narrow", NARROW, f"%{result}_operand", OPERAND),
            dot.replace(f": ({BUFFER}, ", f": ({OPERAND}, "),
        )
    )


def scores(tag: str = "", acc: str = "sum", at: str = "%k, %zero") -> str:
    """One iteration of two dots: the result of the first is scaled, narrowed and multiplied by another tile."""
    return "\n".join(
        (
            programs.load(f"a{tag}", "a_desc", at, line=10),
            programs.alloc(f"x{tag}", f"a{tag}"),
            programs.dot(f"s{tag}", f"x{tag}", f"x{tag}", "zeros", line=11),
            op("arith.mulf", f"%s{tag}, %s{tag}", _PAIR, f"%t{tag}", ACC, line=12),
            op("math.exp2", f"%t{tag}", ACC, f"%p{tag}", ACC, line=12),
            op("arith.mulf", f"%{acc}, %half", _PAIR, f"%scaled{tag}", ACC, line=13),
            programs.load(f"b{tag}", "b_desc", at, line=14),
            programs.alloc(f"y{tag}", f"b{tag}"),
            register_dot(f"next{tag}", f"p{tag}", f"y{tag}", f"scaled{tag}", line=15),
        )
    )


def attention_loop(
    result: str = "acc", tag: str = "", *, upper: str = "n", init: str = "zeros", at: str = "", **bounds: str
) -> str:
    """The loop of two dots. bounds: lower bound and step."""
    inside = f"sum{tag}"
    body = scores(tag, inside, at or f"%k{tag}, %zero")
    carried = {inside: (init, f"next{tag}", ACC)}
    place = {"induction": f"k{tag}", "upper": upper, **bounds}
    return programs.for_loop(body, **place, carried=carried, results=f"%{result}", line=9)


def kernel(body: str) -> str:
    """A kernel with a tile %half of halves besides the usual constants."""
    half = op("arith.constant", "", "", "%half", ACC, properties=f"value = dense<5.000000e-01> : {ACC}")
    return programs.kernel(f"{half}\n{body}")


def attention() -> str:
    """One tile per program."""
    return kernel(f"{attention_loop()}\n{programs.store()}")


def of_bytes(text: str) -> str:
    """A program with 8-bit floats in place of fp16."""
    text = text.replace("xf16", "xf8E4M3FN").replace("elementBitWidth = 16", "elementBitWidth = 8")
    return text.replace("kWidth = 2", "kWidth = 4")


def operand_stored() -> str:
    """`attention`, and each iteration stores the narrow scores as well."""
    store = "\n".join(
        (
            op("ttg.convert_layout", "%next_narrow", NARROW, "%copy", programs.TILE),
            op("tt.descriptor_store", "%c_desc, %copy, %k, %zero", f"{programs.DESC}, {programs.TILE}, i32, i32"),
        )
    )
    loop = attention_loop()
    place = loop.index("%next_operand =")
    return kernel(f"{loop[:place]}{store}\n{loop[place:]}\n{programs.store()}")


def operand_in_shared() -> str:
    """`attention`, and each iteration writes the narrow scores to shared memory, where the second dot reads them."""
    loop, narrow = attention_loop(), ("%next_narrow", NARROW, "%next_operand")
    loop = loop.replace(op("ttg.convert_layout", *narrow, OPERAND), op("ttg.local_alloc", *narrow, BUFFER))
    return kernel(f"{loop.replace(f': ({OPERAND}, ', f': ({BUFFER}, ')}\n{programs.store()}")


def two_loops() -> str:
    """Two consecutive loops that share their rings: %n and %m iterations."""
    second = attention_loop("acc", "_2", upper="m", init="first")
    return kernel(f"{attention_loop('first')}\n{second}\n{programs.store()}")


def persistent() -> str:
    """A loop over %m tiles around the loop of %n trips."""
    body = f"{programs.column('tile')}\n{attention_loop(at='%k, %column')}\n{programs.store(at='%tile, %zero')}"
    return kernel(programs.for_loop(body, induction="tile", upper="m"))


def branching() -> str:
    """The loop with a branch in its body: the factor of the accumulator depends on the iteration."""
    then = op("arith.mulf", "%sum, %half", _PAIR, "%scaled_then", ACC)
    other = op("arith.addf", "%sum, %half", _PAIR, "%scaled_else", ACC)
    choice = "\n".join(
        (
            programs.binary("odd", "remsi", "k", "two"),
            programs.compare("is_even", "odd", "zero", 0),
            programs.branch(then, other, condition="is_even", result="scaled", type=ACC),
        )
    )
    old = op("arith.mulf", "%sum, %half", _PAIR, "%scaled", ACC, line=13)
    body = scores()
    assert old in body
    loop = programs.for_loop(body.replace(old, choice), carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    return kernel(f"{loop}\n{programs.store()}")


PROGRAMS = {"tile": attention, "two_loops": two_loops, "persistent": persistent, "branching": branching}


# -- running -----------------------------------------------------------------------------------------------------------


def output(module: Module, n: int, m: int, order: Literal["eager", "late", "random"] = "eager", seed: int = 0) -> bytes:
    """The bits of `c` after one launch."""
    random = np.random.default_rng(7)
    tensors = {name: (random.standard_normal((72, 72)) / 16).astype(np.float16) for name in ("a", "b")}
    tensors["c"] = np.full((256, 64), np.nan, np.float16)
    descriptors = {f"{name}_desc": Descriptor(array) for name, array in tensors.items()}
    simulate(module, {**descriptors, "out": np.zeros(1, np.float16), "n": n, "m": m}, (1,), order, seed)
    return tensors["c"].tobytes()


def expected(text: str, n: int, m: int) -> bytes:
    """The result of the unspecialised program."""
    return output(parse_module(text), n, m)


# -- random loops ------------------------------------------------------------------------------------------------------

Kind = Literal["load dot", "register dot", "multiply", "add", "branch", "store", "inner loop"]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of the body: `left` and `right` choose among the tiles so far, 0 is the newest."""

    kind: Kind
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Body:
    """A loop over three carried tiles. yields: which tile each becomes."""

    steps: tuple[Step, ...]
    yields: tuple[int, int, int]


def bodies() -> st.SearchStrategy[Body]:
    """Loop bodies with one to four dots whose results are used anywhere; carried tiles may be exchanged."""
    usual: tuple[Kind, ...] = ("load dot", "register dot", "multiply", "add")
    kinds = st.sampled_from((*usual * 4, "branch", "store", "inner loop"))
    number = st.integers(0, 5)
    steps = st.lists(st.builds(Step, kinds, number, number), min_size=2, max_size=7).map(tuple)
    found = st.builds(Body, steps, st.tuples(number, number, number))
    return found.filter(lambda body: 1 <= sum(step.kind.endswith("dot") for step in body.steps) <= 4)


def text(body: Body) -> str:
    """The body in two consecutive loops of %n iterations; the second continues with the tiles of the first."""
    names = ("u", "v", "w")
    loops: list[str] = []
    inits = ("zeros", "half", "zeros")
    for which, upper in enumerate(("n", "m")):
        lines: list[str] = []
        tiles = [f"{name}{which}" for name in names]
        for number, step in enumerate(body.steps):
            _write(step, f"_{which}_{number}", tiles, lines, f"k{which}")
        yields = [tiles[-1 - index % len(tiles)] for index in body.yields]
        carried: Mapping[str, tuple[str, str, str]] = {
            f"{name}{which}": (init, last, ACC) for name, init, last in zip(names, inits, yields, strict=True)
        }
        results = f"r{which}"
        loops.append(
            programs.for_loop(
                "\n".join(lines), induction=f"k{which}", upper=upper, carried=carried, results=f"%{results}:3"
            )
        )
        inits = (f"{results}#0", f"{results}#1", f"{results}#2")
    stores = [
        op("arith.addf", f"%{init}, %half", _PAIR, f"%out{index}", ACC) + "\n" + programs.store(f"out{index}", at=place)
        for index, (init, place) in enumerate(zip(inits, ("%zero, %zero", "%m, %zero", "%n, %zero"), strict=True))
    ]
    return kernel("\n".join((*loops, *stores)))


def _write(step: Step, tag: str, tiles: list[str], lines: list[str], variable: str) -> None:
    left, right = (tiles[-1 - index % len(tiles)] for index in (step.left, step.right))
    new = f"t{tag}"
    at = f"%{variable}, %zero"
    match step.kind:
        case "load dot":
            lines += [
                programs.load(f"a{tag}", "a_desc", at),
                programs.alloc(f"x{tag}", f"a{tag}"),
                programs.dot(new, f"x{tag}", f"x{tag}", ("zeros", left)[step.right % 2]),
            ]
        case "register dot":
            lines += [
                programs.load(f"b{tag}", "b_desc", at),
                programs.alloc(f"y{tag}", f"b{tag}"),
                register_dot(new, left, f"y{tag}", right),
            ]
        case "multiply":
            lines.append(op("arith.mulf", f"%{left}, %half", _PAIR, f"%{new}", ACC))
        case "add":
            lines.append(op("arith.subf", f"%{left}, %{right}", _PAIR, f"%{new}", ACC))
        case "branch":
            then = op("arith.mulf", f"%{left}, %half", _PAIR, f"%{new}_then", ACC)
            other = op("arith.subf", f"%{right}, %half", _PAIR, f"%{new}_else", ACC)
            lines += [
                programs.binary(f"odd{tag}", "remsi", variable, "two"),
                programs.compare(f"even{tag}", f"odd{tag}", "zero", 0),
                programs.branch(then, other, condition=f"even{tag}", result=new, type=ACC),
            ]
        case "store":
            lines += [
                op("arith.mulf", f"%{left}, %half", _PAIR, f"%{new}", ACC),
                programs.store(new, at=f"%{variable}, %zero"),
            ]
        case "inner loop":
            inside = programs.iteration(f"i{tag}", f"j{tag}", f"_in{tag}", f"%k{tag}, %zero")
            carried = {f"i{tag}": (left, f"j{tag}", ACC)}
            lines.append(
                programs.for_loop(inside, induction=f"k{tag}", upper="two", carried=carried, results=f"%{new}")
            )
    tiles.append(new)


__all__ = ["PROGRAMS", "Body", "Step", "bodies", "expected", "output", "text"]
