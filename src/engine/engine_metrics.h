#pragma once
// The engine's metrics, under the names and with the buckets that dashboards made for vLLM expect.

#include <map>
#include <optional>

#include "base/clock.h"
#include "engine/cost_model.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "metrics/registry.h"

namespace weft {

// Called by the engine thread. Each function is told the time; none reads a clock.
class EngineMetrics {
 public:
  explicit EngineMetrics(MetricsRegistry& registry);

  void admitted(RequestTimes& times,
                TimePoint now);                   // again after a preemption: only the first counts
  void looked_up(int prompt_tokens, int cached);  // in the prefix cache
  void preempted() { preemptions_.Increment(); }
  void prompt(int tokens) { prompt_tokens_.Increment(tokens); }  // a request's whole prompt has run
  // `prompt_quanta`: how many quanta with prompt rows have run by now. Returns for how long the
  // stream was stalled by them: what its gap has beyond its own gaps without any.
  Duration token(RequestTimes& times, TimePoint now, uint64_t prompt_quanta);
  void finished(const RequestTimes& times, FinishReason reason, int output_tokens, TimePoint now);
  void opened(int rows, int64_t padded_rows);  // a pass of prompts
  void quantum(const Work& work, int prompt_rows, Duration predicted, Duration took);
  void missed() { missed_steps_.Increment(); }
  void load(int running, int waiting, double kv_usage);
  // Core-seconds while work waited: where they went, and how many the work needs at least, where
  // that is known.
  void cores(const CoreTime& so_far, std::optional<double> roofline);

 private:
  // A gap of streams while no prompt ran: what a stream that never had one of its own is held to.
  std::optional<Duration> streams_gap_;

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
  prometheus::Counter& prefix_queries_;
  prometheus::Counter& prefix_hits_;
  prometheus::Counter& stall_;
  prometheus::Counter& layer_switches_;
  prometheus::Counter& missed_steps_;
  prometheus::Counter& prompt_rows_;
  prometheus::Counter& padded_rows_;
  prometheus::Histogram& tile_rows_;
  prometheus::Histogram& tile_layers_;
  prometheus::Histogram& predicted_ratio_;
  prometheus::Gauge& busy_;
  prometheus::Gauge& barrier_;
  prometheus::Gauge& idle_;
  prometheus::Gauge& busy_share_;
  MetricsRegistry& registry_;
  prometheus::Gauge* roofline_share_ = nullptr;  // made when it is known first
  std::map<FinishReason, prometheus::Counter*> finished_;
};

}  // namespace weft
