#!/usr/bin/env python3
"""Asks a running server one question over HTTP and shows the answer as it streams: ask.py ADDRESS QUESTION."""

import http.client
import json
import sys
import time
import urllib.parse


def events(response):
    """The JSON objects of a stream of server-sent events."""
    for line in response:
        if not line.startswith(b"data:"):
            continue
        data = line[len(b"data:"):].strip()
        if data == b"[DONE]":
            return
        yield json.loads(data)


def main(address, question):
    body = {
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 200,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    print(f"> {question}\n")
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc, timeout=120)
    sent = time.monotonic()
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        sys.exit(f"error: HTTP {response.status}: {response.read().decode(errors='replace')}")

    first = last = None
    usage = None
    for event in events(response):
        if "error" in event:
            sys.exit(f"\nerror: {event['error'].get('message', event['error'])}")
        usage = event.get("usage") or usage
        for choice in event.get("choices", []):
            text = choice.get("delta", {}).get("content")
            if text:
                last = time.monotonic()
                first = first or last
                print(text, end="", flush=True)
    print()
    if first is None or usage is None:
        sys.exit("error: the server sent no answer")
    tokens = usage["completion_tokens"]
    rate = f"{(tokens - 1) / (last - first):.1f} tokens/s" if last > first else "one piece"
    print(f"\ntime to first token {(first - sent) * 1000:.0f} ms, {tokens} tokens, {rate}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
