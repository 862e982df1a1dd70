#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/progress.h"
#include "cli/commands.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTop = 8;
constexpr uint64_t kMaxIdsBytes = 64U << 20U;

Error bad_ids(const std::filesystem::path& path, std::string_view what) {
  return {ErrorKind::kInvalidArgument, fmt::format("--ids {}: {}", path.string(), what)};
}

Result<std::vector<TokenId>> read_ids(const std::filesystem::path& path, int vocab, int context) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path);
  if (error || !file) return bad_ids(path, "cannot read the file");
  if (bytes > kMaxIdsBytes) return bad_ids(path, "the file is larger than 64 MiB");
  // The callback refuses anything deeper than the array itself, so that a hostile file cannot
  // exhaust the stack.
  bool flat = true;
  const Json json = Json::parse(
      file, [&](int depth, Json::parse_event_t, Json&) { return flat = flat && depth <= 1; },
      false);
  if (json.is_discarded() || !flat || !json.is_array() || json.empty())
    return bad_ids(path, "not a JSON array of token ids");
  if (json.size() > static_cast<size_t>(context)) {
    return bad_ids(
        path, fmt::format("{} ids do not fit into the context of {}; set --context or --kv-memory",
                          json.size(), context));
  }
  std::vector<TokenId> ids;
  for (const Json& value : json) {
    if (!value.is_number_integer() || value < 0 || value >= vocab)
      return bad_ids(path,
                     fmt::format("{} is no token id of a vocabulary of {}", value.dump(), vocab));
    ids.push_back(value.get<TokenId>());
  }
  return ids;
}

// Every position's output row, in order. The executor is idle and used by nobody else.
class Scorer {
 public:
  Scorer(Executor& executor, const std::vector<TokenId>& ids) : executor_(executor), ids_(ids) {}

  Result<std::vector<OutputRow>> run() {
    SlotInit slot;
    slot.sampling.temperature = 0;
    slot.sampling.top_logprobs = kTop;
    slot.prompt = ids_;
    executor_.open_slot(0, slot);
    const Status status = run_chunks();
    executor_.close_slot(0);
    if (!status.ok()) return status.error();
    return std::move(rows_);
  }

 private:
  Status run_chunks() {
    const ExecutorLimits& limits = executor_.limits();
    const size_t chunk = static_cast<size_t>(std::min(limits.rows, limits.output_rows));
    std::vector<BlockId> blocks((ids_.size() + kBlockPositions - 1) / kBlockPositions);
    std::iota(blocks.begin(), blocks.end(), 0);
    std::vector<TokenId> targets(ids_.begin() + 1, ids_.end());
    targets.push_back(kSample);
    ProgressBar bar("scoring", ids_.size(), ProgressUnit::kItems);
    for (size_t begin = 0; begin < ids_.size(); begin += chunk) {
      const size_t rows = std::min(chunk, ids_.size() - begin);
      Segment segment;
      segment.first_position = static_cast<int32_t>(begin);
      segment.rows = static_cast<int32_t>(rows);
      segment.row_class = RowClass::kPrefill;
      segment.tokens = std::span(ids_).subspan(begin, rows);
      segment.outputs = Outputs::kAll;
      segment.targets = std::span(targets).subspan(begin, rows);
      segment.blocks =
          std::span(blocks).first((begin + rows + kBlockPositions - 1) / kBlockPositions);
      WEFT_RETURN_IF_ERROR(run_segment(segment));
      bar.update(begin + rows);
    }
    return {};
  }

  Status run_segment(const Segment& segment) {
    const Pass pass{.id = 0, .segments = {segment}};
    executor_.start(
        Group::kAll,
        {.id = ++quantum_, .passes = {&pass}, .layer_begin = 0, .layer_end = executor_.layers()});
    Completion completion;
    while (!executor_.wait(TimePoint::max(), completion)) {
    }
    WEFT_RETURN_IF_ERROR(completion.status);
    auto& outputs = completion.outputs;
    WEFT_CHECK(outputs.size() == static_cast<size_t>(segment.rows), "{} output rows of {}",
               outputs.size(), segment.rows);
    std::sort(outputs.begin(), outputs.end(),
              [](const OutputRow& a, const OutputRow& b) { return a.row < b.row; });
    std::move(outputs.begin(), outputs.end(), std::back_inserter(rows_));
    return {};
  }

  Executor& executor_;
  const std::vector<TokenId>& ids_;
  uint64_t quantum_ = 0;
  std::vector<OutputRow> rows_;
};

Result<Json> to_json(const std::vector<OutputRow>& rows) {
  double nll = 0;
  Json positions = Json::array();
  for (size_t i = 0; i < rows.size(); ++i) {
    const OutputRow& row = rows[i];
    if (!row.finite)
      return Error{ErrorKind::kCorrupt, fmt::format("position {}: a logit is not a number", i)};
    if (i + 1 < rows.size()) nll -= row.logprob;
    Json top = Json::array();
    for (const TokenLogprob& entry : row.top)
      top.push_back({entry.token, entry.logprob + row.log_sum_exp});
    positions.push_back({{"top", std::move(top)}});
  }
  Json out = {{"schema", "weft.score.v1"}, {"tokens", rows.size()}, {"nll", nullptr}};
  if (rows.size() > 1) out["nll"] = nll / static_cast<double>(rows.size() - 1);
  out["positions"] = std::move(positions);
  return out;
}

}  // namespace

Result<int> score_command(const ScoreOptions& options) {
  LoadOptions load = options.load;
  load.max_sequences = 1;
  WEFT_ASSIGN(const LoadedModel model, load_model(load));
  Executor& executor = *model.executor;
  WEFT_ASSIGN(const std::vector<TokenId> ids,
              read_ids(options.ids, executor.vocab(), executor.limits().context));
  WEFT_ASSIGN(const std::vector<OutputRow> rows, Scorer(executor, ids).run());
  WEFT_ASSIGN(const Json out, to_json(rows));
  if (options.output.empty()) {
    std::cout << out << '\n';
    return kExitOk;
  }
  std::ofstream file(options.output);
  file << out << '\n';
  file.close();
  if (!file)
    return Error{ErrorKind::kIo, fmt::format("{}: cannot write the file", options.output.string())};
  return kExitOk;
}

}  // namespace weft
