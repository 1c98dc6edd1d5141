from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot_cache.errors import ScheduleSyntax
from aot_cache.offloading.schedule import Budget, Link, Prediction, Row, Schedule, parse, render

SAMPLE = Schedule(
    forward="ab12", backward="cd34", tensors=60,
    link=Link(25e9, 26e9, 1, 1e-5, "probe"),
    budget=Budget(845_000_000, 2 << 30, 64 << 20),
    cost="roofline-gpu-1", solver="slack-greedy-2", recompute=0.5,
    predict=Prediction(845_000_000, 800 << 20, 0.125, 0.0, 256 << 20),
    rows=(
        Row("primals_7", 32 << 20, "weight", None, None, "mm_3", "mm_5"),
        Row("gelu_3", 64 << 20, "act", "mm_14", "mul_21", "mm_52", "mm_57", ("t", "view")),
    ),
)  # fmt: skip
TEXT = """\
offload-plan 1
graph   fw=ab12 bw=cd34 tensors=60
link    d2h=25GB/s h2d=26GB/s lanes=1 latency=10us source=probe
budget  near=845MB far=2.147483648GB inflight=67.108864MB
cost    table=roofline-gpu-1 solver=slack-greedy-2 recompute=0.5
predict peak_fw=845MB peak_bw=838.8608MB step=125ms stall=0s moved=268.435456MB
# storage  bytes        kind    out-after  free-at  in-before  need-at  replay
gelu_3     67.108864MB  act     mm_14      mul_21   mm_52      mm_57    t,view
primals_7  33.554432MB  weight  -          -        mm_3       mm_5     -
"""

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,12}", fullmatch=True)
words = st.from_regex(r"[A-Za-z0-9_.:+-]{1,20}", fullmatch=True)
sizes = st.one_of(st.integers(0, 2**70), st.integers(0, 5000).map(lambda n: n << 20))
positive = st.floats(min_value=1e-300, max_value=1e300)
floats = st.one_of(st.just(0.0), positive)
steps = st.one_of(st.none(), names)
rows = st.builds(
    Row, names, sizes, st.sampled_from(["act", "weight"]), steps, steps, names, names, st.lists(names).map(tuple)
)
schedules = st.builds(
    Schedule, words, words, st.integers(0, 10**6),
    st.builds(Link, positive, positive, st.integers(1, 9), floats, words),
    st.builds(Budget, sizes, sizes, sizes), words, words, floats,
    st.builds(Prediction, sizes, sizes, floats, floats, sizes),
    st.lists(rows, unique_by=lambda row: row.storage, max_size=5).map(tuple),
)  # fmt: skip


def test_the_text_is_a_sorted_table() -> None:
    assert render(SAMPLE) == TEXT


@given(schedules)
def test_a_schedule_comes_back_from_its_text(schedule: Schedule) -> None:
    text = render(schedule)
    assert parse(text) == schedule
    assert render(parse(text)) == text


@given(schedules)
def test_the_order_of_the_rows_does_not_matter(schedule: Schedule) -> None:
    assert replace(schedule, rows=schedule.rows[::-1]) == schedule


def test_spaces_comments_blank_lines_and_units_are_the_writers_choice() -> None:
    edited = (
        TEXT.replace("  ", " ")
        .replace("67.108864MB act", "\t64MiB act")
        .replace("838.8608MB", "838860800")
        .replace("mm_5 -", "mm_5 -   # tied")
    )
    assert parse("# mine\n\n" + edited.rstrip("\n") + "\n\n") == SAMPLE


def test_a_change_of_one_row_changes_one_line() -> None:
    moved = replace(SAMPLE, rows=(SAMPLE.rows[0], replace(SAMPLE.rows[1], need_at="mm_4")))
    pairs = zip(render(SAMPLE).splitlines(), render(moved).splitlines(), strict=True)
    assert [old.split()[0] for old, new in pairs if old != new] == ["primals_7"]


