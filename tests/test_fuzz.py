"""No body brings the server down: every answer is one of the API's."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SETTINGS = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=8,
)
names = st.sampled_from(
    """model messages prompt stream stream_options max_tokens max_completion_tokens temperature top_p top_k min_p seed
    stop include_stop_str_in_output presence_penalty frequency_penalty repetition_penalty logit_bias logprobs
    top_logprobs echo n best_of min_tokens stop_token_ids skip_special_tokens add_generation_prompt
    chat_template_kwargs ignore_eos return_token_ids suffix tools tool_choice response_format modalities user
    metadata""".split()
)
messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": values}),
    max_size=3,
)
# A plausible request of a few tokens in which some members are anything.
requests = st.builds(
    lambda base, changes: {**base, **changes},
    st.fixed_dictionaries(
        {"max_tokens": st.integers(1, 4)},
        optional={"messages": messages, "prompt": st.one_of(st.text(), st.lists(st.integers(0, 511), max_size=9))},
    ),
    st.dictionaries(names, values, max_size=3),
)


def check(server, path, body):
    response = server.http.post(path, content=body)
    assert response.status_code in (200, 400, 404), response.text
    if response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream"):
        assert response.text.endswith("data: [DONE]\n\n")
    elif response.status_code == 200:
        assert response.json()["choices"]
    else:
        assert response.json()["error"]["message"]


@SETTINGS
@given(body=requests)
def test_plausible_requests(tiny, body):
    for path in ("/v1/chat/completions", "/v1/completions"):
        check(tiny, path, json.dumps(body).encode())


@SETTINGS
@given(body=values)
def test_any_json(tiny, body):
    for path in ("/v1/chat/completions", "/v1/completions"):
        check(tiny, path, json.dumps(body).encode())


@SETTINGS
@given(body=st.binary(max_size=200))
def test_any_bytes(tiny, body):
    response = tiny.http.post("/v1/completions", content=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"]


@SETTINGS
@given(text=st.text(max_size=100))
def test_any_text_is_echoed(tiny, text):
    response = tiny.http.post("/v1/completions", json={"prompt": "x" + text, "echo": True, "max_tokens": 0})
    assert response.json()["choices"][0]["text"] == "x" + text
