"""Parts of the documentation that are made from the program are as it would make them now."""

from __future__ import annotations

from docs.generate import DOCS, generated


def test_what_is_generated_is_up_to_date() -> None:
    made = generated()
    assert {path.relative_to(DOCS).as_posix() for path in made} == {"commands.md", "images/context.svg"}
    for path, content in made.items():
        assert path.read_text(encoding="utf-8") == content, "run: python docs/generate.py"


def test_the_picture_shows_compactions_below_the_budget_and_needs_no_network() -> None:
    picture = (DOCS / "images/context.svg").read_text(encoding="utf-8")
    assert picture.count('class="shrunk"') >= 3
    assert "budget 4,800" in picture
    assert picture.replace('xmlns="http://www.w3.org/2000/svg"', "").count("http") == 0