BAD = [
    ("", "", "line 1: title='' is not valid: it must be offload-plan 1"),
    ("offload-plan 1", "offload-plan 2", "line 1: title='offload-plan 2' is not valid: it must be offload-plan 1"),
    ("tensors=60", "tensors=-1", "line 2: tensors='-1' is not valid: it must be a whole number"),
    ("fw=ab12", "fw=a/b", "line 2: fw='a/b' is not valid: it must be a word of letters, digits and . _ : + -"),
    ("fw=ab12 bw=cd34", "bw=cd34 fw=ab12", "it must be the line graph fw= bw= tensors="),
    ("d2h=25GB/s", "d2h=0.0", "line 3: d2h='0.0' is not valid: it must be bytes per second: a number above 0"),
    ("d2h=25GB/s", "d2h=nan", "line 3: d2h='nan'"),
    ("h2d=26GB/s", "h2d=1e999", "line 3: h2d='1e999'"),
    ("lanes=1", "lanes=0", "line 3: lanes='0' is not valid: it must be a whole number of at least 1"),
    ("latency=10us", "latency=10", "line 3: latency='10' is not valid: it must be seconds: a number"),
    ("budget ", "# budget ", "line 5: line='cost table=roofline-gpu-1"),
    ("far=2.147483648GB", "far=2gb", "line 4: far='2gb' is not valid: it must be unlimited, or bytes: a number"),
    (" inflight=67.108864MB", "", "it must be the line budget near= far= inflight="),
    ("recompute=0.5", "recompute=0.5 seed=1", "it must be the line cost table= solver= recompute="),
    ("67.108864MB  act ", "1.0005kB  act ", "line 8: bytes='1.0005kB'"),
    ("weight", "bias", "line 9: kind='bias' is not valid: it must be act or weight"),
    ("mm_57", "57", "line 8: need-at='57' is not valid: it must be the name of a node"),
    ("t,view", "t,,view", "line 8: replay='t,,view' is not valid: it must be names of nodes with commas"),
    (
        "t,view",
        "t, view",
        "line 8: row='gelu_3 67.108864MB act mm_14 mul_21 mm_52 mm_57 t, view' is not valid: it must be 8",
    ),
    ("primals_7", "gelu_3", "line 9: storage='gelu_3' is not valid: it must be in one row only"),
]


@pytest.mark.parametrize(("old", "new", "complaint"), BAD, ids=[f"{i}" for i in range(len(BAD))])
def test_a_bad_text_is_refused_by_line_field_and_what_is_allowed(old: str, new: str, complaint: str) -> None:
    with pytest.raises(ScheduleSyntax) as caught:
        parse(TEXT.replace(old, new) if old else "")
    assert complaint in str(caught.value)


@pytest.mark.parametrize("count", range(6))
def test_a_text_that_ends_too_early_is_refused(count: int) -> None:
    with pytest.raises(ScheduleSyntax, match=f"line {max(count, 0) + 1}:"):
        parse("".join(TEXT.splitlines(keepends=True)[:count]))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, TEXT + text, TEXT.replace("mm_14", text)):
        try:
            schedule = parse(whole)
        except ScheduleSyntax:
            continue
        assert parse(render(schedule)) == schedule


@pytest.mark.parametrize(
    "bad",
    [
        replace(SAMPLE, forward="two words"),
        replace(SAMPLE, recompute=float("nan")),
        replace(SAMPLE, tensors=-1),
        replace(SAMPLE, rows=(replace(SAMPLE.rows[0], need_at="a b"),)),
        replace(SAMPLE, rows=(replace(SAMPLE.rows[0], replay=("a,b c",)),)),
        replace(SAMPLE, rows=(replace(SAMPLE.rows[0], replay=("a,b",)),)),
        replace(SAMPLE, link=replace(SAMPLE.link, latency=-1.0)),
        replace(SAMPLE, link=replace(SAMPLE.link, d2h=0.0)),
    ],
    ids=["digest", "nan", "negative", "step", "replay", "comma", "latency", "rate"],
)
def test_what_no_text_can_give_back_is_not_written(bad: Schedule) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        render(bad)
