// Qwen3's mixture of experts (Yang et al. 2025): Qwen3's layer with experts instead of one
// feed-forward network.

#include "model/architecture.h"

namespace weft {

std::vector<Op> qwen3moe_layer(LayerBuilder& layer) {
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
      // h += sum over the row's experts of p_e W_down_e (silu(W_gate_e norm(h)) * W_up_e norm(h))
      layer.rms_norm("ffn_norm"),
      layer.router("ffn_gate_inp"),
      layer.experts("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
  };
}

}  // namespace weft
