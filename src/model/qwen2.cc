// Qwen2 and Qwen2.5 (Yang et al. 2024): Llama's layer with biases on Q, K and V.

#include "model/architecture.h"

namespace weft {

std::vector<Op> qwen2_layer(LayerBuilder& layer) {
  const int q = layer.query_width();
  const int kv = layer.kv_width();
  const Bias bias = Bias::kRequired;
  return {
      // h += W_o attention(rope(W_q norm(h) + b_q), rope(W_k norm(h) + b_k), W_v norm(h) + b_v)
      layer.rms_norm("attn_norm"),
      layer.qkv({{"attn_q", q, bias}, {"attn_k", kv, bias}, {"attn_v", kv, bias}}),
      layer.rope(),
      layer.store_kv(),
      layer.attention(),
      layer.attention_output("attn_output", Bias::kNone),
      // h += W_down (silu(W_gate norm(h)) * W_up norm(h))
      layer.rms_norm("ffn_norm"),
      layer.gate_up("ffn_gate", "ffn_up", Bias::kNone),
      layer.swiglu(),
      layer.ffn_output("ffn_down", Bias::kNone),
  };
}

}  // namespace weft
