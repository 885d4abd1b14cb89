"""Builders of the cases with states: state spaces by chunks, and mLSTM."""

from __future__ import annotations

from typing import Any

from tests.cases.case import Argument, Expectation, Number, Specimen, Tensor
from tests.cases.operations import mlstm, state_space
from tests.cases.pointers.builders import SPECIALISED, block, pointers_to

SPACE = {"B": 1, "S": 200, "H": 2, "P": 64, "G": 1, "STATE": 64, "CHUNK": 128}
"""The second chunk has 72 rows; two heads share a group."""


def numbers(**values: str | int) -> dict[str, Argument]:
    """Numbers by name."""
    return {name: Number(value) for name, value in values.items()}


def sequence_numbers(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """For each row the number of its sequence."""
    return tuple(number for number, length in enumerate(lengths) for _ in range(length))


def space_sizes(**sizes: int) -> dict[str, int]:
    """The sizes of a state space, with the number of chunks and of heads in a group."""
    known = {**SPACE, **sizes}
    return {**known, "CHUNKS": -(-known["S"] // known["CHUNK"]), "HEADS": known["H"] // known["G"]}


def space_tensors(dtype: str, sizes: dict[str, int], lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """X, B, C, dt, the decay, and the number of each row's sequence."""
    rows = sequence_numbers(lengths or (sizes["S"],)) * sizes["B"]
    return {
        "x": Tensor(("B", "S", "H", "P"), dtype),
        "b": Tensor(("B", "S", "G", "STATE"), dtype),
        "c": Tensor(("B", "S", "G", "STATE"), dtype),
        "dt": Tensor(("B", "CHUNKS", "H", "CHUNK"), "fp32"),
        "decay": Tensor(("B", "CHUNKS", "H", "CHUNK"), "fp32"),
        "sequence": Tensor(("B", "S"), "i32", "values", values=rows),
    }


def products_case(name: str, *, dtype: str = "fp16", tile: tuple[int, int, int] = (64, 64, 32), warps: int = 4,
                  stages: int = 4, lengths: tuple[int, ...] = (), expect: Expectation = SPECIALISED,
                  **sizes: int) -> Specimen:  # fmt: skip
    """`chunk_products`; lengths: of the sequences in S."""
    known = space_sizes(**sizes)
    tensors = space_tensors(dtype, known, lengths)
    tensors = {key: tensors[key] for key in ("b", "c", "sequence")}
    tensors["cb"] = Tensor(("B", "CHUNKS", "G", "CHUNK", "CHUNK"), dtype, "zero")
    arguments = {
        **pointers_to("c b cb sequence"), **numbers(chunk="CHUNK", S="S", N="STATE", G="G", chunks="CHUNKS"),
        **numbers(stride_ct="G*STATE", stride_cg="STATE", stride_bt="G*STATE", stride_bg="STATE"),
        **numbers(stride_cbz="CHUNK*CHUNK", stride_cbm="CHUNK"),
    }  # fmt: skip
    grid = {"M": known["CHUNK"], "N": known["CHUNK"], "Z": known["B"] * known["CHUNKS"] * known["G"]}
    return Specimen(
        name,
        state_space.chunk_products,
        arguments,
        tensors,
        block(*tile, SEQUENCES=bool(lengths)),
        {**known, **grid},
        "tiles_batch",
        "chunk_products",
        expect,
        num_warps=warps,
        num_stages=stages,
    )


def states_case(name: str, *, dtype: str = "fp16", tile: tuple[int, int, int] = (64, 64, 32), warps: int = 4,
                stages: int = 4, lengths: tuple[int, ...] = (), expect: Expectation = SPECIALISED,
                **sizes: int) -> Specimen:  # fmt: skip
    """`chunk_states`; lengths: of the sequences in S."""
    known = space_sizes(**sizes)
    tensors = space_tensors(dtype, known, lengths)
    del tensors["c"]
    tensors["states"] = Tensor(("B", "CHUNKS", "H", "P", "STATE"), "fp32", "nan")
    arguments = {
        **pointers_to("x b states dt decay sequence"), **numbers(chunk="CHUNK", S="S", P="P", N="STATE", H="H"),
        **numbers(heads_per_group="HEADS", chunks="CHUNKS", stride_xt="H*P", stride_xh="P", stride_bt="G*STATE"),
        **numbers(stride_bg="STATE", stride_sz="P*STATE", stride_sp="STATE"),
    }  # fmt: skip
    grid = {"M": known["P"], "N": known["STATE"], "Z": known["B"] * known["CHUNKS"] * known["H"]}
    return Specimen(
        name,
        state_space.chunk_states,
        arguments,
        tensors,
        block(*tile, SEQUENCES=bool(lengths)),
        {**known, **grid},
        "tiles_batch",
        "chunk_states",
        expect,
        num_warps=warps,
        num_stages=stages,
    )


def scan_case(name: str, *, dtype: str = "fp16", tile: tuple[int, int, int] = (64, 64, 32), warps: int = 4,
              stages: int = 4, lengths: tuple[int, ...] = (), gated: bool = False, expect: Expectation = SPECIALISED,
              **sizes: int) -> Specimen:  # fmt: skip
    """`chunk_scan`; lengths: of the sequences in S; gated: outputs times silu(Z)."""
    known = space_sizes(**sizes)
    tensors = space_tensors(dtype, known, lengths)
    del tensors["b"]
    tensors |= {
        "cb": Tensor(("B", "CHUNKS", "G", "CHUNK", "CHUNK"), dtype),
        "z": Tensor(("B", "S", "H", "P"), dtype),
        "out": Tensor(("B", "S", "H", "P"), dtype, "nan"),
        "states": Tensor(("B", "CHUNKS", "H", "P", "STATE"), "fp32"),
        "d": Tensor(("H",), "fp32"),
    }
    arguments = {
        **pointers_to("cb x z out dt decay sequence c states d"),
        **numbers(chunk="CHUNK", S="S", P="P", N="STATE", H="H", heads_per_group="HEADS", chunks="CHUNKS"),
        **numbers(stride_cbz="CHUNK*CHUNK", stride_cbm="CHUNK", stride_xt="H*P", stride_xh="P", stride_ct="G*STATE"),
        **numbers(stride_cg="STATE", stride_sz="P*STATE", stride_sp="STATE"),
    }  # fmt: skip
    grid = {"M": known["CHUNK"], "N": known["P"], "Z": known["B"] * known["CHUNKS"] * known["H"]}
    wide = 1 << (known["STATE"] - 1).bit_length()
    return Specimen(
        name,
        state_space.chunk_scan,
        arguments,
        tensors,
        block(*tile, BLOCK_N=wide, GATED=gated, SEQUENCES=bool(lengths)),
        {**known, **grid},
        "tiles_batch",
        "chunk_scan",
        expect,
        num_warps=warps,
        num_stages=stages,
    )


# --- mLSTM ---

INPUTS = {
    "q": ("HEADS", "S", "DK"), "k": ("HEADS", "S", "DK"), "v": ("HEADS", "S", "DV"), "do": ("HEADS", "S", "DV"),
}  # fmt: skip
GATES = {"b": ("HEADS", "S"), "i": ("HEADS", "S"), "m": ("HEADS", "STATES"), "stabiliser": ("HEADS", "S"),
         "n": ("HEADS", "S"), "states": ("HEADS", "STATES", "DK", "DV"), "norms": ("HEADS", "STATES", "DK"),
         "gradients": ("HEADS", "STATES", "DK", "DV")}  # fmt: skip
STRIDES = numbers(stride_kh="S*DK", stride_kt="DK", stride_vh="S*DV", stride_vt="DV", stride_sh="STATES*DK*DV")
MLSTM: dict[str, tuple[Any, str, str]] = {
    "mlstm_states": (mlstm.mlstm_states, "k v b i", "states norms m"),
    "mlstm_outputs": (mlstm.mlstm_outputs, "q k v b i states norms m", "o n stabiliser"),
    "mlstm_state_gradients": (mlstm.mlstm_state_gradients, "q b m stabiliser do n", "gradients"),
    "mlstm_gradients": (mlstm.mlstm_gradients, "q k v b i stabiliser m states do n gradients", "dq dk dv"),
}
"""By reference: the kernel, the tensors that it reads, the tensors that it writes."""


def mlstm_case(name: str, part: str, *, dtype: str = "bf16", steps: int = 256, chunk: int = 64, dk: int = 64,
               dv: int = 128, tile: tuple[int, int] = (64, 64), heads: int = 2, warps: int = 4, stages: int = 2,
               expect: Expectation = SPECIALISED) -> Specimen:  # fmt: skip
    """A kernel of mLSTM; tile: rows and columns of a block of the states."""
    kernel, read, written = MLSTM[part]
    sizes = {"HEADS": heads, "S": steps, "DK": dk, "DV": dv, "STATES": steps // chunk + 1, "Z": heads}
    sizes["PARTS"] = dk // tile[0]
    shapes = {**INPUTS, **GATES, "o": INPUTS["v"], "dq": INPUTS["q"], "dk": INPUTS["k"],
              "dv": ("PARTS", *INPUTS["v"])}  # fmt: skip
    tensors: dict[str, Tensor] = {}
    for key in read.split():  # the stabiliser is above most gates; the norm is not near zero
        mean = {"stabiliser": 3.0, "n": 6.0}.get(key, 0.0)
        tensors[key] = Tensor(shapes[key], dtype if key in INPUTS else "fp32", mean=mean)
    for key in written.split():
        tensors[key] = Tensor(shapes[key], "fp32" if key in GATES else dtype, "nan")
    known = {**pointers_to(f"{read} {written}"), **STRIDES, "scale": Number(0.125)}
    known |= numbers(stride_nh="STATES*DK", stride_vz="HEADS*S*DV")
    arguments = {key: it for key, it in known.items() if key in kernel.arg_names}
    constexprs = {"S": steps, "DK": dk, "DV": dv, "L": chunk}
    match part:
        case "mlstm_states" | "mlstm_state_gradients":
            constexprs |= {"BM": tile[0], "BN": tile[1]}
            grid = {"M": dk, "BM": tile[0], "N": dv, "BN": tile[1]}
        case "mlstm_outputs":
            constexprs |= {"BK": tile[0], "BN": tile[1]}
            grid = {"M": dv, "BM": tile[1], "N": steps, "BN": chunk}
        case _:
            constexprs |= {"BM": tile[0], "BN": tile[1]}
            grid = {"M": dk, "BM": tile[0], "N": steps, "BN": chunk}
    return Specimen(
        name,
        kernel,
        arguments,
        tensors,
        constexprs,
        {**sizes, **grid},
        "tiles_3d",
        part,
        expect,
        num_warps=warps,
        num_stages=stages,
    )
