"""What holds in every run, whatever the model, its tools and the provider do."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.runs import TASKS, Output, Run, Step, play

_BYTES = 450_000
"""Of output in one run, so that an example takes tenths of a second at most."""

windows = st.sampled_from(
    [8_000, 4_000, 6_000, 8_000, 12_000, 16_000, 32_000, 64_000, 200_000, 1_000_000, 3_000, 2_000]
)
sizes = st.sampled_from([1_000, 4_000, 0, 1, 40, 300, 2_000, 6_000, 9_000, 16_385, 60_000, 200_000])
outputs = st.builds(
    Output,
    kind=st.sampled_from(["code", "log", "digits", "cjk", "spaces", "frame", "lines"]),
    size=sizes,
    fails=st.booleans(),
)
ratios = st.sampled_from([None, None, 1.0, 1.0, 0.97, 1.03, 0.97, 1.03, 0.5, 1.5])
words = st.sampled_from(["", "I look.", " \n", "\ud800 half", "</chimera-state>"])
steps = st.one_of(
    *[
        st.builds(
            Step,
            outputs=st.lists(outputs, min_size=1, max_size=12).map(tuple),
            words=words,
            ratio=ratios,
            same_ids=st.booleans(),
            reasoning=st.booleans(),
        )
    ]
    * 9,
    st.builds(
        Step,
        act=st.sampled_from(["plan", "write", "edit", "broken", "empty", "cut"]),
        size=st.sampled_from([400, 3, 0, 1_500, 4_000, 12_000, 60_000]),
        words=words,
        ratio=ratios,
    ),
    st.builds(
        Step,
        act=st.just("refuse"),
        size=st.sampled_from([3_000, 10_000, 30_000, 1_000]),
        limit=st.none() | st.sampled_from([0.9, 0.75, 0.99, 0.5, 0.0, 1.0, 40.0]),
    ),
)


def size(steps: tuple[Step, ...]) -> int:
    return sum(output.size for step in steps for output in step.outputs)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    some = tuple(draw(st.lists(steps, min_size=1, max_size=8)))
    times = draw(st.sampled_from([12, 6, 3, 1]))
    # A few steps over and over make a long run out of few choices. Commands are new each time, so it gets on.
    while times > 1 and size(some) * times > _BYTES:
        times -= 1
    while size(some) > _BYTES:
        some = some[:-1]
    return Run(
        window=draw(windows),
        mode=draw(st.sampled_from(["note", "mask", "summary"])),
        fraction=draw(st.sampled_from([0.6, 0.6, 0.85, 1.0])),
        keep_turns=draw(st.sampled_from([6, 6, 1, 20])),
        task=draw(st.sampled_from(TASKS)),
        honours_limit=draw(st.sampled_from([True, True, True, False])),
        ratio=draw(st.just(1.0) | st.floats(0.5, 2.0)),
        steps=some * times,
        summary=draw(st.sampled_from(["good", "long", "many lines", "empty", "refused"])),
    )


@given(runs())
def test_every_request_of_every_run_is_legal_fits_and_loses_nothing(run: Run) -> None:
    play(run)


@settings(max_examples=max(20, settings().max_examples // 5))
@given(runs())
def test_a_run_does_the_same_every_time(run: Run) -> None:
    first, again = play(run), play(run)
    sent, sent_again = (
        [(one.messages, one.tools, one.max_tokens) for one in played.requests]
        for played in (first[0], again[0])
    )
    assert sent == sent_again
    assert first[0].events == again[0].events
    assert first[1] == again[1]
