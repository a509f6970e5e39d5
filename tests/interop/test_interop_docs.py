"""What the adapters say of themselves is held to what holds for all public names."""

import doctest
import inspect

import numpy as np
import pytest

import csrr
from tests.test_docstrings import OPTIONS, class_problems, function_problems


@pytest.mark.parametrize("name", [name for name in csrr.interop.__all__ if name != "OutsideModel"])
def test_sections_and_examples(name, tmp_path, monkeypatch):
    public = getattr(csrr.interop, name)
    assert list((class_problems if inspect.isclass(public) else function_problems)(name, public)) == []
    monkeypatch.chdir(tmp_path)
    runner, said = doctest.DocTestRunner(optionflags=OPTIONS), []
    for test in doctest.DocTestFinder().find(public, name, globs={"csrr": csrr, "np": np}):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
