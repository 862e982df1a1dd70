#include "cli/bench_mixed.h"

#include <algorithm>
#include <ctime>
#include <iostream>
#include <random>
#include <thread>

#include "base/cpu.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/mixed_picture.h"
#include "cli/mixed_player_engine.h"
#include "cli/mixed_player_http.h"
#include "cli/mixed_report.h"
#include "cli/text_file.h"
#include "server/server.h"

namespace weft {
namespace {

constexpr double kSmallItlMs = 60;
constexpr double kLargeItlMs = 250;
constexpr double kSmallTtftMs = 2000;
constexpr double kLargeTtftMs = 10000;
constexpr int kMostSequences = 64;
constexpr uint64_t kIndicesOfARepeat = 1'000'000;

uint64_t parameters_of(const DummyShape& s) {
  const auto hidden = static_cast<uint64_t>(s.hidden);
  const int ffn = s.experts > 0 ? s.experts * s.expert_ffn : s.ffn;
  const int rows = 2 * (s.heads + s.kv_heads) * s.head_dim + 3 * ffn;
  return hidden * (static_cast<uint64_t>(s.layers) * static_cast<uint64_t>(rows) +
                   static_cast<uint64_t>(s.vocab) * (s.tied_head ? 1 : 2));
}

Result<uint64_t> parameters_of(const LoadOptions& load) {
  if (load.dummy) return parameters_of(load.dummy->shape);
  WEFT_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(load.model));
  uint64_t count = 0;
  for (const NamedTensor& tensor : checkpoint.tensors())
    count += static_cast<uint64_t>(tensor.view.shape.elements());
  return count;
}

std::vector<Mode> modes_of(const BenchMixedOptions& options) {
  if (options.modes) return *options.modes;
  if (options.workload.quick) return {Mode::kSerial, Mode::kFused, Mode::kSplit};
  return {Mode::kSerial, Mode::kChunked, Mode::kLayered, Mode::kFused, Mode::kSplit, Mode::kAuto};
}

// Serves while it lives.
class LocalServer {
 public:
  explicit LocalServer(std::unique_ptr<Server> server)
      : server_(std::move(server)), thread_([this] { server_->run(); }) {}
  ~LocalServer() {
    server_->stop(Duration::zero());
    thread_.join();
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;
  HttpAddress address() const {
    return {.host = "127.0.0.1", .port = std::to_string(server_->port()), .path = ""};
  }

 private:
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// Everything that is the same for all subjects.
struct Plan {
  const BenchMixedOptions& options;
  SchedulingOptions scheduling;
  std::vector<MixedPhase> phases;
  std::vector<Mode> modes;
  const LoadedModel& model;
  MachineCosts costs;
  std::vector<TokenId> vocabulary;
  uint64_t salt = 0;  // of prompts for other servers, whose caches live longer than a run
  std::function<void(uint64_t)> on_work;
};

// Plays all phases; those that end are in `records` also where a later one fails.
Status play_phases(const Plan& plan, Player& player, std::function<EngineStats()> stats,
                   uint64_t seed, int repeat, std::vector<PhaseRecord>& records) {
  const uint64_t first = static_cast<uint64_t>(repeat) * kIndicesOfARepeat;
  {
    MixedRun warm_up(player, {.seed = seed,
                              .first_index = first + kIndicesOfARepeat / 2,
                              .vocabulary = plan.vocabulary});
    WEFT_ASSIGN(const PhaseRecord ignored,
                warm_up.play({.name = "", .requests = {{{}, kStreamPrompt, 8}}}));
  }
  MixedRun run(player, {.seed = seed, .first_index = first, .vocabulary = plan.vocabulary},
               std::move(stats), plan.on_work);
  for (const MixedPhase& phase : plan.phases) {
    WEFT_ASSIGN(PhaseRecord record, run.play(phase));
    records.push_back(std::move(record));
  }
  return {};
}

// "trace.json" becomes "trace.fused.json" where there are several traces.
std::filesystem::path trace_of(const Plan& plan, Mode mode) {
  std::filesystem::path path = plan.scheduling.trace;
  if (path.empty() || plan.modes.size() < 2) return path;
  const std::string extension = path.extension().string();
  return path.replace_extension(std::string(mode_name(mode)) + extension);
}

Status play_mode(const Plan& plan, Mode mode, int repeat, std::vector<PhaseRecord>& records) {
  SchedulingOptions scheduling = plan.scheduling;
  scheduling.mode = mode;
  scheduling.trace = trace_of(plan, mode);
  const SteadyClock clock;
  MetricsRegistry metrics("weft:", plan.model.name);
  WEFT_ASSIGN(const ServingEngine serving,
              start_engine(plan.model, metrics, clock, scheduling, plan.costs));
  Engine& engine = *serving.engine;
  const auto stats = [&engine] { return engine.stats(); };
  const uint64_t seed = plan.options.workload.seed;
  if (plan.options.in_process) {
    EnginePlayer player(engine, clock);
    return play_phases(plan, player, stats, seed, repeat, records);
  }
  WEFT_ASSIGN(std::unique_ptr<Server> listening,
              Server::listen({.engine = &engine,
                              .tokenizer = plan.model.tokenizer.get(),
                              .chat_template = plan.model.chat_template.get(),
                              .metrics = &metrics},
                             {.port = 0, .model_name = plan.model.name}));
  const LocalServer server(std::move(listening));
  WEFT_ASSIGN(const std::unique_ptr<HttpPlayer> player, HttpPlayer::connect(server.address()));
  return play_phases(plan, *player, stats, seed, repeat, records);
}

Status play_against(const Plan& plan, const HttpAddress& address, int repeat,
                    std::vector<PhaseRecord>& records) {
  HttpPlayer::ToText to_text;
  if (plan.options.as_text) {
    to_text = [&](std::span<const TokenId> ids) {
      return plan.model.tokenizer->decode(ids, false);
    };
  }
  WEFT_ASSIGN(const std::unique_ptr<HttpPlayer> player, HttpPlayer::connect(address, to_text));
  return play_phases(plan, *player, {}, plan.options.workload.seed ^ plan.salt, repeat, records);
}

// In turn, so that what else the machine does meets all alike. A subject that failed is left out
// from then on.
std::vector<MixedSubject> play_all(const Plan& plan, const std::vector<HttpAddress>& against) {
  std::vector<MixedSubject> subjects;
  subjects.reserve(plan.modes.size() + against.size());
  for (const Mode mode : plan.modes)
    subjects.push_back({.name = std::string(mode_name(mode)), .repeats = {}, .error = {}});
  for (const HttpAddress& address : against)
    subjects.push_back({.name = address.text(), .repeats = {}, .error = {}});
  for (int repeat = 0; repeat < plan.options.repeats; ++repeat) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      MixedSubject& subject = subjects[i];
      if (!subject.error.empty()) continue;
      std::vector<PhaseRecord>& records = subject.repeats.emplace_back();
      const Status status =
          i < plan.modes.size()
              ? play_mode(plan, plan.modes[i], repeat, records)
              : play_against(plan, against[i - plan.modes.size()], repeat, records);
      if (!status.ok()) subject.error = status.error().message;
      if (records.empty()) subject.repeats.pop_back();
    }
  }
  return subjects;
}

// Before all is played, not after.
Status check_outputs(const BenchMixedOptions& options) {
  if (options.json != "-") WEFT_RETURN_IF_ERROR(check_writable(options.json));
  for (const std::filesystem::path* path : {&options.html, &options.svg, &options.scheduling.trace})
    WEFT_RETURN_IF_ERROR(check_writable(*path));
  return {};
}

Status report(const MixedResult& result, const BenchMixedOptions& options) {
  if (options.json == "-") {
    std::cout << mixed_json(result).dump(2) << '\n';
  } else {
    std::cout << mixed_table(result);
    if (!options.json.empty())
      WEFT_RETURN_IF_ERROR(write_text(options.json, mixed_json(result).dump(2) + '\n'));
  }
  if (!options.html.empty()) WEFT_RETURN_IF_ERROR(write_text(options.html, mixed_page(result)));
  if (!options.svg.empty()) WEFT_RETURN_IF_ERROR(write_text(options.svg, mixed_svg(result)));
  return {};
}

MixedResult describe(const Plan& plan, const MixedTargets& targets) {
  const ExecutorLimits& limits = plan.model.executor->limits();
  MixedResult result;
  result.model = plan.model.name;
  result.cpu = read_cpu_topology().model;
  result.executor = plan.model.executor->description();
  result.workload = kWorkloadNames[static_cast<size_t>(plan.options.workload.kind)];
  if (plan.options.workload.quick) result.workload += " (quick)";
  result.transport = plan.options.in_process ? "in process" : "over HTTP";
  result.seed = plan.options.workload.seed;
  result.context = limits.context;
  result.sequences = limits.slots;
  result.kv_positions = limits.blocks * kBlockPositions;
  result.targets = targets;
  return result;
}

}  // namespace

