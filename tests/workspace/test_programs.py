"""Programs are never taken from where a repository could have put them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.workspace.programs import find_program, trusted_entries


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """The real program, on PATH behind the others."""
    return put(tmp_path / "system", "tool")


def put(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return (folder / name).resolve()


@pytest.mark.parametrize("workspace", ["repo", "repo/part", "repo/part/deep", "repo/inner"])
def test_a_checkout_around_the_workspace_supplies_nothing(tmp_path: Path, real: Path, workspace: str) -> None:
    for checkout in ("repo", "repo/inner"):
        (tmp_path / checkout / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "part" / "deep").mkdir(parents=True)
    put(tmp_path / "repo" / "bin", "tool")
    put(tmp_path / "repo" / "part", "tool")
    path = f"{tmp_path}/repo/bin:{tmp_path}/repo/part:{tmp_path}/system"

    assert find_program("tool", path, outside=tmp_path / workspace) == real
    assert trusted_entries(path, outside=tmp_path / workspace) == [str(real.parent)]


def test_a_checkout_around_the_working_directory_supplies_nothing(
    tmp_path: Path, real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    put(tmp_path / "repo" / "bin", "tool")
    put(tmp_path / "plain", "other")
    path = f"{tmp_path}/repo/bin:{tmp_path}/plain:{tmp_path}/system"
    monkeypatch.chdir(tmp_path / "repo" / "bin")

    assert find_program("tool", path, outside=tmp_path / "elsewhere") == real
    monkeypatch.chdir(tmp_path / "plain")
    assert (
        find_program("other", path, outside=tmp_path / "elsewhere") == tmp_path.resolve() / "plain" / "other"
    )


def test_a_link_into_or_through_a_checkout_is_passed_over(tmp_path: Path, real: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    put(repo / "bin", "tool")
    (repo / "way").symlink_to(real)
    (repo / "folder").symlink_to(real.parent)
    for number, target in enumerate([repo / "bin", repo / "folder"]):
        (tmp_path / f"link{number}").symlink_to(target)
    for number, target in enumerate([repo / "bin" / "tool", repo / "way"]):
        (tmp_path / f"bin{number}").mkdir()
        (tmp_path / f"bin{number}" / "tool").symlink_to(target)
    path = ":".join(f"{tmp_path}/{name}" for name in ("link0", "bin0", "bin1"))

    assert find_program("tool", path, outside=repo / "part") is None
    # What the link in the repository says later is of no matter.
    assert find_program("tool", f"{path}:{tmp_path}/link1", outside=repo) == real


def test_where_the_whole_system_is_a_checkout_its_programs_are_still_found(real: Path) -> None:
    assert find_program("tool", str(real.parent), outside=Path("/")) == real


def test_a_loop_of_links_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "tool").symlink_to("tool")

    assert find_program("tool", str(tmp_path), outside=tmp_path / "workspace") is None
