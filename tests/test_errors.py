"""What is refused, and how the client hears of it."""

import json

import openai
import pytest

from conftest import DATA
from weft_server import WeftServer

USER = [{"role": "user", "content": "the"}]


def envelope(response):
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"] and "\n" not in error["message"]
    return error


@pytest.mark.parametrize(
    "parameters, param, code",
    [
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": 5000}, "messages", "context_length_exceeded"),
        ({"n": 129}, "n", "invalid_value"),
        ({"stop": [""]}, "stop", "invalid_value"),
        ({"logit_bias": {"99999": 1}}, "logit_bias.99999", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"response_format": {"type": "json_object"}}, "response_format", "unsupported_value"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "unsupported_parameter"),
        ({"modalities": ["text", "audio"]}, "modalities", "unsupported_value"),
        ({"reasoning_effort": "low"}, "reasoning_effort", "unsupported_parameter"),
        ({"extra_body": {"surprise": 1}}, "surprise", "unknown_parameter"),
        ({"extra_body": {"stop_token_ids": [512]}}, "stop_token_ids[0]", "invalid_value"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_names_the_parameter(client, parameters, param, code, stream):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="tiny", messages=USER, stream=stream, **parameters)
    assert caught.value.param == param
    assert caught.value.code == code
    assert caught.value.type == "invalid_request_error"


def test_content_that_is_no_text(client):
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": image}])
    assert caught.value.param == "messages[0].content[0].type"


def test_an_error_of_the_template_reaches_the_client(client):
    with pytest.raises(openai.BadRequestError, match="the first message is not from the user"):
        client.chat.completions.create(model="tiny", messages=[{"role": "assistant", "content": "a"}])


def test_prompts_beyond_the_context(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt=[5] * 512, max_tokens=1)
    assert caught.value.code == "context_length_exceeded"
    assert client.completions.create(model="tiny", prompt=[5] * 511, max_tokens=1).usage.total_tokens == 512


def test_another_model_is_not_found(client, tiny):
    for create in (
        lambda: client.chat.completions.create(model="gpt-4", messages=USER),
        lambda: client.completions.create(model="gpt-4", prompt="a"),
        lambda: client.models.retrieve("gpt-4"),
    ):
        with pytest.raises(openai.NotFoundError) as caught:
            create()
        assert caught.value.code == "model_not_found"
        assert caught.value.param == "model"
    assert tiny.http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1}).status_code == 200


def test_a_model_without_a_chat_template():
    with WeftServer(DATA / "tiny/qwen2/q8_0.gguf", name="qwen2") as server:
        with pytest.raises(openai.BadRequestError) as caught:
            server.client.chat.completions.create(model="qwen2", messages=USER)
        assert caught.value.code == "no_chat_template"
        assert server.client.completions.create(model="qwen2", prompt="the").usage.completion_tokens > 0


@pytest.mark.parametrize(
    "body, words",
    [
        (b"", "empty"),
        (b"{", "line 1, column 2"),
        (b'{\n"prompt": "a",\n}', "line 3, column 1"),
        (b'{"prompt": "\xff"}', "UTF-8"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a":' * 100_000, "nested deeper"),
        (b'{"prompt": ' + b"[" * 60 + b"]" * 60 + b"}", "expected"),
        (b"[]", "must be a JSON object"),
        (b'"prompt"', "must be a JSON object"),
        (b"\x00\x01\x02", "not valid JSON"),
        (b'{"prompt": "a", "temperature": 1e999}', "too large"),
    ],
    ids=["empty", "open", "comma", "utf8", "arrays", "objects", "prompt", "array", "string", "binary", "number"],
)
def test_malformed_bodies(tiny, body, words):
    for path in ("/v1/completions", "/v1/chat/completions"):
        response = tiny.http.post(path, content=body)
        assert response.status_code == 400
        assert words in envelope(response)["message"] or path.endswith("chat/completions")


def test_content_types_do_not_matter(tiny):
    body = json.dumps({"prompt": "a", "max_tokens": 1})
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert tiny.http.post("/v1/completions", content=body, headers={"Content-Type": kind}).status_code == 200


def test_compressed_bodies_are_refused(tiny):
    response = tiny.http.post("/v1/completions", content=b"x", headers={"Content-Encoding": "gzip"})
    assert response.status_code == 415
    assert envelope(response)["code"] == "unsupported_content_encoding"


def test_large_bodies_are_refused(tiny):
    response = tiny.http.post("/v1/completions", content=b" " * (17 << 20))
    assert response.status_code == 413
    assert envelope(response)["code"] == "body_too_large"


def test_unknown_paths_and_methods(tiny):
    for path in ("/", "/v1", "/v1/embeddings", "/v1/completions/", "/%00", "/health/x"):
        response = tiny.http.get(path)
        assert response.status_code == 404
        assert envelope(response)["code"] == "unknown_url"
    for method, path, allow in (
        ("GET", "/v1/chat/completions", "POST, OPTIONS"),
        ("DELETE", "/v1/completions", "POST, OPTIONS"),
        ("POST", "/v1/models", "GET, HEAD, OPTIONS"),
        ("POST", "/health", "GET, HEAD, OPTIONS"),
        ("FROB", "/metrics", "GET, HEAD, OPTIONS"),
    ):
        response = tiny.http.request(method, path)
        assert response.status_code == 405
        assert response.headers["Allow"] == allow
        assert envelope(response)["code"] == "method_not_allowed"
