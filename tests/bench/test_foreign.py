from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.bench.agents import Chimera, NoOp
from chimera.bench.dockerfile import replay
from chimera.bench.isolation import available_isolation
from chimera.bench.row import Row
from chimera.bench.search_path import search_path
from chimera.bench.task import BenchTask, discover, load_task
from chimera.testing import ScriptedModel, call, text

RunTrial = Callable[..., Row]
Write = Callable[..., BenchTask]

DOCKERFILE = """\
# syntax=docker/dockerfile:1
FROM python:3.12-slim
LABEL kind=test
WORKDIR /srv/app
ENV GREETING="good morning" PLACE=here
COPY data/ ./data/
COPY setup.txt .
RUN mkdir -p /srv/app/data && \\
    true
CMD ["bash"]
"""
FILES = {
    "task.toml": 'version = "1.0"\n[metadata]\nauthor_name = "somebody"\n[environment]\ncpus = 1\n',
    "instruction.md": "Write the sum of /srv/app/data/numbers.txt to /srv/app/sum.txt.\n",
    "environment/Dockerfile": DOCKERFILE,
    "environment/data/numbers.txt": "3\n4\n",
    "environment/setup.txt": "as it was\n",
    "solution/solve.sh": "set -e\ncd /srv/app\nawk '{s+=$1} END {print s}' data/numbers.txt > sum.txt\nls /solution\n",
    "tests/test.sh": (
        "cd /srv/app && bash /tests/grade.sh && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    ),
    "tests/grade.sh": '[ "$(cat /srv/app/sum.txt)" = 7 ] && [ "$GREETING" = "good morning" ] && [ -e setup.txt ]\n',
}

needs_namespace = pytest.mark.skipif(available_isolation() != "namespace", reason="no sandbox works here")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(**changed: str) -> BenchTask:
        folder = tmp_path / "theirs" / "Sum-It"
        for path, content in {
            **FILES,
            **changed,
        }.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        return load_task(folder)

    return write


def test_a_foreign_task_is_read(write: Write) -> None:
    task = write()
    assert (task.name, task.foreign, task.lacks) == ("foreign/sum-it", True, ())
    assert (str(task.workdir), task.verifier_env) == (
        "/srv/app",
        {"GREETING": "good morning", "PLACE": "here"},
    )
    assert [str(target) for _, target in task.layers] == ["data", "setup.txt"]
    assert task.original("data/numbers.txt").read_text() == "3\n4\n"


@needs_namespace
@pytest.mark.parametrize("workdir", ["/app", "/srv/app", "/usr/src/app", "/no/such/folder"])
def test_a_foreign_task_is_solved_and_graded_where_its_scripts_expect_it(
    write: Write, run_trial: RunTrial, tmp_path: Path, workdir: str
) -> None:
    task = write(**{path: content.replace("/srv/app", workdir) for path, content in FILES.items()})
    assert str(task.workdir) == workdir
    row = run_trial(task, "namespace")
    assert (row.status, row.reward, row.tampered) == ("graded", 1, ())
    assert "solve.sh" in (tmp_path / "trial" / "output.txt").read_text()
    assert run_trial(task, "namespace", NoOp(), folder="noop").reward == 0


@needs_namespace
def test_a_model_is_told_where_the_tree_really_lies(write: Write, run_trial: RunTrial) -> None:
    model = ScriptedModel(
        [call("shell", command="echo 7 >sum.txt; cat data/numbers.txt"), text("done")], window=32_000
    )
    row = run_trial(write(), "namespace", Chimera(model_choice=model))
    assert (row.status, row.reward) == ("graded", 1)
    said = "".join(message.content for message in model.requests[0].messages)
    assert "/srv/app" not in said
    assert "/app/data/numbers.txt to /" in said


@needs_namespace
def test_rewards_may_be_named_numbers(write: Write, run_trial: RunTrial) -> None:
    grader = 'echo \'{"reward": 0.0, "style": 1}\' >/logs/verifier/reward.json; echo 1 >/logs/verifier/reward.txt\n'
    assert run_trial(write(**{"tests/test.sh": grader}), "namespace").reward == 0


def test_a_private_folder_cannot_hold_a_foreign_task(write: Write, run_trial: RunTrial) -> None:
    row = run_trial(write())
    assert row.status == "skipped"
    assert row.error is not None
    assert "its scripts name /srv/app, which takes --isolation namespace" in row.error.message


@pytest.mark.parametrize(
    ("path", "content", "lack"),
    [
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nWORKDIR /srv/app\nRUN apt-get update && apt-get install -y --no-install-recommends no-such-tool bash\n",
            "apt packages: no-such-tool",
            id="apt",
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nRUN pip install --no-cache-dir pytest no-such-package==1.2\n",
            "Python packages: no-such-package==1.2",
            id="pip",
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nRUN make install\n",
            "Dockerfile line 2: RUN make install",
            id="run",
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nCOPY setup.txt /etc/\n",
            "outside the working directory /app",
            id="etc",
        ),
        pytest.param(
            "environment/Dockerfile", "FROM x\nCOPY gone.txt .\n", "gone.txt is not there", id="gone"
        ),
        pytest.param("environment/Dockerfile", "FROM x\nCOPY ../x .\n", "../x is not there", id="outside"),
        pytest.param(
            "environment/Dockerfile", "FROM x\nCOPY --from=y /a /b\n", "a copy from elsewhere", id="stage"
        ),
        pytest.param(
            "environment/Dockerfile", "FROM x\nUSER guest\n", "a user of its own (guest)", id="user"
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nVOLUME /data\n",
            "VOLUME, which is not carried out",
            id="volume",
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nRUN echo hello > greeting.txt\n",
            "RUN echo hello > greeting.txt",
            id="echo",
        ),
        pytest.param(
            "environment/Dockerfile", "FROM x\nRUN mkdir a || make b\n", "RUN mkdir a || make b", id="or"
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nRUN mkdir -p /data\n",
            "a folder outside the working directory /app: /data",
            id="mkdir",
        ),
        pytest.param(
            "environment/Dockerfile", 'FROM x\nRUN ["make", "all"]\n', "line 2: RUN make all", id="exec"
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nRUN pip install -r wanted.txt\n",
            "Python packages: those of wanted.txt",
            id="wanted",
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nRUN python3 -m pip install 'pytest>=999'\n",
            "Python packages: pytest>=999",
            id="newer",
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x AS a\nFROM y\n",
            "line 2: a build in several stages",
            id="stages",
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nADD setup.tar.gz .\n",
            "line 2: unpacking setup.tar.gz",
            id="archive",
        ),
        pytest.param(
            "environment/Dockerfile",
            "FROM x\nCOPY --chmod=755 setup.txt .\n",
            "a copy from elsewhere",
            id="mode",
        ),
        pytest.param(
            "environment/Dockerfile",
            'FROM x\nENTRYPOINT ["redis-server"]\n',
            "a program that it starts",
            id="entry",
        ),
        pytest.param("environment/.dockerignore", "*.txt\n", "left out of copies", id="ignored"),
        pytest.param(
            "task.toml",
            "version = '1.0'\n[environment]\nallow_internet = true\n",
            "a network (environment.allow_internet)",
            id="internet",
        ),
        pytest.param(
            "task.toml",
            "[verifier.env]\nKEY = '${JUDGE_KEY}'\n",
            "a variable of the machine (verifier.env.KEY is '${JUDGE_KEY}')",
            id="host variable",
        ),
        pytest.param("task.toml", "[agent]\nuser = 'guest'\n", "agent.user is 'guest'", id="agent's user"),
        pytest.param(
            "environment/Dockerfile", "FROM x\nWORKDIR /\n", "the working directory /, which", id="root"
        ),
        pytest.param("environment/compose.yaml", "services: {}\n", "several containers", id="compose"),
        pytest.param(
            "task.toml", "version = '1.0'\n[[steps]]\nname = 'a'\n", "several steps (steps)", id="steps"
        ),
        pytest.param(
            "task.toml",
            "version = '1.0'\n[environment]\ndocker_image = 'x'\n",
            "a prebuilt image (environment.docker_image)",
            id="image",
        ),
        pytest.param(
            "task.toml",
            "schema_version = '1.4'\n[environment]\nnetwork_mode = 'public'\n",
            "a network (environment.network_mode is 'public')",
            id="network",
        ),
        pytest.param(
            "tests/test.sh",
            "curl -LsSf x | sh\n",
            "a network for its grader (tests/test.sh runs 'curl')",
            id="fetch",
        ),
    ],
)
def test_what_cannot_be_had_is_named_and_nothing_is_run(
    write: Write, run_trial: RunTrial, path: str, content: str, lack: str
) -> None:
    row = run_trial(write(**{path: content}), "namespace")
    assert (row.status, row.reward) == ("skipped", None)
    assert row.error is not None
    assert row.error.message.startswith("cannot be run here: it needs ")
    assert lack in row.error.message


