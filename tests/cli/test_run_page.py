"""`chimera show --html`: a run as one page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace
from typing_extensions import override

from chimera import run
from chimera.cli.recorded import RecordedRun
from chimera.cli.run_page import run_page
from chimera.models.scripted import Reply, ScriptedCall, ScriptedModel, call, text
from chimera.pages.context_plot import Column, Limits, context_plot
from tests.cli.command import UNCONFINED, Chimera, Script

ATTACK = "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'><style>*{display:none}</style>\x1b[2J\u202e&lt;b"
TAGS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body a header h1 h2 h3 main nav ul li dl dt dd div p strong figure svg g rect path "
        "text span details summary section pre table thead tbody tr th td",
    )
)


class Reader(HTMLParser):
    """What a browser would make of a page: tags, attributes, ids, links, the text outside the style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [str(value) for name, value in attrs if name == "id"]
        self.links += [str(value) for name, value in attrs if name in {"href", "src"}]
        if tag != "meta":
            self.open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    """A run that compacts, edits, fails, is checked, and says hostile things wherever it can."""
    root, state = tmp_path_factory.mktemp("workspace"), tmp_path_factory.mktemp("state")
    (root / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    (root / "attack.txt").write_text(ATTACK * 40 + "\n", encoding="utf-8")
    edit = {"path": "calc.py", "edits": [{"old": "a - b", "new": f"a + b  # {ATTACK[:30]}"}]}
    shell = call("shell", command="cat attack.txt; exit 3")
    replies = [
        Reply(text=f"See {ATTACK}", calls=shell.calls),
        Reply(calls=(ScriptedCall(ATTACK, {ATTACK: ATTACK}),)),
        call("edit_file", **edit),
        call("update_plan", tasks=[{"title": ATTACK, "status": "doing"}]),
        *(call("shell", command=f"seq {n}000 {n}220") for n in range(1, 10)),
        text(f"Done {ATTACK}"),
    ]
    result = run(
        f"Fix it {ATTACK}", model=ScriptedModel(replies), workspace=root, state=state, window=7_000, mode="yolo",
        sandbox="danger-full-access", verify="true",
    )  # fmt: skip
    assert result.context is not None
    assert result.context.compactions >= 1
    assert result.run_dir is not None
    return RecordedRun.read(state, Path(result.run_dir))


@pytest.fixture
def page(recorded: RecordedRun) -> str:
    return run_page(recorded, f"--- a\n+++ b\n@@ -1 +1 @@\n-{ATTACK}\n")


def test_a_page_holds_the_whole_run_and_nothing_of_it_is_markup(page: str) -> None:
    read = Reader(page)
    assert read.open == []
    assert read.tags <= TAGS
    assert not {name for name in read.attributes if name.startswith("on")} | {"style"} & read.attributes
    assert all(link.startswith("#") for link in read.links)
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert len(set(read.ids)) == len(read.ids)
    assert "\x1b" not in page
    assert "\u202e" not in page
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy[0].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy[0]
    for said in (
        "Fix it </pre></script><script>alert(1)</script>",
        "See </pre>",
        "Done </pre>",
        "failed: ran `cat attack.txt; exit 3`",
        "$ cat attack.txt",
        "- a - b",
        "answered after 14 steps",
        "passed: ran `true`",
        "\\x1b[2J\\u202e&lt;b",
    ):
        assert said in read.text


def test_a_receipt_tells_what_was_taken_out_and_what_was_put_back(page: str) -> None:
    receipt = Reader(page[page.index('id="compactions"') - 4 : page.index('<h2 id="transcript')]).text
    assert re.search(r"Step \d+: compacted [\d,]+ → [\d,]+ tokens", receipt)
    assert "plan and task list" in receipt
    assert "Read again from disk: calc.py" in receipt
    assert "Task list, as decided before" in receipt
    assert "return a + b" in receipt
    assert "# Turn removed" in receipt


def test_every_request_is_a_column_that_leads_to_its_step(page: str) -> None:
    curve = page[page.index('class="wide-plot"') : page.index('class="narrow-plot"')]
    assert re.findall(r'href="#(step-\d+)" aria-label="step \d+: [\d,]+ tokens', curve) == [
        f"step-{n}" for n in range(1, 15)
    ]
    assert curve.count('class="shrunk"') == curve.count(", compacted from ") // 2 > 0
    for name in ("trigger 3,360", "budget 4,200", "window 7,000"):
        assert f">{name}</text>" in curve


def test_of_several_requests_in_one_column_the_arrow_is_that_of_the_compacted_one() -> None:
    sizes = [900 + 100 * (n % 4) for n in range(400)]
    columns = [
        Column(
            name=f"step {n}", size=size, parts={}, compacted=n % 4 == 0, before=1_300 if n % 4 == 0 else None
        )
        for n, size in enumerate(sizes)
    ]
    plot = context_plot("x", columns, Limits(trigger=1_300, budget=1_500, window=2_000), {}, small=True)
    assert 'aria-label="step 3: 1,200 tokens, compacted from 1,300 to 900"' in plot
    one = context_plot("x", columns[:4], Limits(trigger=1_300, budget=1_500, window=2_000), {}, small=True)
    assert 'aria-label="step 0: 900 tokens, compacted from 1,300"' in one
    arrow = r'class="shrunk" d="M[\d.]+ ([\d.]+)h10M[\d.]+ [\d.]+V([\d.]+)"'
    assert set(re.findall(arrow, plot)) == set(re.findall(arrow, one))


def test_a_record_leads_to_no_other_file_and_needs_no_end(recorded: RecordedRun, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("not of this run", encoding="utf-8")
    events = []
    for event in recorded.events[:-1]:
        changed = dict(event)
        if event["type"] == "tool_finished":
            changed["output"], changed["output_file"] = None, "@run/outputs/../../secret.txt"
        if event["type"] == "compaction":
            changed["archive"] = str(tmp_path / "secret.txt")
        events.append(changed)
    shown = Reader(run_page(replace(recorded, events=tuple(events), path=tmp_path / "run"), "")).text
    assert "died" in shown
    assert "not of this run" not in shown
    assert run_page(replace(recorded, events=()), "").count("No request is recorded.") == 2


def test_the_commands_write_pages_with_the_patch_and_the_curves(
    repository: Path, chimera: Chimera, script: Script, tmp_path: Path
) -> None:
    fix = {"path": "calc.py", "edits": [{"old": "a - b", "new": "a + b"}]}
    model = script([{"call": "edit_file", "arguments": fix}, {"text": "ok"}])
    chimera("run", "x", "--model", model, *UNCONFINED, "--window", "7000")
    target = tmp_path / "page.html"
    shown = chimera("show", "--html", str(target))
    assert (shown.code, shown.out) == (0, "")
    assert str(target) in shown.err
    assert "diff --git a/calc.py b/calc.py" in target.read_text(encoding="utf-8")
    shown = chimera("replay", "--window", "1000,7000", "--compaction", "note", "--html", str(target))
    assert (shown.code, shown.out) == (0, "")
    read = Reader(target.read_text(encoding="utf-8"))
    assert read.open == []
    assert read.tags <= TAGS
    assert "Stopped before its first step: floor" in read.text
    assert "↑ trigger 3,360, budget 4,200, window 7,000" in read.text  # far above what these requests take
    ended = chimera("show", "--html", str(tmp_path / "no" / "page.html"))
    assert ended.code == 2
    assert "no/page.html" in ended.err
