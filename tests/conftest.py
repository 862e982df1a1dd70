"""Fixtures: servers that several tests share."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft_server import ROOT, WeftServer

DATA = ROOT / "tests/data"
# `suffix` is there to see template variables arrive, the exception to see one of the template reach the client.
CHAT_TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'assistant' and loop.first %}"
    "{{ raise_exception('the first message is not from the user') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{{ suffix }}"
)


def with_chat_template(source, target):
    subprocess.run(
        [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", source, target, "--chat-template", CHAT_TEMPLATE],
        check=True,
        capture_output=True,
    )
    return target


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Random weights, a vocabulary of 512, a context of 512, and a chat template."""
    return with_chat_template(DATA / "tiny/llama/f32.gguf", tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny(tiny_model):
    # The reference computes in F32: its numbers are met only with F32 keys and values.
    with WeftServer(tiny_model, "--kv-type", "f32") as server:
        yield server


@pytest.fixture(scope="session")
def client(tiny):
    return tiny.client


@pytest.fixture(scope="session")
def expected():
    """The reference's prompt and its 48 greedy tokens."""
    return json.loads((DATA / "tiny/llama/expected.json").read_text())


@pytest.fixture(scope="session")
def smollm2_path():
    path = Path(os.environ.get("WEFT_SMOLLM2", ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    assert path.exists(), f"{path} is missing; script/test downloads it, or name it in WEFT_SMOLLM2"
    return path


@pytest.fixture(scope="session")
def smollm2(smollm2_path):
    with WeftServer(smollm2_path, name="smollm2") as server:
        yield server


@pytest.fixture(scope="session")
def smollm2_expected():
    return json.loads((DATA / "smollm2.json").read_text())
