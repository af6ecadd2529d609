import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.models.event_stream import ServerEvent, server_events

# Characters that other readers take for the end of a line, and some of more than one byte.
TEXTS = st.lists(st.text(st.sampled_from("aé漢😀\x0b\x0c\x1c\x85\u2028\u2029: \t"), max_size=8), max_size=5)


def split(body: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    return [body[a:b] for a, b in pairwise(places)]


def data_of(*pieces: bytes) -> list[str]:
    return [event.data for event in server_events(pieces)]


@given(
    TEXTS,
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 500)),
    st.sampled_from(["", ": ping\n\n", "\ufeff"]),
)
def test_events_survive_any_split_and_line_ending(
    texts: list[str], end: str, cuts: list[int], before: str
) -> None:
    lines = [f"data: {json.dumps(text, ensure_ascii=False)}" for text in texts]
    body = (before + "".join(f"{line}{end}{end}" for line in lines)).encode()
    assert [json.loads(data) for data in data_of(*split(body, cuts))] == texts


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data:no space\n\ndata:  two\n\n", ["no space", " two"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b": comment\n\n:\n\ndata: a\n\n", ["a"]),
        (b"id: 7\nretry: 10\nunknown: x\ndata: a\n\n", ["a"]),
        (b"data: a\n\ndata: the end", ["a", "the end"]),
        (b"data: \xff\xe6\n\n", ["��"]),
        (b"data\n\n", [""]),
        (b"\n\n\n", []),
        (b"", []),
    ],
)
def test_fields_are_read_as_the_standard_says_and_the_end_needs_no_blank_line(
    body: bytes, events: list[str]
) -> None:
    assert data_of(body) == events


def test_an_event_has_its_name_and_passes_it_to_no_other() -> None:
    body = b"event: error\ndata: a\n\ndata: b\n\nevent: ping\n\ndata: c\n\n"
    assert [*server_events([body])] == [
        ServerEvent(name="error", data="a"),
        ServerEvent(data="b"),
        ServerEvent(data="c"),
    ]


def test_an_event_comes_as_soon_as_it_is_whole() -> None:
    taken: list[bytes] = []

    def pieces() -> object:
        for piece in (b"data: a\n", b"\n", b"data: b\n\n"):
            taken.append(piece)
            yield piece

    events = server_events(pieces())  # type: ignore[arg-type]
    assert next(events).data == "a"
    assert len(taken) == 2


def test_a_line_ending_that_is_split_is_one() -> None:
    body = b"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n"
    for at in range(len(body)):
        assert data_of(body[:at], body[at:]) == ["a\nb", "c"]


def test_a_line_of_megabytes_is_looked_through_once() -> None:
    """With every piece anew it would be 320 GB that are looked through: this would not end."""
    line = b"data: " + b"x" * 8_000_000 + b"\n\n"
    (event,) = server_events(line[start : start + 100] for start in range(0, len(line), 100))
    assert len(event.data) == 8_000_000
