#include "device/cpu/experts.h"

#include <algorithm>
#include <array>
#include <utility>

namespace weft {
namespace {

// So few rows that each worker chooses their experts for itself, which is quicker than to wait.
constexpr int64_t kRowsRoutedAlone = 4;
// Parts in which the rows of one expert are packed.
constexpr int64_t kPackParts = 8;
// Outputs of a row that are added up at once.
constexpr int64_t kSumWidth = 256;

int64_t packed_row_bytes(const KernelTable& kernels, ActivationFormat format, int64_t inputs) {
  return (kernels.activation_bytes(format, 1, inputs) + 63) / 64 * 64;
}

RowSource rows_of(const ExpertRows::Group& group, RowSource pairs) {
  if (pairs.rows != nullptr) {
    pairs.rows += group.first;
  } else {
    pairs.x += group.first * pairs.stride;
  }
  return pairs;
}

// The most bytes that any multiplication of experts needs: of the formats at each index, for all
// pairs and for the rows that are packed in one piece.
struct Sizes {
  std::array<int64_t, 3> pairs{};
  std::array<int64_t, 3> one_piece{};
};

void enlarge(Sizes& sizes, const MultiplyStep& step, const KernelTable& kernels, int64_t rows,
             int64_t pairs) {
  int64_t one_piece = 0;
  while (one_piece < rows && step.packs_in_one_piece(kernels, one_piece + 1)) ++one_piece;
  for (size_t f = 0; f < static_cast<size_t>(step.format_count); ++f) {
    const ActivationFormat format = step.formats[f];
    sizes.pairs[f] =
        std::max(sizes.pairs[f], pairs * packed_row_bytes(kernels, format, step.inputs));
    sizes.one_piece[f] =
        std::max(sizes.one_piece[f], kernels.activation_bytes(format, one_piece, step.inputs));
  }
}

Status allocate(ActivationBuffers& buffers, const std::array<int64_t, 3>& bytes) {
  for (size_t f = 0; f < buffers.size(); ++f) {
    WEFT_ASSIGN(buffers[f], Buffer::allocate(static_cast<size_t>(bytes[f])));
  }
  return {};
}

}  // namespace

Result<Experts> Experts::create(const ModelConfig& config, const Plan& plan,
                                const KernelTable& kernels, const ExecutorLimits& limits,
                                int threads) {
  Experts e;
  e.kernels_ = &kernels;
  e.experts_ = config.experts;
  e.used_ = config.experts_used;
  e.hidden_ = config.hidden;
  if (config.experts == 0) return e;
  const int64_t pairs = int64_t{limits.rows} * e.used_;
  if (pairs > INT32_MAX) {
    return Error{ErrorKind::kExhausted,
                 fmt::format("{} rows of {} experts each are more than a step can hold",
                             limits.rows, e.used_)};
  }
  Sizes sizes;
  for (const std::vector<Step>& layer : plan.layers) {
    for (const Step& step : layer) {
      const auto* experts = std::get_if<ExpertsStep>(&step);
      if (experts == nullptr) continue;
      enlarge(sizes, experts->gate_up, kernels, limits.rows, pairs);
      enlarge(sizes, experts->down, kernels, limits.rows, pairs);
    }
  }
  WEFT_RETURN_IF_ERROR(allocate(e.activations_, sizes.pairs));
  const auto floats = [pairs](int64_t width) {
    return static_cast<size_t>(pairs * width) * sizeof(float);
  };
  WEFT_ASSIGN(e.gate_up_, Buffer::allocate(floats(int64_t{2} * config.expert_ffn)));
  WEFT_ASSIGN(e.down_, Buffer::allocate(floats(config.hidden)));
  e.choices_.resize(static_cast<size_t>(pairs));
  e.own_.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    Own& own = e.own_.emplace_back(
        Own{std::vector<ExpertChoice>(static_cast<size_t>(kRowsRoutedAlone * e.used_)),
            ExpertRows(e.experts_, e.used_, limits.rows),
            {}});
    WEFT_RETURN_IF_ERROR(allocate(own.activations, sizes.one_piece));
  }
  return e;
}

void Experts::run(ThreadPool::Worker& worker, const ExpertsStep& step, const Operands& operands) {
  if (operands.rows == 0) return;
  const std::span<const ExpertChoice> choices = route(worker, operands);
  RowSource pairs = operands.in;
  pairs.rows = own_[static_cast<size_t>(worker.index())].sorted.rows().data();
  multiply(worker, step.gate_up, pairs, gate_up_.as<float>());
  pairs = {.op = step.down.source, .x = gate_up_.as<float>(), .stride = step.gate_up.outputs};
  multiply(worker, step.down, pairs, down_.as<float>());
  add_up(worker, choices, operands);
}