def test_a_dockerfile_is_carried_out_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "b.txt").write_text("")
    (tmp_path / "Dockerfile").write_text(
        "FROM x\nWORKDIR /w\nCOPY *.txt inner/\nCOPY a.txt renamed.txt\nENV A 1 2\nCOPY . all\n"
    )
    found = replay(tmp_path / "Dockerfile")
    assert [(source.name, str(target)) for source, target in found.layers] == [
        ("a.txt", "inner/a.txt"),
        ("b.txt", "inner/b.txt"),
        ("a.txt", "renamed.txt"),
        (tmp_path.name, "all"),
    ]
    assert (found.variables, found.lacks) == ({"A": "1 2"}, [])


def test_variables_stand_for_what_is_known_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "Dockerfile").write_text(
        "ARG PLACE=/srv/site\nFROM x\nENV HOME_OF=$PLACE NOTHING=a$GONE-b WORD=${GONE:-else}${PLACE:+!}\n"
        'ENV PATH=/srv/site/bin:$PATH RAW=\'$PLACE\'\nWORKDIR ${HOME_OF}/app\nCOPY ["a.txt", "$HOME_OF/app/b.txt"]\n'
        "RUN mkdir -p logs/old ./new && mkdir -p /tmp/x /logs/verifier\n"
    )
    found = replay(tmp_path / "Dockerfile")
    assert found.lacks == []
    assert found.variables == {
        "HOME_OF": "/srv/site",
        "NOTHING": "a-b",
        "WORD": "else!",
        "PATH": f"/srv/site/bin:{search_path()}",
        "RAW": "$PLACE",
    }
    assert str(found.workdir) == "/srv/site/app"
    assert [str(target) for _, target in found.layers] == ["b.txt"]
    assert [str(folder) for folder in found.folders] == ["logs/old", "new"]


