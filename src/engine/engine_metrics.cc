#include "engine/engine_metrics.h"

#include <string>
#include <vector>

namespace weft {
namespace {

const std::vector<double> kFirstTokenBuckets{0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                             0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                             20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
const std::vector<double> kTokenGapBuckets{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                           0.3,  0.4,   0.5,  0.75,  1.0, 2.5,  5.0,
                                           7.5,  10.0,  20.0, 40.0,  80.0};
const std::vector<double> kRequestBuckets{0.3,  0.5,  0.8,  1.0,   1.5,   2.0,   2.5,
                                          5.0,  10.0, 15.0, 20.0,  30.0,  40.0,  50.0,
                                          60.0, 120., 240., 480.0, 960.0, 1920., 7680.};
const std::vector<double> kRowBuckets{1,   8,    16,   32,   64,   128,  256,
                                      512, 1024, 2048, 4096, 8192, 16384};

const std::vector<double> kLayerBuckets{1, 2, 4, 8, 16, 32, 64, 128};
const std::vector<double> kRatioBuckets{0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2, 4};
// How fast the idea of a gap without prompts follows the gaps.
constexpr double kOwnGapRate = 0.2;

// vLLM's word for a request whose client left is "abort"; the other reasons have their own names.
std::string reason_label(FinishReason reason) {
  return reason == FinishReason::kCancelled ? "abort" : std::string(finish_reason_name(reason));
}

void follow(std::optional<Duration>& mean, Duration gap) {
  const Duration last = mean.value_or(gap);
  mean = last +
         Duration(static_cast<int64_t>(kOwnGapRate * static_cast<double>((gap - last).count())));
}

constexpr FinishReason kReasons[] = {FinishReason::kStop, FinishReason::kLength,
                                     FinishReason::kCancelled, FinishReason::kTimeout,
                                     FinishReason::kError};

}  // namespace

EngineMetrics::EngineMetrics(MetricsRegistry& registry)
    : ttft_(registry.histogram("time_to_first_token_seconds",
                               "Seconds from a request's arrival to its first token.",
                               kFirstTokenBuckets)),
      itl_(registry.histogram("inter_token_latency_seconds",
                              "Seconds between two tokens of a request.", kTokenGapBuckets)),
      tpot_(registry.histogram("request_time_per_output_token_seconds",
                               "Mean seconds per token after the first, one value a request.",
                               kTokenGapBuckets)),
      e2e_(registry.histogram("e2e_request_latency_seconds",
                              "Seconds from a request's arrival to its end.", kRequestBuckets)),
      queue_(registry.histogram("request_queue_time_seconds",
                                "Seconds from a request's arrival to its first admission.",
                                kRequestBuckets)),
      iteration_tokens_(registry.histogram("iteration_tokens_total",
                                           "Rows that ran together in a step.", kRowBuckets)),
      running_(registry.gauge("num_requests_running", "Requests on the device.")),
      waiting_(registry.gauge("num_requests_waiting", "Requests in the queue.")),
      kv_usage_(registry.gauge("kv_cache_usage_perc", "Share of the KV blocks in use; 1 is all.")),
      preemptions_(registry.counter("num_preemptions_total",
                                    "Requests sent back to the queue for want of KV blocks.")),
      prompt_tokens_(registry.counter("prompt_tokens_total",
                                      "Prompt tokens of the requests whose prompt has run.")),
      generation_tokens_(registry.counter("generation_tokens_total", "Tokens generated.")),
      prefix_queries_(registry.counter("prefix_cache_queries_total",
                                       "Prompt tokens looked up in the prefix cache.")),
      prefix_hits_(
          registry.counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.")),
      stall_(registry.counter("stall_seconds_total",
                              "Seconds by which prompts lengthened the gaps of streams.")),
      layer_switches_(registry.counter("layer_switches_total",
                                       "Quanta: switches between rows at a layer boundary.")),
      missed_steps_(registry.counter(
          "target_missed_quanta_total",
          "Quanta for prompts that ran although a stream would be late, for prompts' floor.")),
      prompt_rows_(registry.counter("prompt_rows_total", "Rows of passes of prompts.")),
      padded_rows_(registry.counter("padded_rows_total",
                                    "Rows added to passes of prompts to fill the device's tiles.")),
      tile_rows_(registry.histogram("tile_rows", "Prompt rows of a quantum that has some: a tile.",
                                    kRowBuckets)),
      tile_layers_(registry.histogram("tile_layers", "Layers of such a tile.", kLayerBuckets)),
      predicted_ratio_(registry.histogram("quantum_measured_to_predicted",
                                          "Time that a quantum took by the time predicted for it.",
                                          kRatioBuckets)),
      busy_(registry.gauge("core_busy_seconds",
                           "Core-seconds in operators while work waited, since the start.")),
      barrier_(registry.gauge("core_barrier_seconds",
                              "Core-seconds waiting for other cores while work waited.")),
      idle_(
          registry.gauge("core_idle_seconds", "Core-seconds without a quantum while work waited.")),
      busy_share_(registry.gauge("core_busy_share",
                                 "Share of the cores' time in operators while work waited.")),
      registry_(registry) {
  for (const FinishReason reason : kReasons) {
    finished_[reason] =
        &registry.counter("request_success_total", "Requests that ended, by reason.",
                          {{"finished_reason", reason_label(reason)}});
  }
}

void EngineMetrics::admitted(RequestTimes& times, TimePoint now) {
  if (times.admitted) return;
  times.admitted = now;
  queue_.Observe(seconds(now - times.arrival));
}

void EngineMetrics::looked_up(int prompt_tokens, int cached) {
  prefix_queries_.Increment(prompt_tokens);
  prefix_hits_.Increment(cached);
}

Duration EngineMetrics::token(RequestTimes& times, TimePoint now, uint64_t prompt_quanta) {
  Duration stall{};
  if (!times.first_token) {
    times.first_token = now;
    ttft_.Observe(seconds(now - times.arrival));
  } else {
    const Duration gap = now - times.last_token;
    itl_.Observe(seconds(gap));
    if (prompt_quanta == times.prompt_quanta) {
      follow(times.own_gap, gap);
      follow(streams_gap_, gap);
    } else if (const auto expected = times.own_gap ? times.own_gap : streams_gap_;
               expected && gap > *expected) {
      stall = gap - *expected;
      stall_.Increment(seconds(stall));
    }
  }
  times.last_token = now;
  times.prompt_quanta = prompt_quanta;
  generation_tokens_.Increment();
  return stall;
}

void EngineMetrics::opened(int rows, int64_t padded_rows) {
  prompt_rows_.Increment(rows);
  padded_rows_.Increment(static_cast<double>(padded_rows));
}

void EngineMetrics::quantum(const Work& work, int prompt_rows, Duration predicted, Duration took) {
  iteration_tokens_.Observe(work.rows);
  if (prompt_rows > 0) {
    tile_rows_.Observe(prompt_rows);
    tile_layers_.Observe(work.layers);
  }
  layer_switches_.Increment();
  if (predicted > Duration{}) predicted_ratio_.Observe(seconds(took) / seconds(predicted));
}

void EngineMetrics::cores(const CoreTime& so_far, std::optional<double> roofline) {
  const double all = so_far.operators + so_far.barriers + so_far.idle;
  busy_.Set(so_far.operators);
  barrier_.Set(so_far.barriers);
  idle_.Set(so_far.idle);
  busy_share_.Set(all > 0 ? so_far.operators / all : 0);
  if (!roofline) return;
  if (roofline_share_ == nullptr) {
    roofline_share_ = &registry_.gauge("roofline_share",
                                       "What the work needs at the machine's limits, as a share "
                                       "of the cores' time while work waited.");
  }
  roofline_share_->Set(all > 0 ? *roofline / all : 0);
}

void EngineMetrics::finished(const RequestTimes& times, FinishReason reason, int output_tokens,
                             TimePoint now) {
  finished_.at(reason)->Increment();
  // The time of a request that was cut short says when it was cut, not how fast it was served.
  if (reason != FinishReason::kStop && reason != FinishReason::kLength) return;
  e2e_.Observe(seconds(now - times.arrival));
  if (output_tokens > 1 && times.first_token) {
    tpot_.Observe(seconds(times.last_token - *times.first_token) / (output_tokens - 1));
  }
}

void EngineMetrics::load(int running, int waiting, double kv_usage) {
  running_.Set(running);
  waiting_.Set(waiting);
  kv_usage_.Set(kv_usage);
}

}  // namespace weft
