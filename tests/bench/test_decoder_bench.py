"""The bench of whole models, without a GPU: shapes, and the state that decoding writes in place."""

from __future__ import annotations

from bench.decoder.linear import State
from bench.decoder.worker import FAMILIES


class _Tensor:
    def __init__(self, value: int) -> None:
        self.value = value

    def copy_(self, other: _Tensor) -> None:
        self.value = other.value


def test_a_state_stays_where_it_is() -> None:
    state, first, tail = State(), _Tensor(1), _Tensor(2)
    assert len(state) == 0
    state.update(recurrent_state=first, conv_state=(tail,), layer_idx=0, offset=1)
    state.update(recurrent_state=_Tensor(3), conv_state=(tail,), layer_idx=0, offset=1)
    assert state[0]["recurrent_state"] is first
    assert (first.value, tail.value) == (3, 2)


def test_every_model_compares_a_way_of_tawa_with_stock() -> None:
    for family in FAMILIES.values():
        assert family.ways[0] == "stock"
        assert any(way.startswith("Tawa") for way in family.ways)
        assert "decoding" in family.shapes
        assert family.package
