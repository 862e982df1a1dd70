"""POST /v1/chat/completions through the official client."""

import pytest

GREEDY = dict(model="tiny", temperature=0, max_tokens=24)
SEEDED = dict(model="tiny", temperature=1.5, seed=7, max_tokens=24)
USER = [{"role": "user", "content": "the License"}]


def chat(client, messages=USER, **parameters):
    return client.chat.completions.create(messages=messages, **parameters)


def text_of(stream):
    """The contents of a stream by choice, checking its form on the way."""
    texts, ended = {}, {}
    for chunk in stream:
        assert chunk.object == "chat.completion.chunk"
        for choice in chunk.choices:
            assert choice.index not in ended
            if choice.index not in texts:
                assert choice.delta.role == "assistant"
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            if choice.finish_reason:
                ended[choice.index] = choice.finish_reason
    assert texts.keys() == ended.keys()
    return texts, ended


def test_an_answer_has_the_api_s_form(client):
    answer = chat(client, **GREEDY)
    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    assert answer.model == "tiny"
    assert answer.system_fingerprint.startswith("weft-")
    assert answer.created > 1_700_000_000
    (choice,) = answer.choices
    assert choice.index == 0
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert choice.logprobs is None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert chat(client, **GREEDY).id != answer.id


@pytest.mark.parametrize("parameters", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("n", [1, 3])
def test_a_stream_is_the_whole_answer(client, parameters, n):
    whole = chat(client, n=n, **parameters)
    texts, ended = text_of(chat(client, n=n, stream=True, **parameters))
    assert texts == {c.index: c.message.content for c in whole.choices}
    assert ended == {c.index: c.finish_reason for c in whole.choices}


@pytest.mark.parametrize("parameters", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_answers_repeat(client, parameters):
    assert chat(client, **parameters).choices == chat(client, **parameters).choices


def test_seeds_and_choices_differ(client):
    answer = chat(client, n=3, **SEEDED)
    texts = [c.message.content for c in answer.choices]
    assert [c.index for c in answer.choices] == [0, 1, 2]
    assert len(set(texts)) == 3
    assert chat(client, **SEEDED).choices[0].message.content == texts[0]
    assert chat(client, **{**SEEDED, "seed": 8}).choices[0].message.content != texts[0]


def test_greedy_choices_are_equal(client):
    texts = {c.message.content for c in chat(client, n=2, **GREEDY).choices}
    assert len(texts) == 1


def test_max_tokens_end_an_answer(client):
    for name in ("max_tokens", "max_completion_tokens"):
        answer = chat(client, model="tiny", temperature=0, extra_body={"ignore_eos": True}, **{name: 5})
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == 5


def test_an_answer_without_a_limit_fills_the_context(client):
    answer = chat(client, model="tiny", temperature=0, extra_body={"ignore_eos": True})
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.total_tokens == 512


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_ends_an_answer(client, stream, include):
    whole = chat(client, **GREEDY)
    text = whole.choices[0].message.content
    stop = text[len(text) // 2 :][:3]
    parameters = {**GREEDY, "stop": ["never in it", stop], "extra_body": {"include_stop_str_in_output": include}}
    end = text.index(stop) + (len(stop) if include else 0)
    if stream:
        texts, ended = text_of(chat(client, stream=True, **parameters))
        assert (texts, ended) == ({0: text[:end]}, {0: "stop"})
    else:
        answer = chat(client, **parameters)
        assert answer.choices[0].message.content == text[:end]
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.completion_tokens < whole.usage.completion_tokens


def test_logprobs_tell_every_token(client):
    answer = chat(client, logprobs=True, top_logprobs=3, **GREEDY)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    for token in tokens:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == 3
        values = [t.logprob for t in token.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert token.token == token.top_logprobs[0].token  # greedy takes the likeliest
        assert token.logprob == values[0]
    shown = b"".join(bytes(t.bytes) for t in tokens if not t.token.startswith("<|"))
    assert shown.decode(errors="replace") == answer.choices[0].message.content


def test_logprobs_are_streamed_with_their_tokens(client):
    whole = chat(client, logprobs=True, top_logprobs=2, **GREEDY).choices[0].logprobs.content
    streamed = []
    for chunk in chat(client, logprobs=True, top_logprobs=2, stream=True, **GREEDY):
        if chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert streamed == whole


def test_logprobs_without_alternatives(client):
    tokens = chat(client, logprobs=True, **GREEDY).choices[0].logprobs.content
    assert tokens and all(t.top_logprobs == [] for t in tokens)


def test_usage_is_streamed_last(client):
    whole = chat(client, **GREEDY).usage
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}, **GREEDY))
    assert all(c.usage is None for c in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole
    assert all(c.usage is None and c.choices for c in chat(client, stream=True, **GREEDY))


def test_continuous_usage_counts_up(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = list(chat(client, stream=True, stream_options=options, **GREEDY))
    counts = [c.usage.completion_tokens for c in chunks]
    assert counts == sorted(counts)
    assert counts[-1] == chat(client, **GREEDY).usage.completion_tokens


def test_token_ids_are_returned(client):
    parameters = {**GREEDY, "extra_body": {"return_token_ids": True}}
    whole = chat(client, **parameters)
    ids = whole.choices[0].token_ids
    assert len(ids) == whole.usage.completion_tokens
    assert len(whole.prompt_token_ids) == whole.usage.prompt_tokens
    chunks = list(chat(client, stream=True, **parameters))
    assert chunks[0].prompt_token_ids == whole.prompt_token_ids
    assert not any(hasattr(c, "prompt_token_ids") for c in chunks[1:])
    assert [i for c in chunks for i in getattr(c.choices[0], "token_ids", [])] == ids
    # The same ids as a prompt of the other endpoint give the same answer.
    completion = client.completions.create(prompt=whole.prompt_token_ids, **GREEDY)
    assert completion.choices[0].text == whole.choices[0].message.content


def test_messages_reach_the_template(client):
    def ids(messages=USER, **extra):
        answer = chat(client, messages, model="tiny", max_tokens=1, extra_body={"return_token_ids": True, **extra})
        return answer.prompt_token_ids

    plain = ids()
    assert ids([{"role": "user", "content": [{"type": "text", "text": "the License"}]}]) == plain
    parts = [{"type": "text", "text": "the"}, {"type": "text", "text": "License"}]
    assert ids([{"role": "user", "content": parts}]) == ids([{"role": "user", "content": "the\nLicense"}])
    system = [{"role": "system", "content": "a"}, *USER]
    assert ids([{"role": "developer", "content": "a"}, *USER]) == ids(system) != plain
    without = ids(add_generation_prompt=False)
    assert plain[: len(without)] == without and len(without) < len(plain)
    suffixed = ids(chat_template_kwargs={"suffix": " this"})
    assert suffixed[: len(plain)] == plain and len(suffixed) > len(plain)


def test_an_earlier_answer_can_be_sent_back(client):
    answer = chat(client, **GREEDY).choices[0].message
    again = chat(client, [*USER, answer.model_dump(), {"role": "user", "content": "the"}], **GREEDY)
    assert again.choices[0].message.content is not None
