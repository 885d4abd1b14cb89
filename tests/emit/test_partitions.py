from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.dialects.parameters import parameter_name
from tawa.dialects.tt import FuncOp
from tawa.ir import Module
from tests.emit.test_rings import fresh, written


def with_parameter(name: str) -> Module:
    """The kernel with another name for its parameter `a_desc`."""
    module = fresh()
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    argument = next(it for it in function.body.args if parameter_name(module, it) == "a_desc")
    argument.hint, argument.loc = name, f'"{name}"(unknown)'
    return module


@pytest.mark.parametrize("name", ["producer", "consumer"])
def test_a_function_does_not_have_the_name_of_a_parameter_of_the_kernel(name: str) -> None:
    """The kernel starts its partitions by the names of their functions, which a parameter of that name would hide."""
    text = written(with_parameter(name), "def consumer" if name == "producer" else "def consumer_2(")
    assert f"({name}_2, (" in text and f"def {name}_2(" in text


def test_a_parameter_with_a_name_that_the_file_needs_gets_another_one() -> None:
    text = written(with_parameter("mbarrier"))
    assert "def gemm_persistent(mbarrier_2, " in text
