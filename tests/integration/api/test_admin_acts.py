"""What an operator does goes through the services, refusals included, and into the service record; who may only look does nothing."""

from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge, Sweep
from checkpoints_app.services import verify
from sessions_app.models import Operation, ServiceRecord, WebhookDelivery, WebhookEndpoint
from sessions_app.services import account_deletion
from sessions_app.states import OperationKind, OperationState, RecordKind, SessionState
from tests.support.fleet import Tenant, boot_asked, session_row
from workers.models import Host

OPERATOR = "admin"  # of pytest-django's admin_client


def act(client: Client, row: Any, name: str) -> str:
    """Press the button on the row's page; the message that the operator reads."""
    opts = row._meta
    answer = client.post(reverse(f"admin:{opts.app_label}_{opts.model_name}_act", args=[quote(row.pk), name]))
    assert answer.status_code == 302, answer
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def records() -> list[ServiceRecord]:
    return list(ServiceRecord.objects.filter(kind=RecordKind.OPERATOR).order_by("id"))


@pytest.mark.parametrize(("name", "stop"), [("save", False), ("park", True)])
def test_a_session_is_saved_and_parked_by_an_operation_like_any_other(owner: Tenant, admin_client: Client, name: str, stop: bool) -> None:
    session = session_row(owner.account)
    message = act(admin_client, session, name)
    operation = Operation.objects.get(session=session)
    assert operation.id in message
    assert operation.kind == OperationKind.CHECKPOINT
    assert operation.parameters["stop"] is stop
    [line] = records()
    assert (line.type, line.actor, line.account_id, line.session_id) == (f"operator.{name}", OPERATOR, owner.account.id, session.id)
    assert line.facts["operation_id"] == operation.id


def test_a_parked_session_is_resumed_from_its_last_checkpoint(owner: Tenant, admin_client: Client) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True, host_id="")
    act(admin_client, session, "resume")
    assert Operation.objects.get(session=session).parameters["checkpoint_id"] == session.head_checkpoint_id


def test_a_refusal_says_why_and_what_to_do_and_writes_nothing(owner: Tenant, admin_client: Client) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True, host_id="")
    message = act(admin_client, session, "save")
    assert "not running" in message
    assert "Resume it first" in message
    assert not Operation.objects.exists()
    assert records() == []


def test_an_operation_is_cancelled(owner: Tenant, admin_client: Client) -> None:
    operation = boot_asked(owner.account)
    assert "cancelled" in act(admin_client, operation, "cancel")
    operation.refresh_from_db()
    assert operation.state == OperationState.CANCELLED
    assert [line.type for line in records()] == ["operator.cancel"]


def test_a_failed_save_is_asked_for_again_as_a_new_operation(owner: Tenant, admin_client: Client) -> None:
    session = session_row(owner.account)
    failed = _ended(session, OperationKind.CHECKPOINT, {"stop": True, "reason": "requested"})
    act(admin_client, failed, "retry")
    again = Operation.objects.get(session=session, state=OperationState.QUEUED)
    assert again.parameters == failed.parameters
    failed.refresh_from_db()
    assert failed.state == OperationState.FAILED
    assert records()[0].facts == {"operation_id": again.id, "kind": "checkpoint", "instead_of": failed.id}


@pytest.mark.parametrize("kind", [OperationKind.EXEC, OperationKind.FORK, OperationKind.DELETE, OperationKind.BOOT])
def test_what_may_have_had_effects_is_not_repeated_in_its_owners_stead(owner: Tenant, admin_client: Client, kind: OperationKind) -> None:
    failed = _ended(session_row(owner.account), kind, {})
    assert "is not asked for again by an operator" in act(admin_client, failed, "retry")
    assert Operation.objects.count() == 1


def test_a_token_is_revoked(owner: Tenant, admin_client: Client) -> None:
    act(admin_client, owner.token, "revoke")
    owner.token.refresh_from_db()
    assert owner.token.revoked_at is not None
    assert records()[0].facts == {"token_id": owner.token.id}


