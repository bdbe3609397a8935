"""Well-typed conditions by the grammar, to hold checker, evaluator and provers together."""

from __future__ import annotations

from hypothesis import strategies as st

from routing_policies.policy import names

numbers = st.sampled_from(
    "deadline.total_ms deadline.ttft_ms size.body_bytes request.output_cap target.retention_days 0 400 -1 2.5".split()
)
levels = st.sampled_from(["label.level", "target.clearance", *names.CONSTANTS])
fields = st.sampled_from(["tenant.id", "tenant.residency", "target.region", "request.model"])
texts = st.one_of(fields, st.sampled_from(['"eu"', "''"]))
known = st.sampled_from(["target.region", '"eu"', "''"])
methods = st.sampled_from(["startsWith", "endsWith", "contains"])
signs = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
simple = st.one_of(
    st.sampled_from(["true", "false", "request.stream", "request.tools"]),
    st.builds("{} {} {}".format, numbers, signs, numbers),
    st.builds("{} {} {}".format, levels, signs, levels),
    st.builds("size.tokens {} {}".format, signs, st.integers(0, 1000)),
    st.builds("{}.size() {} {}".format, st.sampled_from(["label.tags", "tenant.roles"]), signs, st.integers(0, 3)),
    st.builds("{} {} {}".format, fields, st.sampled_from(["==", "!="]), texts),
    st.builds("{}.{}({})".format, texts, methods, known),
    st.builds("{}.{}({})".format, known, methods, texts),
    st.builds("{} in {}".format, fields, st.sampled_from(["label.tags", "tenant.roles", '["eu", "us"]'])),
    st.builds("{} in [{}, {}]".format, levels, levels, levels),
    st.builds(
        "{}.{}(x, x == {})".format,
        st.sampled_from(["label.tags", "tenant.roles"]),
        st.sampled_from(["exists", "all"]),
        texts,
    ),
)
conditions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds("!({})".format, inner),
        st.builds("({}) && ({})".format, inner, inner),
        st.builds("{} || ({})".format, inner, inner),
    ),
    max_leaves=6,
)

# Of the request alone, as `when` must be.
request_conditions = conditions.filter(lambda source: "target." not in source)
