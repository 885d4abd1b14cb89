"""Random programs in TTGIR whose loops and branches carry numbers and tiles in every way that scf has.

    %a, %b = scf.for iter_args(%a = %x, %b = %x) {      variables that begin with one value, are exchanged, lag, rotate,
      %c = arith.addi %a, %b                            stay what they are, or become a value from outside
      yield %b, %c }
    %a = scf.if %p { yield %a } else { yield %b }       results that are values from before the branch
    out[k] = out[k] * 3 + a                             the order of effects is seen in what they leave

Values have few names, so that names meet. `program` draws a text in MLIR's generic form; `arguments` has what it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

I32, I64, BOOL, F32, F16 = "i32", "i64", "i1", "f32", "f16"
ROW, FLOATS = "tensor<128xi32, #blocked>", "tensor<128xf32, #blocked>"
KINDS = (I32, I32, I32, BOOL, I64, F32, F16, ROW, FLOATS)
CARRIED = (I32, I32, I32, I32, BOOL, I64, F32, ROW, ROW, FLOATS)
NAMES = ("a", "a", "b", "b", "c", "acc", "slot", "")
PLACES = 4
"""Numbers, and rows of tiles, that a program changes in memory."""
HEADER = (
    "#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>\n"
    '"builtin.module"() ({\n'
)
PARAMETERS = {
    "out": "!tt.ptr<i32>", "out64": "!tt.ptr<i64>", "outf": "!tt.ptr<f32>", "outh": "!tt.ptr<f16>",
    "rows": "!tt.ptr<i32>", "floats": "!tt.ptr<f32>", "n": I32, "m": I32, "k": I32, "l": I64, "f": F32, "g": F32,
}  # fmt: skip
FOOTER = (
    '}) {noinline = false} : () -> ()\n}) {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, '
    'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} : () -> ()\n'
)
INFIX = {
    I32: ("arith.addi", "arith.subi", "arith.muli", "arith.xori", "arith.minsi", "arith.maxsi"),
    I64: ("arith.addi", "arith.subi", "arith.xori"),
    BOOL: ("arith.andi", "arith.ori", "arith.xori"),
    F32: ("arith.addf", "arith.subf", "arith.maxnumf"),
    F16: ("arith.addf", "arith.subf"),
    ROW: ("arith.addi", "arith.subi", "arith.xori", "arith.maxsi"),
    FLOATS: ("arith.addf", "arith.subf", "arith.maxnumf"),
}
CASTS = (
    ("arith.extsi", I32, I64), ("arith.trunci", I64, I32), ("arith.extui", BOOL, I32), ("arith.extui", I32, I64),
    ("arith.sitofp", I32, F32), ("arith.truncf", F32, F16), ("arith.extf", F16, F32), ("arith.sitofp", ROW, FLOATS),
    ("tt.splat", I32, ROW), ("tt.splat", F32, FLOATS),
)  # fmt: skip
STORED = "cache = 1 : i32, evict = 1 : i32, boundaryCheck = array<i32>"
LOADED = "operandSegmentSizes = array<i32: 1, 0, 0>, isVolatile = false, cache = 1 : i32, evict = 1 : i32"
OUTPUTS = {I32: "out", I64: "out64", F32: "outf", F16: "outh", ROW: "rows", FLOATS: "floats"}
Value = tuple[str, str]
"""A name, and its type."""


@dataclass
class Writer:
    """Draws a program. scope: the values that are visible, by type."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    lines: list[str] = field(default_factory=list[str])
    scope: list[Value] = field(default_factory=list[Value])
    number: int = 0
    budget: int = 40

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[self.draw(st.integers(0, len(choices) - 1))]

    def fresh(self) -> str:
        self.number += 1
        return f"%{self.pick(NAMES)}_{self.number}" if (self.number % 7) else f"%{self.number + 1000}"

    def put(
        self, name: str, operands: Sequence[Value], result: str = "", properties: str = "", keep: bool = True
    ) -> str:
        made = self.fresh() if result else ""
        lead = f"{made} = " if made else ""
        more = f" <{{{properties}}}>" if properties else ""
        types = ", ".join(kind for _, kind in operands)
        self.lines.append(
            f'{lead}"{name}"({", ".join(it for it, _ in operands)}){more} : ({types}) -> {result or "()"}'
        )
        if made and keep:
            self.scope.append((made, result))
        return made

    # -- values --------------------------------------------------------------------------------------------------

    def value(self, kind: str) -> str:
        """A visible value, a late one more often, or a constant."""
        known = [name for name, it in self.scope if it == kind]
        if known and self.draw(st.integers(0, 9)):
            return known[-1 - min(self.draw(st.integers(0, len(known) - 1)), self.draw(st.integers(0, len(known) - 1)))]
        return self.constant(kind)

    def constant(self, kind: str) -> str:
        number: int = self.draw(st.integers(-2, 3))
        if kind == BOOL:
            text = "true" if number > 0 else "false"
        elif kind in (F32, F16):
            text = f"{float(number):e} : {kind}"
        elif kind == ROW:
            text = f"dense<{number}> : {kind}"
        elif kind == FLOATS:
            text = f"dense<{float(number):e}> : {kind}"
        else:
            text = f"{number} : {kind}"
        return self.put("arith.constant", (), kind, f"value = {text}", keep=self.draw(st.booleans()))

    def compute(self) -> None:
        """One pure operation."""
        kind = self.pick(KINDS)
        form = self.draw(st.integers(0, 7))
        if form == 0:
            inputs = [(self.value(BOOL), BOOL), (self.value(kind), kind), (self.value(kind), kind)]
            self.put("arith.select", inputs, kind)
        elif form == 1:
            sides = [(self.value(I32), I32), (self.value(I32), I32)]
            self.put("arith.cmpi", sides, BOOL, f"predicate = {self.pick((0, 1, 2, 5, 6, 9))} : i64")
        elif form == 2:
            self.convert()
        else:
            operands = [(self.value(kind), kind), (self.value(kind), kind)]
            self.put(self.pick(INFIX[kind]), operands, kind)

    def convert(self) -> None:
        name, source, target = self.pick(CASTS)
        self.put(name, [(self.value(source), source)], target)

    # -- effects -------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Changes a place in memory, or reads it."""
        kind = self.pick((I32, I32, I64, F32, F16, ROW, FLOATS))
        place = self.draw(st.integers(0, PLACES - 1))
        pointer = self.pointer(kind, place)
        old = self.put("tt.load", [pointer], kind, LOADED)
        if self.draw(st.integers(0, 3)):
            add = INFIX[kind][0]
            new = self.put(add, [(old, kind), (old, kind)], kind, keep=False)
            new = self.put(add, [(new, kind), (self.value(kind), kind)], kind, keep=False)
            self.store(kind, pointer, new)

    def store(self, kind: str, pointer: Value, value: str) -> None:
        self.put("tt.store", [pointer, (value, kind)], "", STORED)

    def pointer(self, kind: str, place: int) -> Value:
        base = OUTPUTS[kind]
        tile = kind in (ROW, FLOATS)
        at = self.constant_of(place * 128 if tile else place)
        made = self.put("tt.addptr", [(f"%{base}", PARAMETERS[base]), (at, I32)], PARAMETERS[base], keep=False)
        if not tile:
            return made, PARAMETERS[base]
        pointers = f"tensor<128x{PARAMETERS[base]}, #blocked>"
        lanes = self.put("tt.make_range", (), ROW, "start = 0 : i32, end = 128 : i32", keep=False)
        many = self.put("tt.splat", [(made, PARAMETERS[base])], pointers, keep=False)
        return self.put("tt.addptr", [(many, pointers), (lanes, ROW)], pointers, keep=False), pointers

    def constant_of(self, number: int) -> str:
        return self.put("arith.constant", (), I32, f"value = {number} : i32", keep=False)

    # -- control flow --------------------------------------------------------------------------------------------

    def statements(self, depth: int, most: int) -> None:
        for _ in range(self.draw(st.integers(0, most))):
            if self.budget <= 0:
                return
            self.budget -= 1
            form = self.draw(st.integers(0, 9))
            if form < 4:
                self.compute()
            elif form < 6:
                self.touch()
            elif depth >= 3:
                self.compute()
            else:
                self.pick((self.loop, self.loop, self.branch, self.branch, self.repeat))(depth)

    def kinds(self) -> list[str]:
        return [self.pick(CARRIED) for _ in range(self.draw(st.integers(0, 4)))]

    def arguments(self, kinds: Sequence[str]) -> list[Value]:
        return [(self.fresh(), kind) for kind in kinds]

    def handed_on(self, kinds: Sequence[str], arguments: Sequence[Value]) -> list[Value]:
        """What a block yields: the arguments, exchanged, or anything that is visible."""
        found: list[Value] = []
        for kind in kinds:
            own = [name for name, it in arguments if it == kind]
            name = self.pick(own) if own and self.draw(st.integers(0, 4)) < 2 else self.value(kind)
            found.append((name, kind))
        return found

    def region(self, arguments: Sequence[Value], body: Callable[[], None]) -> None:
        outside = list(self.scope)
        self.scope += arguments
        if arguments:
            self.lines.append(f"^bb0({', '.join(f'{name}: {kind}' for name, kind in arguments)}):")
        body()
        self.scope = outside

    def end(self, name: str, values: Sequence[Value]) -> None:
        self.put(name, values)

    def results(self, kinds: Sequence[str]) -> tuple[list[Value], str]:
        made = self.arguments(kinds)
        return made, f"{', '.join(name for name, _ in made)} = " if made else ""

    def closing(self, operands: Sequence[Value], kinds: Sequence[str]) -> str:
        result = f"({', '.join(kinds)})" if len(kinds) != 1 else kinds[0]
        return f"}}) : ({', '.join(kind for _, kind in operands)}) -> {result}"

    def small(self) -> str:
        """A number from 0 to 3."""
        if self.draw(st.booleans()):
            return self.constant_of(self.draw(st.integers(0, 3)))
        return self.put("arith.andi", [(self.value(I32), I32), (self.constant_of(3), I32)], I32)

    def loop(self, depth: int) -> None:
        kinds = self.kinds()
        bounds = [(self.constant_of(0), I32), (self.small(), I32), (self.constant_of(self.pick((1, 1, 2))), I32)]
        inits = [(self.value(kind), kind) for kind in kinds]
        made, lead = self.results(kinds)
        operands = [*bounds, *inits]
        self.lines.append(f'{lead}"scf.for"({", ".join(it for it, _ in operands)}) ({{')
        arguments = self.arguments(kinds)

        def body() -> None:
            self.statements(depth + 1, 4)
            self.end("scf.yield", self.handed_on(kinds, arguments))

        self.region([(f"%i_{self.number}x", I32), *arguments], body)
        self.lines.append(self.closing(operands, kinds))
        self.scope += made

    def branch(self, depth: int) -> None:
        kinds = self.kinds()
        condition = self.value(BOOL)
        made, lead = self.results(kinds)
        self.lines.append(f'{lead}"scf.if"({condition}) ({{')

        def body() -> None:
            self.statements(depth + 1, 3)
            self.end("scf.yield", self.handed_on(kinds, ()))

        self.region((), body)
        self.lines.append("}, {")
        if kinds or self.draw(st.booleans()):
            self.region((), body)
        self.lines.append(self.closing([(condition, BOOL)], kinds))
        self.scope += made

    def repeat(self, depth: int) -> None:
        """A while loop with a counter, which ends it, as one of its variables."""
        kinds = [I32, *self.kinds()]
        inits = [(self.constant_of(0), I32), *((self.value(kind), kind) for kind in kinds[1:])]
        bound = self.small()
        before = self.arguments(kinds)
        order = [0, *(self.draw(st.integers(0, len(kinds) - 1)) for _ in range(self.draw(st.integers(0, 3))))]
        after = self.arguments([kinds[it] for it in order])
        made, lead = self.results([kinds[it] for it in order])
        self.lines.append(f'{lead}"scf.while"({", ".join(it for it, _ in inits)}) ({{')

        def condition() -> None:
            if self.draw(st.booleans()):
                self.statements(3, 2)
            go = self.put("arith.cmpi", [before[0], (bound, I32)], BOOL, "predicate = 2 : i64", keep=False)
            self.end("scf.condition", [(go, BOOL), *(before[it] for it in order)])

        def body() -> None:
            self.statements(depth + 1, 3)
            following = self.put("arith.addi", [after[0], (self.constant_of(1), I32)], I32, keep=False)
            self.end("scf.yield", [(following, I32), *self.handed_on(kinds[1:], after)])

        self.region(before, condition)
        self.lines.append("}, {")
        self.region(after, body)
        self.lines.append(self.closing(inits, [kind for _, kind in made]))
        self.scope += made

    # -- the kernel ----------------------------------------------------------------------------------------------

    def kernel(self) -> str:
        self.scope += [(f"%{name}", kind) for name, kind in PARAMETERS.items() if not kind.startswith("!")]
        for _ in range(self.draw(st.integers(1, 4))):
            self.statements(0, 5)
        for at in range(self.draw(st.integers(1, 6))):
            kind = self.pick(tuple(OUTPUTS))
            self.store(kind, self.pointer(kind, PLACES + at), self.value(kind))
        return program("\n".join(self.lines))


