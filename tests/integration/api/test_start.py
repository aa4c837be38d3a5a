"""POST /api/sessions."""

import pytest

from sessions_app.models import Operation, Session
from tests.support.api import Caller, error_of
from tests.support.worker import work
from workers.models import Host

PATH = "/api/sessions"


def test_a_start_is_accepted_as_an_operation_and_answers_with_the_session_once_it_runs(api: Caller) -> None:
    accepted = api("POST", PATH, {"Image": "tiny", "Budget": 5, "Name": "first", "Memory": 128, "Cpus": 2})
    assert accepted.status_code == 202
    assert accepted["Preference-Applied"] == "respond-async"
    data = accepted.json()["data"]
    assert accepted["Location"] == f"/api/operations/{data['operation_id']}"
    assert (data["kind"], data["state"]) == ("boot", "queued")
    work(data["operation_id"])
    outcome = api("GET", accepted["Location"]).json()["data"]
    assert (outcome["state"], outcome["http_status"]) == ("succeeded", 201)
    assert outcome["response"] == {
        "id": data["session_id"],
        "short_id": data["session_id"][:12],
        "image": "tiny",
        "state": "running",
        "execution_epoch": 1,
    }
    row = api("GET", f"/api/v2/sessions/{data['session_id']}").json()["data"]
    assert (row["name"], row["budget_tokens"], row["memory_mib"], row["cpus"]) == ("first", 5, 128, 2)


def test_what_is_left_out_takes_the_defaults(api: Caller) -> None:
    session_id = api("POST", PATH, {"Image": "tiny"}).json()["data"]["session_id"]
    row = api("GET", f"/api/v2/sessions/{session_id}").json()["data"]
    assert (row["budget_tokens"], row["memory_mib"], row["cpus"], row["name"]) == (2_000_000, 256, 1, None)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"Image": "tiny", "Budget": 0}, "budget"),
        ({"Image": "tiny", "Budget": -1}, "budget"),
        ({"Image": "tiny", "Budget": 10**30}, "budget"),
        ({"Image": "tiny", "Budget": "1000"}, "Budget"),
        ({"Image": "tiny", "Budget": 2.0}, "Budget"),
        ({"Image": "tiny", "Budget": True}, "Budget"),
        ({"Image": "tiny", "Budget": None}, "Budget"),
        ({"Image": "tiny", "Name": "1st"}, "name"),
        ({"Image": "tiny", "Name": "n" * 49}, "name"),
        ({"Image": "tiny", "Memory": 127}, "Memory"),
        ({"Image": "tiny", "Memory": 10**30}, "Memory"),
        ({"Image": "tiny", "Cpus": 9}, "Cpus"),
        ({"Image": 7}, "Image"),
        ({"Image": "ti\x00ny"}, "Image"),
        ([], "object"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_starts_nothing(api: Caller, body: object, names: str) -> None:
    refused = api("POST", PATH, body)
    assert refused.status_code == 400
    assert names.lower() in error_of(refused)["message"].lower()
    assert not Session.objects.exists()
    assert not Operation.objects.exists()


@pytest.mark.parametrize(("misspelt", "meant"), [("Budgt", "Budget"), ("budget", "Budget"), ("BUDGET", "Budget"), ("Image_", "Image")])
def test_a_misspelt_field_is_refused_with_the_one_that_was_meant_and_starts_nothing(api: Caller, misspelt: str, meant: str) -> None:
    refused = api("POST", PATH, {misspelt: 1000})
    assert refused.status_code == 400
    assert f"{misspelt}: is not a field of this request; did you mean {meant}?" in refused.json()["message"]
    assert not Session.objects.exists()


def test_a_field_given_twice_is_refused(api: Caller) -> None:
    refused = api("POST", PATH, b'{"Budget": 1, "Budget": 1000000}')
    assert refused.status_code == 400
    assert not Session.objects.exists()


def test_an_unknown_image_is_refused_with_those_that_there_are(api: Caller) -> None:
    refused = api("POST", PATH, {"Image": "no-such-image"})
    assert (refused.status_code, refused.json()["error"]) == (400, "ks_unknown_image")
    assert "tiny" in refused.json()["next_action"]


def test_a_fleet_without_room_accepts_and_tells_what_the_start_waits_for(api: Caller) -> None:
    Host.objects.update(draining=True)
    accepted = api("POST", PATH, {"Image": "tiny"})
    assert accepted.status_code == 202
    row = api("GET", "/api/v2/sessions?source=fleet").json()["data"]["items"][0]
    assert row["operation"]["progress"]["waiting"]["for"] == "draining"


def test_a_fleet_that_is_away_refuses_and_reserves_nothing(api: Caller) -> None:
    Host.objects.all().delete()
    refused = api("POST", PATH, {"Image": "tiny"})
    assert (refused.status_code, refused.json()["error"]) == (503, "ks_fleet_unavailable")
    assert not Session.objects.exists()
