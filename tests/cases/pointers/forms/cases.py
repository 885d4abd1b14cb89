"""Cases of the forms: small problems, whose sizes divide the tiles in few places."""

from __future__ import annotations

from tests.cases.case import Argument, Expectation, Number, Pointer, Specimen, Tensor
from tests.cases.pointers.forms import kernels

SPECIALISED = Expectation("specialised")


def _pointers(names: str) -> dict[str, Argument]:
    return {f"{name}_ptr": Pointer(name) for name in names.split()}


def _numbers(**sizes: str) -> dict[str, Argument]:
    return {name: Number(size) for name, size in sizes.items()}


def differences_case(name: str, steps: int = 200, dim: int = 64, rows: int = 64) -> Specimen:
    """Two batches of three heads."""
    tensors = {it: Tensor(("B", "H", "S", "D"), "fp16") for it in "qk"}
    return Specimen(
        name,
        kernels.differences,
        {**_pointers("q k o"), **_numbers(S="S", H="H", stride_b="H*S*D", stride_h="S*D")},
        {**tensors, "o": Tensor(("B", "H", "S", "BN"), "fp32", "nan")},
        {"BM": rows, "BN": 64, "D": dim},
        {"B": 2, "H": 3, "S": steps, "PROGRAMS": 6 * -(-steps // rows)},
        "programs",
        "form_differences",
        SPECIALISED,
    )


def chunk_states_case(name: str, steps: int = 200, chunk: int = 64) -> Specimen:
    """Chunks of which the last is shorter."""
    chunks = -(-steps // chunk)
    return Specimen(
        name,
        kernels.chunk_states,
        {
            **_pointers("x b state"),
            **_numbers(S="S", P="P", N="N", chunk_size="CHUNK", stride_xs="P", stride_bs="N"),
        },
        {
            "x": Tensor(("S", "P"), "fp16"), "b": Tensor(("S", "N"), "fp16"),
            "state": Tensor(("CHUNKS", "P", "N"), "fp32", "nan"),
        },
        {"BM": 64, "BN": 64, "BK": 32},
        {"S": steps, "P": 144, "N": 80, "CHUNK": chunk, "CHUNKS": chunks, "PROGRAMS": 6 * chunks},
        "programs",
        "form_chunk_states",
        SPECIALISED,
    )  # fmt: skip


def masks_as_numbers_case(name: str, steps: int = 200) -> Specimen:
    """Values of 80 columns in tiles of 128."""
    shapes = {"q": "D", "k": "D", "v": "DV", "o": "DV"}
    tensors = {it: Tensor(("S", width), "fp16", "nan" if it == "o" else "normal") for it, width in shapes.items()}
    return Specimen(
        name,
        kernels.masks_as_numbers,
        {**_pointers("q k v o"), "S": Number("S"), "scale": Number(0.18)},
        tensors,
        {"BM": 64, "BN": 64, "D": 64, "DV": 80, "COLUMNS": 128},
        {"S": steps, "PROGRAMS": -(-steps // 64)},
        "programs",
        "form_masks_as_numbers",
        SPECIALISED,
    )


def packed_heads_case(
    name: str, dims: int, tokens: int = 40, dim: int = 64, heads: int = 4, block: int = 16
) -> Specimen:
    """Heads of a group of 8; the last block of tokens is not full."""
    return Specimen(
        name,
        kernels.packed_heads,
        {**_pointers("q k o"), **_numbers(T="T", S="S", stride_t="HEADS*D", stride_h="D")},
        {
            "q": Tensor(("T", "HEADS", "D"), "fp16"), "k": Tensor(("BLOCKS", "S", "D"), "fp16"),
            "o": Tensor(("BT*G", "S"), "fp32", "nan"),
        },
        {"BT": block, "BN": 64, "G": heads, "D": dim, "DIMS": dims},
        {"T": tokens, "HEADS": 8, "S": 100, "BLOCKS": -(-tokens // block), "PROGRAMS": 2},
        "programs",
        "form_packed_heads",
        SPECIALISED,
    )  # fmt: skip


def reshaped_places_case(name: str) -> Specimen:
    """A of six tiles, in memory one after another."""
    return Specimen(
        name,
        kernels.reshaped_places,
        {**_pointers("a b c"), **_numbers(N="N", T="T")},
        {
            "a": Tensor(("M/64", "T", "BM", "BK"), "fp16"), "b": Tensor(("T", "BK", "N"), "fp16"),
            "c": Tensor(("M", "N"), "fp32", "nan"),
        },
        {"BM": 64, "BN": 64, "BK": 32},
        {"M": 128, "N": 80, "T": 3},
        "tiles_2d",
        "form_reshaped_places",
        SPECIALISED,
    )  # fmt: skip


def flipped_rows_case(name: str, dtype: str = "fp16") -> Specimen:
    """Four chunks of 64 rows."""
    return Specimen(
        name,
        kernels.flipped_rows,
        {**_pointers("k v gate state"), **_numbers(S="S", M="M", N="N")},
        {
            "k": Tensor(("S", "M"), dtype), "v": Tensor(("S", "N"), dtype),
            "gate": Tensor(("S",), "fp32", mean=-0.5), "state": Tensor(("M", "N"), "fp32", "nan"),
        },
        {"L": 64, "BM": 64, "BN": 64},
        {"S": 256, "M": 128, "N": 128},
        "tiles_2d",
        "form_flipped_rows",
        SPECIALISED,
    )  # fmt: skip


FORMS = (
    differences_case("differences"),
    chunk_states_case("chunk_states"),
    chunk_states_case("chunk_states_even", steps=256),
    chunk_states_case("chunk_states_cut", steps=200, chunk=48),
    masks_as_numbers_case("masks_as_numbers"),
    packed_heads_case("packed_heads", 2),
    packed_heads_case("packed_heads_3d", 3),
    packed_heads_case("packed_heads_d128", 2, tokens=20, dim=128, heads=8, block=8),
    reshaped_places_case("reshaped_places"),
    flipped_rows_case("flipped_rows"),
)
"""In ``chunk_states_cut``, tiles would cross the ends of chunks: each launch gets stock Triton's kernel."""