Result<int> bench_mixed_command(const BenchMixedOptions& options) {
  WEFT_RETURN_IF_ERROR(init_log("warn"));
  WEFT_RETURN_IF_ERROR(check_outputs(options));
  std::vector<HttpAddress> against;
  for (const std::string& url : options.against) {
    WEFT_ASSIGN(against.emplace_back(), parse_http_address(url));
  }
  WEFT_ASSIGN(const uint64_t parameters, parameters_of(options.load));
  const bool large = parameters > kLargeModel;
  WEFT_ASSIGN(std::vector<MixedPhase> phases,
              make_workload(complete_workload(options.workload, large)));
  const std::vector<Mode> modes = modes_of(options);
  if (modes.empty() && against.empty())
    return Error{ErrorKind::kInvalidArgument, "--modes none leaves nothing to measure"};

  SchedulingOptions scheduling = options.scheduling;
  if (scheduling.itl_target == 0) scheduling.itl_target = large ? kLargeItlMs : kSmallItlMs;
  const double ttft_ms =
      options.ttft_target > 0 ? options.ttft_target : (large ? kLargeTtftMs : kSmallTtftMs);
  LoadOptions load = options.load;
  if (load.context == 0) load.context = longest_sequence(phases);
  if (load.context < longest_sequence(phases)) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("--context {}: this workload has sequences of {} tokens", load.context,
                             longest_sequence(phases))};
  }
  WEFT_ASSIGN(load.max_sequences, sequences_of(phases, kMostSequences));
  scheduling.mode =
      std::any_of(modes.begin(), modes.end(), has_groups) ? Mode::kSplit : Mode::kSerial;
  WEFT_RETURN_IF_ERROR(prepare_load(scheduling, load));
  WEFT_ASSIGN(const LoadedModel model, load_model(load));

  const uint64_t total =
      work_of(phases) * (modes.size() + against.size()) * static_cast<uint64_t>(options.repeats);
  MachineCosts costs;
  if (!modes.empty()) {
    WEFT_ASSIGN(costs, measure_costs(model));
  }
  Plan plan{.options = options,
            .scheduling = scheduling,
            .phases = std::move(phases),
            .modes = modes,
            .model = model,
            .costs = costs,
            .vocabulary = prompt_vocabulary(*model.tokenizer),
            .salt = std::random_device()(),
            .on_work = {}};
  ProgressBar bar("playing", total, ProgressUnit::kItems);
  plan.on_work = [&, done = uint64_t{0}](uint64_t tokens) mutable { bar.update(done += tokens); };
  MixedResult result = describe(plan, {.itl = scheduling.itl_target / 1e3, .ttft = ttft_ms / 1e3});
  result.subjects = play_all(plan, against);
  bar.clear();
  WEFT_RETURN_IF_ERROR(report(result, options));
  const bool failed =
      std::any_of(result.subjects.begin(), result.subjects.end(),
                  [](const MixedSubject& subject) { return !subject.error.empty(); });
  return failed ? kExitFailure : kExitOk;
}

}  // namespace weft
