"""Starts `weft serve` for a test and talks to it."""

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import openai
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parent.parent
WEFT = Path(os.environ.get("WEFT", ROOT / "build/release/weft"))
START_SECONDS = 120


class WeftServer:
    """A running server; a context manager that ends it."""

    def __init__(self, model, *flags, name="tiny", open_files=None):
        limit = ["prlimit", f"--nofile={open_files}"] if open_files else []
        self.name = name
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            [*limit, WEFT, "serve", model, "--name", name, "--port", "0", "--log-level", "info", *flags],
            stdout=subprocess.DEVNULL,
            stderr=self.log,
        )
        try:
            self.port = self._wait_for_port()
            self.url = f"http://127.0.0.1:{self.port}"
            self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)
            self.http = httpx.Client(base_url=self.url, timeout=120)
            wait_until(lambda: self.http.get("/ready").status_code == 200, "the server is ready")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.http.close()
        if self.process.poll() is None:
            self.stop()
        self.log.close()

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def stop(self):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)

    def metrics(self):
        """The value of every sample, by (name, sorted labels without model_name)."""
        text = self.http.get("/metrics").text
        values = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = {k: v for k, v in sample.labels.items() if k != "model_name"}
                values[sample.name, tuple(sorted(labels.items()))] = sample.value
        return values

    def metric(self, name, **labels):
        return self.metrics().get((f"weft:{name}", tuple(sorted(labels.items()))), 0)

    def _wait_for_port(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            found = re.search(r"at http://127\.0\.0\.1:(\d+)", self.logged())
            if found:
                return int(found[1])
            if self.process.poll() is not None:
                raise RuntimeError(f"weft serve ended with {self.process.returncode}: {self.logged()}")
            time.sleep(0.02)
        raise RuntimeError(f"weft serve did not listen within {START_SECONDS} s: {self.logged()}")


def wait_until(condition, what, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def report_latencies(latencies):
    ms = sorted(seconds * 1e3 for seconds in latencies)
    print(f"/health beside eight streams: {ms[len(ms) // 2]:.1f} ms in the middle, {ms[-1]:.1f} ms at most, {len(ms)} times")