def test_a_host_is_drained_and_takes_work_again(owner: Tenant, admin_client: Client) -> None:
    host = Host.objects.get()
    act(admin_client, host, "drain")
    assert Host.objects.filter(draining=True).exists()
    assert "already" in act(admin_client, host, "drain")
    act(admin_client, host, "take-work")
    assert not Host.objects.filter(draining=True).exists()
    assert [line.type for line in records()] == ["operator.drain", "operator.undrain"]


def test_what_a_checkpoint_is_stored_in_is_due_to_be_read_at_once_and_not_told_as_late(
    owner: Tenant, admin_client: Client, doorbells: list[tuple[str, ...]], django_capture_on_commit_callbacks: Any
) -> None:
    session = session_row(owner.account, saved=True)
    checkpoint = Checkpoint.objects.get()
    pack = Pack.objects.create(id="a" * 64, account=owner.account, stored_bytes=1, unit_count=1, units=b"")
    manifest = Manifest.objects.create(id="b" * 64, account=owner.account, stored_bytes=1)
    other = Pack.objects.create(id="c" * 64, account=owner.account, stored_bytes=1, unit_count=1, units=b"")
    PackEdge.objects.create(checkpoint=checkpoint, pack=pack, units=b"")
    ManifestEdge.objects.create(checkpoint=checkpoint, manifest=manifest)
    with django_capture_on_commit_callbacks(execute=True):
        assert "2 objects" in act(admin_client, checkpoint, "scrub")
    due = Pack.objects.filter(verified_at__lt=pack.created_at - verify.due())
    assert list(due) == [pack]
    assert other not in due
    assert ("workers.store_upkeep", "control") in doorbells
    assert records()[0].session_id == session.id


