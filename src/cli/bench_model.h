#pragma once
// `weft bench model`: how fast prompts are read and tokens generated, alone or beside a peer on the
// same machine.

#include <map>
#include <string>

#include "base/result.h"
#include "device/executor.h"

namespace weft {

// One round's figures in tokens per second, by name: "prefill 512" for a prompt of 512 tokens,
// "decode x4" for four sequences at once, all of their tokens together.
using BenchRates = std::map<std::string, double>;

// A prompt of `tokens` random ids, read in chunks of as many rows as the executor takes, up to and
// with the head's first sample.
double measure_prefill(Executor& executor, int tokens);
// `streams` sequences of 24 prompt tokens each generate `tokens` further ones; the rate of the
// median step.
double measure_decode(Executor& executor, int streams, int tokens);

// The figures in what a peer printed: llama-bench's `-o json`, or one JSON object of numbers whose
// keys are the names above.
Result<BenchRates> parse_peer_output(const std::string& text);

}  // namespace weft
