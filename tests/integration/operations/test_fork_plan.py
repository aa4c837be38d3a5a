"""A fork by plan, carried out: the children run, and the answer is the v2 route's."""

from sessions_app.models import Session
from sessions_app.services import fork_plan
from sessions_app.services.operation import Asked
from tests.integration.operations.forking import created, resumes
from tests.integration.operations.world import World, guest, succeeded


def test_the_plans_checkpoint_and_no_later_work_is_in_its_children(world: World, session: Session) -> None:
    guest(session, "echo saved > note")
    point = world.save(session)
    guest(session, "echo later > note")
    plan = fork_plan.make(session, checkpoint_id=point.id, children=2)
    operation = fork_plan.execute(session, plan_id=plan.id, plan_digest=plan.digest, asked=Asked())
    children = created(operation)
    for resume in resumes(children):
        succeeded(resume)
    answer = succeeded(operation).response
    assert isinstance(answer, dict)
    assert answer["plan_id"] == plan.id
    assert [(one["session_id"], one["runtime_state"]) for one in answer["children"]] == [(child.id, "running") for child in children]
    for child in Session.objects.filter(parent_id=session.id):
        assert (child.fork_checkpoint_id, child.fork_watermark) == (point.id, point.event_watermark)
        assert guest(child, "cat note") == "saved"
    assert guest(session, "cat note") == "later"
