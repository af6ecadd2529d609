"""What is told to install for an optional part."""

from __future__ import annotations

import re
from importlib.metadata import metadata, requires

from packaging.requirements import Requirement

from chimera.extras import install_command


def test_an_extra_is_installed_by_the_names_of_its_packages() -> None:
    """The index has another program that is called chimera."""
    wanted = [Requirement(line) for line in requires("chimera") or ()]
    extras = metadata("chimera").get_all("Provides-Extra")
    assert extras
    for extra in extras:
        told = {Requirement(word) for word in re.findall("'([^']*)'", install_command(extra))}
        assert {(part.name, part.specifier) for part in told} == {
            (part.name, part.specifier)
            for part in wanted
            if part.marker and part.marker.evaluate({"extra": extra})
        }


def test_an_extra_that_nobody_knows_is_that_of_a_clone() -> None:
    assert install_command("none") == "pip install '.[none]'"
