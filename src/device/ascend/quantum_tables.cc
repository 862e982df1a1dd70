#include "device/ascend/quantum_tables.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace weft {

using weft_ascend::AttentionSegment;
using weft_ascend::Descriptor;
using weft_ascend::PassEntry;
using weft_ascend::RowTables;
using weft_ascend::SampleResult;
using weft_ascend::SampleRow;

namespace {

constexpr float kNoFloor = -std::numeric_limits<float>::infinity();
constexpr float kBelowOne = 0x1.fffffep-1F;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

bool drawn_on_device(const SamplingParams& params) {
  return params.repetition_penalty == 1 && params.presence_penalty == 0 &&
         params.frequency_penalty == 0 && params.logit_bias.empty() &&
         (params.forbidden.empty() || params.min_tokens <= 0) && params.top_logprobs < 0;
}

void QuantumTables::Rows::clear() {
  positions.clear();
  places.clear();
  prefill.clear();
  decode.clear();
}

// Rows [first, first + rows) of the segment. Both attentions give a row the same bits, so that only
// their speed counts: one row alone has its keys spread over the cores.
void QuantumTables::Rows::add(const Segment& segment, int first, int rows, int32_t table) {
  const int32_t first_position = segment.first_position + first;
  (rows == 1 ? decode : prefill)
      .push_back({static_cast<int32_t>(positions.size()), rows, first_position, table});
  for (int32_t position = first_position; position < first_position + rows; ++position) {
    const BlockId block = segment.blocks[static_cast<size_t>(position / kBlockPositions)];
    positions.push_back(position);
    places.push_back(block * kBlockPositions + position % kBlockPositions);
  }
}

std::vector<AttentionSegment> QuantumTables::Rows::segments() const {
  std::vector<AttentionSegment> all = prefill;
  all.insert(all.end(), decode.begin(), decode.end());
  return all;
}

void QuantumTables::fill(const Quantum& quantum, weft_ascend::TeamKind team,
                         const Context& context) {
  for (Rows* rows : {&all_, &kept_}) rows->clear();
  for (auto* table : {&tokens_, &block_table_, &fresh_, &output_rows_}) table->clear();
  passes_.clear();
  samples_.clear();
  outputs_.clear();
  head_rows_ = context.head_rows;
  const bool ends_at_head = quantum.layer_end == context.layers;
  for (size_t p = 0; p < quantum.passes.size(); ++p) {
    const Pass& pass = *quantum.passes[p];
    add_pass(pass, quantum, context);
    for (size_t s = 0; s < pass.segments.size(); ++s) {
      const auto table = static_cast<int32_t>(block_table_.size());
      const auto first_row = static_cast<int32_t>(tokens_.size());
      add_segment(pass.segments[s], context);
      if (ends_at_head) {
        add_outputs(pass.segments[s], static_cast<int>(p), static_cast<int>(s), first_row, table,
                    context);
      }
    }
  }
  descriptor_ = {};
  descriptor_.wanted = 1;
  descriptor_.team = team;
  descriptor_.layer_begin = quantum.layer_begin;
  descriptor_.layer_end = quantum.layer_end;
  lay_out();
}

void QuantumTables::add_pass(const Pass& pass, const Quantum& quantum, const Context& context) {
  const auto sent_here = [&](BoardId board) {
    return std::any_of(quantum.passes.begin(), quantum.passes.end(),
                       [board](const Pass* other) { return other->sends == board; });
  };
  const auto base = [&](BoardId board) { return context.boards[static_cast<size_t>(board)].base; };
  PassEntry entry{};
  entry.pass = pass.id;
  entry.first_row = static_cast<int32_t>(tokens_.size());
  entry.rows = static_cast<int32_t>(pass.rows());
  entry.sends = pass.sends;
  if (pass.sends != kNoBoard) entry.sends_base = base(pass.sends);
  // Within a quantum barriers see to it that rows are stored before they are read.
  entry.follows = pass.follows == kNoBoard || sent_here(pass.follows) ? kNoBoard : pass.follows;
  if (entry.follows != kNoBoard) entry.follows_base = base(entry.follows);
  passes_.push_back(entry);
}

void QuantumTables::add_segment(const Segment& segment, const Context& context) {
  const int end = segment.first_position + segment.rows;
  const bool last_sample = segment.tokens.empty();
  const auto slot = static_cast<size_t>(segment.slot);
  const auto blocks = static_cast<size_t>((end + kBlockPositions - 1) / kBlockPositions);
  WEFT_CHECK(segment.rows > 0 && segment.first_position >= 0 && end <= limits_.context,
             "positions {} to {}", segment.first_position, end);
  WEFT_CHECK(rows() + segment.rows <= limits_.rows, "more than {} rows in a quantum", limits_.rows);
  WEFT_CHECK(slot < context.slots.size(), "slot {}", segment.slot);
  WEFT_CHECK(last_sample ? segment.rows == 1
                         : segment.tokens.size() == static_cast<size_t>(segment.rows));
  WEFT_CHECK(segment.blocks.size() >= blocks, "{} blocks for {} positions", segment.blocks.size(),
             end);
  for (const BlockId block : segment.blocks.first(blocks)) {
    WEFT_CHECK(block >= 0 && block < limits_.blocks, "block {}", block);
  }
  all_.add(segment, 0, segment.rows, static_cast<int32_t>(block_table_.size()));
  block_table_.insert(block_table_.end(), segment.blocks.begin(),
                      segment.blocks.begin() + static_cast<ptrdiff_t>(blocks));
  for (int r = 0; r < segment.rows; ++r) {
    const TokenId token =
        last_sample ? context.slots[slot].last() : segment.tokens[static_cast<size_t>(r)];
    WEFT_CHECK(token >= 0 && token < context.vocab, "token {} of {}", token, context.vocab);
    const bool from_table = last_sample && context.token_on_device[slot] != 0;
    tokens_.push_back(from_table ? -1 - segment.slot : token);
    const int position = segment.first_position + r;
    if (position % kBlockPositions == 0) {
      fresh_.push_back(segment.blocks[static_cast<size_t>(position / kBlockPositions)]);
    }
  }
}

void QuantumTables::add_outputs(const Segment& segment, int pass, int index, int32_t first_row,
                                int32_t table, const Context& context) {
  if (segment.outputs == Outputs::kNone) return;
  const bool all = segment.outputs == Outputs::kAll;
  WEFT_CHECK(segment.targets.size() == (all ? static_cast<size_t>(segment.rows) : 0));
  const int first = all ? 0 : segment.rows - 1;
  const SamplerState& slot = context.slots[static_cast<size_t>(segment.slot)];
  kept_.add(segment, first, segment.rows - first, table);
  for (int r = first; r < segment.rows; ++r) {
    Output output;
    output.pass = pass;
    output.segment = index;
    output.segment_row = r;
    output.slot = segment.slot;
    output.position = segment.first_position + r;
    if (all) output.target = segment.targets[static_cast<size_t>(r)];
    output.on_device = output.target == kSample && drawn_on_device(slot.params());
    outputs_.push_back(output);
    output_rows_.push_back(first_row + r);
    samples_.push_back(sample_row_of(output, slot));
  }
}

SampleRow QuantumTables::sample_row_of(const Output& output, const SamplerState& slot) const {
  SampleRow entry{};
  entry.top_p = 1;
  entry.floor = kNoFloor;
  entry.slot = output.on_device ? output.slot : -1;
  const SamplingParams& params = slot.params();
  if (!output.on_device || params.temperature <= 0) return entry;
  const float temperature = std::max(params.temperature, 1e-6F);
  entry.inverse_temperature = 1 / temperature;
  entry.top_k = std::max(params.top_k, 0);
  entry.top_p = params.top_p;
  if (params.min_p > 0) entry.floor = std::min(0.0F, temperature * std::log(params.min_p));
  entry.uniform = std::min(static_cast<float>(slot.uniform(output.position)), kBelowOne);
  return entry;
}

// The next piece's offset; each begins at a multiple of what a kernel may rely on.
uint64_t QuantumTables::reserve(size_t bytes) {
  const uint64_t offset = bytes_;
  bytes_ = static_cast<uint64_t>(
      weft_ascend::RoundUp64(static_cast<int64_t>(bytes_ + bytes), weft_ascend::kAlign));
  return offset;
}

// Addresses are offsets until at() knows where the whole lies.
void QuantumTables::lay_out() {
  bytes_ = 0;
  address_ = 0;
  reserve(sizeof(Descriptor));
  Descriptor& d = descriptor_;
  const size_t head = std::min(outputs_.size(), static_cast<size_t>(head_rows_));
  d.passes = static_cast<int32_t>(passes_.size());
  d.fresh_blocks = static_cast<int32_t>(fresh_.size());
  d.head_rows = static_cast<int32_t>(head);
  d.all_output = outputs_.size() == tokens_.size() ? 1 : 0;
  const auto tables = [this](const Rows& rows) {
    RowTables t{};
    t.rows = static_cast<int32_t>(rows.positions.size());
    t.prefill_segments = static_cast<int32_t>(rows.prefill.size());
    t.decode_segments = static_cast<int32_t>(rows.decode.size());
    t.positions = reserve(rows.positions.size() * sizeof(int32_t));
    t.kv_rows = reserve(rows.places.size() * sizeof(int32_t));
    t.segments = reserve((rows.prefill.size() + rows.decode.size()) * sizeof(AttentionSegment));
    return t;
  };
  d.rows = tables(all_);
  d.outputs = tables(kept_);
  d.tokens = reserve(bytes_of(tokens_).size());
  d.pass_table = reserve(bytes_of(passes_).size());
  d.block_table = reserve(bytes_of(block_table_).size());
  d.fresh = reserve(bytes_of(fresh_).size());
  d.output_rows = reserve(bytes_of(output_rows_).size());
  d.samples = reserve(bytes_of(samples_).size());
  results_ = reserve(outputs_.size() * sizeof(SampleResult));
  d.results = results_;
}

int QuantumTables::turns() const {
  const auto outputs = static_cast<int>(outputs_.size());
  return outputs == 0 ? 0 : (outputs + head_rows_ - 1) / head_rows_;
}

Descriptor QuantumTables::turn(int turn) const {
  Descriptor d = descriptor_;
  const int first = turn * head_rows_;
  d.head_begin = first;
  d.head_rows = std::min(head_rows_, static_cast<int>(outputs_.size()) - first);
  const auto here = std::span(outputs_).subspan(static_cast<size_t>(first),
                                                static_cast<size_t>(std::max(d.head_rows, 0)));
  d.samples_here =
      std::any_of(here.begin(), here.end(), [](const Output& o) { return o.on_device; });
  d.samples += static_cast<uint64_t>(first) * sizeof(SampleRow);
  d.results += static_cast<uint64_t>(first) * sizeof(SampleResult);
  if (turn > 0) d.layer_begin = d.layer_end;
  return d;
}

std::span<const std::byte> QuantumTables::at(uint64_t address) {
  Descriptor& d = descriptor_;
  const uint64_t move = address - address_;
  address_ = address;
  for (uint64_t* field :
       {&d.rows.positions, &d.rows.kv_rows, &d.rows.segments, &d.outputs.positions,
        &d.outputs.kv_rows, &d.outputs.segments, &d.tokens, &d.pass_table, &d.block_table, &d.fresh,
        &d.output_rows, &d.samples, &d.results}) {
    *field += move;
  }
  image_.assign(bytes_, std::byte{});
  const auto put = [&](uint64_t at, std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(image_.data() + (at - address), bytes.data(), bytes.size());
  };
  const Descriptor first = turn(0);
  std::memcpy(image_.data(), &first, sizeof first);
  const auto put_rows = [&](const RowTables& tables, const Rows& rows) {
    put(tables.positions, bytes_of(rows.positions));
    put(tables.kv_rows, bytes_of(rows.places));
    put(tables.segments, bytes_of(rows.segments()));
  };
  put_rows(d.rows, all_);
  put_rows(d.outputs, kept_);
  put(d.tokens, bytes_of(tokens_));
  put(d.pass_table, bytes_of(passes_));
  put(d.block_table, bytes_of(block_table_));
  put(d.fresh, bytes_of(fresh_));
  put(d.output_rows, bytes_of(output_rows_));
  put(d.samples, bytes_of(samples_));
  return image_;
}

int64_t QuantumTables::partial_bytes(int heads, int head_dim) const {
  const auto of = [&](const std::vector<AttentionSegment>& segments) {
    return weft_ascend::AttentionPartialBytes(
        segments.data(), static_cast<int32_t>(segments.size()), heads, head_dim);
  };
  return std::max(of(all_.decode), of(kept_.decode));
}

}  // namespace weft
