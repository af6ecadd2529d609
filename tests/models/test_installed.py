"""Releases and start-up files that nothing may run with."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.models.installed import installation_faults, litellm_version, package_folders


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of packages with start-up files as real ones have them."""
    (tmp_path / "coverage-7.dist-info").mkdir()
    (tmp_path / "coverage-7.dist-info" / "RECORD").write_text(
        "a1_coverage.pth,sha256=x,82\ncoverage/x.py,,\n"
    )
    (tmp_path / "a1_coverage.pth").write_text("import sys; exec('pass')\n")
    (tmp_path / "_virtualenv.pth").write_text("import _virtualenv\n")
    (tmp_path / "_editable_impl_chimera.pth").write_text("/a/folder\n")
    (tmp_path / "old-nspkg.pth").write_text("import sys, types\n")
    return tmp_path


@pytest.mark.parametrize("version", ["1.82.7", "1.82.8", "1.107.0", "1.107.12"])
def test_a_release_known_to_steal_is_refused(version: str) -> None:
    (fault,) = installation_faults(version, [])
    assert version in fault
    assert "must not run" in fault


@pytest.mark.parametrize("version", ["1.82.6", "1.82.70", "1.106.9", "1.108.0", "1.110.2", None])
def test_other_releases_are_not(version: str | None) -> None:
    assert installation_faults(version, []) == ()


def test_usual_start_up_files_are_no_fault(packages: Path) -> None:
    assert installation_faults("1.110.2", [packages]) == ()


def test_a_start_up_file_that_nobody_owns_is_told(packages: Path) -> None:
    (packages / "sitehelper.pth").write_text("# a comment\nimport os; os.system('true')\n")

    (fault,) = installation_faults("1.110.2", [packages, packages / "gone"])

    assert str(packages / "sitehelper.pth") in fault
    assert "belongs to no installed package" in fault


def test_the_start_up_file_of_the_bad_release_is_told_whoever_owns_it(packages: Path) -> None:
    (packages / "litellm_init.pth").write_text("import os\n")
    (packages / "coverage-7.dist-info" / "RECORD").write_text("litellm_init.pth,,\na1_coverage.pth,,\n")

    (fault,) = installation_faults("1.110.2", [packages])

    assert "steals keys" in fault


def test_this_installation_is_sound() -> None:
    assert litellm_version() is not None
    assert any((folder / "litellm").is_dir() for folder in package_folders())
    assert installation_faults(litellm_version(), package_folders()) == ()
