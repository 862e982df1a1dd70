#pragma once
// The engine's metrics, under the names and with the buckets that dashboards made for vLLM expect.

#include <map>

#include "base/clock.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "metrics/registry.h"

namespace weft {

// Called by the engine thread. Each function is told the time; none reads a clock.
class EngineMetrics {
 public:
  explicit EngineMetrics(MetricsRegistry& registry);

  void admitted(RequestTimes& times,
                TimePoint now);  // again after a preemption: only the first counts
  void preempted() { preemptions_.Increment(); }
  void prompt(int tokens) { prompt_tokens_.Increment(tokens); }  // a request's whole prompt has run
  void token(RequestTimes& times, TimePoint now);
  void finished(const RequestTimes& times, FinishReason reason, int output_tokens, TimePoint now);
  void step(int rows) { iteration_tokens_.Observe(rows); }
  void load(int running, int waiting, double kv_usage);

 private:
  prometheus::Histogram& ttft_;
  prometheus::Histogram& itl_;
  prometheus::Histogram& tpot_;
  prometheus::Histogram& e2e_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& iteration_tokens_;
  prometheus::Gauge& running_;
  prometheus::Gauge& waiting_;
  prometheus::Gauge& kv_usage_;
  prometheus::Counter& preemptions_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generation_tokens_;
  std::map<FinishReason, prometheus::Counter*> finished_;
};

}  // namespace weft
