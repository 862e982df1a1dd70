"""SmolLM2 held against the reference by `weft score`: the passage's mean NLL, and the likeliest token wherever the
reference is sure of it."""

import json
import struct
import subprocess
from pathlib import Path

import pytest

from weft_server import WEFT

DATA = Path(__file__).parent / "data"


def tensor(path, name):
    """The values of one int32 or float32 tensor of a safetensors file."""
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    entry = json.loads(raw[8 : 8 + size])[name]
    begin, end = entry["data_offsets"]
    letter = {"I32": "i", "F32": "f"}[entry["dtype"]]
    values = struct.unpack(f"<{(end - begin) // 4}{letter}", raw[8 + size + begin : 8 + size + end])
    width = entry["shape"][-1]
    return [values[i : i + width] for i in range(0, len(values), width)]


@pytest.fixture(scope="module")
def scored(smollm2_path, smollm2_expected, tmp_path_factory):
    ids = tmp_path_factory.mktemp("score") / "ids.json"
    ids.write_text(json.dumps(smollm2_expected["passage"]["ids"]))
    run = subprocess.run([WEFT, "score", smollm2_path, "--ids", ids], capture_output=True, text=True, timeout=300, check=True)
    return json.loads(run.stdout)


def test_mean_nll_of_the_passage(scored, smollm2_expected):
    assert scored["schema"] == "weft.score.v1"
    assert scored["tokens"] == len(smollm2_expected["passage"]["ids"])
    assert scored["nll"] == pytest.approx(smollm2_expected["passage"]["nll"], abs=0.01)


def test_likeliest_token_where_the_reference_is_sure(scored):
    ids = tensor(DATA / "smollm2.safetensors", "passage.top_ids")
    logits = tensor(DATA / "smollm2.safetensors", "passage.top_logits")
    sure = [i for i, row in enumerate(logits) if row[0] - row[1] > 1.0]
    assert len(sure) > 700
    wrong = [i for i in sure if scored["positions"][i]["top"][0][0] != ids[i][0]]
    assert wrong == []
