"""What the fake provider keeps of its answers, as real ones do: a thread's message is continued once, a response as often as one likes."""

from typing import Any

REFUSED = {
    "thread_not_found": (404, "There is no such message to continue."),
    "thread_already_continued": (400, "Each response can be continued only once."),
    "previous_response_not_found": (400, "There is no such response."),
}


class Kept:
    def __init__(self) -> None:
        self.answered: set[str] = set()
        self.continued: set[str] = set()

    def clear(self) -> None:
        self.answered.clear()
        self.continued.clear()

    def refusal(self, api: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """Status and body where the request goes on from what cannot be gone on from; else what it goes on from is used."""
        code = self._going_on(body) if api == "anthropic" else self._after(body) if api == "responses" else ""
        if not code:
            return None
        status, message = REFUSED[code]
        if api == "anthropic":
            return status, {"type": "error", "error": {"type": code, "message": message}}
        return status, {"error": {"type": "invalid_request_error", "code": code, "message": message, "param": None}}

    def _going_on(self, body: dict[str, Any]) -> str:
        thread = body.get("thread")
        if not isinstance(thread, dict) or thread.get("type") != "continue":
            return ""
        before = str(thread.get("previous_message_id"))
        if before not in self.answered:
            return "thread_not_found"
        if before in self.continued:
            return "thread_already_continued"
        self.continued.add(before)
        return ""

    def _after(self, body: dict[str, Any]) -> str:
        before = body.get("previous_response_id")
        return "previous_response_not_found" if before is not None and before not in self.answered else ""
