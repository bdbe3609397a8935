"""What a transform changes of a label: the one answer that eligibility, the scores and the door share."""

from __future__ import annotations

from inference_protocol.request import Task
from routing_policies.policy.model import Target
from routing_policies.signals.label import Label, LabelRules
from routing_policies.verdict import Transform


def transform_for(promise: Target, label: Label, task: Task) -> Transform:
    """Return what is done to a request with this label before it is sent to a target.

    Tensors are sent as they are: a string that stands among bytes, or in a list of lists, has no place of its own.
    """
    if task is Task.TENSOR or not promise.pseudonymize or label.findings.tags.isdisjoint(promise.pseudonymize):
        return Transform.NONE
    return Transform.PSEUDONYMIZE


def label_as_sent(promise: Target, label: Label, rules: LabelRules, task: Task) -> Label:
    """Return the label of what a target is sent: the request's own, less the findings that are replaced."""
    if transform_for(promise, label, task) is Transform.NONE:
        return label
    return label.without_findings(promise.pseudonymize, rules)
