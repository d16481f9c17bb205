"""What is refused is said on a page like the others; a script gets the words alone."""

from __future__ import annotations

from tests.dashboard.pages.desk import Desk


async def test_a_refusal_stands_on_a_page_with_the_way_to_the_others(desk: Desk) -> None:
    answer = await desk.visit("GET", "/timeline?week=soon")
    assert answer.status == 400
    assert "is not a week" in answer.text
    for path in ("/alarms", "/fires", "/timeline", "/targets", "/new"):
        assert f'href="{path}"' in answer.text, path
    assert 'data-live="/live"' in answer.text


async def test_what_is_not_there_too(desk: Desk) -> None:
    answer = await desk.visit("GET", "/alarms/00000000-0000-7000-8000-000000000000")
    assert answer.status == 404
    assert 'href="/fires"' in answer.text


async def test_a_script_gets_the_words_alone(desk: Desk) -> None:
    answer = await desk.visit("GET", "/timeline?week=soon", headers={"hx-request": "true"})
    assert answer.status == 400
    assert "is not a week" in answer.text
    assert "<html" not in answer.text
    assert "<nav" not in answer.text
