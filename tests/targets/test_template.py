"""The body template of a webhook: what its fields become, and what is refused when the settings are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wakeful.errors import InvalidConfig
from wakeful.model.alarm import HeardSignal, Policy
from wakeful.process.application import build_targets
from wakeful.settings import load
from wakeful.targets import Target
from wakeful.targets.template import FIELDS, ServerFacts, Template, shortened
from wakeful.testing.receiver import Receiver
from wakeful.testing.targets import NINE, TargetConformance, a_wake

from .conftest import Open

SERVER = ServerFacts("local", "https://wakeful.example/")
QUOTES = 'a "quote", a \\ and\nmore", "admin": true, "x": "{fire_id}'


def filled(body: Any, server: ServerFacts = SERVER, **wake: Any) -> Any:
    return json.loads(Template(body, server).fill(a_wake(**wake)))


class TestAsATarget(TargetConformance):
    @pytest.fixture
    def target(self, webhook: Open, receiver: Receiver) -> Target:
        body = {"text": "{from}{message}", "all": [f"{{{name}}}" for name in FIELDS]}
        return webhook(receiver.url, body=body, public_url="https://wakeful.example")


class TestValues:
    def test_fields_are_put_into_texts_at_any_depth(self) -> None:
        body = {"text": "{label}: {message}!", "blocks": [{"type": "section", "id": "{fire_id}"}], "n": 3, "on": True}
        found = filled(body, message="Tea", label="Kitchen")
        assert found == {
            "text": "Kitchen: Tea!",
            "blocks": [{"type": "section", "id": a_wake().fire_id}],
            "n": 3,
            "on": True,
        }

    def test_a_text_that_is_only_a_field_keeps_the_type_of_its_value(self) -> None:
        payload = {"page": 3, "list": [1, {"name": "x"}], "none": None, "on": True}
        body = {
            **{name: f"{{payload.{name}}}" for name in payload},
            "whole": "{payload}",
            "deep": "{payload.list.1.name}",
            "number": "{number}",
        }
        found = filled(body, payload_json=json.dumps(payload))
        assert found == {**payload, "whole": payload, "deep": "x", "number": 1}

    def test_within_a_text_a_value_is_written_as_json_and_nothing_as_nothing(self) -> None:
        body = "page {payload.page} of {payload.of}: {payload.list}, {payload.text}"
        found = filled(json.dumps(body), payload_json='{"page": 3, "list": [1], "text": "x"}')
        assert found == "page 3 of : [1], x"

    @pytest.mark.parametrize("path", ["nowhere", "list.7", "list.x", "page.deeper", "list.-1"])
    def test_what_a_payload_does_not_have_is_null(self, path: str) -> None:
        assert filled([f"{{payload.{path}}}"], payload_json='{"page": 3, "list": [1]}') == [None]

    def test_nothing_in_a_value_breaks_out_of_its_place(self) -> None:
        body = {"text": "x{message}y", "whole": "{message}", "inner": "{payload.a}"}
        found = filled(body, message=QUOTES, payload_json=json.dumps({"a": QUOTES}))
        assert found == {"text": f"x{QUOTES}y", "whole": QUOTES, "inner": QUOTES}

    def test_braces_are_doubled(self) -> None:
        assert filled({"text": "{{message}} {{{message}}}", "plain": "{{}}"}, message="x") == {
            "text": "{message} {x}",
            "plain": "{}",
        }

    def test_a_text_can_be_bounded(self) -> None:
        assert filled(["{message:5}", "<{message:5}>"], message="1234567") == ["1234…", "<1234…>"]
        assert filled(["{message:7}"], message="1234567") == ["1234567"]

    def test_an_emoji_counts_as_two_and_is_not_cut_apart(self) -> None:
        assert shortened("😀😀😀", 6) == "😀😀😀"
        assert shortened("😀😀😀", 5) == "😀😀…"
        assert shortened("😀😀😀", 4) == "😀…"

    def test_links_hold_the_fire_and_its_report_token(self) -> None:
        wake = a_wake()
        found = filled(["{done_url}", "{snooze_url}"])
        base = f"https://wakeful.example/r/{wake.fire_id}"
        assert found == [f"{base}/done?token={wake.report_token}", f"{base}/snooze?token={wake.report_token}"]

    def test_the_signal_that_fired_it(self) -> None:
        signal = HeardSignal(name="built", payload_json='{"ok": true}', occurrence_at=NINE)
        body = ["{signal}", "{signal_payload.ok}", "{signal_payload}"]
        assert filled(body, policy=Policy(heard=signal)) == ["built", True, {"ok": True}]
        assert filled(body) == [None, None, None]

    @pytest.mark.parametrize(
        ("owner", "by", "begin"),
        [
            ("local", "local", ""),
            ("local", "", ""),
            ("local", "local (token 12ab)", ""),
            ("local", "scheduled_tasks", "[local, by scheduled_tasks] "),
            ("ada", "ada", "[ada, by ada] "),
            ("ada", "local", "[ada, by local] "),
            ("local\n", "", "[local\\n] "),
        ],
    )
    def test_whose_words_these_are_is_said_unless_they_are_the_operators_own(
        self, owner: str, by: str, begin: str
    ) -> None:
        assert filled(["{from}{message}"], message="Tea", owner_did=owner, created_by=by) == [f"{begin}Tea"]


class TestWhatIsSent:
    async def test_the_body_is_the_same_on_every_attempt_and_is_what_is_signed(self, webhook: Open) -> None:
        async with Receiver(secret="correct horse") as receiver:
            target = webhook(
                receiver.url,
                secret="correct horse",
                body={"text": "{message}", "all": "{payload}"},
                headers={"X-A": "b"},
            )
            for attempt in (1, 2):
                await target.deliver(a_wake("é", payload_json='{"b": 1.50,  "a": 1}', attempt=attempt, late_ms=attempt))
            first, again = receiver.wakes
        assert first.body == again.body == '{"text":"é","all":{"b": 1.50,  "a": 1}}'.encode()
        assert first.verified
        assert again.verified
        assert (first.headers["x-a"], first.headers["content-type"]) == ("b", "application/json")

    async def test_a_body_of_the_settings_file_with_secrets_from_a_variable_and_a_file(
        self, tmp_path: Path, receiver: Receiver
    ) -> None:
        (tmp_path / "body.json").write_text('{"text": "{message}", "page": "{payload.page}"}\n')
        config = tmp_path / "wakeful.toml"
        config.write_text(
            f'[targets.a]\nkind = "webhook"\nurl = "{receiver.url}"\nallow_private = true\n'
            'headers = { authorization = "Bearer ${API_KEY}" }\n'
            'body = { text = "{message}", page = "{payload.page}" }\n'
            f'[targets.b]\nkind = "webhook"\nurl = "{receiver.url}"\nallow_private = true\n'
            f'body_file = "{tmp_path / "body.json"}"\n'
        )
        served = build_targets(load(config, environ={"API_KEY": "k-123"}))
        for name in "ab":
            await served[name].target.deliver(a_wake("Tea", payload_json='{"page": 3}'))
            await served[name].target.close()
        assert [got.json for got in receiver.wakes] == [{"text": "Tea", "page": 3}] * 2
        assert receiver.wakes[0].headers["authorization"] == "Bearer k-123"


class TestRefusedAtTheStart:
    @pytest.mark.parametrize(
        ("body", "field", "says"),
        [
            ({"a": {"text": "{mesage}"}}, "body.a.text", "Did you mean message? There are: message, label, payload,"),
            (["{attempt}"], "body", "a wake has no field {attempt}"),
            ({"text": "{message.x}"}, "body.text", "message has no parts"),
            ({"text": "{payload..x}"}, "body.text", "is not a field"),
            ({"text": "{message!r}"}, "body.text", "is not a field"),
            ({"text": "{message:0}"}, "body.text", "is not a field"),
            ({"text": "{}"}, "body.text", "is not a field"),
            ({"text": "{message"}, "body.text", "a brace in '{message' stands alone"),
            ({"text": "message}"}, "body.text", "stands alone"),
            ("{message}", "body", "it is not JSON"),
        ],
    )
    def test_what_is_not_a_template(self, body: Any, field: str, says: str) -> None:
        with pytest.raises(InvalidConfig) as refused:
            Template(body, SERVER)
        assert refused.value.field == field
        assert says in str(refused.value)

    def test_links_without_an_address_that_people_reach(self) -> None:
        with pytest.raises(InvalidConfig, match="needs the setting public_url"):
            Template({"text": "{done_url}"}, ServerFacts("local"))

    def test_the_error_names_the_file_the_line_and_the_accepted_fields(self, tmp_path: Path) -> None:
        config = tmp_path / "wakeful.toml"
        config.write_text(
            '[targets.chat]\nkind = "webhook"\nurl = "https://example.com/"\n\n[targets.chat.body]\ntext = "{mesage}"\n'
        )
        with pytest.raises(InvalidConfig) as refused:
            build_targets(load(config))
        assert str(refused.value).startswith(
            f"targets.chat.body.text: {config}, line 6: a wake has no field {{mesage}}"
        )
        assert "There are: message, label," in refused.value.fix

    @pytest.mark.parametrize("name", ["clock", "operator", "public_url"])
    def test_what_wakeful_gives_a_target_itself_is_no_setting_of_it(self, tmp_path: Path, name: str) -> None:
        config = tmp_path / "wakeful.toml"
        config.write_text(f'[targets.chat]\nkind = "webhook"\nurl = "https://example.com/"\n{name} = "x"\n')
        with pytest.raises(InvalidConfig, match=f"a webhook target has no setting '{name}'"):
            build_targets(load(config))
