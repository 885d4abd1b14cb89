"""The source text of a random kernel: the choices of a `Recipe`, written as a user would."""

from __future__ import annotations

from collections.abc import Callable

from tests.cases.random.source import Recipe, arguments_of, by_pointer, constants_of, operands_of


class Lines:
    """Source text while it is written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.level = 0

    def __call__(self, *lines: str) -> None:
        self.lines += [" " * (4 * self.level) + line for line in lines]

    def block(self, header: str, body: Callable[[], None]) -> None:
        """A header, and the lines indented below it."""
        self(header)
        self.level += 1
        body()
        self.level -= 1


def render(recipe: Recipe) -> str:
    """The source of the kernel called ``kernel``."""
    return _Renderer(recipe).text()


class _Renderer:
    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.out = Lines()

    def text(self) -> str:
        out, recipe = self.out, self.recipe
        names = ", ".join([*arguments_of(recipe), *(f"{name}: tl.constexpr" for name in constants_of(recipe))])
        out("import triton", "import triton.language as tl", "", "", "@triton.jit")
        out.block(f"def kernel({names}):", self._kernel)
        return "\n".join(out.lines) + "\n"

    # tiles

    def _kernel(self) -> None:
        out = self.out
        if self.recipe.order == "tile":
            out("pm = tl.program_id(0)", "pn = tl.program_id(1)")
            self._exit()
            return self._tile()
        out("num_n = tl.cdiv(N, BN)", "tiles = tl.cdiv(M, BM) * num_n")
        if self.recipe.order == "for":
            return out.block("for tile in range(tl.program_id(0), tiles, PROGRAMS):", self._placed_tile)
        out("tile = tl.program_id(0)")

        def body() -> None:
            self._placed_tile()
            out("tile += PROGRAMS")

        out.block("while tile < tiles:", body)

    def _exit(self) -> None:
        """Programs that return before the loop; their part of C stays NaN, or is zero."""
        out, late = self.out, self.recipe.exit
        if late in ("instead", "behind a store"):
            out(
                "rows = pm * BM + tl.arange(0, BM)",
                "columns = pn * BN + tl.arange(0, BN)",
                "acc = tl.zeros((BM, BN), tl.float32)",
            )
        match late:
            case "none":
                pass
            case "rows":
                out("if pm * BM >= M - BM:", "    return")
            case "loaded":
                out(
                    "if tl.load(trips_ptr + pm) == 1:",
                    "    return",
                    "if tl.load(trips_ptr + pn + 1) == 0:",
                    "    return",
                )
            case "instead":
                out.block("if pm + pn == 1:", self._store)
                out("    return")
            case "branch":
                out("if pn == 0:", "    if pm == 1:", "        return", "    pn = pn + 0 * TRIPS")
            case "behind a store":
                self._store()
                out("if pm + pn == 1:", "    return")

    def _placed_tile(self) -> None:
        self.out("pm = tile // num_n", "pn = tile % num_n")
        self._tile()

    def _tile(self) -> None:
        out, recipe = self.out, self.recipe
        out("rows = pm * BM + tl.arange(0, BM)", "columns = pn * BN + tl.arange(0, BN)", "ks = tl.arange(0, BK)")
        out(*(f"{name} = tl.zeros((BM, BN), dtype=tl.float32)" for name in self._sums()))
        if recipe.chained:
            out(f"q = {self._load('a', 'pm * BM', 'rows', 'M', '0', 'ks', 'BK')}")
        if recipe.dots == "softmax":
            out("most = tl.full([BM], -1e30, tl.float32)", "total = tl.zeros([BM], tl.float32)")
        out(f"trips = {self._trips()}")
        if recipe.guard == "around":
            out.block("if pm + pn != 1:", self._loops)
        else:
            self._loops()
        self._behind()
        self._store()

    def _trips(self) -> str:
        match self.recipe.trips:
            case "given":
                return "TRIPS"
            case "triangular":
                return "min(TRIPS, pm + 1)"
            case "loaded":
                return "tl.load(trips_ptr + pm)"

    def _sums(self) -> list[str]:
        return ["acc", "up", "third"][: self.recipe.totals]

    # loops

    def _loops(self) -> None:
        out, recipe = self.out, self.recipe
        match recipe.nest:
            case "one":
                self._loop("trips")
            case "two":
                self._loop("trips")
                self._loop("TRIPS - trips")
            case "nested":

                def body() -> None:
                    self._loop("trips")
                    if recipe.between == "scale":
                        out("acc = acc * 0.5")

                out.block("for again in range(0, 2):", body)
            case "while":
                self._loop("trips", use_while=True)

    def _loop(self, trips: str, use_while: bool = False) -> None:
        out, recipe = self.out, self.recipe
        if recipe.offset == "carried":
            out("at = 0")
        for name in operands_of(recipe):
            if recipe.carries_pointers(name):
                down, across, _ = self._lanes(*self._place(name))
                out(f"{name}_ptrs = {name}_ptr + {down} * {self._place(name)[-1]} + {across}")
        if use_while:
            out("i = 0")

        def body() -> None:
            match recipe.offset:
                case "induction":
                    out("at = i * BK")
                case "listed":
                    out("at = tl.load(list_ptr + i) * BK")
                case "backwards":
                    out(f"at = ({trips} - 1 - i) * BK")
                case "carried":
                    pass
            if recipe.guard == "every other":
                out.block("if i % 2 == 0:", self._step)
            else:
                self._step()
            if recipe.offset == "carried":
                out("at += BK")
            for name in operands_of(recipe):
                if recipe.carries_pointers(name):
                    along = name == "a" or recipe.transposed
                    out(f"{name}_ptrs += {'BK' if along else 'BK * N'}")
            if use_while:
                out("i += 1")

        out.block(f"while i < {trips}:" if use_while else f"for i in range(0, {trips}):", body)

    def _step(self) -> None:
        out, recipe = self.out, self.recipe
        if recipe.chained:
            self._chain()
        else:
            out(f"a = {self._load(*self._place('a'))}")
            match recipe.before:
                case "scale":
                    out("a = (a * 0.5).to(a.dtype)")
                case "relu":
                    out("a = tl.maximum(a, 0.0).to(a.dtype)")
                case "none":
                    pass
            for total, name in zip(self._sums(), ("b", "u", "w"), strict=False):
                b = f"tl.trans({self._wide(name)})" if recipe.transposed else self._wide(name)
                out(f"{total} = tl.dot(a, {b}, {total})")
        match recipe.between:
            case "scale":
                out("acc = acc * 0.75")
            case "clip":
                out("acc = tl.minimum(acc, 50.0)")
            case "none":
                pass
        if recipe.beside:
            out("acc = acc + tl.load(side_ptr + i * BN + tl.arange(0, BN))[None, :]")
        if recipe.guard == "late":
            out("if i > 0:", "    acc = acc - 0.25")

    def _chain(self) -> None:
        """Keys and values are BK rows of B and U, of BK and BN columns."""
        out = self.out
        out(f"k = {self._wide('b')}", "s = tl.dot(q, tl.trans(k))")
        out("s = tl.where(at + ks[None, :] < K, s, float('-inf'))" if self.recipe.dots == "softmax" else "s = s * 0.5")
        if self.recipe.dots == "softmax":
            out("highest = tl.maximum(most, tl.max(s, axis=1))", "p = tl.math.exp2(s - highest[:, None])",
                "alpha = tl.math.exp2(most - highest)", "total = total * alpha + tl.sum(p, axis=1)",
                "most = highest", "acc = acc * alpha[:, None]")  # fmt: skip
        else:
            out("p = tl.maximum(s, 0.0)")
        out(f"v = {self._wide('u')}", "acc = tl.dot(p.to(v.dtype), v, acc)")

    def _wide(self, name: str) -> str:
        """An operand that is loaded in the loop, in the element type of the dot."""
        return self._load(*self._place(name)) + (f".to({'q' if self.recipe.chained else 'a'}.dtype)" if (
            self.recipe.narrow and name == "b") else "")  # fmt: skip

    def _place(self, name: str) -> tuple[str, str, str, str, str, str, str]:
        """Name, first row, its lanes, height, first column, its lanes, width of the tile that an iteration loads."""
        if name == "a":
            return name, "pm * BM", "rows", "M", "at", "ks", "K"
        if self.recipe.chained:
            return (name, "at", "ks", "K", "0", "ks", "BK") if name == "b" else self._by_columns(name)
        if self.recipe.transposed:
            return name, "pn * BN", "columns", "N", "at", "ks", "K"
        return self._by_columns(name)

    def _by_columns(self, name: str) -> tuple[str, str, str, str, str, str, str]:
        return name, "at", "ks", "K", "pn * BN", "columns", "N"

    def _lanes(
        self, name: str, row: str, rows: str, height: str, column: str, columns: str, width: str
    ) -> tuple[str, str, str]:
        """Row and column of each lane, and which lanes are inside."""
        down = f"({row} + ks)[:, None]" if rows == "ks" else f"{rows}[:, None]"
        across = f"({column} + ks)[None, :]" if columns == "ks" else f"{columns}[None, :]"
        if rows in ("rows", "columns") and self.recipe.edges == "wrapped":
            return f"({down} % {height})", across, f"{across} < {width}"
        if rows in ("rows", "columns") and self.recipe.edges == "clamped":
            return f"tl.minimum({down}, {height} - 1)", across, f"{across} < {width}"
        return down, across, f"({down} < {height}) & ({across} < {width})"

    def _load(self, name: str, row: str, rows: str, height: str, column: str, columns: str, width: str) -> str:
        """A load of the box at (row, column); rows and columns name the lanes."""
        if not by_pointer(self.recipe, name):
            return f"{name}_desc.load([{row}, {column}])"
        down, across, inside = self._lanes(name, row, rows, height, column, columns, width)
        carried = self.recipe.carries_pointers(name)
        address = f"{name}_ptrs" if carried else f"{name}_ptr + {down} * {width} + {across}"
        return f"tl.load({address}, mask={inside}, other={self.recipe.fill})"

    # after the loops

    def _behind(self) -> None:
        out, recipe = self.out, self.recipe
        if recipe.dots == "softmax":
            out("acc = acc / tl.where(total > 0.0, total, 1.0)[:, None]")
        for name in self._sums()[1:]:
            out(f"acc = acc + tl.maximum({name}, 0.0)")
        for step in recipe.behind:
            match step:
                case "bias":
                    out("acc = acc + tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]")
                case "relu":
                    out("acc = tl.maximum(acc, 0.0)")
                case "normalise":
                    out("acc = acc / (1.0 + tl.max(tl.abs(acc), axis=1))[:, None]")
                case "centre":
                    out("acc = acc - (tl.sum(acc, axis=0) * (1.0 / BM))[None, :]")
                case "scan":
                    out("acc = tl.cumsum(acc, axis=1)")
                case "square":
                    out("acc = acc * acc")

    def _store(self) -> None:
        if self.recipe.stored == "descriptor":
            return self.out("c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))")
        self.out("inside = (rows[:, None] < M) & (columns[None, :] < N)",
                 "tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)",
                 )  # fmt: skip
