#include "device/cpu/plan.h"

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/gguf_writer.h"
#include "device/cpu/thread_pool.h"

namespace weft {
namespace {

struct Dimensions {
  int layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
};

// A file of that shape whose weights are zero.
std::vector<std::byte> file_of(const Dimensions& s) {
  GgufWriter writer;
  writer.add("general.architecture", std::string("llama"));
  const auto set = [&](const char* key, int value) {
    writer.add(std::string("llama.") + key, int64_t{value});
  };
  set("block_count", s.layers);
  set("context_length", 2048);
  set("embedding_length", s.hidden);
  set("feed_forward_length", s.ffn);
  set("attention.head_count", s.heads);
  set("attention.head_count_kv", s.kv_heads);
  writer.add("llama.attention.layer_norm_rms_epsilon", 1e-6);
  const auto matrix = [&](const std::string& name, int outputs, int inputs) {
    writer.add_tensor(name, DType::kQ4_0, {outputs, inputs}, [](std::span<std::byte>) {});
  };
  const auto vector = [&](const std::string& name) {
    writer.add_tensor(name, DType::kF32, {s.hidden}, [](std::span<std::byte>) {});
  };
  matrix("token_embd.weight", s.vocab, s.hidden);
  vector("output_norm.weight");
  for (int layer = 0; layer < s.layers; ++layer) {
    const std::string at = "blk." + std::to_string(layer) + ".";
    vector(at + "attn_norm.weight");
    vector(at + "ffn_norm.weight");
    matrix(at + "attn_q.weight", s.heads * s.head_dim, s.hidden);
    matrix(at + "attn_k.weight", s.kv_heads * s.head_dim, s.hidden);
    matrix(at + "attn_v.weight", s.kv_heads * s.head_dim, s.hidden);
    matrix(at + "attn_output.weight", s.hidden, s.heads * s.head_dim);
    matrix(at + "ffn_gate.weight", s.ffn, s.hidden);
    matrix(at + "ffn_up.weight", s.ffn, s.hidden);
    matrix(at + "ffn_down.weight", s.hidden, s.ffn);
  }
  return writer.to_bytes();
}

int64_t of_one_row(const MultiplyStep& step) {
  int64_t products = 0;
  for (int i = 0; i < step.product_count; ++i) {
    const PackedMatrix& matrix = step.products[static_cast<size_t>(i)].matrix;
    products += matrix.outputs * matrix.inputs;
  }
  return products;
}

// Multiply-adds of a prompt of `rows` rows of which the last `outputs` are left where a step says
// that only those are.
int64_t multiply_adds(const std::vector<Step>& steps, const Dimensions& s, int64_t rows,
                      int64_t outputs) {
  int64_t total = 0;
  int64_t left = rows;
  for (const Step& step : steps) {
    if (const auto* multiply = std::get_if<MultiplyStep>(&step)) {
      total += left * of_one_row(*multiply);
    } else if (std::holds_alternative<KeepOutputsStep>(step)) {
      left = outputs;
    } else if (std::holds_alternative<AttentionStep>(step)) {
      const int64_t keys = rows * (rows + 1) / 2 - (rows - left) * (rows - left + 1) / 2;
      total += keys * s.heads * s.head_dim * 2;  // scores, then values
    }
  }
  return total;
}

TEST(Plan, TheLastLayerComputesLittleOfRowsThatDoNotReachTheHead) {
  const Dimensions smollm2_135m = {30, 576, 9, 3, 64, 1536, 64};
  const Dimensions& s = smollm2_135m;
  const std::vector<std::byte> file = file_of(s);
  const auto checkpoint = Checkpoint::parse(file, "test");
  ASSERT_TRUE(checkpoint.ok());
  const auto model = build_model(*checkpoint);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const KernelTable& kernels = **find_kernels("auto");
  const auto pool = ThreadPool::create(1);
  const auto weights = PackedWeights::pack(*model, *checkpoint, kernels, **pool, {});
  ASSERT_TRUE(weights.ok());
  const Plan plan = make_plan(*model, *weights, kernels);

  constexpr int64_t kRows = 1000;
  int64_t full = 0;
  for (const std::vector<Step>& layer : plan.layers) {
    full += multiply_adds(layer, s, kRows, kRows);
  }
  const int64_t one_layer = multiply_adds(plan.layers.back(), s, kRows, kRows);
  EXPECT_EQ(full, s.layers * one_layer);
  const int64_t projections = 2 * s.heads * s.head_dim + 2 * s.kv_heads * s.head_dim + 3 * s.ffn;
  EXPECT_EQ(one_layer,
            kRows * s.hidden * projections + kRows * (kRows + 1) / 2 * s.heads * s.head_dim * 2);

  const int64_t last = multiply_adds(plan.last_layer_outputs, s, kRows, 1);
  const int64_t keys_and_values = kRows * s.hidden * 2 * s.kv_heads * s.head_dim;
  const int64_t one_row =
      s.hidden * (2 * s.heads * s.head_dim + 3 * s.ffn) + kRows * s.heads * s.head_dim * 2;
  EXPECT_EQ(last, keys_and_values + one_row);
  const double saved = static_cast<double>(one_layer - last) / static_cast<double>(full);
  EXPECT_GE(saved, 0.03);
  RecordProperty("saved", std::to_string(saved));
}

}  // namespace
}  // namespace weft