@needs_namespace
def test_variables_and_folders_of_an_image_are_there(write: Write, run_trial: RunTrial) -> None:
    dockerfile = "FROM x\nWORKDIR /srv/app\nENV PATH=/srv/app/bin:$PATH\nRUN mkdir -p out bin && echo made\nCOPY data data\n"
    files = {
        "environment/Dockerfile": dockerfile,
        "task.toml": "version = '1.0'\n[environment.env]\nSUM = '7'\n",
        "solution/solve.sh": 'cd /srv/app && [ -d out ] && echo "$SUM" >out/sum.txt\n',
        "tests/test.sh": (
            "cd /srv/app; python3 -c 'import sys' || exit 1\n"
            '[ "$(cat out/sum.txt)" = "$SUM" ]; echo $((1 - $?)) >/logs/verifier/reward.txt\n'
        ),
    }
    assert run_trial(write(**files), "namespace").reward == 1
    assert run_trial(write(**files), "namespace", NoOp(), folder="noop").reward == 0


def test_an_image_of_the_grader_is_read_as_well(write: Write) -> None:
    separate = "version = '1.0'\n[verifier]\nenvironment_mode = 'separate'\n"
    grader = "FROM y\nENV GREETING=hello\nCOPY . /tests\nWORKDIR /app\nRUN pip install no-such-package\n"
    task = write(**{"task.toml": separate, "tests/Dockerfile": grader})
    assert task.lacks == ("in its grader, Python packages: no-such-package",)
    assert task.verifier_env == {"GREETING": "hello"}
    assert write(**{"task.toml": "version = '1.0'\n", "tests/Dockerfile": grader}).lacks == ()


@pytest.mark.parametrize(
    ("task_toml", "removed", "lack"),
    [
        pytest.param(
            "[[steps]]\nname = 'a'\n", ["instruction.md", "tests"], "several steps (steps)", id="steps"
        ),
        pytest.param(
            "[environment]\ndocker_image = 'x:1'\n",
            ["environment/Dockerfile"],
            "a prebuilt image (environment.docker_image)",
            id="image",
        ),
        pytest.param("", ["tests/test.sh"], "its own tests/test.sh, which is missing", id="no tests"),
        pytest.param("", ["instruction.md"], "its own instruction.md, which is missing", id="no instruction"),
    ],
)
def test_a_task_that_cannot_be_run_does_not_keep_others_from_it(
    write: Write, tmp_path: Path, task_toml: str, removed: list[str], lack: str
) -> None:
    folder = write().folder
    other = folder.with_name("odd")
    folder.rename(other)
    (other / "task.toml").write_text("version = '1.0'\n" + task_toml)
    for path in removed:
        shutil.rmtree(other / path) if (other / path).is_dir() else (other / path).unlink()
    write()
    good, odd = discover(tmp_path / "theirs")
    assert (good.lacks, odd.name) == ((), "foreign/odd")
    assert lack in odd.lacks


@pytest.mark.parametrize(
    ("named", "name"),
    [
        ("[task]\nname = 'Laude/Hello World'\n", "laude/hello-world"),
        ("[task]\nname = 'Hello'\n", "foreign/hello"),
        ("[task]\nname = '_x/.y'\n", "x/y"),
        ("[metadata]\ndifficulty = 3\ncategory = ['a']\n", "foreign/sum-it"),
    ],
)
def test_what_the_format_leaves_free_is_free(write: Write, named: str, name: str) -> None:
    assert write(**{"task.toml": f"version = '1.0'\n{named}"}).name == name