def test_a_sweep_is_run_now_and_one_of_another_name_is_not(
    owner: Tenant, admin_client: Client, doorbells: list[tuple[str, ...]], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        act(admin_client, Sweep.objects.create(name="orphans"), "run")
        assert "by its schedule alone" in act(admin_client, Sweep.objects.create(name="else"), "run")
    assert doorbells == [("workers.store_orphans", "control")]


def test_rows_chosen_in_a_list_are_acted_on_one_by_one_and_a_refusal_stops_no_other(owner: Tenant, admin_client: Client) -> None:
    running, parked = session_row(owner.account), session_row(owner.account, SessionState.PARKED, saved=True)
    where = reverse("admin:sessions_app_session_changelist")
    answer = admin_client.post(where, {"action": "save", "_selected_action": [running.pk, parked.pk]})
    told = [message.level_tag for message in get_messages(answer.wsgi_request)]
    assert sorted(told) == ["error", "success"]
    assert Operation.objects.get().session == running


def test_a_list_acts_on_few_rows_at_once_whatever_is_posted(owner: Tenant, admin_client: Client) -> None:
    for _ in range(51):
        session_row(owner.account)
    where = reverse("admin:sessions_app_session_changelist")
    chosen = {"action": "save", "select_across": "1", "_selected_action": ["x"]}
    admin_client.post(where, chosen)
    assert not Operation.objects.exists()


def test_an_act_is_no_link(owner: Tenant, admin_client: Client) -> None:
    session = session_row(owner.account)
    assert admin_client.get(reverse("admin:sessions_app_session_act", args=[session.pk, "save"])).status_code == 405


def test_who_may_only_look_sees_pages_without_buttons_and_can_do_nothing(owner: Tenant, client: Client) -> None:
    viewer = User.objects.create_user("viewer", password="a long pass phrase", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client.force_login(viewer)
    session = session_row(owner.account, saved=True)
    rows = [
        session,
        boot_asked(owner.account),
        owner.token,
        Host.objects.get(),
        Checkpoint.objects.get(),
        Sweep.objects.create(name="scrub"),
    ]
    offered = 0
    for row in rows:
        base = f"admin:{row._meta.app_label}_{row._meta.model_name}"
        page = client.get(reverse(f"{base}_change", args=[quote(row.pk)]))
        assert page.status_code == 200
        assert "ks-button" not in page.content.decode()
        for one in page.context["adminform"].model_admin.acts:
            offered += 1
            assert client.post(reverse(f"{base}_act", args=[quote(row.pk), one.name])).status_code == 403
            client.post(reverse(f"{base}_changelist"), {"action": one.name, "_selected_action": [row.pk]})
    assert offered >= 10
    assert records() == []


def _ended(session: Any, kind: OperationKind, parameters: dict[str, Any]) -> Operation:
    return Operation.objects.create(
        account=session.account, session=session, kind=kind, state=OperationState.FAILED, parameters=parameters, queue="q"
    )


def test_a_checkpoint_is_held_and_released(owner: Tenant, admin_client: Client) -> None:
    session_row(owner.account, saved=True)
    checkpoint = Checkpoint.objects.get()
    act(admin_client, checkpoint, "hold")
    assert Checkpoint.objects.filter(held_at__isnull=False).exists()
    act(admin_client, checkpoint, "release")
    assert not Checkpoint.objects.filter(held_at__isnull=False).exists()
    assert [line.type for line in records()] == ["operator.hold", "operator.release"]


def test_a_session_is_deleted_by_a_plan_that_is_shown_and_by_its_typed_id(owner: Tenant, admin_client: Client) -> None:
    session = session_row(owner.account, saved=True)
    shown = admin_client.post(reverse("admin:sessions_app_session_deletion", args=[session.pk]))
    page = admin_client.get(shown["Location"]).content.decode()
    assert "running machine</td><td>yes" in page
    wrong = admin_client.post(shown["Location"], {"confirm": "another"})
    assert "does not name this session" in _told(wrong)
    assert not Operation.objects.exists()
    assert records() == []
    done = admin_client.post(shown["Location"], {"confirm": session.short_id})
    assert "and final" in _told(done)
    assert Operation.objects.get().kind == OperationKind.DELETE
    assert [line.type for line in records()] == ["operator.delete"]
    assert "executed already" in _told(admin_client.post(shown["Location"], {"confirm": session.short_id}))


def test_no_deletion_is_planned_by_a_link_or_by_who_may_only_change(owner: Tenant, admin_client: Client, client: Client) -> None:
    session = session_row(owner.account)
    where = reverse("admin:sessions_app_session_deletion", args=[session.pk])
    assert admin_client.get(where).status_code == 405
    helper = User.objects.create_user("helper", password="a long pass phrase", is_staff=True)
    helper.user_permissions.set(Permission.objects.filter(codename__in=["view_session", "change_session"]))
    client.force_login(helper)
    assert client.post(where).status_code == 403
    page = client.get(reverse("admin:sessions_app_session_change", args=[session.pk])).content.decode()
    assert "Save and park" in page
    assert "Delete…" not in page


def _told(answer: Any) -> str:
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def test_a_message_that_was_given_up_is_sent_again(owner: Tenant, admin_client: Client) -> None:
    hook = WebhookEndpoint.objects.create(account=owner.account, url="https://example.com", secret=b"s")
    given_up = WebhookDelivery.objects.create(
        id="msg_1", endpoint=hook, event_type="session.created", body="{}", state="given_up", attempt=9
    )
    act(admin_client, given_up, "redeliver")
    given_up.refresh_from_db()
    assert (given_up.state, given_up.attempt) == ("pending", 0)
    assert [line.type for line in records()] == ["operator.redeliver"]


def test_a_scheduled_account_deletion_is_cancelled_and_one_that_has_begun_is_not(owner: Tenant, admin_client: Client) -> None:
    made = account_deletion.make_plan(owner.account)
    deletion, _ = account_deletion.schedule(owner.account, plan_id=made.id, confirm=owner.account.name, actor="owner")
    act(admin_client, deletion, "keep")
    deletion.refresh_from_db()
    assert deletion.state == "cancelled"
    assert [line.type for line in records()] == ["operator.keep_account"]
    assert "No deletion of this account is scheduled" in act(admin_client, deletion, "keep")
