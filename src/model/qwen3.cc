// Qwen3 (Yang et al. 2025): Llama's layer with a norm on each query and key head.

#include "model/architecture.h"

namespace weft {

std::vector<Op> qwen3_layer(LayerBuilder& layer) {
  const int q = layer.query_width();
  const int kv = layer.kv_width();
  return {
      // h += W_o attention(rope(norm(W_q norm(h))), rope(norm(W_k norm(h))), W_v norm(h))
      layer.rms_norm("attn_norm"),
      layer.qkv({{"attn_q", q}, {"attn_k", kv}, {"attn_v", kv}}),
      layer.head_norm("attn_q_norm", "attn_k_norm"),
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
