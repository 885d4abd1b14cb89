"""The tests of the pages notice what they are there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.checking import faults
from tests.docs.pages import ROOT, BadTag, blocks_of
from tests.docs.running import Workplace, difference, run_page
from tests.docs.update import updated


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    folder = tmp_path / "place"
    folder.mkdir()
    return Workplace(folder, tmp_path / "cache")


@pytest.fixture
def page(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "page.md"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```sh\nls\n```\n", "page.md:1: a block without a tag"),
        ("words\n\n<!-- run -->\n\n```sh\nls\n```\n", "page.md:5: a block without a tag"),
        ("words\n\n    x = 1\n", "page.md:3: an indented block"),
        ("words\n\n> ```sh\n> ls\n> ```\n", "page.md:3: a block in a quotation"),
        ("words\n\n<pre>ls</pre>\n", "page.md:3: a block in a quotation or in HTML"),
        ("<!-- rum -->\n```sh\nls\n```\n", "no such tag: rum"),
        ("<!-- shown -->\n```\nx\n```\n", "takes a reason"),
        ("<!-- run: fiel=x.py -->\n```python\nx\n```\n", "no such key: fiel"),
        ("<!-- compile\ndef f():\n-->\n```python\nx\n```\n", "the frame has one line"),
    ],
)
def test_a_block_without_a_right_tag_is_refused(page, text: str, said: str) -> None:
    with pytest.raises(BadTag, match=said):
        blocks_of(page(text))


def test_a_frame_stands_around_its_block(page) -> None:
    (block,) = blocks_of(
        page("<!-- compile\ndef f():\n    # the block\n    return x\n-->\n```python\nx = 1\ny = 2\n```\n")
    )
    assert block.code == "def f():\n    x = 1\n    y = 2\n    return x\n"


def test_numbers_that_vary_do_not_count_and_others_do() -> None:
    assert not difference("│ 423 ms, tawa 0.1.0   │", "│ 1017.5 ms, tawa 0.2.0 │\n")
    assert not difference("in /tmp/a/b.py:3", "in /home/me/b.py:3")
    assert "147628" in difference("147628 bytes", "147629 bytes")
    assert difference("b.py:3", "b.py:4")


def test_an_ellipsis_on_a_line_of_its_own_skips_lines() -> None:
    assert not difference("a\n…\nd", "a\nb\nc\nd")
    assert not difference("…\nb\n…", "a\nb\nc")
    assert difference("a\n…\nd", "a\nb")
    assert difference("a\n…\nx\n…\nd", "a\nb\nd")


def test_a_block_that_prints_something_else_or_fails_is_named(page, place: Workplace) -> None:
    text = "<!-- run -->\n```sh\necho 1\n```\n<!-- output -->\n```\n2\n```\n<!-- run -->\n```sh\nfalse\ntrue\n```\n"
    wrong, failing = run_page(page(text), place)
    assert "page.md:6: not what is printed" in wrong.fault
    assert "page.md:10: exit status 1, not 0" in failing.fault


def test_blocks_of_a_page_build_on_files_of_earlier_ones(page, place: Workplace) -> None:
    text = "<!-- compile: file=f.py -->\n```python\nx = 7\n```\n<!-- run -->\n```sh\n"
    text += "python -c 'import f; print(f.x)'\n```\n<!-- output -->\n```\n7\n```\n"
    (ran,) = run_page(page(text), place)
    assert not ran.fault


def test_an_output_may_have_its_script_in_its_tag(page, place: Workplace) -> None:
    (ran,) = run_page(page("<!-- output\necho 1\necho 2\n-->\n```\n1\n3\n```\n"), place)
    assert "+2" in ran.fault


def test_updating_writes_what_is_printed_and_leaves_what_matches(page, place: Workplace) -> None:
    text = "<!-- run -->\n```sh\necho 12 ms\n```\n<!-- output -->\n```\n8 ms\n```\n\n<!-- run -->\n```sh\necho b\n```\n"
    path = page(text + "<!-- output -->\n```\na\nx\n```\nend\n")
    assert updated(path.read_text(), list(run_page(path, place))) == text + "<!-- output -->\n```\nb\n```\nend\n"


@pytest.mark.parametrize(
    ("language", "code", "said"),
    [
        ("python", "x = (", "line 1"),
        ("python", "print(unheard)", "unheard"),
        ("python", "from tawa import explane", "no explane in tawa"),
        ("python", "from tawa.ops import attentoin", "no attentoin in tawa.ops"),
        ("python", "import tawa\ntawa.instal()", "no instal in tawa"),
        ("sh", "tawa explain x.py:k --num-wraps 8", "--num-wraps"),
        ("sh", "tawa explian", "no command explian"),
        ("sh", "tawa verify … --json", "not complete"),
        ("sh", "make dmeo", "no target dmeo"),
        ("sh", "python examples/gemmm.py", "no file gemmm.py"),
        ("sh", "python -m bench.gemmm", "no module bench.gemmm"),
        ("sh", "python -m bench.gemm --minuets 3", "no option --minuets"),
        ("sh", "pip install 'tawa[torch]'", "on no index"),
        ("sh", "pip install '.[trch]'", "no extra trch"),
        ("sh", "if true", "syntax error"),
        ("mlir", "anything", "tag it `shown`"),
    ],
)
def test_a_block_that_names_what_does_not_exist_is_refused(
    page, place: Workplace, language: str, code: str, said: str
) -> None:
    place.prepare()
    (block,) = blocks_of(page(f"<!-- compile -->\n```{language}\n{code}\n```\n"))
    assert said in " ".join(faults(block, place))


def test_a_kernel_that_becomes_something_else_than_its_tag_says_is_refused(page, place: Workplace) -> None:
    place.prepare()
    kernel = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef add(x):\n    tl.store(x, 1.0)\n"
    (wrong,) = blocks_of(page(f"<!-- compile: kernel=add sig='x=*fp32' -->\n```python\n{kernel}```\n"))
    assert "no tl.dot in the kernel" in " ".join(faults(wrong, place))
    gemm = (ROOT / "examples" / "gemm.py").read_text().partition("def main")[0]
    sig = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,256]>, c=tensordesc<fp16[128,256]>, M=i32, N=i32, K=i32"
    keys = f"kernel=gemm sig='{sig}' const=BM=128,BN=256,BK=64 warps=8"
    (filled,) = blocks_of(page(f"<!-- compile: {keys} fill=cp.async -->\n```python\n{gemm}```\n"))
    assert "filled by tma, not cp.async" in " ".join(faults(filled, place))
    (right,) = blocks_of(page(f"<!-- compile: kernel=add sig='x=*fp32' verdict=declined -->\n```python\n{kernel}```\n"))
    assert not faults(right, place)