def program(body: str) -> str:
    """The text of a kernel with `PARAMETERS` and this body."""
    types = ", ".join(PARAMETERS.values())
    arguments = ", ".join(f'%{name}: {kind} loc("{name}")' for name, kind in PARAMETERS.items())
    properties = f'function_type = ({types}) -> (), sym_name = "kernel", sym_visibility = "public"'
    return f'{HEADER}"tt.func"() <{{{properties}}}> ({{\n^bb0({arguments}):\n{body}\n"tt.return"() : () -> ()\n{FOOTER}'


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Any program."""
    return Writer(draw).kernel()


LAUNCHES: tuple[dict[str, Any], ...] = (
    {"n": 3, "m": 2, "k": -5, "l": 2**33 + 7, "f": 1.5, "g": -0.0},
    {"n": 1, "m": 7, "k": 10, "l": -3, "f": -2.25, "g": 3.0},
    {"n": 0, "m": -4, "k": 6, "l": 12, "f": 0.0, "g": 0.5},
)


def arguments(launch: dict[str, Any]) -> dict[str, Any]:
    """New arrays and the numbers of a launch."""
    size = PLACES + 6
    lot = np.random.default_rng(1)
    return {
        "out": lot.integers(-9, 9, size).astype(np.int32),
        "out64": lot.integers(-9, 9, size).astype(np.int64),
        "outf": lot.integers(-9, 9, size).astype(np.float32),
        "outh": lot.integers(-9, 9, size).astype(np.float16),
        "rows": lot.integers(-9, 9, size * 128).astype(np.int32),
        "floats": lot.integers(-9, 9, size * 128).astype(np.float32),
        **launch,
    }


SIGNATURE = {
    "out": "*i32", "out64": "*i64", "outf": "*fp32", "outh": "*fp16", "rows": "*i32", "floats": "*fp32",
    "n": "i32", "m": "i32", "k": "i32", "l": "i64", "f": "fp32", "g": "fp32",
}  # fmt: skip