// Every worker sorts the pairs for itself: that takes less time than a wait for one that does.
std::span<const ExpertChoice> Experts::route(ThreadPool::Worker& worker, const Operands& operands) {
  Own& own = own_[static_cast<size_t>(worker.index())];
  const bool alone = operands.rows <= kRowsRoutedAlone;
  const auto used = static_cast<size_t>(used_);
  const std::span all =
      std::span(alone ? own.choices : choices_).first(static_cast<size_t>(operands.rows) * used);
  const auto choose = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const std::span<const float> logits(operands.logits + r * experts_,
                                          static_cast<size_t>(experts_));
      choose_experts(logits, all.subspan(static_cast<size_t>(r) * used, used));
    }
  };
  if (!alone) worker.parallel_for(operands.rows, worker.grain(operands.rows), choose);
  worker.alone([&] {
    if (alone) choose(0, operands.rows);
    own.sorted.sort(all);
  });
  return all;
}

// Where the group's rows are packed; a group of n rows needs no more than n rows one by one.
Activations Experts::shared_activations(const MultiplyStep& step, const ExpertRows::Group& group) {
  Activations at{};
  for (size_t f = 0; f < static_cast<size_t>(step.format_count); ++f) {
    at[f] = activations_[f].data() +
            group.first * packed_row_bytes(*kernels_, step.formats[f], step.inputs);
  }
  return at;
}

void Experts::pack_together(ThreadPool::Worker& worker, const MultiplyStep& step,
                            const RowSource& pairs) {
  const auto groups = own_[static_cast<size_t>(worker.index())].sorted.groups();
  const auto items = static_cast<int64_t>(groups.size()) * kPackParts;
  worker.parallel_for(items, 1, [&](int64_t item, int64_t /*end*/) {
    const ExpertRows::Group& group = groups[static_cast<size_t>(item / kPackParts)];
    step.pack(*kernels_, rows_of(group, pairs), group.rows, item % kPackParts, kPackParts,
              shared_activations(step, group));
  });
}

// out: [pairs, step.outputs].
void Experts::multiply(ThreadPool::Worker& worker, const MultiplyStep& step, const RowSource& pairs,
                       float* out) {
  Own& own = own_[static_cast<size_t>(worker.index())];
  const auto groups = own.sorted.groups();
  // As in a dense layer: what only one worker could pack, each packs for itself.
  const bool alone = step.packs_in_one_piece(*kernels_, own.sorted.largest());
  if (!alone) pack_together(worker, step, pairs);
  const ExpertRows::Group* packed = nullptr;  // whose rows this worker has packed last
  const int64_t items = static_cast<int64_t>(groups.size()) * step.panels;
  // Groups differ in rows: no piece is a large part of one.
  const int64_t grain = std::clamp<int64_t>(items / (int64_t{32} * worker.count()), 1,
                                            std::max<int64_t>(1, step.panels / 4));
  worker.parallel_for(items, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t first = begin / step.panels * step.panels;
      const int64_t here = std::min(end, first + step.panels);
      const ExpertRows::Group& group = groups[static_cast<size_t>(begin / step.panels)];
      const Activations activations =
          alone ? starts(own.activations) : shared_activations(step, group);
      if (alone && std::exchange(packed, &group) != &group) {
        step.pack(*kernels_, rows_of(group, pairs), group.rows, 0, 1, activations);
      }
      step.multiply(*kernels_, group.expert, activations, group.rows, begin - first, here - first,
                    {.out = out + group.first * step.outputs, .stride = step.outputs});
      begin = here;
    }
  });
}

void Experts::add_up(ThreadPool::Worker& worker, std::span<const ExpertChoice> choices,
                     const Operands& operands) {
  const auto places = own_[static_cast<size_t>(worker.index())].sorted.places();
  const int64_t slices = (hidden_ + kSumWidth - 1) / kSumWidth;
  const int64_t items = operands.rows * slices;
  const int64_t grain = worker.grain(items);
  worker.parallel_for(items, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / slices;
      const int64_t column = item % slices * kSumWidth;
      const int64_t width = std::min(kSumWidth, hidden_ - column);
      std::array<float, kSumWidth> sum{};
      for (int64_t pair = row * used_; pair < (row + 1) * used_; ++pair) {
        const float weight = choices[static_cast<size_t>(pair)].weight;
        const float* x =
            down_.as<float>() + int64_t{places[static_cast<size_t>(pair)]} * hidden_ + column;
        for (int64_t i = 0; i < width; ++i) sum[static_cast<size_t>(i)] += weight * x[i];
      }
      float* out = operands.out + row * hidden_ + column;
      for (int64_t i = 0; i < width; ++i) out[i] += sum[static_cast<size_t>(i)];
    }
  });
}

}  // namespace weft
