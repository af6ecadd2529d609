"""What is measured of a run besides its outcome: whether its requests were legal, what shrinking cost, what was done twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from chimera.record.events import Event


class Invariants(Struct, frozen=True, kw_only=True):
    """Requests of a run that were not as every request must be. All but `requests` must be 0."""

    requests: int
    """All that were looked at; those for a summary are not among them."""
    illegal: int
    """With a result without its call, a call without its result, or results out of order."""
    over_window: int
    """Which with their completion would not fit the window, as the provider counts where it does, else by our estimate."""
    task_missing: int
    """Without the whole task at its place."""
    rules_missing: int
    """Without one of the sentences that the task declares as rules."""

    @property
    def breaches(self) -> int:
        """All of them added up."""
        return self.illegal + self.over_window + self.task_missing + self.rules_missing


class Rework(Struct, frozen=True, kw_only=True):
    """What was done again although nothing had changed."""

    tool_calls: int
    repeated_calls: int
    """Calls with a result that the same call had brought before."""
    rereads_unchanged: int
    """Those of them that read a file."""


class Shrinking(Struct, frozen=True, kw_only=True):
    """One compaction. Sizes in tokens of a whole request."""

    step: int
    before: int
    after: int
    removed_turns: int
    masked_turns: int
    kept_turns: int
    tight: bool


class Measures(Struct, frozen=True, kw_only=True):
    """All that was measured of one run."""

    invariants: Invariants
    rework: Rework
    shrinkings: tuple[Shrinking, ...]
    vain_compactions: int
    """Compactions that could not help."""
    summariser_tokens: int
    """Prompts and replies of summaries; part of the tokens of the run."""
    prompt_last: int
    """Size of the last request, as calibrated."""
    cacheable: int
    """Tokens of all requests that were a prefix of the request before."""
    prefix_breaks: int
    """Requests that did not begin with the whole request before."""
    estimate_error: float | None
    """The largest difference between our count of a prompt and the provider's, over the provider's; None without any."""


class RunMeter(Struct):
    """Takes the events of a run and adds up what they tell."""

    tool_calls: int = 0
    repeated_calls: int = 0
    rereads_unchanged: int = 0
    vain_compactions: int = 0
    summariser_tokens: int = 0
    prompt_last: int = 0
    estimate_error: float | None = None
    shrinkings: list[Shrinking] = field(default_factory=list)
    _begun: dict[str, str] = field(default_factory=dict)
    _seen: set[tuple[object, ...]] = field(default_factory=set)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        match event.type:
            case "prompt":
                self.prompt_last = event.fields["calibrated"]
            case "completion":
                self._completion(event.fields)
            case "tool_started":
                self._begun[event.fields["id"]] = event.fields["arguments"]
            case "tool_finished":
                self._call(event.fields)
            case "compaction":
                self._compaction(event.fields)
            case _:
                pass

    @property
    def rework(self) -> Rework:
        """What was done again."""
        return Rework(
            tool_calls=self.tool_calls,
            repeated_calls=self.repeated_calls,
            rereads_unchanged=self.rereads_unchanged,
        )

    def _completion(self, fields: Mapping[str, Any]) -> None:
        usage = fields["usage"]
        if fields.get("purpose") == "summary":
            self.summariser_tokens += usage["input_tokens"] + usage["output_tokens"]
        elif not usage["estimated"]:
            error = abs(self.prompt_last - usage["input_tokens"]) / usage["input_tokens"]
            self.estimate_error = max(self.estimate_error or 0.0, round(error, 4))

    def _call(self, fields: Mapping[str, Any]) -> None:
        if fields["name"] == "verify":
            return
        self.tool_calls += 1
        # Long outputs are told by size and first line: two that agree in both are taken for the same.
        result = fields.get("output") or (fields["bytes"], fields["digest"])
        signature = (fields["name"], self._begun.pop(fields["id"], ""), result)
        if signature in self._seen:
            self.repeated_calls += 1
            self.rereads_unchanged += fields["name"] == "read_file"
        self._seen.add(signature)

    def _compaction(self, fields: Mapping[str, Any]) -> None:
        if not fields["changed"]:
            self.vain_compactions += 1
            return
        kept = {name: fields[name] for name in Shrinking.__struct_fields__}
        self.shrinkings.append(Shrinking(**kept))
